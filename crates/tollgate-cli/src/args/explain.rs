//! The arguments of `explain`.

use clap::Args;

use super::strategy::strategies;

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// A limit, such as `10/s`; several as arguments or joined by `,`
    #[arg(required = true, value_name = "LIMIT")]
    pub(crate) limits: Vec<String>,

    /// The strategy of limits without `via`
    #[arg(long, value_name = "NAME", value_parser = strategies())]
    pub(crate) strategy: Option<String>,

    /// Also what a node admits while the store is away, by this share: `25 %`, `1/4`
    #[arg(long, value_name = "SHARE")]
    pub(crate) local: Option<String>,

    /// The number of nodes that do so; without `--local` each has an equal share. Also for the
    /// bound of a lease, which is that of one node without it
    #[arg(long, value_name = "NUMBER")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) nodes: Option<u32>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

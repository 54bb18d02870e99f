//! The arguments of `health`.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Health {
    /// Where it listens: `HOST:PORT` or `unix:/PATH`. Where clients come with TLS, name the address
    /// of administrators
    #[arg(value_name = "ADDR", default_value = "127.0.0.1:8700")]
    pub(crate) address: String,

    /// Ask whether requests should come to it, which is no while it ends
    #[arg(long)]
    pub(crate) ready: bool,

    /// Ask besides whether its store can count
    #[arg(long)]
    pub(crate) store: bool,

    /// The longest time to wait
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub(crate) timeout: String,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

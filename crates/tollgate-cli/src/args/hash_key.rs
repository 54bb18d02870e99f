//! The arguments of `hash-key`.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct HashKey {
    /// The key, in place of the lines of the standard input
    pub(crate) key: Option<String>,

    /// Print one JSON object for each key
    #[arg(long)]
    pub(crate) json: bool,
}

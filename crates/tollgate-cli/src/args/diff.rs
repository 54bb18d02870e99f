//! The arguments of `diff`.

use std::path::PathBuf;

use clap::Args;

use super::replay::{FieldArgs, LogArgs};

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The current limits: a policy file, or limits that count by `--by`, such as `5/10s`
    #[arg(value_name = "OLD", allow_hyphen_values = true)]
    pub(crate) old: String,

    /// The limits that would replace them
    #[arg(value_name = "NEW", allow_hyphen_values = true)]
    pub(crate) new: String,

    /// An access log, plain or packed; several are read as one; `-` is standard input
    #[arg(long = "log", value_name = "LOG", required = true)]
    pub(crate) logs: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) log: LogArgs,

    #[command(flatten)]
    pub(crate) fields: FieldArgs,

    /// Write every changed request: line, time, client, admitted by NEW, policy
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

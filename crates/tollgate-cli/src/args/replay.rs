//! The arguments of `replay`.

use std::path::PathBuf;

use clap::Args;

use super::strategy::strategies_or_all;

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// An access log, plain or gzip; several are read as one; `-` is standard input
    #[arg(value_name = "LOG", required = true)]
    pub(crate) logs: Vec<PathBuf>,

    /// A limit of each client, as `5/10s`; repeat it, or join several by `,`
    #[arg(long, short, value_name = "LIMIT", allow_hyphen_values = true)]
    pub(crate) limit: Vec<String>,

    /// The strategy of limits without `via`; `all` tries each in turn
    #[arg(long, value_name = "NAME", value_parser = strategies_or_all())]
    pub(crate) strategy: Option<String>,

    /// The field to count by: `ip`, `path`, `user`, or the name of a field of the log
    #[arg(long, value_name = "FIELD", default_value = "ip")]
    pub(crate) by: String,

    /// Move events with timestamps of whole seconds to random times within their second; the same
    /// seed gives the same times
    #[arg(long, value_name = "SEED")]
    pub(crate) spread: Option<u64>,

    /// Where to count: `memory://`, or a Redis as `redis://HOST:PORT`. On Redis the replay has its
    /// own keys, and removes them at its end
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// Write a report with pictures: one self-contained HTML file. Its decisions are made in memory
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

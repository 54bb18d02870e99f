//! The arguments of `advise`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::replay::LogArgs;
use super::strategy::strategies;

#[derive(Debug, Args)]
pub(crate) struct Advise {
    /// An access log, plain or packed; several are read as one; `-` is standard input
    #[arg(value_name = "LOG", required = true)]
    pub(crate) logs: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) log: LogArgs,

    /// The unit of the costs: the advised limits are `of` it [default: requests]
    #[arg(long, value_name = "NAME", requires = "cost")]
    pub(crate) unit: Option<String>,

    /// The share of clients that may ever be denied, such as `0.1%` [default: 0.1%]
    #[arg(long, value_name = "SHARE", conflicts_with = "deny_requests")]
    pub(crate) deny_clients: Option<String>,

    /// The share of requests that may be denied, such as `1%`. Limits are tried by replaying them
    #[arg(long, value_name = "SHARE")]
    pub(crate) deny_requests: Option<String>,

    /// The longest wait of a denied client: a rate with a burst is recommended that keeps to it
    /// [default: 10s]
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["per", "deny_requests", "cost"])]
    pub(crate) max_wait: Option<String>,

    /// Recommend a limit of one of these windows instead [default: 1s,1m,1h]
    #[arg(long, value_name = "WINDOW,...", value_delimiter = ',')]
    pub(crate) per: Vec<String>,

    /// How many limits to recommend together: 2 adds a window that bounds the long run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=2))]
    #[arg(default_value_t = 1, conflicts_with_all = ["per", "deny_requests", "cost", "each"])]
    pub(crate) limits: u8,

    /// The strategy to recommend [default: token_bucket; of a window the one that lets least
    /// through at its worst]
    #[arg(long, value_name = "NAME", value_parser = strategies())]
    pub(crate) strategy: Option<String>,

    /// Robots, scanners and clients that are much busier than others: named apart, or kept among
    /// the others
    #[arg(long, value_enum, default_value = "apart")]
    pub(crate) outliers: Outliers,

    /// The most clients to look at, about 700 bytes each. Of more, a sample is looked at
    #[arg(long, value_name = "N", default_value_t = MAX_CLIENTS)]
    pub(crate) max_clients: NonZeroUsize,

    /// Recommend a limit for each value of a field, such as each `path`; of paths those that differ
    /// in numbers or identifiers alone are one endpoint
    #[arg(long, value_name = "FIELD")]
    #[arg(conflicts_with_all = ["per", "deny_requests", "cost", "csv", "report", "check"])]
    pub(crate) each: Option<String>,

    /// Add the recommended policy in shadow, where it denies nobody, to a policy file
    #[arg(long, value_name = "FILE", conflicts_with = "policy")]
    pub(crate) apply: Option<PathBuf>,

    /// Judge the limit that --apply wrote to this file by a newer log; exits with 1 if it denies
    /// more than it may
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["per", "deny_requests", "cost", "apply"])]
    pub(crate) check: Option<PathBuf>,

    /// Write a policy file with the recommended limit
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,

    /// Write every client with its busiest windows and its least limits
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,

    /// Write a report with the curves: one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// The most clients of an advice.
const MAX_CLIENTS: NonZeroUsize = match NonZeroUsize::new(tollgate_logs::advise::MAX_CLIENTS) {
    Some(max) => max,
    None => NonZeroUsize::MIN,
};

/// The treatment of outliers: robots, scanners and much busier clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Outliers {
    /// In no percentile and no share
    Apart,
    /// As all others
    Keep,
}

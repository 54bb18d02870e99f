//! The arguments of `replay`, and those of all commands that read a log.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use tollgate_logs::Format;

use super::strategy::strategies_or_all;

fn formats() -> PossibleValuesParser {
    PossibleValuesParser::new(Format::ALL.map(Format::name))
}

/// How a log is read.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// The field to count by: `ip`, `path`, `user`, or the name of a field of the log; several
    /// together as `ip,path`; `all` for one count of all requests
    #[arg(long, value_name = "FIELD", default_value = "ip")]
    pub(crate) by: String,

    /// The format of all lines [default: found line by line]
    #[arg(long, value_name = "NAME", value_parser = formats())]
    pub(crate) format: Option<String>,

    /// The field with the time [default: the first of those that `tollgate help logs` lists]
    #[arg(long, value_name = "FIELD")]
    pub(crate) time_field: Option<String>,

    /// The field with the client's address, or with a list as in `X-Forwarded-For` [default: the
    /// first of those that `tollgate help logs` lists]
    #[arg(long, value_name = "FIELD")]
    pub(crate) client_field: Option<String>,

    /// The field with the cost of each request; one without a whole number there costs 1. It is of
    /// the unit that the limits name, such as `100000/m of tokens`, else requests
    #[arg(long, value_name = "FIELD")]
    pub(crate) cost: Option<String>,

    /// Move events with timestamps of whole seconds to random times within their second; the same
    /// seed gives the same times
    #[arg(long, value_name = "SEED")]
    pub(crate) spread: Option<u64>,
}

/// How the requests of a log become the fields of policies.
#[derive(Debug, Args)]
pub(crate) struct FieldArgs {
    /// Take a field of the policies from a field of the log, such as `route=path`; `user=` marks it
    /// as absent
    #[arg(long, value_name = "FIELD=LOGFIELD")]
    pub(crate) field: Vec<String>,

    /// The most combinations of the values that the policies read; more are an error
    #[arg(long, value_name = "N", default_value_t = tollgate_logs::policy::MAX_COMBINATIONS)]
    pub(crate) max_clients: NonZeroUsize,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// An access log, plain or packed; several are read as one; `-` is standard input
    #[arg(value_name = "LOG", required = true)]
    pub(crate) logs: Vec<PathBuf>,

    /// A limit of each client, such as `5/10s`; repeat it, or join several by `,`
    #[arg(long, short, value_name = "LIMIT", allow_hyphen_values = true)]
    pub(crate) limit: Vec<String>,

    /// The strategy of limits without `via`; `all` tries each in turn
    #[arg(long, value_name = "NAME", value_parser = strategies_or_all())]
    pub(crate) strategy: Option<String>,

    /// Replay a policy file in place of limits
    #[arg(long, value_name = "FILE", conflicts_with_all = ["limit", "strategy", "store", "report"])]
    pub(crate) policy: Option<PathBuf>,

    /// Write the decision on each request, with `--policy`: line, time, client, admitted, policy
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) log: LogArgs,

    #[command(flatten)]
    pub(crate) fields: FieldArgs,

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

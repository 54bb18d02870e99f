//! The arguments of `scripts`.

use clap::{Args, ValueEnum};

use super::ProducerArgs;
use super::strategy::strategies;

#[derive(Debug, Args)]
pub(crate) struct Scripts {
    /// A limit, such as `10/s`; several as arguments or joined by `,` are one set
    #[arg(value_name = "LIMIT", required_unless_present_any = ["on", "queue"])]
    pub(crate) limits: Vec<String>,

    /// Print the call that offers a job to this queue instead; the queue must be a stream
    #[arg(long, value_name = "NAME", requires = "bound")]
    #[arg(conflicts_with_all = ["limits", "on", "subject", "literal", "strategy", "shard"])]
    #[arg(conflicts_with_all = ["cost", "peek", "partial", "answer", "arguments"])]
    pub(crate) queue: Option<String>,

    #[command(flatten)]
    pub(crate) producer: ProducerArgs,

    /// The subject of the printed calls; the same script works for any other
    #[arg(long, value_name = "SUBJECT", default_value = "user:42")]
    pub(crate) subject: String,

    /// A subject with its own limits; split at the last `=`; repeat it for several subjects in one
    /// call
    #[arg(long, value_name = "SUBJECT=LIMIT", allow_hyphen_values = true)]
    pub(crate) on: Vec<String>,

    /// Take subjects literally: a comma or `%` is part of the value. For input from users
    #[arg(long)]
    pub(crate) literal: bool,

    /// The strategy of limits without `via`
    #[arg(long, value_name = "NAME", value_parser = strategies())]
    pub(crate) strategy: Option<String>,

    /// The value that all subjects of one call share on a cluster, where their keys must be on one
    /// node. It is part of the keys
    #[arg(long, value_name = "VALUE")]
    pub(crate) shard: Option<String>,

    /// The store whose keys and address to print: its `?prefix=` is part of keys. Nothing is
    /// connected to
    #[arg(long, value_name = "URL", env = "TOLLGATE_STORE", hide_env_values = true)]
    pub(crate) store: Option<String>,

    /// Print lines for this host, a name or an address; without it for that of the store
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,

    /// Print lines for this port; without it for that of the store
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,

    /// Take the numbers of the limits from each call, so that one script serves all limits of these
    /// strategies
    ///
    /// WORDS are the arguments of the call in their order: `n` units of a limit, `burst`, `s`, `ms`
    /// or `us` its time (one for all limits, or one for each), `cost`, `nonce`, `json` for the
    /// limits as `[[1,10],[3600,240,60]]`, `_` for a word that is not read. Without WORDS: `n ms`
    /// for each limit, and `cost`
    #[arg(long, value_name = "WORDS", num_args = 0..=1, default_missing_value = "")]
    pub(crate) arguments: Option<String>,

    /// The cost of the request, in units
    #[arg(long, short, value_name = "N", default_value = "1", allow_hyphen_values = true)]
    pub(crate) cost: String,

    /// Check without charging
    #[arg(long)]
    pub(crate) peek: bool,

    /// Charge as much as remains when that is less than the cost
    #[arg(long)]
    pub(crate) partial: bool,

    /// The answer: the remaining units and the wait for each limit; 1 and 0; or words, such as
    /// `CONSUMER OVERLIMIT: 3`
    #[arg(long, value_enum, value_name = "FORM", default_value_t = Reply::Verbose)]
    pub(crate) answer: Reply,

    /// The output: lines for a shell, the call alone, the script alone, or one JSON object with all
    /// of it
    #[arg(long, value_enum, value_name = "FORM", default_value_t = ScriptFormat::RedisCli)]
    pub(crate) format: ScriptFormat,
}

/// The reply of a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Reply {
    Verbose,
    Boolean,
    Words,
}

/// How a script is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ScriptFormat {
    RedisCli,
    Call,
    Lua,
    Json,
}

//! The counts that a command is about: subjects with their limits, and the store.

use clap::Args;

use super::strategy::strategies;

/// A subject and its limits.
#[derive(Clone, Debug, Args)]
pub(crate) struct SubjectArgs {
    /// The subject: `dim:value`, several joined by `,`, with `%XX` escapes; without a colon the
    /// dimension is `key`
    pub(crate) subject: Option<String>,

    /// A limit of SUBJECT, such as `10/s`; repeat it, or join several by `,`
    #[arg(long, short, value_name = "LIMIT", allow_hyphen_values = true)]
    pub(crate) limit: Vec<String>,

    /// A subject with its own limits; split at the last `=`; repeat it for several subjects
    #[arg(long, value_name = "SUBJECT=LIMIT", allow_hyphen_values = true)]
    pub(crate) on: Vec<String>,

    /// Take subjects literally: a comma or `%` is part of the value. For input from users
    #[arg(long)]
    pub(crate) literal: bool,

    /// The strategy of limits without `via`
    #[arg(long, value_name = "NAME", value_parser = strategies())]
    pub(crate) strategy: Option<String>,

    /// The value that all subjects of one check share on a cluster, where it selects the node that
    /// counts. On Redis it is part of the keys, so counts with it and without it are separate. On
    /// other stores it has no effect
    #[arg(long, value_name = "VALUE")]
    pub(crate) shard: Option<String>,
}

/// Where counts live.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// The store of the counts: `sqlite://PATH`, with `?sync=full` so that a power loss loses no
    /// charge; or `redis://[USER:PASSWORD@]HOST:PORT`, `rediss://` for TLS, `unix:///PATH`, with
    /// `?deadline=5s` [default: a file in your state folder]
    #[arg(long, value_name = "URL", env = "TOLLGATE_STORE", hide_env_values = true)]
    pub(crate) store: Option<String>,
}

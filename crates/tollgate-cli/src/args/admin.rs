//! The arguments of `admin`.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct Admin {
    #[command(subcommand)]
    pub(crate) act: AdminAction,

    /// Where administrators are answered: `HOST:PORT` or `unix:/PATH`, the service's `--admin`
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8701", global = true)]
    pub(crate) at: String,

    /// The longest time to wait
    #[arg(long, value_name = "DURATION", default_value = "5s", global = true)]
    pub(crate) timeout: String,

    /// Print the service's answer as it is: one JSON object
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AdminAction {
    /// Show what is held for a subject
    #[command(after_help = "Example: tollgate admin inspect ip:192.0.2.7 --policy login")]
    Inspect(AdminCount),
    /// Forget what is held for a subject
    #[command(after_help = "Example: tollgate admin reset ip:192.0.2.7 --policy login")]
    Reset(AdminCount),
    /// Give units back, or take them
    #[command(after_help = "Example: tollgate admin adjust user:42 --limit 3/10s --by 1")]
    Adjust {
        #[command(flatten)]
        counted: AdminCount,

        /// How many units to give back; negative takes them
        #[arg(long, value_name = "N", allow_hyphen_values = true)]
        by: i64,
    },
    /// Deny requests of some clients, for a time
    #[command(after_help = "Example: tollgate admin ban ip=203.0.113.0/24 --for 1h")]
    Ban(RulingArgs),
    /// Free requests of some clients of their limits, for a time
    #[command(after_help = "Example: tollgate admin exempt user=ann --policy login --for 1d")]
    Exempt(RulingArgs),
    /// Take a ban or an exemption back
    #[command(after_help = "Example: tollgate admin lift ip=203.0.113.0/24")]
    Lift(RulingTarget),
    /// Show the bans and exemptions that hold
    #[command(after_help = "Example: tollgate admin rulings")]
    Rulings,
    /// Read the policies again
    #[command(after_help = "Example: tollgate admin reload")]
    Reload,
    /// Look back: what was let through and denied under each limit
    #[command(after_help = "Example: tollgate admin series --last 10m")]
    Series {
        /// How far back
        #[arg(long, value_name = "DURATION", default_value = "10m")]
        last: String,
    },
}

/// Whose count.
#[derive(Debug, Args)]
pub(crate) struct AdminCount {
    /// Whose count, as `user:42`
    pub(crate) subject: String,

    /// The policy that keeps it
    #[arg(long, value_name = "NAME", required_unless_present = "limit")]
    pub(crate) policy: Option<String>,

    /// The limits that it is kept under, where they are inline or a policy has several
    #[arg(long, value_name = "LIMIT")]
    pub(crate) limit: Option<String>,
}

/// A ruling.
#[derive(Debug, Args)]
pub(crate) struct RulingArgs {
    #[command(flatten)]
    pub(crate) about: RulingTarget,

    /// For how long
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) lasts: String,

    /// Why: shown with the ruling, and to no client
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

/// Which requests.
#[derive(Debug, Args)]
pub(crate) struct RulingTarget {
    /// What must hold, as in `when` of a policy: `ip=203.0.113.0/24`, `user=ann`. Of several on one
    /// field any may hold, of several fields each must
    #[arg(value_name = "FIELD=VALUE", required = true)]
    pub(crate) when: Vec<String>,

    /// The policy that it is about, in place of all of them
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
}

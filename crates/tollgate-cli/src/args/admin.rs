//! The arguments of `admin`.

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct Admin {
    #[command(subcommand)]
    pub(crate) act: AdminAction,

    #[command(flatten)]
    pub(crate) service: AdminService,

    /// Print the service's answer unchanged: one JSON object
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// The figures of a running service, again and again.
#[derive(Debug, Args)]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) service: AdminService,

    /// How often the figures are shown
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub(crate) every: String,

    /// Show the figures once, and end
    #[arg(long)]
    pub(crate) once: bool,

    /// Print the service's answer once and unchanged: one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which service.
#[derive(Debug, Args)]
pub(crate) struct AdminService {
    /// The service, by the address that `serve` prints after `admin`: `HOST:PORT`, a URL, or
    /// `unix:/PATH`
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8701", global = true)]
    pub(crate) at: String,

    /// The longest time to wait
    #[arg(long, value_name = "DURATION", default_value = "5s", global = true)]
    pub(crate) timeout: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AdminAction {
    /// Show the stored count of a subject
    #[command(after_help = "Example: tollgate admin inspect ip:192.0.2.7 --policy login")]
    Inspect(AdminCount),
    /// Show what a request of one unit would be answered now, without a charge
    #[command(after_help = "Example: tollgate admin peek ip:192.0.2.7 --policy login")]
    Peek(AdminCount),
    /// Show the key behind a hash, as `top` and the log of denials write it
    ///
    /// The service knows the subjects of the last one to two minutes. It logs who asked.
    #[command(after_help = "Example: tollgate admin lookup 5d1f0c6a92e7b384")]
    Lookup {
        /// The 16 digits
        hash: String,
    },
    /// Show which policies apply to a request, and why
    #[command(after_help = "Example: tollgate admin explain ip=192.0.2.7 method=POST path=/login")]
    Explain {
        /// A field of the request
        #[arg(value_name = "FIELD=VALUE", required = true)]
        fields: Vec<String>,
    },
    /// Show the last reloads of the policies, each with its changes
    #[command(after_help = "Example: tollgate admin reloads")]
    Reloads,
    /// Reset the count of a subject
    #[command(after_help = "Example: tollgate admin reset ip:192.0.2.7 --policy login")]
    Reset(AdminCount),
    /// Give units back to a subject, or take them
    #[command(after_help = "Example: tollgate admin adjust user:42 --limit 3/10s --by 1")]
    Adjust {
        #[command(flatten)]
        counted: AdminCount,

        /// How many units to give back, or `UNIT=N,...`; a negative number takes units
        #[arg(long, value_name = "N", allow_hyphen_values = true)]
        by: String,
    },
    /// Give units to a subject, once
    ///
    /// They stand behind the limits until their end: a request takes them where the limits have no
    /// more left. `admin inspect` shows what is left, and `admin release` takes it back.
    #[command(after_help = "Example: tollgate admin credit user:42 --policy models --units 10000 \
                            --for 30d")]
    Credit {
        #[command(flatten)]
        counted: AdminCount,

        #[command(flatten)]
        credit: CreditArgs,
    },
    /// Give back what an open hold or a credit keeps
    ///
    /// `admin inspect` shows the open holds of a count. The work that a hold admitted is not
    /// stopped: one more may be at work then.
    #[command(after_help = "Example: tollgate admin release \"$hold\"")]
    Release {
        /// The hold, as `admin inspect` shows it
        // One in 64 begins with a hyphen.
        #[arg(allow_hyphen_values = true)]
        hold: String,
    },
    /// Deny requests of some clients, for a time
    #[command(after_help = "Example: tollgate admin ban ip=203.0.113.0/24 --for 1h")]
    Ban(RulingArgs),
    /// Exempt requests of some clients from their limits, for a time
    #[command(after_help = "Example: tollgate admin exempt user=ann --policy login --for 1d")]
    Exempt(RulingArgs),
    /// Set limits of a policy for some clients, for a time: higher, lower, or none
    ///
    /// Their counts go on: a limit keeps its strategy, its period and its unit. All limits of the
    /// command are set, or none is.
    #[command(after_help = "Example: tollgate admin set user=ann --policy api --limit minute=9/m \
                            --for 30d")]
    #[command(mut_arg("policy", |policy| policy.required(true).help("The policy of the limits")))]
    Set {
        #[command(flatten)]
        ruled: RulingArgs,

        /// A limit of the policy by its name or, without one, by its identity, such as
        /// `sliding_log/1m`; and the limit in its place, or `unlimited`
        #[arg(long = "limit", value_name = "NAME=LIMIT", required = true)]
        limits: Vec<String>,
    },
    /// Lift a ban, an exemption, or set limits
    #[command(after_help = "Example: tollgate admin lift ip=203.0.113.0/24")]
    Lift(RulingTarget),
    /// Show the bans, exemptions and set limits in force
    #[command(after_help = "Example: tollgate admin rulings")]
    Rulings,
    /// Read the policies again
    #[command(after_help = "Example: tollgate admin reload")]
    Reload,
    /// Show what each limit admitted and denied in the recent past
    #[command(after_help = "Example: tollgate admin series --last 10m")]
    Series {
        /// How far to look back
        #[arg(long, value_name = "DURATION", default_value = "10m")]
        last: String,
    },
    /// Show the subjects that asked most, or that were denied most, in the last one to two minutes
    ///
    /// A subject is that of the limit that decided, written as in the log of denials. `at least`
    /// precedes a count that may be higher, by the `error` of --json at most.
    #[command(after_help = "Example: tollgate admin top --by denied -n 20")]
    Top {
        /// The events to count
        #[arg(long, value_name = "COUNT", default_value = "asked")]
        by: TopBy,

        /// How many subjects to show: 1 to 100
        #[arg(short, value_name = "N", default_value = "10")]
        #[arg(value_parser = clap::value_parser!(u8).range(1..=100))]
        n: u8,
    },
}

/// By what subjects are ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum TopBy {
    /// Decided requests
    Asked,
    /// Denied requests
    Denied,
}

/// A subject.
#[derive(Debug, Args)]
pub(crate) struct AdminCount {
    /// The subject, such as `user:42`
    pub(crate) subject: String,

    /// The policy that counts the subject
    #[arg(long, value_name = "NAME", required_unless_present = "limit")]
    pub(crate) policy: Option<String>,

    /// The limits of the count, if they are inline or the policy has several
    #[arg(long, value_name = "LIMIT")]
    pub(crate) limit: Option<String>,
}

/// A credit.
#[derive(Debug, Args)]
pub(crate) struct CreditArgs {
    /// How many units to give, or `UNIT=N,...`
    #[arg(long, value_name = "N")]
    pub(crate) units: String,

    /// How long the credit lasts, at most 366 days
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) lasts: String,

    /// An id of your own, of 16 to 256 characters: until its end the credit is given once under it,
    /// however often the command runs. Without one, each run gives another credit
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
}

/// A ruling.
#[derive(Debug, Args)]
pub(crate) struct RulingArgs {
    #[command(flatten)]
    pub(crate) about: RulingTarget,

    /// How long it lasts
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) lasts: String,

    /// The reason: shown with the ruling, and not to clients
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

/// Which requests.
#[derive(Debug, Args)]
pub(crate) struct RulingTarget {
    /// A condition, as in `when` of a policy: `ip=203.0.113.0/24`, `user=ann`. Of several
    /// conditions on one field, one must be true; on several fields, one for each
    #[arg(value_name = "FIELD=VALUE", required = true)]
    pub(crate) when: Vec<String>,

    /// The policy to which it applies [default: all policies]
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
}

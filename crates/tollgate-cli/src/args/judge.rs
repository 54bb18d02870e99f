//! The arguments of `judge`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

use super::replay::LogArgs;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("driver").required(true))]
#[command(override_usage = "tollgate judge [OPTIONS] -l LIMIT \\
        <--command|--http|--grpc|--resp|--redis> WHERE")]
pub(crate) struct Judge {
    /// A limit that counts for each subject, such as "10/s via gcra"; repeat it for several. With
    /// `via` the strategy's definition is what the answers are held to
    #[arg(long = "limit", short, value_name = "LIMIT", required = true)]
    pub(crate) limits: Vec<String>,

    /// Ask a program that answers JSON lines on its standard output; words in quotes stay together
    #[arg(long, value_name = "PROGRAM", group = "driver", help_heading = "Drivers")]
    pub(crate) command: Option<String>,

    /// Ask over HTTP: the URL of one check, where {subject}, {cost} and {id} are filled in; also
    /// https://
    #[arg(long, value_name = "URL", group = "driver", help_heading = "Drivers")]
    pub(crate) http: Option<String>,

    /// Ask Envoy's rate limit service over gRPC; --ask has the domain and a descriptor
    #[arg(long, value_name = "HOST:PORT", group = "driver", help_heading = "Drivers")]
    pub(crate) grpc: Option<String>,

    /// Ask over the Redis protocol: HOST:PORT, or a URL with a password or TLS, such as
    /// rediss://USER:PASSWORD@HOST:PORT; --ask has the command
    #[arg(long, value_name = "SERVER", group = "driver", help_heading = "Drivers")]
    pub(crate) resp: Option<String>,

    /// Ask a script on a Redis by EVALSHA: HOST:PORT or a URL; --script and --ask have the script
    /// and its arguments
    #[arg(long, value_name = "SERVER", group = "driver", help_heading = "Drivers")]
    #[arg(requires = "script")]
    pub(crate) redis: Option<String>,

    /// The Lua script of --redis
    #[arg(long, value_name = "FILE", requires = "redis", help_heading = "Drivers")]
    pub(crate) script: Option<PathBuf>,

    /// The command of --resp, such as "CL.THROTTLE {subject} 9 10 1 {cost}"; the number of keys,
    /// keys and arguments of --script, such as "1 {subject} 10 {cost}"; the domain and the entries
    /// of --grpc, such as "shop user={subject} hits_addend={cost}"
    #[arg(long, value_name = "WORDS", conflicts_with_all = ["http", "command"])]
    #[arg(help_heading = "Drivers")]
    pub(crate) ask: Option<String>,

    /// Ask for no cost below 1: such as where a negative one is a documented way to give units back
    #[arg(long, conflicts_with = "command", help_heading = "Drivers")]
    pub(crate) positive_costs: bool,

    /// The method of --http [default: GET, or POST with a body]
    #[arg(long, value_name = "METHOD", requires = "http", help_heading = "Drivers")]
    pub(crate) method: Option<String>,

    /// A header of --http, such as "x-api-key: {subject}"; repeat it for several
    #[arg(long, value_name = "NAME: VALUE", requires = "http", help_heading = "Drivers")]
    pub(crate) header: Vec<String>,

    /// The body of --http, where {subject}, {cost} and {id} are filled in as JSON needs it
    #[arg(long, value_name = "TEXT", requires = "http", help_heading = "Drivers")]
    pub(crate) body: Option<String>,

    /// Where a reply says that it is allowed: `status:200`, `item:0=0`, `field:allowed=1`,
    /// `json:/allowed=true` [default: a status below 400, where 429 is a denial; for CL.THROTTLE
    /// and TOLLGATE.CHECK where these have it]
    #[arg(long, value_name = "WHERE=VALUE", conflicts_with = "command")]
    #[arg(help_heading = "Replies")]
    pub(crate) allowed: Option<String>,

    /// Where a reply has the remaining units: `header:NAME`, `json:/remaining`, `item:2`,
    /// `field:NAME` [default: RateLimit headers]
    #[arg(long, value_name = "WHERE", conflicts_with = "command", help_heading = "Replies")]
    pub(crate) remaining: Option<String>,

    /// Where a denial has its wait [default: the header Retry-After]
    #[arg(long, value_name = "WHERE", conflicts_with = "command", help_heading = "Replies")]
    pub(crate) retry_after: Option<String>,

    /// The unit of the wait
    #[arg(long, value_enum, default_value = "s", conflicts_with = "command")]
    #[arg(help_heading = "Replies")]
    pub(crate) wait_in: TimeUnit,

    /// Where a reply has the limiter's own time of the decision, in microseconds
    #[arg(long, value_name = "WHERE", conflicts_with = "command", help_heading = "Replies")]
    pub(crate) decided_at: Option<String>,

    /// How strictly to judge [default: `definition` with `via` in every limit, else `bound`]
    #[arg(long, value_enum)]
    pub(crate) promise: Option<PromiseArg>,

    /// The step of the limiter's clock, by its documentation: what is nearer is not told apart
    #[arg(long, value_name = "DURATION", default_value = "1ms")]
    pub(crate) precision: String,

    /// How much too long a wait may be [default: 1s if waits are whole seconds; else the precision,
    /// or nothing where the time of a decision is known]
    #[arg(long, value_name = "DURATION")]
    pub(crate) wait_step: Option<String>,

    /// How many states of each count a restart or a failover may lose, by its documentation
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) may_lose: u32,

    /// A shell command that restarts the limiter: what a restart loses is judged too
    #[arg(long, value_name = "COMMAND", conflicts_with = "command")]
    pub(crate) restart: Option<String>,

    /// How many clients ask at once
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u16).range(2..=1000))]
    pub(crate) clients: u16,

    /// The longest time for the traffic, where the clock cannot be set
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub(crate) within: String,

    /// The seed of the traffic
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// A host beyond this machine that may get the load; without it only loopback does
    #[arg(long, value_name = "HOST")]
    pub(crate) i_may_load: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Write a report: one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// Ask the requests of an access log too, with their subjects and their spacing; repeat it for
    /// several logs
    #[arg(long, value_name = "LOG", help_heading = "Recorded traffic")]
    pub(crate) log: Vec<PathBuf>,

    #[command(flatten, next_help_heading = "Recorded traffic")]
    pub(crate) reading: LogArgs,
}

/// The promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum PromiseArg {
    /// Every answer is that of the strategy's definition
    Definition,
    /// The strategy's bound, and answers that fit each other
    Bound,
}

/// The units of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum TimeUnit {
    /// Seconds, also with a point
    S,
    /// Milliseconds
    Ms,
    /// Microseconds
    Us,
}

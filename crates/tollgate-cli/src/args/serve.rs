//! The arguments of `serve`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tollgate_server::CallerLimits;

use super::QueueForm;

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The policies: `.toml`, `.yaml` or `.yml`; read again when the file changes, and on SIGHUP
    /// [default: ten requests in ten seconds for each address]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Where counts live: `memory://`, `sqlite://PATH`, or `redis://[USER:PASSWORD@]HOST:PORT`,
    /// `rediss://` for TLS, `unix:///PATH` [default: memory]
    #[arg(long, value_name = "URL", env = "TOLLGATE_STORE", hide_env_values = true)]
    pub(crate) store: Option<String>,

    /// What the memory store may hold, as `1GiB`, `256MiB`, `500MB`: beyond that newcomers share
    /// counts [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,

    /// Keep the counts of the memory store over a restart: read from this file at the start, and
    /// written to it at the end
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: Option<PathBuf>,

    /// A queue that clients may offer to at /v1/queues/NAME: at most BOUND jobs wait, and at most N
    /// of one `?client=`; without a bound, as it was made; repeat it. It lies where counts do,
    /// which must not be memory: `tollgate queue work NAME` takes from it
    #[arg(long, value_name = "NAME[=BOUND[,per-client=N]]")]
    pub(crate) queue: Vec<String>,

    /// Let clients take jobs from these queues, too, at /v1/queues/NAME/take, and say what became
    /// of them: workers without this program. TOLLGATE_WORKER_TOKEN is what they send; beyond
    /// loopback it must be set
    #[arg(long, requires = "queue")]
    pub(crate) queue_workers: bool,

    /// On a Redis, in what the jobs of such queues lie
    #[arg(long, value_enum, value_name = "FORM", default_value_t = QueueForm::Stream)]
    pub(crate) queue_form: QueueForm,

    /// Where clients ask: `HOST:PORT`, `:PORT` for every address, `unix:/PATH`; repeat it for
    /// several
    #[arg(long, short, value_name = "ADDR", default_value = "127.0.0.1:8700")]
    pub(crate) listen: Vec<String>,

    /// Where administrators do; `off` for nowhere. Beyond loopback TOLLGATE_ADMIN_TOKEN must be
    /// set
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8701")]
    pub(crate) admin: String,

    /// What administrators may write as `Host` besides addresses and `localhost`, where no
    /// TOLLGATE_ADMIN_TOKEN is set; repeat it
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) admin_host: Vec<String>,

    /// Pages of browsers that may ask where clients do, as `https://app.example`; repeat it. Others
    /// get a 403: a page would spend what its reader's network may
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',')]
    pub(crate) allow_origin: Vec<String>,

    /// Whose forwarded headers are believed by `/v1/auth`, besides this machine's: `10.0.0.0/8`;
    /// repeat it
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub(crate) trust: Vec<String>,

    /// The header in which a trusted proxy names the client: `x-forwarded-for` and `forwarded` are
    /// lists, any other has one address
    #[arg(long, value_name = "NAME", default_value = "x-forwarded-for")]
    pub(crate) client_header: String,

    /// Which headers of a trusted proxy tell the request that `/v1/auth` is about
    #[arg(long, value_enum, value_name = "FAMILY", default_value_t = Family::Either)]
    pub(crate) forwarded: Family,

    /// What `%2F` is in a path, as the server behind reads it; a policy that looks at the path
    /// refuses what is not to be read. For `/v1/auth`, and for requests that are described
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Slashes::Reject)]
    pub(crate) escaped_slashes: Slashes,

    /// What `;` is in a path, as the server behind reads it
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Parameters::Reject)]
    pub(crate) path_parameters: Parameters,

    /// The header that names the user, for `/v1/auth`. Your proxy must write over what clients send
    #[arg(long, value_name = "NAME")]
    pub(crate) user_header: Option<String>,

    /// The header that has the API key, for `/v1/auth`; `authorization` is a bearer token. Keys are
    /// hashed, with TOLLGATE_KEY_SECRET when it is set
    #[arg(long, value_name = "NAME")]
    pub(crate) api_key_header: Option<String>,

    /// Which inline limits callers may give to `/v1/check` and `/v1/peek`
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = CallerLimitsArg::Several)]
    pub(crate) caller_limits: CallerLimitsArg,

    /// Where counts lie on a Redis: in how many shapes callers may give several limits. A shape is
    /// which strategies, in which order, of how many subjects; each costs the server some 14 kB
    #[arg(long, value_name = "N", default_value_t = CallerLimits::DEFAULT_SHAPES)]
    pub(crate) caller_shapes: usize,

    /// A certificate in PEM: then clients come with TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Its private key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// How many threads answer [default: half of the processors: clients need some, too]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pub(crate) threads: Option<u16>,

    /// How many connections are open at once
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) max_connections: u32,

    /// How many connections one address may have [default: as many as there are]. Behind a proxy
    /// all clients have the proxy's address
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_connections_per_address: Option<u32>,

    /// How long a connection may be idle
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub(crate) idle_timeout: String,

    /// How long requests are taken after a signal, with `/readyz` saying no
    #[arg(long, value_name = "DURATION", default_value = "0")]
    pub(crate) linger: String,

    /// How long what was begun may take at the end
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) grace: String,

    /// How subjects are written in the log of denials, which has at most ten lines a second. Hashes
    /// are keyed with TOLLGATE_KEY_SECRET when it is set
    #[arg(long, value_enum, value_name = "HOW", default_value_t = LogDenials::Hashed)]
    pub(crate) log_denials: LogDenials,

    /// Send a trace of each question to this collector of OpenTelemetry, as
    /// http://127.0.0.1:4318: OTLP over HTTP, at /v1/traces below it
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT", hide_env_values = true)]
    pub(crate) otlp: Option<String>,

    /// Write what each limit let through and denied, once a second, into time series on this Redis,
    /// as redis://HOST:PORT: Redis 8, Redis Stack, or Valkey with valkey-timeseries. No decision
    /// waits for it
    #[arg(long, value_name = "URL", env = "TOLLGATE_TIMESERIES", hide_env_values = true)]
    pub(crate) timeseries: Option<String>,

    /// How long they are kept there; 0 for as long as there is room
    #[arg(long, value_name = "DURATION", default_value = "24h")]
    pub(crate) timeseries_retention: String,

    /// How logs are written, to stderr
    #[arg(long, value_enum, value_name = "FORM", default_value_t = LogForm::Text)]
    pub(crate) log: LogForm,
}

/// Which inline limits callers may give.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum CallerLimitsArg {
    /// None: they are asked by the policies
    Off,
    /// One limit for one subject
    Single,
    /// Several limits and subjects, too
    Several,
}

/// Which headers tell a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Family {
    /// Whichever is there; both are refused
    Either,
    /// X-Original-URI and X-Original-Method, as nginx by custom
    Original,
    /// X-Forwarded-Uri, -Method and -Host, as Traefik and Caddy
    Forwarded,
    /// None: the request itself is judged
    Nothing,
}

/// What an escaped slash is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Slashes {
    /// Refused, and backslashes too: servers differ in reading them
    Reject,
    /// A part of its segment, and so is a backslash, as for axum, Go and Express
    Keep,
    /// A slash, as for Flask and Django; backslashes are refused
    Unescape,
}

/// What a semicolon is in a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Parameters {
    /// Refused, and `%3B` too: servers differ in reading them
    Reject,
    /// A part of its segment
    Keep,
    /// What begins a parameter, which is left away, as in servlets; `%3B` is refused
    Strip,
}

/// How logs are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum LogForm {
    /// A line for people
    Text,
    /// One JSON object a line
    Json,
}

/// How denials are logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum LogDenials {
    /// Subjects as keyed hashes
    Hashed,
    /// Subjects as they are: personal data
    Plain,
    /// Not at all
    Off,
}

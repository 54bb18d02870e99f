//! The arguments of `serve`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tollgate_service::{Address, CallerLimits, XdsOptions};

use super::QueueForm;

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The policies: `.toml`, `.yaml` or `.yml`; read again when the file changes, and on SIGHUP
    /// [default: ten requests in ten seconds for each address]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The store of the counts: `memory://`, `sqlite://PATH`, or
    /// `redis://[USER:PASSWORD@]HOST:PORT`, `rediss://` for TLS, `unix:///PATH` [default: memory]
    #[arg(long, value_name = "URL", env = "TOLLGATE_STORE", hide_env_values = true)]
    pub(crate) store: Option<String>,

    /// How long a store may refuse what never passes by itself before the service ends: a wrong
    /// password, a server that is not a Redis. A store that is away is waited for without an end
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) store_wait: String,

    /// The memory limit of the memory store, such as `1GiB`, `256MiB`, `500MB`: beyond that, new
    /// subjects share counts [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,

    /// Keep the counts of the memory store over a restart: it reads this file at the start, and
    /// writes it at the end
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: Option<PathBuf>,

    /// Deny a subject that a Redis or a file has denied without asking again, until its
    /// `retry_after`, and for this time at the longest, such as `1s`. For that time a refund, a
    /// reset, a credit or a raised limit on another node may go unnoticed
    #[arg(long, value_name = "TIME")]
    pub(crate) deny_cache: Option<String>,

    /// A queue that accepts jobs from clients at /v1/queues/NAME; repeat it. At most BOUND jobs
    /// wait, and at most N of one `?client=`; without BOUND, the settings of the queue apply. The
    /// queue is in the store of the counts, which must not be memory. `tollgate queue work NAME`
    /// takes its jobs
    #[arg(long, value_name = "NAME[=BOUND[,per-client=N]]")]
    pub(crate) queue: Vec<String>,

    /// Let clients also take jobs from these queues, at /v1/queues/NAME/take, and ack or nack them.
    /// Such workers do not need this program. They send TOLLGATE_WORKER_TOKEN, which must be set
    /// beyond loopback
    #[arg(long, requires = "queue")]
    pub(crate) queue_workers: bool,

    /// How a Redis keeps the jobs of these queues
    #[arg(long, value_enum, value_name = "FORM", default_value_t = QueueForm::Stream)]
    pub(crate) queue_form: QueueForm,

    /// The address for clients: `HOST:PORT`, `:PORT` for every address, `unix:/PATH`, or
    /// `systemd:NAME`, a socket that systemd passes; repeat it for several
    #[arg(long, short, value_name = "ADDR", default_value = "127.0.0.1:8700")]
    pub(crate) listen: Vec<String>,

    /// An address for clients of the Redis protocol, written as for `--listen`; repeat it. Beyond
    /// loopback, TOLLGATE_RESP_PASSWORD or TOLLGATE_RESP_USERS must be set
    #[cfg(feature = "resp")]
    #[arg(long, value_name = "ADDR")]
    pub(crate) resp: Vec<String>,

    /// An address for Envoy's rate limit service over gRPC, written as for `--listen`; repeat it
    #[arg(long, value_name = "ADDR")]
    pub(crate) grpc: Vec<String>,

    /// The rules for it: the YAML of envoyproxy/ratelimit, one file or a folder; read again when
    /// they change, and on SIGHUP
    #[arg(long, value_name = "PATH", group = "envoy_rules")]
    pub(crate) envoy_config: Option<PathBuf>,

    /// The control plane that sends the rules by xDS, such as Envoy Gateway's: `HOST:PORT`, or
    /// `https://HOST:PORT?ca=FILE&cert=FILE&key=FILE` for TLS; `node=ID` is the name under which it
    /// knows this service [default: default]
    #[arg(long, value_name = "URL", group = "envoy_rules", conflicts_with = "envoy_config")]
    pub(crate) envoy_xds: Option<XdsOptions>,

    /// Merge the rules of files, or resources, with the same domain: an error without it
    #[arg(long, requires = "envoy_rules")]
    pub(crate) envoy_merge_domains: bool,

    /// Answer with dynamic metadata: the request, and the `metadata` of the rules that admitted it
    #[arg(long, requires = "envoy_rules")]
    pub(crate) envoy_metadata: bool,

    /// The answer for a domain that has no rules. With `--config`, the policies answer
    #[arg(long, value_enum, value_name = "ANSWER", default_value_t = Unknown::Allow)]
    pub(crate) envoy_unknown_domain: Unknown,

    /// Add the metrics of envoyproxy/ratelimit to `/metrics`, under its names
    #[arg(long, requires = "envoy_rules")]
    pub(crate) envoy_metrics: bool,

    /// The age from which a connection over gRPC is closed, once its calls are answered
    #[arg(long, value_name = "DURATION", default_value = "24h")]
    pub(crate) grpc_max_age: String,

    /// The address for administrators; `off` for none. Beyond loopback, TOLLGATE_ADMIN_TOKEN must
    /// be set
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8701")]
    pub(crate) admin: String,

    /// A `Host` that administrators may send if TOLLGATE_ADMIN_TOKEN is not set, besides addresses
    /// and `localhost`; repeat it
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) admin_host: Vec<String>,

    /// The admin listeners of other instances, `HOST:PORT` or `unix:/PATH`: the console and `top`
    /// show them beside this one. They have the same TOLLGATE_ADMIN_TOKEN
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    pub(crate) peers: Vec<Address>,

    /// The origin of web pages that may send requests, such as `https://app.example`; repeat it.
    /// Pages of other origins get a 403, since they would use up the limits of their reader's
    /// network
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',')]
    pub(crate) allow_origin: Vec<String>,

    /// The header in which `/v1/auth` reads a `field.NAME` of policies, such as `plan=X-Plan`;
    /// repeat it. Let the proxy set or remove it
    #[arg(long, value_name = "NAME=HEADER", value_parser = field_header)]
    pub(crate) field_header: Vec<(String, String)>,

    /// The headers that tell clients of their limits, at `/v1/auth` and through Envoy [default:
    /// draft; off for the rules of envoyproxy/ratelimit in its own meaning]
    #[arg(long, value_enum, value_name = "WHICH")]
    pub(crate) headers: Option<HeadersArg>,

    /// The proxies whose forwarded headers `/v1/auth` trusts, such as `10.0.0.0/8`; repeat it. It
    /// always trusts those of this machine
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub(crate) trust: Vec<String>,

    /// The header in which a trusted proxy names the client: `x-forwarded-for` and `forwarded` are
    /// lists, any other header has one address
    #[arg(long, value_name = "NAME", default_value = "x-forwarded-for")]
    pub(crate) client_header: String,

    /// Which headers of a trusted proxy describe the request that `/v1/auth` decides on
    #[arg(long, value_enum, value_name = "FAMILY", default_value_t = Family::Either)]
    pub(crate) forwarded: Family,

    /// How the server behind reads `%2F` in a path. A policy that looks at the path refuses a path
    /// that is rejected here. This applies to `/v1/auth`, and to requests that a client describes
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Slashes::Reject)]
    pub(crate) escaped_slashes: Slashes,

    /// How the server behind reads `;` in a path
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Parameters::Reject)]
    pub(crate) path_parameters: Parameters,

    /// The header that names the user, for `/v1/auth`. Your proxy must overwrite what clients send
    #[arg(long, value_name = "NAME")]
    pub(crate) user_header: Option<String>,

    /// The header with the API key, for `/v1/auth`; `authorization` means a bearer token. Keys are
    /// hashed, with TOLLGATE_KEY_SECRET when it is set
    #[arg(long, value_name = "NAME")]
    pub(crate) api_key_header: Option<String>,

    /// The header with the id of a request, for `/v1/auth`: a request that a trusted proxy asks
    /// about again under its id is charged once. Your proxy must make it, and overwrite what
    /// clients send
    #[arg(long, value_name = "NAME")]
    pub(crate) request_id_header: Option<String>,

    /// How long the id of a request is remembered, 1ms to 24h
    #[arg(long, value_name = "DURATION", default_value = "30s", requires = "request_id_header")]
    pub(crate) request_id_for: String,

    /// Which inline limits callers may give to `/v1/check` and `/v1/peek`
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = CallerLimitsArg::Several)]
    pub(crate) caller_limits: CallerLimitsArg,

    /// Whether callers may say that they wait. A ban counts no denial of who waits, so let only
    /// callers say it that you trust
    #[arg(long, value_enum, value_name = "ON_OR_OFF", default_value_t = OnOff::Off)]
    pub(crate) caller_waiting: OnOff,

    /// With a Redis: how many shapes of several limits callers may give. A shape is the strategies,
    /// their order, and the number of subjects; each takes 56 kB or more of the server
    #[arg(long, value_name = "N", default_value_t = CallerLimits::DEFAULT_SHAPES)]
    pub(crate) caller_shapes: usize,

    /// A certificate in PEM: with it, clients use TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Its private key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// The certificates in PEM of the authorities of clients: only clients with a certificate of
    /// theirs are served, over every protocol that has TLS
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_client_ca: Option<PathBuf>,

    /// The protocols that are served with TLS; repeat it [default: all]
    #[arg(long, value_enum, value_name = "PROTOCOL", value_delimiter = ',', requires = "tls_cert")]
    pub(crate) tls_for: Vec<TlsFor>,

    /// How many threads answer, and with `--grpc` as many more for gRPC alone [default: half of the
    /// processors, since clients need some too]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pub(crate) threads: Option<u16>,

    /// How many connections are open concurrently
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) max_connections: u32,

    /// How many connections one address may have [default: all]. Behind a proxy, all clients have
    /// the proxy's address
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_connections_per_address: Option<u32>,

    /// How long a connection may be idle
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub(crate) idle_timeout: String,

    /// How long the service accepts requests after a signal, while `/readyz` reports that it is not
    /// ready
    #[arg(long, value_name = "DURATION", default_value = "0")]
    pub(crate) linger: String,

    /// How long requests that have begun may take at the end
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) grace: String,

    /// How subjects are written in the log of denials, which has at most ten lines a second. Hashes
    /// are keyed with TOLLGATE_KEY_SECRET when it is set
    #[arg(long, value_enum, value_name = "HOW", default_value_t = LogDenials::Hashed)]
    pub(crate) log_denials: LogDenials,

    /// Log the checks that a limit decided into FILE, as JSON lines that `tollgate advise` reads.
    /// Subjects are written as they are: personal data
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// The most bytes of FILE and of FILE.1, where older checks are: 1MiB and up
    #[arg(long, value_name = "SIZE", default_value = "256MiB", requires = "record")]
    pub(crate) record_max: String,

    /// Send a trace of each request to this OpenTelemetry collector, as http://127.0.0.1:4318: OTLP
    /// over HTTP, at /v1/traces below the URL
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT", hide_env_values = true)]
    pub(crate) otlp: Option<String>,

    /// Write what each limit admitted and denied, once a second, into time series on this Redis, as
    /// redis://HOST:PORT. It must be Redis 8, Redis Stack, or Valkey with valkey-timeseries. No
    /// decision waits for it
    #[arg(long, value_name = "URL", env = "TOLLGATE_TIMESERIES", hide_env_values = true)]
    pub(crate) timeseries: Option<String>,

    /// How long the time series are kept; 0 keeps them as long as there is room
    #[arg(long, value_name = "DURATION", default_value = "24h")]
    pub(crate) timeseries_retention: String,

    /// Send thresholds that limits reach (`notify` in a policy) to this URL, signed with
    /// TOLLGATE_WEBHOOK_SECRET as Standard Webhooks says. Redirects are not followed
    #[arg(long, value_name = "URL", env = "TOLLGATE_WEBHOOK", hide_env_values = true)]
    pub(crate) webhook: Option<String>,

    /// The format of the logs on stderr
    #[arg(long, value_enum, value_name = "FORM", default_value_t = LogForm::Text)]
    pub(crate) log: LogForm,
}

/// Which inline limits callers may give.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum CallerLimitsArg {
    /// None: the policies alone decide
    Off,
    /// One limit for one subject
    Single,
    /// Several limits and several subjects
    Several,
}

/// Headers that tell clients of their limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum HeadersArg {
    /// `RateLimit-Policy` and `RateLimit`, of the IETF draft
    Draft,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`, the seconds until then
    Legacy,
    /// All five
    Both,
    /// None, and no body for Envoy's clients
    Off,
}

/// A protocol that can have TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum TlsFor {
    /// The addresses of `--listen`
    Http,
    /// The addresses of `--resp`
    Resp,
    /// The addresses of `--grpc`
    Grpc,
    /// The address of `--admin`, beyond this machine
    Admin,
}

/// A name of a field, and the header that has it.
fn field_header(text: &str) -> Result<(String, String), String> {
    let right = "write the field and its header, e.g. `plan=X-Plan`";
    let (name, header) = text.split_once('=').ok_or(right)?;
    let name = name.strip_prefix("field.").unwrap_or(name);
    if name.is_empty() || header.is_empty() {
        return Err(right.to_owned());
    }
    Ok((name.to_owned(), header.to_owned()))
}

impl Serve {
    /// Whether this protocol is served with TLS.
    pub(crate) fn has_tls(&self, protocol: TlsFor) -> bool {
        self.tls_cert.is_some() && (self.tls_for.is_empty() || self.tls_for.contains(&protocol))
    }
}

/// The answer for a domain of Envoy that nobody knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Unknown {
    /// OK
    Allow,
    /// OVER_LIMIT
    Deny,
}

/// A switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum OnOff {
    /// They have
    On,
    /// They have not
    Off,
}

/// Which headers tell a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Family {
    /// Whichever the request has; a request with both is refused
    Either,
    /// X-Original-URI and X-Original-Method, as is usual with nginx
    Original,
    /// X-Forwarded-Uri, -Method and -Host, as Traefik and Caddy
    Forwarded,
    /// None: the decision is on the request itself
    Nothing,
}

/// The meaning of an escaped slash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Slashes {
    /// Refused, and backslashes too: servers differ in reading them
    Reject,
    /// A part of its segment, and so is a backslash, as for axum, Go and Express
    Keep,
    /// A slash, as for Flask and Django; backslashes are refused
    Unescape,
}

/// The meaning of a semicolon in a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Parameters {
    /// Refused, and `%3B` too: servers differ in reading them
    Reject,
    /// A part of its segment
    Keep,
    /// The start of a parameter, which is removed, as in servlets; `%3B` is refused
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

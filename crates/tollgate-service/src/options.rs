//! The settings of a service.

use core::fmt;
use core::time::Duration;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::Handle;
use tollgate_tower::answer::Profile;
use tollgate_tower::identity::PathReading;

use crate::auth_options::AuthOptions;
use crate::envoy::EnvoyOptions;
use crate::listen::{Address, Bounds};
use crate::metrics::Metrics;
use crate::queues::Queues;
#[cfg(feature = "resp")]
use crate::resp::RespUser;
use crate::service::CallerLimits;
use crate::thresholds::Webhook;
use crate::timeseries::TimeSeriesOptions;
use crate::tls::Tls;

/// The settings of a service.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The addresses on which the service listens for clients; at least one.
    pub listen: Vec<Address>,
    /// The addresses on which the service speaks the Redis protocol; none by default.
    #[cfg(feature = "resp")]
    pub resp: Vec<Address>,
    /// The users of the Redis protocol. Without any, every client may ask and nobody may
    /// administer. Required when an address of theirs is reachable from beyond loopback.
    #[cfg(feature = "resp")]
    pub resp_users: Vec<RespUser>,
    /// The addresses of gRPC, for Envoy's rate limit service; none by default.
    pub grpc: Vec<Address>,
    /// The settings of Envoy's rate limit service.
    pub envoy: EnvoyOptions,
    /// The address of the admin API; `None` disables it.
    pub admin: Option<Address>,
    /// The token that administrators send, of at least 16 bytes. Required when the admin address is
    /// reachable from beyond loopback.
    pub admin_token: Option<String>,
    /// Host names of this service that administrators may send in `Host`, besides addresses and
    /// `localhost`. Checked only when no token is set.
    pub admin_hosts: Vec<String>,
    /// The admin addresses of other instances, whose figures the console shows beside those of this
    /// one. They are asked over HTTP with [`Options::admin_token`], at most once a second and while
    /// somebody looks.
    pub peers: Vec<Address>,
    /// The origins of web pages that may call the service, such as `https://app.example`.
    pub origins: Vec<String>,
    /// The policy file, for reloads; `None` when a program built the policies.
    pub config: Option<PathBuf>,
    /// The headers that tell clients of their limits, at `/v1/auth` and through Envoy. `None`, the
    /// default, is those of the draft, and none for the rules of envoyproxy/ratelimit in its own
    /// meaning.
    pub headers: Option<Profile>,
    /// How `/v1/auth` reads the requests of proxies.
    pub auth: AuthOptions,
    /// Which inline limits callers may send.
    pub caller_limits: CallerLimits,
    /// Whether callers may say that they wait for a hold, which no ban counts then.
    pub caller_waiting: bool,
    /// How request paths are normalized. Choose the reading of the server behind the proxy.
    pub paths: PathReading,
    /// The secret for hashing API keys, of at least 16 bytes. Without it the service assumes that
    /// API keys are random.
    pub key_secret: Option<Vec<u8>>,
    /// The key for signing receipts and holds, of at least 32 bytes. Without it the processes on
    /// one Redis or one SQLite file share one, which lies there. With counts in memory it is a new
    /// one.
    pub receipt_key: Option<Vec<u8>>,
    /// The TLS certificate for clients; `None` serves them without TLS.
    pub tls: Option<Tls>,
    /// The limits on connections.
    pub bounds: Bounds,
    /// The runtimes that serve connections. Each new connection stays on the one that has the
    /// fewest. Empty by default: the runtime that the service was started on serves all of them.
    pub runtimes: Vec<Handle>,
    /// The runtimes that serve connections of gRPC, so that a flood of its frames, which HTTP/2
    /// reads before anybody is asked, takes no turns from the other protocols. Empty by default:
    /// `runtimes` serve them too.
    pub grpc_runtimes: Vec<Handle>,
    /// How long the service still takes requests after `/readyz` reports that it is not ready.
    pub linger: Duration,
    /// How long started requests may take after shutdown begins.
    pub grace: Duration,
    /// The service's counters. Build the gate with [`Metrics::gate`] so that its decisions count
    /// here.
    pub metrics: Metrics,
    /// The Redis time series that receive the counts of each second, besides the service's own
    /// series.
    pub timeseries: Option<TimeSeriesOptions>,
    /// The receiver of reports that a limit has reached a threshold.
    pub webhook: Option<Arc<Webhook>>,
    /// The queues that clients may offer jobs to.
    pub queues: Queues,
    /// Whether clients may also take jobs from the queues and report their outcomes.
    pub queue_workers: bool,
    /// The token that workers send, of at least 16 bytes. Required when `queue_workers` is set and
    /// a client address is reachable from beyond loopback.
    pub worker_token: Option<String>,
}

impl fmt::Debug for Options {
    /// Secrets are shown only as set or unset.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listen, grpc, envoy, admin, config, headers, auth, .. } = self;
        let Self { paths, tls, bounds, linger, .. } = self;
        let mut shown = f.debug_struct("Options");
        #[cfg(feature = "resp")]
        shown.field("resp", &self.resp).field("resp_users", &self.resp_users);
        shown
            .field("listen", listen)
            .field("grpc", grpc)
            .field("envoy", envoy)
            .field("admin", admin)
            .field("admin_token", &self.admin_token.is_some())
            .field("admin_hosts", &self.admin_hosts)
            .field("peers", &self.peers)
            .field("origins", &self.origins)
            .field("config", config)
            .field("headers", headers)
            .field("auth", auth)
            .field("caller_limits", &self.caller_limits)
            .field("caller_waiting", &self.caller_waiting)
            .field("paths", paths)
            .field("key_secret", &self.key_secret.is_some())
            .field("receipt_key", &self.receipt_key.is_some())
            .field("tls", tls)
            .field("bounds", bounds)
            .field("linger", linger)
            .field("grace", &self.grace)
            .field("metrics", &self.metrics)
            .field("timeseries", &self.timeseries)
            .field("webhook", &self.webhook)
            .field("queue_workers", &self.queue_workers)
            .field("worker_token", &self.worker_token.is_some())
            .finish()
    }
}

impl Options {
    /// Default settings for a service on these client addresses, without an admin API.
    #[must_use]
    pub fn new(listen: Vec<Address>) -> Self {
        Self {
            listen,
            #[cfg(feature = "resp")]
            resp: Vec::new(),
            #[cfg(feature = "resp")]
            resp_users: Vec::new(),
            grpc: Vec::new(),
            envoy: EnvoyOptions::default(),
            admin: None,
            admin_token: None,
            admin_hosts: Vec::new(),
            peers: Vec::new(),
            origins: Vec::new(),
            config: None,
            headers: None,
            auth: AuthOptions::default(),
            caller_limits: CallerLimits::default(),
            caller_waiting: false,
            paths: PathReading::default(),
            key_secret: None,
            receipt_key: None,
            tls: None,
            bounds: Bounds::default(),
            runtimes: Vec::new(),
            grpc_runtimes: Vec::new(),
            linger: Duration::ZERO,
            grace: Duration::from_secs(10),
            metrics: Metrics::new(),
            timeseries: None,
            webhook: None,
            queues: Queues::default(),
            queue_workers: false,
            worker_token: None,
        }
    }
}

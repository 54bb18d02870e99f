//! The settings of a connection to Redis, from code or a URL.

mod redis_cli;
mod url;

use core::fmt;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(unix)]
use crate::event_loop::{EventLoop, SharedLoop};
use crate::key::KeyPrefix;

/// The default deadline of a call.
///
/// Beside twice as many busy threads as processors, 99 of 100 requests on a healthy server took
/// 21 to 23 ms. A development build on a machine with other work took 90 to 200 ms, its slowest
/// 404 ms: `docs/redis.md` has the command.
pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(500);

/// The default timeout of one attempt to connect.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The default port of Redis.
pub const DEFAULT_PORT: u16 = 6379;

/// The most connections of one store. One connection carries some 200,000 calls per second, about
/// as many as one Redis can serve.
pub const MAX_CONNECTIONS: usize = 64;

/// The default number of calls in flight on one connection.
pub const DEFAULT_IN_FLIGHT: usize = 4096;

/// How long a server may by default answer nothing while a call waits, before the breaker opens.
pub const DEFAULT_BREAKER_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the open breaker blocks calls before one probes the server.
pub(crate) const BREAKER_PAUSE: Duration = Duration::from_millis(500);

/// The default number of scripts with numbers written in. They take about 15 MB of the server's
/// memory, and as much again where calls are batched.
pub const DEFAULT_SCRIPTS: usize = 1_000;

/// The address of the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Address {
    /// A host name or an IP address, with a port.
    Tcp { host: String, port: u16, tls: bool },
    /// A unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, .. } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port, .. } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A host and a port.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Endpoint {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Endpoint {
    pub(crate) fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// The servers of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// One server.
    Server(Address),
    /// A cluster, found by some of its nodes.
    Cluster { seeds: Vec<Endpoint>, tls: bool },
    /// The primary that these sentinels name.
    Sentinel(Sentinels),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(address) => write!(f, "{address}"),
            Self::Cluster { seeds, .. } => write!(f, "{}", list(seeds)),
            Self::Sentinel(Sentinels { addresses, name, .. }) => {
                write!(f, "{}/{name}", list(addresses))
            }
        }
    }
}

/// The sentinels of a primary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sentinels {
    pub(crate) name: String,
    pub(crate) addresses: Vec<Endpoint>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    /// Whether the sentinels are reached over TLS.
    pub(crate) tls: bool,
    /// Whether the servers are.
    pub(crate) server_tls: bool,
}

/// Endpoints as a list.
pub(crate) fn list(endpoints: &[Endpoint]) -> String {
    let all: Vec<String> = endpoints.iter().map(Endpoint::to_string).collect();
    all.join(",")
}

/// The address and settings of a Redis server, of a cluster, or of sentinels. Its text forms never
/// contain the password.
///
/// ```
/// use std::time::Duration;
/// use tollgate_redis::Options;
/// let options = Options::from_url("rediss://limiter:s%40fe@redis.example/3?deadline=20ms")?
///     .connections(2);
/// assert_eq!(options.to_string(), "rediss://limiter@redis.example:6379/3");
/// # Ok::<(), tollgate::StoreError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    pub(crate) target: Target,
    /// Where announced addresses are reached.
    pub(crate) reached_at: Vec<(Endpoint, Endpoint)>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u32,
    pub(crate) deadline: Duration,
    /// Whether the deadline was set explicitly.
    pub(crate) has_deadline: bool,
    pub(crate) connect_timeout: Duration,
    pub(crate) connections: usize,
    pub(crate) in_flight: usize,
    pub(crate) breaker_timeout: Option<Duration>,
    pub(crate) scripts: usize,
    pub(crate) prefix: KeyPrefix,
    pub(crate) authorities: Option<Vec<u8>>,
    pub(crate) certificate: Option<Certificate>,
    #[cfg(unix)]
    pub(crate) event_loop: Option<SharedLoop>,
}

/// The files of a client's own certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Certificate {
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
}

impl Options {
    fn new(target: Target) -> Self {
        Self {
            target,
            reached_at: Vec::new(),
            user: None,
            password: None,
            database: 0,
            deadline: DEFAULT_DEADLINE,
            has_deadline: false,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            connections: 1,
            in_flight: DEFAULT_IN_FLIGHT,
            breaker_timeout: None,
            scripts: DEFAULT_SCRIPTS,
            prefix: KeyPrefix::default(),
            authorities: None,
            certificate: None,
            #[cfg(unix)]
            event_loop: None,
        }
    }

    /// Plain text over TCP to `host`, a name or an IP address (without brackets).
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::new(Target::Server(Address::Tcp { host: host.into(), port, tls: false }))
    }

    /// TLS over TCP to `host`, for which the certificate must be valid. An authority that this
    /// machine trusts must have signed it (`SSL_CERT_FILE` can name others), or one of
    /// [`Options::authorities`]. The check cannot be disabled.
    pub fn tls(host: impl Into<String>, port: u16) -> Self {
        Self::new(Target::Server(Address::Tcp { host: host.into(), port, tls: true }))
    }

    /// A unix socket.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::new(Target::Server(Address::Unix(path.into())))
    }

    /// A Redis Cluster, which is found by some of its nodes: names or IP addresses with ports.
    ///
    /// ```
    /// use tollgate_redis::Options;
    /// let options = Options::cluster([("10.0.0.1", 6379), ("10.0.0.2", 6379)]);
    /// assert_eq!(options.to_string(), "redis+cluster://10.0.0.1:6379,10.0.0.2:6379");
    /// ```
    pub fn cluster<H: Into<String>>(seeds: impl IntoIterator<Item = (H, u16)>) -> Self {
        let seeds = seeds.into_iter().map(|(host, port)| Endpoint::new(host, port)).collect();
        Self::new(Target::Cluster { seeds, tls: false })
    }

    /// The primary that sentinels know by this name. The sentinels have names or IP addresses with
    /// ports.
    ///
    /// ```
    /// use tollgate_redis::Options;
    /// let sentinels = [("10.0.0.1", 26379), ("10.0.0.2", 26379), ("10.0.0.3", 26379)];
    /// let options = Options::sentinel("limits", sentinels);
    /// assert!(options.to_string().ends_with("10.0.0.3:26379/limits"));
    /// ```
    pub fn sentinel<H: Into<String>>(
        name: impl Into<String>,
        sentinels: impl IntoIterator<Item = (H, u16)>,
    ) -> Self {
        let addresses = sentinels.into_iter().map(|(host, port)| Endpoint::new(host, port));
        Self::new(Target::Sentinel(Sentinels {
            name: name.into(),
            addresses: addresses.collect(),
            user: None,
            password: None,
            tls: false,
            server_tls: false,
        }))
    }

    /// TLS to the nodes of a cluster, or to the servers that sentinels name. A certificate must be
    /// valid for the address that the cluster or the sentinels announce.
    #[must_use]
    pub fn over_tls(mut self) -> Self {
        match &mut self.target {
            Target::Server(Address::Tcp { tls, .. }) | Target::Cluster { tls, .. } => *tls = true,
            Target::Sentinel(sentinels) => sentinels.server_tls = true,
            Target::Server(Address::Unix(_)) => {}
        }
        self
    }

    /// The login at the sentinels, which is apart from that of the servers.
    #[must_use]
    pub fn sentinel_login(mut self, user: Option<String>, password: impl Into<String>) -> Self {
        if let Target::Sentinel(sentinels) = &mut self.target {
            (sentinels.user, sentinels.password) = (user, Some(password.into()));
        }
        self
    }

    /// TLS to the sentinels.
    #[must_use]
    pub fn sentinel_tls(mut self) -> Self {
        if let Target::Sentinel(sentinels) = &mut self.target {
            sentinels.tls = true;
        }
        self
    }

    /// Reaches the node that a cluster or sentinels announce as `announced` at `reachable`: for
    /// nodes in containers or behind address translation.
    #[must_use]
    pub fn reach<A: Into<String>, R: Into<String>>(
        mut self,
        announced: (A, u16),
        reachable: (R, u16),
    ) -> Self {
        let announced = Endpoint::new(announced.0, announced.1);
        self.reached_at.push((announced, Endpoint::new(reachable.0, reachable.1)));
        self
    }

    /// Whether they are of a cluster, where keys lie in slots.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        matches!(self.target, Target::Cluster { .. })
    }

    /// The host and the port of the one server, where it is one and listens on TCP.
    ///
    /// ```
    /// let options = tollgate_redis::Options::from_url("redis://:secret@localhost/3")?;
    /// assert_eq!(options.endpoint(), Some(("localhost", 6379)));
    /// # Ok::<(), tollgate::StoreError>(())
    /// ```
    #[must_use]
    pub fn endpoint(&self) -> Option<(&str, u16)> {
        match &self.target {
            Target::Server(Address::Tcp { host, port, .. }) => Some((host, *port)),
            _ => None,
        }
    }

    /// Starts a task that drives a connection.
    pub(crate) fn spawn(&self, driver: impl Future<Output = ()> + Send + 'static) {
        #[cfg(unix)]
        if let Some(SharedLoop(it)) = &self.event_loop {
            return it.spawn(Box::pin(driver));
        }
        drop(tokio::spawn(driver));
    }

    /// Where an announced endpoint is reached.
    pub(crate) fn reachable(&self, announced: Endpoint) -> Endpoint {
        let known = self.reached_at.iter().find(|(other, _)| *other == announced);
        known.map_or(announced, |(_, reachable)| reachable.clone())
    }

    /// The user name, `default` unless set. It takes effect only with a password.
    #[must_use]
    pub fn user(self, user: impl Into<String>) -> Self {
        Self { user: Some(user.into()), ..self }
    }

    /// The password.
    #[must_use]
    pub fn password(self, password: impl Into<String>) -> Self {
        Self { password: Some(password.into()), ..self }
    }

    /// The number of the database, 0 unless set. A cluster has only database 0.
    #[must_use]
    pub fn database(self, database: u32) -> Self {
        Self { database, ..self }
    }

    /// How long a call may take, 500 ms unless set. After that it fails.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, has_deadline: true, ..self }
    }

    /// Sets this deadline unless a URL or [`Options::deadline`] has set one.
    #[must_use]
    pub fn deadline_or(self, deadline: Duration) -> Self {
        if self.has_deadline { self } else { self.deadline(deadline) }
    }

    /// The timeout of one attempt to connect, including TLS and login; 1 s unless set.
    #[must_use]
    pub fn connect_timeout(self, connect_timeout: Duration) -> Self {
        Self { connect_timeout, ..self }
    }

    /// The number of connections that share the calls, from 1 (the default) to 64. Other values are
    /// clamped to this range.
    #[must_use]
    pub fn connections(self, connections: usize) -> Self {
        Self { connections: connections.clamp(1, MAX_CONNECTIONS), ..self }
    }

    /// The most calls in flight on one connection, 4096 unless set, at least 1. Further calls are
    /// refused immediately.
    #[must_use]
    pub fn in_flight(self, in_flight: usize) -> Self {
        // The upper bound is that of a tokio semaphore, far above what any server could answer.
        Self { in_flight: in_flight.clamp(1, 1 << 20), ..self }
    }

    /// How long the server may answer nothing while a call waits, before the circuit breaker opens.
    /// It is measured from the oldest call without an answer, or from the last answer if that came
    /// later; time without calls does not count. Nothing is then sent for 500 ms, and one call
    /// probes the server. Any answer closes the breaker, even one to a call that nobody waits for
    /// any more.
    ///
    /// Until it opens, a call waits for at most its own deadline. A call with a longer deadline
    /// continues to wait after it has opened.
    ///
    /// Unless set it is 1 s, or the longest time that callers wait if that is longer: the deadline
    /// of these options, or the value of [`Store::will_wait`](tollgate::Store::will_wait).
    #[must_use]
    pub fn breaker_timeout(self, timeout: Duration) -> Self {
        Self { breaker_timeout: Some(timeout), ..self }
    }

    /// The most scripts with the numbers of their limits written in; 1,000 unless set, and 32 of
    /// one shape (the same strategies in the same order). A set of limits has one script for each
    /// kind of call (a check, a peek, a partial check, with a request id), and a batch script
    /// beside each. A script takes 56 to 90 KB of the server's memory until the server stops.
    ///
    /// Beyond these, limits of one shape share a script that takes their numbers as arguments. Such
    /// a script is a little slower, and its calls are not batched.
    ///
    /// So limits that are created at run time, one per tenant or by callers, never fill a server's
    /// memory.
    #[must_use]
    pub fn scripts(self, most: usize) -> Self {
        Self { scripts: most, ..self }
    }

    /// The prefix of all keys and series; none unless set. Keys are not migrated from one prefix to
    /// another.
    #[must_use]
    pub fn prefix(self, prefix: KeyPrefix) -> Self {
        Self { prefix, ..self }
    }

    /// The prefix of all keys and series.
    #[must_use]
    pub fn key_prefix(&self) -> &KeyPrefix {
        &self.prefix
    }

    /// The loop that carries the connections; tokio's unless set.
    #[cfg(unix)]
    #[must_use]
    pub fn event_loop(self, event_loop: std::sync::Arc<dyn EventLoop>) -> Self {
        Self { event_loop: Some(SharedLoop(event_loop)), ..self }
    }

    /// Certificates of authorities (PEM, one or several) to trust for TLS instead of this
    /// machine's.
    #[must_use]
    pub fn authorities(self, pem: impl Into<Vec<u8>>) -> Self {
        Self { authorities: Some(pem.into()), ..self }
    }

    /// The client's own certificate and its private key, for servers that ask for one
    /// (`tls-auth-clients`): PEM files, as the `--cert` and `--key` of `redis-cli`. They are read
    /// when the store connects, and for a new connection again if they have changed. A pair that
    /// does not fit then leaves the old one in use.
    #[must_use]
    pub fn certificate(self, chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let certificate = Certificate { chain: chain.into(), key: key.into() };
        Self { certificate: Some(certificate), ..self }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match &self.target {
            Target::Server(Address::Tcp { tls: false, .. }) => "redis",
            Target::Server(Address::Tcp { tls: true, .. }) => "rediss",
            Target::Server(Address::Unix(_)) => "redis+unix",
            Target::Cluster { tls: false, .. } => "redis+cluster",
            Target::Cluster { tls: true, .. } => "rediss+cluster",
            Target::Sentinel(Sentinels { server_tls: false, .. }) => "redis+sentinel",
            Target::Sentinel(Sentinels { server_tls: true, .. }) => "rediss+sentinel",
        };
        write!(f, "{scheme}://")?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        write!(f, "{}", self.target)?;
        let mut between = '?';
        match (self.database, &self.target) {
            (0, _) => {}
            (database, Target::Server(Address::Unix(_))) => {
                write!(f, "?db={database}")?;
                between = '&';
            }
            (database, _) => write!(f, "/{database}")?,
        }
        self.prefix.name().map_or(Ok(()), |prefix| write!(f, "{between}prefix={prefix}"))
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("url", &self.to_string())
            .field("deadline", &self.deadline)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that cannot go on has failed
mod tests;

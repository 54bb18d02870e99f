//! What a store connects with, and how a URL says it.

mod url;

use core::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How long a question may take when nothing else is said.
pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(50);

/// How long one attempt to connect may take when nothing else is said.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The port of Redis when a URL has none.
pub const DEFAULT_PORT: u16 = 6379;

/// The most connections of one store. One answers some 200,000 questions per second, which is
/// what one Redis can do.
pub const MAX_CONNECTIONS: usize = 64;

/// How many questions may be under way on one connection when nothing else is said.
pub const DEFAULT_IN_FLIGHT: usize = 4096;

/// How many failures in a row open the breaker when nothing else is said.
pub const DEFAULT_BREAKER_FAILURES: u32 = 5;

/// How long the open breaker lets nothing through when nothing else is said.
pub const DEFAULT_BREAKER_PAUSE: Duration = Duration::from_millis(500);

/// How many scripts have numbers in them when nothing else is said: some 15 MB of a server, and as
/// much again where questions come together.
pub const DEFAULT_SCRIPTS: usize = 1_000;

/// Where the server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Address {
    /// A name or an IP address, with a port.
    Tcp { host: String, port: u16, tls: bool },
    /// A socket of this machine.
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

/// Which Redis, and how it is talked to. Its texts never show the password.
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
    pub(crate) address: Address,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u32,
    pub(crate) deadline: Duration,
    /// Whether that was said.
    has_deadline: bool,
    pub(crate) connect_timeout: Duration,
    pub(crate) connections: usize,
    pub(crate) in_flight: usize,
    pub(crate) breaker_failures: u32,
    pub(crate) breaker_pause: Duration,
    pub(crate) breaker_timeout: Option<Duration>,
    pub(crate) scripts: usize,
    pub(crate) authorities: Option<Vec<u8>>,
}

impl Options {
    fn new(address: Address) -> Self {
        Self {
            address,
            user: None,
            password: None,
            database: 0,
            deadline: DEFAULT_DEADLINE,
            has_deadline: false,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            connections: 1,
            in_flight: DEFAULT_IN_FLIGHT,
            breaker_failures: DEFAULT_BREAKER_FAILURES,
            breaker_pause: DEFAULT_BREAKER_PAUSE,
            breaker_timeout: None,
            scripts: DEFAULT_SCRIPTS,
            authorities: None,
        }
    }

    /// Plain text over TCP to `host`, a name or an IP address (without brackets).
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::new(Address::Tcp { host: host.into(), port, tls: false })
    }

    /// TLS over TCP to `host`, which the certificate must be for. It must be signed by an
    /// authority that this machine trusts (`SSL_CERT_FILE` can name others), or by one of
    /// [`Options::authorities`]. There is no way to leave that unchecked.
    pub fn tls(host: impl Into<String>, port: u16) -> Self {
        Self::new(Address::Tcp { host: host.into(), port, tls: true })
    }

    /// A Unix socket.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::new(Address::Unix(path.into()))
    }

    /// The user; without one it is the user `default`. It takes effect with a password.
    #[must_use]
    pub fn user(self, user: impl Into<String>) -> Self {
        Self { user: Some(user.into()), ..self }
    }

    /// The password.
    #[must_use]
    pub fn password(self, password: impl Into<String>) -> Self {
        Self { password: Some(password.into()), ..self }
    }

    /// The number of the database; 0 unless set, and always on a cluster.
    #[must_use]
    pub fn database(self, database: u32) -> Self {
        Self { database, ..self }
    }

    /// How long a question may take, 50 ms unless set. After it the question fails.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, has_deadline: true, ..self }
    }

    /// The same deadline where one was said, by a URL or by [`Options::deadline`]; else this one.
    #[must_use]
    pub fn deadline_or(self, deadline: Duration) -> Self {
        if self.has_deadline { self } else { self.deadline(deadline) }
    }

    /// How long one attempt to connect may take, with TLS and password; 1 s unless set.
    #[must_use]
    pub fn connect_timeout(self, connect_timeout: Duration) -> Self {
        Self { connect_timeout, ..self }
    }

    /// How many connections share the questions: from 1, which it is unless set, to 64; other
    /// numbers become the nearest of these.
    #[must_use]
    pub fn connections(self, connections: usize) -> Self {
        Self { connections: connections.clamp(1, MAX_CONNECTIONS), ..self }
    }

    /// How many questions may be under way on one connection, 4096 unless set, at least 1. One
    /// more is refused at once.
    #[must_use]
    pub fn in_flight(self, in_flight: usize) -> Self {
        // The upper bound is tokio's for a semaphore, far above what any server could answer.
        Self { in_flight: in_flight.clamp(1, 1 << 20), ..self }
    }

    /// After how many failures of the server in a row nothing is sent (5 unless set, at least 1),
    /// and for how long (500 ms unless set). Then one question is let through: an answer to it
    /// opens the way again, no answer is another pause.
    ///
    /// A failure is a connection that cannot be made, or a question without an answer within
    /// [`Options::breaker_timeout`].
    #[must_use]
    pub fn breaker(self, failures: u32, pause: Duration) -> Self {
        Self { breaker_failures: failures.max(1), breaker_pause: pause, ..self }
    }

    /// How long the server may take for an answer before that is a failure of the server. A
    /// question whose own deadline is shorter fails for whoever asked, and says nothing of the
    /// server before this time is over; one whose deadline is longer is waited for.
    ///
    /// Unless set it is the longest that callers wait: the deadline of these options, or what
    /// [`Store::will_wait`](tollgate::Store::will_wait) was told, if that is longer.
    #[must_use]
    pub fn breaker_timeout(self, timeout: Duration) -> Self {
        Self { breaker_timeout: Some(timeout), ..self }
    }

    /// How many scripts are made that have the numbers of their limits written in; 1,000 unless
    /// set. A set of limits has one for each way to ask (a check, a peek, a part, with a request
    /// id), and beside it one of several questions. Each is some 14 kB that the server keeps until
    /// it ends. Beyond it limits of one shape
    /// (the same strategies in the same order) share a script that takes their numbers as
    /// arguments: a little slower, and not asked together with others.
    ///
    /// Limits that are made up as they come, one for each tenant or by callers, so never fill a
    /// server.
    #[must_use]
    pub fn scripts(self, most: usize) -> Self {
        Self { scripts: most, ..self }
    }

    /// Certificates of authorities (PEM, one or several) that are trusted for TLS instead of
    /// this machine's.
    #[must_use]
    pub fn authorities(self, pem: impl Into<Vec<u8>>) -> Self {
        Self { authorities: Some(pem.into()), ..self }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.address {
            Address::Tcp { tls: false, .. } => "redis",
            Address::Tcp { tls: true, .. } => "rediss",
            Address::Unix(_) => "redis+unix",
        };
        write!(f, "{scheme}://")?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        write!(f, "{}", self.address)?;
        match (self.database, &self.address) {
            (0, _) => Ok(()),
            (database, Address::Tcp { .. }) => write!(f, "/{database}"),
            (database, Address::Unix(_)) => write!(f, "?db={database}"),
        }
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

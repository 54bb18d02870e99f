//! The limits on connections, and the reasons why the service closes some.

use core::time::Duration;

/// The limits on connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Bounds {
    /// The most open connections. When all are in use, a new one replaces the connection that has
    /// been idle longest, or else the one that has sent half of a request. If every connection
    /// awaits its response, the new one is closed.
    pub connections: usize,
    /// The most connections of one address; `None` for no separate limit. Behind a proxy all
    /// clients share the proxy's address.
    pub per_address: Option<usize>,
    /// The maximum number of bytes that are buffered for request bodies and long responses: 64 MiB
    /// by default. Requests that need more are answered with 503.
    pub buffers: usize,
    /// The longest time without a byte of a request: 60 s by default.
    pub idle: Duration,
    /// The longest time from the first to the last byte of a request head, or for a TLS handshake:
    /// 10 s by default.
    pub head: Duration,
    /// The longest time from a request head to the end of its body: 10 s by default.
    pub body: Duration,
    /// The longest time in which a client takes the next 64 KiB, or the rest, of a response: 10 s
    /// by default.
    pub write: Duration,
    /// How long after an answer a reset of the connection still says that nobody has read it:
    /// 250 ms by default, longer than a way forth and back over most networks. Such a hold is given
    /// back. Programs that reset connections which they have read from, as HAProxy does with idle
    /// ones, mostly do so later.
    pub grace: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        let usual = Duration::from_secs(10);
        Self {
            connections: 10_000,
            per_address: None,
            buffers: 64 * 1_024 * 1_024,
            idle: Duration::from_secs(60),
            head: usual,
            body: usual,
            write: usual,
            grace: Duration::from_millis(250),
        }
    }
}

/// Why the service closed a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Closed {
    /// It was idle for too long.
    Idle,
    /// Its request head took too long.
    Head,
    /// Its request body took too long.
    Body,
    /// Its client read the response too slowly, or not at all.
    Write,
    /// It made room for a new connection, or none could.
    Full,
    /// Its address already had the most connections allowed.
    Address,
}

impl Closed {
    /// Every reason.
    pub const ALL: [Self; 6] =
        [Self::Idle, Self::Head, Self::Body, Self::Write, Self::Full, Self::Address];

    /// The reason in lower case, for labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Head => "head",
            Self::Body => "body",
            Self::Write => "write",
            Self::Full => "full",
            Self::Address => "address",
        }
    }
}

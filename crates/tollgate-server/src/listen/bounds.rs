//! What connections may take, and why the service closed some.

use core::time::Duration;

/// What a connection may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Bounds {
    /// How many connections are open at once; beyond that those make room that have been idle
    /// longest, then those that have sent half of a request. Where all are being answered, the new
    /// one is closed.
    pub connections: usize,
    /// How many of them one address has; none for as many as there are. Behind a proxy all clients
    /// have the proxy's address.
    pub per_address: Option<usize>,
    /// How many bytes of bodies that are on their way and of long answers are held at once: 64 MiB.
    /// Beyond it requests that need more are answered with 503.
    pub buffers: usize,
    /// Without a byte of a request: 60 s.
    pub idle: Duration,
    /// From the first byte of a head to its last, a TLS handshake too: 10 s.
    pub head: Duration,
    /// From a head to the end of its body: 10 s.
    pub body: Duration,
    /// Without taking the next 64 KiB of a response, or what is left of it: 10 s.
    pub write: Duration,
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
        }
    }
}

/// Why connections were closed by the service.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Closed {
    /// Idle for too long.
    Idle,
    /// A head that took too long.
    Head,
    /// A body that took too long.
    Body,
    /// A client that did not read, or too slowly.
    Write,
    /// It made room for another.
    Full,
    /// Its address had as many as one may have.
    Address,
}

impl Closed {
    /// Every reason.
    pub const ALL: [Self; 6] =
        [Self::Idle, Self::Head, Self::Body, Self::Write, Self::Full, Self::Address];

    /// In small letters, for labels.
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

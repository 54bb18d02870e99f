//! The modes of a proxy for connections and traffic, and its counters.

use std::time::Duration;

/// How the connection is, until told otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Mode {
    /// Everything passes as it is.
    Pass,
    /// Each reply arrives later by a time between these two, in its order. Replies that are under
    /// way together are late together: it is a latency, not a throughput.
    Delay {
        /// The shortest delay.
        least: Duration,
        /// The longest.
        most: Duration,
    },
    /// Nothing moves either way. With the next mode everything arrives, late: a partition that
    /// heals, after which the server does what its clients have long given up.
    Stall,
    /// Bytes are lost both ways, without a report to anybody. A connection that lost something, or
    /// was made meanwhile, stays silent for good; others survive.
    BlackHole,
    /// Replies arrive byte by byte, with this pause after each.
    Dribble {
        /// The pause.
        pause: Duration,
    },
}

/// The trick for one request or its reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Trick {
    /// The connection is cut and the request never reaches the server.
    LoseRequest,
    /// The server does the request and answers; then the connection is cut before the reply.
    LoseReply,
    /// The first half of the reply arrives; then the connection is cut.
    HalfReply,
    /// The reply arrives twice.
    Duplicate,
    /// Before the reply come bytes that are no RESP.
    Garbage,
    /// The reply goes to another connection, whose reply comes here: of two requests with this
    /// trick, on two connections, each gets the other's reply. The first waits for the second.
    Swap,
}

/// The traffic so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Seen {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Those that are open.
    pub open: usize,
    /// Requests that were forwarded.
    pub requests: u64,
    /// Replies that were delivered, whole.
    pub replies: u64,
    /// Requests that met a [`Trick`].
    pub tricks: u64,
}

//! An event loop that is not tokio's, and carries connections: one of another language, whose
//! threads would otherwise wait for one of tokio's at each call.

#[cfg(unix)]
use core::fmt;
#[cfg(unix)]
use core::pin::Pin;
#[cfg(unix)]
use std::os::fd::OwnedFd;
#[cfg(unix)]
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

#[cfg(unix)]
mod turns;

#[cfg(unix)]
pub use self::turns::Turns;

/// A connected socket, as a loop reads and writes it.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A task that drives one connection.
#[cfg(unix)]
pub type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A loop that carries connections ([`Options::event_loop`](crate::Options::event_loop)).
///
/// Names are resolved, connections made and timers kept by the tokio runtime on which the store is
/// used. The loop does the rest: it knows when a socket can be read or written, and polls the tasks
/// that drive connections.
#[cfg(unix)]
pub trait EventLoop: fmt::Debug + Send + Sync {
    /// Takes over a connected socket, which does not block. Any thread may call it.
    fn adopt(&self, socket: OwnedFd) -> Box<dyn Stream>;

    /// Polls a task until it ends. A loop that has ended drops it. Any thread may call it.
    fn spawn(&self, driver: Driver);
}

/// A loop among options. Options are equal when their loops are one.
#[cfg(unix)]
#[derive(Clone, Debug)]
pub(crate) struct SharedLoop(pub(crate) Arc<dyn EventLoop>);

#[cfg(unix)]
impl PartialEq for SharedLoop {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(unix)]
impl Eq for SharedLoop {}

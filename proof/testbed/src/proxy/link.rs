//! A connection through a proxy, which either side or the proxy ends.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::mode::Trick;

/// A connection of a client, and ours to the server for it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: u64,
    pub(super) client: TcpStream,
    pub(super) server: TcpStream,
    /// The trick for each reply that the server has yet to send, in their order.
    pub(super) owed: Mutex<VecDeque<Option<Trick>>>,
    /// Something of it was lost in a black hole: nothing may pass any more.
    pub(super) silent: AtomicBool,
    pub(super) gone: AtomicBool,
}

impl Link {
    pub(super) fn cut(&self) {
        self.gone.store(true, Ordering::SeqCst);
        // It may have ended from the other side already.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }
}

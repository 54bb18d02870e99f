//! What a loop of asyncio carries: connections to Redis, and the questions on them. The loop's
//! thread polls them, so no other thread has to be woken for a question or for its answer.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use tokio::runtime::Handle;
use tollgate_redis::event_loop::{Driver, EventLoop, Stream, Turns};

use crate::socket::Sockets;

/// Connections and questions of one loop.
#[derive(Debug)]
pub(crate) struct Carrier {
    turns: Turns,
    pub(crate) sockets: Arc<Sockets>,
}

impl Carrier {
    /// `bell` is written to when the loop must have a turn.
    pub(crate) fn new(runtime: Handle, bell: UnixStream) -> Self {
        let ring = move || {
            // A full socket has told it already.
            let _ = (&bell).write(&[1]);
        };
        Self { turns: Turns::new(runtime, ring), sockets: Arc::default() }
    }

    /// Adds a question, which the next turn begins.
    pub(crate) fn ask(&self, question: impl Future<Output = ()> + Send + 'static) {
        self.turns.ask(question);
    }

    /// Tells the loop to have a turn soon. Any thread may call it.
    pub(crate) fn ring(&self) {
        self.turns.ring();
    }

    /// Goes on with all that can go on now, after what `event` tells the sockets. The loop's thread
    /// calls it.
    pub(crate) fn turn(&self, event: impl FnOnce(&Sockets)) {
        self.turns.turn(|| event(&self.sockets));
    }

    /// Whether the loop has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.turns.is_closed()
    }

    /// Drops what is under way, and closes all connections.
    pub(crate) fn close(&self) {
        self.turns.close(|| self.sockets.close());
    }
}

impl EventLoop for Carrier {
    fn adopt(&self, socket: OwnedFd) -> Box<dyn Stream> {
        let socket = self.sockets.adopt(socket);
        self.ring();
        Box::new(socket)
    }

    fn spawn(&self, driver: Driver) {
        self.turns.spawn(driver);
    }
}

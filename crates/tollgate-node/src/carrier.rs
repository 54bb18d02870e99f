//! What the event loop of a thread of JavaScript carries: connections to Redis, and the questions
//! on them. That thread polls them, so no other thread is woken for a question or its answer.

use core::time::Duration;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::runtime::Handle;
use tollgate_redis::event_loop::{Driver, EventLoop, Stream, Turns};

use crate::socket::{Change, Sockets};

/// After so long without a turn, a connection may have ended unseen: what came is read first.
const LONG_AGO: Duration = Duration::from_millis(100);

/// A lock that no panic spoils.
pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connections and questions of one thread.
#[derive(Debug)]
pub(crate) struct Carrier {
    turns: Turns,
    sockets: Arc<Sockets>,
    last_turn: Mutex<Instant>,
}

impl Carrier {
    /// `bell` is called, from any thread, when the event loop must have a turn.
    pub(crate) fn new(runtime: Handle, bell: impl Fn() + Send + Sync + 'static) -> Self {
        let turns = Turns::new(runtime, bell);
        let sockets = Arc::new(Sockets::new(turns.waker().clone()));
        Self { turns, sockets, last_turn: Mutex::new(Instant::now()) }
    }

    /// Adds a question, which the next turn begins.
    pub(crate) fn ask(&self, question: impl Future<Output = ()> + Send + 'static) {
        self.turns.ask(question);
    }

    /// Tells the event loop to have a turn soon. Any thread may call it.
    pub(crate) fn ring(&self) {
        self.turns.ring();
    }

    /// Goes on with all that can go on now, after what `event` tells the sockets. The thread of
    /// JavaScript calls it.
    pub(crate) fn turn(&self, event: impl FnOnce(&Sockets)) {
        // The time of a question may have come while the loop was busy, and its answer too.
        let now = Instant::now();
        let last = core::mem::replace(&mut *lock(&self.last_turn), now);
        let is_late = self.turns.is_told() || now.duration_since(last) > LONG_AGO;
        self.turns.turn(|| {
            event(&self.sockets);
            if is_late {
                self.sockets.may_read_all();
            }
        });
    }

    /// The next thing that JavaScript is to do for a socket.
    pub(crate) fn change(&self) -> Option<Change> {
        self.sockets.change()
    }

    /// Whether there is one.
    pub(crate) fn has_changes(&self) -> bool {
        self.sockets.has_changes()
    }

    /// Drops what is under way, and closes all connections. The thread ends.
    pub(crate) fn close(&self) {
        self.turns.close(|| self.sockets.close());
    }
}

impl EventLoop for Carrier {
    fn adopt(&self, socket: OwnedFd) -> Box<dyn Stream> {
        Box::new(self.sockets.adopt(socket))
    }

    fn spawn(&self, driver: Driver) {
        self.turns.spawn(driver);
    }
}

//! The parts that a loop of another language carries: connections to Redis, and the questions on
//! them. The loop's thread polls them, so no other thread is woken for a question or its answer.

use core::time::Duration;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::runtime::Handle;
use tollgate_redis::event_loop::{Driver, EventLoop, Stream, Turns};

use crate::lock::lock;
use crate::socket::{Rest, Sockets};

/// After this time without a turn, a connection may have ended unseen: received bytes are read
/// first.
const LONG_AGO: Duration = Duration::from_millis(100);

/// Connections and questions of one loop.
#[derive(Debug)]
pub struct Carrier {
    turns: Turns,
    sockets: Arc<Sockets>,
    last_turn: Mutex<Instant>,
}

impl Carrier {
    /// `bell` is called, from any thread, when the loop must have a turn. `rest` sets the treatment
    /// of bytes that a socket does not take immediately.
    #[must_use]
    pub fn new(runtime: Handle, bell: impl Fn() + Send + Sync + 'static, rest: Rest) -> Self {
        let turns = Turns::new(runtime, bell);
        let sockets = Arc::new(Sockets::new(turns.waker().clone(), rest));
        Self { turns, sockets, last_turn: Mutex::new(Instant::now()) }
    }

    /// Adds a question, which the next turn begins.
    pub fn ask(&self, question: impl Future<Output = ()> + Send + 'static) {
        self.turns.ask(question);
    }

    /// Tells the loop to have a turn soon. Any thread may call it.
    pub fn ring(&self) {
        self.turns.ring();
    }

    /// Goes on with all that can go on now, after what `event` tells the sockets. The loop's thread
    /// calls it.
    pub fn turn(&self, event: impl FnOnce(&Sockets)) {
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

    /// The sockets, and the loop's tasks for them.
    pub fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// Whether the loop has ended.
    pub fn is_closed(&self) -> bool {
        self.turns.is_closed()
    }

    /// Drops what is under way, and closes all connections. The loop ends.
    pub fn close(&self) {
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

//! What the event loop of a thread of JavaScript carries: connections to Redis, and the questions
//! on them. That thread polls them, so no other thread is woken for a question or its answer.

use core::fmt;
use core::pin::Pin;
use core::sync::atomic::{AtomicU8, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::Instant;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::runtime::Handle;
use tollgate_redis::event_loop::{Driver, EventLoop, Stream};

use crate::socket::{Change, Sockets};

/// After so long without a turn, a connection may have ended unseen: what came is read first.
const LONG_AGO: Duration = Duration::from_millis(100);

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A lock that no panic spoils.
pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connections and questions of one thread.
pub(crate) struct Carrier {
    /// The runtime that keeps timers and makes connections.
    runtime: Handle,
    signal: Arc<Signal>,
    waker: Waker,
    sockets: Arc<Sockets>,
    /// What was spawned since the last turn; None when the thread has ended.
    spawned: Mutex<Option<Tasks<Vec<Task>>>>,
    tasks: Mutex<Tasks<FuturesUnordered<Task>>>,
    last_turn: Mutex<Instant>,
}

/// Connections come first: an answer that is there is read before its question looks at the time.
#[derive(Debug, Default)]
struct Tasks<T> {
    connections: T,
    questions: T,
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carrier").field("signal", &self.signal).finish_non_exhaustive()
    }
}

impl Carrier {
    /// `bell` is called, from any thread, when the event loop must have a turn.
    pub(crate) fn new(runtime: Handle, bell: impl Fn() + Send + Sync + 'static) -> Self {
        let signal = Arc::new(Signal { state: AtomicU8::new(IDLE), bell: Box::new(bell) });
        let waker = Waker::from(Arc::clone(&signal));
        Self {
            runtime,
            signal,
            sockets: Arc::new(Sockets::new(waker.clone())),
            waker,
            spawned: Mutex::new(Some(Tasks { connections: Vec::new(), questions: Vec::new() })),
            tasks: Mutex::default(),
            last_turn: Mutex::new(Instant::now()),
        }
    }

    /// Adds a question, which the next turn begins.
    pub(crate) fn ask(&self, question: impl Future<Output = ()> + Send + 'static) {
        if let Some(spawned) = lock(&self.spawned).as_mut() {
            spawned.questions.push(Box::pin(question));
        }
    }

    /// Tells the event loop to have a turn soon. Any thread may call it.
    pub(crate) fn ring(&self) {
        self.waker.wake_by_ref();
    }

    /// Goes on with all that can go on now, after what `event` tells the sockets. The thread of
    /// JavaScript calls it.
    pub(crate) fn turn(&self, event: impl FnOnce(&Sockets)) {
        let _entered = self.runtime.enter();
        // The time of a question may have come while the loop was busy, and its answer too.
        let now = Instant::now();
        let last = core::mem::replace(&mut *lock(&self.last_turn), now);
        let is_told = self.signal.is_told();
        // What is woken from here on is part of the turn, and rings for none.
        self.signal.begin();
        event(&self.sockets);
        if is_told || now.duration_since(last) > LONG_AGO {
            self.sockets.may_read_all();
        }
        let mut cx = Context::from_waker(&self.waker);
        let mut tasks = lock(&self.tasks);
        loop {
            self.signal.begin();
            if let Some(spawned) = lock(&self.spawned).as_mut() {
                tasks.connections.extend(spawned.connections.drain(..));
                tasks.questions.extend(spawned.questions.drain(..));
            }
            while let Poll::Ready(Some(())) = tasks.connections.poll_next_unpin(&mut cx) {}
            // A connection has more to do: it yields in between.
            if self.signal.is_woken() {
                continue;
            }
            while let Poll::Ready(Some(())) = tasks.questions.poll_next_unpin(&mut cx) {}
            if self.signal.end() {
                return;
            }
        }
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
        let _entered = self.runtime.enter();
        let spawned = lock(&self.spawned).take();
        self.sockets.close();
        drop(spawned);
        let tasks = core::mem::take(&mut *lock(&self.tasks));
        drop(tasks);
    }
}

impl EventLoop for Carrier {
    fn adopt(&self, socket: OwnedFd) -> Box<dyn Stream> {
        Box::new(self.sockets.adopt(socket))
    }

    fn spawn(&self, driver: Driver) {
        let spawned = match lock(&self.spawned).as_mut() {
            Some(spawned) => {
                spawned.connections.push(driver);
                None
            }
            // Dropped below, since its end may ask whether the thread has ended.
            None => Some(driver),
        };
        drop(spawned);
        self.ring();
    }
}

/// Nothing to do.
const IDLE: u8 = 0;
/// The loop was told to have a turn.
const TOLD: u8 = 1;
/// A turn is under way.
const TURNING: u8 = 2;
/// Something was woken during the turn.
const AGAIN: u8 = 3;

/// Tells the loop to have a turn: by one call, however much is woken, and by none during a turn.
struct Signal {
    state: AtomicU8,
    bell: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Signal {
    fn is_told(&self) -> bool {
        self.state.load(Ordering::SeqCst) == TOLD
    }

    fn begin(&self) {
        self.state.store(TURNING, Ordering::SeqCst);
    }

    /// Whether something was woken during the turn.
    fn is_woken(&self) -> bool {
        self.state.load(Ordering::SeqCst) == AGAIN
    }

    /// Ends the turn, unless something was woken during it.
    fn end(&self) -> bool {
        let (from, to) = (TURNING, IDLE);
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let next = |state| match state {
            IDLE => Some(TOLD),
            TURNING => Some(AGAIN),
            _ => None,
        };
        let before = self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        if before == Ok(IDLE) {
            (self.bell)();
        }
    }
}

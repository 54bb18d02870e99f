//! The turns of a loop: the tasks that it polls, and their wake-ups.

use core::fmt;
use core::sync::atomic::{AtomicU8, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::runtime::Handle;

use super::Driver;

/// The connections that a loop carries, and the questions on them. The loop's thread polls them, so
/// no other thread is woken for a question or its answer.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use tollgate_redis::event_loop::Turns;
///
/// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let (rung, asked) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
/// let bell = Arc::clone(&rung);
/// let turns = Turns::new(runtime.handle().clone(), move || {
///     bell.fetch_add(1, Ordering::Relaxed);
/// });
/// let count = Arc::clone(&asked);
/// turns.ask(async move {
///     count.fetch_add(1, Ordering::Relaxed);
/// });
/// turns.turn(|| ());
/// assert_eq!(asked.load(Ordering::Relaxed), 1, "a turn begins what was asked");
/// turns.ring();
/// turns.ring();
/// assert_eq!(rung.load(Ordering::Relaxed), 1, "one turn does for both");
/// turns.turn(|| turns.ring());
/// assert_eq!(rung.load(Ordering::Relaxed), 1, "what is woken by the event is part of the turn");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Turns {
    /// The runtime that keeps timers and makes connections.
    runtime: Handle,
    signal: Arc<Signal>,
    waker: Waker,
    /// The tasks that were spawned since the last turn; None when the loop has ended.
    spawned: Mutex<Option<Tasks<Vec<Driver>>>>,
    tasks: Mutex<Tasks<FuturesUnordered<Driver>>>,
}

/// Connections come first: an answer that is there is read before its question looks at the time.
#[derive(Default)]
struct Tasks<T> {
    connections: T,
    questions: T,
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").field("state", &self.signal.state).finish_non_exhaustive()
    }
}

impl Turns {
    /// The turns of a new loop. `bell` is called, from any thread, when the loop must have a turn:
    /// once, however much is woken before it.
    #[must_use]
    pub fn new(runtime: Handle, bell: impl Fn() + Send + Sync + 'static) -> Self {
        let signal = Arc::new(Signal { state: AtomicU8::new(IDLE), bell: Box::new(bell) });
        Self {
            runtime,
            waker: Waker::from(Arc::clone(&signal)),
            signal,
            spawned: Mutex::new(Some(Tasks { connections: Vec::new(), questions: Vec::new() })),
            tasks: Mutex::default(),
        }
    }

    /// The waker that rings.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Tells the loop to have a turn soon. Any thread may call it.
    pub fn ring(&self) {
        self.waker.wake_by_ref();
    }

    /// Whether the loop was asked for a turn and has not had it.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.signal.state.load(Ordering::SeqCst) == TOLD
    }

    /// Adds a question, which the next turn begins. A loop that has ended drops it.
    pub fn ask(&self, question: impl Future<Output = ()> + Send + 'static) {
        if let Some(spawned) = lock(&self.spawned).as_mut() {
            spawned.questions.push(Box::pin(question));
        }
    }

    /// Adds a task that drives a connection ([`EventLoop::spawn`](super::EventLoop::spawn)), and
    /// rings. A loop that has ended drops it.
    pub fn spawn(&self, driver: Driver) {
        let spawned = match lock(&self.spawned).as_mut() {
            Some(spawned) => {
                spawned.connections.push(driver);
                None
            }
            // Dropped below, since its end may ask whether the loop has ended.
            None => Some(driver),
        };
        drop(spawned);
        self.ring();
    }

    /// Goes on with all that can go on now, after `event` has told sockets what the loop saw. The
    /// loop's thread calls it.
    pub fn turn(&self, event: impl FnOnce()) {
        let _entered = self.runtime.enter();
        // A task that wakes from here on is part of the turn, and does not ring.
        self.signal.begin();
        event();
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

    /// Whether the loop has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        lock(&self.spawned).is_none()
    }

    /// Ends the loop: drops what is under way, after `sockets` has closed them.
    pub fn close(&self, sockets: impl FnOnce()) {
        let _entered = self.runtime.enter();
        let spawned = lock(&self.spawned).take();
        sockets();
        drop(spawned);
        let tasks = core::mem::take(&mut *lock(&self.tasks));
        drop(tasks);
    }
}

/// A lock that no panic spoils.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nothing to do.
const IDLE: u8 = 0;
/// The loop was asked for a turn.
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

impl Signal {
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

//! What a loop of asyncio carries: connections to Redis, and the questions on them. The loop's
//! thread polls them, so no other thread has to be woken for a question or for its answer.

use core::fmt;
use core::pin::Pin;
use core::sync::atomic::{AtomicU8, Ordering};
use core::task::{Context, Poll, Waker};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::task::Wake;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::runtime::Handle;
use tollgate_redis::event_loop::{Driver, EventLoop, Stream};

use crate::socket::{Sockets, lock};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Connections and questions of one loop.
pub(crate) struct Carrier {
    /// The runtime that keeps timers and makes connections.
    runtime: Handle,
    signal: Arc<Signal>,
    waker: Waker,
    pub(crate) sockets: Arc<Sockets>,
    /// What was spawned since the last turn; None when the loop has ended.
    spawned: Mutex<Option<Tasks<Vec<Task>>>>,
    tasks: Mutex<Tasks<FuturesUnordered<Task>>>,
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
    /// `bell` is written to when the loop must have a turn.
    pub(crate) fn new(runtime: Handle, bell: UnixStream) -> Self {
        let signal = Arc::new(Signal { state: AtomicU8::new(IDLE), bell });
        Self {
            runtime,
            waker: Waker::from(Arc::clone(&signal)),
            signal,
            sockets: Arc::default(),
            spawned: Mutex::new(Some(Tasks { connections: Vec::new(), questions: Vec::new() })),
            tasks: Mutex::default(),
        }
    }

    /// Adds a question, which the next turn begins.
    pub(crate) fn ask(&self, question: impl Future<Output = ()> + Send + 'static) {
        if let Some(spawned) = lock(&self.spawned).as_mut() {
            spawned.questions.push(Box::pin(question));
        }
    }

    /// Tells the loop to have a turn soon. Any thread may call it.
    pub(crate) fn ring(&self) {
        self.signal.wake_by_ref();
    }

    /// Goes on with all that can go on now. The loop's thread calls it.
    pub(crate) fn turn(&self) {
        let _entered = self.runtime.enter();
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
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.spawned).is_none()
    }

    /// Drops what is under way, and closes all connections.
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
        let socket = self.sockets.adopt(socket);
        self.ring();
        Box::new(socket)
    }

    fn spawn(&self, driver: Driver) {
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
}

/// Nothing to do.
const IDLE: u8 = 0;
/// The loop was told to have a turn.
const TOLD: u8 = 1;
/// A turn is under way.
const TURNING: u8 = 2;
/// Something was woken during the turn.
const AGAIN: u8 = 3;

/// Tells the loop to have a turn: by one byte, however much is woken, and by none during a turn.
#[derive(Debug)]
struct Signal {
    state: AtomicU8,
    bell: UnixStream,
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
            // A full socket has told it already.
            let _ = (&self.bell).write(&[1]);
        }
    }
}

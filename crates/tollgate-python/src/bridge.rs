//! How answers get to a loop of asyncio. Its own thread asks Redis, by the carrier; threads of the
//! runtime ask files, and ring. No thread of the runtime ever touches an object of Python.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tollgate::Error;

use crate::carrier::Carrier;
use crate::reply::Reply;
use crate::socket::{Change, Sockets, lock};
use crate::spin::{self, Spin};
use crate::{error, runtime};

/// After so long without a turn, a connection may have ended unseen: what came is read first.
const LONG_AGO: Duration = Duration::from_millis(100);

type Answer = (u64, Result<Reply, Error>);

/// What a running question needs to hand its answer over.
#[derive(Debug)]
pub(crate) struct Sender {
    number: u64,
    answers: Arc<Mutex<Vec<Answer>>>,
    carrier: Arc<Carrier>,
}

impl Sender {
    /// Hands the answer over. A loop that was closed meanwhile never looks.
    pub(crate) fn send(self, answer: Result<Reply, Error>) {
        lock(&self.answers).push((self.number, answer));
        self.carrier.ring();
    }
}

/// The futures that wait for answers.
#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    futures: HashMap<u64, Py<PyAny>>,
}

/// What one loop of asyncio waits for. The loop calls `drain` when `fileno` can be read.
#[pyclass(frozen, module = "tollgate._tollgate")]
#[derive(Debug)]
pub(crate) struct Bridge {
    pid: u32,
    waiting: Mutex<Waiting>,
    answers: Arc<Mutex<Vec<Answer>>>,
    carrier: Arc<Carrier>,
    reader: UnixStream,
    /// Whether the loop will have a turn after what it does now.
    will_turn: AtomicBool,
    last_turn: Mutex<Instant>,
    spin: Mutex<Spin>,
}

impl Bridge {
    /// What the loop carries.
    pub(crate) fn carrier(&self) -> &Arc<Carrier> {
        &self.carrier
    }

    /// The number of the answer that `future` waits for, and whether it is the only one.
    fn wait(&self, future: Bound<'_, PyAny>) -> (u64, bool) {
        let mut waiting = lock(&self.waiting);
        let number = waiting.next;
        waiting.next += 1;
        waiting.futures.insert(number, future.unbind());
        (number, waiting.futures.len() == 1)
    }

    /// A sender for the answer that `future` waits for, for another thread.
    pub(crate) fn sender(&self, future: Bound<'_, PyAny>) -> Sender {
        let (number, _) = self.wait(future);
        let (answers, carrier) = (Arc::clone(&self.answers), Arc::clone(&self.carrier));
        Sender { number, answers, carrier }
    }

    /// Asks in the loop's thread. The only question goes out at once. Others go out together, after
    /// what the loop does now.
    pub(crate) fn ask(
        slf: &Bound<'_, Self>,
        future: Bound<'_, PyAny>,
        question: impl Future<Output = Result<Reply, Error>> + Send + 'static,
    ) -> PyResult<()> {
        let this = slf.get();
        let (number, is_only) = this.wait(future);
        let answers = Arc::clone(&this.answers);
        this.carrier.ask(async move {
            let answer = question.await;
            lock(&answers).push((number, answer));
        });
        let may_wait = lock(&this.spin).may_wait(is_only);
        if is_only {
            let now = Instant::now();
            let is_late = now.duration_since(*lock(&this.last_turn)) > LONG_AGO;
            this.carrier.turn(|sockets| {
                if is_late {
                    sockets.may_read_all();
                }
            });
            if may_wait {
                this.wait_in_place(now);
            }
            return Self::give(slf);
        }
        if !this.will_turn.swap(true, Ordering::Relaxed) {
            let turn = slf.getattr(intern!(slf.py(), "turn"))?;
            running_loop(slf.py())?.call_method1(intern!(slf.py(), "call_soon"), (turn,))?;
        }
        Ok(())
    }

    /// Looks for a short time whether the answer comes.
    fn wait_in_place(&self, from: Instant) {
        while lock(&self.answers).is_empty() {
            if from.elapsed() > spin::LONGEST {
                return lock(&self.spin).in_vain();
            }
            self.carrier.turn(Sockets::may_read_all);
        }
        lock(&self.spin).came();
    }

    /// The loop has its turn: all that can go on does, after what `event` tells the sockets.
    fn go_on(slf: &Bound<'_, Self>, event: impl FnOnce(&Sockets)) -> PyResult<()> {
        lock(&slf.get().spin).loop_ran();
        slf.get().carrier.turn(event);
        Self::give(slf)
    }

    /// Gives the answers that came to those who wait for them.
    fn give(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        *lock(&this.last_turn) = Instant::now();
        let answers = core::mem::take(&mut *lock(&this.answers));
        for (number, answer) in answers {
            let future = lock(&this.waiting).futures.remove(&number);
            let Some(future) = future.map(|it| it.into_bound(py)) else { continue };
            // Whoever waited was cancelled meanwhile.
            if future.call_method0(intern!(py, "done"))?.is_truthy()? {
                continue;
            }
            match answer.map_err(|it| error::raised(py, &it)).and_then(|it| it.into_object(py)) {
                Ok(reply) => future.call_method1(intern!(py, "set_result"), (reply,))?,
                Err(error) => {
                    future.call_method1(intern!(py, "set_exception"), (error.into_value(py),))?
                }
            };
        }
        this.carrier.sockets.changes().into_iter().try_for_each(|it| Self::change(slf, it))
    }

    /// Has the loop watch a socket, or watch it no more.
    fn change(slf: &Bound<'_, Self>, change: Change) -> PyResult<()> {
        let py = slf.py();
        let running = running_loop(py)?;
        match change {
            Change::Read(number) => {
                let callback = slf.getattr(intern!(py, "readable"))?;
                running.call_method1(intern!(py, "add_reader"), (number, callback, number))?;
            }
            Change::Write(number) => {
                let callback = slf.getattr(intern!(py, "writable"))?;
                running.call_method1(intern!(py, "add_writer"), (number, callback, number))?;
            }
            Change::Close(socket) => {
                running.call_method1(intern!(py, "remove_reader"), (socket.number(),))?;
                running.call_method1(intern!(py, "remove_writer"), (socket.number(),))?;
            }
        }
        Ok(())
    }
}

#[pymethods]
impl Bridge {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        let (reader, bell) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        let carrier = Arc::new(Carrier::new(runtime::get(py)?.handle().clone(), bell));
        Ok(Self {
            pid: std::process::id(),
            waiting: Mutex::default(),
            answers: Arc::default(),
            carrier,
            reader,
            will_turn: AtomicBool::new(false),
            last_turn: Mutex::new(Instant::now()),
            spin: Mutex::default(),
        })
    }

    /// Whether this process made it. A forked child makes its own.
    fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }

    /// How many answers came while they were waited for in place, and how many did not.
    fn waits(&self) -> (u64, u64) {
        lock(&self.spin).total
    }

    fn fileno(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// The carrier rang.
    fn drain(slf: &Bound<'_, Self>) -> PyResult<()> {
        // A forked child must not read the bytes that are its parent's.
        if !slf.get().is_ours() {
            return Ok(());
        }
        // First the bytes, then a turn: what is woken between them rings again, or is done now.
        let mut bytes = [0_u8; 64];
        let _ = (&slf.get().reader).read(&mut bytes);
        // The time of a question may have come while the loop was busy, and its answer too.
        Self::go_on(slf, Sockets::may_read_all)
    }

    /// A socket can be read.
    fn readable(slf: &Bound<'_, Self>, number: RawFd) -> PyResult<()> {
        if !slf.get().is_ours() {
            return Ok(());
        }
        Self::go_on(slf, |sockets| sockets.can_read(number))
    }

    /// A socket can be written.
    fn writable(slf: &Bound<'_, Self>, number: RawFd) -> PyResult<()> {
        if !slf.get().is_ours() {
            return Ok(());
        }
        running_loop(slf.py())?.call_method1(intern!(slf.py(), "remove_writer"), (number,))?;
        Self::go_on(slf, |sockets| sockets.can_write(number))
    }

    /// Questions wait to go out together.
    fn turn(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().will_turn.store(false, Ordering::Relaxed);
        if !slf.get().is_ours() {
            return Ok(());
        }
        Self::go_on(slf, |_| {})
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // In a forked child what the parent's threads have locked stays locked: there it is never
        // dropped.
        if self.is_ours() {
            self.carrier.close();
        } else {
            core::mem::forget(Arc::clone(&self.carrier));
        }
    }
}

/// The loop that runs in this thread.
fn running_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static FUNCTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    FUNCTION.import(py, "asyncio", "get_running_loop")?.call0()
}

//! How answers get to a loop of asyncio. Its own thread asks Redis, by the carrier; threads of the
//! runtime ask files, and ring. No thread of the runtime ever touches an object of Python.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tollgate_binding::{
    Answers, Carrier, Change, Operation, Remote, Rest, Sender, Sockets, lock, runtime,
};

use crate::spin::{self, Spin};
use crate::{error, reply};

/// The futures that wait for answers.
#[derive(Debug, Default)]
struct Waiting {
    next: u32,
    futures: HashMap<u32, Py<PyAny>>,
}

/// The answers that one loop of asyncio waits for. The loop calls `drain` when `fileno` can be
/// read.
#[pyclass(frozen, module = "tollgate_limiter._tollgate")]
#[derive(Debug)]
pub(crate) struct Bridge {
    pid: u32,
    waiting: Mutex<Waiting>,
    answers: Answers<tollgate::Decision<'static>>,
    carrier: Arc<Carrier>,
    reader: UnixStream,
    /// Whether the loop will have a turn after its present one.
    will_turn: AtomicBool,
    spin: Mutex<Spin>,
}

impl Bridge {
    /// The number of the answer that `future` waits for, and whether it is the only one.
    fn wait(&self, future: Bound<'_, PyAny>) -> (u32, bool) {
        let mut waiting = lock(&self.waiting);
        // Nobody waits for so long that a number comes again.
        let number = waiting.next;
        waiting.next = number.wrapping_add(1);
        waiting.futures.insert(number, future.unbind());
        (number, waiting.futures.len() == 1)
    }

    /// Asks, of Redis in the loop's thread. A lone question goes out immediately. Others go out
    /// together, after the loop's present turn.
    pub(crate) fn ask(
        slf: &Bound<'_, Self>,
        future: Bound<'_, PyAny>,
        remote: &Remote,
        operation: Operation,
    ) -> PyResult<()> {
        let this = slf.get();
        let (number, is_only) = this.wait(future);
        let started = remote.start(operation, this.answers.sender(number), &this.carrier);
        started.map_err(|it| error::raised(slf.py(), it))?;
        if remote.is_file() {
            return Ok(());
        }
        let may_wait = lock(&this.spin).may_wait(is_only);
        if is_only {
            let now = Instant::now();
            this.carrier.turn(|_| {});
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

    /// Starts work for `future` whose answer comes from another thread, which rings.
    pub(crate) fn start(
        slf: &Bound<'_, Self>,
        future: Bound<'_, PyAny>,
        start: impl FnOnce(Sender<tollgate::Decision<'static>>, &Arc<Carrier>) -> PyResult<()>,
    ) -> PyResult<()> {
        let this = slf.get();
        let (number, _) = this.wait(future);
        start(this.answers.sender(number), &this.carrier)
    }

    /// Looks for a short time whether the answer comes.
    fn wait_in_place(&self, from: Instant) {
        while self.answers.is_empty() {
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
        for (number, answer) in this.answers.take() {
            let future = lock(&this.waiting).futures.remove(&number);
            let Some(future) = future.map(|it| it.into_bound(py)) else { continue };
            // The waiter was cancelled meanwhile.
            if future.call_method0(intern!(py, "done"))?.is_truthy()? {
                continue;
            }
            let answer = answer.map_err(|it| error::raised(py, it));
            match answer.and_then(|it| reply::object(py, it)) {
                Ok(reply) => future.call_method1(intern!(py, "set_result"), (reply,))?,
                Err(error) => {
                    future.call_method1(intern!(py, "set_exception"), (error.into_value(py),))?
                }
            };
        }
        while let Some(change) = this.carrier.sockets().change() {
            Self::change(slf, change)?;
        }
        Ok(())
    }

    /// Has the loop watch a socket, or watch it no more.
    fn change(slf: &Bound<'_, Self>, change: Change) -> PyResult<()> {
        let py = slf.py();
        let running = running_loop(py)?;
        match change {
            Change::Open(socket) => {
                let callback = slf.getattr(intern!(py, "readable"))?;
                let words = (socket.as_fd().as_raw_fd(), callback, socket.number());
                running.call_method1(intern!(py, "add_reader"), words)?;
            }
            Change::Write(socket, _) => {
                let callback = slf.getattr(intern!(py, "writable"))?;
                let fd = socket.as_fd().as_raw_fd();
                let words = (fd, callback, socket.number(), fd);
                running.call_method1(intern!(py, "add_writer"), words)?;
            }
            Change::Close(socket) => {
                let fd = socket.as_fd().as_raw_fd();
                running.call_method1(intern!(py, "remove_reader"), (fd,))?;
                running.call_method1(intern!(py, "remove_writer"), (fd,))?;
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
        let ring = move || {
            // A full socket has told it already.
            let _ = (&bell).write(&[1]);
        };
        let runtime = runtime().map_err(|it| error::raised(py, it))?;
        let carrier = Arc::new(Carrier::new(runtime.handle().clone(), ring, Rest::Kept));
        Ok(Self {
            pid: std::process::id(),
            waiting: Mutex::default(),
            answers: Answers::default(),
            carrier,
            reader,
            will_turn: AtomicBool::new(false),
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
        // First the bytes, then a turn: a task that wakes between them rings again, or runs now.
        let mut bytes = [0_u8; 64];
        let _ = (&slf.get().reader).read(&mut bytes);
        Self::go_on(slf, |_| {})
    }

    /// A socket can be read.
    fn readable(slf: &Bound<'_, Self>, number: u32) -> PyResult<()> {
        if !slf.get().is_ours() {
            return Ok(());
        }
        Self::go_on(slf, |sockets| sockets.can_read(number))
    }

    /// The socket of a descriptor can be written.
    fn writable(slf: &Bound<'_, Self>, number: u32, fd: RawFd) -> PyResult<()> {
        if !slf.get().is_ours() {
            return Ok(());
        }
        running_loop(slf.py())?.call_method1(intern!(slf.py(), "remove_writer"), (fd,))?;
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

//! How an answer gets from the runtime's thread to a loop of asyncio: a queue, and a socket whose
//! byte wakes the loop. No thread of the runtime ever touches an object of Python.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use tollgate::Error;

use crate::error;
use crate::reply::Reply;

/// Answers that came, with the numbers of their questions.
#[derive(Debug)]
struct Queue {
    answers: Mutex<Vec<(u64, Result<Reply, Error>)>>,
    waker: UnixStream,
}

/// What a running question needs to hand its answer over.
#[derive(Debug)]
pub(crate) struct Sender {
    number: u64,
    queue: Arc<Queue>,
}

impl Sender {
    /// Hands the answer over. A loop that was closed meanwhile never looks.
    pub(crate) fn send(self, answer: Result<Reply, Error>) {
        let was_empty = {
            let mut answers = self.queue.answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.push((self.number, answer));
            answers.len() == 1
        };
        // One byte for all answers until the loop looks. A full socket has woken it already.
        if was_empty {
            let _ = (&self.queue.waker).write(&[1]);
        }
    }
}

/// The answers for one loop of asyncio. The loop calls `drain` when `fileno` can be read.
#[pyclass(frozen, module = "tollgate._tollgate")]
#[derive(Debug)]
pub(crate) struct Bridge {
    pid: u32,
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, Py<PyAny>>>,
    reader: UnixStream,
    queue: Arc<Queue>,
}

impl Bridge {
    /// A sender for the answer that `future` waits for.
    pub(crate) fn sender(&self, future: Bound<'_, PyAny>) -> Sender {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(number, future.unbind());
        Sender { number, queue: Arc::clone(&self.queue) }
    }
}

#[pymethods]
impl Bridge {
    #[new]
    fn new() -> PyResult<Self> {
        let (reader, waker) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        waker.set_nonblocking(true)?;
        let queue = Arc::new(Queue { answers: Mutex::default(), waker });
        let pid = std::process::id();
        Ok(Self { pid, next: AtomicU64::new(0), waiting: Mutex::default(), reader, queue })
    }

    /// Whether this process made it. A forked child makes its own.
    fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }

    fn fileno(&self) -> i32 {
        self.reader.as_raw_fd()
    }

    /// Gives the answers that came to those who wait for them.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        // First the bytes, then the answers: one that comes between them writes another byte, or is
        // taken now.
        let mut bytes = [0_u8; 64];
        let _ = (&self.reader).read(&mut bytes);
        let answers = {
            let mut answers = self.queue.answers.lock().unwrap_or_else(PoisonError::into_inner);
            core::mem::take(&mut *answers)
        };
        for (number, answer) in answers {
            let future = {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                waiting.remove(&number)
            };
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
        Ok(())
    }
}

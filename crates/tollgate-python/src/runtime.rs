//! The runtime in which stores over a network work.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};

/// The runtime of this process, and the process that made it.
///
/// It is never dropped. A thread of it would have to be waited for at the end of the interpreter,
/// and after a fork its threads are not in the child, so that nobody could.
static RUNTIME: Mutex<Option<(u32, &'static Runtime)>> = Mutex::new(None);

/// The runtime, made when it is first needed, and anew in a forked child.
///
/// The caller is attached to the interpreter, so no fork by Python finds the lock taken.
pub(crate) fn get(_attached: Python<'_>) -> PyResult<&'static Runtime> {
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    let pid = std::process::id();
    match *runtime {
        Some((maker, runtime)) if maker == pid => Ok(runtime),
        _ => {
            // One thread carries more calls than Python can make.
            let mut builder = Builder::new_multi_thread();
            let made = builder.worker_threads(1).thread_name("tollgate").enable_all().build();
            let made = made.map_err(|it| PyRuntimeError::new_err(format!("no threads: {it}")))?;
            let made: &'static Runtime = Box::leak(Box::new(made));
            *runtime = Some((pid, made));
            Ok(made)
        }
    }
}

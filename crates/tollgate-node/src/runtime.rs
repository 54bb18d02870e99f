//! The runtime in which stores in a file and over a network work.

use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Runtime};

use crate::error::{self, Result};

/// The runtime of this process, for all threads of JavaScript. It is never dropped: a thread of it
/// would have to be waited for at the end of the process.
static RUNTIME: Mutex<Option<&'static Runtime>> = Mutex::new(None);

/// The runtime, made when it is first needed.
///
/// # Errors
/// The system has no threads left.
pub(crate) fn get() -> Result<&'static Runtime> {
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = *runtime {
        return Ok(runtime);
    }
    // One thread carries more calls than a thread of JavaScript can make.
    let mut builder = Builder::new_multi_thread();
    let made = builder.worker_threads(1).thread_name("tollgate").enable_all().build();
    let made: &'static Runtime =
        Box::leak(Box::new(made.map_err(|it| error::other(format!("no threads: {it}")))?));
    *runtime = Some(made);
    Ok(made)
}

//! The runtime in which stores in a file and over a network work.

use std::sync::Mutex;

use tokio::runtime::{Builder, Runtime};

use crate::failure::{Failure, Result};
use crate::fork::OfProcess;
use crate::lock::lock;

/// The runtime of this process. It is never dropped. A thread of it would have to be waited for at
/// the end of the process, and after a fork its threads are not in the child, so nobody could.
static RUNTIME: Mutex<OfProcess<Runtime>> = Mutex::new(OfProcess::none());

/// The runtime, made when it is first needed, and again in a forked child.
///
/// No fork happens meanwhile, else it would find the lock taken.
///
/// # Errors
/// The system has no threads left.
pub fn runtime() -> Result<&'static Runtime> {
    lock(&RUNTIME).get(|| {
        // One thread carries more calls than a language can make.
        let mut builder = Builder::new_multi_thread();
        let made = builder.worker_threads(1).thread_name("tollgate").enable_all().build();
        made.map_err(|it| Failure::other(format!("no threads: {it}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one() {
        let (first, second) = (runtime().unwrap(), runtime().unwrap());
        assert!(core::ptr::eq(first, second));
        assert_eq!(first.block_on(async { 7 }), 7);
    }
}

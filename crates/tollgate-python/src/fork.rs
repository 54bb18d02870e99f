//! What happens around a fork: files are closed before it. SQLite keeps notes on open files in the
//! memory of the process, which are wrong in a child.
//!
//! `tollgate/__init__.py` has Python call these functions (`os.register_at_fork`).

use core::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard, Weak};

use pyo3::prelude::*;

use crate::remote::Place;

/// Calls to files hold it for reading, a fork for writing.
type Gate = RwLock<()>;

/// The gate of this process, and the process that made it. A child makes its own: nobody could tell
/// the threads which wait at its parent's.
static GATE: Mutex<Option<(u32, &'static Gate)>> = Mutex::new(None);

/// Where files may be open.
static FILES: Mutex<Vec<Weak<Place>>> = Mutex::new(Vec::new());

thread_local! {
    /// The gate, while the process forks.
    static HELD: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// The gate of this process. Whoever waits at it is not attached: a fork needs the GIL.
pub(crate) fn gate(_attached: Python<'_>) -> &'static Gate {
    let mut gate = GATE.lock().unwrap_or_else(PoisonError::into_inner);
    let pid = std::process::id();
    match *gate {
        Some((maker, gate)) if maker == pid => gate,
        _ => {
            let made: &'static Gate = Box::leak(Box::default());
            *gate = Some((pid, made));
            made
        }
    }
}

/// Remembers a place whose file is to be closed before a fork.
pub(crate) fn close_before_fork(_attached: Python<'_>, place: &Arc<Place>) {
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    files.retain(|file| file.strong_count() > 0);
    files.push(Arc::downgrade(place));
}

/// Waits for the calls that are under way, and closes all files. Both sides open them anew.
#[pyfunction]
pub(crate) fn before_fork(py: Python<'_>) {
    let gate = gate(py);
    py.detach(|| {
        let held = gate.write().unwrap_or_else(PoisonError::into_inner);
        HELD.set(Some(held));
    });
    let files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    for place in files.iter().filter_map(Weak::upgrade) {
        place.close();
    }
}

/// Lets calls to files go on.
#[pyfunction]
pub(crate) fn after_fork_in_parent() {
    drop(HELD.take());
}

/// Leaves the parent's gate as it is.
#[pyfunction]
pub(crate) fn after_fork_in_child() {
    core::mem::forget(HELD.take());
}

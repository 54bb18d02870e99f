//! The functions that Python calls around a fork (`os.register_at_fork` in
//! `tollgate_limiter/__init__.py`).

use pyo3::prelude::*;
use tollgate_binding::fork;

/// Waits for the calls that are under way, and closes all files. Both sides open them again.
#[pyfunction]
pub(crate) fn before_fork(py: Python<'_>) {
    py.detach(fork::wait_for_calls());
    fork::close_files();
}

/// Lets calls to files go on.
#[pyfunction]
pub(crate) fn after_fork_in_parent() {
    fork::after_fork_in_parent();
}

/// Leaves the parent's gate as it is.
#[pyfunction]
pub(crate) fn after_fork_in_child() {
    fork::after_fork_in_child();
}

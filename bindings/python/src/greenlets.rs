//! Greenlets of gevent: while one waits for a store, the others of its thread run.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// The thread pool of gevent in which to wait: where it has made the sockets of this process its
/// own. None elsewhere.
pub(crate) fn pool(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let modules = MODULES.get_or_try_init(py, || {
        PyResult::Ok(py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?.unbind())
    })?;
    let Some(monkey) = modules.bind(py).get_item(intern!(py, "gevent.monkey"))? else {
        return Ok(None);
    };
    if !monkey.call_method1(intern!(py, "is_module_patched"), ("socket",))?.is_truthy()? {
        return Ok(None);
    }
    let hub = py.import(intern!(py, "gevent"))?.call_method0(intern!(py, "get_hub"))?;
    hub.getattr(intern!(py, "threadpool")).map(Some)
}

//! The Python package of Tollgate: the engine and its stores, as `tollgate_limiter._tollgate`.
//!
//! Python code in `python/tollgate_limiter` wraps what is here. Users read `docs/python.md`.

mod argument;
mod bridge;
mod clock;
mod decision;
mod error;
mod fork;
mod greenlets;
mod http;
mod limiter;
mod limits;
mod pace;
mod policies;
mod reply;
mod request;
mod ruling;
mod saved;
mod spin;

use pyo3::prelude::*;

/// The native part of the package `tollgate`.
// The locks of this module are held by threads that are attached to the interpreter. Without a
// GIL, a fork could happen while one is held, so the module asks for the GIL.
#[pymodule(gil_used = true)]
fn _tollgate(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<limiter::Limiter>()?;
    module.add_class::<limits::Limits>()?;
    module.add_class::<decision::Decision>()?;
    module.add_class::<decision::LimitReport>()?;
    module.add_class::<request::Request>()?;
    module.add_class::<reply::Charged>()?;
    module.add_class::<reply::Refund>()?;
    module.add_class::<reply::Holding>()?;
    module.add_class::<reply::Settled>()?;
    module.add_class::<clock::ManualClock>()?;
    module.add_class::<bridge::Bridge>()?;
    module.add_class::<pace::Pace>()?;
    module.add_function(wrap_pyfunction!(decision::restored_decision, module)?)?;
    module.add_function(wrap_pyfunction!(reply::restored_hold, module)?)?;
    module.add_class::<policies::Policies>()?;
    module.add_class::<ruling::PolicyRuling>()?;
    module.add_function(wrap_pyfunction!(fork::before_fork, module)?)?;
    module.add_function(wrap_pyfunction!(fork::after_fork_in_parent, module)?)?;
    module.add_function(wrap_pyfunction!(fork::after_fork_in_child, module)?)?;
    module.add_function(wrap_pyfunction!(http::unidentified, module)?)?;
    module.add_function(wrap_pyfunction!(http::wait_of, module)?)?;
    module.add_class::<http::ClientAddress>()
}

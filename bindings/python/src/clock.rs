//! A clock that tests move.

use pyo3::prelude::*;
use tollgate::{Clock as _, Time};

use crate::argument;

/// A clock that only moves when a test moves it.
#[pyclass(frozen, module = "tollgate_limiter")]
#[derive(Debug)]
pub(crate) struct ManualClock(pub(crate) tollgate::ManualClock);

#[pymethods]
impl ManualClock {
    #[new]
    #[pyo3(signature = (at_us=0))]
    fn new(#[pyo3(from_py_with = argument::at_us)] at_us: u64) -> Self {
        Self(tollgate::ManualClock::at_micros(at_us))
    }

    /// Sets the time, in microseconds since 1970. It may go back.
    fn set(&self, #[pyo3(from_py_with = argument::at_us)] at_us: u64) {
        self.0.set(Time::from_micros(at_us));
    }

    /// Moves the time forward by this many seconds.
    fn advance(&self, #[pyo3(from_py_with = argument::seconds_of)] seconds: core::time::Duration) {
        self.0.advance(seconds);
    }

    /// The time, in microseconds since 1970.
    #[getter]
    fn at_us(&self) -> u64 {
        self.0.now().as_micros()
    }
}

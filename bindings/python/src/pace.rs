//! The earliest time of the next admission.

use std::sync::Mutex;

use pyo3::prelude::*;
use tollgate_binding::lock;

use crate::decision::{Decision, seconds};

/// The time before which no check of the same cost can be admitted.
#[pyclass(frozen, module = "tollgate_limiter._tollgate")]
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<tollgate::Pace>);

#[pymethods]
impl Pace {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Adds an admission. Returns the seconds until the next one at the earliest.
    fn admitted(&self, decision: &Bound<'_, Decision>) -> f64 {
        seconds(lock(&self.0).admitted(&decision.get().0))
    }
}

//! The ruling of policies, as Python sees it.

use pyo3::prelude::*;

use crate::http::{self, Headers, Refusal};

/// The treatment of a request.
#[pyclass(frozen, module = "tollgate_limiter._tollgate")]
#[derive(Debug)]
pub(crate) struct PolicyRuling(pub(crate) Box<tollgate_binding::Ruling>);

#[pymethods]
impl PolicyRuling {
    /// The headers for the response of a request that passes.
    #[getter]
    fn headers(&self) -> Headers {
        self.0.headers.clone()
    }

    /// The status, headers and body for a request that does not; None for one that passes.
    #[getter]
    fn refusal<'py>(&self, py: Python<'py>) -> Option<Refusal<'py>> {
        self.0.refusal.as_ref().map(|refusal| http::shown(py, refusal))
    }

    /// Warnings for the log.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings.clone()
    }
}

//! Decisions, as Python sees them.

use core::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tollgate::{Authority, Report};

/// The result of a check.
#[pyclass(frozen, freelist = 64, module = "tollgate_limiter")]
#[derive(Debug)]
pub(crate) struct Decision(pub(crate) tollgate::Decision<'static>);

#[pymethods]
impl Decision {
    /// Whether the cost was admitted.
    #[getter]
    fn allowed(&self) -> bool {
        self.0.is_allowed()
    }

    fn __bool__(&self) -> bool {
        self.0.is_allowed()
    }

    /// The units that were admitted; 0 on a denial.
    #[getter]
    fn granted(&self) -> u64 {
        self.0.granted()
    }

    /// The largest cost that would be admitted now.
    #[getter]
    fn remaining(&self) -> u64 {
        self.0.remaining()
    }

    /// What `capacity` and `remaining` count: "requests" or "slots".
    #[getter]
    fn unit(&self) -> &'static str {
        self.0.unit().name()
    }

    /// The wait in seconds until the same check is admitted: 0.0 if it was, None for never.
    #[getter]
    fn retry_after(&self) -> Option<f64> {
        match self.0.is_allowed() {
            true => Some(0.0),
            false => self.0.retry_after().map(seconds),
        }
    }

    /// Whether the cost is above a limit's capacity, so that waiting does not help.
    #[getter]
    fn never(&self) -> bool {
        self.0.is_never()
    }

    /// Whether `retry_after` is an upper bound: settling open holds would shorten it.
    #[getter]
    fn until_hold(&self) -> bool {
        self.0.is_until_hold()
    }

    /// The seconds until the binding limit is fresh.
    #[getter]
    fn reset_after(&self) -> f64 {
        seconds(self.0.reset_after())
    }

    /// The binding limit as text: on a denial, the one that denies for longest.
    #[getter]
    fn limit(&self) -> String {
        self.0.binding().limit().to_string()
    }

    /// The capacity of the binding limit, in units.
    #[getter]
    fn capacity(&self) -> u64 {
        self.0.limit()
    }

    /// The subject of the binding limit, in its written form.
    #[getter]
    fn subject(&self) -> String {
        self.0.binding().subject().to_owned()
    }

    /// The store's time of the decision, in microseconds since 1970.
    #[getter]
    fn at_us(&self) -> u64 {
        self.0.at().as_micros()
    }

    /// What decided: "store", "lease" or "deny_cache".
    #[getter]
    fn authority(&self) -> &'static str {
        match self.0.authority() {
            Authority::Lease => "lease",
            Authority::DenyCache => "deny_cache",
            _ => "store",
        }
    }

    /// The report of each limit, in the order of the subjects and their limits.
    #[getter]
    fn limits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let reports: Vec<LimitReport> = self.0.reports().map(|it| LimitReport::new(&it)).collect();
        let reports: PyResult<Vec<_>> = reports.into_iter().map(|it| Bound::new(py, it)).collect();
        PyTuple::new(py, reports?)
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<Decision {}>", self.0)
    }
}

/// What one limit said in a decision.
#[pyclass(frozen, get_all, module = "tollgate_limiter")]
#[derive(Debug)]
pub(crate) struct LimitReport {
    /// The subject, in its written form.
    subject: String,
    /// The limit as text.
    limit: String,
    /// Whether this limit would admit the cost.
    admits: bool,
    /// The largest cost that it would admit now.
    remaining: u64,
    /// What `remaining` counts: `requests` or `slots`.
    unit: &'static str,
    /// The seconds until it admits the cost: 0.0 for now, None for never.
    retry_after: Option<f64>,
    /// The seconds until it is fresh.
    reset_after: f64,
}

impl LimitReport {
    fn new(report: &Report<'_>) -> Self {
        Self {
            subject: report.subject().to_owned(),
            limit: report.limit().to_string(),
            admits: report.admits(),
            remaining: report.remaining(),
            unit: report.limit().unit().name(),
            retry_after: report.retry_after().map(seconds),
            reset_after: seconds(report.reset_after()),
        }
    }
}

#[pymethods]
impl LimitReport {
    fn __repr__(&self) -> String {
        let Self { subject, limit, admits, remaining, .. } = self;
        let word = if *admits { "admits" } else { "denies" };
        format!("<LimitReport {limit} {word} {subject}: {remaining} left>")
    }
}

/// A wait in seconds. Microseconds of a year have fewer digits than a float.
pub(crate) fn seconds(wait: Duration) -> f64 {
    wait.as_secs_f64()
}

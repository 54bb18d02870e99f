//! Decisions, as Python sees them.

use core::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tollgate::{Report, wire};

use crate::error;
use crate::saved::{self, Saved};

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

    /// The outcome: "allowed", "denied", or "never" where waiting does not help.
    #[getter]
    fn outcome(&self) -> &'static str {
        self.0.verdict().name()
    }

    /// The authority that decided: "store", "lease" or "deny_cache".
    #[getter]
    fn authority(&self) -> &'static str {
        self.0.authority().name()
    }

    /// The capacity of the binding limit, in units.
    #[getter]
    fn limit(&self) -> u64 {
        self.0.limit()
    }

    /// The largest cost that would be admitted now.
    #[getter]
    fn remaining(&self) -> u64 {
        self.0.remaining()
    }

    /// The unit of `limit` and `remaining`, such as "requests".
    #[getter]
    fn unit(&self) -> &str {
        self.0.unit().name()
    }

    /// The units that were admitted; 0 on a denial.
    #[getter]
    fn granted(&self) -> u64 {
        self.0.granted()
    }

    /// The wait in seconds after a denial until the same check is admitted: None where it was
    /// admitted, and where it never will be.
    #[getter]
    fn retry_after(&self) -> Option<f64> {
        self.0.retry_after().map(seconds)
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

    /// The place in `limits` of the binding limit: on a denial, the one that denies for longest.
    #[getter]
    fn binding(&self) -> usize {
        self.0.binding_place()
    }

    /// The report of each limit, in the order of the subjects and their limits.
    #[getter]
    fn limits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let reports: Vec<LimitReport> = self.0.reports().map(LimitReport::new).collect();
        let reports: PyResult<Vec<_>> = reports.into_iter().map(|it| Bound::new(py, it)).collect();
        PyTuple::new(py, reports?)
    }

    /// The store's time of the decision, in microseconds since 1970.
    #[getter]
    fn at_us(&self) -> u64 {
        self.0.at().as_micros()
    }

    /// The decision as JSON: every field, as the service answers them.
    fn json(&self) -> String {
        tollgate_binding::json(&self.0)
    }

    /// The receipt of the charge as text, for `Limiter.refund` in any process on the same store;
    /// None where nothing was charged.
    #[getter]
    fn receipt(&self) -> Option<String> {
        self.0.receipt().map(|receipt| receipt.to_string())
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        saved::by(py, "restored_decision", (saved::saved(&self.0),))
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<Decision {}>", self.0)
    }
}

/// The decision that was saved, for pickle.
#[pyfunction]
#[pyo3(text_signature = "(saved)")]
pub(crate) fn restored_decision(py: Python<'_>, saved: Saved) -> PyResult<Decision> {
    saved::restored(saved).map(Decision).map_err(|it| error::raised(py, it))
}

/// The report of one limit in a decision.
#[pyclass(frozen, get_all, module = "tollgate_limiter")]
#[derive(Debug)]
pub(crate) struct LimitReport {
    /// The subject, in its written form.
    subject: String,
    /// The policy of the limit; None without one.
    policy: Option<String>,
    /// The limit's identity, which names its count.
    identity: String,
    /// The limit in its full form.
    limit: String,
    /// The units that a fresh subject can take.
    capacity: u64,
    /// The largest cost that it would admit now.
    remaining: u64,
    /// The unit of `capacity` and `remaining`, such as `requests`.
    unit: String,
    /// The seconds until it admits the cost: 0.0 for now, None for never.
    retry_after: Option<f64>,
    /// The seconds until it is fresh.
    reset_after: f64,
    /// Whether this limit would admit the cost.
    admits: bool,
    /// The effect on its count when its numbers had changed: "same", "over" or "fresh".
    carried: &'static str,
}

impl LimitReport {
    fn new(report: Report<'_>) -> Self {
        let report = wire::Report::from(report);
        Self {
            subject: report.subject.to_owned(),
            policy: report.policy.map(str::to_owned),
            identity: report.identity.to_owned(),
            limit: report.limit.to_owned(),
            capacity: report.capacity,
            remaining: report.remaining,
            unit: report.unit.to_owned(),
            retry_after: report.retry_after.map(|wait| seconds(wait.0)),
            reset_after: seconds(report.reset_after.0),
            admits: report.admits,
            carried: report.carried,
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

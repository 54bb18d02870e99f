//! The answer of a limiter, and its parts as Python sees them.

use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tollgate::{ChargedLimit, Cost, Hold, wire};

use crate::decision::{Decision, seconds};
use crate::error;
use crate::ruling::PolicyRuling;
use crate::saved;

/// An answer, before there is an object of Python for it.
pub(crate) type BindingAnswer = tollgate_binding::BindingAnswer<tollgate::Decision<'static>>;

/// The object for an answer.
pub(crate) fn object(py: Python<'_>, answer: BindingAnswer) -> PyResult<Bound<'_, PyAny>> {
    match answer {
        BindingAnswer::Decision(decision) => Ok(Bound::new(py, Decision(decision))?.into_any()),
        BindingAnswer::Charged(subject, limits, charged) => {
            let each = ChargedLimit::each([(&subject, &limits)], &charged);
            each.map(Charged::new).collect::<Vec<_>>().into_bound_py_any(py)
        }
        BindingAnswer::Refund(tollgate::Refund { already, given, left, .. }) => {
            // All of it is given back, so nothing is left of any unit.
            let left = left.amounts().first();
            Ok(Bound::new(py, Refund { already, given, left })?.into_any())
        }
        BindingAnswer::Holding(decision, hold) => {
            let decision = Some(Bound::new(py, Decision(decision))?.unbind());
            Ok(Bound::new(py, Holding { decision, hold })?.into_any())
        }
        BindingAnswer::Settled(hold, settled) => {
            let limits = hold.charged(&settled).map(Charged::new).collect();
            let tollgate::Settled { already, actual, .. } = settled;
            let actual = Amounts(actual);
            Ok(Bound::new(py, Settled { already, actual, limits })?.into_any())
        }
        BindingAnswer::Flag(flag) => flag.into_bound_py_any(py),
        BindingAnswer::Ruling(ruling) => Ok(Bound::new(py, PolicyRuling(ruling))?.into_any()),
    }
}

/// The effect of a charge without a check on one limit.
#[pyclass(frozen, get_all, module = "tollgate_limiter")]
#[derive(Clone, Debug)]
pub(crate) struct Charged {
    /// The subject, in its written form.
    subject: String,
    /// The policy of the limit; None without one.
    policy: Option<String>,
    /// The limit's identity, which names its count.
    identity: String,
    /// The limit in its full form.
    limit: String,
    /// Whether a check would have admitted the cost.
    fits: bool,
    /// The units that were not charged, since they exceed the limit's debt.
    cut: u64,
    /// The largest cost that would be admitted now.
    remaining: u64,
    /// The seconds until the same cost is admitted: 0.0 for now, None for never.
    retry_after: Option<f64>,
    /// The seconds until the limit is fresh.
    reset_after: f64,
}

impl Charged {
    fn new(charged: ChargedLimit<'_>) -> Self {
        let charged = wire::Charged::from(charged);
        Self {
            subject: charged.subject.to_owned(),
            policy: charged.policy.map(str::to_owned),
            identity: charged.identity.to_owned(),
            limit: charged.limit.to_owned(),
            fits: charged.fits,
            cut: charged.cut,
            remaining: charged.remaining,
            retry_after: charged.retry_after.map(|wait| seconds(wait.0)),
            reset_after: seconds(charged.reset_after.0),
        }
    }
}

/// The effect of a refund.
#[pyclass(frozen, get_all, module = "tollgate_limiter")]
#[derive(Debug)]
pub(crate) struct Refund {
    /// Whether all of it had been refunded before.
    already: bool,
    /// By how many units each limit's `remaining` rose.
    given: Vec<u64>,
    /// The units of the charge that can still be refunded.
    left: u64,
}

/// A cost as Python sees it: an int of requests, or a dict of amounts by unit.
#[derive(Clone, Debug)]
struct Amounts(Cost);

impl<'py> IntoPyObject<'py> for &Amounts {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let amounts = self.0.amounts();
        if let Some(requests) = amounts.plain() {
            return requests.into_bound_py_any(py);
        }
        let all = PyDict::new(py);
        for (unit, amount) in amounts.iter() {
            all.set_item(unit.name(), amount)?;
        }
        Ok(all.into_any())
    }
}

impl<'py> IntoPyObject<'py> for Amounts {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        (&self).into_pyobject(py)
    }
}

/// The effect of settling a hold.
#[pyclass(frozen, get_all, module = "tollgate_limiter")]
#[derive(Debug)]
pub(crate) struct Settled {
    /// Whether it was settled before. Nothing was done now.
    already: bool,
    /// The amounts that were charged for it: an int, or a dict by unit.
    actual: Amounts,
    /// The effect on each limit.
    limits: Vec<Charged>,
}

/// The answer to a question for a hold: the decision and, where it was admitted, the hold.
#[pyclass(frozen, module = "tollgate_limiter._tollgate")]
#[derive(Debug)]
pub(crate) struct Holding {
    /// None where the hold was made of its text.
    decision: Option<Py<Decision>>,
    hold: Option<Box<Hold>>,
}

impl Holding {
    /// The hold.
    ///
    /// # Errors
    /// It was denied.
    pub(crate) fn open(&self, py: Python<'_>) -> PyResult<Box<Hold>> {
        self.hold.clone().ok_or_else(|| error::argument(py, "the hold was denied: it is not open"))
    }
}

#[pymethods]
impl Holding {
    #[getter]
    fn decision(&self, py: Python<'_>) -> Option<Py<Decision>> {
        self.decision.as_ref().map(|decision| decision.clone_ref(py))
    }

    /// The hold as text; None on a denial.
    #[getter]
    fn token(&self) -> Option<String> {
        self.hold.as_ref().map(ToString::to_string)
    }

    /// Whether there is a hold.
    #[getter]
    fn allowed(&self) -> bool {
        self.hold.is_some()
    }

    /// A number that rises with each hold of a count; None on a denial.
    #[getter]
    fn fence(&self) -> Option<u64> {
        self.hold.as_ref().map(|hold| hold.fence)
    }

    /// When the hold ends by itself, in microseconds since 1970 by the store's clock.
    #[getter]
    fn end_us(&self) -> Option<u64> {
        self.hold.as_ref().map(|hold| hold.end.as_micros())
    }
}

/// The hold of a text, with the decision that admitted it if there is one.
#[pyfunction]
#[pyo3(signature = (token, decision=None))]
pub(crate) fn restored_hold(
    py: Python<'_>,
    token: &str,
    decision: Option<Py<Decision>>,
) -> PyResult<Holding> {
    let hold = saved::hold(py, token)?;
    Ok(Holding { decision, hold: Some(Box::new(hold)) })
}

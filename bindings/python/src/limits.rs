//! Limits that were parsed.

use pyo3::prelude::*;
use pyo3::types::PyType;
use tollgate::LimitSet;
use tollgate_binding::argument;

use crate::argument::{LimitsText, PolicyText, wrong_type};
use crate::error;

/// Limits, parsed once: for checks over several subjects.
#[pyclass(frozen, eq, hash, module = "tollgate_limiter")]
#[derive(Clone, Debug)]
pub(crate) struct Limits(pub(crate) LimitSet);

impl PartialEq for Limits {
    fn eq(&self, other: &Self) -> bool {
        self.0.identity() == other.0.identity() && self.0.full_text() == other.0.full_text()
    }
}

impl core::hash::Hash for Limits {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.0.identity().hash(state);
    }
}

#[pymethods]
impl Limits {
    #[new]
    #[pyo3(signature = (limits, policy=None))]
    fn new(
        py: Python<'_>,
        limits: LimitsText<'_>,
        policy: Option<PolicyText<'_>>,
    ) -> PyResult<Self> {
        let parsed = argument::limits(limits.0).map_err(|it| error::raised(py, it))?;
        in_policy(py, parsed, policy).map(Self)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (String, Option<String>)) {
        let limits = &slf.get().0;
        (slf.get_type(), (limits.to_string(), limits.policy().map(str::to_owned)))
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<Limits {}>", self.0)
    }
}

/// Limits as they are passed: text, or limits that were parsed.
#[derive(Debug)]
pub(crate) struct AnyLimits(pub(crate) LimitSet);

impl<'a, 'py> FromPyObject<'a, 'py> for AnyLimits {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(limits) = object.cast::<Limits>() {
            return Ok(Self(limits.get().0.clone()));
        }
        if !object.is_instance_of::<pyo3::types::PyString>() {
            return Err(wrong_type(object, "limits", "str or Limits"));
        }
        let LimitsText(text) = object.extract()?;
        argument::limits(text).map(Self).map_err(|it| error::raised(object.py(), it))
    }
}

/// The limits within a policy, if there is one.
pub(crate) fn in_policy(
    py: Python<'_>,
    limits: LimitSet,
    policy: Option<PolicyText<'_>>,
) -> PyResult<LimitSet> {
    let name = policy.map(|it| it.0);
    argument::in_policy(limits, name).map_err(|it| error::raised(py, it))
}

//! The question for a limiter, as Python makes it.

use core::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use tollgate::{Cost, HoldKind, HoldName, Patience, Reserve};
use tollgate_binding::{HoldRef, Operation, SubjectPart};

use crate::argument::{self, SubjectText, wrong_type};
use crate::decision::Decision;
use crate::error;
use crate::limits::AnyLimits;
use crate::reply::Holding;
use crate::saved;

/// One question to a limiter.
#[pyclass(frozen, module = "tollgate_limiter._tollgate")]
#[derive(Clone, Debug)]
pub(crate) struct Request(pub(crate) Operation);

/// A part as it is passed: a subject, or a tuple of one and its limits.
fn part(object: &Bound<'_, PyAny>) -> PyResult<SubjectPart> {
    if object.is_instance_of::<PyString>() {
        let SubjectText(subject) = object.extract()?;
        return Ok(subject.to_owned().into());
    }
    let Ok(pair) = object.cast::<PyTuple>() else {
        let object = object.as_borrowed();
        return Err(wrong_type(object, "subjects", "a list of str or (str, limits)"));
    };
    if pair.len() != 2 {
        let what = format!("subjects has a tuple of {}: give (subject, limits)", pair.len());
        return Err(error::argument(object.py(), what));
    }
    let (subject, limits) = (pair.get_item(0)?, pair.get_item(1)?);
    let SubjectText(text) = subject.extract()?;
    let AnyLimits(limits) = limits.extract()?;
    Ok(SubjectPart { subject: text.to_owned(), limits: Some(limits) })
}

/// The argument `subjects`.
fn subjects(object: &Bound<'_, PyAny>) -> PyResult<Vec<SubjectPart>> {
    // A text is a list of texts for Python, of its characters.
    if object.is_instance_of::<PyString>() || object.try_iter().is_err() {
        return Err(wrong_type(object.as_borrowed(), "subjects", "a list of str or (str, limits)"));
    }
    object.try_iter()?.map(|object| part(&object?)).collect()
}

#[pymethods]
impl Request {
    #[staticmethod]
    #[pyo3(
        signature = (subject, cost=Cost::from(1), partial=false),
        text_signature = "(subject, cost=1, partial=False)"
    )]
    fn check(
        subject: SubjectText<'_>,
        #[pyo3(from_py_with = argument::cost)] cost: Cost,
        partial: bool,
    ) -> Self {
        let parts = vec![subject.0.to_owned().into()];
        Self(Operation::Check { parts, cost, partial, patience: Patience::None })
    }

    #[staticmethod]
    #[pyo3(
        signature = (subjects, cost=Cost::from(1), partial=false, waiting=Patience::None),
        text_signature = "(subjects, cost=1, partial=False, waiting=None)"
    )]
    fn check_all(
        #[pyo3(from_py_with = subjects)] subjects: Vec<SubjectPart>,
        #[pyo3(from_py_with = argument::cost)] cost: Cost,
        partial: bool,
        #[pyo3(from_py_with = argument::waiting)] waiting: Patience,
    ) -> Self {
        Self(Operation::Check { parts: subjects, cost, partial, patience: waiting })
    }

    #[staticmethod]
    #[pyo3(
        signature = (subject, cost=Cost::from(1), partial=false, kind=None),
        text_signature = "(subject, cost=1, partial=False, kind=None)"
    )]
    fn peek(
        subject: SubjectText<'_>,
        #[pyo3(from_py_with = argument::cost)] cost: Cost,
        partial: bool,
        #[pyo3(from_py_with = argument::kind_of_peek)] kind: Option<HoldKind>,
    ) -> Self {
        let parts = vec![subject.0.to_owned().into()];
        Self(Operation::Peek { parts, cost, partial, kind })
    }

    #[staticmethod]
    fn charge(subject: SubjectText<'_>, #[pyo3(from_py_with = argument::cost)] cost: Cost) -> Self {
        Self(Operation::Charge { subject: subject.0.to_owned(), cost })
    }

    #[staticmethod]
    fn reset(subject: SubjectText<'_>) -> Self {
        Self(Operation::Reset { subject: subject.0.to_owned() })
    }

    #[staticmethod]
    fn refund(py: Python<'_>, decision: &Bound<'_, PyAny>) -> PyResult<Self> {
        let receipt = if let Ok(decision) = decision.cast::<Decision>() {
            decision.get().0.receipt().ok_or_else(|| {
                error::argument(py, "decision charged nothing, so there is nothing to refund")
            })?
        } else if let Ok(text) = decision.extract::<&str>() {
            saved::receipt(py, text)?
        } else {
            return Err(wrong_type(decision.as_borrowed(), "decision", "Decision or str"));
        };
        Ok(Self(Operation::Refund(Box::new(receipt))))
    }

    #[staticmethod]
    #[pyo3(signature = (subject, cost, ttl, charge_at_end=false, id=None))]
    fn reserve(
        subject: SubjectText<'_>,
        #[pyo3(from_py_with = argument::cost)] cost: Cost,
        #[pyo3(from_py_with = argument::ttl)] ttl: Duration,
        charge_at_end: bool,
        #[pyo3(from_py_with = argument::optional_id)] id: Option<HoldName>,
    ) -> Self {
        let reserve = Reserve::from(ttl);
        let reserve = if charge_at_end { reserve.charging() } else { reserve };
        Self(Operation::Reserve { subject: subject.0.to_owned(), cost, reserve, name: id })
    }

    #[staticmethod]
    #[pyo3(
        signature = (subject, slots=1, id=None, waiting=Patience::None),
        text_signature = "(subject, slots=1, id=None, waiting=None)"
    )]
    fn acquire(
        subject: SubjectText<'_>,
        #[pyo3(from_py_with = argument::slots)] slots: u64,
        #[pyo3(from_py_with = argument::optional_id)] id: Option<HoldName>,
        #[pyo3(from_py_with = argument::waiting)] waiting: Patience,
    ) -> Self {
        let subject = subject.0.to_owned();
        Self(Operation::Acquire { subject, slots, name: id, patience: waiting })
    }

    #[staticmethod]
    fn commit(
        py: Python<'_>,
        holding: &Bound<'_, Holding>,
        #[pyo3(from_py_with = argument::actual)] actual: Cost,
    ) -> PyResult<Self> {
        Ok(Self(Operation::Commit(HoldRef::Placed(holding.get().open(py)?), actual)))
    }

    #[staticmethod]
    fn release(py: Python<'_>, holding: &Bound<'_, Holding>) -> PyResult<Self> {
        Ok(Self(Operation::Release(HoldRef::Placed(holding.get().open(py)?))))
    }

    /// Gives back a hold that nobody waits for any more, unless its id was asked for again.
    #[staticmethod]
    fn give_back(py: Python<'_>, holding: &Bound<'_, Holding>) -> PyResult<Self> {
        Ok(Self(Operation::GiveBack(holding.get().open(py)?)))
    }

    #[staticmethod]
    #[pyo3(signature = (holding, ttl=None))]
    fn renew(
        py: Python<'_>,
        holding: &Bound<'_, Holding>,
        #[pyo3(from_py_with = argument::optional_ttl)] ttl: Option<Duration>,
    ) -> PyResult<Self> {
        Ok(Self(Operation::Renew(HoldRef::Placed(holding.get().open(py)?), ttl)))
    }

    #[staticmethod]
    fn commit_named(
        subject: SubjectText<'_>,
        #[pyo3(from_py_with = argument::id)] id: HoldName,
        #[pyo3(from_py_with = argument::actual)] actual: Cost,
    ) -> Self {
        Self(Operation::Commit(HoldRef::Named(subject.0.to_owned(), id), actual))
    }

    #[staticmethod]
    fn release_named(
        subject: SubjectText<'_>,
        #[pyo3(from_py_with = argument::id)] id: HoldName,
    ) -> Self {
        Self(Operation::Release(HoldRef::Named(subject.0.to_owned(), id)))
    }

    #[staticmethod]
    #[pyo3(signature = (subject, id, ttl=None))]
    fn renew_named(
        subject: SubjectText<'_>,
        #[pyo3(from_py_with = argument::id)] id: HoldName,
        #[pyo3(from_py_with = argument::optional_ttl)] ttl: Option<Duration>,
    ) -> Self {
        Self(Operation::Renew(HoldRef::Named(subject.0.to_owned(), id), ttl))
    }
}

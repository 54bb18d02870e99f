//! What a limiter is asked, made before it is known how the answer is waited for.

use core::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use tollgate::{
    Ask, Error, Hold, HoldKind, HoldName, LimitSet, Limiter, Patience, Receipt, Reserve, Store,
    Subject,
};

use crate::argument::{self, SubjectText, wrong_type};
use crate::decision::Decision;
use crate::error;
use crate::limits::AnyLimits;
use crate::reply::{Holding, Reply};

/// One question to a limiter.
#[pyclass(frozen, module = "tollgate._tollgate")]
#[derive(Clone, Debug)]
pub(crate) struct Request(pub(crate) Kind);

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Check {
        subjects: Vec<Part>,
        cost: u64,
        partial: bool,
        patience: Patience,
    },
    Peek {
        subjects: Vec<Part>,
        cost: u64,
        partial: bool,
        kind: Option<HoldKind>,
    },
    Charge {
        subject: String,
        cost: u64,
    },
    Reset {
        subject: String,
    },
    Refund(Box<Receipt>),
    Reserve {
        subject: String,
        cost: u64,
        reserve: Reserve,
        name: Option<HoldName>,
    },
    Acquire {
        subject: String,
        slots: u64,
        name: Option<HoldName>,
        patience: Patience,
    },
    Commit(HoldRef, u64),
    Release(HoldRef),
    /// Of an answer that nobody waits for any more.
    GiveBack(Box<Hold>),
    Renew(HoldRef, Option<Duration>),
}

/// Which hold is meant.
#[derive(Clone, Debug)]
pub(crate) enum HoldRef {
    Placed(Box<Hold>),
    /// That of a subject which its caller named, whether an answer came or not.
    Named(String, HoldName),
}

impl HoldRef {
    fn of<S: Store>(&self, limiter: &Limiter<S>) -> Result<Hold, Error> {
        match self {
            Self::Placed(hold) => Ok(Hold::clone(hold)),
            Self::Named(subject, name) => limiter.hold_named(Ask::new(subject).named(*name)),
        }
    }
}

/// An ask for a hold.
fn for_hold(subject: &str, cost: u64, name: Option<HoldName>) -> Ask<'_> {
    let ask = Ask::new(subject).cost(cost);
    match name {
        Some(name) => ask.named(name),
        None => ask,
    }
}

/// A subject, with its limits if they are not the limiter's.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    subject: String,
    limits: Option<LimitSet>,
}

impl<'a, 'py> FromPyObject<'a, 'py> for Part {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyString>() {
            let SubjectText(subject) = object.extract()?;
            return Ok(Self { subject: subject.to_owned(), limits: None });
        }
        let Ok(pair) = object.cast::<PyTuple>() else {
            return Err(wrong_type(object, "subjects", "a list of str or (str, limits)"));
        };
        if pair.len() != 2 {
            let what = format!("subjects has a tuple of {}: give (subject, limits)", pair.len());
            return Err(error::argument(object.py(), what));
        }
        let (subject, limits) = (pair.get_item(0)?, pair.get_item(1)?);
        let SubjectText(text) = subject.extract()?;
        let AnyLimits(limits) = limits.extract()?;
        Ok(Self { subject: text.to_owned(), limits: Some(limits) })
    }
}

/// The argument `subjects`.
fn subjects(object: &Bound<'_, PyAny>) -> PyResult<Vec<Part>> {
    // A text is a list of texts for Python, of its characters.
    if object.is_instance_of::<PyString>() || object.try_iter().is_err() {
        return Err(wrong_type(object.as_borrowed(), "subjects", "a list of str or (str, limits)"));
    }
    object.try_iter()?.map(|part| part?.extract()).collect()
}

fn ask(parts: &[Part], cost: u64, partial: bool) -> Option<Ask<'_>> {
    let mut parts = parts.iter();
    let first = parts.next()?;
    let mut ask = Ask::new(first.subject.as_str());
    if let Some(limits) = &first.limits {
        ask = ask.under(limits);
    }
    for Part { subject, limits } in parts {
        ask = match limits {
            Some(limits) => ask.and_under(subject.as_str(), limits),
            None => ask.and(subject.as_str()),
        };
    }
    let ask = ask.cost(cost);
    Some(if partial { ask.partial() } else { ask })
}

impl Kind {
    /// A check of one subject.
    pub(crate) fn check(subject: &str, cost: u64) -> Self {
        let subjects = vec![Part { subject: subject.to_owned(), limits: None }];
        Self::Check { subjects, cost, partial: false, patience: Patience::None }
    }

    /// Asks, and makes the answer last.
    pub(crate) async fn perform<S: Store>(&self, limiter: &Limiter<S>) -> Result<Reply, Error> {
        let none = || Error::Ask("subjects: a check is over 1 to 16 subjects, not 0".to_owned());
        Ok(match self {
            Self::Check { subjects, cost, partial, patience } => {
                let ask = ask(subjects, *cost, *partial).ok_or_else(none)?;
                Reply::Decision(limiter.check(ask.with_patience(*patience)).await?.into_owned())
            }
            Self::Peek { subjects, cost, partial, kind } => {
                let ask = ask(subjects, *cost, *partial).ok_or_else(none)?;
                let ask = match kind {
                    Some(kind) => ask.kind(*kind),
                    None => ask,
                };
                Reply::Decision(limiter.peek(ask).await?.into_owned())
            }
            Self::Charge { subject, cost } => {
                let charged = limiter.charge(Ask::new(subject).cost(*cost)).await?;
                Reply::Charged(Subject::literal(subject)?, limiter.limits().clone(), charged)
            }
            Self::Reset { subject } => Reply::Flag(limiter.reset(subject).await?),
            Self::Refund(receipt) => Reply::Refund(limiter.refund(receipt).await?),
            Self::Reserve { subject, cost, reserve, name } => {
                let placed = limiter.reserve(for_hold(subject, *cost, *name), *reserve).await?;
                Reply::Holding(placed.decision.into_owned(), placed.hold)
            }
            Self::Acquire { subject, slots, name, patience } => {
                let ask = for_hold(subject, *slots, *name).with_patience(*patience);
                let placed = limiter.acquire(ask).await?;
                Reply::Holding(placed.decision.into_owned(), placed.hold)
            }
            Self::Commit(hold, actual) => {
                let hold = hold.of(limiter)?;
                let settled = limiter.commit(&hold, *actual).await?;
                Reply::Settled(Box::new(hold), settled)
            }
            Self::Release(hold) => Reply::Flag(limiter.release(&hold.of(limiter)?).await?),
            // An answer that was repeated is of a hold that another question placed.
            Self::GiveBack(hold) if hold.answer > 1 => Reply::Flag(false),
            Self::GiveBack(hold) => {
                Reply::Flag(limiter.release(&Hold::clone(hold).undelivered()).await?)
            }
            Self::Renew(hold, ttl) => {
                let mut hold = hold.of(limiter)?;
                Reply::Flag(limiter.renew(&mut hold, *ttl).await?)
            }
        })
    }
}

#[pymethods]
impl Request {
    #[staticmethod]
    #[pyo3(signature = (subject, cost=1, partial=false))]
    fn check(
        subject: SubjectText<'_>,
        #[pyo3(from_py_with = argument::cost)] cost: u64,
        partial: bool,
    ) -> Self {
        let subjects = vec![Part { subject: subject.0.to_owned(), limits: None }];
        Self(Kind::Check { subjects, cost, partial, patience: Patience::None })
    }

    #[staticmethod]
    #[pyo3(
        signature = (subjects, cost=1, partial=false, waiting=Patience::None),
        text_signature = "(subjects, cost=1, partial=False, waiting=None)"
    )]
    fn check_all(
        #[pyo3(from_py_with = subjects)] subjects: Vec<Part>,
        #[pyo3(from_py_with = argument::cost)] cost: u64,
        partial: bool,
        #[pyo3(from_py_with = argument::waiting)] waiting: Patience,
    ) -> Self {
        Self(Kind::Check { subjects, cost, partial, patience: waiting })
    }

    #[staticmethod]
    #[pyo3(signature = (subject, cost=1, partial=false, kind=None))]
    fn peek(
        subject: SubjectText<'_>,
        #[pyo3(from_py_with = argument::cost)] cost: u64,
        partial: bool,
        #[pyo3(from_py_with = argument::kind_of_peek)] kind: Option<HoldKind>,
    ) -> Self {
        let subjects = vec![Part { subject: subject.0.to_owned(), limits: None }];
        Self(Kind::Peek { subjects, cost, partial, kind })
    }

    #[staticmethod]
    fn charge(subject: SubjectText<'_>, #[pyo3(from_py_with = argument::cost)] cost: u64) -> Self {
        Self(Kind::Charge { subject: subject.0.to_owned(), cost })
    }

    #[staticmethod]
    fn reset(subject: SubjectText<'_>) -> Self {
        Self(Kind::Reset { subject: subject.0.to_owned() })
    }

    #[staticmethod]
    fn refund(py: Python<'_>, decision: &Bound<'_, Decision>) -> PyResult<Self> {
        let receipt = decision.get().0.receipt().ok_or_else(|| {
            error::argument(py, "decision charged nothing, so there is nothing to refund")
        })?;
        Ok(Self(Kind::Refund(Box::new(receipt))))
    }

    #[staticmethod]
    #[pyo3(signature = (subject, cost, ttl, charge_at_end=false, id=None))]
    fn reserve(
        subject: SubjectText<'_>,
        #[pyo3(from_py_with = argument::cost)] cost: u64,
        #[pyo3(from_py_with = argument::ttl)] ttl: Duration,
        charge_at_end: bool,
        #[pyo3(from_py_with = argument::optional_id)] id: Option<HoldName>,
    ) -> Self {
        let reserve = Reserve::from(ttl);
        let reserve = if charge_at_end { reserve.charging() } else { reserve };
        Self(Kind::Reserve { subject: subject.0.to_owned(), cost, reserve, name: id })
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
        Self(Kind::Acquire { subject, slots, name: id, patience: waiting })
    }

    #[staticmethod]
    fn commit(
        py: Python<'_>,
        holding: &Bound<'_, Holding>,
        #[pyo3(from_py_with = argument::actual)] actual: u64,
    ) -> PyResult<Self> {
        Ok(Self(Kind::Commit(HoldRef::Placed(Box::new(holding.get().open(py)?)), actual)))
    }

    #[staticmethod]
    fn release(py: Python<'_>, holding: &Bound<'_, Holding>) -> PyResult<Self> {
        Ok(Self(Kind::Release(HoldRef::Placed(Box::new(holding.get().open(py)?)))))
    }

    /// Gives back a hold that nobody waits for any more, unless its id was asked for again.
    #[staticmethod]
    fn give_back(py: Python<'_>, holding: &Bound<'_, Holding>) -> PyResult<Self> {
        Ok(Self(Kind::GiveBack(Box::new(holding.get().open(py)?))))
    }

    #[staticmethod]
    #[pyo3(signature = (holding, ttl=None))]
    fn renew(
        py: Python<'_>,
        holding: &Bound<'_, Holding>,
        #[pyo3(from_py_with = argument::optional_ttl)] ttl: Option<Duration>,
    ) -> PyResult<Self> {
        Ok(Self(Kind::Renew(HoldRef::Placed(Box::new(holding.get().open(py)?)), ttl)))
    }

    #[staticmethod]
    fn commit_named(
        subject: SubjectText<'_>,
        #[pyo3(from_py_with = argument::id)] id: HoldName,
        #[pyo3(from_py_with = argument::actual)] actual: u64,
    ) -> Self {
        Self(Kind::Commit(HoldRef::Named(subject.0.to_owned(), id), actual))
    }

    #[staticmethod]
    fn release_named(
        subject: SubjectText<'_>,
        #[pyo3(from_py_with = argument::id)] id: HoldName,
    ) -> Self {
        Self(Kind::Release(HoldRef::Named(subject.0.to_owned(), id)))
    }

    #[staticmethod]
    #[pyo3(signature = (subject, id, ttl=None))]
    fn renew_named(
        subject: SubjectText<'_>,
        #[pyo3(from_py_with = argument::id)] id: HoldName,
        #[pyo3(from_py_with = argument::optional_ttl)] ttl: Option<Duration>,
    ) -> Self {
        Self(Kind::Renew(HoldRef::Named(subject.0.to_owned(), id), ttl))
    }
}

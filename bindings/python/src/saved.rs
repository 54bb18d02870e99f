//! Decisions and holds that leave the process and come back: by pickle, as text.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tollgate::engine::{Carried, Fields, Outcome};
use tollgate::{
    Ask, Authority, Cost, Hold, LimitSet, Limiter, ParseError, Receipt, Subject, Time, at_once,
};
use tollgate_binding::Replay;

use crate::error;

/// A subject in its written form, the policy of its limits, and those in full.
type Part = (String, Option<String>, String);

/// The numbers of a limit: remaining, the waits in microseconds, when it was charged, and whether
/// it was carried over.
type Numbers = (u64, Option<u64>, u64, u64, String);

/// The charged units, the number of the charge, the time, and the store.
type Charge = (u64, u64, u64, u64);

/// Whether the wait is one for holds; whether a count was shared, several servers decided, and the
/// answer was repeated, under an id that was so too often.
type Marks = (bool, bool, bool, bool, bool);

/// The cost as text, and the shard.
type Terms = (String, Option<String>);

/// A decision as Python saves it.
pub(crate) type Saved = (Vec<Part>, Vec<Numbers>, Charge, Marks, Terms, String);

/// A decision as Python saves it.
pub(crate) fn saved(decision: &tollgate::Decision<'_>) -> Saved {
    let receipt = decision.receipt();
    let charged = receipt.iter().flat_map(|receipt| &receipt.charges);
    let mut charged = charged.flat_map(|charges| charges.at_us.iter().copied());
    let micros = |wait: core::time::Duration| u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
    let (mut parts, mut numbers) = (Vec::<Part>::new(), Vec::new());
    for report in decision.reports() {
        if report.part() == parts.len() {
            let limits = decision.limit_sets().nth(report.part()).map(ToString::to_string);
            let policy = report.policy().map(str::to_owned);
            parts.push((report.subject().to_owned(), policy, limits.unwrap_or_default()));
        }
        let (retry, reset) = (report.retry_after().map(micros), micros(report.reset_after()));
        let at = charged.next().unwrap_or(decision.at().as_micros());
        numbers.push((report.remaining(), retry, reset, at, report.carried().name().to_owned()));
    }
    let (number, store) = receipt.as_ref().map_or((0, 0), |it| (it.number, it.store));
    let charge = (decision.granted(), number, decision.at().as_micros(), store);
    let marks = (
        decision.is_until_hold(),
        decision.is_shared(),
        decision.is_isolated(),
        decision.is_repeated(),
        decision.is_id_overused(),
    );
    let cost = receipt.as_ref().map_or_else(|| Cost::from(1), |receipt| receipt.cost.clone());
    let terms = (cost.to_string(), receipt.and_then(|receipt| receipt.shard));
    (parts, numbers, charge, marks, terms, decision.authority().name().to_owned())
}

/// The decision that was saved.
///
/// # Errors
/// It was changed, or is of another version.
pub(crate) fn restored(saved: Saved) -> Result<tollgate::Decision<'static>, tollgate::Error> {
    let (parts, numbers, (granted, receipt, at, store), marks, (cost, shard), authority) = saved;
    let (until_hold, shared, isolated, repeated, overused) = marks;
    let fields = numbers.into_iter().map(|(remaining, retry, reset, at, carried)| {
        let carried = match carried.as_str() {
            "over" => Carried::Over,
            "fresh" => Carried::Fresh,
            _ => Carried::Same,
        };
        let mut fields = Fields::new(remaining, retry, reset, at, carried);
        fields.until_hold = until_hold;
        fields
    });
    let mut outcome = Outcome::new(granted, fields.collect(), receipt, Time::from_micros(at));
    outcome.shared = shared;
    (outcome.isolated, outcome.repeated, outcome.overused) = (isolated, repeated, overused);
    outcome.authority = match authority.as_str() {
        "lease" => Authority::Lease,
        "deny_cache" => Authority::DenyCache,
        _ => Authority::Store,
    };
    let parts: Result<Vec<(Subject, LimitSet)>, ParseError> = parts
        .into_iter()
        .map(|(subject, policy, limits)| {
            let limits: LimitSet = limits.parse()?;
            let limits = policy.map_or(Ok(limits.clone()), |policy| limits.in_policy(&policy))?;
            Ok((Subject::parse(&subject)?, limits))
        })
        .collect();
    let parts = parts?;
    let Some(((subject, limits), rest)) = parts.split_first() else {
        return Err(tollgate::Error::Ask("a saved decision has a subject".to_owned()));
    };
    let limiter = Limiter::new(limits.clone(), Replay { outcome, identity: store });
    let mut ask = Ask::new(subject);
    for (subject, limits) in rest {
        ask = ask.and_under(subject, limits);
    }
    if let Some(shard) = shard {
        ask = ask.shard(shard);
    }
    // Also of limits that a check would not be asked of, as those of slots.
    let ask = ask.cost(cost.parse::<Cost>()?).peek();
    let decision = at_once(async { limiter.check(ask).await.map(tollgate::Decision::into_owned) });
    decision.unwrap_or_else(|| Err(tollgate::Error::Ask("it answers at once".to_owned())))
}

/// The way in which pickle makes an object again: by this function of the module.
pub(crate) fn by<'py>(
    py: Python<'py>,
    function: &str,
    words: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
    let module = py.import("tollgate_limiter._tollgate")?;
    Ok((module.getattr(function)?, words.into_pyobject(py)?))
}

/// The receipt of a text.
pub(crate) fn receipt(py: Python<'_>, text: &str) -> PyResult<Receipt> {
    text.parse().map_err(|it| damaged(py, "receipt", &it))
}

/// The hold of a text.
pub(crate) fn hold(py: Python<'_>, text: &str) -> PyResult<Hold> {
    text.parse().map_err(|it| damaged(py, "token", &it))
}

fn damaged(py: Python<'_>, name: &str, it: &ParseError) -> PyErr {
    error::argument(py, format!("{name}: {}: {}", it.what(), it.remedy()))
}

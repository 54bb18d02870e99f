//! The most that was admitted within one period, for certain.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Call, History};

use super::options::Options;

/// The earliest and the latest instant of a decision: the limiter's own time, or those of the
/// call, wider by the step of the limiter's clock.
pub(super) fn instants(call: &Call, precision_us: u64) -> (u64, u64) {
    match call.decided_us {
        Some(at_us) => (at_us, at_us),
        None => (
            call.invoked_us.saturating_sub(precision_us),
            call.returned_us.map_or(u64::MAX, |at_us| at_us.saturating_add(precision_us)),
        ),
    }
}

/// The most units of one subject that were admitted within each limit's period. A window is half
/// open: what is exactly one period old is in it no more.
pub(super) fn most(history: &History, options: &Options) -> Vec<u64> {
    let mut admitted: BTreeMap<&str, Vec<(u64, u64, u64)>> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for call in history.calls.iter().filter(|call| call.outcome.is_allowed()) {
        let (from_us, to_us) = instants(call, options.precision_us);
        for part in &call.parts {
            // A repeat admits nothing more.
            if call.request.as_ref().is_some_and(|id| !ids.insert((&part.subject, id))) {
                continue;
            }
            admitted.entry(&part.subject).or_default().push((from_us, to_us, call.cost));
        }
    }
    for calls in admitted.values_mut() {
        calls.sort_unstable_by_key(|&(_, to_us, _)| to_us);
    }
    let periods = options.limits.limits().iter().map(|limit| limit.quota().period.as_micros());
    let most_of = |period_us: u64| admitted.values().map(|calls| within(calls, period_us)).max();
    periods.map(|period_us| most_of(period_us).unwrap_or(0)).collect()
}

/// The most units of calls that surely lie within one period, by their ends.
fn within(calls: &[(u64, u64, u64)], period_us: u64) -> u64 {
    let mut most = 0;
    for (place, &(from_us, ..)) in calls.iter().enumerate() {
        let rest = calls.get(place..).unwrap_or(&[]);
        let near = rest.iter().take_while(|&&(_, to_us, _)| to_us - from_us.min(to_us) < period_us);
        let sum = near.filter(|&&(other_us, ..)| other_us >= from_us).map(|&(.., cost)| cost).sum();
        most = most.max(sum);
    }
    most
}

//! P1 where the store's times are not known: each call was decided between its two instants.

use crate::oracle::Rule;

use super::bound::{Admitted, Bounded, Most, bounds_of, capacity};
use super::record::Fault;

/// The maximum number of calls of one count for which every interval is checked.
const MOST_CALLS: usize = 2_000;

/// The certain maximum that an interval of `length` admits: `length` is the difference of its two
/// ends, which both belong to it.
fn bound(most: Most, length: i128) -> i128 {
    match most {
        Most::Rate { n, d, burst, whole: false } => burst + n * length / d,
        Most::Rate { n, d, burst, whole: true } => burst + n * (length / d + 1),
        Most::Window { len, most } => most * (length / len + 1),
        Most::Aligned { d, most } => most * (length / d + 2),
    }
}

/// Checks calls of one rule: broken when calls that certainly lie within an interval exceed its
/// bound, held when those that can lie within do not.
pub(super) fn untimed_run(run: &[Admitted<'_, '_>], rule: Rule, losses: &[&Fault]) -> Bounded {
    if run.len() > MOST_CALLS {
        return Bounded::Unknown(format!("{} allowed calls without the store's time", run.len()));
    }
    let mut calls: Vec<(i128, i128, i128, u64)> = run
        .iter()
        .map(|one| {
            let call = one.planned.call;
            let ends = (call.invoked_us.into(), one.planned.returned_us().into());
            (ends.0, ends.1, i128::from(call.cost), call.id)
        })
        .collect();
    let credit = |from: i128, to: i128| -> i128 {
        let within = losses
            .iter()
            .filter(|loss| i128::from(loss.began_us) <= to && from <= i128::from(loss.ended_us));
        within.map(|loss| i128::from(loss.lost_states) * capacity(rule)).sum()
    };
    let mosts = bounds_of(rule, true);
    let allowed = |from: i128, to: i128| {
        let least = mosts.iter().map(|&most| bound(most, to - from)).min().unwrap_or(i128::MAX);
        least + credit(from, to)
    };
    // By their end: the interval from a fixed start grows.
    calls.sort_by_key(|&(_, returned, ..)| returned);
    for &(from, ..) in &calls {
        let (mut sum, mut ids) = (0, Vec::new());
        for &(_, to, cost, id) in calls.iter().filter(|&&(invoked, ..)| invoked >= from) {
            sum += cost;
            ids.push(id);
            let most = allowed(from, to);
            if sum > most {
                let reason = format!("{sum} admitted between {from} and {to}; at most {most}");
                return Bounded::Broken(ids, reason);
            }
        }
    }
    calls.sort_by_key(|&(invoked, ..)| invoked);
    for &(_, from, ..) in &calls {
        let mut sum = 0;
        for &(to, _, cost, _) in calls.iter().filter(|&&(_, returned, ..)| returned >= from) {
            sum += cost;
            if sum > allowed(from, to.max(from)) {
                let reason = "without the store's time the calls may lie so close or not";
                return Bounded::Unknown(reason.to_owned());
            }
        }
    }
    Bounded::Held
}

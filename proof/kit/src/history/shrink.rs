//! The smallest part of a history that still shows what is broken.

use super::plan::{Plan, Planned};
use super::record::{Bounds, CallOutcome};
use super::replay::{Side, Violation, replay};
use super::search::{Mistake, Searched, search};

/// The most calls that are replayed to make a history smaller.
const MOST_REPLAYED: usize = 10_000_000;

/// Deletes calls while the violation stays. Where too much was given any call may go: less was
/// used then, and yet it was too much. Where too little was given only calls may go without which
/// the definitions give the same answer.
pub(super) fn violating<'p, 'h>(
    plan: &Plan<'h>,
    calls: &[&'p Planned<'h>],
    bounds: &Bounds,
    violation: &Violation,
) -> Vec<&'p Planned<'h>> {
    let mut work_left = MOST_REPLAYED;
    let mut shows = |kept: &[&'p Planned<'h>]| {
        if work_left < kept.len() {
            return false;
        }
        work_left -= kept.len();
        replay(plan, kept, bounds).violation.is_some_and(|found| {
            let same = found.call == violation.call
                && found.side == violation.side
                && found.promises == violation.promises;
            same && (found.side == Side::Above || found.expected == violation.expected)
        })
    };
    let bad = calls.iter().find(|planned| planned.call.id == violation.call);
    let end_us = bad.map_or(u64::MAX, |planned| planned.returned_us());
    let mut kept: Vec<&'p Planned<'h>> =
        calls.iter().copied().filter(|planned| planned.call.invoked_us <= end_us).collect();
    if !shows(&kept) {
        kept = calls.to_vec();
    }
    let mut size = kept.len().div_ceil(2);
    loop {
        let mut start = 0;
        while start < kept.len() {
            let end = (start + size).min(kept.len());
            let mut fewer = kept.clone();
            fewer.drain(start..end);
            if shows(&fewer) {
                kept = fewer;
            } else {
                start = end;
            }
        }
        if size <= 1 {
            return kept;
        }
        size = size.div_ceil(2);
    }
}

/// Deletes from a group without any legal order: the last calls, as long as they began after all
/// others returned, and denials, which no legal order needs.
pub(super) fn unordered<'p, 'h>(
    plan: &Plan<'h>,
    calls: &[&'p Planned<'h>],
    bounds: &Bounds,
) -> Vec<&'p Planned<'h>> {
    let illegal =
        |kept: &[&Planned<'h>]| search(plan, kept, bounds, Mistake::None) == Searched::Illegal;
    let mut kept = calls.to_vec();
    while let Some((last, before)) = kept.split_last() {
        let after_all = before.iter().all(|planned| planned.is_before(last));
        if !(after_all && illegal(before)) {
            break;
        }
        kept.pop();
    }
    for position in (0..kept.len()).rev() {
        let free = kept.get(position).is_some_and(|planned| {
            planned.call.outcome.is_denial() || planned.call.outcome == CallOutcome::NotCharged
        });
        if free {
            let mut fewer = kept.clone();
            fewer.remove(position);
            if illegal(&fewer) {
                kept = fewer;
            }
        }
    }
    kept
}

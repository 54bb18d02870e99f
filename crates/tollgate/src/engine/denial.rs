//! The effects of a denial: bans count the denials of the other limits of their set, and states
//! that lie in the future are repaired.

use super::{Fields, States};
use crate::limit::LimitSet;
use crate::strategy::Step as _;
use crate::time::Time;

/// Tells the bans of a set that other limits of it have denied, and updates their fields: the
/// denial may have begun one. While a ban runs, nothing is counted. True when a state has changed.
#[inline]
pub(super) fn deny<S: States + ?Sized>(
    limits: &LimitSet,
    states: &mut S,
    now: Time,
    fields: &mut [Fields],
) -> bool {
    limits.hears_denials() && note_denial(limits, states, now, fields)
}

#[cold]
fn note_denial<S: States + ?Sized>(
    limits: &LimitSet,
    states: &mut S,
    now: Time,
    fields: &mut [Fields],
) -> bool {
    if !counts_denial(limits, fields) {
        return false;
    }
    for ((limit, place), field) in limits.limits().iter().zip(limits.places()).zip(fields) {
        if limit.hears_denials() {
            let mut cell = states.cell(*place);
            limit.step().deny(&mut cell, now);
            let judgement = limit.step().judge(&mut cell, now, 1);
            *field = Fields { carried: field.carried, ..Fields::uncharged(&judgement, now) };
        }
    }
    true
}

/// Whether a ban of a set counts what these fields say: another limit denies, and no ban runs.
#[must_use]
pub fn counts_denial(limits: &LimitSet, fields: &[Fields]) -> bool {
    let denied = |bans: bool| {
        let mut each = limits.limits().iter().zip(fields);
        each.any(|(limit, field)| limit.hears_denials() == bans && field.retry_after_us != Some(0))
    };
    limits.hears_denials() && denied(false) && !denied(true)
}

/// Repairs the states of a set that are in the future.
#[cold]
pub(super) fn repair<S: States + ?Sized>(limits: &LimitSet, states: &mut S, now: Time) {
    for (limit, place) in limits.limits().iter().zip(limits.places()) {
        limit.step().repair(&mut states.cell(*place), now);
    }
}

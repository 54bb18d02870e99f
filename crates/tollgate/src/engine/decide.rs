//! The decision: every limit is judged at the same time, and all are charged or none.

use smallvec::SmallVec;

use super::amount::{Amount, Claim};
use super::denial::{deny, repair};
use super::gift::give;
use super::holding::decide_among_holds;
use super::{Carried, Fields, HoldRefusal, Mode, Outcome, Part, States};
use crate::cost::Amounts;
use crate::hold::{HoldKind, HoldTerms};
use crate::limit::LimitSet;
use crate::strategy::Step as _;
use crate::time::Time;

/// Judges every limit of every part at one time, and charges all of them or none. Given `terms`, it
/// also places a hold on every part; a peek places none, and judges as if it would.
///
/// Each limit is judged with the amount of its unit. When [`Outcome::changed`] is true, the states
/// and the holds have changed and must be written back. Otherwise they are unchanged.
///
/// # Errors
/// A hold that a count has no place for, or whose name is in use. Nothing has changed then.
pub fn decide(
    parts: &mut [Part<'_>],
    now: Time,
    cost: Amounts<'_>,
    mode: Mode,
    terms: Option<HoldTerms>,
) -> Result<Outcome, HoldRefusal> {
    if let Some(terms) = terms.filter(|terms| terms.id.kind() == HoldKind::Credit) {
        return give(parts, now, cost, terms);
    }
    if terms.is_some() || parts.iter().any(Part::is_about_holds) {
        return decide_among_holds(parts, now, cost, mode, terms);
    }
    Ok(decide_without_holds(parts, now, cost, mode))
}

/// Decides over parts without open holds.
fn decide_without_holds(
    parts: &mut [Part<'_>],
    now: Time,
    cost: Amounts<'_>,
    mode: Mode,
) -> Outcome {
    let limits = parts.iter().map(|part| part.limits.limits().len()).sum();
    let mut judged = Judged::new(limits);
    let cost = judged.cost(mode, cost, |judged, cost| {
        for part in parts.iter_mut() {
            judged.judge(part.limits, part.states, now, cost);
        }
    });
    let admitted = judged.admitted;
    // A denial also stores a count that was carried over to new numbers. If it were carried over
    // again later from the old numbers, the denial's wait would be wrong.
    let carried_over = parts.iter().any(|part| part.carried.contains(&Carried::Over));
    let mut changed = carried_over && !mode.is_peek();
    let mut rest = &mut judged.fields[..];
    for part in parts.iter_mut() {
        let (fields, others) = rest.split_at_mut(part.limits.limits().len());
        rest = others;
        for (field, carried) in fields.iter_mut().zip(&part.carried) {
            field.carried = *carried;
        }
        if mode.is_peek() {
            continue;
        }
        if admitted {
            charge(part.limits, part.states, now, cost, fields);
            changed = true;
            continue;
        }
        if judged.stepped_back {
            repair(part.limits, part.states, now);
            changed = true;
        }
        changed |= !part.is_shared && !mode.waits() && deny(part.limits, part.states, now, fields);
    }
    Outcome { granted: if admitted { cost.first() } else { 0 }, changed, ..judged.outcome(now) }
}

/// The judgements of all limits of a check, before anything is charged.
pub(super) struct Judged {
    pub(super) fields: SmallVec<[Fields; 2]>,
    pub(super) admitted: bool,
    pub(super) stepped_back: bool,
    /// The least `remaining` of the limits that bound the first unit, where that is wanted.
    least: Option<u64>,
}

impl Judged {
    #[inline]
    pub(super) fn new(limits: usize) -> Self {
        Self {
            fields: SmallVec::with_capacity(limits),
            admitted: true,
            stepped_back: false,
            least: None,
        }
    }

    /// Judges `cost`, or for a partial ask as much of its first unit as remains. Returns the cost
    /// that was judged.
    #[inline]
    pub(super) fn cost<'c>(
        &mut self,
        mode: Mode,
        cost: Amounts<'c>,
        mut judge: impl FnMut(&mut Self, Amounts<'c>),
    ) -> Amounts<'c> {
        let mut cost = cost;
        if mode.is_partial() {
            self.least = Some(u64::MAX);
            judge(self, cost.with_first(1));
            // With nothing left, the check is denied as for cost 1.
            let least = self.least.take().unwrap_or_default();
            cost = cost.with_first(cost.first().min(least).max(1));
            self.fields.clear();
            (self.admitted, self.stepped_back) = (true, false);
        }
        judge(self, cost);
        cost
    }

    #[inline]
    pub(super) fn judge<S: States + ?Sized>(
        &mut self,
        limits: &LimitSet,
        states: &mut S,
        now: Time,
        cost: Amounts<'_>,
    ) {
        let amount = Amount::of_cost(cost, None);
        for (limit, place) in limits.limits().iter().zip(limits.places()) {
            let Claim { wanted, .. } = amount.on(limit);
            let judgement = limit.step().judge(&mut states.cell(*place), now, wanted);
            if let Some(least) = &mut self.least
                && cost.first_is_of(limit)
            {
                *least = judgement.remaining.min(*least);
            }
            self.admitted &= judgement.retry_after_us == 0;
            self.stepped_back |= judgement.stepped_back;
            self.fields.push(Fields::uncharged(&judgement, now));
        }
    }

    #[inline]
    pub(super) fn outcome(self, now: Time) -> Outcome {
        Outcome::new(0, self.fields, 0, now)
    }
}

/// Charges an admitted cost to every limit of a set, and updates the fields.
#[inline]
pub(super) fn charge<S: States + ?Sized>(
    limits: &LimitSet,
    states: &mut S,
    now: Time,
    cost: Amounts<'_>,
    fields: &mut [Fields],
) {
    let amount = Amount::of_cost(cost, None);
    for ((limit, place), field) in limits.limits().iter().zip(limits.places()).zip(fields) {
        let Claim { wanted, taken } = amount.on(limit);
        let mut cell = states.cell(*place);
        if wanted == 0 {
            // Nothing is charged.
            limit.step().repair(&mut cell, now);
            continue;
        }
        let charged = limit.step().charge(&mut cell, now, wanted);
        field.remaining -= taken;
        field.reset_after_us = charged.reset_after_us;
        field.charged_at_us = charged.at_us;
    }
}

//! Gives a credit, and takes it back.

use super::credit::Credit;
use super::holding::judge_after;
use super::holds::{self, HoldSums, Holds};
use super::{HoldRefusal, Outcome, Part, Placed};
use crate::cost::Amounts;
use crate::hold::{HoldId, HoldTerms};
use crate::time::Time;

/// Gives a credit to a count: once under its id.
///
/// # Errors
/// A count has [`super::MAX_CREDITS`] of them with units left, or one of this id and another
/// amount, or one that was taken back; or several subjects share the state. Nothing has changed
/// then.
pub(super) fn give(
    parts: &mut [Part<'_>],
    now: Time,
    cost: Amounts<'_>,
    terms: HoldTerms,
) -> Result<Outcome, HoldRefusal> {
    let mut known = true;
    for part in &*parts {
        known &= check(part, now, cost, terms)?;
    }
    let (mut outcome, at_us) = judge_after(parts, now, cost, |part, at_us| {
        let Some(holds) = part.holds.as_deref_mut().filter(|_| !known) else { return };
        let mut sums = holds.sums();
        sums.fence = at_us.max(sums.fence + 1);
        let new = cost.iter().map(|(unit, units)| Credit {
            end_us: at_us + terms.ttl_us,
            id: terms.id,
            unit: *unit,
            left: units,
            given: units,
        });
        sums.credits.make_room(cost.iter().count());
        sums.credits = sums.credits.iter().cloned().chain(new).collect();
        holds.set_sums(sums);
    });
    let all = parts.iter().filter_map(|part| part.holds.as_deref().map(Holds::sums));
    let (mut fence, mut end_us) = (0, at_us);
    for HoldSums { fence: of_count, credits, .. } in all {
        fence = fence.max(of_count);
        let own = credits.iter().find(|credit| credit.id == terms.id).map(|credit| credit.end_us);
        end_us = own.unwrap_or(end_us);
    }
    outcome.granted = cost.first();
    for field in &mut outcome.fields {
        (field.retry_after_us, field.until_hold) = (Some(0), false);
    }
    outcome.hold = Some(Box::new(Placed { fence, end: Time::from_micros(end_us), answer: 0 }));
    Ok(outcome)
}

/// Takes back the rest of a credit. Returns the units that were given: 0 where it was done before,
/// `None` where no count knows the id.
pub(super) fn take_back(parts: &mut [Part<'_>], id: HoldId) -> Option<u64> {
    let mut taken = None;
    for holds in parts.iter_mut().filter_map(|part| part.holds.as_deref_mut()) {
        let mut sums = holds.sums();
        taken = taken.max(sums.credits.take_back(id));
        holds.set_sums(sums);
    }
    taken
}

/// Whether a count has a credit already, as if everything that is due had ended.
fn check(
    part: &Part<'_>,
    now: Time,
    cost: Amounts<'_>,
    terms: HoldTerms,
) -> Result<bool, HoldRefusal> {
    let Some(holds) = part.holds.as_deref() else { return Ok(false) };
    if part.is_shared {
        return Err(HoldRefusal::StoreFull);
    }
    let (at_us, back_us) = holds::clock(holds, now);
    let mut credits = holds.sums().credits;
    credits.advance(back_us);
    credits.end_until(at_us);
    let own = || credits.iter().filter(|credit| credit.id == terms.id);
    if own().next().is_none() {
        let has_room = credits.make_room(cost.iter().count());
        return if has_room { Ok(false) } else { Err(HoldRefusal::TooManyCredits) };
    }
    if own().all(|credit| credit.given == 0) {
        return Err(HoldRefusal::Over);
    }
    let given = |unit| own().find(|credit| credit.unit == unit).map(|credit| credit.given);
    let is_same = own().count() == cost.iter().count()
        && cost.iter().all(|(unit, units)| given(*unit) == Some(units));
    if is_same { Ok(true) } else { Err(HoldRefusal::Differs) }
}

//! Gives a credit, and takes it back.

use super::credit::{Credit, MAX_CREDITS};
use super::holding::judge_after;
use super::holds::{self, HoldSums, Holds};
use super::{HoldRefusal, Outcome, Part, Placed};
use crate::cost::Amounts;
use crate::hold::{HoldId, HoldTerms};
use crate::time::Time;

/// Gives a credit to a count: once under its id.
///
/// # Errors
/// A count has [`MAX_CREDITS`] of them, or one of this id and another amount; or several subjects
/// share the state. Nothing has changed then.
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

/// Takes back what is left of a credit. Returns whether a count had one of this id.
pub(super) fn take_back(parts: &mut [Part<'_>], id: HoldId) -> bool {
    let mut taken = false;
    for holds in parts.iter_mut().filter_map(|part| part.holds.as_deref_mut()) {
        let mut sums = holds.sums();
        taken |= sums.credits.remove(id);
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
        let is_full = credits.iter().count() + cost.iter().count() > MAX_CREDITS;
        return if is_full { Err(HoldRefusal::TooManyCredits) } else { Ok(false) };
    }
    let given = |unit| own().find(|credit| credit.unit == unit).map(|credit| credit.given);
    let is_same = own().count() == cost.iter().count()
        && cost.iter().all(|(unit, units)| given(*unit) == Some(units));
    if is_same { Ok(true) } else { Err(HoldRefusal::Differs) }
}

//! Commits and releases, which take a hold away.

use smallvec::SmallVec;

use super::Part;
use super::gift;
use super::holding::{charge_beside, end_due};
use super::holds::{self, Mark, OpenHold, SETTLED_FOR_US};
use super::line;
use super::named;
use crate::cost::{Amounts, Cost};
use crate::error::StoreError;
use crate::hold::{Hold, HoldId, HoldKind, HoldName, Settled};
use crate::limit::{Limit, LimitSet, Unit};
use crate::time::Time;

/// Settles a hold: takes it away and charges the used amounts to every rate limit of its counts, up
/// to the debt of each. Of a unit that `actual` does not name, the estimate is charged where the
/// end of the hold would charge it, else nothing.
///
/// `None` when it is open on none of them and nothing remembers it. Where it then has an
/// [`early_name`], [`mark_early`] follows.
///
/// `asked` has the limits of each part in the order in which they are answered; those of the parts
/// are the ones that the states are written under. The states and the holds have changed and must
/// be written back.
///
/// # Errors
/// Units for a hold of [`crate::HoldKind::Acquire`], which only the open hold tells.
pub fn settle(
    parts: &mut [Part<'_>],
    asked: &[&LimitSet],
    now: Time,
    hold: &Hold,
    actual: Amounts<'_>,
) -> Result<Option<Settled>, StoreError> {
    let id = hold.id;
    let mut at_us = now.as_micros();
    for part in parts.iter_mut() {
        at_us = at_us.max(end_due(part, now));
    }
    if id.kind() == HoldKind::Credit {
        let settled = |given| match given {
            0 => Settled::before(0.into()),
            _ => Settled::now(0.into(), Vec::new(), SmallVec::new()),
        };
        return Ok(gift::take_back(parts, id).map(settled));
    }
    let find = |part: &Part<'_>| part.holds.as_deref().and_then(|holds| named::find(holds, id));
    let open: SmallVec<[Option<OpenHold>; 1]> = parts.iter().map(find).collect();
    let is_slot = |hold: &OpenHold| hold.id.kind() == HoldKind::Acquire;
    if !actual.is_zero() && open.iter().flatten().any(is_slot) {
        return Err(StoreError::misuse(RELEASED_WITHOUT_UNITS));
    }
    line::leave(parts, id.name());
    // An open hold has not been settled, so nearly no commit has to look for it.
    if open.is_empty() || open.iter().any(Option::is_none) {
        if let Some(before) = settled_before(parts, id, at_us) {
            return Ok(Some(Settled::before(before)));
        }
        if open.iter().all(Option::is_none) {
            return Ok(None);
        }
    }
    if hold.is_undelivered && is_answered_again(parts, hold) {
        return Ok(Some(Settled::before(0.into())));
    }
    let estimate = open.iter().flatten().next().map(|open| open.charging().into());
    let actual = used_of(actual, estimate.unwrap_or(Cost::from(0)).amounts());
    let limits = asked.iter().map(|asked| asked.limits().len()).sum();
    let (mut charged, mut open_on) = (Vec::with_capacity(limits), SmallVec::new());
    for (place, ((part, asked), open)) in parts.iter_mut().zip(asked).zip(open).enumerate() {
        let Some((holds, open)) = part.holds.as_deref_mut().zip(open) else { continue };
        open_on.push(place);
        holds::take(holds, open);
        match id.name() {
            Some(_) if hold.is_undelivered => {}
            Some(name) => {
                let until_us = at_us + SETTLED_FOR_US;
                let mark = Mark { until_us, actual: actual.clone(), is_early: false };
                holds.mark(name, mark, at_us);
            }
            None if id.kind().keeps_units() => {
                holds.remember(id, &actual, at_us + SETTLED_FOR_US);
            }
            None => {}
        }
        let done = charge_beside(part, now, actual.amounts());
        let written = part.limits.limits();
        let place =
            |limit: &Limit| written.iter().position(|other| other.identity() == limit.identity());
        let places = asked.limits().iter().filter_map(place);
        charged.extend(places.filter_map(|place| done.get(place).copied()));
    }
    Ok(Some(Settled::now(actual, charged, open_on)))
}

/// The refusal of units for a slot.
pub const RELEASED_WITHOUT_UNITS: &str =
    "a slot is released without units: its rate limits were charged when it was acquired";

/// The amounts to charge: the used ones, and of units that they do not name the estimate.
fn used_of(actual: Amounts<'_>, estimate: Amounts<'_>) -> Cost {
    // A plain 0 is nothing of any unit.
    if actual.plain() == Some(0) || actual.plain().is_some() && estimate.plain().is_some() {
        return actual.into();
    }
    let left = estimate.iter().filter(|(unit, _)| actual.named(unit).is_none());
    let all = actual.iter().chain(left);
    let all = all.filter(|(unit, amount)| **unit != Unit::SLOTS && *amount > 0);
    let mut all: Vec<(Unit, u64)> = all.map(|(unit, amount)| (*unit, amount)).collect();
    all.sort_by_key(|(unit, _)| (*unit != Unit::REQUESTS, *unit));
    Cost::of(&all)
}

fn settled_before(parts: &mut [Part<'_>], id: HoldId, at_us: u64) -> Option<Cost> {
    let mut held = parts.iter_mut().filter_map(|part| part.holds.as_deref_mut());
    match id.name() {
        Some(name) => held.find_map(|holds| holds.marked(name, at_us)),
        None => held.find_map(|holds| holds.settled(id, at_us)),
    }
}

/// Whether a hold was answered again after the answer that this is.
fn is_answered_again(parts: &[Part<'_>], hold: &Hold) -> bool {
    let Some(name) = hold.id.name() else { return false };
    let mut each = parts.iter().filter_map(|part| part.holds.as_deref());
    each.any(|holds| holds.named(name).is_some_and(|named| named.answers != hold.answer))
}

/// The name of which a mark is left where no hold has it: one that comes is then refused. `None`
/// where more is known of the hold than its name, and where units are charged.
#[must_use]
pub fn early_name(hold: &Hold, actual: Amounts<'_>) -> Option<HoldName> {
    hold.id.name().filter(|_| hold.id.is_of_any_kind() && actual.is_zero())
}

/// Leaves a mark on the first count of a hold that its name is over, where [`settle`] found no hold
/// of it. It lasts as long as the limits that were asked for say, and the count stays under those
/// that it is written under, which `part` has. True when it is new.
pub fn mark_early(part: &mut Part<'_>, asked: &LimitSet, now: Time, name: HoldName) -> bool {
    let at_us = end_due(part, now);
    named::mark_early(part, asked, name, at_us)
}

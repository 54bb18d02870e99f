//! Checks, commits and renewals over counts with open holds.

mod judge;

use smallvec::SmallVec;

pub(super) use self::judge::OpenEnds;
use self::judge::{PartView, earlier, judge};
use super::amount::{Amount, Claim};
use super::charge::{asked_again, take};
use super::credit::Credits;
use super::denial::{deny, repair};
use super::holds::{self, Holds, MAX_CHARGING_HOLDS, MAX_HOLDS, NamedHold, OpenHold, ShownHold};
use super::line::{self, Ahead};
use super::named::{self, HoldRefusal};
use super::pay::{pay, pay_of};
use super::{
    Carried, Carries, Charged, Fields, HoldSums, Mode, Outcome, Part, Placed, States, VecStates,
    migrate,
};
use crate::cost::{Amounts, Cost};
use crate::decision::PAID_BY_CREDITS;
use crate::hold::{HoldId, HoldKind, HoldTerms, Patience};
use crate::limit::{Limit, LimitSet, Place};
use crate::strategy::Step;
use crate::time::Time;

/// Decides as [`super::decide`] does, over parts of which some have open holds or get one.
///
/// Ends that are due are judged first, each at its own time. After a question that is not a peek,
/// the states and the holds have changed and must be written back. A peek changes nothing.
///
/// # Errors
/// More than [`MAX_HOLDS`] would be open, or more than [`MAX_CHARGING_HOLDS`] that charge at their
/// end, or the name of the hold is in the way. Nothing has changed then: as after a peek, due holds
/// stay due.
pub(super) fn decide_among_holds(
    parts: &mut [Part<'_>],
    now: Time,
    cost: Amounts<'_>,
    mode: Mode,
    terms: Option<HoldTerms>,
) -> Result<Outcome, HoldRefusal> {
    if mode.is_peek() {
        return Ok(peek(parts, now, cost, mode, terms));
    }
    // Before anything ends, because what is refused changes nothing.
    let first = cost.first();
    let repeated = terms.map_or(Ok(None), |terms| named::look_up(parts, now, cost, terms))?;
    if let (Some(terms), None) = (terms, repeated) {
        parts.iter().try_for_each(|part| check_room(part, now, terms))?;
    }
    let own = line::place_of(terms, first);
    if repeated.is_none() && line::is_full(parts, now, own) {
        return Err(HoldRefusal::LineFull);
    }
    let mut at_us = now.as_micros();
    for part in parts.iter_mut() {
        at_us = at_us.max(end_due(part, now));
    }
    if let Some((terms, placed)) = terms.zip(repeated) {
        named::note_answer(parts, terms, placed);
    }
    // First, because the search for a wait looks at later times.
    for part in parts.iter_mut() {
        repair(part.limits, part.states, now);
    }
    let mut looked = look(parts, now, own);
    let ahead = looked.iter().map(|part| part.ahead.count).max();
    let mut outcome = judge(&mut looked, now, cost, mode, terms);
    drop(looked);
    outcome.changed = true;
    if let Some(placed) = repeated {
        // All of it is held already: the units that remain beside it are as in a peek.
        outcome.granted = first;
        for field in &mut outcome.fields {
            (field.retry_after_us, field.until_hold) = (Some(0), false);
        }
        outcome.hold = Some(Box::new(placed));
        return Ok(outcome);
    }
    if let (Some(terms), Some(_)) = (terms, own) {
        let may_come = outcome.fields.iter().all(|field| field.retry_after_us.is_some());
        outcome.ahead = ahead.unwrap_or(0);
        line::renew(parts, now, own, terms.ttl_us, may_come && outcome.granted == 0);
    }
    if outcome.granted == 0 {
        let waits = mode.waits() || terms.is_some_and(|it| it.patience != Patience::None);
        let mut rest = &mut outcome.fields[..];
        for part in parts.iter_mut() {
            let (fields, others) = rest.split_at_mut(part.limits.limits().len());
            rest = others;
            if !part.is_shared && !waits {
                deny(part.limits, part.states, now, fields);
            }
        }
        return Ok(outcome);
    }
    // A hold of units leaves the states as they are.
    let charges = terms.is_none_or(|terms| !terms.id.kind().keeps_units());
    charge(parts, now, cost.with_first(outcome.granted), terms, charges, &mut outcome.fields);
    if let Some(terms) = terms {
        let end = place(parts, at_us, cost, terms);
        let fence = fence_of(parts);
        let answer = u64::from(terms.id.name().is_some());
        outcome.hold = Some(Box::new(Placed { fence, end, answer }));
    }
    note_resets(parts, now, charges, &mut outcome.fields);
    Ok(outcome)
}

/// Judges a cost once everything that is due has ended, and each part was changed by a function of
/// the time by which ends are judged. Returns that time too, the latest of all parts.
pub(super) fn judge_after(
    parts: &mut [Part<'_>],
    now: Time,
    cost: Amounts<'_>,
    mut change: impl FnMut(&mut Part<'_>, u64),
) -> (Outcome, u64) {
    let mut at_us = now.as_micros();
    for part in parts.iter_mut() {
        at_us = at_us.max(end_due(part, now));
    }
    for part in parts.iter_mut() {
        change(part, at_us);
        repair(part.limits, part.states, now);
    }
    let mut outcome = judge(&mut look(parts, now, None), now, cost, Mode::Peek, None);
    outcome.changed = true;
    (outcome, at_us)
}

/// Refuses one more hold on a count that is full, once all due holds have ended.
fn check_room(part: &Part<'_>, now: Time, terms: HoldTerms) -> Result<(), HoldRefusal> {
    let Some(holds) = part.holds.as_deref() else { return Ok(()) };
    let charges = terms.id.kind() == HoldKind::Charging;
    let (open, chargers) = (holds.sums().count, if charges { holds.chargers() } else { 0 });
    if open < MAX_HOLDS && chargers < MAX_CHARGING_HOLDS {
        return Ok(());
    }
    let (_, due) = OpenEnds::after_due(Some(holds), now);
    let over = due.iter().filter(|hold| charges && hold.is_charging()).count();
    if open - due.len() as u64 >= MAX_HOLDS {
        return Err(HoldRefusal::TooMany);
    }
    match chargers - over as u64 >= MAX_CHARGING_HOLDS {
        true => Err(HoldRefusal::TooManyCharging),
        false => Ok(()),
    }
}

/// Judges on copies of the states, on which everything that is due has ended.
fn peek(
    parts: &mut [Part<'_>],
    now: Time,
    cost: Amounts<'_>,
    mode: Mode,
    terms: Option<HoldTerms>,
) -> Outcome {
    let mut copies: Vec<VecStates> =
        parts.iter_mut().map(|part| VecStates::copy_of(part.limits, part.states)).collect();
    let mut helds: Vec<OpenEnds<'_>> = Vec::new();
    for (part, states) in parts.iter().zip(&mut copies) {
        let (mut held, due) = OpenEnds::after_due(part.holds.as_deref(), now);
        if !is_carried(&part.carried) {
            let (owes, credits) = (!part.is_shared, &mut held.sums.credits);
            due.iter().for_each(|hold| charge_end(part.limits, states, hold, owes, credits));
        }
        held.sums.credits.end_until(held.at_us);
        repair(part.limits, states, now);
        helds.push(held);
    }
    let each = parts.iter().zip(&mut copies).zip(helds);
    let mut looked: Vec<PartView<'_>> = each
        .map(|((part, states), held)| {
            let (limits, carried) = (part.limits, &part.carried[..]);
            let ahead = line::ahead(part, now, None);
            PartView { limits, states, held, carried, ahead }
        })
        .collect();
    judge(&mut looked, now, cost, mode, terms)
}

/// The parts of a question on which nothing is due.
fn look<'p>(
    parts: &'p mut [Part<'_>],
    now: Time,
    own: Option<(HoldId, u64)>,
) -> SmallVec<[PartView<'p>; 1]> {
    let each = parts.iter_mut().map(|part| PartView {
        ahead: line::ahead(part, now, own),
        limits: part.limits,
        states: &mut *part.states,
        held: OpenEnds::open(part.holds.as_deref()),
        carried: &part.carried[..],
    });
    each.collect()
}

/// Lets every hold end that is due, each at its own time. Returns the time by which ends are
/// judged.
pub(super) fn end_due(part: &mut Part<'_>, now: Time) -> u64 {
    let Some(holds) = part.holds.as_deref_mut() else { return now.as_micros() };
    let at_us = holds::note_time(holds, now);
    let (is_carried, owes) = (is_carried(&part.carried), !part.is_shared);
    while let Some(hold) = holds.first()
        && hold.end_us <= at_us
    {
        if !is_carried && hold.is_charging() {
            let mut sums = holds.sums();
            charge_end(part.limits, part.states, &hold, owes, &mut sums.credits);
            holds.set_sums(sums);
        }
        holds::take(holds, hold);
    }
    let mut sums = holds.sums();
    if !sums.credits.is_empty() {
        sums.credits.end_until(at_us);
        holds.set_sums(sums);
    }
    at_us
}

/// Whether a count was written under other limits, under which [`migrate_holding`] has charged all
/// that was due.
const fn is_carried(carried: &[Carried]) -> bool {
    !carried.is_empty()
}

/// A state that new subjects share in a full store never has a debt (`owes`).
fn charge_end(
    limits: &LimitSet,
    states: &mut dyn States,
    hold: &OpenHold,
    owes: bool,
    credits: &mut Credits,
) {
    if hold.is_charging() {
        let at = Time::from_micros(hold.end_us);
        let rest = pay(limits, states, credits, hold.charging(), at);
        let units = rest.as_ref().map_or(hold.charging(), Cost::amounts);
        charge_rates(limits, states, units, owes, at);
    }
}

/// As [`super::migrate`], of a count that has open holds. Due holds are charged first, under the
/// numbers that the count was written under, and no credit pays that. The holds stay as they are.
pub fn migrate_holding(
    limits: &LimitSet,
    states: &mut dyn States,
    was: &LimitSet,
    old: &mut dyn States,
    holds: &dyn Holds,
    now: Time,
) -> Carries {
    let (_, due) = OpenEnds::after_due(Some(holds), now);
    if !due.iter().any(OpenHold::is_charging) {
        return migrate(limits, states, was, old, now);
    }
    let mut copy = VecStates::copy_of(was, old);
    let none = &mut Credits::default();
    due.iter().for_each(|hold| charge_end(was, &mut copy, hold, true, none));
    migrate(limits, states, was, &mut copy, now)
}

/// Charges every rate limit up to its debt, if it may have one.
fn charge_rates(
    limits: &LimitSet,
    states: &mut dyn States,
    units: Amounts<'_>,
    owes: bool,
    at: Time,
) {
    let each = limits.limits().iter().zip(limits.places());
    for (limit, place) in each {
        let taken = Amount::of_charge(units).on(limit).taken;
        if taken > 0 {
            take(limit, &mut states.cell(*place), taken, owes, at);
        }
    }
}

/// Charges the rate limits of an admitted question that reserves nothing, and takes the charged or
/// held units from the remaining ones.
fn charge(
    parts: &mut [Part<'_>],
    now: Time,
    cost: Amounts<'_>,
    terms: Option<HoldTerms>,
    charges: bool,
    fields: &mut [Fields],
) {
    let amount = Amount::of_cost(cost, terms.map(|terms| terms.id.kind()));
    let whole = if charges { cost } else { 0.into() };
    let mut fields = fields.iter_mut();
    for part in parts {
        let rest = pay_of(part, whole, now);
        let charged = Amount::of_charge(rest.as_ref().map_or(whole, Cost::amounts));
        let each = part.limits.limits().iter().zip(part.limits.places());
        for ((limit, place), field) in each.zip(fields.by_ref()) {
            field.remaining = field.remaining.saturating_sub(amount.on(limit).taken);
            let units = charged.on(limit).taken;
            if units > 0 {
                let recorded = limit.step().charge(&mut part.states.cell(*place), now, units);
                field.charged_at_us = recorded.at_us;
            }
            if units < Amount::of_charge(whole).on(limit).taken {
                // Credits get it back, and not the limit.
                field.charged_at_us = PAID_BY_CREDITS;
            }
        }
    }
}

/// Places a hold on every part, under the largest of their fencing numbers. Returns its end.
fn place(parts: &mut [Part<'_>], at_us: u64, cost: Amounts<'_>, terms: HoldTerms) -> Time {
    let fence = at_us.max(fence_of(parts) + 1);
    let end_us = at_us + terms.ttl_us;
    for holds in parts.iter_mut().filter_map(|part| part.holds.as_deref_mut()) {
        holds::place(holds, OpenHold { end_us, id: terms.id, cost: cost.into() });
        let sums = holds.sums();
        holds.set_sums(HoldSums { fence, ..sums });
        if let Some(name) = terms.id.name() {
            let named =
                NamedHold { kind: terms.id.kind(), ttl_us: terms.ttl_us, fence, answers: 1 };
            holds.set_named(name, Some(named));
        }
    }
    Time::from_micros(end_us)
}

fn fence_of(parts: &[Part<'_>]) -> u64 {
    let each = parts.iter().filter_map(|part| part.holds.as_ref());
    each.map(|holds| holds.sums().fence).max().unwrap_or(0)
}

/// Computes when each limit is fresh, once all has been charged and held.
fn note_resets(parts: &mut [Part<'_>], now: Time, charged: bool, fields: &mut [Fields]) {
    let mut fields = fields.iter_mut();
    for part in parts {
        let limits = part.limits;
        let mut looked = look_at(part);
        // Where nothing was charged and no end will, all that may have changed is the last end.
        let stays = !charged && looked.held.sums.charging.is_zero();
        let each = limits.limits().iter().zip(limits.places());
        for ((limit, place), field) in each.zip(fields.by_ref()) {
            let by_itself = if stays {
                field.reset_after_us
            } else {
                limit.step().judge(&mut looked.states.cell(*place), now, 1).reset_after_us
            };
            field.reset_after_us = looked.reset_after_us(limit, *place, now, by_itself);
        }
    }
}

/// Charges without a check, as [`super::charge`], a count that has open holds. Ends that are due
/// are judged first. A cost of 0 charges nothing and tells what remains.
pub fn charge_holding(part: &mut Part<'_>, now: Time, cost: Amounts<'_>) -> SmallVec<[Charged; 2]> {
    end_due(part, now);
    charge_beside(part, now, cost)
}

pub(super) fn charge_beside(
    part: &mut Part<'_>,
    now: Time,
    cost: Amounts<'_>,
) -> SmallVec<[Charged; 2]> {
    // After a commit of nothing, the wait is that of one more unit.
    let is_plain = part.limits.is_plain();
    let again = if is_plain { cost.with_first(cost.first().max(1)) } else { cost };
    let owes = !part.is_shared;
    let limits = part.limits;
    repair(limits, part.states, now);
    let mut looked = look_at(part);
    let each = || limits.limits().iter().zip(limits.places());
    let would_fit = |(limit, place): (&Limit, &Place)| {
        let Claim { wanted, .. } = Amount::of_charge(cost).on(limit);
        is_plain && wanted == 0 || looked.fits(limit, *place, now, wanted)
    };
    let fits: SmallVec<[bool; 2]> = each().map(would_fit).collect();
    let rest = pay(limits, looked.states, &mut looked.held.sums.credits, cost, now);
    let charged = Amount::of_charge(rest.as_ref().map_or(cost, Cost::amounts));
    let mut soonest = None;
    let done = each()
        .zip(fits)
        .map(|((limit, place), fits)| {
            let cut =
                take(limit, &mut looked.states.cell(*place), charged.on(limit).taken, owes, now);
            let again = asked_again(limits, limit, again);
            let left = looked.judge_limit(limit, *place, now, again, &mut soonest);
            Charged::new(fits, cut, left.remaining, left.retry_after_us, left.reset_after_us)
        })
        .collect();
    let sums = looked.held.sums;
    if let (Some(_), Some(holds)) = (rest, part.holds.as_deref_mut()) {
        holds.set_sums(sums);
    }
    done
}

/// A part on which nothing is due, whoever waits in line.
fn look_at<'p>(part: &'p mut Part<'_>) -> PartView<'p> {
    PartView {
        limits: part.limits,
        states: &mut *part.states,
        held: OpenEnds::open(part.holds.as_deref()),
        carried: &part.carried[..],
        ahead: Ahead::default(),
    }
}

/// Lets everything end that is due: before any other change of a count that has open holds. Returns
/// the sums over those that stay.
pub(super) fn end_holds(part: &mut Part<'_>, now: Time) -> HoldSums {
    end_due(part, now);
    part.holds.as_deref().map(Holds::sums).unwrap_or_default()
}

/// How many holds and credits of a count are open, the first `most` of the holds to end, and all
/// credits of which anything is left. Changes nothing.
pub fn open_holds(holds: &dyn Holds, now: Time, most: usize) -> (u64, Vec<ShownHold>) {
    let (ends, _) = OpenEnds::after_due(Some(holds), now);
    let (at_us, _) = holds::clock(holds, now);
    let each = holds.soonest(ends.due + most).into_iter().skip(ends.due);
    let shown = each.map(|hold| {
        let span_us = holds::span_us(holds, &hold);
        ShownHold::at(earlier(hold, ends.back_us), span_us, at_us)
    });
    let credits = ends.sums.credits.iter().filter(|it| it.left > 0 && it.end_us > at_us);
    let credits: Vec<ShownHold> =
        credits.map(|it| ShownHold::at(it.into(), it.id.asked_us(), at_us)).collect();
    (ends.sums.count + credits.len() as u64, shown.chain(credits).collect())
}

/// Until when what the ends of open holds charge can count, in microseconds since the Unix epoch: a
/// store keeps the count until then, also where nobody asks for it meanwhile. 0 if no end charges.
pub fn ends_count_until_us(limits: &LimitSet, holds: &dyn Holds) -> u64 {
    if holds.sums().charging.is_zero() {
        return 0;
    }
    all_used_until_us(limits, holds.last().map_or(0, |hold| hold.end_us))
}

/// The longest time that a charge of all that can be used counts, in microseconds.
#[must_use]
pub fn longest_count_us(limits: &LimitSet) -> u64 {
    // At the start of the epoch every window and every refill has its whole length before it, but
    // for that of a calendar.
    let calendars = limits.limits().iter().filter_map(|limit| limit.quota().calendar.as_ref());
    let longest = calendars.map(|calendar| calendar.unit().most_us()).max().unwrap_or(0);
    all_used_until_us(limits, 0).max(longest)
}

/// Until when anything counts where the capacity and the debt of each limit are charged together.
fn all_used_until_us(limits: &LimitSet, at_us: u64) -> u64 {
    let mut used = VecStates::fresh(limits);
    for (limit, place) in limits.limits().iter().zip(limits.places()) {
        // Whatever its unit. No charge takes slots, or anything of a ban.
        if limit.largest_reservation().is_some() {
            let at = Time::from_micros(at_us);
            take(limit, &mut used.cell(*place), limit.most(), true, at);
        }
    }
    super::fresh_at_us(limits, &mut used)
}

/// Renews a hold, which then ends `ttl_us` from now. Returns its new end; `None` when it is open on
/// none of the counts: whoever held it does so no longer.
///
/// The states and the holds have changed and must be written back.
pub fn renew(parts: &mut [Part<'_>], now: Time, id: HoldId, ttl_us: u64) -> Option<Time> {
    let mut at_us = now.as_micros();
    for part in parts.iter_mut() {
        at_us = at_us.max(end_due(part, now));
    }
    let end_us = at_us + ttl_us;
    let mut renewed = false;
    for holds in parts.iter_mut().filter_map(|part| part.holds.as_deref_mut()) {
        let Some(hold) = named::find(holds, id) else { continue };
        let named = id.name().and_then(|name| holds.named(name).map(|named| (name, named)));
        let span_us = holds::span_us(holds, &hold);
        let (was_us, id) = (hold.end_us, hold.id);
        holds.remove(&hold);
        holds.insert(OpenHold { end_us, ..hold });
        if let Some((name, named)) = named {
            holds.set_named(name, Some(named));
        }
        if let Some(span_us) = span_us {
            holds.set_renewed(id, span_us.saturating_add(end_us).saturating_sub(was_us));
        }
        renewed = true;
    }
    renewed.then_some(Time::from_micros(end_us))
}

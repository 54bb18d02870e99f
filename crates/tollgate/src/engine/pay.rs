//! Charges that the limits have no room for: credits pay them.

use super::credit::Credits;
use super::{Part, States};
use crate::cost::{Amounts, Cost};
use crate::limit::{LimitSet, Unit};
use crate::strategy::Step as _;
use crate::time::Time;

/// Lets credits pay, as far as they can, the amount of each unit that its limits have no room for.
/// Returns what is left to charge to these. `None` where credits pay nothing.
pub(super) fn pay(
    limits: &LimitSet,
    states: &mut dyn States,
    credits: &mut Credits,
    amounts: Amounts<'_>,
    at: Time,
) -> Option<Cost> {
    if credits.is_empty() {
        return None;
    }
    let mut rest: Vec<(Unit, u64)> = amounts.iter().map(|(unit, sum)| (*unit, sum)).collect();
    let mut pays = false;
    for (unit, amount) in &mut rest {
        let each = limits.limits().iter().zip(limits.places());
        let own = each.filter(|(limit, _)| limit.is_rate_of(unit));
        let room = own.map(|(limit, place)| {
            let mut cell = states.cell(*place);
            limit.step().repair(&mut cell, at);
            limit.step().judge(&mut cell, at, 1).remaining
        });
        let Some(room) = room.min() else { continue };
        let beyond = if *amount > room { *amount } else { 0 };
        let paid = credits.take(*unit, beyond, at.as_micros());
        *amount -= paid;
        pays |= paid > 0;
    }
    rest.retain(|(_, amount)| *amount > 0);
    pays.then(|| Cost::of(&rest))
}

/// The rest of a charge, for the limits of a part, behind its credits: `None` where these pay
/// nothing.
pub(super) fn pay_of(part: &mut Part<'_>, charged: Amounts<'_>, at: Time) -> Option<Cost> {
    let holds = part.holds.as_deref_mut()?;
    let mut sums = holds.sums();
    let rest = pay(part.limits, part.states, &mut sums.credits, charged, at)?;
    holds.set_sums(sums);
    Some(rest)
}

//! Those who wait in line for a hold of a count (`docs/definitions.md`, section 11).

use smallvec::SmallVec;

use super::Part;
use super::amount::Amount;
use super::holds::Holds;
use super::ticket::{LONGEST_TICKET_US, MAX_TICKETS, SHORTEST_TICKET_US, Ticket};
use crate::hold::{HoldId, HoldName, HoldTerms, Patience};
use crate::time::Time;

/// The units of a count that those ahead of a question want.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Ahead {
    units: u64,
    slots: u64,
    pub(super) count: u16,
    /// When the last ticket of the count ends.
    pub(super) until_us: u64,
}

impl Ahead {
    /// Their amount together.
    pub(super) fn amount(&self) -> Amount<'_> {
        Amount { units: self.units.into(), slots: self.slots }
    }
}

/// The hold that terms want a place in line for.
pub(super) fn place_of(terms: Option<HoldTerms>, cost: u64) -> Option<(HoldId, u64)> {
    terms.filter(|terms| terms.patience == Patience::InLine).map(|terms| (terms.id, cost))
}

/// The tickets of a count that have not ended, by the store's clock alone. None ends later than it
/// can rightly do, whatever the clock did.
fn live(holds: &dyn Holds, now: Time) -> impl Iterator<Item = Ticket> {
    let at_us = now.as_micros();
    let tickets = holds.line().into_iter().filter(move |ticket| ticket.end_us > at_us);
    let longest_us = at_us + LONGEST_TICKET_US;
    tickets.map(move |ticket| Ticket { end_us: ticket.end_us.min(longest_us), ..ticket })
}

/// Those ahead of a question, which has the ticket `own` or none.
pub(super) fn ahead(part: &Part<'_>, now: Time, own: Option<(HoldId, u64)>) -> Ahead {
    let mut ahead = Ahead::default();
    let Some(holds) = part.holds.as_deref().filter(|_| part.limits.needs_hold()) else {
        return ahead;
    };
    let mut is_before = true;
    for ticket in live(holds, now) {
        ahead.until_us = ahead.until_us.max(ticket.end_us);
        is_before &= !own.is_some_and(|own| ticket.is_of(own));
        if is_before {
            ahead.units += ticket.cost;
            ahead.slots += ticket.id.kind().slots(ticket.cost.into());
            ahead.count = ahead.count.saturating_add(1);
        }
    }
    ahead
}

/// Whether the line of a count has no place for a newcomer.
pub(super) fn is_full(parts: &[Part<'_>], now: Time, own: Option<(HoldId, u64)>) -> bool {
    let Some(own) = own else { return false };
    parts.iter().filter(|part| part.limits.needs_hold()).any(|part| {
        let Some(holds) = part.holds.as_deref() else { return false };
        let (mut count, mut is_known) = (0, false);
        for ticket in live(holds, now) {
            count += 1;
            is_known |= ticket.is_of(own);
        }
        count >= MAX_TICKETS && !is_known
    })
}

/// Renews the ticket of a denied question on every count with slots, or takes it away where the
/// question waits no more.
pub(super) fn renew(
    parts: &mut [Part<'_>],
    now: Time,
    own: Option<(HoldId, u64)>,
    ttl_us: u64,
    waits: bool,
) {
    let Some(own) = own else { return };
    let (mut known_us, mut next_us) = (None, now.as_micros());
    let mut lines: SmallVec<[&mut dyn Holds; 2]> = SmallVec::new();
    for part in parts {
        if let (true, Some(holds)) = (part.limits.needs_hold(), part.holds.as_deref_mut()) {
            repair(holds, now);
            for ticket in holds.line() {
                next_us = next_us.max(ticket.since_us + 1);
                if ticket.is_of(own) {
                    let known: u64 = known_us.unwrap_or(ticket.since_us);
                    known_us = Some(known.min(ticket.since_us));
                    holds.leave(&ticket);
                }
            }
            lines.push(holds);
        }
    }
    if !waits {
        return;
    }
    // A count whose line was forgotten takes the place from another, or two could wait for each
    // other.
    let since_us = known_us.unwrap_or(next_us);
    let lasts_us = ttl_us.clamp(SHORTEST_TICKET_US, LONGEST_TICKET_US);
    for holds in lines {
        let (id, cost) = own;
        holds.stand(Ticket { since_us, id, cost, end_us: now.as_micros() + lasts_us });
    }
}

/// Forgets the tickets that have ended, and cuts those that end too late.
fn repair(holds: &mut dyn Holds, now: Time) {
    let at_us = now.as_micros();
    let longest_us = at_us + LONGEST_TICKET_US;
    for ticket in holds.line() {
        if ticket.end_us <= at_us || ticket.end_us > longest_us {
            holds.leave(&ticket);
        }
        if ticket.end_us > longest_us {
            holds.stand(Ticket { end_us: longest_us, ..ticket });
        }
    }
}

/// Takes the tickets of a name away.
pub(super) fn leave(parts: &mut [Part<'_>], name: Option<HoldName>) {
    let Some(name) = name else { return };
    for holds in parts.iter_mut().filter_map(|part| part.holds.as_deref_mut()) {
        for ticket in holds.line() {
            if ticket.id.name() == Some(name) {
                holds.leave(&ticket);
            }
        }
    }
}

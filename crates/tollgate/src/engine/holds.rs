//! The open holds of a count: units that are kept until somebody settles them, or until their time
//! ends (`docs/definitions.md`, section 11).

use super::credit::{Credit, Credits};
use super::ticket::Ticket;
use crate::cost::{Amounts, Cost};
use crate::hold::{HoldId, HoldKind, HoldName};
use crate::limit::Unit;
use crate::time::{SKEW_US, Time};

/// The most holds that are open on one count at a time.
pub const MAX_HOLDS: u64 = 100_000;

/// The most of them that charge at their end. All that are due are charged before a count answers
/// anything else, so their number bounds how long that takes.
pub const MAX_CHARGING_HOLDS: u64 = 1_000;

/// How long a settled hold is remembered, in microseconds: a repeated commit within that time
/// charges nothing.
pub const SETTLED_FOR_US: u64 = 60_000_000;

/// The most ends that a denial looks at to say how long to wait, in the order of time. With more
/// open holds its wait may be longer than it must, never shorter.
pub const MAX_ENDS: usize = 64;

/// One open hold of one count. Holds are ordered by their ends, then by their ids.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(clippy::exhaustive_structs)] // a store builds it from what it has kept
pub struct OpenHold {
    /// When it ends by itself, in microseconds since the Unix epoch.
    pub end_us: u64,
    /// Its id, which also says its kind.
    pub id: HoldId,
    /// The cost that it was asked for.
    pub cost: Cost,
}

impl OpenHold {
    /// The amounts that it keeps from the rate limits of its count.
    #[must_use]
    pub fn units(&self) -> Amounts<'_> {
        if self.id.kind().keeps_units() { self.cost.amounts() } else { 0.into() }
    }

    /// The slots that it takes of the concurrency limits of its count.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.id.kind().slots(self.cost.amounts())
    }

    /// Whether its end charges its cost.
    #[must_use]
    pub fn is_charging(&self) -> bool {
        self.id.kind() == HoldKind::Charging
    }

    /// The amounts that its end charges.
    #[must_use]
    pub fn charging(&self) -> Amounts<'_> {
        if self.is_charging() { self.cost.amounts() } else { 0.into() }
    }
}

/// The rest of a credit, as a hold.
impl From<&Credit> for OpenHold {
    fn from(credit: &Credit) -> Self {
        let Credit { end_us, id, unit, left, .. } = *credit;
        Self { end_us, id, cost: Cost::of_unit(unit, left) }
    }
}

/// An open hold as an inspection shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_structs)] // a store builds it from what it has kept
pub struct ShownHold {
    /// The hold.
    pub hold: OpenHold,
    /// For how long it is open, in microseconds. `None` for a hold that an earlier version placed
    /// without a name: nothing says when that was.
    pub age_us: Option<u64>,
}

impl ShownHold {
    /// A hold that was placed so long before its end, as it is shown at a time.
    #[must_use]
    pub fn at(hold: OpenHold, span_us: Option<u64>, at_us: u64) -> Self {
        // Of several counts one may be a little ahead of another when a hold is placed.
        let age_us =
            span_us.map(|span_us| at_us.saturating_add(span_us).saturating_sub(hold.end_us));
        Self { hold, age_us }
    }
}

/// Amounts that are added up by unit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(clippy::exhaustive_structs)] // a store builds it from what it has kept
pub struct UnitSums {
    /// The requests.
    pub requests: u64,
    /// The other units, in the order in which they came, each above 0.
    pub more: Vec<(Unit, u64)>,
}

impl UnitSums {
    /// The sum of a unit.
    #[must_use]
    #[inline]
    pub fn of(&self, unit: &Unit) -> u64 {
        if *unit == Unit::REQUESTS {
            return self.requests;
        }
        self.more.iter().find(|(known, _)| known == unit).map_or(0, |(_, sum)| *sum)
    }

    /// Whether all are 0.
    #[must_use]
    #[inline]
    pub const fn is_zero(&self) -> bool {
        self.requests == 0 && self.more.is_empty()
    }

    #[inline(always)]
    fn add(&mut self, amounts: Amounts<'_>) {
        match amounts.plain() {
            Some(requests) => self.requests += requests,
            None => self.change_each(amounts, u64::saturating_add),
        }
    }

    /// A store that lost a part of its data never makes a sum negative.
    #[inline]
    fn subtract(&mut self, amounts: Amounts<'_>) {
        match amounts.plain() {
            Some(requests) => self.requests = self.requests.saturating_sub(requests),
            None => self.change_each(amounts, u64::saturating_sub),
        }
    }

    #[cold]
    fn change_each(&mut self, amounts: Amounts<'_>, change: impl Fn(u64, u64) -> u64) {
        // Slots are added up apart.
        for (unit, amount) in amounts.iter().filter(|(unit, _)| **unit != Unit::SLOTS) {
            if *unit == Unit::REQUESTS {
                self.requests = change(self.requests, amount);
                continue;
            }
            match self.more.iter_mut().find(|(known, _)| known == unit) {
                Some((_, sum)) => *sum = change(*sum, amount),
                None => self.more.push((*unit, change(0, amount))),
            }
        }
        self.more.retain(|(_, sum)| *sum > 0);
    }
}

/// The sums over the open holds of a count, and the records that outlive them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(clippy::exhaustive_structs)] // a store builds it from what it has kept
pub struct HoldSums {
    /// How many holds are open.
    pub count: u64,
    /// The amounts that they keep from rate limits.
    pub units: UnitSums,
    /// The part of these amounts that is charged where a hold ends by itself.
    pub charging: UnitSums,
    /// The slots that they take of concurrency limits.
    pub slots: u64,
    /// The last fencing number.
    pub fence: u64,
    /// The latest time of an operation while a hold was open, in microseconds since the Unix epoch.
    pub seen_us: u64,
    /// The units that its subject was given, which its charges take behind the limits.
    pub credits: Credits,
}

impl HoldSums {
    /// Whether a hold is open, or a credit has not ended.
    #[must_use]
    #[inline]
    pub const fn is_open(&self) -> bool {
        self.count > 0 || !self.credits.is_empty()
    }

    #[inline(always)]
    pub(super) fn add(&mut self, hold: &OpenHold) {
        self.count += 1;
        self.units.add(hold.units());
        self.charging.add(hold.charging());
        self.slots += hold.slots();
    }

    pub(super) fn subtract(&mut self, hold: &OpenHold) {
        self.count = self.count.saturating_sub(1);
        self.units.subtract(hold.units());
        self.charging.subtract(hold.charging());
        self.slots = self.slots.saturating_sub(hold.slots());
    }
}

/// The record beside the open hold of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_structs)] // a store builds it from what it has kept
pub struct NamedHold {
    /// Its kind.
    pub kind: HoldKind,
    /// How long it was asked for, in microseconds.
    pub ttl_us: u64,
    /// Its fencing number.
    pub fence: u64,
    /// How often it was answered, at least 1.
    pub answers: u64,
}

impl NamedHold {
    /// The id of its hold.
    #[must_use]
    pub const fn id(&self, name: HoldName) -> HoldId {
        HoldId::named(self.kind, name)
    }
}

/// That a name is over.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_structs)] // a store builds it from what it has kept
pub struct Mark {
    /// Until when that is remembered, in microseconds since the Unix epoch.
    pub until_us: u64,
    /// The charge when it was settled.
    pub actual: Cost,
    /// True when there was no hold.
    pub is_early: bool,
}

/// The open holds of one count, wherever the store keeps them. A store whose reads can fail may
/// return anything; it must remember the failure and discard the result.
pub trait Holds: core::fmt::Debug {
    /// The sums as they were last set.
    fn sums(&self) -> HoldSums;
    /// Replaces the sums.
    fn set_sums(&mut self, sums: HoldSums);
    /// The open hold of this id.
    fn find(&self, id: HoldId) -> Option<OpenHold>;
    /// The first hold to end.
    fn first(&self) -> Option<OpenHold> {
        self.soonest(1).into_iter().next()
    }
    /// The first `most` holds to end.
    fn soonest(&self, most: usize) -> Vec<OpenHold>;
    /// The hold that ends last.
    fn last(&self) -> Option<OpenHold>;
    /// Adds a hold.
    fn insert(&mut self, hold: OpenHold);
    /// Removes a hold that is open.
    fn remove(&mut self, hold: &OpenHold);
    /// How many open holds charge at their end. It is asked where one more is to be placed.
    fn chargers(&self) -> u64;
    /// Lets every hold end earlier by so many microseconds, because the clock stepped back. Records
    /// of settled holds and of names keep their end.
    fn advance(&mut self, by_us: u64);
    /// The charge of a settled hold, where that is remembered at this time. An open hold is not
    /// among them.
    fn settled(&mut self, id: HoldId, at_us: u64) -> Option<Cost>;
    /// Remembers until `until_us` what was charged for a hold that was settled
    /// [`SETTLED_FOR_US`] before.
    fn remember(&mut self, id: HoldId, actual: &Cost, until_us: u64);
    /// The record beside the open hold of a name.
    fn named(&self, name: HoldName) -> Option<NamedHold>;
    /// Replaces that. `None` once the hold is not open any more; it may have been removed before.
    fn set_named(&mut self, name: HoldName, named: Option<NamedHold>);
    /// How long before its end the open hold of this id was placed, in microseconds, where it was
    /// renewed since. Of the others their ids and names tell.
    fn renewed(&self, id: HoldId) -> Option<u64>;
    /// Replaces that beside an open hold. It goes with the hold.
    fn set_renewed(&mut self, id: HoldId, span_us: u64);
    /// The charge of the hold of a name that is over, where that is remembered at this time.
    fn marked(&mut self, name: HoldName, at_us: u64) -> Option<Cost>;
    /// Remembers that a name is over, until a second after the end of the mark. Of marks without a
    /// hold, the one that ends first goes when there are [`super::MAX_MARKS`]. Of several that end
    /// then, it is the one of the least name.
    fn mark(&mut self, name: HoldName, mark: Mark, at_us: u64);
    /// The tickets of those who wait in line, in their order.
    fn line(&self) -> Vec<Ticket>;
    /// Adds a ticket.
    fn stand(&mut self, ticket: Ticket);
    /// Removes a ticket that [`Holds::line`] has.
    fn leave(&mut self, ticket: &Ticket);
}

/// Places a hold and updates the sums.
pub(super) fn place(holds: &mut dyn Holds, hold: OpenHold) {
    let mut sums = holds.sums();
    sums.add(&hold);
    holds.insert(hold);
    holds.set_sums(sums);
}

/// Takes a hold away and updates the sums.
pub(super) fn take(holds: &mut dyn Holds, hold: OpenHold) {
    let mut sums = holds.sums();
    sums.subtract(&hold);
    if let Some(name) = hold.id.name() {
        holds.set_named(name, None);
    }
    holds.remove(&hold);
    holds.set_sums(sums);
}

/// How long before its end an open hold was placed, in microseconds. A clock that steps back takes
/// ends along and leaves this. `None` where nothing records it.
pub(super) fn span_us(holds: &dyn Holds, hold: &OpenHold) -> Option<u64> {
    holds.renewed(hold.id).or_else(|| match hold.id.name() {
        Some(name) => holds.named(name).map(|named| named.ttl_us),
        None => hold.id.asked_us(),
    })
}

/// The time by which the ends of holds are judged. A clock that is a little behind is judged by
/// the latest time seen; one that stepped back takes the ends along, so that no hold lasts longer
/// than it would have.
pub(super) fn clock(holds: &dyn Holds, now: Time) -> (u64, u64) {
    let sums = holds.sums();
    let (seen_us, now_us) = (sums.seen_us, now.as_micros());
    if !sums.is_open() {
        return (now_us, 0);
    }
    match seen_us.saturating_sub(now_us) {
        back if back > SKEW_US => (now_us, back),
        _ => (now_us.max(seen_us), 0),
    }
}

/// Records the time of an operation, and takes the ends along with a clock that stepped back.
/// Returns the time by which ends are judged.
pub(super) fn note_time(holds: &mut dyn Holds, now: Time) -> u64 {
    let (at_us, back_us) = clock(holds, now);
    if back_us > 0 {
        holds.advance(back_us);
    }
    let mut sums = holds.sums();
    sums.seen_us = at_us;
    sums.credits.advance(back_us);
    holds.set_sums(sums);
    at_us
}

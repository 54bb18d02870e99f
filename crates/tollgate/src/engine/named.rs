//! Holds that their callers name (`docs/definitions.md`, section 11): the record beside an open
//! one, so that a repeated ask gets the same answer, and marks of those that are over.

use std::collections::VecDeque;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::credit::MAX_CREDITS;
use super::holds::{
    self, Holds, MAX_CHARGING_HOLDS, MAX_HOLDS, Mark, NamedHold, OpenHold, SETTLED_FOR_US,
};
use super::ticket::MAX_TICKETS;
use super::{Part, Placed};
use crate::cost::{Amounts, Cost};
use crate::error::StoreError;
use crate::hold::{HoldId, HoldName, HoldTerms};
use crate::limit::LimitSet;
use crate::time::{Period, SKEW_US, Time};

/// How often an ask under the name of an open hold is answered again with that hold, and a check
/// under a request id with its first answer. No caller retries as often: beyond it the id is taken
/// for a constant.
pub const MAX_REPEATS: u64 = 16;

/// The most marks of one count that were left by releases without a hold. The one that ends first
/// goes for one more.
pub const MAX_MARKS: u64 = 1_000;

/// Why a hold cannot be placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HoldRefusal {
    /// [`MAX_HOLDS`] holds are open on a count.
    TooMany,
    /// [`MAX_CHARGING_HOLDS`] holds that charge at their end are open on a count.
    TooManyCharging,
    /// The open hold of this name has another kind, cost or time, or only some of the counts.
    Differs,
    /// The open hold of this name was answered [`MAX_REPEATS`] times again.
    Repeated,
    /// The name was settled or released before.
    Over,
    /// A count has as many credits as it may have.
    TooManyCredits,
    /// The credit is for a subject of which a full store keeps no count of its own.
    StoreFull,
    /// [`MAX_TICKETS`] wait in the line of a count.
    LineFull,
}

impl core::fmt::Display for HoldRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooMany => write!(
                f,
                "{MAX_HOLDS} holds are open on one count, which is the most: settle some, or use \
                 shorter ones; nothing was held or charged"
            ),
            Self::TooManyCharging => write!(
                f,
                "{MAX_CHARGING_HOLDS} holds that charge at their end are open on one count, which \
                 is the most: settle some, or use shorter ones, or let their end charge nothing; \
                 nothing was held or charged"
            ),
            Self::Differs => f.write_str(
                "a hold with this id is open that was asked for otherwise: give each hold an id of \
                 its own, and repeat an ask unchanged; nothing was held or charged",
            ),
            Self::Repeated => write!(
                f,
                "the hold with this id was answered {MAX_REPEATS} times again, which is the most: \
                 give each hold an id of its own; nothing was held or charged"
            ),
            Self::Over => f.write_str(
                "the hold with this id was released or committed before: to ask anew, give an id of \
                 its own; nothing was held or charged",
            ),
            Self::TooManyCredits => write!(
                f,
                "a count has {MAX_CREDITS} credits with units left at most, one for each unit that \
                 was given: wait until one ends, or release one; nothing was given"
            ),
            Self::StoreFull => f.write_str(
                "the store is full: there is no room for a credit of this subject; nothing was given",
            ),
            Self::LineFull => write!(
                f,
                "{MAX_TICKETS} wait in line for a hold of one count, which is the most: come again \
                 later"
            ),
        }
    }
}

impl From<HoldRefusal> for StoreError {
    #[cold]
    fn from(refusal: HoldRefusal) -> Self {
        match refusal {
            HoldRefusal::TooMany | HoldRefusal::TooManyCharging | HoldRefusal::TooManyCredits => {
                Self::too_many(refusal.to_string())
            }
            HoldRefusal::StoreFull => Self::transient(refusal.to_string()),
            _ => Self::conflict(refusal.to_string()),
        }
    }
}

/// The answer to an ask under a name that is known; `None` for a new name. It looks at the holds as
/// if all that is due had ended, and changes nothing.
pub(super) fn look_up(
    parts: &mut [Part<'_>],
    now: Time,
    cost: Amounts<'_>,
    terms: HoldTerms,
) -> Result<Option<Placed>, HoldRefusal> {
    let Some(name) = terms.id.name() else { return Ok(None) };
    let (mut known, mut unknown, mut at_us) = (None, false, now.as_micros());
    for part in &*parts {
        let mut found = None;
        if let Some(holds) = part.holds.as_deref() {
            let (part_us, back_us) = holds::clock(holds, now);
            let end_us = |open: &OpenHold| open.end_us.saturating_sub(back_us);
            let open = open_under(holds, name).map(|(named, open)| {
                let end_us = end_us(&open);
                (named, open, end_us)
            });
            found = open.filter(|(.., end_us)| *end_us > part_us);
            at_us = at_us.max(part_us);
        }
        unknown |= found.is_none();
        known = known.or(found);
    }
    let Some((named, open, end_us)) = known else {
        let mut each = parts.iter_mut().filter_map(|part| part.holds.as_deref_mut());
        let is_over = each.any(|holds| holds.marked(name, at_us).is_some());
        return if is_over { Err(HoldRefusal::Over) } else { Ok(None) };
    };
    let is_same =
        open.id == terms.id && open.cost.amounts() == cost && named.ttl_us == terms.ttl_us;
    if unknown || !is_same {
        return Err(HoldRefusal::Differs);
    }
    if named.answers > MAX_REPEATS {
        return Err(HoldRefusal::Repeated);
    }
    let (fence, end) = (named.fence, Time::from_micros(end_us));
    Ok(Some(Placed { fence, end, answer: named.answers + 1 }))
}

/// Records that an open hold is answered again with this.
pub(super) fn note_answer(parts: &mut [Part<'_>], terms: HoldTerms, placed: Placed) {
    let Some(name) = terms.id.name() else { return };
    let Placed { fence, answer: answers, .. } = placed;
    let named = NamedHold { kind: terms.id.kind(), ttl_us: terms.ttl_us, fence, answers };
    for holds in parts.iter_mut().filter_map(|part| part.holds.as_deref_mut()) {
        holds.set_named(name, Some(named));
    }
}

/// The open hold of a name, and the record beside it.
fn open_under(holds: &dyn Holds, name: HoldName) -> Option<(NamedHold, OpenHold)> {
    let named = holds.named(name)?;
    holds.find(named.id(name)).map(|open| (named, open))
}

/// The open hold of an id, which may be that of a name whose kind is not known.
pub(super) fn find(holds: &dyn Holds, id: HoldId) -> Option<OpenHold> {
    match id.name() {
        Some(name) => open_under(holds, name).map(|(_, open)| open),
        None => holds.find(id),
    }
}

/// Leaves a mark that a name without a hold was released, for as long as these limits say. Nothing
/// where it is open or marked.
pub(super) fn mark_early(
    part: &mut Part<'_>,
    asked: &LimitSet,
    name: HoldName,
    at_us: u64,
) -> bool {
    let Some(holds) = part.holds.as_deref_mut() else { return false };
    if open_under(holds, name).is_some() || holds.marked(name, at_us).is_some() {
        return false;
    }
    let until_us = at_us + mark_us(asked);
    holds.mark(name, Mark { until_us, actual: 0.into(), is_early: true }, at_us);
    true
}

/// How long a release without a hold is remembered: as long as the limits say that a hold lasts,
/// and at most a minute.
fn mark_us(limits: &LimitSet) -> u64 {
    limits.hold().map_or(SETTLED_FOR_US, Period::as_micros).min(SETTLED_FOR_US)
}

/// The names of a count in memory, and the records of renewed holds: few counts have either.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub(super) open: HashMap<HoldName, NamedHold, RandomState>,
    /// How long before its end each open hold that was renewed was placed, in microseconds.
    pub(super) renewed: HashMap<HoldId, u64, RandomState>,
    marks: HashMap<HoldName, Mark, RandomState>,
    /// The marks of names without a hold, and the others, in the order in which they end. Those of
    /// one time are in the order of their names.
    early: VecDeque<HoldName>,
    settled: VecDeque<HoldName>,
}

impl Names {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.marks.is_empty() && self.renewed.is_empty()
    }

    /// The marks of names without a hold, then the others, each in the order in which they end.
    pub(super) fn marks(&self) -> impl Iterator<Item = (HoldName, &Mark)> {
        let each = self.early.iter().chain(&self.settled);
        each.filter_map(|name| self.marks.get(name).map(|mark| (*name, mark)))
    }

    pub(super) fn marked(&self, name: HoldName, at_us: u64) -> Option<Cost> {
        let mark = self.marks.get(&name).filter(|mark| mark.until_us > at_us);
        mark.map(|mark| mark.actual.clone())
    }

    pub(super) fn mark(&mut self, name: HoldName, mark: Mark, at_us: u64) {
        let (until_us, is_early) = (mark.until_us, mark.is_early);
        self.forget(at_us);
        if let Some(before) = self.marks.insert(name, mark) {
            let list = if before.is_early { &mut self.early } else { &mut self.settled };
            list.retain(|other| *other != name);
        }
        let (list, most) = match is_early {
            true => (&mut self.early, MAX_MARKS),
            false => (&mut self.settled, MAX_HOLDS),
        };
        if list.len() as u64 >= most
            && let Some(first) = list.pop_front()
        {
            self.marks.remove(&first);
        }
        // Nearly always the last: limits with another time for a hold come seldom.
        let place = list.partition_point(|other| {
            self.marks.get(other).is_some_and(|mark| (mark.until_us, *other) < (until_us, name))
        });
        list.insert(place, name);
    }

    /// Forgets the marks that are over, also for a clock that is a little behind.
    fn forget(&mut self, at_us: u64) {
        for list in [&mut self.early, &mut self.settled] {
            while let Some(first) = list.front()
                && self.marks.get(first).is_none_or(|mark| mark.until_us + SKEW_US <= at_us)
            {
                self.marks.remove(first);
                list.pop_front();
            }
            if list.len() < list.capacity() / 4 {
                list.shrink_to_fit();
            }
        }
        if self.marks.len() < self.marks.capacity() / 4 {
            self.marks.shrink_to_fit();
        }
    }

    /// Until when a mark is remembered.
    pub(super) fn until_us(&self) -> u64 {
        let last = [self.early.back(), self.settled.back()].into_iter().flatten();
        let untils = last.filter_map(|name| self.marks.get(name)).map(|mark| mark.until_us);
        untils.max().unwrap_or(0)
    }

    /// Gives back what it has allocated for entries to come.
    pub(super) fn shrink_to_fit(&mut self) {
        self.open.shrink_to_fit();
        self.renewed.shrink_to_fit();
        self.marks.shrink_to_fit();
        self.early.shrink_to_fit();
        self.settled.shrink_to_fit();
    }

    /// Approximately the bytes that it has allocated. The capacity of a map says less once entries
    /// were removed.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.open.allocation_size()
            + self.renewed.allocation_size()
            + self.marks.allocation_size()
            + (self.early.capacity() + self.settled.capacity()) * size_of::<HoldName>()
    }
}

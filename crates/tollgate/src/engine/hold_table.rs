//! The holds of a count in memory. A few lie in a list, more than that in maps.

use std::collections::{BTreeMap, HashMap, VecDeque};

use foldhash::fast::RandomState;

use super::holds::{self, HoldSums, Holds, MAX_HOLDS, Mark, NamedHold, OpenHold, SETTLED_FOR_US};
use super::named::Names;
use super::ticket::Ticket;
use crate::cost::Cost;
use crate::hold::{HoldId, HoldName};
use crate::time::SKEW_US;

/// The most entries that a list has: to look through so many takes no longer than to hash an id.
const FEW: usize = 32;

/// The holds of a count in memory, and the records of settled ones.
#[derive(Clone, Debug, Default)]
pub struct HoldTable {
    sums: HoldSums,
    open: Open,
    /// How many of them charge at their end.
    chargers: u64,
    settled: Settled,
    /// `None` until a caller names a hold or renews one.
    names: Option<Box<Names>>,
    /// Those who wait in line, in their order. Nearly no count has any.
    #[allow(clippy::box_collection, reason = "a vector is three times as large where none waits")]
    line: Option<Box<Vec<Ticket>>>,
}

/// The bytes of an open hold and of a settled one in a map, at the worst point of its growth.
const OPEN_BYTES: usize = 2 * (size_of::<(u64, HoldId)>() + size_of::<Cost>()) + 32;
const SETTLED_BYTES: usize = 2 * (size_of::<HoldId>() + size_of::<(u64, Cost)>());

impl HoldTable {
    /// True when nothing is open and nothing is remembered, as of the last operation.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let HoldSums { fence, seen_us, .. } = &self.sums;
        // The next fencing number is larger, even if the clock is a little behind then.
        let is_fenced = *fence > 0 && *seen_us < fence + SKEW_US;
        let has_names = self.names.as_ref().is_some_and(|names| !names.is_empty());
        !self.has_open()
            && self.settled.list.is_empty()
            && !has_names
            && !self.has_line()
            && !is_fenced
    }

    /// True when holds were open, or credits had not ended, after the last operation.
    #[must_use]
    pub fn has_open(&self) -> bool {
        self.open.len() > 0 || !self.sums.credits.is_empty()
    }

    /// Whether a hold of this id is open or remembered.
    pub(crate) fn knows(&self, id: HoldId) -> bool {
        let settled = || self.settled.list.iter().any(|settled| settled.id == id);
        match id.name() {
            None => {
                let is_credit = || self.sums.credits.iter().any(|credit| credit.id == id);
                self.find(id).is_some() || settled() || is_credit()
            }
            Some(name) => self.names.as_ref().is_some_and(|names| {
                names.open.contains_key(&name) || names.marked(name, 0).is_some()
            }),
        }
    }

    /// True when somebody waited in line after the last operation.
    #[must_use]
    pub fn has_line(&self) -> bool {
        self.line.is_some()
    }

    /// Until when something is open or remembered, in microseconds since the Unix epoch.
    #[must_use]
    pub fn until_us(&self) -> u64 {
        let open = self.last().map_or(0, |hold| hold.end_us);
        let fenced = match self.sums.fence {
            0 => 0,
            fence => fence + SKEW_US,
        };
        let remembered = self.settled.list.back().map_or(0, |settled| settled.until_us);
        let marked = self.names.as_ref().map_or(0, |names| names.until_us());
        let ends = self.line.iter().flat_map(|line| line.iter().map(|ticket| ticket.end_us));
        let waited = ends.max().map_or(0, |end_us| end_us + SKEW_US);
        let given = self.sums.credits.last_us();
        open.max(fenced).max(remembered).max(marked).max(waited).max(given)
    }

    /// Forgets what is open, and the fencing number. Settled holds, and names that are over, are
    /// still remembered. True when there was something to forget.
    pub(crate) fn reset(&mut self) -> bool {
        let was_there = self.has_open() || self.sums.fence > 0 || self.has_line();
        (self.sums, self.open, self.chargers) = (HoldSums::default(), Open::default(), 0);
        self.line = None;
        if let Some(names) = &mut self.names {
            names.open.clear();
            names.renewed.clear();
            if names.is_empty() {
                self.names = None;
            }
        }
        was_there
    }

    /// Adds a hold and updates the sums.
    pub(crate) fn place(&mut self, hold: OpenHold) {
        holds::place(self, hold);
    }

    /// All open holds, in the order of their ends.
    pub fn open(&self) -> impl Iterator<Item = OpenHold> {
        let (few, many) = match &self.open {
            Open::Few(list) => (&list[..], None),
            Open::Many(maps) => (&[][..], Some(maps.ends.iter().map(hold_of))),
        };
        few.iter().cloned().chain(many.into_iter().flatten())
    }

    /// How many of the open holds were renewed.
    pub(crate) fn renewed_len(&self) -> usize {
        self.names.as_ref().map_or(0, |names| names.renewed.len())
    }

    /// The open holds that were renewed, and how long before its end each was placed, in
    /// microseconds; in the order of their ends.
    pub(crate) fn renewed_holds(&self) -> impl Iterator<Item = (HoldId, u64)> {
        let each = self.open();
        each.filter_map(|hold| self.renewed(hold.id).map(|span_us| (hold.id, span_us)))
    }

    /// The settled holds that are remembered: until when, the id, and the charge.
    pub fn remembered(&self) -> impl Iterator<Item = (u64, HoldId, &Cost)> {
        self.settled.list.iter().map(|OneSettled { until_us, id, actual }| (*until_us, *id, actual))
    }

    /// The marks of names that are over: of those without a hold, then of the others, each in the
    /// order in which they end.
    pub fn marks(&self) -> impl Iterator<Item = (HoldName, &Mark)> {
        self.names.iter().flat_map(|names| names.marks())
    }

    /// Gives back what the table has allocated for entries to come.
    pub fn shrink_to_fit(&mut self) {
        if let Open::Few(list) = &mut self.open {
            list.shrink_to_fit();
        }
        self.settled.list.shrink_to_fit();
        if let Some(names) = &mut self.names {
            names.shrink_to_fit();
        }
    }

    /// The bytes by which the table grows at most for one more hold.
    pub(crate) fn growth(&self) -> usize {
        match &self.open {
            Open::Few(list) if list.len() < list.capacity() => 0,
            Open::Few(list) if list.len() < FEW => list.capacity().max(4) * size_of::<OpenHold>(),
            Open::Few(_) => 2 * FEW * OPEN_BYTES,
            Open::Many(maps) if maps.by_id.len() < maps.by_id.capacity() => OPEN_BYTES,
            Open::Many(maps) => maps.by_id.capacity() * OPEN_BYTES,
        }
    }

    /// Approximately the bytes that the table has allocated.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let open = match &self.open {
            Open::Few(list) => list.capacity() * size_of::<OpenHold>(),
            Open::Many(maps) => maps.by_id.capacity().max(maps.ends.len()) * OPEN_BYTES,
        };
        let Settled { list, by_id } = &self.settled;
        let by_id = by_id.as_ref().map_or(0, HashMap::capacity);
        let names = self.names.as_ref().map_or(0, |names| names.bytes());
        let line = self.line.as_ref().map_or(0, |line| line.capacity() * size_of::<Ticket>());
        let credits = self.sums.credits.bytes();
        open + list.capacity() * size_of::<OneSettled>()
            + by_id * SETTLED_BYTES
            + names
            + line
            + credits
    }
}

impl Holds for HoldTable {
    fn sums(&self) -> HoldSums {
        self.sums.clone()
    }

    fn set_sums(&mut self, sums: HoldSums) {
        self.sums = sums;
    }

    fn find(&self, id: HoldId) -> Option<OpenHold> {
        match &self.open {
            Open::Few(list) => list.iter().find(|hold| hold.id == id).cloned(),
            Open::Many(maps) => {
                let end_us = *maps.by_id.get(&id)?;
                let cost = maps.ends.get(&(end_us, id))?.clone();
                Some(OpenHold { end_us, id, cost })
            }
        }
    }

    fn first(&self) -> Option<OpenHold> {
        match &self.open {
            Open::Few(list) => list.first().cloned(),
            Open::Many(maps) => maps.ends.first_key_value().map(hold_of),
        }
    }

    fn soonest(&self, most: usize) -> Vec<OpenHold> {
        self.open().take(most).collect()
    }

    fn last(&self) -> Option<OpenHold> {
        match &self.open {
            Open::Few(list) => list.last().cloned(),
            Open::Many(maps) => maps.ends.last_key_value().map(hold_of),
        }
    }

    fn insert(&mut self, hold: OpenHold) {
        self.chargers += u64::from(hold.is_charging());
        self.open.insert(hold);
    }

    fn remove(&mut self, hold: &OpenHold) {
        self.chargers -= u64::from(hold.is_charging());
        self.open.remove(hold);
        if let Some(names) = &mut self.names
            && names.renewed.remove(&hold.id).is_some()
            && names.is_empty()
        {
            self.names = None;
        }
    }

    fn chargers(&self) -> u64 {
        self.chargers
    }

    fn advance(&mut self, by_us: u64) {
        let all: Vec<OpenHold> = self.open().collect();
        self.open = Open::default();
        for hold in all {
            self.open.insert(OpenHold { end_us: hold.end_us.saturating_sub(by_us), ..hold });
        }
    }

    fn settled(&mut self, id: HoldId, at_us: u64) -> Option<Cost> {
        let (until_us, actual) = self.settled.of(id)?;
        (until_us > at_us).then(|| actual.clone())
    }

    fn remember(&mut self, id: HoldId, actual: &Cost, until_us: u64) {
        // Not what a clock that is a little behind may ask for.
        self.settled.forget_until(until_us.saturating_sub(SETTLED_FOR_US + SKEW_US));
        self.settled.add(OneSettled { until_us, id, actual: actual.clone() });
    }

    fn named(&self, name: HoldName) -> Option<NamedHold> {
        self.names.as_ref()?.open.get(&name).copied()
    }

    fn set_named(&mut self, name: HoldName, named: Option<NamedHold>) {
        match (named, &mut self.names) {
            (Some(named), names) => {
                names.get_or_insert_default().open.insert(name, named);
            }
            (None, Some(names)) => {
                names.open.remove(&name);
                if names.is_empty() {
                    self.names = None;
                }
            }
            (None, None) => {}
        }
    }

    fn renewed(&self, id: HoldId) -> Option<u64> {
        self.names.as_ref()?.renewed.get(&id).copied()
    }

    fn set_renewed(&mut self, id: HoldId, span_us: u64) {
        self.names.get_or_insert_default().renewed.insert(id, span_us);
    }

    fn marked(&mut self, name: HoldName, at_us: u64) -> Option<Cost> {
        self.names.as_ref()?.marked(name, at_us)
    }

    fn mark(&mut self, name: HoldName, mark: Mark, at_us: u64) {
        self.names.get_or_insert_default().mark(name, mark, at_us);
    }

    fn line(&self) -> Vec<Ticket> {
        self.line.as_deref().cloned().unwrap_or_default()
    }

    fn stand(&mut self, ticket: Ticket) {
        let line = self.line.get_or_insert_default();
        let place = line.partition_point(|other| *other < ticket);
        line.insert(place, ticket);
    }

    fn leave(&mut self, ticket: &Ticket) {
        let Some(line) = &mut self.line else { return };
        line.retain(|other| other != ticket);
        if line.is_empty() {
            self.line = None;
        }
    }
}

/// The open holds, in the order of their ends.
#[derive(Clone, Debug)]
enum Open {
    Few(Vec<OpenHold>),
    Many(Box<Maps>),
}

#[derive(Clone, Debug, Default)]
struct Maps {
    ends: BTreeMap<(u64, HoldId), Cost>,
    by_id: HashMap<HoldId, u64, RandomState>,
}

impl Default for Open {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Open {
    fn len(&self) -> usize {
        match self {
            Self::Few(list) => list.len(),
            Self::Many(maps) => maps.ends.len(),
        }
    }

    fn insert(&mut self, hold: OpenHold) {
        match self {
            Self::Few(list) if list.len() < FEW => {
                let place = list.iter().rposition(|other| *other < hold).map_or(0, |at| at + 1);
                list.insert(place, hold);
            }
            Self::Few(list) => {
                let mut maps = Box::<Maps>::default();
                list.drain(..).for_each(|hold| maps.insert(hold));
                maps.insert(hold);
                *self = Self::Many(maps);
            }
            Self::Many(maps) => maps.insert(hold),
        }
    }

    fn remove(&mut self, hold: &OpenHold) {
        match self {
            Self::Few(list) => list.retain(|other| other.id != hold.id),
            Self::Many(maps) => {
                maps.remove(hold);
                // Far below what fills the list, so that it does not turn to and fro.
                if maps.ends.len() < FEW / 4 {
                    *self = Self::Few(maps.ends.iter().map(hold_of).collect());
                }
            }
        }
    }
}

impl Maps {
    fn insert(&mut self, OpenHold { end_us, id, cost }: OpenHold) {
        self.ends.insert((end_us, id), cost);
        self.by_id.insert(id, end_us);
    }

    fn remove(&mut self, hold: &OpenHold) {
        self.ends.remove(&(hold.end_us, hold.id));
        self.by_id.remove(&hold.id);
        if self.by_id.len() < self.by_id.capacity() / 4 {
            self.by_id.shrink_to_fit();
        }
    }
}

fn hold_of(((end_us, id), cost): (&(u64, HoldId), &Cost)) -> OpenHold {
    OpenHold { end_us: *end_us, id: *id, cost: cost.clone() }
}

/// The settled holds that are remembered, in the order in which they are forgotten.
#[derive(Clone, Debug, Default)]
struct Settled {
    list: VecDeque<OneSettled>,
    /// Until when, and the charge of each. It is made when a settled hold is asked for among more
    /// than a few: nearly nobody settles a hold twice.
    by_id: Option<HashMap<HoldId, (u64, Cost), RandomState>>,
}

#[derive(Clone, Debug)]
struct OneSettled {
    until_us: u64,
    id: HoldId,
    actual: Cost,
}

impl Settled {
    /// Until when it is remembered, and the charge.
    fn of(&mut self, id: HoldId) -> Option<(u64, Cost)> {
        let told = |settled: &OneSettled| (settled.until_us, settled.actual.clone());
        if self.list.len() <= FEW {
            return self.list.iter().find(|settled| settled.id == id).map(told);
        }
        let each = self.list.iter().map(|settled| (settled.id, told(settled)));
        self.by_id.get_or_insert_with(|| each.collect()).get(&id).cloned()
    }

    fn add(&mut self, settled: OneSettled) {
        let OneSettled { until_us, id, .. } = settled;
        if let Some(by_id) = &mut self.by_id {
            by_id.insert(id, (until_us, settled.actual.clone()));
        }
        // Nearly always the last: only a clock that stepped back comes before. Each look at another
        // place of a long list is one at cold memory.
        if self.list.back().is_none_or(|last| last.until_us <= until_us) {
            self.list.push_back(settled);
        } else {
            let place = self.list.partition_point(|other| other.until_us <= until_us);
            self.list.insert(place, settled);
        }
    }

    fn forget_until(&mut self, now_us: u64) {
        while let Some((until_us, id)) = self.list.front().map(|it| (it.until_us, it.id))
            && (until_us <= now_us || self.list.len() as u64 > MAX_HOLDS)
        {
            self.list.pop_front();
            if let Some(by_id) = &mut self.by_id {
                by_id.remove(&id);
            }
        }
        if self.list.capacity() > FEW && self.list.len() < self.list.capacity() / 4 {
            self.list.shrink_to_fit();
        }
        if self.list.len() < FEW / 4 {
            self.by_id = None;
        } else if let Some(by_id) = &mut self.by_id
            && by_id.len() < by_id.capacity() / 4
        {
            by_id.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold::HoldKind;

    /// A number for the next step, the same in every run.
    fn next(seed: &mut u64) -> u64 {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 33
    }

    #[test]
    fn lists_and_maps_hold_the_same() {
        let mut seed = 7;
        let mut table = HoldTable::default();
        let mut open: Vec<OpenHold> = Vec::new();
        let mut settled: Vec<(u64, HoldId, Cost)> = Vec::new();
        let (mut now_us, mut seen) = (SETTLED_FOR_US, [false; 4]);
        for turn in 0..20_000_u64 {
            // More come than go, and later more go than come, several times.
            let grows = turn % 1_000 < 500;
            let places = next(&mut seed) % 10 < if grows { 7 } else { 3 };
            now_us += SETTLED_FOR_US / if grows { 400 } else { 20 };
            if places {
                let end_us = now_us + next(&mut seed) % 50;
                let id = HoldId::random(HoldKind::Reserve, 1 + turn);
                let hold = OpenHold { end_us, id, cost: turn.into() };
                table.place(hold.clone());
                open.push(hold);
            } else if !open.is_empty() {
                let at = usize::try_from(next(&mut seed)).unwrap() % open.len();
                let hold = open.swap_remove(at);
                let id = hold.id;
                assert_eq!(table.find(id).as_ref(), Some(&hold));
                holds::take(&mut table, hold);
                let until_us = now_us + SETTLED_FOR_US;
                table.remember(id, &turn.into(), until_us);
                settled.retain(|(until_us, ..)| *until_us + SKEW_US > now_us);
                settled.push((until_us, id, turn.into()));
                assert!(table.find(id).is_none());
            }
            open.sort_unstable();
            assert!(table.open().eq(open.iter().cloned()), "{turn}");
            assert!(
                table.remembered().eq(settled.iter().map(|(at, id, it)| (*at, *id, it))),
                "{turn}"
            );
            assert_eq!(
                (table.first(), table.last()),
                (open.first().cloned(), open.last().cloned())
            );
            assert_eq!(table.soonest(3), open.get(..3.min(open.len())).unwrap());
            // Not in every turn: the map is made when it is asked for.
            if turn % 3 == 0 {
                for (until_us, id, actual) in &settled {
                    assert_eq!(table.settled(*id, until_us - 1).as_ref(), Some(actual), "{turn}");
                    assert_eq!(table.settled(*id, *until_us), None, "{turn}");
                }
                assert!(open.iter().all(|hold| table.settled(hold.id, 0).is_none()), "{turn}");
            }
            let sums = table.sums();
            let units: u64 = open.iter().map(|hold| hold.units().first()).sum();
            assert_eq!((sums.count, sums.units.requests), (open.len() as u64, units));
            if turn % 777 == 0 {
                table.advance(3);
                open.iter_mut().for_each(|hold| hold.end_us -= 3);
            }
            seen[usize::from(matches!(table.open, Open::Many(_)))] = true;
            seen[2 + usize::from(table.settled.by_id.is_none())] = true;
        }
        assert_eq!(seen, [true; 4], "lists and maps were used");
    }
}

//! The credits of a count: units that its subject was given once (`docs/definitions.md`, section
//! 15).

use core::fmt;
use core::str::FromStr;

use crate::error::ParseError;
use crate::hold::{HoldId, HoldKind};
use crate::limit::{Limit, MAX_COST, Unit};

/// The most credits that a count has at a time, one for each unit of each gift.
pub const MAX_CREDITS: usize = 16;

/// One unit of a credit of a count. Credits are ordered by their ends, then by their ids.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(clippy::exhaustive_structs)] // a store builds it from what it has kept
pub struct Credit {
    /// When it ends, in microseconds since the Unix epoch.
    pub end_us: u64,
    /// Its id.
    pub id: HoldId,
    /// The unit that it pays.
    pub unit: Unit,
    /// The units that are left. One without any stays until its end, where there is room: a refund
    /// may give some back, and its id stays known.
    pub left: u64,
    /// The units that were given; 0 once it was taken back.
    pub given: u64,
}

/// The credits of a count, the first to end first. Nearly no count has any.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(
    clippy::box_collection,
    reason = "an empty vector takes three times the space of an empty option"
)]
pub struct Credits(Option<Box<Vec<Credit>>>);

impl Credits {
    /// Whether there are none, not even one of which nothing is left.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Each, the first to end first.
    pub fn iter(&self) -> impl Iterator<Item = &Credit> {
        self.0.iter().flat_map(|list| list.iter())
    }

    /// When the last one ends, in microseconds since the Unix epoch; 0 without any.
    #[must_use]
    pub fn last_us(&self) -> u64 {
        self.iter().last().map_or(0, |credit| credit.end_us)
    }

    /// The units that are left for a limit.
    #[inline]
    pub(super) fn of(&self, limit: &Limit) -> u64 {
        self.iter().filter(|credit| limit.is_rate_of(&credit.unit)).map(|it| it.left).sum()
    }

    fn change<T>(&mut self, change: impl FnOnce(&mut Vec<Credit>) -> T) -> T {
        let mut list = self.0.take().unwrap_or_default();
        let answer = change(&mut list);
        self.0 = Some(list).filter(|list| !list.is_empty());
        answer
    }

    /// Takes units of those that have not ended, from the first to end first. Returns how many.
    pub(super) fn take(&mut self, unit: Unit, units: u64, at_us: u64) -> u64 {
        let mut rest = units;
        for credit in self.0.iter_mut().flat_map(|list| list.iter_mut()) {
            if credit.unit == unit && credit.end_us > at_us {
                let taken = rest.min(credit.left);
                (credit.left, rest) = (credit.left - taken, rest - taken);
            }
        }
        units - rest
    }

    /// Gives units back, to the last to end first. Returns how many.
    pub(super) fn give_back(&mut self, unit: Unit, units: u64) -> u64 {
        let mut rest = units;
        for credit in self.0.iter_mut().flat_map(|list| list.iter_mut().rev()) {
            if credit.unit == unit {
                let back = rest.min(credit.given.saturating_sub(credit.left));
                (credit.left, rest) = (credit.left + back, rest - back);
            }
        }
        units - rest
    }

    /// Lets those end whose time has come.
    pub(super) fn end_until(&mut self, at_us: u64) {
        if !self.is_empty() {
            self.change(|list| list.retain(|credit| credit.end_us > at_us));
        }
    }

    /// Lets each end so much earlier.
    pub(super) fn advance(&mut self, by_us: u64) {
        for credit in self.0.iter_mut().flat_map(|list| list.iter_mut()) {
            credit.end_us = credit.end_us.saturating_sub(by_us);
        }
    }

    /// Takes back those of an id, which stay known. Returns how many units were given; `None` where
    /// the id is not known, 0 where it was done before.
    pub(super) fn take_back(&mut self, id: HoldId) -> Option<u64> {
        let all = self.0.iter_mut().flat_map(|list| list.iter_mut());
        all.filter(|credit| credit.id == id).fold(None, |sum, credit| {
            let given = core::mem::take(&mut credit.given);
            credit.left = 0;
            Some(sum.unwrap_or(0) + given)
        })
    }

    /// Forgets used-up ones, the first to end first, where there is no room for more of these.
    /// Returns whether there is room then.
    pub(super) fn make_room(&mut self, more: usize) -> bool {
        if self.is_empty() {
            return more <= MAX_CREDITS;
        }
        self.change(|list| {
            while list.len() + more > MAX_CREDITS {
                let Some(used) = list.iter().position(|credit| credit.left == 0) else {
                    return false;
                };
                list.remove(used);
            }
            true
        })
    }

    /// Approximately the bytes that are allocated.
    pub(super) fn bytes(&self) -> usize {
        let list = |list: &Vec<Credit>| size_of_val(list) + list.capacity() * size_of::<Credit>();
        self.0.as_deref().map_or(0, list)
    }
}

/// As stores keep them: `ID:UNIT=LEFT/GIVEN@END` joined by commas, with the end in microseconds
/// since the Unix epoch.
impl fmt::Display for Credits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, Credit { end_us, id, unit, left, given }) in self.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}{id}:{unit}={left}/{given}@{end_us}")?;
        }
        Ok(())
    }
}

impl FromStr for Credits {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let read = |text: &str| {
            let (id, rest) = text.split_once(':')?;
            let (unit, rest) = rest.split_once('=')?;
            let (left, rest) = rest.split_once('/')?;
            let (given, end) = rest.split_once('@')?;
            let id: HoldId = id.parse().ok()?;
            let (left, given) = (left.parse().ok()?, given.parse().ok()?);
            let is_sound = id.kind() == HoldKind::Credit && left <= given && given <= MAX_COST;
            let credit =
                Credit { end_us: end.parse().ok()?, id, unit: unit.parse().ok()?, left, given };
            Some(credit).filter(|_| is_sound)
        };
        let each = text.split(',').map(|each| {
            let wrong = || ParseError::whole(each, "this is not a credit", "the state is damaged");
            read(each).ok_or_else(wrong)
        });
        each.collect()
    }
}

impl FromIterator<Credit> for Credits {
    fn from_iter<I: IntoIterator<Item = Credit>>(credits: I) -> Self {
        let mut all = Self::default();
        all.change(|list| {
            list.extend(credits);
            list.sort_unstable();
            // A restored store takes no more memory than the saved one.
            list.shrink_to_fit();
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credit(end_us: u64, left: u64, given: u64) -> Credit {
        let id = HoldId::random(HoldKind::Credit, 1);
        Credit { end_us, id, unit: Unit::REQUESTS, left, given }
    }

    #[test]
    fn the_first_to_end_pays_first_and_the_last_gets_back_first() {
        let mut credits: Credits = [credit(20, 5, 5), credit(10, 5, 5)].into_iter().collect();
        let left = |credits: &Credits| credits.iter().map(|it| it.left).collect::<Vec<_>>();
        assert_eq!((credits.take(Unit::REQUESTS, 7, 5), left(&credits)), (7, vec![0, 3]));
        assert_eq!((credits.give_back(Unit::REQUESTS, 9), left(&credits)), (7, vec![5, 5]));
        // The first has ended.
        assert_eq!((credits.take(Unit::REQUESTS, 7, 10), left(&credits)), (5, vec![5, 0]));
        credits.end_until(10);
        assert_eq!((left(&credits), credits.last_us()), (vec![0], 20));
        assert_eq!(credits.to_string().parse(), Ok(credits.clone()));
        assert!("6b:tokens=1/2@3".parse::<Credits>().is_err());
        credits.end_until(20);
        assert!(credits.is_empty());
    }
}

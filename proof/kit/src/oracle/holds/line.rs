//! The line of those who wait for a hold (section 11): the order of admissions, and for how long a
//! place is kept.

use super::{HeldLimit, HoldOracle, Kind};
use crate::oracle::{Fields, whole};

/// The most places of a line.
const MAX_PLACES: usize = 1_000;

/// For how long a place is kept at least and at most, in microseconds.
const KEPT_US: [i128; 2] = [1_000_000, 10_000_000];

/// A place in the line, in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The name of the hold, its kind and its cost.
    of: (u64, Kind, u64),
    end: i128,
}

/// The line's answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Before {
    units: u64,
    slots: u64,
    end: i128,
    count: usize,
}

impl HoldOracle {
    /// The places that are kept at this time: none longer than from now on.
    fn kept_places(&self, at: i128) -> Vec<Place> {
        let kept = self.line.iter().filter(|place| place.end > at);
        kept.map(|place| Place { end: place.end.min(at + KEPT_US[1]), ..*place }).collect()
    }

    /// Those before a question, which has the place of `own` or none.
    pub(super) fn before(&self, at: i128, own: Option<(u64, Kind, u64)>) -> Before {
        let all = self.kept_places(at);
        let end = all.iter().map(|place| place.end).max().unwrap_or(at);
        let place = all.iter().position(|place| Some(place.of) == own);
        let before = &all[..place.unwrap_or(all.len())];
        let slots = |(_, kind, cost): (u64, Kind, u64)| match kind {
            Kind::Acquire => cost,
            Kind::Reserve | Kind::Charging => 1,
        };
        Before {
            units: before.iter().map(|place| place.of.2).sum(),
            slots: before.iter().map(|place| slots(place.of)).sum(),
            end,
            count: before.len(),
        }
    }

    /// The units that those before want of the limit at `place`.
    pub(super) fn wanted_before(&self, place: usize, before: Before) -> u64 {
        match self.limits[place] {
            HeldLimit::Rate(_) => before.units,
            HeldLimit::Slots(_) => before.slots,
            HeldLimit::Ban(_) => 0,
        }
    }

    /// The wait of a limit, behind those before: until the last place ends, at least.
    pub(super) fn behind(
        &self,
        (now_us, place, cost): (u64, usize, u64),
        before: Before,
        fields: Fields,
    ) -> Fields {
        let wanted = self.wanted_before(place, before);
        if wanted == 0 || cost + wanted <= fields.remaining {
            return fields;
        }
        let least = whole(before.end - i128::from(now_us));
        let retry_after_us = fields.retry_after_us.map(|wait_us| wait_us.max(least));
        Fields { retry_after_us, ..fields }
    }

    /// Whether the line has no place for this question.
    #[must_use]
    pub fn is_line_full(&self, now_us: u64, own: (u64, Kind, u64)) -> bool {
        let kept = self.kept_places(i128::from(now_us));
        kept.len() >= MAX_PLACES && kept.iter().all(|place| place.of != own)
    }

    /// Asks in line for a hold of that name, kind and cost for `ttl_us`, whose number is `hold`.
    /// Returns whether it was admitted, how many were before it, and the fields.
    pub fn ask_in_line(
        &mut self,
        now_us: u64,
        hold: u64,
        (own, ttl_us): ((u64, Kind, u64), u64),
        guess: &[Fields],
    ) -> (bool, usize, Vec<Fields>) {
        let at = i128::from(now_us);
        let (_, kind, cost) = own;
        let before = self.before(at, Some(own));
        self.asks = Some(own);
        let (admitted, fields) = self.ask_waiting(now_us, cost, Some((hold, kind, ttl_us)), guess);
        self.asks = None;
        self.line = self.kept_places(at);
        let never = fields.iter().any(|fields| fields.retry_after_us.is_none());
        let known = self.line.iter().position(|place| place.of == own);
        if admitted || never {
            known.map(|place| self.line.remove(place));
        } else {
            let end = at + i128::from(ttl_us).clamp(KEPT_US[0], KEPT_US[1]);
            match known {
                Some(place) => self.line[place].end = end,
                None => self.line.push(Place { of: own, end }),
            }
        }
        (admitted, before.count, fields)
    }

    /// Gives up the places of a name.
    pub(super) fn leave_line(&mut self, name: u64) {
        self.line.retain(|place| place.of.0 != name);
    }
}

//! The race of many who look at a counter before they add to it.
//!
//! Source: the article "Redis Pattern - Rate limiter" (atealxt, 2016), after the pattern in the
//! documentation of Redis' `INCR`: read the counter, and when it is below the limit, add one. All
//! who read before the first has added get through.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;
use tollgate::{LimitSet, ParseError};

use crate::decide::{Decider, InMemory, Part, Per};
use crate::error::Error;
use crate::event::{ClientId, Event};
use crate::split_mix::SplitMix64;

/// Clients that ask about one counter at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Race {
    /// How many may pass in 10 s.
    pub limit: u64,
    /// How many ask.
    pub clients: u64,
    /// Microseconds within which they begin.
    pub within_us: u64,
    /// Microseconds from a client to the server and back, on average.
    pub round_trip_us: u64,
    /// What is drawn by chance comes from here.
    pub seed: u64,
}

/// Who got through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct RaceResults {
    /// How many may.
    pub limit: u64,
    /// How many asked.
    pub clients: u64,
    /// How many did who looked first and added then.
    pub check_then_increment: u64,
    /// How many more than may.
    pub overshoot: u64,
    /// How many did by one atomic question.
    pub atomic: u64,
}

impl Race {
    /// A race under this limit: all begin within 5 ms, and are 1 ms away.
    #[must_use]
    pub fn new(limit: u64, clients: u64, seed: u64) -> Self {
        Self { limit, clients, within_us: 5_000, round_trip_us: 1_000, seed }
    }

    /// The limit that the atomic form has.
    ///
    /// # Errors
    /// No limit at all, or more than a counter counts.
    pub fn limits(&self) -> Result<LimitSet, ParseError> {
        format!("{}/10s anchor first-hit via fixed_window", self.limit).parse()
    }

    /// Lets simulated time pass: the same seed gives the same results.
    ///
    /// # Errors
    /// As [`Race::limits`].
    pub fn run(&self) -> Result<RaceResults, Error> {
        let limits = self.limits().map_err(tollgate::Error::from)?;
        let mut rng = SplitMix64::new(self.seed);
        // A way takes a quarter to three quarters of a round trip.
        let way =
            |rng: &mut SplitMix64| self.round_trip_us / 4 + rng.below(self.round_trip_us / 2 + 1);
        let (mut events, mut asks) = (BinaryHeap::new(), Vec::new());
        for client in 0..self.clients {
            let begins = rng.below(self.within_us.max(1));
            let reads = begins + way(&mut rng);
            // The value goes back, and the word to add one comes again.
            let adds = reads + way(&mut rng) + way(&mut rng);
            events.push(Reverse((reads, client, Some(adds))));
            asks.push(Event::new(super::START_US + reads, ClientId::new(0)));
        }
        let (mut counter, mut check_then_increment) = (0_u64, 0);
        while let Some(Reverse((_, client, event))) = events.pop() {
            match event {
                // It passes as soon as it has seen a value below the limit.
                Some(adds) if counter < self.limit => {
                    check_then_increment += 1;
                    events.push(Reverse((adds, client, None)));
                }
                Some(_) => {}
                None => counter += 1,
            }
        }
        asks.sort_unstable_by_key(|ask| ask.at_us);
        let (mut memory, mut verdicts) = (InMemory::default(), Vec::new());
        memory.begin(&[Part::new(Per::Resource, limits)], false)?;
        memory.decide(&asks, &mut verdicts)?;
        let atomic = verdicts.iter().filter(|verdict| verdict.is_admitted).count() as u64;
        Ok(RaceResults::new(self, check_then_increment, atomic))
    }
}

impl RaceResults {
    /// What a race came to.
    #[must_use]
    pub fn new(race: &Race, check_then_increment: u64, atomic: u64) -> Self {
        let overshoot = check_then_increment.saturating_sub(race.limit);
        Self { limit: race.limit, clients: race.clients, check_then_increment, overshoot, atomic }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_first_overshoots_and_who_asks_once_does_not() {
        for seed in 0..20 {
            let race = Race::new(5, 100, seed);
            let results = race.run().unwrap();
            assert_eq!(results, race.run().unwrap(), "the same seed");
            assert_eq!(results.atomic, 5);
            assert!(results.overshoot > 5, "{results:?}");
        }
        // With one after the other there is nothing to race for.
        let slow = Race { within_us: 1_000_000_000, ..Race::new(5, 100, 1) };
        assert_eq!(slow.run().unwrap().overshoot, 0);
        // All ten of the article, where the limit is five.
        let article = Race { within_us: 1, ..Race::new(5, 10, 1) };
        assert_eq!(article.run().unwrap().check_then_increment, 10);
    }
}

//! A race of many clients that read a counter before they increment it.
//!
//! Source: the article "Redis Pattern - Rate limiter" (atealxt, 2016), after the pattern in the
//! documentation of Redis' `INCR`: read the counter, and increment it if it is below the limit. All
//! clients that read before the first increment get through.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;
use tollgate::{LimitSet, ParseError};

use crate::error::Error;
use tollgate_logs::decide::{Decider, InMemory, Per, PerLimits};
use tollgate_logs::event::{ClientId, Event};
use tollgate_logs::split_mix::SplitMix64;

/// Clients that use one counter at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Race {
    /// How many may pass in 10 s.
    pub limit: u64,
    /// The number of clients.
    pub clients: u64,
    /// The microseconds within which they start.
    pub within_us: u64,
    /// Mean microseconds of a round trip to the server.
    pub round_trip_us: u64,
    /// The seed of all random numbers.
    pub seed: u64,
}

/// The results of a race.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct RaceResults {
    /// How many may pass.
    pub limit: u64,
    /// The number of clients.
    pub clients: u64,
    /// How many passed by reading first and incrementing then.
    pub check_then_increment: u64,
    /// How many more passed than may.
    pub overshoot: u64,
    /// How many passed with one atomic call.
    pub atomic: u64,
}

impl Race {
    /// A race under this limit: all clients start within 5 ms, with a round trip of 1 ms.
    #[must_use]
    pub fn new(limit: u64, clients: u64, seed: u64) -> Self {
        Self { limit, clients, within_us: 5_000, round_trip_us: 1_000, seed }
    }

    /// The limit of the atomic form.
    ///
    /// # Errors
    /// The limit is zero, or more than a counter can count.
    pub fn limits(&self) -> Result<LimitSet, ParseError> {
        format!("{}/10s anchor first-hit via fixed_window", self.limit).parse()
    }

    /// Simulates the race: the same seed gives the same results.
    ///
    /// # Errors
    /// As [`Race::limits`].
    pub fn run(&self) -> Result<RaceResults, Error> {
        let limits = self.limits().map_err(tollgate::Error::from)?;
        let mut rng = SplitMix64::new(self.seed);
        // One way takes a quarter to three quarters of a round trip.
        let way =
            |rng: &mut SplitMix64| self.round_trip_us / 4 + rng.below(self.round_trip_us / 2 + 1);
        let (mut events, mut asks) = (BinaryHeap::new(), Vec::new());
        for client in 0..self.clients {
            let begins = rng.below(self.within_us.max(1));
            let reads = begins + way(&mut rng);
            // The value travels to the client, and the increment back to the server.
            let adds = reads + way(&mut rng) + way(&mut rng);
            events.push(Reverse((reads, client, Some(adds))));
            asks.push(Event::new(super::START_US + reads, ClientId::new(0)));
        }
        let (mut counter, mut check_then_increment) = (0_u64, 0);
        while let Some(Reverse((_, client, event))) = events.pop() {
            match event {
                // A client passes as soon as it has read a value below the limit.
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
        memory.begin(&[PerLimits::new(Per::Resource, limits)])?;
        memory.decide(&asks, &mut verdicts)?;
        let atomic = verdicts.iter().filter(|verdict| verdict.is_admitted).count() as u64;
        Ok(RaceResults::new(self, check_then_increment, atomic))
    }
}

impl RaceResults {
    /// The results from these counts.
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
        // Clients one after the other do not race.
        let slow = Race { within_us: 1_000_000_000, ..Race::new(5, 100, 1) };
        assert_eq!(slow.run().unwrap().overshoot, 0);
        // All ten clients of the article pass, where the limit is five.
        let article = Race { within_us: 1, ..Race::new(5, 10, 1) };
        assert_eq!(article.run().unwrap().check_then_increment, 10);
    }
}

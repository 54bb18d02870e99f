//! A rate with a burst: for each client and each of some rates the least burst of a token bucket
//! that never denies it, exactly, in one pass.
//!
//! A bucket that refills one unit each `T` is full again after its *backlog*. A request of `c`
//! units adds `c * T` to the backlog, which time takes away, and is admitted if it is at most `B *
//! T` then. So the least burst is the longest backlog, divided by `T` and rounded up.

use tollgate::Period;

use super::Options;
use super::advice::RateAdvice;
use super::outliers::{PAGE, apart};
use super::table::{Ranked, curve};
use crate::describe::Kind;

const SECOND_US: u64 = 1_000_000;
const MINUTE_US: u64 = 60 * SECOND_US;
const HOUR_US: u64 = 60 * MINUTE_US;

/// A number of units in a period, which a whole number of microseconds is between.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    units: u64,
    period_us: u64,
}

const fn rate(units: u64, period_us: u64) -> Rate {
    Rate { units, period_us }
}

/// The rates that are tried, the slowest first.
pub(super) const RATES: [Rate; 13] = [
    rate(1, MINUTE_US),
    rate(2, MINUTE_US),
    rate(6, MINUTE_US),
    rate(12, MINUTE_US),
    rate(30, MINUTE_US),
    rate(1, SECOND_US),
    rate(2, SECOND_US),
    rate(5, SECOND_US),
    rate(10, SECOND_US),
    rate(20, SECOND_US),
    rate(50, SECOND_US),
    rate(200, SECOND_US),
    rate(1_000, SECOND_US),
];

/// The time in which a unit comes back under the fastest of them.
pub(super) const FASTEST_US: u64 = 1_000;

impl Rate {
    /// The time in which one unit comes back.
    const fn step_us(self) -> u64 {
        self.period_us / self.units
    }

    /// The units of an hour.
    const fn of_hour(self) -> u64 {
        HOUR_US / self.step_us()
    }

    fn text(self) -> String {
        format!("{}/{}", self.units, if self.period_us == MINUTE_US { "m" } else { "s" })
    }
}

/// The backlogs of a client under each rate.
#[derive(Debug, Clone, Default)]
pub(super) struct Buckets {
    now_us: [u64; RATES.len()],
    longest_us: [u64; RATES.len()],
}

impl Buckets {
    /// Counts a request of this cost, this long after the one before.
    pub(super) fn count(&mut self, cost: u64, gap_us: u64) {
        for ((now_us, longest_us), rate) in
            self.now_us.iter_mut().zip(&mut self.longest_us).zip(RATES)
        {
            *now_us = now_us.saturating_sub(gap_us).saturating_add(cost * rate.step_us());
            *longest_us = (*longest_us).max(*now_us);
        }
    }

    /// The least burst that never denies the client under the rate at this place.
    fn least(&self, place: usize) -> u64 {
        let longest_us = self.longest_us.get(place).copied().unwrap_or_default();
        RATES.get(place).map_or(0, |rate| longest_us.div_ceil(rate.step_us()))
    }
}

/// The limits with a rate and a burst.
pub(super) struct Bursts<'s> {
    all: &'s [Buckets],
    pub(super) rates: Vec<RateAdvice>,
    /// The place of each among [`RATES`], and the clients that are outliers under it.
    found: Vec<(usize, Vec<bool>)>,
}

/// A limit with the clients that it concerns, by their dense numbers.
pub(super) struct Concerned<'b> {
    pub(super) advice: &'b RateAdvice,
    pub(super) is_outlier: &'b [bool],
    /// The least burst of each.
    pub(super) least: Vec<u64>,
}

impl<'s> Bursts<'s> {
    /// The limits of all rates under which a denied request waits at most as long as it may.
    pub(super) fn new(all: &'s [Buckets], options: &Options, kinds: &[Option<Kind>]) -> Self {
        let max_wait = options.max_wait.filter(|_| options.wants_rate());
        let max_wait_us = max_wait.map_or(0, Period::as_micros);
        let may_wait = |rate: &Rate| rate.step_us() <= max_wait_us;
        let mut bursts = Self { all, rates: Vec::new(), found: Vec::new() };
        for (place, rate) in RATES.iter().enumerate().filter(|(_, rate)| may_wait(rate)) {
            let least: Vec<u64> = all.iter().map(|buckets| buckets.least(place)).collect();
            let is_outlier = apart(options, (&least, kinds), PAGE);
            bursts.rates.push(advised(*rate, &least, &is_outlier, options));
            bursts.found.push((place, is_outlier));
            // A faster rate would only let more through.
            if bursts.rates.last().is_some_and(|it| it.least <= LEAST_BURST) {
                break;
            }
        }
        bursts
    }

    /// The limit to recommend: the one with the smallest product of what a client gets at once and
    /// what it gets in an hour. A tie goes to the faster rate, under which a denied request waits
    /// less.
    pub(super) fn best(&self) -> Option<Concerned<'_>> {
        let product = |it: &RateAdvice| u128::from(it.burst) * u128::from(it.worst_hour);
        let each = self.rates.iter().zip(&self.found).rev();
        let (advice, (place, is_outlier)) = each.min_by_key(|(it, _)| product(it))?;
        let least = self.all.iter().map(|buckets| buckets.least(*place)).collect();
        Some(Concerned { advice, is_outlier, least })
    }
}

/// The smallest burst: so many requests at once are nothing unusual, whatever a log shows.
const LEAST_BURST: u64 = 10;

/// Clients who need at most so many times the least burst are let in, too: they do what the others
/// do.
const ALIKE: u64 = 2;

/// The limit with this rate that fits.
fn advised(rate: Rate, least: &[u64], is_outlier: &[bool], options: &Options) -> RateAdvice {
    let mut ranked: Vec<Ranked> =
        least.iter().zip(is_outlier).map(|(least, is)| (*least, 0, *is)).collect();
    ranked.sort_unstable_by(|one, other| other.cmp(one));
    let ordinary = || ranked.iter().filter(|(.., is_outlier)| !is_outlier);
    let may_be_denied = options.target.clients_of(ordinary().count() as u64);
    let place = usize::try_from(may_be_denied).unwrap_or(usize::MAX);
    let least = ordinary().nth(place).map_or(1, |(least, ..)| *least).max(1);
    let is_alike = |(needed, ..): &&Ranked| *needed <= ALIKE.saturating_mul(least);
    let burst = ordinary().find(is_alike).map_or(least, |(needed, ..)| *needed);
    let burst = burst.max(least).max(LEAST_BURST);
    let denied = ranked.iter().filter(|(least, ..)| *least > burst);
    let outliers_denied = denied.clone().filter(|(.., is_outlier)| *is_outlier).count() as u64;
    let strategy = options.burst_strategy();
    RateAdvice {
        rate: rate.text(),
        least,
        burst,
        limit: format!("{} burst {burst} via {}", rate.text(), strategy.name()),
        wait_us: rate.step_us(),
        worst_hour: burst.saturating_add(rate.of_hour()),
        clients_denied: denied.count() as u64 - outliers_denied,
        outliers_denied,
        curve: curve(&ranked),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate::{Limiter, ManualClock, MemoryStore, Time};

    use super::*;

    /// Whether a limit ever denies a client with these requests: gaps in milliseconds, and costs.
    fn denies(limit: &str, requests: &[(u64, u64)]) -> bool {
        let clock = ManualClock::at_micros(0);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let limiter = Limiter::new(limit.parse().unwrap(), store);
        let mut at_us = HOUR_US;
        requests.iter().any(|(gap_ms, cost)| {
            at_us += gap_ms * 1_000;
            clock.set(Time::from_micros(at_us));
            let ask = tollgate::Ask::new("a").cost(*cost);
            !limiter.check(ask).now().unwrap().is_allowed()
        })
    }

    proptest! {
        #[test]
        fn the_least_burst_is_the_engines(
            requests in proptest::collection::vec((0..9_000_u64, 1..4_u64), 1..60),
            place in 0..RATES.len(),
        ) {
            let mut buckets = Buckets::default();
            requests.iter().for_each(|(gap_ms, cost)| buckets.count(*cost, gap_ms * 1_000));
            let (least, rate) = (buckets.least(place), RATES[place].text());
            let largest = requests.iter().map(|(_, cost)| *cost).max().unwrap();
            prop_assert!(least >= largest);
            for strategy in ["token_bucket", "gcra"] {
                let limit = format!("{rate} burst {least} via {strategy}");
                prop_assert!(!denies(&limit, &requests), "{limit}");
                if least > 1 {
                    let less = format!("{rate} burst {} via {strategy}", least - 1);
                    prop_assert!(denies(&less, &requests), "{less}");
                }
            }
        }
    }

    #[test]
    fn a_period_is_a_whole_number_of_steps() {
        for rate in RATES {
            assert_eq!(rate.step_us() * rate.units, rate.period_us);
            assert_eq!(rate.step_us() * rate.of_hour(), HOUR_US);
        }
        assert!(RATES.is_sorted_by_key(|rate| rate.of_hour()));
        assert_eq!(RATES.last().unwrap().step_us(), FASTEST_US);
        assert_eq!((RATES[2].text(), RATES[5].text()), ("6/m".to_owned(), "1/s".to_owned()));
    }
}

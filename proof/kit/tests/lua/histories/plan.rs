//! The limits that a history tries, taking turns.

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use tollgate::{LimitSet, Strategy, Unit};

/// The limits that one history tries, taking turns on one subject.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The sets of limits, all of the same identities.
    pub(crate) sets: Vec<LimitSet>,
    pub(crate) period_us: u64,
    pub(crate) capacity: u64,
    /// True to change the limits every other time, not every twentieth.
    pub(crate) restless: bool,
    /// The units of costs; empty for plain costs.
    pub(crate) units: Vec<Unit>,
}

/// Quotas that must be accepted and exact, and small ones that reach every branch.
const QUOTAS: [&str; 16] = [
    "7/m",
    "3/10s",
    "1000000/d",
    "5000000/h",
    "10000/30d",
    "1000003/30d",
    "1/366d",
    "100000/s",
    "3/10us",
    "5/1us",
    "1/1us",
    "7/3s",
    "2/700ms",
    "60/1m",
    "1099511627776/366d",
    "5/10s",
];

/// One limit under the name `x`, of a strategy, with random numbers; `None` when the numbers do not
/// fit the strategy.
fn limit(rng: &mut ChaCha8Rng, strategy: Strategy) -> Option<String> {
    let quota = match rng.random_range(0..3) {
        0 => (*QUOTAS.choose(rng).unwrap()).to_owned(),
        1 => format!("{}/{}us", rng.random_range(1..30), rng.random_range(1..60)),
        _ => format!("{}/{}ms", rng.random_range(1..50), rng.random_range(1..5000)),
    };
    let options = match strategy {
        Strategy::Gcra | Strategy::TokenBucket => {
            let burst = match rng.random_range(0..4) {
                0 => String::new(),
                1 => " burst 1".to_owned(),
                2 => format!(" burst {}", rng.random_range(1..20)),
                _ => format!(" burst {}", 1_u64 << rng.random_range(0..41)),
            };
            let interval = strategy == Strategy::TokenBucket && rng.random_bool(0.5);
            format!("{burst}{}", if interval { " refill interval" } else { "" })
        }
        Strategy::FixedWindow if rng.random_bool(0.5) => " anchor first-hit".to_owned(),
        Strategy::SlidingWindow => {
            let set: LimitSet = format!("{quota} via fixed_window").parse().ok()?;
            let period_us = set.limits()[0].quota().period.as_micros();
            let buckets = *[1, 2, 3, 4, 5, 7, 10, 12].choose(rng).unwrap();
            if !period_us.is_multiple_of(buckets) {
                return None;
            }
            let rounding = ["conservative", "interpolate", "truncate"].choose(rng).unwrap();
            format!(" precision {}us rounding {rounding}", period_us / buckets)
        }
        _ => String::new(),
    };
    let debt = match rng.random_range(0..5) {
        0 => " debt 0".to_owned(),
        1 => format!(" debt {}", rng.random_range(1..20)),
        _ => String::new(),
    };
    let text = format!("x: {quota}{options}{debt} via {strategy}");
    text.parse::<LimitSet>().ok().map(|_| text)
}

fn any_limit(rng: &mut ChaCha8Rng, strategy: Strategy) -> LimitSet {
    loop {
        if let Some(text) = limit(rng, strategy) {
            return text.parse().unwrap();
        }
    }
}

impl Plan {
    /// A limit of a strategy, and three that replace it now and then: most of them of the same
    /// strategy with other numbers.
    pub(crate) fn from_strategy(rng: &mut ChaCha8Rng, strategy: Strategy) -> Self {
        let mut sets = vec![any_limit(rng, strategy)];
        for _ in 0..3 {
            let other = rng.random_bool(0.15);
            let strategy = if other { *Strategy::RATES.choose(rng).unwrap() } else { strategy };
            sets.push(any_limit(rng, strategy));
        }
        Self::new(sets)
    }

    pub(crate) fn new(sets: Vec<LimitSet>) -> Self {
        let limit = &sets[0].limits()[0];
        Self {
            period_us: limit.quota().period.as_micros(),
            capacity: limit.capacity(),
            sets,
            restless: false,
            units: Vec::new(),
        }
    }

    /// A calendar, and three limits with other units and debts that replace it now and then. Its
    /// zone stays: a refund after a step of the clock knows no edges but those of its receipt.
    pub(crate) fn of_calendar(rng: &mut ChaCha8Rng) -> Self {
        let zones = ["UTC", "Europe/Berlin", "Pacific/Apia", "Africa/Cairo"];
        let zone = *zones.choose(rng).unwrap();
        let units = [
            ("day", " from 02:30"),
            ("week", " from Sunday 01:30"),
            ("month", " from 31st 23:59"),
            ("year", " from 29th February"),
        ];
        let (unit, edge) = *units.choose(rng).unwrap();
        let edge = if rng.random_bool(0.5) { edge } else { "" };
        let sets = [(); 4].map(|()| -> LimitSet {
            let debt = if rng.random_bool(0.3) { " debt 3" } else { "" };
            let text = format!("x: {}/{unit} in {zone}{edge}{debt}", rng.random_range(1..30));
            text.parse().unwrap()
        });
        Self::new(sets.to_vec())
    }

    /// A limit of any strategy with a ban beside it, and three sets that replace it now and then.
    pub(crate) fn with_ban(rng: &mut ChaCha8Rng) -> Self {
        let strategy = *Strategy::RATES.choose(rng).unwrap();
        let set = |rng: &mut ChaCha8Rng| -> LimitSet {
            let rate = any_limit(rng, strategy);
            let unit = ["us", "ms", "s"].choose(rng).unwrap();
            let [first, within] = [(); 2].map(|()| rng.random_range(1..2_000));
            let longest = first * rng.random_range(1..9);
            let denials = rng.random_range(1..6);
            let ban = format!("ban {first}{unit} after {denials} denials in {within}{unit}");
            format!("{rate}, {ban} up to {longest}{unit}").parse().unwrap()
        };
        Self::new(vec![set(rng), set(rng), set(rng), set(rng)])
    }

    /// Limits of any strategies that count two or three units.
    pub(crate) fn of_units(rng: &mut ChaCha8Rng) -> Self {
        let units = ["requests", "tokens", "rows"];
        let number = rng.random_range(2..=units.len());
        // Some without requests.
        let units = &units[units.len() - number..];
        let limits = rng.random_range(number..=number + 2);
        let set = |rng: &mut ChaCha8Rng| -> LimitSet {
            let one = |i: usize| {
                let strategy = *Strategy::RATES.choose(rng).unwrap();
                let limit = any_limit(rng, strategy).to_string();
                let unit = match units[i % units.len()] {
                    "requests" => String::new(),
                    unit => format!(" of {unit}"),
                };
                let (quota, rest) = limit.split_once(' ').unwrap().1.split_once(' ').unwrap();
                format!("x{i}: {quota}{unit} {rest}")
            };
            (0..limits).map(one).collect::<Vec<_>>().join(", ").parse().unwrap()
        };
        let sets = vec![set(rng), set(rng), set(rng)];
        let units = units.iter().map(|unit| unit.parse().unwrap()).collect();
        Self { units, ..Self::new(sets) }
    }

    /// Several limits of any strategies for each of several subjects.
    pub(crate) fn several(rng: &mut ChaCha8Rng, limits: usize) -> Self {
        let set = |rng: &mut ChaCha8Rng| -> LimitSet {
            let mut texts = Vec::new();
            for i in 0..limits {
                let strategy = *Strategy::RATES.choose(rng).unwrap();
                let one = any_limit(rng, strategy).to_string();
                texts.push(one.replacen('x', &format!("x{}", (i * 11) % limits), 1));
            }
            texts.join(", ").parse().unwrap()
        };
        let sets = vec![set(rng), set(rng), set(rng)];
        Self::new(sets)
    }
}

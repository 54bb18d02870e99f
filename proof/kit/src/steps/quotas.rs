//! The worlds of each strategy: all limits with small numbers, each beside other numbers.

use core::ops::RangeInclusive;

/// The numbers of a row.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "a sample is built from it")]
pub struct Reach {
    /// Units of a quota.
    pub units: RangeInclusive<u64>,
    /// Durations, in microseconds.
    pub periods_us: RangeInclusive<u64>,
    /// Bursts, of the strategies that have one.
    pub bursts: RangeInclusive<u64>,
    /// Debts, beside the usual one.
    pub debts: RangeInclusive<u64>,
    /// The most units and the longest duration of `sliding_log`: it holds a list, so that it has
    /// many more states than a strategy that holds a number.
    pub log: [u64; 2],
    /// The same of `sliding_window`.
    pub window: [u64; 2],
    /// Operations in a history.
    pub depth: u64,
}

/// A kind of limit: one row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Family {
    pub(super) name: &'static str,
    strategy: &'static str,
    has_burst: bool,
    /// The ways to count a straddling bucket, of the one strategy with sub-buckets.
    roundings: &'static [&'static str],
}

const fn plain(name: &'static str, strategy: &'static str, has_burst: bool) -> Family {
    Family { name, strategy, has_burst, roundings: &[] }
}

/// All kinds of rate limits but those of calendars, whose windows are days.
pub(super) const FAMILIES: [Family; 8] = [
    plain("uniform", "via uniform", false),
    plain("gcra", "via gcra", true),
    plain("token_bucket", "via token_bucket", true),
    plain("token_bucket, interval refill", "refill interval via token_bucket", true),
    plain("fixed_window", "via fixed_window", false),
    plain("fixed_window, first hit", "anchor first-hit via fixed_window", false),
    plain("sliding_log", "via sliding_log", false),
    Family {
        name: "sliding_window",
        strategy: "via sliding_window",
        has_burst: false,
        roundings: &["conservative", "interpolate", "truncate"],
    },
];

/// One limit of a family.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    units: u64,
    period_us: u64,
    burst: u64,
    debt: Option<u64>,
    precision_us: u64,
    rounding: usize,
}

impl Family {
    /// The limits of this kind within reach, each with the other numbers that it is changed to and
    /// back. A limit that is refused is left out.
    pub(super) fn worlds(&self, reach: &Reach) -> Vec<[String; 2]> {
        let reach = &self.within(reach);
        let all = self.numbers(reach);
        all.iter().map(|own| [self.text(own), self.text(&self.other(own, reach))]).collect()
    }

    /// The reach of this kind.
    pub(super) fn within(&self, reach: &Reach) -> Reach {
        let most = match self.name {
            "sliding_log" => reach.log,
            "sliding_window" => reach.window,
            _ => [*reach.units.end(), *reach.periods_us.end()],
        };
        let [units, periods_us] = most.map(|most| 1..=most);
        Reach { units, periods_us, ..reach.clone() }
    }

    fn numbers(&self, reach: &Reach) -> Vec<Numbers> {
        let bursts = if self.has_burst { reach.bursts.clone() } else { 1..=1 };
        let mut all = Vec::new();
        for units in reach.units.clone() {
            for period_us in reach.periods_us.clone() {
                for burst in bursts.clone() {
                    for debt in [None].into_iter().chain(reach.debts.clone().map(Some)) {
                        for precision_us in (1..=period_us).filter(|us| period_us % us == 0) {
                            for rounding in 0..self.roundings.len().max(1) {
                                let own = Numbers {
                                    units,
                                    period_us,
                                    burst,
                                    debt,
                                    precision_us,
                                    rounding,
                                };
                                all.push(own);
                            }
                            if self.roundings.is_empty() {
                                break;
                            }
                        }
                    }
                }
            }
        }
        all
    }

    /// Other numbers of the same strategy. Every second limit keeps its times, and so what it has
    /// counted; the others do not.
    fn other(&self, own: &Numbers, reach: &Reach) -> Numbers {
        let keeps = (own.units + own.period_us + own.burst).is_multiple_of(2);
        let units = own.units % reach.units.end() + 1;
        let period_us = match own.period_us {
            same if keeps => same,
            us if 2 * us <= *reach.periods_us.end() => 2 * us,
            us => (1..us).rev().find(|other| us.is_multiple_of(*other)).unwrap_or(1),
        };
        let burst = own.burst % reach.bursts.end() + 1;
        let debt = if own.debt == Some(0) { None } else { Some(0) };
        let fits = |us: &u64| period_us.is_multiple_of(*us);
        let precision_us = (1..=own.precision_us).rev().find(fits).unwrap_or(1);
        let rounding = (own.rounding + 1) % self.roundings.len().max(1);
        Numbers { units, period_us, burst, debt, precision_us, rounding }
    }

    fn text(&self, own: &Numbers) -> String {
        let Numbers { units, period_us, burst, debt, precision_us, rounding } = *own;
        let mut text = format!("x: {units}/{period_us}us");
        if self.has_burst {
            text += &format!(" burst {burst}");
        }
        if let Some(debt) = debt {
            text += &format!(" debt {debt}");
        }
        if let Some(rounding) = self.roundings.get(rounding) {
            text += &format!(" precision {precision_us}us rounding {rounding}");
        }
        format!("{text} {}", self.strategy)
    }
}

/// Limits beside open holds: of each strategy, of slots, and of both.
pub(super) const HELD: [[&str; 2]; 10] = [
    ["x: 2/3us via uniform", "x: 1/3us via uniform"],
    ["x: 2/3us burst 2 via gcra", "x: 1/2us burst 2 debt 0 via gcra"],
    ["x: 2/2us burst 2 via token_bucket", "x: 1/2us burst 1 via token_bucket"],
    [
        "x: 1/2us burst 2 refill interval via token_bucket",
        "x: 2/2us burst 2 debt 0 refill interval via token_bucket",
    ],
    ["x: 2/3us via fixed_window", "x: 1/3us debt 2 via fixed_window"],
    ["x: 2/3us anchor first-hit via fixed_window", "x: 1/3us anchor first-hit via fixed_window"],
    ["x: 2/3us via sliding_log", "x: 1/3us debt 0 via sliding_log"],
    [
        "x: 2/2us precision 1us rounding interpolate via sliding_window",
        "x: 1/2us precision 1us rounding conservative via sliding_window",
    ],
    ["2 at once", "1 at once"],
    ["x: 2/2us via fixed_window, y: 1 at once", "x: 1/2us via fixed_window, y: 2 at once"],
];

/// Limits of which each history is tried by itself.
pub(super) const STORED: [[&str; 2]; 9] = [
    ["x: 2/1us via uniform", "x: 1/2us via uniform"],
    ["x: 1/2us burst 2 via gcra", "x: 2/1us burst 1 debt 0 via gcra"],
    ["x: 1/2us burst 2 via token_bucket", "x: 2/2us burst 1 debt 1 via token_bucket"],
    [
        "x: 1/2us burst 2 refill interval via token_bucket",
        "x: 2/2us burst 1 refill interval via token_bucket",
    ],
    ["x: 2/2us via fixed_window", "x: 1/1us debt 0 via fixed_window"],
    ["x: 2/2us anchor first-hit via fixed_window", "x: 1/1us anchor first-hit via fixed_window"],
    ["x: 2/2us via sliding_log", "x: 1/1us debt 0 via sliding_log"],
    [
        "x: 2/2us precision 1us rounding interpolate via sliding_window",
        "x: 1/2us precision 1us rounding conservative via sliding_window",
    ],
    [
        "x: 2/2us precision 1us rounding truncate via sliding_window",
        "x: 1/2us precision 2us rounding interpolate via sliding_window",
    ],
];

impl Reach {
    /// All of the table: each row within one of these. Logs and sliding windows have a shorter
    /// history where their numbers are as large as those of the others.
    #[must_use]
    pub fn whole() -> [Self; 3] {
        let all = Self {
            units: 1..=4,
            periods_us: 1..=12,
            bursts: 1..=3,
            debts: 0..=0,
            log: [2, 8],
            window: [2, 4],
            depth: 6,
        };
        let (most, none) = ([4, 12], [0, 0]);
        let [units, periods_us] = none.map(|most| 1..=most);
        let wide = Self { units, periods_us, ..all.clone() };
        let log = Self { log: most, window: none, depth: 4, ..wide.clone() };
        let window = Self { log: none, window: most, depth: 2, ..wide };
        [all, log, window]
    }

    /// The part that tests run.
    #[must_use]
    pub const fn sample() -> Self {
        let (log, window) = ([2, 3], [2, 2]);
        let (units, periods_us) = (1..=2, 1..=3);
        Self { units, periods_us, bursts: 1..=2, debts: 0..=0, log, window, depth: 3 }
    }
}

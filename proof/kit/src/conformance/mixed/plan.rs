//! The questions of a mixed history, as data: made from a seed, and made smaller where it fails.

use std::fmt;

use crate::Random;
use tollgate::{HoldKind, LimitKind, LimitSet};

/// When a step happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// At the time of the step before.
    None,
    /// So many microseconds later.
    Forward(u64),
    /// At the end of an open hold, or a microsecond beside it.
    End { pick: usize, off: i64 },
    /// At the time that the last answer named, or a microsecond beside it.
    Named { reset: bool, off: i64 },
    /// At the time until which the last settled reserve is remembered, or a microsecond beside it.
    Forgotten { off: i64 },
    /// Behind the latest time, by no more than the skew.
    Skew(u64),
    /// Behind the latest time by more.
    Back(u64),
}

/// The question of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Check(u64),
    Partial(u64),
    Peek(u64),
    Hold { kind: HoldKind, cost: u64, ttl_us: u64, waits: bool },
    Renew { pick: usize, ttl_us: u64 },
    Settle { pick: usize, actual: u64 },
    Refund { pick: usize, units: u64 },
    Adjust(i64),
    Charge(u64),
    Reset,
}

/// One step of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) wait: Wait,
    /// The place of the numbers under which it is asked.
    pub(super) numbers: usize,
    /// Whether the store drops before it what it may forget.
    pub(super) forgets: bool,
    pub(super) act: Act,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("at once"),
            Self::Forward(us) => write!(f, "{us} us later"),
            Self::End { off, .. } => write!(f, "at the end of a hold {off:+} us"),
            Self::Named { reset: true, off } => write!(f, "at the named reset {off:+} us"),
            Self::Named { reset: false, off } => write!(f, "at the named retry {off:+} us"),
            Self::Forgotten { off } => write!(f, "a minute after the last commit {off:+} us"),
            Self::Skew(us) => write!(f, "{us} us behind the latest time"),
            Self::Back(us) => write!(f, "1 s and {us} us behind the latest time"),
        }
    }
}

/// The numbers of a family that costs and times are drawn by.
pub(super) struct Scale {
    pub(super) sets: usize,
    pub(super) most: u64,
    pub(super) period_us: u64,
    pub(super) has_slots: bool,
}

impl Scale {
    pub(super) fn of(sets: &[LimitSet]) -> Self {
        let limits = || sets.iter().flat_map(LimitSet::limits);
        let units = limits().filter(|limit| limit.kind() != LimitKind::Ban);
        let rates = limits().filter(|limit| limit.kind() == LimitKind::Rate);
        Self {
            sets: sets.len(),
            most: units.map(tollgate::Limit::capacity).max().unwrap_or(1),
            period_us: rates.map(|it| it.quota().period.as_micros()).max().unwrap_or(4_000_000),
            has_slots: sets.iter().any(LimitSet::needs_hold),
        }
    }
}

/// The steps of a seed.
pub(super) fn steps(random: &mut Random, scale: &Scale, back: bool, count: usize) -> Vec<Step> {
    let mut numbers = random.place(scale.sets);
    let each = (0..count).map(|_| {
        if random.below(4) == 0 {
            numbers = random.place(scale.sets);
        }
        let wait = wait(random, scale.period_us, back);
        let forgets = random.below(8) == 0;
        Step { wait, numbers, forgets, act: act(random, scale) }
    });
    each.collect()
}

fn off(random: &mut Random) -> i64 {
    [-1, 0, 1][random.place(3)]
}

fn wait(random: &mut Random, period_us: u64, back: bool) -> Wait {
    match random.below(if back { 28 } else { 24 }) {
        0..7 => Wait::None,
        7..9 => Wait::Forward(random.below(4)),
        9..12 => Wait::Forward(random.below(period_us / 4 + 2)),
        12 => Wait::Forward(period_us - random.below(2)),
        13 => Wait::Forward(random.below(3 * period_us)),
        14 if random.below(4) == 0 => Wait::Forgotten { off: off(random) },
        14 => Wait::Forward(random.below(900_000)),
        15..20 => Wait::End { pick: random.place(64), off: off(random) },
        20..24 => Wait::Named { reset: random.below(3) == 0, off: off(random) },
        24..27 => Wait::Skew(random.below(1_000_001)),
        _ => Wait::Back(random.below(2 * period_us + 1_000_000)),
    }
}

fn act(random: &mut Random, scale: &Scale) -> Act {
    let cost = match random.below(10) {
        0..6 => 1,
        6..9 => 1 + random.below(scale.most),
        _ => scale.most + 1 + random.below(2),
    };
    let ttl_us = match random.below(4) {
        0 => random.below(50_000),
        1 => random.below(scale.period_us),
        2 => random.below(2 * scale.period_us),
        _ => random.below(5_000_000),
    };
    let (pick, half) = (random.place(64), random.below(2) == 0);
    match random.below(40) {
        0..7 => Act::Check(cost),
        7..9 => Act::Partial(cost + random.below(4)),
        9..13 => Act::Peek(cost),
        13..24 => {
            let kind = match random.below(4) {
                0 | 1 if scale.has_slots => HoldKind::Acquire,
                0 | 1 => HoldKind::Charging,
                2 => HoldKind::Charging,
                _ => HoldKind::Reserve,
            };
            Act::Hold { kind, cost, ttl_us, waits: half }
        }
        24..27 => Act::Renew { pick, ttl_us },
        27..32 => {
            let actual = match random.below(6) {
                0 => 0,
                1 => 1_000,
                2 => scale.most + random.below(scale.most),
                _ => cost,
            };
            Act::Settle { pick, actual }
        }
        32..36 => Act::Refund { pick, units: if half { u64::MAX } else { cost } },
        36 | 37 => {
            let units = i64::try_from(cost).unwrap_or(1);
            Act::Adjust(if half { units } else { -units })
        }
        38 => Act::Charge(cost + random.below(4)),
        _ if random.below(4) == 0 => Act::Reset,
        _ => Act::Check(1),
    }
}

/// Smaller forms of steps for which `fails` still holds: fewer steps, then simpler ones.
pub(super) fn shrink(mut steps: Vec<Step>, fails: impl Fn(&[Step]) -> bool) -> Vec<Step> {
    loop {
        let before = steps.clone();
        let mut size = steps.len().max(2) / 2;
        while size > 0 {
            let mut from = 0;
            while from < steps.len() {
                let mut fewer = steps.clone();
                fewer.drain(from..steps.len().min(from + size));
                if fails(&fewer) {
                    steps = fewer;
                } else {
                    from += size;
                }
            }
            size /= 2;
        }
        for place in 0..steps.len() {
            for simpler in simpler(&steps, place) {
                let mut other = steps.clone();
                other[place] = simpler;
                if simpler != steps[place] && fails(&other) {
                    steps = other;
                }
            }
        }
        if steps == before {
            return steps;
        }
    }
}

fn simpler(steps: &[Step], place: usize) -> Vec<Step> {
    let step = steps[place];
    let numbers = place.checked_sub(1).map_or(0, |before| steps[before].numbers);
    let acts = match step.act {
        Act::Check(_) => vec![Act::Check(1)],
        Act::Partial(cost) => vec![Act::Check(cost), Act::Partial(1)],
        Act::Peek(_) => vec![Act::Peek(1)],
        Act::Hold { kind, cost, ttl_us, waits } => vec![
            Act::Check(cost),
            Act::Hold { kind, cost, ttl_us, waits: false },
            Act::Hold { kind: HoldKind::Reserve, cost, ttl_us, waits },
            Act::Hold { kind, cost: 1, ttl_us, waits },
            Act::Hold { kind, cost, ttl_us: 999_000, waits },
        ],
        Act::Refund { pick, .. } => vec![Act::Refund { pick, units: u64::MAX }],
        Act::Settle { pick, .. } => vec![Act::Settle { pick, actual: 0 }],
        Act::Adjust(by) => vec![Act::Adjust(by.signum())],
        Act::Charge(cost) => vec![Act::Check(cost), Act::Charge(1)],
        Act::Renew { pick, .. } => vec![Act::Renew { pick, ttl_us: 999_000 }],
        Act::Reset => Vec::new(),
    };
    let mut all = vec![
        Step { wait: Wait::None, ..step },
        Step { wait: Wait::Forward(1_000_000), ..step },
        Step { numbers, ..step },
        Step { forgets: false, ..step },
    ];
    all.extend(acts.into_iter().map(|act| Step { act, ..step }));
    all
}

//! All histories of a few steps: every question after every time, and no sample of them.

use super::super::StoreMaker;
use super::super::world::set;
use super::plan::{Act, Scale, Step, Wait};
use super::{Difference, run};
use tollgate::{HoldKind, LimitSet};

/// A time that every duration of up to 12 us divides.
const START_US: u64 = 27_720 * 60_000_000;

/// Does all histories of `depth` steps of one count beside the oracle, each in a fresh store: under
/// these limits by turns, which last some microseconds. The first step is at each time of a
/// duration. Answers how many histories there were.
///
/// ```
/// use tollgate::{ManualClock, MemoryStore};
/// use tollgate_proof::conformance::every_history;
///
/// let make = |clock: ManualClock| MemoryStore::builder().clock(clock).build();
/// let limits = ["x: 1/2us via fixed_window", "x: 2/2us via fixed_window"];
/// assert!(every_history(&make, &limits, 1).is_ok_and(|histories| histories > 20));
/// ```
///
/// # Errors
/// The first difference.
///
/// # Panics
/// When the limits do not parse.
pub fn every_history<M: StoreMaker>(
    maker: &M,
    limits: &[&str],
    depth: u32,
) -> Result<u64, Box<Difference>> {
    let sets: Vec<LimitSet> = limits.iter().map(|text| set(text)).collect();
    let scale = Scale::of(&sets);
    let acts = acts(&scale);
    let waits = waits(scale.period_us);
    let later: Vec<Step> = waits.iter().flat_map(|wait| at(*wait, &acts)).collect();
    let mut histories = 0;
    for us in 0..scale.period_us {
        for first in at(Wait::None, &acts) {
            let rest = later.len().pow(depth - 1);
            for mut number in 0..rest {
                let mut steps = vec![first];
                while steps.len() < depth as usize {
                    steps.push(later[number % later.len()]);
                    number /= later.len();
                }
                run::run(maker, &sets, START_US + us, &steps)?;
                histories += 1;
            }
        }
    }
    Ok(histories)
}

fn at(wait: Wait, acts: &[(usize, Act)]) -> Vec<Step> {
    let step =
        |(numbers, act): &(usize, Act)| Step { wait, numbers: *numbers, forgets: false, act: *act };
    acts.iter().map(step).collect()
}

/// All times until a duration has passed, the end of the hold that ends first, and steps back of
/// the clock within the skew and beyond.
fn waits(period_us: u64) -> Vec<Wait> {
    let mut waits = vec![Wait::None];
    waits.extend((1..=period_us + 1).map(Wait::Forward));
    waits.extend([Wait::End { pick: 0, off: 0 }, Wait::Skew(1), Wait::Back(1)]);
    waits
}

/// Every operation, with the place of the numbers under which it is asked.
fn acts(scale: &Scale) -> Vec<(usize, Act)> {
    let most = scale.most;
    let units = i64::try_from(most).unwrap_or(1);
    let mut acts = Vec::new();
    for numbers in 0..scale.sets {
        acts.extend((1..=most + 1).map(|cost| (numbers, Act::Check(cost))));
        acts.push((numbers, Act::Charge(most + 1)));
    }
    let hold = |kind, cost| Act::Hold { kind, cost, ttl_us: 0, waits: false };
    let others = [
        Act::Partial(most + 1),
        Act::Peek(1),
        hold(HoldKind::Reserve, 1),
        hold(HoldKind::Charging, most),
        Act::Settle { pick: 0, actual: 0 },
        Act::Settle { pick: 0, actual: most },
        Act::Refund { pick: 0, units: u64::MAX },
        Act::Refund { pick: 0, units: 1 },
        Act::Adjust(units),
        Act::Adjust(-1),
        Act::Reset,
    ];
    acts.extend(others.map(|act| (0, act)));
    acts
}

//! The engine beside the oracle at the ends of everything that is accepted.

use tollgate::engine::VecStates;
use tollgate::{MAX_COST, MAX_PERIOD_US, MAX_UNITS, SKEW_US, Time};

use super::op::{Op, Refund};
use super::pair::{Node, Numbers, Pair};
use super::place::signed;

const UNITS: [u64; 2] = [1, MAX_UNITS];
const PERIODS_US: [u64; 3] = [1, 999_983, MAX_PERIOD_US];

/// The limits at the ends, of which those that are accepted are tried: the least and the most
/// units, the shortest and the longest durations, the least and the most bursts and debts, one
/// sub-bucket and a thousand.
fn texts() -> Vec<String> {
    let mut all = Vec::new();
    for units in UNITS {
        for period_us in PERIODS_US {
            for debt in ["", " debt 0"] {
                let quota = format!("x: {units}/{period_us}us");
                for plain in ["fixed_window", "sliding_log", "uniform"] {
                    all.push(format!("{quota}{debt} via {plain}"));
                }
                all.push(format!("{quota}{debt} anchor first-hit via fixed_window"));
                for burst in UNITS {
                    all.push(format!("{quota} burst {burst}{debt} via gcra"));
                    let bucket = "refill interval via token_bucket";
                    all.push(format!("{quota} burst {burst}{debt} {bucket}"));
                }
                for rounding in ["conservative", "interpolate", "truncate"] {
                    for precision_us in [1, period_us / 1_000, period_us] {
                        let rounding = format!("precision {precision_us}us rounding {rounding}");
                        all.push(format!("{quota}{debt} {rounding} via sliding_window"));
                    }
                }
            }
        }
    }
    all
}

/// The times at the ends, and beside a window's.
fn times_us(period_us: u64) -> Vec<u64> {
    let last_us = Time::MAX.as_micros();
    let beside = [period_us - 1, period_us, period_us + 1, SKEW_US, SKEW_US + 1];
    let mut times: Vec<u64> = [0, 1, last_us - period_us, last_us - 1, last_us].into();
    times.extend(beside.into_iter().filter(|us| *us <= last_us));
    times.sort_unstable();
    times.dedup();
    times
}

fn ops(pair: &Pair) -> Vec<Op> {
    let mut ops = vec![Op::Adjust { by: i64::MAX }, Op::Adjust { by: -i64::MAX }];
    for (set, Numbers { capacity, most, .. }) in pair.sets.iter().enumerate() {
        for cost in [1, *capacity, (capacity + 1).min(MAX_COST), MAX_COST] {
            ops.extend([Op::Check { set, cost }, Op::Peek { set, cost }]);
        }
        ops.extend([Op::Part { set, cost: MAX_COST }, Op::Charge { set, cost: MAX_COST }]);
        ops.extend([Op::Charge { set, cost: 1 }, Op::Charge { set, cost: (*most).min(MAX_COST) }]);
        for after_us in [0, 1, -1, signed(SKEW_US)] {
            let (charged, cost, left, units) = (set, *capacity, *capacity, *capacity);
            ops.push(Op::Refund(Refund { charged, after_us, cost, left, units }));
            ops.push(Op::Refund(Refund { charged, after_us, cost, left, units: 1 }));
        }
    }
    ops
}

/// Does every two operations at all times of each limit at the ends, and the next one of its
/// strategy beside it. Answers how many limits were accepted, and how many operations were done.
///
/// # Errors
/// The first difference. An overflow panics where it is checked, as in every profile here.
pub fn edges() -> Result<(usize, u64), String> {
    let accepted: Vec<String> =
        texts().into_iter().filter(|text| Numbers::read(text).is_some()).collect();
    let mut steps = 0;
    for text in &accepted {
        let strategy = |text: &str| text.rsplit("via ").next().map(str::to_owned);
        let alike = accepted.iter().filter(|other| strategy(other) == strategy(text));
        let own = alike.clone().position(|other| other == text).unwrap_or(0);
        let other = alike.cycle().nth(own + 7).unwrap_or(text);
        let sets: Option<Vec<Numbers>> =
            [text, other].map(|it| Numbers::read(it)).into_iter().collect();
        let Some(sets) = sets else { continue };
        let period_us = sets[0].limits.limits()[0].quota().period.as_micros();
        steps += all_of(&Pair::new(sets), &times_us(period_us))
            .map_err(|differs| format!("{text} beside {other}: {differs}"))?;
    }
    Ok((accepted.len(), steps))
}

fn all_of(pair: &Pair, times_us: &[u64]) -> Result<u64, String> {
    let (mut steps, ops) = (0, ops(pair));
    let mut after = |node: &Node, keep: bool| -> Result<Vec<Node>, String> {
        let mut all = Vec::new();
        for now_us in times_us {
            for op in &ops {
                let mut then = Node { now_us: *now_us, ..node.clone() };
                pair.apply(&mut then, *op)?;
                steps += 1;
                let is_same = |other: &Node| {
                    (other.set, &other.states) == (then.set, &then.states)
                        && other.oracle == then.oracle
                };
                if keep && !all.iter().any(is_same) {
                    all.push(then);
                }
            }
        }
        Ok(all)
    };
    let fresh = pair.fresh(0);
    debug_assert_eq!(fresh.states, VecStates::fresh(&pair.sets[0].limits));
    for node in after(&fresh, true)? {
        after(&node, false)?;
    }
    Ok(steps)
}

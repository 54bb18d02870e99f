//! The state of the engine moved in time, and written down. Each strategy ignores when its state
//! was written, but for the lengths that it counts from the epoch.

use tollgate::engine::{VecLog, VecStates};
use tollgate::strategy::{Entry, Log as _};
use tollgate::{LimitSet, Place};

use crate::conformance::rule_of;
use crate::oracle::Rule;

/// A time that every length up to 12 us divides, far from the ends of time.
pub(super) const START_US: u64 = 27_720_000_000;

/// How far a time is moved to be at the start or less than a beat after it.
pub(super) fn to_start(now_us: u64, beat_us: u64) -> i64 {
    let (now, start, beat) = (signed(now_us), signed(START_US), signed(beat_us));
    start + (now - start).rem_euclid(beat) - now
}

/// Moves the state of a set by `by_us`, a multiple of the lengths that its limits count from the
/// epoch.
pub(super) fn shift(limits: &LimitSet, states: &mut VecStates, by_us: i64) {
    for (limit, place) in limits.limits().iter().zip(limits.places()) {
        match (*place, rule_of(limit)) {
            (Place::Log(number), _) => shift_log(&mut states.logs[number], by_us),
            (Place::Words { start, end }, Some(rule)) => {
                shift_words(rule, &mut states.words[start..end], by_us);
            }
            // A limit of slots has no state.
            _ => {}
        }
    }
}

fn shift_log(log: &mut VecLog, by_us: i64) {
    let base = log.base();
    let each = (0..log.len()).map(|place| log.entry(place));
    let moved = each.map(|entry| Entry {
        at_us: later(entry.at_us, by_us),
        // Totals count from the base, whatever that is.
        total: entry.total.wrapping_sub(base),
    });
    *log = VecLog::new(0, moved);
}

fn shift_words(rule: Rule, words: &mut [u64], by_us: i64) {
    match rule {
        _ if words.iter().all(|word| *word == 0) => {}
        Rule::Window { precision_us, .. } => turn(words, by_us / signed(precision_us)),
        _ => words[0] = later(words[0], by_us),
    }
}

/// Moves the buckets of a sliding window, each of which lies where its number says.
fn turn(words: &mut [u64], by: i64) {
    let slots = words.len() as u64 - 1;
    let place = |bucket: u64| 1 + usize::try_from(bucket % slots).unwrap_or(0);
    let (newest, held) = (words[0], words.to_vec());
    words[0] = later(newest, by);
    for bucket in newest.saturating_sub(slots - 1)..=newest {
        words[place(later(bucket, by))] = held[place(bucket)];
    }
}

/// Writes down all that the engine holds: two states of one rule that write the same are the same.
pub(super) fn write_down(states: &VecStates, out: &mut Vec<i128>) {
    out.extend(states.words.iter().map(|word| i128::from(*word)));
    for log in &states.logs {
        let entries = (0..log.len()).map(|place| log.entry(place));
        out.extend(entries.flat_map(|entry| [entry.at_us, entry.total]).map(i128::from));
        out.push(i128::from(log.base()));
    }
    out.push(i128::MIN);
}

/// A time that much later. The worlds of the search are far from both ends of time.
pub(super) fn later(us: u64, by_us: i64) -> u64 {
    us.saturating_add_signed(by_us)
}

pub(super) fn signed(us: u64) -> i64 {
    i64::try_from(us).unwrap_or(i64::MAX)
}

/// Numbers of a settled count, all of which are small.
pub(super) fn small(all: Vec<i128>) -> Vec<i64> {
    all.into_iter().map(|number| i64::try_from(number).unwrap_or(i64::MIN)).collect()
}

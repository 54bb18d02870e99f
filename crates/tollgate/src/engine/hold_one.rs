//! The fast path of holds: one that is admitted under one limit and charges nothing.

use smallvec::SmallVec;

use super::amount::{Amount, kept_of};
use super::holds::{self, Holds as _, MAX_HOLDS, OpenHold};
use super::{Carried, Fields, HoldTable, Outcome, Placed, States};
use crate::hold::{HoldKind, HoldTerms};
use crate::limit::LimitSet;
use crate::strategy::Step as _;
use crate::time::Time;

/// Places a hold with the same result as [`super::decide_holding`], which judges all that this
/// leaves: it returns `None`, and has changed nothing then.
///
/// It leaves named holds, denials, ends that are due, a clock that stepped back, several limits,
/// bans, counts for which somebody waits in line, and holds that charge something now or at their
/// end; also counts with an open hold that charges at its end, and counts with [`MAX_HOLDS`] of
/// them.
pub(crate) fn hold_one(
    limits: &LimitSet,
    states: &mut impl States,
    table: &mut HoldTable,
    now: Time,
    cost: u64,
    terms: &HoldTerms,
) -> Option<Outcome> {
    let ([limit], [place], None) = (limits.limits(), limits.places(), terms.id.name()) else {
        return None;
    };
    let kind = terms.id.kind();
    let wanted = Amount::of_cost(cost, Some(kind)).on(limit).taken;
    let charges = match kind {
        HoldKind::Reserve => false,
        HoldKind::Acquire => Amount::of_charge(cost).on(limit).taken > 0,
        HoldKind::Charging => true,
    };
    if wanted == 0 || charges || table.has_line() {
        return None;
    }
    let (at_us, back_us) = holds::clock(table, now);
    let is_due = table.first().is_some_and(|hold| hold.end_us <= at_us);
    let mut sums = table.sums();
    if is_due || back_us > 0 || sums.charging > 0 || sums.count >= MAX_HOLDS {
        return None;
    }
    let judgement = limit.step().judge(&mut states.cell(*place), now, wanted);
    let remaining = judgement.remaining.saturating_sub(kept_of(limit, &sums));
    if judgement.stepped_back || wanted > remaining {
        return None;
    }
    let hold = OpenHold { end_us: at_us + terms.ttl_us, id: terms.id, cost };
    table.insert(hold);
    sums.add(&hold);
    sums.fence = at_us.max(sums.fence + 1);
    sums.seen_us = at_us;
    table.set_sums(sums);
    let until_last = table.last().map_or(0, |last| last.end_us.saturating_sub(now.as_micros()));
    let fields = Fields::new(
        remaining - wanted,
        Some(0),
        judgement.reset_after_us.max(until_last),
        now.as_micros(),
        Carried::Same,
    );
    let placed = Placed { fence: sums.fence, end: Time::from_micros(hold.end_us), answer: 0 };
    // One push is in line here, where an iterator is a call.
    let mut each = SmallVec::new();
    each.push(fields);
    let mut outcome = Outcome::new(cost, each, 0, now);
    outcome.changed = true;
    outcome.hold = Some(Box::new(placed));
    Some(outcome)
}

#[cfg(test)]
mod tests {
    use super::super::{Mode, Part, VecStates, decide_holding};
    use super::*;

    /// A number below `end` for what comes next, the same in every run.
    fn next(seed: &mut u64, end: u64) -> u64 {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % end
    }

    #[test]
    fn a_hold_on_the_fast_path_is_the_general_one() {
        let texts = ["10/s via gcra", "10/s via fixed_window", "9/s via sliding_log", "9 at once"];
        for text in texts {
            let limits: LimitSet = text.parse().unwrap();
            let (mut states, mut table) = (VecStates::fresh(&limits), HoldTable::default());
            let mut seed = 7;
            let (mut now_us, mut taken, mut left) = (1_000_000_000, 0, 0);
            for turn in 0..20_000_u64 {
                now_us += next(&mut seed, 200_000);
                if next(&mut seed, 50) == 0 {
                    now_us -= 2_000_000;
                }
                let now = Time::from_micros(now_us);
                let [charging, acquire] = [20, 2].map(|of| next(&mut seed, of) == 0);
                let kind = match (charging, acquire) {
                    (true, _) => HoldKind::Charging,
                    (_, true) => HoldKind::Acquire,
                    _ => HoldKind::Reserve,
                };
                let ttl_us = 1 + next(&mut seed, 400_000);
                let terms = HoldTerms::new(kind, ttl_us);
                let cost = 1 + next(&mut seed, 4);
                let (mut same_states, mut same_table) = (states.clone(), table.clone());
                let one = hold_one(&limits, &mut same_states, &mut same_table, now, cost, &terms);
                if one.is_none() {
                    assert_eq!(format!("{table:?}"), format!("{same_table:?}"), "{text}: {turn}");
                    assert_eq!(format!("{states:?}"), format!("{same_states:?}"), "{text}: {turn}");
                }
                let part = Part::new(&limits, &mut states).holding(&mut table);
                let all = decide_holding(&mut [part], now, cost, Mode::Whole, Some(terms)).unwrap();
                left += u32::from(one.is_none());
                if let Some(one) = one {
                    taken += 1;
                    assert_eq!(one, all, "{text}: {turn}, {kind:?}");
                    assert_eq!(format!("{table:?}"), format!("{same_table:?}"), "{text}: {turn}");
                    assert_eq!(format!("{states:?}"), format!("{same_states:?}"), "{text}: {turn}");
                }
            }
            assert!(taken > 1_000 && left > 1_000, "{text}: {taken} taken, {left} left");
        }
    }
}

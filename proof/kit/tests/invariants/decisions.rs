//! The promises of every strategy: weights, denials, sets of limits, waits, and the remaining
//! units.

use proptest::prelude::*;
use tollgate::engine::Mode;

use super::{ALL, Engine, START_US, any_limit, config, history};

proptest! {
    #![proptest_config(config(600))]

    /// I-W: one operation of weight w leaves the state that w operations of weight 1 leave.
    #[test]
    fn i_w_a_weight_is_that_many_units(
        limit in any_limit(),
        seed in history(1_000, 9),
        cost in 1..10_u64,
    ) {
        let mut one = Engine::new(limit);
        one.run(START_US, &seed);
        let mut now_us = START_US + seed.iter().map(|(gap, _)| gap).sum::<u64>() + 5;
        let left = one.ask(now_us, 1, Mode::Peek).fields[0];
        now_us += left.retry_after_us.unwrap();
        let cost = cost.min(left.remaining.max(1));
        let mut units = one.clone();
        let whole = one.check(now_us, cost);
        prop_assert_eq!(whole.granted, cost);
        let mut last = None;
        for _ in 0..cost {
            let outcome = units.check(now_us, 1);
            prop_assert_eq!(outcome.granted, 1);
            last = Some(outcome);
        }
        prop_assert_eq!(&last.unwrap().fields, &whole.fields);
        prop_assert_eq!(one.held, units.held);
    }

    /// I-D: denied operations and peeks may be left out of a history; nothing else changes.
    #[test]
    fn i_d_denials_leave_no_trace(limit in any_limit(), seed in history(1_000, 9)) {
        let mut all = Engine::new(limit);
        let mut now_us = START_US;
        let mut kept = Vec::new();
        for &(gap, cost) in &seed {
            now_us += gap;
            let before = all.held.clone();
            all.ask(now_us, cost, Mode::Peek);
            all.ask(now_us, cost, Mode::PeekPartial);
            prop_assert_eq!(&all.held, &before);
            let outcome = all.check(now_us, cost);
            if outcome.granted > 0 {
                kept.push((now_us, cost, outcome));
            } else {
                prop_assert_eq!(&all.held, &before);
                prop_assert!(!outcome.changed);
            }
        }
        let mut only = Engine::new(limit);
        for (at, cost, outcome) in kept {
            prop_assert_eq!(only.check(at, cost), outcome);
        }
        prop_assert_eq!(all.held, only.held);
    }

    /// I-A and I-MW: a set decides as the AND of its limits on the same state before, charges
    /// all or none, and each limit keeps its own bound.
    #[test]
    fn i_a_a_set_is_the_and_of_its_limits(
        first in 0..ALL.len(),
        second in 0..ALL.len(),
        seed in history(1_000, 9),
    ) {
        let (a, b) = (format!("a: {}", ALL[first]), format!("b: {}", ALL[second]));
        let mut set = Engine::new(&format!("{a}, {b}"));
        let (mut one, mut two) = (Engine::new(&a), Engine::new(&b));
        let mut now_us = START_US;
        for &(gap, cost) in &seed {
            now_us += gap;
            let before = set.held.clone();
            let peeks = [one.ask(now_us, cost, Mode::Peek), two.ask(now_us, cost, Mode::Peek)];
            let admitted = peeks.iter().all(|peek| peek.granted > 0);
            let outcome = set.check(now_us, cost);
            prop_assert_eq!(outcome.granted > 0, admitted);
            if admitted {
                prop_assert_eq!(outcome.fields[0], one.check(now_us, cost).fields[0]);
                prop_assert_eq!(outcome.fields[1], two.check(now_us, cost).fields[0]);
            } else {
                prop_assert_eq!(&set.held, &before);
                prop_assert_eq!(outcome.fields[0], peeks[0].fields[0]);
                prop_assert_eq!(outcome.fields[1], peeks[1].fields[0]);
            }
        }
    }

    /// I-R: after the wait it is admitted, a microsecond earlier it is not; of a set, the
    /// largest wait.
    #[test]
    fn i_r_the_wait_is_exact(
        first in 0..ALL.len(),
        second in 0..ALL.len(),
        seed in history(1_000, 9),
        cost in 1..8_u64,
    ) {
        for text in [ALL[first].to_owned(), format!("a: {}, b: {}", ALL[first], ALL[second])] {
            let mut engine = Engine::new(&text);
            engine.run(START_US, &seed);
            let now_us = START_US + seed.iter().map(|(gap, _)| gap).sum::<u64>();
            let denied = engine.check(now_us, cost);
            if denied.granted > 0 {
                continue;
            }
            let waits: Option<Vec<u64>> = denied.fields.iter().map(|f| f.retry_after_us).collect();
            let Some(wait) = waits.and_then(|waits| waits.into_iter().max()) else {
                // Never: not in a year either.
                let year_us = 365 * 86_400_000_000;
                prop_assert_eq!(engine.ask(now_us + year_us, cost, Mode::Peek).granted, 0);
                continue;
            };
            prop_assert!(wait > 0);
            prop_assert_eq!(engine.ask(now_us + wait - 1, cost, Mode::Peek).granted, 0);
            prop_assert_eq!(engine.ask(now_us + wait, cost, Mode::Peek).granted, cost);
        }
    }

    /// I-M: `remaining` never falls by itself, falls by exactly the cost, and is exact; the reset
    /// does not move between charges.
    #[test]
    fn i_m_what_remains_is_exact(limit in any_limit(), seed in history(1_000, 9)) {
        let mut engine = Engine::new(limit);
        let mut now_us = START_US;
        for &(gap, cost) in &seed {
            let earlier = engine.ask(now_us, 1, Mode::Peek).fields[0];
            now_us += gap;
            let before = engine.ask(now_us, 1, Mode::Peek).fields[0];
            prop_assert!(before.remaining >= earlier.remaining);
            prop_assert_eq!(before.reset_after_us, earlier.reset_after_us.saturating_sub(gap));
            if before.remaining > 0 {
                prop_assert!(engine.ask(now_us, before.remaining, Mode::Peek).granted > 0);
            }
            prop_assert_eq!(engine.ask(now_us, before.remaining + 1, Mode::Peek).granted, 0);
            let outcome = engine.check(now_us, cost);
            let after = outcome.fields[0].remaining;
            prop_assert_eq!(before.remaining - after, outcome.granted);
        }
    }
}

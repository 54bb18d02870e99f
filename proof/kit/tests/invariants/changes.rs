//! Clocks that step, and numbers that change while they count.

use proptest::prelude::*;
use tollgate::engine::{self, Mode};
use tollgate::{SKEW_US, Time};

use super::{ALL, Engine, PERIOD_US, START_US, any_limit, config, history};

proptest! {
    #![proptest_config(config(600))]

    /// I-T: a step back admits no more than was left, whatever its size, and the wait told after
    /// it is at most one full refill (and the skew); of a backlog, also the debt, which is as much
    /// again.
    #[test]
    fn i_t_a_step_back_gives_nothing_and_locks_nobody_out(
        limit in any_limit(),
        seed in history(1_000, 9),
        back in prop_oneof![0..SKEW_US + 2, SKEW_US - 2..SKEW_US * 40],
    ) {
        let mut engine = Engine::new(limit);
        engine.run(START_US, &seed);
        let now_us = START_US + seed.iter().map(|(gap, _)| gap).sum::<u64>();
        let left = engine.ask(now_us, 1, Mode::Peek).fields[0].remaining;
        let earlier_us = now_us.saturating_sub(back);
        let mut taken = 0;
        while engine.check(earlier_us, 1).granted > 0 {
            taken += 1;
            prop_assert!(taken <= left, "{back} back admits more than {left}");
        }
        let denied = engine.check(earlier_us, 1).fields[0];
        let greedy = ["uniform", "gcra", "burst 9 via"].iter().any(|word| limit.contains(word));
        let refill_us = match limit {
            _ if greedy => 2 * 9 * PERIOD_US / 5,
            _ if limit.contains("interval") => 2 * PERIOD_US,
            _ if limit.contains("sliding_window") => PERIOD_US + PERIOD_US / 10,
            _ => PERIOD_US,
        };
        let skew_us = if greedy { 0 } else { SKEW_US };
        let wait = denied.retry_after_us.unwrap();
        prop_assert!(wait <= refill_us + skew_us, "{limit}: {wait} after {back} back");
        prop_assert!(denied.reset_after_us <= refill_us + skew_us);
        // It is kept: the wait runs down from here on.
        prop_assert!(engine.check(earlier_us + wait, 1).granted > 0);
    }

    /// I-T: a step forward of J grants at most what J of refill grants.
    #[test]
    fn i_t_a_step_forward_grants_its_refill(
        limit in any_limit(),
        seed in history(1_000, 9),
        forward in 0..3_000_u64,
    ) {
        let mut engine = Engine::new(limit);
        engine.run(START_US, &seed);
        let now_us = START_US + seed.iter().map(|(gap, _)| gap).sum::<u64>();
        let left = engine.ask(now_us, 1, Mode::Peek).fields[0].remaining;
        let after = engine.ask(now_us + forward, 1, Mode::Peek).fields[0].remaining;
        let quota = engine.limits.limits()[0].quota().clone();
        let (n, d) = (quota.units, quota.period.as_micros());
        if ["gcra", "uniform", "via token"].iter().any(|w| limit.contains(w))
            && !limit.contains("interval")
        {
            // Rounding down on both sides hides less than one unit.
            prop_assert!(after - left <= forward * n / d + 1);
        } else if limit.contains("interval") {
            prop_assert!(after - left <= (forward / d + 1) * n);
        }
        prop_assert!(after <= engine.limits.limits()[0].capacity());
    }

    /// I-C: after a change of numbers at `c`, the units admitted before and after stay below the
    /// larger burst and both refills.
    #[test]
    fn i_c_a_change_of_numbers_is_bounded(
        before in history(1_000, 9),
        after in history(1_000, 9),
        (n, burst) in (1..12_u64, 1..20_u64),
        (n2, burst2) in (1..12_u64, 1..20_u64),
    ) {
        let d = PERIOD_US;
        let mut engine = Engine::new(&format!("x: {n}/{d}us burst {burst} via gcra"));
        let mut events = engine.run(START_US, &before);
        let change_us = START_US + before.iter().map(|(gap, _)| gap).sum::<u64>();
        let mut next = Engine::new(&format!("x: {n2}/{d}us burst {burst2} via gcra"));
        let now = Time::from_micros(change_us);
        engine::migrate(&next.limits, &mut next.held, &engine.limits, &mut engine.held, now);
        events.extend(next.run(change_us, &after));
        for (i, &(from, _)) in events.iter().enumerate() {
            let mut sum = 0;
            for &(at, cost) in &events[i..] {
                sum += cost;
                let split = change_us.clamp(from, at);
                // Two floors hide less than a unit each.
                let refill = (split - from) * n / d + (at - split) * n2 / d + 2;
                prop_assert!(sum <= burst.max(burst2) + refill, "{events:?} around {change_us}");
            }
        }
    }

    /// I-C for the counts: lowering and raising N of a log or a window carries what counts.
    #[test]
    fn i_c_a_count_is_never_reset_by_new_numbers(
        index in 0..ALL.len(),
        seed in history(1_000, 9),
        n2 in 1..15_u64,
    ) {
        let limit = ALL[index];
        prop_assume!(!limit.contains("uniform"));
        let mut engine = Engine::new(&format!("x: {limit}"));
        engine.run(START_US, &seed);
        let now_us = START_US + seed.iter().map(|(gap, _)| gap).sum::<u64>();
        let now = Time::from_micros(now_us);
        let capacity = engine.limits.limits()[0].capacity();
        let consumed = capacity - engine.ask(now_us, 1, Mode::Peek).fields[0].remaining;
        let (quota, rest) = limit.split_once('/').unwrap();
        prop_assert!(quota.parse::<u64>().is_ok());
        let mut next = Engine::new(&format!("x: {n2}/{rest}"));
        engine::migrate(&next.limits, &mut next.held, &engine.limits, &mut engine.held, now);
        let capacity2 = next.limits.limits()[0].capacity();
        let remaining = next.ask(now_us, 1, Mode::Peek).fields[0].remaining;
        prop_assert!(remaining <= capacity2.saturating_sub(consumed), "{consumed} were consumed");
        // At most the unit that has partly come back is lost to rounding.
        prop_assert!(remaining + 1 >= capacity2.saturating_sub(consumed));
    }
}

//! I-DF: the maximum that shares of limits admit, on one node and on several
//! (`docs/definitions.md`, section 10).

use proptest::prelude::*;
use tollgate::strategy::Shape;
use tollgate::{Limit, Refill, Share, Strategy as Kind};

use super::{Engine, START_US, any_limit, config, history, scaled, worst};

/// A limit with its numbers as wide integers.
struct Numbers {
    limit: Limit,
    n: u128,
    d: u128,
    burst: u128,
    is_greedy: bool,
}

impl Numbers {
    fn new(limit: Limit) -> Self {
        let quota = limit.quota();
        let is_greedy = matches!(limit.strategy(), Kind::Uniform | Kind::Gcra)
            || quota.refill == Some(Refill::Greedy);
        let (n, d) = (quota.units.into(), quota.period.as_micros().into());
        Self { n, d, burst: limit.capacity().into(), is_greedy, limit }
    }

    /// The most units in any half-open window of `t`, times `d`.
    fn most(&self, t: u128) -> u128 {
        let Self { n, d, burst, .. } = self;
        let periods = t.div_ceil(*d);
        d * match self.limit.strategy() {
            _ if self.is_greedy => return burst * d + n * t,
            // A refill at each multiple of the period.
            Kind::TokenBucket => burst + n * periods,
            Kind::SlidingLog => n * periods,
            // In a window of its length it admits what two windows do.
            _ if self.limit.strategy().traits(self.limit.quota()).worst_window
                > self.limit.capacity() =>
            {
                n * (periods + 1)
            }
            _ => n * periods,
        }
    }
}

fn shared(text: &str, share: Share) -> (Numbers, Numbers) {
    let limit: Limit = text.parse().unwrap();
    let part = limit.share(share).unwrap();
    (Numbers::new(limit), Numbers::new(part))
}

/// The admissions of one node under `part` keep the share of `whole` in every window.
fn holds(
    (whole, part): (&Numbers, &Numbers),
    (p, q): (u128, u128),
    events: &[(u64, u64)],
) -> Result<(), TestCaseError> {
    // The rate is at most the share, whatever was rounded.
    prop_assert!(part.n * whole.d * q <= p * whole.n * part.d, "{} of {}", part.limit, whole.limit);
    for periods in [1, 2, 3, 7, 20_u128] {
        let t = periods * part.d;
        let admitted = u128::from(worst(events, u64::try_from(t).unwrap()));
        prop_assert!(admitted * part.d <= part.most(t), "{}: {admitted} in {t}", part.limit);
        let is_one = p * whole.n < q || p * whole.burst < q;
        if !is_one {
            // share * bound(t)
            prop_assert!(admitted * q * whole.d <= p * whole.most(t), "{}: {admitted}", part.limit);
        } else if whole.is_greedy {
            // max(1, share * B) + share * N * t / D
            let burst = q.max(p * whole.burst);
            let most = burst * whole.d + p * whole.n * t;
            prop_assert!(admitted * q * whole.d <= most, "{}: {admitted}", part.limit);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn i_df_a_share_keeps_its_part_of_the_bound(
        text in any_limit(),
        q in 1..14_u32,
        p in 1..14_u32,
        seed in history(1_000, 9),
    ) {
        let share = Share::new(p.min(q), q).unwrap();
        let (whole, part) = shared(text, share);
        let (p, q) = share.fraction();
        let mut engine = Engine::new(&part.limit.to_string());
        let events = engine.run(START_US, &scaled(&seed, u64::try_from(part.d).unwrap()));
        let fits = seed.iter().any(|(_, cost)| *cost <= part.limit.capacity());
        prop_assert!(!fits || !events.is_empty(), "{} admits nothing", part.limit);
        holds((&whole, &part), (p.into(), q.into()), &events)?;
        if part.limit.shape() == Shape::Log {
            let period_us = part.limit.quota().period.as_micros();
            prop_assert!(u128::from(worst(&events, period_us)) <= part.n);
        }
    }

    #[test]
    fn i_df_equal_shares_of_all_nodes_keep_the_limit_or_one_unit_each(
        text in any_limit(),
        nodes in 1..10_u32,
        seeds in prop::collection::vec(history(1_000, 9), 10),
    ) {
        let (whole, part) = shared(text, Share::of_nodes(nodes).unwrap());
        let mut all = Vec::new();
        for seed in seeds.iter().take(nodes as usize) {
            let mut engine = Engine::new(&part.limit.to_string());
            all.extend(engine.run(START_US, &scaled(seed, u64::try_from(part.d).unwrap())));
        }
        all.sort_unstable();
        let nodes = u128::from(nodes);
        for periods in [1, 2, 3, 7, 20_u128] {
            let t = periods * part.d;
            let admitted = u128::from(worst(&all, u64::try_from(t).unwrap()));
            let most = match whole.is_greedy {
                // max(n, B) + N * t / D
                true => whole.burst.max(nodes) * whole.d + whole.n * t,
                false if whole.n >= nodes && whole.burst >= nodes => whole.most(t),
                // One unit each, in each of the longer periods.
                false => nodes * part.most(t) * whole.d / part.d,
            };
            prop_assert!(admitted * whole.d <= most, "{nodes} x {}: {admitted}", part.limit);
        }
    }
}

/// The bound is reached: an adversary takes a whole burst, and then each unit when it comes back.
#[test]
fn i_df_greedy_callers_reach_the_bound() {
    for (text, share, most) in [
        ("100/s via gcra", "1/4", 25 + 250),
        ("2/s via gcra", "1/8", 1 + 2),
        ("8/s via sliding_log", "1/4", 2 * 10),
        ("2/s via sliding_log", "1/4", 5),
        ("8/s via fixed_window", "1/4", 2 * 11),
    ] {
        let (_, part) = shared(text, share.parse().unwrap());
        let mut engine = Engine::new(&part.limit.to_string());
        let gaps: Vec<(u64, u64)> = (0..10_000).flat_map(|_| [(1_000, 1), (0, 1)]).collect();
        // Everything that is left in one call, just before a window ends.
        let mut events = engine.run(1_999_000, &[(0, 1); 30]);
        events.extend(engine.run(1_999_000, &gaps));
        let admitted = worst(&events, 10_000_001 - 1_000);
        assert!(admitted <= most + 1 && admitted * 10 >= most * 9, "{text}: {admitted} of {most}");
    }
}

//! Refunds break no bound.

use proptest::prelude::*;
use tollgate::Time;
use tollgate::engine::{self, Mode};

use super::{Engine, PERIOD_US, START_US, any_limit, config, history, worst};

/// Says how `events` break the bound of a limit of [`ALL`], if they do.
fn broken(limit: &str, capacity: u64, n: u64, d: u64, events: &[(u64, u64)]) -> Option<String> {
    let fail = |what: &str| Some(format!("{limit}: {what}: {events:?}"));
    if limit.contains("sliding") {
        let span = if limit.contains("truncate") { d - d / 10 } else { d };
        let most = if limit.contains("interpolate") { 2 * n - 1 } else { n };
        return (worst(events, span) > most).then(|| fail("in a window")).flatten();
    }
    for (i, &(from, _)) in events.iter().enumerate() {
        let mut sum = 0;
        for &(at, cost) in &events[i..] {
            sum += cost;
            let most = match limit {
                _ if limit.contains("first-hit") => n * ((at - from) / d + 2),
                _ if limit.contains("fixed") => n * (at / d - from / d + 1),
                _ if limit.contains("interval") => capacity + n * (at / d - from / d),
                _ => capacity + (at - from) * n / d,
            };
            if sum > most {
                return fail("in an interval");
            }
        }
    }
    None
}

proptest! {
    #![proptest_config(config(1_500))]

    /// Refunds, for every strategy: counting only units that were not given back, no bound is
    /// broken; nothing is given beyond full, and a refund is at most the cost.
    #[test]
    fn a_refund_breaks_no_bound(
        limit in any_limit(),
        seed in history(1_000, 9),
        picks in prop::collection::vec((0..60_usize, 0..PERIOD_US), 1..30),
    ) {
        let mut engine = Engine::new(limit);
        let capacity = engine.limits.limits()[0].capacity();
        let quota = engine.limits.limits()[0].quota().clone();
        let (n, d) = (quota.units, quota.period.as_micros());
        let mut events: Vec<(u64, u64)> = Vec::new();
        let mut receipts: Vec<(u64, u64)> = Vec::new();
        let (mut now_us, mut picks) = (START_US, picks.into_iter());
        for &(gap, cost) in &seed {
            now_us += gap;
            let outcome = engine.check(now_us, cost);
            if outcome.granted > 0 {
                events.push((now_us, cost));
                receipts.push((outcome.fields[0].charged_at_us, cost));
                continue;
            }
            // Denied: give something back, perhaps a little later.
            let Some((pick, later)) = picks.next() else { continue };
            if receipts.is_empty() {
                continue;
            }
            now_us += later;
            let before = engine.ask(now_us, 1, Mode::Peek).fields[0].remaining;
            let (at, cost) = receipts.remove(pick % receipts.len());
            let now = Time::from_micros(now_us);
            let (limits, held) = (engine.limits.clone(), engine.held.clone());
            let whole = engine::Portion::whole(cost.into());
            let part = &mut engine::Part::new(&limits, &mut engine.held);
            let given = engine::refund(part, &limits, (&[at], now), &whole, now)[0];
            let after = engine.ask(now_us, 1, Mode::Peek).fields[0].remaining;
            prop_assert!(after <= capacity && after - before == given);
            prop_assert!(given <= cost);
            // A part of a unit that comes back shows in the state before it shows in a number.
            if given > 0 || engine.held != held {
                let found = events.iter().position(|event| *event == (at, cost)).unwrap();
                events.remove(found);
            }
        }
        let found = broken(limit, capacity, n, d, &events);
        prop_assert!(found.is_none(), "{}", found.unwrap_or_default());
    }
}

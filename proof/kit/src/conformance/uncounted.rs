//! A case: a limit that counts nothing for a while.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use std::time::Duration;

use tollgate::{Ask, Cost, HoldKind, LimitSet};

use super::StoreMaker;
use super::world::{START_US, World, block_on, set};

/// A limit that counts nothing for a while: checks, charges, holds and refunds of that time leave
/// its count as it was, and are those of the limit beside it.
pub(super) fn an_uncounted_limit_keeps_its_count<M: StoreMaker>(maker: &M) {
    for text in [
        "a: 10/1h via gcra, b: 100/1h via sliding_log",
        "a: 10/1h via fixed_window, b: 100/1h of tokens via gcra",
        "a: 10/1h via sliding_log, b: 100/1h via fixed_window",
    ] {
        let world = World::new(maker, text, START_US);
        let limits = set(text);
        let [a, b] = limits.limits() else { unreachable!("two limits") };
        let open = LimitSet::new(vec![a.uncounted().unwrap(), b.clone()]).unwrap();
        let cost = |units: u64| match b.unit().name() {
            "tokens" => Cost::new([("requests", units), ("tokens", units)]).unwrap(),
            _ => Cost::from(units),
        };
        let under = |set, units| Ask::new("bob").under(set).cost(cost(units));
        let left = |set| -> Vec<u64> {
            world.peek(under(set, 1)).reports().map(|report| report.remaining()).collect()
        };
        assert!(world.check(under(&limits, 2)).is_allowed(), "{text}");
        let checked = world.check(under(&open, 5));
        let receipt = checked.receipt().unwrap();
        world.charge_each(under(&open, 20));
        let hold = || {
            let ask = under(&open, 9).holding(HoldKind::Reserve, Some(Duration::from_secs(60)));
            block_on(world.limiter.hold(ask)).unwrap().hold.expect("room")
        };
        let (first, second) = (hold(), hold());
        assert_eq!(left(&open)[1], 100 - 2 - 5 - 20 - 18, "{text}");
        block_on(world.limiter.commit(&first, cost(7))).unwrap();
        block_on(world.limiter.commit(&second, cost(3))).unwrap();
        assert_eq!(left(&open)[1], 100 - 2 - 5 - 20 - 10, "{text}");
        assert_eq!(world.refund(&receipt).given, [0, 5], "{text}");
        assert_eq!(left(&limits), [8, 100 - 2 - 20 - 10], "{text}");
    }
    overdrawn(maker);
}

/// Charges without a check have taken more than the limit: open, it denies nothing, and its count
/// stays overdrawn.
fn overdrawn<M: StoreMaker>(maker: &M) {
    for text in
        ["a: 3/1m debt 9 via uniform, b: 100/1h via gcra", "a: 1/1d via gcra, b: 9/1s via gcra"]
    {
        let world = World::new(maker, text, START_US);
        let limits = set(text);
        let [a, b] = limits.limits() else { unreachable!("two limits") };
        let open = LimitSet::new(vec![a.uncounted().unwrap(), b.clone()]).unwrap();
        world.charge_each(Ask::new("bob").under(&limits).cost(5));
        assert!(!world.check(Ask::new("bob").under(&limits)).is_allowed(), "{text}");
        assert!(world.check(Ask::new("bob").under(&open).cost(2)).is_allowed(), "{text}");
        assert!(!world.check(Ask::new("bob").under(&limits)).is_allowed(), "{text}");
    }
}

//! Cases: real threads on one store.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tollgate::Ask;

use super::StoreMaker;
use super::world::{World, block_on, set};

const NOW_US: u64 = 100_000_000;

/// A hundred threads ask concurrently for one of five units: five get one.
pub(super) fn a_hundred_threads_share_five_units<M: StoreMaker>(maker: &M) {
    for limit in [
        "5/1m via gcra",
        "5/1m via fixed_window",
        "5/1m via sliding_log",
        "5/1m via sliding_window",
        "5/1m via token_bucket",
        "5/1m via sliding_log, 90/1h via gcra",
    ] {
        let world = World::new(maker, limit, NOW_US);
        let (barrier, admitted) = (Barrier::new(100), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| {
                    barrier.wait();
                    let decision = block_on(world.limiter.check("zoo")).expect("an answer");
                    admitted.fetch_add(decision.granted(), Ordering::Relaxed);
                });
            }
        });
        assert_eq!(admitted.load(Ordering::Relaxed), 5, "{limit}");
        assert_eq!(world.peek("zoo").remaining(), 0, "{limit}");
    }
}

/// Threads ask for the same subjects in opposite orders: nobody waits for ever, nothing is
/// charged to one subject alone.
pub(super) fn checks_in_opposite_orders_never_wait_for_each_other<M: StoreMaker>(maker: &M) {
    const THREADS: u64 = 4;
    const CHECKS: u64 = 200;
    let world = World::new(maker, "1/s via gcra", NOW_US);
    let (left, right) = (set("l: 150/1h via sliding_log"), set("r: 1000/1h via gcra"));
    let admitted = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (world, left, right, admitted) = (&world, &left, &right, &admitted);
            scope.spawn(move || {
                for _ in 0..CHECKS {
                    let ask = if thread % 2 == 0 {
                        Ask::from([("a", left), ("b", right), ("c", right)])
                    } else {
                        Ask::from([("c", right), ("b", right), ("a", left)])
                    };
                    let decision = block_on(world.limiter.check(ask)).expect("an answer");
                    admitted.fetch_add(decision.granted(), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(admitted.load(Ordering::Relaxed), 150);
    for subject in ["b", "c"] {
        assert_eq!(world.peek(Ask::new(subject).under(&right)).remaining(), 850);
    }
}

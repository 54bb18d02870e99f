//! An adversary that comes near the bound, which shows that the bound is tight.

use tollgate::{Limiter, Period};
use tollgate_lease::Leased;

use crate::sim::{Remote, World, check, most_within, set};

/// Has every node hold all that its lease allows, waits nearly as long as that lasts, and then
/// takes everything together: the leases, and the units that the limit admits again. `full_us` is
/// how long a limit takes until it is as fresh. Returns the most admitted in a window of this
/// length, and the bound.
fn attack(limits: &str, nodes: u64, window: Period, full_us: u64) -> (u64, u64) {
    let world = World::new();
    let set = set(limits);
    let (limit, lease) = (&set.limits()[0], set.lease().unwrap());
    let all: Vec<_> = (0..nodes).map(|_| world.node(limits)).collect();
    let mut admitted = Vec::new();
    let mut take = |node: &Limiter<Leased<Remote>>| {
        let is_admitted = check(node, "a").is_allowed();
        admitted.extend(is_admitted.then(|| (world.now_us(), 1)));
        is_admitted
    };
    // Denied checks are demand as well, and charge nothing.
    while take(&all[0]) {}
    for node in &all {
        for _ in 0..lease.units() + 2 {
            take(node);
        }
    }
    world.pass(full_us);
    for node in &all {
        assert!(take(node));
        assert_eq!(node.store().held(), lease.units(), "{limits}");
    }
    world.pass(lease.ttl().as_micros() * 998 / 1_000);
    let step_us = (window.as_micros() / 400).max(1);
    let until = world.now_us() + window.as_micros() - 1;
    loop {
        for node in &all {
            while take(node) {}
        }
        if world.now_us() + step_us > until {
            break;
        }
        world.pass(step_us);
    }
    (most_within(&mut admitted, window.as_micros()), lease.most_in(limit, window, nodes))
}

#[test]
fn the_bound_is_reached_within_a_tenth() {
    for (limits, nodes, window, full_us) in [
        ("10000/s burst 5000 via gcra lease 500 for 1s", 8, "20ms", 500_000),
        ("10000/s via gcra lease 1000 for 1s", 4, "1us", 1_000_000),
        ("10000/s burst 5000 via token_bucket lease 500 for 1s", 8, "1s", 500_000),
        ("8000/s refill interval via token_bucket lease 800 for 1s", 5, "1us", 1_500_000),
        ("5000/s via sliding_log lease 500 for 600ms", 4, "1s", 1_000_000),
        ("5000/s via fixed_window lease 500 for 600ms", 4, "1s", 1_000_000),
        ("5000/s precision 50ms via sliding_window lease 500 for 600ms", 4, "1s", 1_100_000),
    ] {
        let (found, most) = attack(limits, nodes, window.parse().unwrap(), full_us);
        assert!(found <= most, "{limits}: {found} of {most}");
        assert!(found * 10 >= most * 9, "{limits}: {found} of {most}");
    }
}

//! The bound, for random nodes, clocks, delays, costs and orders.

use std::sync::atomic::Ordering;

use proptest::prelude::*;
use tollgate::{Ask, Cost, Limiter, Period};
use tollgate_lease::Leased;

use crate::sim::{Flying, Remote, World, most_within};

/// Limits with leases, and windows to look at.
const LIMITS: [&str; 12] = [
    "20/100ms via gcra lease 5 for 20ms",
    "20/100ms burst 40 via token_bucket lease 10 for 100ms",
    "12/50ms burst 4 via gcra lease 2 for 5ms",
    "20/100ms refill interval via token_bucket lease 10 for 50ms",
    "30/100ms via fixed_window lease 15 for 60ms",
    "30/100ms anchor first-hit via fixed_window lease 9 for 90ms",
    "25/100ms via sliding_log lease 12 for 30ms",
    "25/100ms precision 20ms via sliding_window lease 6 for 100ms",
    "25/100ms precision 25ms rounding interpolate via sliding_window lease 6 for 10ms",
    "40/100ms via gcra lease auto 20%",
    "20/100ms of tokens via gcra lease 5 for 20ms",
    "25/100ms of tokens via sliding_log lease 12 for 30ms",
];

#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    /// So many checks of this cost on this node.
    Checks(usize, u64, usize),
    /// Other delays of a node.
    Delays(usize, u64, u64),
    /// A partition of a node, or its end.
    Away(usize, bool),
    /// A node that is killed: another begins in its place.
    Kill(usize),
}

const NODES: usize = 4;

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (1..30_000_u64).prop_map(Event::Pass),
        2 => (1..300_u64).prop_map(Event::Pass),
        8 => (0..NODES, 1..4_u64, 1..12_usize).prop_map(|(n, c, t)| Event::Checks(n, c, t)),
        2 => (0..NODES, 0..20_000_u64, 0..20_000_u64).prop_map(|(n, a, b)| Event::Delays(n, a, b)),
        1 => (0..NODES, any::<bool>()).prop_map(|(n, away)| Event::Away(n, away)),
        1 => (0..NODES).prop_map(Event::Kill),
    ]
}

struct Node {
    remote: Remote,
    limiter: Limiter<Leased<Remote>>,
}

/// Runs the events; returns what was admitted, and when.
fn run(limits: &str, rates: &[u64; NODES], events: &[Event]) -> Vec<(u64, u64)> {
    let world = World::new();
    let unit = *crate::sim::set(limits).limits()[0].unit();
    let node = |place: usize| {
        let (remote, mut clock) = (world.remote(), world.node_clock());
        (clock.rate, clock.ahead_us) = (rates[place], 1_000 * place as u64);
        let limiter =
            world.node_with(limits, remote.clone(), |builder| builder.deny_cache(100).clock(clock));
        // Nodes outlive the checks that were sent to them.
        &*Box::leak(Box::new(Node { remote, limiter }))
    };
    let mut nodes: Vec<&Node> = (0..NODES).map(node).collect();
    let mut flying: Vec<(usize, Flying<'_>)> = Vec::new();
    let mut admitted = Vec::new();
    let mut land = |flying: &mut Vec<(usize, Flying<'_>)>| {
        flying.retain_mut(|(_, check)| {
            let Some((at_us, answer)) = check.poll(&world) else { return true };
            if let Some(decision) = answer.ok().filter(tollgate::Decision::is_allowed) {
                admitted.push((at_us, decision.granted()));
            }
            false
        });
    };
    for event in events {
        match *event {
            Event::Pass(us) => {
                // In steps, so that events in between are answered then.
                for _ in 0..8 {
                    world.pass(us.div_ceil(8));
                    land(&mut flying);
                }
            }
            Event::Checks(place, cost, times) => {
                let ask = || Ask::new("a").cost(Cost::of_unit(unit, cost));
                for _ in 0..times {
                    let limiter = &nodes[place].limiter;
                    flying.push((place, Flying::new(limiter, ask())));
                }
                land(&mut flying);
            }
            Event::Delays(place, there, back) => {
                let delays = &nodes[place].remote.delays;
                delays[0].store(there, Ordering::Relaxed);
                delays[1].store(back, Ordering::Relaxed);
            }
            Event::Away(place, away) => {
                nodes[place].remote.is_away.store(away, Ordering::Relaxed);
                land(&mut flying);
            }
            Event::Kill(place) => {
                flying.retain(|(node, _)| *node != place);
                nodes[place] = node(place);
            }
        }
    }
    admitted
}

/// The bound, in windows of several lengths.
fn within_the_bound(
    text: &str,
    rates: &[u64; NODES],
    events: &[Event],
) -> Result<(), TestCaseError> {
    let killed = events.iter().filter(|event| matches!(event, Event::Kill(_))).count();
    let mut admitted = run(text, rates, events);
    let set = crate::sim::set(text);
    let (limit, lease) = (&set.limits()[0], set.lease().unwrap());
    // A node in the place of a killed one is one more.
    let nodes = (NODES + killed) as u64;
    for window_us in [1, 500, 5_000, 50_000, 100_000, 150_000, 400_000] {
        let window = Period::from_micros(window_us).unwrap();
        let most = lease.most_in(limit, window, nodes);
        let found = most_within(&mut admitted, window_us);
        prop_assert!(found <= most, "{text}: {found} in {window}, at most {most}");
    }
    Ok(())
}

/// A check that waits for one renewal and then makes the next has spent its units when it did so.
#[test]
fn a_check_that_waited_before_it_renewed() {
    let mut events = vec![Event::Delays(0, 6_061, 1), Event::Checks(0, 1, 2)];
    events.extend([1, 1, 3_065, 1].map(Event::Pass));
    events.push(Event::Checks(0, 3, 9));
    events.extend([23_713, 11_377, 18_081, 29_769, 1, 1_209, 5_529].map(Event::Pass));
    within_the_bound(LIMITS[0], &[999_000; NODES], &events).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn never_more_than_the_bound(
        limits in 0..LIMITS.len(),
        rates in prop::array::uniform4(999_000..1_001_001_u64),
        events in prop::collection::vec(event(), 1..120),
    ) {
        within_the_bound(LIMITS[limits], &rates, &events)?;
    }
}

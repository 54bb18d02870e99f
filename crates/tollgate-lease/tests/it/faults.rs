//! Stopped processes, clocks that are wrong, stores that are away or lose their counts.

use std::sync::atomic::Ordering;

use tollgate::{Ask, Authority};

use crate::sim::{Flying, World, check, now};

const HOT: &str = "1000/s via gcra lease 100 for 200ms";

#[test]
fn a_process_that_was_stopped_spends_nothing_of_before() {
    let world = World::new();
    let node = world.node(HOT);
    for _ in 0..50 {
        let _ = check(&node, "a");
    }
    assert!(node.store().held() > 0);
    // SIGSTOP, or a machine that sleeps: the clock has gone on.
    world.pass(30_000_000);
    let decision = check(&node, "a");
    assert_eq!(decision.authority(), Authority::Store);
}

#[test]
fn an_answer_that_comes_after_the_lease_has_ended_is_not_spent() {
    let world = World::new();
    let remote = world.remote();
    let node = world.node_with(HOT, remote.clone(), |builder| builder);
    for _ in 0..50 {
        let _ = check(&node, "a");
    }
    world.pass(210_000);
    remote.delays[1].store(250_000, Ordering::Relaxed);
    let mut flying: Vec<_> = (0..60).map(|_| Flying::new(&node, "a")).collect();
    flying.retain_mut(|check| check.poll(&world).is_none());
    world.pass(250_000);
    // Only the check that asked gets its own unit; those that waited ask for themselves.
    let asked = world.asked();
    let mut first = Vec::new();
    flying.retain_mut(|check| match check.poll(&world) {
        Some((_, answer)) => {
            first.push(answer.unwrap().authority());
            false
        }
        None => true,
    });
    assert_eq!(first, [Authority::Store]);
    assert_eq!(node.store().held(), 0);
    assert!(world.asked() > asked);
}

#[test]
fn a_store_that_is_away_is_asked_by_each_and_what_is_held_is_spent() {
    let world = World::new();
    let remote = world.remote();
    let node = world.node_with(HOT, remote.clone(), |builder| builder);
    for _ in 0..50 {
        let _ = check(&node, "a");
    }
    let held = node.store().held();
    remote.is_away.store(true, Ordering::Relaxed);
    let mut flying: Vec<_> = (0..held).map(|_| Flying::new(&node, "a")).collect();
    let mut spent = 0;
    flying.retain_mut(|check| {
        let answer = check.poll(&world);
        spent += u64::from(answer.is_some());
        answer.is_none()
    });
    // All but the one that renews are answered from the held units.
    assert_eq!((spent, flying.len()), (held - 1, 1));
    remote.is_away.store(false, Ordering::Relaxed);
    assert!(flying.iter_mut().all(|check| check.poll(&world).is_some()));
}

#[test]
fn a_reset_ends_what_this_node_holds() {
    let world = World::new();
    let node = world.node(HOT);
    for _ in 0..50 {
        let _ = check(&node, "a");
    }
    assert!(node.store().held() > 0);
    assert!(now(node.admin().reset("a")).unwrap());
    assert_eq!(node.store().held(), 0);
    assert_eq!(now(node.check(Ask::new("a").peek())).unwrap().remaining(), 1_000);
}

/// The bound of a reset elsewhere, or of a store that lost its counts: the units of all nodes.
#[test]
fn a_reset_elsewhere_adds_at_most_what_is_held() {
    let world = World::new();
    let nodes: Vec<_> = (0..4).map(|_| world.node(HOT)).collect();
    for _ in 0..60 {
        for node in &nodes {
            assert!(check(node, "a").is_allowed());
        }
    }
    let held: u64 = nodes.iter().map(|node| node.store().held()).sum();
    assert!(held > 0 && held <= 400);
    now(world.node("1000/s via gcra").admin().reset("a")).unwrap();
    let mut admitted = 0;
    loop {
        let more = nodes.iter().filter(|node| check(node, "a").is_allowed()).count();
        admitted += more as u64;
        if more == 0 {
            break;
        }
    }
    assert_eq!(admitted, 1_000 + held);
}

#[test]
fn limits_that_change_end_their_leases_on_this_node() {
    let world = World::new();
    let node = world.node("api: 1000/s via gcra lease 100 for 200ms");
    for _ in 0..50 {
        let _ = check(&node, "a");
    }
    assert!(node.store().held() > 0);
    let lowered = crate::sim::set("api: 10/s via gcra lease 2 for 200ms");
    let ask = tollgate::Ask::new("a").under(&lowered);
    let decision = now(node.check(ask)).unwrap();
    assert_eq!((decision.authority(), decision.limit()), (Authority::Store, 10));
}

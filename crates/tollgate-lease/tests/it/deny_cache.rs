//! Denials that are not asked about again.

use core::time::Duration;

use tollgate::{Ask, Authority, Limiter};
use tollgate_lease::Leased;

use crate::sim::{Remote, World, check, now, set};

fn cached(world: &World, limits: &str) -> Limiter<Leased<Remote>> {
    world.node_with(limits, world.remote(), |builder| builder.deny_cache(10_000))
}

#[test]
fn a_denied_subject_is_not_asked_about_until_it_may_be_admitted() {
    let world = World::new();
    let node = cached(&world, "10/s burst 1 via gcra");
    assert!(check(&node, "a").is_allowed());
    assert_eq!(check(&node, "a").authority(), Authority::Store);
    let asked = world.asked();
    for passed in 0..99 {
        let denied = check(&node, "a");
        assert!(!denied.is_allowed());
        assert_eq!(denied.authority(), Authority::DenyCache);
        assert_eq!(denied.retry_after(), Some(Duration::from_millis(100 - passed)));
        assert_eq!(denied.reset_after(), Duration::from_millis(100 - passed));
        assert_eq!(denied.remaining(), 0);
        world.pass(1_000);
    }
    assert_eq!(world.asked(), asked);
    world.pass(1_000);
    assert!(check(&node, "a").is_allowed(), "exactly when its wait ends");
    assert_eq!(node.store().counters().denied, 99);
}

/// A request that was admitted keeps its answer, although others of its subject are denied without
/// a question.
#[test]
fn a_request_id_is_answered_by_the_store_beside_a_known_denial() {
    let world = World::new();
    let node = cached(&world, "10/s burst 1 via gcra");
    let ask = |id| Ask::new("a").request(id);
    let first = now(node.check(ask("first"))).unwrap().into_owned();
    assert!(first.is_allowed() && !check(&node, "a").is_allowed());
    assert_eq!(check(&node, "a").authority(), Authority::DenyCache);
    let again = now(node.check(ask("first"))).unwrap();
    assert_eq!((again.is_repeated(), again.receipt()), (true, first.receipt()));
    assert_eq!(again.authority(), Authority::Store);
    // A new one is denied by the store, which does not remember that, and it is then admitted.
    let denied = now(node.check(ask("second"))).unwrap();
    assert_eq!((denied.is_allowed(), denied.authority()), (false, Authority::Store));
    assert_eq!(check(&node, "a").authority(), Authority::DenyCache);
    world.pass(100_000);
    let admitted = now(node.check(ask("second"))).unwrap();
    assert!(admitted.is_allowed() && !admitted.is_repeated());
}

/// The store counts denials until a ban runs; then there is nothing more to count.
#[test]
fn a_denial_that_a_ban_counts_is_asked_about_until_the_ban_runs() {
    let world = World::new();
    let node = cached(&world, "1/m via gcra, ban 1h after 3 denials in 1m");
    assert!(check(&node, "a").is_allowed());
    let denied = || {
        let denied = check(&node, "a");
        (denied.authority(), denied.retry_after().map(|wait| wait.as_secs()))
    };
    assert_eq!(denied(), (Authority::Store, Some(60)));
    assert_eq!(denied(), (Authority::Store, Some(60)));
    assert_eq!(denied(), (Authority::Store, Some(3_600)));
    let asked = world.asked();
    for _ in 0..10 {
        assert_eq!(denied(), (Authority::DenyCache, Some(3_600)));
    }
    assert_eq!(world.asked(), asked);
}

/// TRAPS 21.
#[test]
fn a_large_cost_denies_no_small_one() {
    let world = World::new();
    let node = cached(&world, "10/m");
    let ask = |cost| now(node.check(Ask::new("a").cost(cost))).unwrap();
    assert!(ask(3).is_allowed());
    for _ in 0..3 {
        assert!(!ask(8).is_allowed());
        assert!(ask(100).is_never());
    }
    // It remembers the last denial of a subject: others are asked about.
    assert_eq!(ask(8).authority(), Authority::Store);
    assert_eq!(ask(8).authority(), Authority::DenyCache);
    assert!(ask(1).is_allowed());
    let exact = ask(9);
    assert_eq!((exact.authority(), exact.remaining()), (Authority::Store, 6));
}

#[test]
fn a_part_of_a_cost_is_denied_where_one_unit_is() {
    let world = World::new();
    let node = cached(&world, "2/m");
    let partial = |cost| now(node.check(Ask::new("a").cost(cost).partial())).unwrap();
    assert_eq!(partial(5).granted(), 2);
    assert_eq!(partial(5).granted(), 0);
    let asked = world.asked();
    assert_eq!((partial(7).granted(), partial(7).authority()), (0, Authority::DenyCache));
    assert_eq!(world.asked(), asked);
}

#[test]
fn what_gives_units_back_here_is_known_at_once() {
    let world = World::new();
    let node = cached(&world, "2/m");
    let receipt = check(&node, "a").receipt().unwrap();
    let deny = || {
        while check(&node, "a").is_allowed() {}
        assert_eq!(check(&node, "a").authority(), Authority::DenyCache);
    };
    deny();
    now(node.refund(&receipt)).unwrap();
    assert!(check(&node, "a").is_allowed());
    deny();
    now(node.admin().adjust("a", 1)).unwrap();
    assert!(check(&node, "a").is_allowed());
    deny();
    now(node.admin().reset("a")).unwrap();
    assert!(check(&node, "a").is_allowed());
    deny();
    // Raised numbers are other limits.
    let raised = set("3/m");
    assert!(now(node.check(Ask::new("a").under(&raised))).unwrap().is_allowed());
}

#[test]
fn what_happens_elsewhere_is_known_after_the_longest_time() {
    let world = World::new();
    let longest = Duration::from_millis(250);
    let node = world.node_with("2/m", world.remote(), |builder| {
        builder.deny_cache(100).longest_denial(longest)
    });
    let receipt = check(&node, "a").receipt().unwrap();
    while check(&node, "a").is_allowed() {}
    now(cached(&world, "2/m").refund(&receipt)).unwrap();
    world.pass(249_999);
    let denied = check(&node, "a");
    assert_eq!(denied.authority(), Authority::DenyCache);
    assert_eq!(denied.retry_after(), Some(Duration::from_micros(60_000_000 - 249_999)));
    world.pass(1);
    assert!(check(&node, "a").is_allowed());
}

#[test]
fn several_counts_are_denied_together() {
    let world = World::new();
    let node = cached(&world, "5/m");
    let own = set("2/m");
    let ask = |user: &'static str| now(node.check(Ask::new("all").and_under(user, &own))).unwrap();
    assert!(ask("u1").is_allowed() && ask("u1").is_allowed());
    assert!(!ask("u1").is_allowed());
    let denied = ask("u1");
    assert_eq!(denied.authority(), Authority::DenyCache);
    let remaining: Vec<u64> = denied.reports().map(|report| report.remaining()).collect();
    assert_eq!(remaining, [3, 0]);
    assert!(ask("u2").is_allowed(), "another user is another question");
}

#[test]
fn a_flood_of_subjects_takes_bounded_room() {
    let world = World::new();
    let node = world.node_with("1/m via gcra", world.remote(), |b| b.deny_cache(1_000));
    for at in 0..50_000 {
        let subject = format!("user:{at}");
        for _ in 0..2 {
            let _ = check(&node, &subject);
        }
    }
    assert!(node.store().denials() <= 1_024, "{}", node.store().denials());
}

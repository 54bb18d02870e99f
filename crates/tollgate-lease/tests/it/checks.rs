//! The meaning of a check under a lease.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tollgate::{Ask, Authority, HoldKind, Limiter};
use tollgate_lease::Leased;

use crate::sim::{Flying, Remote, World, check, now, set};

const HOT: &str = "1000/s via gcra lease 100 for 200ms";

/// Checks of one subject, without time passing.
fn checks(world: &World, limits: &str, checks: usize) -> (u64, u64) {
    let node = world.node(limits);
    let before = world.asked();
    let admitted = (0..checks).filter(|_| check(&node, "a").is_allowed()).count();
    (admitted as u64, world.asked() - before)
}

#[test]
fn a_hot_subject_is_seldom_asked_about() {
    let world = World::new();
    let (admitted, asked) = checks(&world, HOT, 900);
    assert_eq!(admitted, 900);
    assert!(asked < 900 / 30, "{asked} questions");
    let plain = World::new();
    assert_eq!(checks(&plain, "1000/s via gcra", 900), (900, 900));
}

#[test]
fn what_is_admitted_is_what_the_limit_admits() {
    for limits in [
        "1000/m via gcra lease 100 for 200ms",
        "1000/m via sliding_log lease 7 for 1s",
        "1000/m via fixed_window lease 500 for 200ms",
        "1000/m via sliding_window lease auto",
        "1000/m, 2000/m burst 1500 via token_bucket lease auto 20% for 1ms",
    ] {
        let world = World::new();
        let nodes: Vec<_> = (0..3).map(|_| world.node(limits)).collect();
        let all = (0..3_000).filter(|at| check(&nodes[at % 3], "a").is_allowed()).count();
        // Units that two nodes still have when the third is denied are spent by them later.
        assert_eq!(all, 1_000, "{limits}");
    }
}

/// Others take what comes back, so each question brings a unit or none.
#[test]
fn a_limit_that_others_use_up_is_asked_about_less_and_less() {
    let world = World::new();
    let (node, other) = (world.node(HOT), world.node("1000/s via gcra"));
    let drain = || while check(&other, "a").is_allowed() {};
    assert!((0..200).all(|_| check(&node, "a").is_allowed()));
    drain();
    let before = node.store().counters().asked;
    for _ in 0..1_000 {
        drain();
        let _ = check(&node, "a");
        world.pass(1_000);
    }
    // At first after a 64th of 200 ms, in the end each quarter of it.
    let asked = node.store().counters().asked - before;
    assert!((20..=40).contains(&asked), "{asked}");
    // When there is enough again, it is asked as before.
    world.pass(1_000_000);
    let admitted = (0..300).filter(|_| check(&node, "a").is_allowed()).count();
    assert_eq!(admitted, 300);
}

/// A subject that is never hot is denied no longer than the store's wait, and a 64th of the lease's
/// time: an admission in between ends the doubling.
#[test]
fn a_denial_after_an_admission_holds_as_long_as_the_first() {
    let world = World::new();
    let node = world.node("100/1s burst 4 via gcra lease 2 for 1s");
    let cost = |units| tollgate::Ask::new("a").cost(units);
    let mut denied_for = Vec::new();
    for _ in 0..8 {
        // A cost of three exceeds the lease of two, so the store is asked.
        assert!(crate::sim::now(node.check(cost(3))).unwrap().is_allowed());
        assert!(!crate::sim::now(node.check(cost(3))).unwrap().is_allowed());
        let denied = crate::sim::now(node.check(cost(3))).unwrap();
        assert_eq!(denied.authority(), Authority::DenyCache);
        denied_for.push(denied.retry_after().unwrap());
        world.pass(1_000_000);
    }
    assert!(denied_for.iter().all(|wait| *wait == denied_for[0]), "{denied_for:?}");
}

#[test]
fn a_denial_under_a_long_lease_holds_no_longer_than_is_set() {
    let world = World::new();
    let limits = "1000/1h via fixed_window lease 10 for 1h";
    let longest = core::time::Duration::from_secs(1);
    let node = world.node_with(limits, world.remote(), |it| it.longest_denial(longest));
    let other = world.node("1000/1h via fixed_window");
    while check(&other, "a").is_allowed() {}
    for _ in 0..20 {
        let _ = check(&node, "a");
        let before = node.store().counters().asked;
        world.pass(1_000_001);
        let _ = check(&node, "a");
        assert!(node.store().counters().asked > before, "asked again after a second");
    }
}

#[test]
fn a_subject_that_is_seldom_seen_is_asked_about_as_ever() {
    let world = World::new();
    let node = world.node(HOT);
    for at in 0..50 {
        assert_eq!(check(&node, "a").authority(), Authority::Store, "{at}");
        world.pass(500_000);
    }
    assert_eq!(node.store().held(), 0);
    assert_eq!(node.store().counters().renewals, 0);
}

#[test]
fn decisions_tell_who_made_them_and_what_this_node_knows() {
    let world = World::new();
    let node = world.node(HOT);
    let mut left = 1_000;
    let mut leased = 0;
    for _ in 0..300 {
        let decision = check(&node, "a");
        left -= 1;
        assert!(decision.is_allowed());
        assert_eq!((decision.remaining(), decision.limit()), (left, 1_000));
        leased += u64::from(decision.authority() == Authority::Lease);
    }
    assert_eq!(node.store().counters().admitted, leased);
    assert!(leased > 280);
    let peek = now(node.check(Ask::new("a").peek())).unwrap();
    assert_eq!((peek.authority(), peek.remaining()), (Authority::Lease, left));
}

#[test]
fn units_end_with_their_lease() {
    let world = World::new();
    let node = world.node(HOT);
    for _ in 0..200 {
        assert!(check(&node, "a").is_allowed());
    }
    assert!(node.store().held() > 0);
    // 200 ms less a part in a thousand for the clock's drift.
    world.pass(199_799);
    assert!(node.store().held() > 0);
    world.pass(1);
    assert_eq!(node.store().held(), 0);
}

#[test]
fn a_lease_of_a_fixed_window_ends_with_the_window() {
    let world = World::new();
    let node = world.node("1000/s via fixed_window lease 500 for 1s");
    world.pass(900_000);
    for _ in 0..100 {
        assert!(check(&node, "a").is_allowed());
    }
    assert!(node.store().held() > 0);
    world.pass(99_900);
    assert_eq!(node.store().held(), 0);
}

#[test]
fn a_large_cost_asks_the_store() {
    let world = World::new();
    let node = world.node(HOT);
    for _ in 0..50 {
        let _ = check(&node, "a");
    }
    let (held, before) = (node.store().held(), world.asked());
    assert!(held > 0 && held < 400);
    let large = now(node.check(Ask::new("a").cost(400))).unwrap();
    assert!(large.is_allowed());
    assert_eq!((large.granted(), large.authority()), (400, Authority::Store));
    assert_eq!(world.asked(), before + 1);
    assert_eq!(node.store().held(), held, "what is held is left alone");
    // Costs that fit are spent.
    let some = now(node.check(Ask::new("a").cost(9))).unwrap();
    assert_eq!((some.granted(), some.authority()), (9, Authority::Lease));
}

#[test]
fn larger_costs_are_leased_as_well() {
    let world = World::new();
    let node = world.node("100000/s via gcra lease 10000 for 200ms");
    let asked = |cost: u64, times: usize| {
        let before = world.asked();
        for _ in 0..times {
            assert!(now(node.check(Ask::new("a").cost(cost))).unwrap().is_allowed());
        }
        world.asked() - before
    };
    assert!(asked(70, 900) < 60);
}

#[test]
fn several_counts_are_all_or_nothing() {
    let world = World::new();
    let (all, own) = (set(HOT), set("3/m"));
    let node = Limiter::new(all.clone(), world.node(HOT).store().clone());
    let ask = |subject: &'static str| now(node.check(Ask::new("all").and_under(subject, &own)));
    let mut admitted = 0;
    for user in 0..40 {
        let user: &'static str = Box::leak(format!("user:{user}").into_boxed_str());
        for at in 0..5 {
            let decision = ask(user).unwrap();
            assert_eq!(decision.is_allowed(), at < 3, "{user} {at}");
            admitted += u64::from(decision.is_allowed());
            let reports: Vec<_> = decision.reports().map(|r| r.limit().to_string()).collect();
            assert_eq!(reports.len(), 2);
            let remaining = decision.reports().next().unwrap().remaining();
            assert_eq!(remaining, 1_000 - admitted, "{user} {at}");
        }
    }
    // Denials have put their units back.
    let left = now(node.check(Ask::new("all").peek())).unwrap().remaining();
    assert_eq!(left, 1_000 - admitted);
    assert_eq!(admitted, 120);
}

#[test]
fn a_request_id_goes_by_the_store() {
    let world = World::new();
    let node = world.node(HOT);
    for _ in 0..50 {
        let _ = check(&node, "a");
    }
    // Another node asks again: the store remembers the id, and the lease did not answer for it.
    let ask = || Ask::new("a").request("id");
    let (first, asked) = (now(node.check(ask())).unwrap().into_owned(), world.asked());
    let other = world.node(HOT);
    for node in [&node, &other] {
        let again = now(node.check(ask())).unwrap();
        assert_eq!((again.is_repeated(), again.receipt()), (true, first.receipt()));
    }
    assert!(!first.is_repeated() && first.is_allowed() && world.asked() > asked);
}

#[test]
fn a_refund_goes_into_the_live_lease_and_counts_once() {
    let world = World::new();
    let node = world.node(HOT);
    let mut receipts = Vec::new();
    for _ in 0..90 {
        receipts.extend(check(&node, "a").receipt());
    }
    let leased = receipts.pop().unwrap();
    let (held, asked) = (node.store().held(), world.asked());
    let refund = now(node.refund(&leased)).unwrap();
    assert_eq!((refund.given, refund.left, refund.already), (vec![1], 0.into(), false));
    assert_eq!((node.store().held(), world.asked()), (held + 1, asked));
    assert!(now(node.refund(&leased)).unwrap().already);
    // As text, from another process of the same limits, it is known as well.
    let again = leased.to_string().parse().unwrap();
    assert!(now(node.refund(&again)).unwrap().already);
    assert_eq!(node.store().held(), held + 1);
    // After the lease has ended it is given back at the store, where its unit has long drained.
    world.pass(300_000);
    assert!(now(node.refund(&leased)).unwrap().already);
    let other = now(node.refund(&receipts[80])).unwrap();
    assert_eq!((other.given, world.asked()), (vec![0], asked + 1));
}

#[test]
fn receipts_of_one_lease_are_told_apart_at_the_store() {
    let world = World::new();
    let node = world.node("1000/h via sliding_log lease 100 for 200ms");
    let mut receipts: Vec<_> = (0..500).filter_map(|_| check(&node, "a").receipt()).collect();
    let mut numbers: Vec<u64> = receipts.iter().map(|receipt| receipt.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 500);
    world.pass(1_000_000);
    now(node.store().give_back_ended());
    // Another node, which does not know them, gives each back once.
    let other = world.node("1000/h via sliding_log lease 100 for 200ms");
    let before = now(other.check(Ask::new("a").peek())).unwrap().remaining();
    receipts.truncate(300);
    for receipt in &receipts {
        assert_eq!(now(other.refund(receipt)).unwrap().given, [1]);
    }
    for receipt in &receipts {
        assert!(now(other.refund(receipt)).unwrap().already);
    }
    assert_eq!(now(other.check(Ask::new("a").peek())).unwrap().remaining(), before + 300);
}

/// A node lends nothing that credits paid: not one unit of them is lost.
#[test]
fn what_credits_paid_is_not_lent() {
    let world = World::new();
    let node = world.node("20/10s via fixed_window lease 10 for 1s");
    let give = Ask::new("a").cost(100).holding(HoldKind::Credit, Some(Duration::from_secs(60)));
    assert!(now(node.hold(give)).unwrap().hold.is_some());
    let (mut admitted, mut left) = (0, 120);
    for _ in 0..3 {
        for _ in 0..40 {
            admitted += u64::from(check(&node, "a").is_allowed());
        }
        left = now(world.node("20/10s via fixed_window").check(Ask::new("a").peek()))
            .unwrap()
            .remaining();
        // Of the limit a lease may be unspent.
        assert!(node.store().held() <= 20);
        world.pass(1_000_000);
        now(node.store().give_back_ended());
    }
    assert!(admitted > 100 && admitted + left == 120, "{admitted} admitted, {left} left");
}

#[test]
fn unspent_units_go_back() {
    for (limits, all_come_back) in [
        // After 200 ms nothing of 100 ms worth of units can be given back.
        ("1000/s via gcra lease 100 for 200ms", false),
        ("1000/h via sliding_log lease 100 for 200ms", true),
        ("1000/h via fixed_window lease 100 for 200ms", true),
    ] {
        let world = World::new();
        let node = world.node(limits);
        for _ in 0..150 {
            assert!(check(&node, "a").is_allowed());
        }
        let held = node.store().held();
        assert!(held > 0);
        assert_eq!(now(node.store().give_back_ended()), 0, "nothing has ended");
        world.pass(200_000);
        let returned = now(node.store().give_back_ended());
        assert_eq!(returned, if all_come_back { held } else { 0 }, "{limits}");
        let counters = node.store().counters();
        assert_eq!(counters.returned + counters.wasted, held);
        let left = now(world.node(limits).check(Ask::new("a").peek())).unwrap().remaining();
        let wasted = (150 + held).saturating_sub(200);
        assert_eq!(left, if all_come_back { 850 } else { 1_000 - wasted }, "{limits}");
    }
}

/// Units of one day or month are not spent in the next, by any node, whatever comes back: by a
/// refund, or by a check that is denied elsewhere.
#[test]
fn a_lease_ends_with_the_window_of_a_calendar() {
    // From two o'clock in Berlin to the next midnight. The day of the 27th has 25 hours.
    const HOUR_US: u64 = 3_600_000_000;
    for (limits, edge_us) in [
        ("1000/day in Europe/Berlin lease 90 for 1m", 22 * HOUR_US),
        ("1000/day in Europe/Berlin lease 90 for 1m", (23 * 24 + 23) * HOUR_US),
        ("1000/month in Europe/Berlin lease 90 for 1m", (27 * 24 + 23) * HOUR_US),
    ] {
        let world = World::new();
        let nodes = [(); 3].map(|()| world.node(limits));
        let (plain, few) = (limits.replace(" lease 90 for 1m", ""), set("1/366d via fixed_window"));
        world.pass(edge_us - 30_000_000);
        let before: Vec<_> = (0..240).map(|at| check(&nodes[at % 3], "a")).collect();
        assert!(before.iter().all(tollgate::Decision::is_allowed), "{limits}");
        let leased = before.iter().rev().find(|it| it.authority() == Authority::Lease).unwrap();
        let receipt = leased.receipt().unwrap();
        assert!(nodes.iter().all(|node| node.store().held() > 0), "{limits}");
        // A check that sets a unit aside, and is denied for another subject after the edge.
        let remote = world.remote();
        let far = world.node_with(limits, remote.clone(), |it| it);
        world.pass(29_000_000);
        for _ in 0..60 {
            let _ = check(&far, "a");
        }
        assert!(check(&far, "b").is_allowed());
        remote.delays[1].store(2_000_000, Ordering::Relaxed);
        assert!(far.store().held() > 0);
        let both = Ask::new("a").and_under("b", &few).cost(2);
        let mut flying = Flying::new(&far, both);
        assert!(flying.poll(&world).is_none());

        world.pass(1_000_000);
        let held = |node: &Limiter<Leased<Remote>>| node.store().held();
        assert_eq!((nodes.each_ref().map(held), held(&far)), ([0; 3], 0), "{limits}");
        assert_eq!(now(nodes[0].refund(&receipt)).unwrap().given, [0], "{limits}");
        world.pass(2_000_000);
        let (_, denied) = flying.poll(&world).unwrap();
        assert!(!denied.unwrap().is_allowed());
        assert_eq!((held(&nodes[0]), held(&far)), (0, 0), "{limits}");
        // The new window has all of its units, and no more.
        let left = |world: &World| {
            now(world.node(&plain).check(Ask::new("a").peek())).unwrap().remaining()
        };
        assert_eq!(left(&world), 1_000, "{limits}");
        let admitted = (0..3_000).filter(|at| check(&nodes[at % 3], "a").is_allowed()).count();
        assert_eq!((admitted, left(&world)), (1_000, 0), "{limits}");
    }
}

#[test]
fn a_process_that_ends_gives_back_all() {
    let world = World::new();
    let node = world.node(HOT);
    for _ in 0..150 {
        let _ = check(&node, "a");
    }
    let held = node.store().held();
    assert_eq!(now(node.store().give_back()), held);
    assert_eq!(node.store().held(), 0);
    assert_eq!(
        now(world.node("1000/s via gcra").check(Ask::new("a").peek())).unwrap().remaining(),
        850
    );
}

#[test]
fn others_spend_while_one_renews_and_wait_when_nothing_is_left() {
    let world = World::new();
    let remote = world.remote();
    let node = world.node_with(HOT, remote.clone(), |builder| builder);
    for _ in 0..40 {
        let _ = check(&node, "a");
    }
    for delay in &*remote.delays {
        delay.store(1_000, Ordering::Relaxed);
    }
    let asked = world.asked();
    let mut flying: Vec<_> = (0..80).map(|_| Flying::new(&node, "a")).collect();
    let mut answered = |world: &World| {
        let before = flying.len();
        flying.retain_mut(|check| {
            let answer = check.poll(world);
            assert!(
                answer.as_ref().is_none_or(|(_, answer)| answer.as_ref().unwrap().is_allowed())
            );
            answer.is_none()
        });
        before - flying.len()
    };
    let at_once = answered(&world);
    assert!(at_once > 5 && at_once < 80, "{at_once}");
    world.pass(1_000);
    assert_eq!(answered(&world), 0);
    assert_eq!(world.asked(), asked + 1, "one asks for all");
    world.pass(1_000);
    let mut all = at_once + answered(&world);
    assert!(all > at_once);
    while all < 80 {
        world.pass(1_000);
        all += answered(&world);
    }
    assert!(world.asked() <= asked + 3, "{}", world.asked() - asked);
}

#[test]
fn a_renewal_that_is_dropped_keeps_nobody_waiting() {
    let world = World::new();
    let remote = world.remote();
    let node = world.node_with(HOT, remote.clone(), |builder| builder);
    for _ in 0..40 {
        let _ = check(&node, "a");
    }
    let held = node.store().held();
    remote.delays[0].store(1_000, Ordering::Relaxed);
    let mut flying: Vec<_> = (0..held + 3).map(|_| Flying::new(&node, "a")).collect();
    flying.retain_mut(|check| check.poll(&world).is_none());
    // The first of those that are left renews; it is dropped in the middle.
    flying.remove(0);
    world.pass(1_000);
    while !flying.is_empty() {
        flying.retain_mut(|check| check.poll(&world).is_none());
        world.pass(1_000);
    }
}

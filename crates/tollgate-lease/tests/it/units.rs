//! Leases and denials of other units than requests.

use tollgate::{Ask, Authority, Cost, Decision, LimitSet, Limiter, Unit};
use tollgate_lease::Leased;

use crate::sim::{Remote, World, now, set};

const TOKENS: &str = "100000/h of tokens via sliding_log lease 5000 for 200ms";

fn ask<'l>(node: &'l Limiter<Leased<Remote>>, subject: &'l str, cost: &str) -> Decision<'l> {
    now(node.check(Ask::new(subject).cost(cost.parse::<Cost>().unwrap()))).unwrap()
}

#[test]
fn tokens_are_charged_ahead_and_each_counts_once() {
    let world = World::new();
    let node = world.node(TOKENS);
    let mut admitted = Vec::new();
    for _ in 0..2_000 {
        let decision = ask(&node, "a", "tokens=70");
        admitted.extend(decision.receipt());
    }
    // As much as the limit admits: 1428 times 70, and less than 70 are left.
    assert_eq!(admitted.len(), 1_428);
    let counters = node.store().counters();
    assert!(counters.admitted > 1_300 && counters.asked < 300, "{counters:?}");
    assert_eq!(admitted[1_000].cost, "tokens=70".parse::<Cost>().unwrap());

    // Back into the lease, once, and a part before.
    let world = World::new();
    let node = world.node(TOKENS);
    let receipts: Vec<_> =
        (0..300).filter_map(|_| ask(&node, "a", "tokens=70").receipt()).collect();
    let (held, asked) = (node.store().held(), world.asked());
    let tokens = |amount| Cost::new([("tokens", amount)]).unwrap();
    let part = now(node.refund(receipts[299].part(tokens(20)))).unwrap();
    assert_eq!((part.given, part.left), (vec![20], tokens(50)));
    let rest = now(node.refund(&receipts[299])).unwrap();
    assert_eq!((rest.given, rest.left, rest.already), (vec![50], 0.into(), false));
    assert!(now(node.refund(&receipts[299])).unwrap().already);
    assert_eq!((node.store().held(), world.asked()), (held + 70, asked));

    // At the store, by another node, and all that nobody spent.
    let other = world.node(TOKENS);
    let given = |receipt| now(other.refund(receipt)).unwrap().given;
    assert_eq!((given(&receipts[10]), given(&receipts[10])), (vec![70], vec![0]));
    assert_eq!(now(node.store().give_back()), held + 70);
    let left = now(other.check(Ask::new("a").cost(tokens(1)).peek())).unwrap().remaining();
    assert_eq!(left, 100_000 - 298 * 70);
}

#[test]
fn each_unit_has_a_lease_in_a_set_of_its_own() {
    let world = World::new();
    let tokens = set(TOKENS);
    let requests = set("1000/h via sliding_log lease 50 for 200ms");
    let node = Limiter::new(tokens.clone(), world.node(TOKENS).store().clone());
    let both = |cost: &str| {
        let ask = Ask::new("t").and_under("r", &requests).cost(cost.parse::<Cost>().unwrap());
        now(node.check(ask)).unwrap()
    };
    for _ in 0..500 {
        assert!(both("requests=1,tokens=150").is_allowed());
    }
    let counters = node.store().counters();
    assert!(counters.admitted > 400 && counters.asked < 120, "{counters:?}");
    // Of a unit that is not named nothing is spent.
    for _ in 0..100 {
        assert!(both("requests=1").is_allowed());
    }
    // Both are taken, or none: what was set aside is put back.
    assert!(!both("requests=1,tokens=30000").is_allowed());
    let left = |subject: &str, limits: &LimitSet, cost: &str| {
        let cost = cost.parse::<Cost>().unwrap();
        now(node.check(Ask::new(subject).under(limits).cost(cost).peek())).unwrap().remaining()
    };
    now(node.store().give_back());
    assert_eq!(left("t", &tokens, "tokens=1"), 25_000);
    assert_eq!(left("r", &requests, "1"), 400);
}

#[test]
fn a_lease_is_of_one_unit() {
    assert_eq!(*set(TOKENS).lease().unwrap().unit(), "tokens".parse::<Unit>().unwrap());
    let mixed = "60/m via gcra, 100000/m of tokens via gcra lease auto 10%";
    let error = mixed.parse::<LimitSet>().unwrap_err().to_string();
    assert!(error.contains("a lease is of one unit"), "{error}");
    assert!(error.contains("a set of limits of its own"), "{error}");
}

#[test]
fn a_denial_is_about_the_unit_that_was_denied() {
    let world = World::new();
    let limits = "9/h, 2000/h of tokens via sliding_log";
    let node = world.node_with(limits, world.remote(), |builder| builder.deny_cache(100));
    assert!(ask(&node, "a", "requests=1,tokens=1900").is_allowed());
    let of = |cost: &str| {
        let denied = ask(&node, "a", cost);
        (denied.is_allowed(), denied.authority() == Authority::DenyCache)
    };
    assert_eq!(of("requests=3,tokens=101"), (false, false));
    for known in ["requests=3,tokens=101", "requests=2,tokens=101", "tokens=101"] {
        assert_eq!(of(known), (false, true), "{known}");
    }
    let known = ask(&node, "a", "tokens=101");
    assert_eq!((known.unit().name(), known.remaining()), ("tokens", 100));
    let asked = ["tokens=102", "requests=4,tokens=101", "tokens=40"];
    assert_eq!(asked.map(of), [(false, false), (false, false), (true, false)]);
    // Requests alone are asked about, and when they are used up, no number of tokens is.
    assert_eq!(of("tokens=61"), (false, false));
    assert_eq!(of("requests=8"), (true, false));
    assert_eq!(of("requests=1,tokens=50"), (false, false));
    assert_eq!([of("requests=1,tokens=20"), of("1")], [(false, true); 2]);
}

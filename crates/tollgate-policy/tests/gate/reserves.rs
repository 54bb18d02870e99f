//! Costs that are known afterwards: the held units, and the charge of a commit.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate::{Cost, HoldKind, Unit};
use tollgate_policy::{Commit, Commits};

use super::*;

const TOKENS: &str = "cost = { reserve = 500, commit = \"header.x-used\", max = 2000, hold = \"2m\" }\n\
                      limits = [{ subject = \"ip\", limit = \"10000/h via sliding_log\" }]";

const ASKED: &str = "cost = { reserve = \"header.x-max\", otherwise = \"deny\", max = 2000, hold = \"2m\", \
                     at_end = \"nothing\" }\n\
                     limits = [{ subject = \"ip\", limit = \"10000/h via sliding_log, 2 at once hold 30s\" }]";

const IP: (&str, &str) = ("ip", "10.0.0.1");

fn left(gate: &Gate<MemoryStore>) -> u64 {
    // A check charges the estimate, which is given back.
    let answer = ask(gate, &[IP]);
    assert!(block_on(gate.refund(&answer)).unwrap().is_some());
    answer.decision().unwrap().remaining() + 500
}

#[test]
fn the_estimate_is_held_and_what_was_used_is_charged() {
    let (gate, clock) = gate(&one(TOKENS));
    let held = block_on(gate.admit(gate.prepare(&[IP])));
    let header = Commit::parse("header.x-used").unwrap();
    assert_eq!(held.commits, Commits::from_iter([(Unit::REQUESTS, header)]));
    let hold = held.hold.unwrap();
    assert_eq!((hold.kind(), hold.cost.plain()), (HoldKind::Charging, Some(500)));
    let at = held.answer.decision().unwrap().at();
    assert_eq!(hold.end.as_micros() - at.as_micros(), 120_000_000);
    assert_eq!(left(&gate), 9_500);
    assert_eq!(block_on(gate.holds().commit(&hold, 300)).unwrap().actual, 300);
    assert_eq!(left(&gate), 9_700);
    // A caller that names no cost gets the estimate, by any hold.
    let reserved =
        block_on(gate.hold(gate.prepare(&[IP]), HoldKind::Reserve, Some(Duration::from_secs(5))));
    assert_eq!(reserved.unwrap().hold.unwrap().cost, 500);
    clock.advance(Duration::from_secs(5));
    assert_eq!(left(&gate), 9_700);
}

#[test]
fn a_commit_charges_at_most_the_max() {
    let (gate, _) = gate(&one(TOKENS));
    let hold = || block_on(gate.admit(gate.prepare(&[IP]))).hold.unwrap();
    let (at_most, beyond) = (hold(), hold());
    assert_eq!(block_on(gate.holds().commit(&at_most, 2_000)).unwrap().actual, 2_000);
    assert_eq!(gate.counters().holds.units_cut(), BTreeMap::new());
    assert_eq!(block_on(gate.holds().commit(&beyond, 5_000)).unwrap().actual, 2_000);
    assert!(block_on(gate.holds().commit(&beyond, 5_000)).unwrap().already);
    assert_eq!(gate.counters().holds.units_cut(), BTreeMap::from([(Unit::REQUESTS, 3_000)]));
    assert_eq!(left(&gate), 6_000);
    // The policy of now counts; without one, nothing is cut.
    let [last, unbound] = [hold(), hold()];
    gate.replace(parse(&one(&TOKENS.replace("2000", "600"))));
    assert_eq!(block_on(gate.holds().commit(&last, 5_000)).unwrap().actual, 600);
    gate.replace(parse(&one(TOKENS).replace("\"p\"", "\"q\"")));
    assert_eq!(block_on(gate.holds().commit(&unbound, 5_000)).unwrap().actual, 5_000);
}

#[test]
fn a_request_may_say_its_own_estimate() {
    let (gate, _) = gate(&one(ASKED));
    let admit = |fields: &[(&str, &str)]| {
        let fields: HashMap<_, _> =
            fields.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        block_on(gate.admit(gate.prepare(&fields)))
    };
    let held = admit(&[IP, ("header.x-max", "1234")]);
    let hold = held.hold.unwrap();
    assert_eq!(
        (hold.kind(), hold.cost.plain(), held.commits),
        (HoldKind::Reserve, Some(1_234), Commits::default())
    );
    // No longer than the slot that it has too.
    let at = held.answer.decision().unwrap().at();
    assert_eq!(hold.end.as_micros() - at.as_micros(), 30_000_000);
    for (text, outcome) in
        [("2001", Outcome::Never), ("0", Outcome::Missing), ("many", Outcome::Missing)]
    {
        let held = admit(&[IP, ("header.x-max", text)]);
        assert_eq!((held.answer.outcome(), held.hold), (outcome, None), "{text}");
    }
    assert_eq!(admit(&[IP]).answer.outcome(), Outcome::Missing);
    // Two slots.
    let second = admit(&[IP, ("header.x-max", "1")]);
    assert!(second.hold.is_some());
    let third = admit(&[IP, ("header.x-max", "1")]);
    assert_eq!((third.answer.outcome(), third.answer.is_until_hold()), (Outcome::Denied, true));
}

#[test]
fn a_caller_may_say_another_estimate_within_the_max() {
    let (gate, _) = gate(&one(TOKENS));
    for (units, outcome) in
        [(1, Outcome::Allowed), (2_000, Outcome::Allowed), (2_001, Outcome::Never)]
    {
        let mut prepared = gate.prepare(&[IP]);
        prepared.cost(units).unwrap();
        let held = block_on(gate.admit(prepared));
        assert_eq!(held.answer.outcome(), outcome);
        assert_eq!(
            held.hold.and_then(|hold| hold.cost.plain()),
            Some(units).filter(|it| *it <= 2_000)
        );
    }
}

#[test]
fn a_front_that_only_checks_charges_the_estimate() {
    let (gate, _) = gate(&one(TOKENS));
    let answers = asked(&gate, 21, &[IP]);
    assert_eq!(admitted(&answers), 20);
}

#[test]
fn what_cannot_be_held_is_denied_whatever_the_failure_rule_says() {
    let (gate, _) = gate(&one("limits = [{ subject = \"ip\", limit = \"2 at once hold 30s\" }]"));
    let mut prepared = gate.prepare(&[IP]);
    prepared.cost(0).unwrap();
    let held = block_on(gate.admit(prepared));
    assert_eq!((held.answer.outcome(), held.hold), (Outcome::FailedClosed, None));
    // A rate is checked, as elsewhere.
    let (gate, _) = super::gate(&one("limits = [{ subject = \"ip\", limit = \"1/h\" }]"));
    for outcome in [Outcome::Allowed, Outcome::Denied] {
        let held = block_on(gate.admit(gate.prepare(&[IP])));
        assert_eq!((held.answer.outcome(), held.hold), (outcome, None));
    }
}

const QUANTILE: &str = "cost = { reserve = \"p90\", otherwise = 500, max = 2000, hold = \"2m\" }\n\
                        limits = [{ subject = \"ip\", limit = \"100000/h via sliding_log\" }]";

fn estimate(gate: &Gate<MemoryStore>, used: Option<u64>) -> u64 {
    let hold = block_on(gate.admit(gate.prepare(&[IP]))).hold.unwrap();
    assert!(
        block_on(gate.holds().commit(&hold, used.map_or(hold.cost.clone(), Cost::from))).is_ok()
    );
    hold.cost.plain().expect("requests alone")
}

#[test]
fn the_estimate_is_a_running_quantile_of_what_was_committed() {
    let (gate, _) = gate(&one(QUANTILE));
    // The first value until 20 were committed.
    let first: Vec<u64> = (0..20).map(|turn| estimate(&gate, Some(100 + turn))).collect();
    assert_eq!(first, [500; 20]);
    let known = estimate(&gate, Some(110));
    assert!((112..=119).contains(&known), "{known}");
    // A reload keeps its knowledge; another quantile starts again.
    gate.replace(parse(&one(&QUANTILE.replace("2m", "3m"))));
    assert!((112..=119).contains(&estimate(&gate, Some(110))));
    gate.replace(parse(&one(&QUANTILE.replace("p90", "p50"))));
    assert_eq!(estimate(&gate, Some(110)), 500);
}

#[test]
fn an_estimate_takes_a_part_of_a_small_limit() {
    for (share, units) in [("", 30), (", at_most = \"1/2\"", 150), (", at_most = \"0.01 %\"", 1)] {
        let lines =
            QUANTILE.replace("100000/h", "300/h").replace(", hold", &format!("{share}, hold"));
        let (gate, _) = gate(&one(&lines));
        assert_eq!(estimate(&gate, Some(0)), units, "{share}");
    }
}

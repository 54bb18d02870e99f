//! The subjects of counts.

use std::time::Duration;

use tollgate_policy::{Authority, Field};

use super::*;

#[test]
fn address_and_user_are_limited_both_and_strangers_by_address_alone() {
    let (gate, clock) = example("api.toml");
    assert_eq!(admitted(&asked(&gate, 12, &[("ip", "10.0.0.1")])), 10);
    // The same user from another address has a separate count, in the same check.
    assert_eq!(admitted(&asked(&gate, 6, &[("ip", "10.0.0.2"), ("user", "ann")])), 6);
    assert_eq!(admitted(&asked(&gate, 6, &[("ip", "10.0.0.3"), ("user", "ann")])), 4);
    // A request that the user's limit denied did not count for the address.
    let answer = ask(&gate, &[("ip", "10.0.0.3")]);
    assert_eq!(answer.decision().unwrap().remaining(), 5);
    clock.advance(Duration::from_secs(1));
    let heavy = ask(&gate, &[("ip", "10.0.0.4"), ("field.weight", "7")]);
    assert_eq!(heavy.decision().unwrap().granted(), 7);
    let heavier = ask(&gate, &[("ip", "10.0.0.4"), ("field.weight", "51")]);
    assert_eq!((heavier.outcome(), heavier.authority()), (Outcome::Never, Authority::Policy));
    let never = ask(&gate, &[("ip", "10.0.0.4"), ("field.weight", "11")]);
    assert_eq!((never.outcome(), never.authority()), (Outcome::Never, Authority::Store));
    assert_eq!(never.retry_after(), None);
    for odd in ["x", "-1", "1.5", "0", "00", "", "+1"] {
        let light = ask(&gate, &[("ip", "10.0.0.5"), ("field.weight", odd)]);
        assert_eq!(light.decision().unwrap().granted(), 1, "{odd}");
    }
    let huge = "9".repeat(1_000);
    let answer = ask(&gate, &[("ip", "10.0.0.6"), ("field.weight", huge.as_str())]);
    assert_eq!(answer.outcome(), Outcome::Never);
}

#[test]
fn a_resource_and_its_consumers_are_one_check() {
    let (gate, clock) = example("resource-and-consumers.toml");
    let call = |consumer| ask(&gate, &[("field.resource", "12"), ("field.consumer", consumer)]);
    assert!((0..3).all(|_| call("1").is_allowed()));
    let denied = call("1");
    assert_eq!(denied.outcome(), Outcome::Denied);
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(10)));
    assert_eq!(denied.limit().unwrap().quota().units, 3);
    // The denial took nothing of the resource.
    assert!((0..2).all(|_| call("2").is_allowed()));
    assert_eq!(call("3").limit().unwrap().quota().units, 5);
    clock.advance(Duration::from_secs(10));
    assert!(call("1").is_allowed());
    let missing = ask(&gate, &[("field.resource", "12")]);
    assert_eq!((missing.outcome(), missing.authority()), (Outcome::Missing, Authority::Policy));
    assert_eq!(missing.missing(), Some(&Field::parse("field.consumer").unwrap()));
}

#[test]
fn a_thousand_an_hour_for_each_address() {
    let (gate, _) = example("1000-per-hour.toml");
    assert_eq!(admitted(&asked(&gate, 1_200, &[("ip", "10.0.0.1")])), 1_000);
    assert!(ask(&gate, &[("ip", "10.0.0.2")]).is_allowed());
    // A front that tells no address gets no count of nobody.
    let nobody = ask(&gate, &[]);
    assert_eq!((nobody.outcome(), nobody.missing()), (Outcome::Missing, Some(&Field::Ip)));
}

#[test]
fn a_pair_of_caller_and_resource_is_one_subject() {
    let (gate, _) = example("caller-and-resource.toml");
    let call = |user, resource| ask(&gate, &[("user", user), ("field.resource", resource)]);
    assert_eq!((0..101).filter(|_| call("ann", "a").is_allowed()).count(), 100);
    assert!(call("ann", "b").is_allowed() && call("bob", "a").is_allowed());
    let answer = ask(&gate, &[("ip", "10.0.0.1"), ("field.resource", "a")]);
    let (_, report) = answer.reports().next().unwrap();
    assert_eq!(report.subject(), "field.resource:a,ip:10.0.0.1");
    assert_eq!(ask(&gate, &[("user", "ann")]).outcome(), Outcome::Missing);
    // Values cannot leave their dimension.
    let answer = call("x,ip:10.0.0.1", "a");
    let (_, report) = answer.reports().next().unwrap();
    assert_eq!(report.subject(), "field.resource:a,user:x%2Cip:10.0.0.1");
}

#[test]
fn what_stands_in_counts_as_what_it_is() {
    let (gate, _) =
        gate(&one(r#"limits = [{ subject = ["user", "ip"], limit = "1/h", absent = "ip" }]"#));
    let subject = |fields: &[(&str, &str)]| {
        let answer = ask(&gate, fields);
        let (_, report) = answer.reports().next().unwrap();
        report.subject().to_owned()
    };
    assert_eq!(subject(&[("ip", "1.1.1.1"), ("user", "ann")]), "ip:1.1.1.1,user:ann");
    assert_eq!(subject(&[("ip", "1.1.1.1")]), "ip:1.1.1.1");
    // An empty value is an absent one.
    assert_eq!(subject(&[("ip", "1.1.1.2"), ("user", "")]), "ip:1.1.1.2");
    let huge = "x".repeat(100_000);
    let answer = ask(&gate, &[("ip", "1.1.1.1"), ("user", huge.as_str())]);
    assert_eq!(answer.outcome(), Outcome::Missing);
}

#[test]
fn overrides_take_the_place_of_a_limit() {
    let (gate, _) = gate(&one(r#"
        [[policies.limits]]
        subject = "user"
        limit = "2/h"
        absent = "skip"
        [[policies.limits.overrides]]
        when = { user = "mallory" }
        limit = "banned"
        [[policies.limits.overrides]]
        when = { field.plan = "pro" }
        limit = "5/h"
        [[policies.limits.overrides]]
        when = { user = "root*" }
        limit = "unlimited"
        "#));
    assert_eq!(admitted(&asked(&gate, 9, &[("user", "ann")])), 2);
    // The identity of the limits is the same, and so is the count.
    assert_eq!(admitted(&asked(&gate, 9, &[("user", "ann"), ("field.plan", "pro")])), 3);
    let root = ask(&gate, &[("user", "root-1")]);
    assert_eq!((root.outcome(), root.authority()), (Outcome::Unlimited, Authority::Policy));
    let mallory = ask(&gate, &[("user", "mallory"), ("field.plan", "pro")]);
    assert_eq!((mallory.outcome(), mallory.is_allowed()), (Outcome::Banned, false));
    assert_eq!(mallory.policy().unwrap().name, "p");
    assert_eq!(ask(&gate, &[]).outcome(), Outcome::Unlimited);
}

#[test]
fn the_first_that_applies_counts_or_all_of_them() {
    let api = [("ip", "1.1.1.1"), ("path", "/api/x")];
    let (first, _) = gate(&SEVERAL.replace("MATCH", "first"));
    assert_eq!(admitted(&asked(&first, 5, &api)), 2);
    // `wide` was not charged.
    assert_eq!(admitted(&asked(&first, 5, &[("ip", "1.1.1.1"), ("path", "/")])), 3);
    assert_eq!(ask(&first, &[]).outcome(), Outcome::NoPolicy);
    let (all, _) = gate(&SEVERAL.replace("MATCH", "all"));
    assert_eq!(admitted(&asked(&all, 5, &api)), 2);
    let denied = ask(&all, &api);
    assert_eq!(denied.policy().unwrap().name, "narrow");
    assert_eq!(denied.reports().count(), 2);
    let names: Vec<&str> = denied.reports().map(|(policy, _)| policy.name.as_str()).collect();
    assert_eq!(names, ["narrow", "wide"]);
    // A denial took nothing of `wide`, which has one left.
    assert_eq!(admitted(&asked(&all, 5, &[("ip", "1.1.1.1")])), 1);
    assert_eq!(ask(&all, &[("ip", "1.1.1.1")]).policy().unwrap().name, "wide");
    let counts: HashMap<String, _> = all.counters().policies().into_iter().collect();
    assert_eq!(counts["narrow"].get(Outcome::Allowed, Authority::Store), 2);
    assert_eq!(counts["narrow"].get(Outcome::Denied, Authority::Store), 4);
    assert_eq!(counts["wide"].get(Outcome::Allowed, Authority::Store), 3);
    assert_eq!(counts["wide"].get(Outcome::Withheld, Authority::Store), 4);
    assert_eq!(counts["wide"].total(Outcome::Denied), 5);
}

#[test]
fn a_shadow_is_recorded_and_denies_nobody() {
    let text = SEVERAL.replace("MATCH", "all");
    let (gate, _) = gate(&text);
    let api = [("ip", "1.1.1.1"), ("path", "/api/x")];
    let answers: Vec<Answer> = (0..3).map(|_| ask(&gate, &api)).collect();
    assert_eq!(answers.iter().filter(|answer| answer.is_allowed()).count(), 2);
    let shadows = |answer: &Answer| -> Vec<(String, Outcome)> {
        let each = answer.shadows();
        each.map(|shadow| (shadow.policy().unwrap().name.clone(), shadow.outcome())).collect()
    };
    assert_eq!(shadows(&answers[0]), [("trial".to_owned(), Outcome::Allowed)]);
    assert_eq!(shadows(&answers[1]), [("trial".to_owned(), Outcome::Denied)]);
    // A request that is denied anyway never reaches the policies in shadow.
    assert!(shadows(&answers[2]).is_empty());
    let counts: HashMap<String, _> = gate.counters().policies().into_iter().collect();
    assert_eq!(counts["trial"].get(Outcome::Denied, Authority::Shadow), 1);
    assert_eq!(counts["trial"].get(Outcome::Allowed, Authority::Shadow), 1);
    // In front of others it takes no request from them.
    let first = text.replace("\"all\"", "\"first\"").replace("ip = \"*\"", "path = \"/api/*\"");
    let (narrow, trial) = (first.find("name = \"narrow\"").unwrap(), first.find("trial").unwrap());
    assert!(narrow < trial);
    let swapped = first.replace("name = \"narrow\"", "name = \"other\"\nshadow = true");
    let (gate, _) = gate_of(parse(&swapped));
    let answer = ask(&gate, &api);
    assert_eq!(answer.policy().unwrap().name, "wide");
    assert_eq!(shadows(&answer), [("other".to_owned(), Outcome::Allowed)]);
}

#[test]
fn a_charge_is_given_back_once_and_charged_on() {
    let (gate, _) = gate(&one(
        "limits = [{ subject = \"ip\", limit = \"3/h\" }, { subject = \"host\", limit = \"9/h\" }]",
    ));
    let call = [("ip", "1.1.1.1"), ("host", "a.com")];
    let answer = ask(&gate, &call);
    assert_eq!(block_on(gate.refund(&answer)).unwrap().unwrap().given, [1, 1]);
    assert!(block_on(gate.refund(&answer)).unwrap().unwrap().already);
    let answer = ask(&gate, &call);
    // More than remains: the rest is taken.
    let more = block_on(gate.charge_extra(&answer, 7)).unwrap().unwrap();
    assert_eq!(more.granted(), 2);
    assert!(block_on(gate.charge_extra(&answer, 0)).unwrap().is_none());
    let denied = ask(&gate, &call);
    assert_eq!(denied.outcome(), Outcome::Denied);
    assert!(block_on(gate.refund(&denied)).unwrap().is_none());
    assert!(block_on(gate.charge_extra(&denied, 1)).unwrap().is_none());
}

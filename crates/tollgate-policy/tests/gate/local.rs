//! Local shares: the admissions of a gate alone while its store is away.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tollgate::{Ask, Cost, LimitKind, LimitSet, Patience, RequestId};
use tollgate_policy::{Authority, OnFailure, Terms};

use super::failures::Log;
use super::*;

const IP: [(&str, &str); 1] = [("ip", "1.1.1.1")];

/// A gate over a store that can fail, under one policy with these limits and this share.
fn local(share: &str, limits: &str) -> (Gate<Failing>, Failing) {
    let text = one(&format!("limits = [{{ subject = \"ip\", limit = \"{limits}\" }}]"));
    let rule = format!("on_failure = {{ local = \"{share}\" }}");
    let policies = parse(&text.replace("on_failure = \"allow\"", &rule));
    let store = Failing::new();
    (Gate::new(policies, store.clone()).unwrap(), store)
}

fn fails(store: &Failing, fails: bool) {
    store.fails.store(fails, Ordering::Relaxed);
}

#[test]
fn a_share_of_each_limit_is_admitted_while_the_store_is_away() {
    let (gate, store) = local("25 %", "a: 100/h via gcra");
    fails(&store, true);
    let first = ask(&gate, &IP);
    assert_eq!((first.outcome(), first.authority()), (Outcome::Allowed, Authority::LocalShare));
    let decision = first.decision().unwrap();
    assert_eq!((decision.limit(), decision.remaining()), (25, 24));
    let limit = first.limit().unwrap();
    assert_eq!((limit.to_string().as_str(), limit.identity()), ("a: 25/h burst 25 via gcra", "a"));
    assert_eq!(first.policy().unwrap().name, "p");
    assert_eq!(first.reports().count(), 1);
    assert!(first.error().unwrap().to_string().contains("unplugged"));
    assert_eq!(admitted(&asked(&gate, 99, &IP)), 24);
    let denied = ask(&gate, &IP);
    assert_eq!((denied.outcome(), denied.authority()), (Outcome::Denied, Authority::LocalShare));
    // A unit of the share comes back in 144 s, not in 36.
    let wait = denied.retry_after().unwrap();
    assert!((Duration::from_secs(100)..=Duration::from_secs(144)).contains(&wait), "{wait:?}");
    let counts: HashMap<String, _> = gate.counters().policies().into_iter().collect();
    assert_eq!(counts["p"].get(Outcome::Allowed, Authority::LocalShare), 25);
    assert_eq!(counts["p"].get(Outcome::Denied, Authority::LocalShare), 76);
    // The store decides immediately where it can, and got no message.
    fails(&store, false);
    let back = ask(&gate, &IP);
    assert_eq!((back.authority(), back.decision().unwrap().remaining()), (Authority::Store, 99));
}

#[test]
fn a_share_below_one_unit_is_one_unit_in_a_longer_period() {
    for limit in ["2/h via gcra", "2/h via sliding_log", "2/h via uniform"] {
        let (gate, store) = local("1/4", limit);
        fails(&store, true);
        assert_eq!(admitted(&asked(&gate, 9, &IP)), 1, "{limit}");
        let wait = ask(&gate, &IP).retry_after().unwrap();
        let expected = Duration::from_secs(7_190)..=Duration::from_secs(7_200);
        assert!(expected.contains(&wait), "{limit}: {wait:?}");
    }
}

#[test]
fn local_counts_begin_from_what_the_store_last_said() {
    let (gate, store) = local("25 %", "100/h via gcra");
    assert_eq!(admitted(&asked(&gate, 60, &IP)), 60);
    fails(&store, true);
    let first = ask(&gate, &IP);
    assert_eq!(first.decision().unwrap().remaining(), 9, "a quarter of 40, less one");
    assert_eq!(admitted(&asked(&gate, 99, &IP)), 9);
    // An unknown subject has a whole share.
    assert_eq!(admitted(&asked(&gate, 99, &[("ip", "2.2.2.2")])), 25);

    // A subject that has used everything has nothing.
    let (gate, store) = local("25 %", "100/h via sliding_log");
    assert_eq!(admitted(&asked(&gate, 200, &IP)), 100);
    fails(&store, true);
    assert_eq!(admitted(&asked(&gate, 9, &IP)), 0);

    // Of several limits each begins from its own knowledge.
    let (gate, store) = local("50 %", "20/s via gcra, 100/h via gcra");
    for _ in 0..9 {
        let _ = ask(&gate, &IP);
    }
    fails(&store, true);
    let answer = ask(&gate, &IP);
    let remaining: Vec<_> = answer.reports().map(|(_, report)| report.remaining()).collect();
    assert_eq!(remaining[1], 44, "{remaining:?}");
}

#[test]
fn what_is_known_holds_until_the_count_is_fresh() {
    let (gate, store) = local("50 %", "4/100ms via sliding_log");
    assert_eq!(admitted(&asked(&gate, 4, &IP)), 4);
    fails(&store, true);
    let fresh = Instant::now() + Duration::from_millis(110);
    thread::sleep(fresh.saturating_duration_since(Instant::now())); // tidy: sleep-ok a window
    let answer = ask(&gate, &IP);
    assert_eq!((answer.outcome(), answer.decision().unwrap().remaining()), (Outcome::Allowed, 1));
}

#[test]
fn many_threads_admit_no_more_than_the_share_of_what_is_known() {
    for _ in 0..20 {
        let (gate, store) = local("25 %", "100/h via gcra");
        assert_eq!(admitted(&asked(&gate, 60, &IP)), 60);
        fails(&store, true);
        let count = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    count.fetch_add(admitted(&asked(&gate, 30, &IP)), Ordering::Relaxed);
                });
            }
        });
        assert_eq!(count.load(Ordering::Relaxed), 10);
    }
}

#[test]
fn an_outage_that_comes_and_goes_is_no_new_burst() {
    let (gate, store) = local("25 %", "100/h via gcra");
    let mut by_share = 0;
    for round in 0..5 {
        fails(&store, true);
        by_share += admitted(&asked(&gate, 20, &IP));
        fails(&store, false);
        let back = ask(&gate, &IP);
        assert_eq!(back.authority(), Authority::Store, "{round}");
    }
    assert_eq!(by_share, 25);
}

const THREE: &str = r#"
version = 1
match = "all"
nodes = 4
[[policies]]
name = "guard"
on_failure = "deny"
when = { path = "/sx*" }
limits = [{ subject = "ip", limit = "7/h" }]
[[policies]]
name = "open"
on_failure = "allow"
limits = [{ subject = "ip", limit = "1/h" }]
[[policies]]
name = "shared"
on_failure = "local"
when = { path = "/s*" }
limits = [{ subject = "ip", limit = "8/h" }, { subject = "pool=all", limit = "40/h" }]
[[policies]]
name = "half"
on_failure = { local = "50 %" }
when = { path = "/sh*" }
limits = [{ subject = "ip", limit = "10/h" }]
[[policies]]
name = "closed"
on_failure = "deny"
when = { path = "/sd*" }
limits = [{ subject = "ip", limit = "9/h" }]
"#;

#[test]
fn deny_stands_over_local_over_allow() {
    let store = Failing::new();
    let policies = parse(THREE);
    assert_eq!(policies.nodes(), Some(4));
    let gate = Gate::new(policies, store.clone()).unwrap();
    fails(&store, true);
    let at = |path: &str| ask(&gate, &[("ip", "1.1.1.1"), ("path", path)]);
    let open = at("/");
    assert_eq!((open.outcome(), open.authority()), (Outcome::FailedOpen, Authority::FailureRule));
    let closed = at("/sd");
    assert_eq!(closed.outcome(), Outcome::FailedClosed);
    assert_eq!(closed.policy().unwrap().name, "closed");
    // Whichever of them comes first.
    let guarded = at("/sx");
    assert_eq!(guarded.outcome(), Outcome::FailedClosed);
    assert_eq!(guarded.policy().unwrap().name, "guard");
    // The limit of 1/h is of a policy that admits, and is not counted.
    let both = at("/sh");
    assert_eq!((both.outcome(), both.authority()), (Outcome::Allowed, Authority::LocalShare));
    let parts = both.reports().map(|(policy, report)| {
        (policy.name.clone(), report.limit().quota().units, report.remaining())
    });
    let parts: Vec<_> = parts.collect();
    let expected = [("shared", 2, 1), ("shared", 10, 9), ("half", 5, 4)];
    assert_eq!(parts, expected.map(|(name, units, left)| (name.to_owned(), units, left)));
    assert_eq!(at("/sh").outcome(), Outcome::Allowed);
    let denied = at("/sh");
    assert_eq!((denied.outcome(), denied.is_allowed()), (Outcome::Denied, false));
    assert_eq!(denied.policy().unwrap().name, "shared");
    let counts: HashMap<String, _> = gate.counters().policies().into_iter().collect();
    let by_share = |name: &str, outcome| counts[name].get(outcome, Authority::LocalShare);
    assert_eq!(by_share("shared", Outcome::Allowed), 2);
    assert_eq!(by_share("shared", Outcome::Denied), 1);
    assert_eq!(by_share("half", Outcome::Withheld), 1);
    assert_eq!(by_share("open", Outcome::FailedOpen), 2);
    assert_eq!(by_share("open", Outcome::Withheld), 1);
}

#[test]
fn a_cost_above_the_share_is_denied_while_the_store_is_away_and_not_for_ever() {
    let (gate, store) = local("25 %", "8/h via gcra");
    fails(&store, true);
    let asked = |cost| {
        let mut prepared = gate.prepare(&IP);
        prepared.cost(cost).unwrap();
        block_on(gate.ask(prepared))
    };
    let above = asked(3);
    assert_eq!(
        (above.outcome(), above.authority()),
        (Outcome::FailedClosed, Authority::LocalShare)
    );
    assert!(above.decision().is_none() && above.retry_after().is_none());
    assert_eq!(above.policy().unwrap().name, "p");
    let never = asked(9);
    assert_eq!((never.outcome(), never.authority()), (Outcome::Never, Authority::LocalShare));
    assert_eq!(asked(2).outcome(), Outcome::Allowed);
    // What no store would take is not a question for a share either.
    assert_eq!(asked(0).outcome(), Outcome::FailedClosed);
}

#[test]
fn what_a_share_charged_is_given_back_there() {
    let (gate, store) = local("25 %", "8/h via gcra");
    fails(&store, true);
    let answer = ask(&gate, &IP);
    let receipt = answer.decision().unwrap().receipt().unwrap();
    assert_eq!(admitted(&asked(&gate, 9, &IP)), 1);
    assert_eq!(block_on(gate.refund(&answer)).unwrap().unwrap().given, [1]);
    assert_eq!(admitted(&asked(&gate, 9, &IP)), 1);
    assert!(block_on(gate.inline().refund(&receipt)).unwrap().already);
    // More for an admitted request, as much as remains of the share.
    let other = ask(&gate, &[("ip", "2.2.2.2")]);
    let more = block_on(gate.charge_extra(&other, 5)).unwrap().unwrap();
    assert_eq!((more.granted(), more.remaining()), (1, 0));
    // Also when the store is back, and without it.
    fails(&store, false);
    assert_eq!(block_on(gate.inline().refund(receipt.part(1))).unwrap().given, [0]);
    let back = ask(&gate, &IP);
    assert_eq!(back.decision().unwrap().remaining(), 7);
    assert_eq!(block_on(gate.refund(&back)).unwrap().unwrap().given, [1]);
    // The receipt of another process's share does not belong to this one.
    let (stranger, _) = local("25 %", "8/h via gcra");
    let error = block_on(stranger.inline().refund(&receipt)).unwrap_err().to_string();
    assert!(error.contains("another store"), "{error}");
}

#[test]
fn a_peek_at_a_share_charges_nothing() {
    let (gate, store) = local("25 %", "8/h via gcra");
    fails(&store, true);
    for _ in 0..9 {
        let answer = block_on(gate.ask(gate.prepare(&IP).peek()));
        assert_eq!(
            (answer.outcome(), answer.authority()),
            (Outcome::Allowed, Authority::LocalShare)
        );
        assert_eq!(answer.decision().unwrap().remaining(), 2);
    }
    assert_eq!(admitted(&asked(&gate, 9, &IP)), 2);
}

#[test]
fn inline_limits_have_shares_too() {
    let (gate, store) = local("25 %", "8/h via gcra");
    let terms = Terms::new("local 50 %".parse().unwrap());
    let (limits, wide): (LimitSet, LimitSet) =
        ("8/h via gcra".parse().unwrap(), "90/h via gcra".parse().unwrap());
    let question = || Ask::from([("a", &limits), ("pool", &wide)]);
    let check = || block_on(gate.inline().check(question(), terms)).unwrap();
    for _ in 0..4 {
        assert_eq!(check().authority(), Authority::Store);
    }
    fails(&store, true);
    let peeked = block_on(gate.inline().check(question().peek(), terms)).unwrap();
    assert_eq!(peeked.decision().unwrap().remaining(), 2);
    let answer = check();
    assert_eq!((answer.outcome(), answer.authority()), (Outcome::Allowed, Authority::LocalShare));
    let left: Vec<_> =
        answer.decision().unwrap().reports().map(|report| report.remaining()).collect();
    assert_eq!(left, [1, 42]);
    assert_eq!((check().outcome(), check().outcome()), (Outcome::Allowed, Outcome::Denied));
    let receipt = answer.decision().unwrap().receipt().unwrap();
    assert_eq!(block_on(gate.inline().refund(&receipt)).unwrap().given, [1, 1]);
    let counters = gate.counters().inline_limits;
    assert_eq!(counters.get(Outcome::Denied, Authority::LocalShare), 1);

    // The missing share is reported immediately, and not in an outage.
    fails(&store, false);
    let rare: LimitSet = "1/366d via gcra".parse().unwrap();
    let refused = block_on(gate.inline().check(Ask::new("a").under(&rare), terms)).unwrap_err();
    assert!(refused.to_string().contains("more than 366 days"), "{refused}");
    let above = Ask::new("b").under(&limits).cost(5);
    fails(&store, true);
    assert_eq!(
        block_on(gate.inline().check(above, terms)).unwrap().outcome(),
        Outcome::FailedClosed
    );
}

/// Each unit begins from what is known of it.
#[test]
fn a_share_is_of_each_unit() {
    let (gate, store) = local("25 %", "8/h via gcra");
    let terms = Terms::new("local 50 %".parse().unwrap());
    let limits: LimitSet =
        "8/h via sliding_log, 1000/h of tokens via sliding_log, 600/m of tokens via sliding_log"
            .parse()
            .unwrap();
    let check = |cost: &str| {
        let ask = Ask::new("a").under(&limits).cost(cost.parse::<Cost>().unwrap());
        block_on(gate.inline().check(ask, terms)).unwrap()
    };
    assert_eq!(check("requests=2,tokens=400").authority(), Authority::Store);
    fails(&store, true);
    // Half of 6 requests, of 600 tokens and of 200: as much is taken from each limit of a unit.
    let answer = check("requests=1,tokens=60");
    assert_eq!((answer.outcome(), answer.authority()), (Outcome::Allowed, Authority::LocalShare));
    let left: Vec<_> =
        answer.decision().unwrap().reports().map(|report| report.remaining()).collect();
    assert_eq!(left, [2, 240, 40]);
    assert_eq!(check("tokens=41").outcome(), Outcome::Denied);
    assert_eq!(check("tokens=301").outcome(), Outcome::FailedClosed);
    assert_eq!(check("requests=2").outcome(), Outcome::Allowed);
    assert_eq!(check("requests=1,tokens=40").outcome(), Outcome::Denied);
    let receipt = answer.decision().unwrap().receipt().unwrap();
    let part = receipt.part(Cost::new([("tokens", 20)]).unwrap());
    assert_eq!(block_on(gate.inline().refund(part)).unwrap().given, [0, 20, 20]);
    assert_eq!(check("tokens=60").outcome(), Outcome::Allowed);
}

/// A policy that admits counts nothing while the store is away, also of its unit.
#[test]
fn a_share_is_asked_for_the_units_that_it_counts() {
    let store = Failing::new();
    let policies = parse(
        r#"
version = 1
match = "all"
[[policies]]
name = "open"
on_failure = "allow"
limits = [{ subject = "ip", limit = "1/h" }]
[[policies]]
name = "shared"
on_failure = { local = "50 %" }
limits = [{ subject = "ip", limit = "1000/h of tokens via sliding_log" }]
cost = { tokens = { from = "field.tokens", max = 1000, otherwise = 1 } }
"#,
    );
    let gate = Gate::new(policies, store.clone()).unwrap();
    fails(&store, true);
    let at = |tokens: &str| {
        let answer = ask(&gate, &[("ip", "1.1.1.1"), ("field.tokens", tokens)]);
        (answer.outcome(), answer.authority())
    };
    let by_share = |outcome| (outcome, Authority::LocalShare);
    assert_eq!(at("400"), by_share(Outcome::Allowed));
    assert_eq!(at("101"), by_share(Outcome::Denied));
    assert_eq!(at("100"), by_share(Outcome::Allowed));
}

/// The share remembers ids as a store does, but does not know those that the store answered.
#[test]
fn a_request_id_is_charged_to_a_share_once() {
    let (gate, store) = local("25 %", "100/h via gcra");
    let fields: HashMap<String, String> = [("ip".to_owned(), "1.1.1.1".to_owned())].into();
    let under = |id: &str| {
        let mut prepared = gate.prepare(&fields);
        prepared.request(RequestId::new(id).of_each_question());
        block_on(gate.ask(prepared))
    };
    let of = |answer: &Answer<'_>| {
        let decision = answer.decision().unwrap();
        (answer.authority(), decision.is_repeated(), decision.remaining())
    };
    assert_eq!(of(&under("a")), (Authority::Store, false, 99));
    fails(&store, true);
    // A quarter of 99.
    assert_eq!(of(&under("a")), (Authority::LocalShare, false, 23), "the store alone knew of it");
    for (id, repeated, remaining) in [("a", true, 23), ("b", false, 22), ("b", true, 22)] {
        assert_eq!(of(&under(id)), (Authority::LocalShare, repeated, remaining), "{id}");
    }
    let counts: HashMap<String, _> = gate.counters().policies().into_iter().collect();
    assert_eq!(counts["p"].get(Outcome::Allowed, Authority::LocalShare), 2);
    assert_eq!(gate.counters().repeats, 2);
    // One id for all is charged after a while.
    let admitted = (0..99).filter(|_| under("b").outcome().admits()).count();
    assert_eq!((admitted, gate.counters().repeats), (15 + 22, 2 + 15));
    assert_eq!(gate.counters().overused_ids, 99 - 15);
    // So are inline limits.
    let limits: LimitSet = "8/h via gcra".parse().unwrap();
    let terms = Terms::new("local 50 %".parse().unwrap());
    let check = || {
        let ask = Ask::new("team").under(&limits).request("an id");
        block_on(gate.inline().check(ask, terms)).unwrap()
    };
    for repeated in [false, true, true] {
        assert_eq!(of(&check()), (Authority::LocalShare, repeated, 3));
    }
}

#[test]
fn a_store_that_answers_at_once_has_shares_too() {
    let (_, mut store) = local("25 %", "8/h via gcra");
    store.answers_at_once = true;
    let text = one("limits = [{ subject = \"ip\", limit = \"8/h via gcra\" }]");
    let rule = "on_failure = { local = \"25 %\" }";
    let gate =
        Gate::new(parse(&text.replace("on_failure = \"allow\"", rule)), store.clone()).unwrap();
    let outcome = |expected| {
        let prepared = gate.prepare(&IP);
        let answer = gate.ask_now(&prepared).unwrap();
        assert_eq!((answer.outcome(), answer.authority()), expected);
    };
    for _ in 0..4 {
        outcome((Outcome::Allowed, Authority::Store));
    }
    fails(&store, true);
    outcome((Outcome::Allowed, Authority::LocalShare));
    outcome((Outcome::Denied, Authority::LocalShare));
    // Notes are not made on the fast path: such a policy does not take it.
    let taken = gate.check_at_once(Some(&IP.as_slice()), |_, _| panic!("not asked"), |_| ());
    assert!(taken.is_none());
}

#[test]
fn a_shadow_is_not_asked_for_while_shares_decide() {
    let text = THREE.replace("name = \"half\"", "name = \"half\"\nshadow = true");
    let store = Failing::new();
    let gate = Gate::new(parse(&text), store.clone()).unwrap();
    fails(&store, true);
    let answer = ask(&gate, &[("ip", "1.1.1.1"), ("path", "/sh")]);
    assert_eq!((answer.authority(), answer.shadows().count()), (Authority::LocalShare, 0));
}

#[test]
fn the_loss_and_the_return_are_two_lines_with_what_shares_decided() {
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || {
        let (gate, store) = local("25 %", "8/h via gcra");
        let _ = ask(&gate, &IP);
        fails(&store, true);
        asked(&gate, 7, &[("ip", "2.2.2.2")]);
        assert_eq!(log.lines().len(), 1);
        fails(&store, false);
        let begin = Instant::now();
        while log.lines().len() == 1 {
            let _ = ask(&gate, &IP);
            assert!(begin.elapsed() < Duration::from_secs(60), "it is never back");
        }
        let told = log.lines();
        let said = ": failure rules let 0 pass and denied 0, local shares let 2 pass and denied 5";
        assert!(told[1].ends_with(said), "{told:?}");
    });
}

#[test]
fn one_damaged_state_is_answered_by_the_share_and_is_no_loss() {
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || {
        let (_, store) = local("25 %", "8/h via gcra");
        let store = Failing { is_damage: true, ..store };
        let gate = Gate::new(parse(THREE), store.clone()).unwrap();
        fails(&store, true);
        let answer = ask(&gate, &[("ip", "1.1.1.1"), ("path", "/s")]);
        assert_eq!(answer.authority(), Authority::LocalShare);
        assert_eq!(log.lines(), [""; 0]);
    });
}

#[test]
fn a_reload_keeps_what_a_share_has_counted() {
    let (gate, store) = local("25 %", "a: 8/h via gcra");
    fails(&store, true);
    assert_eq!(admitted(&asked(&gate, 9, &IP)), 2);
    let policies = gate.current().policies().policies().to_vec();
    let mut policy = policies[0].clone();
    policy.on_failure = OnFailure::Local("1/2".parse().unwrap());
    gate.replace(Policies::new(tollgate_policy::Combine::First, vec![policy]).unwrap());
    assert_eq!(admitted(&asked(&gate, 9, &IP)), 2, "of four, two were used");
}

#[test]
fn who_waits_is_not_banned_by_a_share() {
    let limits = "8/h via gcra, ban 10m after 2 denials in 1m";
    let (gate, store) = local("25 %", limits);
    fails(&store, true);
    let terms = Terms::new("local 25 %".parse().unwrap());
    let inline: LimitSet = limits.parse().unwrap();
    for waits in [true, false] {
        let patience = if waits { Patience::Waiting } else { Patience::None };
        let by_policy = || {
            let prepared = gate.prepare(&IP).with_patience(patience);
            block_on(gate.ask(prepared))
        };
        let by_limits = || {
            let ask = Ask::new("team").under(&inline).with_patience(patience);
            block_on(gate.inline().check(ask, terms)).unwrap()
        };
        for ask in [&by_policy as &dyn Fn() -> Answer<'static>, &by_limits] {
            let answers: Vec<_> = (0..6).map(|_| ask()).collect();
            let last = answers.last().unwrap();
            assert_eq!(last.authority(), Authority::LocalShare);
            let mut reports = last.decision().unwrap().reports();
            let banned = reports.any(|it| it.limit().kind() == LimitKind::Ban && !it.admits());
            assert_eq!(banned, !waits);
        }
    }
}

//! Limits that are set for some requests while a gate is asked.
#![allow(clippy::unwrap_used)] // tests may

use std::time::{Duration, Instant};

use futures_executor::block_on;
use tollgate::{Ask, Cost, HoldKind, ManualClock, MemoryStore, Subject};
use tollgate_policy::{
    Answer, Authority, Condition, Effect, Field, Format, Gate, Outcome, Policies, Ruling,
};

const HOUR: Duration = Duration::from_secs(3_600);

fn policies(limits: &str) -> Policies {
    let text = format!(
        "version = 1\n[[policies]]\nname = \"api\"\non_failure = \"deny\"\n\
         limits = [{{ subject = \"field.tenant\", absent = \"skip\", limit = \"{limits}\" }}]\n"
    );
    Policies::parse(&text, Format::Toml).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A gate whose clock is set by hand.
fn gate(limits: &str) -> (Gate<MemoryStore>, ManualClock) {
    let clock = ManualClock::at_micros(1_700_000_000_000_000);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (Gate::new(policies(limits), store).unwrap(), clock)
}

fn when(all: &[(&str, &str)]) -> Vec<Condition> {
    all.iter().map(|(field, value)| Condition::parse(field, [*value]).unwrap()).collect()
}

fn set_for(
    gate: &Gate<MemoryStore>,
    conditions: &[(&str, &str)],
    limits: &[(&str, &str)],
    lasts: Duration,
) {
    let current = gate.current();
    let read = |(name, text): &(&str, &str)| current.policies().ruled_limit("api", name, text);
    let limits = limits.iter().map(read).collect::<Result<Vec<_>, _>>().unwrap();
    let ruling = Ruling::new(Effect::Set, when(conditions)).unwrap().in_policy("api");
    block_on(gate.admin().rule(&ruling.with_limits(limits).unwrap(), lasts)).unwrap();
}

fn set(gate: &Gate<MemoryStore>, limits: &[(&str, &str)]) {
    set_for(gate, &[("field.tenant", "12")], limits, HOUR);
}

fn ask_of(gate: &Gate<MemoryStore>, tenant: &str, cost: u64) -> Answer<'static> {
    let mut prepared = gate.prepare(&[("field.tenant", tenant), ("user", "ann")]);
    prepared.cost(cost).unwrap();
    block_on(gate.ask(prepared))
}

/// The answer to tenant 12.
fn ask(gate: &Gate<MemoryStore>, cost: u64) -> Answer<'static> {
    ask_of(gate, "12", cost)
}

fn remaining(answer: &Answer) -> (Outcome, u64) {
    (answer.outcome(), answer.decision().unwrap().remaining())
}

/// The use under the policy's numbers counts under those that are set, and the other way round.
#[test]
fn a_count_goes_on_under_other_numbers() {
    for strategy in
        ["gcra", "token_bucket", "fixed_window", "sliding_log", "sliding_window precision 6s"]
    {
        let (via, options) = strategy.split_once(' ').unwrap_or((strategy, ""));
        let (gate, _clock) = gate(&format!("minute: 100/m {options} via {via}"));
        assert_eq!(remaining(&ask(&gate, 100)), (Outcome::Allowed, 0), "{strategy}");
        assert_eq!(ask(&gate, 1).outcome(), Outcome::Denied, "{strategy}");
        set(&gate, &[("minute", &format!("500/m {options}"))]);
        assert_eq!(remaining(&ask(&gate, 1)), (Outcome::Allowed, 399), "{strategy}");
        assert_eq!(remaining(&ask(&gate, 301)), (Outcome::Allowed, 98), "{strategy}");
        // Tenants beside it have their own.
        assert_eq!(remaining(&ask_of(&gate, "13", 1)), (Outcome::Allowed, 99), "{strategy}");
        set(&gate, &[("minute", &format!("402/m {options}"))]);
        assert_eq!(ask(&gate, 1).outcome(), Outcome::Denied, "{strategy}");
        set(&gate, &[("minute", &format!("10/m {options}"))]);
        let denied = ask(&gate, 1);
        assert_eq!(remaining(&denied), (Outcome::Denied, 0), "{strategy}");
        assert!(denied.limit().unwrap().to_string().starts_with("minute: 10/m"), "{denied}");
    }
}

#[test]
fn a_limit_that_is_unlimited_counts_nothing_and_those_beside_it_go_on() {
    for (first, second) in [
        ("3/m via sliding_log", "10/h via sliding_log"),
        ("3/m via gcra", "10/h via fixed_window"),
        ("3/m via fixed_window", "10/h via token_bucket"),
        ("3/m precision 6s via sliding_window", "10/h refill interval via token_bucket"),
        ("3/m via uniform", "10/h via gcra"),
    ] {
        let (gate, clock) = gate(&format!("short: {first}, long: {second}"));
        let two = if first.contains("uniform") { 1 } else { 2 };
        assert!(ask(&gate, two).is_allowed(), "{first}");
        set(&gate, &[("short", "unlimited")]);
        // Ask by ask, and beyond the limit at once: the other limit binds.
        assert_eq!(remaining(&ask(&gate, 1)), (Outcome::Allowed, 9 - two), "{first}");
        assert_eq!(remaining(&ask(&gate, 5)), (Outcome::Allowed, 4 - two), "{first}");
        let denied = ask(&gate, 5);
        assert_eq!(denied.outcome(), Outcome::Denied, "{first}");
        assert_eq!(denied.limit().and_then(|limit| limit.name()), Some("long"), "{first}");
        // Back under the policy, only what was counted before is used.
        assert!(
            block_on(gate.admin().lift(&when(&[("field.tenant", "12")]), Some("api"))).unwrap()
        );
        match two {
            1 => assert_eq!(ask(&gate, 1).outcome(), Outcome::Denied, "{first}"),
            _ => assert_eq!(remaining(&ask(&gate, 1)), (Outcome::Allowed, 0), "{first}"),
        }
        clock.advance(Duration::from_secs(67));
        assert!(ask(&gate, 1).is_allowed(), "{first}");
    }
}

#[test]
fn slots_and_bans_are_set_and_are_unlimited() {
    let (gate, clock) = gate("3/m via gcra, ban 1h after 2 denials in 1h");
    let banned = || {
        let denied = ask(&gate, 1);
        (denied.outcome(), denied.limit().unwrap().identity() == "ban")
    };
    assert!(ask(&gate, 3).is_allowed());
    assert_eq!([banned(), banned(), banned()].map(|it| it.1), [false, true, true]);
    clock.advance(Duration::from_secs(61));
    assert_eq!(banned(), (Outcome::Denied, true));
    set(&gate, &[("ban", "unlimited")]);
    // The next check cuts it to the shortest.
    assert_eq!(ask(&gate, 1).retry_after(), Some(Duration::from_micros(1)));
    clock.advance(Duration::from_millis(1));
    assert!(ask(&gate, 1).is_allowed());
    let (gate, _clock) = self::gate("slots: 1 at once");
    let hold = || {
        let prepared = gate.prepare(&[("field.tenant", "12")]);
        block_on(gate.hold(prepared, HoldKind::Acquire, None)).unwrap().answer.outcome()
    };
    assert_eq!([hold(), hold()], [Outcome::Allowed, Outcome::Denied]);
    set(&gate, &[("slots", "2 at once")]);
    assert_eq!([hold(), hold()], [Outcome::Allowed, Outcome::Denied]);
}

#[test]
fn where_no_limit_counts_the_store_is_not_asked() {
    let (gate, _clock) = gate("short: 1/m, long: 2/h");
    set(&gate, &[("short", "unlimited"), ("long", "unlimited")]);
    for _ in 0..3 {
        let answer = ask(&gate, 1);
        assert_eq!(
            (answer.outcome(), answer.authority()),
            (Outcome::Unlimited, Authority::Ruling),
            "{answer}"
        );
        assert_eq!(answer.policy().map(|policy| policy.name.as_str()), Some("api"));
    }
}

#[test]
fn it_ends_by_itself() {
    let (gate, _clock) = gate("2/m");
    let (began, lasts) = (Instant::now(), Duration::from_millis(200));
    set_for(&gate, &[("field.tenant", "12")], &[("sliding_log/1m", "5/m")], lasts);
    let first = remaining(&ask(&gate, 3));
    // On a machine that is as slow as that, it may be over already.
    assert!(first == (Outcome::Allowed, 2) || began.elapsed() >= lasts);
    while ask(&gate, 1).limit().unwrap().capacity() == 5 {
        assert!(began.elapsed() < Duration::from_secs(20));
    }
    assert!(began.elapsed() >= lasts, "it ended early");
    assert!(gate.admin().rulings().is_empty());
}

#[test]
fn of_several_the_one_with_the_most_conditions_counts_for_each_limit() {
    let (gate, _clock) = gate("a: 2/m via gcra, b: 2/h via gcra");
    set_for(&gate, &[("field.tenant", "*")], &[("a", "10/m"), ("b", "20/h")], HOUR);
    set_for(&gate, &[("field.tenant", "12"), ("user", "ann")], &[("a", "30/m")], HOUR);
    let limits = |answer: &Answer| -> Vec<u64> {
        answer.reports().map(|(_, report)| report.limit().capacity()).collect()
    };
    assert_eq!(limits(&ask(&gate, 1)), [30, 20]);
    assert_eq!(limits(&ask_of(&gate, "13", 1)), [10, 20]);
    // Equal sets are one set: its counts, leases and scripts are found again.
    let serial = |answer: &Answer| answer.decision().unwrap().limit_sets().next().unwrap().serial();
    let (one, other) = (ask_of(&gate, "13", 1), ask_of(&gate, "14", 1));
    assert_eq!(serial(&one), serial(&other));
    assert_ne!(serial(&one), serial(&ask(&gate, 1)));
    assert!(one.parts().iter().all(|part| part.is_ruled));
    // A ban and an exemption go before.
    for (effect, outcome) in [(Effect::Ban, Outcome::Banned), (Effect::Exempt, Outcome::Unlimited)]
    {
        let ruling = Ruling::new(effect, when(&[("user", "ann")])).unwrap().in_policy("api");
        block_on(gate.admin().rule(&ruling, HOUR)).unwrap();
        assert_eq!(ask(&gate, 1).outcome(), outcome);
    }
}

#[test]
fn what_would_be_another_count_is_refused() {
    let (gate, _clock) = gate(
        "minute: 100/m via gcra, 9/s, tokens: 50/m of tokens via gcra, quota: 30/month in \
         Europe/Berlin",
    );
    let policies = gate.current().policies().clone();
    for (policy, name, text, says) in [
        ("appi", "minute", "1/m", "there is no policy `appi`: did you mean `api`?"),
        ("api", "minit", "1/m", "has no limit `minit`: did you mean `minute`? Its limits are"),
        ("api", "week", "1/m", "limits are `minute`, `quota`, `sliding_log/1s`, `tokens`"),
        (
            "api",
            "minute",
            "500/h",
            "counts as `gcra/1m`, and `500/h burst 500 via gcra` would count as `gcra/1h`",
        ),
        ("api", "minute", "500/m via fixed_window", "would count as `fixed_window/1m`"),
        ("api", "minute", "500/m of tokens", "would count as `gcra/1m/tokens`"),
        ("api", "tokens", "500/m", "counts as `gcra/1m/tokens`, and"),
        ("api", "quota", "900/day in Europe/Berlin", "would count as `fixed_window/day`"),
        ("api", "minute", "5 at once", "counts a rate, and this is not one"),
        ("api", "minute", "0/m", "would never admit anything"),
        ("api", "minute", "500", "this is not a quota"),
        ("api", "minute", "", "`` is not a limit: write one, e.g. `500/m`, or `unlimited`"),
        ("api", "minute", "1/m, 2/h", "this is not one limit alone"),
        ("api", "minute", "1/m lease 2 for 1s", "lease"),
        ("api", "minute", "other: 1/m", "leave out the name"),
        ("api", "minute", "unlimitd", "did you mean `unlimited`?"),
    ] {
        let error = policies.ruled_limit(policy, name, text).unwrap_err();
        let error = format!("{}: {}", error.what(), error.remedy());
        assert!(error.contains(says), "{name}={text}: {error}");
    }
    for (name, text, full) in [
        ("minute", "500/m", "500/m burst 500 via gcra"),
        ("minute", "minute: 500/m burst 9 via gcra", "500/m burst 9 via gcra"),
        ("sliding_log/1s", "5/s", "5/s via sliding_log"),
        ("tokens", "7/m of tokens", "7/m of tokens burst 7 via gcra"),
        ("tokens/tokens", "unlimited", "unlimited"),
        ("quota", "900/month in Asia/Tokyo", "900/month in Asia/Tokyo via fixed_window"),
    ] {
        assert_eq!(policies.ruled_limit("api", name, text).unwrap().text(), full);
    }
    // A program that names limits by itself is held to the same.
    let set = |name: &str, limit: &str| {
        let limit = tollgate_policy::RuledLimit::new(name, Some(limit.parse().unwrap()));
        let ruling = Ruling::new(Effect::Set, when(&[("user", "ann")])).unwrap();
        let ruling = ruling.in_policy("api").with_limits(vec![limit]).unwrap();
        block_on(gate.admin().rule(&ruling, HOUR)).map_err(|error| error.to_string())
    };
    assert!(set("minute", "1/h via gcra").unwrap_err().contains("from nothing"));
    assert!(set("hour", "1/h via gcra").unwrap_err().contains("has no limit `hour`"));
    assert_eq!(set("minute", "1/m via gcra"), Ok(()));
    let ban = Ruling::new(Effect::Ban, when(&[("user", "ann")])).unwrap();
    let limit = policies.ruled_limit("api", "minute", "1/m").unwrap();
    assert!(ban.clone().with_limits(vec![limit.clone(), limit.clone()]).is_err());
    assert!(ban.clone().with_limits(Vec::new()).is_err());
    let ban = ban.with_limits(vec![limit]).unwrap();
    assert!(block_on(gate.admin().rule(&ban, HOUR)).is_err());
    let none = Ruling::new(Effect::Set, when(&[("user", "ann")])).unwrap().in_policy("api");
    assert!(block_on(gate.admin().rule(&none, HOUR)).is_err());
}

#[test]
fn under_other_policies_it_has_no_effect_and_says_so() {
    let (gate, _clock) = gate("minute: 2/m via gcra, 50/h");
    set(&gate, &[("minute", "5/m")]);
    let ruling = || gate.admin().rulings().remove(0).0;
    let misfit = || gate.admin().standing().remove(0).no_effect;
    assert_eq!(ruling().to_string(), "set field.tenant = 12 in api: minute = 5/m burst 5 via gcra");
    let capacity = || ask(&gate, 1).reports().next().unwrap().1.limit().capacity();
    assert_eq!((capacity(), misfit()), (5, None));
    for (other, says) in [
        ("minute: 3/m via fixed_window, 50/h", "would count as `gcra/1m`"),
        ("minute: 3/h via gcra, 50/h", "would count as `gcra/1m`"),
        ("3/m via gcra, 50/h", "has no limit `minute`"),
    ] {
        gate.replace(policies(other));
        assert_eq!(capacity(), 3, "{other}");
        let why = misfit().unwrap();
        assert!(why.contains(says), "{other}: {why}");
    }
    // With the limit it is back, with other numbers beside it.
    gate.replace(policies("minute: 3/m via gcra, 60/h"));
    assert_eq!((capacity(), misfit()), (5, None));
    // It is in the way of none that fits, though it has more conditions.
    let (both, ann) = (
        [("minute", "6/m"), ("sliding_log/1h", "70/h")],
        [("field.tenant", "12"), ("user", "ann")],
    );
    set_for(&gate, &ann, &both, HOUR);
    assert_eq!(capacity(), 6);
    gate.replace(policies("minute: 3/m via gcra, 60/2h"));
    assert_eq!(capacity(), 5);
    let misfits = || gate.admin().standing().into_iter().map(|it| it.no_effect.is_some());
    assert_eq!(misfits().collect::<Vec<_>>(), [true, false]);
    assert!(block_on(gate.admin().lift(&when(&ann), Some("api"))).unwrap());
    let none = "version = 1\n[[policies]]\nname = \"other\"\nlimits = \"unlimited\"";
    gate.replace(Policies::parse(none, Format::Toml).unwrap());
    assert!(misfit().unwrap().contains("no policy `api`"));
}

#[test]
fn overrides_tiers_of_them_and_shadow_policies_have_it_too() {
    let text = r#"
        version = 1
        match = "all"
        [[policies]]
        name = "api"
        on_failure = "deny"
        [[policies.limits]]
        subject = "field.tenant"
        absent = "skip"
        limit = "minute: 10/m via gcra"
        [[policies.limits.overrides]]
        when = { user = "ann" }
        limit = "minute: 20/m via gcra"
        [[policies.limits.overrides]]
        when = { user = "bob" }
        limit = "unlimited"
        [[policies]]
        name = "trial"
        on_failure = "allow"
        shadow = true
        limits = [{ subject = "field.tenant", absent = "skip", limit = "minute: 10/m via gcra" }]
    "#;
    let policies = Policies::parse(text, Format::Toml).unwrap();
    let gate = Gate::new(policies.clone(), MemoryStore::new()).unwrap();
    let asked = |user: &str| {
        let answer = block_on(gate.check(&[("field.tenant", "12"), ("user", user)]));
        let shadow = answer.shadows().next().map(|it| it.decision().unwrap().limit());
        (answer.limit().map(tollgate::Limit::capacity), shadow)
    };
    assert_eq!(asked("ann"), (Some(20), Some(10)));
    for policy in ["api", "trial"] {
        let limit = policies.ruled_limit(policy, "minute", "50/m").unwrap();
        let ruling = Ruling::new(Effect::Set, when(&[("field.tenant", "12")])).unwrap();
        let ruling = ruling.in_policy(policy).with_limits(vec![limit]).unwrap();
        block_on(gate.admin().rule(&ruling, HOUR)).unwrap();
    }
    assert_eq!([asked("ann"), asked("eve")], [(Some(50), Some(50)); 2]);
    assert_eq!(asked("bob"), (None, Some(50)), "its override is more");
    // An administrator's corrections count under the same numbers.
    let capacities = |tenant: &str| -> Vec<u64> {
        let subject = Subject::from_dimensions([("field.tenant", tenant.as_bytes())]).unwrap();
        let counts = gate.current().counts_of("api", &subject).unwrap().unwrap();
        counts.limits.iter().map(|set| set.limits()[0].capacity()).collect()
    };
    assert_eq!((capacities("12"), capacities("13")), (vec![50], vec![10]));
}

#[test]
fn leases_and_local_shares_stay_where_they_fit() {
    let text = r#"
        version = 1
        [[policies]]
        name = "api"
        on_failure = { local = "50 %" }
        limits = [{ subject = "field.tenant", absent = "skip", limit = "100/m via gcra lease 10 for 1s" }]
    "#;
    let policies = Policies::parse(text, Format::Toml).unwrap();
    let gate = Gate::new(policies, MemoryStore::new()).unwrap();
    let lease = || {
        let answer = ask(&gate, 1);
        let set = answer.decision().unwrap().limit_sets().next().unwrap().clone();
        (set.limits()[0].capacity(), set.lease().map(ToString::to_string))
    };
    assert_eq!(lease(), (100, Some("10 for 1s".to_owned())));
    set(&gate, &[("gcra/1m", "500/m")]);
    assert_eq!(lease(), (500, Some("10 for 1s".to_owned())));
    set(&gate, &[("gcra/1m", "3/m")]);
    assert_eq!(lease(), (3, None), "no half of it is 10");
    set(&gate, &[("gcra/1m", "unlimited")]);
    assert_eq!(ask(&gate, 1).outcome(), Outcome::Unlimited);
}

/// An amount of a unit whose limit is unlimited is left out; the amounts of the others are charged.
#[test]
fn an_unlimited_unit_leaves_the_amounts_of_the_others() {
    let limits = "calls: 3/h via gcra, budget: 100/h of tokens via gcra";
    let text = format!(
        "version = 1\n[[policies]]\nname = \"api\"\non_failure = \"deny\"\n\
         cost = {{ requests = 1, tokens = {{ from = \"field.tokens\", max = 90, otherwise = 0 }} }}\n\
         limits = [{{ subject = \"field.tenant\", absent = \"skip\", limit = \"{limits}\" }}]\n"
    );
    let clock = ManualClock::at_micros(1_700_000_000_000_000);
    let store = MemoryStore::builder().clock(clock).build();
    let gate = Gate::new(Policies::parse(&text, Format::Toml).unwrap(), store).unwrap();
    let asked = |tokens: &str, calls: Option<u64>| {
        let mut prepared = gate.prepare(&[("field.tenant", "12"), ("field.tokens", tokens)]);
        calls.into_iter().for_each(|calls| prepared.cost(calls).unwrap());
        block_on(gate.ask(prepared))
    };
    let left = |answer: &Answer<'_>| -> Vec<u64> {
        answer.decision().unwrap().reports().map(|report| report.remaining()).collect()
    };
    assert_eq!(left(&asked("10", Some(3))), [0, 90]);
    assert_eq!(asked("10", None).outcome(), Outcome::Denied);
    set(&gate, &[("calls", "unlimited")]);
    let answer = asked("10", None);
    assert_eq!((answer.outcome(), left(&answer)[1]), (Outcome::Allowed, 80));
    // A caller may still say how many calls there are.
    let answer = asked("10", Some(7));
    assert_eq!((answer.outcome(), left(&answer)[1]), (Outcome::Allowed, 70));
    assert_eq!(asked("80", None).outcome(), Outcome::Denied);
    // Nothing of a limit that is left.
    let answer = asked("0", None);
    assert_eq!((answer.outcome(), left(&answer)[1]), (Outcome::Allowed, 70));
    set(&gate, &[("calls", "5/h"), ("budget", "unlimited")]);
    let answer = asked("90", None);
    assert_eq!((answer.outcome(), left(&answer)[0]), (Outcome::Allowed, 1));
}

/// Limits beside it go on, though the cost of the policy has nothing of them.
#[test]
fn slots_and_amounts_of_callers_count_beside_an_unlimited_unit() {
    let text = "version = 1\n[[policies]]\nname = \"api\"\non_failure = \"deny\"\n\
                cost = { tokens = { reserve = 5, max = 9, hold = \"1m\" } }\n\
                limits = [{ subject = \"field.tenant\", absent = \"skip\", limit = [\n\
                \"work: 2 at once hold 5m\", \"budget: 9/h of tokens via gcra\"] }]\n";
    let clock = ManualClock::at_micros(1_700_000_000_000_000);
    let store = MemoryStore::builder().clock(clock).build();
    let gate = Gate::new(Policies::parse(text, Format::Toml).unwrap(), store).unwrap();
    set(&gate, &[("budget", "unlimited")]);
    let admit = || block_on(gate.admit(gate.prepare(&[("field.tenant", "12")])));
    let (first, second, third) = (admit(), admit(), admit());
    assert!(first.hold.is_some() && second.hold.is_some());
    assert_eq!(third.answer.outcome(), Outcome::Denied);
    // A commit of what nothing counts gives the slot back.
    block_on(gate.holds().commit(&first.hold.unwrap(), "tokens=7".parse::<Cost>().unwrap()))
        .unwrap();
    assert!(admit().hold.is_some());
}

/// A limit of several subjects is not one limit.
#[test]
fn a_limit_of_several_subjects_needs_names() {
    let text = "version = 1\n[[policies]]\nname = \"api\"\non_failure = \"deny\"\n\
                limits = [{ subject = \"field.tenant\", absent = \"skip\", limit = \"9/m\" },\n\
                { subject = \"user\", absent = \"skip\", limit = [\"3/m\", \"own: 7/h\"] }]\n";
    let policies = Policies::parse(text, Format::Toml).unwrap();
    let error = policies.ruled_limit("api", "sliding_log/1m", "5/m").unwrap_err().to_string();
    assert!(error.contains("several subjects"), "{error}");
    assert!(policies.ruled_limit("api", "own", "5/h").is_ok());
}

/// Charges without a check took more than the limit has: it denies no request while it is open.
#[test]
fn an_overdrawn_limit_that_is_unlimited_admits_everything() {
    for limit in
        ["3/m via uniform", "3/m debt 7 via uniform", "1/d via gcra", "1/366d debt 9 via gcra"]
    {
        let (gate, _clock) = gate(&format!("short: {limit}, long: 1000/h via gcra"));
        let subject = Subject::from_dimensions([("field.tenant", &b"12"[..])]).unwrap();
        let counts = gate.current().counts_of("api", &subject).unwrap().unwrap();
        let charge = Ask::new(&subject).under(&counts.limits[0]).cost(20);
        block_on(gate.admin().charge(charge)).unwrap();
        assert_eq!(ask(&gate, 1).outcome(), Outcome::Denied, "{limit}");
        set(&gate, &[("short", "unlimited")]);
        for _ in 0..3 {
            assert_eq!(ask(&gate, 5).outcome(), Outcome::Allowed, "{limit}");
        }
        let answer = block_on(gate.admin().lift(&when(&[("field.tenant", "12")]), Some("api")));
        assert!(answer.unwrap());
        assert_eq!(ask(&gate, 1).outcome(), Outcome::Denied, "the debt is left: {limit}");
    }
}

/// The text of a limit leaves out options, which are as in the policy.
#[test]
fn options_that_are_not_written_are_those_of_the_policy() {
    for (policy, text, full) in [
        ("9/m debt 4 via gcra", "20/m", "20/m burst 20 debt 4 via gcra"),
        ("9/m debt 4 via gcra", "20/m debt 0", "20/m burst 20 debt 0 via gcra"),
        ("9/m burst 30 via gcra", "20/m via gcra", "20/m burst 30 via gcra"),
        ("9/m burst 30 via gcra", "20/m burst=40", "20/m burst 40 via gcra"),
        (
            "9/month in Europe/Berlin from 15th 06:00",
            "20/month",
            "20/month in Europe/Berlin from 15th 06:00 via fixed_window",
        ),
        (
            "9/month of tokens in Europe/Berlin from 15th",
            "20/month of tokens in Asia/Tokyo",
            "20/month of tokens in Asia/Tokyo from 15th via fixed_window",
        ),
        ("9/day in Europe/Berlin", "20/day", "20/day in Europe/Berlin via fixed_window"),
        (
            "9/m precision 6s rounding truncate via sliding_window",
            "20/m",
            "20/m precision 6s rounding truncate via sliding_window",
        ),
        ("9 at once hold 5m", "20 at once", "20 at once hold 5m"),
        ("9 at once hold 5m", "20 at once hold 1m", "20 at once hold 1m"),
        (
            "1/m, ban 1h after 3 denials in 1m up to 1d",
            "ban 2h after 5 denials in 2m",
            "ban 2h after 5 denials in 2m up to 1d",
        ),
    ] {
        let policies = policies(&policy.replace("9", "one: 9").replace("ban", "one: ban"));
        let limit = policies.ruled_limit("api", "one", text).unwrap();
        assert_eq!(limit.text(), full, "{policy} {text}");
    }
    let error = |text: &str| {
        let policies = policies("one: 9/m debt 4 refill interval via token_bucket");
        policies.ruled_limit("api", "one", text).unwrap_err().to_string()
    };
    assert!(error("20/m via gcra").contains("would count as `gcra/1m`"));
    assert!(error("20/h").contains("would count as `token_bucket/1h`"));
}

/// A field that no policy reads is a mistake.
#[test]
fn a_field_that_no_policy_reads_is_told() {
    let policies = policies("9/m");
    let told = |field: &str| policies.unread(&Field::parse(field).unwrap());
    assert_eq!(["field.tenant", "user", "ip"].map(|field| told(field).is_none()), [true; 3]);
    for (field, says) in [
        ("field.tennant", "did you mean `field.tenant`? The policies read `field.tenant`"),
        ("header.x-plan", "the policies read `field.tenant`"),
    ] {
        let error = told(field).unwrap();
        assert_eq!((error.what(), error.remedy()), (&*format!("no policy reads `{field}`"), says));
    }
}

/// Limits that a program gives for a request count within the policy, once for equal texts; those
/// of an administrator go before.
#[test]
fn a_program_gives_the_limits_of_a_request() {
    let (gate, _clock) = gate("2/m via gcra");
    let given = |tenant: &str, limits: &str| {
        let mut prepared = gate.prepare(&[("field.tenant", tenant), ("user", "ann")]);
        assert!(prepared.takes_limits("api") && !prepared.takes_limits("other"));
        prepared.limits("other", &limits.parse().unwrap()).unwrap();
        prepared.limits("api", &limits.parse().unwrap()).unwrap();
        block_on(gate.ask(prepared.for_long()))
    };
    let remaining = |answer: &Answer| answer.decision().unwrap().remaining();
    assert_eq!(remaining(&given("12", "9/m via gcra")), 8);
    let (again, other) = (given("12", "9/m via gcra"), given("13", "9/m via gcra"));
    assert_eq!((remaining(&again), remaining(&other)), (7, 8));
    let set = |answer: &Answer| answer.decision().unwrap().limit_sets().next().unwrap().clone();
    assert_eq!(set(&again).serial(), set(&other).serial());
    assert_eq!(set(&again).policy(), Some("api"));
    // The same count under the policy's own limits: both units of it are used.
    assert_eq!(ask(&gate, 1).outcome(), Outcome::Denied);
    set_for(&gate, &[("field.tenant", "14")], &[("gcra/1m", "4/m")], HOUR);
    let mut prepared = gate.prepare(&[("field.tenant", "14")]);
    assert!(!prepared.takes_limits("api"));
    prepared.limits("api", &"9/m via gcra".parse().unwrap()).unwrap();
    assert_eq!(remaining(&block_on(gate.ask(prepared))), 3);
}

/// Where a program cannot say the limits, the failure rule of the policy decides.
#[test]
fn limits_that_nobody_knows_are_left_to_the_failure_rule() {
    let two = |rule: &str| {
        let text = format!(
            "version = 1\nmatch = \"all\"\n[[policies]]\nname = \"plan\"\non_failure = {rule}\n\
             limits = [{{ subject = \"ip\", limit = \"4/m via gcra\" }}]\n\
             [[policies]]\nname = \"all\"\non_failure = \"allow\"\n\
             limits = [{{ subject = \"pool=all\", limit = \"3/m via gcra\" }}]\n"
        );
        Gate::new(Policies::parse(&text, Format::Toml).unwrap(), MemoryStore::new()).unwrap()
    };
    let ask = |gate: &Gate<MemoryStore>| {
        let mut prepared = gate.prepare(&[("ip", "10.0.0.1")]);
        let goes_on = prepared.without_limits("plan", &"the database is away");
        (goes_on, block_on(gate.ask(prepared)))
    };
    let gate = two("\"deny\"");
    let (goes_on, answer) = ask(&gate);
    assert_eq!((goes_on, answer.outcome()), (false, Outcome::FailedClosed));
    assert_eq!(answer.authority(), Authority::FailureRule);
    assert!(answer.error().unwrap().to_string().contains("the database is away"));
    // The other policy still counts.
    let gate = two("\"allow\"");
    for expected in [2, 1, 0] {
        let (goes_on, answer) = ask(&gate);
        let remaining = answer.decision().map(tollgate::Decision::remaining);
        assert_eq!((goes_on, remaining), (true, Some(expected)));
    }
    assert_eq!(ask(&gate).1.outcome(), Outcome::Denied);
    // The share of this process is of the policy's own limits.
    let (goes_on, answer) = ask(&two("{ local = \"25 %\" }"));
    assert_eq!((goes_on, answer.outcome(), answer.reports().count()), (true, Outcome::Allowed, 2));
}

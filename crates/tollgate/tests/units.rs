//! Costs of several units: their text, their errors, and the limit that binds.
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use std::time::Duration;

use tollgate::{
    Adjustment, Ask, Cost, Limit, LimitSet, Limiter, MAX_COST, ManualClock, MemoryStore, Reserve,
    Unit,
};

fn limiter(limits: &str) -> Limiter {
    let clock = ManualClock::at_micros(1_763_632_000_000_000);
    Limiter::new(limits.parse().unwrap(), MemoryStore::builder().clock(clock).build())
}

fn cost(text: &str) -> Cost {
    text.parse().unwrap()
}

#[test]
fn a_cost_reads_as_it_is_written() {
    for (written, read) in [
        ("5", "5"),
        ("requests=5", "5"),
        ("tokens=0,requests=5", "5"),
        ("tokens=800,requests=1", "requests=1,tokens=800"),
        (" tokens=800 , bytes=7 ", "bytes=7,tokens=800"),
        (
            "a=1,b=2,c=3,d=4,e=5,f=6,g=7,h=1099511627776",
            "a=1,b=2,c=3,d=4,e=5,f=6,g=7,h=1099511627776",
        ),
    ] {
        assert_eq!(cost(written).to_string(), read, "{written}");
        assert_eq!(cost(read), cost(written), "{written}");
    }
    assert_eq!(cost("7"), Cost::from(7));
}

#[test]
fn what_is_no_cost_says_why() {
    for (written, why) in [
        ("", "this is not an amount"),
        ("0", "takes nothing"),
        ("requests=0,tokens=0", "takes nothing"),
        ("-1", "this is not an amount"),
        ("tokens=-1", "this is not an amount"),
        ("tokens=", "this is not an amount"),
        ("tokens=1.5", "this is not an amount"),
        ("tokens=1099511627777", "too large"),
        ("1099511627777", "too large"),
        ("99999999999999999999999", "too large"),
        ("tokens=1,requests", "write `UNIT=AMOUNT`"),
        ("tokens=1,,requests=1", "write `UNIT=AMOUNT`"),
        ("Tokens=1", "lowercase"),
        ("=1", "this is not the name of a unit"),
        ("a-b=1", "this is not the name of a unit"),
        ("tokens=1,tokens=2", "`tokens` is given twice"),
        ("a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1", "9 units"),
    ] {
        let error = written.parse::<Cost>().unwrap_err().to_string();
        assert!(error.contains(why), "{written}: {error}");
    }
    let long = "a".repeat(33);
    assert!(Cost::new([(&*long, 1)]).unwrap_err().to_string().contains("at most 32"));
    assert!(Cost::new([("a", MAX_COST + 1)]).unwrap_err().to_string().contains("2^40"));
}

#[test]
fn a_unit_is_part_of_a_limit() {
    let limit: Limit = "100000/m of tokens via gcra".parse().unwrap();
    assert_eq!(limit.full_text(), "100000/m of tokens burst 100000 via gcra");
    assert_eq!((limit.identity(), limit.unit().name()), ("gcra/1m/tokens", "tokens"));
    assert_eq!(limit.to_string().parse::<Limit>().unwrap(), limit);
    let named = limit.named("budget").unwrap();
    assert_eq!(named.identity(), "budget/tokens");
    assert_eq!("budget: 100000/m of=tokens via=gcra".parse::<Limit>().unwrap(), named);
    let usual: Limit = "10/s of requests".parse().unwrap();
    assert_eq!(usual, "10/s".parse().unwrap());
    assert_eq!(*"20 at once".parse::<Limit>().unwrap().unit(), Unit::SLOTS);
    // One set may have a limit of each unit, and not two of one name.
    let set: LimitSet = "10/s via gcra, 10/s of tokens via gcra".parse().unwrap();
    assert_eq!(set.identity(), "gcra/1s,gcra/1s/tokens");
    for (text, why) in [
        ("a: 10/s via gcra, a: 10/s of tokens via gcra", "two limits"),
        ("10/s of tokens via gcra, 20/s of tokens via gcra", "two limits"),
        ("10/s of Tokens", "lowercase"),
        ("10/s of", "`of` needs a value"),
        ("10/s of a of b", "`of` is given twice"),
        ("10/s of slots", "20 at once"),
        ("20 at once of tokens", "takes no `of`"),
        ("100000/m of tokens", "would remember every event"),
    ] {
        let error = text.parse::<LimitSet>().unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn each_limit_takes_its_own_amount_or_none_does() {
    let limiter = limiter("60/m via gcra, 1000/m of tokens via fixed_window");
    let ask = |text: &str| limiter.check(Ask::new("bob").cost(cost(text))).now().unwrap();
    let left = |text: &str| {
        let peek = limiter.check(Ask::new("bob").cost(cost(text)).peek()).now().unwrap();
        peek.reports().map(|report| report.remaining()).collect::<Vec<_>>()
    };
    let first = ask("requests=1,tokens=800");
    assert!(first.is_allowed());
    assert_eq!((first.limit(), first.remaining(), first.unit().name()), (1000, 200, "tokens"));
    assert_eq!(first.amounts().to_string(), "requests=1,tokens=800");
    // Too many tokens: no request is charged.
    let denied = ask("requests=1,tokens=201");
    assert!(!denied.is_allowed() && denied.unit().name() == "tokens");
    assert_eq!(left("1"), [59, 200]);
    // All tokens are used, and nothing is owed: requests go on.
    assert!(ask("tokens=200").is_allowed());
    let plain = limiter.check("bob").now().unwrap();
    assert_eq!(
        (plain.is_allowed(), plain.remaining(), plain.unit().name()),
        (true, 58, "requests")
    );
    assert!(!ask("requests=1,tokens=1").is_allowed());
    assert!(ask("tokens=1001").is_never());
}

#[test]
fn the_limit_with_room_for_the_fewest_more_binds() {
    let limits = "100/m via gcra, 1000/m of tokens via gcra, 90/m of bytes via gcra";
    for (text, unit, remaining) in [
        ("requests=1,tokens=5", "requests", 99),
        ("requests=1,tokens=20", "tokens", 980),
        ("requests=1,tokens=10", "requests", 99),
        ("tokens=10,bytes=1", "bytes", 89),
        ("bytes=90", "bytes", 0),
    ] {
        let limiter = limiter(limits);
        let decision = limiter.check(Ask::new("bob").cost(cost(text))).now().unwrap();
        assert_eq!((decision.unit().name(), decision.remaining()), (unit, remaining), "{text}");
    }
}

#[test]
fn a_part_is_of_the_first_unit() {
    let limiter = limiter("9/m via gcra, 1000/m of tokens via gcra");
    let partial = |text: &str| limiter.check(Ask::new("bob").cost(cost(text)).partial()).now();
    let some = partial("requests=20,tokens=100").unwrap();
    assert_eq!((some.granted(), some.amounts().to_string()), (9, "requests=9,tokens=100".into()));
    assert!(!partial("requests=1,tokens=100").unwrap().is_allowed());
    assert_eq!(partial("tokens=5000").unwrap().granted(), 900);
}

#[test]
fn an_unknown_unit_names_the_known_ones() {
    let both = limiter("9/m via gcra, 1000/m of tokens via gcra");
    let error = |limiter: &Limiter, text: &str| {
        limiter.check(Ask::new("bob").cost(cost(text))).now().unwrap_err().to_string()
    };
    let why = error(&both, "requests=1,token=5");
    assert!(why.contains("no limit counts `token`") && why.contains("requests, tokens"), "{why}");
    let plain = limiter("9/m via gcra");
    assert!(error(&plain, "requests=1,tokens=5").contains("give amounts of requests"));
    let tokens = limiter("1000/m of tokens via gcra");
    assert!(error(&tokens, "1").contains("give amounts of tokens"));
    assert!(tokens.check("bob").now().unwrap_err().to_string().contains("`requests`"));
    // A unit of another subject's limits is known, and each subject is charged its own.
    let set: LimitSet = "500/m of tokens via gcra".parse().unwrap();
    let ask = Ask::new("bob").and_under("team:7", &set).cost(cost("requests=1,tokens=5"));
    assert!(plain.check(ask).now().unwrap().is_allowed());
}

#[test]
fn a_refund_and_an_adjustment_are_of_the_units_that_they_name() {
    let limiter = limiter("9/m via fixed_window, 1000/m of tokens via fixed_window");
    let receipt = limiter.check(Ask::new("bob").cost(cost("requests=2,tokens=9"))).now().unwrap();
    let receipt = receipt.receipt().unwrap();
    // A plain number is requests.
    for (units, already, given, left) in [
        ("1", false, [1, 0], "requests=1,tokens=9"),
        ("tokens=4", false, [0, 4], "requests=1,tokens=5"),
        ("tokens=9", false, [0, 5], "1"),
        ("tokens=9", true, [0, 0], "1"),
        ("requests=2,tokens=1", false, [1, 0], "0"),
        ("2", true, [0, 0], "0"),
    ] {
        let refund = limiter.refund(receipt.part(cost(units))).now().unwrap();
        let told = (refund.already, &refund.given[..], refund.left.to_string());
        assert_eq!(told, (already, &given[..], left.to_owned()), "{units}");
    }
    assert!(limiter.refund(&receipt).now().unwrap().already);
    for units in ["3", "tokens=10", "requests=1,tokens=10", "bytes=1"] {
        let error = limiter.refund(receipt.part(cost(units))).now().unwrap_err().to_string();
        assert!(error.contains("of each charged unit at most its amount"), "{error}");
    }
    assert!(limiter.refund(receipt.part(0)).now().is_err());

    let _ = limiter.check(Ask::new("bob").cost(cost("requests=2,tokens=9"))).now().unwrap();
    let by = |text: &str| text.parse::<Adjustment>().unwrap();
    let adjust = |by: Adjustment| limiter.admin().adjust("bob", by).now();
    assert_eq!(adjust(by("tokens=5")).unwrap(), [0, 5]);
    assert_eq!(adjust(1.into()).unwrap(), [1, 0]);
    assert_eq!(adjust(by("requests=1,tokens=-300")).unwrap(), [1, -300]);
    for (by, says) in [
        (by("bytes=1"), "no limit counts `bytes`"),
        (by("tokens=0"), "an adjustment of tokens=0 is out of range"),
        (0.into(), "an adjustment of 0 is out of range"),
    ] {
        let error = adjust(by).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    for text in ["tokens=x", "tokens", "tokens=--1", "tokens=1,tokens=2", "tokens=1099511627777"] {
        assert!(text.parse::<Adjustment>().is_err(), "{text}");
    }
}

#[test]
fn a_commit_names_some_of_the_units() {
    let limits = "9/m via gcra, 1000/m of tokens via gcra, 20 at once hold 2m";
    let limiter = limiter(limits);
    let ask = || Ask::new("bob").cost(cost("requests=1,tokens=400"));
    let left = || -> Vec<u64> {
        let peek = limiter.check(ask().acquire().peek()).now().unwrap();
        peek.reports().map(|report| report.remaining()).collect()
    };
    let minute = Reserve::from(Duration::from_secs(60));
    let hold = |reserve: Reserve| limiter.hold(ask().reserve(reserve)).now().unwrap().hold.unwrap();
    // Of an end that charges nothing, nothing is charged of what is not named.
    let free = hold(minute);
    assert_eq!(
        (free.cost.to_string(), left()),
        ("requests=1,tokens=400".to_owned(), vec![8, 600, 19])
    );
    let commit = |hold: &tollgate::Hold, used: &str| {
        limiter.commit(hold, Cost::parse_used(used).unwrap()).now().map(|it| it.actual.to_string())
    };
    assert_eq!(commit(&free, "tokens=131").unwrap(), "tokens=131");
    assert_eq!(left(), [9, 869, 20]);
    // Of one that charges the estimate, the estimate.
    let charging = hold(minute.charging());
    assert_eq!(commit(&charging, "tokens=0").unwrap(), "1");
    assert_eq!(left(), [8, 869, 20]);
    // A plain number is of requests, and a plain 0 of everything.
    let charging = hold(minute.charging());
    assert_eq!(commit(&charging, "2").unwrap(), "requests=2,tokens=400");
    let nothing = hold(minute.charging());
    assert_eq!((commit(&nothing, "0").unwrap(), left()), ("0".to_owned(), vec![6, 469, 20]));
    // A unit that was not reserved is charged, too; one that nothing counts is not known.
    let requests = limiter.hold(Ask::new("bob").reserve(minute)).now().unwrap().hold.unwrap();
    let error = commit(&requests, "requests=1,token=70").unwrap_err().to_string();
    assert!(error.contains("no limit counts `token`") && error.contains("tokens"), "{error}");
    assert_eq!(commit(&requests, "requests=1,tokens=70").unwrap(), "requests=1,tokens=70");
    assert_eq!(left(), [5, 399, 20]);
}

#[test]
fn a_hold_takes_one_slot_unless_it_names_slots() {
    let limiter = limiter("900/m via gcra, 5 at once");
    let left = || {
        let peek = limiter.check(Ask::new("bob").acquire().peek()).now().unwrap();
        peek.reports().map(|report| report.remaining()).collect::<Vec<_>>()
    };
    let acquire = |text: &str| limiter.hold(Ask::new("bob").cost(cost(text)).acquire()).now();
    let two = acquire("requests=7,slots=2").unwrap().hold.unwrap();
    assert_eq!(left(), [893, 3]);
    assert!(acquire("requests=1,slots=4").unwrap().hold.is_none());
    assert!(limiter.release(&two).now().unwrap());
    assert_eq!(left(), [893, 5]);
    assert!(acquire("slots=5").unwrap().hold.is_some());
    assert_eq!(left(), [893, 0]);
    let waits = Ask::new("bob").cost(cost("requests=1,slots=1")).acquire().in_line();
    let named = waits.named("2f1b7c0e9a4d4f62".parse().unwrap());
    let error = limiter.hold(named).now().unwrap_err().to_string();
    assert!(error.contains("not amounts by unit"), "{error}");
}

#[test]
fn a_charge_is_of_each_unit() {
    let limiter = limiter("9/m via gcra, 1000/m of tokens debt 500 via gcra");
    let ask = Ask::new("bob").cost(cost("tokens=1200"));
    let charged = limiter.charge(ask).now().unwrap();
    assert_eq!((charged[0].fits, charged[0].cut, charged[0].remaining), (true, 0, 9));
    assert_eq!((charged[1].fits, charged[1].cut, charged[1].remaining), (false, 0, 0));
    assert!(!limiter.check("bob").now().unwrap().is_allowed(), "the tokens owe 200");
}

/// One subject, whose state is found where it lies, and the same beside a second one that never
/// denies.
#[test]
fn units_of_one_subject_count_as_beside_another() {
    let sets = [
        "9/s via gcra, 100/s of tokens via sliding_log",
        "9/s via fixed_window, 100/s of tokens via gcra, 50/s of tokens via sliding_window",
        "100/s of tokens via gcra",
        "70/s of tokens via sliding_log",
        "100/s of tokens via gcra, ban 300ms after 2 denials in 1s",
        "90/s of bytes via token_bucket, 100/s of tokens debt 50 via sliding_log",
    ];
    let beside: LimitSet = "1000000000/s via fixed_window, t: 1000000000/s of tokens via \
                            fixed_window, b: 1000000000/s of bytes via fixed_window"
        .parse()
        .unwrap();
    let mut seed: u64 = 7;
    let mut next = |end: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % end
    };
    for text in sets {
        let (clock, set) = (ManualClock::at_micros(1_000_000_000), text.parse().unwrap());
        let on = || MemoryStore::builder().clock(clock.clone()).build();
        let (alone, pairs) = (Limiter::new(set, on()), Limiter::new(beside.clone(), on()));
        let names: Vec<&str> = ["requests", "tokens", "bytes"]
            .into_iter()
            .filter(|name| {
                let mut rates = alone.limits().limits().iter().filter(|it| !it.hears_denials());
                rates.any(|it| it.unit().name() == *name)
            })
            .collect();
        let (mut admitted, mut denied) = (0, 0);
        for turn in 0..3_000 {
            clock.advance(Duration::from_micros(next(120_000)));
            let cost = loop {
                let amounts = names.iter().map(|name| (*name, next(30)));
                if let Ok(cost) = Cost::new(amounts.collect::<Vec<_>>()) {
                    break cost;
                }
            };
            let mut asks = [
                Ask::new("bob").cost(cost.clone()),
                Ask::from([("bob", alone.limits()), ("x", &beside)]).cost(cost.clone()),
            ];
            if next(4) == 0 {
                asks = asks.map(Ask::peek);
            }
            let [one, both] = asks;
            let (one, both) = (alone.check(one).now().unwrap(), pairs.check(both).now().unwrap());
            let what = format!("{text}: {turn}, {cost}");
            assert_eq!(one.is_allowed(), both.is_allowed(), "{what}");
            assert_eq!(one.amounts(), both.amounts(), "{what}");
            for (one, both) in one.reports().zip(both.reports()) {
                let numbers =
                    |it: tollgate::Report<'_>| (it.remaining(), it.retry_after(), it.reset_after());
                assert_eq!(numbers(one), numbers(both), "{what}");
            }
            match one.is_allowed() {
                true => admitted += 1,
                false => denied += 1,
            }
        }
        assert!(admitted > 300 && denied > 300, "{text}: {admitted} admitted, {denied} denied");
    }
}

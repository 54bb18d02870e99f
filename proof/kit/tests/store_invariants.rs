//! Invariants of the memory store and of subjects as properties, and the two counts that the
//! project promises to reproduce.
#![allow(clippy::unwrap_used)] // tests may unwrap

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Ask, LimitSet, Limiter, ManualClock, MemoryStore, SKEW_US, Subject, Time};
use tollgate_proof::conformance::block_on;

/// Failures are printed with their input; they are not written into the tree.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

fn limiter(limits: &str) -> (ManualClock, Limiter<MemoryStore>) {
    let clock = ManualClock::at_micros(0);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (clock, Limiter::new(limits.parse().unwrap(), store))
}

const LIMITS: [&str; 7] = [
    "3/2s via gcra",
    "3/2s burst 5 refill interval via token_bucket",
    "3/2s via fixed_window",
    "3/2s anchor first-hit via fixed_window",
    "3/2s via sliding_log",
    "3/2s via sliding_window",
    "3/2s, 7/9s via gcra",
];

/// A pause in microseconds.
fn gap() -> impl Strategy<Value = u64> {
    prop_oneof![0..2_000_000_u64, Just(SKEW_US), Just(3_000_000)]
}

proptest! {
    #![proptest_config(config(200))]

    /// I-X: a store that forgets what has expired answers as one that never does.
    #[test]
    fn i_x_forgetting_changes_no_answer(
        limit in prop::sample::select(&LIMITS[..]),
        steps in prop::collection::vec((0..3_u8, gap(), 1..4_u64, 0..9_u8), 1..60),
    ) {
        let (clock, forgets) = limiter(limit);
        let (other, keeps) = limiter(limit);
        let mut receipts = Vec::new();
        let mut now_us = 40_000_000;
        let mut latest_us = now_us;
        for (subject, gap_us, cost, kind) in steps {
            // Back by the skew at most.
            now_us = if kind == 0 { latest_us - gap_us.min(SKEW_US) } else { now_us + gap_us };
            latest_us = latest_us.max(now_us);
            clock.set(Time::from_micros(now_us));
            other.set(Time::from_micros(now_us));
            let ask = || Ask::new(format!("user:{subject}")).cost(cost);
            if kind == 8 && !receipts.is_empty() {
                let (a, b) = receipts.swap_remove(0);
                let here = block_on(forgets.refund(&a)).unwrap();
                prop_assert_eq!(here, block_on(keeps.refund(&b)).unwrap());
            } else {
                let [a, b] = [&forgets, &keeps].map(|it| it.check(ask()).now().unwrap());
                prop_assert_eq!(a.verdict(), b.verdict());
                prop_assert_eq!(a.remaining(), b.remaining());
                prop_assert_eq!(a.reset_after(), b.reset_after());
                receipts.extend(a.receipt().zip(b.receipt()));
            }
            forgets.store().sweep();
            prop_assert!(forgets.store().subjects() <= keeps.store().subjects());
        }
        clock.advance(Duration::from_secs(100));
        forgets.store().sweep();
        prop_assert_eq!(forgets.store().subjects(), 0);
    }
}

/// Values that would be confused by a written form that is not injective.
fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::sample::select(
            &[
                "a", "a:b", "a,b:c", "%41", "%", "A", "\0", "\r\n", "{a}", " ", "é", "e\u{301}",
                "::1"
            ][..]
        )
        .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 1..20),
    ]
}

fn dimensions() -> impl Strategy<Value = BTreeMap<String, Vec<u8>>> {
    let name = prop::sample::select(&["key", "a", "b", "user", "a.b", "a-b", "A"][..]);
    prop::collection::btree_map(name.prop_map(str::to_owned), value(), 1..4)
}

fn subject_of(dimensions: &BTreeMap<String, Vec<u8>>) -> Subject {
    Subject::from_dimensions(dimensions.iter().rev().map(|(d, v)| (d.as_str(), v.as_slice())))
        .unwrap()
}

proptest! {
    #![proptest_config(config(4_000))]

    /// I-K: equal subjects have equal written forms and others do not; the form reads back.
    #[test]
    fn i_k_one_form_for_one_subject(one in dimensions(), two in dimensions()) {
        let (first, second) = (subject_of(&one), subject_of(&two));
        prop_assert_eq!(first.as_str() == second.as_str(), one == two);
        for (subject, dimensions) in [(&first, &one), (&second, &two)] {
            let text = subject.as_str();
            prop_assert!(text.bytes().all(|b| matches!(b, 0x21..=0x7e)), "{text}");
            prop_assert_eq!(&Subject::parse(text).unwrap(), subject);
            let read: BTreeMap<String, Vec<u8>> = subject
                .dimensions()
                .map(|(dimension, value)| (dimension.to_owned(), value.into_owned()))
                .collect();
            prop_assert_eq!(&read, dimensions);
        }
    }

    /// I-K: no literal value makes another dimension, and a plain one is what `of` makes of it.
    #[test]
    fn i_k_a_literal_value_stays_a_value(value in value()) {
        let Ok(text) = String::from_utf8(value) else { return Ok(()) };
        let subject = Subject::literal(&format!("user:{text}")).unwrap();
        prop_assert_eq!(&subject, &Subject::new("user", &text).unwrap());
        prop_assert_eq!(subject.dimensions().count(), 1);
    }

    /// A limit's full form reads back as an equal limit, and so does a set's.
    #[test]
    fn limits_read_back(
        n in prop_oneof![1..2_000_u64, 1..1_u64 << 40],
        d in prop_oneof![1..100_u64, 1..10_000_000_u64, 1..31_622_400_000_000_u64],
        burst in prop::option::of(1..5_000_u64),
        via in 0..9_usize,
        name in prop::option::of("[a-zA-Z][a-zA-Z0-9_.-]{0,63}"),
    ) {
        let options = [
            "via uniform", "via gcra", "via token_bucket", "refill interval via token_bucket",
            "via fixed_window", "anchor first-hit via fixed_window", "via sliding_log",
            "rounding truncate via sliding_window", "rounding interpolate via sliding_window",
        ][via];
        let burst = match burst {
            Some(burst) if (1..4).contains(&via) => format!("burst {burst} "),
            _ => String::new(),
        };
        let name = name.map_or_else(String::new, |name| format!("{name}:"));
        let text = format!("{name}{n}/{d}us {burst}{options}");
        // A limit that cannot be exact is refused; everything else must read back.
        let Ok(limit) = text.parse::<tollgate::Limit>() else { return Ok(()) };
        prop_assert_eq!(&limit.to_string().parse::<tollgate::Limit>().unwrap(), &limit);
        let set: LimitSet = format!("other: 3/7s, {text}").parse().unwrap();
        let again: LimitSet = set.to_string().parse().unwrap();
        prop_assert_eq!(&again, &set);
        prop_assert!(again.counts_as(&set));
        prop_assert_eq!(again.identity(), set.identity());
    }

    /// No text makes a parser panic, and every error has a text.
    #[test]
    fn no_text_makes_a_parser_panic(text in "\\PC{0,60}") {
        read_all(&text);
    }

    /// Nor pieces of limits and subjects, put together at random.
    #[test]
    fn no_pieces_make_a_parser_panic(pieces in prop::collection::vec(prop::sample::select(&[
        "10", "/", "s", "10/s", "5/1500ms", " ", "\t", "via", "gcra", "uniform", "sliding_log", ",",
        ";", ":", "api:", "burst", "precision", "60s", "rounding", "truncate", "refill", "interval",
        "anchor", "first-hit", "-1", "0", "1e9", "0.5", "99999999999999999999", "1month", "366d",
        "367d", "%", "%4", "%41", "%zz", "é", "日本", "\u{301}", "\0", "\r\n", "🦀", "user:42", "=",
    ][..]), 0..12)) {
        read_all(&pieces.concat());
        read_all(&pieces.join(" "));
    }
}

fn read_all(text: &str) {
    if let Err(error) = text.parse::<LimitSet>() {
        assert!(!error.to_string().is_empty() && !error.what().is_empty());
        let _ = format!("{:?} {:?}", error.span(), error.remedy());
    }
    for strategy in tollgate::Strategy::RATES {
        let _ = LimitSet::parse_with(text, *strategy).map_err(|error| error.to_string());
    }
    let _ = text.parse::<tollgate::Limit>().map_err(|error| error.to_string());
    for subject in [Subject::parse(text), Subject::literal(text)] {
        match subject {
            Ok(subject) => assert_eq!(Subject::parse(subject.as_str()), Ok(subject.clone())),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// 1,200 checks at one instant against a thousand in an hour.
#[test]
fn a_thousand_of_twelve_hundred() {
    let (clock, limiter) = limiter("1000/1h via token_bucket");
    clock.set(Time::from_micros(1_700_000_000_123_456));
    let admitted = (0..1_200).filter(|_| limiter.check("zoo").now().unwrap().is_allowed()).count();
    assert_eq!(admitted, 1_000);
}

/// Two consumers of one resource in virtual time: 9 and 4 are admitted.
#[test]
fn two_consumers_of_one_resource() {
    let (clock, limiter) = limiter("5/10s");
    let shared: LimitSet = "5/10s via sliding_log".parse().unwrap();
    let own: LimitSet = "3/10s via sliding_log".parse().unwrap();
    let mut asks: Vec<(u64, &str)> = (0..25).map(|i| (i * 1_000_000, "consumer:1")).collect();
    asks.extend((0..10).map(|i| (500_000 + i * 2_000_000, "consumer:2")));
    asks.sort_unstable();
    let mut admitted = BTreeMap::new();
    for (at_us, consumer) in asks {
        clock.set(Time::from_micros(at_us));
        let decision = limiter.check([("resource:12", &shared), (consumer, &own)]).now().unwrap();
        *admitted.entry(consumer).or_insert(0) += decision.granted();
    }
    assert_eq!(admitted, BTreeMap::from([("consumer:1", 9), ("consumer:2", 4)]));
}

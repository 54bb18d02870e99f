//! Every row of the tables in docs/keys.md.
#![allow(clippy::unwrap_used)] // tests may

use proptest::collection::vec;
use proptest::num::u8::ANY;
use tollgate::engine::{self, Mode, Part, VecStates};
use tollgate::{Counted, LimitSet, Place, Subject, Time};
use tollgate_redis::{Keys, decode, encode, log_entries};

const PAGE: &str = include_str!("../../../docs/keys.md");

/// The rows of the table whose first column has this heading, without backquotes.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| -> Vec<String> {
        let line = line.replace("\\|", "\u{1}");
        let line = line.trim_matches('|').trim();
        line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
    };
    let mut lines = PAGE.lines().skip_while(|line| cells(line) != cells(heading));
    assert!(lines.next().is_some(), "no table {heading}");
    let rows: Vec<_> = lines.skip(1).take_while(|line| line.starts_with('|')).map(cells).collect();
    assert!(!rows.is_empty());
    rows
}

fn plain(cell: &str) -> &str {
    cell.trim_matches('`')
}

/// Text in backquotes and hexadecimal digits, as bytes.
fn bytes(cell: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (i, part) in cell.split('`').enumerate() {
        if i % 2 == 1 {
            bytes.extend_from_slice(part.as_bytes());
            continue;
        }
        let digits: Vec<u8> = part.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        for pair in digits.chunks(2) {
            bytes.push(u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap());
        }
    }
    bytes
}

/// The state after the charges of a row.
fn charged(limits: &LimitSet, charges: &str) -> VecStates {
    let mut held = VecStates::fresh(limits);
    for charge in plain(charges).split(' ') {
        let (cost, at) = charge.split_once('@').unwrap();
        let now = Time::from_micros(at.parse().unwrap());
        let mut parts = [Part::new(limits, &mut held)];
        let outcome =
            engine::decide(&mut parts, now, cost.parse::<u64>().unwrap().into(), Mode::Whole, None)
                .unwrap();
        assert!(outcome.granted > 0, "{limits}: {charge}");
    }
    held
}

#[test]
fn keys_are_named_as_the_page_says() {
    for row in rows("| subject | limits | shard | key |") {
        let [subject, limits, shard, key] = &row[..] else { panic!("{row:?}") };
        let subject = Subject::literal(plain(subject)).unwrap();
        let keys = match plain(shard) {
            "" => Keys::new(),
            shard => Keys::new().sharded(shard),
        };
        let (policy, limits) = match plain(limits).split_once('>') {
            Some((policy, limits)) => (Some(policy), limits),
            None => (None, plain(limits)),
        };
        let mut limits: LimitSet = limits.parse().unwrap();
        if let Some(policy) = policy {
            limits = limits.in_policy(policy).unwrap();
        }
        assert_eq!(keys.state(&subject, &limits), plain(key));
        // An ask's shard goes before the store's.
        let shard = Some(plain(shard)).filter(|shard| !shard.is_empty());
        let counted = Counted::new(&subject, &limits).in_shard(shard);
        let store = shard.map_or(Keys::new(), |_| Keys::new().sharded("other"));
        assert_eq!(store.for_count(counted), plain(key));
    }
}

#[test]
fn states_have_the_bytes_that_the_page_says() {
    for row in rows("| limits | charges | state |") {
        let [limits, charges, state] = &row[..] else { panic!("{row:?}") };
        let limits: LimitSet = plain(limits).parse().unwrap();
        let held = charged(&limits, charges);
        let state = bytes(state);
        assert_eq!(encode(&limits, &held).unwrap(), state, "{limits}");
        let (was, read) = decode(&limits, Some(&state), &[]).unwrap();
        assert_eq!((was.full_text(), read), (limits.full_text(), held));
    }
}

#[test]
fn logs_have_the_bytes_that_the_page_says() {
    for row in rows("| limits | charges | elements |") {
        let [limits, charges, elements] = &row[..] else { panic!("{row:?}") };
        let limits: LimitSet = plain(limits).parse().unwrap();
        let held = charged(&limits, charges);
        // The commas within the head do not separate.
        let elements: Vec<Vec<u8>> = elements.split(", ").map(bytes).collect();
        assert_eq!(limits.places(), [Place::Log(0)]);
        assert_eq!(log_entries(&limits.limits()[0], &held.logs[0]), elements, "{limits}");
        let (_, read) = decode(&limits, None, &[elements]).unwrap();
        assert_eq!(read, held);
    }
}

#[test]
fn states_that_cannot_be_read_say_why() {
    let limits: LimitSet = "10/s via gcra".parse().unwrap();
    let good = encode(&limits, &charged(&limits, "1@100")).unwrap();
    let mut newer = good.clone();
    newer[0] = b'3';
    let cases: [(&[u8], &str); 8] = [
        (b"", "not a state"),
        (b"12", "not a state"),
        (&newer, "newer version"),
        (&good[..good.len() - 1], "length"),
        (b"1gg2:100000,1,10,20;gg2:1,1,1,2;|", "number of limits"),
        (b"1zz2:1;|", "cannot be read"),
        (b"1gg2:100000,1,10,20;|\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0", "no count has"),
        (b"1gg2:100000,1,10,20;|\0\0\0\0\0\0\0\0\0\0\0\0\x01", "no count has"),
    ];
    for (state, why) in cases {
        let error = decode(&limits, Some(state), &[]).unwrap_err();
        assert!(error.contains(why), "{state:?}: {error}");
    }
}

proptest::proptest! {
    /// Any bytes there are read or refused, and a parsed state can be worked on.
    #[test]
    fn no_bytes_make_it_panic(
        set in 0_usize..5,
        head in proptest::sample::select(vec!["", "1", "1gg2:100000,1,10,20;|",
            "1ff2:5,10000000,0;|", "1ss4:6,5000000,2,0;|", "1ti2:5,10000000,5,10;|",
            "1ll0:5,10000000;|", "1gg2:0,0,0,0;|"]),
        rest in vec(ANY, 0..40),
        log in vec(vec(ANY, 0..16), 0..4),
    ) {
        let sets = ["x: 10/s via gcra", "x: 5/10s via fixed_window", "x: 5/10s via sliding_log",
            "x: 6/10s precision 5s via sliding_window", "x: 5/10s refill interval via token_bucket"];
        let limits: LimitSet = sets[set].parse().unwrap();
        let state = [head.as_bytes(), &rest].concat();
        let logs = if log.is_empty() { Vec::new() } else { Vec::from([log]) };
        for (state, logs) in [(Some(&state[..]), &[][..]), (None, &logs[..])] {
            if let Ok((was, mut held)) = decode(&limits, state, logs) {
                let mut new = VecStates::fresh(&limits);
                for now in [0, 25_000_000, 1_763_632_025_123_456] {
                    let now = Time::from_micros(now);
                    let _ = engine::fresh_at_us(&was, &mut held);
                    let _ = engine::migrate(&limits, &mut new, &was, &mut held, now);
                    let mut parts = [Part::new(&was, &mut held)];
                    let _ = engine::decide(&mut parts, now, 3.into(), Mode::Whole, None).unwrap();
                }
            }
        }
    }
}

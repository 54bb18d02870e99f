//! States of every form that a version ever wrote, in `vectors/formats`: each is read, charged and
//! corrected, or refused and left as it is.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate::engine::ShownHold;
use tollgate::{Ask, Hold, LimitSet, Limiter, ManualClock, Subject, Time};
use tollgate_redis::{Keys, Options, RedisStore};
use tollgate_testbed::{RedisServer, Reply, redis_or_skip};

use crate::common::runtime;

const STATES: &str = include_str!("../../../../vectors/formats/redis.txt");

/// A state: its limits, its time, the contents of its key or keys, and the units that are left.
struct Row {
    limits: LimitSet,
    at: Time,
    held: Vec<Vec<u8>>,
    sums: Option<Vec<u8>>,
    hold: Option<Vec<u8>>,
    /// The remaining units; `None` where it is refused.
    remaining: Option<u64>,
}

fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn rows() -> Vec<Row> {
    let lines = STATES.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let [limits, at, held, holds, remaining] = cells[..] else { panic!("{line}") };
        let (sums, hold) = holds
            .split_once(' ')
            .map_or((None, None), |(sums, hold)| (Some(bytes(sums)), Some(bytes(hold))));
        Row {
            limits: limits.parse().unwrap(),
            at: Time::from_micros(at.parse().unwrap()),
            held: held.split(' ').map(bytes).collect(),
            sums,
            hold,
            remaining: remaining.parse().ok(),
        }
    };
    lines.map(row).collect()
}

impl Row {
    /// Puts it where it lay.
    fn put(&self, server: &RedisServer, key: &str) {
        server.command(&[b"FLUSHALL"]);
        let log = self.held[0].get(1) == Some(&b'l');
        for held in &self.held {
            let done = match log {
                true => server.command(&[b"RPUSH", key.as_bytes(), held]),
                false => server.command(&[b"SET", key.as_bytes(), held]),
            };
            assert!(!matches!(done, Reply::Error(_)), "{done:?}");
        }
        if let (Some(sums), Some(hold)) = (&self.sums, &self.hold) {
            let end = (self.at.as_micros() + 60_000_000).to_string();
            server.command(&[b"SET", format!("{key}@sums").as_bytes(), sums]);
            server.command(&[b"ZADD", format!("{key}@").as_bytes(), end.as_bytes(), hold]);
        }
    }
}

fn all(server: &RedisServer) -> BTreeMap<Vec<u8>, Reply> {
    server.keys().into_iter().map(|key| (key.clone(), server.command(&[b"DUMP", &key]))).collect()
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn every_form_is_read_or_refused() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let (clock, bob) = (ManualClock::at_micros(0), Subject::literal("bob").unwrap());
        let options = Options::from_url(&server.url()).unwrap().deadline(Duration::from_secs(30));
        let store = RedisStore::builder(options).run("formats", clock.clone());
        let store = store.connect().await.unwrap();
        let rows = rows();
        assert!(rows.len() > 8, "{}", rows.len());
        for row in &rows {
            let limiter = Limiter::new(row.limits.clone(), store.clone());
            let key = Keys::for_run("formats").state(&bob, &row.limits);
            let text = format!("{} {}", row.limits, row.held[0].escape_ascii());
            clock.set(row.at);
            row.put(&server, &key);
            let before = all(&server);
            let Some(remaining) = row.remaining else {
                assert!(limiter.check(Ask::from(&bob).peek()).await.is_err(), "{text}");
                assert!(limiter.check(&bob).await.is_err(), "{text}");
                assert!(limiter.charge(&bob).await.is_err(), "{text}");
                assert!(limiter.admin().adjust(&bob, 1).await.is_err(), "{text}");
                assert!(
                    limiter.hold(Ask::from(&bob).reserve(Duration::from_secs(9))).await.is_err(),
                    "{text}"
                );
                assert_eq!(all(&server), before, "{text}");
                continue;
            };
            assert_eq!(
                limiter.check(Ask::from(&bob).peek()).await.unwrap().remaining(),
                remaining,
                "{text}"
            );
            let shown = limiter.admin().inspect(&bob).await.unwrap().unwrap().holds;
            let ages: Vec<Option<u64>> = shown.iter().map(|shown| shown.age_us).collect();
            assert_eq!(ages, vec![None; row.hold.iter().count()], "{text}");
            assert_eq!(all(&server), before, "{text}");
            if let [ShownHold { hold, .. }] = &shown[..] {
                let counts = [(bob.clone(), row.limits.clone())];
                let mut hold = Hold::new(hold.id, 0, hold.cost.clone(), Time::default(), counts);
                assert!(limiter.renew(&mut hold, Some(Duration::from_secs(70))).await.unwrap());
                let shown = limiter.admin().inspect(&bob).await.unwrap().unwrap().holds;
                assert_eq!(shown[0].age_us, None, "{text}: renewed");
                row.put(&server, &key);
            }
            let decision = limiter.check(&bob).await.unwrap();
            if remaining == 0 {
                assert!(!decision.is_allowed(), "{text}");
                continue;
            }
            assert_eq!(
                (decision.is_allowed(), decision.remaining()),
                (true, remaining - 1),
                "{text}"
            );
            let receipt = decision.receipt().unwrap();
            limiter.refund(&receipt).await.unwrap();
            assert_eq!(
                limiter.check(Ask::from(&bob).peek()).await.unwrap().remaining(),
                remaining,
                "{text}"
            );
            for what in ["charge", "adjust", "reserve"] {
                row.put(&server, &key);
                match what {
                    "charge" => drop(limiter.charge(&bob).await.unwrap()),
                    "adjust" => {
                        assert_eq!(limiter.admin().adjust(&bob, -1).await.unwrap(), [-1], "{text}");
                    }
                    _ => {
                        let hold = limiter
                            .hold(Ask::from(&bob).reserve(Duration::from_secs(9)))
                            .await
                            .unwrap();
                        assert!(hold.hold.is_some(), "{text}");
                    }
                }
                let left = limiter.check(Ask::new(&bob).peek()).await.unwrap().remaining();
                assert_eq!(left, remaining - 1, "{text}: {what}");
            }
        }
    });
}

/// Versions before debts would forget the use beyond the burst.
#[test]
fn what_is_owed_has_a_version_that_older_ones_refuse() {
    const START: Time = Time::from_micros(1_763_632_025_000_000);
    let server = redis_or_skip!();
    runtime().block_on(async {
        let (clock, bob) = (ManualClock::at_micros(0), Subject::literal("bob").unwrap());
        let options = Options::from_url(&server.url()).unwrap().deadline(Duration::from_secs(30));
        let store = RedisStore::builder(options).run("owed", clock.clone());
        let store = store.connect().await.unwrap();
        let version = |limits: &LimitSet| {
            let key = Keys::for_run("owed").state(&bob, limits);
            let Reply::Bulk(Some(state)) = server.command(&[b"GET", key.as_bytes()]) else {
                panic!("no state of {limits}")
            };
            char::from(state[0])
        };
        for (text, then) in [
            ("5/10s via gcra", '2'),
            ("5/10s via token_bucket", '2'),
            ("3/10s via uniform", '2'),
            ("5/10s refill interval via token_bucket", '2'),
            ("5/10s via gcra, 100/1h via fixed_window", '2'),
            ("5/10s via fixed_window", '1'),
            ("5/10s precision 5s via sliding_window", '1'),
        ] {
            server.command(&[b"FLUSHALL"]);
            clock.set(START);
            let limits: LimitSet = text.parse().unwrap();
            let limiter = Limiter::new(limits.clone(), store.clone());
            let capacity = limits.limits()[0].capacity();
            limiter.charge(Ask::new(&bob).cost(capacity)).await.unwrap();
            assert_eq!(version(&limits), '1', "{text}: all of it is used");
            limiter.charge(Ask::new(&bob)).await.unwrap();
            assert_eq!(version(&limits), then, "{text}: one more");
            assert!(!limiter.check(&bob).await.unwrap().is_allowed(), "{text}");
            assert_eq!(version(&limits), then, "{text}: after a denial");
            // Under lower numbers, a denial writes what is carried over.
            if limits.limits().len() == 1 {
                let lower: LimitSet = text.replacen(&text[..1], "2", 1).parse().unwrap();
                let lower = Limiter::new(lower, store.clone());
                assert!(!lower.check(&bob).await.unwrap().is_allowed(), "{text}");
                assert_eq!(version(&limits), then, "{text}: after a denial under lower numbers");
            }
            clock.set(START.plus(Duration::from_secs(200)));
            assert!(limiter.check(&bob).await.unwrap().is_allowed(), "{text}");
            assert_eq!(version(&limits), '1', "{text}: nothing is owed");
        }
    });
}

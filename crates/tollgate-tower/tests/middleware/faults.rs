//! Redis that freezes and dies, under each failure rule.

use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use tollgate_policy::{Authority, Gate, Outcome};
use tollgate_redis::RedisStore;
use tollgate_testbed::{RedisServer, redis_or_skip};
use tollgate_tower::TollgateLayer;

use crate::common::{from, policies, send};

const DEADLINE: Duration = tollgate_policy::DEFAULT_DEADLINE;

/// The time that a busy machine may take beyond a deadline, as `docs/faults.md` states it.
const SLACK: Duration = Duration::from_millis(100);

struct Rule {
    gate: Gate<RedisStore>,
    app: Router,
    /// The response to a request while the store fails.
    status: u16,
    outcome: Outcome,
    failed: u64,
    /// How many the store itself admitted.
    answered: u64,
}

impl Rule {
    async fn new(server: &RedisServer, name: &str, status: u16, outcome: Outcome) -> Self {
        let store = RedisStore::connect(&server.url()).await.unwrap();
        let policies = policies(&format!(
            "[[policies]]\nname = \"{name}\"\non_failure = \"{name}\"\ndeadline = \"50ms\"\n\
             limits = [{{ subject = \"ip\", limit = \"100000/h via gcra\" }}]"
        ));
        let gate = Gate::new(policies, store).unwrap();
        let layer = TollgateLayer::new(gate.clone()).unwrap();
        let app = Router::new().route("/", get(|| async { "hello" })).layer(layer);
        Self { gate, app, status, outcome, failed: 0, answered: 1 }
    }

    /// Requests for so long, each within its deadline and answered by the rule.
    async fn stand_in(&mut self, time: Duration) -> Vec<Duration> {
        let (end, mut took) = (Instant::now() + time, Vec::new());
        while Instant::now() < end {
            let began = Instant::now();
            let seen = send(&self.app, from("192.0.2.1", &[])).await;
            took.push(began.elapsed());
            assert_eq!(seen.status.as_u16(), self.status);
            // The remaining units are unknown, and not reported.
            assert_eq!(seen.header("ratelimit"), None);
            if self.status == 503 {
                assert_eq!(seen.header("retry-after"), Some("1"));
                assert!(seen.body.contains("temporary-reduced-capacity"), "{}", seen.body);
                assert!(seen.body.contains("\"deny\""), "{}", seen.body);
            }
            self.failed += 1;
            tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep-ok a client's pace
        }
        took.sort_unstable();
        took
    }

    fn counted(&self, outcome: Outcome, authority: Authority) -> u64 {
        self.gate.counters().policies()[0].1.get(outcome, authority)
    }

    /// The authority of every one of them was counted.
    fn is_counted(&self) {
        assert_eq!(self.counted(self.outcome, Authority::FailureRule), self.failed);
        assert_eq!(self.counted(Outcome::Allowed, Authority::Store), self.answered);
    }

    /// Until the store answers again: how long that took.
    async fn comes_back(&mut self) -> Duration {
        let began = Instant::now();
        loop {
            let seen = send(&self.app, from("192.0.2.1", &[])).await;
            if seen.header("ratelimit").is_some() {
                assert_eq!(seen.status.as_u16(), 200);
                self.answered += 1;
                return began.elapsed();
            }
            self.failed += 1;
            assert!(began.elapsed() < Duration::from_secs(5), "not back after 5 s");
            tokio::time::sleep(Duration::from_millis(20)).await; // tidy: sleep-ok a client's pace
        }
    }
}

fn within(took: &[Duration], what: &str) {
    let (p99, most) = (took[took.len() * 99 / 100], took[took.len() - 1]);
    println!("{what}: {} requests, p99 {p99:?}, at most {most:?}", took.len());
    assert!(p99 <= DEADLINE + SLACK, "{what}: p99 {p99:?}");
    assert!(most <= DEADLINE + 5 * SLACK, "{what}: at most {most:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_or_killed_redis_is_answered_for_within_the_deadline() {
    let mut server = redis_or_skip!();
    let mut allow = Rule::new(&server, "allow", 200, Outcome::FailedOpen).await;
    let mut deny = Rule::new(&server, "deny", 503, Outcome::FailedClosed).await;
    for rule in [&allow, &deny] {
        let seen = send(&rule.app, from("192.0.2.1", &[])).await;
        assert!(seen.header("ratelimit").is_some(), "{seen:?}");
    }
    server.freeze();
    let time = Duration::from_secs(10);
    let (open, closed) = tokio::join!(allow.stand_in(time), deny.stand_in(time));
    within(&open, "frozen, allow");
    within(&closed, "frozen, deny");
    allow.is_counted();
    deny.is_counted();
    server.thaw();
    let (open, closed) = tokio::join!(allow.comes_back(), deny.comes_back());
    println!("back after {open:?} and {closed:?}");

    server.kill();
    let time = Duration::from_secs(2);
    let (open, closed) = tokio::join!(allow.stand_in(time), deny.stand_in(time));
    within(&open, "killed, allow");
    within(&closed, "killed, deny");
    server.restart();
    let (open, closed) = tokio::join!(allow.comes_back(), deny.comes_back());
    println!("back after {open:?} and {closed:?}");
    allow.is_counted();
    deny.is_counted();
}

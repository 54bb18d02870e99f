//! A service that ends and starts again loses no count.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;

use crate::Place;
use crate::redis;
use crate::serving::{Client, LONG, Serving};

/// Clients that ask until they are stopped or the service is gone; how many charges were
/// acknowledged to all of them.
struct Load {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    denied: Arc<AtomicU64>,
    threads: Vec<thread::JoinHandle<()>>,
}

const CLIENTS: u64 = 8;

impl Load {
    fn on(address: SocketAddr, question: &str) -> Self {
        let (stop, acknowledged, denied) = (
            Arc::<AtomicBool>::default(),
            Arc::<AtomicU64>::default(),
            Arc::<AtomicU64>::default(),
        );
        let threads = (0..CLIENTS)
            .map(|_| {
                let question = question.to_owned();
                let (stop, acknowledged, denied) =
                    (Arc::clone(&stop), Arc::clone(&acknowledged), Arc::clone(&denied));
                thread::spawn(move || {
                    let Ok(mut client) = Client::connect(address) else { return };
                    while !stop.load(Ordering::Relaxed) {
                        let Ok(said) = client.check(&question) else { return };
                        // Only what the store decided is a charge or a denial.
                        if said["authority"] == "store" {
                            let counter =
                                if said["allowed"] == true { &acknowledged } else { &denied };
                            counter.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                })
            })
            .collect();
        Self { stop, acknowledged, denied, threads }
    }

    /// Until this many were acknowledged.
    fn until(&self, number: u64) {
        let start = Instant::now();
        while self.acknowledged.load(Ordering::Relaxed) < number {
            assert!(start.elapsed() < LONG, "only {:?}", self.acknowledged);
            thread::yield_now();
        }
    }

    fn ended(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        (self.acknowledged.load(Ordering::Relaxed), self.denied.load(Ordering::Relaxed))
    }
}

/// Kills the service under load, three times, and then asks until the limit is used up. The
/// acknowledged charges are never above it, and the missing ones were in flight.
fn no_charge_is_lost(place: &Place, store: &str) {
    const LIMIT: u64 = 2_000;
    const ROUNDS: u64 = 3;
    let question = format!(r#"{{"subject": "all", "limit": "{LIMIT}/30d via token_bucket"}}"#);
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let mut serving = Serving::start(place, &["--store", store]);
        let load = Load::on(serving.address, &question);
        load.until(LIMIT / (ROUNDS + 2));
        serving.program.kill();
        let (more, denied) = load.ended();
        acknowledged += more;
        assert_eq!(denied, 0, "round {round}: the limit is not reached yet");
    }
    let serving = Serving::start(place, &["--store", store]);
    let peek = serving.client().ask("POST", "/v1/peek", &question).unwrap().1;
    let left = serde_json::from_str::<Value>(&peek).unwrap()["remaining"].as_u64().unwrap();
    // Each client had one question in flight when its service was killed.
    let in_flight = ROUNDS * CLIENTS;
    println!("{acknowledged} acknowledged, {left} left, {LIMIT} in all, {in_flight} in flight");
    assert!(acknowledged + left <= LIMIT, "an acknowledged charge was lost");
    assert!(acknowledged + left + in_flight >= LIMIT, "charged what nobody asked");
    let mut client = serving.client();
    let mut after = 0;
    while client.check(&question).unwrap()["allowed"] == true {
        after += 1;
    }
    assert_eq!(after, left, "the bound is the bound, and all of it");
}

#[test]
fn no_acknowledged_charge_is_lost_on_sqlite_when_it_is_killed() {
    let place = Place::new();
    no_charge_is_lost(&place, &place.store());
}

#[test]
fn no_acknowledged_charge_is_lost_on_redis_when_it_is_killed() {
    let place = Place::new();
    let Some((_redis, url)) = redis::start(place.path(), &[]) else { return };
    // Under load a busy machine is not a fault of the store.
    no_charge_is_lost(&place, &format!("{url}?deadline=5s"));
}

#[test]
fn sigterm_and_a_restart_lose_no_count() {
    let place = Place::new();
    let question = r#"{"subject": "all", "limit": "1000/30d via token_bucket"}"#;
    let store = place.store();
    let mut acknowledged = 0;
    for _ in 0..3 {
        let serving = Serving::start(&place, &["--store", &store]);
        let load = Load::on(serving.address, question);
        load.until(100);
        serving.signal(Signal::TERM);
        let (code, log) = serving.ended();
        assert_eq!(code, 0, "{log}");
        acknowledged += load.ended().0;
    }
    let serving = Serving::start(&place, &["--store", &store]);
    let left = serving.client().ask("POST", "/v1/peek", question).unwrap().1;
    let left = serde_json::from_str::<Value>(&left).unwrap()["remaining"].as_u64().unwrap();
    // Requests in flight at a SIGTERM are answered.
    assert_eq!(acknowledged + left, 1_000);
}

#[test]
fn a_snapshot_keeps_the_counts_of_memory_over_a_restart() {
    let place = Place::new();
    let path = place.path().join("counts.tgs");
    let args = ["--snapshot", path.to_str().unwrap()];
    let question = r#"{"subject": "all", "limit": "5/30d via sliding_log", "receipt": true}"#;
    let mut receipt = Value::Null;
    for left in [4, 3, 2] {
        let serving = Serving::start(&place, &args);
        let said = serving.client().check(question).unwrap();
        assert_eq!(said["remaining"], left);
        receipt = said["receipt"].clone();
        serving.signal(Signal::TERM);
        let (code, log) = serving.ended();
        assert_eq!(code, 0, "{log}");
        assert!(log.contains("1 counts in"), "{log}");
    }
    // Nobody else may read who was counted.
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
    assert_eq!(mode & 0o777, 0o600);
    // After kill -9 it is that of the last clean end.
    let mut serving = Serving::start(&place, &args);
    assert_eq!(serving.client().check(question).unwrap()["remaining"], 1);
    serving.program.kill();
    drop(serving);
    let serving = Serving::start(&place, &args);
    assert_eq!(serving.client().check(question).unwrap()["remaining"], 1);
    // The key of receipts is another one in each process, unless one is given.
    let body = serde_json::json!({ "receipt": receipt }).to_string();
    assert_eq!(serving.client().ask("POST", "/v1/refund", &body).unwrap().0, 404);
    drop(serving);
    // A damaged one is refused, and left as it is.
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let (code, _, error) = place.run(&["serve", "--store", "memory://", args[0], args[1]]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("counts.tgs"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap().len(), whole.len() - 1);
    // Other stores keep their counts themselves.
    let (code, _, error) = place.run(&["serve", args[0], args[1], "--store", &place.store()]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("`--snapshot` is for the memory store"), "{error}");
}

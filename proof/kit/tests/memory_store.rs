//! The memory store against the conformance kit, and the memory that request ids take.
#![allow(clippy::unwrap_used)] // tests may unwrap

use std::time::Duration;

use tollgate::engine::MAX_REQUESTS;
use tollgate::{Ask, LimitSet, Limiter, ManualClock, MemoryStore, RequestId, Store as _};
use tollgate_proof::conformance::sweeping;

fn make(clock: ManualClock) -> MemoryStore {
    MemoryStore::builder().clock(clock).build()
}

fn forget(store: &MemoryStore) {
    store.sweep();
}

tollgate_proof::conformance_tests!(sweeping(make, forget));

#[test]
fn the_other_hash_is_no_other_store() {
    tollgate_proof::conformance::run(|clock: ManualClock| {
        MemoryStore::builder().sip_hash().clock(clock).build()
    });
}

/// Checks 1,000,000 requests in a minute, each under an id that is remembered for 30 s, of this
/// many subjects. Returns the store, and the most bytes that it had.
fn a_million_ids(subjects: u64, most_bytes: usize) -> (Limiter<MemoryStore>, usize) {
    let clock = ManualClock::at_micros(1_000_000_000);
    let store = MemoryStore::builder().clock(clock.clone()).max_bytes(most_bytes).build();
    let limits: LimitSet = "100000000/h via gcra".parse().unwrap();
    let (limiter, mut most) = (Limiter::new(limits, store), 0);
    for number in 0..1_000_000_u64 {
        clock.advance(Duration::from_micros(60));
        let subject = format!("user:{}", number % subjects);
        let id = format!("a request {number}");
        let id = RequestId::new(&id).remembered(Duration::from_secs(30));
        let decision = limiter.check(Ask::new(subject.as_str()).request(id)).now().unwrap();
        assert!(decision.is_allowed() && !decision.is_repeated(), "{number}");
        if number % 1_000 == 0 {
            most = most.max(limiter.store().bytes());
        }
    }
    (limiter, most)
}

fn is_repeated(limiter: &Limiter<MemoryStore>, subject: &str, number: u64) -> bool {
    let id = format!("a request {number}");
    limiter.check(Ask::new(subject).request(id.as_str())).now().unwrap().is_repeated()
}

#[test]
fn a_million_request_ids_of_one_count_take_what_a_few_thousand_take() {
    let (limiter, most) = a_million_ids(1, 64 << 20);
    println!("{most} bytes");
    assert!(most < 1 << 20, "{most}");
    // All but the last ones went before their time, which is reported.
    let forgotten = limiter.store().facts().forgotten_requests;
    let last = MAX_REQUESTS as u64;
    assert!((1_000_000 - last..=1_000_000 - last / 2).contains(&forgotten), "{forgotten}");
    for number in [999_999, 1_000_000 - last / 2] {
        assert!(is_repeated(&limiter, "user:0", number), "{number}");
    }
    assert!(!is_repeated(&limiter, "user:0", 1));
}

#[test]
fn a_million_request_ids_of_many_counts_take_what_the_store_has() {
    for most_bytes in [16 << 20, 512 << 20] {
        let (limiter, most) = a_million_ids(10_000, most_bytes);
        println!("{most} bytes of {most_bytes}");
        assert!(most <= most_bytes, "{most} of {most_bytes}");
        // With room nothing is forgotten; without, the last ones are remembered.
        let forgotten = limiter.store().facts().forgotten_requests;
        assert_eq!(forgotten > 0, most_bytes == 16 << 20, "{forgotten}");
        assert!(is_repeated(&limiter, "user:9999", 999_999));
    }
}

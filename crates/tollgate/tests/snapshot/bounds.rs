//! A store that is full, and one that is smaller, takes back what fits.

use super::*;

const LIMITS: [&str; 5] = [
    "5/1h via gcra",
    "5/1h via sliding_log",
    "5/1h via sliding_window",
    "5/1h via sliding_log, 6/1h via gcra",
    "5/1h refill interval via token_bucket",
];

/// A full store comes back into the same bound: everybody gets the same answer as before, subjects
/// that share a state share it still, and it takes no more bytes.
#[test]
fn a_full_store_fits_where_it_was() {
    for limits in LIMITS {
        for bytes in [400_000, 555_555, 800_000] {
            let clock = ManualClock::at_micros(START_US);
            let store = builder(&clock).max_bytes(bytes).build();
            let first = Limiter::new(limits.parse().unwrap(), store);
            let subjects: Vec<String> =
                (0..9_000)
                    .map(|i| {
                        if i % 2 == 0 { format!("user:{i}") } else { format!("a-long-key:{i:020}") }
                    })
                    .collect();
            for subject in &subjects {
                let _ = first.check(subject.as_str()).now().unwrap();
            }
            assert_eq!(first.store().refused(), 0, "{limits} {bytes}: too small to share");
            let held = first.store().bytes();
            let file = file(&first);
            let (store, seen) = builder(&clock).max_bytes(bytes).restore(&file[..]).unwrap();
            let second = Limiter::new(limits.parse().unwrap(), store);
            assert!(seen.shared > 200 && seen.subjects > 100, "{limits} {seen:?}");
            assert_eq!(second.store().subjects() as u64, seen.subjects);
            assert!(second.store().bytes() <= held, "{limits} {}", second.store().bytes());
            for subject in &subjects {
                let (one, two) = (said(&second, subject, 1), said(&first, subject, 1));
                assert_eq!(one, two, "{limits} {bytes} {subject}");
                let one = now(second.admin().inspect(subject.as_str())).unwrap();
                let two = now(first.admin().inspect(subject.as_str())).unwrap();
                assert_eq!(one, two, "{limits} {bytes} {subject}");
            }
        }
    }
}

/// Limits that changed to ones with larger states bring no store over its bound: who finds no room
/// is denied, and keeps the count that it had.
#[test]
fn a_full_store_whose_limits_have_larger_states_now_fits_where_it_was() {
    let clock = ManualClock::at_micros(START_US);
    let small: LimitSet = "a: 5/1h via gcra".parse().unwrap();
    let store = builder(&clock).max_bytes(300_000).build();
    let first = Limiter::new("a: 5/1h via sliding_window".parse().unwrap(), store);
    let subjects: Vec<String> = (0..4_000).map(|i| format!("user:{i}")).collect();
    for subject in &subjects {
        let _ = first.check(Ask::new(subject.as_str()).under(&small)).now().unwrap();
    }
    assert!(first.store().shared() > 0, "the store is not full");
    let refused = subjects.iter().filter(|subject| {
        let decision = first.check(subject.as_str()).now().unwrap();
        assert!(decision.is_shared() || decision.is_allowed());
        let inspected = now(first.admin().inspect(subject.as_str())).unwrap();
        let keeps =
            inspected.is_some_and(|held| !held.shared && held.written_under.contains("gcra"));
        assert!(!keeps || (decision.is_shared() && !decision.is_allowed()), "{subject}");
        keeps
    });
    let refused = refused.count() as u64;
    assert!(refused > 100, "{refused}");
    let held = first.store().bytes();
    assert!(held <= 300_000, "{held}");
    let file = file(&first);
    let (store, seen) = builder(&clock).max_bytes(300_000).restore(&file[..]).unwrap();
    assert!(store.bytes() <= held && seen.subjects > refused, "{seen:?}");
    assert!(builder(&clock).max_bytes(100_000).restore(&file[..]).is_err());
}

#[test]
fn a_smaller_store_refuses_what_does_not_fit() {
    for limits in LIMITS {
        let clock = ManualClock::at_micros(START_US);
        let first = limiter(limits, &clock);
        for i in 0..3_000 {
            let _ = first.check(format!("user:{i}")).now().unwrap();
        }
        let file = file(&first);
        let held = first.store().bytes();
        for bytes in [0, 1_000, held / 2, held - 1] {
            let Err(error) = builder(&clock).max_bytes(bytes).restore(&file[..]) else {
                // The same may take less room when it comes in one piece.
                assert!(bytes > held / 2, "{limits}: {bytes} of {held}");
                continue;
            };
            assert_eq!(error.fault(), SnapshotFault::TooLarge);
            let says = format!(
                "does not fit into the {bytes} bytes of this store, at byte {}: the store that \
                 was saved held {held}: give this one as many, by `max_bytes({most})` or `serve \
                 --memory {most}`",
                error.at(),
                most = tollgate::DEFAULT_BYTES
            );
            assert!(error.to_string().contains(&says), "{error}");
        }
        let (store, seen) = builder(&clock).max_bytes(held).restore(&file[..]).unwrap();
        assert_eq!((seen.subjects, store.subjects()), (3_000, 3_000));
        assert!(store.bytes() <= held);
    }
}

/// A store that hashes in another way has its subjects elsewhere. Counts come back all the same;
/// receipts do not, and shared states cannot.
#[test]
fn another_hash_keeps_the_counts_and_no_receipt() {
    let clock = ManualClock::at_micros(START_US);
    let limits = "5/1h via gcra, 7/1h via sliding_log";
    let first = limiter(limits, &clock);
    let receipt = first.check("user:0").now().unwrap().receipt().unwrap();
    for i in 0..2_000 {
        let _ = first.check(Ask::new(format!("user:{i}")).cost(i % 4 + 1)).now().unwrap();
    }
    let file_of_first = file(&first);
    let (store, seen) = builder(&clock).sip_hash().restore(&file_of_first[..]).unwrap();
    let second = Limiter::new(limits.parse().unwrap(), store);
    assert_eq!((seen.subjects, seen.receipts), (2_000, false));
    for i in 0..2_000 {
        let subject = format!("user:{i}");
        assert_eq!(said(&second, &subject, 1), said(&first, &subject, 1));
    }
    assert!(now(second.refund(&receipt)).unwrap_err().to_string().contains("another store"));
    assert!(!now(first.refund(&receipt)).unwrap().already);

    let full = builder(&clock).max_bytes(50_000).build();
    let full = Limiter::new(limits.parse().unwrap(), full);
    for i in 0..2_000 {
        let _ = full.check(format!("user:{i}")).now().unwrap();
    }
    let file = file(&full);
    let error = builder(&clock).sip_hash().restore(&file[..]).unwrap_err();
    assert_eq!(error.fault(), SnapshotFault::Shared);
    assert!(error.to_string().contains("sip_hash"), "{error}");
    assert!(builder(&clock).restore(&file[..]).is_ok());
    // Once none of that counts any more, it does not matter.
    clock.advance(Duration::from_secs(7_300));
    assert!(builder(&clock).sip_hash().restore(&file[..]).is_ok());
}

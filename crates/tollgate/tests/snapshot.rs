//! Snapshots of the memory store: what a restart keeps, and what becomes of files that are not as
//! they were written.
#![allow(clippy::unwrap_used)] // tests may unwrap

use std::future::Future;
use std::io::{self, Read, Write};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::{
    Ask, Carried, LimitSet, Limiter, ManualClock, MemoryStore, MemoryStoreBuilder, Restored,
    SnapshotError, SnapshotFault, Subject, Time,
};

/// The memory store answers at once.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("a memory store never waits"),
    }
}

const START_US: u64 = 1_000_000_000;

fn builder(clock: &ManualClock) -> MemoryStoreBuilder {
    MemoryStore::builder().clock(clock.clone())
}

fn limiter(limits: &str, clock: &ManualClock) -> Limiter {
    Limiter::new(limits.parse().unwrap(), builder(clock).build())
}

fn file(limiter: &Limiter) -> Vec<u8> {
    let mut file = Vec::new();
    let saved = limiter.store().save(&mut file).unwrap();
    assert_eq!(saved.bytes, file.len() as u64);
    file
}

fn restored(limits: &str, file: &[u8], clock: &ManualClock) -> (Limiter, Restored) {
    let (store, restored) = builder(clock).restore(file).unwrap();
    (Limiter::new(limits.parse().unwrap(), store), restored)
}

fn refusal(file: impl Read) -> SnapshotError {
    let error = MemoryStore::builder().restore(file).unwrap_err();
    assert!(!error.what().is_empty() && !error.remedy().is_empty());
    error
}

/// A store with something of everything that a snapshot can hold, but for shared states.
fn some_of_everything(clock: &ManualClock) -> Limiter {
    let limits = "5/10m via gcra, 3/1h via sliding_log, 9/1h via sliding_window";
    let limiter = limiter(limits, clock);
    let policy = "4/1h via fixed_window".parse::<LimitSet>().unwrap().in_policy("api").unwrap();
    let receipt = limiter.check_now("user:42").unwrap().receipt().unwrap();
    clock.advance(Duration::from_secs(1));
    let _ = limiter.check_now("user:42").unwrap();
    let long = "a-subject-of-more-than-sixteen-bytes";
    let _ = limiter.check_now(Ask::new(long).under(&policy)).unwrap();
    let _ = limiter.check_now("gone").unwrap();
    assert!(now(limiter.reset("gone")).unwrap());
    assert_eq!(now(limiter.refund(&receipt)).unwrap().given, [1, 1, 1]);
    limiter
}

#[test]
fn an_empty_store_comes_back_empty() {
    let clock = ManualClock::at_micros(START_US);
    let limiter = limiter("1/h", &clock);
    let file = file(&limiter);
    assert!(file.len() < 150, "{} bytes", file.len());
    let (limiter, restored) = restored("1/h", &file, &clock);
    assert_eq!((restored.subjects, restored.expired, restored.shared), (0, 0, 0));
    assert_eq!((restored.saved_at.as_micros(), restored.behind), (START_US, Duration::ZERO));
    assert_eq!((limiter.store().bytes(), limiter.store().subjects()), (0, 0));
    assert!(limiter.check_now("bob").unwrap().is_allowed());
}

/// A file of version 1 that was written when version 1 was new: it is read for ever, or the
/// version changes.
#[test]
fn the_first_version_is_still_read() {
    let file = include_bytes!("snapshot/version_1.tgs");
    let clock = ManualClock::at_micros(START_US + 1_000_000);
    let limits = "5/10m via gcra, 3/1h via sliding_log, 9/1h via sliding_window";
    let (limiter, restored) = restored(limits, file, &clock);
    assert_eq!((restored.subjects, restored.receipts), (2, true));
    let peek = limiter.peek_now("user:42").unwrap();
    let remaining: Vec<u64> = peek.reports().map(|report| report.remaining()).collect();
    assert_eq!(remaining, [4, 2, 8]);
    let policy = "4/1h via fixed_window".parse::<LimitSet>().unwrap().in_policy("api").unwrap();
    let long = Ask::new("a-subject-of-more-than-sixteen-bytes").under(&policy);
    assert_eq!(limiter.peek_now(long).unwrap().remaining(), 3);
    assert_eq!(limiter.peek_now("gone").unwrap().remaining(), 3);
}

#[test]
fn a_file_that_was_cut_off_anywhere_is_refused() {
    let clock = ManualClock::at_micros(START_US);
    let file = file(&some_of_everything(&clock));
    assert!((300..2_000).contains(&file.len()), "{} bytes", file.len());
    for length in 0..file.len() {
        let error = refusal(&file[..length]);
        assert_eq!((error.fault(), error.at()), (SnapshotFault::Truncated, length as u64));
    }
}

/// Every bit of every byte, and a few whole bytes.
#[test]
fn a_file_with_any_byte_changed_is_refused() {
    let clock = ManualClock::at_micros(START_US);
    let mut file = file(&some_of_everything(&clock));
    for at in 0..file.len() {
        for change in [1, 2, 4, 8, 16, 32, 64, 128, 0xff, 0x55] {
            file[at] ^= change;
            let error = refusal(&file[..]);
            let expected = match at {
                0..8 => &[SnapshotFault::Foreign][..],
                8..12 => &[SnapshotFault::Version],
                _ => &[SnapshotFault::Damaged, SnapshotFault::Truncated],
            };
            assert!(expected.contains(&error.fault()), "byte {at}: {error}");
            assert!(error.at() <= file.len() as u64, "byte {at}: {error}");
            file[at] ^= change;
        }
    }
    assert!(MemoryStore::builder().restore(&file[..]).is_ok());
}

#[test]
fn what_is_no_snapshot_says_so() {
    let clock = ManualClock::at_micros(START_US);
    let file = file(&some_of_everything(&clock));
    for (text, fault, at, says) in [
        (b"hello, this is a text".to_vec(), SnapshotFault::Foreign, 0, "byte for byte"),
        (vec![0; 5_000], SnapshotFault::Foreign, 0, "no snapshot of a memory store"),
        (vec![], SnapshotFault::Truncated, 0, "stops before its end"),
        ([&file[..], b"\n"].concat(), SnapshotFault::Damaged, file.len() as u64, "follows the end"),
        ([&file[..], &file[..]].concat(), SnapshotFault::Damaged, file.len() as u64, "follows"),
        (
            [&file[..8], &7_u32.to_le_bytes(), &file[12..]].concat(),
            SnapshotFault::Version,
            8,
            "has version 7, and this build reads 1 to 2, at byte 8: read it with the version of",
        ),
    ] {
        let error = refusal(&text[..]);
        assert_eq!((error.fault(), error.at()), (fault, at), "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(!error.is_transient());
    }
}

/// A reader that gives a few bytes at a time, and is interrupted between.
struct Trickle<'a>(&'a [u8], bool);

impl Read for Trickle<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let few = out.len().min(3);
        self.0.read(&mut out[..few])
    }
}

/// A reader and writer that fails after so many bytes.
struct Broken<'a>(&'a [u8], usize);

impl Read for Broken<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.1 == 0 {
            return Err(io::Error::other("the disk is on fire"));
        }
        let few = out.len().min(self.1);
        self.1 -= few;
        self.0.read(&mut out[..few])
    }
}

impl Write for Broken<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let few = bytes.len().min(self.1);
        self.1 -= few;
        if few == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(few) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.1 == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

#[test]
fn readers_and_writers_may_be_slow_and_may_fail() {
    let clock = ManualClock::at_micros(START_US);
    let limiter = some_of_everything(&clock);
    let file = file(&limiter);
    let (store, _) = builder(&clock).restore(Trickle(&file, false)).unwrap();
    assert_eq!(store.subjects(), 2);
    for after in 0..file.len() {
        let error = builder(&clock).restore(Broken(&file, after)).unwrap_err();
        assert_eq!((error.fault(), error.at()), (SnapshotFault::Io, after as u64));
        assert!(error.is_transient() && error.to_string().contains("on fire"), "{error}");
        let error = limiter.store().save(Broken(&[], after)).unwrap_err();
        assert_eq!(error.fault(), SnapshotFault::Io);
        assert!(std::error::Error::source(&error).is_some());
    }
    assert_eq!(
        limiter.store().save(Broken(&[], file.len())).unwrap_err().fault(),
        SnapshotFault::Io
    );
    // Nothing has changed by that.
    let again = self::file(&limiter);
    assert_eq!(again.len(), file.len());
}

/// Nothing is gathered before it is written: a store as large as the machine can be saved.
#[test]
fn a_snapshot_is_written_in_small_pieces() {
    struct Largest(usize, usize);
    impl Write for Largest {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.max(bytes.len());
            self.1 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let clock = ManualClock::at_micros(START_US);
    let limiter = limiter("200000/h via sliding_log", &clock);
    for i in 0..20_000 {
        clock.advance(Duration::from_micros(1));
        let _ = limiter.check_now("busy").unwrap();
        let _ = limiter.check_now(format!("idle:{i}")).unwrap();
    }
    let mut seen = Largest(0, 0);
    let saved = limiter.store().save(&mut seen).unwrap();
    assert_eq!((saved.subjects, saved.bytes), (20_001, seen.1 as u64));
    assert!(seen.1 > 1_000_000 && seen.0 <= 70_000, "{} of {}", seen.0, seen.1);
}

/// What a limiter says of a subject, in every field.
fn said(limiter: &Limiter, subject: &str, cost: u64) -> String {
    let decision = limiter.peek_now(Ask::new(subject).cost(cost)).unwrap();
    let mut said = format!("{:?} {:?}", decision.verdict(), decision.granted());
    for report in decision.reports() {
        let (retry, reset) = (report.retry_after(), report.reset_after());
        said += &format!(
            " {} {} {retry:?} {reset:?} {:?}",
            report.limit(),
            report.remaining(),
            report.carried()
        );
    }
    said
}

/// Limits are carried over from the numbers that a state was written under, as in one process.
#[test]
fn changed_limits_are_carried_over_after_a_restart() {
    for (before, after) in [
        ("a: 10/1m burst 6 via gcra", "a: 4/1m burst 9 via gcra"),
        ("a: 10/1m via fixed_window", "a: 3/2m via fixed_window"),
        ("a: 10/1m via sliding_log", "a: 4/30s via sliding_log"),
        ("a: 10/1m via sliding_window", "a: 20/2m precision 30s via sliding_window"),
        ("a: 9/1m refill interval via token_bucket", "a: 12/20s via token_bucket"),
        ("a: 1/1m via uniform", "a: 2/3m via uniform"),
        ("a: 10/1m via sliding_log", "a: 10/1m via fixed_window"),
        (
            "a: 10/1m via gcra, b: 20/1h via sliding_log",
            "b: 9/1h via sliding_log, a: 5/1m via gcra",
        ),
    ] {
        let clock = ManualClock::at_micros(START_US);
        let old = limiter(before, &clock);
        for _ in 0..5 {
            clock.advance(Duration::from_millis(1_700));
            let _ = old.check_now("bob").unwrap();
        }
        let file = file(&old);
        let uncut = Limiter::new(after.parse().unwrap(), old.store().clone());
        let (cut, _) = restored(after, &file, &clock);
        for seconds in [0, 7, 20, 40] {
            clock.advance(Duration::from_secs(seconds));
            for cost in 1..4 {
                assert_eq!(said(&cut, "bob", cost), said(&uncut, "bob", cost), "{before} {after}");
            }
            let (one, two) = (cut.check_now("bob").unwrap(), uncut.check_now("bob").unwrap());
            assert_eq!(one.verdict(), two.verdict());
            if seconds == 0 {
                assert_ne!(one.binding().carried(), Carried::Same, "{before} {after}");
            }
        }
    }
}

/// A receipt from before is given back after a restart, and after another: once.
#[test]
fn an_old_receipt_is_refunded_once() {
    let clock = ManualClock::at_micros(START_US);
    let first = limiter("5/1h via gcra", &clock);
    let shared: LimitSet = "7/1h via sliding_log".parse().unwrap();
    let pair = || [("bob", first.limits()), ("everybody", &shared)];
    let mut receipts = Vec::new();
    for _ in 0..3 {
        receipts.push(first.check_now(pair()).unwrap().receipt().unwrap());
    }
    assert_eq!(now(first.refund(&receipts[0])).unwrap().given, [1, 1]);
    let (second, _) = restored("5/1h via gcra", &file(&first), &clock);
    assert!(now(second.refund(&receipts[0])).unwrap().already);
    assert_eq!(now(second.refund(&receipts[1])).unwrap().given, [1, 1]);
    assert!(now(second.refund(&receipts[1])).unwrap().already);
    receipts.push(second.check_now(pair()).unwrap().receipt().unwrap());
    let (third, _) = restored("5/1h via gcra", &file(&second), &clock);
    for (index, already) in [(0, true), (1, true), (2, false), (3, false), (3, true)] {
        assert_eq!(now(third.refund(&receipts[index])).unwrap().already, already, "{index}");
    }
    assert_eq!(third.peek_now("bob").unwrap().remaining(), 5);
    let all: Vec<(u64, u64)> = receipts.iter().map(|r| (r.store, r.number)).collect();
    assert!((0..4).all(|i| all.iter().filter(|id| **id == all[i]).count() == 1), "{all:?}");
}

/// A snapshot does not know what was charged after it. A receipt of that is another store's, and
/// no later charge gets its number.
#[test]
fn receipts_that_a_snapshot_does_not_know_are_refused() {
    let clock = ManualClock::at_micros(START_US);
    let first = limiter("500/1h via gcra", &clock);
    let known = first.check_now("bob").unwrap().receipt().unwrap();
    let file = file(&first);
    // It went on, and so did the store that came next; then the old snapshot is read again.
    let mut unknown = vec![];
    let (second, _) = restored("500/1h via gcra", &file, &clock);
    for i in 0..300 {
        for store in [&first, &second] {
            unknown.push(store.check_now(format!("user:{i}")).unwrap().receipt().unwrap());
        }
    }
    let (third, _) = restored("500/1h via gcra", &file, &clock);
    for receipt in &unknown {
        let error = now(third.refund(receipt)).unwrap_err().to_string();
        assert!(error.contains("another store"), "{error}");
    }
    assert!(!now(third.refund(&known)).unwrap().already);
    for i in 0..300 {
        let receipt = third.check_now(format!("user:{i}")).unwrap().receipt().unwrap();
        assert!(unknown.iter().all(|other| other.store != receipt.store));
        assert!(!now(third.refund(&receipt)).unwrap().already);
    }
}

/// Where there was no room to remember more refunds, the oldest receipts give nothing; after a
/// restart as well.
#[test]
fn receipts_that_had_to_be_forgotten_stay_so() {
    let clock = ManualClock::at_micros(START_US);
    // Room for the set and for what newcomers share, and for nothing beside.
    let has_room = |bytes: &usize| {
        let store = builder(&clock).max_bytes(*bytes).build();
        Limiter::new("100/1h via gcra".parse().unwrap(), store)
            .check_now("bob")
            .unwrap()
            .is_allowed()
    };
    let bytes = (0..9_999).find(has_room).unwrap();
    let store = builder(&clock).max_bytes(bytes).build();
    let first = Limiter::new("100/1h via gcra".parse().unwrap(), store);
    let receipts: Vec<_> =
        (0..16).map(|_| first.check_now("bob").unwrap().receipt().unwrap()).collect();
    for receipt in receipts[8..].iter().rev() {
        let _ = now(first.refund(receipt)).unwrap();
    }
    let file = file(&first);
    let (store, seen) = builder(&clock).max_bytes(bytes).restore(&file[..]).unwrap();
    assert_eq!((seen.subjects, seen.shared), (0, 1));
    let second = Limiter::new(first.limits().clone(), store);
    for receipt in &receipts {
        assert!(now(first.refund(receipt)).unwrap().already);
        assert!(now(second.refund(receipt)).unwrap().already);
    }
}

/// A reset is remembered over a restart: what was charged before it gives nothing.
#[test]
fn a_reset_stays_a_reset() {
    let clock = ManualClock::at_micros(START_US);
    let first = limiter("5/1h via gcra", &clock);
    let old = first.check_now(Ask::new("bob").cost(3)).unwrap().receipt().unwrap();
    assert!(now(first.reset("bob")).unwrap());
    let new = first.check_now(Ask::new("bob").cost(2)).unwrap().receipt().unwrap();
    let (second, _) = restored("5/1h via gcra", &file(&first), &clock);
    assert_eq!(now(second.refund(&old)).unwrap().given, [0]);
    assert_eq!(now(second.refund(&new)).unwrap().given, [2]);
    let later = second.check_now("bob").unwrap().receipt().unwrap();
    assert_eq!(now(second.refund(&later)).unwrap().given, [1]);
}

/// The wall clock went back while nobody looked: as when it does in one process.
#[test]
fn a_clock_that_is_behind_after_a_restart_is_a_clock_that_stepped_back() {
    for limits in [
        "10/10s burst 3 via gcra",
        "3/10s via fixed_window",
        "3/10s anchor first-hit via fixed_window",
        "3/10s via sliding_log",
        "3/10s via sliding_window",
        "3/10s refill interval via token_bucket",
    ] {
        for behind_us in [1, 400_000, 1_000_000, 1_000_001, 7_000_000, 900_000_000] {
            let clock = ManualClock::at_micros(START_US);
            let uncut = limiter(limits, &clock);
            assert!(uncut.check_now(Ask::new("bob").cost(3)).unwrap().is_allowed());
            let file = file(&uncut);
            clock.set(Time::from_micros(START_US - behind_us));
            let (cut, restored) = restored(limits, &file, &clock);
            assert_eq!(restored.behind, Duration::from_micros(behind_us));
            for _ in 0..3 {
                assert_eq!(said(&cut, "bob", 1), said(&uncut, "bob", 1), "{limits} {behind_us}");
                let (one, two) = (cut.check_now("bob").unwrap(), uncut.check_now("bob").unwrap());
                assert_eq!(one.verdict(), two.verdict(), "{limits} {behind_us}");
                let wait = one.retry_after().unwrap_or_default();
                assert!(wait <= Duration::from_secs(12), "{limits} {behind_us}: {wait:?}");
                clock.advance(wait);
            }
        }
    }
}

#[test]
fn what_has_expired_is_left_out() {
    let clock = ManualClock::at_micros(START_US);
    let first = limiter("5/1s via gcra", &clock);
    let _ = first.check_now("early").unwrap();
    clock.advance(Duration::from_millis(1_300));
    let _ = first.check_now("late").unwrap();
    let file = file(&first);
    // 0.2 s after its charge a subject of 5/s owes nothing, and is kept for a second more.
    assert_eq!(first.store().subjects(), 1);
    let (second, seen) = restored("5/1s via gcra", &file, &clock);
    assert_eq!((seen.subjects, seen.expired, second.store().subjects()), (1, 0, 1));
    clock.advance(Duration::from_secs(1));
    assert_eq!(restored("5/1s via gcra", &file, &clock).1.subjects, 1);
    clock.advance(Duration::from_secs(3));
    let (third, seen) = restored("5/1s via gcra", &file, &clock);
    assert_eq!((seen.subjects, seen.expired, third.store().subjects()), (0, 1, 0));
}

const LIMITS: [&str; 5] = [
    "5/1h via gcra",
    "5/1h via sliding_log",
    "5/1h via sliding_window",
    "5/1h via sliding_log, 6/1h via gcra",
    "5/1h refill interval via token_bucket",
];

/// A full store comes back into the same bound: everybody is told the same as before, who shares
/// a state shares it still, and it takes no more bytes.
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
                let _ = first.check_now(subject.as_str()).unwrap();
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
                let one = now(second.inspect(subject.as_str())).unwrap();
                let two = now(first.inspect(subject.as_str())).unwrap();
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
        let _ = first.check_now(Ask::new(subject.as_str()).under(&small)).unwrap();
    }
    assert!(first.store().shared() > 0, "the store is not full");
    let refused = subjects.iter().filter(|subject| {
        let decision = first.check_now(subject.as_str()).unwrap();
        assert!(decision.is_shared() || decision.is_allowed());
        let inspected = now(first.inspect(subject.as_str())).unwrap();
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
            let _ = first.check_now(format!("user:{i}")).unwrap();
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
    let receipt = first.check_now("user:0").unwrap().receipt().unwrap();
    for i in 0..2_000 {
        let _ = first.check_now(Ask::new(format!("user:{i}")).cost(i % 4 + 1)).unwrap();
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
        let _ = full.check_now(format!("user:{i}")).unwrap();
    }
    let file = file(&full);
    let error = builder(&clock).sip_hash().restore(&file[..]).unwrap_err();
    assert_eq!(error.fault(), SnapshotFault::Shared);
    assert!(error.to_string().contains("sip_hash"), "{error}");
    assert!(builder(&clock).restore(&file[..]).is_ok());
    // Once nothing of that counts any more, it does not matter.
    clock.advance(Duration::from_secs(7_300));
    assert!(builder(&clock).sip_hash().restore(&file[..]).is_ok());
}

/// Threads charge two subjects at a time while others save: no snapshot holds half of a check.
#[test]
fn no_snapshot_holds_half_of_a_check() {
    let clock = ManualClock::at_micros(START_US);
    let limiter = limiter("1000000/1h via gcra", &clock);
    let left: LimitSet = "l: 1000000/1h via sliding_log".parse().unwrap();
    let right: LimitSet = "r: 1000000/1h via fixed_window".parse().unwrap();
    let pairs = ["ann", "bob", "eve"];
    let used = |limiter: &Limiter, subject: &str, limits: &LimitSet| {
        1_000_000 - limiter.peek_now(Ask::new(subject).under(limits)).unwrap().remaining()
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (limiter, left, right, done) = (&limiter, &left, &right, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    for name in pairs {
                        let other = format!("{name}:other");
                        let ask = if thread == 0 {
                            Ask::from([(name, left), (other.as_str(), right)])
                        } else {
                            Ask::from([(other.as_str(), right), (name, left)])
                        };
                        assert!(limiter.check_now(ask).unwrap().is_allowed());
                    }
                }
            });
        }
        let mut seen = 0;
        for _ in 0..300 {
            let mut file = Vec::new();
            limiter.store().save(&mut file).unwrap();
            let (store, _) = builder(&clock).restore(&file[..]).unwrap();
            let cut = Limiter::new(limiter.limits().clone(), store);
            for name in pairs {
                let (one, two) =
                    (used(&cut, name, &left), used(&cut, &format!("{name}:other"), &right));
                assert_eq!(one, two, "{name}");
                seen += one;
            }
        }
        done.store(true, Ordering::Relaxed);
        assert!(seen > 0, "nobody was charged meanwhile");
    });
}

/// Subjects are kept byte by byte, in whatever form they came.
#[test]
fn odd_subjects_come_back() {
    let clock = ManualClock::at_micros(START_US);
    let first = limiter("1/1h via gcra", &clock);
    let mut subjects: Vec<Subject> = ["a,b:c", "%41", "é", "a b", "\0", "::1", "key:x", "x"]
        .iter()
        .map(|text| Subject::new("user", text).unwrap())
        .collect();
    subjects.push(Subject::parse("b:1,a:2,key:3").unwrap());
    subjects.push(Subject::new("k", vec![b'%'; 21_844]).unwrap());
    subjects.extend((1..40).map(|length| Subject::new("key", "y".repeat(length)).unwrap()));
    for subject in &subjects {
        assert!(first.check_now(subject.clone()).unwrap().is_allowed());
    }
    let (second, seen) = restored("1/1h via gcra", &file(&first), &clock);
    assert_eq!(seen.subjects, subjects.len() as u64);
    for subject in &subjects {
        assert!(!second.check_now(subject.clone()).unwrap().is_allowed(), "{subject}");
    }
}

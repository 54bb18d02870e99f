//! Snapshots of the memory store: the state after a restart, and files that were changed.
#![allow(clippy::unwrap_used)] // tests may unwrap

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate::{
    Ask, Carried, LimitSet, Limiter, ManualClock, MemoryStore, MemoryStoreBuilder, Restored,
    SnapshotError, SnapshotFault, Subject, Time, at_once,
};

mod bounds;
mod restarts;

/// The memory store answers immediately.
fn now<T>(future: impl Future<Output = T>) -> T {
    at_once(future).unwrap()
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
    let receipt = limiter.check("user:42").now().unwrap().receipt().unwrap();
    clock.advance(Duration::from_secs(1));
    let _ = limiter.check("user:42").now().unwrap();
    let long = "a-subject-of-more-than-sixteen-bytes";
    let _ = limiter.check(Ask::new(long).under(&policy)).now().unwrap();
    let _ = limiter.check("gone").now().unwrap();
    assert!(now(limiter.admin().reset("gone")).unwrap());
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
    assert!(limiter.check("bob").now().unwrap().is_allowed());
}

/// A file of version 1 that was written when version 1 was new: it is read for ever, or the
/// version changes.
#[test]
fn the_first_version_is_still_read() {
    let file = include_bytes!("version_1.tgs");
    let clock = ManualClock::at_micros(START_US + 1_000_000);
    let limits = "5/10m via gcra, 3/1h via sliding_log, 9/1h via sliding_window";
    let (limiter, restored) = restored(limits, file, &clock);
    assert_eq!((restored.subjects, restored.receipts), (2, true));
    let peek = limiter.check(Ask::new("user:42").peek()).now().unwrap();
    let remaining: Vec<u64> = peek.reports().map(|report| report.remaining()).collect();
    assert_eq!(remaining, [4, 2, 8]);
    let policy = "4/1h via fixed_window".parse::<LimitSet>().unwrap().in_policy("api").unwrap();
    let long = Ask::new("a-subject-of-more-than-sixteen-bytes").under(&policy);
    assert_eq!(limiter.check(long.peek()).now().unwrap().remaining(), 3);
    assert_eq!(limiter.check(Ask::new("gone").peek()).now().unwrap().remaining(), 3);
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
        (vec![0; 5_000], SnapshotFault::Foreign, 0, "not a snapshot of a memory store"),
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
        let _ = limiter.check("busy").now().unwrap();
        let _ = limiter.check(format!("idle:{i}")).now().unwrap();
    }
    let mut seen = Largest(0, 0);
    let saved = limiter.store().save(&mut seen).unwrap();
    assert_eq!((saved.subjects, saved.bytes), (20_001, seen.1 as u64));
    assert!(seen.1 > 1_000_000 && seen.0 <= 70_000, "{} of {}", seen.0, seen.1);
}

/// A limiter's answer about a subject, in every field.
fn said(limiter: &Limiter, subject: &str, cost: u64) -> String {
    let decision = limiter.check(Ask::new(subject).cost(cost).peek()).now().unwrap();
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

#[test]
fn what_has_expired_is_left_out() {
    let clock = ManualClock::at_micros(START_US);
    let first = limiter("5/1s via gcra", &clock);
    let _ = first.check("early").now().unwrap();
    clock.advance(Duration::from_millis(1_300));
    let _ = first.check("late").now().unwrap();
    let file = file(&first);
    // 0.2 s after its charge a subject of 5/s has no debt, and is kept for a second more.
    assert_eq!(first.store().subjects(), 1);
    let (second, seen) = restored("5/1s via gcra", &file, &clock);
    assert_eq!((seen.subjects, seen.expired, second.store().subjects()), (1, 0, 1));
    clock.advance(Duration::from_secs(1));
    assert_eq!(restored("5/1s via gcra", &file, &clock).1.subjects, 1);
    clock.advance(Duration::from_secs(3));
    let (third, seen) = restored("5/1s via gcra", &file, &clock);
    assert_eq!((seen.subjects, seen.expired, third.store().subjects()), (0, 1, 0));
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
        1_000_000 - limiter.check(Ask::new(subject).under(limits).peek()).now().unwrap().remaining()
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
                        assert!(limiter.check(ask).now().unwrap().is_allowed());
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
        assert!(first.check(subject.clone()).now().unwrap().is_allowed());
    }
    let (second, seen) = restored("1/1h via gcra", &file(&first), &clock);
    assert_eq!(seen.subjects, subjects.len() as u64);
    for subject in &subjects {
        assert!(!second.check(subject.clone()).now().unwrap().is_allowed(), "{subject}");
    }
}

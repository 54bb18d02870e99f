//! A file beyond answering: denials write nothing, expired entries go, receipts work from every
//! process, async callers are not blocked.

#![allow(clippy::expect_used, clippy::unwrap_used)] // a test that cannot go on has failed

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use rusqlite::Connection;
use tollgate::engine::MAX_REQUESTS;
use tollgate::{Ask, Clock, LimitSet, Limiter, ManualClock, Receipt, RequestId, SKEW_US, Time};
use tollgate_sqlite::{Options, SqliteStore};

struct Kit {
    clock: ManualClock,
    dir: tempfile::TempDir,
}

impl Kit {
    fn new() -> Self {
        let clock = ManualClock::at_micros(1_700_000_000_000_000);
        Self { clock, dir: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("counts.db")
    }

    fn limiter(&self, limits: &str) -> Limiter<SqliteStore> {
        let options = Options::new(self.path()).clock(self.clock.clone());
        let store = SqliteStore::open_with(options).expect("a store");
        Limiter::new(limits.parse().expect("limits"), store)
    }

    fn raw(&self) -> Connection {
        Connection::open(self.path()).expect("the file")
    }

    fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        self.raw().query_row(&sql, [], |row| row.get(0)).expect("a count")
    }

    fn expire(&self, after: Duration) {
        self.clock.advance(after + Duration::from_micros(SKEW_US));
    }
}

fn allowed(limiter: &Limiter<SqliteStore>, subject: &str) -> bool {
    block_on(limiter.check(subject)).expect("a decision").is_allowed()
}

/// Changes whenever another connection has committed something.
fn data_version(conn: &Connection) -> i64 {
    conn.query_row("SELECT data_version FROM pragma_data_version", [], |row| row.get(0))
        .expect("a version")
}

#[test]
fn denials_and_looks_write_nothing() {
    let kit = Kit::new();
    for limits in ["2/h via gcra", "2/h via sliding_log", "2/h, 9/d via fixed_window"] {
        let limiter = kit.limiter(limits);
        for i in 0..100 {
            assert!(allowed(&limiter, &format!("user:{i}")));
        }
        while allowed(&limiter, "ann") {}
        let raw = kit.raw();
        let before = data_version(&raw);
        assert!(!allowed(&limiter, "ann"));
        let never = block_on(limiter.check(Ask::new("new").cost(10))).expect("a decision");
        assert!(never.is_never());
        assert!(block_on(limiter.check(Ask::new("new").peek())).expect("a decision").is_allowed());
        block_on(limiter.admin().inspect("ann")).expect("inspected").expect("a state");
        // The first question of a process is when it would sweep.
        assert!(!allowed(&kit.limiter(limits), "ann"));
        // Other numbers, so that a check would carry the state over.
        let other = kit.limiter(&limits.replace("2/h", "1/h"));
        assert!(!block_on(other.check(Ask::new("ann").peek())).expect("a decision").is_allowed());
        let wide = kit.limiter(&limits.replace("2/h", "5/h"));
        assert!(block_on(wide.check(Ask::new("ann").peek())).expect("a decision").is_allowed());
        assert_eq!(data_version(&raw), before, "{limits}");
        // Only a count that was carried over to other numbers is kept by a denial, and once.
        assert!(!allowed(&other, "ann"));
        let after = data_version(&raw);
        assert_ne!(after, before, "{limits}");
        assert!(!allowed(&other, "ann"));
        assert_eq!(data_version(&raw), after, "{limits}");
    }
}

#[test]
fn the_same_limits_count_apart_in_each_policy() {
    let kit = Kit::new();
    let limiter = kit.limiter("1/h via gcra");
    let sets = ["one", "two"].map(|name| limiter.limits().clone().in_policy(name).expect("a name"));
    for set in std::iter::once(limiter.limits()).chain(&sets) {
        let ask = || block_on(limiter.check(Ask::new("bob").under(set))).expect("a decision");
        let first = ask();
        assert!(first.is_allowed(), "{}", set.identity());
        assert!(!ask().is_allowed(), "{}", set.identity());
        let receipt = first.receipt().expect("charged");
        assert_eq!(block_on(limiter.refund(&receipt)).expect("an answer").given, [1]);
        assert!(ask().is_allowed(), "{}", set.identity());
    }
}

#[test]
fn writes_take_expired_rows_away_and_their_events() {
    let kit = Kit::new();
    let limiter = kit.limiter("3/10s via sliding_log, 100/m via gcra");
    for i in 0..500 {
        assert!(allowed(&limiter, &format!("user:{i}")));
    }
    assert_eq!((kit.count("states"), kit.count("entries")), (500, 500));
    kit.expire(Duration::from_secs(60));
    // A process that makes one check and ends moves on where the last one stopped.
    for i in 0..10 {
        let before = kit.count("states");
        assert!(allowed(
            &kit.limiter("3/10s via sliding_log, 100/m via gcra"),
            &format!("one:{i}")
        ));
        assert!((before - 64..=before + 1).contains(&kit.count("states")));
    }
    assert_eq!((kit.count("states"), kit.count("entries")), (10, 10));
    kit.expire(Duration::from_secs(60));
    assert_eq!(limiter.store().sweep().expect("swept"), 10);
    assert_eq!((kit.count("states"), kit.count("entries")), (0, 0));
    assert_eq!(limiter.store().sweep().expect("swept"), 0);
}

#[test]
fn what_still_counts_is_not_swept_and_a_second_longer() {
    let kit = Kit::new();
    let limiter = kit.limiter("1/10s via sliding_log");
    assert!(allowed(&limiter, "ann"));
    kit.clock.advance(Duration::from_micros(10_000_000 + SKEW_US - 1));
    assert_eq!(limiter.store().sweep().expect("swept"), 0);
    kit.clock.advance(Duration::from_micros(1));
    assert_eq!(limiter.store().sweep().expect("swept"), 1);
}

#[test]
fn a_long_log_goes_bit_by_bit() {
    let kit = Kit::new();
    let limiter = kit.limiter("5000/10s via sliding_log");
    for _ in 0..3_000 {
        kit.clock.advance(Duration::from_micros(1));
        assert!(allowed(&limiter, "ann"));
    }
    assert_eq!(kit.count("entries"), 3_000);
    kit.expire(Duration::from_secs(10));
    // The first write of a process sweeps: 1,024 events at most.
    assert!(allowed(&kit.limiter("1/d via gcra"), "bob"));
    assert_eq!(kit.count("entries"), 3_000 - 1_024);
    // The subject comes back meanwhile: the rest does not count, and goes on expiring.
    assert_eq!(block_on(limiter.check("ann")).expect("a decision").remaining(), 4_999);
    assert_eq!(kit.count("entries"), 3_000 - 2 * 1_024 + 1);
    kit.clock.advance(Duration::from_micros(1));
    assert_eq!(block_on(limiter.check("ann")).expect("a decision").remaining(), 4_998);
    assert_eq!(kit.count("entries"), 2);
    assert!(block_on(limiter.admin().reset("ann")).expect("reset"));
    assert_eq!(kit.count("entries"), 0);
}

#[test]
fn a_refund_works_from_every_process_and_once() {
    let kit = Kit::new();
    let charging = kit.limiter("5/h via sliding_log, 5/h via gcra");
    let decision = block_on(charging.check(Ask::new("ann").cost(3))).expect("a decision");
    let receipt = decision.receipt().expect("charged");
    let other = kit.limiter("5/h via sliding_log, 5/h via gcra");
    assert_eq!(block_on(other.refund(&receipt)).expect("given").given, [3, 3]);
    assert_eq!(kit.count("entries") + kit.count("states"), 0, "all was given back");
    let third = kit.limiter("5/h via sliding_log, 5/h via gcra");
    let again = block_on(third.refund(&receipt)).expect("an answer");
    assert!(again.already);
    assert_eq!(again.given, [0, 0]);
    assert_eq!(kit.count("spent"), 1);
    kit.expire(Duration::from_secs(3_600));
    third.store().sweep().expect("swept");
    assert_eq!(kit.count("spent"), 0);
    let late = block_on(third.refund(&receipt)).expect("an answer");
    assert_eq!(late.given, [0, 0]);
    let elsewhere = Kit::new().limiter("5/h via sliding_log, 5/h via gcra");
    assert!(block_on(elsewhere.refund(&receipt)).is_err(), "another file, another store");
}

#[test]
fn a_receipt_from_before_a_reset_gives_nothing_and_one_from_after_does() {
    for limits in ["5/h via sliding_log", "5/h via gcra", "5/h via fixed_window, 9/h via gcra"] {
        let kit = Kit::new();
        // Each has separate numbers to hand out, taken in another order than used.
        let (one, two) = (kit.limiter(limits), kit.limiter(limits));
        let charge = |limiter: &Limiter<SqliteStore>, who: &str| {
            block_on(limiter.check(who)).expect("a decision").receipt().expect("charged")
        };
        let bob = charge(&two, "bob");
        let before = [charge(&one, "ann"), charge(&two, "ann")];
        assert!(block_on(one.admin().reset("ann")).expect("reset"));
        assert!(!block_on(one.admin().reset("ann")).expect("reset"));
        assert_eq!(kit.count("resets"), 1);
        // All of it in one microsecond.
        let after = [charge(&two, "ann"), charge(&one, "ann"), charge(&two, "ann")];
        let given = |receipt: &Receipt| block_on(one.refund(receipt)).expect("an answer").given;
        let limits_of = two.limits().limits().len();
        for receipt in &before {
            assert_eq!(given(receipt), vec![0; limits_of], "{limits}");
            let again = block_on(two.refund(receipt)).expect("an answer");
            assert!(again.already, "{limits}");
        }
        for receipt in &after {
            assert_eq!(given(receipt), vec![1; limits_of], "{limits}");
        }
        assert_eq!(given(&bob), vec![1; limits_of], "{limits}: another subject");
        // Neither does one of a clock that lay behind the reset's time, or ahead of it.
        let early = charge(&two, "ann");
        kit.clock.set(Time::from_micros(kit.clock.now().as_micros() - 500_000));
        assert!(block_on(one.admin().reset("ann")).expect("reset"));
        let late = charge(&two, "ann");
        assert_eq!((given(&early), given(&late)), (vec![0; limits_of], vec![1; limits_of]));
        // Remembered for as long as a charge could count, and a second longer.
        kit.clock.advance(Duration::from_micros(3_600_000_000 + 2 * SKEW_US - 1));
        one.store().sweep().expect("swept");
        assert_eq!(kit.count("resets"), 1, "{limits}");
        kit.clock.advance(Duration::from_secs(3_600));
        one.store().sweep().expect("swept");
        assert_eq!(kit.count("resets") + kit.count("spent"), 0, "{limits}");
    }
}

#[test]
fn marks_of_resets_go_with_the_writes() {
    let kit = Kit::new();
    let limiter = kit.limiter("5/10s via gcra");
    for i in 0..300 {
        let who = format!("user:{i}");
        assert!(allowed(&limiter, &who));
        assert!(block_on(limiter.admin().reset(&who)).expect("reset"));
    }
    assert_eq!((kit.count("states"), kit.count("resets")), (0, 300));
    kit.expire(Duration::from_secs(12));
    for i in 0..200 {
        assert!(allowed(&limiter, &format!("other:{i}")));
    }
    assert_eq!(kit.count("resets"), 0);
}

/// A refund counts under the numbers of now, and once the charge's own have run out no more.
#[test]
fn a_receipt_is_given_back_once_and_only_while_its_own_numbers_count_it() {
    let kit = Kit::new();
    let limiter = kit.limiter("x: 10/10s via gcra");
    let receipt = block_on(limiter.check(Ask::new("ann").cost(5))).expect("a decision").receipt();
    let receipt = receipt.expect("charged");
    let slow = kit.limiter("x: 10/h via gcra");
    let decision = block_on(slow.check(Ask::new("ann").cost(5))).expect("a decision");
    assert_eq!(decision.remaining(), 0);
    kit.clock.advance(Duration::from_secs(20));
    let late = block_on(slow.refund(&receipt)).expect("an answer");
    assert_eq!((late.already, late.given), (false, vec![0]));
    let bobs = block_on(limiter.check(Ask::new("bob").cost(5))).expect("a decision").receipt();
    let bobs = bobs.expect("charged");
    assert!(block_on(slow.check(Ask::new("bob").cost(5))).expect("a decision").is_allowed());
    assert_eq!(block_on(slow.refund(&bobs)).expect("an answer").given, [5]);
    kit.clock.advance(Duration::from_secs(20));
    let again = block_on(slow.refund(&bobs)).expect("an answer");
    assert_eq!((again.already, again.given), (true, vec![0]));
    let again = block_on(slow.refund(&receipt)).expect("an answer");
    assert_eq!((again.already, again.given), (true, vec![0]));
    // The numbers that the state was written under are those of now, whoever gives back.
    assert_eq!(block_on(limiter.refund(&receipt)).expect("an answer").given, [0]);
    let held = block_on(limiter.admin().inspect("ann")).expect("inspected").expect("a state");
    assert_eq!(held.written_under, slow.limits().full_text());
}

#[test]
fn a_future_that_is_dropped_before_it_is_asked_charges_nothing() {
    let kit = Kit::new();
    let limiter = kit.limiter("1/h");
    drop(limiter.check("ann"));
    assert_eq!(block_on(limiter.check(Ask::new("ann").peek())).expect("a decision").remaining(), 1);
    // The file is locked by another: the question waits in the store's thread.
    let other = kit.raw();
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let mut context = Context::from_waker(Waker::noop());
    {
        let mut first = pin!(limiter.check("bob"));
        assert!(first.as_mut().poll(&mut context).is_pending(), "the caller is not blocked");
        let mut second = pin!(limiter.check("ann"));
        assert!(second.as_mut().poll(&mut context).is_pending());
        other.execute_batch("ROLLBACK").expect("the lock goes");
        // Only the first is waited for.
        assert!(block_on(first).expect("a decision").is_allowed());
        let _ = matches!(second.as_mut().poll(&mut context), Poll::Ready(_));
    }
    assert!(!allowed(&limiter, "bob"));
}

#[test]
fn a_hundred_tasks_on_a_limit_of_five_admit_five() {
    let kit = Kit::new();
    let limiter = kit.limiter("5/h");
    let admitted: usize = std::thread::scope(|scope| {
        let tasks: Vec<_> =
            (0..100).map(|_| scope.spawn(|| usize::from(allowed(&limiter, "zoo")))).collect();
        tasks.into_iter().map(|task| task.join().expect("a task")).sum()
    });
    assert_eq!(admitted, 5);
}

#[test]
fn counts_survive_and_other_sets_are_other_counts() {
    let kit = Kit::new();
    assert!(allowed(&kit.limiter("1/h via gcra"), "ann"));
    assert!(!allowed(&kit.limiter("1/h via gcra"), "ann"));
    assert!(allowed(&kit.limiter("1/h via sliding_log"), "ann"));
    let both: LimitSet = "1/h via sliding_log, 1/h via gcra".parse().expect("limits");
    assert!(allowed(&kit.limiter(&both.to_string()), "ann"));
    let turned = "1/h via gcra, 1/h via sliding_log";
    assert!(!allowed(&kit.limiter(turned), "ann"), "the order of a set does not matter");
    kit.clock.set(Time::from_micros(0));
    assert!(!allowed(&kit.limiter("1/h via gcra"), "ann"), "a step back gives nothing");
}

#[test]
fn a_check_that_fails_halfway_charges_nobody_and_leaves_nothing_behind() {
    let kit = Kit::new();
    let limiter = kit.limiter("1/h");
    let raw = kit.raw();
    raw.execute_batch(
        "CREATE TRIGGER no_bob BEFORE INSERT ON states WHEN new.subject = 'bob'
         BEGIN SELECT RAISE(ABORT, 'no bob today'); END",
    )
    .expect("a trigger");
    let both = block_on(limiter.check(Ask::new("ann").and("bob"))).expect_err("no bob");
    assert!(both.to_string().contains("no bob today"), "{both}");
    for table in ["states", "entries", "texts"] {
        assert_eq!(kit.count(table), 0, "{table}");
    }
    raw.execute_batch("DROP TRIGGER no_bob").expect("dropped");
    // Another process takes the ids and numbers that the failed check had taken.
    let other = kit.limiter("1/d via gcra");
    let theirs = block_on(other.check("ann")).expect("a decision").receipt().expect("charged");
    let mine = block_on(limiter.check("ann")).expect("a decision").receipt().expect("charged");
    assert_ne!(mine.number, theirs.number);
    assert!(!allowed(&kit.limiter("1/h"), "ann"), "what was charged counts for every process");
    assert!(!allowed(&kit.limiter("1/d via gcra"), "ann"));
    let held = block_on(limiter.admin().inspect("ann")).expect("inspected").expect("a state");
    assert_eq!(held.written_under, "1/h via sliding_log");
}

#[test]
fn a_deadline_counts_from_the_question_and_not_from_its_turn() {
    const DEADLINE: Duration = Duration::from_millis(100);
    const ASKERS: u32 = 40;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("counts.db");
    let store = SqliteStore::open(path.to_str().unwrap()).unwrap();
    let limiter = Limiter::new("1000/h via gcra".parse().unwrap(), store);
    assert!(block_on(limiter.check("first")).unwrap().is_allowed());
    // Another process that holds the lock for as long as the questions may wait.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let began = Instant::now();
    thread::scope(|scope| {
        for asker in 0..ASKERS {
            let limiter = &limiter;
            scope.spawn(move || {
                let subject = format!("user:{asker}");
                let error =
                    block_on(limiter.check(Ask::new(&subject).within(DEADLINE))).unwrap_err();
                assert!(error.is_transient(), "{error}");
            });
        }
    });
    // One after the other they would take as many deadlines as there are of them.
    let took = began.elapsed();
    assert!(took < DEADLINE * ASKERS / 4, "{took:?}");
    other.execute_batch("ROLLBACK").unwrap();
    // Nothing was charged by any of them.
    for asker in 0..ASKERS {
        let peek = block_on(limiter.check(Ask::new(format!("user:{asker}")).peek())).unwrap();
        assert_eq!(peek.remaining(), 1_000);
    }
}

/// So many requests in a minute, each under an id that is remembered for 30 s, of so many subjects.
/// Returns how many ids the file has, and its bytes.
fn ids_of(subjects: u64, requests: u64) -> (u64, u64) {
    let kit = Kit::new();
    let limiter = kit.limiter("100000000/h via gcra");
    for number in 0..requests {
        kit.clock.advance(Duration::from_micros(60_000_000 / requests));
        let subject = format!("user:{}", number % subjects);
        let id = format!("a request {number}");
        let id = RequestId::new(&id).remembered(Duration::from_secs(30));
        let decision = block_on(limiter.check(Ask::new(subject.as_str()).request(id))).unwrap();
        assert!(decision.is_allowed() && !decision.is_repeated(), "{number}");
    }
    let sql = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
    let bytes: i64 = kit.raw().query_row(sql, [], |row| row.get(0)).unwrap();
    let ids = u64::try_from(kit.count("requests_ids")).unwrap();
    (ids, u64::try_from(bytes).unwrap())
}

/// `TOLLGATE_TEST_CASES=1000000` asks a million times.
#[test]
fn a_million_request_ids_are_bounded() {
    let wanted = std::env::var("TOLLGATE_TEST_CASES").ok();
    let requests = wanted.map_or(6_000, |text| text.parse().unwrap());
    let (ids, bytes) = ids_of(1, requests);
    println!("one count: {ids} ids, {bytes} bytes");
    assert!(ids <= MAX_REQUESTS as u64, "{ids}");
    assert!(bytes < 2 << 20, "{bytes}");
    // Expired entries make room.
    let (ids, bytes) = ids_of(requests / 10, requests);
    println!("many counts: {ids} ids, {bytes} bytes");
    assert!(ids <= requests / 2 + 1, "{ids}");
    assert!(bytes < requests * 400 + (1 << 20), "{bytes}");
}

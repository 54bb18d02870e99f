//! Waiters in a line: their order, the deadline, and what a dropped one leaves.

use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::operation::Operation;
use crate::{Around, MemoryStore, StoreError, TokioClock};

type Waiting = tokio::task::JoinHandle<Turn>;

fn line(limits: &str, most: usize) -> Arc<Line<MemoryStore>> {
    Arc::new(Line::new(Limiter::memory(limits.parse().unwrap()), most))
}

/// Starts a waiter, and lets it come to its place.
async fn wait(line: &Arc<Line<MemoryStore>>, ms: u64) -> Waiting {
    let line = Arc::clone(line);
    let deadline = Duration::from_millis(ms);
    let waiter = tokio::spawn(async move { line.acquire("job", deadline).await.unwrap() });
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    waiter
}

fn held(turn: Turn) -> Hold {
    match turn {
        Turn::Held(hold) => hold,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn slots_go_to_waiters_in_the_order_of_their_arrival() {
    let line = line("1 at once hold 1h", 10);
    let mut hold = held(wait(&line, 0).await.await.unwrap());
    let mut waiters = Vec::new();
    for _ in 0..5 {
        waiters.push(wait(&line, 600_000).await);
    }
    // A waiter that leaves the line blocks nobody.
    waiters.remove(2).abort();
    while !waiters.is_empty() {
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
        line.release(&hold).await.unwrap();
        hold = held(waiters.remove(0).await.unwrap());
    }
    assert!(line.release(&hold).await.unwrap());
    assert!(line.places.lock().is_empty(), "an empty line is forgotten");
}

/// A store that has done what it was asked before it answers, which it may never do.
#[derive(Clone)]
struct Far {
    near: MemoryStore,
    answers: Arc<tokio::sync::Semaphore>,
    /// Whether the answers are lost.
    fails: bool,
}

impl Around for Far {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.near
    }

    async fn answer<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        let answer = self.near.perform(operation).await;
        if operation.question().is_some() {
            if self.fails {
                return Err(StoreError::ambiguous("lost"));
            }
            let _answer = self.answers.acquire().await;
        }
        answer
    }
}

#[tokio::test]
async fn who_is_dropped_while_the_store_is_asked_holds_nothing() {
    let near = Limiter::memory("2 at once hold 1h".parse().unwrap());
    let free = || near.check(Ask::new("job").peek()).now().unwrap().remaining();
    let far = |fails| {
        let answers = Arc::new(tokio::sync::Semaphore::new(0));
        let store = Far { near: near.store().clone(), answers, fails };
        Limiter::new(near.limits().clone(), store)
    };
    let (limiter, wait) = (far(false), Duration::from_secs(60));
    let line = Line::new(limiter.clone(), 2);
    for dropped in 0..3 {
        let asking: Pin<Box<dyn Future<Output = ()>>> = match dropped {
            0 => Box::pin(async { drop(limiter.acquire_guard("job").await) }),
            1 => Box::pin(async { drop(limiter.until_acquired("job", wait).await) }),
            _ => Box::pin(async { drop(line.acquire("job", wait).await) }),
        };
        assert!(timeout(Duration::ZERO, asking).await.is_err(), "it waits for its answer");
        assert_eq!(free(), 1, "the store has placed it");
        while free() < 2 {
            tokio::task::yield_now().await;
        }
    }
    // A slot that came is kept.
    limiter.store().answers.add_permits(1);
    let held = limiter.until_acquired("job", wait).await.unwrap().hold.unwrap();
    let guard = limiter.acquire_guard("job").await.unwrap().unwrap();
    assert_eq!(free(), 0);
    assert!(guard.release().await.unwrap());
    assert!(limiter.release(&held).await.unwrap());
    // The store may have placed a hold and failed.
    let failing = far(true);
    assert!(failing.acquire_guard("job").await.is_err());
    while free() < 2 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_is_bounded_and_a_waiter_is_late() {
    let line = line("1 at once hold 1h", 2);
    let hold = held(wait(&line, 0).await.await.unwrap());
    let first = wait(&line, 60_000).await;
    let second = wait(&line, 1_000).await;
    assert_eq!(wait(&line, 60_000).await.await.unwrap(), Turn::Full);
    assert_eq!(second.await.unwrap(), Turn::Late);
    // Its place is free again.
    let third = wait(&line, 60_000).await;
    line.release(&hold).await.unwrap();
    let hold = held(first.await.unwrap());
    line.release(&hold).await.unwrap();
    held(third.await.unwrap());
    assert_eq!(line.acquire(Ask::new("job").cost(2), Duration::MAX).await.unwrap(), Turn::Never);
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_is_released_elsewhere_is_found() {
    let line = line("1 at once hold 1h", 2);
    let hold = held(wait(&line, 0).await.await.unwrap());
    let waiter = wait(&line, 60_000).await;
    line.limiter().release(&hold).await.unwrap();
    let start = Instant::now();
    held(waiter.await.unwrap());
    assert!(start.elapsed() <= LAST_PAUSE);
}

#[tokio::test(start_paused = true)]
async fn without_a_line_a_waiter_asks_again() {
    let limiter = Arc::new(Limiter::memory("1 at once hold 1h".parse().unwrap()));
    let hold = limiter.hold(Ask::new("job").acquire()).await.unwrap().hold.unwrap();
    let late = limiter.until_acquired("job", Duration::from_millis(300)).await.unwrap();
    assert!(late.hold.is_none() && late.decision.is_until_hold());
    let waiter = tokio::spawn({
        let limiter = Arc::clone(&limiter);
        async move {
            let waiting = Duration::from_secs(60);
            limiter.until_acquired("job", waiting).await.unwrap().hold.is_some()
        }
    });
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(limiter.release(&hold).await.unwrap());
    assert!(waiter.await.unwrap());
}

#[tokio::test]
async fn checks_are_admitted_in_the_order_of_their_arrival() {
    const TASKS: usize = 8;
    const TURNS: usize = 5;
    let line = Arc::new(Line::new(Limiter::memory("1/2ms via gcra".parse().unwrap()), TASKS));
    // The first has to wait, and all others come meanwhile.
    assert!(line.limiter().check("api").now().unwrap().is_allowed());
    let order = Arc::new(Mutex::new(Vec::new()));
    let tasks = (0..TASKS).map(|task| {
        let (line, order) = (Arc::clone(&line), Arc::clone(&order));
        tokio::spawn(async move {
            for _ in 0..TURNS {
                let passed = line.until_ready("api", Duration::from_secs(60)).await.unwrap();
                assert!(passed.unwrap().is_allowed());
                order.lock().push(task);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    // Each of them has its turn before one has another.
    let order = order.lock();
    for round in order.chunks(TASKS) {
        assert_eq!(
            round.iter().collect::<std::collections::BTreeSet<_>>().len(),
            TASKS,
            "{order:?}"
        );
    }
    assert!(line.places.lock().is_empty(), "an empty line is forgotten");
}

/// A store that counts how often it is asked.
struct Counting {
    near: MemoryStore,
    asked: AtomicUsize,
}

impl Around for Counting {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.near
    }

    async fn answer<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.near.perform(operation).await
    }
}

#[tokio::test]
async fn a_turn_is_one_question_where_the_pace_is_known() {
    for limits in ["1/3ms via gcra", "4/10ms via sliding_log"] {
        let store = Counting { near: MemoryStore::new(), asked: AtomicUsize::new(0) };
        let line = Arc::new(Line::new(Limiter::new(limits.parse().unwrap(), store), 100));
        let tasks = (0..5).map(|_| {
            let line = Arc::clone(&line);
            tokio::spawn(async move {
                for _ in 0..8 {
                    let passed = line.until_ready("api", Duration::from_secs(60)).await.unwrap();
                    assert!(passed.unwrap().is_allowed());
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        // The first of a window does not know those before it.
        let asked = line.limiter().store().asked.load(Ordering::Relaxed);
        assert!((40..=44).contains(&asked), "{limits}: {asked} questions for 40 turns");
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_is_late_in_line_and_denied_at_its_head() {
    let line = Arc::new(Line::new(Limiter::memory("1/1h via gcra".parse().unwrap()), 2));
    let (short, long) = (Duration::from_secs(1), Duration::from_secs(7200));
    assert!(line.until_ready("api", short).await.unwrap().unwrap().is_allowed());
    // The store says that it takes an hour.
    assert!(!line.until_ready("api", short).await.unwrap().unwrap().is_allowed());
    let first = tokio::spawn({
        let line = Arc::clone(&line);
        async move { line.until_ready("api", long).await.map(|passed| passed.is_some()) }
    });
    tokio::task::yield_now().await;
    assert!(line.until_ready("api", short).await.unwrap().is_none(), "late in line");
    assert!(line.until_ready("other", short).await.unwrap().is_some(), "another line");
    first.abort();
    let over = line.until_ready(Ask::new("api").cost(2), long).await.unwrap().unwrap();
    assert_eq!(over.verdict(), Verdict::Never);
}

#[tokio::test(start_paused = true)]
async fn no_turn_begins_while_all_back_off() {
    let line = Arc::new(Line::new(Limiter::memory("100/s".parse().unwrap()), 10));
    let (start, minute) = (Instant::now(), Duration::from_secs(60));
    let ready = |within| {
        let line = Arc::clone(&line);
        async move { line.until_ready("api", within).await.unwrap().map(|it| it.is_allowed()) }
    };
    line.back_off("api", Duration::from_secs(5)).unwrap();
    line.back_off("api", Duration::from_secs(2)).unwrap();
    assert_eq!(ready(Duration::from_secs(4)).await, None, "it is longer than that");
    assert_eq!(start.elapsed(), Duration::ZERO, "and known at once");
    let waiting = tokio::spawn(ready(minute));
    tokio::time::advance(Duration::from_secs(3)).await;
    // One that comes meanwhile is for those that wait already, too.
    line.back_off("api", Duration::from_secs(7)).unwrap();
    assert_eq!(waiting.await.unwrap(), Some(true));
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    // One that pauses for the limits at the head of the line is delayed, too.
    let clock = TokioClock::at_micros(1_800_000_000_000_000);
    let store = MemoryStore::builder().clock(clock).build();
    let paced = Arc::new(Line::new(Limiter::new("1/5s via gcra".parse().unwrap(), store), 10));
    assert!(paced.until_ready("api", minute).await.unwrap().is_some());
    let (head, begun) = (Arc::clone(&paced), Instant::now());
    let head = tokio::spawn(async move { head.until_ready("api", minute).await.map(|_| ()) });
    tokio::time::sleep(Duration::from_secs(1)).await; // tidy: sleep-ok the time is paused
    paced.back_off("api", Duration::from_secs(20)).unwrap();
    head.await.unwrap().unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(21));
    assert!(line.until_ready("other", Duration::ZERO).await.unwrap().is_some(), "another line");
    line.back_off("other", Duration::MAX).unwrap();
    assert_eq!(line.backed_off.lock().len(), 1, "those that are over are forgotten");
    assert!(line.back_off("", minute).is_err());
}

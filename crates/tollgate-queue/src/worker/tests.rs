//! Workers on a queue in memory, in time that passes as fast as nothing happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tollgate::{Clock, StoreError, Time};

use super::*;
use crate::job::{Dead, DoneJob, Job, OutJob, Taken, WaitingJob};
use crate::memory::MemoryQueues;
use crate::model::{Offered, Stats};
use crate::queue::Queue;
use crate::settings::{Offering, Settings, Working};

const START_US: u64 = 1_700_000_000_000_000;

/// The time of tokio's tests.
#[derive(Clone, Debug)]
struct TestClock(Instant);

impl Clock for TestClock {
    fn now(&self) -> Time {
        let us = u64::try_from(self.0.elapsed().as_micros()).unwrap();
        Time::from_micros(START_US + us)
    }
}

fn queue() -> Queue<MemoryQueues> {
    Queue::new(MemoryQueues::with_clock(TestClock(Instant::now())), "q").unwrap()
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// So long of the time that is paused.
async fn pass(time: Duration) {
    tokio::time::sleep(time).await; // tidy: sleep-ok tokio's time is paused
}

/// Offers two hundred a second for ten seconds; how many were accepted and refused.
async fn press(queue: &Queue<MemoryQueues>) -> (u64, u64) {
    let door = queue.offering(Offering::new(10)).unwrap();
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..2_000 {
        match door.offer(&Job::new()).await.unwrap() {
            Offered::Accepted { .. } => accepted += 1,
            _ => refused += 1,
        }
        pass(millis(5)).await;
    }
    (accepted, refused)
}

/// Document 001: the processor decides how fast requests are let in, and two let in twice as many.
#[tokio::test(start_paused = true)]
async fn what_is_let_in_is_what_is_worked_off() {
    for (workers, expected) in [(1, 1_000), (2, 2_000)] {
        let queue = queue();
        let (stop, _) = tokio::sync::broadcast::channel::<()>(1);
        let mut all = JoinSet::new();
        for n in 0..workers {
            let worker = Worker::new(queue.working(Working::new()).unwrap(), format!("worker {n}"));
            let mut stopped = stop.subscribe();
            all.spawn(async move {
                // A hundred a second each.
                let handle = |_| async {
                    pass(millis(10)).await;
                    Ok(())
                };
                worker.run(handle, async { drop(stopped.recv().await) }).await.unwrap()
            });
        }
        let (accepted, refused) = press(&queue).await;
        // Timers are exact to a millisecond.
        let off = accepted.abs_diff(expected);
        assert!(off <= expected / 8 + 10, "{workers}: {accepted} accepted, {refused} refused");
        assert_eq!(accepted + refused, 2_000);
        assert!(workers == 2 || refused > 800, "{refused}");
        stop.send(()).unwrap();
        let mut done = 0;
        while let Some(ran) = all.join_next().await {
            done += ran.unwrap().done;
        }
        let stats = queue.stats().await.unwrap();
        assert_eq!((stats.done, stats.refused, stats.accepted), (done, refused, accepted));
        assert_eq!(stats.in_flight, 0, "what was in hand is done");
        assert_eq!(stats.waiting, accepted - done);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_over_all_workers_is_used_and_never_exceeded() {
    let queue = queue();
    let door = queue.offering(Offering::new(2_000)).unwrap();
    for _ in 0..2_000 {
        door.offer(&Job::new()).await.unwrap();
    }
    let rate = "100/s via sliding_log".parse().unwrap();
    let working = Working::new().rate(rate);
    let begin = Instant::now();
    let times = Arc::new(Mutex::new(Vec::new()));
    let mut all = JoinSet::new();
    for n in 0..4 {
        let worker = Worker::new(queue.working(working.clone()).unwrap(), format!("worker {n}"))
            .concurrency(10)
            .batch(10);
        let times = Arc::clone(&times);
        all.spawn(async move {
            let handle = move |_| {
                times.lock().push(begin.elapsed());
                async { Ok(()) }
            };
            worker.run(handle, pass(Duration::from_millis(9_999))).await.unwrap()
        });
    }
    while all.join_next().await.is_some() {}
    let times = times.lock().clone();
    for (place, from) in times.iter().enumerate() {
        let within = times[place..].iter().take_while(|at| **at < *from + millis(1_000)).count();
        assert!(within <= 100, "{within} from {from:?} on");
    }
    assert!(times.len() >= 970, "{} of 1,000", times.len());
}

#[tokio::test(start_paused = true)]
async fn what_fails_comes_back_later_each_time_and_dies() {
    let queue = queue();
    queue.offering(Offering::new(9)).unwrap().offer(&Job::new().field("a", "1")).await.unwrap();
    let working = Working::new().deliveries(4);
    let worker =
        Worker::new(queue.working(working).unwrap(), "w").pause(millis(1_000), millis(3_000));
    let begin = Instant::now();
    let times = Mutex::new(Vec::new());
    let handle = |job: TakenJob| {
        times.lock().push(begin.elapsed());
        assert_ne!(job.delivery, 2, "a panic before there is a future is a failure");
        async move {
            assert_ne!(job.delivery, 3, "and one within it");
            Err(Failure::new("no such mailbox"))
        }
    };
    let ran = worker.run(handle, pass(Duration::from_secs(60))).await.unwrap();
    assert_eq!((ran.again, ran.dead, ran.done), (3, 1, 0));
    let times = times.lock().clone();
    let pauses: Vec<Duration> = times.windows(2).map(|two| two[1] - two[0]).collect();
    for (pause, longest) in pauses.iter().zip([1_000, 2_000, 3_000]) {
        // Looked for when it is due, to a millisecond.
        let range = millis(longest / 2)..=millis(longest + 2);
        assert!(range.contains(pause), "{pauses:?}");
    }
    let dead = queue.dead(9).await.unwrap();
    assert_eq!((dead[0].deliveries, dead[0].why.as_deref()), (4, Some("no such mailbox")));
}

#[tokio::test(start_paused = true)]
async fn who_takes_long_keeps_its_job_and_who_is_dead_does_not() {
    let queue = queue();
    queue.offering(Offering::new(9)).unwrap().offer(&Job::new()).await.unwrap();
    let working = Working::new().visibility(millis(300));
    // Somebody took it and died.
    assert_eq!(
        queue.working(working.clone()).unwrap().take("dead", 1).await.unwrap().jobs.len(),
        1
    );
    let count = AtomicUsize::new(0);
    let count = &count;
    let run = |name: &str| {
        let worker = Worker::new(queue.working(working.clone()).unwrap(), name);
        async move {
            let handle = |job: TakenJob| {
                count.fetch_add(1, Ordering::Relaxed);
                async move {
                    assert_eq!(job.delivery, 2);
                    pass(Duration::from_secs(5)).await;
                    Ok(())
                }
            };
            worker.run(handle, pass(Duration::from_secs(10))).await.unwrap()
        }
    };
    let (one, other) = tokio::join!(run("one"), run("other"));
    assert_eq!((one.done + other.done, count.load(Ordering::Relaxed)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn at_the_end_what_is_in_hand_is_done_and_what_was_taken_given_back() {
    let queue = queue();
    let door = queue.offering(Offering::new(9)).unwrap();
    for _ in 0..9 {
        door.offer(&Job::new()).await.unwrap();
    }
    let worker = Worker::new(queue.working(Working::new()).unwrap(), "w").concurrency(2).batch(5);
    let handle = |_| async {
        pass(millis(100)).await;
        Ok(())
    };
    let ran = worker.run(handle, pass(millis(50))).await.unwrap();
    assert_eq!((ran.done, ran.released), (2, 3));
    let ran = worker.clone().max_jobs(3).run(handle, core::future::pending()).await.unwrap();
    assert_eq!((ran.done, ran.released), (3, 0));
    let taken = queue.working(Working::new()).unwrap().take("w", 9).await.unwrap();
    assert!(taken.jobs.len() == 4 && taken.jobs.iter().all(|job| job.delivery == 1), "{taken:?}");
}

/// Queues that fail as often as is said.
#[derive(Debug)]
struct Failing {
    queues: MemoryQueues,
    faults: Arc<AtomicU64>,
    is_permanent: bool,
}

impl Failing {
    fn fault(&self) -> Result<(), Error> {
        let take = |faults: u64| faults.checked_sub(1);
        match self.faults.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Err(_) => Ok(()),
            Ok(_) if self.is_permanent => Err(StoreError::permanent("no right to").into()),
            Ok(_) => Err(StoreError::transient("away").into()),
        }
    }
}

impl Backend for Failing {
    async fn offer(&self, queue: &str, offering: &Offering, job: &Job) -> Result<Offered, Error> {
        self.queues.offer(queue, offering, job).await
    }

    async fn take(
        &self,
        queue: &str,
        working: &Working,
        worker: &str,
        most: usize,
    ) -> Result<Taken, Error> {
        if !self.is_permanent {
            self.fault()?;
        }
        self.queues.take(queue, working, worker, most).await
    }

    async fn done(&self, queue: &str, ids: &[JobId]) -> Result<u64, Error> {
        self.fault()?;
        self.queues.done(queue, ids).await
    }

    async fn again(
        &self,
        queue: &str,
        working: &Working,
        held: Held,
        after: Duration,
        why: &str,
    ) -> Result<Afterwards, Error> {
        self.queues.again(queue, working, held, after, why).await
    }

    async fn extend(&self, queue: &str, working: &Working, held: Held) -> Result<bool, Error> {
        self.queues.extend(queue, working, held).await
    }

    async fn release(&self, queue: &str, held: Held) -> Result<bool, Error> {
        self.queues.release(queue, held).await
    }

    async fn settings(&self, queue: &str) -> Result<Settings, Error> {
        self.queues.settings(queue).await
    }

    async fn change(&self, queue: &str, settings: &Settings) -> Result<(), Error> {
        self.queues.change(queue, settings).await
    }

    async fn pause(&self, queue: &str, is_paused: bool) -> Result<bool, Error> {
        self.queues.pause(queue, is_paused).await
    }

    async fn remove(&self, queue: &str) -> Result<bool, Error> {
        self.queues.remove(queue).await
    }

    async fn names(&self) -> Result<Vec<String>, Error> {
        self.queues.names().await
    }

    async fn stats(&self, queue: &str) -> Result<Stats, Error> {
        self.queues.stats(queue).await
    }

    async fn waiting(&self, queue: &str, most: usize) -> Result<Vec<WaitingJob>, Error> {
        self.queues.waiting(queue, most).await
    }

    async fn in_hand(&self, queue: &str, most: usize) -> Result<Vec<OutJob>, Error> {
        self.queues.in_hand(queue, most).await
    }

    async fn done_jobs(&self, queue: &str, most: usize) -> Result<Vec<DoneJob>, Error> {
        self.queues.done_jobs(queue, most).await
    }

    async fn dead(&self, queue: &str, most: usize) -> Result<Vec<Dead>, Error> {
        self.queues.dead(queue, most).await
    }

    async fn take_dead(&self, queue: &str, id: JobId) -> Result<Option<Dead>, Error> {
        self.queues.take_dead(queue, id).await
    }

    async fn forget_dead(&self, queue: &str, id: JobId) -> Result<Option<Dead>, Error> {
        self.queues.forget_dead(queue, id).await
    }

    async fn wait(&self, queue: &str, most: Duration) {
        self.queues.wait(queue, most).await;
    }
}

fn failing(faults: u64, is_permanent: bool) -> Queue<Failing> {
    let queues = MemoryQueues::with_clock(TestClock(Instant::now()));
    let faults = Arc::new(faults.into());
    Queue::new(Failing { queues, faults, is_permanent }, "q").unwrap()
}

#[tokio::test(start_paused = true)]
async fn faults_that_pass_are_waited_for() {
    let queue = failing(7, false);
    queue.offering(Offering::new(9)).unwrap().offer(&Job::new()).await.unwrap();
    let worker = Worker::new(queue.working(Working::new()).unwrap(), "w").max_jobs(1);
    let ran = worker.run(|_| async { Ok(()) }, core::future::pending()).await.unwrap();
    assert_eq!((ran.done, queue.stats().await.unwrap().done), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_does_not_pass_ends_it_when_what_is_in_hand_is_finished() {
    let queue = failing(1, true);
    let door = queue.offering(Offering::new(9)).unwrap();
    for long in ["", "yes"] {
        door.offer(&Job::new().field("long", long)).await.unwrap();
    }
    let worker = Worker::new(queue.working(Working::new()).unwrap(), "w").concurrency(2);
    let handle = |job: TakenJob| async move {
        if job.text("long") == Some("yes") {
            pass(Duration::from_secs(3)).await;
        }
        Ok(())
    };
    let error = worker.run(handle, core::future::pending()).await.unwrap_err();
    assert!(error.to_string().contains("no right to"), "{error}");
    // Both were done, and said to be so when it went again.
    assert_eq!(queue.stats().await.unwrap().done, 2);
}

/// The store is away for a moment when the last job ends, long after the worker was told to stop.
#[tokio::test(start_paused = true)]
async fn the_grace_begins_when_the_last_job_is_over() {
    let (faults, queues) = (Arc::default(), MemoryQueues::with_clock(TestClock(Instant::now())));
    let failing = Failing { queues, faults: Arc::clone(&faults), is_permanent: false };
    let queue = Queue::new(failing, "q").unwrap();
    queue.offering(Offering::new(9)).unwrap().offer(&Job::new()).await.unwrap();
    let worker = Worker::new(queue.working(Working::new()).unwrap(), "w");
    let handle = |_| {
        let faults: Arc<AtomicU64> = Arc::clone(&faults);
        async move {
            pass(millis(60_000)).await;
            faults.store(2, Ordering::Relaxed);
            Ok(())
        }
    };
    let ran = worker.run(handle, pass(millis(10))).await.unwrap();
    assert_eq!((ran.done, ran.unsaid), (1, 0), "{ran:?}");
    assert_eq!(queue.stats().await.unwrap().done, 1);
}

/// What could not be begun has had no delivery.
#[tokio::test(start_paused = true)]
async fn what_was_not_begun_is_given_back_and_the_worker_waits() {
    let queue = Queue::new(MemoryQueues::with_clock(TestClock(Instant::now())), "q").unwrap();
    queue.offering(Offering::new(9)).unwrap().offer(&Job::new()).await.unwrap();
    let working = Working::new().deliveries(2);
    let worker = Worker::new(queue.working(working).unwrap(), "w").until_empty(true);
    let tries = AtomicUsize::new(0);
    let begin = Instant::now();
    let handle = |job: TakenJob| {
        let nth = tries.fetch_add(1, Ordering::Relaxed);
        async move {
            assert_eq!(job.delivery, 1);
            if nth < 9 { Err(Failure::not_begun("no program")) } else { Ok(()) }
        }
    };
    let ran = worker.run(handle, core::future::pending()).await.unwrap();
    assert_eq!((ran.done, ran.released, ran.dead), (1, 9, 0), "{ran:?}");
    assert!(begin.elapsed() >= Duration::from_secs(9), "it has waited: {:?}", begin.elapsed());
}

/// A change is followed whatever is said or asked before the worker has followed: what failed, what
/// is held across a beat, and the next jobs.
#[tokio::test(start_paused = true)]
async fn a_change_is_followed_also_where_several_questions_are_refused() {
    let others = [
        Working::new().visibility(millis(1_800)).keep_dead(7),
        Working::new().visibility(millis(1_800)).rate("100/s".parse().unwrap()),
        Working::new().visibility(millis(200)),
        Working::new().visibility(millis(9_000)),
    ];
    for other in others {
        // The first fails when it is time to take again, too: before the beat, at it, and after it.
        // A second is held across it or not.
        for (fails_ms, jobs) in [550, 550, 600, 601, 700].into_iter().zip([1, 2, 2, 2, 2]) {
            let queue = queue();
            let door = queue.offering(Offering::new(9)).unwrap();
            for _ in 0..jobs {
                door.offer(&Job::new()).await.unwrap();
            }
            let working = Working::new().visibility(millis(1_800));
            let changed = Arc::new(Mutex::new(Vec::new()));
            let worker = Worker::new(queue.working(working).unwrap(), "w")
                .concurrency(usize::try_from(jobs).unwrap())
                .pause(millis(1), millis(1))
                .until_empty(true)
                .on_notice({
                    let changed = Arc::clone(&changed);
                    move |notice| match notice {
                        Notice::Changed(working) => changed.lock().push(working.clone()),
                        other => panic!("{other:?}"),
                    }
                });
            let begun = AtomicUsize::new(0);
            let handle = |job: TakenJob| {
                let is_first = begun.fetch_add(1, Ordering::Relaxed) == 0;
                let (queue, other) = (queue.clone(), other.clone());
                async move {
                    if is_first {
                        pass(millis(20)).await;
                        queue.change(other).await.unwrap();
                        pass(millis(fails_ms - 20)).await;
                        return Err(Failure::new("no"));
                    }
                    pass(millis(if job.delivery == 1 { 1_000 } else { 1 })).await;
                    Ok(())
                }
            };
            let ran = worker.run(handle, core::future::pending()).await.unwrap();
            assert_eq!((ran.done, ran.again, ran.lost), (jobs, 1, 0), "{other:?} {fails_ms}");
            assert_eq!(*changed.lock(), std::slice::from_ref(&other));
        }
    }
}

/// Two changes, the second of which takes the first back or comes while the first is followed.
#[tokio::test(start_paused = true)]
async fn a_change_that_is_taken_back_is_none() {
    let queue = queue();
    queue.offering(Offering::new(9)).unwrap().offer(&Job::new()).await.unwrap();
    let working = Working::new();
    let worker = Worker::new(queue.working(working.clone()).unwrap(), "w").until_empty(true);
    let handle = |_| {
        let (queue, working) = (queue.clone(), working.clone());
        async move {
            queue.change(working.clone().keep_dead(7)).await.unwrap();
            pass(millis(700)).await;
            queue.change(working).await.unwrap();
            Ok(())
        }
    };
    let ran = worker.concurrency(2).run(handle, core::future::pending()).await.unwrap();
    assert_eq!(ran.done, 1);
}

/// A job that is taken after the visibility timeout was lowered is extended in time.
#[tokio::test(start_paused = true)]
async fn a_visibility_that_is_lowered_delivers_nothing_twice() {
    let queue = queue();
    let door = queue.offering(Offering::new(9)).unwrap();
    door.offer(&Job::new()).await.unwrap();
    let working = Working::new().visibility(millis(30_000));
    let worker = Worker::new(queue.working(working.clone()).unwrap(), "w").concurrency(4);
    let count = AtomicUsize::new(0);
    let handle = |_| {
        let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
        let (queue, door, working) = (queue.clone(), door.clone(), working.clone());
        async move {
            if is_first {
                queue.change(working.visibility(millis(300))).await.unwrap();
                door.offer(&Job::new()).await.unwrap();
            }
            pass(Duration::from_secs(5)).await;
            Ok(())
        }
    };
    let ran = worker.run(handle, pass(Duration::from_secs(6))).await.unwrap();
    assert_eq!((ran.done, ran.lost, count.load(Ordering::Relaxed)), (2, 0, 2));
}

/// What a worker tells of, in its order.
fn told<B: Backend>(worker: Worker<B>) -> (Worker<B>, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    (worker.on_notice(move |notice| tell.lock().push(format!("{notice:?}"))), told)
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_told_once_and_its_return_with_how_long() {
    let queue = failing(7, false);
    queue.offering(Offering::new(9)).unwrap().offer(&Job::new()).await.unwrap();
    let worker = Worker::new(queue.working(Working::new()).unwrap(), "w").max_jobs(1);
    let (worker, told) = told(worker);
    worker.run(|_| async { Ok(()) }, core::future::pending()).await.unwrap();
    let told = told.lock().clone();
    assert!(told.len() == 2 && told[0].starts_with("Fault("), "{told:?}");
    // 0.1 s, and twice as long each time up to 5 s.
    assert!(told[1].starts_with("Back(11.3"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_removed_beside_its_worker_is_told_once_each_time() {
    let queue = queue();
    let worker = Worker::new(queue.working(Working::new()).unwrap(), "w");
    let (worker, told) = told(worker);
    let removes = async {
        let door = queue.offering(Offering::new(9)).unwrap();
        // Nobody has made it yet: that is nothing that was removed.
        pass(millis(2_000)).await;
        for _ in 0..2 {
            door.offer(&Job::new()).await.unwrap();
            pass(millis(2_000)).await;
            assert!(queue.remove().await.unwrap());
            pass(millis(2_000)).await;
        }
    };
    let ran = worker.run(|_| async { Ok(()) }, removes).await.unwrap();
    assert_eq!(ran.done, 2);
    assert_eq!(*told.lock(), ["Removed", "Removed"]);
}

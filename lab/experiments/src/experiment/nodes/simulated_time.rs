//! Simulated time, and tasks that wait in it, on one thread.
//!
//! A task runs until it waits. Either another task or the time wakes it, in the order in which the
//! waits began, so that a run is the same each time.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

use tollgate::{Clock as _, ManualClock, Time};

/// The time of a simulation. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct SimulatedTime(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: ManualClock,
    waiting: Mutex<Waiting>,
    /// Whether the task that runs has asked the store.
    has_asked: AtomicBool,
}

/// The tasks that wait for a time.
#[derive(Debug, Default)]
struct Waiting {
    /// By the time, and by when they began to wait.
    wakers: BTreeMap<(u64, u64), Waker>,
    began: u64,
}

impl SimulatedTime {
    pub(super) fn new(clock: ManualClock) -> Self {
        let (waiting, has_asked) = (Mutex::default(), AtomicBool::new(false));
        Self(Arc::new(Inner { clock, waiting, has_asked }))
    }

    pub(super) fn now_us(&self) -> u64 {
        self.0.clock.now().as_micros()
    }

    /// Notes that the task that runs asks the store.
    pub(super) fn note_question(&self) {
        self.0.has_asked.store(true, Ordering::Relaxed);
    }

    /// Waits until this time.
    pub(super) async fn until(&self, at_us: u64) {
        core::future::poll_fn(|context| {
            if self.now_us() >= at_us {
                return Poll::Ready(());
            }
            let mut waiting = lock(&self.0.waiting);
            waiting.began += 1;
            let key = (at_us, waiting.began);
            waiting.wakers.insert(key, context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// When the next task is due.
    pub(super) fn next_us(&self) -> Option<u64> {
        lock(&self.0.waiting).wakers.first_key_value().map(|((at_us, _), _)| *at_us)
    }

    /// Sets the time, and wakes the tasks that are due.
    pub(super) fn set(&self, now_us: u64) {
        self.0.clock.set(Time::from_micros(now_us));
        loop {
            let mut waiting = lock(&self.0.waiting);
            let Some(first) = waiting.wakers.first_entry().filter(|it| it.key().0 <= now_us) else {
                return;
            };
            let waker = first.remove();
            drop(waiting);
            waker.wake();
        }
    }
}

/// Nothing panics while it holds a lock here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tasks of a simulation.
pub(super) struct Tasks<T> {
    time: SimulatedTime,
    places: Vec<Option<Task<T>>>,
    wakers: Vec<Waker>,
    free: Vec<usize>,
    ready: Arc<Mutex<VecDeque<usize>>>,
}

struct Task<T> {
    future: Pin<Box<dyn Future<Output = T>>>,
    asked_us: Option<u64>,
}

/// The result of a task, and when it last asked the store.
pub(super) struct Ended<T> {
    pub(super) result: T,
    pub(super) asked_us: Option<u64>,
}

struct TaskWaker {
    place: usize,
    ready: Arc<Mutex<VecDeque<usize>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        lock(&self.ready).push_back(self.place);
    }
}

impl<T> Tasks<T> {
    pub(super) fn new(time: SimulatedTime) -> Self {
        let (places, wakers, free) = (Vec::new(), Vec::new(), Vec::new());
        Self { time, places, wakers, free, ready: Arc::default() }
    }

    /// Begins a task; its result, if it need not wait.
    pub(super) fn start(&mut self, future: impl Future<Output = T> + 'static) -> Option<Ended<T>> {
        let place = self.free.pop().unwrap_or_else(|| {
            let (place, ready) = (self.places.len(), Arc::clone(&self.ready));
            self.places.push(None);
            self.wakers.push(Waker::from(Arc::new(TaskWaker { place, ready })));
            place
        });
        let task = Task { future: Box::pin(future), asked_us: None };
        if let Some(slot) = self.places.get_mut(place) {
            *slot = Some(task);
        }
        self.poll(place)
    }

    /// The result of a task that was woken and has ended; `None` when all others wait.
    pub(super) fn next_ended(&mut self) -> Option<Ended<T>> {
        loop {
            let place = lock(&self.ready).pop_front()?;
            if let Some(ended) = self.poll(place) {
                return Some(ended);
            }
        }
    }

    fn poll(&mut self, place: usize) -> Option<Ended<T>> {
        let (slot, waker) = (self.places.get_mut(place)?, self.wakers.get(place)?);
        // It may have ended since it was woken.
        let task = slot.as_mut()?;
        self.time.0.has_asked.store(false, Ordering::Relaxed);
        let polled = task.future.as_mut().poll(&mut Context::from_waker(waker));
        if self.time.0.has_asked.load(Ordering::Relaxed) {
            task.asked_us = Some(self.time.now_us());
        }
        let Poll::Ready(result) = polled else { return None };
        let asked_us = task.asked_us;
        *slot = None;
        self.free.push(place);
        Some(Ended { result, asked_us })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_wait_for_their_time_and_end_in_its_order() {
        let time = SimulatedTime::new(ManualClock::at_micros(100));
        let mut tasks = Tasks::new(time.clone());
        for (name, at_us) in [("late", 300), ("early", 200), ("second", 200)] {
            let time = time.clone();
            let task = async move {
                time.until(at_us).await;
                name
            };
            assert!(tasks.start(task).is_none());
        }
        assert!(tasks.start(async { "at once" }).is_some_and(|it| it.result == "at once"));
        let mut ended = Vec::new();
        while let Some(next_us) = time.next_us() {
            time.set(next_us);
            while let Some(it) = tasks.next_ended() {
                ended.push((time.now_us(), it.result));
            }
        }
        assert_eq!(ended, [(200, "early"), (200, "second"), (300, "late")]);
        assert_eq!(tasks.free.len(), 4);
    }

    #[test]
    fn a_task_knows_when_it_asked() {
        let time = SimulatedTime::new(ManualClock::at_micros(0));
        let mut tasks = Tasks::new(time.clone());
        let asks = time.clone();
        let task = async move {
            asks.until(3).await;
            asks.note_question();
            asks.until(5).await;
        };
        assert!(tasks.start(task).is_none());
        assert!(tasks.start(async {}).is_some_and(|it| it.asked_us.is_none()));
        time.set(3);
        assert!(tasks.next_ended().is_none());
        time.set(5);
        assert!(tasks.next_ended().is_some_and(|it| it.asked_us == Some(3)));
    }
}

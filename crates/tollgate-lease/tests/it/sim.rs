//! Nodes, a store that they reach after a while, and the time of all, which a test moves.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tollgate::operation::Operation;
use tollgate::{
    Around, Ask, Clock, Decision, Error, LimitSet, Limiter, ManualClock, MemoryStore, Store as _,
    StoreError, Time, at_once,
};
use tollgate_lease::{Leased, LeasedBuilder};

/// When every test begins: at an edge of the windows of a day.
pub(crate) const START_US: u64 = 20_000 * 86_400 * 1_000_000;

/// True time, and the store at the other end.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) store: MemoryStore,
    /// The questions that the store got.
    pub(crate) asked: Arc<AtomicU64>,
}

/// The store as a node sees it.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    world: World,
    /// How long a question travels, and an answer, in microseconds.
    pub(crate) delays: Arc<[AtomicU64; 2]>,
    /// True while no question arrives.
    pub(crate) is_away: Arc<AtomicBool>,
}

/// A node's clock: it may run at another rate and be set to any time.
#[derive(Clone, Debug)]
pub(crate) struct NodeClock {
    world: World,
    /// Parts in a million that it is fast; below a million it is slow.
    pub(crate) rate: u64,
    pub(crate) ahead_us: u64,
}

impl Clock for NodeClock {
    fn now(&self) -> Time {
        let passed = self.world.now_us() - START_US;
        let passed = u128::from(passed) * u128::from(self.rate) / 1_000_000;
        Time::from_micros(self.ahead_us + u64::try_from(passed).unwrap())
    }
}

thread_local! {
    /// Whether the task that is polled has asked the store.
    static HAS_ASKED: Cell<bool> = const { Cell::new(false) };
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::at_micros(START_US);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        Self { clock, store, asked: Arc::default() }
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.clock.now().as_micros()
    }

    pub(crate) fn pass(&self, us: u64) {
        self.clock.advance(core::time::Duration::from_micros(us));
    }

    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// A way to the store that takes no time.
    pub(crate) fn remote(&self) -> Remote {
        Remote { world: self.clone(), delays: Arc::default(), is_away: Arc::default() }
    }

    pub(crate) fn node_clock(&self) -> NodeClock {
        NodeClock { world: self.clone(), rate: 1_000_000, ahead_us: 77 }
    }

    /// A node with a right clock and the usual options.
    pub(crate) fn node(&self, limits: &str) -> Limiter<Leased<Remote>> {
        self.node_with(limits, self.remote(), |builder| builder)
    }

    pub(crate) fn node_with(
        &self,
        limits: &str,
        remote: Remote,
        set: impl FnOnce(LeasedBuilder<Remote>) -> LeasedBuilder<Remote>,
    ) -> Limiter<Leased<Remote>> {
        let builder = Leased::builder(remote).clock(self.node_clock());
        Limiter::new(limits.parse().unwrap(), set(builder).build())
    }
}

impl Remote {
    /// Waits until true time has passed by as much as a delay.
    async fn travel(&self, which: usize) {
        let until = self.world.now_us() + self.delays[which].load(Ordering::Relaxed);
        core::future::poll_fn(|_| {
            // The caller that moves the time polls again.
            let is_there = self.world.now_us() >= until && !self.is_away.load(Ordering::Relaxed);
            if is_there { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    async fn ask<T>(&self, what: impl Future<Output = T>) -> T {
        HAS_ASKED.set(true);
        self.travel(0).await;
        self.world.asked.fetch_add(1, Ordering::Relaxed);
        let answer = what.await;
        self.travel(1).await;
        answer
    }
}

impl Around for Remote {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.world.store
    }

    async fn answer<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        self.ask(self.world.store.perform(operation)).await
    }
}

/// The result of a future that has no need to wait.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    at_once(future).unwrap()
}

/// A check of cost 1 that has no need to wait.
pub(crate) fn check<'l>(node: &'l Limiter<Leased<Remote>>, subject: &'l str) -> Decision<'l> {
    now(node.check(subject)).unwrap()
}

/// A check under way.
pub(crate) struct Flying<'w> {
    future: Pin<Box<dyn Future<Output = Result<Decision<'w>, Error>> + 'w>>,
    /// When it last asked the store.
    asked_us: Option<u64>,
}

impl<'w> Flying<'w> {
    pub(crate) fn new(node: &'w Limiter<Leased<Remote>>, ask: impl Into<Ask<'w>> + 'w) -> Self {
        Self { future: Box::pin(node.check(ask.into())), asked_us: None }
    }

    /// The decision, if there is one, and when it was made by true time: where units were spent, or
    /// at the store.
    pub(crate) fn poll(&mut self, world: &World) -> Option<(u64, Result<Decision<'w>, Error>)> {
        HAS_ASKED.set(false);
        let polled = self.future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if HAS_ASKED.get() {
            self.asked_us = Some(world.now_us());
        }
        let Poll::Ready(answer) = polled else { return None };
        let leased = |decision: &Decision<'_>| decision.authority() == tollgate::Authority::Lease;
        let at_us = match &answer {
            // A check that renews has spent before it asked, in the same moment.
            Ok(decision) if leased(decision) => self.asked_us.unwrap_or(world.now_us()),
            Ok(decision) => decision.at().as_micros(),
            Err(_) => world.now_us(),
        };
        Some((at_us, answer))
    }
}

/// The most units within any half-open window of this length.
pub(crate) fn most_within(admitted: &mut [(u64, u64)], window_us: u64) -> u64 {
    admitted.sort_unstable();
    let (mut most, mut sum, mut first) = (0, 0, 0);
    for last in 0..admitted.len() {
        sum += admitted[last].1;
        while admitted[last].0 - admitted[first].0 >= window_us {
            sum -= admitted[first].1;
            first += 1;
        }
        most = most.max(sum);
    }
    most
}

/// The limits of a text.
pub(crate) fn set(text: &str) -> LimitSet {
    text.parse().unwrap()
}

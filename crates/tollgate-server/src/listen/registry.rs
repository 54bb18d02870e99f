//! The connections that are open, and who closes those that take too long.
//!
//! A timer for each deadline of each connection would cost more than a decision. So a connection
//! only notes what it is at and since when, by a clock of ticks, and one task looks at all of them
//! four times a second: a deadline is met with a delay of up to 250 ms.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::task::Waker;
use core::time::Duration;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use slab::Slab;
use tokio::task::AbortHandle;

use super::budget::Budget;

/// How long a tick is.
const TICK: Duration = Duration::from_millis(250);

/// What a connection may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Bounds {
    /// How many connections are open at once; beyond that those make room that have been idle
    /// longest, then those that have sent half of a request. Where all are being answered, the new
    /// one is closed.
    pub connections: usize,
    /// How many of them one address has; none for as many as there are. Behind a proxy all clients
    /// have the proxy's address.
    pub per_address: Option<usize>,
    /// How many bytes of bodies that are on their way and of long answers are held at once: 64 MiB.
    /// Beyond it requests that need more are answered with 503.
    pub buffers: usize,
    /// Without a byte of a request: 60 s.
    pub idle: Duration,
    /// From the first byte of a head to its last, a TLS handshake too: 10 s.
    pub head: Duration,
    /// From a head to the end of its body: 10 s.
    pub body: Duration,
    /// Without taking the next 64 KiB of a response, or what is left of it: 10 s.
    pub write: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        let usual = Duration::from_secs(10);
        Self {
            connections: 10_000,
            per_address: None,
            buffers: 64 * 1_024 * 1_024,
            idle: Duration::from_secs(60),
            head: usual,
            body: usual,
            write: usual,
        }
    }
}

/// What a connection is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Phase {
    /// Nothing of a request has come.
    Idle = 0,
    /// Some of a head has.
    Head = 1,
    /// The head has, and not all of the body.
    Body = 2,
    /// It is being decided; that has deadlines of its own.
    Work = 3,
    /// The response is on its way.
    Write = 4,
}

impl Phase {
    const ALL: [Self; 5] = [Self::Idle, Self::Head, Self::Body, Self::Work, Self::Write];
}

/// Why connections were closed by the service.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Closed {
    /// Idle for too long.
    Idle,
    /// A head that took too long.
    Head,
    /// A body that took too long.
    Body,
    /// A client that did not read, or too slowly.
    Write,
    /// It made room for another.
    Full,
    /// Its address had as many as one may have.
    Address,
}

impl Closed {
    /// Every reason.
    pub const ALL: [Self; 6] =
        [Self::Idle, Self::Head, Self::Body, Self::Write, Self::Full, Self::Address];

    /// In small letters, for labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Head => "head",
            Self::Body => "body",
            Self::Write => "write",
            Self::Full => "full",
            Self::Address => "address",
        }
    }
}

/// What a connection is at, and since when. The one that serves it writes, the watching task reads.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The tick above, the phase below.
    state: AtomicU64,
    clock: Arc<AtomicU32>,
    /// True when the connection ends before all that the client sends has been read.
    left_unread: AtomicBool,
    /// True while a part of a response has not been handed to the connection.
    has_more_to_say: AtomicBool,
    /// True since the client first said something.
    has_spoken: AtomicBool,
    /// True while it holds no buffers, or is asked to let go of them.
    is_to_rest: AtomicBool,
    /// Wakes its task.
    task: OnceLock<Waker>,
}

impl Pace {
    #[inline]
    pub(crate) fn is_at(&self, phase: Phase) {
        let tick = u64::from(self.clock.load(Ordering::Relaxed));
        self.state.store(tick << 32 | phase as u64, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        let number = self.state.load(Ordering::Relaxed) & 0xFFFF_FFFF;
        usize::try_from(number)
            .ok()
            .and_then(|at| Phase::ALL.get(at))
            .copied()
            .unwrap_or(Phase::Idle)
    }

    /// Something that the client sends is not read.
    pub(crate) fn leave_unread(&self) {
        self.left_unread.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_left_unread(&self) -> bool {
        self.left_unread.load(Ordering::Relaxed)
    }

    /// More of a response comes, or its last part was handed over.
    pub(super) fn says_more(&self, more: bool) {
        self.has_more_to_say.store(more, Ordering::Relaxed);
    }

    pub(super) fn has_more_to_say(&self) -> bool {
        self.has_more_to_say.load(Ordering::Relaxed)
    }

    fn has_spoken(&self) -> bool {
        self.has_spoken.load(Ordering::Relaxed)
    }

    /// The task that serves it.
    pub(super) fn is_served_by(&self, task: &Waker) {
        let _ = self.task.set(task.clone());
    }

    /// The client says something: it holds buffers from here on.
    pub(super) fn works(&self) {
        self.has_spoken.store(true, Ordering::Relaxed);
        self.is_to_rest.store(false, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_to_rest(&self) -> bool {
        self.is_to_rest.load(Ordering::Relaxed) && self.phase() == Phase::Idle
    }

    /// Asks for its buffers, once.
    fn rest(&self) {
        if !self.is_to_rest.swap(true, Ordering::Relaxed)
            && let Some(task) = self.task.get()
        {
            task.wake_by_ref();
        }
    }

    fn since(&self) -> u32 {
        u32::try_from(self.state.load(Ordering::Relaxed) >> 32).unwrap_or(u32::MAX)
    }
}

/// All connections of a service.
#[derive(Debug)]
pub(crate) struct Registry {
    open: Mutex<Slab<Entry>>,
    /// How many connections each address has, where that is bounded.
    by_address: Mutex<HashMap<IpAddr, usize>>,
    budget: Arc<Budget>,
    bounds: Bounds,
    clock: Arc<AtomicU32>,
    closed: [AtomicU64; Closed::ALL.len()],
    accepted: AtomicU64,
    /// Told when the last connection has gone.
    empty: tokio::sync::Notify,
}

#[derive(Debug)]
struct Entry {
    pace: Arc<Pace>,
    abort: Option<AbortHandle>,
}

/// A connection's place; it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) key: usize,
    registry: Arc<Registry>,
    /// Whose it is, where that is counted.
    address: Option<IpAddr>,
    pub(crate) pace: Arc<Pace>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(address) = self.address {
            self.registry.leave(address);
        }
        let mut open = self.registry.open.lock();
        // Who had to make room has left already, and its place may be another's.
        if open.get(self.key).is_some_and(|entry| Arc::ptr_eq(&entry.pace, &self.pace)) {
            open.remove(self.key);
        }
        if open.is_empty() {
            self.registry.empty.notify_waiters();
        }
    }
}

impl Registry {
    pub(crate) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::default(),
            by_address: Mutex::default(),
            budget: Budget::new(bounds.buffers),
            bounds,
            clock: Arc::default(),
            closed: Default::default(),
            accepted: AtomicU64::new(0),
            empty: tokio::sync::Notify::new(),
        })
    }

    /// What all connections together may hold.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// How many connections are open.
    pub(crate) fn open(&self) -> usize {
        self.open.lock().len()
    }

    /// How many were accepted so far.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// How many were closed for this reason.
    pub(crate) fn closed(&self, why: Closed) -> u64 {
        self.closed.get(why as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    fn count(&self, why: Closed, number: usize) {
        if let Some(count) = self.closed.get(why as usize) {
            count.fetch_add(number as u64, Ordering::Relaxed);
        }
    }

    /// A place for a new connection of this address, for which idle ones make room; none when none
    /// is idle, or the address has as many as it may have.
    pub(crate) fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let address = self.bounds.per_address.map(|most| (network(peer), most));
        if let Some((address, most)) = address {
            let mut by_address = self.by_address.lock();
            let count = by_address.entry(address).or_default();
            if *count >= most {
                self.count(Closed::Address, 1);
                return None;
            }
            *count += 1;
        }
        let address = address.map(|(address, _)| address);
        let place = self.enter_counted(address);
        if let (None, Some(address)) = (&place, address) {
            self.leave(address);
        }
        place
    }

    /// One connection of this address less.
    fn leave(&self, address: IpAddr) {
        let mut by_address = self.by_address.lock();
        if let Some(count) = by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&address);
            }
        }
    }

    fn enter_counted(self: &Arc<Self>, address: Option<IpAddr>) -> Option<Place> {
        let mut open = self.open.lock();
        if open.len() >= self.bounds.connections {
            let now = self.clock.load(Ordering::Relaxed);
            let made = make_room(&mut open, self.bounds.connections / 64 + 1, now);
            self.count(Closed::Full, made.max(1));
            if made == 0 {
                return None;
            }
        }
        let pace = Arc::new(Pace {
            state: AtomicU64::new(0),
            clock: Arc::clone(&self.clock),
            left_unread: AtomicBool::new(false),
            has_more_to_say: AtomicBool::new(false),
            has_spoken: AtomicBool::new(false),
            is_to_rest: AtomicBool::new(true),
            task: OnceLock::new(),
        });
        pace.is_at(Phase::Idle);
        let key = open.insert(Entry { pace: Arc::clone(&pace), abort: None });
        Some(Place { key, registry: Arc::clone(self), address, pace })
    }

    /// Says how the connection of this pace is ended from outside. It may have gone meanwhile, and
    /// its place be another's.
    pub(crate) fn ended_by(&self, key: usize, pace: &Arc<Pace>, abort: AbortHandle) {
        let mut open = self.open.lock();
        if let Some(entry) = open.get_mut(key).filter(|entry| Arc::ptr_eq(&entry.pace, pace)) {
            entry.abort = Some(abort);
        }
    }

    /// Looks at all connections, and closes those that are past a deadline.
    fn sweep(&self, now: u32) {
        let mut open = self.open.lock();
        let mut late = [0; Closed::ALL.len()];
        for (_, entry) in &mut *open {
            let (most, why) = match entry.pace.phase() {
                Phase::Idle => (self.bounds.idle, Closed::Idle),
                Phase::Head => (self.bounds.head, Closed::Head),
                Phase::Body => (self.bounds.body, Closed::Body),
                Phase::Write => (self.bounds.write, Closed::Write),
                Phase::Work => continue,
            };
            let ticks = now.saturating_sub(entry.pace.since());
            if why == Closed::Idle && ticks >= REST_TICKS {
                entry.pace.rest();
            }
            if TICK * ticks > most
                && let Some(abort) = entry.abort.take()
            {
                abort.abort();
                late[why as usize] += 1;
            }
        }
        drop(open);
        for why in Closed::ALL {
            self.count(why, late[why as usize]);
        }
    }

    /// Looks at the connections until it is dropped.
    pub(crate) async fn watch(self: Arc<Self>) {
        let start = Instant::now();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            // By the time that passed, not by the ticks that came: a process that was stopped for a
            // minute must not give everybody another one.
            let now = start.elapsed().as_millis() / TICK.as_millis();
            let now = u32::try_from(now).unwrap_or(u32::MAX);
            self.clock.store(now, Ordering::Relaxed);
            self.sweep(now);
        }
    }

    /// Until no connection is left.
    pub(crate) async fn emptied(&self) {
        loop {
            let told = self.empty.notified();
            if self.open.lock().is_empty() {
                return;
            }
            told.await;
        }
    }

    /// Ends what is left.
    pub(crate) fn end_all(&self) -> usize {
        let mut open = self.open.lock();
        let aborts: Vec<_> = open.iter_mut().filter_map(|(_, entry)| entry.abort.take()).collect();
        drop(open);
        aborts.iter().for_each(AbortHandle::abort);
        aborts.len()
    }
}

/// How long a connection is idle before it lets go of its buffers: longer than clients that ask
/// often pause, and much shorter than most connections of a pool.
const REST_TICKS: u32 = 4;

/// How long half of a request may be on its way before it makes room sooner than who is idle.
const HALF_TICKS: u32 = 4;

/// Whose address it is: of IPv6 the network, since one client has all of it.
fn network(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

/// Ends up to `most` connections that wait for their clients, those first that have waited longest.
/// Such as have sent half of a request for a second, or nothing ever, are spent first: whoever
/// opens many of those must not shut out who is well behaved and idle. Then idle ones, then all
/// halves. More than one at a time, so that a flood of new ones does not look through all of them
/// each time.
fn make_room(open: &mut Slab<Entry>, most: usize, now: u32) -> usize {
    let is_half = |pace: &Pace| matches!(pace.phase(), Phase::Head | Phase::Body);
    let is_old = |pace: &Pace| now.saturating_sub(pace.since()) > HALF_TICKS;
    let idle = |pace: &Pace| pace.phase() == Phase::Idle;
    let spent = |pace: &Pace| is_old(pace) && (is_half(pace) || idle(pace) && !pace.has_spoken());
    let groups: [&dyn Fn(&Pace) -> bool; 3] = [&spent, &idle, &is_half];
    groups.into_iter().map(|group| end_longest(open, group, most)).find(|n| *n > 0).unwrap_or(0)
}

fn end_longest(open: &mut Slab<Entry>, group: &dyn Fn(&Pace) -> bool, most: usize) -> usize {
    let waits = |entry: &Entry| group(&entry.pace) && entry.abort.is_some();
    let mut found: Vec<(u32, bool, usize)> = open
        .iter()
        .filter(|(_, entry)| waits(entry))
        .map(|(key, entry)| (entry.pace.since(), entry.pace.has_spoken(), key))
        .collect();
    found.sort_unstable();
    found.truncate(most);
    for (_, _, key) in &found {
        // Its place is free at once; the task ends when it next runs.
        if let Some(abort) = open.try_remove(*key).and_then(|entry| entry.abort) {
            abort.abort();
        }
    }
    found.len()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::super::paced::{MIN_TAKEN_BYTES, Paced};
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn aborted() -> AbortHandle {
        tokio::spawn(core::future::pending::<()>()).abort_handle()
    }

    /// A registry with as many connections as may be, and their tasks.
    fn full() -> (Arc<Registry>, Vec<Place>, Vec<AbortHandle>) {
        let registry = Registry::new(Bounds { connections: 3, ..Bounds::default() });
        let places: Vec<Place> = (0..3).map(|_| registry.enter(HERE).unwrap()).collect();
        let tasks: Vec<AbortHandle> = places.iter().map(|_| aborted()).collect();
        for (place, task) in places.iter().zip(&tasks) {
            registry.ended_by(place.key, &place.pace, task.clone());
        }
        (registry, places, tasks)
    }

    #[tokio::test]
    async fn each_phase_has_its_deadline() {
        let bounds = Bounds {
            idle: Duration::from_secs(4),
            head: Duration::from_secs(3),
            body: Duration::from_secs(2),
            write: Duration::from_secs(1),
            ..Bounds::default()
        };
        for (phase, why, ticks) in [
            (Phase::Idle, Some(Closed::Idle), 16),
            (Phase::Head, Some(Closed::Head), 12),
            (Phase::Body, Some(Closed::Body), 8),
            (Phase::Write, Some(Closed::Write), 4),
            (Phase::Work, None, 1_000),
        ] {
            let registry = Registry::new(bounds);
            let place = registry.enter(HERE).unwrap();
            let task = aborted();
            registry.ended_by(place.key, &place.pace, task.clone());
            place.pace.is_at(phase);
            registry.sweep(ticks);
            assert_eq!(Closed::ALL.iter().map(|why| registry.closed(*why)).sum::<u64>(), 0);
            registry.sweep(ticks + 1);
            registry.sweep(ticks + 2);
            if let Some(why) = why {
                assert_eq!(registry.closed(why), 1, "{phase:?}");
            }
            let closed = Closed::ALL.iter().map(|why| registry.closed(*why)).sum::<u64>();
            assert_eq!(closed, u64::from(why.is_some()), "{phase:?}");
        }
    }

    #[tokio::test]
    async fn who_is_idle_for_a_second_is_woken_once_to_rest() {
        let registry = Registry::new(Bounds::default());
        let place = registry.enter(HERE).unwrap();
        let woken = Arc::new(Wakes::default());
        place.pace.is_served_by(&Waker::from(Arc::clone(&woken)));
        let wakes = || woken.0.load(Ordering::Relaxed);
        // It holds nothing before it is spoken to.
        registry.sweep(REST_TICKS);
        assert_eq!(wakes(), 0);
        place.pace.works();
        registry.sweep(REST_TICKS - 1);
        assert!(!place.pace.is_to_rest() && wakes() == 0);
        place.pace.is_at(Phase::Work);
        registry.sweep(REST_TICKS);
        place.pace.is_at(Phase::Idle);
        assert!(!place.pace.is_to_rest() && wakes() == 0);
        registry.sweep(REST_TICKS);
        registry.sweep(REST_TICKS + 1);
        assert!(place.pace.is_to_rest() && wakes() == 1);
        // Who has said something meanwhile is answered first.
        place.pace.is_at(Phase::Head);
        assert!(!place.pace.is_to_rest());
    }

    #[derive(Default)]
    struct Wakes(AtomicU32);

    impl std::task::Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn who_takes_a_little_now_and_then_is_late_all_the_same() {
        for (bytes, is_late) in [(1, true), (1_024, true), (MIN_TAKEN_BYTES, false)] {
            let second = Duration::from_secs(1);
            let registry = Registry::new(Bounds { write: second, ..Bounds::default() });
            let place = registry.enter(HERE).unwrap();
            registry.ended_by(place.key, &place.pace, aborted());
            let (ours, mut theirs) = tokio::io::duplex(bytes);
            let mut stream = Paced::new(ours, Arc::clone(&place.pace), |_, _| None);
            place.pace.is_at(Phase::Write);
            let mut taken = vec![0; bytes];
            for tick in 1..=8 {
                registry.clock.store(tick, Ordering::Relaxed);
                stream.write_all(&taken).await.unwrap();
                theirs.read_exact(&mut taken).await.unwrap();
                registry.sweep(tick);
            }
            assert_eq!(registry.closed(Closed::Write), u64::from(is_late), "{bytes} each tick");
        }
    }

    #[tokio::test]
    async fn half_of_a_request_makes_room_before_who_is_idle() {
        let (registry, places, tasks) = full();
        places.iter().for_each(|place| place.pace.works());
        registry.clock.store(1, Ordering::Relaxed);
        places[1].pace.is_at(Phase::Head);
        // Just begun: nothing is wrong with it, and who has been idle longest goes.
        let _fourth = registry.enter(HERE).unwrap();
        tokio::task::yield_now().await;
        assert_eq!(tasks.each_finished(), [true, false, false]);
        registry.clock.store(1 + HALF_TICKS + 1, Ordering::Relaxed);
        let _fifth = registry.enter(HERE).unwrap();
        tokio::task::yield_now().await;
        assert_eq!(tasks.each_finished(), [true, true, false]);
    }

    #[tokio::test]
    async fn who_never_said_anything_makes_room_before_who_did() {
        let (registry, places, tasks) = full();
        places[0].pace.works();
        places[2].pace.works();
        // All came at the same time: a flood.
        let _fourth = registry.enter(HERE).unwrap();
        tokio::task::yield_now().await;
        assert_eq!(tasks.each_finished(), [false, true, false]);
        // Those of a pool are idle for long, and a newcomer has its second to say something.
        registry.clock.store(HALF_TICKS, Ordering::Relaxed);
        let fifth = registry.enter(HERE).unwrap();
        registry.ended_by(fifth.key, &fifth.pace, aborted());
        tokio::task::yield_now().await;
        assert_eq!(tasks.each_finished(), [true, true, false]);
        // After that it goes first, however long the others are idle.
        registry.clock.store(2 * HALF_TICKS + 1, Ordering::Relaxed);
        let _sixth = registry.enter(HERE).unwrap();
        tokio::task::yield_now().await;
        assert_eq!(tasks.each_finished(), [true, true, false]);
    }

    #[tokio::test]
    async fn who_was_idle_longest_makes_room() {
        let (registry, places, tasks) = full();
        places[0].pace.is_at(Phase::Work);
        registry.clock.store(5, Ordering::Relaxed);
        places[1].pace.is_at(Phase::Idle);
        let fourth = registry.enter(HERE).unwrap();
        tokio::task::yield_now().await;
        assert_eq!(tasks.each_finished(), [false, false, true]);
        // Nobody is idle: who has sent half of a head makes room.
        places[1].pace.is_at(Phase::Head);
        fourth.pace.is_at(Phase::Write);
        let fifth = registry.enter(HERE).unwrap();
        tokio::task::yield_now().await;
        assert_eq!(tasks.each_finished(), [false, true, true]);
        // All are being answered: the newcomer is turned away.
        fifth.pace.is_at(Phase::Work);
        assert!(registry.enter(HERE).is_none());
        assert_eq!((registry.open(), registry.closed(Closed::Full)), (3, 3));
        drop((places, fourth, fifth));
        registry.emptied().await;
        assert_eq!(registry.accepted(), 6);
    }

    trait Finished {
        fn each_finished(&self) -> [bool; 3];
    }

    impl Finished for Vec<AbortHandle> {
        fn each_finished(&self) -> [bool; 3] {
            [0, 1, 2].map(|place| self[place].is_finished())
        }
    }
}

//! The open connections, with the task that closes those past a deadline.
//!
//! A timer for each deadline of each connection would cost more than a decision. So a connection
//! only records its phase and the current tick. One task checks all connections four times a
//! second, and enforces a deadline with a delay of up to 250 ms.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use slab::Slab;
use tokio::task::AbortHandle;

use super::bounds::{Bounds, Closed};
use super::budget::Budget;
use super::pace::{Pace, Phase};

/// The length of a tick.
const TICK: Duration = Duration::from_millis(250);

/// All connections of a service.
#[derive(Debug)]
pub(crate) struct Registry {
    open: Mutex<Slab<Entry>>,
    /// The number of connections of each address, where that is limited.
    by_address: Mutex<HashMap<IpAddr, usize>>,
    budget: Arc<Budget>,
    bounds: Bounds,
    clock: Arc<AtomicU32>,
    closed: [AtomicU64; Closed::ALL.len()],
    accepted: AtomicU64,
    /// Notified when the last connection has closed.
    empty: tokio::sync::Notify,
}

#[derive(Debug)]
struct Entry {
    pace: Arc<Pace>,
    abort: Option<AbortHandle>,
}

/// The place of a connection in the registry; dropping it removes the connection.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) key: usize,
    registry: Arc<Registry>,
    /// The connection's address, where connections per address are limited.
    address: Option<IpAddr>,
    pub(crate) pace: Arc<Pace>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(address) = self.address {
            self.registry.leave(address);
        }
        let mut open = self.registry.open.lock();
        // A connection that made room has been removed already, and another may use its key.
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

    /// The memory budget that all connections share.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// The number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.open.lock().len()
    }

    /// The most connections that may be open.
    pub(crate) fn most(&self) -> usize {
        self.bounds.connections
    }

    /// The number of connections accepted so far.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// The number of connections closed for this reason.
    pub(crate) fn closed(&self, why: Closed) -> u64 {
        self.closed.get(why as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    fn count(&self, why: Closed, number: usize) {
        if let Some(count) = self.closed.get(why as usize) {
            count.fetch_add(number as u64, Ordering::Relaxed);
        }
    }

    /// Registers a new connection of this address; connections that wait for their clients make
    /// room for it. `None` when none can, or when the address already has the most allowed.
    pub(crate) fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<Registration> {
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

    /// Removes one connection of this address.
    fn leave(&self, address: IpAddr) {
        let mut by_address = self.by_address.lock();
        if let Some(count) = by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&address);
            }
        }
    }

    fn enter_counted(self: &Arc<Self>, address: Option<IpAddr>) -> Option<Registration> {
        let mut open = self.open.lock();
        if open.len() >= self.bounds.connections {
            let now = self.clock.load(Ordering::Relaxed);
            let made = make_room(&mut open, self.bounds.connections / 64 + 1, now);
            self.count(Closed::Full, made.max(1));
            if made == 0 {
                return None;
            }
        }
        let pace = Arc::new(Pace::new(&self.clock, self.bounds.grace));
        let key = open.insert(Entry { pace: Arc::clone(&pace), abort: None });
        Some(Registration { key, registry: Arc::clone(self), address, pace })
    }

    /// Sets how to end this connection from outside. The connection may have closed already, and
    /// another may use its key.
    pub(crate) fn ended_by(&self, key: usize, pace: &Arc<Pace>, abort: AbortHandle) {
        let mut open = self.open.lock();
        if let Some(entry) = open.get_mut(key).filter(|entry| Arc::ptr_eq(&entry.pace, pace)) {
            entry.abort = Some(abort);
        }
    }

    /// Advances the clock to this tick, and sweeps.
    pub(crate) fn tick(&self, now: u32) {
        self.clock.store(now, Ordering::Relaxed);
        self.sweep(now);
    }

    /// Closes all connections that are past a deadline.
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

    /// Sweeps the connections each tick, until it is dropped.
    pub(crate) async fn watch(self: Arc<Self>) {
        let start = Instant::now();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            // Derive the tick from the elapsed time, not from a count of wake-ups. A process that
            // was paused for a minute must not extend every deadline by a minute.
            let now = start.elapsed().as_millis() / TICK.as_millis();
            let now = u32::try_from(now).unwrap_or(u32::MAX);
            self.tick(now);
        }
    }

    /// Waits until no connection is left.
    pub(crate) async fn emptied(&self) {
        loop {
            let told = self.empty.notified();
            if self.open.lock().is_empty() {
                return;
            }
            told.await;
        }
    }

    /// Ends all remaining connections.
    pub(crate) fn end_all(&self) -> usize {
        let mut open = self.open.lock();
        let aborts: Vec<_> = open.iter_mut().filter_map(|(_, entry)| entry.abort.take()).collect();
        drop(open);
        aborts.iter().for_each(AbortHandle::abort);
        aborts.len()
    }
}

/// The idle time, in ticks, after which a connection releases its buffers. It exceeds the pauses of
/// busy clients, and is much shorter than the life of most pooled connections.
const REST_TICKS: u32 = 4;

/// The time, in ticks, after which half of a request makes room before idle connections do.
const HALF_TICKS: u32 = 4;

/// The address to count by: for IPv6 the /64 network, since one client has all of it.
pub(crate) fn network(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

/// Ends up to `most` connections that wait for their clients, the longest waiting first. The first
/// group are connections that have sent half of a request for over a second, or nothing since they
/// opened: a client that opens many of those must not displace well-behaved idle ones. The idle
/// ones follow, then all other halves. It ends several at a time, so that a flood of new
/// connections does not scan the registry each time.
fn make_room(open: &mut Slab<Entry>, most: usize, now: u32) -> usize {
    let is_half = |pace: &Pace| matches!(pace.phase(), Phase::Head | Phase::Body);
    let is_old = |pace: &Pace| now.saturating_sub(pace.since()) > HALF_TICKS;
    let idle = |pace: &Pace| pace.phase() == Phase::Idle;
    let spent = |pace: &Pace| is_old(pace) && (is_half(pace) || idle(pace) && !pace.has_sent());
    let groups: [&dyn Fn(&Pace) -> bool; 3] = [&spent, &idle, &is_half];
    groups.into_iter().map(|group| end_longest(open, group, most)).find(|n| *n > 0).unwrap_or(0)
}

fn end_longest(open: &mut Slab<Entry>, group: &dyn Fn(&Pace) -> bool, most: usize) -> usize {
    let waits = |entry: &Entry| group(&entry.pace) && entry.abort.is_some();
    let mut found: Vec<(u32, bool, usize)> = open
        .iter()
        .filter(|(_, entry)| waits(entry))
        .map(|(key, entry)| (entry.pace.since(), entry.pace.has_sent(), key))
        .collect();
    found.sort_unstable();
    found.truncate(most);
    for (_, _, key) in &found {
        // The key is free immediately; the task ends when it next runs.
        if let Some(abort) = open.try_remove(*key).and_then(|entry| entry.abort) {
            abort.abort();
        }
    }
    found.len()
}

#[cfg(test)]
mod tests;

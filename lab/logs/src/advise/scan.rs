//! The one pass over the events: the demand of each client, and its smallest N under each strategy.

use std::iter::Peekable;

use tollgate::Strategy;

use super::burst::Buckets;
use super::ramp::{Asked, Ramp};
use super::{Go, Progress, Step};
use crate::error::Error;
use crate::event::Event;
use crate::order::Iter;
use crate::read::Traffic;

/// Events between two calls of the progress function.
const BATCH_EVENTS: u64 = 8_192;

/// Requests of a client that are at most so far apart are of one page view.
pub(super) const VIEW_GAP_US: u64 = 2_000_000;

/// A client's place that is outside of the sample.
const OUTSIDE: u32 = u32::MAX;

/// The clients that are looked at, by dense numbers.
pub(super) struct Sample {
    /// The dense number of each client; `None` when all are looked at, and numbers are theirs.
    places: Option<Vec<u32>>,
    len: usize,
}

impl Sample {
    pub(super) fn new(traffic: &Traffic) -> Self {
        let clients = &traffic.clients;
        if clients.one_in() == 1 {
            return Self { places: None, len: clients.len() };
        }
        let mut len = 0_u32;
        let places = clients.ids().map(|id| {
            if !clients.is_sampled(id) {
                return OUTSIDE;
            }
            len += 1;
            len - 1
        });
        let places = places.collect();
        Self { places: Some(places), len: usize::try_from(len).unwrap_or(usize::MAX) }
    }

    /// The number of clients.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The dense number of the event's client; `None` outside of the sample.
    pub(super) fn place(&self, event: &Event) -> Option<usize> {
        let index = event.client.index() as usize;
        match &self.places {
            None => Some(index),
            Some(places) => {
                let place = *places.get(index)?;
                (place != OUTSIDE).then_some(place as usize)
            }
        }
    }
}

/// The behaviour of a client over all.
#[derive(Debug, Clone, Default)]
pub(super) struct Profile {
    pub(super) requests: u64,
    pub(super) units: u64,
    pub(super) first_us: u64,
    pub(super) last_us: u64,
    /// The smallest gap between two requests; `u64::MAX` with one request.
    gap_us: u64,
    /// The largest cost of a request.
    pub(super) largest: u64,
    /// The units of the page view that is open, and of the largest one.
    view_now: u64,
    pub(super) view: u64,
}

/// The behaviour of a client in one window.
#[derive(Debug, Default)]
pub(super) struct Busy {
    log_now: u64,
    log: u64,
    fixed_index: u64,
    fixed_now: u64,
    fixed: u64,
    buckets_now: u64,
    buckets: u64,
    ramp: Ramp,
}

impl Busy {
    /// The most in any `(t - D, t]`.
    pub(super) fn busiest(&self) -> u64 {
        self.log
    }

    /// The smallest number of units that never denies the client; `None` if there is none.
    pub(super) fn least(
        &self,
        strategy: Strategy,
        profile: &Profile,
        period_us: u64,
    ) -> Option<u64> {
        match strategy {
            Strategy::SlidingLog => Some(self.log),
            Strategy::FixedWindow => Some(self.fixed),
            Strategy::SlidingWindow => Some(self.buckets),
            Strategy::TokenBucket | Strategy::Gcra => Some(self.ramp.least()),
            // A gate admits one unit at a time.
            Strategy::Uniform if profile.largest > 1 || profile.gap_us == 0 => None,
            Strategy::Uniform => Some(period_us.div_ceil(profile.gap_us)),
            _ => None,
        }
    }
}

/// All clients in one window.
pub(super) struct Window {
    pub(super) period_us: u64,
    pub(super) busy: Vec<Busy>,
}

/// Counts the clients of one window.
struct Counting<'a> {
    period_us: u64,
    /// The sub-bucket of `sliding_window`; 0 where that strategy does not support the window.
    bucket_us: u64,
    /// The events that are about to leave the window, and the sub-buckets.
    log: Peekable<Iter<'a>>,
    buckets: Peekable<Iter<'a>>,
    busy: Vec<Busy>,
}

impl<'a> Counting<'a> {
    fn new(
        traffic: &'a Traffic,
        clients: usize,
        (period_us, bucket_us): (u64, u64),
    ) -> Result<Self, Error> {
        let behind = || Ok::<_, Error>(traffic.ordered.iter()?.peekable());
        let busy = std::iter::repeat_with(Busy::default).take(clients).collect();
        Ok(Self { period_us, bucket_us, log: behind()?, buckets: behind()?, busy })
    }

    /// Counts the next event, of the client with this dense number, which asked for `total` before.
    fn count(
        &mut self,
        sample: &Sample,
        event: &Event,
        (place, total): (usize, u64),
    ) -> Result<(), Error> {
        let Self { period_us, bucket_us, log, buckets, busy } = self;
        let at_us = event.at_us;
        let gone = |old: &Event| old.at_us + *period_us <= at_us;
        leave(log, gone, |old| {
            if let Some(busy) = sample.place(old).and_then(|place| busy.get_mut(place)) {
                busy.log_now -= u64::from(old.cost);
            }
        })?;
        if let Some(now) = at_us.checked_div(*bucket_us) {
            // The sub-bucket at the window's edge counts as a whole.
            let held = *period_us / *bucket_us + 1;
            let gone = |old: &Event| old.at_us / *bucket_us + held <= now;
            leave(buckets, gone, |old| {
                if let Some(busy) = sample.place(old).and_then(|place| busy.get_mut(place)) {
                    busy.buckets_now -= u64::from(old.cost);
                }
            })?;
        }
        let Some(busy) = busy.get_mut(place) else { return Ok(()) };
        let cost = u64::from(event.cost);
        busy.log_now += cost;
        busy.log = busy.log.max(busy.log_now);
        busy.buckets_now += cost;
        busy.buckets = busy.buckets.max(busy.buckets_now);
        let index = at_us / *period_us;
        if busy.fixed_index != index {
            (busy.fixed_index, busy.fixed_now) = (index, 0);
        }
        busy.fixed_now += cost;
        busy.fixed = busy.fixed.max(busy.fixed_now);
        busy.ramp.count(Asked { at_us, cost, total, period_us: *period_us });
        Ok(())
    }
}

/// Passes the events that are gone.
fn leave(
    behind: &mut Peekable<Iter<'_>>,
    gone: impl Fn(&Event) -> bool,
    mut remove: impl FnMut(&Event),
) -> Result<(), Error> {
    let is_gone = |old: &Result<Event, Error>| old.as_ref().map_or(true, &gone);
    while let Some(old) = behind.next_if(is_gone) {
        remove(&old?);
    }
    Ok(())
}

/// Calls a function with each event of the sample and its dense number.
pub(super) fn events(
    traffic: &Traffic,
    sample: &Sample,
    go: &mut Go<'_>,
    mut each: impl FnMut(usize, &Event) -> Result<(), Error>,
) -> Result<(), Error> {
    let total_events = traffic.ordered.len();
    for (event, events) in traffic.ordered.iter()?.zip(1..) {
        let event = event?;
        if let Some(place) = sample.place(&event) {
            each(place, &event)?;
        }
        if events % BATCH_EVENTS == 0 || events == total_events {
            go(Progress { step: Step::Scan, events, total_events })?;
        }
    }
    Ok(())
}

/// The result of the pass.
pub(super) struct Scan {
    pub(super) profiles: Vec<Profile>,
    /// In the order of the profiles; empty where no rate with a burst is wanted.
    pub(super) buckets: Vec<Buckets>,
    /// In the order of the periods.
    pub(super) windows: Vec<Window>,
}

impl Scan {
    /// Reads all events of the sample; `periods` are the windows and their sub-buckets.
    /// `has_bursts` says whether rates with a burst are wanted, too.
    pub(super) fn new(
        traffic: &Traffic,
        sample: &Sample,
        (periods, has_bursts): (&[(u64, u64)], bool),
        go: &mut Go<'_>,
    ) -> Result<Self, Error> {
        let mut buckets = vec![Buckets::default(); if has_bursts { sample.len() } else { 0 }];
        let fresh = Profile { gap_us: u64::MAX, ..Profile::default() };
        let mut profiles = vec![fresh; sample.len()];
        let windows = periods.iter().map(|periods| Counting::new(traffic, sample.len(), *periods));
        let mut windows = windows.collect::<Result<Vec<_>, Error>>()?;
        events(traffic, sample, go, |place, event| {
            let Some(profile) = profiles.get_mut(place) else { return Ok(()) };
            let total = profile.units;
            if let Some(buckets) = buckets.get_mut(place) {
                // The first request finds an empty backlog, whatever the time.
                buckets.count(u64::from(event.cost), event.at_us - profile.last_us);
            }
            profile.count(event);
            windows.iter_mut().try_for_each(|it| it.count(sample, event, (place, total)))
        })?;
        let done = |it: Counting<'_>| Window { period_us: it.period_us, busy: it.busy };
        Ok(Self { profiles, buckets, windows: windows.into_iter().map(done).collect() })
    }
}

impl Profile {
    fn count(&mut self, event: &Event) {
        let cost = u64::from(event.cost);
        if self.requests == 0 {
            self.first_us = event.at_us;
        } else {
            let gap_us = event.at_us - self.last_us;
            self.gap_us = self.gap_us.min(gap_us);
            if gap_us > VIEW_GAP_US {
                self.view_now = 0;
            }
        }
        self.view_now += cost;
        self.view = self.view.max(self.view_now);
        self.last_us = event.at_us;
        self.requests += 1;
        self.units += cost;
        self.largest = self.largest.max(cost);
    }
}

//! The measures of a case, attempt by attempt, in bounded memory.

mod denials;
mod share;
mod window;

use self::denials::Denials;
use self::share::{burstiness, fairness};
use self::window::{PeakWindow, Utilization};
use super::raster_builder::{RasterBuilder, most_denied};
use super::results::{Bucket, CaseResult, GroupResult, LimitResult, Served, Zoom};
use super::{Case, Experiment};
use tollgate::LimitSet;
use tollgate_logs::EventUnit;
use tollgate_logs::decide::Per;

pub(super) use self::share::rounded;
pub(super) use self::window::ADMITTED_BYTES;

/// How many of the most denied clients are reported.
const MOST_DENIED: usize = 10;

/// One attempt with its history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Attempt {
    /// Microseconds from the start.
    pub(super) at_us: u64,
    /// When the request was first tried.
    pub(super) first_us: u64,
    pub(super) client: u32,
    /// Its units, at least 1. Windows count them; all else counts attempts.
    pub(super) cost: u32,
    pub(super) workload: u32,
    /// How many times it was tried before.
    pub(super) tries: u32,
    /// The number of the request.
    pub(super) request: u64,
}

/// The outcome of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct AttemptOutcome {
    /// When it was decided, by the deciding clock.
    pub(super) decided_us: u64,
    /// The time from the request's first attempt to this answer.
    pub(super) waited_us: u64,
    pub(super) is_admitted: bool,
    /// How long a denial told to wait; `None` where no wait would help.
    pub(super) retry_after_us: Option<u64>,
    /// Whether its request is not tried again.
    pub(super) is_last: bool,
    /// Whether limits decided it. A failure rule counts nothing.
    pub(super) is_counted: bool,
}

/// The measures of one case.
pub(super) struct Measures {
    bucket_us: u64,
    start_us: u64,
    buckets: Vec<Bucket>,
    /// The number of buckets of the experiment, if nothing is late.
    planned: usize,
    capacity: Option<(PeakWindow, Utilization)>,
    /// A window for each limit, in the order of the parts.
    limits: Vec<(PeakWindow, LimitResult)>,
    /// Whether each of these limits counts costs, and not attempts.
    counts_cost: Vec<bool>,
    /// The requests and the admitted attempts of each client.
    clients: Vec<(u32, u32)>,
    /// The denied attempts of each client.
    denied: Vec<u32>,
    denials: Denials,
    groups: Vec<GroupResult>,
    raster: RasterBuilder,
    /// The number of buckets that have begun.
    begun: usize,
    failed: u64,
    bytes_per_subject: Option<f64>,
    /// The most keys and bytes that the store used.
    keys: Option<u64>,
    bytes: Option<u64>,
    /// For a queue, the deliveries in each bucket: these are the load behind it, not the accepted
    /// offers.
    delivered: Option<Vec<u64>>,
    /// The buckets around one edge.
    zoom: Option<(Zoom, Vec<Bucket>)>,
}

impl Measures {
    /// The measures of a case whose clients have numbers below `clients`.
    pub(super) fn new(
        experiment: &Experiment,
        case: &Case,
        clients: usize,
        raster: RasterBuilder,
    ) -> Self {
        let buckets = experiment.duration_us.div_ceil(experiment.bucket_us).max(1);
        let buckets = usize::try_from(buckets).unwrap_or(usize::MAX);
        let capacity = experiment.capacity.as_ref().map(|capacity| {
            let used = Utilization {
                units: capacity.units,
                window_us: capacity.window_us,
                begin_us: experiment.start_us,
                end_us: experiment.start_us.saturating_add(experiment.duration_us),
                window: 0,
                attempt: 0,
                admitted: 0,
                used: 0,
                windows: 0,
            };
            (PeakWindow::new(capacity.window_us, Per::Resource, 0), used)
        });
        let limits = case.parts.iter().flat_map(|part| {
            part.limits.limits().iter().map(|limit| {
                let quota = limit.quota();
                let result = LimitResult {
                    limit: limit.to_string(),
                    strategy: limit.strategy().name().to_owned(),
                    per: part.per.name().to_owned(),
                    peak: 0,
                    promise: case.promise(part, limit),
                    holds: true,
                };
                (PeakWindow::new(quota.period.as_micros(), part.per, clients), result)
            })
        });
        let none = GroupResult {
            requests: 0,
            attempts: 0,
            admitted: 0,
            never_served: 0,
            longest_wait_us: None,
        };
        Self {
            bucket_us: experiment.bucket_us,
            start_us: experiment.start_us,
            buckets: vec![Bucket::default(); buckets],
            planned: buckets,
            capacity,
            counts_cost: counts_cost(case),
            limits: limits.collect(),
            clients: vec![(0, 0); clients],
            denied: vec![0; clients],
            denials: Denials::new(),
            groups: vec![none; experiment.workloads.len()],
            raster,
            begun: 0,
            failed: 0,
            bytes_per_subject: None,
            keys: None,
            bytes: None,
            delivered: case.queue.as_ref().map(|_| vec![0; buckets]),
            zoom: experiment.zoom().map(|zoom| (zoom, zoom.buckets())),
        }
    }

    /// Counts an attempt, in the order of decisions.
    pub(super) fn count(&mut self, attempt: &Attempt, outcome: AttemptOutcome) {
        let AttemptOutcome { decided_us, waited_us, is_admitted, is_last, is_counted, .. } =
            outcome;
        // The clocks of two machines may differ a little. Windows use the deciding clock, and
        // series over time count from the start on that clock.
        let at = decided_us.saturating_sub(self.start_us);
        self.grow(at);
        self.begin(at);
        for ((window, _), counts_cost) in self.limits.iter_mut().zip(&self.counts_cost) {
            window.pass(decided_us);
            if is_admitted && is_counted {
                let units = if *counts_cost { attempt.cost } else { 1 };
                window.admit(decided_us, attempt.client, units);
            }
        }
        let mut occupancy = 0;
        // A job that a queue accepts goes through only at its delivery.
        let goes_through = is_admitted && self.delivered.is_none();
        if let Some((window, used)) = &mut self.capacity {
            window.pass(decided_us);
            if goes_through {
                window.admit(decided_us, attempt.client, attempt.cost);
            }
            occupancy = window.units;
            // Windows aligned to the clock, as those of a fixed window.
            used.count(decided_us, attempt.cost, goes_through);
        }
        let place = usize::try_from(at / self.bucket_us).unwrap_or(usize::MAX);
        let last = self.buckets.len() - 1;
        if let Some(bucket) = self.buckets.get_mut(place.min(last)) {
            bucket.admitted += u64::from(is_admitted);
            bucket.denied += u64::from(!is_admitted);
            bucket.occupancy = bucket.occupancy.max(occupancy);
        }
        if let Some((zoom, buckets)) = &mut self.zoom
            && let Some(bucket) = zoom.place(at).and_then(|place| buckets.get_mut(place))
        {
            bucket.admitted += u64::from(is_admitted);
            bucket.denied += u64::from(!is_admitted);
        }
        if let Some(denied) = self.denied.get_mut(attempt.client as usize) {
            *denied = denied.saturating_add(u32::from(!is_admitted));
        }
        if !is_admitted {
            self.denials.count(attempt.client, at, outcome.retry_after_us);
        }
        if let Some((requests, admitted)) = self.clients.get_mut(attempt.client as usize) {
            *requests = requests.saturating_add(u32::from(attempt.tries == 0));
            *admitted = admitted.saturating_add(u32::from(is_admitted));
        }
        if let Some(group) = self.groups.get_mut(attempt.workload as usize) {
            group.attempts += 1;
            group.requests += u64::from(attempt.tries == 0);
            if is_admitted {
                group.admitted += 1;
                group.longest_wait_us = group.longest_wait_us.max(Some(waited_us));
            } else if is_last {
                group.never_served += 1;
            }
        }
        self.raster.see(attempt.client, at, is_admitted, &self.denied);
    }

    /// Counts a delivered job of a queue, in the order of time.
    pub(super) fn deliver(&mut self, now_us: u64) {
        let at = now_us.saturating_sub(self.start_us);
        self.begin(at);
        let place = usize::try_from(at / self.bucket_us).unwrap_or(usize::MAX);
        if let Some(count) = self.delivered.as_mut().and_then(|counts| counts.get_mut(place)) {
            *count += 1;
        }
        if let Some((window, used)) = &mut self.capacity {
            window.pass(now_us);
            window.admit(now_us, 0, 1);
            used.deliver(now_us);
            if let Some(bucket) = self.buckets.get_mut(place) {
                bucket.occupancy = bucket.occupancy.max(window.units);
            }
        }
    }

    /// Counts an attempt without an answer: neither admitted nor denied.
    pub(super) fn fail(&mut self, attempt: &Attempt) {
        self.failed += 1;
        let is_first = attempt.tries == 0;
        // A strategy cannot be unfair to a client that got no answer.
        if let Some(group) = self.groups.get_mut(attempt.workload as usize) {
            group.attempts += 1;
            group.requests += u64::from(is_first);
            group.never_served += 1;
        }
    }

    /// Sets the start of the case on the deciding clock, in place of the experiment's own.
    pub(super) fn start_at(&mut self, start_us: u64) {
        if let Some((_, used)) = &mut self.capacity {
            used.end_us = start_us.saturating_add(used.end_us - used.begin_us);
            used.begin_us = start_us;
        }
        self.start_us = start_us;
    }

    /// Adds buckets for late decisions after the end, as of a slow store. Their number is bounded;
    /// the last one contains everything later.
    fn grow(&mut self, at: u64) {
        let place = usize::try_from(at / self.bucket_us).unwrap_or(usize::MAX);
        if place >= self.buckets.len() {
            let most = self.planned.saturating_mul(2);
            self.buckets.resize(place.saturating_add(1).min(most), Bucket::default());
        }
    }

    /// Begins all buckets up to this time, with the occupancy at the start of each, even if no
    /// client asks in it.
    fn begin(&mut self, now_us: u64) {
        let last = usize::try_from(now_us / self.bucket_us).unwrap_or(usize::MAX);
        while self.begun <= last && self.begun < self.buckets.len() {
            let start_us = self.begun as u64 * self.bucket_us;
            if let (Some((window, _)), Some(bucket)) =
                (&mut self.capacity, self.buckets.get_mut(self.begun))
            {
                window.pass(self.start_us.saturating_add(start_us));
                bucket.occupancy = window.units;
            }
            self.begun += 1;
        }
    }

    /// Records what a store uses now: bytes and keys.
    pub(super) fn held(&mut self, held: Option<(usize, usize)>) {
        let Some((bytes, keys @ 1..)) = held else { return };
        let each = bytes as f64 / keys as f64;
        let most = self.bytes_per_subject.map_or(each, |most| most.max(each));
        self.bytes_per_subject = Some(most);
        self.keys = self.keys.max(Some(keys as u64));
        self.bytes = self.bytes.max(Some(bytes as u64));
    }

    /// The results; `name` returns the name of a client.
    pub(super) fn finish(mut self, case: &Case, name: impl Fn(u32) -> String) -> CaseResult {
        self.begin(u64::MAX);
        let sum = |of: fn(&GroupResult) -> u64| self.groups.iter().map(of).sum::<u64>();
        let (requests, attempts) = (sum(|group| group.requests), sum(|group| group.attempts));
        let admitted = sum(|group| group.admitted);
        let limits = self.limits.into_iter().map(|(window, result)| LimitResult {
            peak: window.most,
            holds: window.most <= result.promise,
            ..result
        });
        let (peak, used_share) = match self.capacity {
            Some((window, used)) => (Some(window.most), used.share()),
            None => (None, None),
        };
        let admitted_of = |bucket: &Bucket| bucket.admitted;
        let through =
            self.delivered.unwrap_or_else(|| self.buckets.iter().map(admitted_of).collect());
        CaseResult {
            name: case.name.clone(),
            limits: limits.collect(),
            requests,
            attempts,
            admitted,
            denied: attempts - admitted - self.failed,
            retries: attempts - requests,
            never_served: sum(|group| group.never_served),
            peak,
            used_share: used_share.map(rounded),
            fairness: fairness(&self.clients).map(rounded),
            longest_wait_us: self.groups.iter().filter_map(|group| group.longest_wait_us).max(),
            burstiness: burstiness(&through).map(rounded),
            keys: self.keys,
            bytes: self.bytes,
            bytes_per_subject: self.bytes_per_subject.map(rounded),
            live: None,
            queue: None,
            nodes: None,
            backend: None,
            groups: self.groups,
            buckets: self.buckets,
            told_wait_us: self.denials.waits(),
            most_admitted: most_admitted(&self.clients, &name),
            most_denied: most_denied(&self.denied, MOST_DENIED)
                .into_iter()
                .map(|(client, denied)| {
                    let counted = self.clients.get(client as usize);
                    let admitted = counted.map_or(0, |(_, admitted)| u64::from(*admitted));
                    self.denials.of(client, name(client), denied, admitted)
                })
                .collect(),
            zoom: self.zoom.map(|(_, buckets)| buckets).unwrap_or_default(),
            raster: self.raster.finish(&self.denied, name),
        }
    }
}

/// The client with the most admitted attempts; `clients` has the requests and the admitted attempts
/// of each.
fn most_admitted(clients: &[(u32, u32)], name: impl Fn(u32) -> String) -> Option<Served> {
    let most = clients.iter().map(|(_, admitted)| *admitted).max().filter(|most| *most > 0)?;
    let mut has_most = (0..).zip(clients).filter(|(_, (_, admitted))| *admitted == most);
    let (client, _) = has_most.next()?;
    let is_alone = has_most.next().is_none();
    Some(Served { client: name(client), admitted: u64::from(most), is_alone })
}

/// Whether each limit of a case counts the costs of a log, and not attempts.
fn counts_cost(case: &Case) -> Vec<bool> {
    let sets = || case.parts.iter().map(|part| &part.limits);
    let unit = EventUnit::of(sets()).unwrap_or_default();
    sets().flat_map(LimitSet::limits).map(|limit| unit.is_of(limit)).collect()
}

#[cfg(test)]
mod tests;

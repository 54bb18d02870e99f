//! What is measured of a case, attempt by attempt, in bounded memory.

use std::collections::VecDeque;

use super::raster_builder::{RasterBuilder, most_denied};
use super::results::{Bucket, CaseResult, Denied, GroupResult, LimitResult};
use super::{Case, Experiment};
use crate::decide::Per;

/// How many of the most denied clients are told.
const MOST_DENIED: usize = 10;

/// One attempt with its history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Attempt {
    /// Microseconds from the start.
    pub(super) at_us: u64,
    /// When the request was first tried.
    pub(super) first_us: u64,
    pub(super) client: u32,
    pub(super) workload: u32,
    /// How often it was tried before.
    pub(super) tries: u32,
    /// The number of the request.
    pub(super) request: u64,
}

/// What became of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct AttemptOutcome {
    /// When it was decided, by the clock that decides.
    pub(super) decided_us: u64,
    /// How long ago its request was first tried when the answer was there.
    pub(super) waited_us: u64,
    pub(super) is_admitted: bool,
    /// Its request is not tried again.
    pub(super) is_last: bool,
}

/// When a client was let through.
type Admitted = (u64, u32);

/// What that takes for as long as it is in a window.
pub(super) const ADMITTED_BYTES: u64 = size_of::<Admitted>() as u64;

/// The most admitted in any half-open window `(t - D, t]` of one subject: of all clients, or of
/// each. What is held is what was admitted in the last window.
struct PeakWindow {
    window_us: u64,
    per: Per,
    admitted: VecDeque<Admitted>,
    /// Of each client, where each has its own.
    counts: Vec<u32>,
    most: u64,
}

impl PeakWindow {
    fn new(window_us: u64, per: Per, clients: usize) -> Self {
        let counts = if per == Per::Client { vec![0; clients] } else { Vec::new() };
        Self { window_us, per, admitted: VecDeque::new(), counts, most: 0 }
    }

    /// Forgets what has left the window that ends now.
    fn pass(&mut self, now_us: u64) {
        while let Some((at, client)) = self.admitted.front().copied() {
            if at + self.window_us > now_us {
                return;
            }
            self.admitted.pop_front();
            if let Some(count) = self.counts.get_mut(client as usize) {
                *count -= 1;
            }
        }
    }

    /// An attempt comes, and is let through or not.
    fn see(&mut self, now_us: u64, client: u32, is_admitted: bool) {
        self.pass(now_us);
        if is_admitted {
            self.admit(now_us, client);
        }
    }

    fn admit(&mut self, now_us: u64, client: u32) {
        self.admitted.push_back((now_us, client));
        let now = match self.per {
            Per::Resource => self.admitted.len() as u64,
            Per::Client => self.counts.get_mut(client as usize).map_or(0, |count| {
                *count += 1;
                u64::from(*count)
            }),
        };
        self.most = self.most.max(now);
    }
}

/// What of a capacity is used where more was asked for: in the windows of the clock that lie wholly
/// within the experiment.
struct Utilization {
    units: u64,
    window_us: u64,
    begin_us: u64,
    end_us: u64,
    /// The number of the window at work, with what was asked for and admitted in it.
    window: u64,
    attempt: u64,
    admitted: u64,
    used: u64,
    windows: u64,
}

impl Utilization {
    fn count(&mut self, at_us: u64, is_admitted: bool) {
        self.pass(at_us);
        self.attempt += 1;
        self.admitted += u64::from(is_admitted);
    }

    /// What was asked for before goes through now.
    fn deliver(&mut self, at_us: u64) {
        self.pass(at_us);
        self.admitted += 1;
    }

    fn pass(&mut self, at_us: u64) {
        let window = at_us / self.window_us;
        if window != self.window {
            self.close();
            self.window = window;
        }
    }

    fn close(&mut self) {
        let begin_us = self.window.saturating_mul(self.window_us);
        let is_whole =
            begin_us >= self.begin_us && begin_us.saturating_add(self.window_us) <= self.end_us;
        if is_whole && self.attempt > self.units {
            self.windows += 1;
            self.used += self.admitted.min(self.units);
        }
        (self.attempt, self.admitted) = (0, 0);
    }

    fn share(mut self) -> Option<f64> {
        self.close();
        (self.windows > 0).then(|| self.used as f64 / (self.windows * self.units) as f64)
    }
}

/// The measures of one case.
pub(super) struct Measures {
    bucket_us: u64,
    start_us: u64,
    buckets: Vec<Bucket>,
    /// How many buckets the experiment has, if nothing is late.
    planned: usize,
    capacity: Option<(PeakWindow, Utilization)>,
    /// A window for each limit, in the order of the parts.
    limits: Vec<(PeakWindow, LimitResult)>,
    /// Of each client, requests and admitted.
    clients: Vec<(u32, u32)>,
    /// Of each client, attempts that were denied.
    denied: Vec<u32>,
    groups: Vec<GroupResult>,
    raster: RasterBuilder,
    /// How many buckets have begun.
    begun: usize,
    failed: u64,
    bytes_per_subject: Option<f64>,
    /// The most keys and bytes that the store held.
    keys: Option<u64>,
    bytes: Option<u64>,
    /// Of a queue, how many were delivered in each bucket: what comes behind it feels these, and
    /// not what it accepts.
    delivered: Option<Vec<u64>>,
}

impl Measures {
    /// Measures of a case whose clients have numbers below `clients`.
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
                    promise: limit.strategy().traits(quota).worst_window,
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
            limits: limits.collect(),
            clients: vec![(0, 0); clients],
            denied: vec![0; clients],
            groups: vec![none; experiment.workloads.len()],
            raster,
            begun: 0,
            failed: 0,
            bytes_per_subject: None,
            keys: None,
            bytes: None,
            delivered: case.queue.as_ref().map(|_| vec![0; buckets]),
        }
    }

    /// Counts an attempt, in the order in which they were decided.
    pub(super) fn count(&mut self, attempt: &Attempt, outcome: AttemptOutcome) {
        let AttemptOutcome { decided_us, waited_us, is_admitted, is_last } = outcome;
        // Clocks of two machines may differ by a little: windows go by the one that decides, and
        // what is over time by when it began there.
        let at = decided_us.saturating_sub(self.start_us);
        self.grow(at);
        self.begin(at);
        for (window, _) in &mut self.limits {
            window.see(decided_us, attempt.client, is_admitted);
        }
        let mut occupancy = 0;
        // What a queue accepts goes through later.
        let goes_through = is_admitted && self.delivered.is_none();
        if let Some((window, used)) = &mut self.capacity {
            window.see(decided_us, attempt.client, goes_through);
            occupancy = window.admitted.len() as u64;
            // The windows of the clock, as those of a fixed window.
            used.count(decided_us, goes_through);
        }
        let place = usize::try_from(at / self.bucket_us).unwrap_or(usize::MAX);
        let last = self.buckets.len() - 1;
        if let Some(bucket) = self.buckets.get_mut(place.min(last)) {
            bucket.admitted += u64::from(is_admitted);
            bucket.denied += u64::from(!is_admitted);
            bucket.occupancy = bucket.occupancy.max(occupancy);
        }
        if let Some(denied) = self.denied.get_mut(attempt.client as usize) {
            *denied = denied.saturating_add(u32::from(!is_admitted));
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

    /// Counts a job of a queue that is delivered, in the order of time.
    pub(super) fn deliver(&mut self, now_us: u64) {
        let at = now_us.saturating_sub(self.start_us);
        self.begin(at);
        let place = usize::try_from(at / self.bucket_us).unwrap_or(usize::MAX);
        if let Some(count) = self.delivered.as_mut().and_then(|counts| counts.get_mut(place)) {
            *count += 1;
        }
        if let Some((window, used)) = &mut self.capacity {
            window.see(now_us, 0, true);
            used.deliver(now_us);
            if let Some(bucket) = self.buckets.get_mut(place) {
                bucket.occupancy = bucket.occupancy.max(window.admitted.len() as u64);
            }
        }
    }

    /// Counts an attempt that got no answer: it was neither admitted nor denied.
    pub(super) fn fail(&mut self, attempt: &Attempt) {
        self.failed += 1;
        let is_first = attempt.tries == 0;
        // No strategy was unfair to a client that nobody answered.
        if let Some(group) = self.groups.get_mut(attempt.workload as usize) {
            group.attempts += 1;
            group.requests += u64::from(is_first);
            group.never_served += 1;
        }
    }

    /// The case begins at this time of the clock that decides, and not at the experiment's own.
    pub(super) fn start_at(&mut self, start_us: u64) {
        if let Some((_, used)) = &mut self.capacity {
            used.end_us = start_us.saturating_add(used.end_us - used.begin_us);
            used.begin_us = start_us;
        }
        self.start_us = start_us;
    }

    /// Makes buckets for what is decided after the end, as a store that is late does; of so many
    /// more that memory stays bounded, the last has what is later still.
    fn grow(&mut self, at: u64) {
        let place = usize::try_from(at / self.bucket_us).unwrap_or(usize::MAX);
        if place >= self.buckets.len() {
            let most = self.planned.saturating_mul(2);
            self.buckets.resize(place.saturating_add(1).min(most), Bucket::default());
        }
    }

    /// Begins the buckets up to this time, with what the window of the capacity holds at the start
    /// of each: also of those in which nobody asks.
    fn begin(&mut self, now_us: u64) {
        let last = usize::try_from(now_us / self.bucket_us).unwrap_or(usize::MAX);
        while self.begun <= last && self.begun < self.buckets.len() {
            let start_us = self.begun as u64 * self.bucket_us;
            if let (Some((window, _)), Some(bucket)) =
                (&mut self.capacity, self.buckets.get_mut(self.begun))
            {
                window.pass(self.start_us.saturating_add(start_us));
                bucket.occupancy = window.admitted.len() as u64;
            }
            self.begun += 1;
        }
    }

    /// What a store holds now: bytes and keys.
    pub(super) fn held(&mut self, held: Option<(usize, usize)>) {
        let Some((bytes, keys @ 1..)) = held else { return };
        let each = bytes as f64 / keys as f64;
        let most = self.bytes_per_subject.map_or(each, |most| most.max(each));
        self.bytes_per_subject = Some(most);
        self.keys = self.keys.max(Some(keys as u64));
        self.bytes = self.bytes.max(Some(bytes as u64));
    }

    /// The measures; `name` is what a client is called.
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
            groups: self.groups,
            buckets: self.buckets,
            most_denied: most_denied(&self.denied, MOST_DENIED)
                .into_iter()
                .map(|(client, denied)| Denied { client: name(client), denied })
                .collect(),
            raster: self.raster.finish(&self.denied, name),
        }
    }
}

/// To four places: more would be noise.
pub(super) fn rounded(number: f64) -> f64 {
    libm::round(number * 10_000.0) / 10_000.0
}

/// Jain's index of what each client got over its fair share, which is the max-min fair division of
/// all that was admitted: nobody gets more than it asks for, and what one does not need is divided
/// among the others.
///
/// Source: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness", DEC TR-301, 1984.
fn fairness(clients: &[(u32, u32)]) -> Option<f64> {
    let mut wanted: Vec<u32> =
        clients.iter().map(|(wanted, _)| *wanted).filter(|n| *n > 0).collect();
    let mut left: u64 = clients.iter().map(|(_, got)| u64::from(*got)).sum();
    if wanted.is_empty() || left == 0 {
        return None;
    }
    wanted.sort_unstable();
    // Water fills up: those who want least are served whole, the others to the same level.
    let mut level = f64::INFINITY;
    for (place, want) in wanted.iter().enumerate() {
        let others = (wanted.len() - place) as u64;
        if u64::from(*want) * others > left {
            level = left as f64 / others as f64;
            break;
        }
        left -= u64::from(*want);
    }
    let (mut sum, mut squares, mut number) = (0.0, 0.0, 0.0);
    for (wanted, got) in clients.iter().filter(|(wanted, _)| *wanted > 0) {
        let share = f64::from(*got) / f64::from(*wanted).min(level);
        sum += share;
        squares += share * share;
        number += 1.0;
    }
    Some(sum * sum / (number * squares))
}

/// The most in a bucket over the mean, from the first admitted to the last.
fn burstiness(buckets: &[u64]) -> Option<f64> {
    let first = buckets.iter().position(|count| *count > 0)?;
    let last = buckets.iter().rposition(|count| *count > 0)?;
    let span = buckets.get(first..=last)?;
    let most = span.iter().max()?;
    let sum: u64 = span.iter().sum();
    Some(*most as f64 * span.len() as f64 / sum as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(clients: &[(u32, u32)]) -> f64 {
        rounded(fairness(clients).unwrap())
    }

    #[test]
    fn fairness_is_what_each_got_of_its_fair_share() {
        assert_eq!(fairness(&[]), None);
        assert_eq!(fairness(&[(5, 0), (9, 0)]), None, "nobody got anything");
        assert!((index(&[(10, 10), (10, 10)]) - 1.0).abs() < 1e-9, "all got all");
        assert!((index(&[(10, 5), (10, 5)]) - 1.0).abs() < 1e-9);
        // One of four got it all.
        assert!((index(&[(9, 8), (9, 0), (9, 0), (9, 0)]) - 0.25).abs() < 1e-9);
        // Who wants little and gets it takes nothing from the fairness.
        assert!((index(&[(1, 1), (100, 49), (100, 49)]) - 1.0).abs() < 1e-9);
        // A greedy one that got what a polite one wanted: its fair share was 5 and it got 10.
        assert!(index(&[(100, 10), (5, 0), (0, 0)]) < 0.6);
    }

    #[test]
    fn a_window_is_half_open() {
        let mut window = PeakWindow::new(10, Per::Resource, 0);
        for (at, most) in [(0, 1), (9, 2), (10, 2), (19, 2), (20, 2), (20, 3)] {
            window.pass(at);
            window.admit(at, 0);
            assert_eq!(window.most, most, "at {at}");
        }
        let mut each = PeakWindow::new(10, Per::Client, 2);
        for (at, client) in [(0, 0), (1, 1), (2, 0), (10, 0), (12, 0)] {
            each.pass(at);
            each.admit(at, client);
        }
        assert_eq!((each.most, &each.counts[..]), (2, &[2, 0][..]));
    }

    #[test]
    fn use_is_of_windows_in_which_enough_was_asked_for() {
        let mut used = Utilization {
            units: 2,
            window_us: 10,
            begin_us: 1_000,
            end_us: 1_035,
            window: 0,
            attempt: 0,
            admitted: 0,
            used: 0,
            windows: 0,
        };
        // One admitted of three in a window, no more asked for than the capacity in one, more than
        // it admitted in one, and one that ends after the experiment.
        let attempt = [
            [(0, true), (5, false), (9, false)].as_slice(),
            &[(10, true), (11, false)],
            &[(20, true), (21, true), (22, true)],
            &[(30, false), (31, false), (32, false)],
        ];
        for (at, is_admitted) in attempt.concat() {
            used.count(1_000 + at, is_admitted);
        }
        assert_eq!(used.share(), Some(0.75));
    }

    #[test]
    fn burstiness_is_the_peak_over_the_mean_while_something_comes() {
        assert_eq!(burstiness(&[0, 0]), None);
        assert_eq!(burstiness(&[0, 3, 3, 3, 0]), Some(1.0));
        assert_eq!(burstiness(&[6, 0, 0]), Some(1.0));
        assert_eq!(burstiness(&[6, 0, 3]), Some(2.0));
    }
}

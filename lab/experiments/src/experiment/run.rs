//! The run of one case: its attempts in the order in which they are due.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::arrivals::{Arrivals, Request, RequestSource};
use super::measure::{Attempt, AttemptOutcome, Measures};
use super::raster_builder::{ROWS, RasterBuilder};
use super::results::CaseResult;
use super::{Case, Experiment, Workload};
use crate::error::Error;
use tollgate_logs::decide::Verdict;
use tollgate_logs::event::ClientId;

/// A request to retry, by its time and the order of denials.
type PendingRetry = Reverse<(u64, u64, Attempt)>;

/// The bytes of a request that waits for a retry.
pub(super) const WAITING_BYTES: u64 = size_of::<PendingRetry>() as u64;

/// A workload with its next request.
struct NextRequest<'e> {
    workload: u32,
    source: RequestSource<'e>,
    next: Option<Request>,
}

/// The attempts of one case as they become due, and their outcomes. The same code serves simulated
/// and real time.
pub(super) struct Run<'e> {
    experiment: &'e Experiment,
    /// The number of the first client of each workload.
    firsts: Vec<u32>,
    /// The workloads of the case.
    sources: Vec<NextRequest<'e>>,
    batch: usize,
    /// The generated, undecided requests in order of time; those before `next` are done.
    fresh: Vec<Attempt>,
    next: usize,
    again: BinaryHeap<PendingRetry>,
    /// Whether no client ever retries: many attempts are then decided together.
    pub(super) is_open: bool,
    requests: u64,
    denials: u64,
    pub(super) measures: Measures,
}

impl<'e> Run<'e> {
    /// Generates requests in batches of `batch`.
    pub(super) fn new(
        experiment: &'e Experiment,
        case: &Case,
        batch: usize,
    ) -> Result<Self, Error> {
        let (mut firsts, mut clients) = (Vec::new(), 0_u64);
        for workload in &experiment.workloads {
            firsts.push(u32::try_from(clients).map_err(|_| too_many())?);
            clients = u64::saturating_add(clients, workload.all_clients());
        }
        let clients = u32::try_from(clients).map_err(|_| too_many())?;
        let mut sources = Vec::new();
        let mut is_open = true;
        for &place in &case.workloads {
            let (Some(workload), Some(&first)) =
                (experiment.workloads.get(place), firsts.get(place))
            else {
                continue;
            };
            is_open &= workload.retry.is_never();
            let number = u32::try_from(place).unwrap_or(u32::MAX);
            // Each workload has its own random sequence, so that other workloads do not change it.
            let seed = experiment.seed ^ (u64::from(number) + 1).rotate_left(32);
            let mut source = RequestSource::new(workload, first, seed, experiment.start_us)?;
            let next = source.next()?;
            sources.push(NextRequest { workload: number, source, next });
        }
        let clients = clients as usize;
        let spread = spread(experiment, case, &firsts);
        let raster = RasterBuilder::new(spread, clients, experiment.duration_us);
        let measures = Measures::new(experiment, case, clients, raster);
        Ok(Self {
            experiment,
            firsts,
            sources,
            batch,
            fresh: Vec::with_capacity(batch),
            next: 0,
            again: BinaryHeap::new(),
            is_open,
            requests: 0,
            denials: 0,
            measures,
        })
    }

    /// When the next attempt is due, in microseconds from the start; `None` if no attempt is known.
    pub(super) fn peek(&mut self) -> Result<Option<u64>, Error> {
        if self.next == self.fresh.len() {
            self.make()?;
        }
        let fresh = self.fresh.get(self.next).map(|fresh| fresh.at_us);
        let again = self.again.peek().map(|again| again.0.0);
        Ok(fresh.into_iter().chain(again).min())
    }

    /// The next attempt; of two at the same time a retry precedes a first attempt.
    pub(super) fn pop(&mut self) -> Result<Option<Attempt>, Error> {
        let due = self.peek()?;
        if due.is_some() && self.again.peek().map(|again| again.0.0) == due {
            return Ok(self.again.pop().map(|Reverse((.., attempt))| attempt));
        }
        let fresh = self.fresh.get(self.next).copied();
        self.next += usize::from(fresh.is_some());
        Ok(fresh)
    }

    /// Moves all generated attempts into `batch`, if there are no retries; empty at the end.
    pub(super) fn pop_all(&mut self, batch: &mut Vec<Attempt>) -> Result<(), Error> {
        if self.next == self.fresh.len() {
            self.make()?;
        }
        core::mem::swap(batch, &mut self.fresh);
        self.fresh.clear();
        self.next = 0;
        Ok(())
    }

    /// Generates the next requests of all workloads, in the order of time.
    fn make(&mut self) -> Result<(), Error> {
        self.fresh.clear();
        self.next = 0;
        while self.fresh.len() < self.batch {
            // There are few, so scanning all of them is fastest.
            let heads = self.sources.iter().enumerate();
            let heads = heads.filter_map(|(place, head)| head.next.map(|it| (it.at_us, place)));
            let Some((_, place)) = heads.min() else { return Ok(()) };
            let Some(head) = self.sources.get_mut(place) else { return Ok(()) };
            let Some(Request { at_us, client, cost }) = head.next else { return Ok(()) };
            head.next = head.source.next()?;
            self.fresh.push(Attempt {
                at_us,
                first_us: at_us,
                client,
                cost,
                workload: head.workload,
                tries: 0,
                request: self.requests,
            });
            self.requests += 1;
        }
        Ok(())
    }

    /// Counts an attempt that is answered as soon as it is made, and schedules its retry if it was
    /// denied.
    pub(super) fn count(&mut self, attempt: &Attempt, verdict: Verdict, now_us: u64) {
        let is_last = !self.try_again(attempt, verdict, now_us);
        let outcome = AttemptOutcome {
            decided_us: self.experiment.start_us.saturating_add(now_us),
            waited_us: now_us - attempt.first_us,
            is_admitted: verdict.is_admitted,
            retry_after_us: verdict.retry_after_us,
            is_last,
            is_counted: true,
        };
        self.measures.count(attempt, outcome);
    }

    /// Schedules the retry of an attempt that was denied at this time. Returns false if its client
    /// gives up.
    pub(super) fn try_again(
        &mut self,
        attempt: &Attempt,
        verdict: Verdict,
        answered_us: u64,
    ) -> bool {
        let workloads = &self.experiment.workloads;
        let Some(workload) = workloads.get(attempt.workload as usize) else { return false };
        if verdict.is_admitted || self.is_open {
            return false;
        }
        let Attempt { request, tries, .. } = *attempt;
        let Experiment { seed, duration_us, .. } = *self.experiment;
        let wait = workload.retry.after(seed, request, tries, verdict.retry_after_us);
        let at_us = wait.map(|wait| answered_us.saturating_add(wait));
        // A retry after the end is never made, so its request counts as not served.
        let again = at_us.filter(|at_us| *at_us < duration_us).map(|at_us| Attempt {
            at_us,
            tries: tries + 1,
            ..*attempt
        });
        self.again.extend(again.map(|again| Reverse((again.at_us, self.denials, again))));
        self.denials += 1;
        again.is_some()
    }

    /// The results of all attempts.
    pub(super) fn finish(self, case: &Case) -> CaseResult {
        let Self { experiment, firsts, measures, .. } = self;
        measures.finish(case, |client| {
            // The numbers of clients increase from one workload to the next.
            let place = firsts.partition_point(|first| *first <= client).saturating_sub(1);
            let of = experiment.workloads.get(place).zip(firsts.get(place));
            of.map_or_else(String::new, |(workload, first)| name_of(workload, client - first))
        })
    }
}

/// Some clients of a case, evenly from the first to the last: all, if they are few.
fn spread(experiment: &Experiment, case: &Case, firsts: &[u32]) -> Vec<u32> {
    let mut places = case.workloads.clone();
    places.sort_unstable();
    let all = places
        .iter()
        .filter_map(|place| experiment.workloads.get(*place).zip(firsts.get(*place).copied()));
    let number: u64 = all.clone().map(|(workload, _)| workload.all_clients()).sum();
    let step = number.div_ceil(ROWS as u64).max(1);
    let mut rows = Vec::new();
    // The next client to show, counted over all clients of the case.
    let (mut next, mut before) = (0, 0);
    for (workload, first) in all {
        let clients = workload.all_clients();
        while next < before + clients {
            let client = u32::try_from(next - before).unwrap_or(u32::MAX);
            rows.push(first.saturating_add(client));
            next += step;
        }
        before += clients;
    }
    rows
}

/// The name of a client in charts.
fn name_of(workload: &Workload, client: u32) -> String {
    match &workload.arrivals {
        Arrivals::Log(traffic) => {
            traffic.clients.printable(ClientId::new(client)).unwrap_or_default()
        }
        _ if workload.clients == 1 && workload.all_clients() == 1 => workload.name.clone(),
        _ => format!("{} {}", workload.name, u64::from(client) + 1),
    }
}

fn too_many() -> Error {
    tollgate_logs::Error::TooManyClients { max: u64::from(u32::MAX) }.into()
}

//! Lets simulated time pass.

use core::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use super::arrivals::{Arrivals, Source};
use super::findings;
use super::measure::{Asked, Measures, RASTER_CLIENTS};
use super::results::{Group, Results};
use super::{Case, Experiment, Workload};
use crate::decide::{Decider, Verdict};
use crate::error::Error;
use crate::event::{ClientId, Event};

/// How many requests are made before they are decided.
const BATCH: usize = 8_192;

/// How far a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// The case at work, an index into [`Experiment::cases`].
    pub case: usize,
    /// How many cases there are.
    pub cases: usize,
    /// Microseconds of the experiment that have passed in it.
    pub at_us: u64,
    /// Microseconds that it has.
    pub duration_us: u64,
    /// Attempts that were decided so far, in all cases.
    pub attempts: u64,
    /// What this machine took so far to make requests, to decide them, and to measure.
    pub took: Took,
}

/// Where the time of this machine went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Took {
    /// Making requests.
    pub making: Duration,
    /// Deciding attempts.
    pub deciding: Duration,
    /// Counting what became of them.
    pub measuring: Duration,
}

/// Runs every case over its traffic, by the time of its attempts, and measures what gets through.
///
/// `progress` is called every few thousand attempts and at the end of each case.
///
/// Memory: what was admitted in the last window of each limit, a few bytes for each client and for
/// each request that waits to be tried again, and the store's own. Not the number of attempts.
///
/// # Errors
/// A log that cannot be read again, or a decider's. [`Error::Stopped`] of a decider is none: what
/// was measured so far are the results, which are then not complete.
pub fn run(
    experiment: &Experiment,
    decider: &mut impl Decider,
    mut progress: impl FnMut(Progress),
) -> Result<Results, Error> {
    let groups = experiment
        .workloads
        .iter()
        .map(|workload| Group { name: workload.name.clone(), clients: workload.all_clients() });
    let mut results = Results {
        name: experiment.name.clone(),
        seed: experiment.seed,
        duration_us: experiment.duration_us,
        bucket_us: experiment.bucket_us,
        capacity: experiment.capacity.clone(),
        groups: groups.collect(),
        cases: Vec::with_capacity(experiment.cases.len()),
        findings: Vec::new(),
        complete: true,
    };
    let (mut attempts, mut took) = (0, Took::default());
    for (place, case) in experiment.cases.iter().enumerate() {
        decider.begin(&case.parts, experiment.keeps_counts && place > 0)?;
        let mut run = Run::new(experiment, case)?;
        let ran = run.all(decider, |now, run_attempts, run_took| {
            progress(Progress {
                case: place,
                cases: experiment.cases.len(),
                at_us: now.min(experiment.duration_us),
                duration_us: experiment.duration_us,
                attempts: attempts + run_attempts,
                took: took + run_took,
            });
        });
        match ran {
            Ok(()) => {}
            Err(Error::Stopped) => results.complete = false,
            Err(error) => return Err(error),
        }
        attempts += run.attempts;
        took = took + run.took;
        results.cases.push(run.measures.finish(case));
        if !results.complete {
            break;
        }
    }
    results.findings = experiment.notes.clone();
    let findings = findings::of(&results);
    results.findings.extend(findings);
    Ok(results)
}

impl core::ops::Add for Took {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            making: self.making + other.making,
            deciding: self.deciding + other.deciding,
            measuring: self.measuring + other.measuring,
        }
    }
}

/// A request that is tried again: when, and in the order in which denials came.
type Again = Reverse<(u64, u64, Asked)>;

/// A workload with its next request.
struct Head<'e> {
    workload: u32,
    source: Source<'e>,
    /// Microseconds from the start, and the client.
    next: Option<(u64, u32)>,
}

/// One case at work.
struct Run<'e> {
    experiment: &'e Experiment,
    /// The workloads of the case.
    sources: Vec<Head<'e>>,
    /// Requests that were made and not yet decided, in order of time; those before `next` are done.
    fresh: Vec<Asked>,
    next: usize,
    again: BinaryHeap<Again>,
    /// True when nobody ever tries again: then many are decided at once.
    is_open: bool,
    requests: u64,
    attempts: u64,
    denials: u64,
    measures: Measures,
    took: Took,
}

impl<'e> Run<'e> {
    fn new(experiment: &'e Experiment, case: &Case) -> Result<Self, Error> {
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
            // Each draws from a sequence of its own: another workload beside it changes nothing.
            let seed = experiment.seed ^ (u64::from(number) + 1).rotate_left(32);
            let mut source = Source::new(workload, first, seed, experiment.start_us)?;
            let next = source.next()?;
            sources.push(Head { workload: number, source, next });
        }
        let rows = rows(experiment, case, &firsts);
        let measures = Measures::new(experiment, case, clients as usize, rows);
        Ok(Self {
            experiment,
            sources,
            fresh: Vec::with_capacity(BATCH),
            next: 0,
            again: BinaryHeap::new(),
            is_open,
            requests: 0,
            attempts: 0,
            denials: 0,
            measures,
            took: Took::default(),
        })
    }

    fn all(
        &mut self,
        decider: &mut impl Decider,
        mut progress: impl FnMut(u64, u64, Took),
    ) -> Result<(), Error> {
        let (mut asks, mut verdicts) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        let mut batch = Vec::with_capacity(BATCH);
        let mut since = 0;
        loop {
            let start = Instant::now();
            self.take(&mut batch)?;
            self.took.making += start.elapsed();
            let Some(last) = batch.last().copied() else { break };
            asks.clear();
            verdicts.clear();
            let start = self.experiment.start_us;
            asks.extend(batch.iter().map(|asked: &Asked| {
                Event::new(start.saturating_add(asked.at_us), ClientId::new(asked.client))
            }));
            let start = Instant::now();
            let answered = decider.decide(&asks, &mut verdicts);
            let decided = Instant::now();
            self.took.deciding += decided - start;
            if answered.is_err() {
                progress(last.at_us, self.attempts, self.took);
            }
            answered?;
            for (asked, verdict) in batch.iter().zip(&verdicts) {
                self.record(asked, *verdict);
            }
            self.took.measuring += decided.elapsed();
            since += batch.len();
            if since >= BATCH {
                since = 0;
                self.measures.held(decider.held());
                progress(last.at_us, self.attempts, self.took);
            }
        }
        self.measures.held(decider.held());
        progress(self.experiment.duration_us, self.attempts, self.took);
        Ok(())
    }

    /// The next attempts that can be decided at once, none at the end.
    fn take(&mut self, batch: &mut Vec<Asked>) -> Result<(), Error> {
        batch.clear();
        if self.next == self.fresh.len() {
            self.make()?;
        }
        if self.is_open {
            core::mem::swap(batch, &mut self.fresh);
            self.fresh.clear();
            self.next = 0;
            return Ok(());
        }
        let fresh = self.fresh.get(self.next).copied();
        let is_before = |again: &Again| fresh.is_none_or(|fresh| again.0.0 <= fresh.at_us);
        if self.again.peek().is_some_and(is_before) {
            batch.extend(self.again.pop().map(|Reverse((.., asked))| asked));
        } else if let Some(fresh) = fresh {
            self.next += 1;
            batch.push(fresh);
        }
        Ok(())
    }

    /// Makes the next requests, of all workloads in the order of time.
    fn make(&mut self) -> Result<(), Error> {
        self.fresh.clear();
        self.next = 0;
        while self.fresh.len() < BATCH {
            // There are few, so looking at all of them is the fastest.
            let heads = self.sources.iter().enumerate();
            let heads = heads.filter_map(|(place, head)| head.next.map(|(at, _)| (at, place)));
            let Some((_, place)) = heads.min() else { return Ok(()) };
            let Some(head) = self.sources.get_mut(place) else { return Ok(()) };
            let Some((at_us, client)) = head.next else { return Ok(()) };
            head.next = head.source.next()?;
            self.fresh.push(Asked {
                at_us,
                first_us: at_us,
                client,
                workload: head.workload,
                tries: 0,
                request: self.requests,
            });
            self.requests += 1;
        }
        Ok(())
    }

    fn record(&mut self, asked: &Asked, verdict: Verdict) {
        self.attempts += 1;
        let workloads = &self.experiment.workloads;
        let Some(workload) = workloads.get(asked.workload as usize) else { return };
        let mut again = None;
        if !verdict.is_admitted && !self.is_open {
            let Asked { request, tries, at_us, .. } = *asked;
            let Experiment { seed, duration_us, .. } = *self.experiment;
            let wait = workload.retry.after(seed, request, tries, verdict.retry_after_us);
            let at_us = wait.map(|wait| at_us.saturating_add(wait));
            // Who would come back after the end has not been served by then.
            again = at_us.filter(|at_us| *at_us < duration_us).map(|at_us| Asked {
                at_us,
                tries: tries + 1,
                ..*asked
            });
            self.again.extend(again.map(|again| Reverse((again.at_us, self.denials, again))));
            self.denials += 1;
        }
        self.measures.count(asked, verdict.is_admitted, again.is_none());
    }
}

/// Clients of a case that are drawn, with their names: all, or some from the first to the last.
fn rows(experiment: &Experiment, case: &Case, firsts: &[u32]) -> Vec<(u32, String)> {
    let mut places = case.workloads.clone();
    places.sort_unstable();
    let all = places
        .iter()
        .filter_map(|place| experiment.workloads.get(*place).zip(firsts.get(*place).copied()));
    let number: u64 = all.clone().map(|(workload, _)| workload.all_clients()).sum();
    let step = number.div_ceil(RASTER_CLIENTS as u64).max(1);
    let mut rows = Vec::new();
    // The next that is drawn, counted over all clients of the case.
    let (mut next, mut before) = (0, 0);
    for (workload, first) in all {
        let clients = workload.all_clients();
        while next < before + clients {
            let client = u32::try_from(next - before).unwrap_or(u32::MAX);
            rows.push((first.saturating_add(client), name_of(workload, client)));
            next += step;
        }
        before += clients;
    }
    rows
}

/// What a client is called in pictures.
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
    Error::TooManyClients { max: u64::from(u32::MAX) }
}

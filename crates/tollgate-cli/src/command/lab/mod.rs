//! `lab`: runs the same traffic under one strategy after the other.

mod begin;
mod cut_off;
mod front;
mod live;
mod offers;
mod race;
mod redis_queues;
mod sizes;
mod timeseries;
mod workers;
mod write;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tollgate_experiments::experiment::{
    self, Experiment, Progress, QueueOpener, Queueing, QueuesInMemory, Results, Timings,
};
use tollgate_experiments::{Error, report};
use tollgate_logs::{Decider, Event, InMemory, PerLimits, Verdict};

use crate::args::{Lab, LabCommon, LabQueue};
use crate::input;
use crate::redis_decider::{RedisDecider, redis};
use crate::show::{self, Output};
use crate::stop::Stop;
use redis_queues::QueuesOnRedis;
use write::Files;

pub(crate) fn lab(args: &Lab, out: &mut Output) -> Result<u8> {
    match args {
        Lab::Run { file, common } => perform(Experiment::load(file)?, common, out),
        Lab::Zoo { loops, allowed, common } => {
            let experiment = experiment::zoo(*loops, *allowed, 1);
            let experiment = experiment.context("ALLOWED_PER_10S is the limit of a sliding log")?;
            perform(experiment, common, out)
        }
        Lab::Sides { common } => perform(experiment::sides(1)?, common, out),
        Lab::Queue { queue, common } => perform(queueing(queue)?.experiment(1)?, common, out),
        Lab::Race(args) => race::race(args, out),
    }
}

/// The queues of `lab queue`.
fn queueing(args: &LabQueue) -> Result<Queueing> {
    let micros = |text: &str, option: &'static str| {
        let length = input::wait(text).context(option)?;
        let us = u64::try_from(length.as_micros())?;
        ensure!(us > 0, "{option}: this is not a time: write it as in `100ms`");
        Ok(us)
    };
    Ok(Queueing {
        bound: args.bound,
        offers: args.offers,
        work_us: micros(&args.work, "--work")?,
        workers: args.workers.clone(),
        duration_us: micros(&args.duration, "--for")?,
    })
}

/// Checks, before anything runs, that the options are possible for nodes and a backend.
fn can_run(experiment: &Experiment, common: &LabCommon, is_redis: bool) -> Result<()> {
    if let Some(case) = experiment.cases.iter().find(|case| case.nodes.is_some()) {
        ensure!(
            is_redis || !common.live,
            "`{}` has nodes, which in real time share a Redis: add --store redis://HOST:PORT",
            case.name
        );
        ensure!(
            common.live || !is_redis,
            "`{}` has nodes, and their way to the store is simulated in memory: leave out --store, \
             or add --live",
            case.name
        );
    }
    if experiment.backend.is_some() {
        ensure!(
            !common.live && !is_redis,
            "this experiment has a [backend], which is simulated in memory: leave out {}",
            if common.live { "--live" } else { "--store" }
        );
    }
    Ok(())
}

/// More requests than these require `--large`.
const MAX_REQUESTS: u64 = 100_000_000;
/// The same for attempts, if every attempt is denied.
const MAX_ATTEMPTS: u64 = 1_000_000_000;
/// The same for bytes of requests that may wait for a retry, and of those admitted in the last
/// windows.
const MAX_BYTES: u64 = 2 << 30;

/// Checks, before anything runs, that an experiment is not larger than probably intended.
fn is_of_size(experiment: &Experiment, common: &LabCommon) -> Result<()> {
    let size = experiment.size();
    let waiting = size.waiting_bytes.saturating_add(size.backend_bytes);
    let is_small = size.requests <= MAX_REQUESTS
        && size.attempts <= MAX_ATTEMPTS
        && waiting.saturating_add(size.window_bytes) <= MAX_BYTES;
    ensure!(
        common.large || is_small,
        "this experiment is large: {size}. Make its `duration`, `rate` or `times` smaller, or add \
         --large: without it at most {MAX_REQUESTS} requests and {MAX_ATTEMPTS} attempts run, in \
         2 GiB"
    );
    Ok(())
}

/// Runs an experiment, and prints and writes its results.
fn perform(mut experiment: Experiment, common: &LabCommon, out: &mut Output) -> Result<u8> {
    experiment.seed = common.seed.unwrap_or(experiment.seed);
    if let Some(operation) = &common.operation {
        let length = input::wait(operation).context("--operation")?;
        let us = u64::try_from(length.as_micros())?;
        ensure!(us > 0, "--operation: this is not a time: write it as in `5ms`");
        experiment.operation_us = Some(us);
    }
    let experiment = &experiment;
    let options = common.store.as_deref().map_or(Ok(None), |url| redis(url, "an experiment"))?;
    can_run(experiment, common, options.is_some())?;
    is_of_size(experiment, common)?;
    // Fail before the run if a file cannot be written, not an hour later.
    let files = Files::open(common)?;
    let retention = input::wait(&common.timeseries_retention).context("--timeseries-retention")?;
    let sink = common.timeseries.as_deref().map(|url| timeseries::Sink::open(url, retention));
    let sink = sink.transpose()?;
    let stop = Stop::listen()?;
    let mut took = Timings::default();
    let is_redis = options.is_some();
    let begun = Instant::now();
    let mut left: Option<anyhow::Error> = None;
    let results = match options {
        options if common.live => {
            let (results, remains) = live::run(experiment, options, &stop)?;
            left = remains;
            results
        }
        None => {
            let mut decider = Stoppable::new(stop.clone());
            run(experiment, &mut decider, &mut took)?
        }
        Some(options) => {
            let mut queues = QueuesOnRedis::new(options.clone())?;
            let mut decider = RedisDecider::new(options, stop.clone())?;
            let results = run_with(experiment, &mut decider, &mut queues, &mut took);
            let cleared = decider.clear().map_err(Into::into).and(queues.clear());
            // Report the first error; the results are printed in any case.
            left = cleared.err().filter(|_| results.is_ok()).map(Into::into);
            results?
        }
    };
    // Print the results even if a file cannot be written.
    let mut written = Vec::new();
    let files = files.write(&results, &mut written);
    let series = sink.map_or(Ok(None), |sink| sink.write(&results).map(Some));
    if common.json {
        out.json(&results)?;
    } else {
        out.text(&report::text(&results, show::columns()))?;
        let speed = if common.live {
            real_time(&results, begun.elapsed())
        } else {
            speed(&results, took, is_redis)
        };
        out.line(format!("\n{speed}"))?;
        for place in written.iter().chain(series.iter().flatten()) {
            out.line(format!("written to {place}"))?;
        }
    }
    let wrong = [left, files.err(), series.err()].into_iter().flatten();
    if let Some(error) = wrong.reduce(|one, other| one.context(format!("{other:#}; and"))) {
        return Err(error);
    }
    if results.complete {
        return Ok(0);
    }
    show::note("interrupted: this is what was measured so far, and the last case was cut");
    Ok(stop.code())
}

/// Runs the experiment with a progress bar, its queues in memory.
pub(super) fn run(
    experiment: &Experiment,
    decider: &mut impl Decider,
    took: &mut Timings,
) -> Result<Results, Error> {
    run_with(experiment, decider, &mut QueuesInMemory::default(), took)
}

fn run_with(
    experiment: &Experiment,
    decider: &mut impl Decider,
    queues: &mut dyn QueueOpener,
    took: &mut Timings,
) -> Result<Results, Error> {
    let bar = show::progress(Some(1_000)).with_style(show::bar("{msg:24} {bar:30} {percent} %"));
    let results = experiment::run_with(experiment, decider, queues, |progress: Progress| {
        if let Some(case) = experiment.cases.get(progress.case) {
            bar.set_message(case.name.clone());
        }
        let share = u128::from(progress.at_us) * 1_000 / u128::from(progress.duration_us.max(1));
        let all = (progress.case as u128 * 1_000 + share) / progress.cases.max(1) as u128;
        bar.set_position(u64::try_from(all).unwrap_or(0));
        *took = progress.took;
    });
    bar.finish_and_clear();
    results
}

/// Where the time was spent.
fn speed(results: &Results, took: Timings, is_redis: bool) -> String {
    let attempts: u64 = results.cases.iter().map(|case| case.attempts).sum();
    let seconds = |time: Duration| format!("{:.3} s", time.as_secs_f64());
    let per_second = u128::from(attempts) * 1_000_000_000 / took.deciding.as_nanos().max(1);
    format!(
        "{} decided {} in {} ({per_second} a second), made in {}, measured in {}",
        show::count(attempts, "attempt"),
        if is_redis { "on Redis, and as in memory," } else { "in memory" },
        seconds(took.deciding),
        seconds(took.making),
        seconds(took.measuring)
    )
}

/// The duration of a run in real time.
fn real_time(results: &Results, took: Duration) -> String {
    let attempts: u64 = results.cases.iter().map(|case| case.attempts).sum();
    let store = results.live.as_ref().map_or("", |live| &live.store);
    let attempts = show::count(attempts, "attempt");
    format!("{attempts} on {store} in {:.1} s of real time", took.as_secs_f64())
}

/// Decides in memory, until a signal arrives.
pub(super) struct Stoppable {
    memory: InMemory,
    stop: Stop,
}

impl Stoppable {
    pub(super) fn new(stop: Stop) -> Self {
        Self { memory: InMemory::default(), stop }
    }
}

impl Decider for Stoppable {
    fn begin(&mut self, parts: &[PerLimits]) -> Result<(), tollgate_logs::Error> {
        self.memory.begin(parts)
    }

    fn decide(
        &mut self,
        events: &[Event],
        verdicts: &mut Vec<Verdict>,
    ) -> Result<(), tollgate_logs::Error> {
        if self.stop.is_asked() {
            return Err(tollgate_logs::Error::Stopped);
        }
        self.memory.decide(events, verdicts)
    }

    fn go_on(&mut self) -> Result<(), tollgate_logs::Error> {
        if self.stop.is_asked() { Err(tollgate_logs::Error::Stopped) } else { Ok(()) }
    }

    fn held(&self) -> Option<(usize, usize)> {
        self.memory.held()
    }
}

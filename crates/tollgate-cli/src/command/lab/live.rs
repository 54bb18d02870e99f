//! `--live`: sends the attempts of an experiment when they are due, by this machine's clock.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result};
use indicatif::ProgressBar;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep_until, timeout};
use tollgate::{LimitSet, MemoryStore, Store, StoreError};
use tollgate_experiments::experiment::live::{Live, ServerUsage};
use tollgate_experiments::experiment::results::{CaseResult, LiveRun};
use tollgate_experiments::experiment::{Case, Experiment, Node, NodesCase, QueueHandles, Results};
use tollgate_logs::PerLimits;
use tollgate_queue::{AnyQueues, MemoryQueues, Queue, RedisQueues};
use tollgate_redis::usage::{ServerTime, Usage};
use tollgate_redis::{Options, RedisStore};

use super::begin::{Begin, micros};
use super::cut_off::CutOff;
use super::front::{CallResult, Front, Returning, put, store_alone};
use super::offers::{remove, store_error};
use super::sizes::Sizes;
use super::workers::Workers;
use crate::redis_decider::{clear, open_run, run_name};
use crate::show;
use crate::stop::Stop;
use crate::store::runtime;

/// The last stretch before a due time is polled: timers are accurate only to a millisecond.
const SPIN: Duration = Duration::from_millis(2);

/// How often signals are polled while nothing else happens.
const SIGNAL_POLL: Duration = Duration::from_millis(100);

/// How many questions are sent before the task lets others run.
const YIELD_EVERY: u64 = 64;

/// The most questions in flight. Beyond it clients wait, which latencies include.
const MAX_IN_FLIGHT: usize = 20_000;

/// The number of questions sent between two readings of the store's size.
const SIZE_EVERY: u64 = 8_192;

/// The round trips allowed for reading a server's usage before a case begins: it connects and asks.
const USAGE_ROUND_TRIPS: u32 = 20;

/// Runs an experiment in real time, on Redis or in memory. Returns the results, and an error if a
/// case could not be run or keys could not be removed.
pub(super) fn run(
    experiment: &Experiment,
    redis: Option<Options>,
    stop: &Stop,
) -> Result<(Results, Option<Error>)> {
    let bar = show::progress(Some(1_000))
        .with_style(show::bar("{msg:24} {bar:30} {percent} %, {eta} to go"));
    let driver = Driver { experiment, stop, bar };
    let ran = match redis {
        // With this maximum, questions wait in this driver and not in the client.
        Some(options) => runtime()?.block_on(driver.on_redis(&options.in_flight(MAX_IN_FLIGHT))),
        None => runtime()?.block_on(driver.in_memory()).map(|results| (results, None)),
    };
    driver.bar.finish_and_clear();
    ran
}

/// Runs the cases one after the other, until a signal.
struct Driver<'e> {
    experiment: &'e Experiment,
    stop: &'e Stop,
    bar: ProgressBar,
}

/// A run on Redis, with what its current case counts in.
struct RedisRun<'o> {
    options: &'o Options,
    run: String,
    store: Option<RedisStore>,
    queue: Option<(Queue<AnyQueues>, Option<LimitSet>)>,
}

impl RedisRun<'_> {
    /// Removes the keys of the current case.
    async fn clear(&mut self) -> Result<()> {
        if let Some((queue, rate)) = self.queue.take() {
            remove(&queue, rate.as_ref(), self.options).await.with_context(|| {
                format!("a queue is left: try `tollgate queue remove {}`", queue.name())
            })?;
        }
        match self.store.take() {
            Some(store) => Ok(clear(&store).await?),
            None => Ok(()),
        }
    }
}

impl Driver<'_> {
    async fn in_memory(&self) -> Result<Results> {
        let mut results = self.results("memory://".to_owned());
        for (place, case) in self.cases() {
            let live = Live::new(self.experiment, case)?;
            let store = MemoryStore::new();
            let begin = self.begin(store.now().as_micros(), Instant::now(), Duration::ZERO);
            let held = || case.queue.is_none().then(|| (store.bytes(), store.subjects()));
            let front = match &case.queue {
                Some(queue) => {
                    let queues = AnyQueues::Memory(MemoryQueues::new());
                    Some(Front::Queue(QueueHandles::new(queues, "lab", queue)?, queue.clone()))
                }
                None => store_alone(case, store.clone()),
            };
            let Some(front) = front.map(Arc::new) else { continue };
            let (live, cut) = self.case(place, case, live, begin, Arc::clone(&front), held).await?;
            add(&mut results, finish(live, None, &front, begin).await?, cut);
            if cut {
                break;
            }
        }
        results.conclude(self.experiment);
        Ok(results)
    }

    async fn on_redis(&self, options: &Options) -> Result<(Results, Option<Error>)> {
        let mut results = self.results(options.to_string());
        let run = run_name("live");
        let mut redis = RedisRun { options, run, store: None, queue: None };
        let mut wrong = None;
        for (place, case) in self.cases() {
            match self.case_on_redis(&mut redis, place, case, &mut results).await {
                Ok(false) => {}
                Ok(true) => break,
                // Keep the earlier results, with an empty one for this case.
                Err(error) if !results.cases.is_empty() => {
                    add(&mut results, Live::new(self.experiment, case)?.finish(None), true);
                    wrong = Some(error);
                    break;
                }
                Err(error) => {
                    note_failure(redis.clear().await);
                    return Err(error);
                }
            }
        }
        let cleared = redis.clear().await;
        let left = match wrong {
            Some(error) => {
                note_failure(cleared);
                Some(error)
            }
            None => cleared.err(),
        };
        results.conclude(self.experiment);
        Ok((results, left))
    }

    /// Runs a case on Redis, and reads the server's usage; true when a signal interrupted it.
    async fn case_on_redis(
        &self,
        redis: &mut RedisRun<'_>,
        place: usize,
        case: &Case,
        results: &mut Results,
    ) -> Result<bool> {
        redis.clear().await?;
        // Nodes connect before the start is fixed, and before the server's usage is read.
        let begun = Arc::new(OnceLock::new());
        let Some(front) = self.front(redis, place, case, &begun).await?.map(Arc::new) else {
            return Ok(false);
        };
        let live = Live::new(self.experiment, case)?;
        let time = ServerTime::read(redis.options).await?;
        let usage_time = SPIN + time.took * USAGE_ROUND_TRIPS;
        let begin = self.begin(time.us, time.at, usage_time);
        // Read just before the start: the server's idle activity does not belong to decisions.
        self.wait_until(case, begin.at.checked_sub(usage_time).unwrap_or(begin.at)).await;
        let before = noted(Usage::read(redis.options).await);
        let _ = begun.set(begin.at);
        let sizes = redis.store.as_ref().map(|it| Sizes::of(redis.options, it.keys().prefix()));
        let (mut live, cut) =
            self.case(place, case, live, begin, Arc::clone(&front), || None).await?;
        let used = match before {
            Some(before) => {
                noted(Usage::read(redis.options).await).and_then(|it| it.since(&before))
            }
            None => None,
        };
        let used = used.map(|Usage { cpu_us, calls, commands, .. }| ServerUsage {
            cpu_us,
            calls,
            commands,
        });
        if let Some(sizes) = sizes {
            live.held(sizes.end().await);
        }
        add(results, finish(live, used, &front, begin).await?, cut);
        Ok(cut)
    }

    /// The backend that answers the questions of a case on Redis.
    async fn front(
        &self,
        redis: &mut RedisRun<'_>,
        place: usize,
        case: &Case,
        begun: &Arc<OnceLock<Instant>>,
    ) -> Result<Option<Front<RedisStore>>> {
        let run = format!("{}-{place}", redis.run);
        if let Some(case) = &case.queue {
            let queues = RedisQueues::connect(redis.options.clone()).await.map_err(store_error)?;
            let handles = QueueHandles::new(AnyQueues::Redis(queues), &run, case)?;
            redis.queue = Some((handles.queue.clone(), case.rate.clone()));
            return Ok(Some(Front::Queue(handles, case.clone())));
        }
        let mut builder = RedisStore::builder(redis.options.clone()).run_now(&run);
        // Several slots have a clock each, and an attempt has one time at which it was decided.
        if redis.options.is_cluster() && case.parts.len() > 1 {
            builder = builder.shard(&run);
        }
        let store = open_run(builder).await?;
        redis.store = Some(store.clone());
        let all: Vec<&LimitSet> = case.parts.iter().map(|part| &part.limits).collect();
        store.prepare(&all).await?;
        Ok(match &case.nodes {
            Some(nodes) => Some(self.nodes(redis, nodes, place, begun).await?),
            None => store_alone(case, store),
        })
    }

    /// The nodes of a case, each with separate connections.
    async fn nodes(
        &self,
        redis: &RedisRun<'_>,
        nodes: &NodesCase,
        place: usize,
        begun: &Arc<OnceLock<Instant>>,
    ) -> Result<Front<RedisStore>> {
        let run = format!("{}-{place}", redis.run);
        let mut all = Vec::new();
        for node in 0..nodes.number {
            let builder = RedisStore::builder(redis.options.clone()).run_now(&run);
            let store = builder.connect().await?;
            all.push(Node::new(nodes, CutOff::new(store, nodes, node, begun))?);
        }
        Ok(Front::Nodes(all, nodes.spread))
    }

    fn results(&self, store: String) -> Results {
        let mut results = Results::new(self.experiment);
        results.live = Some(LiveRun::new(store, self.experiment.operation_us));
        results
    }

    fn cases(&self) -> impl Iterator<Item = (usize, &Case)> {
        self.experiment.cases.iter().enumerate()
    }

    /// The next possible start of a case, but not before `not_before` has passed. The store's clock
    /// is at `now_us` at the local moment `at`.
    fn begin(&self, now_us: u64, at: Instant, not_before: Duration) -> Begin {
        let elapsed = at.elapsed() + not_before;
        let store_us = self.experiment.next_start(now_us.saturating_add(micros(elapsed)));
        Begin { at: at + Duration::from_micros(store_us - now_us), store_us }
    }

    /// Runs a case from its start to the last answer; true when a signal interrupted it.
    async fn case<'c, S>(
        &self,
        place: usize,
        case: &'c Case,
        mut live: Live<'c>,
        begin: Begin,
        front: Arc<Front<S>>,
        held: impl Fn() -> Option<(usize, usize)>,
    ) -> Result<(Live<'c>, bool)>
    where
        S: Store + Send + Sync + 'static,
    {
        let parts: Arc<[PerLimits]> = case.parts.clone().into();
        live.begin(begin.store_us);
        self.wait_until(case, begin.at).await;
        let _returning = Returning::of(&front);
        let mut workers = Workers::of(&front, begin);
        self.bar.set_message(case.name.clone());
        let mut in_flight: JoinSet<CallResult> = JoinSet::new();
        let mut sent = 0_u64;
        loop {
            // Deliveries first: they make room for the offers after them.
            if let Some(workers) = &mut workers {
                workers.settle(&mut live);
            }
            while let Some(done) = in_flight.try_join_next() {
                settle(&mut live, done?);
            }
            let now_us = begin.now_us();
            self.progress(place, now_us);
            let is_stopped = self.stop.is_asked();
            // The workers of a queue go on until the end of the experiment.
            let is_over = workers.is_none() || now_us >= self.experiment.duration_us;
            if is_stopped || is_over && in_flight.is_empty() && live.next_due()?.is_none() {
                while let Some(done) = in_flight.join_next().await {
                    settle(&mut live, done?);
                }
                if let Some(workers) = workers {
                    workers.end(&mut live).await;
                }
                live.held(held());
                return Ok((live, is_stopped));
            }
            if in_flight.len() < MAX_IN_FLIGHT
                && let Some(question) = live.take(now_us)?
            {
                let (front, parts) = (Arc::clone(&front), Arc::clone(&parts));
                in_flight.spawn(async move { put(&front, &parts, begin, question).await });
                sent += 1;
                if sent.is_multiple_of(SIZE_EVERY) {
                    live.held(held());
                }
                if sent.is_multiple_of(YIELD_EVERY) {
                    yield_now().await;
                }
                continue;
            }
            match live.next_due()? {
                Some(due_us) if in_flight.len() < MAX_IN_FLIGHT => {
                    let due = begin.at + Duration::from_micros(due_us);
                    let sleep = due.saturating_duration_since(Instant::now());
                    match sleep.checked_sub(SPIN) {
                        Some(sleep) => {
                            one_of(&mut live, &mut in_flight, sleep.min(SIGNAL_POLL)).await?;
                        }
                        None => yield_now().await,
                    }
                }
                // Nothing to send: after an answer its client may ask again.
                _ => one_of(&mut live, &mut in_flight, SIGNAL_POLL).await?,
            }
        }
    }

    fn progress(&self, place: usize, now_us: u64) {
        let duration = u128::from(self.experiment.duration_us.max(1));
        let share = (u128::from(now_us) * 1_000 / duration).min(1_000);
        let cases = self.experiment.cases.len().max(1) as u128;
        let all = (place as u128 * 1_000 + share) / cases;
        self.bar.set_position(u64::try_from(all).unwrap_or(0));
    }

    /// Waits until a moment, or a signal.
    async fn wait_until(&self, case: &Case, moment: Instant) {
        while !self.stop.is_asked() {
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            match left.checked_sub(SPIN) {
                Some(sleep) => {
                    if left.as_secs() > 0 {
                        let left = Duration::from_secs(left.as_secs());
                        let text = format!("{} begins in {}", case.name, show::duration(left));
                        self.bar.set_message(text);
                    }
                    sleep_until((Instant::now() + sleep.min(SIGNAL_POLL)).into()).await;
                }
                None => yield_now().await,
            }
        }
    }
}

/// Adds the results of a case.
fn add(results: &mut Results, result: CaseResult, cut: bool) {
    results.cases.push(result);
    results.complete = !cut;
}

/// The results of a case, after its last answer.
async fn finish<S: Store>(
    live: Live<'_>,
    used: Option<ServerUsage>,
    front: &Front<S>,
    begin: Begin,
) -> Result<CaseResult> {
    Ok(match front {
        Front::Store(_) => live.finish(used),
        Front::Nodes(nodes, _) => {
            for node in nodes {
                node.give_back(true).await;
            }
            let counters: Vec<_> = nodes.iter().map(Node::counters).collect();
            live.finish_nodes(used, &counters)
        }
        Front::Queue(handles, _) => {
            let stats = handles.queue.stats().await.map_err(store_error)?;
            live.finish_queue(used, begin.now_us(), &stats)
        }
    })
}

/// Prints an error that accompanies a more serious one.
fn note_failure(result: Result<()>) {
    if let Err(error) = result {
        show::note(&format!("{error:#}"));
    }
}

/// A server's report of itself; the run is useful without it, so an error is only printed.
fn noted<T>(read: Result<T, StoreError>) -> Option<T> {
    read.map_err(|error| show::note(&format!("the server's usage is not measured: {error}"))).ok()
}

fn settle(live: &mut Live<'_>, done: CallResult) {
    match done.answer {
        Ok((answer, Some(authority))) => live.answered_by(done.question, answer, authority),
        Ok((answer, None)) => live.answered(done.question, answer),
        Err(error) => live.failed(done.question, &error.to_string()),
    }
}

/// Waits at most `most` for an answer.
async fn one_of(
    live: &mut Live<'_>,
    in_flight: &mut JoinSet<CallResult>,
    most: Duration,
) -> Result<()> {
    if in_flight.is_empty() {
        tokio::time::sleep(most).await;
    } else if let Ok(Some(done)) = timeout(most, in_flight.join_next()).await {
        settle(live, done?);
    }
    Ok(())
}

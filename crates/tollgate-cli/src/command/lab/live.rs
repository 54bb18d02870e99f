//! `--live`: the attempts of an experiment when they are due, by the clock of this machine.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use indicatif::ProgressBar;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep_until, timeout};
use tollgate::{LimitSet, Limiter, MemoryStore, Store};
use tollgate_lab::decide::ask;
use tollgate_lab::experiment::live::{Answer, Live, Question, Used};
use tollgate_lab::experiment::results::{CaseResult, LiveRun};
use tollgate_lab::experiment::{Case, Experiment, Results};
use tollgate_lab::{Part, Verdict};
use tollgate_redis::usage::{Meter, Usage};
use tollgate_redis::{Options, RedisStore};

use crate::on_redis::{clear, open_run, run_name};
use crate::show;
use crate::stop::Stop;
use crate::store::runtime;

/// A timer is exact to a millisecond; the rest is waited for awake.
const AWAKE: Duration = Duration::from_millis(2);

/// How often a signal is looked for where nothing else happens.
const GLANCE: Duration = Duration::from_millis(100);

/// How many questions are sent before their answers are looked at.
const SENDS: usize = 64;

/// How many questions may be open. With more, who asks would have to wait, and latencies say so.
const MAX_OPEN: usize = 20_000;

/// Runs an experiment in real time: on Redis, or without one in memory. Answers what was measured,
/// and what could not be put away.
pub(super) fn run(
    experiment: &Experiment,
    redis: Option<Options>,
    stop: &Stop,
) -> Result<(Results, Option<tollgate::StoreError>)> {
    let bar =
        ProgressBar::new(1_000).with_style(show::bar("{msg:24} {bar:30} {percent} %, {eta} to go"));
    let driver = Driver { experiment, stop, bar };
    let ran = match redis {
        Some(options) => runtime()?.block_on(driver.on_redis(options)),
        None => runtime()?.block_on(driver.in_memory()),
    };
    driver.bar.finish_and_clear();
    ran
}

/// What drives cases.
struct Driver<'e> {
    experiment: &'e Experiment,
    stop: &'e Stop,
    bar: ProgressBar,
}

/// When a case begins: by this machine's clock that does not jump, and by the store's.
#[derive(Clone, Copy)]
struct Begin {
    at: Instant,
    store_us: u64,
}

impl Begin {
    /// Microseconds since then; 0 before.
    fn now_us(self) -> u64 {
        u64::try_from(self.at.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// An answer on its way to the measures.
struct Done {
    question: Question,
    answer: Result<Answer, tollgate::Error>,
}

impl Driver<'_> {
    async fn in_memory(&self) -> Result<(Results, Option<tollgate::StoreError>)> {
        let mut results = self.results("memory://".to_owned());
        let mut begin = None;
        let mut store = MemoryStore::new();
        for (place, case) in self.cases() {
            if !self.goes_on(place) {
                (begin, store) = (None, MemoryStore::new());
            }
            let begun = *begin.get_or_insert(self.begin(wall_us()));
            let (at_work, cut) = self.case(place, case, begun, store.clone()).await?;
            let held = (store.bytes(), store.subjects());
            if self.add(&mut results, at_work, Some(held), None, cut) {
                break;
            }
        }
        results.conclude(self.experiment);
        Ok((results, None))
    }

    async fn on_redis(&self, options: Options) -> Result<(Results, Option<tollgate::StoreError>)> {
        let mut results = self.results(options.to_string());
        let meter = Meter::connect(options.clone()).await?;
        let run = run_name("live");
        let (mut begin, mut open): (_, Option<RedisStore>) = (None, None);
        let mut left = None;
        for (place, case) in self.cases() {
            if !self.goes_on(place) {
                if let Some(store) = open.take() {
                    left = clear(&store).await.err().or(left);
                }
                begin = None;
            }
            let store = match &open {
                Some(store) => store.clone(),
                None => {
                    let builder = RedisStore::builder(options.clone());
                    let store = open_run(builder.run_now(&format!("{run}-{place}"))).await?;
                    open.insert(store).clone()
                }
            };
            let ran = self.on(&meter, place, case, &mut begin, store).await;
            // What it wrote is removed, whatever came of it.
            let (at_work, used, cut) = match ran {
                Ok(ran) => ran,
                Err(error) => {
                    if let Some(store) = open.take() {
                        let _ = clear(&store).await;
                    }
                    return Err(error);
                }
            };
            if self.add(&mut results, at_work, None, Some(used), cut) {
                break;
            }
        }
        if let Some(store) = open {
            left = clear(&store).await.err().or(left);
        }
        results.conclude(self.experiment);
        Ok((results, left))
    }

    /// A case on a store of Redis, with what the server used for it.
    async fn on<'c>(
        &'c self,
        meter: &Meter,
        place: usize,
        case: &'c Case,
        begin: &mut Option<Begin>,
        store: RedisStore,
    ) -> Result<(Live<'c>, Used, bool)> {
        let all: Vec<&LimitSet> = case.parts.iter().map(|part| &part.limits).collect();
        store.prepare(&all).await?;
        let begun = match *begin {
            Some(begun) => begun,
            None => {
                // The server's clock counts; half of the way there and back is not known better.
                let asked = Instant::now();
                let server_us = meter.now_us().await?;
                let half = asked.elapsed() / 2;
                *begin.insert(self.begin(server_us.saturating_add(micros(half))))
            }
        };
        // The meter's own connection is no question's.
        self.wait_until(begun.at, Duration::from_millis(20)).await;
        let before = meter.read().await?;
        let (at_work, cut) = self.case(place, case, begun, store).await?;
        let used = used(before, meter.read().await?);
        Ok((at_work, used, cut))
    }

    fn results(&self, store: String) -> Results {
        let mut results = Results::new(self.experiment);
        results.live = Some(LiveRun::new(store, self.experiment.operation_us));
        results
    }

    fn cases(&self) -> impl Iterator<Item = (usize, &Case)> {
        self.experiment.cases.iter().enumerate()
    }

    /// Whether a case goes on with the counts and the time of the one before.
    fn goes_on(&self, place: usize) -> bool {
        self.experiment.keeps_counts && place > 0
    }

    /// The next moment at which a case may begin.
    fn begin(&self, now_us: u64) -> Begin {
        // There is time to look at the server.
        let store_us = self.experiment.next_start(now_us.saturating_add(50_000));
        Begin { at: Instant::now() + Duration::from_micros(store_us - now_us), store_us }
    }

    /// Adds what was measured; true when it was cut.
    fn add(
        &self,
        results: &mut Results,
        mut at_work: Live<'_>,
        held: Option<(usize, usize)>,
        used: Option<Used>,
        cut: bool,
    ) -> bool {
        at_work.held(held);
        let case: CaseResult = at_work.finish(used);
        results.cases.push(case);
        results.complete = !cut;
        cut
    }

    /// One case from its begin to the last answer; true when a signal cut it.
    async fn case<'c, S>(
        &'c self,
        place: usize,
        case: &'c Case,
        begin: Begin,
        store: S,
    ) -> Result<(Live<'c>, bool)>
    where
        S: Store + Send + Sync + 'static,
    {
        let mut live = Live::begin(self.experiment, case)?;
        let parts: Arc<[Part]> = case.parts.clone().into();
        let Some(first) = parts.first() else { return Ok((live, false)) };
        let limiter = Arc::new(Limiter::new(first.limits.clone(), store));
        self.bar.set_message(case.name.clone());
        self.wait_until(begin.at, Duration::ZERO).await;
        let mut open: JoinSet<Done> = JoinSet::new();
        let mut sent = 0;
        loop {
            while let Some(done) = open.try_join_next() {
                settle(&mut live, done?);
            }
            let now_us = begin.now_us();
            self.progress(place, now_us);
            if self.stop.is_asked() {
                while let Some(done) = open.join_next().await {
                    settle(&mut live, done?);
                }
                return Ok((live, true));
            }
            if open.len() < MAX_OPEN
                && let Some(question) = live.take(now_us)?
            {
                let (limiter, parts) = (Arc::clone(&limiter), Arc::clone(&parts));
                open.spawn(async move { put(&limiter, &parts, begin, question).await });
                sent += 1;
                if sent % SENDS == 0 {
                    yield_now().await;
                }
                continue;
            }
            match live.next_due()? {
                None if open.is_empty() => return Ok((live, false)),
                // Who is answered may ask again.
                Some(due_us) if open.len() < MAX_OPEN => {
                    let due = begin.at + Duration::from_micros(due_us);
                    let sleep = due.saturating_duration_since(Instant::now());
                    match sleep.checked_sub(AWAKE) {
                        Some(sleep) => one_of(&mut live, &mut open, sleep.min(GLANCE)).await?,
                        None => yield_now().await,
                    }
                }
                _ => one_of(&mut live, &mut open, GLANCE).await?,
            }
        }
    }

    fn progress(&self, place: usize, now_us: u64) {
        let duration = u128::from(self.experiment.duration_us.max(1));
        let share = (u128::from(now_us) * 1_000 / duration).min(1_000);
        let cases = self.experiment.cases.len().max(1) as u128;
        // Cases of one time are over with it together.
        let all = if self.experiment.keeps_counts {
            share
        } else {
            (place as u128 * 1_000 + share) / cases
        };
        self.bar.set_position(u64::try_from(all).unwrap_or(0));
    }

    /// Until so long before a moment, or a signal.
    async fn wait_until(&self, moment: Instant, before: Duration) {
        let moment = moment.checked_sub(before).unwrap_or(moment);
        while !self.stop.is_asked() {
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            match left.checked_sub(AWAKE) {
                Some(sleep) => {
                    let glance = Instant::now() + sleep.min(GLANCE);
                    sleep_until(glance.into()).await;
                }
                None => yield_now().await,
            }
        }
    }
}

/// Asks a question and notes when.
async fn put<S: Store>(
    limiter: &Limiter<S>,
    parts: &[Part],
    begin: Begin,
    question: Question,
) -> Done {
    let client = question.client().to_string();
    let sent_us = begin.now_us();
    let Some(ask) = ask(parts, &client) else { unreachable!("a case has parts") };
    let answer = limiter.check(ask).await;
    let answered_us = begin.now_us();
    let answer = answer.map(|decision| Answer {
        sent_us,
        decided_us: decision.at().as_micros().saturating_sub(begin.store_us),
        answered_us,
        verdict: Verdict::of(&decision),
    });
    Done { question, answer }
}

fn settle(live: &mut Live<'_>, done: Done) {
    match done.answer {
        Ok(answer) => live.answered(done.question, answer),
        Err(error) => live.failed(done.question, &error.to_string()),
    }
}

/// Waits for an answer, and no longer than this.
async fn one_of(live: &mut Live<'_>, open: &mut JoinSet<Done>, most: Duration) -> Result<()> {
    if open.is_empty() {
        tokio::time::sleep(most).await;
    } else if let Ok(Some(done)) = timeout(most, open.join_next()).await {
        settle(live, done?);
    }
    Ok(())
}

fn used(before: Usage, after: Usage) -> Used {
    Used {
        cpu_us: after.cpu_us.saturating_sub(before.cpu_us),
        calls: after.calls.saturating_sub(before.calls),
        commands: after.commands.saturating_sub(before.commands),
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// This machine's time, in microseconds since the Unix epoch.
fn wall_us() -> u64 {
    micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

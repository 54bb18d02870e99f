//! The load of a run: callers whose every call is recorded.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tollgate::{Ask, Authority, Decision, Error, LimitSet, Limiter, Subject};
use tollgate_lease::Leased;
use tollgate_proof::history::{Call, CallOutcome, RecordedCount};
use tollgate_redis::{Keys, Options, RedisStore};
use tollgate_testbed::key_slot;

use crate::wait::{so, until};

/// How long a call may take.
pub const DEADLINE: Duration = Duration::from_millis(200);

/// The records of callers that need not hurry.
pub(crate) const CALLERS: usize = 12;

/// The longest pause between two calls of a caller.
pub(crate) const PAUSE_US: u64 = 8_000;

/// How many subjects have each of the limits.
pub(crate) const LEDGERS: usize = 24;
const OTHERS: usize = 3;

/// Never reached and never refilled during a run: the used units are the charged ones.
const LEDGER: &str = "ledger: 1000000/30d via fixed_window";

/// A run that begins shortly before the end of a window counts in windows of another length.
const LEDGER_OFF: &str = "ledger: 1000000/29d via fixed_window";

/// Limits that the load reaches again and again, one of each strategy.
const TIGHT: [&str; 7] = [
    "20/1s burst 8 via gcra",
    "20/1s burst 8 via token_bucket",
    "1/40ms via uniform",
    "25/1s via fixed_window",
    "25/1s via sliding_log",
    "25/1s precision 100ms via sliding_window",
    "30/1s via gcra, log: 60/3s via sliding_log",
];

/// Limits with leases on the nodes, one of each kind of bound. They are hot: a quarter of all calls
/// is about them.
const LEASED: [&str; 4] = [
    "200/1s burst 40 via gcra lease 10 for 200ms",
    "200/1s via sliding_log lease 20 for 100ms",
    "100/500ms via fixed_window lease 10 for 200ms",
    "100/500ms precision 100ms via sliding_window lease 10 for 200ms",
];

/// How many nodes hold leases: each caller asks one of them.
pub(crate) const NODES: usize = 2;

/// How often a call with a request id is sent at most.
const SENT: usize = 3;

/// A subject with its limits.
#[derive(Debug)]
struct Counted {
    /// One, or one on each node where it has a lease.
    limiters: Vec<Limiter<Leased<RedisStore>>>,
    subject: Subject,
    /// Its charges can be read at the end.
    is_ledger: bool,
    /// Calls have request ids, and are sent again after an ambiguous error.
    is_repeated: bool,
}

/// The state that all callers share.
#[derive(Debug)]
struct Shared {
    start: Instant,
    counted: Vec<Counted>,
    next_id: AtomicU64,
    is_over: AtomicBool,
    is_held: AtomicBool,
    in_flight: AtomicU64,
    tally: Mutex<Tally>,
}

/// How calls went lately.
#[derive(Debug, Default)]
struct Tally {
    last_error_us: Option<u64>,
    /// Successes of each subject since the last error of anybody.
    since: Vec<u64>,
    /// For each subject when a call last succeeded, and the longest time without one.
    last_ok_us: Vec<u64>,
    gap_us: u64,
}

/// Callers at work.
#[derive(Debug)]
pub struct Load {
    runtime: Runtime,
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<Vec<Call>>>,
    store: RedisStore,
}

/// The records of a load.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recorded {
    /// All calls, in the order of their ids.
    pub calls: Vec<Call>,
    /// The longest time in which a subject had no answer.
    pub gap_us: u64,
    /// Acknowledged charges of the subjects whose counts are read at the end.
    pub charged: u64,
    /// Those that are gone: acknowledged, and not counted in the end.
    pub lost: u64,
    /// The units counted beyond all charges that were acknowledged or in doubt.
    pub doubled: u64,
    /// How much later than its deadline a call came back, in microseconds.
    pub late_us: u64,
}

/// The name of a subject whose counts are read at the end.
pub(crate) fn ledger(seed: u64, n: usize) -> String {
    format!("{seed}-ledger-{n}")
}

fn ledger_text(now_us: u128) -> &'static str {
    const DAY_US: u128 = 86_400_000_000;
    let left = 30 * DAY_US - now_us % (30 * DAY_US);
    if left < DAY_US { LEDGER_OFF } else { LEDGER }
}

impl Counted {
    fn limits(&self) -> &LimitSet {
        // Each has at least one.
        self.limiters[0].limits()
    }
}

impl Load {
    /// Connects and begins. `seed` decides who asks for what, and when.
    ///
    /// # Errors
    ///
    /// The store cannot be reached.
    pub fn start(options: Options, seed: u64) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("no runtime")?;
        let options = options.deadline(DEADLINE);
        let store = runtime.block_on(RedisStore::builder(options).connect())?;
        let now_us = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_micros();
        let nodes: Vec<_> = (0..NODES).map(|_| Leased::new(store.clone())).collect();
        let mut counted = Vec::new();
        let mut add = |text: &str, name: String, is_ledger, is_repeated| -> Result<()> {
            let limits: LimitSet = text.parse().with_context(|| text.to_owned())?;
            let subject = Subject::new("user", name)?;
            let on = if limits.lease().is_some() { NODES } else { 1 };
            let limiter = |node: &Leased<_>| Limiter::new(limits.clone(), node.clone());
            let limiters = nodes.iter().take(on).map(limiter).collect();
            counted.push(Counted { limiters, subject, is_ledger, is_repeated });
            Ok(())
        };
        for n in 0..LEDGERS {
            add(ledger_text(now_us), ledger(seed, n), true, n % 3 == 0)?;
        }
        for (kind, text) in TIGHT.iter().enumerate() {
            for n in 0..OTHERS {
                add(text, format!("{seed}-{kind}-{n}"), false, false)?;
            }
        }
        for (kind, text) in LEASED.iter().enumerate() {
            add(text, format!("{seed}-leased-{kind}"), false, false)?;
        }
        let subjects = counted.len();
        let tally =
            Tally { since: vec![0; subjects], last_ok_us: vec![0; subjects], ..Tally::default() };
        let shared = Arc::new(Shared {
            start: Instant::now(),
            counted,
            next_id: AtomicU64::new(1),
            is_over: AtomicBool::new(false),
            is_held: AtomicBool::new(false),
            in_flight: AtomicU64::new(0),
            tally: Mutex::new(tally),
        });
        let tasks = (0..CALLERS).map(|caller| {
            let rng =
                ChaCha8Rng::seed_from_u64(seed.wrapping_mul(1_000).wrapping_add(caller as u64));
            runtime.spawn(Arc::clone(&shared).call(caller, rng))
        });
        let tasks = tasks.collect();
        Ok(Self { runtime, shared, tasks, store })
    }

    /// Microseconds since the start, the recorder's clock.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        self.shared.now_us()
    }

    /// The slots in which subjects lie whose charges are counted at the end.
    #[must_use]
    pub fn slots(&self) -> Vec<u16> {
        let ledgers = self.shared.counted.iter().filter(|it| it.is_ledger);
        let slot = |it: &Counted| key_slot(Keys::new().state(&it.subject, it.limits()).as_bytes());
        ledgers.map(slot).collect()
    }

    /// Lets the callers wait, and returns when no call is under way.
    ///
    /// # Errors
    ///
    /// A call does not return.
    pub fn hold(&self) -> Result<()> {
        self.shared.is_held.store(true, Ordering::SeqCst);
        let in_flight = || self.shared.in_flight.load(Ordering::SeqCst);
        until(DEADLINE * 20, || so(in_flight() == 0, || "a call does not return".to_owned()))
    }

    /// Lets callers go on that were held.
    pub fn resume(&self) {
        self.shared.is_held.store(false, Ordering::SeqCst);
    }

    /// Whether every subject was answered at least `calls` times since the last error, and nobody
    /// had one for this long.
    #[must_use]
    pub fn is_quiet(&self, calls: u64, quiet: Duration) -> bool {
        let tally = self.shared.tally();
        let quiet_us = micros(quiet);
        tally.since.iter().all(|&since| since >= calls)
            && tally.last_error_us.is_none_or(|at| self.now_us() >= at + quiet_us)
    }

    /// When the last error came, in microseconds since the start.
    #[must_use]
    pub fn last_error_us(&self) -> Option<u64> {
        self.shared.tally().last_error_us
    }

    /// Forgets how calls went, so that [`Self::is_quiet`] begins again.
    pub fn forget(&self) {
        self.shared.tally().since.fill(0);
    }

    /// Ends the load and reads what was counted.
    ///
    /// # Errors
    ///
    /// A call does not return, or the counts cannot be read.
    pub fn finish(self) -> Result<Recorded> {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.resume();
        let mut recorded = Recorded::default();
        let over = DEADLINE * 25;
        for task in self.tasks {
            let calls = self.runtime.block_on(async { tokio::time::timeout(over, task).await });
            let calls = calls.with_context(|| format!("a call did not return within {over:?}"))?;
            recorded.calls.extend(calls.context("a caller panicked")?);
        }
        recorded.calls.sort_by_key(|call| call.id);
        recorded.gap_us = self.shared.tally().gap_us;
        let deadline_us = micros(DEADLINE);
        let late = recorded.calls.iter().filter_map(|call| {
            Some((call.returned_us? - call.invoked_us).saturating_sub(deadline_us))
        });
        recorded.late_us = late.max().unwrap_or(0);
        let used = self.runtime.block_on(used(&self.shared.counted))?;
        let answers = answers(&recorded.calls);
        for (subject, used) in used {
            let Answers { allowed, open } = answers.get(&subject).copied().unwrap_or_default();
            recorded.charged += allowed;
            recorded.lost += allowed.saturating_sub(used);
            recorded.doubled += used.saturating_sub(allowed + open);
        }
        drop(self.store);
        Ok(recorded)
    }
}

/// The count of each ledger.
async fn used(counted: &[Counted]) -> Result<Vec<(String, u64)>> {
    let mut all = Vec::new();
    for it in counted.iter().filter(|it| it.is_ledger) {
        let Some(limiter) = it.limiters.first() else { continue };
        let decision = limiter.check(Ask::new(&it.subject).peek()).await?;
        all.push((it.subject.to_string(), decision.limit() - decision.remaining()));
    }
    Ok(all)
}

/// The callers' knowledge of a subject: charges that were acknowledged, and those that may have
/// been made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answers {
    allowed: u64,
    open: u64,
}

fn answers(calls: &[Call]) -> BTreeMap<String, Answers> {
    // All calls of one request id charge once.
    let mut charges: BTreeMap<(&str, String), (bool, bool)> = BTreeMap::new();
    for call in calls {
        let Some(part) = call.parts.first() else { continue };
        let request = call.request.clone().unwrap_or_else(|| call.id.to_string());
        let (allowed, open) = charges.entry((&part.subject, request)).or_default();
        *allowed |= call.outcome.is_allowed();
        *open |= call.outcome == CallOutcome::Unknown;
    }
    let mut answers: BTreeMap<String, Answers> = BTreeMap::new();
    for ((subject, _), (allowed, open)) in charges {
        let of = answers.entry(subject.to_owned()).or_default();
        of.allowed += u64::from(allowed);
        of.open += u64::from(open && !allowed);
    }
    answers
}

impl Shared {
    fn now_us(&self) -> u64 {
        micros(self.start.elapsed())
    }

    fn tally(&self) -> std::sync::MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls until the load is over.
    async fn call(self: Arc<Self>, caller: usize, mut rng: ChaCha8Rng) -> Vec<Call> {
        let client = format!("caller-{caller}");
        let mut calls = Vec::new();
        while !self.is_over.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_micros(rng.random_range(0..PAUSE_US))).await;
            // Counted before the look: the holder of the load waits for this call, or it waits.
            self.in_flight.fetch_add(1, Ordering::SeqCst);
            if self.is_held.load(Ordering::SeqCst) {
                self.in_flight.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            // Those with leases are the last.
            let all = self.counted.len();
            let first = if rng.random_range(0..4) == 0 { all - LEASED.len() } else { 0 };
            let index = rng.random_range(first..all);
            let counted = &self.counted[index];
            let request = counted.is_repeated.then(|| format!("{client}-{}", calls.len()));
            for _ in 0..SENT {
                let limiter = &counted.limiters[caller % counted.limiters.len()];
                let call = self.once((counted, limiter), &client, request.as_deref()).await;
                let outcome = call.outcome;
                self.note(index, &call);
                calls.push(call);
                if outcome != CallOutcome::Unknown || request.is_none() {
                    break;
                }
            }
            self.in_flight.fetch_sub(1, Ordering::SeqCst);
        }
        calls
    }

    async fn once(
        &self,
        (Counted { subject, .. }, limiter): (&Counted, &Limiter<Leased<RedisStore>>),
        client: &str,
        request: Option<&str>,
    ) -> Call {
        let id = self.next_id.fetch_add(1, Ordering::SeqCst);
        let invoked_us = self.now_us();
        let answer = match request {
            Some(request) => limiter.check(Ask::new(subject).request(request)).await,
            None => limiter.check(subject).await,
        };
        let returned_us = self.now_us();
        let (outcome, decided_us) = match &answer {
            // A node has no time of the store's.
            Ok(decision) if decision.authority() != Authority::Store => (outcome(decision), None),
            Ok(decision) => (outcome(decision), Some(decision.at().as_micros())),
            Err(Error::Store(error)) if !error.is_ambiguous() => (CallOutcome::NotCharged, None),
            Err(_) => (CallOutcome::Unknown, None),
        };
        Call {
            id,
            client: client.to_owned(),
            invoked_us,
            returned_us: Some(returned_us),
            parts: vec![RecordedCount {
                subject: subject.to_string(),
                limits: limiter.limits().clone(),
            }],
            cost: 1,
            request: request.map(str::to_owned),
            decided_us,
            outcome,
        }
    }

    fn note(&self, index: usize, call: &Call) {
        let now_us = call.returned_us.unwrap_or_default();
        let mut tally = self.tally();
        if call.outcome.is_decision() {
            if let Some(since) = tally.since.get_mut(index) {
                *since += 1;
            }
            if let Some(last) = tally.last_ok_us.get_mut(index) {
                let gap = now_us.saturating_sub(std::mem::replace(last, now_us));
                tally.gap_us = tally.gap_us.max(gap);
            }
        } else {
            tally.since.fill(0);
            tally.last_error_us = tally.last_error_us.max(Some(now_us));
        }
    }
}

fn outcome(decision: &Decision<'_>) -> CallOutcome {
    let remaining = Some(decision.remaining());
    if decision.is_allowed() {
        CallOutcome::Allowed { remaining }
    } else if decision.is_never() {
        CallOutcome::Never
    } else {
        CallOutcome::Denied { retry_after_us: decision.retry_after().map(micros), remaining }
    }
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

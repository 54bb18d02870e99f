//! The calls of many threads about holds of a real store, recorded as they saw them, and checked.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tollgate::{
    Ask, Clock as _, Decision, Error, Hold, HoldKind, Limiter, MemoryStore, Store, WallClock,
};
use tollgate_proof::conformance::block_on;
use tollgate_proof::history::{
    Bounds, Call, CallOutcome, History, HoldCall, HoldStep, Place, Promise, RecordedCount,
    Renewing, Settling, Verdict, check,
};
use tollgate_proof::oracle::Kind;
use tollgate_redis::{Options, RedisStore};
use tollgate_testbed::redis_or_skip;

/// Rates come back in an hour: at which microsecond of a call a commit charged then shows nowhere.
const LIMITS: [&str; 7] = [
    "3 at once hold 2ms",
    "300/1h via fixed_window",
    "300/1h via gcra, 4 at once hold 3ms",
    "300/1h via sliding_log",
    "300/1h via token_bucket",
    "300/1h precision 6m via sliding_window, 5 at once hold 4ms",
    "250/1h anchor first-hit via fixed_window",
];

const THREADS: u64 = 8;

/// The number of calls of each thread per limit.
const CALLS: u64 = 150;

/// The store's clock, which stamps the calls too.
fn now_us() -> u64 {
    WallClock.now().as_micros()
}

#[derive(Default)]
struct Recorder {
    ids: AtomicU64,
    history: Mutex<History>,
}

impl Recorder {
    fn id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    fn hold(&self, client: u64, invoked_us: u64, hold: String, step: HoldStep) {
        let (id, client, returned_us) = (self.id(), client.to_string(), Some(now_us()));
        let call = HoldCall { id, client, invoked_us, returned_us, hold, step };
        self.history.lock().unwrap().holds.push(call);
    }
}

fn outcome(decision: &Decision<'_>) -> CallOutcome {
    let remaining = Some(decision.remaining());
    match (decision.is_allowed(), decision.retry_after()) {
        (true, _) => CallOutcome::Allowed { remaining },
        (false, None) => CallOutcome::Never,
        (false, Some(wait)) => {
            CallOutcome::Denied { retry_after_us: u64::try_from(wait.as_micros()).ok(), remaining }
        }
    }
}

/// Waits until the time of a hold has run out: a call takes microseconds, its hold milliseconds.
fn wait_for_end(hold: &Hold) {
    while now_us() <= hold.end.as_micros() {
        std::thread::yield_now();
    }
}

/// One client: it places holds, works for a moment or not at all, and settles them, often twice.
#[expect(clippy::too_many_lines, reason = "a table of cases")]
async fn client<S: Store>(limiter: &Limiter<S>, recorder: &Recorder, client: u64, seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let limits = limiter.limits().clone();
    let part = || vec![RecordedCount { subject: "bob".to_owned(), limits: limits.clone() }];
    let longest_us = limits.hold().map_or(4_000, tollgate::Period::as_micros);
    let mut open: Vec<Hold> = Vec::new();
    for _ in 0..CALLS {
        let mut invoked_us = now_us();
        let cost = rng.random_range(1..4);
        match rng.random_range(0..10) {
            0 if !limits.needs_hold() => {
                let decision = limiter.check(Ask::new("bob").cost(cost)).await.unwrap();
                let call = Call {
                    id: recorder.id(),
                    client: client.to_string(),
                    invoked_us,
                    returned_us: Some(now_us()),
                    parts: part(),
                    cost,
                    request: None,
                    decided_us: Some(decision.at().as_micros()),
                    outcome: outcome(&decision),
                };
                recorder.history.lock().unwrap().calls.push(call);
            }
            0..5 => {
                let (kind, of_history) = match rng.random_range(0..3) {
                    0 if limits.needs_hold() => (HoldKind::Acquire, Kind::Acquire),
                    1 => (HoldKind::Charging, Kind::Charging),
                    _ => (HoldKind::Reserve, Kind::Reserve),
                };
                // Some stay open however slow the machine is, so that there is one to settle.
                let ttl_us = match rng.random_range(0..3) {
                    0 if !limits.needs_hold() => 20_000_000,
                    _ => rng.random_range(1_000..=longest_us),
                };
                let ttl = Some(Duration::from_micros(ttl_us));
                let ask = Ask::new("bob").cost(cost);
                let deadline = Duration::from_secs(20);
                let holding = limiter.hold(ask.holding(kind, ttl).within(deadline)).await.unwrap();
                let name = recorder.id().to_string();
                let name = holding.hold.as_ref().map_or(name, |hold| hold.id.to_string());
                let step = HoldStep::Place(Place {
                    kind: of_history,
                    parts: part(),
                    cost,
                    ttl_us,
                    decided_us: Some(holding.decision.at().as_micros()),
                    outcome: outcome(&holding.decision),
                    fence: holding.hold.as_ref().map(|hold| hold.fence),
                });
                recorder.hold(client, invoked_us, name, step);
                open.extend(holding.hold);
            }
            5 if !open.is_empty() => {
                let place = rng.random_range(0..open.len());
                let hold = &mut open[place];
                let ttl_us = rng.random_range(1_000..=longest_us);
                let renewed = limiter.renew(hold, Some(Duration::from_micros(ttl_us))).await;
                let answer = match renewed.unwrap() {
                    true => Renewing::Until(hold.end.as_micros()),
                    false => Renewing::NotOpen,
                };
                let step = HoldStep::Renew { ttl_us, answer };
                recorder.hold(client, invoked_us, hold.id.to_string(), step);
            }
            _ if !open.is_empty() => {
                let place = rng.random_range(0..open.len());
                let hold = match rng.random_range(0..4) {
                    0 => open[place].clone(),
                    _ => open.swap_remove(place),
                };
                let ends_soon = hold.end.as_micros() < now_us() + 2 * longest_us;
                if ends_soon && rng.random_range(0..8) == 0 {
                    wait_for_end(&hold);
                    invoked_us = now_us();
                }
                let is_acquire = hold.kind() == HoldKind::Acquire;
                let actual = if is_acquire { 0 } else { rng.random_range(0..5) };
                let answer = match limiter.commit(&hold, actual).await {
                    Ok(settled) if settled.already => {
                        Settling::Already(settled.actual.amounts().first())
                    }
                    Ok(settled) => {
                        let left = settled.charged.iter().map(|charged| charged.remaining);
                        Settling::Done { remaining: left.min() }
                    }
                    Err(Error::NotOpen(_)) => Settling::NotOpen,
                    Err(error) => panic!("{error}"),
                };
                let step = HoldStep::Settle { actual, answer };
                recorder.hold(client, invoked_us, hold.id.to_string(), step);
            }
            _ => {}
        }
    }
}

/// The observations of each kind, over all limits.
#[derive(Default, Debug)]
struct Seen(BTreeMap<&'static str, u64>);

impl Seen {
    fn count(&mut self, history: &History) {
        for call in &history.holds {
            let what = match &call.step {
                HoldStep::Place(Place { outcome: CallOutcome::Allowed { .. }, .. }) => "placed",
                HoldStep::Place(_) => "denied",
                HoldStep::Settle { answer: Settling::Done { .. }, .. } => "settled",
                HoldStep::Settle { answer: Settling::Already(_), .. } => "settled before",
                HoldStep::Settle { .. } => "settled too late",
                HoldStep::Renew { answer: Renewing::Until(_), .. } => "renewed",
                HoldStep::Renew { .. } => "renewed too late",
            };
            *self.0.entry(what).or_default() += 1;
        }
        *self.0.entry("checked").or_default() += history.calls.len() as u64;
    }
}

fn verify(limits: &str, history: History, seen: &mut Seen) {
    seen.count(&history);
    let calls = history.holds.len() + history.calls.len();
    let started = Instant::now();
    let report = check(&history, &Bounds::default());
    println!("{limits}: {calls} calls, checked in {:?}", started.elapsed());
    assert_eq!(report.verdict(Promise::Holds), Verdict::Held, "{limits}\n{report}");
    let read: History = history.to_string().parse().unwrap();
    assert_eq!(read, history);
    let ends = known_ends(&read);
    for (what, wrong) in WRONG {
        let mut other = read.clone();
        let mut changed = 0;
        for call in other.holds.iter_mut().skip(calls / 3) {
            let is_over = ends.get(&call.hold).is_some_and(|end_us| call.invoked_us > *end_us);
            changed += u64::from(wrong(&mut call.step, is_over));
        }
        let report = check(&other, &Bounds { search_steps: 20_000, ..Bounds::default() });
        let is_found = report.verdict(Promise::Holds) != Verdict::Held;
        assert_eq!(is_found, changed > 0, "{limits}: {what}, {changed} times\n{report}");
        *seen.0.entry(what).or_default() += changed;
    }
}

/// When each hold was over at the latest, by the store's answers: it had been settled, or its time
/// had run out.
fn known_ends(history: &History) -> BTreeMap<String, u64> {
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    let mut settled: BTreeMap<String, u64> = BTreeMap::new();
    for call in &history.holds {
        let end_us = match &call.step {
            HoldStep::Place(Place { decided_us: Some(decided_us), ttl_us, .. }) => {
                decided_us + ttl_us
            }
            HoldStep::Renew { answer: Renewing::Until(end_us), .. } => *end_us,
            HoldStep::Settle { answer: Settling::Done { .. }, .. } => {
                settled.extend(call.returned_us.map(|at_us| (call.hold.clone(), at_us)));
                continue;
            }
            _ => continue,
        };
        let latest_us = ends.entry(call.hold.clone()).or_default();
        *latest_us = end_us.max(*latest_us);
    }
    ends.extend(settled);
    ends
}

/// Changes an answer to a wrong one, where it is of its kind. The flag: the call began after the
/// hold was over. A call that began before may have come in time, so that either answer is right.
type Wrong = fn(&mut HoldStep, bool) -> bool;

/// The answers of a store with a mistake.
const WRONG: [(&str, Wrong); 4] = [
    ("one unit less is left after each hold", |step, _| match step {
        HoldStep::Place(Place {
            outcome: CallOutcome::Allowed { remaining: Some(left) }, ..
        }) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    }),
    ("a second commit charges again", |step, _| match step {
        HoldStep::Settle { answer, .. } if matches!(answer, Settling::Already(_)) => {
            *answer = Settling::Done { remaining: None };
            true
        }
        _ => false,
    }),
    ("a second commit forgets what the first charged", |step, _| match step {
        HoldStep::Settle { answer: Settling::Already(units), .. } => {
            *units += 1;
            true
        }
        _ => false,
    }),
    ("a hold that ended can be settled", |step, is_over| match step {
        HoldStep::Settle { answer, .. } if is_over && *answer == Settling::NotOpen => {
            *answer = Settling::Done { remaining: None };
            true
        }
        _ => false,
    }),
];

fn verify_seen(seen: &Seen) {
    println!("{seen:?}");
    let kinds = ["placed", "denied", "settled", "settled before", "settled too late", "renewed"];
    let wrong = WRONG.map(|(what, _)| what);
    for kind in kinds.into_iter().chain(["checked"]).chain(wrong) {
        assert!(seen.0.get(kind).is_some_and(|count| *count >= 10), "{kind}: {seen:?}");
    }
}

#[test]
fn what_threads_do_with_a_memory_store_is_explained() {
    let mut seen = Seen::default();
    for (limits, seed) in LIMITS.into_iter().zip((0..).step_by(100)) {
        let store = MemoryStore::builder().clock(WallClock).build();
        let limiter = Limiter::new(limits.parse().unwrap(), store);
        let recorder = Recorder::default();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (limiter, recorder) = (&limiter, &recorder);
                let run = move || block_on(client(limiter, recorder, thread, seed + thread));
                scope.spawn(run);
            }
        });
        verify(limits, recorder.history.into_inner().unwrap(), &mut seen);
    }
    verify_seen(&seen);
}

#[test]
fn what_clients_do_with_a_real_redis_is_explained() {
    let server = redis_or_skip!();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut seen = Seen::default();
    for (limits, seed) in LIMITS.into_iter().zip((0..).step_by(100)) {
        // On Redis an hour is long; a call takes a part of a millisecond.
        let recorder = Recorder::default();
        runtime.block_on(async {
            let options = Options::from_url(&server.url()).unwrap();
            let options = options.deadline(Duration::from_secs(20));
            let store = RedisStore::builder(options).connect().await.unwrap();
            let limiter = Limiter::new(limits.parse().unwrap(), store);
            limiter.admin().reset("bob").await.unwrap();
            let each = (0..THREADS).map(|n| client(&limiter, &recorder, n, seed + n));
            futures_util::future::join_all(each).await;
        });
        verify(limits, recorder.history.into_inner().unwrap(), &mut seen);
    }
    verify_seen(&seen);
}

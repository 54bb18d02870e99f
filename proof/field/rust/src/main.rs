//! Asks the rate limiters of some crates, for `tollgate judge --command`.
//!
//! `tollgate-field NAME COUNT PERIOD_S costs` answers JSON lines; with `single` each question
//! costs 1. `tollgate-field tollgate LIMIT` answers them for ours. `tollgate-field tower_governor
//! COUNT PERIOD_S` serves HTTP at an address that it prints, and takes the client from `x-subject`.

use std::collections::HashMap;
use std::io::{BufRead as _, Write as _};
use std::num::NonZeroU32;
use std::time::{Duration, UNIX_EPOCH};

use governor::clock::{Clock as _, FakeRelativeClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::HashMapStateStore;
use limitador::limit::{Context, Limit};
use serde_json::{Value, json};
use throttlecrab::PeriodicStore;

/// A question.
struct Ask<'a> {
    subject: &'a str,
    cost: u32,
    now_us: u64,
    /// How far the clock went since the question before.
    since: Duration,
}

type Answer = Result<Value, String>;

/// The answer of a limiter, where a wait is known.
fn answer(allowed: bool, remaining: u64, wait: Option<Duration>) -> Value {
    let mut answer = json!({ "allowed": allowed, "remaining": remaining });
    if let Some(wait) = wait.filter(|_| !allowed) {
        answer["retry_after_us"] = json!(wait.as_nanos().div_ceil(1_000) as u64);
    }
    answer
}

fn governor(count: u32, period: u32) -> impl FnMut(&Ask<'_>) -> Answer {
    let each = Duration::from_secs(period.into()) / count;
    let burst = NonZeroU32::new(count).expect("a count");
    let quota = governor::Quota::with_period(each).expect("a period").allow_burst(burst);
    let clock = FakeRelativeClock::default();
    let states = HashMapStateStore::<String>::default();
    let limiter: governor::RateLimiter<_, _, _, StateInformationMiddleware> =
        governor::RateLimiter::new(quota, states, clock.clone());
    move |ask| {
        clock.advance(ask.since);
        let cost = NonZeroU32::new(ask.cost).ok_or("a cost of 0")?;
        Ok(match limiter.check_key_n(&ask.subject.to_owned(), cost) {
            Ok(Ok(state)) => answer(true, state.remaining_burst_capacity().into(), None),
            // It does not say what remains.
            Ok(Err(until)) => {
                let wait = until.wait_time_from(clock.now());
                let wait_us = wait.as_nanos().div_ceil(1_000) as u64;
                json!({ "allowed": false, "retry_after_us": wait_us })
            }
            Err(_) => json!({ "allowed": false }),
        })
    }
}

fn throttlecrab(count: u32, period: u32) -> impl FnMut(&Ask<'_>) -> Answer {
    let mut limiter = throttlecrab::RateLimiter::new(PeriodicStore::new());
    let (count, period) = (i64::from(count), i64::from(period));
    move |ask| {
        let now = UNIX_EPOCH + Duration::from_micros(ask.now_us);
        let (allowed, seen) = limiter
            .rate_limit(ask.subject, count, count, period, ask.cost.into(), now)
            .map_err(|error| error.to_string())?;
        Ok(answer(allowed, seen.remaining.unsigned_abs(), Some(seen.retry_after)))
    }
}

fn leaky_bucket(count: u32, period: u32) -> impl AsyncFnMut(&Ask<'_>) -> Answer {
    let each = Duration::from_secs(period.into()) / count;
    let mut limiters = HashMap::new();
    let count = count as usize;
    let made = move || {
        leaky_bucket::RateLimiter::builder()
            .initial(count)
            .max(count)
            .refill(1)
            .interval(each)
            .build()
    };
    async move |ask: &Ask<'_>| {
        tokio::time::advance(ask.since).await;
        let limiter = limiters.entry(ask.subject.to_owned()).or_insert_with(made);
        let allowed = limiter.try_acquire(ask.cost as usize);
        Ok(json!({ "allowed": allowed, "remaining": limiter.balance() }))
    }
}

fn limitador(count: u32, period: u32) -> impl FnMut(&Ask<'_>) -> Answer {
    let limiter = limitador::RateLimiter::new(100_000);
    let subject = "subject".try_into().expect("a variable");
    let _ = limiter.add_limit(Limit::new("n", count.into(), period.into(), Vec::new(), [subject]));
    let namespace = "n".into();
    move |ask| {
        let values = HashMap::from([("subject".to_owned(), ask.subject.to_owned())]);
        let seen = limiter
            .check_rate_limited_and_update(&namespace, &Context::from(values), ask.cost.into())
            .map_err(|error| error.to_string())?;
        let counter = seen.counters.first().ok_or("no counter")?;
        let remaining = counter.remaining().unwrap_or_default();
        Ok(answer(!seen.limited, remaining, counter.expires_in()))
    }
}

/// Ours.
fn tollgate(limits: &str) -> impl FnMut(&Ask<'_>) -> Answer {
    let clock = tollgate::ManualClock::at_micros(0);
    let store = tollgate::MemoryStore::builder().clock(clock.clone()).build();
    let limiter = tollgate::Limiter::new(limits.parse().expect("a limit"), store);
    move |ask| {
        clock.set(tollgate::Time::from_micros(ask.now_us));
        let asked = tollgate::Ask::new(ask.subject).cost(u64::from(ask.cost));
        let decision = limiter.check(asked).now().map_err(|error| error.to_string())?;
        let mut reply = answer(decision.is_allowed(), decision.remaining(), decision.retry_after());
        if !decision.is_allowed() && decision.retry_after().is_none() {
            reply["never"] = json!(true);
        }
        Ok(reply)
    }
}

/// The abilities of a limiter.
#[derive(Clone, Copy)]
struct Able {
    clock: bool,
    costs: bool,
}

/// Answers each line of the standard input by a limiter that admits at most so much at once.
async fn answer_lines(able: Able, most: u32, mut limiter: impl AsyncFnMut(&Ask<'_>) -> Answer) {
    let mut out = std::io::stdout().lock();
    let able = json!({ "judge": 1, "clock": able.clock, "costs": able.costs });
    writeln!(out, "{able}").expect("output");
    let mut before = None;
    for line in std::io::stdin().lock().lines() {
        let question: Value = serde_json::from_str(&line.expect("input")).expect("a question");
        let now_us = question["now_us"].as_u64().unwrap_or_default();
        let since = Duration::from_micros(now_us.saturating_sub(before.unwrap_or(now_us)));
        before = Some(now_us);
        let ask = Ask {
            subject: question["subject"].as_str().expect("a subject"),
            cost: question["cost"].as_u64().and_then(|cost| cost.try_into().ok()).expect("a cost"),
            now_us,
            since,
        };
        let mut reply = limiter(&ask).await.unwrap_or_else(|error| json!({ "error": error }));
        // Few say that a cost is never admitted.
        if reply["allowed"] == false && ask.cost > most {
            reply = json!({ "allowed": false, "never": true });
        }
        reply["ask"] = question["ask"].clone();
        writeln!(out, "{reply}").expect("output");
        out.flush().expect("output");
    }
}

/// The client is the header `x-subject`.
#[derive(Clone)]
struct BySubject;

impl tower_governor::key_extractor::KeyExtractor for BySubject {
    type Key = String;

    fn extract<T>(
        &self,
        request: &axum::http::Request<T>,
    ) -> Result<String, tower_governor::GovernorError> {
        let header = request.headers().get("x-subject").and_then(|value| value.to_str().ok());
        header.map(str::to_owned).ok_or(tower_governor::GovernorError::UnableToExtractKey)
    }
}

async fn serve_tower_governor(count: u32, period: u32) {
    let settings = tower_governor::governor::GovernorConfigBuilder::default()
        .period(Duration::from_secs(period.into()) / count)
        .burst_size(count)
        .use_headers()
        .key_extractor(BySubject)
        .finish()
        .expect("settings");
    let layer = tower_governor::GovernorLayer::new(settings);
    let app = axum::Router::new().route("/", axum::routing::get(|| async { "ok" })).layer(layer);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    println!("{}", listener.local_addr().expect("an address"));
    axum::serve(listener, app).await.expect("a service");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [name, limits] = &words[..]
        && name == "tollgate"
    {
        let mut limiter = tollgate(limits);
        let able = Able { clock: true, costs: true };
        return answer_lines(able, u32::MAX, async move |ask: &Ask<'_>| limiter(ask)).await;
    }
    let [name, count, period, rest @ ..] = &words[..] else { panic!("NAME COUNT PERIOD_S") };
    let (count, period) = (count.parse().expect("a count"), period.parse().expect("seconds"));
    let able = Able { clock: true, costs: rest.first().is_some_and(|word| word == "costs") };
    match &**name {
        "governor" => {
            let mut limiter = governor(count, period);
            answer_lines(able, count, async move |ask: &Ask<'_>| limiter(ask)).await;
        }
        "throttlecrab" => {
            let mut limiter = throttlecrab(count, period);
            answer_lines(able, count, async move |ask: &Ask<'_>| limiter(ask)).await;
        }
        "limitador" => {
            let mut limiter = limitador(count, period);
            let able = Able { clock: false, ..able };
            answer_lines(able, count, async move |ask: &Ask<'_>| limiter(ask)).await;
        }
        "leaky-bucket" => {
            tokio::time::pause();
            answer_lines(able, count, leaky_bucket(count, period)).await;
        }
        "tower_governor" => serve_tower_governor(count, period).await,
        other => panic!("no limiter {other}"),
    }
}

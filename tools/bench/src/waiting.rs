//! `waiting`: whose turn it is when many wait, beside the crates governor and leaky-bucket.

use core::num::NonZeroU32;
use core::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::future::join_all;
use governor::{Quota, RateLimiter};
use serde::Serialize;
use tollgate::operation::Operation;
use tollgate::{Around, Limiter, Line, MemoryStore, StoreError, Waiting};

use crate::args::BenchWaiting;
use crate::show;

const TASKS: usize = 50;
const RATE: u32 = 20;

/// Longer than any wait.
const LONG: Duration = Duration::from_secs(3_600);

type Wait = Box<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Fifty tasks under twenty a second, once for each way to wait.
pub(crate) fn waiting(args: &BenchWaiting) -> Result<u8> {
    #[derive(Serialize)]
    struct Json {
        sides: Vec<Side>,
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let time = Duration::from_secs(u64::from(args.seconds));
    let mut sides = Vec::new();
    for (name, wait, asked) in ways()? {
        let mut side = runtime.block_on(run(name, Arc::new(wait), time));
        side.asked = asked.map(|asked| asked.load(Ordering::Relaxed));
        sides.push(side);
    }
    show::figures(args.json, &Json { sides }, |Json { sides }| {
        let header = ["50 tasks, 20/s", "least", "most", "longest wait", "turns", "asked"];
        let mut table = show::table(header);
        for Side { name, least, most, longest, turns, asked } in sides {
            let asked = asked.map_or_else(String::new, |asked| asked.to_string());
            let longest = format!("{longest:.2} s");
            let figures = [least.to_string(), most.to_string(), longest, turns.to_string(), asked];
            table.add_row([(*name).to_owned()].into_iter().chain(figures));
        }
        format!("{table}\n")
    })?;
    Ok(0)
}

/// A way to wait, and how often it has asked the limiter.
type Way = (&'static str, Wait, Option<Arc<AtomicU64>>);

fn ways() -> Result<Vec<Way>> {
    let mut ways = Vec::new();
    for (name, limits) in [("Line, via gcra", "20/s via gcra"), ("Line, via sliding_log", "20/s")] {
        let (limiter, asked) = counting(limits)?;
        let line = Arc::new(Line::new(limiter, TASKS));
        let wait: Wait = Box::new(move || {
            let line = Arc::clone(&line);
            Box::pin(async move { drop(line.until_ready("api", LONG).await) })
        });
        ways.push((name, wait, Some(asked)));
    }
    for (name, jitter) in
        [("until_ready", Duration::ZERO), ("until_ready, jitter 1s", Duration::from_secs(1))]
    {
        let (limiter, asked) = counting("20/s via gcra")?;
        let limiter = Arc::new(limiter);
        let wait: Wait = Box::new(move || {
            let limiter = Arc::clone(&limiter);
            let waiting = Waiting::from(LONG).jitter(jitter);
            Box::pin(async move { drop(limiter.until_ready("api", waiting).await) })
        });
        ways.push((name, wait, Some(asked)));
    }
    let quota = Quota::per_second(NonZeroU32::new(RATE).unwrap_or(NonZeroU32::MIN));
    let theirs = Arc::new(RateLimiter::direct(quota));
    let wait: Wait = Box::new(move || {
        let theirs = Arc::clone(&theirs);
        Box::pin(async move { theirs.until_ready().await })
    });
    ways.push(("governor", wait, None));
    let bucket = leaky_bucket::RateLimiter::builder()
        .initial(RATE as usize)
        .max(RATE as usize)
        .refill(RATE as usize)
        .interval(Duration::from_secs(1))
        .build();
    let theirs = Arc::new(bucket);
    let wait: Wait = Box::new(move || {
        let theirs = Arc::clone(&theirs);
        Box::pin(async move { theirs.acquire_one().await })
    });
    ways.push(("leaky-bucket", wait, None));
    Ok(ways)
}

/// The turns of the tasks under one way to wait.
#[derive(Serialize)]
struct Side {
    name: &'static str,
    /// The turns of the task that had the fewest.
    least: u64,
    most: u64,
    /// In seconds.
    longest: f64,
    turns: u64,
    /// How often the limiter was asked; only ours counts that.
    asked: Option<u64>,
}

async fn run(name: &'static str, wait: Arc<Wait>, time: Duration) -> Side {
    // The first units are free to take before others have come.
    for _ in 0..RATE {
        wait().await;
    }
    let end = Instant::now() + time;
    let tasks = (0..TASKS).map(|_| {
        let wait = Arc::clone(&wait);
        tokio::spawn(async move {
            let (mut turns, mut longest) = (0, Duration::ZERO);
            loop {
                let start = Instant::now();
                wait().await;
                longest = longest.max(start.elapsed());
                if Instant::now() > end {
                    return (turns, longest);
                }
                turns += 1;
            }
        })
    });
    let done: Vec<(u64, Duration)> = join_all(tasks).await.into_iter().flatten().collect();
    let turns = || done.iter().map(|(turns, _)| *turns);
    let longest = done.iter().map(|(_, longest)| *longest).max().unwrap_or_default();
    Side {
        name,
        least: turns().min().unwrap_or(0),
        most: turns().max().unwrap_or(0),
        longest: longest.as_secs_f64(),
        turns: turns().sum(),
        asked: None,
    }
}

/// Memory that counts its questions.
struct Counting {
    inner: MemoryStore,
    asked: Arc<AtomicU64>,
}

fn counting(limits: &str) -> Result<(Limiter<Counting>, Arc<AtomicU64>)> {
    let asked = Arc::<AtomicU64>::default();
    let store = Counting { inner: MemoryStore::new(), asked: Arc::clone(&asked) };
    Ok((Limiter::new(limits.parse()?, store), asked))
}

impl Around for Counting {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.inner
    }

    async fn answer<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        use tollgate::Store as _;
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.inner.perform(operation).await
    }
}

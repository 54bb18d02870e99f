//! One process of many that ask: as many tasks as are wanted, in one thread.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::task::LocalSet;
use tollgate::{LimitSet, Limiter, MemoryStore, Store, Subject};
use tollgate_lease::Leased;
use tollgate_proof::Random;
use tollgate_redis::{Options, RedisStore};

use crate::args::LeaseNode;

/// The work of a process.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Done {
    /// Decisions, those of them that admitted, and questions to the store.
    pub(super) decisions: u64,
    pub(super) allowed: u64,
    pub(super) asked: u64,
    /// How long it asked, in seconds.
    pub(super) seconds: f64,
}

impl Done {
    /// The work of several concurrent processes.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            decisions: self.decisions + other.decisions,
            allowed: self.allowed + other.allowed,
            asked: self.asked + other.asked,
            seconds: self.seconds.max(other.seconds),
        }
    }
}

pub(super) fn run(args: &LeaseNode) -> Result<Done> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let limits: LimitSet = args.limits.parse()?;
    runtime.block_on(LocalSet::new().run_until(async {
        if args.in_memory {
            let limiter = Limiter::new(limits, MemoryStore::new());
            return Ok(ask_all(args, limiter).await.0);
        }
        let options = Options::from_url(&args.url)?.deadline(Duration::from_secs(30));
        let redis = RedisStore::builder(options).connect().await?;
        let store = Leased::builder(redis).deny_cache(args.deny_cache).build();
        let (done, limiter) = ask_all(args, Limiter::new(limits, store)).await;
        Ok(Done { asked: limiter.store().counters().asked, ..done })
    }))
}

/// Runs all tasks until the time is over.
async fn ask_all<S: Store + 'static>(
    args: &LeaseNode,
    limiter: Limiter<S>,
) -> (Done, Rc<Limiter<S>>) {
    let limiter = Rc::new(limiter);
    let subject = |number| Subject::literal(&format!("user:{number}"));
    let subjects: Rc<[Subject]> = (0..args.subjects).map_while(|n| subject(n).ok()).collect();
    let counted: Rc<Cell<(u64, u64)>> = Rc::default();
    let began = Instant::now();
    let until = began + Duration::from_secs(args.seconds.into());
    // Each task has its part of the pace.
    let pause = (args.rate > 0)
        .then(|| Duration::from_secs_f64(f64::from(args.tasks) / f64::from(args.rate)));
    let tasks: Vec<_> = (0..args.tasks)
        .map(|task| {
            let (limiter, subjects) = (Rc::clone(&limiter), Rc::clone(&subjects));
            let counted = Rc::clone(&counted);
            let mut random = Random::new(u64::from(task) << 32 | u64::from(std::process::id()));
            tokio::task::spawn_local(async move {
                let mut ticks = pause.map(tokio::time::interval);
                while Instant::now() < until {
                    if let Some(ticks) = &mut ticks {
                        ticks.tick().await;
                    }
                    let place = random.place(subjects.len());
                    let Ok(decision) = limiter.check(&subjects[place]).await else { continue };
                    let (decisions, allowed) = counted.get();
                    let more = u64::from(decision.is_allowed());
                    counted.set((decisions + 1, allowed + more));
                    drop(decision);
                    // As between two requests.
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        // A task that panics has said so.
        let _ = task.await;
    }
    let (decisions, allowed) = counted.get();
    let seconds = began.elapsed().as_secs_f64();
    (Done { decisions, allowed, asked: decisions, seconds }, limiter)
}

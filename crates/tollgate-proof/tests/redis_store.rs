//! The Redis store keeps every promise of the kit, on a real server.
#![allow(clippy::unwrap_used)] // tests may

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use common::redis::{Blocking, runtime, server};
use tollgate::ManualClock;
use tollgate_redis::{Options, RedisStore};

/// Tells the stores of one test run apart.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// A store of its own keys, by the kit's clock. The machine may be busy: only a deadline that is
/// far away is none of the kit's cases.
fn make(clock: ManualClock) -> Blocking {
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let options = Options::from_url(&server().url()).unwrap();
    let options = options.deadline(std::time::Duration::from_secs(30));
    let store = RedisStore::builder(options).run(&format!("kit-{run}"), clock).connect();
    Blocking(runtime().block_on(store).unwrap())
}

tollgate_proof::conformance_tests!(make);

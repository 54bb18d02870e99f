//! The Redis store keeps every promise of the kit, on a real server.
#![allow(clippy::unwrap_used)] // tests may

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use common::redis::{Blocking, runtime, server};
use tollgate::ManualClock;
use tollgate_redis::{Builder, Options, RedisStore};

/// Tells the stores of one test run apart.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// A store of its own keys, by the kit's clock. The machine may be busy: only a deadline that is
/// far away is none of the kit's cases.
fn builder(clock: ManualClock) -> Builder {
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let options = Options::from_url(&server().url()).unwrap();
    let options = options.deadline(std::time::Duration::from_secs(30));
    RedisStore::builder(options).run(&format!("kit-{run}"), clock)
}

mod by_scripts {
    use super::*;

    fn make(clock: ManualClock) -> Blocking {
        Blocking(runtime().block_on(builder(clock).connect()).unwrap())
    }

    tollgate_proof::conformance_tests!(make);
}

mod by_comparing_and_swapping {
    use super::*;

    fn make(clock: ManualClock) -> Blocking {
        Blocking(runtime().block_on(builder(clock).swapping().connect()).unwrap())
    }

    tollgate_proof::conformance_tests!(make);
}

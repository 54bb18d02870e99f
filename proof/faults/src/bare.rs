//! A bare client beside the load: the cluster client of redis-rs, which counts with `INCR`.
//!
//! It has the same number of callers, the same pauses and the same deadline, and is otherwise as it
//! is by default. It is not a limiter: its figures show the cost of a fault to any client.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use redis::cluster::{ClusterClient, NodeAddress};
use redis::cluster_async::ClusterConnection;
use serde::Serialize;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tollgate_testbed::{RedisCluster, RedisServer};

use crate::load::{CALLERS, DEADLINE, LEDGERS, PAUSE_US, ledger, micros};
use crate::world::FOR_CLIENTS;

/// It counts in the slots of the load's ledgers, so that it meets what they meet.
const KEYS: usize = LEDGERS;

/// Callers at work.
pub struct Bare {
    runtime: Runtime,
    connection: ClusterConnection,
    shared: Arc<Shared>,
    seed: u64,
    callers: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    is_over: AtomicBool,
    counts: Mutex<Vec<Count>>,
}

/// The callers' knowledge of one key.
#[derive(Clone, Copy, Debug)]
struct Count {
    answered: u64,
    errors: u64,
    last: Instant,
    gap_us: u64,
}

/// The findings of a bare client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BareFound {
    /// Calls that were answered.
    pub answered: u64,
    /// Calls that ended with an error; whether they counted is unknown.
    pub errors: u64,
    /// Answered calls that are not counted in the end.
    pub lost: u64,
    /// The units counted beyond all calls that were answered or ended with an error.
    pub doubled: u64,
    /// The longest time in which a key had no answer, in microseconds.
    pub gap_us: u64,
}

impl fmt::Debug for Bare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bare").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Bare {
    /// Connects and begins.
    ///
    /// # Errors
    ///
    /// The cluster cannot be reached.
    pub fn start(cluster: &RedisCluster, seed: u64) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("no runtime")?;
        let ports = || cluster.servers().iter().map(RedisServer::port);
        let address = |host: &str, port| NodeAddress::new(host, port);
        let map: HashMap<_, _> =
            ports().map(|port| (address("127.0.0.1", port), address(FOR_CLIENTS, port))).collect();
        let nodes = ports().map(|port| format!("redis://{FOR_CLIENTS}:{port}"));
        let client = ClusterClient::builder(nodes)
            .node_address_map(map)
            .overall_response_timeout(Some(DEADLINE))
            .build()?;
        let connection = runtime.block_on(client.get_async_connection())?;
        let fresh = Count { answered: 0, errors: 0, last: Instant::now(), gap_us: 0 };
        let shared = Arc::new(Shared {
            is_over: AtomicBool::new(false),
            counts: Mutex::new(vec![fresh; KEYS]),
        });
        let callers = (0..CALLERS).map(|caller| {
            let rng = ChaCha8Rng::seed_from_u64(seed.wrapping_add(caller as u64));
            runtime.spawn(Arc::clone(&shared).call(connection.clone(), seed, rng))
        });
        let callers = callers.collect();
        Ok(Self { runtime, connection, shared, seed, callers })
    }

    /// Ends it, and reads what was counted.
    ///
    /// # Errors
    ///
    /// A caller panicked, or the counts cannot be read.
    pub fn finish(mut self) -> Result<BareFound> {
        self.shared.is_over.store(true, Ordering::SeqCst);
        for caller in self.callers {
            self.runtime.block_on(caller).context("a caller panicked")?;
        }
        let (mut found, seed) = (BareFound::default(), self.seed);
        let counts = self.shared.counts().clone();
        for (key, count) in counts.iter().enumerate() {
            let get = redis::cmd("GET").arg(name(seed, key)).to_owned();
            let used: Option<u64> = self.runtime.block_on(get.query_async(&mut self.connection))?;
            let used = used.unwrap_or(0);
            found.answered += count.answered;
            found.errors += count.errors;
            found.lost += count.answered.saturating_sub(used);
            found.doubled += used.saturating_sub(count.answered + count.errors);
            found.gap_us = found.gap_us.max(count.gap_us);
        }
        Ok(found)
    }
}

impl Shared {
    fn counts(&self) -> MutexGuard<'_, Vec<Count>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn call(
        self: Arc<Self>,
        mut connection: ClusterConnection,
        seed: u64,
        mut rng: ChaCha8Rng,
    ) {
        while !self.is_over.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_micros(rng.random_range(0..PAUSE_US))).await;
            let key = rng.random_range(0..KEYS);
            let incr = redis::cmd("INCR").arg(name(seed, key)).to_owned();
            let counted = incr.query_async::<u64>(&mut connection).await;
            let mut counts = self.counts();
            let Some(count) = counts.get_mut(key) else { return };
            match counted {
                Ok(_) => {
                    count.answered += 1;
                    count.gap_us = count.gap_us.max(micros(count.last.elapsed()));
                    count.last = Instant::now();
                }
                Err(_) => count.errors += 1,
            }
        }
    }
}

fn name(seed: u64, key: usize) -> String {
    format!("bare:{{user:{}}}", ledger(seed, key))
}

//! The store: the parts that its clones share, and its calls of scripts.

use core::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use redis::{ToRedisArgs, Value};
use tollgate::{Clock as TimeSource, Counted, StoreError, Time, WallClock};

use super::denials::Denials;
use super::plan::Plans;
use super::rare_scripts::RareScripts;
use super::reply::time_of_other_windows;
use crate::client::{Client, Topology};
use crate::fault::ChargeState;
use crate::key::Keys;
use crate::node::{BreakerState, Call, Deadline};
use crate::script::Script;

/// Counts in Redis or Valkey, shared by all machines that use it. Cheap to clone: clones share the
/// connections.
///
/// A check is one call of one script, whatever the number of limits and subjects. Checks under the
/// same limits that wait for the connection at the same time share a call. The store needs a tokio
/// runtime with I/O and time enabled. `docs/faults.md` describes how it behaves when Redis is
/// unavailable: it answers within its deadline, and never repeats a call that may have charged.
///
/// ```no_run
/// use tollgate::Limiter;
/// use tollgate_redis::RedisStore;
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisStore::connect("redis://127.0.0.1").await?;
/// let limiter = Limiter::new("10/s, 240/h".parse()?, store);
/// let decision = limiter.check("user:42").await?;
/// println!("{decision}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisStore(pub(super) Arc<Shared>);

/// The parts that clones of a store share.
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) keys: Keys,
    pub(super) given: Option<Box<dyn TimeSource>>,
    pub(super) swapping: bool,
    pub(super) identity: u64,
    pub(super) environment: String,
    pub(super) deadline: Duration,
    pub(super) nonce: AtomicU64,
    pub(super) plans: Plans,
    pub(super) rare: RareScripts,
    pub(super) denials: Denials,
    pub(super) forgotten_requests: AtomicU64,
    /// How far the server's clock is ahead of this process' in microseconds, if that mattered.
    pub(super) ahead_us: AtomicI64,
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("client", &self.0.client).finish_non_exhaustive()
    }
}

impl RedisStore {
    /// Connects a store that [`Builder::unconnected`](crate::Builder::unconnected) made. It does
    /// nothing once that has succeeded: connections that are lost later are made again by
    /// themselves.
    ///
    /// # Errors
    /// As [`RedisStore::connect`]; [`crate::may_connect_later`] says whether to try again.
    pub async fn try_connect(&self) -> Result<(), StoreError> {
        Ok(self.0.client.try_connect().await?)
    }

    /// Whether it has connected since it was made.
    #[must_use]
    pub fn has_connected(&self) -> bool {
        self.0.client.is_connected()
    }

    /// Waits until it has connected for the first time.
    pub async fn connected(&self) {
        self.0.client.connected().await;
    }

    /// The number of scripts that were loaded into the server.
    #[must_use]
    pub fn loads(&self) -> u64 {
        self.0.client.loads() + self.0.plans.counts.loads.load(Ordering::Relaxed)
    }

    /// The number of batched calls that the server refused. Each of their checks was then sent
    /// alone; other calls may have preceded it.
    #[must_use]
    pub fn refusals(&self) -> u64 {
        self.0.plans.counts.refusals.load(Ordering::Relaxed)
    }

    /// Asks the sentinels, or a node of the cluster, where the keys are now. It takes a round trip
    /// on a new connection, at most half a second. None for one server.
    ///
    /// # Errors
    /// No node of the cluster answers. Sentinels that are away do not count: the primary that they
    /// named last is used on.
    pub async fn topology(&self) -> Result<Option<Topology>, StoreError> {
        Ok(self.0.client.topology().await?)
    }

    /// Whether the circuit breaker lets calls through to the server.
    #[must_use]
    pub fn breaker(&self) -> BreakerState {
        self.0.client.breaker()
    }

    /// Where on its servers the counts lie: the number of the database and the prefix of the keys.
    /// It is empty for database 0 without a prefix of an environment.
    #[must_use]
    pub fn environment(&self) -> &str {
        &self.0.environment
    }

    /// The names of its keys.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.0.keys
    }

    /// The server's time, as far as it is known: calls bring the edges of calendars around it.
    pub(super) fn server_time(&self) -> Time {
        if let Some(clock) = &self.0.given {
            return clock.now();
        }
        let ahead_us = self.0.ahead_us.load(Ordering::Relaxed);
        Time::from_micros(WallClock.now().as_micros().saturating_add_signed(ahead_us))
    }

    /// Whether a script has refused the edges of a calendar. It is asked again with those around
    /// the server's time, which is known then.
    pub(super) fn has_other_windows(&self, answer: &[Value]) -> bool {
        let Some(server_us) = time_of_other_windows(answer) else { return false };
        let ahead = i128::from(server_us) - i128::from(WallClock.now().as_micros());
        self.0.ahead_us.store(i64::try_from(ahead).unwrap_or(0), Ordering::Relaxed);
        true
    }

    pub(super) fn next_nonce(&self) -> u64 {
        self.next_nonces(1)
    }

    /// The first of `count` nonces that follow each other.
    pub(super) fn next_nonces(&self, count: u64) -> u64 {
        self.0.nonce.fetch_add(count, Ordering::Relaxed)
    }

    pub(super) async fn call(
        &self,
        script: &Script,
        keys: &[String],
        args: impl ToRedisArgs,
        nonce: u64,
        by: Deadline,
    ) -> Result<Vec<Value>, StoreError> {
        let mut call = Call::new(script, nonce, keys.len());
        call.word(keys).word(args);
        self.send(call, by).await
    }

    /// The deadline of an operation that begins now, where its caller has none.
    pub(super) fn usual_deadline(&self) -> Deadline {
        Deadline::within(self.0.deadline)
    }

    /// Calls a script for the notices.
    pub(super) async fn call_notices<const N: usize>(
        &self,
        script: &Script,
        words: [String; N],
    ) -> Result<Vec<Value>, StoreError> {
        let nonce = self.next_nonce();
        let mut args = vec![nonce.to_string()];
        args.extend(words);
        self.call(script, &[self.0.keys.notices()], args, nonce, self.usual_deadline()).await
    }

    /// Calls a script, with the time as last argument when the clock is given.
    pub(super) async fn send(
        &self,
        mut call: Call<'_>,
        by: Deadline,
    ) -> Result<Vec<Value>, StoreError> {
        // It may be the second call of an operation.
        if by.is_over() {
            return Err(by.passed(ChargeState::NotCharged).into());
        }
        if let Some(clock) = &self.0.given {
            call.word(clock.now().as_micros());
        }
        self.0.client.call(call, by).await
    }

    /// The key of a state, and all keys beside it that its limits may use.
    pub(super) fn all_keys(&self, counted: Counted<'_>) -> (String, Vec<String>) {
        let state = self.0.keys.for_count(counted);
        let logs = Keys::logs(&state, counted.limits);
        (state, logs)
    }
}

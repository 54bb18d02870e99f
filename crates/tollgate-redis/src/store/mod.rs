//! The Redis store: each operation is one call of one script.

mod across;
mod builder;
mod denials;
mod holds;
mod keyspace;
mod operations;
mod plan;
mod refund;
mod reply;
mod swap;

use core::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::{ToRedisArgs, Value};
use tollgate::engine::{Mode, Outcome};
use tollgate::strategy::Shape;
use tollgate::{Clock as TimeSource, Counted, Limit, LimitSet, Question, StoreError, Subject};

use self::denials::Denials;
use self::plan::{Plans, asked};
use self::reply::{StoredValue, read_outcome, read_request, read_states};
use crate::client::{Client, Topology};
use crate::compose::{self, Clock, Parts};
use crate::fault::ChargeState;
use crate::key::Keys;
use crate::node::{BreakerState, Call, Deadline};
use crate::notices;
use crate::options::Options;
use crate::script::Script;

pub use self::builder::Builder;
pub(crate) use self::reply::{parse_unsigned, unexpected_reply};

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
pub struct RedisStore(Arc<Shared>);

struct Shared {
    client: Client,
    keys: Keys,
    given: Option<Box<dyn TimeSource>>,
    swapping: bool,
    identity: u64,
    environment: String,
    deadline: Duration,
    nonce: AtomicU64,
    plans: Plans,
    rare: RareScripts,
    denials: Denials,
    forgotten_requests: AtomicU64,
}

/// The scripts that are independent of the limits.
struct RareScripts {
    refund: Script,
    adjust: Script,
    charge: Script,
    reset: Script,
    inspect: Script,
    open_holds: Script,
    swap: Script,
    notices: notices::Scripts,
}

impl RareScripts {
    fn new(clock: Clock, parts: &Parts) -> Self {
        Self {
            refund: compose::refund(clock, parts),
            adjust: compose::adjust(clock, parts),
            charge: compose::charge(clock, parts),
            reset: compose::reset(clock, parts),
            inspect: compose::inspect(clock, parts),
            open_holds: compose::open_holds(clock, parts),
            swap: compose::swap(parts),
            notices: notices::Scripts::new(clock, parts),
        }
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("client", &self.0.client).finish_non_exhaustive()
    }
}

impl RedisStore {
    /// Connects to `redis://[user:password@]host[:port][/database]`, `rediss://` for TLS, or
    /// `unix:///path`. Options such as `?deadline=50ms` and `&connections=1` follow.
    ///
    /// # Errors
    /// The URL is invalid, or the server cannot be reached, refuses the password, or is not Redis.
    /// Each error suggests a remedy.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder(Options::from_url(url)?).connect().await
    }

    /// A store that is not connected yet.
    #[must_use]
    pub fn builder(options: Options) -> Builder {
        Builder::new(options)
    }

    /// Connects a store that [`Builder::unconnected`] made. It does nothing once that has
    /// succeeded: connections that are lost later are made again by themselves.
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
    /// on a connection of its own, at most half a second. None for one server.
    ///
    /// # Errors
    /// No node of the cluster answers. Sentinels that are away are none: the primary that they
    /// named last is used on.
    pub async fn topology(&self) -> Result<Option<Topology>, StoreError> {
        Ok(self.0.client.topology().await?)
    }

    /// Whether the circuit breaker lets calls through to the server.
    #[must_use]
    pub fn breaker(&self) -> BreakerState {
        self.0.client.breaker()
    }

    /// Composes and loads the scripts of a check with one subject per set of limits, in this order:
    /// the script of one check, and that of a batch. Without it the first checks load the scripts,
    /// which takes two more round trips, and they are not batched until then.
    ///
    /// # Errors
    /// As [`Operations::check`](tollgate::operation::Operations::check); nothing is charged.
    pub async fn prepare(&self, limits: &[&LimitSet]) -> Result<(), StoreError> {
        // Any subjects will do, since they share a script. Two calls show whether the server allows
        // different keys in one call.
        let subjects: Result<Vec<Subject>, _> =
            (0..2 * limits.len()).map(|n| Subject::new("key", n.to_string())).collect();
        let subjects = subjects.map_err(|error| StoreError::permanent(error.to_string()))?;
        let parts = subjects.iter().zip(limits.iter().chain(limits));
        let parts: Vec<_> = parts.map(|(it, limits)| Counted::new(it, limits)).collect();
        let (one, _) = parts.split_at(limits.len());
        let plan = self.0.plans.get(&Question::new(one, 1, Mode::Whole))?;
        self.0.client.load(&plan.script, self.0.deadline).await?;
        let Some(batch) = &plan.batch else { return Ok(()) };
        let for_check =
            |part: &Counted<'_>| Keys::for_check(&self.0.keys.for_count(*part), part.limits);
        let keys: Vec<String> = parts.iter().flat_map(for_check).collect();
        self.0.client.load_batch(batch, &keys, self.0.deadline).await
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

    fn next_nonce(&self) -> u64 {
        self.next_nonces(1)
    }

    /// The first of `count` nonces that follow each other.
    fn next_nonces(&self, count: u64) -> u64 {
        self.0.nonce.fetch_add(count, Ordering::Relaxed)
    }

    async fn call(
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
    fn usual_deadline(&self) -> Deadline {
        Deadline::within(self.0.deadline)
    }

    /// Calls a script for the notices.
    async fn call_notices<const N: usize>(
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
    async fn send(&self, mut call: Call<'_>, by: Deadline) -> Result<Vec<Value>, StoreError> {
        // It may be the second call of an operation.
        if by.is_over() {
            return Err(by.passed(ChargeState::NotCharged).into());
        }
        if let Some(clock) = &self.0.given {
            call.word(clock.now().as_micros());
        }
        self.0.client.call(call, by).await
    }

    /// What is rare is in a box, here and in what this calls: the futures around a check hold its
    /// future and move it, and most would copy kilobytes that they never use.
    async fn answer(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        match self.slots_of_question(question) {
            Some(slots) => Box::pin(self.check_across(question, &slots)).await,
            None => {
                let by = Deadline::within(question.deadline.unwrap_or(self.0.deadline));
                self.check_in_slot(question, self.next_nonces(question.receipts), by).await
            }
        }
    }

    /// Answers a question whose keys lie in one slot, or on one server.
    async fn check_in_slot(
        &self,
        question: &Question<'_>,
        nonce: u64,
        by: Deadline,
    ) -> Result<Outcome, StoreError> {
        if question.is_about_holds() {
            return Box::pin(self.check_among_holds(question, nonce, by)).await;
        }
        let logs = |limit: &Limit| limit.shape() == Shape::Log;
        if self.0.swapping
            && question.request.is_none()
            && !question.parts.iter().any(|part| part.limits.limits().iter().any(logs))
        {
            return Box::pin(self.check_by_swapping(question, nonce, by)).await;
        }
        let plan = self.0.plans.get(question)?;
        if plan.held.is_recent() {
            return Box::pin(self.check_among_holds(question, nonce, by)).await;
        }
        let keys = plan.keys() + usize::from(question.request.is_some());
        let mut call = Call::new(&plan.script, nonce, keys).with_others(plan.batch.as_ref());
        let mut key = String::new();
        for (part, suffixes) in question.parts.iter().zip(&plan.suffixes) {
            key.clear();
            self.0.keys.write(&mut key, *part);
            let state = key.len();
            for suffix in suffixes {
                key.truncate(state);
                key.push_str(suffix);
                call.word(key.as_str());
            }
        }
        if let (Some(_), Some(first)) = (question.request, question.parts.first()) {
            call.word(Keys::requests(&self.0.keys.for_count(*first)));
        }
        call.word(question.cost).word(nonce);
        if let Some(id) = question.request {
            call.word(asked(id, question)).word(id.time().as_micros().to_string());
        }
        for word in &plan.number_args {
            call.word(word.as_str());
        }
        let answer = self.send(call, by).await?;
        if holds::is_held(&answer) {
            plan.held.note();
            return Box::pin(self.check_among_holds(question, nonce, by)).await;
        }
        if question.request.is_none() {
            return read_outcome(&answer, question, plan.limits, nonce);
        }
        let (number, forgotten, answer) = read_request(&answer)?;
        let mut outcome = read_outcome(answer, question, plan.limits, number)?;
        outcome.repeated = number != nonce;
        outcome.overused = forgotten.count(&self.0.forgotten_requests);
        Ok(outcome)
    }

    async fn check_by_swapping(
        &self,
        question: &Question<'_>,
        number: u64,
        by: Deadline,
    ) -> Result<Outcome, StoreError> {
        let keys: Vec<String> =
            question.parts.iter().map(|part| self.0.keys.for_count(*part)).collect();
        loop {
            let nonce = self.next_nonce();
            let args = vec![nonce.to_string()];
            let answer = self.call(&self.0.rare.inspect, &keys, args, nonce, by).await?;
            let (now, states) = read_states(answer, keys.len())?;
            if states.iter().any(StoredValue::is_held) {
                return self.check_among_holds(question, number, by).await;
            }
            let (mut outcome, writes) = swap::decide(question, &states, now)?;
            let Some(writes) = writes else { return Ok(outcome) };
            let nonce = self.next_nonce();
            let mut args = vec![nonce.to_string().into_bytes()];
            args.extend(writes);
            let mut call = Call::new(&self.0.rare.swap, nonce, keys.len());
            call.word(&keys).word(args);
            // The script writes times that were decided before, so it takes none.
            let answer = self.0.client.call(call, by).await?;
            if matches!(answer[..], [Value::Int(1)]) {
                if outcome.granted > 0 && !question.mode.is_peek() {
                    outcome.receipt = number;
                }
                return Ok(outcome);
            }
            if by.is_over() {
                return Err(StoreError::transient(
                    "others kept changing this count until the deadline: nothing was charged",
                ));
            }
        }
    }

    /// The key of a state, and all keys beside it that its limits may use.
    fn all_keys(&self, counted: Counted<'_>) -> (String, Vec<String>) {
        let state = self.0.keys.for_count(counted);
        let logs = Keys::logs(&state, counted.limits);
        (state, logs)
    }
}

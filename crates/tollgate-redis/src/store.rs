//! The store: what is asked becomes one call of one script.

use core::fmt;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use redis::Value;
use sha1::Digest as _;
use smallvec::SmallVec;
use tollgate::engine::{self, Fields, Mode, Outcome};
use tollgate::strategy::Shape;
use tollgate::{
    Carried, Clock as TimeSource, Counted, Inspection, Limit, LimitSet, Question, Receipt, Refund,
    Store, StoreError, Subject, Time,
};

use crate::client::Client;
use crate::compose::{self, Answer, Check, Clock, Parts, by_place, has_state, set_tag};
use crate::key::Keys;
use crate::options::Options;
use crate::script::Script;
use crate::state;
use crate::swap;

/// How many scripts a store keeps ready. One that is needed and not ready is composed again.
const MAX_PLANS: usize = 1_024;

/// How long a request id is remembered by default.
pub const DEFAULT_REMEMBER: Duration = Duration::from_secs(600);

/// Counts in Redis or Valkey, shared by every machine that asks it. Cheap to clone: clones share
/// the connections.
///
/// A check is one call of one script, whatever the number of limits and subjects. It needs a
/// tokio runtime with I/O and time enabled. What it does when Redis is away is in
/// `docs/faults.md`: it answers within its deadline, and never asks twice what may have been done.
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
    remember: Duration,
    deadline: Duration,
    nonce: AtomicU64,
    plans: RwLock<HashMap<PlanKey, Arc<Plan>>>,
    rare: Rare,
    parts: Parts,
}

/// The scripts that are the same for any limits.
struct Rare {
    refund: Script,
    adjust: Script,
    reset: Script,
    inspect: Script,
    swap: Script,
}

type PlanKey = (SmallVec<[u64; 2]>, u8);

/// A composed script, and how the keys of its subjects are named.
struct Plan {
    script: Script,
    keys: SmallVec<[KeyPlan; 1]>,
    limits: usize,
}

/// Which keys a subject's state takes: itself, then its logs by what is added to its name.
struct KeyPlan {
    state: bool,
    logs: Vec<String>,
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("client", &self.0.client).finish_non_exhaustive()
    }
}

/// How a store counts; [`RedisStore::connect`] takes the usual way.
#[derive(Debug)]
pub struct Builder {
    options: Options,
    keys: Keys,
    given: Option<Box<dyn TimeSource>>,
    swapping: bool,
    remember: Duration,
}

impl Builder {
    /// How long a request id is remembered (default: [`DEFAULT_REMEMBER`]).
    #[must_use]
    pub fn remember(self, remember: Duration) -> Self {
        Self { remember, ..self }
    }

    /// Puts all keys under the hash tag of this value, so that subjects which are asked together
    /// lie in one slot of a cluster.
    #[must_use]
    pub fn shard(self, shard: &str) -> Self {
        Self { keys: self.keys.sharded(shard), ..self }
    }

    /// Counts by `clock` instead of the server's, under keys of a run of its own that live for an
    /// hour: for trying limits on traffic of the past. [`RedisStore::clear_run`] removes them.
    #[must_use]
    pub fn run(self, run: &str, clock: impl TimeSource + 'static) -> Self {
        Self { keys: Keys::of_run(run), given: Some(Box::new(clock)), ..self }
    }

    /// Decides here and writes by comparing and swapping, in two round trips and more: what a
    /// strategy without a step in Lua needs. For checks and peeks; logs, request ids and what is
    /// rare are left to their scripts.
    #[must_use]
    pub fn swapping(self) -> Self {
        Self { swapping: true, ..self }
    }

    /// Names the keys so.
    pub(crate) fn keys(self, keys: Keys) -> Self {
        Self { keys, ..self }
    }

    /// Connects.
    ///
    /// # Errors
    /// As [`RedisStore::connect`].
    pub async fn connect(self) -> Result<RedisStore, StoreError> {
        let Self { options, keys, given, swapping, remember } = self;
        let deadline = options.deadline;
        let place = format!("{options} {}", keys.prefix());
        let client = Client::connect(options).await?;
        let clock = if given.is_some() { Clock::Given } else { Clock::Server };
        let parts = Parts::default();
        let rare = Rare {
            refund: compose::refund(clock, &parts),
            adjust: compose::adjust(clock, &parts),
            reset: compose::reset(clock, &parts),
            inspect: compose::inspect(clock, &parts),
            swap: compose::swap(&parts),
        };
        // Two stores at one place share their counts, so they share their receipts.
        let digest = sha1::Sha1::digest(place.as_bytes());
        let identity = digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        // Charges are told apart by these numbers, also those of other processes. Below 2^53, for
        // Lua, and with room to count.
        let random = RandomState::new().hash_one(std::process::id());
        let nonce = AtomicU64::new((1 << 50) + (random >> 12));
        Ok(RedisStore(Arc::new(Shared {
            client,
            keys,
            given,
            swapping,
            identity,
            remember,
            deadline,
            nonce,
            plans: RwLock::default(),
            rare,
            parts,
        })))
    }
}

fn mode_number(mode: Mode, remembered: bool) -> u8 {
    let number = match mode {
        Mode::Whole => 0,
        Mode::Partial => 1,
        Mode::Peek => 2,
        _ => 3,
    };
    number + if remembered { 4 } else { 0 }
}

impl RedisStore {
    /// Connects to `redis://[user:password@]host[:port][/database]`, `rediss://` for TLS, or
    /// `unix:///path`; `?deadline=50ms` and `&connections=1` say how.
    ///
    /// # Errors
    /// A URL that cannot be read; a server that cannot be reached, refuses the password, or is
    /// none; each says what to do.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder(Options::from_url(url)?).connect().await
    }

    /// A store that is not connected yet.
    #[must_use]
    pub fn builder(options: Options) -> Builder {
        Builder {
            options,
            keys: Keys::new(),
            given: None,
            swapping: false,
            remember: DEFAULT_REMEMBER,
        }
    }

    /// How many scripts were loaded into the server.
    #[must_use]
    pub fn loads(&self) -> u64 {
        self.0.client.loads()
    }

    /// Composes and loads the script of a check of one subject under these limits. Without it the
    /// first check does so, and takes two round trips more.
    ///
    /// # Errors
    /// As [`Store::check`]; nothing is charged.
    pub async fn prepare(&self, limits: &LimitSet) -> Result<(), StoreError> {
        // Any subject will do: a script is the same for all.
        let subject =
            Subject::of("key", "any").map_err(|error| StoreError::permanent(error.to_string()))?;
        let parts = SmallVec::from_elem(Counted { subject: &subject, limits }, 1);
        let plan = self.plan(&Question::new(parts, 1, Mode::Whole))?;
        self.0.client.load(&plan.script, self.0.deadline).await
    }

    /// How its keys are named.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.0.keys
    }

    /// How many keys of this store's prefix there are, by scanning all keys of the database.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses to scan.
    pub async fn count_keys(&self) -> Result<usize, StoreError> {
        let mut count = 0;
        self.scan(|keys| {
            count += keys.len();
            None
        })
        .await?;
        Ok(count)
    }

    /// Removes all keys of a run ([`Builder::run`]).
    ///
    /// # Errors
    /// When this is no store of a run; or the server cannot be reached or refuses to scan.
    pub async fn clear_run(&self) -> Result<(), StoreError> {
        if self.0.given.is_none() {
            return Err(StoreError::permanent("only the keys of a run are removed at once"));
        }
        self.scan(|keys| {
            let mut command = redis::cmd("UNLINK");
            for key in keys {
                command.arg(key.as_slice());
            }
            (!keys.is_empty()).then_some(command)
        })
        .await
    }

    async fn scan(
        &self,
        mut found: impl FnMut(&[Vec<u8>]) -> Option<redis::Cmd>,
    ) -> Result<(), StoreError> {
        const PATIENCE: Duration = Duration::from_secs(10);
        let mut cursor = b"0".to_vec();
        loop {
            let mut command = redis::cmd("SCAN");
            let pattern = format!("{}:*", self.0.keys.prefix());
            command.arg(&cursor[..]).arg("MATCH").arg(pattern).arg("COUNT").arg(10_000);
            let answer = self.0.client.raw(command, PATIENCE).await?;
            let Value::Array(list) = answer else { return Err(unread()) };
            let [Value::BulkString(next), Value::Array(keys)] = &list[..] else {
                return Err(unread());
            };
            let keys: Vec<Vec<u8>> = keys
                .iter()
                .filter_map(|key| match key {
                    Value::BulkString(bytes) => Some(bytes.clone()),
                    _ => None,
                })
                .collect();
            if let Some(command) = found(&keys) {
                self.0.client.raw(command, PATIENCE).await?;
            }
            if next == b"0" {
                return Ok(());
            }
            cursor.clone_from(next);
        }
    }

    fn next_nonce(&self) -> u64 {
        self.0.nonce.fetch_add(1, Ordering::Relaxed)
    }

    /// The script of a question, composed once.
    fn plan(&self, question: &Question<'_>) -> Result<Arc<Plan>, StoreError> {
        let shared = &*self.0;
        let serials = question.parts.iter().map(|part| part.limits.serial()).collect();
        let key = (serials, mode_number(question.mode, question.request.is_some()));
        let plans = shared.plans.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans.get(&key) {
            return Ok(Arc::clone(plan));
        }
        drop(plans);
        let sets: Vec<&LimitSet> = question.parts.iter().map(|part| part.limits).collect();
        let mut check = Check::new(question.mode);
        if shared.given.is_some() {
            check.clock = Clock::Given;
        }
        if question.request.is_some() {
            check.answer = Answer::Remembered;
        }
        let script = check.compose(&sets, &shared.parts).ok_or_else(|| {
            StoreError::permanent(
                "a strategy of these limits has no step in Lua: connect with `swapping`",
            )
        })?;
        let plan = Arc::new(Plan {
            script,
            keys: sets.iter().map(|set| KeyPlan::of(set)).collect(),
            limits: sets.iter().map(|set| set.limits().len()).sum(),
        });
        let mut plans = shared.plans.write().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= MAX_PLANS {
            plans.clear();
        }
        plans.insert(key, Arc::clone(&plan));
        Ok(plan)
    }

    /// Adds what a script takes last, when the time is given.
    fn time(&self, args: &mut Vec<String>) {
        if let Some(clock) = &self.0.given {
            args.push(clock.now().as_micros().to_string());
        }
    }

    async fn call(
        &self,
        script: &Script,
        keys: &[String],
        mut args: Vec<String>,
        nonce: u64,
        deadline: Duration,
    ) -> Result<Vec<Value>, StoreError> {
        self.time(&mut args);
        self.0.client.call(script, keys, &args, nonce, deadline).await
    }

    async fn answer(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        let deadline = question.deadline.unwrap_or(self.0.deadline);
        let logs = |limit: &Limit| limit.shape() == Shape::Log;
        if self.0.swapping
            && question.request.is_none()
            && !question.parts.iter().any(|part| part.limits.limits().iter().any(logs))
        {
            return self.check_by_swapping(question, deadline).await;
        }
        let plan = self.plan(question)?;
        let mut keys = Vec::with_capacity(plan.keys.len() + 1);
        let mut first = None;
        for (part, plan) in question.parts.iter().zip(&plan.keys) {
            let state = self.0.keys.state(part.subject, part.limits);
            keys.extend(plan.logs.iter().map(|suffix| format!("{state}{suffix}")));
            if first.is_none() && question.request.is_some() {
                first = Some(state.clone());
            }
            if plan.state {
                let at = keys.len() - plan.logs.len();
                keys.insert(at, state);
            }
        }
        let nonce = self.next_nonce();
        let mut args = vec![question.cost.to_string(), nonce.to_string()];
        if let (Some(id), Some(state)) = (question.request, first) {
            args.push(fingerprint(question));
            args.push(self.0.remember.as_millis().max(1).to_string());
            keys.push(Keys::request(&state, id));
        }
        let answer = self.call(&plan.script, &keys, args, nonce, deadline).await?;
        read_outcome(answer, question, plan.limits, nonce)
    }

    async fn check_by_swapping(
        &self,
        question: &Question<'_>,
        deadline: Duration,
    ) -> Result<Outcome, StoreError> {
        let by = Instant::now() + deadline;
        let keys: Vec<String> = question
            .parts
            .iter()
            .map(|part| self.0.keys.state(part.subject, part.limits))
            .collect();
        loop {
            let left = by.saturating_duration_since(Instant::now());
            let nonce = self.next_nonce();
            let args = vec![nonce.to_string()];
            let answer = self.call(&self.0.rare.inspect, &keys, args, nonce, left).await?;
            let (now, states) = read_states(answer, keys.len())?;
            let (mut outcome, writes) = swap::decide(question, &states, now)?;
            let Some(writes) = writes else { return Ok(outcome) };
            let left = by.saturating_duration_since(Instant::now());
            let nonce = self.next_nonce();
            let mut args = vec![nonce.to_string().into_bytes()];
            args.extend(writes);
            let answer = self.0.client.call(&self.0.rare.swap, &keys, &args, nonce, left).await?;
            if matches!(answer[..], [Value::Int(1)]) {
                if outcome.granted > 0 && !question.mode.is_peek() {
                    outcome.receipt = nonce;
                }
                return Ok(outcome);
            }
            if Instant::now() >= by {
                return Err(StoreError::transient(
                    "others kept changing this count until the deadline: nothing was charged",
                ));
            }
        }
    }

    /// The key of a state, and of everything beside it that its limits may use.
    fn all_keys(&self, subject: &Subject, limits: &LimitSet) -> (String, Vec<String>) {
        let state = self.0.keys.state(subject, limits);
        let logs = Keys::logs(&state, limits);
        (state, logs)
    }
}

impl KeyPlan {
    fn of(limits: &LimitSet) -> Self {
        let single = limits.limits().len() == 1;
        let logs = by_place(limits).into_iter().filter(|(_, limit)| limit.shape() == Shape::Log);
        let suffix = |identity: &str| if single { String::new() } else { format!("~{identity}") };
        Self {
            state: has_state(limits),
            logs: logs.map(|(_, limit)| suffix(limit.identity())).collect(),
        }
    }
}

/// What makes a question the same as another: who is asked, under which limits, and how much.
fn fingerprint(question: &Question<'_>) -> String {
    let mut digest = sha1::Sha1::new();
    digest.update(format!("{} {}", question.cost, mode_number(question.mode, false)));
    for part in &question.parts {
        digest.update(format!("\n{} {}", part.subject, part.limits.full_text()));
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unread() -> StoreError {
    StoreError::permanent("the server answered what no script of ours answers")
}

fn natural(value: &Value) -> Result<u64, StoreError> {
    match value {
        Value::Int(number) => u64::try_from(*number).map_err(|_| unread()),
        Value::BulkString(digits) => {
            let digits = std::str::from_utf8(digits).map_err(|_| unread())?;
            digits.parse().map_err(|_| unread())
        }
        _ => Err(unread()),
    }
}

/// Reads what a check answered, after the nonce.
fn read_outcome(
    answer: Vec<Value>,
    question: &Question<'_>,
    limits: usize,
    nonce: u64,
) -> Result<Outcome, StoreError> {
    let mut rest = &answer[..];
    let mut number = nonce;
    if question.request.is_some() {
        let (first, others) = rest.split_first().ok_or_else(unread)?;
        if *first == Value::Int(-1) {
            return Err(StoreError::permanent(
                "this request id was used for another question: give each question its own",
            ));
        }
        number = natural(first)?;
        rest = others;
    }
    let usual = 2 + 3 * limits;
    if rest.len() != usual && rest.len() != usual + 2 * limits {
        return Err(unread());
    }
    let (granted, now) = (natural(&rest[0])?, natural(&rest[1])?);
    let mut fields: SmallVec<[Fields; 1]> = SmallVec::new();
    for i in 0..limits {
        let [left, wait, reset] = &rest[2 + 3 * i..5 + 3 * i] else { return Err(unread()) };
        let wait = if *wait == Value::Int(-1) { None } else { Some(natural(wait)?) };
        let (mut at, mut carried) = (now, Carried::Same);
        if let Some([charged, how]) = rest.get(usual + 2 * i..usual + 2 * i + 2) {
            at = natural(charged)?;
            carried = match how {
                Value::Int(0) => Carried::Same,
                Value::Int(1) => Carried::Over,
                _ => Carried::Fresh,
            };
        }
        fields.push(Fields::new(natural(left)?, wait, natural(reset)?, at, carried));
    }
    let receipt = if granted > 0 && !question.mode.is_peek() { number } else { 0 };
    Ok(Outcome::new(granted, fields, receipt, Time::from_micros(now)))
}

/// What lies at the keys: a state, a list, or nothing.
pub(crate) enum Found {
    Nothing,
    State(Vec<u8>),
    Log(Vec<Vec<u8>>),
}

/// Reads what an inspection answered, after the nonce.
fn read_states(answer: Vec<Value>, keys: usize) -> Result<(Time, Vec<Found>), StoreError> {
    if answer.len() != keys + 1 {
        return Err(unread());
    }
    let mut values = answer.into_iter();
    let now = Time::from_micros(natural(&values.next().ok_or_else(unread)?)?);
    let bytes = |value| match value {
        Value::BulkString(bytes) => Ok(bytes),
        _ => Err(unread()),
    };
    let found = values.map(|value| match value {
        Value::Nil => Ok(Found::Nothing),
        Value::Array(rows) => {
            Ok(Found::Log(rows.into_iter().map(bytes).collect::<Result<_, _>>()?))
        }
        other => Ok(Found::State(bytes(other)?)),
    });
    Ok((now, found.collect::<Result<_, StoreError>>()?))
}

pub(crate) fn damaged(what: &str) -> StoreError {
    StoreError::permanent(format!("a state in Redis cannot be read: {what}; reset the subject"))
}

impl Store for RedisStore {
    fn identity(&self) -> u64 {
        self.0.identity
    }

    async fn check(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        self.answer(question).await
    }

    async fn refund(&self, receipt: &Receipt) -> Result<Refund, StoreError> {
        let nonce = self.next_nonce();
        let mut until_us = 0;
        let (mut keys, mut args) = (Vec::new(), Vec::new());
        let mut places = Vec::new();
        for charges in &receipt.charges {
            let (state, logs) = self.all_keys(&charges.subject, &charges.limits);
            if keys.is_empty() {
                keys.push(Keys::mark(&state, receipt.number));
            }
            keys.extend([state.clone(), Keys::reset(&state)]);
            keys.extend(logs);
            args.push(charges.limits.limits().len().to_string());
            let first = places.len();
            for (declared, limit) in by_place(&charges.limits) {
                let at_us = charges.at_us.get(declared).copied().unwrap_or_default();
                args.push(format!("{}{at_us}", limit.strategy().code()));
                places.push(first + declared);
            }
            let spent = engine::spent_until_us(&charges.limits, &charges.at_us, receipt.cost);
            until_us = until_us.max(spent);
        }
        let mut all = vec![
            nonce.to_string(),
            receipt.cost.to_string(),
            receipt.at.as_micros().to_string(),
            until_us.to_string(),
            receipt.number.to_string(),
        ];
        all.append(&mut args);
        let answer = self.call(&self.0.rare.refund, &keys, all, nonce, self.0.deadline).await?;
        let Some((already, units)) = answer.split_first() else { return Err(unread()) };
        if *already == Value::Int(1) {
            return Ok(Refund::new(true, vec![0; places.len()]));
        }
        if units.len() != places.len() {
            return Err(unread());
        }
        let mut given = vec![0; places.len()];
        for (place, units) in places.iter().zip(units) {
            given[*place] = natural(units)?;
        }
        Ok(Refund::new(false, given))
    }

    async fn adjust(&self, counted: Counted<'_>, delta: i64) -> Result<Vec<i64>, StoreError> {
        let Counted { subject, limits } = counted;
        let nonce = self.next_nonce();
        let (state, logs) = self.all_keys(subject, limits);
        let mut keys = vec![state];
        keys.extend(logs);
        let args = vec![
            nonce.to_string(),
            delta.to_string(),
            set_tag(limits),
            u8::from(has_state(limits)).to_string(),
        ];
        let answer = self.call(&self.0.rare.adjust, &keys, args, nonce, self.0.deadline).await?;
        if answer.len() != limits.limits().len() {
            return Err(unread());
        }
        let mut changes = vec![0; answer.len()];
        for ((declared, _), change) in by_place(limits).into_iter().zip(&answer) {
            let Value::Int(change) = change else { return Err(unread()) };
            changes[declared] = *change;
        }
        Ok(changes)
    }

    async fn reset(&self, counted: Counted<'_>) -> Result<bool, StoreError> {
        let Counted { subject, limits } = counted;
        let nonce = self.next_nonce();
        let (state, logs) = self.all_keys(subject, limits);
        let mut keys = vec![state.clone(), Keys::reset(&state)];
        keys.extend(logs);
        let longest_us = engine::refundable_until_us(limits, Time::default());
        let args = vec![nonce.to_string(), longest_us.to_string()];
        let answer = self.call(&self.0.rare.reset, &keys, args, nonce, self.0.deadline).await?;
        match answer[..] {
            [Value::Int(found)] => Ok(found == 1),
            _ => Err(unread()),
        }
    }

    async fn inspect(&self, counted: Counted<'_>) -> Result<Option<Inspection>, StoreError> {
        let Counted { subject, limits } = counted;
        let nonce = self.next_nonce();
        let (state, logs) = self.all_keys(subject, limits);
        let single = limits.limits().len() == 1;
        let mut keys = vec![state];
        if !single {
            keys.extend(logs);
        }
        let args = vec![nonce.to_string()];
        let answer = self.call(&self.0.rare.inspect, &keys, args, nonce, self.0.deadline).await?;
        let (_, found) = read_states(answer, keys.len())?;
        let mut state = None;
        let mut logs = vec![Vec::new(); limits.limits().len()];
        for (i, found) in found.into_iter().enumerate() {
            match found {
                Found::Nothing => {}
                Found::State(bytes) if i == 0 => state = Some(bytes),
                Found::Log(rows) if single || i > 0 => logs[i.saturating_sub(1)] = rows,
                _ => return Err(damaged("it is of another kind")),
            }
        }
        if state.is_none() && logs.iter().all(Vec::is_empty) {
            return Ok(None);
        }
        let (was, mut held) = state::decode(limits, state.as_deref(), &logs).map_err(damaged)?;
        let fresh_at = Time::from_micros(engine::fresh_at_us(&was, &mut held));
        let events = held.logs.iter().map(|log| {
            use tollgate::strategy::Log as _;
            let mut before = 0;
            let each = (0..log.len()).map(|i| log.entry(i));
            each.map(|entry| {
                let cost = entry.total - before;
                before = entry.total;
                (entry.at_us, cost)
            })
            .collect()
        });
        let logs = events.collect();
        Ok(Some(Inspection::new(was.full_text().to_owned(), held.words, logs, fresh_at, false)))
    }
}

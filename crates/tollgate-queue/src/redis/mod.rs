//! Queues on Redis and Valkey, as streams with a consumer group or as lists.
//!
//! Each operation is one call of one script, by the server's clock. All keys of a queue begin with
//! `tgq1:{queue:NAME}:`. Its jobs lie in a stream, so that `XINFO` and `XPENDING` show them, or in
//! a list (`stream.lua`, `list.lua`: the shelf); what else is known of them lies beside it
//! (`common.lua`), the same for both. Nothing expires by itself but remembered ids.
//!
//! A list has no list of each worker's own, into which jobs would move while they are in hand: the
//! names of workers are not known before, and a script can only touch keys that were declared; and
//! to take one job out of such a list is to walk through it. `out` has the jobs in hand of all
//! workers, in the order in which they come back, so that whoever takes next finds those that
//! another left behind; `bodies` has the name of who took each.

mod body;
mod offer;
mod reply;

use core::fmt;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate::engine::Mode;
use tollgate::{Clock, LimitSet, Subject};
use tollgate_redis::compose::{self, Check, Parts};
use tollgate_redis::{Keys, Options, Script, ScriptClient, ScriptReply, Subscription};

pub use self::offer::OfferCall;

use self::reply::{
    ExpectedSettings, ScriptCall, check_reply, dead, done_job, integer, optional_wait, text,
    unexpected_reply, unsigned, with_layout, without_layout,
};
use crate::backend::{Backend, poll};
use crate::error::Error;
use crate::job::{
    DeadLetter, DeliveryTag, DoneJob, InFlightJob, Job, JobId, MAX_BATCH, TakeOutcome, WaitingJob,
};
use crate::model::{NackOutcome, OfferOutcome, Stats};
use crate::settings::{ConsumerSettings, ProducerSettings, Settings, micros};

/// What every key begins with.
const PREFIX: &str = "tgq1";

/// In what the jobs of a queue lie on a Redis. All that a queue promises is the same in both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Layout {
    /// A stream with a consumer group, which any tool that knows streams can look into.
    #[default]
    Stream,
    /// A list: to take jobs and to say that they are done costs the server less.
    List,
}

impl Layout {
    /// How scripts call it.
    fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::List => "list",
        }
    }

    fn storage_script(self) -> &'static str {
        match self {
            Self::Stream => include_str!("stream.lua"),
            Self::List => include_str!("list.lua"),
        }
    }

    /// The names of the keys, in the order in which scripts take them: first those that an offer
    /// needs, then those that `done` needs.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Stream => &[
                "jobs", "out", "meta", "untils", "clients", "onces", "tries", "done", "dead",
                "graves",
            ],
            Self::List => &[
                "waiting", "out", "meta", "untils", "clients", "onces", "tries", "done", "bodies",
                "dead", "graves",
            ],
        }
    }

    /// How many of the keys `done` needs.
    fn ack_keys(self) -> usize {
        match self {
            Self::Stream => 8,
            Self::List => 9,
        }
    }
}

/// How many of the keys an offer needs.
const OFFER_KEYS: usize = 6;

/// Queues on one Redis. Cheap to clone: clones share the connections.
#[derive(Clone)]
pub struct RedisQueues(Arc<Shared>);

struct Shared {
    caller: ScriptClient,
    layout: Layout,
    test_clock: Option<Box<dyn Clock>>,
    offer: Script,
    ack: Script,
    settle: Script,
    inspect: Script,
    change: Script,
    pause: Script,
    remove: Script,
    names: Script,
    eviction: Script,
    take: Script,
    /// The scripts that take under a rate, by its limits.
    take_scripts: Mutex<HashMap<String, Arc<Script>>>,
    /// What wakes who waits for jobs, by the names of queues.
    subscriptions: Mutex<HashMap<String, Arc<Subscription>>>,
}

/// How many queues of one process can be waited for with a bell each.
const MAX_SUBSCRIPTIONS: usize = 256;

/// How many such scripts are kept.
const MAX_TAKE_SCRIPTS: usize = 1_024;

impl fmt::Debug for RedisQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisQueues").field(&self.0.caller).finish()
    }
}

impl RedisQueues {
    /// Connects; queues are streams.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses user, password or database.
    pub async fn connect(options: Options) -> Result<Self, Error> {
        Self::connect_with(options, Layout::default()).await
    }

    /// Connects; queues are of this form. A queue stays in the form it was made in: asked for in
    /// another, it is an [`Error::Settings`].
    ///
    /// # Errors
    /// As [`RedisQueues::connect`].
    pub async fn connect_with(options: Options, layout: Layout) -> Result<Self, Error> {
        Self::new(options, layout, None).await
    }

    /// The same by another clock than the server's: for tests.
    #[doc(hidden)]
    pub async fn with_clock(
        options: Options,
        layout: Layout,
        clock: impl Clock + 'static,
    ) -> Result<Self, Error> {
        Self::new(options, layout, Some(Box::new(clock))).await
    }

    async fn new(
        options: Options,
        layout: Layout,
        test_clock: Option<Box<dyn Clock>>,
    ) -> Result<Self, Error> {
        let caller = ScriptClient::connect(options).await?;
        let script =
            |flags: &str, body: &str| script(layout, flags, "", body, test_clock.is_some());
        let offer = script("", offer::SCRIPT);
        let ack = script(ALLOW_OOM, include_str!("ack.lua"));
        let settle = script(ALLOW_OOM, include_str!("settle.lua"));
        let inspect = script(ALLOW_OOM, include_str!("inspect.lua"));
        let change = script(ALLOW_OOM, include_str!("change.lua"));
        let pause = script(ALLOW_OOM, include_str!("pause.lua"));
        let remove = script(ALLOW_OOM, include_str!("remove.lua"));
        let take = script(ALLOW_OOM, &include_str!("take.lua").replace("$GRANT", ""));
        let take_scripts = Mutex::default();
        Ok(Self(Arc::new(Shared {
            caller,
            layout,
            test_clock,
            offer,
            ack,
            settle,
            inspect,
            change,
            pause,
            remove,
            eviction: Script::new(format!("#!lua{READ_ONLY}\n{}", include_str!("eviction.lua"))),
            names: Script::new(format!("#!lua{READ_ONLY}\n{}", include_str!("names.lua"))),
            take,
            take_scripts,
            subscriptions: Mutex::default(),
        })))
    }

    /// What the server evicts when it is full, as `allkeys-lru`, where it may: jobs have no end, so
    /// `allkeys-*` loses jobs; `volatile-*` forgets ids of [`Job::dedup_id`] and counts of rates
    /// too early. None where it has no bound, or refuses what would not fit.
    ///
    /// # Errors
    /// The server cannot be asked.
    pub async fn eviction_policy(&self) -> Result<Option<String>, Error> {
        let answer = self.0.caller.call(&self.0.eviction, &[], &Vec::<Vec<u8>>::new()).await?;
        let [max, policy] = &answer[..] else { return Err(unexpected_reply()) };
        let (max, policy) = (text(max)?, text(policy)?);
        let is_bound = max != "0" && policy != "noeviction" && !policy.is_empty();
        Ok(is_bound.then_some(policy))
    }

    /// What wakes who waits for jobs of this queue.
    fn subscription(&self, queue: &str) -> Arc<Subscription> {
        let mut subscriptions = self.0.subscriptions.lock();
        if let Some(subscription) = subscriptions.get(queue) {
            return Arc::clone(subscription);
        }
        if subscriptions.len() >= MAX_SUBSCRIPTIONS {
            subscriptions.clear();
        }
        let subscription =
            Arc::new(self.0.caller.subscribe(format!("{PREFIX}:{{queue:{queue}}}:wake")));
        subscriptions.insert(queue.to_owned(), Arc::clone(&subscription));
        subscription
    }

    /// The script that takes under these limits.
    fn rate_script(&self, limits: &LimitSet) -> Result<Arc<Script>, Error> {
        let text: Vec<String> = limits.limits().iter().map(ToString::to_string).collect();
        let text = text.join(", ");
        let mut take_scripts = self.0.take_scripts.lock();
        if let Some(rate_script) = take_scripts.get(&text) {
            return Ok(Arc::clone(rate_script));
        }
        let mut check = Check::new(Mode::Partial);
        if self.0.test_clock.is_some() {
            check.clock = compose::Clock::Given;
        }
        let rate = check.compose(&[limits], &Parts::default());
        let rate = rate.ok_or_else(|| {
            Error::invalid(format!("`{text}` has no form in Lua, so a queue has no such rate"))
        })?;
        let grant = include_str!("grant.lua")
            .replace("$AFTER", &(self.0.layout.keys().len() + 1).to_string())
            .replace("$LIMITS", &limits.limits().len().to_string())
            .replace("$GIVEN", if self.0.test_clock.is_some() { ", ARGV[#ARGV]" } else { "" });
        let body = include_str!("take.lua").replace("$GRANT", &grant);
        let rate = rate.function("rate");
        let rate_script =
            script(self.0.layout, ALLOW_OOM, &rate, &body, self.0.test_clock.is_some());
        let rate_script = Arc::new(rate_script);
        if take_scripts.len() >= MAX_TAKE_SCRIPTS {
            take_scripts.clear();
        }
        take_scripts.insert(text, Arc::clone(&rate_script));
        Ok(rate_script)
    }

    async fn call(
        &self,
        script: &Script,
        mut ask: ScriptCall<'_>,
    ) -> Result<Vec<ScriptReply>, Error> {
        if let Some(clock) = &self.0.test_clock {
            ask.args.push(clock.now().as_micros().to_string().into_bytes());
        }
        let answer = self.0.caller.call(script, &ask.keys, &ask.args).await?;
        check_reply(self.0.layout, &ask, &answer)?;
        Ok(answer)
    }
}

/// The flags of what takes, and says what became of it: a server that is full must be drained.
const ALLOW_OOM: &str = " flags=allow-oom";

/// The flags of what looks at the server, and at no queue.
const READ_ONLY: &str = " flags=no-writes";

/// A script of a queue: its flags, what it needs before, then what it does with the functions that
/// it calls.
fn script(layout: Layout, flags: &str, before: &str, body: &str, has_test_clock: bool) -> Script {
    let (now, tail, px, id) = if has_test_clock {
        ("tonumber(ARGV[#ARGV])", "1", "3600000", "given_id()")
    } else {
        ("time[1] * 1000000 + time[2]", "0", "math.ceil(tonumber(ARGV[5]) / 1000)", "'*'")
    };
    let body = body.replace("$TAIL", tail).replace("$PX", px);
    let mut parts = vec![body];
    // Each call of a script makes all of its functions anew, so it has no others than it needs.
    let library =
        [include_str!("begin.lua"), layout.storage_script(), include_str!("common.lua")].join("\n");
    for part in library.replace("$NOW", now).replace("$ID", id).rsplit("\n\n") {
        let name =
            part.lines().find_map(|line| line.strip_prefix("local function ")?.split('(').next());
        let is_called = |name: &str| parts.iter().any(|part| part.contains(&format!("{name}(")));
        if name.is_none_or(is_called) {
            parts.push(part.to_owned());
        }
    }
    parts.push(format!("#!lua{flags}\n{before}"));
    parts.reverse();
    Script::new(parts.join("\n\n"))
}

/// The subject whose count a queue's rate is, and whose tag its keys have.
fn subject(queue: &str) -> Result<Subject, Error> {
    Subject::of("queue", queue).map_err(|error| Error::invalid(error.to_string()))
}

/// The first so many keys of a queue.
fn keys(layout: Layout, queue: &str, max: usize) -> Vec<String> {
    let key = |of: &&str| format!("{PREFIX}:{{queue:{queue}}}:{of}");
    layout.keys().iter().take(max).map(key).collect()
}

/// Where it is remembered that something was accepted once.
fn dedup_key(queue: &str, dedup: &str) -> String {
    format!("{PREFIX}:{{queue:{queue}}}:once:{dedup}")
}

fn args<const N: usize>(args: [String; N]) -> Vec<Vec<u8>> {
    args.map(String::into_bytes).into()
}

impl Backend for RedisQueues {
    async fn offer(
        &self,
        queue: &str,
        producer: &ProducerSettings,
        job: &Job,
    ) -> Result<OfferOutcome, Error> {
        let offered = self.offer_all(queue, producer, std::slice::from_ref(job)).await?;
        offered.first().copied().ok_or_else(unexpected_reply)
    }

    async fn offer_all(
        &self,
        queue: &str,
        producer: &ProducerSettings,
        jobs: &[Job],
    ) -> Result<Vec<OfferOutcome>, Error> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let call = offer::call(self.0.layout, queue, producer, jobs);
        let answer = self.call(&self.0.offer, call).await?;
        let [after, depth, ids @ ..] = &answer[..] else { return Err(unexpected_reply()) };
        let (retry_after, mut depth) = (optional_wait(after)?, unsigned(depth)?);
        let mut offered = Vec::with_capacity(ids.len());
        for the_id in ids {
            let the_id = text(the_id)?;
            offered.push(if the_id.is_empty() {
                OfferOutcome::Full { depth, retry_after }
            } else if let Some(known) = the_id.strip_prefix('=') {
                OfferOutcome::Duplicate { id: known.parse().map_err(|_| unexpected_reply())? }
            } else if let Some(of_client) = the_id.strip_prefix('!') {
                OfferOutcome::ClientFull {
                    of_client: of_client.parse().map_err(|_| unexpected_reply())?,
                }
            } else {
                depth += 1;
                OfferOutcome::Accepted {
                    id: the_id.parse().map_err(|_| unexpected_reply())?,
                    depth,
                }
            });
        }
        if offered.len() == jobs.len() { Ok(offered) } else { Err(unexpected_reply()) }
    }

    async fn take(
        &self,
        queue: &str,
        consumer: &ConsumerSettings,
        worker: &str,
        max: usize,
    ) -> Result<TakeOutcome, Error> {
        // What is offered from here on is news.
        if let Some(subscription) = self.0.subscriptions.lock().get(queue) {
            subscription.mark_seen();
        }
        let mut call = self.take_call(queue, consumer, worker, max);
        let answer = match consumer.limits() {
            None => self.call(&self.0.take, call).await?,
            Some(limits) => {
                let rate_script = self.rate_script(limits)?;
                let state = Keys::new().state(&subject(queue)?, limits);
                call.keys.extend(Keys::for_check(&state, limits));
                self.call(&rate_script, call).await?
            }
        };
        let (next, found) = match &answer[..] {
            [ScriptReply::Bytes(what)] if what == b"paused" => {
                return Ok(TakeOutcome { paused: true, ..TakeOutcome::default() });
            }
            [ScriptReply::Bytes(what)] if what == b"absent" => {
                return Ok(TakeOutcome { absent: true, ..TakeOutcome::default() });
            }
            [ScriptReply::Bytes(what), next] if what == b"jobs" => (next, Vec::new()),
            [ScriptReply::Bytes(what), next, ScriptReply::Bytes(packed)] if what == b"jobs" => {
                (next, body::taken(packed)?)
            }
            _ => return Err(unexpected_reply()),
        };
        let mut taken = TakeOutcome { next: optional_wait(next)?, ..TakeOutcome::default() };
        taken.jobs.reserve_exact(found.len());
        for found in found {
            match found {
                Ok(job) => taken.jobs.push(job),
                Err((tag, reason)) => {
                    let dead_letter =
                        self.settle(queue, Some(consumer), "bury", tag, Duration::ZERO, &reason);
                    // Where that fails it comes back, and is buried then.
                    if matches!(dead_letter.await.as_deref(), Ok(b"dead")) {
                        taken.foreign.push((tag.id, reason));
                    }
                }
            }
        }
        Ok(taken)
    }

    async fn ack(&self, queue: &str, ids: &[JobId]) -> Result<u64, Error> {
        if ids.is_empty() {
            return Ok(0);
        }
        match &self.call(&self.0.ack, self.ack_call(queue, ids)).await?[..] {
            [done] => unsigned(done),
            _ => Err(unexpected_reply()),
        }
    }

    async fn nack(
        &self,
        queue: &str,
        consumer: &ConsumerSettings,
        tag: DeliveryTag,
        after: Duration,
        reason: &str,
    ) -> Result<NackOutcome, Error> {
        let answer = self.settle(queue, Some(consumer), "again", tag, after, reason).await?;
        match &answer[..] {
            b"kept" => Ok(NackOutcome::Requeued),
            b"dead" => Ok(NackOutcome::DeadLettered),
            b"lost" => Ok(NackOutcome::Lost),
            _ => Err(unexpected_reply()),
        }
    }

    async fn extend(
        &self,
        queue: &str,
        consumer: &ConsumerSettings,
        tag: DeliveryTag,
    ) -> Result<bool, Error> {
        let after = consumer.visibility_timeout();
        Ok(self.settle(queue, Some(consumer), "extend", tag, after, "").await? == b"kept")
    }

    async fn release(&self, queue: &str, tag: DeliveryTag) -> Result<bool, Error> {
        Ok(self.settle(queue, None, "release", tag, Duration::ZERO, "").await? == b"kept")
    }

    async fn settings(&self, queue: &str) -> Result<Settings, Error> {
        let answer = self.inspect(queue, args(["settings".to_owned()])).await?;
        let [producer, consumer] = &answer[..] else { return Err(unexpected_reply()) };
        let (producer, consumer) = (text(producer)?, text(consumer)?);
        Settings::parse(
            queue,
            Some(without_layout(&producer)).filter(|text| !text.is_empty()),
            Some(&*consumer).filter(|text| !text.is_empty()),
        )
    }

    async fn change(&self, queue: &str, settings: &Settings) -> Result<(), Error> {
        let Settings { producer, consumer } = settings;
        let layout = self.0.layout;
        let all = producer.as_ref().is_some_and(ProducerSettings::counts_all);
        let args = args([
            producer.as_ref().map(|producer| with_layout(producer, layout)).unwrap_or_default(),
            if all { "1" } else { "0" }.to_owned(),
            consumer.as_ref().map(ConsumerSettings::to_text).unwrap_or_default(),
            consumer.as_ref().map_or(0, ConsumerSettings::kept_done).to_string(),
        ]);
        let keys = keys(layout, queue, layout.ack_keys());
        let call = ScriptCall { queue, expected: ExpectedSettings::Any, keys, args };
        self.call(&self.0.change, call).await.map(drop)
    }

    async fn pause(&self, queue: &str, is_paused: bool) -> Result<bool, Error> {
        let keys = keys(self.0.layout, queue, usize::MAX);
        let args = args([if is_paused { "1" } else { "0" }.to_owned()]);
        let call = ScriptCall { queue, expected: ExpectedSettings::Any, keys, args };
        match &self.call(&self.0.pause, call).await?[..] {
            [was] => Ok(integer(was)? == 1),
            _ => Err(unexpected_reply()),
        }
    }

    async fn remove(&self, queue: &str) -> Result<bool, Error> {
        let keys = keys(self.0.layout, queue, usize::MAX);
        let call = ScriptCall { queue, expected: ExpectedSettings::Any, keys, args: Vec::new() };
        match &self.call(&self.0.remove, call).await?[..] {
            [was] => Ok(integer(was)? == 1),
            _ => Err(unexpected_reply()),
        }
    }

    async fn names(&self) -> Result<Vec<String>, Error> {
        let [before, after] = [format!("{PREFIX}:{{queue:"), "}:meta".to_owned()];
        let (mut names, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let args = args([cursor, format!("{before}*{after}")]);
            let answer = self.0.caller.call(&self.0.names, &[], &args).await?;
            let [next, keys @ ..] = &answer[..] else { return Err(unexpected_reply()) };
            for key in keys {
                let key = text(key)?;
                let name = key.strip_prefix(&before).and_then(|rest| rest.strip_suffix(&after));
                names.extend(name.map(str::to_owned));
            }
            cursor = text(next)?;
            if cursor == "0" {
                break;
            }
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    async fn stats(&self, queue: &str) -> Result<Stats, Error> {
        let answer = self.inspect(queue, args(["stats".to_owned()])).await?;
        let [waiting, in_flight, dead, oldest, totals @ ..] = &answer[..] else {
            return Err(unexpected_reply());
        };
        let [accepted, refused, known, delivered, redelivered, done, expired, died, paused] =
            totals
        else {
            return Err(unexpected_reply());
        };
        let oldest = text(oldest)?.parse::<i64>().ok();
        let oldest = oldest.map(|us| Duration::from_micros(u64::try_from(us).unwrap_or(0)));
        Ok(Stats {
            waiting: unsigned(waiting)?,
            in_flight: unsigned(in_flight)?,
            dead: unsigned(dead)?,
            oldest,
            accepted: unsigned(accepted)?,
            refused: unsigned(refused)?,
            duplicates: unsigned(known)?,
            delivered: unsigned(delivered)?,
            redelivered: unsigned(redelivered)?,
            done: unsigned(done)?,
            expired: unsigned(expired)?,
            died: unsigned(died)?,
            paused: unsigned(paused)? == 1,
        })
    }

    async fn waiting(&self, queue: &str, max: usize) -> Result<Vec<WaitingJob>, Error> {
        let args = args(["waiting".to_owned(), max.min(MAX_BATCH).to_string()]);
        reply::waiting(&self.inspect(queue, args).await?)
    }

    async fn in_flight(&self, queue: &str, max: usize) -> Result<Vec<InFlightJob>, Error> {
        let args = args(["out".to_owned(), max.min(MAX_BATCH).to_string()]);
        reply::in_flight(&self.inspect(queue, args).await?)
    }

    async fn done_jobs(&self, queue: &str, max: usize) -> Result<Vec<DoneJob>, Error> {
        let args = args(["done".to_owned(), max.min(MAX_BATCH).to_string()]);
        self.inspect(queue, args).await?.iter().map(done_job).collect()
    }

    async fn dead_letters(&self, queue: &str, max: usize) -> Result<Vec<DeadLetter>, Error> {
        let args = args(["dead".to_owned(), max.min(MAX_BATCH).to_string()]);
        let answer = self.inspect(queue, args).await?;
        answer.iter().map(dead).collect()
    }

    async fn take_dead_letter(&self, queue: &str, id: JobId) -> Result<Option<DeadLetter>, Error> {
        let args = args(["take".to_owned(), id.to_string()]);
        let answer = self.inspect(queue, args).await?;
        answer.first().map(dead).transpose()
    }

    async fn forget_dead_letter(
        &self,
        queue: &str,
        id: JobId,
    ) -> Result<Option<DeadLetter>, Error> {
        // What it was accepted once under is a key of its own, which a script must be told.
        let dead_letter_args = args(["grave".to_owned(), id.to_string()]);
        let answer = self.inspect(queue, dead_letter_args).await?;
        let Some(dead_letter) = answer.first().map(dead).transpose()? else { return Ok(None) };
        let Some(dedup) = dead_letter.dedup else { return self.take_dead_letter(queue, id).await };
        let mut keys = keys(self.0.layout, queue, usize::MAX);
        keys.push(dedup_key(queue, &dedup.id));
        let args = args(["forget".to_owned(), id.to_string(), dedup.of.to_string()]);
        let call = ScriptCall { queue, expected: ExpectedSettings::Any, keys, args };
        let answer = self.call(&self.0.inspect, call).await?;
        answer.first().map(dead).transpose()
    }

    async fn wait(&self, queue: &str, max: Duration) {
        if !self.subscription(queue).wait(max).await {
            poll(max).await;
        }
    }
}

/// For who measures what goes over the wire, without a client in between: the text of a script, and
/// the words that call it once it is loaded.
#[doc(hidden)]
impl RedisQueues {
    #[must_use]
    pub fn offer_command(
        &self,
        queue: &str,
        producer: &ProducerSettings,
        jobs: &[Job],
    ) -> (String, Vec<Vec<u8>>) {
        raw_command(&self.0.offer, offer::call(self.0.layout, queue, producer, jobs))
    }

    #[must_use]
    pub fn take_command(
        &self,
        queue: &str,
        consumer: &ConsumerSettings,
        worker: &str,
        max: usize,
    ) -> (String, Vec<Vec<u8>>) {
        raw_command(&self.0.take, self.take_call(queue, consumer, worker, max))
    }

    /// The ids in what a take was answered with.
    ///
    /// # Errors
    /// It is no such answer.
    pub fn parse_take_reply(packed: &[u8]) -> Result<Vec<JobId>, Error> {
        Ok(body::taken(packed)?.into_iter().flatten().map(|job| job.id).collect())
    }

    #[must_use]
    pub fn ack_command(&self, queue: &str, ids: &[JobId]) -> (String, Vec<Vec<u8>>) {
        raw_command(&self.0.ack, self.ack_call(queue, ids))
    }
}

fn raw_command(script: &Script, ask: ScriptCall<'_>) -> (String, Vec<Vec<u8>>) {
    let keys = ask.keys.len().to_string();
    // As long as the nonces of a client.
    let nonce = "1125899906842624".to_owned();
    let mut args = args(["EVALSHA".to_owned(), script.sha().to_owned(), keys]);
    args.extend(ask.keys.into_iter().chain([nonce]).map(String::into_bytes));
    args.extend(ask.args);
    (script.text().to_owned(), args)
}

/// What each operation asks.
impl RedisQueues {
    fn take_call<'s>(
        &self,
        queue: &'s str,
        consumer: &'s ConsumerSettings,
        worker: &str,
        max: usize,
    ) -> ScriptCall<'s> {
        let args = args([
            consumer.to_text(),
            consumer.visibility_us().to_string(),
            consumer.max_deliveries().to_string(),
            consumer.kept_dead().to_string(),
            worker.to_owned(),
            max.to_string(),
            consumer.kept_done().to_string(),
        ]);
        let keys = keys(self.0.layout, queue, usize::MAX);
        ScriptCall { queue, expected: ExpectedSettings::Consumer(consumer), keys, args }
    }

    fn ack_call<'s>(&self, queue: &'s str, ids: &[JobId]) -> ScriptCall<'s> {
        let layout = self.0.layout;
        let args = ids.iter().map(|id| id.to_string().into_bytes()).collect();
        let keys = keys(layout, queue, layout.ack_keys());
        ScriptCall { queue, expected: ExpectedSettings::Any, keys, args }
    }

    async fn inspect(&self, queue: &str, args: Vec<Vec<u8>>) -> Result<Vec<ScriptReply>, Error> {
        let keys = keys(self.0.layout, queue, usize::MAX);
        self.call(
            &self.0.inspect,
            ScriptCall { queue, expected: ExpectedSettings::Any, keys, args },
        )
        .await
    }

    async fn settle(
        &self,
        queue: &str,
        consumer: Option<&ConsumerSettings>,
        what: &str,
        tag: DeliveryTag,
        after: Duration,
        reason: &str,
    ) -> Result<Vec<u8>, Error> {
        let [deliveries, dead] = consumer.map_or([0, 0], |consumer| {
            [u64::from(consumer.max_deliveries()), consumer.kept_dead() as u64]
        });
        let args = args([
            consumer.map(ConsumerSettings::to_text).unwrap_or_default(),
            what.to_owned(),
            tag.id.to_string(),
            tag.attempt.to_string(),
            micros(after).to_string(),
            deliveries.to_string(),
            dead.to_string(),
            reason.to_owned(),
        ]);
        let keys = keys(self.0.layout, queue, usize::MAX);
        let expected = consumer.map_or(ExpectedSettings::Any, ExpectedSettings::Consumer);
        let call = ScriptCall { queue, expected, keys, args };
        let answer = self.call(&self.0.settle, call).await?;
        match answer.into_iter().next() {
            Some(ScriptReply::Bytes(what)) => Ok(what),
            _ => Err(unexpected_reply()),
        }
    }
}

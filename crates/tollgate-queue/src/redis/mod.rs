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

mod answer;
mod body;
mod offer;

use core::fmt;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate::engine::Mode;
use tollgate::{Clock, LimitSet, Subject};
use tollgate_redis::compose::{self, Check, Parts};
use tollgate_redis::{Bell, Caller, Keys, Options, Script, Word};

pub use self::offer::OfferCall;

use self::answer::{
    Question, Said, agreed, dead, done_job, garbled, int, text, wait, whole, with_form,
    without_form,
};
use crate::backend::{Backend, poll};
use crate::error::Error;
use crate::job::{Dead, DoneJob, Held, Job, JobId, MAX_BATCH, OutJob, Taken, WaitingJob};
use crate::model::{Afterwards, Offered, Stats};
use crate::settings::{Offering, Settings, Working, micros};

/// What every key begins with.
const PREFIX: &str = "tgq1";

/// In what the jobs of a queue lie on a Redis. All that a queue promises is the same in both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Form {
    /// A stream with a consumer group, which any tool that knows streams can look into.
    #[default]
    Stream,
    /// A list: to take jobs and to say that they are done costs the server less.
    List,
}

impl Form {
    /// How scripts call it.
    fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::List => "list",
        }
    }

    fn shelf(self) -> &'static str {
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
    fn done_keys(self) -> usize {
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
    caller: Caller,
    form: Form,
    given: Option<Box<dyn Clock>>,
    offer: Script,
    done: Script,
    held: Script,
    look: Script,
    change: Script,
    pause: Script,
    remove: Script,
    names: Script,
    room: Script,
    take: Script,
    /// The scripts that take under a rate, by its limits.
    takes: Mutex<HashMap<String, Arc<Script>>>,
    /// What wakes who waits for jobs, by the names of queues.
    bells: Mutex<HashMap<String, Arc<Bell>>>,
}

/// How many queues of one process can be waited for with a bell each.
const MAX_BELLS: usize = 256;

/// How many such scripts are kept.
const MAX_TAKES: usize = 1_024;

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
        Self::connect_as(options, Form::default()).await
    }

    /// Connects; queues are of this form. A queue stays in the form it was made in: asked for in
    /// another, it is an [`Error::Settings`].
    ///
    /// # Errors
    /// As [`RedisQueues::connect`].
    pub async fn connect_as(options: Options, form: Form) -> Result<Self, Error> {
        Self::new(options, form, None).await
    }

    /// The same by another clock than the server's: for tests.
    #[doc(hidden)]
    pub async fn with_clock(
        options: Options,
        form: Form,
        clock: impl Clock + 'static,
    ) -> Result<Self, Error> {
        Self::new(options, form, Some(Box::new(clock))).await
    }

    async fn new(
        options: Options,
        form: Form,
        given: Option<Box<dyn Clock>>,
    ) -> Result<Self, Error> {
        let caller = Caller::connect(options).await?;
        let script = |flags: &str, body: &str| script(form, flags, "", body, given.is_some());
        let offer = script("", offer::SCRIPT);
        let done = script(ALWAYS, include_str!("done.lua"));
        let held = script(ALWAYS, include_str!("held.lua"));
        let look = script(ALWAYS, include_str!("look.lua"));
        let change = script(ALWAYS, include_str!("change.lua"));
        let pause = script(ALWAYS, include_str!("pause.lua"));
        let remove = script(ALWAYS, include_str!("remove.lua"));
        let take = script(ALWAYS, &include_str!("take.lua").replace("$GRANT", ""));
        let takes = Mutex::default();
        Ok(Self(Arc::new(Shared {
            caller,
            form,
            given,
            offer,
            done,
            held,
            look,
            change,
            pause,
            remove,
            room: Script::new(format!("#!lua{LOOKS}\n{}", include_str!("room.lua"))),
            names: Script::new(format!("#!lua{LOOKS}\n{}", include_str!("names.lua"))),
            take,
            takes,
            bells: Mutex::default(),
        })))
    }

    /// What the server evicts when it is full, as `allkeys-lru`, where it may: jobs have no end, so
    /// `allkeys-*` loses jobs; `volatile-*` forgets ids of [`Job::once`] and counts of rates too
    /// early. None where it has no bound, or refuses what would not fit.
    ///
    /// # Errors
    /// The server cannot be asked.
    pub async fn evicts(&self) -> Result<Option<String>, Error> {
        let answer = self.0.caller.call(&self.0.room, &[], &Vec::<Vec<u8>>::new()).await?;
        let [most, policy] = &answer[..] else { return Err(garbled()) };
        let (most, policy) = (text(most)?, text(policy)?);
        let is_bound = most != "0" && policy != "noeviction" && !policy.is_empty();
        Ok(is_bound.then_some(policy))
    }

    /// What wakes who waits for jobs of this queue.
    fn bell(&self, queue: &str) -> Arc<Bell> {
        let mut bells = self.0.bells.lock();
        if let Some(bell) = bells.get(queue) {
            return Arc::clone(bell);
        }
        if bells.len() >= MAX_BELLS {
            bells.clear();
        }
        let bell = Arc::new(self.0.caller.bell(format!("{PREFIX}:{{queue:{queue}}}:wake")));
        bells.insert(queue.to_owned(), Arc::clone(&bell));
        bell
    }

    /// The script that takes under these limits.
    fn rated(&self, limits: &LimitSet) -> Result<Arc<Script>, Error> {
        let text: Vec<String> = limits.limits().iter().map(ToString::to_string).collect();
        let text = text.join(", ");
        let mut takes = self.0.takes.lock();
        if let Some(rated) = takes.get(&text) {
            return Ok(Arc::clone(rated));
        }
        let mut check = Check::new(Mode::Partial);
        if self.0.given.is_some() {
            check.clock = compose::Clock::Given;
        }
        let rate = check.compose(&[limits], &Parts::default());
        let rate = rate.ok_or_else(|| {
            Error::invalid(format!("`{text}` has no form in Lua, so a queue has no such rate"))
        })?;
        let grant = include_str!("grant.lua")
            .replace("$AFTER", &(self.0.form.keys().len() + 1).to_string())
            .replace("$LIMITS", &limits.limits().len().to_string())
            .replace("$GIVEN", if self.0.given.is_some() { ", ARGV[#ARGV]" } else { "" });
        let body = include_str!("take.lua").replace("$GRANT", &grant);
        let rate = rate.function("rate");
        let rated = script(self.0.form, ALWAYS, &rate, &body, self.0.given.is_some());
        let rated = Arc::new(rated);
        if takes.len() >= MAX_TAKES {
            takes.clear();
        }
        takes.insert(text, Arc::clone(&rated));
        Ok(rated)
    }

    async fn call(&self, script: &Script, mut ask: Question<'_>) -> Result<Vec<Word>, Error> {
        if let Some(clock) = &self.0.given {
            ask.words.push(clock.now().as_micros().to_string().into_bytes());
        }
        let answer = self.0.caller.call(script, &ask.keys, &ask.words).await?;
        agreed(self.0.form, &ask, &answer)?;
        Ok(answer)
    }
}

/// The flags of what takes, and says what became of it: a server that is full must be drained.
const ALWAYS: &str = " flags=allow-oom";

/// The flags of what looks at the server, and at no queue.
const LOOKS: &str = " flags=no-writes";

/// A script of a queue: its flags, what it needs before, then what it does with the functions that
/// it calls.
fn script(form: Form, flags: &str, before: &str, body: &str, is_given: bool) -> Script {
    let (now, tail, px, id) = if is_given {
        ("tonumber(ARGV[#ARGV])", "1", "3600000", "given_id()")
    } else {
        ("time[1] * 1000000 + time[2]", "0", "math.ceil(tonumber(ARGV[5]) / 1000)", "'*'")
    };
    let body = body.replace("$TAIL", tail).replace("$PX", px);
    let mut parts = vec![body];
    // Each call of a script makes all of its functions anew, so it has no others than it needs.
    let library = [include_str!("begin.lua"), form.shelf(), include_str!("common.lua")].join("\n");
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
    Subject::new("queue", queue).map_err(|error| Error::invalid(error.to_string()))
}

/// The first so many keys of a queue.
fn keys(form: Form, queue: &str, most: usize) -> Vec<String> {
    let key = |of: &&str| format!("{PREFIX}:{{queue:{queue}}}:{of}");
    form.keys().iter().take(most).map(key).collect()
}

/// Where it is remembered that something was accepted once.
fn once_key(queue: &str, once: &str) -> String {
    format!("{PREFIX}:{{queue:{queue}}}:once:{once}")
}

fn words<const N: usize>(words: [String; N]) -> Vec<Vec<u8>> {
    words.map(String::into_bytes).into()
}

impl Backend for RedisQueues {
    async fn offer(&self, queue: &str, offering: &Offering, job: &Job) -> Result<Offered, Error> {
        let offered = self.offer_all(queue, offering, std::slice::from_ref(job)).await?;
        offered.first().copied().ok_or_else(garbled)
    }

    async fn offer_all(
        &self,
        queue: &str,
        offering: &Offering,
        jobs: &[Job],
    ) -> Result<Vec<Offered>, Error> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let question = offer::question(self.0.form, queue, offering, jobs);
        let answer = self.call(&self.0.offer, question).await?;
        let [after, depth, ids @ ..] = &answer[..] else { return Err(garbled()) };
        let (retry_after, mut depth) = (wait(after)?, whole(depth)?);
        let mut offered = Vec::with_capacity(ids.len());
        for the_id in ids {
            let the_id = text(the_id)?;
            offered.push(if the_id.is_empty() {
                Offered::Full { depth, retry_after }
            } else if let Some(known) = the_id.strip_prefix('=') {
                Offered::Known { id: known.parse().map_err(|_| garbled())? }
            } else if let Some(of_client) = the_id.strip_prefix('!') {
                Offered::ClientFull { of_client: of_client.parse().map_err(|_| garbled())? }
            } else {
                depth += 1;
                Offered::Accepted { id: the_id.parse().map_err(|_| garbled())?, depth }
            });
        }
        if offered.len() == jobs.len() { Ok(offered) } else { Err(garbled()) }
    }

    async fn take(
        &self,
        queue: &str,
        working: &Working,
        worker: &str,
        most: usize,
    ) -> Result<Taken, Error> {
        // What is offered from here on is news.
        if let Some(bell) = self.0.bells.lock().get(queue) {
            bell.look();
        }
        let mut question = self.to_take(queue, working, worker, most);
        let answer = match working.limits() {
            None => self.call(&self.0.take, question).await?,
            Some(limits) => {
                let rated = self.rated(limits)?;
                let state = Keys::new().state(&subject(queue)?, limits);
                question.keys.extend(Keys::of_check(&state, limits));
                self.call(&rated, question).await?
            }
        };
        let (next, found) = match &answer[..] {
            [Word::Bytes(what)] if what == b"paused" => {
                return Ok(Taken { paused: true, ..Taken::default() });
            }
            [Word::Bytes(what)] if what == b"absent" => {
                return Ok(Taken { absent: true, ..Taken::default() });
            }
            [Word::Bytes(what), next] if what == b"jobs" => (next, Vec::new()),
            [Word::Bytes(what), next, Word::Bytes(packed)] if what == b"jobs" => {
                (next, body::taken(packed)?)
            }
            _ => return Err(garbled()),
        };
        let mut taken = Taken { next: wait(next)?, ..Taken::default() };
        taken.jobs.reserve_exact(found.len());
        for found in found {
            match found {
                Ok(job) => taken.jobs.push(job),
                Err((held, why)) => {
                    let bury = self.held(queue, Some(working), "bury", held, Duration::ZERO, &why);
                    // Where that fails it comes back, and is buried then.
                    if matches!(bury.await.as_deref(), Ok(b"dead")) {
                        taken.foreign.push((held.id, why));
                    }
                }
            }
        }
        Ok(taken)
    }

    async fn done(&self, queue: &str, ids: &[JobId]) -> Result<u64, Error> {
        if ids.is_empty() {
            return Ok(0);
        }
        match &self.call(&self.0.done, self.of_done(queue, ids)).await?[..] {
            [done] => whole(done),
            _ => Err(garbled()),
        }
    }

    async fn again(
        &self,
        queue: &str,
        working: &Working,
        held: Held,
        after: Duration,
        why: &str,
    ) -> Result<Afterwards, Error> {
        let answer = self.held(queue, Some(working), "again", held, after, why).await?;
        match &answer[..] {
            b"kept" => Ok(Afterwards::Again),
            b"dead" => Ok(Afterwards::Dead),
            b"lost" => Ok(Afterwards::Lost),
            _ => Err(garbled()),
        }
    }

    async fn extend(&self, queue: &str, working: &Working, held: Held) -> Result<bool, Error> {
        let after = working.has();
        Ok(self.held(queue, Some(working), "extend", held, after, "").await? == b"kept")
    }

    async fn release(&self, queue: &str, held: Held) -> Result<bool, Error> {
        Ok(self.held(queue, None, "release", held, Duration::ZERO, "").await? == b"kept")
    }

    async fn settings(&self, queue: &str) -> Result<Settings, Error> {
        let answer = self.look(queue, words(["settings".to_owned()])).await?;
        let [offering, working] = &answer[..] else { return Err(garbled()) };
        let (offering, working) = (text(offering)?, text(working)?);
        Settings::read(
            queue,
            Some(without_form(&offering)).filter(|text| !text.is_empty()),
            Some(&*working).filter(|text| !text.is_empty()),
        )
    }

    async fn change(&self, queue: &str, settings: &Settings) -> Result<(), Error> {
        let Settings { offering, working } = settings;
        let form = self.0.form;
        let all = offering.as_ref().is_some_and(Offering::counts_all);
        let words = words([
            offering.as_ref().map(|offering| with_form(offering, form)).unwrap_or_default(),
            if all { "1" } else { "0" }.to_owned(),
            working.as_ref().map(Working::text).unwrap_or_default(),
            working.as_ref().map_or(0, Working::kept_done).to_string(),
        ]);
        let keys = keys(form, queue, form.done_keys());
        let question = Question { queue, said: Said::Nothing, keys, words };
        self.call(&self.0.change, question).await.map(drop)
    }

    async fn pause(&self, queue: &str, is_paused: bool) -> Result<bool, Error> {
        let keys = keys(self.0.form, queue, usize::MAX);
        let words = words([if is_paused { "1" } else { "0" }.to_owned()]);
        let question = Question { queue, said: Said::Nothing, keys, words };
        match &self.call(&self.0.pause, question).await?[..] {
            [was] => Ok(int(was)? == 1),
            _ => Err(garbled()),
        }
    }

    async fn remove(&self, queue: &str) -> Result<bool, Error> {
        let keys = keys(self.0.form, queue, usize::MAX);
        let question = Question { queue, said: Said::Nothing, keys, words: Vec::new() };
        match &self.call(&self.0.remove, question).await?[..] {
            [was] => Ok(int(was)? == 1),
            _ => Err(garbled()),
        }
    }

    async fn names(&self) -> Result<Vec<String>, Error> {
        let [before, after] = [format!("{PREFIX}:{{queue:"), "}:meta".to_owned()];
        let (mut names, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let words = words([cursor, format!("{before}*{after}")]);
            let answer = self.0.caller.call(&self.0.names, &[], &words).await?;
            let [next, keys @ ..] = &answer[..] else { return Err(garbled()) };
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
        let answer = self.look(queue, words(["stats".to_owned()])).await?;
        let [waiting, in_flight, dead, oldest, totals @ ..] = &answer[..] else {
            return Err(garbled());
        };
        let [accepted, refused, known, delivered, redelivered, done, too_old, died, paused] =
            totals
        else {
            return Err(garbled());
        };
        let oldest = text(oldest)?.parse::<i64>().ok();
        let oldest = oldest.map(|us| Duration::from_micros(u64::try_from(us).unwrap_or(0)));
        Ok(Stats {
            waiting: whole(waiting)?,
            in_flight: whole(in_flight)?,
            dead: whole(dead)?,
            oldest,
            accepted: whole(accepted)?,
            refused: whole(refused)?,
            known: whole(known)?,
            delivered: whole(delivered)?,
            redelivered: whole(redelivered)?,
            done: whole(done)?,
            too_old: whole(too_old)?,
            died: whole(died)?,
            paused: whole(paused)? == 1,
        })
    }

    async fn waiting(&self, queue: &str, most: usize) -> Result<Vec<WaitingJob>, Error> {
        let words = words(["waiting".to_owned(), most.min(MAX_BATCH).to_string()]);
        answer::waiting(&self.look(queue, words).await?)
    }

    async fn in_hand(&self, queue: &str, most: usize) -> Result<Vec<OutJob>, Error> {
        let words = words(["out".to_owned(), most.min(MAX_BATCH).to_string()]);
        answer::in_hand(&self.look(queue, words).await?)
    }

    async fn done_jobs(&self, queue: &str, most: usize) -> Result<Vec<DoneJob>, Error> {
        let words = words(["done".to_owned(), most.min(MAX_BATCH).to_string()]);
        self.look(queue, words).await?.iter().map(done_job).collect()
    }

    async fn dead(&self, queue: &str, most: usize) -> Result<Vec<Dead>, Error> {
        let words = words(["dead".to_owned(), most.min(MAX_BATCH).to_string()]);
        let answer = self.look(queue, words).await?;
        answer.iter().map(dead).collect()
    }

    async fn take_dead(&self, queue: &str, id: JobId) -> Result<Option<Dead>, Error> {
        let words = words(["take".to_owned(), id.to_string()]);
        let answer = self.look(queue, words).await?;
        answer.first().map(dead).transpose()
    }

    async fn forget_dead(&self, queue: &str, id: JobId) -> Result<Option<Dead>, Error> {
        // What it was accepted once under is a key of its own, which a script must be told.
        let the_grave = words(["grave".to_owned(), id.to_string()]);
        let answer = self.look(queue, the_grave).await?;
        let Some(grave) = answer.first().map(dead).transpose()? else { return Ok(None) };
        let Some(once) = grave.once else { return self.take_dead(queue, id).await };
        let mut keys = keys(self.0.form, queue, usize::MAX);
        keys.push(once_key(queue, &once.id));
        let words = words(["forget".to_owned(), id.to_string(), once.of.to_string()]);
        let question = Question { queue, said: Said::Nothing, keys, words };
        let answer = self.call(&self.0.look, question).await?;
        answer.first().map(dead).transpose()
    }

    async fn wait(&self, queue: &str, most: Duration) {
        if !self.bell(queue).wait(most).await {
            poll(most).await;
        }
    }
}

/// For who measures what goes over the wire, without a client in between: the text of a script, and
/// the words that call it once it is loaded.
#[doc(hidden)]
impl RedisQueues {
    #[must_use]
    pub fn spoken_offer(
        &self,
        queue: &str,
        offering: &Offering,
        jobs: &[Job],
    ) -> (String, Vec<Vec<u8>>) {
        spoken(&self.0.offer, offer::question(self.0.form, queue, offering, jobs))
    }

    #[must_use]
    pub fn spoken_take(
        &self,
        queue: &str,
        working: &Working,
        worker: &str,
        most: usize,
    ) -> (String, Vec<Vec<u8>>) {
        spoken(&self.0.take, self.to_take(queue, working, worker, most))
    }

    /// The ids in what a take was answered with.
    ///
    /// # Errors
    /// It is no such answer.
    pub fn heard_taken(packed: &[u8]) -> Result<Vec<JobId>, Error> {
        Ok(body::taken(packed)?.into_iter().flatten().map(|job| job.id).collect())
    }

    #[must_use]
    pub fn spoken_done(&self, queue: &str, ids: &[JobId]) -> (String, Vec<Vec<u8>>) {
        spoken(&self.0.done, self.of_done(queue, ids))
    }
}

fn spoken(script: &Script, ask: Question<'_>) -> (String, Vec<Vec<u8>>) {
    let keys = ask.keys.len().to_string();
    // As long as the nonces of a client.
    let nonce = "1125899906842624".to_owned();
    let mut words = words(["EVALSHA".to_owned(), script.sha().to_owned(), keys]);
    words.extend(ask.keys.into_iter().chain([nonce]).map(String::into_bytes));
    words.extend(ask.words);
    (script.text().to_owned(), words)
}

/// What each operation asks.
impl RedisQueues {
    fn to_take<'s>(
        &self,
        queue: &'s str,
        working: &'s Working,
        worker: &str,
        most: usize,
    ) -> Question<'s> {
        let words = words([
            working.text(),
            working.visibility_us().to_string(),
            working.most_deliveries().to_string(),
            working.kept_dead().to_string(),
            worker.to_owned(),
            most.to_string(),
            working.kept_done().to_string(),
        ]);
        let keys = keys(self.0.form, queue, usize::MAX);
        Question { queue, said: Said::Working(working), keys, words }
    }

    fn of_done<'s>(&self, queue: &'s str, ids: &[JobId]) -> Question<'s> {
        let form = self.0.form;
        let words = ids.iter().map(|id| id.to_string().into_bytes()).collect();
        let keys = keys(form, queue, form.done_keys());
        Question { queue, said: Said::Nothing, keys, words }
    }

    async fn look(&self, queue: &str, words: Vec<Vec<u8>>) -> Result<Vec<Word>, Error> {
        let keys = keys(self.0.form, queue, usize::MAX);
        self.call(&self.0.look, Question { queue, said: Said::Nothing, keys, words }).await
    }

    async fn held(
        &self,
        queue: &str,
        working: Option<&Working>,
        what: &str,
        held: Held,
        after: Duration,
        why: &str,
    ) -> Result<Vec<u8>, Error> {
        let [deliveries, dead] = working.map_or([0, 0], |working| {
            [u64::from(working.most_deliveries()), working.kept_dead() as u64]
        });
        let words = words([
            working.map(Working::text).unwrap_or_default(),
            what.to_owned(),
            held.id.to_string(),
            held.delivery.to_string(),
            micros(after).to_string(),
            deliveries.to_string(),
            dead.to_string(),
            why.to_owned(),
        ]);
        let keys = keys(self.0.form, queue, usize::MAX);
        let said = working.map_or(Said::Nothing, Said::Working);
        let question = Question { queue, said, keys, words };
        let answer = self.call(&self.0.held, question).await?;
        match answer.into_iter().next() {
            Some(Word::Bytes(what)) => Ok(what),
            _ => Err(garbled()),
        }
    }
}

//! Queues on Redis and Valkey, as streams with a consumer group.
//!
//! Each operation is one call of one script, by the server's clock. The jobs of a queue lie in a
//! stream under `tgq1:{queue:NAME}:jobs`, so that `XINFO` and `XPENDING` show them, and what else
//! is known of them beside it (`common.lua`). Nothing expires by itself but remembered ids.

use core::fmt;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate::engine::Mode;
use tollgate::{Clock, LimitSet, StoreError, Subject};
use tollgate_redis::compose::{self, Check, Parts};
use tollgate_redis::{Caller, Keys, Options, Script, Word};

use crate::backend::Backend;
use crate::body::Body;
use crate::error::Error;
use crate::job::{Dead, Held, Job, JobId, MAX_BATCH, Taken, TakenJob};
use crate::model::{Afterwards, Offered, Stats};
use crate::settings::{Offering, Settings, Working, agree, micros};

/// What every key begins with.
const PREFIX: &str = "tgq1";

/// How often it is looked whether there is something.
const POLL: Duration = Duration::from_millis(20);

/// The field that has bytes, and the one of a job that has nothing.
const BYTES: &str = "@bytes";
const NOTHING: &str = "@";

/// Queues on one Redis. Cheap to clone: clones share the connections.
#[derive(Clone)]
pub struct RedisQueues(Arc<Shared>);

struct Shared {
    caller: Caller,
    given: Option<Box<dyn Clock>>,
    offer: Script,
    done: Script,
    held: Script,
    look: Script,
    change: Script,
    take: Script,
    /// The scripts that take under a rate, by its limits.
    takes: Mutex<HashMap<String, Arc<Script>>>,
}

/// How many such scripts are kept.
const MAX_TAKES: usize = 1_024;

impl fmt::Debug for RedisQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisQueues").field(&self.0.caller).finish()
    }
}

impl RedisQueues {
    /// Connects.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses user, password or database.
    pub async fn connect(options: Options) -> Result<Self, Error> {
        Self::new(options, None).await
    }

    /// The same by another clock than the server's: for tests.
    #[doc(hidden)]
    pub async fn with_clock(options: Options, clock: impl Clock + 'static) -> Result<Self, Error> {
        Self::new(options, Some(Box::new(clock))).await
    }

    async fn new(options: Options, given: Option<Box<dyn Clock>>) -> Result<Self, Error> {
        let caller = Caller::connect(options).await?;
        let offer = script("", "", include_str!("offer.lua"), given.is_some());
        let script = |body: &str| script(ALWAYS, "", body, given.is_some());
        let (held, done) = (script(include_str!("held.lua")), script(include_str!("done.lua")));
        let look = script(include_str!("look.lua"));
        let change = script(include_str!("change.lua"));
        let take = script(&include_str!("take.lua").replace("$GRANT", ""));
        let takes = Mutex::default();
        Ok(Self(Arc::new(Shared { caller, given, offer, done, held, look, change, take, takes })))
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
            .replace("$LIMITS", &limits.limits().len().to_string())
            .replace("$GIVEN", if self.0.given.is_some() { ", ARGV[#ARGV]" } else { "" });
        let body = include_str!("take.lua").replace("$GRANT", &grant);
        let rated = Arc::new(script(ALWAYS, &rate.function("rate"), &body, self.0.given.is_some()));
        if takes.len() >= MAX_TAKES {
            takes.clear();
        }
        takes.insert(text, Arc::clone(&rated));
        Ok(rated)
    }

    async fn call(
        &self,
        script: &Script,
        keys: &[String],
        mut words: Vec<Vec<u8>>,
    ) -> Result<Vec<Word>, Error> {
        if let Some(clock) = &self.0.given {
            words.push(clock.now().as_micros().to_string().into_bytes());
        }
        Ok(self.0.caller.call(script, keys, words).await?)
    }
}

/// The flags of what takes, and says what became of it: a server that is full must be drained.
const ALWAYS: &str = " flags=allow-oom";

/// A script of a queue: its flags, what it needs before, then what all share, and what it does.
fn script(flags: &str, before: &str, body: &str, is_given: bool) -> Script {
    let (now, tail, px) = if is_given {
        ("local now = tonumber(ARGV[#ARGV])", "1", "3600000")
    } else {
        let now = "local time = redis.call('TIME')\nlocal now = time[1] * 1000000 + time[2]";
        (now, "0", "math.ceil(tonumber(ARGV[5]) / 1000)")
    };
    let common = include_str!("common.lua").replace("$NOW", now);
    let body = body.replace("$TAIL", tail).replace("$PX", px);
    Script::new(format!("#!lua{flags}\n{before}{common}{body}"))
}

/// The subject whose count a queue's rate is, and whose tag its keys have.
fn subject(queue: &str) -> Result<Subject, Error> {
    Subject::of("queue", queue).map_err(|error| Error::invalid(error.to_string()))
}

/// The keys of a queue, in the order in which scripts take them.
fn keys(queue: &str) -> Vec<String> {
    ["jobs", "out", "tries", "untils", "meta", "dead", "graves"]
        .map(|of| format!("{PREFIX}:{{queue:{queue}}}:{of}"))
        .into()
}

fn words<const N: usize>(words: [String; N]) -> Vec<Vec<u8>> {
    words.map(String::into_bytes).into()
}

/// An answer that no script of ours gives.
fn garbled() -> Error {
    StoreError::permanent(
        "a queue's script answered what none of this version answers: do other versions, or \
         somebody else, write its keys (`tgq1:`)?",
    )
    .into()
}

fn int(word: &Word) -> Result<i64, Error> {
    match word {
        Word::Int(number) => Ok(*number),
        _ => Err(garbled()),
    }
}

fn whole(word: &Word) -> Result<u64, Error> {
    u64::try_from(int(word)?).map_err(|_| garbled())
}

fn text(word: &Word) -> Result<String, Error> {
    match word {
        Word::Bytes(bytes) => String::from_utf8(bytes.clone()).map_err(|_| garbled()),
        Word::Int(number) => Ok(number.to_string()),
        _ => Err(garbled()),
    }
}

fn id(word: &Word) -> Result<JobId, Error> {
    text(word)?.parse().map_err(|_| garbled())
}

/// A time to wait: -1 for none that is known.
fn wait(word: &Word) -> Result<Option<Duration>, Error> {
    let us = int(word)?;
    Ok(u64::try_from(us).ok().map(Duration::from_micros))
}

/// Whether the answer says that the queue was made with other settings.
fn agreed<S: fmt::Display>(
    queue: &str,
    said: &S,
    read: fn(&str) -> Option<S>,
    answer: &[Word],
) -> Result<(), Error> {
    match answer {
        [Word::Bytes(what), made] if what == b"settings" => {
            agree(queue, &text(made)?, said, "", read)
        }
        _ => Ok(()),
    }
}

fn body_words(body: &Body, words: &mut Vec<Vec<u8>>) {
    let mut field = |name: &str, value: &[u8]| {
        words.push(name.as_bytes().to_vec());
        words.push(value.to_vec());
    };
    match body {
        Body::Bytes(bytes) => field(BYTES, bytes),
        Body::Fields(fields) if fields.is_empty() => field(NOTHING, b""),
        Body::Fields(fields) => {
            for (name, value) in fields.iter() {
                field(name, value.as_bytes());
            }
        }
    }
}

fn body(word: &Word) -> Result<Body, Error> {
    let Word::List(words) = word else { return Err(garbled()) };
    if let [Word::Bytes(name), Word::Bytes(bytes)] = &words[..]
        && name == BYTES.as_bytes()
    {
        return Ok(Body::Bytes(bytes.as_slice().into()));
    }
    let mut fields = Vec::with_capacity(words.len() / 2);
    for pair in words.chunks_exact(2) {
        let [name, value] = pair else { return Err(garbled()) };
        let name = text(name)?;
        if name != NOTHING {
            fields.push((name, text(value)?));
        }
    }
    Ok(Body::Fields(fields.into()))
}

fn dead(word: &Word) -> Result<Dead, Error> {
    let Word::List(words) = word else { return Err(garbled()) };
    let [the_id, deliveries, why, fields] = &words[..] else { return Err(garbled()) };
    let why = text(why)?;
    Ok(Dead {
        id: id(the_id)?,
        deliveries: u32::try_from(int(deliveries)?).map_err(|_| garbled())?,
        why: (!why.is_empty()).then_some(why),
        body: body(fields)?,
    })
}

impl Backend for RedisQueues {
    async fn offer(&self, queue: &str, offering: &Offering, job: &Job) -> Result<Offered, Error> {
        let mut keys = keys(queue);
        if let Some(once) = job.once_id() {
            keys.push(format!("{PREFIX}:{{queue:{queue}}}:once:{once}"));
        }
        let all = if offering.counts_all() { "1" } else { "0" };
        let deadline = job.deadline_us().map(|us| us.to_string()).unwrap_or_default();
        let mut words = words([
            offering.text(),
            offering.bound().to_string(),
            all.to_owned(),
            offering.remember_us().to_string(),
            deadline,
        ]);
        body_words(job.body(), &mut words);
        let answer = self.call(&self.0.offer, &keys, words).await?;
        agreed(queue, offering, Offering::read, &answer)?;
        match &answer[..] {
            [Word::Bytes(what), the_id, depth] if what == b"accepted" => {
                Ok(Offered::Accepted { id: id(the_id)?, depth: whole(depth)? })
            }
            [Word::Bytes(what), the_id] if what == b"known" => {
                Ok(Offered::Known { id: id(the_id)? })
            }
            [Word::Bytes(what), depth, after] if what == b"full" => {
                Ok(Offered::Full { depth: whole(depth)?, retry_after: wait(after)? })
            }
            _ => Err(garbled()),
        }
    }

    async fn take(
        &self,
        queue: &str,
        working: &Working,
        worker: &str,
        most: usize,
    ) -> Result<Taken, Error> {
        let words = words([
            working.text(),
            working.visibility_us().to_string(),
            working.most_deliveries().to_string(),
            working.kept_dead().to_string(),
            worker.to_owned(),
            most.to_string(),
        ]);
        let mut keys = keys(queue);
        let answer = match working.limits() {
            None => self.call(&self.0.take, &keys, words).await?,
            Some(limits) => {
                let rated = self.rated(limits)?;
                let state = Keys::new().state(&subject(queue)?, limits);
                keys.extend(Keys::of_check(&state, limits));
                self.call(&rated, &keys, words).await?
            }
        };
        agreed(queue, working, Working::read, &answer)?;
        let [Word::Bytes(what), next, rest @ ..] = &answer[..] else { return Err(garbled()) };
        if what != b"jobs" {
            return Err(garbled());
        }
        let mut jobs = Vec::with_capacity(rest.len() / 3);
        for job in rest.chunks_exact(3) {
            let [the_id, delivery, fields] = job else { return Err(garbled()) };
            let delivery = u32::try_from(int(delivery)?).map_err(|_| garbled())?;
            jobs.push(TakenJob { id: id(the_id)?, delivery, body: body(fields)? });
        }
        Ok(Taken { jobs, next: wait(next)? })
    }

    async fn done(&self, queue: &str, ids: &[JobId]) -> Result<u64, Error> {
        if ids.is_empty() {
            return Ok(0);
        }
        let words = ids.iter().map(|id| id.to_string().into_bytes()).collect();
        match &self.call(&self.0.done, &keys(queue), words).await?[..] {
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
        let words = words(["settings".to_owned()]);
        let answer = self.call(&self.0.look, &keys(queue), words).await?;
        let [offering, working] = &answer[..] else { return Err(garbled()) };
        let (offering, working) = (text(offering)?, text(working)?);
        Settings::read(
            queue,
            Some(&*offering).filter(|text| !text.is_empty()),
            Some(&*working).filter(|text| !text.is_empty()),
        )
    }

    async fn change(&self, queue: &str, settings: &Settings) -> Result<(), Error> {
        let Settings { offering, working } = settings;
        let all = offering.as_ref().is_some_and(Offering::counts_all);
        let words = words([
            offering.as_ref().map(Offering::text).unwrap_or_default(),
            if all { "1" } else { "0" }.to_owned(),
            working.as_ref().map(Working::text).unwrap_or_default(),
        ]);
        self.call(&self.0.change, &keys(queue), words).await.map(drop)
    }

    async fn stats(&self, queue: &str) -> Result<Stats, Error> {
        let answer = self.call(&self.0.look, &keys(queue), words(["stats".to_owned()])).await?;
        let [waiting, in_flight, dead, oldest, totals @ ..] = &answer[..] else {
            return Err(garbled());
        };
        let [accepted, refused, known, delivered, redelivered, done, too_old, died] = totals else {
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
        })
    }

    async fn dead(&self, queue: &str, most: usize) -> Result<Vec<Dead>, Error> {
        let words = words(["dead".to_owned(), most.min(MAX_BATCH).to_string()]);
        let answer = self.call(&self.0.look, &keys(queue), words).await?;
        answer.iter().map(dead).collect()
    }

    async fn take_dead(&self, queue: &str, id: JobId) -> Result<Option<Dead>, Error> {
        let words = words(["take".to_owned(), id.to_string()]);
        let answer = self.call(&self.0.look, &keys(queue), words).await?;
        answer.first().map(dead).transpose()
    }

    async fn wait(&self, _queue: &str, most: Duration) {
        tokio::time::sleep(most.min(POLL)).await;
    }
}

impl RedisQueues {
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
        let answer = self.call(&self.0.held, &keys(queue), words).await?;
        if let Some(working) = working {
            agreed(queue, working, Working::read, &answer)?;
        }
        match answer.into_iter().next() {
            Some(Word::Bytes(what)) => Ok(what),
            _ => Err(garbled()),
        }
    }
}

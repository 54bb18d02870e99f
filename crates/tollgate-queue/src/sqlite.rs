//! Queues in a file that the processes of one machine share.
//!
//! Each operation is one transaction of the file in which counts are kept, too: a rate is asked in
//! the transaction that takes, so that neither can be without the other. What was answered survives
//! the death of every process ([`tollgate_sqlite::Sync`] says what a power loss may undo).

use core::time::Duration;

use tollgate::engine::Mode;
use tollgate::{Counted, LimitSet, Question, StoreError, Subject};
use tollgate_sqlite::rusqlite::{self, Row, types::ValueRef};
use tollgate_sqlite::{Access, Options, SqliteStore, Transaction};

use crate::backend::Backend;
use crate::body::{Body, Fields};
use crate::error::Error;
use crate::job::{Dead, Held, Job, JobId, MAX_BATCH, Taken, TakenJob};
use crate::model::{Afterwards, Drain, Granted, LOOK, Offered, Stats};
use crate::settings::{Offering, Settings, Working, agree, micros};

/// How often it is looked whether there is something.
const POLL: Duration = Duration::from_millis(20);

/// What made the tables, step by step.
const STEPS: &[&str] = &["
    -- What is known of a queue; `waiting`, `out` and `dead` are how many rows there are, and the
    -- rest what there was.
    CREATE TABLE queues (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        offering TEXT,
        working TEXT,
        counts_all INTEGER NOT NULL,
        last_ms INTEGER NOT NULL,
        last_number INTEGER NOT NULL,
        drain_window INTEGER NOT NULL,
        drain_now INTEGER NOT NULL,
        drain_before INTEGER NOT NULL,
        waiting INTEGER NOT NULL,
        out INTEGER NOT NULL,
        dead INTEGER NOT NULL,
        accepted INTEGER NOT NULL,
        refused INTEGER NOT NULL,
        known INTEGER NOT NULL,
        delivered INTEGER NOT NULL,
        redelivered INTEGER NOT NULL,
        done INTEGER NOT NULL,
        too_old INTEGER NOT NULL,
        died INTEGER NOT NULL
    );
    -- Jobs that wait, and those that are out: `due_us` says when these come back. A body of fields
    -- is a JSON object, another a blob.
    CREATE TABLE queue_jobs (
        id INTEGER PRIMARY KEY,
        queue INTEGER NOT NULL,
        ms INTEGER NOT NULL,
        number INTEGER NOT NULL,
        due_us INTEGER,
        until_us INTEGER,
        deliveries INTEGER NOT NULL DEFAULT 0,
        held INTEGER NOT NULL DEFAULT 0,
        worker TEXT,
        why TEXT,
        body NOT NULL
    );
    CREATE UNIQUE INDEX queue_jobs_ids ON queue_jobs (queue, ms, number);
    CREATE INDEX queue_jobs_due ON queue_jobs (queue, due_us, ms, number);
    CREATE TABLE queue_dead (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        queue INTEGER NOT NULL,
        ms INTEGER NOT NULL,
        number INTEGER NOT NULL,
        deliveries INTEGER NOT NULL,
        why TEXT,
        body NOT NULL
    );
    CREATE INDEX queue_dead_oldest ON queue_dead (queue, id);
    -- Ids of jobs that said one, until when they are remembered.
    CREATE TABLE queue_once (
        queue INTEGER NOT NULL,
        once TEXT NOT NULL,
        ms INTEGER NOT NULL,
        number INTEGER NOT NULL,
        until_us INTEGER NOT NULL,
        PRIMARY KEY (queue, once)
    ) WITHOUT ROWID;
    CREATE INDEX queue_once_until ON queue_once (queue, until_us);
"];

/// Queues in one file. Cheap to clone; clones are the same queues, and so are those of other
/// processes that open the file.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use tollgate_queue::{Job, Offering, Queue, SqliteQueues};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("queues.db");
/// let queues = SqliteQueues::open(path.to_str().expect("a path in UTF-8"))?;
/// let mail = Queue::new(queues, "mail")?;
/// mail.offering(Offering::new(10))?.offer(&Job::new().field("to", "ann")).await?;
/// assert_eq!(mail.stats().await?.waiting, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SqliteQueues(SqliteStore);

impl SqliteQueues {
    /// Opens `sqlite://PATH[?sync=full][&deadline=5s]`, or a bare path. The file is created when it
    /// does not exist; its directory must. It may have counts in it.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn open(url_or_path: &str) -> Result<Self, Error> {
        Self::open_with(Options::from_url(url_or_path)?)
    }

    /// Opens the file of `options`.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn open_with(options: Options) -> Result<Self, Error> {
        let store = SqliteStore::open_with(options)?;
        store.furnish("queue", STEPS)?;
        Ok(Self(store))
    }

    /// Changes a queue in one transaction; it is made when it is not there.
    async fn at<T: Send + 'static>(
        &self,
        queue: &str,
        work: impl FnOnce(&mut At<'_, '_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let name = queue.to_owned();
        let work = move |tx: &Transaction<'_>| {
            let mut at = match At::find(tx, &name)? {
                Some(at) => at,
                None => At::make(tx, &name)?,
            };
            let before = at.is.clone();
            let answer = work(&mut at)?;
            at.keep(&before)?;
            Ok(answer)
        };
        self.0.transact(Access::Write, work).await
    }
}

/// What is known of a queue.
#[derive(Clone, PartialEq, Eq, Default)]
struct Known {
    id: i64,
    offering: Option<String>,
    working: Option<String>,
    counts_all: bool,
    last: JobId,
    drain: Drain,
    /// With what there is in it, but for the oldest.
    totals: Stats,
}

/// A queue within a transaction.
struct At<'a, 't> {
    tx: &'a Transaction<'t>,
    name: &'a str,
    now_us: u64,
    is: Known,
}

/// A job that is out.
struct Out {
    row: i64,
    until_us: Option<u64>,
    deliveries: u32,
    is_held: bool,
}

fn number(row: &Row<'_>, place: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(place)?.cast_unsigned())
}

fn maybe(row: &Row<'_>, place: usize) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(place)?.map(i64::cast_unsigned))
}

fn id(row: &Row<'_>, place: usize) -> rusqlite::Result<JobId> {
    Ok(JobId::new(number(row, place)?, number(row, place + 1)?))
}

/// A body as it is written; the error of one that nobody here has written is told later.
fn body(row: &Row<'_>, place: usize) -> rusqlite::Result<Option<Body>> {
    Ok(match row.get_ref(place)? {
        ValueRef::Blob(bytes) => Some(Body::Bytes(bytes.into())),
        ValueRef::Text(json) => Body::from_json(json).ok(),
        _ => None,
    })
}

const SELECT_KNOWN: &str = "
    SELECT id, offering, working, counts_all, last_ms, last_number, drain_window, drain_now,
           drain_before, waiting, out, dead, accepted, refused, known, delivered, redelivered, done,
           too_old, died
    FROM queues WHERE name = ?1";

const UPDATE_KNOWN: &str = "
    UPDATE queues SET offering = ?2, working = ?3, counts_all = ?4, last_ms = ?5, last_number = ?6,
        drain_window = ?7, drain_now = ?8, drain_before = ?9, waiting = ?10, out = ?11, dead = ?12,
        accepted = ?13, refused = ?14, known = ?15, delivered = ?16, redelivered = ?17, done = ?18,
        too_old = ?19, died = ?20
    WHERE id = ?1";

impl<'a, 't> At<'a, 't> {
    fn find(tx: &'a Transaction<'t>, name: &'a str) -> Result<Option<Self>, Error> {
        let is = tx.first(SELECT_KNOWN, [name], |row| {
            Ok(Known {
                id: row.get(0)?,
                offering: row.get(1)?,
                working: row.get(2)?,
                counts_all: row.get(3)?,
                last: id(row, 4)?,
                drain: Drain {
                    window: number(row, 6)?,
                    now: number(row, 7)?,
                    before: number(row, 8)?,
                },
                totals: Stats {
                    waiting: number(row, 9)?,
                    in_flight: number(row, 10)?,
                    dead: number(row, 11)?,
                    oldest: None,
                    accepted: number(row, 12)?,
                    refused: number(row, 13)?,
                    known: number(row, 14)?,
                    delivered: number(row, 15)?,
                    redelivered: number(row, 16)?,
                    done: number(row, 17)?,
                    too_old: number(row, 18)?,
                    died: number(row, 19)?,
                },
            })
        })?;
        Ok(is.map(|is| Self { tx, name, now_us: tx.now().as_micros(), is }))
    }

    fn make(tx: &'a Transaction<'t>, name: &'a str) -> Result<Self, Error> {
        let sql =
            "INSERT INTO queues VALUES (NULL, ?1, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                              0, 0, 0, 0, 0, 0) RETURNING id";
        let id = tx.first(sql, [name], |row| row.get(0))?.unwrap_or_default();
        let is = Known { id, ..Known::default() };
        Ok(Self { tx, name, now_us: tx.now().as_micros(), is })
    }

    /// Writes down what is known, when it is not what it was.
    fn keep(&self, before: &Known) -> Result<(), Error> {
        if self.is == *before {
            return Ok(());
        }
        let Known { id, offering, working, counts_all, last, drain, totals } = &self.is;
        let numbers = [
            last.ms(),
            last.number(),
            drain.window,
            drain.now,
            drain.before,
            totals.waiting,
            totals.in_flight,
            totals.dead,
            totals.accepted,
            totals.refused,
            totals.known,
            totals.delivered,
            totals.redelivered,
            totals.done,
            totals.too_old,
            totals.died,
        ]
        .map(u64::cast_signed);
        let mut params: Vec<&dyn rusqlite::ToSql> = vec![id, offering, working, counts_all];
        params.extend(numbers.iter().map(|number| number as &dyn rusqlite::ToSql));
        self.tx.execute(UPDATE_KNOWN, &params[..])?;
        Ok(())
    }

    fn agree_on_offering(&mut self, offering: &Offering) -> Result<(), Error> {
        let said = offering.text();
        match &self.is.offering {
            Some(made) => agree(self.name, made, offering, &said, Offering::read),
            None => {
                self.offered_to(offering);
                Ok(())
            }
        }
    }

    fn offered_to(&mut self, offering: &Offering) {
        self.is.offering = Some(offering.text());
        self.is.counts_all = offering.counts_all();
    }

    fn agree_on_working(&self, working: &Working) -> Result<(), Error> {
        match &self.is.working {
            Some(made) => agree(self.name, made, working, &working.text(), Working::read),
            None => Ok(()),
        }
    }

    /// A body that nobody here has written.
    fn damaged(&self, id: JobId) -> Error {
        StoreError::permanent(format!(
            "the job {id} of the queue `{}` cannot be read: something else has written to its table",
            self.name
        ))
        .into()
    }

    fn offer(&mut self, offering: &Offering, job: &Job) -> Result<Offered, Error> {
        self.agree_on_offering(offering)?;
        let queue = self.is.id;
        if let Some(once) = job.once_id() {
            let sql = "DELETE FROM queue_once WHERE queue = ?1 AND once IN
                       (SELECT once FROM queue_once WHERE queue = ?1 AND until_us <= ?2 LIMIT ?3)";
            self.tx.execute(sql, (queue, self.now_us.cast_signed(), LOOK as i64))?;
            let sql = "SELECT ms, number FROM queue_once
                       WHERE queue = ?1 AND once = ?2 AND until_us > ?3";
            let known =
                self.tx.first(sql, (queue, once, self.now_us.cast_signed()), |row| id(row, 0))?;
            if let Some(id) = known {
                self.is.totals.known += 1;
                return Ok(Offered::Known { id });
            }
        }
        let Stats { waiting, in_flight, .. } = self.is.totals;
        let depth = waiting + if offering.counts_all() { in_flight } else { 0 };
        if depth >= offering.bound() {
            self.is.totals.refused += 1;
            let retry_after = self.is.drain.one_more(self.now_us);
            return Ok(Offered::Full { depth, retry_after });
        }
        self.is.last = self.is.last.next(self.now_us / 1_000);
        let id = self.is.last;
        let (ms, number) = (id.ms().cast_signed(), id.number().cast_signed());
        if let Some(once) = job.once_id()
            && offering.remember_us() > 0
        {
            let until_us = self.now_us.saturating_add(offering.remember_us()).cast_signed();
            let sql = "INSERT OR REPLACE INTO queue_once VALUES (?1, ?2, ?3, ?4, ?5)";
            self.tx.execute(sql, (queue, once, ms, number, until_us))?;
        }
        let until_us = job.deadline_us().map(|it| self.now_us.saturating_add(it).cast_signed());
        let sql = "INSERT INTO queue_jobs (queue, ms, number, until_us, body)
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        match job.body() {
            Body::Bytes(bytes) => {
                self.tx.execute(sql, (queue, ms, number, until_us, &bytes[..]))?;
            }
            Body::Fields(fields) => {
                let json = serde_json::to_string(&Fields(fields));
                let json = json.map_err(|error| Error::invalid(error.to_string()))?;
                self.tx.execute(sql, (queue, ms, number, until_us, json))?;
            }
        }
        self.is.totals.waiting += 1;
        self.is.totals.accepted += 1;
        Ok(Offered::Accepted { id, depth: depth + 1 })
    }

    fn take(&mut self, working: &Working, worker: &str, most: usize) -> Result<Taken, Error> {
        self.agree_on_working(working)?;
        self.is.working.get_or_insert_with(|| working.text());
        let (back, more_back) = self.come_back(working, most)?;
        let (fresh, more_fresh) = self.fresh(most - back.len())?;
        let there = back.len() + fresh.len();
        let granted = match (there, working.limits()) {
            (0, _) | (_, None) => Granted { jobs: there, next: None },
            (there, Some(limits)) => self.grant(limits, there)?,
        };
        let due_us = self.now_us.saturating_add(working.visibility_us()).cast_signed();
        let sql = "UPDATE queue_jobs SET deliveries = deliveries + 1, held = 1, due_us = ?2,
                                         worker = ?3
                   WHERE id = ?1 RETURNING ms, number, deliveries, body";
        let mut jobs = Vec::with_capacity(granted.jobs);
        for row in back.iter().chain(&fresh).take(granted.jobs) {
            let taken = self.tx.first(sql, (row, due_us, worker), |row| {
                Ok((id(row, 0)?, row.get::<_, u32>(2)?, body(row, 3)?))
            })?;
            let Some((id, delivery, body)) = taken else { continue };
            let body = body.ok_or_else(|| self.damaged(id))?;
            jobs.push(TakenJob { id, delivery, body });
        }
        let again = jobs.len().min(back.len()) as u64;
        let first = jobs.len() as u64 - again;
        self.is.totals.redelivered += again;
        self.is.totals.delivered += first;
        self.is.totals.waiting -= first;
        self.is.totals.in_flight += first;
        if !self.is.counts_all {
            self.left(first);
        }
        let next = if jobs.len() == most {
            Some(Duration::ZERO)
        } else if granted.jobs < there {
            granted.next
        } else if more_back || more_fresh {
            Some(Duration::ZERO)
        } else {
            let sql = "SELECT min(due_us) FROM queue_jobs WHERE queue = ?1 AND due_us IS NOT NULL";
            let due = self.tx.first(sql, [self.is.id], |row| maybe(row, 0))?.flatten();
            due.map(|due| Duration::from_micros(due.saturating_sub(self.now_us)))
        };
        Ok(Taken { jobs, next })
    }

    /// As many have left what the bound counts.
    fn left(&mut self, many: u64) {
        for _ in 0..many {
            self.is.drain.count(self.now_us);
        }
    }

    /// How many of `there` the limits let through, in this transaction.
    fn grant(&self, limits: &LimitSet, there: usize) -> Result<Granted, Error> {
        let subject = Subject::of("queue", self.name);
        let subject = subject.map_err(|error| Error::invalid(error.to_string()))?;
        Granted::of(there, |cost| {
            let parts = [Counted::new(&subject, limits)].into();
            let outcome = self.tx.check(&Question::new(parts, cost, Mode::Partial))?;
            let waits = outcome.fields.iter().map(|field| field.retry_after_us);
            let wait = waits.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max());
            let wait = wait.filter(|_| outcome.granted == 0);
            Ok((outcome.granted, wait.map(Duration::from_micros)))
        })
    }

    /// As [`crate::Model`] has it: rows that are due to come back; true when there are more that
    /// were not looked at.
    fn come_back(&mut self, working: &Working, most: usize) -> Result<(Vec<i64>, bool), Error> {
        let look = most.saturating_add(LOOK);
        let sql = "SELECT id, until_us, deliveries, held FROM queue_jobs
                   WHERE queue = ?1 AND due_us <= ?2 ORDER BY due_us, ms, number LIMIT ?3";
        let due =
            self.tx.rows(sql, (self.is.id, self.now_us.cast_signed(), look as i64), read_out)?;
        let is_cut = due.len() == look;
        let mut back = Vec::new();
        for out in due {
            if back.len() == most {
                break;
            }
            if out.until_us.is_some_and(|until_us| until_us <= self.now_us) {
                self.remove(&out)?;
                self.is.totals.too_old += 1;
            } else if working.has_had_enough(out.deliveries) {
                self.bury(&out, working)?;
            } else {
                back.push(out.row);
            }
        }
        Ok((back, is_cut))
    }

    /// As [`crate::Model`] has it: the first that wait, up to `most`.
    fn fresh(&mut self, most: usize) -> Result<(Vec<i64>, bool), Error> {
        let look = most.saturating_add(LOOK);
        let sql = "SELECT id, ms, number, until_us FROM queue_jobs
                   WHERE queue = ?1 AND due_us IS NULL AND (ms, number) > (?2, ?3)
                   ORDER BY ms, number LIMIT ?4";
        let (mut fresh, mut looked) = (Vec::new(), 0);
        // Before the first id there is.
        let mut from = (-1_i64, -1_i64);
        while fresh.len() < most && looked < look {
            let many = (most - fresh.len()).min(look - looked);
            let rows = self.tx.rows(sql, (self.is.id, from.0, from.1, many as i64), |row| {
                Ok((row.get::<_, i64>(0)?, (row.get(1)?, row.get(2)?), maybe(row, 3)?))
            })?;
            looked += rows.len();
            let is_end = rows.len() < many;
            for (row, place, until_us) in rows {
                from = place;
                if until_us.is_some_and(|until_us| until_us <= self.now_us) {
                    self.tx.execute("DELETE FROM queue_jobs WHERE id = ?1", [row])?;
                    self.is.totals.waiting -= 1;
                    self.is.totals.too_old += 1;
                    self.left(1);
                } else {
                    fresh.push(row);
                }
            }
            if is_end {
                break;
            }
        }
        Ok((fresh, looked == look))
    }

    /// A job that is out.
    fn out(&self, id: JobId) -> Result<Option<Out>, Error> {
        let sql = "SELECT id, until_us, deliveries, held FROM queue_jobs
                   WHERE queue = ?1 AND ms = ?2 AND number = ?3 AND due_us IS NOT NULL";
        let place = (self.is.id, id.ms().cast_signed(), id.number().cast_signed());
        Ok(self.tx.first(sql, place, read_out)?)
    }

    fn held(&self, held: Held) -> Result<Option<Out>, Error> {
        let out = self.out(held.id)?;
        Ok(out.filter(|out| out.is_held && out.deliveries == held.delivery))
    }

    /// Removes a job that is out: why it failed last, and what was in it.
    fn remove(&mut self, out: &Out) -> Result<(Option<String>, Option<Body>), Error> {
        let sql = "DELETE FROM queue_jobs WHERE id = ?1 RETURNING why, body";
        let was = self.tx.first(sql, [out.row], |row| Ok((row.get(0)?, body(row, 1)?)))?;
        self.is.totals.in_flight -= 1;
        if self.is.counts_all {
            self.left(1);
        }
        Ok(was.unwrap_or_default())
    }

    fn bury(&mut self, out: &Out, working: &Working) -> Result<(), Error> {
        let sql = "INSERT INTO queue_dead (queue, ms, number, deliveries, why, body)
                   SELECT queue, ms, number, deliveries, why, body FROM queue_jobs WHERE id = ?1";
        self.tx.execute(sql, [out.row])?;
        self.remove(out)?;
        self.is.totals.died += 1;
        self.is.totals.dead += 1;
        while self.is.totals.dead > working.kept_dead() as u64 {
            let sql = "DELETE FROM queue_dead WHERE id =
                       (SELECT id FROM queue_dead WHERE queue = ?1 ORDER BY id LIMIT 1)";
            self.tx.execute(sql, [self.is.id])?;
            self.is.totals.dead -= 1;
        }
        Ok(())
    }

    fn done(&mut self, ids: &[JobId]) -> Result<u64, Error> {
        let mut done = 0;
        for id in ids {
            if let Some(out) = self.out(*id)? {
                self.remove(&out)?;
                done += 1;
            }
        }
        self.is.totals.done += done;
        Ok(done)
    }

    fn again(
        &mut self,
        working: &Working,
        held: Held,
        after: Duration,
        why: &str,
    ) -> Result<Afterwards, Error> {
        self.agree_on_working(working)?;
        let Some(out) = self.held(held)? else { return Ok(Afterwards::Lost) };
        let sql = "UPDATE queue_jobs SET why = ?2, held = 0, due_us = ?3 WHERE id = ?1";
        let why = (!why.is_empty()).then_some(why);
        let due_us = self.now_us.saturating_add(micros(after)).cast_signed();
        self.tx.execute(sql, (out.row, why, due_us))?;
        if working.has_had_enough(out.deliveries) {
            self.bury(&out, working)?;
            return Ok(Afterwards::Dead);
        }
        Ok(Afterwards::Again)
    }

    fn extend(&self, working: &Working, held: Held) -> Result<bool, Error> {
        self.agree_on_working(working)?;
        let Some(out) = self.held(held)? else { return Ok(false) };
        let due_us = self.now_us.saturating_add(working.visibility_us()).cast_signed();
        self.tx.execute("UPDATE queue_jobs SET due_us = ?2 WHERE id = ?1", (out.row, due_us))?;
        Ok(true)
    }

    fn release(&self, held: Held) -> Result<bool, Error> {
        let Some(out) = self.held(held)? else { return Ok(false) };
        let sql = "UPDATE queue_jobs SET deliveries = deliveries - 1, held = 0, due_us = ?2
                   WHERE id = ?1";
        self.tx.execute(sql, (out.row, self.now_us.cast_signed()))?;
        Ok(true)
    }

    fn settings(&self) -> Result<Settings, Error> {
        let Known { offering, working, .. } = &self.is;
        Settings::read(self.name, offering.as_deref(), working.as_deref())
    }

    fn change(&mut self, settings: &Settings) {
        if let Some(offering) = &settings.offering {
            self.offered_to(offering);
        }
        if let Some(working) = &settings.working {
            self.is.working = Some(working.text());
        }
    }

    fn stats(&self) -> Result<Stats, Error> {
        let sql = "SELECT ms FROM queue_jobs WHERE queue = ?1 AND due_us IS NULL
                   ORDER BY ms, number LIMIT 1";
        let oldest = self.tx.first(sql, [self.is.id], |row| number(row, 0))?;
        let oldest = oldest.map(|ms| self.now_us.saturating_sub(ms.saturating_mul(1_000)));
        Ok(Stats { oldest: oldest.map(Duration::from_micros), ..self.is.totals })
    }

    /// Dead jobs by a condition, the oldest first.
    fn dead(&self, which: &str, params: impl rusqlite::Params) -> Result<Vec<(i64, Dead)>, Error> {
        let sql = format!(
            "SELECT id, ms, number, deliveries, why, body FROM queue_dead WHERE queue = ?1 {which}"
        );
        let rows = self.tx.rows(&sql, params, |row| {
            let read = (id(row, 1)?, row.get::<_, u32>(3)?, row.get(4)?, body(row, 5)?);
            Ok((row.get::<_, i64>(0)?, read))
        })?;
        let dead = rows.into_iter().map(|(row, (id, deliveries, why, body))| {
            let body = body.ok_or_else(|| self.damaged(id))?;
            Ok((row, Dead { id, deliveries, why, body }))
        });
        dead.collect()
    }

    fn take_dead(&mut self, id: JobId) -> Result<Option<Dead>, Error> {
        let place = (self.is.id, id.ms().cast_signed(), id.number().cast_signed());
        let found = self.dead("AND ms = ?2 AND number = ?3", place)?;
        let Some((row, dead)) = found.into_iter().next() else { return Ok(None) };
        self.tx.execute("DELETE FROM queue_dead WHERE id = ?1", [row])?;
        self.is.totals.dead -= 1;
        Ok(Some(dead))
    }
}

/// A row of `id, until_us, deliveries, held`.
fn read_out(row: &Row<'_>) -> rusqlite::Result<Out> {
    Ok(Out {
        row: row.get(0)?,
        until_us: maybe(row, 1)?,
        deliveries: row.get(2)?,
        is_held: row.get(3)?,
    })
}

impl Backend for SqliteQueues {
    async fn offer(&self, queue: &str, offering: &Offering, job: &Job) -> Result<Offered, Error> {
        let (offering, job) = (offering.clone(), job.clone());
        self.at(queue, move |at| at.offer(&offering, &job)).await
    }

    async fn take(
        &self,
        queue: &str,
        working: &Working,
        worker: &str,
        most: usize,
    ) -> Result<Taken, Error> {
        let (working, worker) = (working.clone(), worker.to_owned());
        self.at(queue, move |at| at.take(&working, &worker, most)).await
    }

    async fn done(&self, queue: &str, ids: &[JobId]) -> Result<u64, Error> {
        let ids = ids.to_vec();
        self.at(queue, move |at| at.done(&ids)).await
    }

    async fn again(
        &self,
        queue: &str,
        working: &Working,
        held: Held,
        after: Duration,
        why: &str,
    ) -> Result<Afterwards, Error> {
        let (working, why) = (working.clone(), why.to_owned());
        self.at(queue, move |at| at.again(&working, held, after, &why)).await
    }

    async fn extend(&self, queue: &str, working: &Working, held: Held) -> Result<bool, Error> {
        let working = working.clone();
        self.at(queue, move |at| at.extend(&working, held)).await
    }

    async fn release(&self, queue: &str, held: Held) -> Result<bool, Error> {
        self.at(queue, move |at| at.release(held)).await
    }

    async fn settings(&self, queue: &str) -> Result<Settings, Error> {
        let queue = queue.to_owned();
        let settings = move |tx: &Transaction<'_>| match At::find(tx, &queue)? {
            Some(at) => at.settings(),
            None => Ok(Settings::default()),
        };
        self.0.transact(Access::Read, settings).await
    }

    async fn change(&self, queue: &str, settings: &Settings) -> Result<(), Error> {
        let settings = settings.clone();
        let change = move |at: &mut At<'_, '_>| {
            at.change(&settings);
            Ok(())
        };
        self.at(queue, change).await
    }

    async fn stats(&self, queue: &str) -> Result<Stats, Error> {
        let queue = queue.to_owned();
        let stats = move |tx: &Transaction<'_>| match At::find(tx, &queue)? {
            Some(at) => at.stats(),
            None => Ok(Stats::default()),
        };
        self.0.transact(Access::Read, stats).await
    }

    async fn dead(&self, queue: &str, most: usize) -> Result<Vec<Dead>, Error> {
        let queue = queue.to_owned();
        let dead = move |tx: &Transaction<'_>| match At::find(tx, &queue)? {
            Some(at) => {
                let dead =
                    at.dead("ORDER BY id LIMIT ?2", (at.is.id, most.min(MAX_BATCH) as i64))?;
                Ok(dead.into_iter().map(|(_, dead)| dead).collect())
            }
            None => Ok(Vec::new()),
        };
        self.0.transact(Access::Read, dead).await
    }

    async fn take_dead(&self, queue: &str, id: JobId) -> Result<Option<Dead>, Error> {
        self.at(queue, move |at| at.take_dead(id)).await
    }

    async fn wait(&self, _queue: &str, most: Duration) {
        tokio::time::sleep(most.min(POLL)).await;
    }
}

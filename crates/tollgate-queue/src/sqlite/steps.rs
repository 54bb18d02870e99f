//! Each operation on a queue in a file, in one transaction: what [`crate::Model`] does, by rows.

use core::time::Duration;

use tollgate::engine::Mode;
use tollgate::{Counted, LimitSet, Question, Subject};
use tollgate_sqlite::rusqlite;

use super::rows::{At, Known, Out, body, client, id, maybe, number, once, read_out};
use crate::body::{Body, Fields};
use crate::error::Error;
use crate::job::{Dead, DoneJob, Held, Job, JobId, OutJob, Taken, TakenJob, WaitingJob};
use crate::model::{Afterwards, Granted, LOOK, Offered, Stats};
use crate::settings::{Offering, Settings, Working, micros, other_settings};

impl At<'_, '_> {
    fn agree_on_offering(&mut self, offering: &Offering) -> Result<(), Error> {
        let said = offering.text();
        match &self.is.offering {
            Some(made) if *made == said => Ok(()),
            Some(made) => Err(other_settings(self.name, made, offering, Offering::read)),
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

    fn worked_on(&mut self, working: &Working) {
        self.is.working = Some(working.text());
        self.is.keep_done = u32::try_from(working.kept_done()).unwrap_or(u32::MAX);
    }

    fn agree_on_working(&self, working: &Working) -> Result<(), Error> {
        match &self.is.working {
            Some(made) if *made != working.text() => {
                Err(other_settings(self.name, made, working, Working::read))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn offer(&mut self, offering: &Offering, job: &Job) -> Result<Offered, Error> {
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
        if let Some(of_client) = self.beyond(offering, job)? {
            self.is.totals.refused += 1;
            return Ok(Offered::ClientFull { of_client });
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
        let client = job.client_name().map(|client| &**client);
        let once = job.known_as(id, offering.remember_us() > 0).map(|once| once.to_string());
        let sql = "INSERT INTO queue_jobs (queue, ms, number, until_us, client, once, body)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        match job.body() {
            Body::Bytes(bytes) => {
                self.tx.execute(sql, (queue, ms, number, until_us, client, once, &bytes[..]))?;
            }
            Body::Fields(fields) => {
                let json = serde_json::to_string(&Fields(fields));
                let json = json.map_err(|error| Error::invalid(error.to_string()))?;
                self.tx.execute(sql, (queue, ms, number, until_us, client, once, json))?;
            }
        }
        self.is.totals.waiting += 1;
        self.is.totals.accepted += 1;
        Ok(Offered::Accepted { id, depth: depth + 1 })
    }

    /// How many of the job's client are counted, where these are as many as may be.
    fn beyond(&self, offering: &Offering, job: &Job) -> Result<Option<u64>, Error> {
        let (Some(client), Some(most)) = (job.client_name(), offering.most_per_client()) else {
            return Ok(None);
        };
        let sql = "SELECT waiting + ?3 * out FROM queue_clients WHERE queue = ?1 AND client = ?2";
        let params = (self.is.id, &**client, offering.counts_all());
        let of_client = self.tx.first(sql, params, |row| number(row, 0))?.unwrap_or(0);
        Ok((of_client >= most).then_some(of_client))
    }

    pub(super) fn take(
        &mut self,
        working: &Working,
        worker: &str,
        most: usize,
    ) -> Result<Taken, Error> {
        self.agree_on_working(working)?;
        if self.is.working.is_none() {
            self.worked_on(working);
        }
        if self.is.totals.paused {
            return Ok(Taken { paused: true, ..Taken::default() });
        }
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
        let (mut jobs, mut foreign) = (Vec::with_capacity(granted.jobs), Vec::new());
        for row in back.iter().chain(&fresh).take(granted.jobs) {
            let taken = self.tx.first(sql, (row, due_us, worker), |row| {
                Ok((id(row, 0)?, row.get::<_, u32>(2)?, body(row, 3)?))
            })?;
            let Some((id, delivery, body)) = taken else { continue };
            match body {
                Ok(body) => jobs.push(TakenJob { id, delivery, body }),
                Err((_, why)) => foreign.push((id, why)),
            }
        }
        let delivered = jobs.len() + foreign.len();
        let again = delivered.min(back.len()) as u64;
        let first = delivered as u64 - again;
        self.is.totals.redelivered += again;
        self.is.totals.delivered += first;
        self.is.totals.waiting -= first;
        self.is.totals.in_flight += first;
        if !self.is.counts_all {
            self.left(first);
        }
        for (id, why) in &foreign {
            if let Some(out) = self.out(*id)? {
                self.tx.execute("UPDATE queue_jobs SET why = ?2 WHERE id = ?1", (out.row, why))?;
                self.bury(&out, working)?;
            }
        }
        let next = if delivered == most {
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
        Ok(Taken { jobs, next, foreign, ..Taken::default() })
    }

    /// As many have left what the bound counts.
    fn left(&mut self, many: u64) {
        for _ in 0..many {
            self.is.drain.count(self.now_us);
        }
    }

    /// How many of `there` the limits let through, in this transaction.
    fn grant(&self, limits: &LimitSet, there: usize) -> Result<Granted, Error> {
        let subject = Subject::new("queue", self.name);
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

    /// Removes a job that is out.
    fn remove(&mut self, out: &Out) -> Result<(), Error> {
        self.tx.execute("DELETE FROM queue_jobs WHERE id = ?1", [out.row])?;
        self.is.totals.in_flight -= 1;
        if self.is.counts_all {
            self.left(1);
        }
        Ok(())
    }

    fn bury(&mut self, out: &Out, working: &Working) -> Result<(), Error> {
        let sql = "INSERT INTO queue_dead (queue, ms, number, deliveries, why, body, client, once)
                   SELECT queue, ms, number, deliveries, why, body, client, once
                   FROM queue_jobs WHERE id = ?1";
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

    pub(super) fn done(&mut self, ids: &[JobId]) -> Result<u64, Error> {
        let mut done = 0;
        for id in ids {
            if let Some(out) = self.out(*id)? {
                if self.is.keep_done > 0 {
                    let sql = "INSERT INTO queue_done (queue, ms, number, deliveries, body)
                               SELECT queue, ms, number, deliveries, body FROM queue_jobs
                               WHERE id = ?1";
                    self.tx.execute(sql, [out.row])?;
                }
                self.remove(&out)?;
                done += 1;
            }
        }
        if self.is.keep_done > 0 {
            self.keep_done()?;
        }
        self.is.totals.done += done;
        Ok(done)
    }

    /// The oldest of the done go beyond as many as are kept.
    fn keep_done(&self) -> Result<(), Error> {
        let sql = "DELETE FROM queue_done WHERE queue = ?1 AND id <=
                   (SELECT id FROM queue_done WHERE queue = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)";
        self.tx.execute(sql, (self.is.id, self.is.keep_done))?;
        Ok(())
    }

    pub(super) fn again(
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

    pub(super) fn extend(&self, working: &Working, held: Held) -> Result<bool, Error> {
        self.agree_on_working(working)?;
        let Some(out) = self.held(held)? else { return Ok(false) };
        let due_us = self.now_us.saturating_add(working.visibility_us()).cast_signed();
        self.tx.execute("UPDATE queue_jobs SET due_us = ?2 WHERE id = ?1", (out.row, due_us))?;
        Ok(true)
    }

    pub(super) fn release(&self, held: Held) -> Result<bool, Error> {
        let Some(out) = self.held(held)? else { return Ok(false) };
        let sql = "UPDATE queue_jobs SET deliveries = deliveries - 1, held = 0, due_us = ?2
                   WHERE id = ?1";
        self.tx.execute(sql, (out.row, self.now_us.cast_signed()))?;
        Ok(true)
    }

    pub(super) fn settings(&self) -> Result<Settings, Error> {
        let Known { offering, working, .. } = &self.is;
        Settings::read(self.name, offering.as_deref(), working.as_deref())
    }

    pub(super) fn change(&mut self, settings: &Settings) -> Result<(), Error> {
        if let Some(offering) = &settings.offering {
            self.offered_to(offering);
        }
        if let Some(working) = &settings.working {
            self.worked_on(working);
            self.keep_done()?;
        }
        Ok(())
    }

    pub(super) fn remove_all(&self) -> Result<bool, Error> {
        for table in ["queue_jobs", "queue_dead", "queue_done", "queue_once", "queue_clients"] {
            let sql = format!("DELETE FROM {table} WHERE queue = ?1");
            self.tx.execute(&sql, [self.is.id])?;
        }
        self.tx.execute("DELETE FROM queues WHERE id = ?1", [self.is.id])?;
        Ok(self.settings()? != Settings::default())
    }

    pub(super) fn stats(&self) -> Result<Stats, Error> {
        let sql = "SELECT ms FROM queue_jobs WHERE queue = ?1 AND due_us IS NULL
                   ORDER BY ms, number LIMIT 1";
        let oldest = self.tx.first(sql, [self.is.id], |row| number(row, 0))?;
        let oldest = oldest.map(|ms| self.now_us.saturating_sub(ms.saturating_mul(1_000)));
        Ok(Stats { oldest: oldest.map(Duration::from_micros), ..self.is.totals })
    }

    pub(super) fn waiting(&self, most: usize) -> Result<Vec<WaitingJob>, Error> {
        let sql = "SELECT ms, number, body, client FROM queue_jobs
                   WHERE queue = ?1 AND due_us IS NULL ORDER BY ms, number LIMIT ?2";
        Ok(self.tx.rows(sql, (self.is.id, most as i64), |row| {
            let (id, client) = (id(row, 0)?, client(row, 3)?);
            let body = body(row, 2)?.unwrap_or_else(|(body, _)| body);
            Ok(WaitingJob { id, age: id.age(self.now_us), client, body })
        })?)
    }

    pub(super) fn in_hand(&self, most: usize) -> Result<Vec<OutJob>, Error> {
        let sql = "SELECT ms, number, deliveries, held, due_us, why, body, client FROM queue_jobs
                   WHERE queue = ?1 AND due_us IS NOT NULL ORDER BY due_us, ms, number LIMIT ?2";
        Ok(self.tx.rows(sql, (self.is.id, most as i64), |row| {
            let id = id(row, 0)?;
            let back = number(row, 4)?.saturating_sub(self.now_us);
            Ok(OutJob {
                id,
                deliveries: row.get(2)?,
                is_held: row.get(3)?,
                age: id.age(self.now_us),
                back: Duration::from_micros(back),
                why: row.get(5)?,
                client: client(row, 7)?,
                body: body(row, 6)?.unwrap_or_else(|(body, _)| body),
            })
        })?)
    }

    pub(super) fn done_jobs(&self, most: usize) -> Result<Vec<DoneJob>, Error> {
        let sql = "SELECT ms, number, deliveries, body FROM queue_done WHERE queue = ?1
                   ORDER BY id LIMIT ?2";
        let rows = self.tx.rows(sql, (self.is.id, most as i64), |row| {
            Ok((id(row, 0)?, row.get::<_, u32>(2)?, body(row, 3)?))
        })?;
        let done = rows.into_iter().map(|(id, deliveries, body)| {
            let body = body.unwrap_or_else(|(body, _)| body);
            DoneJob { id, deliveries, body }
        });
        Ok(done.collect())
    }

    /// Dead jobs by a condition, the oldest first.
    pub(super) fn dead(
        &self,
        which: &str,
        params: impl rusqlite::Params,
    ) -> Result<Vec<(i64, Dead)>, Error> {
        let sql = format!(
            "SELECT id, ms, number, deliveries, why, body, client, once FROM queue_dead
             WHERE queue = ?1 {which}"
        );
        Ok(self.tx.rows(&sql, params, |row| {
            let dead = Dead {
                id: id(row, 1)?,
                deliveries: row.get(3)?,
                why: row.get(4)?,
                client: client(row, 6)?,
                once: once(row, 7)?,
                body: body(row, 5)?.unwrap_or_else(|(body, _)| body),
            };
            Ok((row.get::<_, i64>(0)?, dead))
        })?)
    }

    pub(super) fn take_dead(&mut self, id: JobId) -> Result<Option<Dead>, Error> {
        let place = (self.is.id, id.ms().cast_signed(), id.number().cast_signed());
        let found = self.dead("AND ms = ?2 AND number = ?3", place)?;
        let Some((row, dead)) = found.into_iter().next() else { return Ok(None) };
        self.tx.execute("DELETE FROM queue_dead WHERE id = ?1", [row])?;
        self.is.totals.dead -= 1;
        Ok(Some(dead))
    }

    pub(super) fn forget_dead(&mut self, id: JobId) -> Result<Option<Dead>, Error> {
        let dead = self.take_dead(id)?;
        if let Some(once) = dead.as_ref().and_then(|dead| dead.once.as_ref()) {
            let (ms, number) = (once.of.ms().cast_signed(), once.of.number().cast_signed());
            // Another may have been accepted under it since.
            let sql = "DELETE FROM queue_once
                       WHERE queue = ?1 AND once = ?2 AND ms = ?3 AND number = ?4";
            self.tx.execute(sql, (self.is.id, &*once.id, ms, number))?;
        }
        Ok(dead)
    }
}

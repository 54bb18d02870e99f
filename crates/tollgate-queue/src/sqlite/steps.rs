//! Each operation on a queue in a file, in one transaction: what [`crate::Model`] does, by rows.

use core::time::Duration;

use tollgate::engine::Mode;
use tollgate::{Counted, LimitSet, Question, Subject};
use tollgate_sqlite::rusqlite;

use super::rows::{
    InFlight, QueueRow, QueueTx, body, client, dedup, id, number, optional_number, read_in_flight,
};
use crate::body::{Body, Fields};
use crate::error::Error;
use crate::job::{
    DeadLetter, Delivery, DeliveryTag, DoneJob, InFlightJob, Job, JobId, TakeOutcome, WaitingJob,
};
use crate::model::{Grant, NackOutcome, OfferOutcome, SCAN_MARGIN, Stats};
use crate::settings::{ConsumerSettings, ProducerSettings, Settings, micros, settings_mismatch};

impl QueueTx<'_, '_> {
    fn check_producer(&mut self, producer: &ProducerSettings) -> Result<(), Error> {
        let asked = producer.to_text();
        match &self.row.producer {
            Some(made) if *made == asked => Ok(()),
            Some(made) => {
                Err(settings_mismatch(self.name, made, producer, ProducerSettings::parse))
            }
            None => {
                self.set_producer(producer);
                Ok(())
            }
        }
    }

    fn set_producer(&mut self, producer: &ProducerSettings) {
        self.row.producer = Some(producer.to_text());
        self.row.counts_all = producer.counts_all();
    }

    fn set_consumer(&mut self, consumer: &ConsumerSettings) {
        self.row.consumer = Some(consumer.to_text());
        self.row.keep_done = u32::try_from(consumer.kept_done()).unwrap_or(u32::MAX);
    }

    fn check_consumer(&self, consumer: &ConsumerSettings) -> Result<(), Error> {
        match &self.row.consumer {
            Some(made) if *made != consumer.to_text() => {
                Err(settings_mismatch(self.name, made, consumer, ConsumerSettings::parse))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn offer(
        &mut self,
        producer: &ProducerSettings,
        job: &Job,
    ) -> Result<OfferOutcome, Error> {
        self.check_producer(producer)?;
        let queue = self.row.id;
        if let Some(dedup) = job.requested_dedup_id() {
            let sql = "DELETE FROM queue_once WHERE queue = ?1 AND once IN
                       (SELECT once FROM queue_once WHERE queue = ?1 AND until_us <= ?2 LIMIT ?3)";
            self.tx.execute(sql, (queue, self.now_us.cast_signed(), SCAN_MARGIN as i64))?;
            let sql = "SELECT ms, number FROM queue_once
                       WHERE queue = ?1 AND once = ?2 AND until_us > ?3";
            let known =
                self.tx.first(sql, (queue, dedup, self.now_us.cast_signed()), |row| id(row, 0))?;
            if let Some(id) = known {
                self.row.totals.duplicates += 1;
                return Ok(OfferOutcome::Duplicate { id });
            }
        }
        let Stats { waiting, in_flight, .. } = self.row.totals;
        let depth = waiting + if producer.counts_all() { in_flight } else { 0 };
        if depth >= producer.bound() {
            self.row.totals.refused += 1;
            let retry_after = self.row.drain.time_to_next(self.now_us);
            return Ok(OfferOutcome::Full { depth, retry_after });
        }
        if let Some(of_client) = self.client_over_bound(producer, job)? {
            self.row.totals.refused += 1;
            return Ok(OfferOutcome::ClientFull { of_client });
        }
        self.row.last = self.row.last.next(self.now_us / 1_000);
        let id = self.row.last;
        let (ms, number) = (id.ms().cast_signed(), id.number().cast_signed());
        if let Some(dedup) = job.requested_dedup_id()
            && producer.dedup_window_us() > 0
        {
            let until_us = self.now_us.saturating_add(producer.dedup_window_us()).cast_signed();
            let sql = "INSERT OR REPLACE INTO queue_once VALUES (?1, ?2, ?3, ?4, ?5)";
            self.tx.execute(sql, (queue, dedup, ms, number, until_us))?;
        }
        let until_us = job.deadline_us().map(|it| self.now_us.saturating_add(it).cast_signed());
        let client = job.client_name().map(|client| &**client);
        let dedup =
            job.dedup_record(id, producer.dedup_window_us() > 0).map(|dedup| dedup.to_string());
        let sql = "INSERT INTO queue_jobs (queue, ms, number, until_us, client, once, body)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        match job.body() {
            Body::Bytes(bytes) => {
                self.tx.execute(sql, (queue, ms, number, until_us, client, dedup, &bytes[..]))?;
            }
            Body::Fields(fields) => {
                let json = serde_json::to_string(&Fields(fields));
                let json = json.map_err(|error| Error::invalid(error.to_string()))?;
                self.tx.execute(sql, (queue, ms, number, until_us, client, dedup, json))?;
            }
        }
        self.row.totals.waiting += 1;
        self.row.totals.accepted += 1;
        Ok(OfferOutcome::Accepted { id, depth: depth + 1 })
    }

    /// How many of the job's client are counted, where these are as many as may be.
    fn client_over_bound(
        &self,
        producer: &ProducerSettings,
        job: &Job,
    ) -> Result<Option<u64>, Error> {
        let (Some(client), Some(max)) = (job.client_name(), producer.max_per_client()) else {
            return Ok(None);
        };
        let sql = "SELECT waiting + ?3 * out FROM queue_clients WHERE queue = ?1 AND client = ?2";
        let params = (self.row.id, &**client, producer.counts_all());
        let of_client = self.tx.first(sql, params, |row| number(row, 0))?.unwrap_or(0);
        Ok((of_client >= max).then_some(of_client))
    }

    pub(super) fn take(
        &mut self,
        consumer: &ConsumerSettings,
        worker: &str,
        max: usize,
    ) -> Result<TakeOutcome, Error> {
        self.check_consumer(consumer)?;
        if self.row.consumer.is_none() {
            self.set_consumer(consumer);
        }
        if self.row.totals.paused {
            return Ok(TakeOutcome { paused: true, ..TakeOutcome::default() });
        }
        let (back, more_back) = self.due_again(consumer, max)?;
        let (fresh, more_fresh) = self.undelivered(max - back.len())?;
        let there = back.len() + fresh.len();
        let granted = match (there, consumer.limits()) {
            (0, _) | (_, None) => Grant { jobs: there, next: None },
            (there, Some(limits)) => self.grant(limits, there)?,
        };
        let due_us = self.now_us.saturating_add(consumer.visibility_us()).cast_signed();
        let sql = "UPDATE queue_jobs SET deliveries = deliveries + 1, held = 1, due_us = ?2,
                                         worker = ?3
                   WHERE id = ?1 RETURNING ms, number, deliveries, body";
        let (mut jobs, mut foreign) = (Vec::with_capacity(granted.jobs), Vec::new());
        for row in back.iter().chain(&fresh).take(granted.jobs) {
            let taken = self.tx.first(sql, (row, due_us, worker), |row| {
                Ok((id(row, 0)?, row.get::<_, u32>(2)?, body(row, 3)?))
            })?;
            let Some((id, attempt, body)) = taken else { continue };
            match body {
                Ok(body) => jobs.push(Delivery { id, attempt, body }),
                Err((_, reason)) => foreign.push((id, reason)),
            }
        }
        let delivered = jobs.len() + foreign.len();
        let again = delivered.min(back.len()) as u64;
        let first = delivered as u64 - again;
        self.row.totals.redelivered += again;
        self.row.totals.delivered += first;
        self.row.totals.waiting -= first;
        self.row.totals.in_flight += first;
        if !self.row.counts_all {
            self.count_drained(first);
        }
        for (id, reason) in &foreign {
            if let Some(out) = self.find_in_flight(*id)? {
                self.tx
                    .execute("UPDATE queue_jobs SET why = ?2 WHERE id = ?1", (out.row, reason))?;
                self.dead_letter(&out, consumer)?;
            }
        }
        let next = if delivered == max {
            Some(Duration::ZERO)
        } else if granted.jobs < there {
            granted.next
        } else if more_back || more_fresh {
            Some(Duration::ZERO)
        } else {
            let sql = "SELECT min(due_us) FROM queue_jobs WHERE queue = ?1 AND due_us IS NOT NULL";
            let due = self.tx.first(sql, [self.row.id], |row| optional_number(row, 0))?.flatten();
            due.map(|due| Duration::from_micros(due.saturating_sub(self.now_us)))
        };
        Ok(TakeOutcome { jobs, next, foreign, ..TakeOutcome::default() })
    }

    /// As many have left what the bound counts.
    fn count_drained(&mut self, many: u64) {
        for _ in 0..many {
            self.row.drain.count(self.now_us);
        }
    }

    /// How many of `there` the limits let through, in this transaction.
    fn grant(&self, limits: &LimitSet, there: usize) -> Result<Grant, Error> {
        let subject = Subject::of("queue", self.name);
        let subject = subject.map_err(|error| Error::invalid(error.to_string()))?;
        Grant::from_rate(there, |cost| {
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
    fn due_again(
        &mut self,
        consumer: &ConsumerSettings,
        max: usize,
    ) -> Result<(Vec<i64>, bool), Error> {
        let look = max.saturating_add(SCAN_MARGIN);
        let sql = "SELECT id, until_us, deliveries, held FROM queue_jobs
                   WHERE queue = ?1 AND due_us <= ?2 ORDER BY due_us, ms, number LIMIT ?3";
        let due = self.tx.rows(
            sql,
            (self.row.id, self.now_us.cast_signed(), look as i64),
            read_in_flight,
        )?;
        let is_cut = due.len() == look;
        let mut back = Vec::new();
        for out in due {
            if back.len() == max {
                break;
            }
            if out.until_us.is_some_and(|until_us| until_us <= self.now_us) {
                self.remove(&out)?;
                self.row.totals.expired += 1;
            } else if consumer.is_exhausted(out.deliveries) {
                self.dead_letter(&out, consumer)?;
            } else {
                back.push(out.row);
            }
        }
        Ok((back, is_cut))
    }

    /// As [`crate::Model`] has it: the first that wait, up to `most`.
    fn undelivered(&mut self, max: usize) -> Result<(Vec<i64>, bool), Error> {
        let look = max.saturating_add(SCAN_MARGIN);
        let sql = "SELECT id, ms, number, until_us FROM queue_jobs
                   WHERE queue = ?1 AND due_us IS NULL AND (ms, number) > (?2, ?3)
                   ORDER BY ms, number LIMIT ?4";
        let (mut fresh, mut looked) = (Vec::new(), 0);
        // Before the first id there is.
        let mut from = (-1_i64, -1_i64);
        while fresh.len() < max && looked < look {
            let many = (max - fresh.len()).min(look - looked);
            let rows = self.tx.rows(sql, (self.row.id, from.0, from.1, many as i64), |row| {
                Ok((row.get::<_, i64>(0)?, (row.get(1)?, row.get(2)?), optional_number(row, 3)?))
            })?;
            looked += rows.len();
            let is_end = rows.len() < many;
            for (row, column, until_us) in rows {
                from = column;
                if until_us.is_some_and(|until_us| until_us <= self.now_us) {
                    self.tx.execute("DELETE FROM queue_jobs WHERE id = ?1", [row])?;
                    self.row.totals.waiting -= 1;
                    self.row.totals.expired += 1;
                    self.count_drained(1);
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
    fn find_in_flight(&self, id: JobId) -> Result<Option<InFlight>, Error> {
        let sql = "SELECT id, until_us, deliveries, held FROM queue_jobs
                   WHERE queue = ?1 AND ms = ?2 AND number = ?3 AND due_us IS NOT NULL";
        let column = (self.row.id, id.ms().cast_signed(), id.number().cast_signed());
        Ok(self.tx.first(sql, column, read_in_flight)?)
    }

    fn find_delivery(&self, tag: DeliveryTag) -> Result<Option<InFlight>, Error> {
        let out = self.find_in_flight(tag.id)?;
        Ok(out.filter(|out| out.is_held && out.deliveries == tag.attempt))
    }

    /// Removes a job that is out.
    fn remove(&mut self, out: &InFlight) -> Result<(), Error> {
        self.tx.execute("DELETE FROM queue_jobs WHERE id = ?1", [out.row])?;
        self.row.totals.in_flight -= 1;
        if self.row.counts_all {
            self.count_drained(1);
        }
        Ok(())
    }

    fn dead_letter(&mut self, out: &InFlight, consumer: &ConsumerSettings) -> Result<(), Error> {
        let sql = "INSERT INTO queue_dead (queue, ms, number, deliveries, why, body, client, once)
                   SELECT queue, ms, number, deliveries, why, body, client, once
                   FROM queue_jobs WHERE id = ?1";
        self.tx.execute(sql, [out.row])?;
        self.remove(out)?;
        self.row.totals.died += 1;
        self.row.totals.dead += 1;
        while self.row.totals.dead > consumer.kept_dead() as u64 {
            let sql = "DELETE FROM queue_dead WHERE id =
                       (SELECT id FROM queue_dead WHERE queue = ?1 ORDER BY id LIMIT 1)";
            self.tx.execute(sql, [self.row.id])?;
            self.row.totals.dead -= 1;
        }
        Ok(())
    }

    pub(super) fn ack(&mut self, ids: &[JobId]) -> Result<u64, Error> {
        let mut done = 0;
        for id in ids {
            if let Some(out) = self.find_in_flight(*id)? {
                if self.row.keep_done > 0 {
                    let sql = "INSERT INTO queue_done (queue, ms, number, deliveries, body)
                               SELECT queue, ms, number, deliveries, body FROM queue_jobs
                               WHERE id = ?1";
                    self.tx.execute(sql, [out.row])?;
                }
                self.remove(&out)?;
                done += 1;
            }
        }
        if self.row.keep_done > 0 {
            self.trim_done()?;
        }
        self.row.totals.done += done;
        Ok(done)
    }

    /// The oldest of the done go beyond as many as are kept.
    fn trim_done(&self) -> Result<(), Error> {
        let sql = "DELETE FROM queue_done WHERE queue = ?1 AND id <=
                   (SELECT id FROM queue_done WHERE queue = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)";
        self.tx.execute(sql, (self.row.id, self.row.keep_done))?;
        Ok(())
    }

    pub(super) fn nack(
        &mut self,
        consumer: &ConsumerSettings,
        tag: DeliveryTag,
        after: Duration,
        reason: &str,
    ) -> Result<NackOutcome, Error> {
        self.check_consumer(consumer)?;
        let Some(out) = self.find_delivery(tag)? else { return Ok(NackOutcome::Lost) };
        let sql = "UPDATE queue_jobs SET why = ?2, held = 0, due_us = ?3 WHERE id = ?1";
        let reason = (!reason.is_empty()).then_some(reason);
        let due_us = self.now_us.saturating_add(micros(after)).cast_signed();
        self.tx.execute(sql, (out.row, reason, due_us))?;
        if consumer.is_exhausted(out.deliveries) {
            self.dead_letter(&out, consumer)?;
            return Ok(NackOutcome::DeadLettered);
        }
        Ok(NackOutcome::Requeued)
    }

    pub(super) fn extend(
        &self,
        consumer: &ConsumerSettings,
        tag: DeliveryTag,
    ) -> Result<bool, Error> {
        self.check_consumer(consumer)?;
        let Some(out) = self.find_delivery(tag)? else { return Ok(false) };
        let due_us = self.now_us.saturating_add(consumer.visibility_us()).cast_signed();
        self.tx.execute("UPDATE queue_jobs SET due_us = ?2 WHERE id = ?1", (out.row, due_us))?;
        Ok(true)
    }

    pub(super) fn release(&self, tag: DeliveryTag) -> Result<bool, Error> {
        let Some(out) = self.find_delivery(tag)? else { return Ok(false) };
        let sql = "UPDATE queue_jobs SET deliveries = deliveries - 1, held = 0, due_us = ?2
                   WHERE id = ?1";
        self.tx.execute(sql, (out.row, self.now_us.cast_signed()))?;
        Ok(true)
    }

    pub(super) fn settings(&self) -> Result<Settings, Error> {
        let QueueRow { producer, consumer, .. } = &self.row;
        Settings::parse(self.name, producer.as_deref(), consumer.as_deref())
    }

    pub(super) fn change(&mut self, settings: &Settings) -> Result<(), Error> {
        if let Some(producer) = &settings.producer {
            self.set_producer(producer);
        }
        if let Some(consumer) = &settings.consumer {
            self.set_consumer(consumer);
            self.trim_done()?;
        }
        Ok(())
    }

    pub(super) fn remove_all(&self) -> Result<bool, Error> {
        for table in ["queue_jobs", "queue_dead", "queue_done", "queue_once", "queue_clients"] {
            let sql = format!("DELETE FROM {table} WHERE queue = ?1");
            self.tx.execute(&sql, [self.row.id])?;
        }
        self.tx.execute("DELETE FROM queues WHERE id = ?1", [self.row.id])?;
        Ok(self.settings()? != Settings::default())
    }

    pub(super) fn stats(&self) -> Result<Stats, Error> {
        let sql = "SELECT ms FROM queue_jobs WHERE queue = ?1 AND due_us IS NULL
                   ORDER BY ms, number LIMIT 1";
        let oldest = self.tx.first(sql, [self.row.id], |row| number(row, 0))?;
        let oldest = oldest.map(|ms| self.now_us.saturating_sub(ms.saturating_mul(1_000)));
        Ok(Stats { oldest: oldest.map(Duration::from_micros), ..self.row.totals })
    }

    pub(super) fn waiting(&self, max: usize) -> Result<Vec<WaitingJob>, Error> {
        let sql = "SELECT ms, number, body, client FROM queue_jobs
                   WHERE queue = ?1 AND due_us IS NULL ORDER BY ms, number LIMIT ?2";
        Ok(self.tx.rows(sql, (self.row.id, max as i64), |row| {
            let (id, client) = (id(row, 0)?, client(row, 3)?);
            let body = body(row, 2)?.unwrap_or_else(|(body, _)| body);
            Ok(WaitingJob { id, age: id.age(self.now_us), client, body })
        })?)
    }

    pub(super) fn in_flight(&self, max: usize) -> Result<Vec<InFlightJob>, Error> {
        let sql = "SELECT ms, number, deliveries, held, due_us, why, body, client FROM queue_jobs
                   WHERE queue = ?1 AND due_us IS NOT NULL ORDER BY due_us, ms, number LIMIT ?2";
        Ok(self.tx.rows(sql, (self.row.id, max as i64), |row| {
            let id = id(row, 0)?;
            let back = number(row, 4)?.saturating_sub(self.now_us);
            Ok(InFlightJob {
                id,
                deliveries: row.get(2)?,
                is_held: row.get(3)?,
                age: id.age(self.now_us),
                due_in: Duration::from_micros(back),
                reason: row.get(5)?,
                client: client(row, 7)?,
                body: body(row, 6)?.unwrap_or_else(|(body, _)| body),
            })
        })?)
    }

    pub(super) fn done_jobs(&self, max: usize) -> Result<Vec<DoneJob>, Error> {
        let sql = "SELECT ms, number, deliveries, body FROM queue_done WHERE queue = ?1
                   ORDER BY id LIMIT ?2";
        let rows = self.tx.rows(sql, (self.row.id, max as i64), |row| {
            Ok((id(row, 0)?, row.get::<_, u32>(2)?, body(row, 3)?))
        })?;
        let done = rows.into_iter().map(|(id, deliveries, body)| {
            let body = body.unwrap_or_else(|(body, _)| body);
            DoneJob { id, deliveries, body }
        });
        Ok(done.collect())
    }

    /// Dead jobs by a condition, the oldest first.
    pub(super) fn dead_letters(
        &self,
        which: &str,
        params: impl rusqlite::Params,
    ) -> Result<Vec<(i64, DeadLetter)>, Error> {
        let sql = format!(
            "SELECT id, ms, number, deliveries, why, body, client, once FROM queue_dead
             WHERE queue = ?1 {which}"
        );
        Ok(self.tx.rows(&sql, params, |row| {
            let dead = DeadLetter {
                id: id(row, 1)?,
                deliveries: row.get(3)?,
                reason: row.get(4)?,
                client: client(row, 6)?,
                dedup: dedup(row, 7)?,
                body: body(row, 5)?.unwrap_or_else(|(body, _)| body),
            };
            Ok((row.get::<_, i64>(0)?, dead))
        })?)
    }

    pub(super) fn take_dead_letter(&mut self, id: JobId) -> Result<Option<DeadLetter>, Error> {
        let column = (self.row.id, id.ms().cast_signed(), id.number().cast_signed());
        let found = self.dead_letters("AND ms = ?2 AND number = ?3", column)?;
        let Some((row, dead)) = found.into_iter().next() else { return Ok(None) };
        self.tx.execute("DELETE FROM queue_dead WHERE id = ?1", [row])?;
        self.row.totals.dead -= 1;
        Ok(Some(dead))
    }

    pub(super) fn forget_dead_letter(&mut self, id: JobId) -> Result<Option<DeadLetter>, Error> {
        let dead = self.take_dead_letter(id)?;
        if let Some(dedup) = dead.as_ref().and_then(|dead| dead.dedup.as_ref()) {
            let (ms, number) = (dedup.of.ms().cast_signed(), dedup.of.number().cast_signed());
            // Another may have been accepted under it since.
            let sql = "DELETE FROM queue_once
                       WHERE queue = ?1 AND once = ?2 AND ms = ?3 AND number = ?4";
            self.tx.execute(sql, (self.row.id, &*dedup.id, ms, number))?;
        }
        Ok(dead)
    }
}

//! Inspects, changes and removes a queue in a file.

use core::time::Duration;

use tollgate_sqlite::rusqlite;

use super::rows::{QueueRow, QueueTx, body, client, dedup, id, number};
use crate::error::Error;
use crate::job::{DeadLetter, DoneJob, InFlightJob, JobId, WaitingJob};
use crate::settings::Settings;
use crate::stats::Stats;

impl QueueTx<'_, '_> {
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

    /// Dead jobs that match a condition, the oldest first.
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
            // Another job may have been accepted under the same id since.
            let sql = "DELETE FROM queue_once
                       WHERE queue = ?1 AND once = ?2 AND ms = ?3 AND number = ?4";
            self.tx.execute(sql, (self.row.id, &*dedup.id, ms, number))?;
        }
        Ok(dead)
    }
}

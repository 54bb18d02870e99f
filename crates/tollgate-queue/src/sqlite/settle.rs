//! The outcomes of jobs taken from a queue in a file.

use core::time::Duration;

use super::rows::{InFlight, QueueTx, read_in_flight};
use crate::error::Error;
use crate::job::{DeliveryTag, JobId};
use crate::outcome::NackOutcome;
use crate::settings::{ConsumerSettings, micros, settings_mismatch};

impl QueueTx<'_, '_> {
    pub(super) fn set_consumer(&mut self, consumer: &ConsumerSettings) {
        self.row.consumer = Some(consumer.to_text());
        self.row.keep_done = u32::try_from(consumer.kept_done()).unwrap_or(u32::MAX);
    }

    pub(super) fn check_consumer(&self, consumer: &ConsumerSettings) -> Result<(), Error> {
        match &self.row.consumer {
            Some(made) if *made != consumer.to_text() => {
                Err(settings_mismatch(self.name, made, consumer, ConsumerSettings::parse))
            }
            _ => Ok(()),
        }
    }

    /// A job in flight.
    pub(super) fn find_in_flight(&self, id: JobId) -> Result<Option<InFlight>, Error> {
        let sql = "SELECT id, until_us, deliveries, held FROM queue_jobs
                   WHERE queue = ?1 AND ms = ?2 AND number = ?3 AND due_us IS NOT NULL";
        let column = (self.row.id, id.ms().cast_signed(), id.number().cast_signed());
        Ok(self.tx.first(sql, column, read_in_flight)?)
    }

    pub(super) fn find_delivery(&self, tag: DeliveryTag) -> Result<Option<InFlight>, Error> {
        let out = self.find_in_flight(tag.id)?;
        Ok(out.filter(|out| out.is_held && out.deliveries == tag.attempt))
    }

    /// Removes a job in flight.
    pub(super) fn remove(&mut self, out: &InFlight) -> Result<(), Error> {
        self.tx.execute("DELETE FROM queue_jobs WHERE id = ?1", [out.row])?;
        self.row.totals.in_flight -= 1;
        if self.row.counts_all {
            self.count_drained(1);
        }
        Ok(())
    }

    pub(super) fn dead_letter(
        &mut self,
        out: &InFlight,
        consumer: &ConsumerSettings,
    ) -> Result<(), Error> {
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

    /// Drops the oldest done jobs beyond the number to keep.
    pub(super) fn trim_done(&self) -> Result<(), Error> {
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
}

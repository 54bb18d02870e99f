//! Taking jobs from a queue in a file.

use core::time::Duration;

use tollgate::engine::Mode;
use tollgate::{Counted, LimitSet, Question, Subject};

use super::rows::{QueueTx, body, id, optional_number, read_in_flight};
use crate::error::Error;
use crate::grant::Grant;
use crate::job::{Delivery, TakeOutcome};
use crate::model::SCAN_MARGIN;
use crate::settings::ConsumerSettings;

impl QueueTx<'_, '_> {
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

    /// Counts jobs that left what the bound counts.
    pub(super) fn count_drained(&mut self, many: u64) {
        for _ in 0..many {
            self.row.drain.count(self.now_us);
        }
    }

    /// How many of `there` jobs the rate limits admit, in this transaction.
    pub(super) fn grant(&self, limits: &LimitSet, there: usize) -> Result<Grant, Error> {
        let subject = Subject::new("queue", self.name);
        let subject = subject.map_err(|error| Error::invalid(error.to_string()))?;
        Grant::from_rate(there, |cost| {
            let parts = [Counted::new(&subject, limits)];
            let outcome = self.tx.check(&Question::new(&parts, cost, Mode::Partial))?;
            let waits = outcome.fields.iter().map(|field| field.retry_after_us);
            let wait = waits.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max());
            let wait = wait.filter(|_| outcome.granted == 0);
            Ok((outcome.granted, wait.map(Duration::from_micros)))
        })
    }

    /// As in [`crate::Model`]: rows due for redelivery, and whether there are more that were not
    /// examined.
    pub(super) fn due_again(
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

    /// As in [`crate::Model`]: the first waiting jobs, up to `max`.
    pub(super) fn undelivered(&mut self, max: usize) -> Result<(Vec<i64>, bool), Error> {
        let look = max.saturating_add(SCAN_MARGIN);
        let sql = "SELECT id, ms, number, until_us FROM queue_jobs
                   WHERE queue = ?1 AND due_us IS NULL AND (ms, number) > (?2, ?3)
                   ORDER BY ms, number LIMIT ?4";
        let (mut fresh, mut looked) = (Vec::new(), 0);
        // Before the first possible id.
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
}

//! Offers to a queue in a file.

use super::rows::{QueueTx, id, number};
use crate::body::{Body, Fields};
use crate::error::Error;
use crate::job::Job;
use crate::model::SCAN_MARGIN;
use crate::outcome::OfferOutcome;
use crate::settings::{ProducerSettings, settings_mismatch};
use crate::stats::Stats;

impl QueueTx<'_, '_> {
    pub(super) fn check_producer(&mut self, producer: &ProducerSettings) -> Result<(), Error> {
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

    pub(super) fn set_producer(&mut self, producer: &ProducerSettings) {
        self.row.producer = Some(producer.to_text());
        self.row.counts_all = producer.counts_all();
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

    /// The number of the client's counted jobs, if that is the most allowed.
    pub(super) fn client_over_bound(
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
}

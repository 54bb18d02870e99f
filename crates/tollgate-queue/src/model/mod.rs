//! The model of a queue: its state, and the effect of each operation. It has no clock and no I/O;
//! all stores behave like it.

mod inspect;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use crate::body::Body;
use crate::drain::Drain;
use crate::error::Error;
use crate::grant::Grant;
use crate::job::{
    DeadLetter, DedupRecord, Delivery, DeliveryTag, DoneJob, Job, JobId, TakeOutcome,
};
use crate::outcome::{NackOutcome, OfferOutcome};
use crate::settings::{ConsumerSettings, ProducerSettings, Settings, check_same, micros};
use crate::stats::Stats;

/// How many jobs more than wanted one `take` examines, when the first ones are past their deadline
/// or their last delivery. This bounds its time.
pub(crate) const SCAN_MARGIN: usize = 256;

/// A queue.
#[derive(Clone, Debug, Default)]
pub struct Model {
    producer: Option<ProducerSettings>,
    consumer: Option<ConsumerSettings>,
    last: JobId,
    waiting: VecDeque<Waiting>,
    in_flight: BTreeMap<JobId, InFlight>,
    /// The times of redelivery of all jobs in flight.
    due: BTreeSet<(u64, JobId)>,
    /// The waiting jobs and those in flight of each client; clients without any are removed.
    clients: HashMap<Arc<str>, ClientCounts>,
    dead: VecDeque<DeadLetter>,
    /// The done jobs that are kept, the oldest first.
    done: VecDeque<DoneJob>,
    /// The remembered deduplication ids, each with its job and its expiry. `seen_expiry` lists them
    /// in the order of expiry.
    seen_ids: HashMap<String, (JobId, u64)>,
    seen_expiry: VecDeque<(u64, String)>,
    drain: Drain,
    /// Includes whether the queue is paused.
    totals: Stats,
}

#[derive(Clone, Debug)]
struct Waiting {
    id: JobId,
    client: Option<Arc<str>>,
    dedup: Option<DedupRecord>,
    /// The deadline of the job.
    until_us: u64,
    body: Body,
}

/// The numbers of a client's jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct ClientCounts {
    waiting: u64,
    out: u64,
}

/// A job that was delivered and is not done.
#[derive(Clone, Debug)]
struct InFlight {
    job: Waiting,
    deliveries: u32,
    /// When it is redelivered.
    due_us: u64,
    /// Whether a worker holds it.
    is_held: bool,
    reason: Option<String>,
}

impl Model {
    /// An empty queue without settings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn check_producer(&mut self, name: &str, settings: &ProducerSettings) -> Result<(), Error> {
        let made = self.producer.get_or_insert_with(|| settings.clone());
        check_same(name, made, settings)
    }

    /// The first worker sets the settings for workers; the others must have the same.
    fn check_consumer(&self, name: &str, settings: &ConsumerSettings) -> Result<(), Error> {
        self.consumer.as_ref().map_or(Ok(()), |made| check_same(name, made, settings))
    }

    /// The settings for producers and workers.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings { producer: self.producer.clone(), consumer: self.consumer.clone() }
    }

    /// Changes the settings that are given. The times of redelivery stay the same, and waiting jobs
    /// beyond a lower bound stay in the queue.
    pub fn change(&mut self, settings: &Settings) {
        let Settings { producer, consumer } = settings;
        self.producer = producer.clone().or(self.producer.take());
        self.consumer = consumer.clone().or(self.consumer.take());
        self.trim_done();
    }

    /// Adds a job, unless the queue is full or knows its deduplication id.
    ///
    /// # Errors
    /// The queue has other [`ProducerSettings`].
    pub fn offer(
        &mut self,
        now_us: u64,
        name: &str,
        settings: &ProducerSettings,
        job: &Job,
    ) -> Result<OfferOutcome, Error> {
        self.check_producer(name, settings)?;
        self.forget_expired(now_us);
        if let Some((id, until_us)) =
            job.requested_dedup_id().and_then(|dedup| self.seen_ids.get(dedup))
            && *until_us > now_us
        {
            self.totals.duplicates += 1;
            return Ok(OfferOutcome::Duplicate { id: *id });
        }
        let depth = self.depth(settings);
        if depth >= settings.bound() {
            self.totals.refused += 1;
            return Ok(OfferOutcome::Full { depth, retry_after: self.drain.time_to_next(now_us) });
        }
        if let (Some(client), Some(max)) = (job.client_name(), settings.max_per_client()) {
            let ClientCounts { waiting, out } =
                self.clients.get(client).copied().unwrap_or_default();
            let of_client = waiting + if settings.counts_all() { out } else { 0 };
            if of_client >= max {
                self.totals.refused += 1;
                return Ok(OfferOutcome::ClientFull { of_client });
            }
        }
        self.last = self.last.next(now_us / 1_000);
        let id = self.last;
        if let Some(dedup) = job.requested_dedup_id() {
            let until_us = now_us.saturating_add(settings.dedup_window_us());
            self.seen_ids.insert(dedup.to_owned(), (id, until_us));
            self.seen_expiry.push_back((until_us, dedup.to_owned()));
        }
        let until_us = job.deadline_us().map_or(u64::MAX, |it| now_us.saturating_add(it));
        let (client, body) = (job.client_name().cloned(), job.body().clone());
        self.count(client.as_ref(), |of| of.waiting += 1);
        let dedup = job.dedup_record(id, settings.dedup_window_us() > 0);
        self.waiting.push_back(Waiting { id, client, dedup, until_us, body });
        self.totals.accepted += 1;
        Ok(OfferOutcome::Accepted { id, depth: depth + 1 })
    }

    /// Changes the counts of this client; a client without jobs is removed.
    fn count(&mut self, client: Option<&Arc<str>>, becomes: impl FnOnce(&mut ClientCounts)) {
        let Some(client) = client else { return };
        let of = self.clients.entry(Arc::clone(client)).or_default();
        becomes(of);
        if *of == ClientCounts::default() {
            self.clients.remove(client);
        }
    }

    /// Forgets expired ids, a few at a time.
    fn forget_expired(&mut self, now_us: u64) {
        for _ in 0..SCAN_MARGIN {
            match self.seen_expiry.front() {
                Some((until_us, _)) if *until_us <= now_us => {}
                _ => return,
            }
            let Some((until_us, id)) = self.seen_expiry.pop_front() else { return };
            // The id may have been accepted again since.
            if self.seen_ids.get(&id).is_some_and(|(_, until)| *until == until_us) {
                self.seen_ids.remove(&id);
            }
        }
    }

    /// The number of jobs that the bound counts.
    fn depth(&self, settings: &ProducerSettings) -> u64 {
        let out = if settings.counts_all() { self.in_flight.len() } else { 0 };
        (self.waiting.len() + out) as u64
    }

    /// Takes at most `max` jobs. `grant` returns how many of the available jobs may be delivered;
    /// it is not called when there are none.
    ///
    /// # Errors
    /// The queue has other [`ConsumerSettings`], or `grant` failed.
    #[doc(hidden)]
    pub fn take(
        &mut self,
        now_us: u64,
        name: &str,
        settings: &ConsumerSettings,
        max: usize,
        grant: impl FnOnce(usize) -> Result<Grant, Error>,
    ) -> Result<TakeOutcome, Error> {
        if self.producer.is_none() && self.consumer.is_none() {
            return Ok(TakeOutcome { absent: true, ..TakeOutcome::default() });
        }
        self.check_consumer(name, settings)?;
        self.consumer.get_or_insert_with(|| settings.clone());
        if self.totals.paused {
            return Ok(TakeOutcome { paused: true, ..TakeOutcome::default() });
        }
        let (back, more_back) = self.due_again(now_us, settings, max);
        let (fresh, more_fresh) = self.undelivered(now_us, max - back.len());
        let there = back.len() + fresh;
        let granted = match there {
            0 => Grant { jobs: 0, next: None },
            there => grant(there)?,
        };
        let due_us = now_us.saturating_add(settings.visibility_us());
        let mut jobs = Vec::with_capacity(granted.jobs);
        for id in back.into_iter().take(granted.jobs) {
            self.reschedule(id, due_us);
            if let Some(out) = self.in_flight.get_mut(&id) {
                out.deliveries += 1;
                out.is_held = true;
                self.totals.redelivered += 1;
                let attempt = out.deliveries;
                jobs.push(Delivery { id, attempt, body: out.job.body.clone() });
            }
        }
        while jobs.len() < granted.jobs
            && let Some(job) = self.waiting.pop_front()
        {
            let (id, body) = (job.id, job.body.clone());
            self.count(job.client.as_ref(), |of| {
                of.waiting -= 1;
                of.out += 1;
            });
            let out = InFlight { job, deliveries: 1, due_us, is_held: true, reason: None };
            self.in_flight.insert(id, out);
            self.due.insert((due_us, id));
            self.totals.delivered += 1;
            if !self.counts_all() {
                self.drain.count(now_us);
            }
            jobs.push(Delivery { id, attempt: 1, body });
        }
        let next = if jobs.len() == max {
            Some(Duration::ZERO)
        } else if granted.jobs < there {
            granted.next
        } else if more_back || more_fresh {
            Some(Duration::ZERO)
        } else {
            let due = self.due.first().map(|(due, _)| due.saturating_sub(now_us));
            due.map(Duration::from_micros)
        };
        Ok(TakeOutcome { jobs, next, ..TakeOutcome::default() })
    }

    /// The jobs that are due for redelivery, in their order. Jobs past their last delivery or their
    /// deadline are removed meanwhile. Also returns whether there are more that were not examined.
    fn due_again(
        &mut self,
        now_us: u64,
        settings: &ConsumerSettings,
        max: usize,
    ) -> (Vec<JobId>, bool) {
        let due: Vec<JobId> = self
            .due
            .range(..=(now_us, JobId::new(u64::MAX, u64::MAX)))
            .map(|(_, id)| *id)
            .take(max.saturating_add(SCAN_MARGIN))
            .collect();
        let is_cut = due.len() == max.saturating_add(SCAN_MARGIN);
        let mut back = Vec::new();
        for id in due {
            if back.len() == max {
                break;
            }
            let Some(out) = self.in_flight.get(&id) else { continue };
            if out.job.until_us <= now_us {
                self.remove(id, now_us);
                self.totals.expired += 1;
            } else if settings.is_exhausted(out.deliveries) {
                self.dead_letter(id, now_us, settings);
            } else {
                back.push(id);
            }
        }
        (back, is_cut)
    }

    /// How many of the waiting jobs can be delivered, up to `max`; jobs past their deadline are
    /// dropped. Also returns whether there may be more that were not examined.
    fn undelivered(&mut self, now_us: u64, max: usize) -> (usize, bool) {
        let mut kept = 0;
        let mut looked = 0;
        while kept < max
            && looked < max.saturating_add(SCAN_MARGIN)
            && let Some(job) = self.waiting.get(kept)
        {
            looked += 1;
            if job.until_us <= now_us {
                let client = job.client.clone();
                self.count(client.as_ref(), |of| of.waiting -= 1);
                self.waiting.remove(kept);
                self.totals.expired += 1;
                self.drain.count(now_us);
            } else {
                kept += 1;
            }
        }
        (kept, looked == max.saturating_add(SCAN_MARGIN))
    }

    /// Whether there are jobs that were never delivered.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Removes a job in flight.
    fn remove(&mut self, id: JobId, now_us: u64) -> Option<InFlight> {
        let out = self.in_flight.remove(&id)?;
        self.due.remove(&(out.due_us, id));
        self.count(out.job.client.as_ref(), |of| of.out -= 1);
        if self.counts_all() {
            self.drain.count(now_us);
        }
        Some(out)
    }

    /// Whether the bound counts jobs in flight, too: then a job leaves when it is removed, not when
    /// it is delivered.
    fn counts_all(&self) -> bool {
        self.producer.as_ref().is_some_and(ProducerSettings::counts_all)
    }

    fn dead_letter(&mut self, id: JobId, now_us: u64, settings: &ConsumerSettings) {
        let Some(out) = self.remove(id, now_us) else { return };
        self.totals.died += 1;
        let InFlight { job: Waiting { client, dedup, body, .. }, deliveries, reason, .. } = out;
        self.dead.push_back(DeadLetter { id, deliveries, reason, client, dedup, body });
        while self.dead.len() > settings.kept_dead() {
            self.dead.pop_front();
        }
    }

    /// Acknowledges jobs as done, whichever worker holds them. Returns how many of them existed.
    pub fn ack(&mut self, now_us: u64, ids: &[JobId]) -> u64 {
        let kept = self.consumer.as_ref().map_or(0, ConsumerSettings::kept_done);
        let mut removed = 0;
        for id in ids {
            let Some(InFlight { job, deliveries, .. }) = self.remove(*id, now_us) else { continue };
            removed += 1;
            if kept > 0 {
                self.done.push_back(DoneJob { id: *id, deliveries, body: job.body });
            }
        }
        self.trim_done();
        self.totals.done += removed;
        removed
    }

    /// Drops the oldest done jobs beyond the number to keep.
    fn trim_done(&mut self) {
        let kept = self.consumer.as_ref().map_or(0, ConsumerSettings::kept_done);
        self.done.drain(..self.done.len().saturating_sub(kept));
    }

    /// Reports that a delivery failed, with a reason: the job is redelivered after the delay, or is
    /// dead.
    ///
    /// # Errors
    /// The queue has other [`ConsumerSettings`].
    pub fn nack(
        &mut self,
        now_us: u64,
        name: &str,
        settings: &ConsumerSettings,
        tag: DeliveryTag,
        after: Duration,
        reason: &str,
    ) -> Result<NackOutcome, Error> {
        self.check_consumer(name, settings)?;
        let Some(out) = self.find_delivery(tag) else { return Ok(NackOutcome::Lost) };
        out.reason = (!reason.is_empty()).then(|| reason.to_owned());
        if settings.is_exhausted(out.deliveries) {
            self.dead_letter(tag.id, now_us, settings);
            return Ok(NackOutcome::DeadLettered);
        }
        out.is_held = false;
        self.reschedule(tag.id, now_us.saturating_add(micros(after)));
        Ok(NackOutcome::Requeued)
    }

    /// Restarts the visibility timeout of a delivery. False when another worker has the job, or it
    /// no longer exists.
    ///
    /// # Errors
    /// The queue has other [`ConsumerSettings`].
    pub fn extend(
        &mut self,
        now_us: u64,
        name: &str,
        settings: &ConsumerSettings,
        tag: DeliveryTag,
    ) -> Result<bool, Error> {
        self.check_consumer(name, settings)?;
        let is_held = self.find_delivery(tag).is_some();
        if is_held {
            self.reschedule(tag.id, now_us.saturating_add(settings.visibility_us()));
        }
        Ok(is_held)
    }

    /// Releases a job that was not started: it is available immediately, as if it had not been
    /// delivered this time. False as for [`Model::extend`].
    pub fn release(&mut self, now_us: u64, tag: DeliveryTag) -> bool {
        let Some(out) = self.find_delivery(tag) else { return false };
        out.deliveries -= 1;
        out.is_held = false;
        self.reschedule(tag.id, now_us);
        true
    }

    fn find_delivery(&mut self, tag: DeliveryTag) -> Option<&mut InFlight> {
        let out = self.in_flight.get_mut(&tag.id)?;
        (out.is_held && out.deliveries == tag.attempt).then_some(out)
    }

    fn reschedule(&mut self, id: JobId, due_us: u64) {
        if let Some(out) = self.in_flight.get_mut(&id) {
            self.due.remove(&(out.due_us, id));
            out.due_us = due_us;
            self.due.insert((due_us, id));
        }
    }

    /// Pauses or resumes the queue. While it is paused, nothing is taken, and no job dies or
    /// expires. False when the queue has no settings.
    pub fn pause(&mut self, is_paused: bool) -> bool {
        let is_made = self.producer.is_some() || self.consumer.is_some();
        if is_made {
            self.totals.paused = is_paused;
        }
        is_made
    }
}

#[cfg(test)]
mod tests;

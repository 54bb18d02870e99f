//! What a queue is: a state and what each operation makes of it. No clock and no I/O; every place
//! where queues lie does the same.

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

/// How many jobs beyond those that are wanted one `take` looks at, where the first ones are too old
/// or have had enough: so that it takes bounded time.
pub(crate) const SCAN_MARGIN: usize = 256;

/// A queue.
#[derive(Clone, Debug, Default)]
pub struct Model {
    producer: Option<ProducerSettings>,
    consumer: Option<ConsumerSettings>,
    last: JobId,
    waiting: VecDeque<Waiting>,
    in_flight: BTreeMap<JobId, InFlight>,
    /// When each that is out comes back.
    due: BTreeSet<(u64, JobId)>,
    /// How many of each client wait, and how many are out; nothing of one that has none.
    clients: HashMap<Arc<str>, ClientCounts>,
    dead: VecDeque<DeadLetter>,
    /// Those that were done and are kept, the oldest first.
    done: VecDeque<DoneJob>,
    /// Ids of jobs that said one, until when they are remembered; in the order in which they are
    /// forgotten.
    seen_ids: HashMap<String, (JobId, u64)>,
    seen_expiry: VecDeque<(u64, String)>,
    drain: Drain,
    /// With whether it is paused.
    totals: Stats,
}

#[derive(Clone, Debug)]
struct Waiting {
    id: JobId,
    client: Option<Arc<str>>,
    dedup: Option<DedupRecord>,
    /// Too old from then on.
    until_us: u64,
    body: Body,
}

/// How many jobs of a client there are.
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
    /// When it comes back.
    due_us: u64,
    /// False when nobody has it in hand.
    is_held: bool,
    reason: Option<String>,
}

impl Model {
    /// An empty queue that nobody has offered to or worked on.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn check_producer(&mut self, name: &str, settings: &ProducerSettings) -> Result<(), Error> {
        let made = self.producer.get_or_insert_with(|| settings.clone());
        check_same(name, made, settings)
    }

    /// Who takes first says how it is worked on; who says something of a delivery says the same.
    fn check_consumer(&self, name: &str, settings: &ConsumerSettings) -> Result<(), Error> {
        self.consumer.as_ref().map_or(Ok(()), |made| check_same(name, made, settings))
    }

    /// How it is offered to and worked on.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings { producer: self.producer.clone(), consumer: self.consumer.clone() }
    }

    /// Changes how it is offered to and worked on, where something is said. What is out comes back
    /// when it would have; what waits beyond a lower bound stays.
    pub fn change(&mut self, settings: &Settings) {
        let Settings { producer, consumer } = settings;
        self.producer = producer.clone().or(self.producer.take());
        self.consumer = consumer.clone().or(self.consumer.take());
        self.trim_done();
    }

    /// Adds a job, unless the queue is full or knows it.
    ///
    /// # Errors
    /// It was made with another [`ProducerSettings`].
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

    /// Counts what becomes of a job of this client; one that has none is forgotten.
    fn count(&mut self, client: Option<&Arc<str>>, becomes: impl FnOnce(&mut ClientCounts)) {
        let Some(client) = client else { return };
        let of = self.clients.entry(Arc::clone(client)).or_default();
        becomes(of);
        if *of == ClientCounts::default() {
            self.clients.remove(client);
        }
    }

    /// Forgets ids whose time has passed: a few at a time.
    fn forget_expired(&mut self, now_us: u64) {
        for _ in 0..SCAN_MARGIN {
            match self.seen_expiry.front() {
                Some((until_us, _)) if *until_us <= now_us => {}
                _ => return,
            }
            let Some((until_us, id)) = self.seen_expiry.pop_front() else { return };
            // It may have been accepted again since.
            if self.seen_ids.get(&id).is_some_and(|(_, until)| *until == until_us) {
                self.seen_ids.remove(&id);
            }
        }
    }

    /// What the bound counts.
    fn depth(&self, settings: &ProducerSettings) -> u64 {
        let out = if settings.counts_all() { self.in_flight.len() } else { 0 };
        (self.waiting.len() + out) as u64
    }

    /// Takes at most `most` jobs, of which `grant` says how many may be delivered: it is asked for
    /// as many as there are, and not at all for none.
    ///
    /// # Errors
    /// It was made with another [`ConsumerSettings`]; those of `grant`.
    pub(crate) fn take(
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

    /// Those that are due to come back, in the order in which they are; those that have had enough
    /// or are too old are put away meanwhile.
    /// True with them when there are more that were not looked at.
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

    /// How many of the first that wait can be delivered, up to `most`; those that are too old are
    /// dropped. True with it when there may be more behind those that were looked at.
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

    /// Whether jobs wait that were never delivered.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Removes a job that is out.
    fn remove(&mut self, id: JobId, now_us: u64) -> Option<InFlight> {
        let out = self.in_flight.remove(&id)?;
        self.due.remove(&(out.due_us, id));
        self.count(out.job.client.as_ref(), |of| of.out -= 1);
        if self.counts_all() {
            self.drain.count(now_us);
        }
        Some(out)
    }

    /// Whether the bound counts jobs that are out, too: then a job has left when it is gone, and
    /// not when it is delivered.
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

    /// These are done, whoever has them now. How many there were.
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

    /// The oldest of the done go beyond as many as are kept.
    fn trim_done(&mut self) {
        let kept = self.consumer.as_ref().map_or(0, ConsumerSettings::kept_done);
        self.done.drain(..self.done.len().saturating_sub(kept));
    }

    /// This delivery failed, of `why`: the job comes back after so long, or is dead.
    ///
    /// # Errors
    /// It was made with another [`ConsumerSettings`].
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

    /// Who holds this has the visibility timeout anew. False: somebody else has it, or it is gone.
    ///
    /// # Errors
    /// It was made with another [`ConsumerSettings`].
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

    /// Who holds this has not begun it: it is there for others at once, as if it had not been
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

    /// Pauses it, or lets it go on: paused, nothing is taken, and nothing becomes dead or too old.
    /// False when nobody has offered to it or worked on it.
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

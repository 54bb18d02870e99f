//! Inspection of a queue without taking jobs, and removal of dead jobs.

use core::time::Duration;

use super::{InFlight, Model, Waiting};
use crate::job::{DeadLetter, DedupRecord, DoneJob, InFlightJob, JobId, WaitingJob};
use crate::stats::Stats;

impl Model {
    /// The waiting jobs, the next one first.
    #[must_use]
    pub fn waiting(&self, now_us: u64, max: usize) -> Vec<WaitingJob> {
        let look = |job: &Waiting| {
            let Waiting { id, client, body, .. } = job.clone();
            WaitingJob { id, age: id.age(now_us), client, body }
        };
        self.waiting.iter().take(max).map(look).collect()
    }

    /// The jobs in flight, in the order of their redelivery.
    #[must_use]
    pub fn in_flight(&self, now_us: u64, max: usize) -> Vec<InFlightJob> {
        let look = |(due_us, id): &(u64, JobId)| {
            let InFlight { job, deliveries, is_held, reason, .. } = self.in_flight.get(id)?.clone();
            let due_in = Duration::from_micros(due_us.saturating_sub(now_us));
            let age = id.age(now_us);
            let (id, Waiting { client, body, .. }) = (*id, job);
            Some(InFlightJob { id, deliveries, is_held, age, due_in, reason, client, body })
        };
        self.due.iter().take(max).filter_map(look).collect()
    }

    /// The done jobs that are kept, the oldest first.
    #[must_use]
    pub fn done_jobs(&self, max: usize) -> Vec<DoneJob> {
        self.done.iter().take(max).cloned().collect()
    }

    /// The dead jobs that are kept, the oldest first.
    #[must_use]
    pub fn dead_letters(&self, max: usize) -> Vec<DeadLetter> {
        self.dead.iter().take(max).cloned().collect()
    }

    /// Removes a dead job, to be offered again or discarded.
    pub fn take_dead_letter(&mut self, id: JobId) -> Option<DeadLetter> {
        let place = self.dead.iter().position(|dead| dead.id == id)?;
        self.dead.remove(place)
    }

    /// Removes a dead job for good, and forgets its deduplication id.
    pub fn forget_dead_letter(&mut self, id: JobId) -> Option<DeadLetter> {
        let dead = self.take_dead_letter(id)?;
        if let Some(DedupRecord { of, id }) = &dead.dedup
            // Another job may have been accepted under the same id since.
            && self.seen_ids.get(&**id).is_some_and(|(known, _)| known == of)
        {
            self.seen_ids.remove(&**id);
        }
        Some(dead)
    }

    /// The current numbers and the totals.
    #[must_use]
    pub fn stats(&self, now_us: u64) -> Stats {
        let oldest = self.waiting.front().map(|job| now_us.saturating_sub(job.id.ms() * 1_000));
        Stats {
            waiting: self.waiting.len() as u64,
            in_flight: self.in_flight.len() as u64,
            dead: self.dead.len() as u64,
            oldest: oldest.map(Duration::from_micros),
            ..self.totals
        }
    }
}

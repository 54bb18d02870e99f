//! Acts on dead jobs: offers them again, or discards them.

use serde::Serialize;

use crate::backend::Backend;
use crate::error::Error;
use crate::job::{DeadLetter, JobId};
use crate::outcome::OfferOutcome;
use crate::queue::Queue;

/// How many jobs are read at a time.
const PAGE: usize = 1_000;

/// Which dead jobs of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DeadJobs {
    /// All that are kept.
    All,
    /// This one. It is offered again if it is among the oldest 1,000.
    One(JobId),
}

/// The effect of an act on dead jobs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct DeadOutcome {
    /// The jobs that were offered again, or discarded.
    pub jobs: u64,
    /// The jobs that are still dead.
    pub dead: u64,
    /// Whether the queue, or the share of a client, was full before the last one.
    pub full: bool,
    /// The entries that cannot be offered, since they are not valid jobs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub no_job: Vec<JobId>,
}

impl DeadOutcome {
    /// Whether there was nothing to act on.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.jobs == 0 && !self.full && self.no_job.is_empty()
    }
}

impl<B: Backend> Queue<B> {
    /// Offers dead jobs again, and removes each that was accepted, in this order so that none is
    /// lost. A job that was interrupted between the two steps is a known duplicate when it is
    /// offered again. A job stays dead where the queue is full, and where it is not a valid job.
    ///
    /// # Errors
    /// No job was ever offered to this queue; otherwise as [`Queue::stats`].
    pub async fn offer_dead_again(&self, which: DeadJobs) -> Result<DeadOutcome, Error> {
        let producer = self.settings().await?.producer.ok_or_else(|| {
            Error::invalid(format!("no job was ever offered to `{}`", self.name()))
        })?;
        let producer = self.producer(producer)?;
        let (mut jobs, mut full, mut no_job) = (0, false, Vec::new());
        'all: loop {
            let page = self.selected(which).await?;
            let before = jobs;
            no_job.clear();
            for dead in &page {
                match producer.offer(&dead.job()).await {
                    Ok(OfferOutcome::Accepted { .. } | OfferOutcome::Duplicate { .. }) => {}
                    // Another program wrote it, and it exceeds a job's bounds: it stays, and blocks
                    // no other.
                    Err(Error::Invalid(_)) => {
                        no_job.push(dead.id);
                        continue;
                    }
                    Err(error) => return Err(error),
                    // This job's client has reached its maximum; other clients may not have.
                    Ok(OfferOutcome::ClientFull { .. }) => {
                        full = true;
                        continue;
                    }
                    Ok(_) => {
                        full = true;
                        break 'all;
                    }
                }
                self.take_dead_letter(dead.id).await?;
                jobs += 1;
            }
            // Jobs that stay are on the next page again, so a page of only such jobs is the last.
            if page.len() < PAGE || jobs == before {
                break;
            }
        }
        Ok(DeadOutcome { jobs, dead: self.stats().await?.dead, full, no_job })
    }

    /// Discards dead jobs for good, each as [`Queue::forget_dead_letter`].
    ///
    /// # Errors
    /// As [`Queue::stats`].
    pub async fn forget_dead(&self, which: DeadJobs) -> Result<DeadOutcome, Error> {
        let mut jobs = 0;
        if let DeadJobs::One(id) = which {
            jobs += u64::from(self.forget_dead_letter(id).await?.is_some());
        } else {
            loop {
                let page = self.selected(which).await?;
                for dead in &page {
                    jobs += u64::from(self.forget_dead_letter(dead.id).await?.is_some());
                }
                if page.len() < PAGE {
                    break;
                }
            }
        }
        Ok(DeadOutcome { jobs, dead: self.stats().await?.dead, full: false, no_job: Vec::new() })
    }

    /// The selected jobs that are dead now, at most one page.
    async fn selected(&self, which: DeadJobs) -> Result<Vec<DeadLetter>, Error> {
        let mut dead = self.dead_letters(PAGE).await?;
        if let DeadJobs::One(id) = which {
            dead.retain(|dead| dead.id == id);
        }
        Ok(dead)
    }
}

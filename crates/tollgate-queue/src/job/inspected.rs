//! Jobs as they lie in a queue: those that wait, are in flight, were done, or are dead letters.

use core::time::Duration;
use std::sync::Arc;

use super::JobId;
use super::offered::{DedupRecord, Job};
use crate::body::Body;

/// A job that waits: it was never delivered.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WaitingJob {
    /// Its id; `0-0` for what something else has put there without one.
    pub id: JobId,
    /// How long ago it was accepted.
    pub age: Duration,
    pub(crate) client: Option<Arc<str>>,
    pub(crate) body: Body,
}

impl WaitingJob {
    /// Whose it is, where who offered it said so ([`Job::client`]).
    #[must_use]
    pub fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// Its fields; none where it is of bytes.
    #[must_use]
    pub fn fields(&self) -> &[(String, String)] {
        self.body.fields()
    }

    /// Its bytes, where it is of bytes.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.body.bytes()
    }
}

/// A job that was delivered and is not done: somebody has it in hand, or it is to come back.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct InFlightJob {
    /// Its id.
    pub id: JobId,
    /// How often it was delivered; one that was given back does not count this.
    pub deliveries: u32,
    /// Whether somebody has it in hand, as far as is known; else it is put off.
    pub is_held: bool,
    /// How long ago it was accepted.
    pub age: Duration,
    /// After how long it comes back, unless it is done or extended before: zero when it may be
    /// delivered again now.
    pub due_in: Duration,
    /// What was said last of why it failed; none when nobody said anything.
    pub reason: Option<String>,
    pub(crate) client: Option<Arc<str>>,
    pub(crate) body: Body,
}

impl InFlightJob {
    /// Whose it is, where who offered it said so ([`Job::client`]).
    #[must_use]
    pub fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// Its fields; none where it is of bytes.
    #[must_use]
    pub fn fields(&self) -> &[(String, String)] {
        self.body.fields()
    }

    /// Its bytes, where it is of bytes.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.body.bytes()
    }
}

/// A job that was done, and is kept ([`crate::ConsumerSettings::keep_done`]).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DoneJob {
    /// Its id.
    pub id: JobId,
    /// How often it was delivered.
    pub deliveries: u32,
    pub(crate) body: Body,
}

impl DoneJob {
    /// Its fields; none where it is of bytes.
    #[must_use]
    pub fn fields(&self) -> &[(String, String)] {
        self.body.fields()
    }

    /// Its bytes, where it is of bytes.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.body.bytes()
    }
}

/// A job that was delivered as often as it may be, and never done.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DeadLetter {
    /// Its id.
    pub id: JobId,
    /// How often it was delivered.
    pub deliveries: u32,
    /// What was said last of why it failed; none when nobody said anything.
    pub reason: Option<String>,
    pub(crate) client: Option<Arc<str>>,
    /// None where its queue did not remember it, and of one that died before this was kept.
    pub(crate) dedup: Option<DedupRecord>,
    pub(crate) body: Body,
}

impl DeadLetter {
    /// Whose it is, where who offered it said so ([`Job::client`]).
    #[must_use]
    pub fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// Its fields; none where it is of bytes.
    #[must_use]
    pub fn fields(&self) -> &[(String, String)] {
        self.body.fields()
    }

    /// Its bytes, where it is of bytes.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.body.bytes()
    }

    /// The same job, to be offered again, and accepted once as far as the queue remembers.
    #[must_use]
    pub fn job(&self) -> Job {
        let dedup_id = Some(format!("@dead:{}", self.id));
        let (body, client, original_dedup) =
            (self.body.clone(), self.client.clone(), self.dedup.clone());
        Job::revived(body, client, dedup_id, original_dedup)
    }
}

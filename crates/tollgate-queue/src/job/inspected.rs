//! Jobs as stored in a queue: waiting, in flight, done, or dead.

use core::time::Duration;
use std::sync::Arc;

use super::JobId;
use super::offered::{DedupRecord, Job};
use crate::body::Body;

/// A waiting job: it was never delivered.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WaitingJob {
    /// Its id; `0-0` for an entry of another program without one.
    pub id: JobId,
    /// The time since it was accepted.
    pub age: Duration,
    pub(crate) client: Option<Arc<str>>,
    pub(crate) body: Body,
}

/// A job in flight: it was delivered and is not done. A worker holds it, or it awaits redelivery.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct InFlightJob {
    /// Its id.
    pub id: JobId,
    /// The number of its deliveries. A delivery that was released does not count.
    pub deliveries: u32,
    /// Whether a worker holds it, as far as is known; otherwise it awaits redelivery.
    pub is_held: bool,
    /// The time since it was accepted.
    pub age: Duration,
    /// The time until its redelivery, unless it is done or extended before: zero when it may be
    /// delivered again now.
    pub due_in: Duration,
    /// The reason of its last failure, if any was reported.
    pub reason: Option<String>,
    pub(crate) client: Option<Arc<str>>,
    pub(crate) body: Body,
}

/// A done job that is kept ([`crate::ConsumerSettings::keep_done`]).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DoneJob {
    /// Its id.
    pub id: JobId,
    /// The number of its deliveries.
    pub deliveries: u32,
    pub(crate) body: Body,
}

/// A dead job: all of its permitted deliveries failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DeadLetter {
    /// Its id.
    pub id: JobId,
    /// The number of its deliveries.
    pub deliveries: u32,
    /// The reason of its last failure, if any was reported.
    pub reason: Option<String>,
    pub(crate) client: Option<Arc<str>>,
    /// `None` where its queue did not remember ids, and for a job that died before this was stored.
    pub(crate) dedup: Option<DedupRecord>,
    pub(crate) body: Body,
}

/// The fields that every stored job has readers for.
macro_rules! readers {
    ($($job:ident $(, $client:ident)?;)+) => {$(
        impl $job {
            $(
                /// Its client, if the producer set one ([`Job::client`]).
                #[must_use]
                pub fn $client(&self) -> Option<&str> {
                    self.client.as_deref()
                }
            )?

            /// Its fields; none if it consists of bytes.
            #[must_use]
            pub fn fields(&self) -> &[(String, String)] {
                self.body.fields()
            }

            /// Its bytes, if it consists of bytes.
            #[must_use]
            pub fn bytes(&self) -> Option<&[u8]> {
                self.body.bytes()
            }
        }
    )+};
}

readers! {
    WaitingJob, client;
    InFlightJob, client;
    DoneJob;
    DeadLetter, client;
}

impl DeadLetter {
    /// The same job, to be offered again. It is accepted once, for as long as the queue remembers
    /// it.
    #[must_use]
    pub fn job(&self) -> Job {
        let dedup_id = Some(format!("@dead:{}", self.id));
        let (body, client, original_dedup) =
            (self.body.clone(), self.client.clone(), self.dedup.clone());
        Job::revived(body, client, dedup_id, original_dedup)
    }
}

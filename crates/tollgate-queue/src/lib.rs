//! The leaky bucket coupled with processing: a bounded queue whose workers set the pace.
//!
//! The strategies of [`tollgate`] count time. A queue does not: its bound limits how many jobs
//! wait, and its workers decide how fast they leave.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use tollgate_queue::{
//!     ConsumerSettings, Job, MemoryQueues, OfferOutcome, ProducerSettings, Queue,
//! };
//!
//! let mail = Queue::new(MemoryQueues::new(), "mail")?;
//! let producer = mail.producer(ProducerSettings::new(2))?;
//! for to in ["ann", "bob"] {
//!     let offered = producer.offer(&Job::new().field("to", to)).await?;
//!     assert!(matches!(offered, OfferOutcome::Accepted { .. }));
//! }
//! let full = producer.offer(&Job::new().field("to", "cem")).await?;
//! assert!(matches!(full, OfferOutcome::Full { depth: 2, .. }));
//!
//! let consumer = mail.consumer(ConsumerSettings::new())?;
//! let taken = consumer.take("worker-1", 1).await?;
//! let job = &taken.jobs[0];
//! assert_eq!((job.text("to"), job.attempt), (Some("ann"), 1));
//! consumer.ack(&[job.id]).await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The types to know
//!
//! - [`Queue`] is a queue by its name, in memory, in a SQLite file, or on Redis.
//! - [`Producer`] offers jobs, within the bound of its [`ProducerSettings`].
//! - [`Consumer`] takes jobs and acknowledges them; a [`Worker`] is the loop around one.
//!
//! `docs/queue.md` states what is promised, and the test of each promise.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
// The written forms of settings and jobs are for places outside of the process, and they differ.
#![cfg_attr(not(all(feature = "redis", feature = "sqlite")), allow(dead_code))]

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod any;
mod backend;
mod body;
mod dead;
mod drain;
mod error;
mod grant;
mod job;
mod json;
mod memory;
mod model;
mod outcome;
mod queue;
#[cfg(feature = "redis")]
mod redis;
mod settings;
#[cfg(feature = "sqlite")]
mod sqlite;
mod stats;
mod worker;

pub use any::AnyQueues;
pub use backend::Backend;
pub use body::{MAX_FIELDS, MAX_JOB_BYTES};
pub use dead::{DeadJobs, DeadOutcome};
pub use error::Error;
#[doc(hidden)]
pub use grant::Grant;
pub use job::{
    DeadLetter, Delivery, DeliveryTag, DoneJob, InFlightJob, Job, JobId, TakeOutcome, WaitingJob,
};
pub use memory::MemoryQueues;
pub use model::Model;
pub use outcome::{NackOutcome, OfferOutcome};
pub use queue::{Consumer, Producer, Queue};
#[cfg(feature = "redis")]
pub use redis::{Layout, OfferCall, RedisQueues};
pub use settings::{ConsumerSettings, Counts, MAX_BOUND, ProducerSettings, Settings};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteQueues;
pub use stats::Stats;
pub use worker::{Failure, RunSummary, Worker, WorkerEvent};

//! The leaky bucket coupled with processing: a bounded queue whose workers set the pace.
//!
//! The strategies of [`tollgate`] count time. A [`Queue`] does not: at most so many jobs wait, and
//! how fast they leave is up to those who work on them. `docs/queue.md` says what is promised.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use tollgate_queue::{Job, MemoryQueues, Offered, Offering, Queue, Working};
//!
//! let mail = Queue::new(MemoryQueues::new(), "mail")?;
//! let door = mail.offering(Offering::new(2))?;
//! for to in ["ann", "bob"] {
//!     let offered = door.offer(&Job::new().field("to", to)).await?;
//!     assert!(matches!(offered, Offered::Accepted { .. }));
//! }
//! let full = door.offer(&Job::new().field("to", "cem")).await?;
//! assert!(matches!(full, Offered::Full { depth: 2, .. }));
//!
//! let hands = mail.working(Working::new())?;
//! let taken = hands.take("worker-1", 1).await?;
//! let job = &taken.jobs[0];
//! assert_eq!((job.text("to"), job.delivery), (Some("ann"), 1));
//! hands.done(&[job.id]).await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
// How settings and jobs are written down is for places outside of the process, and not all alike.
#![cfg_attr(not(all(feature = "redis", feature = "sqlite")), allow(dead_code))]

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod any;
mod backend;
mod body;
mod error;
mod job;
mod memory;
mod model;
mod queue;
#[cfg(feature = "redis")]
mod redis;
mod settings;
#[cfg(feature = "sqlite")]
mod sqlite;
mod worker;

pub use any::AnyQueues;
pub use backend::Backend;
pub use error::Error;
pub use job::{
    Dead, DoneJob, Held, Job, JobId, MAX_FIELDS, MAX_JOB_BYTES, OutJob, Taken, TakenJob, WaitingJob,
};
pub use memory::MemoryQueues;
pub use model::{Afterwards, Model, Offered, Stats};
pub use queue::{Consumer, Producer, Queue};
#[cfg(feature = "redis")]
pub use redis::{Form, OfferCall, RedisQueues};
pub use settings::{Counts, MAX_BOUND, Offering, Settings, Working};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteQueues;
pub use worker::{Failure, Notice, Ran, Worker};

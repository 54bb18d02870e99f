//! The current numbers and the totals of a queue.

use core::time::Duration;

/// The current numbers and the totals of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Jobs that were never delivered.
    pub waiting: u64,
    /// Jobs that were delivered and are not done: held by a worker, or awaiting redelivery.
    pub in_flight: u64,
    /// Dead jobs that are kept.
    pub dead: u64,
    /// How long the oldest waiting job has waited.
    pub oldest: Option<Duration>,
    /// The total of accepted offers.
    pub accepted: u64,
    /// The total of offers that were refused by the bound of the queue or of the client.
    pub refused: u64,
    /// The total of offers with a known deduplication id.
    pub duplicates: u64,
    /// The total of jobs that were delivered at least once.
    pub delivered: u64,
    /// The total of deliveries after the first one of a job.
    pub redelivered: u64,
    /// The total of done jobs.
    pub done: u64,
    /// The total of jobs that were past their deadline when their turn came.
    pub expired: u64,
    /// The total of jobs that became dead.
    pub died: u64,
    /// Whether the queue is paused and delivers nothing.
    pub paused: bool,
}

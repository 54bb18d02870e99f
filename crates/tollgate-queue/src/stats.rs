//! What there is in a queue, and what there was.

use core::time::Duration;

/// What there is and what there was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Jobs that were never delivered.
    pub waiting: u64,
    /// Jobs that were delivered and are not done: in hand, or to come back.
    pub in_flight: u64,
    /// Dead jobs that are kept.
    pub dead: u64,
    /// How long the oldest of the waiting ones has waited.
    pub oldest: Option<Duration>,
    /// Offers that were accepted, ever.
    pub accepted: u64,
    /// Offers that were refused because the queue was full, or had as many of their client as may
    /// be.
    pub refused: u64,
    /// Offers that were known.
    pub duplicates: u64,
    /// Jobs that were delivered, each once.
    pub delivered: u64,
    /// Deliveries after the first of the same job.
    pub redelivered: u64,
    /// Jobs that were done.
    pub done: u64,
    /// Jobs that were too old when their turn came.
    pub expired: u64,
    /// Jobs that became dead.
    pub died: u64,
    /// Whether it is paused, so that nothing is taken.
    pub paused: bool,
}

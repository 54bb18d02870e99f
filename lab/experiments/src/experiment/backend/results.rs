//! The results of a case with a backend.

use serde::Serialize;

use crate::experiment::results::Latency;

/// The settings and results of a backend.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct BackendResult {
    /// The number of servers.
    pub servers: u32,
    /// The microseconds that a server works on a request.
    pub work_us: u64,
    /// When it took longer.
    pub slow: Vec<SlowResult>,
    /// The requests that were done.
    pub done: u64,
    /// The requests in flight at the end: admitted minus done.
    pub left: u64,
    /// The mean number in flight: those that waited for a server or were worked on.
    pub in_flight_mean: Option<f64>,
    /// The most in flight for any positive time.
    pub in_flight_max: u64,
    /// The time from when a request was admitted until it was done.
    pub latency_us: Option<Latency>,
    /// The time from the end of the last slow phase until no request waited for a server; `None`
    /// without a slow phase, or if some waited at the end.
    pub recovered_us: Option<u64>,
    /// The holds that ended by themselves while the work on their requests went on.
    pub overran: u64,
    /// The series over time, with the same buckets as
    /// [`CaseResult::buckets`](super::super::results::CaseResult::buckets).
    pub buckets: Vec<BackendBucket>,
}

/// A time during which a backend was slower, in microseconds from the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct SlowResult {
    /// Its start.
    pub from_us: u64,
    /// Its end.
    pub until_us: u64,
    /// The microseconds that a server worked on a request.
    pub work_us: u64,
}

/// The results of a backend in one bucket of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct BackendBucket {
    /// The requests that were done.
    pub done: u64,
    /// The most in flight.
    pub in_flight: u64,
    /// The median latency of the requests that were done, in microseconds; 0 without any.
    pub p50_us: u64,
    /// The 99th percentile of the same.
    pub p99_us: u64,
}

//! The settings of a backend.

/// The most servers of a backend: each takes a few bytes.
const MAX_SERVERS: u32 = 100_000;

/// The longest time that a server works on a request: a day.
const MAX_WORK_US: u64 = 86_400_000_000;

/// The backend that the limits protect: one queue in front of servers that each work on one request
/// at a time. The first to come is served first, and nobody leaves the queue. Queueing theory calls
/// it G/D/c (D. G. Kendall, 1953): any arrivals, a fixed service time, c servers.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Backend {
    /// The number of servers, 1 to 100,000.
    pub servers: u32,
    /// The microseconds that a server works on a request, up to a day.
    pub work_us: u64,
    /// When it takes longer, in order of time. No two phases overlap.
    pub slow: Vec<SlowPhase>,
}

/// A time during which a backend is slower, or faster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SlowPhase {
    /// Its start, in microseconds from that of the experiment.
    pub from_us: u64,
    /// Its end.
    pub until_us: u64,
    /// The microseconds that a server works on a request which it begins in this phase.
    pub work_us: u64,
}

impl Backend {
    /// The microseconds of work on a request that is begun now.
    pub(super) fn work_at(&self, now_us: u64) -> u64 {
        let is_now = |phase: &&SlowPhase| (phase.from_us..phase.until_us).contains(&now_us);
        self.slow.iter().find(is_now).map_or(self.work_us, |phase| phase.work_us)
    }

    /// The end of the last slow phase.
    pub(super) fn slow_until(&self) -> Option<u64> {
        self.slow.iter().map(|phase| phase.until_us).max()
    }

    /// Checks the number of servers; an error says what is valid.
    pub(super) fn check_servers(&self) -> Result<(), String> {
        if (1..=MAX_SERVERS).contains(&self.servers) {
            return Ok(());
        }
        Err(format!("`servers` is 1 to {MAX_SERVERS}, not {}", self.servers))
    }
}

/// Checks a time of work; an error says what is valid.
pub(super) fn check_work(work_us: u64) -> Result<u64, String> {
    if (1..=MAX_WORK_US).contains(&work_us) {
        return Ok(work_us);
    }
    Err("`work` is more than 0 and at most a day".to_owned())
}

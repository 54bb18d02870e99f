//! The clients' view of denials: when they came, and how long a wait each gave.

use std::collections::HashMap;

use tollgate::MAX_PERIOD_US;

use crate::experiment::latency_histogram::LatencyHistogram;
use crate::experiment::results::{Denied, Latency};

/// The denials of a case, in memory for each client that was denied.
pub(super) struct Denials {
    waits: LatencyHistogram,
    clients: HashMap<u32, Seen>,
}

/// The denials of one client. Times are microseconds from the start.
#[derive(Clone, Copy, Default)]
struct Seen {
    first_us: u64,
    last_us: u64,
    longest_wait_us: Option<u64>,
}

impl Denials {
    pub(super) fn new() -> Self {
        Self { waits: LatencyHistogram::up_to(MAX_PERIOD_US), clients: HashMap::new() }
    }

    /// Counts a denial; `wait_us` is `None` where no wait would help.
    pub(super) fn count(&mut self, client: u32, at_us: u64, wait_us: Option<u64>) {
        if let Some(wait_us) = wait_us {
            self.waits.add(wait_us);
        }
        let seen =
            self.clients.entry(client).or_insert(Seen { first_us: at_us, ..Seen::default() });
        seen.last_us = at_us;
        seen.longest_wait_us = seen.longest_wait_us.max(wait_us);
    }

    /// The waits that denials told.
    pub(super) fn waits(&self) -> Option<Latency> {
        self.waits.read()
    }

    /// The denials of a client, beside its admitted requests.
    pub(super) fn of(&self, client: u32, name: String, denied: u64, admitted: u64) -> Denied {
        let seen = self.clients.get(&client).copied().unwrap_or_default();
        let Seen { first_us, last_us, longest_wait_us } = seen;
        Denied { client: name, denied, admitted, first_us, last_us, longest_wait_us }
    }
}

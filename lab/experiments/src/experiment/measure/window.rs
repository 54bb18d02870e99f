//! Admitted attempts in a time window: the peak of any window, and the used share of a capacity.

use std::collections::VecDeque;

use tollgate_logs::decide::Per;

/// The time, the client and the units of an admitted attempt.
type Admitted = (u64, u32, u32);

/// The bytes of such an entry while it is in a window.
pub(in crate::experiment) const ADMITTED_BYTES: u64 = size_of::<Admitted>() as u64;

/// The most units admitted in any half-open window `(t - D, t]` of one subject: of all clients, or
/// of each. It stores what was admitted in the last window.
pub(super) struct PeakWindow {
    pub(super) window_us: u64,
    pub(super) per: Per,
    pub(super) admitted: VecDeque<Admitted>,
    /// The units of all of these.
    pub(super) units: u64,
    /// The units of each client, if clients are counted separately.
    pub(super) counts: Vec<u64>,
    pub(super) most: u64,
}

impl PeakWindow {
    pub(super) fn new(window_us: u64, per: Per, clients: usize) -> Self {
        let counts = if per == Per::Client { vec![0; clients] } else { Vec::new() };
        Self { window_us, per, admitted: VecDeque::new(), units: 0, counts, most: 0 }
    }

    /// Removes what has left the window that ends now.
    pub(super) fn pass(&mut self, now_us: u64) {
        while let Some((at, client, units)) = self.admitted.front().copied() {
            if at + self.window_us > now_us {
                return;
            }
            self.admitted.pop_front();
            self.units -= u64::from(units);
            if let Some(count) = self.counts.get_mut(client as usize) {
                *count -= u64::from(units);
            }
        }
    }

    pub(super) fn admit(&mut self, now_us: u64, client: u32, units: u32) {
        self.admitted.push_back((now_us, client, units));
        self.units += u64::from(units);
        let now = match self.per {
            Per::Resource => self.units,
            Per::Client => self.counts.get_mut(client as usize).map_or(0, |count| {
                *count += u64::from(units);
                *count
            }),
        };
        self.most = self.most.max(now);
    }
}

/// The used share of a capacity where demand exceeded it, over windows aligned to the clock that
/// are entirely within the experiment.
pub(super) struct Utilization {
    pub(super) units: u64,
    pub(super) window_us: u64,
    pub(super) begin_us: u64,
    pub(super) end_us: u64,
    /// The number of the current window, with the units asked for and admitted in it.
    pub(super) window: u64,
    pub(super) attempt: u64,
    pub(super) admitted: u64,
    pub(super) used: u64,
    pub(super) windows: u64,
}

impl Utilization {
    pub(super) fn count(&mut self, at_us: u64, units: u32, is_admitted: bool) {
        self.pass(at_us);
        self.attempt += u64::from(units);
        self.admitted += if is_admitted { u64::from(units) } else { 0 };
    }

    /// Records that an earlier demand goes through now.
    pub(super) fn deliver(&mut self, at_us: u64) {
        self.pass(at_us);
        self.admitted += 1;
    }

    pub(super) fn pass(&mut self, at_us: u64) {
        let window = at_us / self.window_us;
        if window != self.window {
            self.close();
            self.window = window;
        }
    }

    pub(super) fn close(&mut self) {
        let begin_us = self.window.saturating_mul(self.window_us);
        let is_whole =
            begin_us >= self.begin_us && begin_us.saturating_add(self.window_us) <= self.end_us;
        if is_whole && self.attempt > self.units {
            self.windows += 1;
            self.used += self.admitted.min(self.units);
        }
        (self.attempt, self.admitted) = (0, 0);
    }

    pub(super) fn share(mut self) -> Option<f64> {
        self.close();
        (self.windows > 0).then(|| self.used as f64 / (self.windows * self.units) as f64)
    }
}

//! The traffic of an experiment: which client asks when.

mod source;

use std::sync::Arc;

use super::Retry;
use tollgate_logs::read::Traffic;

pub(super) use self::source::{Request, RequestSource};

/// Clients with the same behaviour, and when they ask.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Workload {
    /// The name of the workload.
    pub name: String,
    /// The number of its clients; for [`Arrivals::Gang`] those of one gang, for [`Arrivals::Log`]
    /// those of the log.
    pub clients: u32,
    /// When they ask.
    pub arrivals: Arrivals,
    /// The start, in microseconds from the start of the experiment.
    pub from_us: u64,
    /// The end, in microseconds from the start of the experiment, exclusive.
    pub until_us: u64,
    /// The behaviour of clients after a denial.
    pub retry: Retry,
    /// Which client asks: `None` takes turns. With an exponent `s` the n-th client asks 1/n^s as
    /// often as the first (Zipf's law).
    pub zipf: Option<f64>,
}

/// When requests arrive, from all clients of a workload together.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Arrivals {
    /// At equal intervals.
    Steady(Rate),
    /// Independently of each other: a Poisson process.
    Poisson(Rate),
    /// Repeatedly many at one moment.
    Bursts {
        /// The requests of a burst.
        size: u64,
        /// Microseconds from one burst to the next.
        every_us: u64,
    },
    /// One after the other, each after the answer to the one before, as a shell script asks.
    Loop {
        /// The number of requests.
        count: u64,
        /// Mean microseconds from one request to the next; random between half of it and half more.
        every_us: u64,
    },
    /// Each client once or a few times within a short time: clients that arrive together.
    Gang {
        /// The requests of each client.
        each: u64,
        /// The microseconds within which they arrive.
        within_us: u64,
        /// Microseconds from one gang to the next; `None` for a single gang.
        every_us: Option<u64>,
        /// Whether each gang consists of new clients.
        is_new: bool,
    },
    /// The same number just before and just after the edge of each window.
    Edge {
        /// The microseconds of the window.
        window_us: u64,
        /// The requests before, and the requests after the edge.
        size: u64,
        /// How many microseconds before the edge the first request arrives.
        before_us: u64,
    },
    /// A Poisson process whose rate follows a daily cycle, starting at its lowest.
    Diurnal {
        /// The mean rate.
        rate: Rate,
        /// The microseconds of a day.
        day_us: u64,
    },
    /// As in an access log, whose first event is at the start.
    Log(Arc<Traffic>),
}

/// A number of requests per period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Rate {
    /// The number of requests.
    pub units: u64,
    /// The period in microseconds.
    pub period_us: u64,
}

/// The default time from the start of an attack to the edge, in microseconds.
pub(super) const BEFORE_EDGE_US: u64 = 1_000;

impl Rate {
    /// A rate of `units` per `period_us`; each is at least 1.
    #[must_use]
    pub fn new(units: u64, period_us: u64) -> Self {
        Self { units: units.max(1), period_us: period_us.max(1) }
    }

    /// The time of the `n`-th request, counted from 0.
    pub(super) fn nth(self, n: u64) -> u64 {
        let at = u128::from(n) * u128::from(self.period_us) / u128::from(self.units);
        u64::try_from(at).unwrap_or(u64::MAX)
    }

    /// Mean microseconds from one request to the next.
    pub(super) fn gap_us(self) -> f64 {
        self.period_us as f64 / self.units as f64
    }
}

impl Workload {
    /// The number of distinct clients over the whole duration.
    #[must_use]
    pub fn all_clients(&self) -> u64 {
        let one = u64::from(self.clients);
        match self.arrivals {
            Arrivals::Gang { every_us: Some(every), is_new: true, .. } => {
                let gangs = self.until_us.saturating_sub(self.from_us).div_ceil(every.max(1));
                one.saturating_mul(gangs)
            }
            _ => one,
        }
    }
}

impl Workload {
    /// The first edge, in microseconds from the start of the experiment, and how long before it the
    /// first attempts are; `None` if it does not ask at edges.
    pub(super) fn first_edge(&self, start_us: u64) -> Option<(u64, u64)> {
        let Arrivals::Edge { window_us, before_us, .. } = self.arrivals else { return None };
        let before = before_us.min(window_us / 2).max(1);
        let begin = start_us.saturating_add(self.from_us).saturating_add(before);
        let first = begin.div_ceil(window_us.max(1)).saturating_mul(window_us);
        Some((first.saturating_sub(start_us), before))
    }

    /// The approximate number of its requests.
    pub(super) fn requests(&self) -> u64 {
        self.requests_in(self.until_us.saturating_sub(self.from_us))
    }

    /// The approximate number of its requests in the busiest period of this length.
    pub(super) fn requests_within(&self, us: u64) -> u64 {
        let span_us = us.min(self.until_us.saturating_sub(self.from_us));
        let most = match &self.arrivals {
            // The rate at noon is twice the mean.
            Arrivals::Diurnal { .. } => self.requests_in(span_us).saturating_mul(2),
            Arrivals::Edge { window_us, size, .. } => {
                span_us.div_ceil((*window_us).max(1)).saturating_mul(2).saturating_mul(*size)
            }
            _ => self.requests_in(span_us),
        };
        most.min(self.requests())
    }

    fn requests_in(&self, span_us: u64) -> u64 {
        let of = |units: u64, period_us: u64| {
            let all = u128::from(span_us) * u128::from(units) / u128::from(period_us.max(1));
            u64::try_from(all).unwrap_or(u64::MAX)
        };
        match &self.arrivals {
            Arrivals::Steady(rate) | Arrivals::Poisson(rate) | Arrivals::Diurnal { rate, .. } => {
                of(rate.units, rate.period_us)
            }
            Arrivals::Bursts { size, every_us } => {
                span_us.div_ceil((*every_us).max(1)).saturating_mul(*size)
            }
            Arrivals::Loop { count, every_us } => of(1, *every_us).min(*count),
            Arrivals::Gang { each, every_us, .. } => {
                let gangs = every_us.map_or(1, |every_us| span_us.div_ceil(every_us.max(1)));
                u64::from(self.clients).saturating_mul(*each).saturating_mul(gangs)
            }
            Arrivals::Edge { window_us, size, .. } => of(2, *window_us).saturating_mul(*size),
            Arrivals::Log(traffic) => {
                of(traffic.summary.events, self.until_us.saturating_sub(self.from_us))
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! Which client asks when.

mod source;

use std::sync::Arc;

use super::Retry;
use crate::read::Traffic;

pub(super) use self::source::RequestSource;

/// Clients that behave alike, and when they ask.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Workload {
    /// What it is called.
    pub name: String,
    /// How many clients it has; of [`Arrivals::Gang`] those of one gang, of [`Arrivals::Log`] those
    /// of the log.
    pub clients: u32,
    /// When they ask.
    pub arrivals: Arrivals,
    /// From when on, in microseconds from the start.
    pub from_us: u64,
    /// Until when, in microseconds from the start: no request at this moment or later.
    pub until_us: u64,
    /// What they do when they are denied.
    pub retry: Retry,
    /// Which client asks: in turn, or the busiest most often. With an exponent `s` the n-th client
    /// asks 1/n^s as often as the first (Zipf's law).
    pub zipf: Option<f64>,
}

/// When requests come, all clients of a workload together.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Arrivals {
    /// Evenly.
    Steady(Rate),
    /// Independently of each other: a Poisson process.
    Poisson(Rate),
    /// Many at one moment, again and again.
    Bursts {
        /// How many.
        size: u64,
        /// Microseconds from one burst to the next.
        every_us: u64,
    },
    /// One after the other, each when the one before has its answer: as a shell script asks.
    Loop {
        /// How many.
        count: u64,
        /// Microseconds from one to the next on average: half of it to half as much again.
        every_us: u64,
    },
    /// Each client once or a few times within a short time: clients that arrive together.
    Gang {
        /// Requests of each client.
        each: u64,
        /// Microseconds within which they come.
        within_us: u64,
        /// Microseconds from one gang to the next; none for one gang only.
        every_us: Option<u64>,
        /// True when the next gang is of other clients.
        is_new: bool,
    },
    /// As many as there are just before and just after the edge of each window.
    Edge {
        /// Microseconds of the window.
        window_us: u64,
        /// How many before, and how many after.
        size: u64,
        /// How many microseconds before the edge the first of those before it comes.
        before_us: u64,
    },
    /// A Poisson process whose rate rises and falls as that of a day, from its lowest on.
    Diurnal {
        /// On average.
        rate: Rate,
        /// Microseconds of a day.
        day_us: u64,
    },
    /// As in an access log, whose first event is at the start.
    Log(Arc<Traffic>),
}

/// So many in so long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Rate {
    /// How many.
    pub units: u64,
    /// In how many microseconds.
    pub period_us: u64,
}

/// How long before an edge an attack on it begins, where nothing else is said.
pub(super) const BEFORE_EDGE_US: u64 = 1_000;

impl Rate {
    /// So many in so many microseconds, of which there is at least one each.
    #[must_use]
    pub fn new(units: u64, period_us: u64) -> Self {
        Self { units: units.max(1), period_us: period_us.max(1) }
    }

    /// When the `n`-th comes, counted from 0.
    pub(super) fn nth(self, n: u64) -> u64 {
        let at = u128::from(n) * u128::from(self.period_us) / u128::from(self.units);
        u64::try_from(at).unwrap_or(u64::MAX)
    }

    /// Microseconds from one to the next, on average.
    pub(super) fn gap_us(self) -> f64 {
        self.period_us as f64 / self.units as f64
    }
}

impl Workload {
    /// How many different clients there are from the start to the end.
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
    /// About how many requests it makes.
    pub(super) fn requests(&self) -> u64 {
        self.requests_in(self.until_us.saturating_sub(self.from_us))
    }

    /// About how many of them come within so long, where most come.
    pub(super) fn requests_within(&self, us: u64) -> u64 {
        let span_us = us.min(self.until_us.saturating_sub(self.from_us));
        let most = match &self.arrivals {
            // At noon twice as many as on average.
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

//! The requests of a workload, one after the other.

use super::{Arrivals, Rate, Workload};
use crate::error::Error;
use tollgate_logs::order;
use tollgate_logs::split_mix::SplitMix64;

/// A request of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::experiment) struct Request {
    /// Microseconds from the start.
    pub(in crate::experiment) at_us: u64,
    /// The number of the client.
    pub(in crate::experiment) client: u32,
    /// The cost in units: 1, unless a log has others.
    pub(in crate::experiment) cost: u32,
}

impl Request {
    fn of_one_unit((at_us, client): (u64, u32)) -> Self {
        Self { at_us, client, cost: 1 }
    }
}

/// The requests of one workload, in the order of time.
pub(in crate::experiment) struct RequestSource<'w> {
    workload: &'w Workload,
    /// The number of its first client.
    first: u32,
    rng: SplitMix64,
    pick: ClientPicker,
    /// The number of requests so far; for gangs, the number of gangs.
    count: u64,
    /// The end of the last gap, in microseconds from the start, with fractions.
    at: f64,
    /// The remaining requests of a gang, the last first.
    gang: Vec<(u64, u32)>,
    log: Option<order::Iter<'w>>,
    start_us: u64,
}

impl<'w> RequestSource<'w> {
    /// The requests of `workload`, whose clients have numbers from `first` on.
    pub(in crate::experiment) fn new(
        workload: &'w Workload,
        first: u32,
        seed: u64,
        start_us: u64,
    ) -> Result<Self, Error> {
        let log = match &workload.arrivals {
            Arrivals::Log(traffic) => Some(traffic.ordered.iter()?),
            _ => None,
        };
        Ok(Self {
            workload,
            first,
            rng: SplitMix64::new(seed),
            pick: ClientPicker::new(workload),
            count: 0,
            at: workload.from_us as f64,
            gang: Vec::new(),
            log,
            start_us,
        })
    }

    /// The next request.
    pub(in crate::experiment) fn next(&mut self) -> Result<Option<Request>, Error> {
        let workload = self.workload;
        let from = workload.from_us;
        let n = self.count;
        let at = match &workload.arrivals {
            Arrivals::Steady(rate) => from.saturating_add(rate.nth(n)),
            Arrivals::Poisson(rate) => self.after(rate.gap_us()),
            Arrivals::Bursts { size, every_us } => {
                from.saturating_add((n / (*size).max(1)).saturating_mul(*every_us))
            }
            Arrivals::Loop { count, .. } if n == *count => return Ok(None),
            Arrivals::Loop { every_us, .. } => {
                let at = whole(self.at);
                self.at += (every_us / 2 + self.rng.below(*every_us + 1)) as f64;
                at
            }
            Arrivals::Edge { window_us, size, .. } => {
                let (edge, place) = (n / (2 * size.max(&1)), n % (2 * size.max(&1)));
                // Before the edge one after the other, after it all together.
                let (first, before) = workload.first_edge(self.start_us).unwrap_or_default();
                let at = first.saturating_add(edge.saturating_mul(*window_us));
                if place < *size { at - before + spread(before, place, *size) } else { at }
            }
            Arrivals::Diurnal { rate, day_us } => self.next_diurnal(*rate, *day_us),
            Arrivals::Gang { .. } => return Ok(self.next_gang().map(Request::of_one_unit)),
            Arrivals::Log(_) => return self.next_logged(),
        };
        self.count += 1;
        if at >= workload.until_us {
            return Ok(None);
        }
        let client = self.pick.one(&mut self.rng, n);
        Ok(Some(Request::of_one_unit((at, self.first + client))))
    }

    /// The end of the next gap of a Poisson process.
    fn after(&mut self, mean_us: f64) -> u64 {
        // A 53-bit number above 0 and up to 1. The logarithm is the same on every machine.
        let chance = (self.rng.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64;
        self.at += mean_us * -libm::log(chance);
        whole(self.at)
    }

    /// The next request by thinning: from a process with twice the mean rate, it keeps those that
    /// the daily rate allows.
    fn next_diurnal(&mut self, rate: Rate, day_us: u64) -> u64 {
        loop {
            let at = self.after(rate.gap_us() / 2.0);
            let day = (at.saturating_sub(self.workload.from_us) % day_us.max(1)) as f64;
            let turn = day / day_us.max(1) as f64 * core::f64::consts::TAU;
            let share = (1.0 - libm::cos(turn)) / 2.0;
            let chance = self.rng.below(1 << 53) as f64 / (1_u64 << 53) as f64;
            if chance < share || at >= self.workload.until_us {
                return at;
            }
        }
    }

    fn next_gang(&mut self) -> Option<(u64, u32)> {
        let Arrivals::Gang { each, within_us, every_us, is_new } = self.workload.arrivals else {
            return None;
        };
        if self.gang.is_empty() {
            let begin = match (self.count, every_us) {
                (0, _) => self.workload.from_us,
                (n, Some(every)) => self.workload.from_us.saturating_add(n.saturating_mul(every)),
                (_, None) => return None,
            };
            if begin >= self.workload.until_us {
                return None;
            }
            let clients = self.workload.clients;
            let gang = u32::try_from(self.count).unwrap_or(u32::MAX);
            let base = if is_new { gang.saturating_mul(clients) } else { 0 };
            for client in 0..clients {
                for _ in 0..each {
                    let at = begin + self.rng.below(within_us.max(1));
                    self.gang.push((at, self.first + base.saturating_add(client)));
                }
            }
            self.gang.sort_unstable_by(|one, other| other.cmp(one));
            self.count += 1;
        }
        self.gang.pop().filter(|(at, _)| *at < self.workload.until_us)
    }

    fn next_logged(&mut self) -> Result<Option<Request>, Error> {
        let from = self.workload.from_us;
        let Some(event) = self.log.as_mut().and_then(Iterator::next).transpose()? else {
            return Ok(None);
        };
        let at_us = event.at_us.saturating_sub(self.start_us).saturating_add(from);
        let client = self.first + event.client.index();
        let request = Request { at_us, client, cost: event.cost };
        Ok(Some(request).filter(|it| it.at_us < self.workload.until_us))
    }
}

/// The time of request `place` of `size`, spread evenly over `us` microseconds.
fn spread(us: u64, place: u64, size: u64) -> u64 {
    let at = u128::from(us) * u128::from(place) / u128::from(size.max(1));
    u64::try_from(at).unwrap_or(us)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it saturates, as is wanted
fn whole(at: f64) -> u64 {
    at as u64
}

/// Picks the client that asks.
enum ClientPicker {
    InTurn(u32),
    /// The cumulative weights of the clients.
    Zipf(Vec<f64>),
}

impl ClientPicker {
    fn new(workload: &Workload) -> Self {
        let clients = workload.clients.max(1);
        let Some(exponent) = workload.zipf else { return Self::InTurn(clients) };
        let mut sum = 0.0;
        let sums = (1..=clients).map(|n| {
            sum += libm::pow(f64::from(n), -exponent);
            sum
        });
        Self::Zipf(sums.collect())
    }

    fn one(&self, rng: &mut SplitMix64, n: u64) -> u32 {
        match self {
            Self::InTurn(clients) => u32::try_from(n % u64::from(*clients)).unwrap_or(0),
            Self::Zipf(sums) => {
                let total = sums.last().copied().unwrap_or(0.0);
                let chance = rng.below(1 << 53) as f64 / (1_u64 << 53) as f64 * total;
                let place = sums.partition_point(|sum| *sum <= chance).min(sums.len() - 1);
                u32::try_from(place).unwrap_or(0)
            }
        }
    }
}

//! Which client asks when.

use std::sync::Arc;

use crate::error::Error;
use crate::order;
use crate::read::Traffic;
use crate::split_mix::SplitMix64;

use super::file::rate;
use super::{Invalid, Retry};

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

impl core::str::FromStr for Rate {
    type Err = Invalid;

    /// So many in so long, as `10/s`.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        rate(text).map_err(Invalid)
    }
}

impl Rate {
    /// So many in so many microseconds, of which there is at least one each.
    #[must_use]
    pub fn new(units: u64, period_us: u64) -> Self {
        Self { units: units.max(1), period_us: period_us.max(1) }
    }

    /// When the `n`-th comes, counted from 0.
    fn nth(self, n: u64) -> u64 {
        let at = u128::from(n) * u128::from(self.period_us) / u128::from(self.units);
        u64::try_from(at).unwrap_or(u64::MAX)
    }

    /// Microseconds from one to the next, on average.
    fn gap_us(self) -> f64 {
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

/// The requests of one workload, in the order of time.
pub(super) struct RequestSource<'w> {
    workload: &'w Workload,
    /// The number of its first client.
    first: u32,
    rng: SplitMix64,
    pick: ClientPicker,
    /// How many requests came so far; for gangs, how many gangs.
    count: u64,
    /// The end of the last gap, in microseconds from the start, with fractions.
    at: f64,
    /// Of a gang, those still to come, the last first.
    gang: Vec<(u64, u32)>,
    log: Option<order::Iter<'w>>,
    start_us: u64,
}

impl<'w> RequestSource<'w> {
    /// The requests of `workload`, whose clients have the numbers from `first` on.
    pub(super) fn new(
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

    /// The next request: microseconds from the start, and the number of the client.
    pub(super) fn next(&mut self) -> Result<Option<(u64, u32)>, Error> {
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
            Arrivals::Edge { window_us, size, before_us } => {
                let (edge, place) = (n / (2 * size.max(&1)), n % (2 * size.max(&1)));
                // Before the edge one after the other, after it all at once.
                let before = (*before_us).min(window_us / 2).max(1);
                let begin = self.start_us.saturating_add(from).saturating_add(before);
                let first = begin.div_ceil(*window_us).saturating_mul(*window_us);
                let at = first.saturating_add(edge.saturating_mul(*window_us)) - self.start_us;
                if place < *size { at - before + spread(before, place, *size) } else { at }
            }
            Arrivals::Diurnal { rate, day_us } => self.next_diurnal(*rate, *day_us),
            Arrivals::Gang { .. } => return Ok(self.next_gang()),
            Arrivals::Log(_) => return self.next_logged(),
        };
        self.count += 1;
        if at >= workload.until_us {
            return Ok(None);
        }
        let client = self.pick.one(&mut self.rng, n);
        Ok(Some((at, self.first + client)))
    }

    /// The end of another gap of a Poisson process.
    fn after(&mut self, mean_us: f64) -> u64 {
        // A number above 0 and up to 1, of 53 bits. The logarithm is the same on every machine.
        let chance = (self.rng.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64;
        self.at += mean_us * -libm::log(chance);
        whole(self.at)
    }

    /// Of a process with twice the mean rate those that a day's rate lets stand (thinning).
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

    fn next_logged(&mut self) -> Result<Option<(u64, u32)>, Error> {
        let from = self.workload.from_us;
        let Some(event) = self.log.as_mut().and_then(Iterator::next).transpose()? else {
            return Ok(None);
        };
        let at = event.at_us.saturating_sub(self.start_us).saturating_add(from);
        let is_within = at < self.workload.until_us;
        Ok(is_within.then(|| (at, self.first + event.client.index())))
    }
}

/// When the `place`-th of `size` comes that are spread evenly over so long.
fn spread(us: u64, place: u64, size: u64) -> u64 {
    let at = u128::from(us) * u128::from(place) / u128::from(size.max(1));
    u64::try_from(at).unwrap_or(us)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it saturates, as is wanted
fn whole(at: f64) -> u64 {
    at as u64
}

/// Which client asks.
enum ClientPicker {
    InTurn(u32),
    /// The sums of weights up to each client.
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn workload(arrivals: Arrivals) -> Workload {
        Workload {
            name: "w".to_owned(),
            clients: 4,
            arrivals,
            from_us: 2 * SECOND,
            until_us: 62 * SECOND,
            retry: Retry::Never,
            zipf: None,
        }
    }

    fn all(workload: &Workload, seed: u64) -> Vec<(u64, u32)> {
        let mut source = RequestSource::new(workload, 10, seed, super::super::START_US).unwrap();
        let mut all = Vec::new();
        while let Some(next) = source.next().unwrap() {
            all.push(next);
        }
        assert!(all.is_sorted_by_key(|(at, _)| *at), "in order");
        let within = workload.from_us..workload.until_us;
        assert!(all.iter().all(|(at, _)| within.contains(at)));
        all
    }

    #[test]
    fn steady_ones_come_evenly_and_in_turn() {
        let all = all(&workload(Arrivals::Steady(Rate::new(3, SECOND))), 1);
        assert_eq!(all.len(), 180);
        assert_eq!(&all[..3], [(2_000_000, 10), (2_333_333, 11), (2_666_666, 12)]);
        assert_eq!((all[3], all[4].1), ((3_000_000, 13), 10));
    }

    #[test]
    fn a_poisson_process_has_its_mean_and_its_spread() {
        let poisson = workload(Arrivals::Poisson(Rate::new(1_000, SECOND)));
        let all = all(&poisson, 5);
        // 60,000 on average, with a standard deviation of 245.
        assert!((59_000..61_000).contains(&all.len()), "{}", all.len());
        let mut per_second = [0_i64; 60];
        for (at, _) in &all {
            per_second[usize::try_from(at / SECOND - 2).unwrap()] += 1;
        }
        // The variance is the mean; with 60 seconds it is seen to within a half.
        let variance = per_second.iter().map(|n| (n - 1_000).pow(2)).sum::<i64>() / 60;
        assert!((500..1_500).contains(&variance), "{variance}");
    }

    #[test]
    fn the_same_seed_gives_the_same_and_another_other_requests() {
        for arrivals in [
            Arrivals::Poisson(Rate::new(10, SECOND)),
            Arrivals::Diurnal { rate: Rate::new(10, SECOND), day_us: 30 * SECOND },
            Arrivals::Gang { each: 2, within_us: SECOND, every_us: Some(SECOND), is_new: true },
        ] {
            let workload = workload(arrivals);
            assert_eq!(all(&workload, 7), all(&workload, 7));
            assert_ne!(all(&workload, 7), all(&workload, 8));
        }
    }

    #[test]
    fn the_first_of_a_reproducible_sequence_stays_what_it_is() {
        let poisson = workload(Arrivals::Poisson(Rate::new(10, SECOND)));
        let first: Vec<u64> = all(&poisson, 1).iter().take(4).map(|(at, _)| *at).collect();
        assert_eq!(first, [2_056_816, 2_086_149, 2_089_091, 2_170_203]);
    }

    #[test]
    fn a_loop_asks_so_often_and_at_its_own_pace() {
        let all = all(&workload(Arrivals::Loop { count: 101, every_us: 10_000 }), 1);
        assert_eq!((all.len(), all[0], all[5].1), (101, (2_000_000, 10), 11));
        assert!(all.windows(2).all(|two| (5_000..=15_000).contains(&(two[1].0 - two[0].0))));
        assert!((2_950_000..3_050_000).contains(&all[100].0), "{:?}", all[100]);
    }

    #[test]
    fn bursts_and_edges_come_when_they_are_said_to() {
        let bursts = all(&workload(Arrivals::Bursts { size: 3, every_us: 30 * SECOND }), 1);
        let times: Vec<u64> = bursts.iter().map(|(at, _)| at / SECOND).collect();
        assert_eq!(times, [2, 2, 2, 32, 32, 32]);
        // The start is on the edge of every window of 10 s.
        let edges = all(
            &workload(Arrivals::Edge {
                window_us: 10 * SECOND,
                size: 2,
                before_us: BEFORE_EDGE_US,
            }),
            1,
        );
        let times: Vec<u64> = edges.iter().map(|(at, _)| *at).take(5).collect();
        assert_eq!(times, [9_999_000, 9_999_500, 10_000_000, 10_000_000, 19_999_000]);
        assert_eq!(edges.len(), 4 * 6);
    }

    #[test]
    fn a_gang_arrives_together_and_the_next_may_be_of_others() {
        let gang = |every_us, is_new| {
            workload(Arrivals::Gang { each: 2, within_us: SECOND, every_us, is_new })
        };
        let one = gang(None, true);
        assert_eq!((all(&one, 1).len(), one.all_clients()), (8, 4));
        assert!(all(&one, 1).iter().all(|(at, _)| at / SECOND == 2));
        let several = gang(Some(20 * SECOND), true);
        let clients: std::collections::BTreeSet<u32> =
            all(&several, 1).iter().map(|(_, client)| *client).collect();
        assert_eq!((clients.len(), several.all_clients()), (12, 12));
        assert_eq!(clients.first().zip(clients.last()), Some((&10, &21)));
        assert_eq!(gang(Some(20 * SECOND), false).all_clients(), 4);
    }

    #[test]
    fn how_many_there_will_be_is_told_before_within_a_tenth() {
        let rate = Rate::new(100, SECOND);
        for arrivals in [
            Arrivals::Steady(rate),
            Arrivals::Poisson(rate),
            Arrivals::Diurnal { rate, day_us: 60 * SECOND },
            Arrivals::Bursts { size: 300, every_us: 7 * SECOND },
            Arrivals::Loop { count: 500, every_us: 100_000 },
            Arrivals::Loop { count: 5_000, every_us: 100_000 },
            Arrivals::Gang { each: 40, within_us: SECOND, every_us: Some(SECOND), is_new: false },
            Arrivals::Gang { each: 40, within_us: SECOND, every_us: None, is_new: true },
            Arrivals::Edge { window_us: 10 * SECOND, size: 300, before_us: BEFORE_EDGE_US },
        ] {
            let workload = workload(arrivals);
            let (told, made) = (workload.requests(), all(&workload, 4).len() as u64);
            assert!(told.abs_diff(made) * 10 <= made, "{:?}: {told}, {made}", workload.arrivals);
        }
    }

    #[test]
    fn a_day_has_its_night_and_its_noon() {
        let day_us = 60 * SECOND;
        let all = all(&workload(Arrivals::Diurnal { rate: Rate::new(100, SECOND), day_us }), 3);
        assert!((5_700..6_300).contains(&all.len()), "{}", all.len());
        let in_sixth = |n: u64| {
            let sixth = (2 + 10 * n) * SECOND..(12 + 10 * n) * SECOND;
            all.iter().filter(|(at, _)| sixth.contains(at)).count()
        };
        assert!(in_sixth(0) < 250 && in_sixth(5) < 250, "at night");
        assert!(in_sixth(2) > 1_600 && in_sixth(3) > 1_600, "at noon");
    }

    #[test]
    fn the_busiest_client_asks_as_zipf_says() {
        let mut zipf = workload(Arrivals::Poisson(Rate::new(1_000, SECOND)));
        zipf.zipf = Some(1.0);
        let mut counts = [0_u32; 4];
        for (_, client) in all(&zipf, 1) {
            counts[client as usize - 10] += 1;
        }
        // 60,000 by 1, 1/2, 1/3, 1/4.
        for (count, expected) in counts.into_iter().zip([28_800, 14_400, 9_600, 7_200]) {
            assert!(count.abs_diff(expected) < 600, "{counts:?}");
        }
    }
}

//! How far a log supports a burst: what other clients and other days could have shown.
//!
//! Two questions, both answered without random numbers. *Other clients*: a bootstrap over them
//! (Efron, 1979). Of a resample as large as the log, the `k + 1` largest demand is at least the `j`
//! largest one of the log if more than `k` draws fall on the `j` busiest clients. Their number is
//! Poisson with mean `j`, so the ranks of a 90 % interval are quantiles of a gamma distribution, by
//! the formula of Wilson and Hilferty (1931). *Other times*: each quarter of the log by itself.

use serde::Serialize;

use super::scan::{Sample, events};
use super::{Go, Options};
use crate::error::Error;
use crate::read::Traffic;

/// The parts of a log that are compared.
const PARTS: usize = 4;

/// A log is so many times as long as the time in which a burst comes back.
const REFILLS: u64 = 10;

/// The fewest clients that a limit is made from without a doubt.
const FEWEST_CLIENTS: usize = 20;

/// The 95 % quantile of the normal distribution.
const Z: f64 = 1.645;

/// How far a log supports the least burst that keeps to the share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Confidence {
    /// That burst.
    pub least: u64,
    /// The lower end of a 90 % interval: other clients like these would have needed at least this.
    pub low: u64,
    /// The upper end. It is never above the demand of the busiest client of the log.
    pub high: u64,
    /// The same burst in each quarter of the log's time alone; 0 in one without a client.
    pub quarters: [u64; PARTS],
}

/// The clients of a rate, and the burst that is recommended with it.
pub(super) struct Judged<'j> {
    pub(super) sample: &'j Sample,
    pub(super) is_outlier: &'j [bool],
    /// The least burst of each client.
    pub(super) least: &'j [u64],
    pub(super) burst: u64,
    /// The time in which a unit comes back.
    pub(super) step_us: u64,
}

impl Confidence {
    /// Of these clients, with a second pass over the log.
    pub(super) fn new(
        traffic: &Traffic,
        judged: &Judged<'_>,
        options: &Options,
        go: &mut Go<'_>,
    ) -> Result<Self, Error> {
        let each = judged.least.iter().zip(judged.is_outlier);
        let mut all: Vec<u64> = each.filter(|(_, is)| !**is).map(|(least, _)| *least).collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        let allowed = options.target.clients_of(all.len() as u64);
        let ranked = |rank: u64| {
            let index = usize::try_from(rank.saturating_sub(1)).unwrap_or(usize::MAX);
            all.get(index.min(all.len().saturating_sub(1))).copied().unwrap_or(0)
        };
        Ok(Self {
            least: ranked(allowed + 1),
            low: ranked(gamma_quantile(allowed + 1, Z)),
            high: ranked(gamma_quantile(allowed + 1, -Z)),
            quarters: quarters(traffic, judged, options, go)?,
        })
    }

    /// Reasons why the log is too short or too small.
    pub(super) fn doubts(&self, traffic: &Traffic, judged: &Judged<'_>) -> Vec<String> {
        let mut all = Vec::new();
        let clients = judged.is_outlier.iter().filter(|is| !**is).count();
        if clients < FEWEST_CLIENTS {
            all.push(format!(
                "{clients} clients are few: take a log with at least {FEWEST_CLIENTS}."
            ));
        }
        let (first_us, last_us) = traffic.summary.first_last_us.unwrap_or_default();
        let enough_us = judged.burst.saturating_mul(judged.step_us).saturating_mul(REFILLS);
        if last_us - first_us < enough_us {
            all.push(format!(
                "The log covers {}. A burst of {} comes back in {}, and a log should cover {REFILLS} \
                 times that: take one of at least {}.",
                about(last_us - first_us, 0),
                judged.burst,
                about(enough_us / REFILLS, 1),
                about(enough_us, 1)
            ));
        }
        let mut sorted = self.quarters;
        sorted.sort_unstable();
        if let [.., second, most] = sorted
            && most > 2 * second
            && most > judged.burst / 2
        {
            all.push(format!(
                "One quarter of the log's time needs a burst of {most}, and the others at most \
                 {second}: a longer log shows whether that is usual."
            ));
        }
        all
    }
}

/// The rank that has this quantile of a gamma distribution with this shape, at least 1.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
fn gamma_quantile(shape: u64, z: f64) -> u64 {
    let shape = shape as f64;
    let root = 1.0 - 1.0 / (9.0 * shape) + z / (3.0 * shape.sqrt());
    // Shapes are numbers of clients, so the result is far below 2^53.
    (shape * root.max(0.0).powi(3)).ceil().max(1.0) as u64
}

/// The least burst that keeps to the share in each quarter of the log's time. The backlog of a
/// client goes on from one to the next.
fn quarters(
    traffic: &Traffic,
    judged: &Judged<'_>,
    options: &Options,
    go: &mut Go<'_>,
) -> Result<[u64; PARTS], Error> {
    let (first_us, last_us) = traffic.summary.first_last_us.unwrap_or_default();
    let part_us = (last_us - first_us) / PARTS as u64 + 1;
    let mut backlogs = vec![(0_u64, 0_u64); judged.sample.len()];
    let mut longest = vec![[0_u64; PARTS]; judged.sample.len()];
    events(traffic, judged.sample, go, |place, event| {
        if let (Some((now_us, at_us)), Some(longest)) =
            (backlogs.get_mut(place), longest.get_mut(place))
        {
            let added = u64::from(event.cost).saturating_mul(judged.step_us);
            *now_us = now_us.saturating_sub(event.at_us - *at_us).saturating_add(added);
            *at_us = event.at_us;
            // Events that were spread within their second may be just outside.
            let part = (event.at_us.saturating_sub(first_us) / part_us).min(PARTS as u64 - 1);
            if let Some(longest) = longest.get_mut(usize::try_from(part).unwrap_or(0)) {
                *longest = (*longest).max(*now_us);
            }
        }
        Ok(())
    })?;
    let of_part = |part: usize| {
        let each = longest.iter().zip(judged.is_outlier).filter(|(_, is)| !**is);
        let units = |(all, _): (&[u64; PARTS], &bool)| all.get(part).copied().unwrap_or(0);
        let mut all: Vec<u64> = each.map(units).filter(|longest| *longest > 0).collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        let allowed = options.target.clients_of(all.len() as u64);
        let longest_us = all.get(usize::try_from(allowed).unwrap_or(usize::MAX));
        longest_us.copied().unwrap_or(0).div_ceil(judged.step_us)
    };
    Ok(std::array::from_fn(of_part))
}

/// A time in its largest unit of which it has two: `17 min`. A started unit counts as `started`.
fn about(us: u64, started: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(86_400_000_000, "days"), (3_600_000_000, "hours"), (60_000_000, "min"), (1_000_000, "s")];
    let unit = UNITS.into_iter().find(|(unit, _)| us >= 2 * unit).unwrap_or((1_000_000, "s"));
    let whole = us / unit.0 + started * u64::from(!us.is_multiple_of(unit.0));
    format!("{whole} {}", unit.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_gamma_distribution() {
        // Exact quantiles of 95 % and 5 %, from tables: 2.996 and 0.051, 4.744 and 0.355, 16.96 and
        // 6.169, 117.0 and 84.14.
        for (shape, high, low) in [(1, 3, 1), (2, 5, 1), (11, 17, 7), (100, 117, 85)] {
            let found = (gamma_quantile(shape, Z), gamma_quantile(shape, -Z));
            assert_eq!(found, (high, low), "{shape}");
        }
    }

    #[test]
    fn what_is_needed_is_rounded_up_and_what_there_is_down() {
        let times = [1, 90_000_000, 119_999_999, 120_000_000, 7_200_000_001, 172_800_000_000];
        let needed = times.map(|us| about(us, 1));
        assert_eq!(needed, ["1 s", "90 s", "120 s", "2 min", "3 hours", "2 days"]);
        let there = times.map(|us| about(us, 0));
        assert_eq!(there, ["0 s", "90 s", "119 s", "2 min", "2 hours", "2 days"]);
    }
}

//! The limit of each strategy for one window.

use tollgate::{LimitSet, Period, Strategy, Unit};

use super::advice::{AdvisedLimit, CurvePoint};
use super::cost::Subjects;
use super::scan::{Busy, Profile, Window};
use super::{Target, Tolerance};

/// The most points of a curve.
const CURVE: usize = 64;

/// The units of a client that every number of units denies.
const NEVER: u64 = u64::MAX;

/// The sub-bucket of `sliding_window` with this window; 0 where the strategy does not support it.
pub(super) fn bucket_us(period: Period) -> u64 {
    let limit = limit_of(Strategy::SlidingWindow, 1, period, Unit::REQUESTS).ok();
    let limit = limit.as_ref().and_then(|set| set.limits().first());
    limit.and_then(|limit| limit.quota().precision).map_or(0, Period::as_micros)
}

/// A limit with this many units of this name.
pub(super) fn limit_of(
    strategy: Strategy,
    units: u64,
    period: Period,
    unit: Unit,
) -> Result<LimitSet, tollgate::ParseError> {
    let of = if unit == Unit::REQUESTS { String::new() } else { format!(" of {unit}") };
    LimitSet::parse_with(&format!("{units}/{period}{of}"), strategy)
}

/// The least number of units of a client under each strategy.
pub(super) fn leasts(busy: &Busy, profile: &Profile, period_us: u64) -> Vec<Option<u64>> {
    Strategy::RATES.iter().map(|strategy| busy.least(*strategy, profile, period_us)).collect()
}

/// A window with its clients.
#[derive(Clone, Copy)]
pub(super) struct Clients<'s> {
    pub(super) window: &'s Window,
    pub(super) period: Period,
    pub(super) unit: Unit,
    pub(super) profiles: &'s [Profile],
    /// Whether each client is an outlier.
    pub(super) is_outlier: &'s [bool],
}

/// A client: its least number of units, its requests, and whether it is an outlier.
pub(super) type Ranked = (u64, u64, bool);

impl Clients<'_> {
    /// All clients by their least number of units under this strategy, the largest first.
    fn ranked(&self, strategy: Strategy) -> Vec<Ranked> {
        let period_us = self.window.period_us;
        let each = self.window.busy.iter().zip(self.profiles).zip(self.is_outlier);
        let each = each.map(|((busy, profile), is_outlier)| {
            let least = busy.least(strategy, profile, period_us).unwrap_or(NEVER);
            (least, profile.requests, *is_outlier)
        });
        let mut all: Vec<Ranked> = each.collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        all
    }

    /// The least number of units under this strategy that keeps to the target. For a share of
    /// requests it is one that surely does: a denied client has all of its requests denied.
    pub(super) fn units(&self, strategy: Strategy, target: Target) -> Option<u64> {
        let ranked = self.ranked(strategy);
        let ordinary = || ranked.iter().filter(|(.., is_outlier)| !is_outlier);
        let units = match target {
            Target::Clients(share) => {
                let all = ordinary().count() as u64;
                let may_be_denied = share.of_rounded_down(all);
                let place = usize::try_from(may_be_denied).unwrap_or(usize::MAX);
                ordinary().nth(place).map_or(1, |(least, ..)| *least)
            }
            Target::Requests(share) => {
                let mut left = self.may_deny(share);
                let mut found = 1;
                for (least, requests, _) in ordinary() {
                    found = *least;
                    match left.checked_sub(*requests) {
                        Some(rest) => left = rest,
                        None => break,
                    }
                }
                found
            }
        };
        (units != NEVER).then_some(units.max(1))
    }

    /// Whether each client is ever denied with this many units under this strategy.
    pub(super) fn are_denied(&self, strategy: Strategy, units: u64) -> Vec<bool> {
        let period_us = self.window.period_us;
        let each = self.window.busy.iter().zip(self.profiles);
        let least = |(busy, profile): (&Busy, &Profile)| busy.least(strategy, profile, period_us);
        each.map(|it| least(it).is_none_or(|least| least > units)).collect()
    }

    /// The requests that this share may deny.
    pub(super) fn may_deny(&self, share: Tolerance) -> u64 {
        let each =
            self.profiles.iter().zip(self.is_outlier).filter(|(_, is_outlier)| !**is_outlier);
        share.of_rounded_down(each.map(|(profile, _)| profile.requests).sum())
    }

    /// The row of this strategy with this many units; with the reason where there is none.
    pub(super) fn row(
        &self,
        strategy: Strategy,
        units: Option<u64>,
        subjects: &Subjects,
    ) -> AdvisedLimit {
        let ranked = self.ranked(strategy);
        let mut row = AdvisedLimit {
            strategy: strategy.name(),
            limit: None,
            refused: None,
            units: 0,
            worst_window: 0,
            clients_denied: 0,
            outliers_denied: 0,
            requests_denied: None,
            outliers_requests_denied: None,
            longest_wait_us: None,
            too_few: None,
            bytes_memory: 0,
            bytes_redis: 0,
            curve: curve(&ranked),
        };
        let Some(units) = units else {
            row.refused = Some(match strategy {
                Strategy::Uniform => {
                    "some requests of a client are at one time, or cost more than 1, and this \
                     strategy admits one unit at a time"
                        .to_owned()
                }
                _ => "some clients are denied whatever the limit is".to_owned(),
            });
            return row;
        };
        let set = match limit_of(strategy, units, self.period, self.unit) {
            Ok(set) => set,
            Err(why) => {
                row.refused = Some(format!("{}: {}", why.what(), why.remedy()));
                return row;
            }
        };
        let Some(limit) = set.limits().first() else { return row };
        row.limit = Some(limit.to_string());
        row.units = units;
        row.worst_window = strategy.traits(limit.quota()).worst_window;
        let denied = ranked.iter().filter(|(least, ..)| *least > units);
        let outliers = denied.clone().filter(|(.., is_outlier)| *is_outlier).count() as u64;
        row.outliers_denied = outliers;
        row.clients_denied = denied.count() as u64 - outliers;
        let busiest = self.window.busy.iter().map(Busy::busiest);
        (row.bytes_memory, row.bytes_redis) = subjects.bytes(limit, busiest);
        row
    }
}

/// How many clients are ever denied with this many units: at each number where that changes, or at
/// [`CURVE`] of them.
pub(super) fn curve(ranked: &[Ranked]) -> Vec<CurvePoint> {
    let mut points: Vec<CurvePoint> = Vec::new();
    let mut outliers = 0;
    for ((least, _, is_outlier), clients) in ranked.iter().zip(0..) {
        if *least != NEVER && points.last().is_none_or(|last| last.units != *least) {
            points.push(CurvePoint { units: *least, clients, outliers });
        }
        outliers += u64::from(*is_outlier);
    }
    points.reverse();
    if points.len() <= CURVE {
        return points;
    }
    let last = points.len() - 1;
    (0..CURVE).filter_map(|n| points.get(n * last / (CURVE - 1)).copied()).collect()
}

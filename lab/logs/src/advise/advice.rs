//! The contents of an advice: the object of `advise --json`, whose names scripts rely on.

use serde::Serialize;

use super::clients::{BusyClient, ClientRow};
use super::confidence::Confidence;
use super::groups::Group;
use super::outliers::Why;

/// Advice on limits for a log.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Advice {
    /// Lines of the log that are events.
    pub events: u64,
    /// Lines that are not.
    pub unparsed: u64,
    /// Events with an earlier timestamp than the event before them in the file.
    pub out_of_order: u64,
    /// The field that tells clients apart.
    pub by: String,
    /// The clients that were looked at.
    pub clients: u64,
    /// Their requests, and the units of these.
    pub requests: u64,
    /// The units of these requests: as many as requests, without a field of costs.
    pub units: u64,
    /// The earliest and the latest event, in microseconds since the Unix epoch.
    pub first_us: u64,
    /// The latest event.
    pub last_us: u64,
    /// Whether all clients were looked at.
    pub sampled: Sampled,
    /// The share that may be denied: `0.1 % of the clients`.
    pub target: String,
    /// How many clients, the busiest first, make half of the units.
    pub half_of_load: u64,
    /// The clients with the most units, at most [`BusyClient::MOST`].
    pub busiest: Vec<BusyClient>,
    /// The largest page view of each client without outliers: its requests that are at most 2 s
    /// apart.
    pub page_views: Busiest,
    /// One for each window, from the shortest to the longest.
    pub windows: Vec<WindowAdvice>,
    /// A limit with a burst for each rate under which a denied request waits at most as long as it
    /// may, the slowest first, up to the first one whose least burst is at most 10; none where a
    /// window was asked for.
    pub rates: Vec<RateAdvice>,
    /// The recommended limit.
    pub recommended: Recommended,
    /// The limit in force, if one is to be judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checked: Option<Checked>,
    /// Facts that are not in the log.
    pub cannot_know: Vec<String>,
    /// Every client that was looked at, in the order of the log, if they are to be listed.
    #[serde(skip)]
    pub rows: Vec<ClientRow>,
}

/// How many clients a limit would ever deny, with each number of its units.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Curve<'a> {
    /// The window, or the rate.
    pub of: &'a str,
    /// The limit that fits, if one does.
    pub limit: Option<&'a str>,
    /// Its units, or its burst.
    pub units: u64,
    /// The points, by their units.
    pub points: &'a [CurvePoint],
}

/// The clients that are ever denied with a number of units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct CurvePoint {
    /// The units of a limit, or its burst.
    pub units: u64,
    /// The clients that are denied at least once, outliers included.
    pub clients: u64,
    /// How many of these are outliers.
    pub outliers: u64,
}

impl Advice {
    /// The curves to look at: that of the recommended rate, or those of all windows under the
    /// recommended strategy.
    #[must_use]
    pub fn curves(&self) -> Vec<Curve<'_>> {
        let it = &self.recommended;
        if let Some(rate) = self.rates.iter().find(|rate| rate.rate == it.window) {
            let RateAdvice { rate: of, limit, burst, curve, .. } = rate;
            return vec![Curve { of, limit: Some(limit), units: *burst, points: curve }];
        }
        let each = self.windows.iter().filter_map(|window| {
            let row = window.limits.iter().find(|row| row.strategy == it.strategy)?;
            let (of, limit) = (window.window.as_str(), row.limit.as_deref());
            Some(Curve { of, limit, units: row.units, points: &row.curve })
        });
        each.filter(|curve| !curve.points.is_empty()).collect()
    }
}

/// Which clients were looked at.
#[derive(Debug, Clone, Copy, Serialize)]
#[non_exhaustive]
pub struct Sampled {
    /// One of this many clients, by a hash of their names: 1 for all of them.
    pub one_in: u64,
    /// Events of the clients that were not looked at.
    pub events_left_out: u64,
}

/// The clients' behaviour in one window, and limits with it.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct WindowAdvice {
    /// The window: `1m`.
    pub window: String,
    /// Its length in microseconds.
    pub window_us: u64,
    /// Whether the log is shorter than the window, so that it says little about it.
    pub is_longer_than_log: bool,
    /// Percentiles over the clients without outliers.
    pub busiest: Busiest,
    /// How many times the mean of its busiest window of the next length a client asked for in its
    /// busiest window of this one, in tenths: the median of clients with ten requests or more.
    pub burst_tenths: Option<u64>,
    /// The outliers, the busiest first, at most [`WindowAdvice::NAMED`].
    pub outliers: Vec<Outlier>,
    /// How many these are in all.
    pub outliers_count: u64,
    /// One for each strategy.
    pub limits: Vec<AdvisedLimit>,
}

impl WindowAdvice {
    /// The most outliers that are named.
    pub const NAMED: usize = 20;
}

/// The demand of clients at their busiest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Busiest {
    /// Half of the clients never exceed this.
    pub p50: u64,
    /// Nine of ten.
    pub p90: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1,000.
    pub p99_9: u64,
    /// The busiest client.
    pub max: u64,
}

impl Busiest {
    /// Of these demands, without the outliers.
    pub(super) fn of(demand: impl Iterator<Item = u64>, is_outlier: &[bool]) -> Self {
        let each = demand.zip(is_outlier);
        let mut all: Vec<u64> = each.filter(|(_, is)| !**is).map(|(units, _)| units).collect();
        all.sort_unstable();
        let per_mille = |share: usize| {
            let rank = (all.len() * share).div_ceil(1_000).max(1);
            all.get(rank - 1).copied().unwrap_or(0)
        };
        Self {
            p50: per_mille(500),
            p90: per_mille(900),
            p99: per_mille(990),
            p99_9: per_mille(999),
            max: per_mille(1_000),
        }
    }
}

/// A client whose demand says nothing about that of people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Outlier {
    /// Its name in printable form.
    pub client: String,
    /// Why it is one.
    pub why: Why,
    /// The most that it asked for in a window, or the least burst that never denies it.
    pub busiest: u64,
    /// All of its requests.
    pub requests: u64,
}

/// The limit of one strategy that fits.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct AdvisedLimit {
    /// The name of the strategy.
    pub strategy: &'static str,
    /// The full text of the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The reason why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Its units.
    pub units: u64,
    /// The most units of one client in any window, whatever it does.
    pub worst_window: u64,
    /// Clients that are denied at least once, without outliers.
    pub clients_denied: u64,
    /// Outliers that are denied at least once.
    pub outliers_denied: u64,
    /// Requests of the clients without outliers that are denied, where that was replayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_denied: Option<u64>,
    /// Requests of outliers that are denied, where that was replayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outliers_requests_denied: Option<u64>,
    /// The longest wait of a denied request, in microseconds, where that was replayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_wait_us: Option<u64>,
    /// The largest number of units that was tried and denies more than the share of requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_few: Option<u64>,
    /// The bytes of all clients in memory, each at its busiest, at most.
    pub bytes_memory: u64,
    /// The same on Redis, about.
    pub bytes_redis: u64,
    /// The clients that are ever denied with other units, at most 64 points.
    pub curve: Vec<CurvePoint>,
}

/// A rate, and a burst with it that fits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RateAdvice {
    /// The rate: `6/m`.
    pub rate: String,
    /// The smallest burst that keeps to the share.
    pub least: u64,
    /// The burst of the limit: the largest that a client needs who needs at most twice the least
    /// one, and at least 10.
    pub burst: u64,
    /// The text of the limit.
    pub limit: String,
    /// The longest wait of a denied request of one unit, in microseconds.
    pub wait_us: u64,
    /// The most units of one client in an hour, whatever it does.
    pub worst_hour: u64,
    /// Clients that are denied at least once, without outliers.
    pub clients_denied: u64,
    /// Outliers that are denied at least once.
    pub outliers_denied: u64,
    /// The clients that are ever denied with other bursts, at most 64 points.
    pub curve: Vec<CurvePoint>,
}

/// A limit in force, replayed over a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Checked {
    /// Its full text.
    pub limit: String,
    /// Whether it denies at most the share of the clients without outliers.
    pub holds: bool,
    /// The most clients without outliers that may be denied.
    pub may_be_denied: u64,
    /// Those that it denies at least once.
    pub clients_denied: u64,
    /// The longest wait of a denied request, in microseconds.
    pub longest_wait_us: u64,
    /// The kinds of clients under it.
    pub groups: Vec<Group>,
}

/// The recommended limit.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Recommended {
    /// Its full text.
    pub limit: String,
    /// Why this one.
    pub reason: String,
    /// Its window, or the rate of a limit with a burst.
    pub window: String,
    /// Its strategy.
    pub strategy: &'static str,
    /// Its units, or its burst.
    pub units: u64,
    /// The most units of one client in any window, or with a burst in an hour.
    pub worst_window: u64,
    /// The longest wait of a denied request in the replay, in microseconds.
    pub longest_wait_us: u64,
    /// The outliers under it, the busiest first, at most [`WindowAdvice::NAMED`].
    pub outliers: Vec<Outlier>,
    /// How many these are in all.
    pub outliers_count: u64,
    /// The ordinary clients, the busy ones, scanners and robots under it; empty where a window was
    /// asked for.
    pub groups: Vec<Group>,
    /// How far the log supports it; `None` where a window was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// Reasons why the log is too short or too small. Do not rely on the limit while there is one.
    pub doubts: Vec<String>,
    /// Clients that a replay of it denies at least once, without outliers.
    pub clients_denied: u64,
    /// Outliers that a replay of it denies at least once.
    pub outliers_denied: u64,
    /// Requests of the clients without outliers that a replay denies.
    pub requests_denied: u64,
    /// Requests of outliers that a replay denies.
    pub outliers_requests_denied: u64,
    /// A policy file with it.
    pub policy: String,
}

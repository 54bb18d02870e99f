//! Finds a limit that fits a log: the demand of clients, the limits that would deny few of them,
//! the cost of each, and one recommendation.
//!
//! One pass finds what each client asked for in its busiest windows, and the least number of units
//! with which a limit never denies it, exactly, under each strategy. The recommended limits are
//! then replayed by the engine. Numbers are integers, and the same traffic gives the same advice.
//!
//! ```
//! use std::path::Path;
//! use tollgate_logs::advise::{Options, advise};
//! use tollgate_logs::{Lines, Reading};
//!
//! let log: String = (0..600)
//!     .map(|n| format!("{{\"ip\":\"10.0.0.{}\",\"ts\":{}}}\n", n % 3, 1_000 + n * 2))
//!     .collect();
//! let lines = Lines::from_reader(std::io::Cursor::new(log), Path::new("-"), None)?;
//! let traffic = Reading::default().read_lines(lines, |_| ())?;
//! let advice = advise(&traffic, &Options::default(), &mut |_| Ok(()))?;
//! // Each client asks every 6 s: ten times in any minute.
//! assert_eq!(advice.windows[1].busiest.max, 10);
//! assert_eq!(advice.recommended.clients_denied, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod advice;
mod burst;
mod checked;
mod choose;
mod clients;
mod confidence;
mod cost;
mod each;
mod each_policies;
mod groups;
mod named;
mod of_rate;
mod outliers;
mod policy;
mod ramp;
mod scan;
mod search;
mod second;
mod simulate;
mod table;
mod tolerance;

use std::fmt;

use tollgate::{LimitSet, Period, Strategy, Unit};

pub use self::advice::{
    Advice, AdvisedLimit, Busiest, Checked, Curve, CurvePoint, Outlier, RateAdvice, Recommended,
    Sampled, WindowAdvice,
};
pub use self::clients::{BusyClient, ClientRow};
pub use self::confidence::Confidence;
pub use self::each::{EachAdvice, ValueAdvice, advise_each};
pub use self::groups::Group;
pub use self::outliers::Why;
pub use self::policy::NAME;
use self::scan::{Sample, Scan};
pub use self::tolerance::{Tolerance, ToleranceError};
use crate::error::Error;
use crate::parse::By;
use crate::read::Traffic;

/// The most clients that are looked at without an option. Each takes about 700 bytes.
pub const MAX_CLIENTS: usize = 200_000;

/// The most windows of one advice: each takes two further readers of the log.
pub const MAX_WINDOWS: usize = 8;

/// The share that may be denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// At most this share of the clients, outliers apart, is ever denied.
    Clients(Tolerance),
    /// At most this share of the requests of these clients is denied.
    Requests(Tolerance),
}

impl Target {
    /// How many of so many clients may be denied, at least.
    fn clients_of(self, clients: u64) -> u64 {
        match self {
            Self::Clients(share) => share.of_rounded_down(clients),
            Self::Requests(_) => 0,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clients(share) => write!(f, "{share} of the clients"),
            Self::Requests(share) => write!(f, "{share} of the requests"),
        }
    }
}

/// The settings of an advice.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The field by which the traffic was read, for the policy file.
    pub by: By,
    /// The field of the costs, if the traffic has costs.
    pub cost: Option<By>,
    /// The unit of the costs.
    pub unit: Unit,
    /// The share that may be denied: by default a thousandth of the clients.
    pub target: Target,
    /// The windows, at most [`MAX_WINDOWS`]: by default a second, a minute and an hour.
    pub periods: Vec<Period>,
    /// The strategy to recommend; by default the best.
    pub strategy: Option<Strategy>,
    /// A rate with a burst is recommended under which a denied request waits at most so long: by
    /// default 10 s. `None` recommends a window; see [`Options::wants_rate`].
    pub max_wait: Option<Period>,
    /// Whether [`Advice::rows`] lists every client, which takes some 300 bytes each.
    pub lists_clients: bool,
    /// Whether outliers are left out of percentiles and tolerances.
    pub sets_outliers_apart: bool,
    /// Whether a window is recommended beside a rate with a burst, for the long run.
    pub wants_second: bool,
    /// Whether the policy file counts and never denies.
    pub is_shadow: bool,
    /// A limit in force, to be judged beside the recommended one: see [`Advice::checked`].
    pub in_force: Option<LimitSet>,
}

impl Default for Options {
    fn default() -> Self {
        const SECOND_US: u64 = 1_000_000;
        let periods = [SECOND_US, 60 * SECOND_US, 3_600 * SECOND_US];
        Self {
            by: By::Ip,
            cost: None,
            unit: Unit::REQUESTS,
            target: Target::Clients(Tolerance::from_ppm(1_000).unwrap_or(Tolerance::NONE)),
            periods: periods.into_iter().filter_map(Period::from_micros).collect(),
            strategy: None,
            max_wait: Period::from_micros(10 * SECOND_US),
            lists_clients: false,
            sets_outliers_apart: true,
            wants_second: false,
            is_shadow: false,
            in_force: None,
        }
    }
}

impl Options {
    /// The defaults for traffic that was read by this field.
    #[must_use]
    pub fn by(by: By) -> Self {
        Self { by, ..Self::default() }
    }

    /// Whether a rate with a burst is recommended, and not a window: with a longest wait, for a
    /// share of the clients, without costs, and with no strategy that has no burst.
    #[must_use]
    pub fn wants_rate(&self) -> bool {
        let has_burst = |it| matches!(it, Strategy::TokenBucket | Strategy::Gcra);
        self.max_wait.is_some()
            && matches!(self.target, Target::Clients(_))
            && self.cost.is_none()
            && self.strategy.is_none_or(has_burst)
    }

    /// The strategy of a rate with a burst.
    fn burst_strategy(&self) -> Strategy {
        self.strategy.unwrap_or(Strategy::TokenBucket)
    }
}

/// A step of the work on an advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The one pass over the log.
    Scan,
    /// A limit is replayed under this strategy.
    Replay(Strategy),
}

/// The progress of an advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The current step.
    pub step: Step,
    /// The events of this step that are done.
    pub events: u64,
    /// All events of a step.
    pub total_events: u64,
}

/// A function that gets the progress, and ends the work with an error such as [`Error::Stopped`].
pub type Go<'g> = dyn FnMut(Progress) -> Result<(), Error> + 'g;

/// Advises on limits for this traffic. `go` is called every few thousand events.
///
/// Memory: about 700 bytes for each client of the sample with three windows, and the states of one
/// replayed limit at a time.
///
/// # Errors
/// [`Error::Advice`] for traffic that no limit can be made from: of no client, of a single client
/// unless it counts all together, of a single second, or that no strategy supports; and for options
/// that ask for too much. [`Error::Temporary`] when sorted events cannot be read; what `go`
/// returns.
pub fn advise(traffic: &Traffic, options: &Options, go: &mut Go<'_>) -> Result<Advice, Error> {
    let sample = Sample::new(traffic);
    let periods = periods(options)?;
    check(traffic, &sample, options)?;
    if let (Some(wait), true) = (options.max_wait, options.wants_rate())
        && burst::FASTEST_US > wait.as_micros()
    {
        let why = format!(
            "the fastest rate that is tried gives a unit back in {}us: nobody waits at most {wait}",
            burst::FASTEST_US
        );
        return Err(Error::Advice { why });
    }
    let with_buckets: Vec<(u64, u64)> =
        periods.iter().map(|period| (period.as_micros(), table::bucket_us(*period))).collect();
    let scan = Scan::new(traffic, &sample, (&with_buckets, options.wants_rate()), go)?;
    choose::advice(traffic, options, (&sample, &scan, &periods), go)
}

/// The windows in order, each once.
fn periods(options: &Options) -> Result<Vec<Period>, Error> {
    let mut periods = options.periods.clone();
    if options.wants_second {
        periods.extend(second::LONGEST);
    }
    periods.sort_unstable_by_key(|period| period.as_micros());
    periods.dedup_by_key(|period| period.as_micros());
    if periods.is_empty() || periods.len() > MAX_WINDOWS {
        let why = format!("give 1 to {MAX_WINDOWS} windows, as in `--per 1s,1m,1h`");
        return Err(Error::Advice { why });
    }
    Ok(periods)
}

/// Whether the traffic says anything.
fn check(traffic: &Traffic, sample: &Sample, options: &Options) -> Result<(), Error> {
    let why = |why: String| Err(Error::Advice { why });
    let Some((first, last)) = traffic.summary.first_last_us.filter(|_| sample.len() > 0) else {
        return why("the log has no event: there is nothing to advise on".to_owned());
    };
    if sample.len() == 1 && options.by != By::All {
        return why(format!(
            "all events of the log are of one client by {}: percentiles of one client do not \
             describe the others. `--by` names another field, and `--by all` limits all requests \
             together",
            options.by
        ));
    }
    if last - first < 1_000_000 {
        return why(
            "all events of the log are within one second: the demand in a second, a minute or an \
             hour is not in it. Take a longer part of the log"
                .to_owned(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod known_tests;
#[cfg(test)]
mod tests;

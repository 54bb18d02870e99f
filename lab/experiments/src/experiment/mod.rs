//! Experiments: the same traffic under one strategy after the other.
//!
//! An [`Experiment`] defines which client asks when ([`Workload`]) and which limits are tried
//! ([`Case`]). [`run`] simulates its time and returns [`Results`]; [`live`] is for real time. In a
//! simulation the same experiment and seed give bit-identical results on every machine and in every
//! store: the clock is that of the events, and all random numbers come from the seed.
//!
//! ```
//! use tollgate_logs::InMemory;
//! use tollgate_experiments::experiment::{Experiment, run};
//!
//! let file = r#"
//!     version = 1
//!     name = "greedy"
//!     duration = "60s"
//!     capacity = "10/10s"
//!
//!     [[workload]]
//!     name = "greedy"
//!     arrivals = "steady"
//!     rate = "10/s"
//!
//!     [[case]]
//!     limits = [{ per = "resource", limit = "10/10s" }]
//!     strategies = ["fixed_window", "sliding_log"]
//! "#;
//! let experiment = Experiment::parse("greedy.toml", file)?;
//! let results = run(&experiment, &mut InMemory::default(), |_| ())?;
//! assert_eq!(results.cases[1].admitted, 60);
//! assert!(results.cases[1].limits[0].holds);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arrivals;
mod backend;
mod builtin;
mod case_run;
mod decision_order;
mod durations;
mod file;
mod findings;
mod latency_histogram;
mod level;
pub mod live;
mod measure;
mod nodes;
mod queue;
mod race;
mod raster_builder;
pub mod results;
mod retry;
mod run;
mod simulate;
mod size;
mod zoom;

use std::sync::Arc;

use tollgate::Limit;

use tollgate_logs::decide::{Per, PerLimits};
use tollgate_logs::read::Traffic;
use tollgate_logs::replay::Plan;

pub use self::arrivals::{Arrivals, Rate, Workload};
pub use self::backend::{Backend, SlowPhase};
pub use self::builtin::{Queueing, sides, zoo};
pub use self::case_run::Timings;
pub use self::file::FileError;
pub use self::nodes::{Away, Node, NodeAnswer, NodesCase, Spread};
pub use self::queue::{QueueCase, QueueHandles, QueueOpener, QueuesInMemory, SimulatedQueue};
pub use self::race::{Race, RaceResults};
pub use self::results::{Capacity, Results};
pub use self::retry::Retry;
pub use self::simulate::{Progress, run, run_with};
pub use self::size::Size;

/// The traffic, and the cases that are tried on it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Experiment {
    /// The name of the experiment.
    pub name: String,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The start time, in microseconds since the Unix epoch. It determines where windows aligned to
    /// the clock begin.
    pub start_us: u64,
    /// The duration, in microseconds.
    pub duration_us: u64,
    /// The length of a bucket of the series over time, in microseconds.
    pub bucket_us: u64,
    /// The load that the resource can take, if known.
    pub capacity: Option<Capacity>,
    /// The duration of the protected operation in microseconds, if known. In real time the results
    /// compare it with the duration of a decision.
    pub operation_us: Option<u64>,
    /// The backend that the limits protect, and its time per request; `None` if that is not
    /// simulated. Then every case has limits or none, in front of it.
    pub backend: Option<Backend>,
    /// The clients, and when they ask.
    pub workloads: Vec<Workload>,
    /// The cases, which run one after the other.
    pub cases: Vec<Case>,
    /// The parts left out of the experiment, a sentence each: reported before all findings.
    pub notes: Vec<String>,
}

/// One way to limit the traffic.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Case {
    /// The name of the case.
    pub name: String,
    /// The limits that an attempt has to pass, all or nothing. Empty for a queue, and in front of a
    /// backend for a case that admits everything.
    pub parts: Vec<PerLimits>,
    /// The queue to which attempts are offered, in place of limits.
    pub queue: Option<QueueCase>,
    /// The nodes that the attempts reach, in front of one store; `None` for the store alone.
    pub nodes: Option<NodesCase>,
    /// The workloads whose traffic it receives: indexes into [`Experiment::workloads`].
    pub workloads: Vec<usize>,
}

impl Experiment {
    /// The traffic of an access log under each case of a plan, with a count for each client, as an
    /// experiment called `name`. For an empty log its duration is one microsecond. Costs of the log
    /// are charged in cases of limits alone, as in a plan: limits and their peaks count units, all
    /// else counts requests.
    #[must_use]
    pub fn from_log(name: &str, traffic: Arc<Traffic>, plan: &Plan) -> Self {
        let (first_us, last_us) = traffic.summary.first_last_us.unwrap_or((START_US, START_US));
        let duration_us = last_us - first_us + 1;
        let cases = plan.cases.iter().map(|case| Case {
            name: case.strategy.clone(),
            parts: vec![PerLimits::new(Per::Client, case.limits.clone())],
            queue: None,
            nodes: None,
            workloads: vec![0],
        });
        let refused = plan.refused.iter();
        let notes = refused.map(|it| format!("{} is left out: {}", it.strategy, it.why)).collect();
        Self {
            name: name.to_owned(),
            seed: 1,
            start_us: first_us,
            duration_us,
            bucket_us: bucket_of(duration_us),
            capacity: None,
            operation_us: None,
            backend: None,
            workloads: vec![Workload {
                name: "log".to_owned(),
                clients: u32::try_from(traffic.clients.len()).unwrap_or(u32::MAX),
                arrivals: Arrivals::Log(traffic),
                from_us: 0,
                until_us: duration_us,
                retry: Retry::Never,
                zipf: None,
            }],
            cases: cases.collect(),
            notes,
        }
    }

    /// A time of the experiment, in microseconds since the Unix epoch.
    fn at(&self, us: u64) -> u64 {
        self.start_us.saturating_add(us)
    }

    /// Whether its time is that of an access log.
    pub(crate) fn is_of_a_log(&self) -> bool {
        self.workloads.iter().any(|workload| matches!(workload.arrivals, Arrivals::Log(_)))
    }
}

impl Case {
    /// The most that a limit of one of its parts promises to admit in any window of its period.
    fn promise(&self, part: &PerLimits, limit: &Limit) -> u64 {
        match &self.nodes {
            Some(nodes) => {
                let known = nodes::NodeFacts { within_us: 0, has_shares: true };
                nodes.promise(limit, part.limits.lease(), known)
            }
            // Slots are counted at a time, and not in a window.
            None if limit.needs_hold() => limit.quota().units,
            None => limit.strategy().traits(limit.quota()).worst_window,
        }
    }
}

/// An invalid setting: the problem, and a valid value.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(String);

tollgate::debug_as_display!(Invalid);

/// Midnight of 15 November 2023, in microseconds: windows of a day, and of all durations that
/// divide a day, begin here.
const START_US: u64 = 1_700_006_400_000_000;

/// The approximate number of buckets in a series, if an experiment does not set their length.
const BUCKETS: u64 = 120;

/// A readable length of buckets. Below a second it is 1, 2 or 5 times a power of ten of
/// microseconds, below a minute of seconds; above, a whole part of a minute, an hour or a day.
fn bucket_of(duration_us: u64) -> u64 {
    const SECOND: u64 = 1_000_000;
    let least = duration_us.div_ceil(BUCKETS).max(1);
    let decimal = (0..8).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
    let longer = [15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 86_400];
    decimal
        .take_while(|us| *us <= 10 * SECOND)
        .chain(longer.into_iter().map(|seconds| seconds * SECOND))
        .find(|us| *us >= least)
        .unwrap_or(least)
}

#[cfg(test)]
mod tests;

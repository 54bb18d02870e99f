//! Experiments that are built in: those that people ask about first.

use tollgate::{LimitSet, ParseError};
use tollgate_queue::Counts;

use super::arrivals::BEFORE_EDGE_US;
use super::file::capacity;
use super::{
    Arrivals, Case, Experiment, Invalid, QueueCase, Rate, Retry, START_US, Workload, bucket_of,
};
use crate::decide::{Part, Per};
use crate::figure::plural;

const SECOND_US: u64 = 1_000_000;
const HOUR_US: u64 = 3_600 * SECOND_US;

/// From one call of a shell script to the next: a program is started and connects each time.
const CALL_US: u64 = 10_000;

/// The four tests of the Zoo, a web site of a zoo that too many ask at once: a sliding log on the
/// resource and a uniform gate for each caller, and both again, the gates with new callers. Each
/// test is `loops` calls one after the other by twice as many callers as the `allowed` ones of
/// 10 s.
///
/// The tests follow each other in time and go on with the counts of those before.
///
/// # Errors
/// More allowed than a sliding log takes, or none.
pub fn zoo(loops: u64, allowed: u64, seed: u64) -> Result<Experiment, ParseError> {
    let log: LimitSet = format!("{allowed}/10s via sliding_log").parse()?;
    let gate: LimitSet = "1/10s via uniform".parse()?;
    let clients = u32::try_from(allowed.saturating_mul(2)).unwrap_or(u32::MAX).max(1);
    // The mean, and far more than chance adds to it: no test begins before the last has ended.
    let chance_us = CALL_US.saturating_mul(2).saturating_mul(loops.isqrt());
    let each_us = loops.saturating_mul(CALL_US).saturating_add(chance_us) + SECOND_US / 2;
    let tests = [
        ("1 sliding log", Per::Resource, &log),
        ("2 uniform per caller", Per::Client, &gate),
        ("3 sliding log again", Per::Resource, &log),
        ("4 uniform, new callers", Per::Client, &gate),
    ];
    let workloads = (0..4_u64).map(|place| {
        let from_us = place.saturating_mul(each_us);
        Workload {
            name: format!("test {}", place + 1),
            clients: clients.min(u32::try_from(loops.max(1)).unwrap_or(u32::MAX)),
            arrivals: Arrivals::Loop { count: loops, every_us: CALL_US },
            from_us,
            until_us: from_us.saturating_add(each_us),
            retry: Retry::Never,
            zipf: None,
        }
    });
    let cases = tests.into_iter().enumerate().map(|(place, (name, per, limits))| Case {
        name: name.to_owned(),
        parts: vec![Part { per, limits: limits.clone() }],
        queue: None,
        workloads: vec![place],
    });
    let duration_us = each_us.saturating_mul(4);
    Ok(Experiment {
        name: format!("The Zoo: {loops} calls, {allowed} allowed in 10 s"),
        seed,
        start_us: START_US,
        duration_us,
        bucket_us: bucket_of(duration_us),
        capacity: capacity(&format!("{allowed}/10s")).ok(),
        operation_us: None,
        workloads: workloads.collect(),
        cases: cases.collect(),
        notes: Vec::new(),
        keeps_counts: true,
    })
}

/// The two sides of an hour: who uses up a limit of 100 an hour just before its end and again just
/// after it, under one fixed window, under several, and under windows that slide.
///
/// # Errors
/// None that happens.
pub fn sides(seed: u64) -> Result<Experiment, ParseError> {
    let cases = [
        ("fixed window", "100/1h via fixed_window"),
        (
            "fixed windows of an hour and a minute",
            "100/1h via fixed_window, 10/1m via fixed_window",
        ),
        ("sliding window", "100/1h via sliding_window"),
        ("sliding log", "100/1h via sliding_log"),
    ];
    let cases = cases.into_iter().map(|(name, limits)| {
        let part = Part { per: Per::Client, limits: limits.parse()? };
        Ok(Case { name: name.to_owned(), parts: vec![part], queue: None, workloads: vec![0] })
    });
    let duration_us = 4 * HOUR_US;
    Ok(Experiment {
        name: "The two sides of an hour".to_owned(),
        seed,
        start_us: START_US,
        duration_us,
        bucket_us: bucket_of(duration_us),
        capacity: capacity("100/1h").ok(),
        operation_us: None,
        workloads: vec![Workload {
            name: "attacker".to_owned(),
            clients: 1,
            arrivals: Arrivals::Edge { window_us: HOUR_US, size: 100, before_us: BEFORE_EDGE_US },
            from_us: 0,
            until_us: duration_us,
            retry: Retry::Never,
            zipf: None,
        }],
        cases: cases.collect::<Result<_, ParseError>>()?,
        notes: Vec::new(),
        keeps_counts: false,
    })
}

/// One queue, with some workers and then with others: how many a second are accepted, as long as
/// more are offered, is up to them alone.
///
/// # Examples
/// ```
/// use tollgate_lab::InMemory;
/// use tollgate_lab::experiment::{Queueing, run};
///
/// let experiment = Queueing::default().experiment(1)?;
/// let results = run(&experiment, &mut InMemory::default(), |_| ())?;
/// let accepted = results.cases.iter().filter_map(|case| case.queue.as_ref()?.accepted_per_s);
/// assert_eq!(accepted.collect::<Vec<_>>(), [10.0, 20.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_structs)] // made by the caller
pub struct Queueing {
    /// How many jobs may wait.
    pub bound: u64,
    /// How many are offered, evenly.
    pub offers: Rate,
    /// Microseconds that a job takes.
    pub work_us: u64,
    /// How many workers there are: a case for each of these.
    pub workers: Vec<u32>,
    /// Microseconds that each case takes.
    pub duration_us: u64,
}

impl Default for Queueing {
    /// Ten may wait; the producers are twice as fast as one worker, and as fast as two.
    fn default() -> Self {
        Self {
            bound: 10,
            offers: Rate::new(20, SECOND_US),
            work_us: SECOND_US / 10,
            workers: vec![1, 2],
            duration_us: 60 * SECOND_US,
        }
    }
}

impl Queueing {
    /// The experiment.
    ///
    /// # Errors
    /// A number that is not as it may be: which, and what would be right.
    pub fn experiment(&self, seed: u64) -> Result<Experiment, Invalid> {
        let Self { bound, offers, work_us, duration_us, .. } = *self;
        let mut cases: Vec<Case> = Vec::new();
        for &workers in &self.workers {
            let queue = QueueCase { bound, counts: Counts::Waiting, workers, work_us, rate: None };
            queue.check().map_err(|(_, what)| Invalid(what))?;
            let name = plural(u64::from(workers), "worker");
            if cases.iter().any(|case| case.name == name) {
                return Err(Invalid(format!("`workers` has {workers} twice")));
            }
            cases.push(Case { name, parts: Vec::new(), queue: Some(queue), workloads: vec![0] });
        }
        if cases.is_empty() || duration_us == 0 {
            let what = "`workers` has none, or it takes no time: there is nothing to see";
            return Err(Invalid(what.to_owned()));
        }
        Ok(Experiment {
            name: format!("A queue of {bound}, and who works on it"),
            seed,
            start_us: START_US,
            duration_us,
            // Rates are a second, and so are the columns of pictures where there is time for it.
            bucket_us: bucket_of(duration_us).max(SECOND_US.min(duration_us.div_ceil(10))),
            capacity: None,
            operation_us: None,
            workloads: vec![Workload {
                name: "producers".to_owned(),
                clients: 1,
                arrivals: Arrivals::Steady(offers),
                from_us: 0,
                until_us: duration_us,
                retry: Retry::Never,
                zipf: None,
            }],
            cases,
            notes: Vec::new(),
            keeps_counts: false,
        })
    }
}

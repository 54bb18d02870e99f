//! Built-in experiments for frequent questions.

use tollgate::{LimitSet, ParseError};
use tollgate_queue::Counts;

use super::arrivals::BEFORE_EDGE_US;
use super::file::capacity;
use super::{
    Arrivals, Case, Experiment, Invalid, QueueCase, Rate, Retry, START_US, Workload, bucket_of,
};
use crate::figure::plural;
use tollgate_logs::decide::{Per, PerLimits};

const SECOND_US: u64 = 1_000_000;
const HOUR_US: u64 = 3_600 * SECOND_US;

/// Microseconds from one call of a shell script to the next: each starts a program, which connects.
const CALL_US: u64 = 10_000;

/// The window of the Zoo's limits, in microseconds.
const ZOO_WINDOW_US: u64 = 10 * SECOND_US;

/// The Zoo, an overloaded web site of a zoo: three strategies on the same traffic. They are a
/// uniform gate for each caller, a sliding log on the resource, and a leaky bucket whose workers do
/// as many calls as the `allowed` ones of 10 s.
///
/// - `visitors` ask about once a second each, all the time. Together they ask for a third of the
///   `allowed`.
/// - `gang` makes `loops` calls one after the other, by up to twice as many callers as `allowed`.
/// - `bob` makes as many calls alone, when the gang's have left every window.
///
/// # Errors
/// `allowed` is zero, or more than a sliding log supports.
pub fn zoo(loops: u64, allowed: u64, seed: u64) -> Result<Experiment, ParseError> {
    let gate = PerLimits::new(Per::Client, "1/10s via uniform".parse()?);
    let log: LimitSet = format!("{allowed}/10s via sliding_log").parse()?;
    // The mean plus far more than the random deviation.
    let chance_us = CALL_US.saturating_mul(2).saturating_mul(loops.isqrt());
    let loop_us = loops.saturating_mul(CALL_US).saturating_add(chance_us);
    // The end of the window that begins after this time.
    let after = |us: u64| (us / ZOO_WINDOW_US).saturating_add(2).saturating_mul(ZOO_WINDOW_US);
    let bob_us = after(loop_us);
    let duration_us = after(bob_us.saturating_add(loop_us));
    let clients = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).max(1);
    let visitors = allowed.div_ceil(30);
    let workload = |name: &str, number: u64, arrivals: Arrivals, from_us: u64| Workload {
        name: name.to_owned(),
        clients: clients(number),
        arrivals,
        from_us,
        until_us: duration_us,
        retry: Retry::Never,
        zipf: None,
    };
    let calls = Arrivals::Loop { count: loops, every_us: CALL_US };
    let workloads = vec![
        // By chance: at even intervals they would always come when a worker has just finished.
        workload("visitors", visitors, Arrivals::Poisson(Rate::new(visitors, SECOND_US)), 0),
        workload("gang", loops.min(allowed.saturating_mul(2)), calls.clone(), 0),
        workload("bob", 1, calls, bob_us),
    ];
    let case = |name: &str, parts: Vec<PerLimits>, queue: Option<QueueCase>| Case {
        name: name.to_owned(),
        parts,
        queue,
        nodes: None,
        workloads: vec![0, 1, 2],
    };
    Ok(Experiment {
        name: format!("The Zoo: {loops} calls at a time, {allowed} allowed in 10 s"),
        seed,
        start_us: START_US,
        duration_us,
        bucket_us: bucket_of(duration_us),
        capacity: capacity(&format!("{allowed}/10s")).ok(),
        operation_us: None,
        backend: None,
        workloads,
        cases: vec![
            case("uniform gates", vec![gate], None),
            case("sliding log", vec![PerLimits::new(Per::Resource, log)], None),
            case("leaky bucket", Vec::new(), Some(zoo_queue(allowed))),
        ],
        notes: Vec::new(),
    })
}

/// The leaky bucket of the Zoo. It holds ten calls. Its workers, three if so many are allowed, take
/// no more than `allowed` in any 10 s.
fn zoo_queue(allowed: u64) -> QueueCase {
    let workers = u32::try_from(allowed.clamp(1, 3)).unwrap_or(3);
    let each = (allowed / u64::from(workers)).max(1);
    let work_us = ZOO_WINDOW_US.div_ceil(each);
    QueueCase { bound: 10, counts: Counts::Waiting, workers, work_us, rate: None }
}

/// Two bursts around the edge of an hour: a client uses up a limit of 100 an hour just before its
/// end, and again just after it. The cases are one fixed window, several fixed windows, and sliding
/// windows.
///
/// # Errors
/// None in practice.
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
        let part = PerLimits::new(Per::Client, limits.parse()?);
        let name = name.to_owned();
        Ok(Case { name, parts: vec![part], queue: None, nodes: None, workloads: vec![0] })
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
        backend: None,
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
    })
}

/// One queue with different numbers of workers. While offers exceed the rate of the workers, the
/// workers alone determine how many offers per second are accepted.
///
/// # Examples
/// ```
/// use tollgate_logs::InMemory;
/// use tollgate_experiments::experiment::{Queueing, run};
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
    /// The most waiting jobs.
    pub bound: u64,
    /// The rate of offers, at equal intervals.
    pub offers: Rate,
    /// The microseconds that a job takes.
    pub work_us: u64,
    /// The numbers of workers: a case for each.
    pub workers: Vec<u32>,
    /// The microseconds of each case.
    pub duration_us: u64,
}

impl Default for Queueing {
    /// Ten jobs may wait; the producers are twice as fast as one worker, and as fast as two.
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
    /// A number is out of range; the text contains the valid range.
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
            let (parts, queue) = (Vec::new(), Some(queue));
            cases.push(Case { name, parts, queue, nodes: None, workloads: vec![0] });
        }
        if cases.is_empty() || duration_us == 0 {
            let what = "`workers` is empty, or the work takes no time: there is nothing to see";
            return Err(Invalid(what.to_owned()));
        }
        Ok(Experiment {
            name: format!("A queue of {bound}, and who works on it"),
            seed,
            start_us: START_US,
            duration_us,
            // Rates are per second, and so are the columns of charts if the duration allows it.
            bucket_us: bucket_of(duration_us).max(SECOND_US.min(duration_us.div_ceil(10))),
            capacity: None,
            operation_us: None,
            backend: None,
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
        })
    }
}

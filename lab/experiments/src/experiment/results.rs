//! The results of an experiment in numbers: for tables, charts and programs.
//!
//! They follow from the experiment and its seed alone; no number depends on a machine's clock,
//! unless the experiment ran in real time ([`Results::live`]).

use serde::Serialize;

use super::Experiment;

pub use super::backend::{BackendBucket, BackendResult, SlowResult};

/// The results of an experiment.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Results {
    /// The name of the experiment.
    pub name: String,
    /// The seed of its traffic.
    pub seed: u64,
    /// The start of the traffic, in microseconds since the Unix epoch, if it comes from an access
    /// log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_us: Option<u64>,
    /// Microseconds from the start to the end of the traffic.
    pub duration_us: u64,
    /// Microseconds of a bucket of the series over time.
    pub bucket_us: u64,
    /// The load that the resource can take from all clients together, if the experiment defines it.
    pub capacity: Option<Capacity>,
    /// The groups of clients, in the order of the file.
    pub groups: Vec<Group>,
    /// The time that [`CaseResult::zoom`] is about, if a workload asks at the edges of windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zoom: Option<Zoom>,
    /// The results of the cases, in order.
    pub cases: Vec<CaseResult>,
    /// The findings, a sentence each.
    pub findings: Vec<String>,
    /// Where the experiment ran in real time; `None` for a simulation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveRun>,
    /// False when it was stopped early: the last of `cases` is then incomplete.
    pub complete: bool,
}

impl Results {
    /// Empty results, before any case has run.
    #[must_use]
    pub fn new(experiment: &Experiment) -> Self {
        let groups = experiment
            .workloads
            .iter()
            .map(|workload| Group { name: workload.name.clone(), clients: workload.all_clients() });
        Self {
            name: experiment.name.clone(),
            seed: experiment.seed,
            start_us: experiment.is_of_a_log().then_some(experiment.start_us),
            duration_us: experiment.duration_us,
            bucket_us: experiment.bucket_us,
            capacity: experiment.capacity.clone(),
            groups: groups.collect(),
            zoom: experiment.zoom(),
            cases: Vec::with_capacity(experiment.cases.len()),
            findings: Vec::new(),
            live: None,
            complete: true,
        }
    }

    /// The words for the outcomes of attempts: `admitted` and `denied`; `accepted` and `refused` if
    /// all cases are queues.
    pub(crate) fn words(&self) -> [&'static str; 2] {
        let is_all = !self.cases.is_empty() && self.cases.iter().all(|case| case.queue.is_some());
        if is_all { ["accepted", "refused"] } else { ["admitted", "denied"] }
    }
}

/// Where an experiment ran in real time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct LiveRun {
    /// The store, without passwords.
    pub store: String,
    /// The duration of the protected operation, if the experiment defines it.
    pub operation_us: Option<u64>,
}

impl LiveRun {
    /// A run on this store, in front of such an operation.
    #[must_use]
    pub fn new(store: String, operation_us: Option<u64>) -> Self {
        Self { store, operation_us }
    }
}

/// The load that a resource can take.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Capacity {
    /// As written: `300/10s`.
    pub text: String,
    /// The units in a window.
    pub units: u64,
    /// The microseconds of the window.
    pub window_us: u64,
}

/// Clients with the same behaviour.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Group {
    /// The name of the group.
    pub name: String,
    /// The number of its clients.
    pub clients: u64,
}

/// The results of one case.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct CaseResult {
    /// The name of the case: `sliding_log`, or as the experiment names it.
    pub name: String,
    /// The limits that each attempt had to pass, all or nothing.
    pub limits: Vec<LimitResult>,
    /// The requests of clients.
    pub requests: u64,
    /// The attempts at these requests: `requests` plus `retries`.
    pub attempts: u64,
    /// The attempts that were admitted.
    pub admitted: u64,
    /// The attempts that were denied.
    pub denied: u64,
    /// The attempts after a denial of the same request.
    pub retries: u64,
    /// The requests that were never admitted.
    pub never_served: u64,
    /// The most admitted in any window of the capacity, of all clients together.
    pub peak: Option<u64>,
    /// The used share of the capacity in windows where demand exceeded it: 0 to 1.
    pub used_share: Option<f64>,
    /// Jain's index of each client's admitted units relative to its max-min fair share: 1 is fair.
    pub fairness: Option<f64>,
    /// The longest time from a request's first attempt to the admitted one, in microseconds.
    pub longest_wait_us: Option<u64>,
    /// The most admitted in a bucket divided by the mean, from the first admitted attempt to the
    /// last.
    pub burstiness: Option<f64>,
    /// The most keys that the store used for this case, one per subject and set of limits, if it
    /// reports them.
    pub keys: Option<u64>,
    /// The most bytes that the store used for this case, over all keys, if it reports them.
    pub bytes: Option<u64>,
    /// The most bytes that the store used per key of this case, if it reports them.
    pub bytes_per_subject: Option<f64>,
    /// Latencies and costs, for an experiment in real time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveResult>,
    /// The queue's settings and results, for a case with a queue. Then `admitted` are accepted
    /// offers, and `denied` refused ones. But `peak`, `used_share`, `burstiness` and the occupancy
    /// count jobs at their delivery, since that is the load behind the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueResult>,
    /// The results of the nodes, for a case with nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodesResult>,
    /// The outcomes of the admitted attempts at the backend, if the experiment has one. `peak`,
    /// `used_share` and `burstiness` are of attempts when they are admitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<BackendResult>,
    /// How long denials told clients to wait; `None` where none did.
    pub told_wait_us: Option<Latency>,
    /// The client with the most admitted attempts, the first of several; `None` where nobody was
    /// admitted.
    pub most_admitted: Option<Served>,
    /// Up to 10 clients with the most denied attempts, the most denied first.
    pub most_denied: Vec<Denied>,
    /// The groups, in the order of [`Results::groups`].
    pub groups: Vec<GroupResult>,
    /// The series over time: consecutive buckets from the start.
    pub buckets: Vec<Bucket>,
    /// The series around one edge of a window: consecutive buckets of [`Results::zoom`], without an
    /// occupancy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zoom: Vec<Bucket>,
    /// When up to 12 clients were admitted and denied: up to 8 with the most denials, then others.
    pub raster: Raster,
}

/// The results of a case that only exist in real time.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct LiveResult {
    /// The time from when an attempt was due to its answer; `None` without an answer.
    pub latency_us: Option<Latency>,
    /// The time from when an attempt was due to when it was sent.
    pub late_us: Option<Latency>,
    /// The attempts without an answer: neither admitted nor denied.
    pub failed: u64,
    /// The error of the first of them.
    pub failure: Option<String>,
    /// The most attempts that waited for their answers at one time.
    pub in_flight: u64,
    /// The attempts meant for one side of an edge that were decided on the other.
    pub missed_edges: u64,
    /// The answers that show that the store's clock was set back: peaks are then uncertain.
    pub clock_steps: u64,
    /// The microseconds of the server's processor time per answer, if a server reports it.
    pub cpu_us: Option<f64>,
    /// The server's script calls per answer.
    pub calls: Option<f64>,
    /// The commands run by scripts per answer.
    pub commands: Option<f64>,
    /// The mean latency divided by the duration of the protected operation, if that is known.
    pub operation_share: Option<f64>,
}

/// The settings and results of a queue. Rates are those of the steady state, the second half of the
/// experiment.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct QueueResult {
    /// The bound of the queue, in jobs.
    pub bound: u64,
    /// The jobs that the bound counts: `waiting`, or `all` that are not done.
    pub counts: String,
    /// The number of its workers.
    pub workers: u32,
    /// The microseconds that a job took.
    pub work_us: u64,
    /// The rate limits of all deliveries together.
    pub rate: Option<String>,
    /// The accepted offers.
    pub accepted: u64,
    /// The offers that were refused because the queue was full.
    pub refused: u64,
    /// The delivered jobs.
    pub delivered: u64,
    /// The done jobs.
    pub done: u64,
    /// The jobs that were waiting or running at the end: `accepted` minus `done`.
    pub left: u64,
    /// The start of the steady state, in microseconds from the start.
    pub steady_from_us: u64,
    /// The accepted offers per second.
    pub accepted_per_s: Option<f64>,
    /// The refused offers per second.
    pub refused_per_s: Option<f64>,
    /// The done jobs per second.
    pub done_per_s: Option<f64>,
    /// The mean number of jobs that the bound counted, over all time.
    pub depth_mean: Option<f64>,
    /// The most jobs that the bound counted for any positive time.
    pub depth_max: u64,
    /// How long jobs waited between acceptance and delivery.
    pub waited_us: Option<Latency>,
    /// The series over time, with the same buckets as [`CaseResult::buckets`].
    pub buckets: Vec<QueueBucket>,
}

/// The results of a queue in one bucket of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct QueueBucket {
    /// The delivered jobs.
    pub delivered: u64,
    /// The done jobs.
    pub done: u64,
    /// The most jobs that the bound counted.
    pub depth: u64,
    /// The longest wait of a job delivered in this bucket, in microseconds.
    pub waited_us: u64,
}

/// The results of the nodes of a case, all together.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct NodesResult {
    /// The number of nodes.
    pub number: u32,
    /// Mean microseconds from a node to the store and back; `None` in real time.
    pub round_trip_us: Option<u64>,
    /// How fast or slow their clocks were at most, in parts in a million; `None` in real time.
    pub clock_error_ppm: Option<u32>,
    /// The failure rule.
    pub on_failure: String,
    /// The lease of each set of limits that has one.
    pub leases: Vec<String>,
    /// The checks and charges ahead that reached the store; in real time those that were sent.
    pub questions: u64,
    /// The attempts divided by the questions.
    pub per_question: Option<f64>,
    /// The attempts that the store decided.
    pub by_store: u64,
    /// The attempts that were admitted from units charged before.
    pub by_lease: u64,
    /// The attempts that were denied by a denial that still held.
    pub by_deny_cache: u64,
    /// The attempts that the share of a node decided, without the store.
    pub by_local_share: u64,
    /// The attempts that the failure rule alone decided.
    pub by_failure_rule: u64,
    /// The units that were charged ahead.
    pub charged: u64,
    /// Of these, the units that nobody spent and that were given back.
    pub returned: u64,
    /// Of these, the units that nobody spent and that counted no more when they were returned.
    pub wasted: u64,
    /// The units of the same attempts that one count, asked without delay, would have admitted;
    /// `None` in real time.
    pub admitted_alone: Option<u64>,
    /// The admitted attempts beyond that as a share of it; negative if there were fewer.
    pub difference: Option<f64>,
    /// The most that a limit admitted in a window beyond what it promises without leases.
    pub beyond: u64,
    /// How long attempts waited for their answers.
    pub answered_us: Option<Latency>,
    /// When nodes did not reach the store; left out if they always did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub away: Vec<AwayResult>,
}

/// A time during which nodes did not reach the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct AwayResult {
    /// How many of the nodes.
    pub number: u32,
    /// Its start, in microseconds from that of the experiment.
    pub from_us: u64,
    /// Its end.
    pub until_us: u64,
}

/// A distribution of durations, in microseconds; those of answers to three digits.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The 99.9th percentile.
    pub p99_9: u64,
    /// The maximum.
    pub max: u64,
}

/// The results of a limit of a case.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct LimitResult {
    /// Its full text.
    pub limit: String,
    /// The name of its strategy.
    pub strategy: String,
    /// The counted subject: `resource` for all clients together, `client` for each.
    pub per: String,
    /// The maximum admitted in any window of its duration, of one subject; of slots, the maximum at
    /// one time.
    pub peak: u64,
    /// The most that its strategy guarantees to admit.
    pub promise: u64,
    /// `peak <= promise`.
    pub holds: bool,
}

/// A client that was admitted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Served {
    /// The name of the client: from a log, the value of the `--by` field.
    pub client: String,
    /// Its admitted attempts.
    pub admitted: u64,
    /// Whether no other client has as many.
    pub is_alone: bool,
}

/// A denied client.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Denied {
    /// The name of the client: from a log, the value of the `--by` field.
    pub client: String,
    /// Its denied attempts.
    pub denied: u64,
    /// Its admitted attempts.
    pub admitted: u64,
    /// The first denial, in microseconds from the start.
    pub first_us: u64,
    /// The last denial.
    pub last_us: u64,
    /// The longest time that a denial told it to wait; `None` where no wait would help.
    pub longest_wait_us: Option<u64>,
}

/// The results of a group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct GroupResult {
    /// The requests of its clients.
    pub requests: u64,
    /// The attempts of its clients.
    pub attempts: u64,
    /// The admitted attempts.
    pub admitted: u64,
    /// The requests that were never admitted.
    pub never_served: u64,
    /// As [`CaseResult::longest_wait_us`].
    pub longest_wait_us: Option<u64>,
}

/// The results in one bucket of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Bucket {
    /// The admitted attempts.
    pub admitted: u64,
    /// The denied attempts.
    pub denied: u64,
    /// The most admitted in a window of the capacity that ends in this bucket.
    pub occupancy: u64,
}

/// The time around one edge of a window, from close by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Zoom {
    /// The edge, in microseconds from the start.
    pub edge_us: u64,
    /// How long before the edge it begins, and how long after it ends, in microseconds.
    pub reach_us: u64,
    /// The microseconds of a bucket.
    pub bucket_us: u64,
}

/// When single clients were admitted and denied, for a chart.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Raster {
    /// The names of the rows.
    pub clients: Vec<String>,
    /// The microseconds of a column: 600 columns cover the duration of the experiment.
    pub column_us: u64,
    /// The outcomes of the attempts of each row over the whole duration, ordered by row and time.
    pub cells: Vec<Cell>,
    /// Whether there were other clients than these.
    pub cut: bool,
}

/// The outcomes of a client's attempts in a cell. Serialized as a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(into = "(u32, u32, u32, bool, bool)")]
#[non_exhaustive]
pub struct Cell {
    /// The client, an index into [`Raster::clients`].
    pub row: u32,
    /// The first of its columns, counted from the start.
    pub column: u32,
    /// The number of its columns: 1, or more where there were too many clients for separate
    /// columns.
    pub columns: u32,
    /// Whether an attempt was admitted in it.
    pub admitted: bool,
    /// Whether an attempt was denied in it.
    pub denied: bool,
}

impl From<Cell> for (u32, u32, u32, bool, bool) {
    fn from(cell: Cell) -> Self {
        let Cell { row, column, columns, admitted, denied } = cell;
        (row, column, columns, admitted, denied)
    }
}

//! What an experiment showed, in numbers: for tables, charts and programs.
//!
//! All of it follows from the experiment and its seed: no figure comes from a machine's clock,
//! unless the experiment ran in real time ([`Results::live`]).

use serde::Serialize;

use super::Experiment;

/// What an experiment showed.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Results {
    /// What it is called.
    pub name: String,
    /// What its traffic was made from.
    pub seed: u64,
    /// When the traffic began, in microseconds since the Unix epoch, where it has a time of its
    /// own: that of an access log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_us: Option<u64>,
    /// Microseconds from the start to the end of the traffic.
    pub duration_us: u64,
    /// Microseconds of one bucket of the series over time.
    pub bucket_us: u64,
    /// What the resource stands, all clients together, where the experiment says it.
    pub capacity: Option<Capacity>,
    /// The groups of clients, in the order of the file.
    pub groups: Vec<Group>,
    /// What was tried, in order.
    pub cases: Vec<CaseResult>,
    /// What to see in it: a sentence each.
    pub findings: Vec<String>,
    /// Of an experiment in real time, where it ran; none of a simulated one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveRun>,
    /// False when it was stopped before its end: then the last of `cases` was cut.
    pub complete: bool,
}

impl Results {
    /// Those of an experiment of which no case has run yet.
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
            cases: Vec::with_capacity(experiment.cases.len()),
            findings: Vec::new(),
            live: None,
            complete: true,
        }
    }

    /// What attempts became, in words: `admitted` and `denied`; `accepted` and `refused` where all
    /// cases are queues.
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
    /// How long the operation takes that is protected, where the experiment says it.
    pub operation_us: Option<u64>,
}

impl LiveRun {
    /// On this store, before such an operation.
    #[must_use]
    pub fn new(store: String, operation_us: Option<u64>) -> Self {
        Self { store, operation_us }
    }
}

/// How much a resource stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Capacity {
    /// As it was written: `300/10s`.
    pub text: String,
    /// Units in a window.
    pub units: u64,
    /// Microseconds of the window.
    pub window_us: u64,
}

/// Clients that behave alike.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Group {
    /// What it is called.
    pub name: String,
    /// How many clients.
    pub clients: u64,
}

/// One way to limit the traffic, and what became of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct CaseResult {
    /// What it is called: `sliding_log`, or what the experiment says.
    pub name: String,
    /// The limits that each attempt had to pass, all or nothing.
    pub limits: Vec<LimitResult>,
    /// What clients wanted done.
    pub requests: u64,
    /// How often they asked for it: `requests` and `retries`.
    pub attempts: u64,
    /// Attempts that were let through.
    pub admitted: u64,
    /// Attempts that were not.
    pub denied: u64,
    /// Attempts after a denial of the same request.
    pub retries: u64,
    /// Requests that were never let through.
    pub never_served: u64,
    /// The most admitted in any window of the capacity, all clients together.
    pub peak: Option<u64>,
    /// Of the capacity, the share that was used in windows where more was asked for: 0 to 1.
    pub used_share: Option<f64>,
    /// Jain's index of what each client got over its max-min fair share: 1 is fair.
    pub fairness: Option<f64>,
    /// The longest time from a request's first attempt to the one that was let through, in
    /// microseconds.
    pub longest_wait_us: Option<u64>,
    /// The most admitted in a bucket over the mean, from the first admitted to the last.
    pub burstiness: Option<f64>,
    /// The most keys that the store held for this case, one for each subject and its limits, where
    /// it can tell.
    pub keys: Option<u64>,
    /// The most bytes that the store held for this case, all keys together, where it can tell.
    pub bytes: Option<u64>,
    /// Bytes that the store held for a key of this case, at most, where it can tell.
    pub bytes_per_subject: Option<f64>,
    /// What it took, of an experiment in real time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveResult>,
    /// What the queue was and did, of a case that is one. Then `admitted` are offers that it
    /// accepted, and `denied` those that it refused; but `peak`, `used_share`, `burstiness` and the
    /// occupancy are of jobs when they were delivered, for that is what comes behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueResult>,
    /// Up to 10 clients with the most denied attempts, the most denied first.
    pub most_denied: Vec<Denied>,
    /// The groups, in the order of [`Results::groups`].
    pub groups: Vec<GroupResult>,
    /// The series over time, from the start on, one bucket after the other.
    pub buckets: Vec<Bucket>,
    /// When up to 12 clients were let through and denied: up to 8 that were denied most often, then
    /// others.
    pub raster: Raster,
}

/// What a case took in real time.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct LiveResult {
    /// From when an attempt was due to its answer; none when none was answered.
    pub latency_us: Option<Latency>,
    /// From when an attempt was due to when it was sent.
    pub late_us: Option<Latency>,
    /// Attempts that got no answer: neither admitted nor denied.
    pub failed: u64,
    /// What the first of them failed of.
    pub failure: Option<String>,
    /// The most attempts that waited for their answers at one time.
    pub in_flight: u64,
    /// Attempts meant for one side of an edge that were decided on the other.
    pub missed_edges: u64,
    /// Answers that say that the store's clock went back: then no peak is sure.
    pub clock_steps: u64,
    /// Microseconds of the server's processor for each answer, where there is a server that says
    /// it.
    pub cpu_us: Option<f64>,
    /// Calls of scripts that the server got for each answer.
    pub calls: Option<f64>,
    /// Commands that scripts ran for each answer.
    pub commands: Option<f64>,
    /// The mean latency as a share of the operation that is protected, where its length is known.
    pub operation_share: Option<f64>,
}

/// What a queue was, and what it did. Rates are those of the steady state: of the second half of
/// the experiment.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct QueueResult {
    /// How many jobs it holds.
    pub bound: u64,
    /// Which of them the bound counts: `waiting`, or `all` that are not done.
    pub counts: String,
    /// How many worked on it.
    pub workers: u32,
    /// Microseconds that a job took.
    pub work_us: u64,
    /// The limits of all deliveries together.
    pub rate: Option<String>,
    /// Offers that were accepted.
    pub accepted: u64,
    /// Offers that were refused, since it was full.
    pub refused: u64,
    /// Jobs that were taken.
    pub delivered: u64,
    /// Jobs that were done.
    pub done: u64,
    /// Jobs that waited or were in hand at the end: `accepted` and not `done`.
    pub left: u64,
    /// When the steady state begins, in microseconds from the start.
    pub steady_from_us: u64,
    /// Offers that were accepted a second.
    pub accepted_per_s: Option<f64>,
    /// Offers that were refused a second.
    pub refused_per_s: Option<f64>,
    /// Jobs that were done a second.
    pub done_per_s: Option<f64>,
    /// How many jobs the bound counted, on average over all time.
    pub depth_mean: Option<f64>,
    /// The most that it counted for any time.
    pub depth_max: u64,
    /// How long jobs waited, from when they were accepted to when they were taken.
    pub waited_us: Option<Latency>,
    /// The series over time, one bucket after the other as [`CaseResult::buckets`].
    pub buckets: Vec<QueueBucket>,
}

/// What a queue did in one bucket of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct QueueBucket {
    /// Jobs that were taken.
    pub delivered: u64,
    /// Jobs that were done.
    pub done: u64,
    /// The most that the bound counted.
    pub depth: u64,
    /// The longest that a job had waited that was taken now, in microseconds.
    pub waited_us: u64,
}

/// How long something took, in microseconds: answers to three digits.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Latency {
    /// All together over their number.
    pub mean: f64,
    /// Half of them took no longer.
    pub p50: u64,
    /// 90 of 100 took no longer.
    pub p90: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1,000.
    pub p99_9: u64,
    /// The longest.
    pub max: u64,
}

/// A limit of a case.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct LimitResult {
    /// Its full text.
    pub limit: String,
    /// The name of its strategy.
    pub strategy: String,
    /// Whose count: `resource` for one of all, `client` for one of each.
    pub per: String,
    /// The most admitted in any window of its length, of one subject.
    pub peak: u64,
    /// The most that its strategy promises.
    pub promise: u64,
    /// `peak <= promise`.
    pub holds: bool,
}

/// A client that was denied.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Denied {
    /// What it is called: of a log the value that it was counted by.
    pub client: String,
    /// Its attempts that were denied.
    pub denied: u64,
}

/// What became of a group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct GroupResult {
    /// What its clients wanted done.
    pub requests: u64,
    /// How often they asked.
    pub attempts: u64,
    /// What was let through.
    pub admitted: u64,
    /// Requests that were never let through.
    pub never_served: u64,
    /// As [`CaseResult::longest_wait_us`].
    pub longest_wait_us: Option<u64>,
}

/// What happened in one bucket of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Bucket {
    /// Attempts that were let through.
    pub admitted: u64,
    /// Attempts that were not.
    pub denied: u64,
    /// The most that was admitted in the window of the capacity before any moment of this bucket.
    pub occupancy: u64,
}

/// When single clients were let through and denied, for a picture.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Raster {
    /// The names of the rows.
    pub clients: Vec<String>,
    /// Microseconds of a column: 600 of them are the time of the experiment.
    pub column_us: u64,
    /// What became of the attempts of each row, from the start to the end: by row, and by time.
    pub cells: Vec<Cell>,
    /// True when others asked than these.
    pub cut: bool,
}

/// What became of a client's attempts in one column of time. Serialized as a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(into = "(u32, u32, u32, bool, bool)")]
#[non_exhaustive]
pub struct Cell {
    /// The client, an index into [`Raster::clients`].
    pub row: u32,
    /// The first of its columns, counted from the start.
    pub column: u32,
    /// How many columns it has: 1, and more where there were too many clients to tell those of
    /// each apart.
    pub columns: u32,
    /// Whether an attempt was let through in it.
    pub admitted: bool,
    /// Whether one was not.
    pub denied: bool,
}

impl From<Cell> for (u32, u32, u32, bool, bool) {
    fn from(cell: Cell) -> Self {
        let Cell { row, column, columns, admitted, denied } = cell;
        (row, column, columns, admitted, denied)
    }
}

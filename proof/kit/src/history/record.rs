//! The records of a run: calls of checks, calls of a queue, and faults.

use tollgate::LimitSet;

use super::holding::HoldCall;

/// A recorded run. All instants are microseconds of one clock, the recorder's.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Calls of checks, in any order.
    pub calls: Vec<Call>,
    /// Calls of queues, in any order.
    pub queue: Vec<QueueCall>,
    /// Calls about holds, in any order.
    pub holds: Vec<HoldCall>,
    /// The faults meanwhile.
    pub faults: Vec<Fault>,
}

/// One call of a check, as its client saw it.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// A number that no other call of the history has.
    pub id: u64,
    /// The caller: a client or a process.
    pub client: String,
    /// When the call began, in microseconds.
    pub invoked_us: u64,
    /// When it returned, in microseconds; `None` when it never did.
    pub returned_us: Option<u64>,
    /// The subjects and their limits, all judged together.
    pub parts: Vec<RecordedCount>,
    /// The cost in units, at least 1.
    pub cost: u64,
    /// The request id, if the call had one.
    pub request: Option<String>,
    /// The store's own time of the decision, in microseconds, if its answer had one.
    pub decided_us: Option<u64>,
    /// The answer.
    pub outcome: CallOutcome,
}

/// A subject under a limit set.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedCount {
    /// The subject as written.
    pub subject: String,
    /// Its limits.
    pub limits: LimitSet,
}

/// The answer to a call.
#[allow(clippy::exhaustive_enums, reason = "a checker handles each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// The cost was charged.
    Allowed {
        /// The smallest `remaining` of all limits, after the charge, if the answer has it.
        remaining: Option<u64>,
    },
    /// Not yet.
    Denied {
        /// The largest wait, in microseconds, if the answer has it.
        retry_after_us: Option<u64>,
        /// The smallest `remaining` of all limits, if the answer has it.
        remaining: Option<u64>,
    },
    /// The cost is above a limit.
    Never,
    /// An error after which certainly nothing was charged.
    NotCharged,
    /// No answer, or one that leaves open whether the cost was charged.
    Unknown,
}

impl CallOutcome {
    /// Whether the call was answered with a decision.
    #[must_use]
    pub fn is_decision(self) -> bool {
        !matches!(self, Self::NotCharged | Self::Unknown)
    }

    /// Whether the call was answered with a denial, for now or for ever.
    #[must_use]
    pub fn is_denial(self) -> bool {
        matches!(self, Self::Denied { .. } | Self::Never)
    }

    /// Whether the call was allowed.
    #[must_use]
    pub fn is_allowed(self) -> bool {
        matches!(self, Self::Allowed { .. })
    }
}

/// A fault, with its possible cost.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// When it began, in microseconds of the recorder's clock.
    pub began_us: u64,
    /// When it was over.
    pub ended_us: u64,
    /// The target of the fault, in words.
    pub target: String,
    /// How many states of each count may be lost by it: each allows one capacity more. 0 when
    /// nothing is lost.
    pub lost_states: u32,
}

/// The kinds of faults.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The store's clock was set.
    ClockStep,
    /// A replica took over.
    Failover,
    /// All keys were deleted.
    Flush,
    /// Keys were evicted.
    Eviction,
    /// The store was restarted.
    Restart,
    /// Two primaries answered at the same time.
    StalePrimary,
    /// Clients and store could not reach each other.
    Partition,
    /// Another fault, described by `target`.
    Other,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::ClockStep,
        Self::Failover,
        Self::Flush,
        Self::Eviction,
        Self::Restart,
        Self::StalePrimary,
        Self::Partition,
        Self::Other,
    ];

    /// The word for it in the text form.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClockStep => "clock_step",
            Self::Failover => "failover",
            Self::Flush => "flush",
            Self::Eviction => "eviction",
            Self::Restart => "restart",
            Self::StalePrimary => "stale_primary",
            Self::Partition => "partition",
            Self::Other => "other",
        }
    }
}

/// One call of a queue.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueCall {
    /// A number that no other call of a queue has.
    pub id: u64,
    /// Which queue.
    pub queue: String,
    /// When the call began, in microseconds.
    pub invoked_us: u64,
    /// When it returned, in microseconds; `None` when it never did.
    pub returned_us: Option<u64>,
    /// The job. Empty for [`QueueStep::Empty`].
    pub job: String,
    /// The step.
    pub step: QueueStep,
}

/// The step that a call of a queue made.
#[allow(clippy::exhaustive_enums, reason = "a checker handles each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueStep {
    /// The job was offered and accepted; with the number of waiting jobs in the answer.
    Accepted {
        /// How many wait, this one included.
        depth: Option<u64>,
    },
    /// The job was offered and refused.
    Refused,
    /// The job was offered, and no answer came.
    Unanswered,
    /// The job was delivered to a worker.
    Delivered,
    /// The job was acknowledged.
    Acknowledged,
    /// A worker asked, and the queue held nothing: neither waiting nor in flight.
    Empty,
}

/// The caller's statements about the run.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How long after its return a call without an answer may still be carried out, in
    /// microseconds. By default for ever.
    pub late_us: u64,
    /// How long the store remembers a request id, in microseconds. By default 10 minutes.
    pub requests_us: u64,
    /// How many jobs may wait in a queue. Without it the bound of queues is not checked.
    pub queue_bound: Option<u64>,
    /// How many nodes spend units of leases. By default as many as there are clients.
    pub nodes: Option<u64>,
    /// How much too long a wait may be, in microseconds. By default 0.
    pub wait_unit_us: u64,
    /// How many steps the search over orders may take for calls without the store's time.
    pub search_steps: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            late_us: u64::MAX,
            requests_us: 600_000_000,
            queue_bound: None,
            nodes: None,
            wait_unit_us: 0,
            search_steps: 2_000_000,
        }
    }
}

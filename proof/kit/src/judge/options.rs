//! The limit that a limiter is held to, and how strictly.

use tollgate::LimitSet;

use crate::conformance::rule_of;
use crate::oracle::Rule;

/// How strictly a limiter is held to its limits.
#[allow(clippy::exhaustive_enums, reason = "a judge has these")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Every answer is that of the strategy's definition.
    Definition,
    /// No interval has more admitted than the strategy's bound, and the answers fit each other.
    Bound,
}

impl Strictness {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Definition => "definition",
            Self::Bound => "bound",
        }
    }
}

/// How a judgement is made.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The limits, which all count for each subject.
    pub limits: LimitSet,
    /// The promise.
    pub held: Strictness,
    /// The step of the limiter's clock, in microseconds, where nobody sets it: instants nearer than
    /// this are not told apart.
    pub precision_us: u64,
    /// The unit of waits, in microseconds: a wait may be as much too long. Without one it is the
    /// precision where a decision lies between two instants, and 0 where its time is known.
    pub wait_unit_us: Option<u64>,
    /// How many states of each count a restart or a failover may lose, by the limiter's own
    /// documentation.
    pub may_lose: u32,
    /// How many clients ask at once.
    pub clients: usize,
    /// The longest time that the traffic may take, in microseconds, where the clock is not set.
    pub within_us: u64,
    /// The seed of the traffic.
    pub seed: u64,
    /// A text that no earlier judgement had: a part of each subject, so that none has a count yet.
    pub run: String,
    /// Recorded traffic, which is asked too.
    pub recorded: RecordedLog,
}

/// The requests of a log, as traffic.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedLog {
    /// The requests to ask, in the order of their times. Without any this traffic is absent.
    pub requests: Vec<Recorded>,
    /// How many the log has.
    pub of: u64,
}

/// A request of a log.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its time, in microseconds since 1970.
    pub at_us: u64,
    /// Its client. The subject that is asked about has this at its end.
    pub subject: String,
    /// Its cost, at least 1. It counts where questions have costs.
    pub cost: u64,
}

impl Options {
    /// Options for these limits, held to their definition.
    #[must_use]
    pub fn new(limits: LimitSet) -> Self {
        Self {
            limits,
            held: Strictness::Definition,
            precision_us: 1_000,
            wait_unit_us: None,
            may_lose: 1,
            clients: 16,
            within_us: 60_000_000,
            seed: 1,
            run: "0".to_owned(),
            recorded: RecordedLog::default(),
        }
    }

    /// The smallest capacity of the limits: no more is admitted at once.
    pub(super) fn capacity(&self) -> u64 {
        self.limits.limits().iter().map(tollgate::Limit::capacity).min().unwrap_or(1)
    }

    /// The shortest period of the limits, in microseconds.
    pub(super) fn shortest_us(&self) -> u64 {
        self.periods().min().unwrap_or(1)
    }

    /// The longest one.
    pub(super) fn longest_us(&self) -> u64 {
        self.periods().max().unwrap_or(1)
    }

    fn periods(&self) -> impl Iterator<Item = u64> {
        self.limits.limits().iter().map(|limit| limit.quota().period.as_micros().max(1))
    }

    /// After how long without a charge one unit is due again, whatever happened before. `None` for
    /// windows of a calendar, whose lengths differ.
    pub(super) fn idle_us(&self) -> Option<u64> {
        let mut each = self.limits.limits().iter().map(|limit| {
            let period_us = limit.quota().period.as_micros();
            match (rule_of(limit)?, self.held) {
                (Rule::Dates { .. }, _) => None,
                // A bucket that straddles the old end of the window may count in full.
                (Rule::Window { d_us, precision_us, .. }, Strictness::Definition) => {
                    Some(d_us + precision_us)
                }
                (_, Strictness::Definition) => Some(period_us),
                // A counter of two windows may count a unit until the end of the second one.
                (_, Strictness::Bound) => Some(2 * period_us),
            }
        });
        each.try_fold(0, |most, idle| idle.map(|idle| most.max(idle)))
    }
}

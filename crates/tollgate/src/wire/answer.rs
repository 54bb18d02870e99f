//! Answers and decisions, and the limits in them.

use serde::ser::{Serialize, Serializer};

use super::value::{Shown, objects};
use super::wait::Wait;
use crate::decision;
use crate::decision::Decision;

objects! {
    /// The answer to a question: the decision, and the gate's fields beside it.
    pub struct Answer<'a> {
        /// Whether the request may proceed.
        allowed: bool,
        /// The outcome: of a limiter `allowed`, `denied` or `never`; a gate has more of them.
        outcome: &'static str,
        /// The authority that decided, for example the store or the failure rule.
        authority: &'static str,
        /// The policy that decided.
        policy: Option<&'a str>,
        /// The revision of the policies in force.
        revision: Option<Shown<'a>>,
        /// The capacity of the limit that binds; beside a ban, the minimum over the limits.
        limit: Option<u64>,
        /// The largest cost that every limit of this unit would admit now.
        remaining: Option<u64>,
        /// The unit of `limit` and `remaining`, such as `requests`.
        unit: Option<&'a str>,
        /// The units that were admitted; of a peek, those that would be.
        granted: Option<u64>,
        /// How long to wait after a denial; `None` for an admitted request, or one that never will
        /// be.
        retry_after: Option<Wait>,
        /// Whether `retry_after` is an upper bound: it would be shorter if every open hold were
        /// settled now with 0.
        until_hold: bool,
        /// The shortest wait until the limit that binds is fresh.
        reset_after: Option<Wait>,
        /// The place of the limit that binds in `limits`, from 0.
        binding: Option<usize>,
        /// The part of every limit.
        limits: Vec<Report<'a>>,
        /// The decisions of policies in shadow mode.
        shadows: Vec<Shadow<'a>>,
        /// Whether the memory store was full and had no room for a separate count of a subject. The
        /// subject was then judged by a count that new subjects share, or denied if there was no
        /// room for that either.
        shared: bool,
        /// False where the subjects lie on several nodes of a cluster: all or nothing, but not at
        /// one time.
        isolated: bool,
        /// Whether it is the first answer under a request id once more: nothing was charged for it.
        repeated: bool,
        /// The missing field that made the request a denial.
        missing: Option<Shown<'a>>,
        /// Why the store could not answer.
        error: Option<Shown<'a>>,
        /// The store's time of the decision, in microseconds since 1970.
        at_us: Option<u64>,
        /// The receipt that refunds the charge.
        receipt: Option<String>,
    }

    /// One limit's part of a decision.
    pub struct Report<'a> {
        /// The subject, in its written form.
        subject: &'a str,
        /// The policy of the limit; `None` for limits without one.
        policy: Option<&'a str>,
        /// The limit's identity.
        identity: &'a str,
        /// The limit in its full form.
        limit: &'a str,
        /// The units that a fresh subject can take.
        capacity: u64,
        /// The largest cost in units that this limit would admit now.
        remaining: u64,
        /// The unit of `capacity` and `remaining`, such as `requests`.
        unit: &'a str,
        /// The shortest wait until the limit admits the cost: zero for now; `None` if it never
        /// does.
        retry_after: Option<Wait>,
        /// The shortest wait until the limit is fresh.
        reset_after: Wait,
        /// Whether the limit admits the cost.
        admits: bool,
        /// How the count was carried over when the limit's numbers had changed: `same`, `over`, or
        /// `fresh` where it started again, under another strategy.
        carried: &'static str,
    }

    /// The decision of a policy in shadow mode.
    pub struct Shadow<'a> {
        /// The policy.
        policy: Option<&'a str>,
        /// The outcome that it would have had.
        outcome: &'static str,
        /// The largest cost that each of its limits of this unit would admit now.
        remaining: Option<u64>,
        /// The unit of `remaining`.
        unit: Option<&'a str>,
    }
}

impl Answer<'_> {
    /// An answer for which nothing was counted.
    #[must_use]
    pub const fn uncounted(allowed: bool, outcome: &'static str, authority: &'static str) -> Self {
        Self {
            allowed,
            outcome,
            authority,
            policy: None,
            revision: None,
            limit: None,
            remaining: None,
            unit: None,
            granted: None,
            retry_after: None,
            until_hold: false,
            reset_after: None,
            binding: None,
            limits: Vec::new(),
            shadows: Vec::new(),
            shared: false,
            isolated: true,
            repeated: false,
            missing: None,
            error: None,
            at_us: None,
            receipt: None,
        }
    }
}

impl<'a> From<&'a Decision<'_>> for Answer<'a> {
    fn from(decision: &'a Decision<'_>) -> Self {
        let (place, binding) = decision.binding_at();
        Self {
            policy: binding.policy(),
            limit: Some(decision.limit()),
            remaining: Some(decision.remaining()),
            unit: Some(decision.unit().name()),
            granted: Some(decision.granted()),
            retry_after: decision.retry_after().map(Wait),
            until_hold: decision.is_until_hold(),
            reset_after: Some(Wait(binding.reset_after())),
            binding: Some(place),
            limits: decision.reports().map(Report::from).collect(),
            shared: decision.is_shared(),
            isolated: decision.is_isolated(),
            repeated: decision.is_repeated(),
            at_us: Some(decision.at().as_micros()),
            ..Self::uncounted(
                decision.is_allowed(),
                decision.verdict().name(),
                decision.authority().name(),
            )
        }
    }
}

impl<'a> From<decision::Report<'a>> for Report<'a> {
    fn from(report: decision::Report<'a>) -> Self {
        let limit = report.limit();
        Self {
            subject: report.subject(),
            policy: report.policy(),
            identity: limit.identity(),
            limit: limit.shown(),
            capacity: limit.capacity(),
            remaining: report.remaining(),
            unit: limit.unit().name(),
            retry_after: report.retry_after().map(Wait),
            reset_after: Wait(report.reset_after()),
            admits: report.admits(),
            carried: report.carried().name(),
        }
    }
}

impl<'a> Shadow<'a> {
    /// The hypothetical decision of a policy in shadow mode; without a decision it asked no store.
    #[must_use]
    pub fn new(
        policy: Option<&'a str>,
        outcome: &'static str,
        decision: Option<&'a Decision<'_>>,
    ) -> Self {
        let unit = decision.map(|decision| decision.unit().name());
        Self { policy, outcome, remaining: decision.map(Decision::remaining), unit }
    }
}

impl Serialize for Decision<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Answer::from(self).serialize(to)
    }
}

impl Serialize for decision::Report<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Report::from(*self).serialize(to)
    }
}

//! One node, as the service has it: its leases from a store, and its behaviour without it.

use core::time::Duration;

use tollgate::{Ask, Error, MemoryStore, ParseError, Store};
use tollgate_lease::{Leased, LeasedBuilder, LeasedCounters};
use tollgate_policy::{Authority, Format, Gate, Policies, Terms};

use super::NodesCase;
use tollgate_logs::decide::{PerLimits, Verdict};

/// The bound of the denials that a node remembers, as in the service.
const DENIALS: usize = 65_536;

/// A gate has policies. Attempts bring their limits with them, so none of these is asked.
const POLICIES: &str = r#"
    version = 1
    [[policies]]
    name = "none"
    on_failure = "deny"
    limits = [{ subject = "ip", limit = "1/s" }]
"#;

/// One node in front of a store.
#[derive(Debug)]
pub struct Node<S> {
    gate: Gate<Leased<S>>,
    terms: Terms,
}

/// The answer of a node to an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NodeAnswer {
    /// The verdict.
    pub verdict: Verdict,
    /// The authority that decided.
    pub authority: Authority,
    /// When the store decided, by its clock, if it did.
    pub at_us: Option<u64>,
}

impl<S: Store> Node<S> {
    /// A node of a case.
    ///
    /// # Errors
    /// None in practice: a node has no policies.
    pub fn new(case: &NodesCase, store: S) -> Result<Self, ParseError> {
        Self::build(case, Leased::builder(store))
    }

    /// A node with leases and denials by these options.
    pub(super) fn build(case: &NodesCase, leased: LeasedBuilder<S>) -> Result<Self, ParseError> {
        let leased = match case.deny_cache_us {
            Some(us) => leased.deny_cache(DENIALS).longest_denial(Duration::from_micros(us)),
            None => leased,
        };
        let policies = Policies::parse(POLICIES, Format::Toml).map_err(|problems| {
            ParseError::whole(POLICIES, problems.to_string(), "the lab's own are right")
        })?;
        let deadline = Duration::from_micros(case.deadline_us);
        let terms = Terms::new(case.on_failure).deadline(deadline);
        Ok(Self { gate: Gate::new(policies, leased.build())?, terms })
    }

    /// Counts shares of limits in this store.
    pub(super) fn count_shares_in(&self, store: MemoryStore) {
        self.gate.count_local_shares_in(store);
    }

    /// Decides an attempt of the client with this number.
    ///
    /// # Errors
    /// The ask is invalid. Without the store the failure rule decides.
    pub async fn answer(&self, parts: &[PerLimits], client: u32) -> Result<NodeAnswer, Error> {
        let mut digits = itoa::Buffer::new();
        let client = digits.format(client);
        let counts = parts.iter().map(|part| (part.per.subject(client), &part.limits));
        let ask = Ask::from(counts.collect::<Vec<_>>());
        let answer = self.gate.inline().check(ask, self.terms).await?;
        let (decision, is_admitted) = (answer.decision(), answer.is_allowed());
        let wait = decision.filter(|_| !is_admitted).and_then(tollgate::Decision::retry_after);
        let retry_after_us = wait.and_then(|wait| u64::try_from(wait.as_micros()).ok());
        Ok(NodeAnswer {
            verdict: Verdict::new(is_admitted, retry_after_us),
            authority: answer.authority(),
            at_us: decision.map(|decision| decision.at().as_micros()),
        })
    }

    /// Returns units to the store that nobody spent: those of leases that have ended, or `all`.
    pub async fn give_back(&self, all: bool) -> u64 {
        let leased = self.gate.store();
        if all { leased.give_back().await } else { leased.give_back_ended().await }
    }

    /// The counters of the node's decisions in place of the store.
    #[must_use]
    pub fn counters(&self) -> LeasedCounters {
        self.gate.store().counters()
    }
}

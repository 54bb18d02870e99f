//! One set of policies with separate counts.

use hashbrown::HashMap;
use tollgate::{ManualClock, MemoryStore, SubjectPrefix, Time};
use tollgate_policy::{Answer, Field, Gate, Outcome, Policies, subject_of};

use super::read::Requests;
use super::request::Request;
use crate::decide::new_store;
use crate::error::Error;
use crate::event::Event;

/// Policies that decide requests.
pub(super) struct Side {
    gate: Gate<MemoryStore>,
    clock: ManualClock,
    places: HashMap<String, usize>,
    pub(super) names: Vec<String>,
}

/// The decision on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SideDecision {
    pub(super) is_admitted: bool,
    /// The index of the policy that decided; `None` when none applies.
    pub(super) policy: Option<usize>,
}

impl Side {
    pub(super) fn new(policies: &Policies) -> Result<Self, Error> {
        let clock = ManualClock::at_micros(0);
        let names: Vec<String> = policies.policies().iter().map(|it| it.name.clone()).collect();
        let gate = Gate::new(policies.clone(), new_store(&clock));
        let gate = gate.map_err(|why| Error::Policies { why: why.to_string() })?;
        let places = names.iter().cloned().zip(0..).collect();
        Ok(Self { gate, clock, places, names })
    }

    /// Decides a request at this time, which is not before that of the last.
    pub(super) fn decide(&self, at_us: u64, request: &Request<'_>) -> Result<SideDecision, Error> {
        self.decide_naming(at_us, request, true)
    }

    /// Decides the next requests, and forgets some of the states that no longer count. Only denials
    /// have their policy: a look-up less for most requests.
    pub(super) fn decide_batch(
        &self,
        requests: &Requests,
        events: &[Event],
    ) -> Result<Vec<SideDecision>, Error> {
        let decide = |it: &Event| self.decide_naming(it.at_us, &requests.request(it), false);
        let decisions = events.iter().map(decide).collect();
        self.sweep();
        decisions
    }

    fn decide_naming(
        &self,
        at_us: u64,
        request: &Request<'_>,
        names_all: bool,
    ) -> Result<SideDecision, Error> {
        self.clock.set(Time::from_micros(at_us));
        let view = |answer: &Answer<'_>| self.read(answer, names_all);
        let subject = |field: &Field, prefix: &SubjectPrefix| subject_of(request, field, prefix);
        if let Some((_, decision)) = self.gate.check_at_once(Some(request), subject, view) {
            return decision;
        }
        let prepared = self.gate.prepare(request);
        let no_answer = || Error::Policies { why: "the store in memory gave no answer".to_owned() };
        view(&self.gate.ask_now(&prepared).ok_or_else(no_answer)?)
    }

    fn read(&self, answer: &Answer<'_>, names_all: bool) -> Result<SideDecision, Error> {
        // A cost above the `max` of a policy is a denial, which the error shows.
        if let Some(error) = answer.error().filter(|_| answer.outcome() != Outcome::Never) {
            return Err(Error::Policies { why: format!("a request got no decision: {error}") });
        }
        let is_admitted = answer.is_allowed();
        let named = answer.policy().filter(|_| names_all || !is_admitted);
        let policy = named.and_then(|policy| self.places.get(&policy.name).copied());
        Ok(SideDecision { is_admitted, policy })
    }

    /// The name of a policy that decided.
    pub(super) fn name(&self, policy: Option<usize>) -> Option<&str> {
        self.names.get(policy?).map(String::as_str)
    }

    /// Forgets some of the states that no longer count.
    pub(super) fn sweep(&self) {
        self.gate.store().sweep_some();
    }
}

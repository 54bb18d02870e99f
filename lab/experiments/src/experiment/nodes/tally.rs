//! Counts who decided the attempts of a case with nodes, and the results of it.

use tollgate_lease::LeasedCounters;
use tollgate_policy::Authority;

use super::case::Away;
use super::{NodeFacts, NodesCase};
use crate::experiment::Case;
use crate::experiment::latency_histogram::LatencyHistogram;
use crate::experiment::measure::rounded;
use crate::experiment::results::{AwayResult, CaseResult, NodesResult};

/// The decisions of attempts so far.
pub(in crate::experiment) struct Tally {
    /// In the order of [`Authority::ALL`].
    by: [u64; Authority::ALL.len()],
    answered: LatencyHistogram,
}

impl Tally {
    pub(in crate::experiment) fn new() -> Self {
        Self { by: [0; Authority::ALL.len()], answered: LatencyHistogram::new() }
    }

    /// Counts an answer, and how long it took.
    pub(in crate::experiment) fn add(&mut self, authority: Authority, took_us: u64) {
        let place = Authority::ALL.iter().position(|it| *it == authority);
        if let Some(count) = place.and_then(|place| self.by.get_mut(place)) {
            *count += 1;
        }
        self.answered.add(took_us);
    }

    fn by(&self, authority: Authority) -> u64 {
        let each = Authority::ALL.iter().zip(self.by);
        each.filter(|(of, _)| **of == authority).map(|(_, count)| count).sum()
    }

    /// Adds the results of the nodes to those of the case. The times of decisions are known to
    /// within `within_us`. `questions` were asked, and one count would have admitted
    /// `admitted_alone`, where that is known.
    pub(in crate::experiment) fn finish(
        &self,
        (case, nodes): (&Case, &NodesCase),
        counters: &LeasedCounters,
        (questions, admitted_alone): (u64, Option<u64>),
        within_us: u64,
        mut measured: CaseResult,
    ) -> CaseResult {
        let known = NodeFacts { within_us, has_shares: self.by(Authority::LocalShare) > 0 };
        let limits = case
            .parts
            .iter()
            .flat_map(|part| part.limits.limits().iter().map(|limit| (limit, part.limits.lease())));
        let mut beyond = 0;
        for ((limit, lease), result) in limits.zip(&mut measured.limits) {
            result.promise = nodes.promise(limit, lease, known);
            result.holds = result.peak <= result.promise;
            let alone = limit.strategy().traits(limit.quota()).worst_window;
            beyond = beyond.max(result.peak.saturating_sub(alone));
        }
        let more = |alone: u64| (measured.admitted as f64 - alone as f64) / alone as f64;
        let result = NodesResult {
            number: nodes.number,
            // In real time the way and the clocks are those of this machine.
            round_trip_us: admitted_alone.map(|_| nodes.round_trip_us),
            clock_error_ppm: admitted_alone.map(|_| nodes.clock_error_ppm),
            on_failure: nodes.on_failure.to_string(),
            leases: case
                .parts
                .iter()
                .filter_map(|part| part.limits.lease().map(ToString::to_string))
                .collect(),
            questions,
            per_question: (questions > 0)
                .then(|| rounded(measured.attempts as f64 / questions as f64)),
            by_store: self.by(Authority::Store),
            by_lease: self.by(Authority::Lease),
            by_deny_cache: self.by(Authority::DenyCache),
            by_local_share: self.by(Authority::LocalShare),
            by_failure_rule: self.by(Authority::FailureRule),
            charged: counters.charged,
            returned: counters.returned,
            wasted: counters.wasted,
            admitted_alone,
            difference: admitted_alone.filter(|alone| *alone > 0).map(more).map(rounded),
            beyond,
            answered_us: self.answered.read(),
            away: nodes.away.iter().map(|away| away_of(away, nodes.number)).collect(),
        };
        CaseResult { nodes: Some(result), ..measured }
    }
}

fn away_of(away: &Away, nodes: u32) -> AwayResult {
    let Away { number, from_us, until_us } = *away;
    AwayResult { number: number.unwrap_or(nodes), from_us, until_us }
}

/// The counters of all nodes together.
pub(in crate::experiment) fn sum(
    counters: impl IntoIterator<Item = LeasedCounters>,
) -> LeasedCounters {
    counters.into_iter().fold(LeasedCounters::default(), |mut sum, one| {
        sum.asked += one.asked;
        sum.renewals += one.renewals;
        sum.charged += one.charged;
        sum.admitted += one.admitted;
        sum.denied += one.denied;
        sum.returned += one.returned;
        sum.wasted += one.wasted;
        sum
    })
}

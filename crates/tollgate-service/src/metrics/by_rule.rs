//! Hits by rule of Envoy's rate limit service, as envoyproxy/ratelimit counts them, with its errors
//! and the durations of its answers.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::latency::Latency;

/// The most rules with separate counters. Files have any number of rules; those beyond this maximum
/// share one set of counters.
pub(crate) const MAX_RULES: usize = 1_000;

/// The most series by the values of requests, of all rules, and the most bytes of their labels.
/// Clients choose the values: those beyond count in the series of the rule alone.
const MAX_VALUES: usize = 1_000;
const MAX_LABEL_BYTES: usize = 256;

/// The statistics of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stat {
    TotalHits,
    WithinLimit,
    NearLimit,
    OverLimit,
    ShadowMode,
}

impl Stat {
    pub(super) const ALL: [Self; 5] =
        [Self::TotalHits, Self::WithinLimit, Self::NearLimit, Self::OverLimit, Self::ShadowMode];

    /// The metric and its help.
    pub(super) fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::TotalHits => ("ratelimit_service_rate_limit_total_hits", "Hits by rule."),
            Self::WithinLimit => {
                ("ratelimit_service_rate_limit_within_limit", "Hits within the limit, by rule.")
            }
            Self::NearLimit => (
                "ratelimit_service_rate_limit_near_limit",
                "Hits beyond 80 % of the limit and within it, by rule.",
            ),
            Self::OverLimit => {
                ("ratelimit_service_rate_limit_over_limit", "Hits over the limit, by rule.")
            }
            Self::ShadowMode => (
                "ratelimit_service_rate_limit_shadow_mode",
                "Hits over the limit of a rule in shadow mode, by rule.",
            ),
        }
    }
}

/// Why a request had no answer of the counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The request cannot be answered as it is.
    Request,
    /// The store did not answer, whatever the failure rule did then.
    Store,
}

impl Failure {
    pub(super) const ALL: [Self; 2] = [Self::Request, Self::Store];

    /// The label that the reference has for it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Request => "service_error",
            Self::Store => "redis_error",
        }
    }
}

/// How far a hit reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reached {
    /// Within the limit; this many of its hits are beyond 80 % of it.
    Within {
        near: u64,
    },
    Over,
}

/// The counters of one rule.
#[derive(Debug, Default)]
pub(crate) struct RuleCounts([AtomicU64; Stat::ALL.len()]);

impl RuleCounts {
    /// Counts hits of one request.
    pub(crate) fn add(&self, hits: u64, reached: Reached, is_shadow: bool) {
        self.increase(Stat::TotalHits, hits);
        match reached {
            Reached::Within { near } => {
                self.increase(Stat::WithinLimit, hits);
                self.increase(Stat::NearLimit, near.min(hits));
            }
            Reached::Over => {
                self.increase(Stat::OverLimit, hits);
                if is_shadow {
                    self.increase(Stat::ShadowMode, hits);
                }
            }
        }
    }

    fn increase(&self, stat: Stat, hits: u64) {
        if let Some(count) = self.0.get(stat as usize) {
            count.fetch_add(hits, Ordering::Relaxed);
        }
    }

    fn get(&self, stat: Stat) -> u64 {
        self.0.get(stat as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

/// The counters of all rules, by their steps: the domain and the keys. A rule keeps its counters
/// when the files lose it.
#[derive(Debug, Default)]
pub(crate) struct ByRule {
    rules: Mutex<BTreeMap<Vec<String>, Arc<RuleCounts>>>,
    /// Those by the values of requests too.
    of_values: Mutex<BTreeMap<Vec<String>, Arc<RuleCounts>>>,
    other: Arc<RuleCounts>,
    failures: [AtomicU64; Failure::ALL.len()],
    /// The durations of `ShouldRateLimit`.
    pub(crate) answers: Latency,
}

impl ByRule {
    /// Counts a request without an answer of the counts.
    pub(crate) fn fail(&self, failure: Failure) {
        if let Some(count) = self.failures.get(failure as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn failures(&self, failure: Failure) -> u64 {
        self.failures.get(failure as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// The counters of the rule at these steps, from now on.
    pub(crate) fn of<'s>(&self, steps: impl Iterator<Item = &'s str>) -> Arc<RuleCounts> {
        let steps: Vec<String> = steps.map(str::to_owned).collect();
        let mut rules = self.rules.lock();
        match rules.get(&steps) {
            Some(counts) => Arc::clone(counts),
            None if rules.len() >= MAX_RULES => Arc::clone(&self.other),
            None => Arc::clone(rules.entry(steps).or_default()),
        }
    }

    /// The counters of the rule with these counters, for these steps with values of a request.
    pub(crate) fn of_values(&self, steps: &[String], rule: &Arc<RuleCounts>) -> Arc<RuleCounts> {
        let mut of_values = self.of_values.lock();
        match of_values.get(steps) {
            Some(counts) => Arc::clone(counts),
            None if of_values.len() >= MAX_VALUES
                || steps.iter().any(|step| step.len() > MAX_LABEL_BYTES) =>
            {
                Arc::clone(rule)
            }
            None => Arc::clone(of_values.entry(steps.to_vec()).or_default()),
        }
    }

    /// Calls `tell` for each rule, with its steps and its count; the last is the sum of the rules
    /// beyond the maximum, with the step `other`, if there are any.
    pub(super) fn each<E>(
        &self,
        stat: Stat,
        mut tell: impl FnMut(&[String], u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let rules = self.rules.lock();
        // One name is one series: values may be those of another rule.
        let of_values = self.of_values.lock();
        let rest = of_values.iter().filter(|(steps, _)| !rules.contains_key(*steps));
        for (steps, counts) in rules.iter() {
            let more = of_values.get(steps).map_or(0, |counts| counts.get(stat));
            tell(steps, counts.get(stat) + more)?;
        }
        for (steps, counts) in rest {
            tell(steps, counts.get(stat))?;
        }
        if self.other.get(Stat::TotalHits) > 0 {
            tell(&[super::OTHER.to_owned()], self.other.get(stat))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_beyond_the_bound_are_one_and_a_rule_keeps_its_counts() {
        let all = ByRule::default();
        for _ in 0..2 {
            for number in 0..MAX_RULES + 500 {
                let key = format!("k{number}");
                all.of(["shop", &key].into_iter()).add(3, Reached::Over, number == 0);
            }
        }
        let mut told = Vec::new();
        let _ = all.each(Stat::OverLimit, |steps, count| {
            told.push((steps.join("."), count));
            Ok::<(), ()>(())
        });
        assert_eq!(told.len(), MAX_RULES + 1);
        assert_eq!(told.first(), Some(&("shop.k0".to_owned(), 6)));
        assert_eq!(told.last(), Some(&("other".to_owned(), 3_000)));
        assert_eq!(all.of(["shop", "k0"].into_iter()).get(Stat::ShadowMode), 6);
        assert_eq!(all.of(["shop", "k1"].into_iter()).get(Stat::ShadowMode), 0);
    }
}

//! The nodes of a case: how many, how far from the store, and the behaviour of each without it.

use tollgate::{Lease, Limit, Period};
use tollgate_policy::OnFailure;

use tollgate_logs::decide::PerLimits;
use tollgate_logs::split_mix::SplitMix64;

/// The most nodes of a case: each takes about 300 kB.
const MAX_NODES: u32 = 10_000;

/// The error of a node's clock that leases allow for, in parts in a million.
const MAX_CLOCK_ERROR: u32 = 1_000;

/// Nodes in front of one store: each has separate leases and denials, and is away for a while.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NodesCase {
    /// The number of nodes.
    pub number: u32,
    /// Mean microseconds from a node to the store and back.
    pub round_trip_us: u64,
    /// How fast or slow the clocks of nodes are at most, in parts in a million.
    pub clock_error_ppm: u32,
    /// How long a check waits for the store, in microseconds.
    pub deadline_us: u64,
    /// The answer when the store does not answer in time.
    pub on_failure: OnFailure,
    /// How long a denial is remembered at most, in microseconds; `None` for not at all.
    pub deny_cache_us: Option<u64>,
    /// Which node an attempt reaches.
    pub spread: Spread,
    /// When nodes are cut off from the store.
    pub away: Vec<Away>,
}

/// Which node an attempt reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Spread {
    /// Any.
    Random,
    /// Always the same for one client.
    ByClient,
}

impl Spread {
    /// The node, of this number, that an attempt reaches: the one with this number, of this client.
    #[must_use]
    pub fn node(self, client: u32, attempt: u64, nodes: u32) -> u32 {
        let seed = match self {
            Self::Random => attempt,
            Self::ByClient => u64::from(client),
        };
        let node = SplitMix64::new(seed).below(u64::from(nodes));
        u32::try_from(node).unwrap_or(0)
    }
}

/// A time during which nodes do not reach the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Away {
    /// How many of the nodes; `None` for all.
    pub number: Option<u32>,
    /// Its start, in microseconds from that of the experiment.
    pub from_us: u64,
    /// Its end.
    pub until_us: u64,
}

/// The facts that a promise depends on, beside the limit and its lease.
#[derive(Clone, Copy, Debug)]
pub(in crate::experiment) struct NodeFacts {
    /// How closely the times of decisions are known, in microseconds.
    pub(in crate::experiment) within_us: u64,
    /// Whether nodes decided by their shares, which they count without the store.
    pub(in crate::experiment) has_shares: bool,
}

impl NodesCase {
    /// The most that a limit admits in any window of its period, over all nodes. No limit counts
    /// the units that a failure rule admits.
    pub(in crate::experiment) fn promise(
        &self,
        limit: &Limit,
        lease: Option<&Lease>,
        NodeFacts { within_us, has_shares }: NodeFacts,
    ) -> u64 {
        let (period_us, nodes) = (limit.quota().period.as_micros(), u64::from(self.number));
        let longer = |us: u64| Period::from_micros(us).unwrap_or(limit.quota().period);
        let window = longer(period_us.saturating_add(within_us));
        let by_store = match lease {
            Some(lease) => lease.most_in(limit, window, nodes),
            None if within_us > 0 => limit.most_in(window),
            None => limit.strategy().traits(limit.quota()).worst_window,
        };
        let share = self.on_failure.share().filter(|_| has_shares);
        let by_share = share.and_then(|share| limit.share(share).ok()).map_or(0, |share| {
            // A node's clock may be fast.
            let error = u64::from(self.clock_error_ppm);
            let us = window.as_micros().saturating_add(period_us.saturating_mul(error) / 1_000_000);
            share.most_in(longer(us.saturating_add(error.min(1))))
        });
        by_store.saturating_add(by_share.saturating_mul(nodes))
    }

    /// Checks the settings; an error contains the key and the valid values.
    pub(super) fn check(&self, parts: &[PerLimits]) -> Result<(), (&'static str, String)> {
        let Self { number, clock_error_ppm, deadline_us, .. } = *self;
        if number == 0 || number > MAX_NODES {
            return Err(("number", format!("`number` is 1 to {MAX_NODES} nodes, not {number}")));
        }
        if clock_error_ppm > MAX_CLOCK_ERROR {
            let what = "`clock_error` is at most 0.1%: leases allow for clocks within that";
            return Err(("clock_error", what.to_owned()));
        }
        if deadline_us == 0 {
            return Err(("deadline", "`deadline` is more than 0: the store takes a while".into()));
        }
        let limits = parts.iter().flat_map(|part| part.limits.limits());
        if let Some(share) = self.on_failure.share() {
            for limit in limits {
                limit
                    .share(share)
                    .map_err(|error| ("on_failure", format!("`on_failure`: {error}")))?;
            }
        }
        for away in &self.away {
            if let Some(cut) = away.number.filter(|cut| *cut == 0 || *cut > number) {
                let what = format!("`away` cuts off {cut} of {number} nodes: 1 to all of them");
                return Err(("away", what));
            }
            if away.from_us >= away.until_us {
                return Err(("away", "`away` ends before it begins: `from` is later".to_owned()));
            }
        }
        Ok(())
    }

    /// The times during which a node is cut off, by its place. The first nodes are cut off.
    pub fn away_of(&self, node: u32) -> impl Iterator<Item = (u64, u64)> {
        let is_cut = move |away: &&Away| away.number.is_none_or(|number| node < number);
        self.away.iter().filter(is_cut).map(|away| (away.from_us, away.until_us))
    }

    /// How fast the clock of a node is, in parts in a million: from the slowest to the fastest.
    pub(super) fn clock_error_of(&self, node: u32) -> i64 {
        let most = i64::from(self.clock_error_ppm);
        match i64::from(self.number) - 1 {
            0 => most,
            last => 2 * most * i64::from(node) / last - most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(number: u32) -> NodesCase {
        NodesCase {
            number,
            round_trip_us: 1_000,
            clock_error_ppm: 1_000,
            deadline_us: 100_000,
            on_failure: OnFailure::Deny,
            deny_cache_us: None,
            spread: Spread::Random,
            away: vec![Away { number: Some(2), from_us: 1, until_us: 2 }],
        }
    }

    #[test]
    fn clocks_spread_from_slow_to_fast() {
        let errors = |number| -> Vec<i64> {
            (0..number).map(|it| case(number).clock_error_of(it)).collect()
        };
        assert_eq!(errors(1), [1_000]);
        assert_eq!(errors(2), [-1_000, 1_000]);
        assert_eq!(errors(5), [-1_000, -500, 0, 500, 1_000]);
    }

    #[test]
    fn a_promise_is_that_of_the_store_with_leases_and_shares() {
        let set: tollgate::LimitSet = "100/s via gcra lease 10 for 100ms".parse().unwrap();
        let (limit, lease) = (&set.limits()[0], set.lease());
        let known = |within_us, has_shares| NodeFacts { within_us, has_shares };
        assert_eq!(case(3).promise(limit, None, known(0, false)), 199);
        // Decisions of 10 ms more may lie in it.
        assert_eq!(case(3).promise(limit, None, known(10_000, false)), 200);
        // 199 and 3 x 10, or what 1.1 s admit.
        assert_eq!(case(3).promise(limit, lease, known(0, false)), 209);
        assert_eq!(case(3).promise(limit, lease, known(0, true)), 209, "this rule has no shares");
        let shared = NodesCase { on_failure: OnFailure::Local("1/4".parse().unwrap()), ..case(3) };
        assert_eq!(shared.promise(limit, lease, known(0, false)), 209);
        // A share of 25 admits 49 in a second, and 50 in a second of a clock that is 0.1 % fast.
        assert_eq!(shared.promise(limit, lease, known(0, true)), 209 + 3 * 50);
        let exact = NodesCase { clock_error_ppm: 0, ..shared };
        assert_eq!(exact.promise(limit, lease, known(0, true)), 209 + 3 * 49);
        assert_eq!(case(3).away_of(1).count(), 1);
        assert_eq!(case(3).away_of(2).count(), 0);
    }
}

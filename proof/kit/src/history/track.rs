//! The knowledge about one count while a history is replayed: the minimum and the maximum that can
//! be used, and the charges that no answer has disproved yet.

use crate::oracle::{Oracle, Rule, RuleError};

use super::plan::Planned;
use super::report::Promise;

/// A charge that should not have happened, and that no later answer has shown to be absent yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// A denied call was charged.
    Denied,
    /// A call that another limit denied was charged to this one.
    Partial,
    /// An allowed call was charged once more.
    Twice,
}

impl Doubt {
    pub(super) const ALL: [Self; 3] = [Self::Denied, Self::Partial, Self::Twice];

    /// The promise that such a charge breaks.
    pub(super) fn promise(self) -> Promise {
        match self {
            Self::Denied => Promise::DenialsFree,
            Self::Partial => Promise::AllOrNothing,
            Self::Twice => Promise::ChargedOnce,
        }
    }
}

/// A [`Doubt`] of one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubted {
    pub(super) doubt: Doubt,
    pub(super) cost: u64,
}

/// Units that a call without an answer may have charged, or may yet.
#[derive(Clone, Debug)]
struct Pending {
    cost: u64,
    until_us: u64,
    request: Option<String>,
}

/// One count.
#[derive(Clone, Debug)]
pub(super) struct Track {
    rule: Rule,
    /// With the acknowledged charges alone.
    lower: Oracle,
    /// With all that may have been charged; `None` while that is the same.
    upper: Option<Oracle>,
    pending: Vec<Pending>,
    /// `lower` with one unit more, charged at the oldest doubt.
    probe: Option<Oracle>,
    doubts: Vec<Doubted>,
    /// The units that must be left now if nothing came back since the oldest doubt.
    left_since: u64,
    /// Whether anything was ever charged.
    is_used: bool,
    /// How many losses were looked at.
    pub(super) losses_seen: usize,
    /// The epoch of the last call.
    pub(super) epoch: Option<Option<usize>>,
}

/// The answer of one count to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Judged {
    /// Whether the least use admits the cost.
    pub(super) lower_admits: bool,
    /// Whether the most use admits it.
    pub(super) upper_admits: bool,
    /// `remaining` before any charge, under the maximum use and under the minimum.
    pub(super) left: [u64; 2],
    /// The same two for the probe, if there is one: whether it admits, and the remaining units.
    pub(super) probe: Option<(bool, u64)>,
}

impl Track {
    pub(super) fn new(rule: Rule) -> Result<Self, RuleError> {
        Ok(Self {
            rule,
            lower: Oracle::grouped(rule)?,
            upper: None,
            pending: Vec::new(),
            probe: None,
            doubts: Vec::new(),
            left_since: 0,
            is_used: false,
            losses_seen: 0,
            epoch: None,
        })
    }

    /// Whether the least and the most use are the same.
    pub(super) fn is_certain(&self) -> bool {
        self.upper.is_none() && self.pending.is_empty()
    }

    fn oracles(&mut self) -> impl Iterator<Item = &mut Oracle> {
        [Some(&mut self.lower), self.upper.as_mut(), self.probe.as_mut()].into_iter().flatten()
    }

    /// Counts under `rule` from now on, repaired where the clock stepped back.
    pub(super) fn settle(&mut self, now_us: u64, rule: Rule) -> Result<(), RuleError> {
        if rule != self.rule {
            self.rule = rule;
            for oracle in self.oracles() {
                oracle.change(now_us, rule)?;
            }
            self.forget_doubts();
        }
        for oracle in self.oracles() {
            oracle.settle(now_us);
        }
        let same = |upper: &Oracle| upper.is_idle(now_us) && self.lower.is_idle(now_us);
        if self.upper.as_ref().is_some_and(same) {
            self.upper = None;
        }
        Ok(())
    }

    /// All charges may be lost: only later ones are certain.
    pub(super) fn lose(&mut self) -> Result<(), RuleError> {
        let fresh = Oracle::grouped(self.rule)?;
        let was = std::mem::replace(&mut self.lower, fresh);
        self.upper.get_or_insert(was);
        self.forget_doubts();
        Ok(())
    }

    /// A call without an answer may be charged from now on, until `until_us`.
    pub(super) fn await_charge(&mut self, planned: &Planned<'_>, until_us: u64) {
        let (cost, request) = (planned.call.cost, planned.call.request.clone());
        self.pending.push(Pending { cost, until_us, request });
        self.forget_doubts();
    }

    /// A charge that can no longer be made was made now at the latest.
    pub(super) fn land(&mut self, invoked_us: u64, now_us: u64) {
        if !self.pending.iter().any(|pending| pending.until_us < invoked_us) {
            return;
        }
        let upper = self.upper.get_or_insert_with(|| self.lower.clone());
        self.pending.retain(|pending| {
            let over = pending.until_us < invoked_us;
            if over {
                upper.charge_anyway(now_us, pending.cost);
            }
            !over
        });
    }

    fn pending_cost(&self) -> u64 {
        self.pending.iter().fold(0, |sum, pending| sum.saturating_add(pending.cost))
    }

    /// The answer of this count to `cost`, charging nothing.
    pub(super) fn judge(&self, now_us: u64, cost: u64) -> Judged {
        let upper = self.upper.as_ref().unwrap_or(&self.lower);
        let pending = self.pending_cost();
        let lower_left = self.lower.left(now_us);
        Judged {
            lower_admits: self.lower.admits_after(now_us, 0, cost),
            upper_admits: upper.admits_after(now_us, 0, cost.saturating_add(pending)),
            left: [upper.left(now_us).saturating_sub(pending), lower_left],
            probe: self
                .probe
                .as_ref()
                .map(|probe| (probe.admits_after(now_us, 0, cost), probe.left(now_us))),
        }
    }

    /// Whether `cost` is admitted after a wait, when the use is certain.
    pub(super) fn admits_after(&self, now_us: u64, wait_us: u64, cost: u64) -> bool {
        self.lower.admits_after(now_us, wait_us, cost)
    }

    /// The call was allowed.
    pub(super) fn charge(&mut self, now_us: u64, cost: u64) {
        for oracle in self.oracles() {
            oracle.charge_anyway(now_us, cost);
        }
        self.is_used = true;
        self.left_since = self.left_since.saturating_sub(cost);
    }

    /// The charge of a limiter with a mistake; unless `bounded`, it may exceed the remaining units.
    pub(super) fn charge_by_mistake(&mut self, now_us: u64, cost: u64, bounded: bool) {
        if bounded {
            self.lower.charge_anyway(now_us, cost);
        } else {
            self.lower.charge_beyond(now_us, cost);
        }
    }

    /// The call was charged once, now or earlier.
    pub(super) fn charge_once_with(&mut self, now_us: u64, planned: &Planned<'_>) {
        let upper = self.upper.get_or_insert_with(|| self.lower.clone());
        upper.charge_anyway(now_us, planned.call.cost);
        self.pending.retain(|pending| pending.request != planned.call.request);
        self.forget_doubts();
    }

    /// A charge that must not have happened, to be disproved by a later answer.
    pub(super) fn doubt(&mut self, now_us: u64, doubted: Doubted) {
        if !self.is_certain() {
            return;
        }
        if self.probe.is_none() {
            let mut probe = self.lower.clone();
            probe.charge_anyway(now_us, 1);
            self.probe = Some(probe);
            self.left_since = self.lower.left(now_us);
        }
        self.doubts.push(doubted);
    }

    /// Whether nothing came back since the oldest doubt, or nothing was ever charged. Otherwise
    /// what is missing may be a refill.
    pub(super) fn is_steady(&self, now_us: u64) -> bool {
        let left = self.lower.left(now_us);
        match self.probe {
            Some(_) => left == self.left_since,
            None => !self.is_used,
        }
    }

    /// The charges that no answer has disproved yet.
    pub(super) fn suspects(&self) -> &[Doubted] {
        &self.doubts
    }

    /// An answer has shown that none of them happened.
    pub(super) fn disprove(&mut self) -> Vec<Doubted> {
        self.probe = None;
        std::mem::take(&mut self.doubts)
    }

    fn forget_doubts(&mut self) {
        self.probe = None;
        self.doubts.clear();
    }
}

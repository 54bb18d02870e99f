//! The units that a node has of one count, and their use for a check: the rules, without a clock, a
//! lock or a store.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use smallvec::SmallVec;
use tokio::sync::Notify;
use tollgate::engine::Outcome;
use tollgate::{Authority, Lease, LimitSet};

use crate::demand::Demand;
use crate::denial::{Asked, Denial};
use crate::known::LastAnswer;
use crate::lot::Lot;

/// The maximum number of charges that a node spends of at a time: beside the newest, the rests of
/// others.
const MAX_LOTS: usize = 4;

/// The units that a node needs in the time of a lease, at least, to charge them ahead; a smaller
/// lease has to be needed in full. In the first such time nobody knows, and fewer will do.
const WORTH: u64 = 8;

/// The part of a lease's time for which a node asks no more, once the store had nothing left or
/// less than was asked for. Otherwise a limit that is used up would be asked about for each unit.
const PAUSES: u64 = 64;

/// The part of a lease's time that this grows to, where the store has too little again and again:
/// each time it doubles. Many nodes that ask for units which have just come back would get a unit
/// each.
const LONGEST_PAUSES: u64 = 4;

/// The units that a node has of one count.
#[derive(Debug, Default)]
pub struct Holding {
    /// The oldest first.
    lots: SmallVec<[Lot; 2]>,
    /// Ended lots with units that nobody spent.
    ended: Vec<Lot>,
    demand: Demand,
    known: Option<LastAnswer>,
    denial: Option<Box<Denial>>,
    /// How many questions in a row brought nothing, or less than they asked for, and when the last
    /// of them was answered.
    short: u32,
    short_until_us: u64,
    /// The renewal under way.
    renewal: Option<Arc<Flight>>,
    /// How often the count was reset here: units charged before are not spent after.
    resets: u64,
}

/// A renewal under way, for those that wait for it.
#[derive(Debug, Default)]
pub struct Flight {
    /// Told when it has ended.
    pub ended: Notify,
    /// Whether the store answered.
    is_answered: AtomicBool,
}

impl Flight {
    /// Whether the store answered.
    pub fn is_answered(&self) -> bool {
        self.is_answered.load(Ordering::Acquire)
    }
}

/// The next step for a check.
#[derive(Debug)]
#[allow(clippy::exhaustive_enums)] // a check does each
pub enum Step {
    /// It is answered.
    Answer(Outcome),
    /// This check charges units at the store for all that follow.
    Renew(Renewal),
    /// Another check does so: wait for it, and look again.
    Wait(Arc<Flight>),
    /// The store is asked about this check alone.
    Ask,
}

impl Renewal {
    /// The units that the store is asked for.
    pub fn asked(&self) -> u64 {
        self.need.saturating_add(self.units)
    }
}

/// The turn of a check at what a node holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_enums)] // a check has each
pub enum Turn {
    /// It has not waited.
    First,
    /// It has waited for a renewal, which the store answered.
    AfterRenewal,
    /// It has waited for a renewal, which failed.
    AfterFailure,
}

/// The plan for a check.
enum Plan {
    /// There is enough. Of the missing units this many are charged ahead, if any.
    Spend {
        renew: u64,
    },
    Deny,
    Wait,
    /// There is not enough: this many units are charged ahead beside the cost.
    Renew(u64),
    Ask,
}

/// A charge ahead, which one check makes.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// The answer of the check that makes it, if there was enough.
    pub spent: Option<Outcome>,
    /// The units that this check needs of it; 0 if it has its answer.
    pub need: u64,
    /// The units to charge beside these.
    pub units: u64,
    resets: u64,
}

/// A copy has a renewal of its own under way: nobody waits for that of another.
impl Clone for Holding {
    fn clone(&self) -> Self {
        Self {
            lots: self.lots.clone(),
            ended: self.ended.clone(),
            denial: self.denial.clone(),
            known: self.known.clone(),
            renewal: self.renewal.as_ref().map(|_| Arc::default()),
            ..*self
        }
    }
}

impl Holding {
    /// The next step for a check of `cost`. A renewal that this returns is under way until
    /// [`Holding::end_renewal`].
    pub fn step(&mut self, lease: &Lease, cost: u64, turn: Turn, now_us: u64) -> Step {
        if turn == Turn::First {
            self.note(lease, cost, now_us);
        }
        self.end_lots(now_us);
        match self.plan(lease, cost, now_us) {
            Plan::Spend { renew: 0 } => self.spend(cost, now_us).map_or(Step::Ask, Step::Answer),
            Plan::Spend { renew } => {
                let spent = self.spend(cost, now_us);
                self.renew(spent, 0, renew)
            }
            Plan::Deny => {
                let denial = self.denial.as_ref();
                denial.map_or(Step::Ask, |denial| Step::Answer(denial.outcome(now_us)))
            }
            // A store that does not answer would be waited for by one after the other.
            Plan::Wait if turn != Turn::AfterFailure => {
                self.renewal.clone().map_or(Step::Ask, Step::Wait)
            }
            Plan::Renew(units) => self.renew(None, cost, units),
            Plan::Wait | Plan::Ask => Step::Ask,
        }
    }

    /// The answer of a check, if it needs neither the store nor a renewal.
    #[inline]
    pub fn at_once(&mut self, lease: &Lease, cost: u64, now_us: u64) -> Option<Outcome> {
        self.end_lots(now_us);
        let answer = match self.plan(lease, cost, now_us) {
            Plan::Spend { renew: 0 } => self.spend(cost, now_us),
            Plan::Deny => self.denial.as_ref().map(|denial| denial.outcome(now_us)),
            _ => None,
        };
        if answer.is_some() {
            self.note(lease, cost, now_us);
        }
        answer
    }

    /// Counts what is asked for. A cost above the lease's size does not count as demand.
    #[inline]
    fn note(&mut self, lease: &Lease, cost: u64, now_us: u64) {
        let units = if cost > lease.units() { 0 } else { cost };
        self.demand.note(units, now_us, lease.ttl().as_micros());
    }

    /// The plan for a check of `cost`. Ended lots are moved out of the way.
    #[inline]
    fn plan(&self, lease: &Lease, cost: u64, now_us: u64) -> Plan {
        let is_there = self.lots.iter().any(|lot| lot.has(cost));
        let want = self.demand.units().min(lease.units());
        let held = self.held() - if is_there { cost } else { 0 };
        let is_denied = self.denial.as_ref().is_some_and(|denial| !denial.is_over(now_us));
        // Two or more, and at least half of the wanted units: fewer are not worth a question. Of a
        // few units a large part would end unspent.
        let missing = want.saturating_sub(held);
        let is_hot = self.demand.is_new() || want >= lease.units().min(WORTH);
        let pays = is_hot && missing >= 2 && held <= want / 2;
        let can_renew = pays
            && !is_denied
            && self.renewal.is_none()
            && self.lots.iter().filter(|lot| lot.left() > 0).count() < MAX_LOTS;
        if is_there {
            return Plan::Spend { renew: if can_renew { missing } else { 0 } };
        }
        if self.denial.as_ref().is_some_and(|denial| denial.denies(cost, now_us)) {
            return Plan::Deny;
        }
        match &self.renewal {
            Some(_) if cost <= want => Plan::Wait,
            None if can_renew && cost <= want => Plan::Renew(missing),
            _ => Plan::Ask,
        }
    }

    fn renew(&mut self, spent: Option<Outcome>, need: u64, units: u64) -> Step {
        self.renewal = Some(Arc::default());
        Step::Renew(Renewal { spent, need, units, resets: self.resets })
    }

    /// The answer of a check that changes nothing, if this node has one.
    pub fn peek(&self, cost: u64, now_us: u64) -> Option<Outcome> {
        let live = || self.lots.iter().filter(|lot| !lot.is_over(now_us));
        let held = live().map(Lot::left).sum();
        let lot = live().find(|lot| lot.has(cost))?;
        Some(self.known.as_ref()?.allow((cost, 0), lot.charged_at(), held, now_us))
    }

    /// Spends `cost` units of one lot, of the oldest that has as many.
    fn spend(&mut self, cost: u64, now_us: u64) -> Option<Outcome> {
        let all = self.lots.iter_mut().enumerate();
        let (place, number) =
            all.filter_map(|(place, lot)| Some((place, lot.spend(cost)?))).next()?;
        let (held, at) = (self.held(), self.lots[place].charged_at());
        Some(self.known.as_ref()?.allow((cost, number), at, held, now_us))
    }

    /// Takes in an answer of the store.
    pub fn learn(&mut self, outcome: &Outcome, asked: Asked) {
        let known = LastAnswer::new(outcome, asked);
        if self.known.as_ref().is_none_or(|before| known.is_newer(before)) {
            self.known = Some(known);
        }
    }

    /// Takes units back that were spent under the receipt of this number. False if what they were
    /// spent of has ended, or if the node would hold more than its lease.
    pub fn take_back(&mut self, lease: &Lease, (number, units): (u64, u64), now_us: u64) -> bool {
        self.end_lots(now_us);
        if self.held().saturating_add(units) > lease.units() {
            return false;
        }
        let found = self.lots.iter_mut().find(|lot| lot.made(number));
        found.is_some_and(|lot| {
            lot.take_back(units);
            true
        })
    }

    /// Takes in what a renewal has charged of the units that it asked for. Returns the answer of
    /// the check that needed some.
    pub fn renewed(
        &mut self,
        (outcome, mut lot): (&Outcome, Lot),
        renewal: &Renewal,
        asked: Asked,
        (lease, longest_us): (&Lease, u64),
    ) -> Option<Outcome> {
        self.learn(outcome, asked);
        if outcome.granted < renewal.asked() {
            let pause_us = self.pause_us(lease, asked).min(longest_us);
            let rest = Denial::of_rest(outcome, asked).for_at_least(pause_us);
            self.denial = Some(Box::new(rest));
        } else {
            (self.denial, self.short) = (None, 0);
        }
        // The store granted these just now, so they are there even if the lot has ended.
        let spent = (renewal.need > 0).then(|| lot.spend(renewal.need)).flatten();
        if lot.left() > 0 && renewal.resets == self.resets {
            // Units may come back to those that are spent.
            if self.lots.len() >= 2 * MAX_LOTS {
                self.lots.retain(|lot| lot.left() > 0);
            }
            self.lots.push(lot.clone());
        }
        let mut outcome = self.known.as_ref()?.allow(
            (renewal.need, spent?),
            lot.charged_at(),
            self.held(),
            asked.answered_us,
        );
        outcome.authority = Authority::Store;
        Some(outcome)
    }

    /// Takes in an answer about one check alone.
    pub fn answered(&mut self, outcome: &Outcome, asked: Asked) {
        self.learn(outcome, asked);
        if outcome.granted > 0 {
            self.short = 0;
        }
    }

    /// Takes in a denial of the store, which holds for `longest_us` at most.
    pub fn denied(&mut self, denial: Denial, asked: Asked, (lease, longest_us): (&Lease, u64)) {
        let pause_us = self.pause_us(lease, asked).min(longest_us);
        self.denial = Some(Box::new(denial.for_at_least(pause_us)));
    }

    /// For how long this node asks no more, after an answer that had too little. Questions that
    /// were under way at the same time count as one.
    fn pause_us(&mut self, lease: &Lease, asked: Asked) -> u64 {
        if asked.sent_us >= self.short_until_us {
            self.short = self.short.saturating_add(1);
            self.short_until_us = asked.answered_us;
        }
        let ttl_us = lease.ttl().as_micros();
        let doubled = 1 << self.short.saturating_sub(1).min(PAUSES.ilog2());
        (ttl_us / PAUSES * doubled).min(ttl_us / LONGEST_PAUSES)
    }

    /// Forgets a denial: something was given back.
    pub fn forget_denial(&mut self) {
        self.denial = None;
    }

    /// Ends a renewal, which the store answered or not, and wakes those that wait for it.
    pub fn end_renewal(&mut self, is_answered: bool) {
        if let Some(flight) = self.renewal.take() {
            flight.is_answered.store(is_answered, Ordering::Release);
            flight.ended.notify_waiters();
        }
    }

    /// Drops every lot and the denial: the count was reset.
    pub fn reset(&mut self) {
        self.lots.clear();
        self.ended.clear();
        self.denial = None;
        self.resets += 1;
    }

    /// Whether this is the renewal under way.
    pub fn is_renewed_by(&self, renewal: &Arc<Flight>) -> bool {
        self.renewal.as_ref().is_some_and(|under_way| Arc::ptr_eq(under_way, renewal))
    }

    /// The units that can be spent at a time.
    pub fn held_at(&self, now_us: u64) -> u64 {
        self.lots.iter().filter(|lot| !lot.is_over(now_us)).map(Lot::left).sum()
    }

    /// Takes units back that were set aside under this number, if their lot still lasts.
    pub fn put_back(&mut self, number: u64, units: u64, now_us: u64) {
        self.end_lots(now_us);
        if let Some(lot) = self.lots.iter_mut().find(|lot| lot.made(number)) {
            lot.take_back(units);
        }
    }

    /// The units of all lots.
    fn held(&self) -> u64 {
        self.lots.iter().map(Lot::left).sum()
    }

    /// The lots that have ended with units that nobody spent; with `all`, also those that have not
    /// ended.
    pub fn take_ended(&mut self, now_us: u64, all: bool) -> Vec<Lot> {
        self.end_lots(now_us);
        let mut ended = core::mem::take(&mut self.ended);
        if all {
            ended.extend(self.lots.drain(..));
        }
        ended
    }

    /// How much this is worth keeping; `None` while it holds units or a renewal is under way.
    pub fn worth(&self, limits: &LimitSet, now_us: u64) -> Option<u64> {
        if self.held() > 0 || !self.ended.is_empty() || self.renewal.is_some() {
            return None;
        }
        let window_us = limits.lease().map_or(0, |lease| lease.ttl().as_micros());
        Some(self.demand.worth(now_us, window_us))
    }

    /// Moves ended lots out of the way.
    fn end_lots(&mut self, now_us: u64) {
        if !self.lots.iter().any(|lot| lot.is_over(now_us)) {
            return;
        }
        let (over, lots): (SmallVec<[Lot; 2]>, _) =
            self.lots.drain(..).partition(|lot| lot.is_over(now_us));
        self.lots = lots;
        self.ended.extend(over.into_iter().filter(|lot| lot.left() > 0));
        // A node that gives nothing back forgets the oldest.
        let more = self.ended.len().saturating_sub(MAX_LOTS);
        self.ended.drain(..more);
    }
}

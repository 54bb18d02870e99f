//! The oracle: every strategy written a second time, from `docs/definitions.md` alone.
//!
//! It is exact, slow and meant to be read side by side with that page; the engine and every store
//! are tested against it. It shares no code and no representation with them: it keeps levels and
//! lists of events, and asks the definition again at every question. Waits are not calculated: they
//! are searched for, by asking "would it be admitted then?".
//!
//! All arithmetic is on `i128`. [`Rule`] is checked when an [`Oracle`] is built, which keeps every
//! product below 2^105 (time < 2^64 times a count of at most 2^40), far from 2^127.
//!
//! ```
//! use tollgate_proof::oracle::{Oracle, Rule};
//!
//! let mut bucket = Oracle::new(Rule::Greedy { n: 1, d_us: 1_000_000, burst: 5 })?;
//! assert_eq!(bucket.check(0, 5).fields.remaining, 0);
//! assert_eq!(bucket.check(0, 2).fields.retry_after_us, Some(2_000_000));
//! # Ok::<(), tollgate_proof::oracle::RuleError>(())
//! ```

mod bans;
mod change;
mod count;
mod dates;
mod events;
mod holds;
mod judge;
mod level;
mod relative;
mod rule;
mod several;
mod windows;

#[cfg(test)]
mod tests;

pub use bans::{Ban, BanOracle, BanRule};
pub use dates::{calendars, edges_of};
pub use holds::{Charge, Ended, HeldLimit, HoldOracle, Kind, NameSays, Refunded};
pub use rule::{Rounding, Rule, RuleError};
pub use several::{AskError, MultiAnswer, MultiOracle};

use count::{Count, RateState, floor_div, least_wait};

/// The fields of a decision for one limit (section 2).
#[allow(clippy::exhaustive_structs, reason = "tests compare and build it whole")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fields {
    /// The largest cost that would be admitted now, in whole units, rounded down.
    pub remaining: u64,
    /// The least wait in microseconds until the cost is admitted; 0 when it would be admitted now;
    /// `None` for *never*: the cost is above the limit.
    pub retry_after_us: Option<u64>,
    /// The least wait in microseconds until `remaining` is the limit.
    pub reset_after_us: u64,
}

/// Where no wait is guessed, 0 is tried first.
const NO_GUESS: Fields = Fields { remaining: 0, retry_after_us: Some(0), reset_after_us: 0 };

/// The answer of one limit.
#[allow(clippy::exhaustive_structs, reason = "tests compare and build it whole")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OracleAnswer {
    /// Whether the cost was admitted (a peek: would be admitted).
    pub admitted: bool,
    /// Units charged: the cost, or for a partial check the part that was granted. 0 on a denial,
    /// and for every peek.
    pub granted: u64,
    /// `remaining`, `retry_after` and `reset_after`.
    pub fields: Fields,
}

/// The effect of a charge without a check.
#[allow(clippy::exhaustive_structs, reason = "tests compare and build it whole")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Charged {
    /// Whether a check would have admitted the cost.
    pub fits: bool,
    /// Units of the cost that were not charged.
    pub cut: u64,
    /// The fields of a peek for the cost just after.
    pub fields: Fields,
}

impl Charged {
    /// The same for `cost` as an answer: admitted if it fitted, granted what was charged.
    #[must_use]
    pub fn answer(&self, cost: u64) -> OracleAnswer {
        OracleAnswer { admitted: self.fits, granted: cost - self.cut, fields: self.fields }
    }
}

/// One subject under one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oracle {
    rule: Rule,
    /// The most units that can be used.
    most: i128,
    grouped: bool,
    held: RateState,
    charged_at: i128,
}

impl Oracle {
    /// A fresh subject under `rule`. It keeps one entry per event.
    ///
    /// # Errors
    ///
    /// When the rule is outside section 7 of the definitions; the message names the number.
    pub fn new(rule: Rule) -> Result<Self, RuleError> {
        Self::build(rule, false)
    }

    /// The same, for long runs: events of one window or one bucket are kept as a single event at
    /// its start, and lists are searched by halving. The definitions cannot tell the difference,
    /// and a property test holds this form equal to the one of [`Oracle::new`].
    ///
    /// # Errors
    ///
    /// As [`Oracle::new`].
    pub fn grouped(rule: Rule) -> Result<Self, RuleError> {
        Self::build(rule, true)
    }

    fn build(rule: Rule, grouped: bool) -> Result<Self, RuleError> {
        rule.verify()?;
        let most = rule.most(None)?;
        let held = RateState::fresh(rule, most, grouped);
        Ok(Self { rule, most, grouped, held, charged_at: 0 })
    }

    /// The same fresh subject, with a debt of up to `debt` units beyond the limit (section 8).
    ///
    /// # Errors
    ///
    /// When the debt is outside section 7 of the definitions.
    pub fn with_debt(mut self, debt: u64) -> Result<Self, RuleError> {
        self.most = self.rule.most(Some(debt))?;
        self.held = RateState::fresh(self.rule, self.most, self.grouped);
        Ok(self)
    }

    /// The capacity of a fresh subject, in units.
    pub fn limit(&self) -> u64 {
        whole(self.count().limit())
    }

    /// The time at which the last admitted check was recorded, in microseconds (a receipt's `at`).
    /// It differs from that check's `now` only under skew (section 3). 0 before the first.
    pub fn charged_at(&self) -> u64 {
        whole(self.charged_at)
    }

    /// Asks for `cost` at `now_us`, and charges it if it is admitted. A cost of 0 is not a check:
    /// it is answered as [`Oracle::peek`] does.
    pub fn check(&mut self, now_us: u64, cost: u64) -> OracleAnswer {
        self.check_guessed(now_us, cost, NO_GUESS)
    }

    /// As [`Oracle::check`], quicker: each search for a wait tries the one of `guess` first. The
    /// answer is the same, whatever the guess is.
    pub fn check_guessed(&mut self, now_us: u64, cost: u64, guess: Fields) -> OracleAnswer {
        if cost == 0 {
            return self.peek(now_us, cost);
        }
        let at = self.count_mut().settle(i128::from(now_us)); // a denial keeps this
        if !self.admits(at, cost) {
            let fields = self.fields(now_us, cost, guess);
            return OracleAnswer { admitted: false, granted: 0, fields };
        }
        let remaining = whole(i128::from(self.remaining(at)) - i128::from(cost));
        self.count_mut().charge(at, i128::from(cost));
        self.charged_at = at;
        let reset_after_us = self.reset_after(now_us, guess);
        let fields = Fields { remaining, retry_after_us: Some(0), reset_after_us };
        OracleAnswer { admitted: true, granted: cost, fields }
    }

    /// Keeps the repair that a check makes which charges nothing here (section 3).
    pub(crate) fn keep_repair(&mut self, now_us: u64) {
        self.count_mut().settle(i128::from(now_us));
    }

    /// The same question, changing nothing: no charge, and no repair. All three fields are those
    /// of the state without the charge.
    pub fn peek(&self, now_us: u64, cost: u64) -> OracleAnswer {
        let now = i128::from(now_us);
        if self.count().repair_due(now) {
            let mut repaired = self.clone();
            repaired.count_mut().settle(now);
            return repaired.peek(now_us, cost);
        }
        let admitted = self.admits(self.count().judged(now), cost);
        OracleAnswer { admitted, granted: 0, fields: self.fields(now_us, cost, NO_GUESS) }
    }

    /// Asks for `cost` and takes as much of it as remains; nothing at all is a denial with the
    /// fields of a check for 1. A cost of 0 is answered as [`Oracle::peek`] does.
    pub fn partial(&mut self, now_us: u64, cost: u64) -> OracleAnswer {
        let grant = cost.min(self.peek(now_us, 1).fields.remaining);
        if cost == 0 { self.peek(now_us, 0) } else { self.check(now_us, grant.max(1)) }
    }

    /// From here on the subject counts under `rule` (section 6): its state is repaired under its
    /// old numbers where the clock has stepped back, and carried over.
    ///
    /// # Errors
    ///
    /// When the rule is outside section 7 of the definitions.
    pub fn change(&mut self, now_us: u64, rule: Rule) -> Result<(), RuleError> {
        self.change_owing(now_us, rule, None)
    }

    /// The same, with a debt; `None` for the usual one.
    ///
    /// # Errors
    ///
    /// When the rule or the debt is outside section 7 of the definitions.
    pub fn change_owing(
        &mut self,
        now_us: u64,
        rule: Rule,
        debt: Option<u64>,
    ) -> Result<(), RuleError> {
        rule.verify()?;
        let most = rule.most(debt)?;
        if (rule, most) != (self.rule, self.most) {
            let now = i128::from(now_us);
            // The window of a calendar stays as it is where its edges move.
            let moves = matches!((self.rule, rule), (Rule::Dates { d_us: was, .. },
                Rule::Dates { d_us, .. }) if was == d_us);
            let at = if moves { now } else { self.count_mut().settle(now) };
            let (old, new) = ((&self.held, self.most), (rule, most));
            self.held = change::carried(old, new, self.grouped, now, at);
            (self.rule, self.most) = (rule, most);
        }
        Ok(())
    }

    /// Whether a clock at `now_us` has stepped back behind what the subject holds (section 3).
    pub fn would_repair(&self, now_us: u64) -> bool {
        self.count().repair_due(i128::from(now_us))
    }

    /// Whether a clock at `now_us` is behind what the subject holds by no more than the skew.
    pub fn is_behind(&self, now_us: u64) -> bool {
        let now = i128::from(now_us);
        !self.count().repair_due(now) && self.count().judged(now) != now
    }

    /// The units that charges without a check may take beyond the limit.
    fn debt(&self) -> u64 {
        whole(self.most - self.count().limit())
    }

    /// The subject is fresh again.
    fn forget(&mut self) {
        self.held = RateState::fresh(self.rule, self.most, self.grouped);
    }

    /// Whether it holds nothing, not even what no longer counts.
    fn is_fresh(&self) -> bool {
        self.held == RateState::fresh(self.rule, self.most, self.grouped)
    }

    /// The rule that the subject counts under.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// Gives back a charge of `cost` that was counted at `at_us` ([`Oracle::charged_at`]), as far
    /// as it still counts (section 4). Returns by how many whole units `remaining` rose. That a
    /// receipt is refunded once is the caller's to see to.
    pub fn refund(&mut self, now_us: u64, at_us: u64, cost: u64) -> u64 {
        self.refund_part(now_us, at_us, cost, cost)
    }

    /// Gives back `units` of a charge when `left` were not given back before.
    pub fn refund_part(&mut self, now_us: u64, at_us: u64, left: u64, units: u64) -> u64 {
        let now = self.count_mut().settle(i128::from(now_us));
        if self.is_free(now) {
            return 0;
        }
        let before = self.remaining(now);
        self.count_mut().refund(now, i128::from(at_us), i128::from(left), i128::from(units));
        // Under skew the newest event may have gone, and with it the time that counts.
        let after = self.remaining(self.count().judged(i128::from(now_us)));
        let rose = after.saturating_sub(before);
        self.forget_if_free(now_us);
        rose
    }

    /// An administrator's correction (section 5): a positive `delta` gives units back, a negative
    /// one takes units, at most what remains.
    pub fn adjust(&mut self, now_us: u64, delta: i64) {
        let now = self.count_mut().settle(i128::from(now_us));
        let units = delta.unsigned_abs();
        if delta > 0 && self.is_free(now) {
            return;
        }
        if delta > 0 {
            self.count_mut().grant(now, i128::from(units));
        } else {
            let taken = units.min(self.remaining(now));
            if taken > 0 {
                self.count_mut().charge(now, i128::from(taken));
            }
        }
        self.forget_if_free(now_us);
    }

    /// Charges `cost` without a check (section 8).
    pub fn charge(&mut self, now_us: u64, cost: u64) -> Charged {
        let (fits, cut) = self.owe(now_us, cost);
        let fields = self.fields(now_us, cost, NO_GUESS);
        Charged { fits, cut, fields }
    }

    /// The same without the fields: whether it fitted, and the units that were cut.
    fn owe(&mut self, now_us: u64, cost: u64) -> (bool, u64) {
        let at = self.count_mut().settle(i128::from(now_us));
        let fits = self.admits(at, cost);
        let used = self.count().used(at);
        let room = floor_div(self.most * used.per_unit - used.parts, used.per_unit).max(0);
        let taken = i128::from(cost).min(room);
        if taken > 0 {
            self.count_mut().charge(at, taken);
        }
        (fits, cost - whole(taken))
    }

    /// "When all of a state has been given back, it is fresh."
    fn forget_if_free(&mut self, now_us: u64) {
        let judged = self.count().judged(i128::from(now_us));
        if self.is_free(judged) {
            self.held = RateState::fresh(self.rule, self.most, self.grouped);
        }
    }

    fn is_free(&self, at: i128) -> bool {
        self.count().used(at).parts == 0
    }

    fn count(&self) -> &dyn Count {
        self.held.count()
    }

    fn count_mut(&mut self) -> &mut dyn Count {
        self.held.count_mut()
    }

    /// `used + cost <= limit`, at the time at which the question is judged.
    fn admits(&self, at: i128, cost: u64) -> bool {
        let limit = self.count().limit();
        let cost = i128::from(cost);
        // The first test is implied by the second, and keeps its product small.
        cost <= limit && {
            let used = self.count().used(at);
            used.parts + cost * used.per_unit <= limit * used.per_unit
        }
    }

    /// `floor(limit - used)`, never below 0.
    fn remaining(&self, at: i128) -> u64 {
        let used = self.count().used(at);
        let left = self.count().limit() * used.per_unit - used.parts;
        whole(floor_div(left, used.per_unit).max(0))
    }

    /// The fields when nothing is charged, from a settled state.
    fn fields(&self, now_us: u64, cost: u64, guess: Fields) -> Fields {
        let now = i128::from(now_us);
        let never = i128::from(cost) > self.count().limit();
        let admitted_after = |wait| self.admits(self.count().judged(now + wait), cost);
        let retry_after = || whole(least_wait(guess.retry_after_us.unwrap_or(0), admitted_after));
        Fields {
            remaining: self.remaining(self.count().judged(now)),
            retry_after_us: (!never).then(retry_after),
            reset_after_us: self.reset_after(now_us, guess),
        }
    }

    fn reset_after(&self, now_us: u64, guess: Fields) -> u64 {
        let now = i128::from(now_us);
        let full = |wait| self.remaining(self.count().judged(now + wait)) == self.limit();
        whole(least_wait(guess.reset_after_us, full))
    }
}

/// A number that is known to be in range, as the public type. Out of range it stops at the end
/// of the range; `Rule::verify` keeps it from getting there.
fn whole(number: i128) -> u64 {
    u64::try_from(number.max(0)).unwrap_or(u64::MAX)
}

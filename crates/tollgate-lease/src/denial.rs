//! A denial that holds for a while.

use smallvec::SmallVec;
use tollgate::engine::{Fields, Outcome};
use tollgate::{Amounts, Authority, Cost, Limit, Time, Unit};

use crate::clock::surely_within;

/// A denial of the store: until it has passed, the same cost is denied without a question.
///
/// Times are those of the node, in microseconds.
#[derive(Clone, Debug)]
pub struct Denial {
    cost: Cost,
    /// The units that were denied of a cost of several.
    units: Vec<Unit>,
    fields: SmallVec<[Fields; 2]>,
    now: Time,
    answered_us: u64,
    until_us: u64,
}

/// When a question was sent and answered, by the node's clock, in microseconds.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs)] // whoever asks builds it
pub struct Asked {
    /// Before it was sent.
    pub sent_us: u64,
    /// After it was answered.
    pub answered_us: u64,
}

impl Denial {
    /// Keeps the denial of `cost`, for at most `longest_us`. `None` if it is not a denial, if a
    /// store lacks room, or if it waits for open holds: settling one ends it.
    pub fn new(
        outcome: &Outcome,
        cost: impl Into<Cost>,
        asked: Asked,
        longest_us: u64,
    ) -> Option<Self> {
        if outcome.granted > 0 || outcome.shared || outcome.is_until_hold() {
            return None;
        }
        // The store may have decided as soon as the question was sent, so the wait begins there.
        let longest = asked.answered_us.saturating_add(longest_us);
        let until_us = match wait(&outcome.fields) {
            Some(wait) => asked.sent_us.saturating_add(surely_within(wait)).min(longest),
            None => longest,
        };
        let (fields, answered_us) = (outcome.fields.clone(), asked.answered_us);
        let (cost, units) = (cost.into(), Vec::new());
        Some(Self { cost, units, fields, now: outcome.now, answered_us, until_us })
    }

    /// The same denial, which is about the units that were denied by these limits alone. As much of
    /// each, with no more of the others, would have got the same answer.
    pub fn by_unit<'l>(self, limits: impl Iterator<Item = &'l Limit>) -> Self {
        if self.cost.plain().is_some() {
            return self;
        }
        let denied = limits.zip(&self.fields).filter(|(_, it)| it.retry_after_us != Some(0));
        let units = denied.map(|(limit, _)| *limit.unit()).collect();
        Self { units, ..self }
    }

    /// The denial of one unit more, after an answer that took all that remained.
    pub fn of_rest(outcome: &Outcome, asked: Asked) -> Self {
        let mut fields = outcome.fields.clone();
        let least = fields.iter().map(|fields| fields.remaining).min();
        for fields in fields.iter_mut().filter(|fields| Some(fields.remaining) == least) {
            fields.retry_after_us = Some(1);
        }
        let answered_us = asked.answered_us;
        let (cost, units) = (1.into(), Vec::new());
        Self { cost, units, fields, now: outcome.now, answered_us, until_us: answered_us }
    }

    /// The same denial, which holds for `pause_us` after it was answered, or longer.
    pub fn for_at_least(self, pause_us: u64) -> Self {
        let least = self.answered_us.saturating_add(pause_us);
        Self { until_us: self.until_us.max(least), ..self }
    }

    /// Whether `cost` is denied at `now_us`.
    #[inline]
    pub fn denies<'c>(&self, cost: impl Into<Amounts<'c>>, now_us: u64) -> bool {
        let cost = cost.into();
        now_us < self.until_us && (cost == self.cost.amounts() || self.denies_units(cost))
    }

    fn denies_units(&self, cost: Amounts<'_>) -> bool {
        let own = self.cost.amounts();
        !self.units.is_empty()
            && self.units.iter().all(|unit| cost.of(unit) == own.of(unit))
            && cost.iter().all(|(unit, amount)| amount <= own.of(unit))
    }

    /// When it has passed.
    pub fn until_us(&self) -> u64 {
        self.until_us
    }

    /// Whether it has passed.
    pub fn is_over(&self, now_us: u64) -> bool {
        now_us >= self.until_us
    }

    /// The answer at `now_us`, before the denial has passed. Waits count down. The remaining units
    /// are those of the store's answer: less than the cost, and never more than the truth.
    pub fn outcome(&self, now_us: u64) -> Outcome {
        let passed = now_us.saturating_sub(self.answered_us);
        let left = self.until_us.saturating_sub(now_us);
        let longest = wait(&self.fields);
        let mut fields = self.fields.clone();
        for one in &mut fields {
            if let Some(wait) = one.retry_after_us {
                let rest = wait.saturating_sub(passed);
                let binds = wait > 0 && Some(wait) == longest;
                one.retry_after_us = Some(if binds { rest.max(left) } else { rest });
            }
            one.reset_after_us = one.reset_after_us.saturating_sub(passed);
        }
        let mut outcome = Outcome::new(0, fields, 0, self.now);
        outcome.authority = Authority::DenyCache;
        outcome
    }
}

/// The wait of a denial; `None` for never.
fn wait(fields: &[Fields]) -> Option<u64> {
    fields.iter().try_fold(0, |longest, fields| Some(fields.retry_after_us?.max(longest)))
}

#[cfg(test)]
mod tests {
    use tollgate::Carried;

    use super::*;

    const ASKED: Asked = Asked { sent_us: 1_000, answered_us: 1_500 };

    fn denied(waits: &[Option<u64>]) -> Outcome {
        let fields = waits.iter().map(|wait| Fields::new(0, *wait, 9_000, 7, Carried::Same));
        Outcome::new(0, fields.collect(), 0, Time::from_micros(7))
    }

    #[test]
    fn it_ends_no_later_than_the_wait_from_when_it_was_asked() {
        let denial = Denial::new(&denied(&[Some(2_000), Some(0)]), 3, ASKED, 1_000_000).unwrap();
        // 2,000 us less a part in a thousand, from 1,000 on.
        assert!(denial.denies(3, 2_997) && !denial.denies(3, 2_998));
        assert!(
            !denial.denies(2, 1_600) && !denial.denies(4, 1_600),
            "other costs are asked about"
        );
        assert!(!denial.is_over(2_997) && denial.is_over(2_998));
        // A client that waits for its `retry_after` is at the store after its wait has passed.
        let fields = denial.outcome(1_600).fields;
        assert_eq!((fields[0].retry_after_us, fields[1].retry_after_us), (Some(1_900), Some(0)));
        assert_eq!(fields[0].reset_after_us, 8_900);
        assert_eq!(denial.outcome(1_600).authority, Authority::DenyCache);
    }

    #[test]
    fn it_is_bounded_and_extended() {
        let denial = Denial::new(&denied(&[Some(2_000_000)]), 1, ASKED, 10_000).unwrap();
        assert!(denial.denies(1, 11_499) && !denial.denies(1, 11_500));
        let never = Denial::new(&denied(&[None, Some(5)]), 1, ASKED, 10_000).unwrap();
        assert!(never.denies(1, 11_499) && !never.denies(1, 11_500));
        assert_eq!(never.outcome(1_600).fields[0].retry_after_us, None);
        let short = Denial::new(&denied(&[Some(10)]), 1, ASKED, 10_000).unwrap();
        assert!(!short.denies(1, 1_500), "the wait was over before the answer came");
        let longer = short.for_at_least(300);
        assert!(longer.denies(1, 1_799) && !longer.denies(1, 1_800));
        assert_eq!(longer.outcome(1_700).fields[0].retry_after_us, Some(100));
    }

    #[test]
    fn what_is_no_denial_is_not_kept() {
        let mut outcome = denied(&[Some(5)]);
        outcome.shared = true;
        assert!(Denial::new(&outcome, 1, ASKED, 10).is_none());
        outcome = denied(&[Some(0)]);
        outcome.granted = 1;
        assert!(Denial::new(&outcome, 1, ASKED, 10).is_none());
        let rest = Denial::of_rest(&outcome, ASKED).for_at_least(50);
        assert!(rest.denies(1, 1_549) && !rest.denies(1, 1_550));
        assert_eq!(rest.outcome(1_510).fields[0].retry_after_us, Some(40));
    }
}

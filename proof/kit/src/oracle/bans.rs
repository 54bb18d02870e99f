//! Bans beside the limits of one count (section 12), over the oracles of those limits.

use super::count::SKEW_US;
use super::{Charged, Fields, Oracle, whole};

/// The remainder under a ban that does not run: as much as there can be.
const ALL: u64 = 1 << 40;

/// The numbers of a ban.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "tests build it")]
pub struct BanRule {
    /// This denial of a time begins a ban.
    pub denials: u64,
    /// The time in which denials are counted, in microseconds.
    pub within_us: u64,
    /// The length of the first ban, in microseconds.
    pub first_us: u64,
    /// The length of the longest ban, in microseconds.
    pub longest_us: u64,
}

impl BanRule {
    /// The length of a ban with this many before it.
    fn length(self, bans: u32) -> i128 {
        let doubled = (0..bans).try_fold(i128::from(self.first_us), |length, _| {
            Some(2 * length).filter(|length| *length < i128::from(self.longest_us))
        });
        doubled.unwrap_or(i128::from(self.longest_us))
    }

    /// After this many bans each is the longest: more need not be remembered.
    fn enough(self) -> u32 {
        let shorter = |bans: &u32| self.length(*bans) < i128::from(self.longest_us);
        let first = (0..).take_while(shorter).count();
        u32::try_from(first).unwrap_or(u32::MAX)
    }

    fn memory(self) -> i128 {
        i128::from(self.longest_us.max(self.within_us))
    }
}

/// The knowledge of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Past {
    Nothing,
    /// A ban that runs or has run, with its length.
    Ban {
        end: i128,
        length: i128,
    },
    /// Denials since the last ban.
    Denials {
        begin: i128,
        count: u64,
    },
}

/// A ban of one count, and its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ban {
    rule: BanRule,
    past: Past,
    /// The bans that are remembered.
    bans: u32,
}

impl Ban {
    /// One that remembers nothing.
    #[must_use]
    pub const fn new(rule: BanRule) -> Self {
        Self { rule, past: Past::Nothing, bans: 0 }
    }

    /// Forgets everything.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.rule);
    }

    /// Whether nothing was ever counted, or all of it was forgotten.
    pub(super) fn is_fresh(&self) -> bool {
        *self == Self::new(self.rule)
    }

    pub(super) const fn rule(&self) -> BanRule {
        self.rule
    }

    /// Until when anything is remembered.
    pub(super) fn until(&self) -> i128 {
        let remembered = if self.bans > 0 { self.rule.memory() } else { 0 };
        match self.past {
            Past::Nothing => 0,
            Past::Ban { end, .. } => end + remembered,
            Past::Denials { begin, .. } => begin + remembered.max(i128::from(self.rule.within_us)),
        }
    }

    /// Cuts what lies in the future after the clock stepped back.
    pub(super) fn cut(&mut self, now: i128) {
        match &mut self.past {
            Past::Ban { end, length } => *end = (*end).min(now + *length),
            Past::Denials { begin, .. } if *begin > now + SKEW_US => *begin = now,
            Past::Denials { .. } | Past::Nothing => {}
        }
    }

    /// As of `now`, without what is over.
    fn at(&self, now: i128) -> Self {
        let mut then = self.clone();
        if then.until() <= now {
            (then.past, then.bans) = (Past::Nothing, 0);
        }
        then.cut(now);
        then
    }

    pub(super) fn runs_for(&self, now: i128) -> i128 {
        match self.at(now).past {
            Past::Ban { end, .. } => (end - now).max(0),
            Past::Denials { .. } | Past::Nothing => 0,
        }
    }

    pub(super) fn fields(&self, now: i128) -> Fields {
        let wait = self.runs_for(now);
        Fields {
            remaining: if wait > 0 { 0 } else { ALL },
            retry_after_us: Some(whole(wait)),
            reset_after_us: whole(self.at(now).until() - now),
        }
    }

    /// From here on it has these numbers.
    pub(super) fn change(&mut self, now: i128, rule: BanRule) {
        if self.rule == rule {
            return;
        }
        *self = self.at(now);
        self.rule = rule;
        let enough = rule.enough();
        self.bans = if enough == 0 { 0 } else { self.bans.min(enough + 1) };
        let most = rule.denials - 1;
        self.past = match self.past {
            Past::Ban { end, .. } => {
                Past::Ban { end, length: rule.length(self.bans.saturating_sub(1)) }
            }
            Past::Denials { begin, count } if count > most => match most {
                0 => Past::Ban { end: begin.min(now), length: 0 },
                _ => Past::Denials { begin: begin.min(now), count: most },
            },
            past => past,
        };
        *self = self.at(now);
    }

    pub(super) fn deny(&mut self, now: i128) {
        *self = self.at(now);
        let within = i128::from(self.rule.within_us);
        let (begin, count) = match self.past {
            Past::Denials { begin, count } if now < begin + within => (begin, count + 1),
            _ => (now, 1),
        };
        self.past = Past::Denials { begin, count };
        if count == self.rule.denials {
            let length = self.rule.length(self.bans);
            self.past = Past::Ban { end: now + length, length };
            let enough = self.rule.enough();
            self.bans = if enough == 0 { 0 } else { (self.bans + 1).min(enough + 1) };
        }
    }
}

/// One count: some limits, and bans beside them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BanOracle {
    rates: Vec<Oracle>,
    bans: Vec<Ban>,
}

impl BanOracle {
    /// A fresh count.
    #[must_use]
    pub fn new(rates: Vec<Oracle>, rules: &[BanRule]) -> Self {
        Self { rates, bans: rules.iter().copied().map(Ban::new).collect() }
    }

    /// Whether all of the count matters at `now_us`: no store may have forgotten any of it.
    #[must_use]
    pub fn all_count(&self, now_us: u64) -> bool {
        let counts = |oracle: &Oracle| oracle.peek(now_us, 1).fields.reset_after_us > 0;
        self.rates.iter().all(counts)
            && self.bans.iter().all(|ban| ban.until() > i128::from(now_us))
    }

    /// The fields of each limit, then of each ban, without a change.
    #[must_use]
    pub fn peek(&self, now_us: u64, cost: u64) -> (bool, Vec<Fields>) {
        let rates = self.rates.iter().map(|oracle| oracle.peek(now_us, cost).fields);
        let bans = self.bans.iter().map(|ban| ban.fields(i128::from(now_us)));
        let all: Vec<Fields> = rates.chain(bans).collect();
        (all.iter().all(|fields| fields.retry_after_us == Some(0)), all)
    }

    /// As much of `cost` as is admitted now, at least 1.
    #[must_use]
    pub fn part(&self, now_us: u64, cost: u64) -> u64 {
        let (_, fields) = self.peek(now_us, 1);
        fields.iter().map(|fields| fields.remaining).min().unwrap_or(0).min(cost).max(1)
    }

    /// Asks for `cost`. Returns whether it was admitted, and the fields as [`BanOracle::peek`].
    pub fn ask(&mut self, now_us: u64, cost: u64) -> (bool, Vec<Fields>) {
        let now = i128::from(now_us);
        self.bans.iter_mut().for_each(|ban| ban.cut(now));
        let (admitted, _) = self.peek(now_us, cost);
        if admitted {
            let rates = self.rates.iter_mut().map(|oracle| oracle.check(now_us, cost).fields);
            let bans = self.bans.iter().map(|ban| ban.fields(now));
            return (true, rates.chain(bans).collect());
        }
        self.rates.iter_mut().for_each(|oracle| {
            oracle.count_mut().settle(now);
        });
        if self.bans.iter().all(|ban| ban.runs_for(now) == 0) {
            self.bans.iter_mut().for_each(|ban| ban.deny(now));
        }
        (false, self.peek(now_us, cost).1)
    }

    /// Charges without a check (section 8).
    pub fn charge(&mut self, now_us: u64, cost: u64) -> Vec<Charged> {
        let now = i128::from(now_us);
        self.bans.iter_mut().for_each(|ban| ban.cut(now));
        let rates = self.rates.iter_mut().map(|oracle| oracle.charge(now_us, cost));
        let bans = self.bans.iter().map(|ban| Charged {
            fits: ban.runs_for(now) == 0,
            cut: 0,
            fields: ban.fields(now),
        });
        rates.chain(bans).collect()
    }

    /// The limits and bans from here on have other numbers (sections 6 and 12).
    ///
    /// # Panics
    /// For rules outside section 7 of the definitions, and other numbers of them.
    pub fn change(&mut self, now_us: u64, rates: &[super::Rule], bans: &[BanRule]) {
        let now = i128::from(now_us);
        for (oracle, rule) in self.rates.iter_mut().zip(rates) {
            assert!(oracle.change(now_us, *rule).is_ok(), "a rule that is accepted");
        }
        self.bans.iter_mut().zip(bans).for_each(|(ban, rule)| ban.change(now, *rule));
    }
}

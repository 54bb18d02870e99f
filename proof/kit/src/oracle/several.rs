//! Several limits, over one or several subjects, in one all-or-nothing check (section 2).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Fields, Oracle, Rule, RuleError};

/// The answer of a check over several limits.
#[allow(clippy::exhaustive_structs, reason = "tests compare and build it whole")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiAnswer {
    /// Whether every limit admitted.
    pub admitted: bool,
    /// Units charged to each limit; 0 on a denial and for a peek.
    pub granted: u64,
    /// The fields of each limit, in the order asked.
    pub each: Vec<Fields>,
    /// The least `remaining`, the largest `retry_after` (*never* wins), and the `reset_after` of
    /// the binding limit.
    pub summary: Fields,
    /// The binding limit, as a position in the order asked.
    pub binding: usize,
    /// The `limit` of the binding limit, in units.
    pub limit: u64,
}

/// Why a question over several limits is refused.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskError {
    /// No limit was named.
    Empty,
    /// The position is not one of a rule.
    UnknownRule(usize),
    /// The same subject and rule twice: they would count the cost twice.
    Twice(String, usize),
}

impl fmt::Display for AskError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(out, "no limit was asked: name at least one"),
            Self::UnknownRule(rule) => write!(out, "there is no rule at position {rule}"),
            Self::Twice(key, rule) => write!(out, "subject {key:?} asks rule {rule} twice"),
        }
    }
}

impl std::error::Error for AskError {}

/// Any number of subjects under a list of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiOracle {
    fresh: Vec<Oracle>,
    held: BTreeMap<(String, usize), Oracle>,
}

impl MultiOracle {
    /// No subject has asked anything yet. A rule is named by its position in `rules`.
    ///
    /// # Errors
    ///
    /// When a rule is outside section 7 of the definitions.
    pub fn new(rules: &[Rule]) -> Result<Self, RuleError> {
        let fresh = rules.iter().map(|&rule| Oracle::grouped(rule)).collect::<Result<_, _>>()?;
        Ok(Self { fresh, held: BTreeMap::new() })
    }

    /// One subject under one rule, for a refund or an adjustment; `None` when it never asked.
    pub fn subject(&mut self, key: &str, rule: usize) -> Option<&mut Oracle> {
        self.held.get_mut(&(key.to_owned(), rule))
    }

    /// Asks every (subject, rule) for `cost` at `now_us`; charges all of them or none. A cost of 0
    /// is answered as [`MultiOracle::peek`] does.
    ///
    /// # Errors
    ///
    /// When nothing is asked, a rule is unknown, or one is asked twice. Nothing is charged then.
    pub fn check(
        &mut self,
        now_us: u64,
        asked: &[(&str, usize)],
        cost: u64,
    ) -> Result<MultiAnswer, AskError> {
        let before = self.peek(now_us, asked, cost)?;
        if cost == 0 {
            return Ok(before);
        }
        let mut answer = before;
        for (&(key, rule), fields) in asked.iter().zip(&mut answer.each) {
            let held = self.held.entry((key.to_owned(), rule));
            let oracle = held.or_insert_with(|| self.fresh[rule].clone());
            if answer.admitted {
                *fields = oracle.check(now_us, cost).fields;
            } else {
                // A peek has the fields of an uncharged limit; its repair is kept.
                oracle.count_mut().settle(i128::from(now_us));
            }
        }
        let granted = if answer.admitted { cost } else { 0 };
        Ok(summarize(answer.admitted, granted, answer.each, &self.limits(asked)))
    }

    /// The same question, changing nothing.
    ///
    /// # Errors
    ///
    /// As [`MultiOracle::check`].
    pub fn peek(
        &self,
        now_us: u64,
        asked: &[(&str, usize)],
        cost: u64,
    ) -> Result<MultiAnswer, AskError> {
        let peeks = self.asked(asked)?.into_iter().map(|oracle| oracle.peek(now_us, cost));
        let peeks: Vec<_> = peeks.collect();
        let admitted = peeks.iter().all(|peek| peek.admitted);
        let each = peeks.iter().map(|peek| peek.fields).collect();
        Ok(summarize(admitted, 0, each, &self.limits(asked)))
    }

    /// Takes as much of `cost` as the least `remaining` allows; nothing at all is a denial with
    /// the fields of a check for 1.
    ///
    /// # Errors
    ///
    /// As [`MultiOracle::check`].
    pub fn partial(
        &mut self,
        now_us: u64,
        asked: &[(&str, usize)],
        cost: u64,
    ) -> Result<MultiAnswer, AskError> {
        if cost == 0 {
            return self.peek(now_us, asked, 0);
        }
        let least = self.peek(now_us, asked, 1)?.summary.remaining;
        self.check(now_us, asked, cost.min(least).max(1))
    }

    /// The limit of each rule asked, all of them known.
    fn limits(&self, asked: &[(&str, usize)]) -> Vec<u64> {
        asked.iter().map(|&(_, rule)| self.fresh[rule].limit()).collect()
    }

    /// The counts asked for, fresh ones where a subject has none yet.
    fn asked(&self, asked: &[(&str, usize)]) -> Result<Vec<&Oracle>, AskError> {
        if asked.is_empty() {
            return Err(AskError::Empty);
        }
        let mut seen = BTreeSet::new();
        let mut oracles = Vec::new();
        for &(key, rule) in asked {
            let fresh = self.fresh.get(rule).ok_or(AskError::UnknownRule(rule))?;
            if !seen.insert((key, rule)) {
                return Err(AskError::Twice(key.to_owned(), rule));
            }
            oracles.push(self.held.get(&(key.to_owned(), rule)).unwrap_or(fresh));
        }
        Ok(oracles)
    }
}

/// The binding limit is, on Deny, the one with the largest `retry_after`, on Allow the one with
/// the least `remaining`; ties go to the first.
fn summarize(admitted: bool, granted: u64, each: Vec<Fields>, limits: &[u64]) -> MultiAnswer {
    // `None` is *never*, the longest wait of all.
    let wait = |fields: &Fields| fields.retry_after_us.map_or(u128::MAX, u128::from);
    let mut binding = 0;
    for (position, fields) in each.iter().enumerate() {
        let tighter = if admitted {
            fields.remaining < each[binding].remaining
        } else {
            wait(fields) > wait(&each[binding])
        };
        if tighter {
            binding = position;
        }
    }
    let summary = Fields {
        remaining: each.iter().map(|fields| fields.remaining).min().unwrap_or(0),
        retry_after_us: if admitted { Some(0) } else { each[binding].retry_after_us },
        reset_after_us: each[binding].reset_after_us,
    };
    MultiAnswer { admitted, granted, each, summary, binding, limit: limits[binding] }
}

//! Open holds on one count (section 11), over the oracles of its limits.

use super::count::{SKEW_US, least_wait};
use super::{Ban, Charged, Fields, Oracle, RuleError, whole};

mod correct;
mod counting;
mod judge;
mod line;
mod names;
mod relative;

use names::Names;
pub use names::{Ended, NameSays};

pub use correct::{Charge, Refunded};

/// How long a hold that was settled is remembered, in microseconds.
const REMEMBERED_US: i128 = 60_000_000;

/// One limit of a count with holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "tests build it")]
pub enum HeldLimit {
    /// A rate, from which holds keep units.
    Rate(Box<Oracle>),
    /// So many slots, which holds take.
    Slots(u64),
    /// A ban, which counts the denials of the others.
    Ban(Box<Ban>),
}

/// One open hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    name: u64,
    placed: i128,
    end: i128,
    units: u64,
    slots: u64,
    charging: bool,
}

/// The kind of units that a hold keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "tests build it")]
pub enum Kind {
    /// The cost in slots. Rates are charged.
    Acquire,
    /// The cost in units, and one slot.
    Reserve,
    /// The same; its end charges the units.
    Charging,
}

/// One count: its limits, and the holds that are open on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldOracle {
    limits: Vec<HeldLimit>,
    open: Vec<Open>,
    /// The reserves that were settled: the charge of each, and until when it is known.
    settled: Vec<(u64, u64, i128)>,
    names: Names,
    line: Vec<line::Place>,
    /// The name whose place in the line the present question has.
    asks: Option<(u64, Kind, u64)>,
    seen: i128,
    /// How often the count was reset.
    resets: u64,
}

impl HoldOracle {
    /// A fresh count.
    #[must_use]
    pub fn new(limits: Vec<HeldLimit>) -> Self {
        let (open, settled, names) = (Vec::new(), Vec::new(), Names::default());
        let (line, asks) = (Vec::new(), None);
        Self { limits, open, settled, names, line, asks, seen: 0, resets: 0 }
    }

    /// Forgets the count and its open holds. Settled holds, and names that are over, are still
    /// remembered.
    pub fn reset(&mut self) {
        for limit in &mut self.limits {
            match limit {
                HeldLimit::Rate(oracle) => oracle.forget(),
                HeldLimit::Slots(_) => {}
                HeldLimit::Ban(ban) => ban.forget(),
            }
        }
        self.open.clear();
        self.line.clear();
        self.seen = 0;
        self.resets += 1;
    }

    /// From here on the count has other numbers: as many limits of the same kinds. A hold that is
    /// due ends under the old ones.
    ///
    /// # Errors
    ///
    /// When a rule is outside section 7 of the definitions.
    pub fn change(&mut self, now_us: u64, limits: &[HeldLimit]) -> Result<(), RuleError> {
        self.end_due(now_us);
        for (old, new) in self.limits.iter_mut().zip(limits) {
            match (old, new) {
                (HeldLimit::Rate(old), HeldLimit::Rate(new)) => {
                    old.change_owing(now_us, new.rule(), Some(new.debt()))?;
                }
                (HeldLimit::Ban(old), HeldLimit::Ban(new)) => {
                    old.change(i128::from(now_us), new.rule());
                }
                (old, new) => old.clone_from(new),
            }
        }
        Ok(())
    }

    /// The charge of a reserve that was settled in the minute before the last operation.
    #[must_use]
    pub fn was_settled(&self, name: u64) -> Option<u64> {
        let found = self.settled.iter().find(|(other, ..)| *other == name);
        found.filter(|(.., until)| *until > self.seen).map(|(_, actual, _)| *actual)
    }

    /// Until when the reserve of that name is remembered, once it was settled.
    #[must_use]
    pub fn settled_until_us(&self, name: u64) -> Option<u64> {
        let found = self.settled.iter().find(|(other, ..)| *other == name);
        found.map(|(.., until)| whole(*until))
    }

    /// Until when the last reserve that was settled is remembered.
    #[must_use]
    pub fn last_settled_until_us(&self) -> Option<u64> {
        self.settled.last().map(|(.., until)| whole(*until))
    }

    /// Whether the wait of a denial is one for open holds: it would be shorter if every one were
    /// settled at `now_us` with 0. `fields` are those of the denial.
    #[must_use]
    pub fn waits_for_holds(
        &self,
        now_us: u64,
        cost: u64,
        kind: Option<Kind>,
        fields: &[Fields],
    ) -> bool {
        let mut without = self.after(now_us);
        without.open.clear();
        without.line.clear();
        let longest = |each: &[Fields]| {
            each.iter().map(|fields| fields.retry_after_us.unwrap_or(u64::MAX)).max()
        };
        longest(&without.peek(now_us, cost, kind, fields)) < longest(fields)
    }

    /// How many holds are open, due or not.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// The holds that are open at `now_us`: when each ends, its cost, and its age, in microseconds.
    /// They are in order.
    #[must_use]
    pub fn shown(&self, now_us: u64) -> Vec<(u64, u64, u64)> {
        let then = self.after(now_us);
        let each = then.open.iter().map(|hold| {
            let cost = if hold.units > 0 { hold.units } else { hold.slots };
            (whole(hold.end), cost, whole(then.seen - hold.placed))
        });
        let mut each: Vec<_> = each.collect();
        each.sort_unstable();
        each
    }

    /// The latest time seen while a hold was open, in microseconds: the time by which ends are
    /// judged.
    #[must_use]
    pub fn seen_us(&self) -> u64 {
        whole(self.seen)
    }

    /// Whether `reset_after` is exact: where ends charge, or holds of slots and of units are open
    /// side by side, it is an upper bound.
    #[must_use]
    pub fn resets_exactly(&self) -> bool {
        let first_keeps = self.open.first().is_some_and(|hold| hold.units > 0);
        self.open.iter().all(|hold| !hold.charging && (hold.units > 0) == first_keeps)
    }

    /// The rate at `place`.
    pub fn rate(&mut self, place: usize) -> Option<&mut Oracle> {
        match self.limits.get_mut(place)? {
            HeldLimit::Rate(oracle) => Some(oracle),
            HeldLimit::Slots(_) | HeldLimit::Ban(_) => None,
        }
    }

    /// The time by which ends are judged: the latest time seen, unless the clock stepped back.
    fn judged(&self, now: i128) -> i128 {
        if self.open.is_empty() {
            return now;
        }
        if self.seen - now > SKEW_US { now } else { self.seen.max(now) }
    }

    /// Lets everything end that is due at `now_us`, before an operation.
    pub fn end_due(&mut self, now_us: u64) {
        let now = i128::from(now_us);
        let at = self.judged(now);
        if !self.open.is_empty() && self.seen - now > SKEW_US {
            let back = self.seen - now;
            for hold in &mut self.open {
                hold.placed -= back;
                hold.end -= back;
            }
        }
        self.seen = at;
        self.open.sort_by_key(|hold| hold.end);
        while let Some(hold) = self.open.first().copied()
            && hold.end <= at
        {
            self.open.remove(0);
            if hold.charging {
                for limit in &mut self.limits {
                    if let HeldLimit::Rate(oracle) = limit {
                        oracle.owe(whole(hold.end), hold.units);
                    }
                }
            }
        }
    }

    /// Cuts every rate and ban from the future to its possible maximum.
    fn repair(&mut self, now_us: u64) {
        let now = i128::from(now_us);
        for limit in &mut self.limits {
            match limit {
                HeldLimit::Rate(oracle) => {
                    oracle.count_mut().settle(now);
                }
                HeldLimit::Slots(_) => {}
                HeldLimit::Ban(ban) => ban.cut(now),
            }
        }
    }

    fn after(&self, now_us: u64) -> Self {
        let mut then = self.clone();
        then.end_due(now_us);
        then
    }

    fn kept(&self, limit: &HeldLimit) -> u64 {
        let kept = |hold: &Open| match limit {
            HeldLimit::Rate(_) => hold.units,
            HeldLimit::Slots(_) => hold.slots,
            HeldLimit::Ban(_) => 0,
        };
        self.open.iter().map(kept).sum()
    }

    fn remaining(&self, limit: &HeldLimit, now_us: u64) -> u64 {
        let free = match limit {
            HeldLimit::Rate(oracle) => oracle.peek(now_us, 1).fields.remaining,
            HeldLimit::Slots(slots) => *slots,
            HeldLimit::Ban(ban) => ban.fields(i128::from(now_us)).remaining,
        };
        free.saturating_sub(self.kept(limit))
    }

    fn limit_of(limit: &HeldLimit) -> u64 {
        match limit {
            HeldLimit::Rate(oracle) => oracle.limit(),
            HeldLimit::Slots(slots) => *slots,
            HeldLimit::Ban(_) => 1 << 40,
        }
    }

    /// The fields of the limit at `place` for `cost`, which is in slots for a limit of slots.
    fn fields(&self, place: usize, now_us: u64, cost: u64, guess: Fields) -> Fields {
        if let HeldLimit::Ban(ban) = &self.limits[place] {
            return ban.fields(i128::from(now_us));
        }
        let all = Self::limit_of(&self.limits[place]);
        let left_after = |wait: i128| {
            let at_us = now_us + whole(wait);
            let then = self.after(at_us);
            then.remaining(&then.limits[place], at_us)
        };
        let retry_after_us = (cost <= all).then(|| {
            let guess = guess.retry_after_us.unwrap_or(0);
            whole(least_wait(guess, |wait| cost <= left_after(wait)))
        });
        let full = |wait: i128| {
            let then = self.after(now_us + whole(wait));
            then.kept(&then.limits[place]) == 0 && left_after(wait) == all
        };
        let reset_after_us = whole(least_wait(guess.reset_after_us, full));
        Fields { remaining: left_after(0), retry_after_us, reset_after_us }
    }

    /// Judges `cost` at `now_us` and changes nothing. With a `kind`, as a hold would take it.
    #[must_use]
    pub fn peek(
        &self,
        now_us: u64,
        cost: u64,
        kind: Option<Kind>,
        guess: &[Fields],
    ) -> Vec<Fields> {
        let mut repaired = self.after(now_us);
        repaired.repair(now_us);
        let before = repaired.before(i128::from(now_us), repaired.asks);
        let each = self.limits.iter().zip(guess).enumerate();
        each.map(|(place, (limit, guess))| {
            let cost = match (limit, kind) {
                (HeldLimit::Slots(_), Some(Kind::Reserve | Kind::Charging)) => 1,
                _ => cost,
            };
            let fields = repaired.fields(place, now_us, cost, *guess);
            repaired.behind((now_us, place, cost), before, fields)
        })
        .collect()
    }

    /// Asks for `cost` at `now_us`, and charges it or places a hold of that name for `ttl_us`.
    /// Returns whether it was admitted, and the fields.
    pub fn ask(
        &mut self,
        now_us: u64,
        cost: u64,
        hold: Option<(u64, Kind, u64)>,
        guess: &[Fields],
    ) -> (bool, Vec<Fields>) {
        let (admitted, fields) = self.ask_waiting(now_us, cost, hold, guess);
        if admitted { (true, fields) } else { (false, self.deny(now_us, fields)) }
    }

    /// The same of a caller that waits, whose denial counts for no ban.
    pub fn ask_waiting(
        &mut self,
        now_us: u64,
        cost: u64,
        hold: Option<(u64, Kind, u64)>,
        guess: &[Fields],
    ) -> (bool, Vec<Fields>) {
        self.end_due(now_us);
        let kind = hold.map(|(_, kind, _)| kind);
        let before = self.peek(now_us, cost, kind, guess);
        let admitted = before.iter().all(|fields| fields.retry_after_us == Some(0));
        // A denial keeps its repair.
        self.repair(now_us);
        if !admitted {
            return (false, before);
        }
        for limit in &mut self.limits {
            if let HeldLimit::Rate(oracle) = limit
                && !matches!(kind, Some(Kind::Reserve | Kind::Charging))
            {
                oracle.check(now_us, cost);
            }
        }
        if let Some((name, kind, ttl_us)) = hold {
            let (units, slots) = match kind {
                Kind::Acquire => (0, cost),
                Kind::Reserve | Kind::Charging => (cost, 1),
            };
            let (placed, charging) = (self.seen, kind == Kind::Charging);
            let end = placed + i128::from(ttl_us);
            self.open.push(Open { name, placed, end, units, slots, charging });
        }
        let after = self.peek(now_us, 1, None, guess);
        let fields = |after: Fields| Fields { retry_after_us: Some(0), ..after };
        (true, after.into_iter().map(fields).collect())
    }

    /// The fields of a denial, once the bans have counted it: bans that it starts report that.
    fn deny(&mut self, now_us: u64, mut fields: Vec<Fields>) -> Vec<Fields> {
        let now = i128::from(now_us);
        let runs = |limit: &HeldLimit| match limit {
            HeldLimit::Ban(ban) => ban.runs_for(now) > 0,
            _ => false,
        };
        if !self.limits.iter().any(runs) {
            for (limit, fields) in self.limits.iter_mut().zip(&mut fields) {
                if let HeldLimit::Ban(ban) = limit {
                    ban.deny(now);
                    *fields = ban.fields(now);
                }
            }
        }
        fields
    }

    /// Takes what remains of `cost`; nothing at all is a denial with the fields of 1.
    pub fn partial(&mut self, now_us: u64, cost: u64) -> (u64, Vec<Fields>) {
        let none = vec![super::NO_GUESS; self.limits.len()];
        let left = self.peek(now_us, 1, None, &none);
        let least = left.iter().map(|fields| fields.remaining).min().unwrap_or(0);
        let cost = cost.min(least).max(1);
        let (admitted, fields) = self.ask(now_us, cost, None, &none);
        (if admitted { cost } else { 0 }, fields)
    }

    /// Settles the hold of that name for `actual` units; `None` when it is not open.
    pub fn settle(&mut self, now_us: u64, name: u64, actual: u64) -> Option<Vec<Charged>> {
        self.end_due(now_us);
        let place = self.open.iter().position(|hold| hold.name == name)?;
        let hold = self.open.remove(place);
        if hold.units > 0 {
            self.settled.push((name, actual, self.seen + REMEMBERED_US));
        }
        Some(self.charge(now_us, actual))
    }

    /// Charges without a check. A cost of 0 charges nothing; its fields are those of a peek for 1.
    pub fn charge(&mut self, now_us: u64, cost: u64) -> Vec<Charged> {
        self.end_due(now_us);
        self.repair(now_us);
        let kept: Vec<u64> = self.limits.iter().map(|limit| self.kept(limit)).collect();
        let mut done = Vec::new();
        for (limit, kept) in self.limits.iter_mut().zip(kept) {
            let oracle = match limit {
                HeldLimit::Rate(oracle) => oracle,
                HeldLimit::Slots(_) => {
                    done.push((true, 0));
                    continue;
                }
                HeldLimit::Ban(ban) => {
                    done.push((cost == 0 || ban.runs_for(i128::from(now_us)) == 0, 0));
                    continue;
                }
            };
            let before = oracle.peek(now_us, 1).fields.remaining;
            let cut = if cost > 0 { oracle.charge(now_us, cost).cut } else { 0 };
            done.push((cost <= before.saturating_sub(kept), cut));
        }
        let none = vec![super::NO_GUESS; self.limits.len()];
        // A charge without a question does not affect the line.
        let line = std::mem::take(&mut self.line);
        let after = self.peek(now_us, cost.max(1), None, &none);
        self.line = line;
        let each = done.into_iter().zip(after);
        each.map(|((fits, cut), fields)| Charged { fits, cut, fields }).collect()
    }

    /// Renews the hold of that name; returns its end, `None` when it is not open.
    pub fn renew(&mut self, now_us: u64, name: u64, ttl_us: u64) -> Option<u64> {
        self.end_due(now_us);
        let end = self.judged(i128::from(now_us)) + i128::from(ttl_us);
        let hold = self.open.iter_mut().find(|hold| hold.name == name)?;
        hold.end = end;
        Some(whole(end))
    }
}

//! The answers that the scripts must give: the engine over states that are kept as a store does.
//! They expire only when the fake has dropped them, and then only if they may.

use std::collections::HashMap;

use tollgate::engine::{self, Carries, Mode, Outcome, Part, VecStates};
use tollgate::strategy::Log as _;
use tollgate::{Adjustment, Carried, Charged, Cost, Limit, LimitSet, Place, SKEW_US, Time};

/// A count under the limits it was written under; fresh ones are absent.
#[derive(Clone, Debug)]
pub(crate) struct Count {
    limits: LimitSet,
    held: VecStates,
}

/// A count: a subject and the identity of a set.
pub(crate) type Whose = (String, String);

#[derive(Default, Debug)]
pub(crate) struct Model {
    pub(crate) counts: HashMap<Whose, Count>,
    resets: HashMap<Whose, Reset>,
    /// How many units were given back of charges, by their numbers.
    refunded: HashMap<u64, Cost>,
    /// Until when anything that was charged to a count could be given back.
    charged_until_us: HashMap<Whose, u64>,
    /// Until when marks must lie, by their keys.
    pub(crate) marks: HashMap<String, Mark>,
}

/// The content of a mark, and its minimum lifetime.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) of: MarkOf,
    pub(crate) until_us: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum MarkOf {
    Refund(u64),
    Reset(Whose),
}

/// The newest reset of a count.
#[derive(Clone, Copy, Debug)]
struct Reset {
    nonce: u64,
    at_us: u64,
}

impl Reset {
    /// True when it came after the charge: by the numbers of one client, else by the times.
    fn forgot(self, charge: &Charge) -> bool {
        if charge.number.abs_diff(self.nonce) < 1 << 40 {
            charge.number <= self.nonce
        } else {
            charge.at_us <= self.at_us
        }
    }
}

/// A charge that may be given back.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    pub(crate) number: u64,
    pub(crate) at_us: u64,
    pub(crate) cost: Cost,
    pub(crate) parts: Vec<(String, LimitSet, Vec<u64>)>,
}

impl Charge {
    /// Until when it can be given back to a limit.
    pub(crate) fn spent_until_us(&self, limit: &Limit, at_us: u64) -> u64 {
        engine::spent_until_us(limit, at_us, self.cost.amounts().of(limit.unit()))
    }
}

pub(crate) fn whose(subject: &str, limits: &LimitSet) -> Whose {
    (subject.to_owned(), limits.identity().to_owned())
}

impl Model {
    /// The state under the present limits, and the change of numbers.
    fn load(&self, subject: &str, limits: &LimitSet, now: Time) -> (VecStates, Carries) {
        let mut held = VecStates::fresh(limits);
        let Some(count) = self.counts.get(&whose(subject, limits)) else {
            return (held, Carries::new());
        };
        if count.limits.counts_as(limits) {
            return (count.held.clone(), Carries::new());
        }
        let mut old = count.held.clone();
        let carried = engine::migrate(limits, &mut held, &count.limits, &mut old, now);
        (held, carried)
    }

    /// True when what is held means the same as nothing: a store may have forgotten it.
    pub(crate) fn is_fresh(&self, subject: &str, limits: &LimitSet, now: Time) -> bool {
        let count = self.counts.get(&whose(subject, limits));
        count.is_none_or(|count| {
            engine::fresh_at_us(&count.limits, &mut count.held.clone()) <= now.as_micros()
        })
    }

    /// The limits that a count was written under; none where nothing is counted.
    pub(crate) fn limits(&self, subject: &str, limits: &LimitSet) -> Option<LimitSet> {
        self.counts.get(&whose(subject, limits)).map(|count| count.limits.clone())
    }

    /// The count, with the limits that it was written under.
    pub(crate) fn held(&self, subject: &str, limits: &LimitSet) -> Option<(LimitSet, VecStates)> {
        let count = self.counts.get(&whose(subject, limits))?;
        Some((count.limits.clone(), count.held.clone()))
    }

    /// Whether a clock that stepped back has left a limit of the count as it was.
    pub(crate) fn is_behind(&self, subject: &str, limits: &LimitSet, now: Time) -> bool {
        let Some((limits, mut held)) = self.held(subject, limits) else { return false };
        let part = Part::new(&limits, &mut held);
        engine::decide(&mut [part], now, u64::from(u32::MAX).into(), Mode::Whole, None)
            .unwrap()
            .changed
    }

    fn keep(&mut self, subject: &str, limits: &LimitSet, held: VecStates) {
        let key = whose(subject, limits);
        if held == VecStates::fresh(limits) {
            self.counts.remove(&key);
        } else {
            self.counts.insert(key, Count { limits: limits.clone(), held });
        }
    }

    pub(crate) fn check(
        &mut self,
        asked: &[(String, LimitSet)],
        cost: &Cost,
        mode: Mode,
        now: Time,
    ) -> Outcome {
        let loaded = asked.iter().map(|(subject, limits)| self.load(subject, limits, now));
        let (mut helds, carries): (Vec<VecStates>, Vec<Carries>) = loaded.unzip();
        let mut parts: Vec<Part<'_>> = helds
            .iter_mut()
            .zip(asked)
            .zip(carries)
            .map(|((held, (_, limits)), carried)| Part::new(limits, held).carrying(carried))
            .collect();
        let outcome = engine::decide(&mut parts, now, cost.amounts(), mode, None).unwrap();
        if outcome.changed {
            for ((subject, limits), held) in asked.iter().zip(helds) {
                self.keep(subject, limits, held);
            }
        }
        outcome
    }

    /// Notes a charge: a reset that comes must be remembered as long as it could be given back, and
    /// counts at all: the window of a first hit ends sooner than its receipt says.
    pub(crate) fn charged(&mut self, charge: &Charge, counts_until_us: u64) {
        for (subject, limits, at_us) in &charge.parts {
            let each = limits.limits().iter().zip(at_us);
            let each = each.map(|(l, at_us)| charge.spent_until_us(l, *at_us));
            let until_us = self.charged_until_us.entry(whose(subject, limits)).or_default();
            *until_us = each.max().unwrap_or(0).min(counts_until_us).max(*until_us);
        }
    }

    /// Until when a reset of this count must be remembered.
    pub(crate) fn charged_until_us(&self, subject: &str, limits: &LimitSet) -> u64 {
        self.charged_until_us.get(&whose(subject, limits)).copied().unwrap_or(0)
    }

    /// The clock has stepped back: how long what was charged before must be remembered, nothing
    /// says.
    pub(crate) fn stepped_back(&mut self) {
        self.charged_until_us.clear();
        self.marks.values_mut().for_each(|mark| mark.until_us = 0);
    }

    /// Forgets what the fake has dropped, if it may: a state a second after it has become the same
    /// as a fresh one, a mark once nothing that it forbids could be given back.
    pub(crate) fn forget(
        &mut self,
        gone: &[String],
        now_us: u64,
        keys_of: impl Fn(&str, &LimitSet) -> (String, Vec<String>),
    ) -> Result<(), String> {
        for ((subject, identity), count) in &mut self.counts {
            let Count { limits, held } = count;
            let (state, logs) = keys_of(subject, limits);
            if gone.contains(&state) {
                let fresh_us = engine::fresh_at_us(limits, held);
                if fresh_us + SKEW_US > now_us {
                    return Err(format!("{identity} is gone at {now_us}, and counts: {held:?}"));
                }
                *held = VecStates::fresh(limits);
            }
            for (i, key) in by_place(limits).into_iter().zip(logs) {
                let Place::Log(index) = limits.places()[i] else { continue };
                let log = &mut held.logs[index];
                let Some(last) = log.len().checked_sub(1).filter(|_| gone.contains(&key)) else {
                    continue;
                };
                let period_us = limits.limits()[i].quota().period.as_micros();
                if log.entry(last).at_us + period_us + SKEW_US > now_us {
                    return Err(format!("{key} is gone at {now_us}, and counts: {log:?}"));
                }
                log.replace(&[]);
            }
        }
        self.counts.retain(|_, count| count.held != VecStates::fresh(&count.limits));
        for key in gone {
            let Some(Mark { of, until_us }) = self.marks.remove(key) else { continue };
            if until_us > now_us {
                return Err(format!("{key} is gone at {now_us}, and matters until {until_us}"));
            }
            match of {
                MarkOf::Refund(number) => drop(self.refunded.remove(&number)),
                MarkOf::Reset(whose) => drop(self.resets.remove(&whose)),
            }
        }
        Ok(())
    }

    /// Keeps what a denial found, as a store does in which one of the subjects still has a state
    /// that counts nothing and was carried over: whether it has, nothing says.
    pub(crate) fn carry_over(&mut self, asked: &[(String, LimitSet)], now: Time) {
        for (subject, limits) in asked {
            let (held, _) = self.load(subject, limits, now);
            self.keep(subject, limits, held);
        }
    }

    /// Nothing when all was given back before; else how many units are left to give back, and
    /// those given to each limit, in the order of their places.
    pub(crate) fn refund(
        &mut self,
        charge: &Charge,
        units: &Cost,
        now: Time,
    ) -> Option<(Cost, Vec<u64>)> {
        let sum = self.refunded.entry(charge.number).or_insert_with(|| 0.into());
        let (cost, before) = (charge.cost.amounts(), sum.amounts());
        let portion = engine::Portion::part(cost, before, units.amounts());
        if portion.is_nothing() {
            return None;
        }
        *sum = portion.sum();
        let mut given = Vec::new();
        for (subject, limits, at_us) in &charge.parts {
            let key = whose(subject, limits);
            let forgotten = self.resets.get(&key).is_some_and(|reset| reset.forgot(charge));
            let Some(count) = self.counts.get_mut(&key).filter(|_| !forgotten) else {
                given.extend(limits.limits().iter().map(|_| 0));
                continue;
            };
            let Count { limits: written, held } = count;
            let part = &mut engine::Part::new(written, held);
            let each = engine::refund(part, limits, (at_us, now), &portion, now);
            given.extend(by_place(limits).into_iter().map(|i| each[i]));
            if *held == VecStates::fresh(written) {
                self.counts.remove(&key);
            }
        }
        Some((portion.left_after(), given))
    }

    /// All of a charge was given back before.
    pub(crate) fn given_back(&mut self, number: u64, cost: Cost) {
        self.refunded.insert(number, cost);
    }

    pub(crate) fn adjust(
        &mut self,
        subject: &str,
        limits: &LimitSet,
        delta: &Adjustment,
        now: Time,
    ) -> Vec<i64> {
        let (mut held, _) = self.load(subject, limits, now);
        let changes = engine::adjust(&mut engine::Part::new(limits, &mut held), delta, now);
        self.keep(subject, limits, held);
        by_place(limits).into_iter().map(|i| changes[i]).collect()
    }

    /// The answer of each limit to a charge without a check, in the order of their places.
    pub(crate) fn charge_anyway(
        &mut self,
        subject: &str,
        limits: &LimitSet,
        cost: &Cost,
        now: Time,
    ) -> Vec<i64> {
        let (mut held, _) = self.load(subject, limits, now);
        let charged = engine::charge(limits, &mut held, cost.amounts(), true, now);
        self.keep(subject, limits, held);
        let int = |number: u64| i64::try_from(number).unwrap();
        let each = by_place(limits).into_iter().flat_map(|i| {
            let Charged { fits, cut, remaining, retry_after_us, reset_after_us, .. } = charged[i];
            let wait = retry_after_us.map_or(-1, int);
            [fits.into(), int(cut), int(remaining), wait, int(reset_after_us)]
        });
        each.collect()
    }

    /// Forgets a count; receipts from before give nothing where there was one to forget.
    pub(crate) fn reset(
        &mut self,
        subject: &str,
        limits: &LimitSet,
        found: bool,
        nonce: u64,
        now: Time,
    ) {
        let key = whose(subject, limits);
        self.counts.remove(&key);
        if found {
            self.resets.insert(key, Reset { nonce, at_us: now.as_micros() });
        }
    }
}

/// The declared indices of a set's limits, in the order of their identities.
pub(crate) fn by_place(limits: &LimitSet) -> Vec<usize> {
    let mut order: Vec<usize> = (0..limits.limits().len()).collect();
    order.sort_by_key(|i| limits.limits()[*i].identity());
    order
}

/// An outcome as a script answers it, without the nonce; every limit's last two numbers as well.
pub(crate) fn reply(outcome: &Outcome) -> Vec<i64> {
    let int = |number: u64| i64::try_from(number).unwrap();
    let mut integers = vec![int(outcome.granted), int(outcome.now.as_micros())];
    for fields in &outcome.fields {
        integers.push(int(fields.remaining));
        integers.push(fields.retry_after_us.map_or(-1, int));
        integers.push(int(fields.reset_after_us));
    }
    for fields in &outcome.fields {
        integers.push(int(fields.charged_at_us));
        integers.push(match fields.carried {
            Carried::Same => 0,
            Carried::Over => 1,
            _ => 2,
        });
    }
    integers
}

//! Random histories: the answers of the scripts, and those of the engine.

mod check;
mod held;
mod pair;
mod plan;
mod rare;
mod scripts;
mod seen;

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tollgate::engine::{Mode, Outcome};
use tollgate::{Adjustment, Cost, LimitSet, SKEW_US, Time, Unit};
use tollgate_redis::compose::Clock;

pub(crate) use pair::{Difference, Pair};
pub(crate) use plan::Plan;
pub(crate) use scripts::Texts;

use super::model::{Charge, Model};

/// One of several questions under the same limits.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    asked: Vec<(String, LimitSet)>,
    cost: Cost,
    now_us: u64,
}

impl Pair {
    /// Starts over with other limits.
    fn clear(&mut self) {
        self.fake.clear();
        self.scripts.forget();
        self.fake.keep_scripts(self.scripts.lasting());
        self.model = Model::default();
    }

    /// Adds up to four questions like the first, about the same subjects or others.
    fn more(&self, rng: &mut ChaCha8Rng, questions: &mut Vec<Question>, plan: &Plan) {
        for _ in 0..rng.random_range(1..5) {
            let mut next = questions[questions.len() - 1].clone();
            if rng.random_bool(0.5) {
                for (i, (subject, _)) in next.asked.iter_mut().enumerate() {
                    *subject = format!("t{i}");
                }
            }
            next.cost = other_amounts(rng, plan, &next.cost);
            // The server's clock is read once for all of them.
            if self.scripts.clock == Clock::Given {
                next.now_us = advance(rng, next.now_us, plan.period_us);
            }
            questions.push(next);
        }
    }

    /// A history of random operations over a plan.
    #[expect(clippy::too_many_lines, reason = "an arm for each operation")]
    pub(crate) fn history(
        &mut self,
        rng: &mut ChaCha8Rng,
        plan: &Plan,
        subjects: usize,
        operations: usize,
    ) -> Result<(), Difference> {
        self.clear();
        let mut now_us = match rng.random_range(0..4) {
            0 => rng.random_range(0..plan.period_us * 2),
            1 => (1 << 52) - rng.random_range(0..plan.period_us),
            _ => 1_763_632_025_000_000 + rng.random_range(0..10_000_000_000_000),
        };
        // Composing and compiling take most of the time: in some histories many come together, and
        // each has one mode beside the usual one, as often as all of them would be.
        let together = if rng.random_bool(0.15) { 0.25 } else { 0.0 };
        let unusual = match rng.random_range(0..8) {
            0..3 => Mode::Partial,
            3 => Mode::Peek,
            4 => Mode::PeekPartial,
            5 => Mode::Waiting,
            _ => Mode::WaitingPartial,
        };
        let mut charges: Vec<Charge> = Vec::new();
        let mut current = plan.sets[0].clone();
        let mut latest_us = now_us;
        for _ in 0..operations {
            let earlier = now_us;
            now_us = advance(rng, now_us, plan.period_us);
            if now_us < earlier {
                self.seen.saw("skew or step back");
            }
            if now_us + SKEW_US < latest_us {
                self.model.stepped_back();
                latest_us = now_us;
            }
            latest_us = latest_us.max(now_us);
            if rng.random_bool(0.1) {
                self.forget(now_us)?;
            }
            if rng.random_bool(if plan.restless { 0.3 } else { 0.05 }) {
                current = plan.sets.choose(rng).unwrap().clone();
            }
            // A store brings the edges of a calendar around the time.
            if let Some((around, _)) = current.around(Time::from_micros(now_us)) {
                current = around;
            }
            match rng.random_range(0..41) {
                0..36 => {
                    let cost = amounts(rng, plan);
                    let mode = if rng.random_bool(0.6) { Mode::Whole } else { unusual };
                    let mut asked = Vec::new();
                    for i in 0..subjects {
                        if i == 0 || rng.random_bool(0.6) {
                            asked.push((format!("s{i}"), current.clone()));
                        }
                    }
                    let mut questions = vec![Question { asked, cost, now_us }];
                    if rng.random_bool(together) {
                        self.more(rng, &mut questions, plan);
                        now_us = questions.last().map_or(now_us, |last| last.now_us);
                    }
                    let first = self.nonce + 1;
                    let outcomes = match &questions[..] {
                        [Question { asked, cost, .. }] => {
                            vec![self.check(asked, cost.clone(), mode, now_us)?]
                        }
                        _ => self.check_many(&questions, mode)?,
                    };
                    for ((outcome, question), number) in outcomes.iter().zip(questions).zip(first..)
                    {
                        if outcome.granted > 0 && !mode.is_peek() {
                            let resets = outcome.fields.iter().map(|f| f.reset_after_us);
                            let until_us = outcome.now.as_micros() + resets.max().unwrap_or(0);
                            charges.push(charge(outcome, question, number));
                            self.model.charged(&charges[charges.len() - 1], until_us);
                        }
                    }
                }
                36 | 37 => {
                    if let Some(charge) = charges.choose(rng).cloned() {
                        let whole = rng.random_bool(0.5);
                        let units =
                            if whole { charge.cost.clone() } else { part(rng, &charge.cost) };
                        self.refund(&charge, units, now_us)?;
                    }
                }
                38 => {
                    let most = i64::try_from(plan.capacity.min(1 << 40)).unwrap();
                    let delta = |rng: &mut ChaCha8Rng| {
                        let delta = rng.random_range(1..=most);
                        if rng.random_bool(0.5) { delta } else { -delta }
                    };
                    if plan.units.is_empty() {
                        let delta = delta(rng);
                        self.adjust("s0", &current, delta, now_us)?;
                    } else {
                        let each = plan.units.iter().map(|unit| (unit.name(), delta(rng)));
                        let by = Adjustment::new(each.collect::<Vec<_>>()).unwrap();
                        self.adjust("s0", &current, by, now_us)?;
                    }
                }
                39 => {
                    let cost = amounts(rng, plan);
                    self.charge("s0", &current, cost, now_us)?;
                }
                _ => {
                    if rng.random_bool(0.2) {
                        self.reset("s0", &current, now_us)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn charge(outcome: &Outcome, question: Question, number: u64) -> Charge {
    let Question { asked, cost, .. } = question;
    let mut times = outcome.fields.iter().map(|fields| fields.charged_at_us);
    let parts = asked.into_iter().map(|(subject, limits)| {
        let at_us = times.by_ref().take(limits.limits().len()).collect();
        (subject, limits, at_us)
    });
    let parts = parts.collect();
    let rest = cost.amounts().iter().skip(1).map(|(unit, amount)| (*unit, amount));
    let granted = cost.amounts().iter().next().map(|(unit, _)| (*unit, outcome.granted));
    let cost = granted.into_iter().chain(rest).collect();
    Charge { number, at_us: outcome.now.as_micros(), cost, parts }
}

/// The amount of the first unit.
pub(super) fn first(cost: &Cost) -> u64 {
    cost.amounts().iter().next().map_or(0, |(_, amount)| amount)
}

/// A cost of the units of a plan, some of which may be left out.
fn amounts(rng: &mut ChaCha8Rng, plan: &Plan) -> Cost {
    if plan.units.is_empty() {
        return cost(rng, plan.capacity).into();
    }
    let mut all: Vec<(Unit, u64)> = Vec::new();
    while all.is_empty() {
        for unit in &plan.units {
            if rng.random_bool(0.7) {
                all.push((*unit, cost(rng, plan.capacity)));
            }
        }
    }
    all.into_iter().collect()
}

/// Other amounts of the same units, as all questions of one call have.
fn other_amounts(rng: &mut ChaCha8Rng, plan: &Plan, of: &Cost) -> Cost {
    of.amounts().iter().map(|(unit, _)| (*unit, cost(rng, plan.capacity))).collect()
}

/// A part of a cost, at least one unit of it.
fn part(rng: &mut ChaCha8Rng, cost: &Cost) -> Cost {
    let mut all: Vec<(Unit, u64)> = Vec::new();
    while all.is_empty() {
        for (unit, amount) in cost.amounts().iter() {
            if cost.plain().is_some() || rng.random_bool(0.7) {
                all.push((*unit, rng.random_range(1..=amount)));
            }
        }
    }
    all.into_iter().collect()
}

fn cost(rng: &mut ChaCha8Rng, capacity: u64) -> u64 {
    match rng.random_range(0..16) {
        0..8 => 1,
        8..12 => rng.random_range(1..=capacity),
        12 => rng.random_range(1..=capacity.min(3)),
        13 => capacity,
        14 => (capacity + rng.random_range(1..3)).min(1 << 40),
        _ => 1 << 40,
    }
}

fn advance(rng: &mut ChaCha8Rng, now_us: u64, period_us: u64) -> u64 {
    let now_us = match rng.random_range(0..24) {
        0..8 => now_us,
        8..11 => now_us + rng.random_range(0..4),
        11..17 => now_us + rng.random_range(0..=period_us / 3 + 1),
        17 => now_us + period_us,
        18 => (now_us / period_us + 1) * period_us - rng.random_range(0..2),
        19 => now_us + rng.random_range(0..period_us * 3),
        20 => now_us.saturating_sub(rng.random_range(0..1_000_001)),
        21 => now_us.saturating_sub(rng.random_range(0..period_us * 2)),
        22 => now_us.saturating_sub(1_000_000 + rng.random_range(0..2)),
        _ => now_us + rng.random_range(0..=period_us / 20 + 1),
    };
    // The year 2255, with room for a full refill.
    now_us.min((1 << 53) - (1 << 52))
}

/// A seeded generator.
pub(crate) fn seeded(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Any number of it, so that callers need not name the trait.
pub(crate) fn next(rng: &mut ChaCha8Rng) -> u64 {
    rng.next_u64()
}

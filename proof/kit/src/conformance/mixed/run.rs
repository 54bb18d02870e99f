//! One mixed history in a store, beside the oracle.

use core::time::Duration;
use std::collections::BTreeSet;

use tollgate::{Ask, Carried, Error, Hold, HoldKind, Holding, LimitKind, LimitSet, Receipt};

use super::super::StoreMaker;
use super::super::bans::rule_of_ban;
use super::super::world::{World, block_on, oracle_of, rule_of};
use super::Difference;
use super::answers::{answered, got, same};
use super::plan::{Act, Step, Wait};
use crate::oracle::{Ban, Charge, HeldLimit, HoldOracle, Kind, Rule};

const SUBJECT: &str = "bob";

/// How far a clock may be behind without a step, in microseconds.
const SKEW_US: u64 = 1_000_000;

/// The longest hold of limits without slots here, in microseconds.
const LONGEST_US: u64 = 20_000_000;

/// The difference, and both answers.
pub(super) type Differs = (&'static str, String);

/// A hold that was placed.
struct Placed {
    hold: Hold,
    name: u64,
    /// Whether a store may have forgotten that it was settled: the clock went back after that was
    /// over.
    may_be_forgotten: bool,
}

pub(super) struct Run<'m, M: StoreMaker> {
    maker: &'m M,
    pub(super) world: World<M::Store>,
    sets: &'m [LimitSet],
    /// The limits of each set, fresh.
    each: Vec<Vec<HeldLimit>>,
    pub(super) oracle: HoldOracle,
    /// The place of the numbers that the count has.
    under: usize,
    /// The latest time that there was: a store forgets what no longer counted then.
    latest_us: u64,
    placed: Vec<Placed>,
    next: u64,
    fence: u64,
    pub(super) charges: Vec<(Receipt, Charge)>,
    pub(super) receipts: BTreeSet<u64>,
    /// The times that the last answer named, for a retry and for a reset.
    pub(super) named_us: [u64; 2],
    told: Vec<String>,
    /// Whether the clock goes back.
    back: bool,
}

/// Runs the steps.
///
/// # Errors
/// The first difference.
pub(super) fn run<M: StoreMaker>(
    maker: &M,
    sets: &[LimitSet],
    start_us: u64,
    steps: &[Step],
) -> Result<(), Difference> {
    let under = steps.first().map_or(0, |step| step.numbers);
    let each: Vec<Vec<HeldLimit>> = sets.iter().map(held).collect();
    let mut run = Run {
        maker,
        world: World::new(maker, &sets[under].to_string(), start_us),
        oracle: HoldOracle::new(each[under].clone()),
        sets,
        each,
        under,
        latest_us: start_us,
        placed: Vec::new(),
        next: 0,
        fence: 0,
        charges: Vec::new(),
        receipts: BTreeSet::new(),
        named_us: [start_us; 2],
        told: Vec::new(),
        back: steps.iter().any(|step| matches!(step.wait, Wait::Skew(_) | Wait::Back(_))),
    };
    for (place, step) in steps.iter().enumerate() {
        if let Err((field, both)) = run.step(step) {
            let (step, ask, told) = (place, name(step.act), run.told);
            return Err(Difference { step, ask, field, both, told });
        }
    }
    Ok(())
}

fn held(set: &LimitSet) -> Vec<HeldLimit> {
    let each = set.limits().iter().map(|limit| {
        if limit.needs_hold() {
            HeldLimit::Slots(limit.capacity())
        } else if let Some(rule) = rule_of_ban(limit.quota()) {
            HeldLimit::Ban(Box::new(Ban::new(rule)))
        } else {
            HeldLimit::Rate(Box::new(oracle_of(limit)))
        }
    });
    each.collect()
}

const fn name(act: Act) -> &'static str {
    match act {
        Act::Check(_) => "check",
        Act::Partial(_) => "partial check",
        Act::Peek(_) => "peek",
        Act::Hold { .. } => "hold",
        Act::Renew { .. } => "renewal",
        Act::Settle { .. } => "commit",
        Act::Refund { .. } => "refund",
        Act::Adjust(_) => "adjustment",
        Act::Charge(_) => "charge",
        Act::Reset => "reset",
    }
}

impl<M: StoreMaker> Run<'_, M> {
    fn step(&mut self, step: &Step) -> Result<(), Differs> {
        let now_us = self.wait(step.wait);
        if step.forgets {
            self.maker.forget(self.world.limiter.store());
            self.told.push("the store drops what it may forget".to_owned());
        }
        let set = self.sets[step.numbers].clone();
        match step.act {
            Act::Check(cost) if !set.needs_hold() => {
                self.renumber(now_us, step.numbers)?;
                self.tell(now_us, &format!("[{set}] check {cost}"));
                let strategies = self.changes_strategy(&set);
                let known = self.known(now_us, &set);
                let decision = block_on(self.world.limiter.check(ask(&set, cost)));
                let decision = answered(decision)?.into_owned();
                let (admitted, fields) = self.oracle.ask(now_us, cost, None, &got(&decision));
                let oracle = self.oracle.clone();
                let granted = if admitted { cost } else { 0 };
                self.decided(&decision, &oracle, (cost, None), granted, &fields, known)?;
                self.receipt(&decision, granted)?;
                self.forget_strategy(now_us, granted, strategies)
            }
            Act::Partial(cost) if !set.needs_hold() => {
                self.renumber(now_us, step.numbers)?;
                self.tell(now_us, &format!("[{set}] partial check {cost}"));
                let strategies = self.changes_strategy(&set);
                let known = self.known(now_us, &set);
                let ask = ask(&set, cost).partial();
                let decision = answered(block_on(self.world.limiter.check(ask)))?.into_owned();
                let (granted, fields) = self.oracle.partial(now_us, cost);
                let oracle = self.oracle.clone();
                self.decided(&decision, &oracle, (1, None), granted, &fields, known)?;
                self.receipt(&decision, granted)?;
                self.forget_strategy(now_us, granted, strategies)
            }
            Act::Hold { kind, cost, ttl_us, waits } => {
                self.renumber(now_us, step.numbers)?;
                self.hold(now_us, &set, (kind, cost, ttl_us), waits)
            }
            Act::Renew { pick, ttl_us } if !self.placed.is_empty() => {
                self.renew(now_us, pick, ttl_us)
            }
            Act::Settle { pick, actual } if !self.placed.is_empty() => {
                self.settle(now_us, pick, actual)
            }
            Act::Refund { pick, units } => self.refund(now_us, pick, units),
            Act::Adjust(delta) => {
                self.renumber(now_us, step.numbers)?;
                self.tell(now_us, &format!("[{set}] adjust {delta:+}"));
                self.known(now_us, &set);
                let changed = block_on(
                    self.world.limiter.admin().adjust(Ask::new(SUBJECT).under(&set), delta),
                );
                same("change", answered(changed)?, self.oracle.adjust(now_us, delta))
            }
            Act::Charge(cost) => {
                self.renumber(now_us, step.numbers)?;
                self.tell(now_us, &format!("[{set}] charge {cost}"));
                self.known(now_us, &set);
                let done = answered(block_on(self.world.limiter.charge(ask(&set, cost))))?;
                let expected = self.oracle.charge(now_us, cost);
                self.charged(&done, &expected)
            }
            Act::Reset => {
                self.tell(now_us, &format!("[{set}] reset"));
                self.reset(now_us, step.numbers)
            }
            Act::Peek(cost) | Act::Check(cost) | Act::Partial(cost) => {
                self.peek(now_us, step.numbers, cost)
            }
            Act::Renew { .. } | Act::Settle { .. } => self.peek(now_us, step.numbers, 1),
        }
    }

    fn tell(&mut self, now_us: u64, what: &str) {
        self.told.push(format!("{now_us} {what}"));
    }

    /// The time of the step. A clock that steps back goes to a time at which every store still
    /// agrees with the oracle.
    fn wait(&mut self, wait: Wait) -> u64 {
        let now_us = self.world.now_us();
        let ahead = |us: u64, off: i64| us.saturating_add_signed(off).max(now_us);
        let now_us = match wait {
            Wait::None => now_us,
            Wait::Forward(us) => now_us + us,
            Wait::End { pick, off } => {
                let mut ends: Vec<u64> = self.oracle.ends().collect();
                ends.sort_unstable();
                let end = ends.get(pick % ends.len().max(1));
                end.map_or(now_us, |end| ahead(*end, off))
            }
            Wait::Named { reset, off } => ahead(self.named_us[usize::from(reset)], off),
            Wait::Forgotten { off } => {
                self.oracle.last_settled_until_us().map_or(now_us, |until_us| ahead(until_us, off))
            }
            Wait::Skew(us) => self.latest_us.max(now_us) - us.min(SKEW_US),
            Wait::Back(us) => {
                let known = self.oracle.is_known(self.latest_us);
                if !known {
                    return now_us;
                }
                // No rule says what follows once a refund or a reset is forgotten.
                let oracle = &self.oracle;
                self.charges.retain(|(_, it)| !it.was_refunded() && !oracle.was_reset_since(it));
                for placed in &mut self.placed {
                    let until_us = oracle.settled_until_us(placed.name);
                    placed.may_be_forgotten |=
                        until_us.is_some_and(|until_us| until_us <= self.latest_us);
                }
                self.latest_us -= SKEW_US + us;
                self.latest_us
            }
        };
        self.latest_us = self.latest_us.max(now_us);
        self.world.at(now_us);
        now_us
    }

    /// From here on the count has these numbers, unless the question is a peek.
    fn renumber(&mut self, now_us: u64, numbers: usize) -> Result<(), Differs> {
        let limits = &self.each[numbers];
        let is_tied = numbers == self.under;
        if !is_tied && self.oracle.would_tell(now_us.max(self.latest_us), limits, self.back) {
            // A count of zero may be forgotten by one store and not by another: both do.
            self.tell(now_us, "reset, since the new numbers would tell what is forgotten");
            self.reset(now_us, self.under)?;
        }
        Ok(())
    }

    /// The report that each limit must give of its numbers, and the change itself. `None` where a
    /// store may have forgotten the count.
    fn known(&mut self, now_us: u64, set: &LimitSet) -> Option<Vec<Carried>> {
        let was = &self.sets[self.under];
        let kept = self.oracle.is_kept(now_us.max(self.latest_us));
        let known = kept.then(|| carried(was, set));
        let numbers = self.sets.iter().position(|it| it == set).expect("a set of the family");
        self.oracle.change(now_us, &self.each[numbers]).expect("numbers that are accepted");
        self.under = numbers;
        known
    }

    fn peek(&mut self, now_us: u64, numbers: usize, cost: u64) -> Result<(), Differs> {
        let tells =
            self.oracle.would_tell(now_us.max(self.latest_us), &self.each[numbers], self.back);
        let numbers = if tells { self.under } else { numbers };
        let set = self.sets[numbers].clone();
        self.tell(now_us, &format!("[{set}] peek {cost}"));
        let kept = self.oracle.is_kept(now_us.max(self.latest_us));
        let known = kept.then(|| carried(&self.sets[self.under], &set));
        let mut then = self.oracle.clone();
        then.change(now_us, &self.each[numbers]).expect("numbers that are accepted");
        for kind in [None, Some(Kind::Reserve), Some(Kind::Acquire)] {
            let asked = match kind {
                None => ask(&set, cost),
                Some(Kind::Acquire) if !set.needs_hold() => continue,
                Some(Kind::Acquire) => ask(&set, cost).acquire(),
                Some(_) => ask(&set, cost).holding(HoldKind::Reserve, None),
            };
            let decision = answered(block_on(self.world.limiter.check(asked.peek())))?.into_owned();
            let fields = then.peek(now_us, cost, kind, &got(&decision));
            let admitted = fields.iter().all(|fields| fields.retry_after_us == Some(0));
            let granted = if admitted { cost } else { 0 };
            let mut judged = then.clone();
            judged.end_due(now_us);
            self.decided(&decision, &judged, (cost, kind), granted, &fields, known.clone())?;
            same("receipt", decision.receipt(), None)?;
        }
        same("open holds", self.world.shown(Ask::new(SUBJECT).under(&set)), then.shown(now_us))
    }

    fn hold(
        &mut self,
        now_us: u64,
        set: &LimitSet,
        (kind, cost, ttl_us): (HoldKind, u64, u64),
        waits: bool,
    ) -> Result<(), Differs> {
        let kind =
            if set.needs_hold() || kind != HoldKind::Acquire { kind } else { HoldKind::Reserve };
        let longest_us = set.hold().map_or(LONGEST_US, tollgate::Period::as_micros);
        let ttl_us = 1_000 + ttl_us % (longest_us - 1_000);
        let number = self.placed.len();
        self.tell(
            now_us,
            &format!("[{set}] #{number}: {kind:?} {cost} for {ttl_us} us, waits: {waits}"),
        );
        let twin = match kind {
            HoldKind::Acquire => Kind::Acquire,
            HoldKind::Charging => Kind::Charging,
            _ => Kind::Reserve,
        };
        let strategies = self.changes_strategy(set);
        let known = self.known(now_us, set);
        let ttl = Some(Duration::from_micros(ttl_us));
        let within = Duration::from_secs(60);
        let ask = if waits { ask(set, cost).waiting() } else { ask(set, cost) };
        let ask = ask.holding(kind, ttl).within(within);
        let Holding { decision, hold, .. } = answered(block_on(self.world.limiter.hold(ask)))?;
        let decision = decision.into_owned();
        self.next += 1;
        let is_alone = self.oracle.open() == 0;
        let terms = Some((self.next, twin, ttl_us));
        let got = got(&decision);
        let (admitted, fields) = match waits {
            true => self.oracle.ask_waiting(now_us, cost, terms, &got),
            false => self.oracle.ask(now_us, cost, terms, &got),
        };
        let oracle = self.oracle.clone();
        let granted = if admitted { cost } else { 0 };
        self.decided(&decision, &oracle, (cost, Some(twin)), granted, &fields, known)?;
        same("whether it is held", hold.is_some(), admitted)?;
        let charges =
            kind == HoldKind::Acquire && set.limits().iter().any(|it| it.kind() == LimitKind::Rate);
        self.receipt(&decision, if charges { granted } else { 0 })?;
        if let Some(hold) = hold {
            let end_us = self.oracle.seen_us() + ttl_us;
            same("end", hold.end.as_micros(), end_us)?;
            same(
                "terms",
                (hold.kind(), hold.cost.plain(), hold.counts.len()),
                (kind, Some(cost), 1),
            )?;
            let rises = is_alone || hold.fence > self.fence;
            same("fence", (hold.fence >= now_us, rises), (true, true))?;
            self.fence = hold.fence;
            self.placed.push(Placed { hold, name: self.next, may_be_forgotten: false });
        }
        self.forget_strategy(now_us, granted, strategies)
    }

    fn changes_strategy(&self, set: &LimitSet) -> bool {
        carried(&self.sets[self.under], set).contains(&Carried::Fresh)
    }

    /// A denial carries nothing over from another strategy, and whether it forgets that count is
    /// left open: both forget it.
    fn forget_strategy(&mut self, now_us: u64, granted: u64, is: bool) -> Result<(), Differs> {
        if is && granted == 0 {
            self.tell(now_us, "reset, after a denial under another strategy");
            return self.reset(now_us, self.under);
        }
        Ok(())
    }

    fn renew(&mut self, now_us: u64, pick: usize, ttl_us: u64) -> Result<(), Differs> {
        let place = self.placed.len() - 1 - pick % self.placed.len();
        let Placed { hold, name, .. } = &mut self.placed[place];
        let longest = hold.counts[0].1.hold();
        let longest_us = longest.map_or(LONGEST_US, tollgate::Period::as_micros);
        let ttl_us = 1_000 + ttl_us % (longest_us - 1_000);
        self.told.push(format!("{now_us} renew #{place} for {ttl_us} us"));
        let ttl = Some(Duration::from_micros(ttl_us));
        let renewed = answered(block_on(self.world.limiter.renew(hold, ttl)))?;
        let expected = self.oracle.renew(now_us, *name, ttl_us);
        same("end", renewed.then(|| hold.end.as_micros()), expected)
    }

    fn settle(&mut self, now_us: u64, pick: usize, actual: u64) -> Result<(), Differs> {
        let place = self.placed.len() - 1 - pick % self.placed.len();
        let Placed { hold, name, may_be_forgotten } = &self.placed[place];
        let actual = if hold.kind() == HoldKind::Acquire { 0 } else { actual };
        self.told.push(format!("{now_us} commit {actual} of #{place}"));
        let answer = block_on(self.world.limiter.commit(hold, actual));
        let expected = self.oracle.settle(now_us, *name, actual);
        let answer = match answer {
            Ok(done) => Some(done),
            Err(Error::NotOpen(_)) => None,
            Err(error) => return Err(("error", error.to_string())),
        };
        if let Some(expected) = expected {
            let done = answer.ok_or(("openness", "not open".to_owned()))?;
            same(
                "early",
                (done.already, done.is_early, done.actual),
                (false, false, actual.into()),
            )?;
            return self.charged(&done.charged, &expected);
        }
        let seen = answer.map(|it| (it.already, it.is_early, it.actual, it.charged.len()));
        if seen.is_none() && *may_be_forgotten {
            return Ok(());
        }
        let again = self.oracle.was_settled(*name).map(|actual| (true, false, actual.into(), 0));
        same("openness", seen, again)
    }

    fn refund(&mut self, now_us: u64, pick: usize, units: u64) -> Result<(), Differs> {
        let latest_us = now_us.max(self.latest_us);
        let oracle = &self.oracle;
        // A refund, or a charge that a reset forgot, is remembered while the charge can count.
        self.charges.retain(|(_, charge)| {
            let is_over = self.back || charge.counts_until() <= latest_us;
            let is_over = is_over && oracle.was_reset_since(charge);
            !charge.may_be_forgotten(latest_us) && !is_over
        });
        if self.charges.is_empty() {
            return self.peek(now_us, self.under, 1);
        }
        let place = self.charges.len() - 1 - pick % self.charges.len();
        let (receipt, charge) = &mut self.charges[place];
        let units = 1 + units.wrapping_sub(1) % receipt.units();
        let at = format!(
            "refund {units} of the receipt of {} units at {:?}",
            receipt.units(),
            receipt.at
        );
        self.told.push(format!("{now_us} {at}"));
        let refund = answered(block_on(self.world.limiter.refund(receipt.part(units))))?;
        let is_void = self.oracle.was_reset_since(charge);
        let expected = self.oracle.refund(now_us, charge, units);
        same("given", refund.given, expected.given)?;
        if is_void {
            // Its answer to a receipt from before a reset is left open, beside that it gives
            // nothing.
            return Ok(());
        }
        same("already", (refund.already, refund.left), (expected.already, expected.left.into()))
    }

    fn reset(&mut self, now_us: u64, numbers: usize) -> Result<(), Differs> {
        let set = self.sets[numbers].clone();
        let kept = self.oracle.is_kept(now_us.max(self.latest_us));
        let was =
            answered(block_on(self.world.limiter.admin().reset(Ask::new(SUBJECT).under(&set))))?;
        self.oracle.reset();
        if kept { same("whether there was a count", was, true) } else { Ok(()) }
    }
}

/// The report of each limit about its numbers, where the count was written under others.
fn carried(was: &LimitSet, is: &LimitSet) -> Vec<Carried> {
    let each = was.limits().iter().zip(is.limits()).map(|(was, is)| {
        // The debt of a window or a log is not a number under which it counts (section 6).
        let same_window = match rule_of(is) {
            None | Some(Rule::Greedy { .. } | Rule::Interval { .. }) => false,
            rule => rule == rule_of(was),
        };
        if same_window || was.full_text() == is.full_text() {
            Carried::Same
        } else if was.strategy() == is.strategy() {
            Carried::Over
        } else {
            Carried::Fresh
        }
    });
    each.collect()
}

fn ask(set: &LimitSet, cost: u64) -> Ask<'_> {
    Ask::new(SUBJECT).cost(cost).under(set)
}

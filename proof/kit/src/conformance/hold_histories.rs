//! Random histories of one count with holds beside the oracle (definitions, section 11): with names
//! and without, under numbers that change, and under a clock that steps back.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

mod compare;

use core::time::Duration;

use tollgate::{Ask, Decision, Error, Hold, HoldKind, Holding, LimitSet, Period, Store};

use super::StoreMaker;
use super::named_holds::name;
use super::world::{START_US, World, block_on, fields, oracle_of, set, stepped_back};
use crate::Random;
use crate::oracle::{Ended, Fields, HeldLimit, HoldOracle, Kind, NameSays};

/// Limits of every strategy, alone and together, each with other numbers of the same count.
const LIMITS: [[&str; 2]; 14] = [
    ["5/3s via uniform, 3 at once hold 2s", "7/3s via uniform, 2 at once hold 9s"],
    ["7/3s burst 9 via gcra", "9/3s burst 5 via gcra"],
    ["3/10us burst 7 via gcra", "3/10us burst 12 via gcra"],
    ["10/1s burst 6 via token_bucket", "6/1s burst 9 via token_bucket"],
    ["9/4s burst 5 refill interval via token_bucket", "4/4s refill interval via token_bucket"],
    ["8/10s via fixed_window", "5/10s via fixed_window"],
    ["6/4s anchor first-hit via fixed_window", "9/4s anchor first-hit via fixed_window"],
    ["9/5s via sliding_log", "6/5s via sliding_log"],
    ["9/5s precision 1s via sliding_window", "6/5s precision 1s via sliding_window"],
    [
        "9/4s precision 1s rounding interpolate via sliding_window",
        "7/4s precision 1s rounding interpolate via sliding_window",
    ],
    // It is free a bucket earlier under its own numbers alone, so these stay.
    ["8/6s precision 2s rounding truncate via sliding_window"; 2],
    ["4 at once hold 3s", "6 at once hold 9s"],
    [
        "6/2s via gcra, 9/20s via sliding_log, 5 at once hold 4s",
        "8/2s via gcra, 6/20s via sliding_log, 3 at once hold 9s",
    ],
    [
        "x: 8/7s via fixed_window, y: 3 at once hold 10s, z: 7/9s via sliding_log",
        "x: 6/9s via fixed_window, y: 5 at once hold 3s, z: 9/5s via sliding_log",
    ],
];

/// A history of one count beside the oracle.
struct History<'w, S> {
    world: &'w World<S>,
    oracle: HoldOracle,
    /// The limits that are asked under, with those of the oracle.
    sets: [(LimitSet, Vec<HeldLimit>); 2],
    /// The place of those that the oracle counts under.
    written: usize,
    open: Vec<Placed>,
    asked: Vec<Asked>,
    next: u64,
    next_name: u64,
    random: Random,
    has_slots: bool,
    capacity: u64,
    back: bool,
    /// Whether callers name some of their holds.
    names: bool,
    /// The latest time that there was: a store forgets what no longer counted then.
    latest_us: u64,
}

/// A hold that was placed or answered again: its number, and the name that its caller gave it.
#[derive(Clone)]
struct Placed {
    number: u64,
    name: Option<u64>,
    hold: Hold,
}

/// A question for a hold.
#[derive(Clone, Copy)]
struct Asked {
    set: usize,
    kind: Kind,
    cost: u64,
    ttl_us: u64,
    name: Option<u64>,
    in_line: bool,
}

pub(super) fn open_holds_equal_the_oracle_in_every_field<M: StoreMaker>(maker: &M) {
    histories(maker, false);
}

pub(super) fn open_holds_under_a_clock_that_steps_back_equal_the_oracle<M: StoreMaker>(maker: &M) {
    histories(maker, true);
}

fn histories<M: StoreMaker>(maker: &M, back: bool) {
    for (place, limits) in LIMITS.iter().enumerate() {
        for seed in super::some(maker, 12) {
            let seed = 1_000 * place as u64 + seed + if back { 7 } else { 0 };
            hold_history(maker, *limits, seed, back);
        }
    }
}

/// How many operations a history has.
const OPERATIONS: u64 = 60;

/// A random history of one count with holds beside the oracle, under limits of two numbers in
/// turns, and a clock that steps back or not. Returns how many operations it had.
///
/// # Panics
/// At the first answer that is not the oracle's, or when the limits do not parse.
pub fn hold_history<M: StoreMaker>(maker: &M, limits: [&str; 2], seed: u64, back: bool) -> u64 {
    let world = World::new(maker, limits[0], START_US);
    let mut history = History::new(&world, limits, seed, back);
    history.names &= super::named_holds::keeps_names(maker);
    for _ in 0..OPERATIONS {
        history.step();
        if history.random.below(10) == 0 {
            maker.forget(world.limiter.store());
        }
    }
    OPERATIONS
}

/// The limits of a set for the oracle.
fn held_limits(limits: &LimitSet) -> Vec<HeldLimit> {
    let each = limits.limits().iter().map(|limit| match limit.needs_hold() {
        true => HeldLimit::Slots(limit.capacity()),
        false => HeldLimit::Rate(Box::new(oracle_of(limit))),
    });
    each.collect()
}

/// The kind of a hold for an engine, of that for the oracle.
pub(crate) const fn kind_of(kind: Kind) -> HoldKind {
    match kind {
        Kind::Acquire => HoldKind::Acquire,
        Kind::Reserve => HoldKind::Reserve,
        Kind::Charging => HoldKind::Charging,
    }
}

impl<'w, S: Store> History<'w, S> {
    fn new(world: &'w World<S>, limits: [&str; 2], seed: u64, back: bool) -> Self {
        let sets = limits.map(|text| {
            let limits = set(text);
            let held = held_limits(&limits);
            (limits, held)
        });
        let limits = &sets[0].0;
        let has_slots = limits.needs_hold();
        let capacity = limits.limits().iter().map(tollgate::Limit::capacity).min().unwrap();
        Self {
            world,
            oracle: HoldOracle::new(sets[0].1.clone()),
            sets,
            written: 0,
            open: Vec::new(),
            asked: Vec::new(),
            next: 0,
            next_name: 0,
            random: Random::new(seed),
            has_slots,
            capacity,
            back,
            names: seed.is_multiple_of(2),
            latest_us: START_US,
        }
    }

    fn step(&mut self) {
        let now_us = self.advance();
        let cost = match self.random.below(10) {
            0..6 => 1,
            6..9 => 1 + self.random.below(self.capacity),
            _ => self.capacity + 1 + self.random.below(2),
        };
        match self.random.below(20) {
            0..2 if !self.has_slots => self.check(now_us, cost, false),
            2..4 => self.check(now_us, cost, true),
            4..8 => self.hold(now_us, cost),
            8..10 if self.names => self.ask_again(now_us),
            10..14 => self.settle(now_us, cost),
            14 => self.renew(now_us),
            15 if self.names => self.give_back(now_us),
            15 => self.renew(now_us),
            16 if !self.has_slots => self.charge(now_us, cost),
            17 if self.names => self.settle_some_name(now_us, cost),
            _ => self.hold(now_us, 1),
        }
    }

    fn advance(&mut self) -> u64 {
        let random = &mut self.random;
        let now_us = self.world.now_us();
        let mut now_us = match random.below(20) {
            0..5 => now_us,
            5..8 => now_us + random.below(4),
            8..13 => now_us + random.below(900_000),
            13..15 => now_us + 1_000_000,
            15..17 => now_us + random.below(4_000_000),
            17 => now_us + random.below(30_000_000),
            _ => now_us + 1,
        };
        if self.back {
            // Records of names may be forgotten a second after their end.
            let all_count = |at_us| !self.names && self.oracle.all_count(at_us);
            now_us = stepped_back(random, now_us, &mut self.latest_us, all_count);
        }
        self.latest_us = self.latest_us.max(now_us);
        self.world.at(now_us);
        now_us
    }

    /// The place of the limits of the next question.
    fn some_set(&mut self, now_us: u64) -> usize {
        let set = usize::from(self.random.below(6) == 0);
        if self.may_change(now_us, set) { set } else { self.written }
    }

    /// Whether a question may be under these limits. A hold that no longer counts may be forgotten
    /// by one store and not by another, and longer numbers would reveal that.
    fn may_change(&self, now_us: u64, set: usize) -> bool {
        set == self.written || self.oracle.all_rates_count(now_us)
    }

    /// How long a hold may last under these limits, in microseconds.
    fn longest_us(limits: &LimitSet) -> u64 {
        limits.hold().map_or(5_000_000, Period::as_micros)
    }

    fn some_ttl_us(&mut self, limits: &LimitSet) -> u64 {
        1_000 + self.random.below(Self::longest_us(limits) - 1_000)
    }

    /// From here on the count has the numbers of these limits.
    fn bring(&mut self, now_us: u64, set: usize) {
        if self.written != set {
            self.oracle.change(now_us, &self.sets[set].1).unwrap();
            self.written = set;
        }
    }

    /// The fields of an answer; those of `reset_after` are compared apart.
    fn answered(decision: &Decision<'_>) -> Vec<Fields> {
        (0..decision.reports().count()).map(|index| fields(decision, index)).collect()
    }

    fn check(&mut self, now_us: u64, cost: u64, peek: bool) {
        let set = self.some_set(now_us);
        let limits = self.sets[set].0.clone();
        let ask = Ask::new("bob").cost(cost).under(&limits);
        let decision = if peek { self.world.peek(ask) } else { self.world.check(ask) };
        let got = Self::answered(&decision);
        let (admitted, expected) = if peek {
            let mut then = self.oracle.clone();
            if self.written != set {
                then.change(now_us, &self.sets[set].1).unwrap();
            }
            let fields = then.peek(now_us, cost, None, &got);
            let shown = self.world.shown(Ask::new("bob").under(&limits));
            assert_eq!(shown, then.shown(now_us), "at {now_us}: {:?}", self.oracle);
            (fields.iter().all(|fields| fields.retry_after_us == Some(0)), fields)
        } else {
            self.bring(now_us, set);
            self.oracle.ask(now_us, cost, None, &got)
        };
        let what =
            format!("{} {cost} at {now_us} under {limits}", if peek { "peek" } else { "check" });
        assert_eq!(decision.is_allowed(), admitted, "{what}: {:?}", self.oracle);
        self.compare(&got, &expected, &what);
    }

    fn hold(&mut self, now_us: u64, cost: u64) {
        let set = self.some_set(now_us);
        let ttl_us = self.some_ttl_us(&self.sets[set].0.clone());
        let kind = match self.random.below(3) {
            0 if self.has_slots => Kind::Acquire,
            1 => Kind::Charging,
            _ => Kind::Reserve,
        };
        let mut name = None;
        if self.names && self.random.below(2) == 0 {
            // Not always a new one: some were released before they are asked for.
            self.next_name += self.random.below(4).min(1);
            name = Some(self.next_name);
        }
        let in_line = name.is_some() && self.has_slots && self.random.below(2) == 0;
        self.ask(now_us, Asked { set, kind, cost, ttl_us, name, in_line });
    }

    /// Asks again under one of the last names, now and then otherwise or too often.
    fn ask_again(&mut self, now_us: u64) {
        let Some(mut asked) = self.recent(&self.asked.clone()) else { return };
        match self.random.below(8) {
            0 => asked.cost += 1,
            1 => asked.ttl_us -= 1,
            2 => {
                asked.kind =
                    if asked.kind == Kind::Reserve { Kind::Charging } else { Kind::Reserve }
            }
            3..5 => {
                asked.set = 1 - asked.set;
                asked.ttl_us = asked.ttl_us.min(Self::longest_us(&self.sets[asked.set].0));
            }
            _ => {}
        }
        let times = if self.random.below(8) == 0 { 18 } else { 1 };
        (0..times).for_each(|_| self.ask(now_us, asked));
    }

    /// One of the last of a list.
    fn recent<T: Clone>(&mut self, list: &[T]) -> Option<T> {
        let last = &list[list.len().saturating_sub(5)..];
        (!last.is_empty()).then(|| last[self.random.place(last.len())].clone())
    }

    fn ask(&mut self, now_us: u64, asked: Asked) {
        let Asked { set, kind, cost, ttl_us, name: named, in_line } = asked;
        let terms = (kind, cost, ttl_us);
        let says = named.map_or(NameSays::New, |it| self.oracle.name_says(now_us, it, terms));
        // A refusal changes no numbers.
        let is_answered = matches!(says, NameSays::New | NameSays::Again { .. });
        if is_answered && !self.may_change(now_us, set) {
            return;
        }
        let limits = self.sets[set].0.clone();
        let mut ask = Ask::new("bob").cost(cost).under(&limits);
        if let Some(number) = named {
            ask = ask.named(name(number));
            ask = if in_line { ask.in_line() } else { ask };
            self.asked.push(asked);
        }
        let ask = ask.holding(kind_of(kind), Some(Duration::from_micros(ttl_us)));
        let held = block_on(self.world.limiter.hold(ask.within(Duration::from_secs(60))));
        let what = format!(
            "{kind:?} {cost} for {ttl_us} named {named:?}, line: {in_line}, at {now_us} under {limits}"
        );
        let refusal = match says {
            NameSays::New | NameSays::Again { .. } => None,
            NameSays::Differs => Some("asked for otherwise"),
            NameSays::Repeated => Some("16 times again"),
            NameSays::Over => Some("released or committed before"),
        };
        let Holding { decision, hold, ahead, .. } = match (held, refusal) {
            (Ok(holding), None) => holding,
            (Err(Error::Conflict(text)), Some(why)) if text.contains(why) => return,
            (held, _) => panic!("{what}: {held:?} instead of {says:?}: {:?}", self.oracle),
        };
        let got = Self::answered(&decision);
        assert_eq!(got.len(), limits.limits().len());
        self.bring(now_us, set);
        if let (Some(name), NameSays::Again { end_us, answer }) = (named, says) {
            let hold = hold.expect("it is open");
            assert_eq!((hold.end.as_micros(), hold.answer), (end_us, answer), "{what}");
            let expected = self.oracle.answer_again(now_us, name, &got);
            self.compare(&got, &expected, &what);
            let first = self.open.iter().rfind(|it| it.name == named);
            if let Some(Placed { number, hold: first, .. }) = first {
                assert_eq!((hold.id, hold.fence), (first.id, first.fence), "{what}");
                self.open.push(Placed { number: *number, name: named, hold });
            }
            return;
        }
        self.next += 1;
        let number = self.next;
        let (admitted, expected) = match named.filter(|_| in_line) {
            None => self.oracle.ask(now_us, cost, Some((number, kind, ttl_us)), &got),
            Some(name) => {
                let own = ((name, kind, cost), ttl_us);
                let (admitted, before, fields) = self.oracle.ask_in_line(now_us, number, own, &got);
                assert_eq!(ahead, before, "{what}: who is ahead: {:?}", self.oracle);
                (admitted, fields)
            }
        };
        assert_eq!(hold.is_some(), admitted, "{what}: {got:?} {:?}", self.oracle);
        if let Some(name) = named.filter(|_| admitted) {
            self.oracle.give_name(name, number, terms);
        }
        self.compare(&got, &expected, &what);
        self.open.extend(hold.map(|hold| Placed { number, name: named, hold }));
    }

    fn settle(&mut self, now_us: u64, cost: u64) {
        if self.open.is_empty() {
            return;
        }
        let place = self.random.place(self.open.len());
        let Placed { number, name, hold } = self.open.remove(place);
        if let Some(name) = name {
            return self.settle_named(now_us, name, Some(&hold), cost);
        }
        let actual = match hold.kind() {
            HoldKind::Acquire => 0,
            _ => self.random.below(2) * cost,
        };
        let settled = block_on(self.world.limiter.commit(&hold, actual));
        let expected = self.oracle.settle(now_us, number, actual);
        let expected = expected.map_or(Ended::NotOpen, Ended::Charged);
        self.compare_settled(
            settled,
            expected,
            &format!("commit {actual} of {hold:?} at {now_us}"),
        );
    }

    /// Settles the hold of one of the last names, or of one that comes.
    fn settle_some_name(&mut self, now_us: u64, cost: u64) {
        let name = (self.next_name + 3).saturating_sub(self.random.below(7));
        self.settle_named(now_us, name, None, cost);
    }

    /// Settles a hold by its name, or as its caller knows it by an answer.
    fn settle_named(&mut self, now_us: u64, number: u64, known: Option<&Hold>, cost: u64) {
        let known = known.filter(|_| self.random.below(2) == 0);
        // A slot is released without units, whoever asks.
        let kind = self.oracle.hold_named(now_us, number).map(|(_, kind)| kind);
        let is_slot = known.is_some_and(|hold| hold.kind() == HoldKind::Acquire);
        let is_slot = is_slot || kind == Some(Kind::Acquire);
        let actual = if is_slot { 0 } else { self.random.below(2) * cost };
        let limits = &self.sets[self.random.place(2)].0;
        let ask = Ask::new("bob").under(limits).named(name(number));
        let by_name = || ask.named_hold(self.world.limiter.limits()).expect("a name");
        let hold = known.cloned().unwrap_or_else(by_name);
        let settled = block_on(self.world.limiter.commit(&hold, actual));
        let expected = match (known, actual) {
            (None, 0) => {
                let hold_us = limits.hold().map(Period::as_micros);
                self.oracle.release_named(now_us, number, hold_us)
            }
            _ => self.oracle.settle_named(now_us, number, actual),
        };
        self.compare_settled(
            settled,
            expected,
            &format!("commit {actual} of {hold:?} at {now_us}"),
        );
    }

    /// Gives an answer back that reached nobody, the last one or one before.
    fn give_back(&mut self, now_us: u64) {
        let named: Vec<Placed> = self.open.iter().filter(|it| it.name.is_some()).cloned().collect();
        let Some(Placed { name: Some(name), hold, .. }) = self.recent(&named) else { return };
        let settled = block_on(self.world.limiter.commit(&hold.clone().undelivered(), 0));
        let expected = self.oracle.give_back(now_us, name, hold.answer);
        self.compare_settled(settled, expected, &format!("gave back {hold:?} at {now_us}"));
    }

    fn renew(&mut self, now_us: u64) {
        if self.open.is_empty() {
            return;
        }
        let place = self.random.place(self.open.len());
        let Placed { number, name: named, mut hold } = self.open[place].clone();
        let ttl_us = self.some_ttl_us(&hold.counts[0].1.clone());
        let ttl = Some(Duration::from_micros(ttl_us));
        let renewed =
            block_on(self.world.limiter.renew(&mut hold, ttl)).expect("the store answers");
        // By its name, whatever hold has that now.
        let open = named.map(|name| self.oracle.hold_named(now_us, name));
        let number = open.map_or(number, |open| open.map_or(u64::MAX, |(number, _)| number));
        let expected = self.oracle.renew(now_us, number, ttl_us);
        assert_eq!(renewed.then(|| hold.end.as_micros()), expected, "renew at {now_us}");
        self.open[place].hold = hold;
    }

    fn charge(&mut self, now_us: u64, cost: u64) {
        let set = self.some_set(now_us);
        let limits = self.sets[set].0.clone();
        let got = self.world.charge_each(Ask::new("bob").cost(cost).under(&limits));
        self.bring(now_us, set);
        let expected = self.oracle.charge(now_us, cost);
        self.compare_charged(&got, &expected, &format!("charge {cost} at {now_us} under {limits}"));
    }
}

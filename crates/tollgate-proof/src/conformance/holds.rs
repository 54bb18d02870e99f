//! Holds (definitions, section 11): what is reserved, acquired, committed and released.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use core::time::Duration;

use tollgate::{Ask, Decision, Error, Hold, HoldKind, Holding, LimitSet, Store};

use super::StoreMaker;
use super::named_holds::name;
use super::world::{Random, World, block_on, charged, fields, oracle_of, set, stepped_back};
use crate::oracle::{Charged, Fields, HeldLimit, HoldOracle, Kind};

/// A time far from zero, so that a clock can step back.
const START_US: u64 = 1_763_632_000_000;

/// Limits of every strategy, alone and together.
const LIMITS: [&str; 14] = [
    "5/3s via uniform, 3 at once hold 2s",
    "7/3s burst 9 via gcra",
    "3/10us burst 7 via gcra",
    "10/1s burst 6 via token_bucket",
    "9/4s burst 5 refill interval via token_bucket",
    "8/10s via fixed_window",
    "6/4s anchor first-hit via fixed_window",
    "9/5s via sliding_log",
    "9/5s precision 1s via sliding_window",
    "9/4s precision 1s rounding interpolate via sliding_window",
    "8/6s precision 2s rounding truncate via sliding_window",
    "4 at once hold 3s",
    "6/2s via gcra, 9/20s via sliding_log, 5 at once hold 4s",
    "x: 8/7s via fixed_window, y: 3 at once hold 10s, z: 7/9s via sliding_log",
];

/// A history of one count beside the oracle.
struct History<'w, S> {
    world: &'w World<S>,
    oracle: HoldOracle,
    open: Vec<(u64, Hold)>,
    next: u64,
    random: Random,
    has_slots: bool,
    capacity: u64,
    back: bool,
    /// Whether the store keeps names of holds.
    names: bool,
    /// The latest time that there was: a store forgets what no longer counted then.
    latest_us: u64,
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
            history(maker, limits, 1_000 * place as u64 + seed + if back { 7 } else { 0 }, back);
        }
    }
}

/// How many operations a history has.
const OPERATIONS: u64 = 60;

/// A random history of one count with holds beside the oracle, under a clock that steps back or
/// not. Returns how many operations it had.
///
/// # Panics
/// At the first answer that is not the oracle's, or when the limits do not parse.
pub fn hold_history<M: StoreMaker>(maker: &M, limits: &str, seed: u64, back: bool) -> u64 {
    history(maker, limits, seed, back);
    OPERATIONS
}

fn history<M: StoreMaker>(maker: &M, limits: &str, seed: u64, back: bool) {
    let world = World::new(maker, limits, START_US);
    let limits = set(limits);
    let each = limits.limits().iter().map(|limit| match limit.counts_slots() {
        true => HeldLimit::Slots(limit.capacity()),
        false => HeldLimit::Rate(Box::new(oracle_of(limit))),
    });
    let oracle = HoldOracle::new(each.collect());
    let capacity = limits.limits().iter().map(tollgate::Limit::capacity).min().unwrap();
    let mut history = History {
        world: &world,
        oracle,
        open: Vec::new(),
        next: 0,
        random: Random::new(seed),
        has_slots: limits.counts_slots(),
        capacity,
        back,
        names: super::named_holds::keeps_names(maker),
        latest_us: START_US,
    };
    for _ in 0..OPERATIONS {
        history.step(limits.limits().len());
        if history.random.below(10) == 0 {
            maker.forget(world.limiter.store());
        }
    }
}

impl<S: Store> History<'_, S> {
    fn step(&mut self, limits: usize) {
        let now_us = self.advance();
        let cost = match self.random.below(10) {
            0..6 => 1,
            6..9 => 1 + self.random.below(self.capacity),
            _ => self.capacity + 1 + self.random.below(2),
        };
        match self.random.below(20) {
            0..2 if !self.has_slots => self.check(now_us, cost, false),
            2..4 => self.check(now_us, cost, true),
            4..10 => self.hold(now_us, cost, limits),
            10..14 => self.settle(now_us, cost),
            14..16 => self.renew(now_us),
            16 if !self.has_slots => self.charge(now_us, cost),
            _ => self.hold(now_us, 1, limits),
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
            let all_count = |at_us| self.oracle.all_count(at_us);
            now_us = stepped_back(random, now_us, &mut self.latest_us, all_count);
        }
        self.latest_us = self.latest_us.max(now_us);
        self.world.at(now_us);
        now_us
    }

    /// The fields of an answer; those of `reset_after` are compared apart.
    fn answered(&self, decision: &Decision<'_>) -> Vec<Fields> {
        (0..decision.reports().count()).map(|index| fields(decision, index)).collect()
    }

    fn check(&mut self, now_us: u64, cost: u64, peek: bool) {
        let ask = Ask::new("bob").cost(cost);
        let decision = if peek { self.world.peek(ask) } else { self.world.check(ask) };
        let got = self.answered(&decision);
        let (admitted, expected) = if peek {
            let fields = self.oracle.peek(now_us, cost, None, &got);
            (fields.iter().all(|fields| fields.retry_after_us == Some(0)), fields)
        } else {
            self.oracle.ask(now_us, cost, None, &got)
        };
        let what = format!("{} {cost} at {now_us}", if peek { "peek" } else { "check" });
        assert_eq!(decision.is_allowed(), admitted, "{what}: {:?}", self.oracle);
        self.compare(&got, &expected, &what);
    }

    fn hold(&mut self, now_us: u64, cost: u64, limits: usize) {
        let longest_us =
            self.world.limiter.limits().hold().map_or(5_000_000, tollgate::Period::as_micros);
        let ttl_us = 1_000 + self.random.below(longest_us - 1_000);
        let (kind, twin) = match self.random.below(3) {
            0 if self.has_slots => (HoldKind::Acquire, Kind::Acquire),
            1 => (HoldKind::Charging, Kind::Charging),
            _ => (HoldKind::Reserve, Kind::Reserve),
        };
        let ttl = Some(Duration::from_micros(ttl_us));
        let mut ask = Ask::new("bob").cost(cost);
        if self.names && self.random.below(3) == 0 {
            ask = ask.named(name(self.next + 1));
        }
        let Holding { decision, hold, .. } = block_on(self.world.limiter.hold_within(
            Duration::from_secs(60),
            ask,
            (kind, ttl),
            &mut None,
        ))
        .expect("the store answers");
        let got = self.answered(&decision);
        assert_eq!(got.len(), limits);
        self.next += 1;
        let (admitted, expected) =
            self.oracle.ask(now_us, cost, Some((self.next, twin, ttl_us)), &got);
        let what = format!("{kind:?} {cost} for {ttl_us} at {now_us}");
        assert_eq!(hold.is_some(), admitted, "{what}: {got:?} {:?}", self.oracle);
        self.compare(&got, &expected, &what);
        self.open.extend(hold.map(|hold| (self.next, hold)));
    }

    fn settle(&mut self, now_us: u64, cost: u64) {
        if self.open.is_empty() {
            return;
        }
        let place = self.random.place(self.open.len());
        let (name, hold) = self.open.remove(place);
        let actual = match hold.kind() {
            HoldKind::Acquire => 0,
            _ => self.random.below(2) * cost,
        };
        let mut hold = hold;
        if hold.id.name().is_some() && self.random.below(2) == 0 {
            // As its caller knows it without the answer.
            let ask = Ask::new("bob").named(super::named_holds::name(name));
            hold = self.world.limiter.hold_named(ask).expect("a name");
        }
        let settled = block_on(self.world.limiter.commit(&hold, actual));
        let expected = self.oracle.settle(now_us, name, actual);
        let what = format!("commit {actual} of {hold:?} at {now_us}");
        match (settled, expected) {
            (Ok(settled), Some(expected)) => {
                assert!(!settled.already, "{what}");
                assert_eq!(settled.actual, actual, "{what}");
                let got: Vec<Charged> = settled.charged.iter().map(charged).collect();
                self.compare_charged(&got, &expected, &what);
            }
            (Err(Error::NotOpen(_)), None) => {}
            (Ok(settled), None) => assert!(settled.is_early, "{what}: {settled:?}"),
            (settled, expected) => panic!("{what}: {settled:?} instead of {expected:?}"),
        }
    }

    fn renew(&mut self, now_us: u64) {
        if self.open.is_empty() {
            return;
        }
        let place = self.random.place(self.open.len());
        let longest_us =
            self.world.limiter.limits().hold().map_or(5_000_000, tollgate::Period::as_micros);
        let ttl_us = 1_000 + self.random.below(longest_us - 1_000);
        let (name, hold) = &mut self.open[place];
        let ttl = Some(Duration::from_micros(ttl_us));
        let renewed = block_on(self.world.limiter.renew(hold, ttl)).expect("the store answers");
        let expected = self.oracle.renew(now_us, *name, ttl_us);
        assert_eq!(renewed.then(|| hold.end.as_micros()), expected, "renew at {now_us}");
    }

    fn charge(&mut self, now_us: u64, cost: u64) {
        let ask = Ask::new("bob").cost(cost);
        let got = self.world.charge_each(ask);
        let expected = self.oracle.charge(now_us, cost);
        self.compare_charged(&got, &expected, &format!("charge {cost} at {now_us}"));
    }

    fn compare_charged(&self, got: &[Charged], expected: &[Charged], what: &str) {
        assert_eq!(got.len(), expected.len(), "{what}");
        for (got, expected) in got.iter().zip(expected) {
            assert_eq!((got.fits, got.cut), (expected.fits, expected.cut), "{what}");
        }
        let fields_of = |each: &[Charged]| each.iter().map(|it| it.fields).collect::<Vec<_>>();
        let (got, expected) = (fields_of(got), fields_of(expected));
        self.compare(&got, &expected, what);
    }

    /// Every field is equal. Where ends charge, `reset_after` is an upper bound.
    fn compare(&self, got: &[Fields], expected: &[Fields], what: &str) {
        let same = |fields: &[Fields]| -> Vec<Fields> {
            fields.iter().map(|fields| Fields { reset_after_us: 0, ..*fields }).collect()
        };
        assert_eq!(same(got), same(expected), "{what}: {:?}", self.oracle);
        for (got, expected) in got.iter().zip(expected) {
            let (got, expected) = (got.reset_after_us, expected.reset_after_us);
            let exact = self.oracle.resets_exactly();
            assert!(
                if exact { got == expected } else { got >= expected },
                "{what}: {got} instead of {expected}: {:?}",
                self.oracle
            );
        }
    }
}

const WHILE: Duration = Duration::from_secs(20);

fn reserve<S: Store>(world: &World<S>, subject: &str, cost: u64) -> Option<Hold> {
    let ask = Ask::new(subject).cost(cost);
    block_on(world.limiter.reserve(ask, WHILE)).expect("the store answers").hold
}

pub(super) fn a_hold_is_settled_once<M: StoreMaker>(maker: &M) {
    for limits in ["100/h via gcra", "100/h via sliding_log", "100/h via fixed_window"] {
        let world = World::new(maker, limits, START_US);
        let hold = reserve(&world, "ann", 60).expect("admitted");
        assert_eq!(world.peek("ann").remaining(), 40);
        assert!(reserve(&world, "ann", 41).is_none());
        let commit = |actual| block_on(world.limiter.commit(&hold, actual)).unwrap();
        let first = commit(25);
        assert_eq!((first.already, first.actual, first.charged[0].remaining), (false, 25, 75));
        for again in [25, 0, 60] {
            let again = commit(again);
            assert_eq!((again.already, again.actual), (true, 25), "{limits}");
        }
        assert_eq!(world.peek("ann").remaining(), 75);
        // What does not fit is owed.
        let hold = reserve(&world, "ann", 75).expect("admitted");
        let settled = block_on(world.limiter.commit(&hold, 90)).unwrap();
        assert!(!settled.charged[0].fits);
        assert_eq!((settled.charged[0].cut, world.peek("ann").remaining()), (0, 0), "{limits}");
    }
}

pub(super) fn a_hold_that_is_not_open_is_an_error_that_changes_nothing<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "100/h via fixed_window", START_US);
    let hold = reserve(&world, "ann", 30).expect("admitted");
    let not_open = |hold: &Hold| match block_on(world.limiter.commit(hold, 10)) {
        Err(Error::NotOpen(text)) => text,
        other => panic!("{other:?}"),
    };
    // The hold of one subject is none of another, and neither is any other id.
    let mut other = hold.clone();
    other.counts[0].0 = tollgate::Subject::literal("eve").unwrap();
    assert!(not_open(&other).contains("nothing was charged"));
    let mut guessed = hold.clone();
    guessed.id = tollgate::HoldId::random(HoldKind::Reserve);
    not_open(&guessed);
    assert_eq!((world.peek("ann").remaining(), world.peek("eve").remaining()), (70, 100));
    // At its end it is over, to the microsecond.
    world.at(START_US + 19_999_999);
    assert_eq!(world.peek("ann").remaining(), 70);
    world.at(START_US + 20_000_000);
    assert_eq!(world.peek("ann").remaining(), 100);
    not_open(&hold);
    let mut late = hold.clone();
    assert!(!block_on(world.limiter.renew(&mut late, Some(WHILE))).unwrap());
    assert_eq!(world.peek("ann").remaining(), 100);
}

pub(super) fn holds_over_several_counts_are_all_or_nothing<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "10/h via gcra", START_US);
    let wide: LimitSet = set("100/h via gcra, 2 at once");
    let ask = |user: &'static str, cost| Ask::new(user).cost(cost).and_under("model", &wide);
    let reserve = |user, cost| {
        block_on(world.limiter.reserve(ask(user, cost), Duration::from_secs(20))).unwrap()
    };
    let left = |user: &'static str| {
        let decision = world.peek(ask(user, 1));
        decision.reports().map(|report| report.remaining()).collect::<Vec<_>>()
    };
    let ann = reserve("ann", 6).hold.expect("admitted");
    assert_eq!(left("ann"), [4, 94, 1]);
    assert!(reserve("ann", 5).hold.is_none());
    assert_eq!(left("ann"), [4, 94, 1]);
    let bob = reserve("bob", 9).hold.expect("admitted");
    assert_eq!(left("eve"), [10, 85, 0]);
    let denied = reserve("eve", 1);
    assert!(denied.hold.is_none() && denied.decision.is_until_hold());
    assert_eq!(denied.decision.retry_after(), Some(Duration::from_secs(20)));
    assert_eq!(left("eve"), [10, 85, 0]);
    let settled = block_on(world.limiter.commit(&ann, 2)).unwrap();
    let remaining: Vec<_> = settled.charged.iter().map(|charged| charged.remaining).collect();
    assert_eq!(remaining, [8, 89, 1]);
    assert!(!block_on(world.limiter.cancel(&bob)).unwrap().already);
    assert_eq!((left("bob"), left("ann")), (vec![10, 98, 2], vec![8, 98, 2]));
}

pub(super) fn holds_outlive_a_change_of_numbers_and_end_with_a_reset<M: StoreMaker>(maker: &M) {
    for (old, new, left) in [
        ("100/h via fixed_window", "50/h via fixed_window", 20),
        ("a: 100/h via gcra", "a: 80/h via gcra", 50),
        ("a: 100/h via sliding_log", "a: 60/h via sliding_log", 30),
        ("a: 9 at once", "a: 40 at once", 39),
    ] {
        let world = World::new(maker, old, START_US);
        let hold = reserve(&world, "ann", if old.contains("once") { 1 } else { 30 });
        let hold = hold.expect("admitted");
        let new = set(new);
        let look = || world.peek(Ask::new("ann").under(&new)).remaining();
        assert_eq!((look(), look()), (left, left), "{new}");
        let charges = u64::from(!new.counts_slots()) * 5;
        let settled = block_on(world.limiter.commit(&hold, charges)).unwrap();
        assert!(!settled.already);
        let all = new.limits()[0].capacity();
        let now = look();
        assert!(now >= all - charges - 1 && now <= all - charges, "{new}: {now}");
        // A reset forgets the count and its holds.
        let hold = reserve(&world, "ann", 1).expect("admitted");
        assert!(world.reset("ann"));
        assert!(!world.reset("ann"));
        assert!(matches!(block_on(world.limiter.commit(&hold, 0)), Err(Error::NotOpen(_))));
        assert_eq!(world.peek("ann").remaining(), world.limiter.limits().limits()[0].capacity());
    }
}

pub(super) fn fencing_numbers_rise<M: StoreMaker>(maker: &M) {
    for limits in ["3 at once hold 5s", "1000000/s via gcra", "1000000/1s via sliding_log"] {
        let world = World::new(maker, limits, START_US);
        let mut last = 0;
        let mut random = Random::new(5);
        let mut open: Vec<Hold> = Vec::new();
        for turn in 0..200 {
            let now_us = world.now_us();
            world.at(match random.below(4) {
                0 => now_us - random.below(1_000_000),
                1 => now_us + random.below(3_000_000),
                _ => now_us,
            });
            // A reserve that ends by itself is not remembered, unlike one that is settled.
            let acquired = match world.limiter.limits().counts_slots() {
                true => block_on(world.limiter.acquire("job")).unwrap().hold,
                false => {
                    let ttl = Duration::from_micros(1_000);
                    block_on(world.limiter.reserve("job", ttl)).unwrap().hold
                }
            };
            if let Some(hold) = acquired {
                assert!(hold.fence > last, "{limits}: {} after {last}", hold.fence);
                last = hold.fence;
                open.push(hold);
            }
            // Now and then none is open, and the count has nothing else to remember.
            if turn % 3 == 0 && world.limiter.limits().counts_slots() {
                for hold in open.drain(..) {
                    assert!(block_on(world.limiter.release(&hold)).is_ok());
                }
            }
            maker.forget(world.limiter.store());
        }
        assert!(last > START_US);
    }
}

pub(super) fn what_an_acquire_charges_is_refunded_once<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "5/h via gcra, 4 at once", START_US);
    let remaining = || {
        let peek = world.peek("job");
        let all: Vec<_> = peek.reports().map(|report| report.remaining()).collect();
        all
    };
    let mut receipts = Vec::new();
    // The first makes a count, and the others find it with open holds.
    for taken in 1..4 {
        let Holding { decision, hold, .. } = block_on(world.limiter.acquire("job")).unwrap();
        assert!(hold.is_some());
        receipts.push(decision.receipt().expect("an acquire is charged").clone());
        assert_eq!(remaining(), [5 - taken, 4 - taken]);
    }
    for (receipt, left) in receipts.iter().zip(3..) {
        assert_eq!(world.refund(receipt).given[0], 1);
        assert!(world.refund(receipt).already);
        assert_eq!(remaining(), [left, 1]);
    }
    let ttl = Duration::from_secs(1);
    let held = block_on(world.limiter.reserve("job", ttl)).unwrap();
    assert!(held.hold.is_some() && held.decision.receipt().is_none(), "nothing is charged yet");
}

pub(super) fn a_check_takes_no_slot<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "100/s via gcra, 2 at once", START_US);
    let error = block_on(world.limiter.check("job")).unwrap_err().to_string();
    assert!(error.contains("acquire a slot and release it"), "{error}");
    assert_eq!(world.peek("job").remaining(), 2);
    let mut held = Vec::new();
    for _ in 0..2 {
        held.extend(block_on(world.limiter.acquire("job")).unwrap().hold);
    }
    let denied = block_on(world.limiter.acquire("job")).unwrap();
    assert!(denied.hold.is_none());
    let left: Vec<_> = denied.decision.reports().map(|report| report.remaining()).collect();
    assert_eq!((held.len(), left), (2, vec![98, 0]));
    let error = block_on(world.limiter.check("job")).unwrap_err().to_string();
    assert!(error.contains("acquire a slot and release it"), "{error}");
    for hold in &held {
        assert!(block_on(world.limiter.release(hold)).unwrap());
        assert!(!block_on(world.limiter.release(hold)).unwrap());
    }
    assert_eq!(world.peek("job").remaining(), 2);
}

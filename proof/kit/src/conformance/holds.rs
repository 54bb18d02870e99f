//! Holds (definitions, section 11): reserved, acquired, committed and released.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use core::time::Duration;

use tollgate::engine::MAX_CHARGING_HOLDS;
use tollgate::{Ask, Carried, Error, Hold, HoldKind, HoldName, Holding, LimitSet, Store, Verdict};

use super::StoreMaker;
use super::world::{START_US, World, block_on, set};
use crate::Random;

const WHILE: Duration = Duration::from_secs(20);

fn reserve<S: Store>(world: &World<S>, subject: &str, cost: u64) -> Option<Hold> {
    let ask = Ask::new(subject).cost(cost);
    block_on(world.limiter.hold(ask.reserve(WHILE))).expect("the store answers").hold
}

pub(super) fn a_hold_is_settled_once<M: StoreMaker>(maker: &M) {
    for limits in ["100/h via gcra", "100/h via sliding_log", "100/h via fixed_window"] {
        let world = World::new(maker, limits, START_US);
        let hold = reserve(&world, "ann", 60).expect("admitted");
        assert_eq!(world.peek("ann").remaining(), 40);
        assert!(reserve(&world, "ann", 41).is_none());
        let commit = |actual| block_on(world.limiter.commit(&hold, actual)).unwrap();
        let first = commit(25);
        assert_eq!(
            (first.already, first.actual, first.charged[0].remaining),
            (false, 25.into(), 75)
        );
        for again in [25, 0, 60] {
            let again = commit(again);
            assert_eq!((again.already, again.actual), (true, 25.into()), "{limits}");
        }
        assert_eq!(world.peek("ann").remaining(), 75);
        // A reset ends what is open. A settled hold is remembered for a minute, and no longer.
        let open = reserve(&world, "ann", 5).expect("admitted");
        world.at(START_US + 1_000_000);
        assert!(world.reset("ann"));
        maker.forget(world.limiter.store());
        let charged = |hold: &Hold| {
            block_on(world.limiter.commit(hold, 3)).ok().and_then(|it| it.actual.plain())
        };
        assert_eq!((charged(&hold), charged(&open)), (Some(25), None), "{limits}");
        world.at(START_US + 59_999_999);
        assert_eq!((charged(&hold), world.peek("ann").remaining()), (Some(25), 100), "{limits}");
        world.at(START_US + 60_000_000);
        assert_eq!((charged(&hold), charged(&open)), (None, None), "{limits}");
        assert!(block_on(world.limiter.check(Ask::new("ann").cost(25))).unwrap().is_allowed());
        // The excess is debt.
        let hold = reserve(&world, "ann", 75).expect("admitted");
        let settled = block_on(world.limiter.commit(&hold, 90)).unwrap();
        assert!(!settled.charged[0].fits);
        assert_eq!((settled.charged[0].cut, world.peek("ann").remaining()), (0, 0), "{limits}");
    }
}

pub(super) fn a_count_has_at_most_so_many_holds_that_charge_at_their_end<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "5000/h via fixed_window", START_US);
    let place = |seconds: u64, charging: bool| {
        let reserve = tollgate::Reserve::from(Duration::from_secs(seconds));
        let reserve = if charging { reserve.charging() } else { reserve };
        block_on(world.limiter.hold(Ask::new("ann").reserve(reserve)))
    };
    let mut last = None;
    for number in 0..MAX_CHARGING_HOLDS {
        last = place(1 + number % 2, true).unwrap().hold;
    }
    let left = || world.peek("ann").remaining();
    let (all, bound) = (5_000, MAX_CHARGING_HOLDS);
    match place(1, true) {
        Err(Error::TooManyHolds(text)) => {
            assert!(text.contains("1000 holds that charge at their end"), "{text}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(left(), all - bound);
    // Holds whose end charges nothing have a separate bound, and one that is gone makes room.
    assert!(place(1, false).unwrap().hold.is_some());
    assert!(block_on(world.limiter.commit(&last.expect("admitted"), 0)).is_ok());
    assert!(place(3, true).unwrap().hold.is_some());
    assert!(matches!(place(1, true), Err(Error::TooManyHolds(_))));
    // A hold that is due has ended before the question.
    world.at(START_US + 1_000_000);
    assert!(place(1, true).unwrap().hold.is_some());
    world.at(START_US + 9_000_000);
    assert_eq!(left(), all - bound - 1);
}

pub(super) fn a_hold_that_is_not_open_is_an_error_that_changes_nothing<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "100/h via fixed_window", START_US);
    let hold = reserve(&world, "ann", 30).expect("admitted");
    let not_open = |hold: &Hold| match block_on(world.limiter.commit(hold, 10)) {
        Err(Error::NotOpen(text)) => text,
        other => panic!("{other:?}"),
    };
    // The hold of one subject does not belong to another, and neither does any other id.
    let mut other = hold.clone();
    other.counts[0].0 = tollgate::Subject::literal("eve").unwrap();
    assert!(not_open(&other).contains("nothing was charged"));
    let mut guessed = hold.clone();
    guessed.id = tollgate::HoldId::random(HoldKind::Reserve, 1_000);
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
        block_on(world.limiter.hold(ask(user, cost).reserve(Duration::from_secs(20)))).unwrap()
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
    assert!(!block_on(world.limiter.commit(&bob, 0)).unwrap().already);
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
        let charges = u64::from(!new.needs_hold()) * 5;
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
            let acquired = match world.limiter.limits().needs_hold() {
                true => block_on(world.limiter.hold(Ask::new("job").acquire())).unwrap().hold,
                false => {
                    let ttl = Duration::from_micros(1_000);
                    block_on(world.limiter.hold(Ask::new("job").reserve(ttl))).unwrap().hold
                }
            };
            if let Some(hold) = acquired {
                assert!(hold.fence > last, "{limits}: {} after {last}", hold.fence);
                last = hold.fence;
                open.push(hold);
            }
            // Now and then none is open, and the count has nothing else to remember.
            if turn % 3 == 0 && world.limiter.limits().needs_hold() {
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
        let Holding { decision, hold, .. } =
            block_on(world.limiter.hold(Ask::new("job").acquire())).unwrap();
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
    let held = block_on(world.limiter.hold(Ask::new("job").reserve(ttl))).unwrap();
    assert!(held.hold.is_some() && held.decision.receipt().is_none(), "nothing is charged yet");
}

pub(super) fn a_check_takes_no_slot<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "100/s via gcra, 2 at once", START_US);
    let error = block_on(world.limiter.check("job")).unwrap_err().to_string();
    assert!(error.contains("acquire a slot and release it"), "{error}");
    assert_eq!(world.peek("job").remaining(), 2);
    let mut held = Vec::new();
    for _ in 0..2 {
        held.extend(block_on(world.limiter.hold(Ask::new("job").acquire())).unwrap().hold);
    }
    let denied = block_on(world.limiter.hold(Ask::new("job").acquire())).unwrap();
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

/// A wait is marked where it is one for holds, and nowhere else.
pub(super) fn a_wait_is_marked_where_settling_holds_would_shorten_it<M: StoreMaker>(maker: &M) {
    // 33 s after a window has begun.
    let start_us = START_US / 60_000_000 * 60_000_000 + 33_000_000;
    let waits = |decision: &tollgate::Decision<'_>| {
        (decision.retry_after().map(|wait| wait.as_secs()), decision.is_until_hold())
    };
    // The limits, the units held and charged before, the question then, and its wait.
    for (limits, held, charged, asked, wait) in [
        ("10/m via fixed_window", 1, 9, 5, (Some(27), false)),
        ("10/m via fixed_window", 5, 0, 6, (Some(20), true)),
        ("10/m via fixed_window", 5, 5, 6, (Some(27), false)),
        ("10/m via fixed_window", 1, 9, 11, (None, false)),
        ("10/m via sliding_log", 1, 9, 5, (Some(60), false)),
        ("10/m via sliding_log", 4, 6, 4, (Some(20), true)),
        ("10/10s via gcra", 1, 9, 5, (Some(5), true)),
        ("10/100s via gcra", 5, 5, 6, (Some(20), true)),
        ("10/100s via gcra", 1, 9, 10, (Some(90), false)),
        ("x: 10/m via fixed_window, y: 10/m via sliding_log", 4, 0, 7, (Some(20), true)),
        ("x: 9/m via fixed_window, y: 10/m via fixed_window", 1, 9, 5, (Some(27), false)),
    ] {
        let world = World::new(maker, limits, start_us);
        assert!(reserve(&world, "ann", held).is_some());
        if charged > 0 {
            let _ = block_on(world.limiter.charge(Ask::new("ann").cost(charged))).unwrap();
        }
        let ask = || Ask::new("ann").cost(asked);
        assert_eq!(waits(&world.peek(ask())), wait, "{limits}: peek {asked}");
        assert_eq!(waits(&world.check(ask())), wait, "{limits}: check {asked}");
        let again = block_on(world.limiter.hold(ask().reserve(WHILE))).unwrap();
        assert_eq!(waits(&again.decision), wait, "{limits}: reserve {asked}");
    }
    // Slots, alone and beside what denies for longer.
    for (limits, wait) in [
        ("1 at once hold 20s", (Some(20), true)),
        ("1 at once hold 20s, 1/m via fixed_window", (Some(27), false)),
        ("1 at once hold 40s, 1/m via fixed_window", (Some(40), true)),
        ("1 at once hold 20s, ban 1m after 1 denials in 1m", (Some(60), false)),
        ("1 at once hold 2m, ban 1m after 1 denials in 1m", (Some(120), true)),
    ] {
        let world = World::new(maker, limits, start_us);
        assert!(block_on(world.limiter.hold(Ask::new("job").acquire())).unwrap().hold.is_some());
        for turn in 0..2 {
            let denied = block_on(world.limiter.hold(Ask::new("job").acquire())).unwrap().decision;
            assert_eq!(waits(&denied), wait, "{limits}: turn {turn}");
        }
    }
}

/// Beside limits of every kind, whatever is held, settled or over: only another strategy starts
/// fresh.
pub(super) fn nothing_but_another_strategy_starts_fresh<M: StoreMaker>(maker: &M) {
    let kinds = [
        "a: 9/10s via gcra",
        "b: 9/m via fixed_window",
        "c: 9/20s via sliding_log",
        "d: 9/30s via sliding_window",
        "e: 9/5s via token_bucket refill interval",
        "f: 9 at once hold 15s",
        "g: ban 10s after 2 denials in 10s",
    ];
    let mut random = Random::new(11);
    for first in kinds {
        for second in kinds.into_iter().filter(|second| *second != first) {
            let limits: LimitSet = match format!("{first}, {second}").parse() {
                Ok(limits) => limits,
                Err(_) => continue,
            };
            let world = World::new(maker, &limits.to_string(), START_US);
            let fewer: LimitSet =
                set(&limits.to_string().replace("9/", "8/").replace("9 at", "8 at"));
            let mut open: Vec<Hold> = Vec::new();
            for turn in 0..60 {
                world.at(world.now_us() + random.below(12_000_000));
                maker.forget(world.limiter.store());
                let under = if random.below(5) == 0 { &fewer } else { &limits };
                let ask = || Ask::new("ann").under(under).cost(1 + random_cost(turn));
                let said = |decision: &tollgate::Decision<'_>, what: &str| {
                    let fresh = decision.reports().find(|it| it.carried() == Carried::Fresh);
                    let fresh = fresh.map(|it| it.limit().to_string());
                    assert_eq!(fresh, None, "{limits}, turn {turn}: {what}");
                };
                said(&world.peek(ask()), "peek");
                match random.below(4) {
                    0 if !limits.needs_hold() => said(&world.check(ask()), "check"),
                    1 => {
                        if let Some(hold) = open.pop() {
                            let _ = block_on(world.limiter.commit(&hold, 0));
                        }
                    }
                    2 if limits.needs_hold() => {
                        let held = block_on(world.limiter.hold(ask().acquire())).unwrap();
                        said(&held.decision, "acquire");
                        open.extend(held.hold);
                    }
                    _ => {
                        let ttl = Duration::from_secs(1 + random.below(15));
                        let held = block_on(world.limiter.hold(ask().reserve(ttl))).unwrap();
                        said(&held.decision, "reserve");
                        open.extend(held.hold);
                    }
                }
                said(&world.peek(ask()), "peek after");
            }
        }
    }
}

const fn random_cost(turn: u64) -> u64 {
    turn * 7 % 5
}

/// A peek of a hold says what the hold then gets, and changes nothing.
pub(super) fn a_peek_of_a_hold_foretells_it<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "20 at once hold 20s, 100000/m via gcra", START_US);
    let mut random = Random::new(3);
    let mut open: Vec<Hold> = Vec::new();
    let (mut admitted, mut denied, mut never) = (0, 0, 0);
    for turn in 0..200 {
        world.at(world.now_us() + random.below(3_000_000));
        let (kind, cost) = match random.below(2) {
            0 => (HoldKind::Reserve, 1 + random.below(60_000)),
            _ => (HoldKind::Acquire, 1 + random.below(22)),
        };
        let ask = || Ask::new("bob").cost(cost);
        let said = |decision: &tollgate::Decision<'_>| {
            let each: Vec<_> =
                decision.reports().map(|it| (it.remaining(), it.retry_after())).collect();
            (decision.verdict(), decision.is_until_hold(), each)
        };
        let foretold = said(&world.peek(ask().holding(kind, None)));
        assert_eq!(
            said(&world.peek(ask().holding(kind, None))),
            foretold,
            "turn {turn}: a peek again"
        );
        let placed = match kind {
            HoldKind::Reserve => block_on(world.limiter.hold(ask().reserve(WHILE))),
            _ => block_on(world.limiter.hold(ask().acquire())),
        };
        let Holding { decision, hold, .. } = placed.unwrap();
        let (verdict, until_hold, each) = said(&decision);
        assert_eq!((verdict, until_hold), (foretold.0, foretold.1), "turn {turn}: {kind:?} {cost}");
        match (&hold, verdict) {
            (Some(_), _) => admitted += 1,
            (None, Verdict::Never) => never += 1,
            (None, _) => denied += 1,
        }
        if hold.is_none() {
            assert_eq!(each, foretold.2, "turn {turn}: {kind:?} {cost}");
        }
        open.extend(hold);
        if random.below(3) == 0
            && let Some(hold) = open.pop()
        {
            let _ = block_on(world.limiter.commit(&hold, 0));
        }
    }
    assert!(admitted > 20 && denied > 20 && never > 2, "{admitted}, {denied}, {never}");
    // Without a kind a peek is of a check, which takes its cost of everything.
    assert!(world.peek(Ask::new("bob").cost(800)).is_never());
    let refused = |ask: Ask<'static>, peek: bool| {
        let answer = match peek {
            true => block_on(world.limiter.check(ask.peek())),
            false => block_on(world.limiter.check(ask)),
        };
        answer.map(|_| ()).unwrap_err().to_string()
    };
    let slots: &'static LimitSet = Box::leak(Box::new(set("9/h via gcra")));
    let acquire = Ask::new("bob").under(slots).acquire();
    assert!(refused(acquire.clone(), true).contains("no slots to acquire"));
    assert!(refused(acquire, false).contains("only a peek has a kind"));
    let partial = Ask::new("bob").partial().holding(HoldKind::Reserve, None);
    assert!(refused(partial, true).contains("peek without `partial`"));
}

/// Also on a count that is still unknown, since another count denies.
pub(super) fn a_place_in_line_is_kept_on_every_count<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "1 at once hold 20s", START_US);
    let named = |id: &str, ask: Ask<'static>| {
        let name: HoldName = id.repeat(16).parse().unwrap();
        // A cluster keeps a line in one slot.
        ask.named(name).shard("line")
    };
    let acquire = |ask: Ask<'static>| block_on(world.limiter.hold(ask.acquire())).unwrap();
    let open = acquire(named("a", Ask::new("ann"))).hold.expect("a slot");
    let both = || named("b", Ask::new("ann").and("bob")).in_line();
    assert!(acquire(both()).hold.is_none());
    let behind = acquire(named("c", Ask::new("bob")).in_line());
    assert_eq!((behind.hold, behind.ahead), (None, 1));
    assert!(acquire(named("d", Ask::new("bob"))).hold.is_none(), "nobody overtakes");
    assert!(block_on(world.limiter.release(&open)).unwrap());
    assert!(acquire(both()).hold.is_some());
}

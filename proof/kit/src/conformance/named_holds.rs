//! Holds that their callers name (definitions, section 11): asked for again, released before they
//! come, given back.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use core::time::Duration;

use tollgate::engine::{MAX_MARKS, MAX_REPEATS};
use tollgate::{Ask, Error, Hold, HoldName, Holding, LimitSet, Store};

use super::StoreMaker;
use super::world::{START_US, World, block_on, set};

const SECOND_US: u64 = 1_000_000;

pub(super) fn name(number: u64) -> HoldName {
    format!("request-{number:016}").parse().unwrap()
}

type Acquired<'l> = Result<Holding<'l>, Error>;

fn acquire<S: Store>(world: &World<S>, number: u64) -> Acquired<'_> {
    block_on(world.limiter.hold(Ask::new("job").named(name(number)).acquire()))
}

fn reserve<S: Store>(world: &World<S>, number: u64, cost: u64, seconds: u64) -> Acquired<'_> {
    let ask = Ask::new("job").cost(cost).named(name(number));
    block_on(world.limiter.hold(ask.reserve(Duration::from_secs(seconds))))
}

/// The hold that was placed or answered again.
fn held(answer: Acquired<'_>) -> Hold {
    let holding = answer.unwrap();
    assert!(holding.decision.is_allowed());
    holding.hold.expect("admitted")
}

#[track_caller]
fn refused(answer: &Acquired<'_>, why: &str) {
    match answer {
        Err(Error::Conflict(text)) => {
            assert!(text.contains(why) && text.contains("nothing was held"), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

fn by_name<S: Store>(world: &World<S>, number: u64) -> Hold {
    Ask::new("job").named(name(number)).named_hold(world.limiter.limits()).unwrap()
}

fn left<S: Store>(world: &World<S>) -> Vec<u64> {
    world.peek("job").reports().map(|report| report.remaining()).collect()
}

/// Whether the store keeps names at all.
pub(super) fn keeps_names<M: StoreMaker>(maker: &M) -> bool {
    let world = World::new(maker, "1 at once", START_US);
    let asked = acquire(&world, 0);
    !matches!(asked, Err(Error::Ask(text)) if text.contains("no names of holds"))
}

const OVER: &str = "was released or committed before";

pub(super) fn a_named_hold_asked_for_again_is_one_hold<M: StoreMaker>(maker: &M) {
    if !keeps_names(maker) {
        return;
    }
    for limits in ["9/h via gcra, 2 at once hold 30s", "9/h via sliding_log, 2 at once hold 30s"] {
        let world = World::new(maker, limits, START_US);
        let first = held(acquire(&world, 1));
        assert_eq!((first.answer, left(&world)), (1, vec![8, 1]));
        for repeat in 1..=MAX_REPEATS {
            world.at(START_US + repeat);
            let again = acquire(&world, 1).unwrap();
            assert!(again.decision.receipt().is_none(), "it was charged by the first answer");
            let all: Vec<u64> = again.decision.reports().map(|it| it.remaining()).collect();
            let hold = again.hold.expect("it is open");
            assert_eq!((hold.id, hold.fence, hold.end), (first.id, first.fence, first.end));
            assert_eq!((hold.answer, all), (repeat + 1, vec![8, 1]), "{limits}");
        }
        refused(&acquire(&world, 1), "16 times again");
        assert_eq!(left(&world), [8, 1]);
        // Where no slot is free, the one that is held is answered all the same, and no other.
        held(acquire(&world, 2));
        assert_eq!(left(&world), [7, 0]);
        let second = held(acquire(&world, 2));
        assert!(second.fence > first.fence);
        assert!(acquire(&world, 3).unwrap().hold.is_none());
        // A denial leaves the name free, and a name is one for its count alone.
        assert!(block_on(world.limiter.release(&first)).unwrap());
        held(acquire(&world, 3));
        let ask = Ask::new("another").named(name(3));
        let other = block_on(world.limiter.hold(ask.acquire())).unwrap().hold.unwrap();
        assert_eq!((other.answer, left(&world)), (1, vec![6, 0]));
        // By its end the name is free again.
        world.at(START_US + 31 * SECOND_US);
        assert_eq!(left(&world)[1], 2);
        let anew = held(acquire(&world, 2));
        assert!(anew.answer == 1 && anew.fence > second.fence);
    }
}

pub(super) fn a_named_hold_asked_for_otherwise_is_refused<M: StoreMaker>(maker: &M) {
    if !keeps_names(maker) {
        return;
    }
    let world = World::new(maker, "100/h via token_bucket, 5 at once hold 30s", START_US);
    held(reserve(&world, 1, 10, 20));
    let differs = "asked for otherwise";
    refused(&reserve(&world, 1, 11, 20), differs);
    refused(&reserve(&world, 1, 10, 21), differs);
    refused(&acquire(&world, 1), differs);
    let charging = tollgate::Reserve::from(Duration::from_secs(20)).charging();
    let ask = Ask::new("job").cost(10).named(name(1));
    refused(&block_on(world.limiter.hold(ask.reserve(charging))), differs);
    assert_eq!(left(&world), [90, 4]);
    // The same hold, renewed or not.
    let mut hold = by_name(&world, 1);
    world.at(START_US + 5 * SECOND_US);
    assert!(block_on(world.limiter.renew(&mut hold, Some(Duration::from_secs(30)))).unwrap());
    let again = held(reserve(&world, 1, 10, 20));
    assert_eq!(again.end.as_micros(), START_US + 35 * SECOND_US);
    // A check has no hold to name.
    let error = block_on(world.limiter.check(Ask::new("else").named(name(1)))).unwrap_err();
    assert!(error.to_string().contains("no hold that could have a name"), "{error}");
    let error = Ask::new("job").named_hold(world.limiter.limits()).unwrap_err();
    assert!(error.to_string().contains("give the id"), "{error}");
}

pub(super) fn a_named_hold_is_settled_by_its_name<M: StoreMaker>(maker: &M) {
    if !keeps_names(maker) {
        return;
    }
    let world = World::new(maker, "100/h via fixed_window, 3 at once hold 2m", START_US);
    held(acquire(&world, 1));
    let units = block_on(world.limiter.commit(&by_name(&world, 1), 3)).unwrap_err();
    assert!(units.to_string().contains("released without units"), "{units}");
    assert!(block_on(world.limiter.release(&by_name(&world, 1))).unwrap());
    assert_eq!(left(&world), [99, 3]);
    // Twice is once, and an ask that was under way is refused for a minute.
    let again = block_on(world.limiter.commit(&by_name(&world, 1), 0)).unwrap();
    assert!(again.already && !again.is_early);
    refused(&acquire(&world, 1), OVER);
    world.at(START_US + 59 * SECOND_US);
    refused(&reserve(&world, 1, 1, 1), OVER);
    world.at(START_US + 60 * SECOND_US);
    let hold = held(acquire(&world, 1));
    // By the text of the hold it is the same.
    assert!(block_on(world.limiter.release(&hold)).unwrap());
    refused(&acquire(&world, 1), OVER);
    held(reserve(&world, 2, 40, 100));
    let settled = block_on(world.limiter.commit(&by_name(&world, 2), 7)).unwrap();
    assert_eq!((settled.actual, left(&world)), (7.into(), vec![91, 3]));
    let again = block_on(world.limiter.commit(&by_name(&world, 2), 7)).unwrap();
    assert_eq!((again.already, again.actual, left(&world)), (true, 7.into(), vec![91, 3]));
    // Nobody was charged for a hold that never was.
    assert!(matches!(
        block_on(world.limiter.commit(&by_name(&world, 3), 7)),
        Err(Error::NotOpen(_))
    ));
    held(reserve(&world, 3, 1, 1));
}

pub(super) fn a_release_before_its_acquire_refuses_that<M: StoreMaker>(maker: &M) {
    if !keeps_names(maker) {
        return;
    }
    for (limits, seconds) in [("9/h via gcra, 2 at once hold 20s", 20), ("2 at once hold 5m", 60)] {
        let world = World::new(maker, limits, START_US);
        let full = left(&world);
        let early = block_on(world.limiter.commit(&by_name(&world, 1), 0)).unwrap();
        assert!(early.is_early);
        let again = block_on(world.limiter.commit(&by_name(&world, 1), 0)).unwrap();
        assert!(again.already && !again.is_early);
        refused(&acquire(&world, 1), OVER);
        assert_eq!(left(&world), full);
        held(acquire(&world, 2));
        maker.forget(world.limiter.store());
        world.at(START_US + seconds * SECOND_US - 1);
        refused(&acquire(&world, 1), OVER);
        world.at(START_US + seconds * SECOND_US);
        held(acquire(&world, 1));
    }
    // The oldest of too many marks goes.
    let world = World::new(maker, "2 at once", START_US);
    for number in 0..=MAX_MARKS {
        world.at(START_US + number);
        assert!(block_on(world.limiter.commit(&by_name(&world, number), 0)).unwrap().is_early);
    }
    refused(&acquire(&world, 1), OVER);
    refused(&acquire(&world, MAX_MARKS), OVER);
    held(acquire(&world, 0));
    // A reset ends what is open, and leaves what is over.
    assert!(world.reset("job"));
    assert_eq!(left(&world), [2]);
    refused(&acquire(&world, 1), OVER);
    held(acquire(&world, 0));
}

pub(super) fn an_answer_that_reached_nobody_is_given_back_unless_it_came_again<M: StoreMaker>(
    maker: &M,
) {
    if !keeps_names(maker) {
        return;
    }
    let world = World::new(maker, "2 at once hold 30s", START_US);
    let first = held(acquire(&world, 1));
    let second = held(acquire(&world, 1));
    let lost = first.undelivered();
    assert!(!block_on(world.limiter.release(&lost)).unwrap());
    assert_eq!(left(&world), [1]);
    let lost = second.undelivered();
    assert!(block_on(world.limiter.release(&lost)).unwrap());
    assert_eq!(left(&world), [2]);
    // It was as if nobody had asked: a caller that asks again is answered.
    let anew = held(acquire(&world, 1));
    assert_eq!((anew.answer, left(&world)), (1, vec![1]));
    assert!(!block_on(world.limiter.release(&lost)).unwrap() || left(&world) == [2]);
    // A hold without a name has one answer.
    let hold = block_on(world.limiter.hold(Ask::new("job").acquire()))
        .unwrap()
        .hold
        .unwrap()
        .undelivered();
    assert!(block_on(world.limiter.release(&hold)).unwrap());
}

pub(super) fn a_named_hold_over_several_counts_is_one<M: StoreMaker>(maker: &M) {
    if !keeps_names(maker) {
        return;
    }
    let world = World::new(maker, "10/h via gcra", START_US);
    let wide: LimitSet = set("100/h via gcra, 2 at once");
    let ask = |cost| Ask::new("job").cost(cost).and_under("model", &wide).named(name(1));
    let reserve = |cost| block_on(world.limiter.hold(ask(cost).reserve(Duration::from_secs(20))));
    let left = || {
        let decision = world.peek(Ask::new("job").and_under("model", &wide));
        decision.reports().map(|report| report.remaining()).collect::<Vec<_>>()
    };
    let first = held(reserve(6));
    let second = held(reserve(6));
    assert_eq!((first.id, second.answer, left()), (second.id, 2, vec![4, 94, 1]));
    refused(&reserve(5), "asked for otherwise");
    // On a part of its counts it is another ask.
    let part = Ask::new("job").cost(6).and_under("another", &wide).named(name(1));
    refused(
        &block_on(world.limiter.hold(part.reserve(Duration::from_secs(20)))),
        "asked for otherwise",
    );
    let hold = ask(1).named_hold(world.limiter.limits()).unwrap();
    assert!(block_on(world.limiter.release(&hold)).unwrap());
    assert_eq!(left(), [10, 100, 2]);
    refused(&reserve(6), OVER);
}

pub(super) fn what_a_name_refuses_leaves_a_count_under_its_numbers<M: StoreMaker>(maker: &M) {
    if !keeps_names(maker) {
        return;
    }
    let whiles = ["asked for otherwise", "16 times again", OVER, "early"];
    for (via, what) in ["fixed_window", "sliding_window", "gcra"]
        .into_iter()
        .flat_map(|via| whiles.map(|what| (via, what)))
    {
        let written = format!("r: 4/4s via {via}, s: 9 at once hold 5s");
        let other = set(&format!("r: 4/1h via {via}, s: 9 at once hold 20s"));
        let world = World::new(maker, &written, START_US);
        held(acquire(&world, 1));
        held(acquire(&world, 2));
        assert!(block_on(world.limiter.release(&by_name(&world, 2))).unwrap());
        for _ in 0..=MAX_REPEATS {
            held(reserve(&world, 3, 1, 3));
        }
        world.at(START_US + SECOND_US);
        let under = |number| Ask::new("job").under(&other).named(name(number));
        let reserve =
            |number| block_on(world.limiter.hold(under(number).reserve(Duration::from_secs(3))));
        match what {
            "early" => {
                let hold = under(4).named_hold(world.limiter.limits()).unwrap();
                assert!(block_on(world.limiter.commit(&hold, 0)).unwrap().is_early);
            }
            OVER => refused(&reserve(2), what),
            "16 times again" => refused(&reserve(3), what),
            _ => refused(&reserve(1), what),
        }
        maker.forget(world.limiter.store());
        // Under the other numbers the two that were charged would count for an hour.
        world.at(START_US + 9 * SECOND_US);
        assert_eq!(left(&world), [4, 9], "{via}: {what}");
    }
}

pub(super) fn a_mark_lasts_as_long_as_the_limits_of_its_question_say<M: StoreMaker>(maker: &M) {
    if !keeps_names(maker) {
        return;
    }
    let (short, long) = ("9/h via gcra, 2 at once hold 5s", "9/h via gcra, 2 at once hold 20s");
    let mark = |world: &World<M::Store>, number, limits| {
        let limits = set(limits);
        let ask = Ask::new("job").under(&limits).named(name(number));
        let hold = ask.named_hold(world.limiter.limits()).unwrap();
        assert!(block_on(world.limiter.commit(&hold, 0)).unwrap().is_early);
    };
    for (written, asked, seconds) in [(short, long, 20), (long, short, 5)] {
        for is_there in [true, false] {
            let world = World::new(maker, written, START_US);
            if is_there {
                held(acquire(&world, 2));
            }
            mark(&world, 1, asked);
            maker.forget(world.limiter.store());
            world.at(START_US + seconds * SECOND_US - 1);
            refused(&acquire(&world, 1), OVER);
            world.at(START_US + seconds * SECOND_US);
            held(acquire(&world, 1));
        }
    }
    // One that ends sooner takes none along that ends later.
    let world = World::new(maker, short, START_US);
    mark(&world, 1, long);
    mark(&world, 2, short);
    world.at(START_US + 19 * SECOND_US);
    maker.forget(world.limiter.store());
    refused(&acquire(&world, 1), OVER);
    held(acquire(&world, 2));
    // Of too many, the one that ends first makes room, also the last that came.
    let world = World::new(maker, short, START_US);
    for number in 0..MAX_MARKS {
        world.at(START_US + number);
        mark(&world, number, long);
    }
    mark(&world, MAX_MARKS, short);
    refused(&acquire(&world, MAX_MARKS), OVER);
    mark(&world, MAX_MARKS + 1, long);
    refused(&acquire(&world, 1), OVER);
    refused(&acquire(&world, MAX_MARKS + 1), OVER);
    held(acquire(&world, MAX_MARKS));
    held(acquire(&world, 0));
}

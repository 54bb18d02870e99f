//! Cases: the promises of a check, a peek, a refund and a reset, on every strategy.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use std::time::Duration;

use tollgate::{Ask, Error, Limiter, Subject, Time, Verdict};

use super::StoreMaker;
use super::world::{SMALL, World, block_on, fields, set};
use crate::Random;

const NOW_US: u64 = 100_000_000;

/// Two limits, the second denies: the first is as it was. Over one subject and over two.
pub(super) fn a_check_is_all_or_nothing<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "9/10s via gcra, 2/10s via fixed_window", NOW_US);
    for granted in [1, 1, 0, 0] {
        assert_eq!(world.check("ann").granted(), granted);
    }
    let denied = world.check("ann");
    assert_eq!(fields(&denied, 0).remaining, 7, "the first limit was charged for a denial");
    assert_eq!(denied.binding().limit().strategy().name(), "fixed_window");

    let (shared, own) = (set("5/10s"), set("1/10s"));
    let both = || Ask::from([("resource:12", &shared), ("consumer:1", &own)]);
    assert!(world.check(both()).is_allowed());
    let before = world.inspect(Ask::new("resource:12").under(&shared));
    for _ in 0..9 {
        let denied = world.check(both());
        assert!(!denied.is_allowed());
        assert_eq!(fields(&denied, 0).remaining, 4);
    }
    assert_eq!(world.inspect(Ask::new("resource:12").under(&shared)), before);
    let other = Ask::from([("resource:12", &shared), ("consumer:2", &own)]);
    assert_eq!(fields(&world.check(other), 0).remaining, 3);
}

/// The contents of a store are the same before and after a denial and a peek.
pub(super) fn denials_and_peeks_change_nothing<M: StoreMaker>(maker: &M) {
    for limit in SMALL {
        let world = World::new(maker, limit, NOW_US);
        let capacity = world.limiter.limits().limits()[0].capacity();
        assert!(world.peek("ann").is_allowed(), "{limit}");
        assert_eq!(world.inspect("ann"), None, "{limit}: a peek made an entry");
        assert!(!world.check(Ask::new("ann").cost(capacity + 1)).is_allowed());
        assert_eq!(world.inspect("ann"), None, "{limit}: a denial made an entry");
        assert!(world.check(Ask::new("ann").cost(capacity)).is_allowed(), "{limit}");
        let before = world.inspect("ann");
        assert!(before.is_some(), "{limit}: nothing is held");
        let first = fields(&world.peek("ann"), 0);
        for cost in [1, capacity, capacity + 1] {
            for _ in 0..3 {
                assert!(!world.check(Ask::new("ann").cost(cost)).is_allowed(), "{limit}");
                assert!(!world.check(Ask::new("ann").cost(cost).partial()).is_allowed());
                assert!(!world.peek(Ask::new("ann").cost(cost)).is_allowed(), "{limit}");
                assert!(!world.peek(Ask::new("ann").cost(cost).partial()).is_allowed());
            }
        }
        assert_eq!(world.inspect("ann"), before, "{limit}");
        assert_eq!(fields(&world.peek("ann"), 0), first, "{limit}");
    }
}

/// Drives a subject to a random state in which `cost` is denied; the cost.
fn deny<S: tollgate::Store>(world: &World<S>, random: &mut Random) -> u64 {
    let capacity = world.limiter.limits().limits()[0].capacity();
    let period_us = world.limiter.limits().limits()[0].quota().period.as_micros();
    loop {
        world.at(world.now_us() + random.below(period_us / capacity + 2));
        let cost = 1 + random.below(capacity);
        let decision = world.check(Ask::new("ann").cost(cost));
        if !decision.is_allowed() && random.below(3) == 0 {
            return cost;
        }
    }
}

/// Waiting as long as a denial says is enough, a microsecond less is not.
pub(super) fn retry_after_is_exact_both_ways<M: StoreMaker>(maker: &M) {
    for (seed, limit) in (0_u64..).zip(SMALL) {
        let world = World::new(maker, limit, NOW_US);
        let mut random = Random::new(seed);
        for _ in 0..12 {
            let cost = deny(&world, &mut random);
            let ask = || Ask::new("ann").cost(cost);
            let start_us = world.now_us();
            let Verdict::NotYet(wait) = world.check(ask()).verdict() else {
                panic!("{limit}: the second denial of {cost} was none");
            };
            let wait_us = u64::try_from(wait.as_micros()).unwrap();
            assert!(wait_us > 0, "{limit}");
            world.at(start_us + wait_us - 1);
            assert!(!world.peek(ask()).is_allowed(), "{limit} {cost}: a microsecond too early");
            world.at(start_us + wait_us);
            assert!(world.check(ask()).is_allowed(), "{limit} {cost}: the wait was not enough");
        }
    }
}

/// A cost of the remaining units is admitted, one more is not, and after it nothing remains.
pub(super) fn remaining_is_exact<M: StoreMaker>(maker: &M) {
    for (seed, limit) in (0_u64..).zip(SMALL) {
        let world = World::new(maker, limit, NOW_US);
        let capacity = world.limiter.limits().limits()[0].capacity();
        let period_us = world.limiter.limits().limits()[0].quota().period.as_micros();
        let mut random = Random::new(seed + 77);
        for _ in 0..40 {
            world.at(world.now_us() + random.below(period_us));
            let _ = world.check(Ask::new("ann").cost(1 + random.below(capacity)));
            let remaining = world.peek("ann").remaining();
            assert!(remaining <= capacity, "{limit}");
            assert!(!world.peek(Ask::new("ann").cost(remaining + 1)).is_allowed(), "{limit}");
            if remaining > 0 && random.below(2) == 0 {
                let all = world.check(Ask::new("ann").cost(remaining));
                assert!(all.is_allowed(), "{limit}: {remaining} remained");
                assert_eq!(all.remaining(), 0, "{limit}");
            }
        }
    }
}

/// The second refund of a receipt gives nothing and reports that, whatever happened between.
pub(super) fn a_refund_happens_once<M: StoreMaker>(maker: &M) {
    for limit in SMALL {
        let world = World::new(maker, limit, NOW_US);
        let receipt = world.check("ann").receipt().expect("admitted");
        assert_eq!(receipt.units(), 1);
        let first = world.refund(&receipt);
        assert_eq!((first.already, first.given), (false, vec![1]), "{limit}");
        let capacity = world.limiter.limits().limits()[0].capacity();
        assert!(world.check(Ask::new("ann").cost(capacity)).is_allowed(), "{limit}");
        let before = world.inspect("ann");
        let again = world.refund(&receipt);
        assert_eq!((again.already, again.given), (true, vec![0]), "{limit}");
        assert_eq!(world.inspect("ann"), before, "{limit}: a second refund changed the state");
    }
    // A check over two subjects gives back to both.
    let world = World::new(maker, "5/10s", NOW_US);
    let receipt = world.check(Ask::new("ann").and("bob").cost(2)).receipt().expect("admitted");
    assert_eq!(world.refund(&receipt).given, [2, 2]);
    assert_eq!(world.refund(&receipt).given, [0, 0]);
    assert_eq!((world.peek("ann").remaining(), world.peek("bob").remaining()), (5, 5));
}

/// Parts of a charge give back together its cost, and no more; units that came back by themselves
/// are those that are refunded last.
pub(super) fn a_refund_in_parts_never_gives_more_than_the_charge<M: StoreMaker>(maker: &M) {
    for (limit, later_us, rest) in [
        ("10/10s via gcra", 2_000_000, 4),
        ("10/10s via token_bucket", 2_000_000, 4),
        ("10/10s refill interval via token_bucket", 0, 6),
        ("10/10s via fixed_window", 0, 6),
        ("10/10s anchor first-hit via fixed_window", 2_000_000, 6),
        ("10/10s via sliding_log", 2_000_000, 6),
        ("10/10s precision 1s via sliding_window", 2_000_000, 6),
    ] {
        let world = World::new(maker, limit, NOW_US);
        let receipt = world.check(Ask::new("ann").cost(9)).receipt().expect("admitted");
        let first = world.refund_part(&receipt, 3);
        assert_eq!(
            (first.already, &first.given[..], first.left),
            (false, &[3][..], 6.into()),
            "{limit}"
        );
        assert_eq!(world.peek("ann").remaining(), 4, "{limit}");
        world.at(NOW_US + later_us);
        // More than is left: the rest.
        let second = world.refund_part(&receipt, 8);
        assert_eq!((second.already, second.left), (false, 0.into()), "{limit}");
        assert_eq!(second.given, [rest], "{limit}");
        assert_eq!(world.peek("ann").remaining(), 10, "{limit}");
        assert!(world.check(Ask::new("ann").cost(10)).is_allowed(), "{limit}");
        for again in [world.refund_part(&receipt, 1), world.refund(&receipt)] {
            assert_eq!((again.already, &again.given[..], again.left), (true, &[0][..], 0.into()));
        }
        assert_eq!(world.peek("ann").remaining(), 0, "{limit}");
        // A whole refund after a part gives the rest.
        let receipt = world.check(Ask::new("bob").cost(9)).receipt().expect("admitted");
        assert_eq!(world.refund_part(&receipt, 8).given, [8], "{limit}");
        assert_eq!(world.refund(&receipt).given, [1], "{limit}");
        for units in [0, 10] {
            let error = block_on(world.limiter.refund(receipt.part(units))).expect_err("refused");
            assert!(error.to_string().contains("give 1 to 9"), "{error}");
        }
    }
}

/// Nothing is given back of a charge that no longer counts, and never a newer one in its place.
pub(super) fn a_refund_gives_only_what_still_counts<M: StoreMaker>(maker: &M) {
    for (limit, period_us) in [
        ("10/10s via gcra", 10_000_000),
        ("10/10s via fixed_window", 10_000_000),
        ("10/10s anchor first-hit via fixed_window", 10_000_000),
        ("10/10s via sliding_log", 10_000_000),
        ("10/10s precision 1s via sliding_window", 11_000_000),
        ("10/10s refill interval via token_bucket", 10_000_000),
    ] {
        let world = World::new(maker, limit, NOW_US);
        let receipt = world.check(Ask::new("ann").cost(10)).receipt().expect("admitted");
        world.at(NOW_US + period_us);
        assert!(world.check(Ask::new("ann").cost(10)).is_allowed(), "{limit}");
        assert_eq!(world.refund(&receipt).given, [0], "{limit}");
        assert!(!world.check("ann").is_allowed(), "{limit}: a newer charge was given back");
    }
}

/// A refund and an adjustment leave what is free by itself as it is: it forgets its times no
/// sooner, and under a clock that is behind by less than a second nobody is admitted twice.
pub(super) fn what_is_free_by_itself_is_not_forgotten_sooner<M: StoreMaker>(maker: &M) {
    for (limit, until_us) in [
        ("5/10s via gcra", 10_000_000),
        ("5/10s via fixed_window", 10_000_000),
        ("5/10s anchor first-hit via fixed_window", 10_000_000),
        ("5/10s via sliding_log", 10_000_000),
        ("5/10s precision 1s via sliding_window", 11_000_000),
        ("5/10s refill interval via token_bucket", 10_000_000),
    ] {
        for by in 0..3 {
            let world = World::new(maker, limit, NOW_US - NOW_US % 10_000_000);
            let start_us = world.now_us();
            let receipt = world.check(Ask::new("ann").cost(5)).receipt().expect("admitted");
            world.at(start_us + until_us);
            assert_eq!(world.peek("ann").reset_after(), Duration::ZERO, "{limit}");
            match by {
                0 => {}
                1 => assert_eq!(world.refund(&receipt).given, [0], "{limit}"),
                _ => assert_eq!(world.adjust("ann", 5), [0], "{limit}"),
            }
            world.at(start_us + until_us - 500_000);
            assert!(!world.check(Ask::new("ann").cost(5)).is_allowed(), "{limit}, by {by}");
        }
    }
}

/// A receipt is good for the store that wrote it.
pub(super) fn receipts_of_another_store_are_refused<M: StoreMaker>(maker: &M) {
    let (here, there) = (World::new(maker, "5/10s", NOW_US), World::new(maker, "5/10s", NOW_US));
    let _ = here.check(Ask::new("ann").cost(5));
    let receipt = there.check("ann").receipt().expect("admitted");
    let error = block_on(here.limiter.refund(&receipt)).expect_err("another store's receipt");
    assert!(matches!(error, Error::Ask(_)), "{error}");
    assert!(error.to_string().contains("another store"), "{error}");
    assert_eq!(here.peek("ann").remaining(), 0);
}

/// A reset forgets one subject under one set, and says whether there was anything.
pub(super) fn a_reset_forgets_one_count_and_no_other<M: StoreMaker>(maker: &M) {
    for limit in SMALL {
        let world = World::new(maker, limit, NOW_US);
        let other = set("other: 3/10s via fixed_window");
        // Wildcards are nothing but letters.
        for subject in ["ann", "a%", "a*", "*", "an?"] {
            assert!(world.check(subject).is_allowed(), "{limit} {subject}");
        }
        assert!(world.check(Ask::new("*").under(&other)).is_allowed());
        let before = world.inspect("ann");
        assert!(world.reset("*"), "{limit}");
        assert!(!world.reset("*"), "{limit}");
        assert_eq!(world.inspect("*"), None, "{limit}");
        assert!(world.peek("*").is_allowed(), "{limit}");
        assert_eq!(world.inspect("ann"), before, "{limit}");
        for subject in ["ann", "a%", "a*", "an?"] {
            assert!(world.inspect(subject).is_some(), "{limit}: {subject} was forgotten");
        }
        assert_eq!(world.peek(Ask::new("*").under(&other)).remaining(), 2, "{limit}");
    }
}

/// An adjustment never goes past a fresh subject, nor below nothing.
pub(super) fn an_adjustment_stays_within_the_limit<M: StoreMaker>(maker: &M) {
    for limit in SMALL {
        let world = World::new(maker, limit, NOW_US);
        let capacity = world.limiter.limits().limits()[0].capacity();
        let most = i64::try_from(capacity).unwrap();
        assert_eq!(world.adjust("ann", 5), [0], "{limit}: more than fresh");
        assert_eq!(world.adjust("ann", -(1 << 40)), [-most], "{limit}");
        assert_eq!(world.peek("ann").remaining(), 0, "{limit}");
        assert_eq!(world.adjust("ann", -1), [0], "{limit}");
        assert_eq!(world.adjust("ann", 1), [1], "{limit}");
        assert_eq!(world.peek("ann").remaining(), 1, "{limit}");
        assert_eq!(world.adjust("ann", 1 << 40), [most - 1], "{limit}");
        assert_eq!(world.peek("ann").remaining(), capacity, "{limit}");
        assert_eq!(world.peek("ann").reset_after(), Duration::ZERO, "{limit}");
    }
}

/// Subjects that look similar are different, and long ones are kept whole.
pub(super) fn subjects_are_told_apart_byte_by_byte<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "1/10s via fixed_window", NOW_US);
    let long = "x".repeat(60_000);
    let mut subjects: Vec<Subject> = Vec::new();
    for value in ["a", "A", "a ", " a", "a%", "a%20", "a,b", "a:b", "\0", "{a}", "é", "e\u{301}"] {
        subjects.push(Subject::new("user", value).unwrap());
    }
    subjects.push(Subject::new("users", "a").unwrap());
    subjects.push(Subject::new("user", format!("{long}1")).unwrap());
    subjects.push(Subject::new("user", format!("{long}2")).unwrap());
    subjects.push(Subject::new("user", "exactly16bytes!").unwrap());
    subjects.push(Subject::new("user", "exactly16bytes!!").unwrap());
    subjects.push(Subject::parse("user:a,route:b").unwrap());
    subjects.push(Subject::parse("user:b,route:a").unwrap());
    for subject in &subjects {
        assert!(world.check(subject).is_allowed(), "{subject} shares a count");
    }
    for subject in &subjects {
        assert!(!world.check(subject).is_allowed(), "{subject} was forgotten");
    }
}

/// A cost above the capacity is *never*, has no wait, and leaves the rest to others.
pub(super) fn impossible_costs_are_never_and_change_nothing<M: StoreMaker>(maker: &M) {
    for limit in SMALL {
        let world = World::new(maker, limit, NOW_US);
        let capacity = world.limiter.limits().limits()[0].capacity();
        for cost in [capacity + 1, 1 << 40] {
            let decision = world.check(Ask::new("ann").cost(cost));
            assert_eq!(decision.verdict(), Verdict::Never, "{limit} {cost}");
            assert_eq!(decision.retry_after(), None, "{limit} {cost}");
            assert_eq!(decision.remaining(), capacity, "{limit} {cost}");
            assert_eq!(decision.receipt(), None, "{limit} {cost}");
        }
        assert!(world.check(Ask::new("ann").cost(capacity)).is_allowed(), "{limit}");
    }
    // The end of time and its beginning are times like others.
    for now in [Time::default(), Time::MAX] {
        for limit in SMALL {
            let world = World::new(maker, limit, now.as_micros());
            let limiter: &Limiter<_> = &world.limiter;
            let capacity = limiter.limits().limits()[0].capacity();
            assert!(world.check(Ask::new("ann").cost(capacity)).is_allowed(), "{limit} {now:?}");
            assert!(!world.check("ann").is_allowed(), "{limit} {now:?}");
        }
    }
}

/// A subject that every check shares keeps its count while new subjects come in beside it.
pub(super) fn a_shared_subject_keeps_its_count_while_others_come_in<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "1/s via gcra", NOW_US);
    let own = set("own: 3/1h via gcra");
    for shared in ["r: 5000/1h via gcra", "r: 5000/1h via sliding_log"] {
        let shared = set(shared);
        for i in 1..=2_000 {
            let consumer = format!("consumer:{i}");
            let ask = Ask::from(vec![("resource:12", &shared), (consumer.as_str(), &own)]);
            let decision = world.check(ask);
            assert!(decision.is_allowed() || decision.binding().limit().name() == Some("own"));
        }
        // Each consumer was there once with each of the two limits: all were admitted.
        let left = world.peek(Ask::new("resource:12").under(&shared)).remaining();
        assert_eq!(left, 3_000, "{shared}");
        world.reset(Ask::new("resource:12").under(&shared));
    }
}

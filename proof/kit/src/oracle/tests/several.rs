//! Several limits in one check, by hand.

use super::*;
use crate::oracle::{AskError, MultiOracle};

/// A resource of 5/10s shared by consumers of 3/10s each: consumer 1 asks every second, 25 times,
/// consumer 2 every two seconds, 10 times, from 0.5 s.
#[test]
fn a_resource_and_its_consumers() {
    let log = |n| Rule::Log { n, d_us: 10 * S };
    let mut limits = MultiOracle::new(&[log(5), log(3)]).unwrap();
    let one = (0..25).map(|i| (i * S, "consumer:1"));
    let two = (0..10).map(|i| (500 * MS + i * 2 * S, "consumer:2"));
    let mut asks: Vec<_> = one.chain(two).collect();
    asks.sort_unstable();
    let mut admitted = [0, 0];
    for (now, consumer) in asks {
        let answer = limits.check(now, &[("resource:12", 0), (consumer, 1)], 1).unwrap();
        admitted[usize::from(consumer == "consumer:2")] += u32::from(answer.admitted);
    }
    assert_eq!(admitted, [9, 4]);
}

#[test]
fn a_denial_charges_nothing_and_names_the_longest_wait() {
    let rules = [Rule::Log { n: 5, d_us: 10 * S }, Rule::FixedEpoch { n: 3, d_us: 60 * S }];
    let mut limits = MultiOracle::new(&rules).unwrap();
    let both = [("a", 0), ("a", 1)];
    let answer = limits.check(0, &both, 3).unwrap();
    assert_eq!(answer.each, [allow(3, 2, 10 * S).fields, allow(3, 0, 60 * S).fields]);
    assert_eq!((answer.granted, answer.binding, answer.limit), (3, 1, 3));
    assert_eq!(answer.summary, allow(3, 0, 60 * S).fields);

    // The log would admit: it waits for nothing and keeps its 2.
    let answer = limits.check(S, &both, 2).unwrap();
    assert_eq!(answer.each, [allow(2, 2, 9 * S).fields, not_yet(0, 59 * S, 59 * S).fields]);
    assert_eq!(answer.summary, not_yet(0, 59 * S, 59 * S).fields);
    assert!(!answer.admitted);
    assert_eq!(limits.check(S, &[("a", 0)], 2).unwrap().summary.remaining, 0);

    // Never wins over any wait, and the least remaining is of all limits, not of the binding one.
    let answer = limits.check(S, &both, 4).unwrap();
    assert_eq!(answer.each, [not_yet(0, 10 * S, 10 * S).fields, never(0, 59 * S).fields]);
    assert_eq!((answer.binding, answer.summary), (1, never(0, 59 * S).fields));
    let answer = limits.peek(S, &both, 6).unwrap();
    assert_eq!((answer.binding, answer.limit), (0, 5)); // both never: the first declared
}

#[test]
fn ties_go_to_the_first_declared() {
    let rules = [Rule::Log { n: 3, d_us: 10 * S }, Rule::Greedy { n: 3, d_us: 30 * S, burst: 3 }];
    for (first, second) in [(0, 1), (1, 0)] {
        let mut limits = MultiOracle::new(&rules).unwrap();
        let both = [("a", first), ("a", second)];
        let answer = limits.check(0, &both, 3).unwrap();
        assert_eq!((answer.binding, answer.summary), (0, answer.each[0]));
        let answer = limits.check(0, &both, 1).unwrap(); // both wait 10 s
        assert_eq!((answer.binding, answer.summary), (0, answer.each[0]));
    }
}

#[test]
fn partial_takes_the_least_remaining() {
    let rules = [Rule::Log { n: 5, d_us: 10 * S }, Rule::Greedy { n: 1, d_us: S, burst: 3 }];
    let mut limits = MultiOracle::new(&rules).unwrap();
    let both = [("a", 0), ("a", 1)];
    let answer = limits.partial(0, &both, 9).unwrap();
    assert_eq!((answer.granted, answer.summary.remaining, answer.binding), (3, 0, 1));
    let answer = limits.partial(0, &both, 9).unwrap();
    assert_eq!((answer.granted, answer.summary), (0, not_yet(0, S, 3 * S).fields));
    assert_eq!(limits.partial(0, &both, 0), limits.peek(0, &both, 0));
    assert_eq!(limits.check(0, &both, 0), limits.peek(0, &both, 0));
}

/// A denial keeps the repair of each limit, also of one that would admit.
#[test]
fn a_denial_keeps_every_repair() {
    let log = Rule::Log { n: 2, d_us: 10 * S };
    let mut limits = MultiOracle::new(&[log]).unwrap();
    let both = [("a", 0), ("b", 0)];
    limits.check(3_600 * S, &both, 1).unwrap();
    limits.check(3_600 * S, &[("a", 0)], 1).unwrap();
    let peeked = limits.clone();
    let answer = limits.peek(50 * S, &both, 1).unwrap();
    assert_eq!(limits, peeked);
    assert_eq!(limits.check(50 * S, &both, 1).unwrap(), answer);
    assert_eq!(answer.each, [not_yet(0, 10 * S, 10 * S).fields, allow(1, 1, 10 * S).fields]);
    assert_eq!(limits.check(60 * S, &both, 2).unwrap().granted, 2);
}

#[test]
fn bad_questions_are_refused() {
    let mut limits = MultiOracle::new(&[Rule::Log { n: 2, d_us: S }]).unwrap();
    assert_eq!(limits.check(0, &[], 1), Err(AskError::Empty));
    assert_eq!(limits.check(0, &[("a", 1)], 1), Err(AskError::UnknownRule(1)));
    let twice = limits.check(0, &[("a", 0), ("a", 0)], 1);
    assert_eq!(twice, Err(AskError::Twice("a".to_owned(), 0)));
    assert!(limits.subject("a", 0).is_none());
    limits.check(0, &[("a", 0)], 2).unwrap();
    assert_eq!(limits.subject("a", 0).unwrap().refund(0, 0, 2), 2);
    assert!(MultiOracle::new(&[Rule::Log { n: 0, d_us: S }]).is_err());
}

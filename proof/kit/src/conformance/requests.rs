//! Cases: one request is charged once, however often it is asked (definitions, section 2).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate::engine::{MAX_REPEATS, MAX_REQUESTS};
use tollgate::{Ask, Receipt, RequestId, Store as _};

use super::world::{World, block_on, fields, set};
use super::{StoreMaker, some};
use crate::Random;
use crate::oracle::Fields;

const NOW_US: u64 = 100_000_000;

const S: u64 = 1_000_000;

/// An answer under one id.
#[derive(Clone, PartialEq, Debug)]
struct Said {
    granted: u64,
    fields: Vec<Fields>,
    at_us: u64,
    receipt: Option<Receipt>,
}

/// The knowledge of one id.
struct KnownId {
    until_us: u64,
    repeats: u64,
    said: Said,
}

fn ask<'a>(subject: &'a str, id: &'a str, for_us: u64) -> Ask<'a> {
    Ask::new(subject).request(RequestId::new(id).remembered(Duration::from_micros(for_us)))
}

/// The answer, and whether it was a repeated one.
fn answer_of<M: StoreMaker>(world: &World<M::Store>, ask: Ask<'_>) -> (Said, bool) {
    let limits = ask.parts().filter_map(|(_, limits)| limits).map(|set| set.limits().len());
    let limits = limits.sum::<usize>().max(world.limiter.limits().limits().len());
    let decision = world.check(ask);
    let said = Said {
        granted: decision.granted(),
        fields: (0..limits).map(|index| fields(&decision, index)).collect(),
        at_us: decision.at().as_micros(),
        receipt: decision.receipt(),
    };
    (said, decision.is_repeated())
}

/// A request is charged once: later it gets the same answer, marked, with the same receipt,
/// whatever happens to the count meanwhile. One receipt is refunded once.
pub(super) fn a_repeated_request_is_charged_once<M: StoreMaker>(maker: &M) {
    for limits in [
        "9/1h via gcra",
        "9/1h via sliding_log",
        "a: 9/1h via fixed_window, b: 20/1h via gcra, c: 30/1h via sliding_log",
    ] {
        let world = World::new(maker, limits, NOW_US);
        let all = world.limiter.limits().clone();
        let again = || ask("ann", "a", 30 * S).cost(3).under(&all);
        let (first, is_repeated) = answer_of::<M>(&world, again());
        assert!(!is_repeated && first.granted == 3, "{limits}: {first:?}");
        let left = world.peek("ann").remaining();
        for second in [0, 1, 10, 29] {
            world.at(NOW_US + second * S);
            assert_eq!(
                answer_of::<M>(&world, again()),
                (first.clone(), true),
                "{limits}, {second} s"
            );
            assert!(world.check(Ask::new("bob").under(&all)).is_allowed(), "{limits}");
        }
        assert!(world.peek("ann").remaining() >= left, "{limits}");
        // An id belongs to one count, and a peek neither uses nor takes one.
        assert!(
            !world.check(ask("bob", "a", 30 * S).cost(3).under(&all)).is_repeated(),
            "{limits}"
        );
        assert!(!world.peek(again()).is_repeated(), "{limits}");
        let receipt = first.receipt.unwrap();
        assert_eq!(world.refund(&receipt).left, 0, "{limits}");
        let (_, is_repeated) = answer_of::<M>(&world, again());
        assert!(is_repeated && world.refund(&receipt).already, "{limits}");
        // A reset forgets the ids of the count.
        let _ = world.reset(Ask::new("ann").under(&all));
        assert!(!world.check(again()).is_repeated(), "{limits}");
    }
}

/// A denial is judged again.
pub(super) fn a_denial_is_not_remembered<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "1/10s via gcra", NOW_US);
    assert!(world.check("ann").is_allowed());
    for second in [0, 9] {
        world.at(NOW_US + second * S);
        let (denial, is_repeated) = answer_of::<M>(&world, ask("ann", "a", 30 * S));
        assert_eq!((denial.granted, is_repeated), (0, false));
    }
    world.at(NOW_US + 10 * S);
    let (admitted, is_repeated) = answer_of::<M>(&world, ask("ann", "a", 30 * S));
    assert_eq!((admitted.granted, is_repeated), (1, false));
    assert_eq!(answer_of::<M>(&world, ask("ann", "a", 30 * S)), (admitted, true));
}

/// An id that is used for another question is an error, which charges nothing.
pub(super) fn a_request_id_is_of_one_question<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "a: 9/1h via gcra", NOW_US);
    let (other, more) = (set("a: 8/1h via gcra"), set("b: 9/1h via gcra"));
    assert!(world.check(ask("ann", "an id of ann", 30 * S)).is_allowed());
    for (what, asked) in [
        ("another cost", ask("ann", "an id of ann", 30 * S).cost(2)),
        ("a part of it", ask("ann", "an id of ann", 30 * S).partial()),
        ("other numbers", ask("ann", "an id of ann", 30 * S).under(&other)),
        ("another subject beside", ask("ann", "an id of ann", 30 * S).and("bob")),
        ("other limits beside", ask("ann", "an id of ann", 30 * S).and_under("ann", &more)),
    ] {
        let error = block_on(world.limiter.check(asked)).expect_err(what).to_string();
        assert!(error.contains("used for another question"), "{what}: {error}");
        assert!(!error.contains("ann"), "{what}: {error}");
    }
    assert_eq!(world.peek("ann").remaining(), 8);
    assert_eq!(world.peek("bob").remaining(), 9);
    // Nor is it remembered of a hold, or without an id of the right length.
    for (id, says) in [("", "1 to 256 bytes"), (&"x".repeat(257), "1 to 256 bytes")] {
        let error = block_on(world.limiter.check(ask("ann", id, 30 * S))).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    for id in ["x", &"x".repeat(256), "ä\u{0} {}*?"] {
        assert!(!world.check(ask("cid", id, 30 * S)).is_repeated());
        assert!(world.check(ask("cid", id, 30 * S)).is_repeated());
    }
    let hold = block_on(world.limiter.hold(ask("ann", "an id of ann", 30 * S).acquire()));
    let error = hold.unwrap_err().to_string();
    assert!(error.contains("under a request id"), "{error}");
}

/// Charges with an id and without one, in turns, are refunded each by itself.
pub(super) fn a_charge_under_an_id_has_a_different_receipt<M: StoreMaker>(maker: &M) {
    for limits in ["9/1h via gcra", "9/1h via fixed_window, b: 20/1h via gcra"] {
        let world = World::new(maker, limits, NOW_US);
        let ids = [None, None, Some("one"), None, Some("two"), Some("three"), None];
        let charged = ids.map(|id| {
            let ask = id.map_or_else(|| Ask::new("ann"), |id| ask("ann", id, S));
            world.check(ask).receipt().unwrap()
        });
        for receipt in &charged {
            let refund = block_on(world.limiter.refund(receipt)).unwrap();
            assert!(!refund.already && refund.given.iter().all(|given| *given == 1), "{limits}");
        }
        assert_eq!(world.peek(Ask::new("ann")).remaining(), 9, "{limits}");
    }
}

/// An id that is given to all requests is repeated a few times, and then charged as none would be,
/// for as long as it is asked for: a limit admits no more than those repeats beyond its units.
pub(super) fn an_id_for_all_requests_is_charged<M: StoreMaker>(maker: &M) {
    for limits in [
        "3/1h via gcra",
        "3/1h via sliding_log",
        "a: 3/1h via fixed_window, b: 20/1h via gcra, c: 30/1h via sliding_log",
    ] {
        let world = World::new(maker, limits, NOW_US);
        let asked = || ask("ann", "a constant", 30 * S);
        let (first, _) = answer_of::<M>(&world, asked());
        for number in 1..=MAX_REPEATS {
            world.at(NOW_US + number * S);
            assert_eq!(
                answer_of::<M>(&world, asked()),
                (first.clone(), true),
                "{limits}, {number}"
            );
        }
        // Each is a separate event, with a separate receipt.
        for remaining in [1, 0] {
            let decision = world.check(asked());
            assert!(decision.is_allowed() && decision.is_id_overused(), "{limits}");
            assert_eq!((decision.remaining(), decision.is_repeated()), (remaining, false));
            assert_ne!(decision.receipt(), first.receipt, "{limits}");
        }
        // A denial keeps it as well, so that it is not new when units come back.
        for second in [45, 74, 103, 132] {
            world.at(NOW_US + second * S);
            let decision = world.check(asked());
            assert!(!decision.is_allowed() && decision.is_id_overused(), "{limits}, {second} s");
        }
        let refunded = world.refund(&first.receipt.unwrap());
        assert_eq!(refunded.left, 0, "{limits}");
        let decision = world.check(asked());
        assert!(decision.is_allowed() && decision.is_id_overused(), "{limits}");
        // It is of its question still, and other ids are as before.
        let error = block_on(world.limiter.check(asked().cost(2))).unwrap_err().to_string();
        assert!(error.contains("used for another question"), "{limits}: {error}");
        let other = || ask("bob", "another id", 30 * S);
        assert!(!world.check(other()).is_repeated(), "{limits}");
        assert!(world.check(other()).is_repeated(), "{limits}");
        // An id that nobody has used for so long is forgotten.
        world.at(NOW_US + 162 * S);
        let decision = world.check(asked());
        assert!(!decision.is_repeated() && !decision.is_id_overused(), "{limits}");
    }
}

/// Ids, times and counts at random, beside a map that forgets each id at its time.
pub(super) fn requests_equal_a_map_of_answers<M: StoreMaker>(maker: &M) {
    for number in some(maker, 12) {
        let mut random = Random::new(number);
        let limits = ["5/20s via gcra", "a: 7/10s via sliding_log, b: 9/30s via fixed_window"];
        let world = World::new(maker, limits[random.place(2)], NOW_US);
        let is_crowded = random.below(2) == 0;
        let (mut now_us, mut map) = (NOW_US, BTreeMap::<(u64, u64), KnownId>::new());
        for step in 0..150 {
            now_us += random.below(if is_crowded { S / 4 } else { 3 * S });
            world.at(now_us);
            let (subject, id) = (random.below(2), random.below(if is_crowded { 2 } else { 12 }));
            let for_us = 1_000 * (1 + random.below(20_000));
            let (name, text) = (format!("user:{subject}"), format!("request {id}"));
            let (answer, is_repeated) = answer_of::<M>(&world, ask(&name, &text, for_us));
            let known = map.get_mut(&(subject, id)).filter(|known| known.until_us > now_us);
            match known {
                Some(known) if known.repeats < MAX_REPEATS => {
                    known.repeats += 1;
                    assert_eq!((&answer, is_repeated), (&known.said, true), "{number}, {step}");
                }
                known => {
                    assert!(!is_repeated, "{number}, {step}");
                    assert_eq!(answer.at_us, now_us, "{number}, {step}");
                    let until_us = now_us + for_us;
                    if let Some(known) = known {
                        known.until_us = known.until_us.max(until_us);
                    } else if answer.granted > 0 {
                        let known = KnownId { until_us, repeats: 0, said: answer };
                        map.insert((subject, id), known);
                    }
                }
            }
            if random.below(20) == 0 {
                maker.forget(world.limiter.store());
            }
        }
    }
}

/// A count remembers its last ids and forgets the oldest, however many there are, and says how many
/// it has forgotten before their time.
pub(super) fn a_count_remembers_its_last_requests<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "1000000/1h via fixed_window", NOW_US);
    let (most, least) = (MAX_REQUESTS, MAX_REQUESTS / 2);
    let name = |number: usize| format!("request {number}");
    for number in 0..=most {
        assert!(!world.check(ask("all", &name(number), 60 * S)).is_repeated(), "{number}");
    }
    let store = world.limiter.store();
    let forgotten = store.facts().forgotten_requests;
    assert!((1..=least as u64).contains(&forgotten), "{forgotten}");
    for number in (most - least + 1..=most).step_by(97) {
        assert!(world.check(ask("all", &name(number), 60 * S)).is_repeated(), "{number}");
    }
    assert!(!world.check(ask("all", &name(0), 60 * S)).is_repeated());
    // An id that has expired does not count as forgotten early.
    world.at(NOW_US + 60 * S);
    let before = store.facts().forgotten_requests;
    for number in 0..100 {
        let later = format!("later {number}");
        assert!(!world.check(ask("all", &later, 60 * S)).is_repeated());
    }
    assert_eq!(store.facts().forgotten_requests, before);
}

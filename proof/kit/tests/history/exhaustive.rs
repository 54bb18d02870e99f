//! Tiny random histories without the store's time, beside a search over every order and every
//! microsecond that is written with the public oracle alone.

use tollgate::LimitSet;
use tollgate_proof::conformance::rule_of;
use tollgate_proof::history::{
    Bounds, Call, CallOutcome, History, Promise, RecordedCount, Verdict, check,
};
use tollgate_proof::oracle::MultiOracle;

use tollgate_proof::Random;

const LIMITS: [&str; 9] = [
    "2/10us via gcra",
    "3/7us burst 2 via gcra",
    "2/6us refill interval via token_bucket",
    "2/8us via fixed_window",
    "2/8us anchor first-hit via fixed_window",
    "2/7us via sliding_log",
    "2/6us precision 2us via sliding_window",
    "3/6us precision 3us rounding interpolate via sliding_window",
    "2/9us via gcra, 3/20us via fixed_window",
];

/// Whether some order and some times explain the answers that are left.
fn explained(oracle: &MultiOracle, rules: &[(&str, usize)], left: &[&Call], from_us: u64) -> bool {
    if left.iter().all(|call| call.outcome == CallOutcome::Unknown) {
        return true;
    }
    let last_us = left.iter().filter_map(|call| call.returned_us).max().unwrap();
    for (position, call) in left.iter().enumerate() {
        let answered = |other: &&&Call| other.outcome != CallOutcome::Unknown;
        let blocked =
            left.iter().filter(answered).any(|other| other.returned_us.unwrap() < call.invoked_us);
        if blocked {
            continue;
        }
        let mut others = left.to_vec();
        others.remove(position);
        // A call without an answer may be carried out at any later time.
        let end_us =
            if call.outcome == CallOutcome::Unknown { last_us } else { call.returned_us.unwrap() };
        for now_us in call.invoked_us.max(from_us)..=end_us {
            let mut next = oracle.clone();
            let answer = next.check(now_us, rules, call.cost).unwrap();
            let summary = answer.summary;
            let fits = match call.outcome {
                CallOutcome::Allowed { remaining } => {
                    answer.admitted && remaining.is_none_or(|told| told == summary.remaining)
                }
                CallOutcome::Denied { retry_after_us, remaining } => {
                    !answer.admitted
                        && summary.retry_after_us.is_some()
                        && retry_after_us.is_none_or(|told| Some(told) == summary.retry_after_us)
                        && remaining.is_none_or(|told| told == summary.remaining)
                }
                CallOutcome::Never => !answer.admitted && summary.retry_after_us.is_none(),
                CallOutcome::Unknown => answer.admitted,
                CallOutcome::NotCharged => false,
            };
            if fits && explained(&next, rules, &others, now_us) {
                return true;
            }
        }
    }
    false
}

/// Answers that are mostly possible: a limiter decides in some order, and some answers are changed.
fn history(random: &mut Random, limits: &LimitSet, oracle: &mut MultiOracle) -> History {
    let rules: Vec<(&str, usize)> = (0..limits.limits().len()).map(|rule| ("ann", rule)).collect();
    let (mut calls, mut now_us) = (Vec::new(), 100);
    let mut busy_until = [0_u64; 3];
    for id in 0..2 + random.below(7) {
        now_us += random.below(4);
        let client = usize::try_from(random.below(3)).unwrap();
        // A client makes one call at a time.
        let invoked_us = (now_us - random.below(4)).max(busy_until[client]);
        now_us = now_us.max(invoked_us);
        let returned_us = now_us + random.below(4);
        busy_until[client] = returned_us + 1;
        let cost = 1 + random.below(2);
        let answer = oracle.check(now_us, &rules, cost).unwrap();
        let told = random.below(3) > 0;
        let remaining = told.then_some(answer.summary.remaining);
        let mut outcome = match (answer.admitted, answer.summary.retry_after_us) {
            (true, _) => CallOutcome::Allowed { remaining },
            (false, Some(wait_us)) => {
                let retry_after_us = (random.below(2) == 0).then_some(wait_us);
                CallOutcome::Denied { retry_after_us, remaining }
            }
            (false, None) => CallOutcome::Never,
        };
        match random.below(16) {
            0 => outcome = CallOutcome::Unknown,
            1 => outcome = CallOutcome::Allowed { remaining: None },
            2 => outcome = CallOutcome::Denied { retry_after_us: None, remaining: None },
            3 => outcome = CallOutcome::Allowed { remaining: Some(random.below(2)) },
            _ => {}
        }
        calls.push(Call {
            id,
            client: client.to_string(),
            invoked_us,
            returned_us: Some(returned_us),
            parts: vec![RecordedCount { subject: "ann".to_owned(), limits: limits.clone() }],
            cost,
            request: None,
            decided_us: None,
            outcome,
        });
    }
    History { calls, ..History::default() }
}

#[test]
fn verdicts_agree_with_a_search_over_every_order_and_time() {
    let (mut held, mut broken) = (0, 0);
    for seed in 0..3_000 {
        let mut random = Random::new(seed);
        let limits: LimitSet =
            LIMITS[usize::try_from(seed).unwrap() % LIMITS.len()].parse().unwrap();
        let rules: Vec<_> = limits.limits().iter().map(|limit| rule_of(limit).unwrap()).collect();
        let fresh = MultiOracle::new(&rules).unwrap();
        let history = history(&mut random, &limits, &mut fresh.clone());
        let names: Vec<(&str, usize)> = (0..rules.len()).map(|rule| ("ann", rule)).collect();
        let calls: Vec<&Call> = history.calls.iter().collect();
        let expected = match explained(&fresh, &names, &calls, 0) {
            true => Verdict::Held,
            false => Verdict::Broken,
        };
        let report = check(&history, &Bounds::default());
        let decided = calls.iter().any(|call| call.outcome.is_decision());
        if decided {
            assert_eq!(report.verdict(Promise::Exact), expected, "{seed}\n{history}{report}");
        }
        if expected == Verdict::Held {
            assert_ne!(report.verdict(Promise::Bound), Verdict::Broken, "{history}{report}");
            held += 1;
        } else {
            broken += 1;
        }
    }
    // Both must be common, or the comparison shows nothing.
    assert!(held > 500 && broken > 500, "{held} held, {broken} broken");
}

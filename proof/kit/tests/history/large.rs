//! A hundred thousand calls.

use std::time::Instant;

use tollgate::LimitSet;
use tollgate_proof::conformance::rule_of;
use tollgate_proof::history::{
    Bounds, Call, CallOutcome, History, Promise, RecordedCount, Verdict, check,
};
use tollgate_proof::oracle::MultiOracle;

use tollgate_proof::Random;

const CALLS: u64 = 100_000;

const LIMITS: [&str; 4] = [
    "100/1s via gcra",
    "50/1s via sliding_log",
    "200/2s precision 100ms via sliding_window, 1000/10s via fixed_window",
    "80/1s burst 30 refill interval via token_bucket",
];

/// The answers of a correct store to calls of eight clients over some subjects.
fn history(limits: &LimitSet, subjects: u64) -> History {
    let rules: Vec<_> = limits.limits().iter().map(|limit| rule_of(limit).unwrap()).collect();
    let mut oracle = MultiOracle::new(&rules).unwrap();
    let (mut random, mut now_us, mut calls) = (Random::new(7), 1_750_000_000_000_000, Vec::new());
    for id in 0..CALLS {
        now_us += random.below(600);
        let subject = format!("user:{}", random.below(subjects));
        let asked: Vec<(&str, usize)> =
            (0..rules.len()).map(|rule| (subject.as_str(), rule)).collect();
        let cost = 1 + random.below(3);
        let answer = oracle.check(now_us, &asked, cost).unwrap();
        let summary = answer.summary;
        let remaining = Some(summary.remaining);
        let outcome = match answer.admitted {
            true => CallOutcome::Allowed { remaining },
            false => CallOutcome::Denied { retry_after_us: summary.retry_after_us, remaining },
        };
        calls.push(Call {
            id,
            client: (id % 8).to_string(),
            invoked_us: now_us - random.below(500),
            returned_us: Some(now_us + random.below(500)),
            parts: vec![RecordedCount { subject, limits: limits.clone() }],
            cost,
            request: None,
            decided_us: Some(now_us),
            outcome,
        });
    }
    History { calls, ..History::default() }
}

#[test]
fn a_hundred_thousand_calls_are_checked() {
    for text in LIMITS {
        let limits: LimitSet = text.parse().unwrap();
        let mut history = history(&limits, 40);
        let denied = history.calls.iter().filter(|call| call.outcome.is_denial()).count();
        assert!(denied > 1_000, "{text}: {denied} denied");
        let started = Instant::now();
        let report = check(&history, &Bounds::default());
        println!("{text}: {CALLS} calls, {denied} denied, checked in {:?}", started.elapsed());
        for promise in [Promise::Bound, Promise::Exact, Promise::DenialsFree, Promise::ChargedOnce]
        {
            assert_eq!(report.verdict(promise), Verdict::Held, "{text}\n{report}");
        }

        // One answer of all that is one too high is found, and shown by calls of its subject.
        let mut later = history.calls.iter_mut().skip(10_000);
        let wrong = later.find(|call| call.outcome.is_allowed()).unwrap();
        let CallOutcome::Allowed { remaining: Some(told) } = &mut wrong.outcome else {
            panic!("told")
        };
        *told += 1;
        let id = wrong.id;
        let started = Instant::now();
        let report = check(&history, &Bounds::default());
        let shown = super::shown(&report, Promise::Exact);
        println!("  one wrong answer, shown by {}: {:?}", shown.len(), started.elapsed());
        assert!(shown.contains(&id) && shown.len() < 300, "{text}: {} shown", shown.len());
    }
}

/// All calls are of one count, and one in twenty has no answer. Such a call is late by a second at
/// most, or by any time.
#[test]
fn one_busy_count_with_calls_without_an_answer_is_checked() {
    let limits: LimitSet = "2500/1s via gcra".parse().unwrap();
    let mut history = history(&limits, 1);
    for call in history.calls.iter_mut().step_by(20) {
        (call.outcome, call.decided_us) = (CallOutcome::Unknown, None);
    }
    for late_us in [1_000_000, u64::MAX] {
        let started = Instant::now();
        let report = check(&history, &Bounds { late_us, ..Bounds::default() });
        println!("one count, late by {late_us}: {CALLS} calls checked in {:?}", started.elapsed());
        assert_eq!(report.broken(), [], "{report}");
        assert_eq!(report.verdict(Promise::Bound), Verdict::Held, "{report}");
    }
}

#[test]
fn the_text_form_is_read_as_it_was_written() {
    let mut history = history(&LIMITS[2].parse().unwrap(), 40);
    history.calls.truncate(500);
    history.calls[3].request = Some("a \"b\" \\ = #\n".to_owned());
    history.calls[4].outcome = CallOutcome::Unknown;
    history.calls[4].returned_us = None;
    let read: History = history.to_string().parse().unwrap();
    assert_eq!(read, history);
}

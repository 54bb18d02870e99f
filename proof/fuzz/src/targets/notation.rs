//! Limits, durations and subjects as people write them: a parsed one has a form that reads back.

use tollgate::{Limit, LimitSet, MAX_PERIOD_US, ParseError, Period, Strategy, Subject};

use super::text;

/// A set of limits, under every default strategy.
pub(crate) fn limit(data: &[u8]) {
    let text = text(data);
    limits(text.parse());
    for strategy in Strategy::RATES {
        limits(LimitSet::parse_with(text, *strategy));
    }
}

fn limits(parsed: Result<LimitSet, ParseError>) {
    match parsed {
        Ok(set) => {
            let again: LimitSet = set.to_string().parse().expect("a full form reads back");
            assert_eq!(again, set);
            assert_eq!(again.to_string(), set.to_string(), "there is one full form");
            assert!(again.counts_as(&set));
            assert_eq!(again.identity(), set.identity());
            for limit in set.limits() {
                let _ = limit.strategy().traits(limit.quota());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty() && !error.what().is_empty()),
    }
}

/// A duration, through a limit: within its range, and read back.
pub(crate) fn duration(data: &[u8]) {
    let text = text(data);
    // One word: the rest of a limit belongs to another target.
    if text.contains(char::is_whitespace) {
        return;
    }
    match format!("5/{text}").parse::<Limit>() {
        Ok(limit) => {
            let us = limit.quota().period.as_micros();
            assert!((1..=MAX_PERIOD_US).contains(&us));
            let written = limit.quota().period.to_string();
            let again: Limit = format!("5/{written}").parse().expect("a duration reads back");
            assert_eq!(again.quota().period, limit.quota().period);
            assert_eq!(Period::from_micros(us), Some(limit.quota().period));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A subject, written and literal: one form, and dimensions that build the same subject again.
pub(crate) fn subject(data: &[u8]) {
    let text = text(data);
    subject_of(Subject::parse(text));
    subject_of(Subject::literal(text));
    if let Ok(subject) = Subject::new("user", text) {
        let dimensions: Vec<_> = subject.dimensions().collect();
        assert_eq!(dimensions.len(), 1);
        assert_eq!(dimensions[0].0, "user");
        assert_eq!(&*dimensions[0].1, text.as_bytes());
    }
}

fn subject_of(parsed: Result<Subject, ParseError>) {
    match parsed {
        Ok(subject) => {
            let form = subject.as_str();
            assert!(form.bytes().all(|byte| matches!(byte, 0x21..=0x7e)));
            assert_eq!(Subject::parse(form), Ok(subject.clone()));
            let all: Vec<_> = subject.dimensions().collect();
            let pairs = all.iter().map(|(dimension, value)| (*dimension, &**value));
            assert_eq!(Subject::from_dimensions(pairs), Ok(subject.clone()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

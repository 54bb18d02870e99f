//! Limits, costs, durations and subjects as people write them: a parsed one has a form that reads
//! back.

use tollgate::{
    Calendar, Cost, Limit, LimitSet, MAX_COST, MAX_PERIOD_US, ParseError, Period, Strategy,
    Subject, Time,
};

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
                limit.quota().calendar.iter().for_each(calendar);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty() && !error.what().is_empty()),
    }
}

/// A calendar reads back, and a time is in a window that the next one follows.
fn calendar(calendar: &Calendar) {
    assert_eq!(calendar.to_string().parse().as_ref(), Ok(calendar));
    for at in [0, 1_729_990_800_000_000, 1_711_846_799_999_999].map(Time::from_micros) {
        let window = calendar.window(at);
        assert!(window.start <= at && at < window.end, "{calendar}: {window:?} at {at:?}");
        let next = calendar.window(window.end);
        assert_eq!(next.start, window.end, "{calendar} at {at:?}");
    }
}

/// A cost, asked and used: within its bounds, and one form that reads back.
pub(crate) fn cost(data: &[u8]) {
    let text = text(data);
    if let Ok(cost) = text.parse::<Cost>() {
        let mut amounts = cost.amounts().iter().map(|(_, amount)| amount);
        assert!(amounts.all(|amount| (1..=MAX_COST).contains(&amount)), "{cost}");
    }
    for parsed in [text.parse(), Cost::parse_used(text)] {
        match parsed {
            Ok(cost) => {
                let written = cost.to_string();
                assert_eq!(Cost::parse_used(&written).as_ref(), Ok(&cost));
                assert_eq!(Cost::parse_used(&written).map(|again| again.to_string()), Ok(written));
                let amounts = cost.amounts().iter().map(|(unit, amount)| (unit.name(), amount));
                assert_eq!(Cost::used(amounts), Ok(cost.clone()));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
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

//! Settings are read as they are written, and nothing else is.

use core::str::FromStr as _;
use core::time::Duration;

use tollgate::{Limit, LimitSet};

use super::*;

#[test]
fn settings_are_read_as_they_are_written() {
    let producer =
        ProducerSettings::new(7).counts(Counts::All).dedup_window(Duration::from_secs(1));
    let text = producer.to_text();
    assert_eq!(text, r#"{"bound":7,"all":true,"remember_us":1000000}"#);
    assert_eq!(ProducerSettings::parse(&text), Some(producer.clone()));
    let text = producer.per_client(3).to_text();
    assert_eq!(text, r#"{"bound":7,"all":true,"remember_us":1000000,"per_client":3}"#);
    let read = ProducerSettings::parse(&text).unwrap();
    assert_eq!(read.to_string(), "a bound of 7 (all), 3 of one client, ids remembered for 1s");
    assert_eq!(read.max_per_client(), Some(3));
    let rate: LimitSet = "3/5s via sliding_log, 9/m via gcra".parse().unwrap();
    let named = Limit::from_str("3/5s via sliding_log").unwrap().named("fast").unwrap();
    let named = LimitSet::new(vec![named]).unwrap().in_policy("mail").unwrap();
    for consumer in [
        ConsumerSettings::new(),
        ConsumerSettings::new()
            .visibility(Duration::from_millis(1))
            .deliveries(1)
            .keep_dead(0)
            .keep_done(7),
        ConsumerSettings::new().rate(rate),
        ConsumerSettings::new().rate(named),
    ] {
        assert_eq!(
            ConsumerSettings::parse(&consumer.to_text()).as_ref(),
            Some(&consumer),
            "{consumer}"
        );
    }
}

#[test]
fn a_rate_has_no_lease() {
    let rate: LimitSet = "100/s via gcra lease 5 for 10ms".parse().unwrap();
    let error = ConsumerSettings::new().rate(rate).check().unwrap_err().to_string();
    assert!(error.contains("`lease 5 for 10ms`"), "{error}");
}

#[test]
fn a_rate_is_of_requests() {
    let rate: LimitSet = "9/m via gcra, 5/m of tokens via gcra".parse().unwrap();
    let error = ConsumerSettings::new().rate(rate).check().unwrap_err().to_string();
    for says in ["`5/m of tokens burst 5 via gcra`", "a job is one request", "leave `of tokens`"] {
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn what_nobody_here_has_written_is_not_read() {
    for text in [
        "",
        "{}",
        r#"{"bound":0,"all":true,"remember_us":1}"#,
        r#"{"bound":1,"all":true,"remember_us":1,"more":2}"#,
        r#"{"bound": 1,"all":true,"remember_us":1}"#,
        r#"{"bound":1,"all":true,"remember_us":1,"per_client":0}"#,
        r#"{"bound":1,"all":true,"remember_us":1,"per_client":null}"#,
    ] {
        assert_eq!(ProducerSettings::parse(text), None, "{text}");
    }
    for text in [
        r#"{"visibility_us":1000,"deliveries":0,"keep_dead":1}"#,
        r#"{"visibility_us":1000,"deliveries":1,"keep_dead":1,"rate":{"limits":[["x",null]],"policy":null}}"#,
    ] {
        assert_eq!(ConsumerSettings::parse(text), None, "{text}");
    }
}

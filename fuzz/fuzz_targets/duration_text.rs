//! Durations from any text, through a limit: no panic, within their range, and read back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate::{Limit, MAX_PERIOD_US, Period};

fuzz_target!(|text: &str| {
    // A word of its own: what else a limit may hold is another target's.
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
});

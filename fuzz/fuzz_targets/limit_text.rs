//! Limits from any text: no panic, an error with a text, and a full form that reads back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate::{LimitSet, ParseError, Strategy};

fuzz_target!(|text: &str| {
    read(text.parse());
    for strategy in Strategy::ALL {
        read(LimitSet::parse_with(text, *strategy));
    }
});

fn read(parsed: Result<LimitSet, ParseError>) {
    match parsed {
        Ok(set) => {
            let again: LimitSet = set.to_string().parse().expect("a full form reads back");
            assert_eq!(again, set);
            assert!(again.counts_as(&set));
            assert_eq!(again.identity(), set.identity());
            for limit in set.limits() {
                let _ = limit.strategy().traits(limit.quota());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty() && !error.what().is_empty()),
    }
}

//! Subjects from any text, written and literal: no panic, one form, and dimensions that build
//! the same subject again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate::{ParseError, Subject};

fuzz_target!(|text: &str| {
    read(Subject::parse(text));
    read(Subject::literal(text));
    if let Ok(subject) = Subject::of("user", text) {
        let dimensions: Vec<_> = subject.dimensions().collect();
        assert_eq!(dimensions.len(), 1);
        assert_eq!(dimensions[0].0, "user");
        assert_eq!(&*dimensions[0].1, text.as_bytes());
    }
});

fn read(parsed: Result<Subject, ParseError>) {
    match parsed {
        Ok(subject) => {
            let form = subject.as_str();
            assert!(form.bytes().all(|byte| matches!(byte, 0x21..=0x7e)));
            assert_eq!(Subject::parse(form), Ok(subject.clone()));
            let all: Vec<_> = subject.dimensions().collect();
            let pairs = all.iter().map(|(dimension, value)| (*dimension, &**value));
            assert_eq!(Subject::of_all(pairs), Ok(subject.clone()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

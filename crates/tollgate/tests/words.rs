//! The words of the field find something: a search in the documentation goes by names and aliases.
#![allow(clippy::unwrap_used)] // tests may

use std::fs;
use std::path::Path;

/// Words that people look for who know other limiters.
const WORDS: [&str; 24] = [
    "rate limit",
    "rate limiter",
    "throttle",
    "quota",
    "token bucket",
    "leaky bucket",
    "gcra",
    "sliding window",
    "fixed window",
    "burst",
    "semaphore",
    "concurrency",
    "permit",
    "debounce",
    "backoff",
    "cooldown",
    "retry-after",
    "wait",
    "queue",
    "weight",
    "tokens",
    "key",
    "backend",
    "dry run",
];

/// The aliases, and the names of public items, in lower case.
fn found(folder: &Path, all: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found(&path, all);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        for attribute in text.split("#[doc(alias").skip(1) {
            let attribute = attribute.split(")]").next().unwrap();
            all.extend(attribute.split('"').skip(1).step_by(2).map(str::to_lowercase));
        }
        let names = text.lines().filter_map(|line| line.trim().strip_prefix("pub "));
        let names = names.filter_map(|line| line.split([' ', '<', '(', ':']).nth(1));
        all.extend(names.map(str::to_lowercase));
    }
}

#[test]
fn each_word_of_the_field_is_found() {
    let mut all = Vec::new();
    found(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut all);
    assert!(all.len() > 100, "{all:?}");
    let lost: Vec<_> = WORDS.iter().filter(|word| !all.iter().any(|it| it == *word)).collect();
    assert!(lost.is_empty(), "a search for {lost:?} finds nothing: give an item a `doc(alias)`");
}

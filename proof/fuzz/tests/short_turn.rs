//! A short turn of every target: the corpus, and some thousand inputs near it.

#![allow(clippy::unwrap_used)] // tests may

use std::panic::catch_unwind;
use std::path::Path;

use tollgate_fuzz::{Mutator, TARGETS, Target};

/// The inputs of a folder, in the order of their names.
fn inputs(folder: &Path) -> Vec<Vec<u8>> {
    let listed = std::fs::read_dir(folder).unwrap_or_else(|why| panic!("{folder:?}: {why}"));
    let mut paths: Vec<_> = listed.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn short_turn(name: &str) {
    let target = Target::named(name).unwrap();
    let Target { run, turns, .. } = *target;
    let corpus = inputs(&target.corpus());
    assert!(!corpus.is_empty(), "{name} has no corpus");
    // Its own seed, so that targets with the same corpus would see different inputs.
    let seed = name.bytes().fold(1, |seed, byte| seed * 31 + u64::from(byte));
    let mut mutator = Mutator::new(seed);
    let near = (0..turns).map(|_| mutator.next(&corpus));
    for input in corpus.iter().cloned().chain(near) {
        if catch_unwind(|| run(&input)).is_err() {
            panic!("{name} broke a promise for b\"{}\"", input.escape_ascii());
        }
    }
}

macro_rules! short_turns {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            short_turn(stringify!($name));
        })*

        /// `cargo xtask fuzz` knows the targets by their corpora.
        #[test]
        fn every_target_has_its_turn_and_its_corpus() {
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
            let all = TARGETS[0].corpus();
            let listed = std::fs::read_dir(all.parent().unwrap()).unwrap();
            let mut folders: Vec<_> = listed.map(|entry| entry.unwrap().file_name()).collect();
            folders.sort();
            assert_eq!(folders, names);
        }
    };
}

short_turns! {
    cost
    credits
    duration
    envoy
    identity
    limit
    log_line
    path
    policy
    question
    receipt
    redis_reply
    redis_state
    redis_url
    resp
    snapshot
    subject
}

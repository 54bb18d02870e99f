//! The scripts' answers to bad arguments, damaged states and large numbers, in process.
#![allow(clippy::unwrap_used)] // tests may

mod lua;

use lua::cases::{CASES, HOLD_CASES};
use lua::histories::Texts;
use lua::mutants;

#[test]
fn cases_that_histories_reach_seldom() {
    for (name, case) in CASES.iter().chain(&HOLD_CASES) {
        let started = std::time::Instant::now();
        if let Err(difference) = case(&Texts::default()) {
            panic!("{name}: {difference}");
        }
        println!("{name}: {} ms", started.elapsed().as_millis());
    }
}

#[test]
fn the_finder_takes_operators_and_integers_alone() {
    mutants::assert_found();
}

#[test]
fn every_mutant_is_another_text() {
    for mutant in mutants::all() {
        let texts = mutant.texts();
        assert_ne!(mutant.original, mutant.replacement);
        assert!(texts.edit.is_some() || mutant.file != mutants::COMPOSED);
    }
}

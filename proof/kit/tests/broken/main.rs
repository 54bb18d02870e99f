//! Limiters that are broken on purpose, one for each mistake that the field has shipped: each is
//! caught by the named check, and the same limiter without its mistake is not.
#![allow(clippy::unwrap_used)] // tests may unwrap
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some mistakes are just that

mod clients;
mod gcra;
mod kit;
mod queue;
mod several;
mod sim;
mod table;
mod windows;

use tollgate_proof::history::{Bounds, History, Promise, Report, Verdict, check};

use table::{LIMITERS, QUEUES, Row};

/// So many runs of each limiter, by different seeds.
const SEEDS: u64 = 20;

fn judge(history: &History) -> Report {
    // A reply that was lost in these runs was of a call that is over.
    let bounds = Bounds { late_us: 0, queue_bound: Some(queue::BOUND), ..Bounds::default() };
    check(history, &bounds)
}

/// In how many runs the promise is broken, and the fewest calls that show it.
fn caught(runs: impl Iterator<Item = History>, by: Promise) -> (u64, usize) {
    let (mut count, mut fewest) = (0, usize::MAX);
    for history in runs {
        let report = judge(&history);
        let finding = report.findings().iter().find(|finding| finding.promise == by).unwrap();
        if finding.verdict == Verdict::Broken {
            count += 1;
            fewest = fewest.min(finding.part.calls.len() + finding.part.queue.len());
        }
    }
    (count, fewest)
}

/// Nothing is broken in any run, and the promise is held in one: the check is not empty.
fn is_right(name: &str, runs: impl Iterator<Item = History>, by: Promise) {
    let mut held = 0;
    for history in runs {
        let report = judge(&history);
        assert_eq!(report.broken(), [], "{name}\n{history}\n{report}");
        held += u64::from(report.verdict(by) == Verdict::Held);
    }
    assert!(held > 0, "{name}: {} is never held", by.name());
}

#[test]
fn each_broken_limiter_is_caught_and_its_right_form_is_not() {
    println!("| limiter | caught by | runs of {SEEDS} | calls that show it |");
    println!("| --- | --- | --- | --- |");
    let mut missed = Vec::new();
    let mut note = |name: &str, by: Promise, (count, fewest): (u64, usize)| {
        if count == 0 {
            missed.push(name.to_owned());
        } else {
            println!("| {name} | {} | {count} | {fewest} |", by.name());
        }
    };
    for Row { name, by, load, make } in LIMITERS {
        let runs =
            |wrong: bool| (0..SEEDS).map(move |seed| sim::run(&mut *make(wrong), load, seed));
        is_right(name, runs(false), *by);
        note(name, *by, caught(runs(true), *by));
    }
    for (name, mistake) in QUEUES {
        let runs = |mistake| (0..SEEDS).map(move |seed| queue::run(mistake, seed));
        is_right(name, runs(queue::Mistake::Nothing), Promise::Queue);
        note(name, Promise::Queue, caught(runs(*mistake), Promise::Queue));
    }
    for (name, mistake, case, run) in kit::STORES {
        assert!(
            !kit::is_caught(kit::Mistake::Nothing, *run),
            "{name}: {case} fails for a right store"
        );
        if kit::is_caught(*mistake, *run) {
            println!("| {name} | {case} | | |");
        } else {
            missed.push((*name).to_owned());
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
    let count = LIMITERS.len() + QUEUES.len() + kit::STORES.len();
    assert_eq!(count, 52, "README.md and CHANGELOG.md say how many there are");
}

/// `docs/proof.md` has a row for each check, with the limiters that it catches.
#[test]
fn the_page_names_each_broken_limiter_beside_its_check() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/proof.md");
    // A package holds its own folder alone.
    let Ok(page) = std::fs::read_to_string(path) else { return };
    let named = |check: &str, name: &str| {
        let mut rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
        let beside = rows.any(|(first, names)| {
            let mut names = names.trim_end_matches(" |").split("; ");
            first.trim_matches('`') == check && names.any(|one| one == name)
        });
        assert!(beside, "`{name}` is not beside {check}");
    };
    for row in LIMITERS {
        named(row.by.name(), row.name);
    }
    for (name, _) in QUEUES {
        named(Promise::Queue.name(), name);
    }
    for (name, _, case, _) in kit::STORES {
        named(case, name);
    }
}

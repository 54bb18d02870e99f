//! The scripts of holds equal the store in memory, which equals the oracle: whole scripts, in
//! process, over random histories.
#![allow(clippy::unwrap_used)] // tests may

mod lua;

use commonware_allocator::mimalloc::{Config, MiMalloc};
use lua::fake::Fake;
use lua::histories::Texts;
use lua::holding::{CROWDED, Kind, LIMITS, Scripts, Tally, history};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc::new(Config::DEFAULT);

/// Cases of each strategy, unless the environment says otherwise.
const CASES: u64 = 40_000;

/// Runs histories under each of these limits in turn.
fn twins(name: &str, limits: &[[&str; 2]], kind: Kind) {
    let scripts = Scripts::new(&Texts::default());
    let (mut fake, mut all, mut seed) = (Fake::new(), Tally::default(), 0);
    while all.cases < lua::cases_of(CASES) {
        for limits in limits {
            seed += 1;
            all.add(history(&mut fake, &scripts, limits, seed, kind));
        }
    }
    let Tally { cases, denied_by_holds, ended, others, names, simple, paid, refused } = all;
    println!(
        "{name}: {cases} cases: {denied_by_holds} denied because of holds, {ended} commits of \
         holds that ended; {simple:?} answered by the script of several, and left by it"
    );
    let known = ["uniform", "fixed_window", "gcra", "at once"];
    assert!(!known.contains(&name) || simple.iter().all(|it| *it > cases / 100), "{simple:?}");
    assert!(denied_by_holds > cases / 100 && ended > cases / 100);
    if kind == Kind::Credits {
        println!("{name}: credits changed {paid} times, and {refused} were refused");
        assert!(paid > cases / 20 && refused > cases / 1_000);
    }
    if kind == Kind::Holds {
        println!("{name}: {:?}", names.each());
        let has_slots = limits.iter().any(|it| it[0].contains("at once"));
        for (outcome, seen) in names.each() {
            // Only for slots is there a line.
            assert!(
                !has_slots && outcome.contains("in line") || seen > cases / 2_000,
                "{outcome}: {seen} of {cases}"
            );
        }
    }
    // The two kinds of bucket have different steps.
    assert!(name != "token_bucket" || others > cases / 100, "{others} of {cases}");
}

/// The limits that name a strategy alone.
fn alone(strategy: &str) {
    let each: Vec<[&str; 2]> =
        LIMITS.into_iter().filter(|it| it[0].contains(strategy) && !it[0].contains(", ")).collect();
    assert!(!each.is_empty(), "{strategy}");
    twins(strategy, &each, Kind::Holds);
}

#[test]
fn uniform() {
    alone("uniform");
}

#[test]
fn fixed_window() {
    alone("fixed_window");
}

#[test]
fn sliding_log() {
    alone("sliding_log");
}

#[test]
fn sliding_window() {
    alone("sliding_window");
}

#[test]
fn token_bucket() {
    alone("token_bucket");
}

#[test]
fn gcra() {
    alone("gcra");
}

#[test]
fn concurrency() {
    alone("at once");
}

#[test]
fn several_limits() {
    let each: Vec<[&str; 2]> = LIMITS.into_iter().filter(|it| it[0].contains(", ")).collect();
    twins("several limits", &each, Kind::Holds);
}

#[test]
fn more_holds_than_a_denial_looks_at() {
    twins("crowds", &CROWDED, Kind::Crowded);
}

/// Limits that count slots alone have no credits.
#[test]
fn credits() {
    let each: Vec<[&str; 2]> =
        LIMITS.into_iter().filter(|it| !it[0].starts_with("4 at once")).collect();
    twins("credits", &each, Kind::Credits);
}

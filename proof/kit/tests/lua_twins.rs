//! The scripts equal the engine: whole scripts, in process, over random histories.
#![allow(clippy::unwrap_used)] // tests may

mod lua;

use commonware_allocator::mimalloc::{Config, MiMalloc};
use lua::histories::{Pair, Plan, Texts, seeded};
use rand_chacha::ChaCha8Rng;
use tollgate::Strategy;

/// A third of the time is the allocator's with the one of the C library: the parser of Lua and the
/// texts of scripts take and return small pieces.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc::new(Config::DEFAULT);

/// Cases of each strategy, unless the environment says otherwise. A million of each take 7 minutes.
const CASES: u64 = 200_000;

/// How long one history is.
const OPERATIONS: usize = 250;

/// Prints the end of a history that went wrong.
fn tell(rng: &mut ChaCha8Rng, plan: &Plan, subjects: usize, operations: usize) {
    let mut pair = Pair::new(Texts::default());
    pair.trace = Some(Vec::new());
    let _ = pair.history(rng, plan, subjects, operations);
    let trace = pair.trace.unwrap_or_default();
    for line in trace.iter().rev().take(4).rev() {
        println!("{line}");
    }
}

fn twins(strategy: Strategy) {
    twins_of(strategy.name(), CASES, |rng| Plan::from_strategy(rng, strategy));
}

fn twins_of(strategy: &str, usual: u64, plan_of: impl Fn(&mut ChaCha8Rng) -> Plan) {
    let mut pair = Pair::new(Texts::default());
    let mut seed = 0;
    let cases = lua::cases_of(usual);
    while pair.seen.cases < cases {
        seed += 1;
        let mut rng = seeded(seed);
        let plan = plan_of(&mut rng);
        if let Err(difference) = pair.history(&mut rng, &plan, 1, OPERATIONS) {
            let mut rng = seeded(seed);
            let plan = plan_of(&mut rng);
            tell(&mut rng, &plan, 1, OPERATIONS);
            panic!("seed {seed}: {difference}");
        }
    }
    println!("{strategy}: {} cases", pair.seen.cases);
    for (branch, share) in pair.seen.shares() {
        println!("  {branch}: {share:.1} %");
        assert!(share >= 1.0, "{strategy}: {branch} is {share:.2} % of the cases");
    }
}

#[test]
fn uniform() {
    twins(Strategy::Uniform);
}

#[test]
fn fixed_window() {
    twins(Strategy::FixedWindow);
}

#[test]
fn calendars() {
    twins_of("calendar", CASES, Plan::of_calendar);
}

#[test]
fn sliding_log() {
    twins(Strategy::SlidingLog);
}

#[test]
fn sliding_window() {
    twins(Strategy::SlidingWindow);
}

#[test]
fn token_bucket() {
    twins(Strategy::TokenBucket);
}

#[test]
fn gcra() {
    twins(Strategy::Gcra);
}

/// Costs of several units, each limit by its own amount.
#[test]
fn units() {
    twins_of("units", CASES / 4, Plan::of_units);
}

/// A ban beside a limit of any strategy.
#[test]
fn bans() {
    let mut pair = Pair::new(Texts::default());
    let mut seed = 0;
    while pair.seen.cases < CASES / 4 {
        seed += 1;
        let mut rng = seeded(seed);
        let plan = Plan::with_ban(&mut rng);
        if let Err(difference) = pair.history(&mut rng, &plan, 1, OPERATIONS) {
            let mut rng = seeded(seed);
            let plan = Plan::with_ban(&mut rng);
            tell(&mut rng, &plan, 1, OPERATIONS);
            panic!("seed {seed}: {difference}");
        }
    }
    println!("{} cases", pair.seen.cases);
}

/// Several limits of any strategies over several subjects: one script, all or nothing.
#[test]
fn several_limits_and_subjects() {
    let mut pair = Pair::new(Texts::default());
    let histories = 600 * lua::cases_of(CASES) / 1_000_000;
    for seed in 0..histories.max(1) {
        let mut rng = seeded(seed);
        let limits = [2, 3, 5, 14][usize::try_from(seed).unwrap() % 4];
        let plan = Plan::several(&mut rng, limits);
        let subjects = [1, 2, 3][usize::try_from(seed).unwrap() % 3];
        if let Err(difference) = pair.history(&mut rng, &plan, subjects, 120) {
            let mut rng = seeded(seed);
            let plan = Plan::several(&mut rng, limits);
            tell(&mut rng, &plan, subjects, 120);
            panic!("seed {seed}: {difference}");
        }
    }
    println!("{} cases", pair.seen.cases);
}

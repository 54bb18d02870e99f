//! Everything that a count with holds can be asked, together: checks with receipts, holds of each
//! kind, settlements, refunds, adjustments, charges and resets, while the numbers of the limits
//! change between any two and the clock steps forward and back, with bans beside (definitions,
//! sections 2 to 6, 8, 11 and 12). Every field of every answer is the oracle's.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

mod answers;
mod every;
mod plan;
mod run;

use std::fmt;

use tollgate::LimitSet;

use super::StoreMaker;
use super::world::set;
use crate::Random;
pub use every::every_history;
use plan::{Scale, Step};

/// The numbers that a count has in turn.
pub const FAMILIES: [&[&str]; 17] = [
    &[
        "10/1h debt 0 via fixed_window",
        "3/1h debt 5 via fixed_window",
        "12/1h via fixed_window",
        "10/1h debt 1 via fixed_window",
    ],
    &[
        "a: 6/4s debt 0 via fixed_window",
        "a: 3/7s debt 2 via fixed_window",
        "a: 5/4s anchor first-hit debt 1 via fixed_window",
        "a: 9/7s anchor first-hit via fixed_window",
    ],
    &[
        "10/5s debt 5 via sliding_log",
        "12/5s debt 5 via sliding_log",
        "3/5s debt 0 via sliding_log",
    ],
    &[
        "a: 6/4s debt 0 via sliding_log",
        "a: 3/4s via sliding_log",
        "a: 5/7s debt 3 via sliding_log",
        "a: 9/2s via sliding_log",
    ],
    &[
        "6/4s precision 1s debt 0 via sliding_window",
        "3/4s precision 1s debt 7 via sliding_window",
        "9/4s precision 1s rounding interpolate debt 2 via sliding_window",
        "9/4s precision 2s rounding truncate debt 1 via sliding_window",
    ],
    &[
        "a: 6/4s precision 1s rounding interpolate via sliding_window",
        "a: 9/6s precision 1500ms rounding interpolate debt 1 via sliding_window",
        "a: 5/6s precision 2s rounding truncate debt 0 via sliding_window",
    ],
    &["2/100s via gcra", "20/100s via gcra", "7/100s burst 3 debt 1 via gcra"],
    &[
        "a: 6/4s debt 0 via gcra",
        "a: 9/7s burst 4 debt 9 via gcra",
        "a: 4/9s via gcra",
        "a: 3/10us burst 7 via gcra",
    ],
    &[
        "a: 6/4s debt 1 via token_bucket",
        "a: 5/4s refill interval debt 2 via token_bucket",
        "a: 7/4s burst 3 refill interval via token_bucket",
        "a: 5/7s burst 9 refill interval debt 0 via token_bucket",
    ],
    &["a: 1/4s debt 0 via uniform", "a: 1/3s via uniform", "a: 3/7s debt 4 via uniform"],
    &["2 at once hold 3s", "5 at once hold 20s", "1 at once hold 1s"],
    &[
        "a: 6/2s via gcra, b: 9/20s via sliding_log, c: 5 at once hold 4s",
        "a: 8/2s burst 3 debt 1 via gcra, b: 4/10s debt 0 via sliding_log, c: 2 at once hold 9s",
        "a: 6/3s debt 0 via gcra, b: 9/20s via sliding_log, c: 5 at once hold 4s",
    ],
    &[
        "x: 8/7s debt 3 via fixed_window, z: 7/9s precision 3s via sliding_window",
        "x: 5/7s debt 0 via fixed_window, z: 9/9s precision 3s debt 1 via sliding_window",
        "x: 8/6s via fixed_window, z: 7/8s precision 2s debt 0 via sliding_window",
    ],
    &[
        "a: 10/5s debt 1 via fixed_window",
        "a: 6/4s debt 0 via sliding_log",
        "a: 4/3s debt 2 via gcra",
        "a: 9/4s precision 1s via sliding_window",
    ],
    &[
        "3/2s via sliding_log, ban 2s after 2 denials in 5s up to 15s",
        "2/2s debt 0 via sliding_log, ban 1s after 2 denials in 5s up to 5s",
        "3/2s debt 1 via sliding_log, ban 2s after 1 denials in 5s",
    ],
    &[
        "2/3s via gcra, 3 at once hold 2s, ban 3s after 3 denials in 2s",
        "4/3s debt 0 via gcra, 1 at once hold 5s, ban 900ms after 2 denials in 1s up to 1m",
    ],
    &[
        "a: 4/9s via fixed_window, p: ban 1s after 2 denials in 4s, q: ban 6s after 7 denials in 30s up to 20s",
        "a: 5/7s debt 0 via fixed_window, p: ban 2s after 3 denials in 4s, q: ban 5s after 4 denials in 30s up to 1m",
    ],
];

/// How many steps a history has.
const STEPS: usize = 80;

/// Where a store answered what the oracle does not.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The step, from 0.
    step: usize,
    /// The question.
    ask: &'static str,
    /// The field that differs.
    field: &'static str,
    /// Both answers.
    both: String,
    /// The questions up to there.
    told: Vec<String>,
}

impl Difference {
    /// A description of the difference in two words.
    #[must_use]
    pub fn kind(&self) -> (&'static str, &'static str) {
        (self.ask, self.field)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} of a {}: {}", self.field, self.ask, self.both)?;
        self.told.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

/// A random history of one of [`FAMILIES`], by its place and a seed.
struct History {
    sets: Vec<LimitSet>,
    start_us: u64,
    steps: Vec<Step>,
}

impl History {
    fn new(family: usize, seed: u64) -> Self {
        let sets: Vec<LimitSet> = FAMILIES[family].iter().map(|text| set(text)).collect();
        let mut random = Random::new(seed.wrapping_mul(0x1_0001).wrapping_add(family as u64));
        let back = random.below(2) == 0;
        let start_us = 1_763_632_000_000 + random.below(10_000_000);
        let steps = plan::steps(&mut random, &Scale::of(&sets), back, STEPS);
        Self { sets, start_us, steps }
    }

    fn run<M: StoreMaker>(&self, maker: &M, steps: &[Step]) -> Result<(), Difference> {
        run::run(maker, &self.sets, self.start_us, steps)
    }
}

/// A random history of one of [`FAMILIES`] beside the oracle, by its place and a seed. Answers how
/// many steps it had.
///
/// # Errors
/// The first difference.
pub fn mixed_history<M: StoreMaker>(
    maker: &M,
    family: usize,
    seed: u64,
) -> Result<u64, Box<Difference>> {
    let history = History::new(family, seed);
    history.run(maker, &history.steps)?;
    Ok(history.steps.len() as u64)
}

/// The least history that was found to differ as that of this seed does.
pub fn least_difference<M: StoreMaker>(
    maker: &M,
    family: usize,
    seed: u64,
) -> Option<Box<Difference>> {
    let history = History::new(family, seed);
    let found = history.run(maker, &history.steps).err()?;
    let run = |steps: &[Step]| history.run(maker, steps);
    let differs = |steps: &[Step]| run(steps).is_err_and(|other| other.kind() == found.kind());
    let least = plan::shrink(history.steps[..=found.step].to_vec(), differs);
    Some(Box::new(run(&least).err().unwrap_or(found)))
}

//! Random histories with the answers of the oracle, one line of JSON each, which the tests of the
//! Python package replay: `cargo run -p tollgate-python --example histories -- COUNT`.
//!
//! The oracle is written from `docs/definitions.md` alone, and shares nothing with the engine.
#![allow(clippy::unwrap_used, reason = "a program for tests, which says what is wrong by a panic")]

use std::collections::BTreeSet;
use std::fmt::Write as _;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tollgate::{LimitSet, SKEW_US};
use tollgate_proof::conformance::rule_of;
use tollgate_proof::oracle::{Fields, MultiOracle, Oracle, Rule};

/// How many questions a history has.
const STEPS: usize = 40;

/// The sets of limits of a history: of one set, or of several over several subjects. Numbers are
/// small, so that everything happens often.
const HISTORIES: [&[&str]; 22] = [
    &["1/7ms via uniform"],
    &["5/3s via uniform"],
    &["5/10s via gcra"],
    &["7/3s burst 3 via gcra"],
    &["3/10us burst 7 via gcra"],
    &["10/1s burst 4 refill greedy via token_bucket"],
    &["5/3s burst 5 refill interval via token_bucket"],
    &["9/4s burst 3 refill interval via token_bucket"],
    &["5/10s via fixed_window"],
    &["4/300ms via fixed_window"],
    &["3/700ms anchor first-hit via fixed_window"],
    &["5/10s via sliding_log"],
    &["7/400ms via sliding_log"],
    &["6/10s precision 1s via sliding_window"],
    &["6/10s precision 2500ms rounding interpolate via sliding_window"],
    &["5/6s precision 2s rounding truncate via sliding_window"],
    &["3/1s, 8/10s, 20/1m"],
    &["5/3s burst 4 via gcra, 6/10s via fixed_window, 9/10s precision 1s via sliding_window"],
    &["slow: 2/5s burst 6 refill interval via token_bucket, log: 4/2s"],
    &["1/300ms via uniform, 7/9s rounding interpolate precision 3s via sliding_window"],
    &MIXED,
    &MIXED,
];

const MIXED: [&str; 4] = [
    "3/1s, 8/10s, 20/1m",
    "5/3s burst 4 via gcra, 6/10s via fixed_window, 9/10s precision 1s via sliding_window",
    "slow: 2/5s burst 6 refill interval via token_bucket, log: 4/2s",
    "1/300ms via uniform, 7/9s rounding interpolate precision 3s via sliding_window",
];

/// Subjects in the form in which answers have them.
const SUBJECTS: [&str; 4] = ["a", "user:42", "resource:12", "consumer:a-name-of-25-or-more-bytes"];

/// A subject and the position of a rule.
type Count = (&'static str, usize);

/// A charge that can be refunded.
struct Charge {
    /// The step that made it.
    step: usize,
    units: u64,
    /// Each count, and when it was charged.
    counts: Vec<(Count, u64)>,
}

/// A history that is being written.
struct History {
    random: ChaCha8Rng,
    sets: Vec<LimitSet>,
    /// The position of the first rule of each set.
    starts: Vec<usize>,
    rules: Vec<Rule>,
    oracle: MultiOracle,
    asked: BTreeSet<Count>,
    charges: Vec<Charge>,
    now_us: u64,
    latest_us: u64,
}

impl History {
    fn new(seed: u64, sets: &[&str]) -> Self {
        let sets: Vec<LimitSet> = sets.iter().map(|text| text.parse().unwrap()).collect();
        let (mut starts, mut rules) = (Vec::new(), Vec::new());
        for set in &sets {
            starts.push(rules.len());
            rules.extend(set.limits().iter().map(|limit| rule_of(limit).unwrap()));
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let now_us = 10_000_000 + random.random_range(0..40_000_000);
        Self {
            oracle: MultiOracle::new(&rules).unwrap(),
            random,
            sets,
            starts,
            rules,
            asked: BTreeSet::new(),
            charges: Vec::new(),
            now_us,
            latest_us: now_us,
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.random_range(0..end)
    }

    /// Time goes on: not at all, by microseconds, by parts of a period, to its edges. At times it
    /// steps back by no more than the skew, within which stores agree.
    fn step(&mut self) {
        let set = self.random.random_range(0..self.sets.len());
        let period_us = self.sets[set].limits()[0].quota().period.as_micros();
        let now_us = self.now_us;
        self.now_us = match self.below(20) {
            0..6 => now_us,
            6..9 => now_us + self.below(4),
            9..14 => now_us + self.below(period_us / 3 + 2),
            14 => now_us + period_us,
            15 => (now_us / period_us + 1) * period_us - self.below(2),
            16 => now_us + self.below(period_us * 3),
            17 => self.latest_us - self.below(SKEW_US + 1),
            _ => now_us + 1,
        };
        self.latest_us = self.latest_us.max(self.now_us);
    }

    /// The counts of the parts of a question, in the order of the answer.
    fn counts(&self, parts: &[(&'static str, usize)]) -> Vec<Count> {
        let each = parts.iter().map(|&(subject, set)| {
            let limits = self.sets[set].limits().len();
            (0..limits).map(move |limit| (subject, self.starts[set] + limit))
        });
        each.flatten().collect()
    }

    /// The parts of a question: one to three different subjects and sets.
    fn parts(&mut self) -> Vec<(&'static str, usize)> {
        let mut parts = Vec::new();
        for _ in 0..[1, 1, 2, 3][self.random.random_range(0..4)] {
            let subject = SUBJECTS[self.random.random_range(0..SUBJECTS.len())];
            let part = (subject, self.random.random_range(0..self.sets.len()));
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        parts
    }

    /// A cost: mostly 1, at times more than can be.
    fn cost(&mut self) -> u64 {
        let capacity = self.sets[0].limits()[0].capacity();
        match self.below(10) {
            0..6 => 1,
            6..9 => 1 + self.below(capacity),
            _ => capacity + 1 + self.below(2),
        }
    }

    /// One question with its answer, as JSON.
    fn ask(&mut self, step: usize) -> String {
        self.step();
        match self.below(20) {
            16 | 17 if !self.charges.is_empty() => self.refund(),
            18 => self.charge().unwrap_or_else(|| self.check(step)),
            19 if self.below(4) == 0 => self.reset(),
            _ => self.check(step),
        }
    }

    /// A check, a peek or a partial check.
    fn check(&mut self, step: usize) -> String {
        let (mut parts, mut cost, kind) = (self.parts(), self.cost(), self.below(10));
        if kind < 2 {
            // A peek is at one subject under the limiter's own limits.
            parts = vec![(parts[0].0, 0)];
        }
        let counts = self.counts(&parts);
        let (kind, answer) = match kind {
            0 | 1 => ("peek", self.oracle.peek(self.now_us, &counts, cost)),
            2 | 3 => {
                cost += self.below(6);
                ("partial", self.oracle.partial(self.now_us, &counts, cost))
            }
            _ => ("check", self.oracle.check(self.now_us, &counts, cost)),
        };
        let answer = answer.unwrap();
        if kind != "peek" {
            self.asked.extend(counts.iter().copied());
        }
        if answer.granted > 0 {
            let charged_at = |count: Count| {
                (count, self.oracle.clone().subject(count.0, count.1).unwrap().charged_at())
            };
            let counts = counts.iter().map(|&count| charged_at(count)).collect();
            self.charges.push(Charge { step, units: answer.granted, counts });
        }
        let (subject, rule) = counts[answer.binding];
        let texts = |(subject, rule): Count, fields: &Fields| {
            format!("[{subject:?},{:?},{}]", self.limit_of(rule), fields_of(fields))
        };
        let each = counts.iter().zip(&answer.each).map(|(count, fields)| texts(*count, fields));
        let each: Vec<String> = each.collect();
        let parts: Vec<String> =
            parts.iter().map(|(subject, set)| format!("[{subject:?},{set}]")).collect();
        format!(
            r#"{{"at":{},"ask":"{kind}","parts":[{}],"cost":{cost},"allowed":{},"granted":{},"summary":[{}],"binding":[{subject:?},{:?},{}],"each":[{}]}}"#,
            self.now_us,
            parts.join(","),
            answer.admitted,
            answer.granted,
            fields_of(&answer.summary),
            self.limit_of(rule),
            answer.limit,
            each.join(","),
        )
    }

    /// The text of the limit of a rule.
    fn limit_of(&self, rule: usize) -> String {
        let set = self.starts.iter().rposition(|start| *start <= rule).unwrap();
        self.sets[set].limits()[rule - self.starts[set]].to_string()
    }

    /// All of a charge is given back.
    fn refund(&mut self) -> String {
        let place = self.random.random_range(0..self.charges.len());
        let Charge { step, units, counts } = self.charges.swap_remove(place);
        let mut given = Vec::new();
        for ((subject, rule), at_us) in counts {
            let count = self.oracle.subject(subject, rule).unwrap();
            given.push(count.refund(self.now_us, at_us, units));
        }
        format!(r#"{{"at":{},"ask":"refund","step":{step},"given":{given:?}}}"#, self.now_us)
    }

    /// A charge without a check, to a subject that has asked under the first set before.
    fn charge(&mut self) -> Option<String> {
        let first = self.asked.iter().filter(|(_, rule)| *rule == 0);
        let subjects: Vec<&'static str> = first.map(|(subject, _)| *subject).collect();
        let subject = *subjects.get(self.random.random_range(0..subjects.len().max(1)))?;
        let cost = self.cost();
        let mut each = Vec::new();
        for (subject, rule) in self.counts(&[(subject, 0)]) {
            let charged = self.oracle.subject(subject, rule)?.charge(self.now_us, cost);
            let fields = fields_of(&charged.fields);
            each.push(format!("[{},{},{fields}]", charged.fits, charged.cut));
        }
        Some(format!(
            r#"{{"at":{},"ask":"charge","subject":{subject:?},"cost":{cost},"each":[{}]}}"#,
            self.now_us,
            each.join(","),
        ))
    }

    /// A subject is fresh again. Its earlier charges cannot be given back.
    fn reset(&mut self) -> String {
        let subject = SUBJECTS[self.random.random_range(0..SUBJECTS.len())];
        for (subject, rule) in self.counts(&[(subject, 0)]) {
            if let Some(count) = self.oracle.subject(subject, rule) {
                *count = Oracle::grouped(self.rules[rule]).unwrap();
            }
        }
        self.charges.clear();
        format!(r#"{{"at":{},"ask":"reset","subject":{subject:?}}}"#, self.now_us)
    }
}

/// The remaining units, the wait and the time until it is fresh, in microseconds; null is never.
fn fields_of(fields: &Fields) -> String {
    let wait = fields.retry_after_us.map_or_else(|| "null".to_owned(), |wait| wait.to_string());
    format!("{},{wait},{}", fields.remaining, fields.reset_after_us)
}

fn main() {
    let count: u64 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(220);
    for (seed, sets) in (0..count).zip(HISTORIES.iter().cycle()) {
        let mut history = History::new(seed, sets);
        let steps: Vec<String> = (0..STEPS).map(|step| history.ask(step)).collect();
        let mut line = String::new();
        write!(line, r#"{{"seed":{seed},"sets":{sets:?},"steps":[{}]}}"#, steps.join(",")).unwrap();
        println!("{line}");
    }
}

//! Histories with names that callers give their holds: repeated, asked for otherwise, released
//! before they come and after, given back.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use tollgate::engine::{HoldRefusal, MAX_REPEATS, Mode, RELEASED_WITHOUT_UNITS, SETTLED_FOR_US};
use tollgate::operation::Settle;
use tollgate::{
    Hold, HoldId, HoldKind, HoldName, HoldTerms, LimitSet, Patience, Period, Store as _, Subject,
    Time,
};
use tollgate_proof::conformance::block_on;

use super::{Pair, actual_of, assert_rows};

/// How often each outcome of a name was seen.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct NameTally {
    pub(crate) repeated: u64,
    pub(crate) differs: u64,
    pub(crate) too_often: u64,
    pub(crate) over: u64,
    pub(crate) early: u64,
    pub(crate) settled_before: u64,
    pub(crate) given_back: u64,
    pub(crate) kept: u64,
    pub(crate) behind: u64,
}

impl NameTally {
    pub(super) fn add(&mut self, other: Self) {
        self.repeated += other.repeated;
        self.differs += other.differs;
        self.too_often += other.too_often;
        self.over += other.over;
        self.early += other.early;
        self.settled_before += other.settled_before;
        self.given_back += other.given_back;
        self.kept += other.kept;
        self.behind += other.behind;
    }

    /// Every outcome, with how often it was seen.
    pub(crate) fn each(self) -> [(&'static str, u64); 9] {
        [
            ("repeated", self.repeated),
            ("asked for otherwise", self.differs),
            ("repeated too often", self.too_often),
            ("over", self.over),
            ("released early", self.early),
            ("settled before", self.settled_before),
            ("given back", self.given_back),
            ("kept for a later answer", self.kept),
            ("behind others in line", self.behind),
        ]
    }
}

/// The answer of a script where memory refuses for this reason.
pub(super) fn refusal_of(why: &str) -> i64 {
    let refusals = [
        HoldRefusal::Differs,
        HoldRefusal::Repeated,
        HoldRefusal::Over,
        HoldRefusal::LineFull,
        HoldRefusal::TooManyCredits,
    ];
    let place = refusals.iter().position(|refusal| why.contains(&refusal.to_string()));
    [-5, -6, -7, -9, -11][place.unwrap_or_else(|| panic!("{why}"))]
}

type Counts = Vec<(Subject, LimitSet)>;

/// A question under a name.
#[derive(Clone)]
struct Asked {
    terms: HoldTerms,
    cost: u64,
    counts: Counts,
}

/// The questions under names so far, and their outcomes.
#[derive(Default)]
pub(super) struct Names {
    asked: Vec<Asked>,
    answered: Vec<Hold>,
    next: u64,
}

fn name(number: u64) -> HoldName {
    format!("request-{number:016}").parse().unwrap()
}

/// One of the last of a list.
fn recent<T: Clone>(list: &[T], rng: &mut ChaCha8Rng) -> Option<T> {
    let last = &list[list.len().saturating_sub(5)..];
    (!last.is_empty()).then(|| last[rng.random_range(0..last.len())].clone())
}

impl Pair<'_> {
    /// A step of a history with names: half of them concern names.
    pub(super) fn step_named(&mut self, rng: &mut ChaCha8Rng, seed: u64) {
        if rng.random_range(0..3) == 0 {
            return self.step(rng, seed);
        }
        self.advance(rng);
        self.tally.cases += 1;
        let what = format!("seed {seed}: {} at {}", self.sets[0], self.now_us);
        let mut names = self.names.take().unwrap_or_default();
        match rng.random_range(0..20) {
            0..6 => {
                let asked = self.new_name(&mut names, rng);
                self.ask_named(&mut names, &asked, &what);
            }
            6..11 => {
                if let Some(asked) = recent(&names.asked, rng) {
                    let times = if rng.random_range(0..6) == 0 { MAX_REPEATS + 2 } else { 1 };
                    (0..times).for_each(|_| self.ask_named(&mut names, &asked, &what));
                }
            }
            11 | 12 => {
                if let Some(asked) = recent(&names.asked, rng) {
                    let otherwise = self.otherwise(asked, rng);
                    self.ask_named(&mut names, &otherwise, &what);
                }
            }
            13..16 => self.settle_named(&names, rng, &what),
            16..19 => self.give_back(&names, rng, &what),
            _ => self.renew_named(&names, rng, &what),
        }
        self.names = Some(names);
    }

    fn new_name(&self, names: &mut Names, rng: &mut ChaCha8Rng) -> Asked {
        let set = &self.some_set(rng);
        let kind = match rng.random_range(0..3) {
            0 if set.needs_hold() => HoldKind::Acquire,
            1 => HoldKind::Charging,
            _ => HoldKind::Reserve,
        };
        // Not always a new one: some were released before they are asked for.
        names.next += rng.random_range(0..8).min(2);
        let mut terms = HoldTerms::new(kind, rng.random_range(1_000..4_000_000));
        terms.id = HoldId::named(kind, name(names.next));
        if set.needs_hold() && rng.random_range(0..2) == 0 {
            terms = terms.with_patience(Patience::InLine);
        }
        Asked { terms, cost: rng.random_range(1..3), counts: self.some_counts(rng, set) }
    }

    /// Limits with one of the numbers that each count may have.
    fn some_set(&self, rng: &mut ChaCha8Rng) -> LimitSet {
        self.sets[usize::from(rng.random_range(0..4) == 0)].clone()
    }

    fn some_counts_of_any(&self, rng: &mut ChaCha8Rng) -> Counts {
        let set = self.some_set(rng);
        self.some_counts(rng, &set)
    }

    /// The same name with other terms, or with other counts.
    fn otherwise(&self, mut asked: Asked, rng: &mut ChaCha8Rng) -> Asked {
        match rng.random_range(0..4) {
            0 => asked.terms.ttl_us += 1,
            1 => asked.cost += 1,
            2 => {
                let kind = match asked.terms.id.kind() {
                    HoldKind::Charging => HoldKind::Reserve,
                    _ => HoldKind::Charging,
                };
                asked.terms.id =
                    asked.terms.id.name().map_or(asked.terms.id, |name| HoldId::named(kind, name));
            }
            _ => asked.counts = self.some_counts_of_any(rng),
        }
        asked
    }

    fn ask_named(&mut self, names: &mut Names, asked: &Asked, what: &str) {
        let Asked { terms, cost, counts } = asked;
        names.asked.push(asked.clone());
        let tally = match self.ask_about(counts, *cost, Mode::Whole, Some(*terms), what) {
            Ok(None) => return,
            Ok(Some(hold)) => {
                let is_repeated = hold.answer > 1;
                names.answered.push(hold);
                if !is_repeated {
                    return;
                }
                &mut self.tally.names.repeated
            }
            Err(why) => match refusal_of(&why) {
                -5 => &mut self.tally.names.differs,
                -6 => &mut self.tally.names.too_often,
                _ => &mut self.tally.names.over,
            },
        };
        *tally += 1;
    }

    /// A name that was asked for, or will be.
    fn some_hold(&self, names: &Names, rng: &mut ChaCha8Rng) -> Hold {
        let asked = recent(&names.asked, rng).filter(|_| rng.random_range(0..3) > 0);
        let coming = name(names.next + rng.random_range(0..3));
        let (name, counts) = match asked {
            Some(asked) => (asked.terms.id.name().unwrap_or(coming), asked.counts),
            None => (coming, self.some_counts_of_any(rng)),
        };
        Hold::new(HoldId::of_any_kind(name), 0, 1, Time::from_micros(0), counts)
    }

    fn settle_named(&mut self, names: &Names, rng: &mut ChaCha8Rng, what: &str) {
        let by_text = recent(&names.answered, rng).filter(|_| rng.random_range(0..3) == 0);
        let hold = by_text.unwrap_or_else(|| self.some_hold(names, rng));
        let actual = rng.random_range(0..4) / 2;
        self.settle_both(&hold, actual, what);
    }

    fn give_back(&mut self, names: &Names, rng: &mut ChaCha8Rng, what: &str) {
        let last = names.answered.last().cloned().filter(|_| rng.random_range(0..2) == 0);
        if let Some(hold) = last.or_else(|| recent(&names.answered, rng)) {
            match self.settle_both(&hold.undelivered(), 0, what) {
                2 => self.tally.names.given_back += 1,
                1 => self.tally.names.kept += 1,
                _ => {}
            }
        }
    }

    /// Settles a named hold in both; answers how, as the script says it.
    fn settle_both(&mut self, hold: &Hold, actual: u64, what: &str) -> i64 {
        let settled = block_on(self.memory.perform(&Settle::new(hold, actual.into())));
        let mark_us = hold.counts[0].1.hold().map_or(SETTLED_FOR_US, Period::as_micros);
        let number = match hold.id.is_of_any_kind() {
            true => mark_us.min(SETTLED_FOR_US),
            false => hold.cost.plain().expect("requests alone"),
        };
        let id = match hold.is_undelivered {
            true => format!("{}!{}", hold.id, hold.answer),
            false => hold.id.to_string(),
        };
        let own = [id, number.to_string(), actual.to_string(), "60000".to_owned()];
        let got = self.call_holds(|it| &it.settle, &hold.counts, &own);
        let what = format!("{what}: settled {hold:?} for {actual}");
        let (expected, charged) = match settled {
            Err(error) => {
                assert_eq!(error.to_string(), RELEASED_WITHOUT_UNITS, "{what}");
                ([4, 0], Vec::new())
            }
            Ok(None) => ([0, 0], Vec::new()),
            Ok(Some(settled)) if settled.is_early => {
                self.tally.names.early += 1;
                ([3, 0], Vec::new())
            }
            Ok(Some(settled)) if settled.already => {
                self.tally.names.settled_before += 1;
                ([1, actual_of(&settled)], Vec::new())
            }
            Ok(Some(settled)) => ([2, actual_of(&settled)], settled.charged),
        };
        assert_eq!(got[..2], expected, "{what}");
        assert_rows(&got[2..], hold, &charged, &what);
        got[0]
    }

    fn renew_named(&mut self, names: &Names, rng: &mut ChaCha8Rng, what: &str) {
        let hold = self.some_hold(names, rng);
        let ttl_us: u64 = rng.random_range(1_000..4_000_000);
        self.renew_both(&hold, ttl_us, what);
    }
}

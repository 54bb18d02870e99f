//! Time lines with holds: the reader, the oracle's answers, and the writer of `vectors/holds/`.
//!
//! ```
//! use tollgate_proof::vectors::holds::write;
//!
//! let asked = "# What is reserved is not there for others.\n\
//!              limits: 5/10s via gcra\n\
//!              0  | reserve a 3 for 8s\n\
//!              1s | commit a 1\n";
//! let written = write(asked)?;
//! assert!(written.contains("0  | reserve a 3 for 8s | until 8s  | 2 0 8s"), "{written}");
//! assert!(written.contains("1s | commit a 1         | charged 1 | 4 0 2s"), "{written}");
//! assert_eq!(write(&written)?, written);
//! # Ok::<(), tollgate_proof::vectors::VectorError>(())
//! ```

use super::{VectorError, parse_duration, parse_limit, parse_number, read};
use crate::oracle::{Charged, Fields, HeldLimit, HoldOracle, Kind, Oracle};

mod answer;
mod named;
#[cfg(test)]
mod tests;
mod written;

pub use answer::{LimitAnswer, LineAnswer, Said};
pub use written::write;
pub(super) use written::write_with;

/// How long a hold of a concurrency limit lasts that does not say it, in microseconds.
const USUAL_HOLD_US: u64 = 30_000_000;

/// Every file of `vectors/holds/`: its path in `vectors/`, and its text.
pub const HOLD_VECTORS: &[(&str, &str)] = &[
    embed!("holds/changes.txt"),
    embed!("holds/clock.txt"),
    embed!("holds/concurrency.txt"),
    embed!("holds/fixed_window.txt"),
    embed!("holds/gcra.txt"),
    embed!("holds/names.txt"),
    embed!("holds/several.txt"),
    embed!("holds/sliding_log.txt"),
    embed!("holds/sliding_window.txt"),
    embed!("holds/token_bucket.txt"),
    embed!("holds/uniform.txt"),
];

/// One fresh subject under its limits, and its questions.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldTimeLine {
    /// The limits as written.
    pub limits: String,
    /// The questions, in order.
    pub lines: Vec<HoldLine>,
    count: Count,
}

/// One question and its answer.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldLine {
    /// Its line number in the file, from 1.
    pub number: usize,
    /// The comment above it: the case it belongs to.
    pub case: String,
    /// The time, in microseconds.
    pub at_us: u64,
    /// The question.
    pub ask: HoldAsk,
    /// The expected answer; `None` for a change, which answers nothing, and where it is not written
    /// yet.
    pub expect: Option<LineAnswer>,
    /// The limits after a change.
    change: Option<Count>,
}

/// The question of a line.
#[allow(clippy::exhaustive_enums, reason = "a runner must handle every one")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldAsk {
    /// Charge this many units if all are admitted.
    Check(u64),
    /// Charge nothing.
    Peek(u64),
    /// Take what remains of this many.
    Partial(u64),
    /// Charge this many without a check.
    Charge(u64),
    /// Reserve this many units, under a name.
    Reserve {
        /// The name of the hold in this time line.
        name: String,
        /// The units.
        cost: u64,
        /// How long it lasts, in microseconds.
        ttl_us: u64,
        /// Whether its end charges the units.
        charging: bool,
    },
    /// Take this many slots, under a name, for the time of the limits.
    Acquire {
        /// The name of the hold in this time line.
        name: String,
        /// The slots.
        slots: u64,
    },
    /// Settle a hold and charge this many units.
    Commit(String, u64),
    /// Settle a hold and charge nothing.
    Cancel(String),
    /// Give the slots of a hold back.
    Release(String),
    /// Let a hold last this many microseconds from now on; without them for the time of the limits.
    Renew(String, Option<u64>),
    /// A reserve or an acquire whose hold its caller names as the line does.
    Named(Box<Self>),
    /// A commit, cancel, release or renewal by such a name, whether a hold has it or not.
    ByName(Box<Self>),
    /// The answer of this number to an ask under such a name reached nobody.
    Lost(String, u64),
    /// Forget the count and its holds.
    Reset,
    /// From here on the limits are these: as many, of the same kinds, in the same order.
    Change(String),
}

/// Limits, and how long a slot is held under them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Count {
    limits: Vec<HeldLimit>,
    hold_us: Option<u64>,
}

impl Count {
    fn parse(text: &str) -> Result<Self, String> {
        let mut count = Self { limits: Vec::new(), hold_us: None };
        for limit in text.split(", ") {
            let quota = limit.split_once(": ").map_or(limit, |(_name, quota)| quota);
            let Some((slots, rest)) = quota.split_once(" at once") else {
                let (rule, debt) = parse_limit(limit)?;
                let oracle = Oracle::new(rule).and_then(|oracle| match debt {
                    Some(debt) => oracle.with_debt(debt),
                    None => Ok(oracle),
                });
                let oracle = oracle.map_err(|error| error.to_string())?;
                count.limits.push(HeldLimit::Rate(Box::new(oracle)));
                continue;
            };
            let hold_us = match rest.trim().strip_prefix("hold ") {
                Some(hold) => parse_duration(hold)?,
                None if rest.trim().is_empty() => USUAL_HOLD_US,
                None => return Err(format!("{rest:?}: write `hold 30s`, or nothing")),
            };
            count.hold_us = Some(count.hold_us.map_or(hold_us, |least| least.min(hold_us)));
            count.limits.push(HeldLimit::Slots(parse_number(slots)?));
        }
        Ok(count)
    }

    fn is_like(&self, other: &Self) -> bool {
        let kind = |limit: &HeldLimit| matches!(limit, HeldLimit::Slots(_));
        let kinds = |count: &Self| count.limits.iter().map(kind).collect::<Vec<_>>();
        kinds(self) == kinds(other)
    }
}

/// Reads a file of time lines with holds. Answers that are not written yet are `None`.
///
/// # Errors
///
/// The first line that cannot be read, with its number.
pub fn parse(text: &str) -> Result<Vec<HoldTimeLine>, VectorError> {
    let begin = |limits: String| {
        let count = Count::parse(&limits)?;
        Ok(HoldTimeLine { limits, lines: Vec::new(), count })
    };
    read(text, "limits", begin, |time_line, number, case, line| {
        let line = parse_line(number, case, line, time_line)?;
        time_line.lines.push(line);
        Ok(())
    })
}

fn parse_line(
    number: usize,
    case: &str,
    line: &str,
    time_line: &HoldTimeLine,
) -> Result<HoldLine, String> {
    let (case, count) = (case.to_owned(), &time_line.count);
    if let Some(limits) = line.strip_prefix("change:") {
        let change = Count::parse(limits.trim())?;
        if !change.is_like(count) {
            return Err("a change has as many limits of the same kinds".to_owned());
        }
        let at_us = time_line.lines.last().map_or(0, |line| line.at_us);
        let ask = HoldAsk::Change(limits.trim().to_owned());
        return Ok(HoldLine { number, case, at_us, ask, expect: None, change: Some(change) });
    }
    let columns: Vec<&str> = line.split('|').map(str::trim).collect();
    let (at, question, answers) = match columns.as_slice() {
        [at, question, answers @ ..] => (at, question, answers),
        _ => return Err("one column; write at | question, or also | answer".to_owned()),
    };
    let expect = match answers {
        [] => None,
        [said, limits @ ..] => Some(LineAnswer::parse(said, limits)?),
    };
    if expect.as_ref().is_some_and(|it| !it.fits(count.limits.len())) {
        return Err(format!("the answer has not one column for each of {:?}", time_line.limits));
    }
    let (at_us, ask) = (parse_duration(at)?, parse_ask(question)?);
    Ok(HoldLine { number, case, at_us, ask, expect, change: None })
}

fn parse_ask(question: &str) -> Result<HoldAsk, String> {
    let words: Vec<&str> = question.split_whitespace().collect();
    let reserve = |name: &str, cost, ttl, charging| {
        let (cost, ttl_us) = (parse_number(cost)?, parse_duration(ttl)?);
        Ok(HoldAsk::Reserve { name: name.to_owned(), cost, ttl_us, charging })
    };
    match *words.as_slice() {
        ["reserve" | "acquire", .., "named"] => {
            Ok(HoldAsk::Named(parse_ask(question.trim_end_matches("named"))?.into()))
        }
        ["commit" | "cancel" | "release" | "renew", .., "by", "name"] => {
            let asked = words[..words.len() - 2].join(" ");
            Ok(HoldAsk::ByName(parse_ask(&asked)?.into()))
        }
        ["lost", name, answer] => Ok(HoldAsk::Lost(name.to_owned(), parse_number(answer)?)),
        ["check", cost] => parse_number(cost).map(HoldAsk::Check),
        ["peek", cost] => parse_number(cost).map(HoldAsk::Peek),
        ["partial", cost] => parse_number(cost).map(HoldAsk::Partial),
        ["charge", cost] => parse_number(cost).map(HoldAsk::Charge),
        ["reserve", name, cost, "for", ttl] => reserve(name, cost, ttl, false),
        ["reserve", name, cost, "for", ttl, "charging"] => reserve(name, cost, ttl, true),
        ["acquire", name, slots] => {
            Ok(HoldAsk::Acquire { name: name.to_owned(), slots: parse_number(slots)? })
        }
        ["commit", name, units] => Ok(HoldAsk::Commit(name.to_owned(), parse_number(units)?)),
        ["cancel", name] => Ok(HoldAsk::Cancel(name.to_owned())),
        ["release", name] => Ok(HoldAsk::Release(name.to_owned())),
        ["renew", name] => Ok(HoldAsk::Renew(name.to_owned(), None)),
        ["renew", name, "for", ttl] => {
            Ok(HoldAsk::Renew(name.to_owned(), Some(parse_duration(ttl)?)))
        }
        ["reset"] => Ok(HoldAsk::Reset),
        _ => Err(format!("{question:?} is not a question: see vectors/README.md")),
    }
}

impl HoldTimeLine {
    /// The oracle's answer to each line; `None` to a change.
    ///
    /// # Errors
    ///
    /// A line to which the definitions leave the answer open.
    pub fn run(&self) -> Result<Vec<Option<LineAnswer>>, VectorError> {
        let mut run = Run {
            oracle: HoldOracle::new(self.count.limits.clone()),
            count: self.count.clone(),
            is_changed: false,
            names: Vec::new(),
            callers: Vec::new(),
        };
        let each = self.lines.iter().map(|line| {
            let at_line = |message| VectorError { line: line.number, message };
            run.answer(line).map_err(at_line)
        });
        each.collect()
    }
}

/// A time line while the oracle answers it.
struct Run {
    oracle: HoldOracle,
    count: Count,
    /// Whether no question but peeks was asked under the limits of `count` yet.
    is_changed: bool,
    /// The names of all holds, whose places are what the oracle calls them.
    names: Vec<String>,
    /// The names that callers gave, whose places are what the oracle calls those.
    callers: Vec<String>,
}

impl Run {
    fn answer(&mut self, line: &HoldLine) -> Result<Option<LineAnswer>, String> {
        let at_us = line.at_us;
        Ok(Some(match &line.ask {
            HoldAsk::Change(_) => {
                self.count = line.change.clone().ok_or("a change without limits")?;
                self.is_changed = true;
                return Ok(None);
            }
            HoldAsk::Peek(cost) => {
                let mut then = self.oracle.clone();
                self.bring(&mut then, at_us)?;
                let fields = then.peek(at_us, *cost, None, &self.no_guess());
                let admitted = fields.iter().all(|fields| fields.retry_after_us == Some(0));
                decided(&then, (at_us, (*cost, None)), admitted.then_some(Said::Yes), &fields)
            }
            HoldAsk::Check(cost) => self.ask(at_us, *cost, None, Said::Yes)?,
            HoldAsk::Partial(cost) => {
                self.refuse_slots()?;
                self.change(at_us)?;
                let (granted, fields) = self.oracle.partial(at_us, *cost);
                let said = (granted > 0).then_some(Said::Granted(granted));
                decided(&self.oracle, (at_us, (1, None)), said, &fields)
            }
            HoldAsk::Charge(cost) => {
                self.change(at_us)?;
                let charged = self.oracle.charge(at_us, *cost);
                self.charged(*cost, &charged)
            }
            HoldAsk::Reserve { name, cost, ttl_us, charging } => {
                let kind = if *charging { Kind::Charging } else { Kind::Reserve };
                let end = Said::Until(at_us + ttl_us);
                self.ask(at_us, *cost, Some((name, kind, *ttl_us)), end)?
            }
            HoldAsk::Acquire { name, slots } => {
                let ttl_us = self.count.hold_us.ok_or("these limits have no slots")?;
                let end = Said::Until(at_us + ttl_us);
                self.ask(at_us, *slots, Some((name, Kind::Acquire, ttl_us)), end)?
            }
            HoldAsk::Commit(name, units) => self.settle(at_us, name, *units)?,
            HoldAsk::Cancel(name) => self.settle(at_us, name, 0)?,
            HoldAsk::Release(name) => match self.settle(at_us, name, 0)?.said {
                Said::Charged(0) => LineAnswer::only(Said::Released),
                _ => LineAnswer::only(Said::NotOpen),
            },
            HoldAsk::Renew(name, ttl_us) => {
                let longest = self.count.hold_us;
                let ttl_us = ttl_us.or(longest).ok_or("say how long: `renew a for 30s`")?;
                let end_us = self.oracle.renew(at_us, self.named(name), ttl_us);
                LineAnswer::only(end_us.map_or(Said::NotOpen, Said::Until))
            }
            HoldAsk::Named(asked) => self.ask_named(at_us, asked)?,
            HoldAsk::ByName(asked) => self.settle_by_name(at_us, asked)?,
            HoldAsk::Lost(name, answer) => self.give_back(at_us, name, *answer),
            HoldAsk::Reset => {
                self.change(at_us)?;
                self.oracle.reset();
                LineAnswer::only(Said::Reset)
            }
        }))
    }

    fn no_guess(&self) -> Vec<Fields> {
        let none = Fields { remaining: 0, retry_after_us: Some(0), reset_after_us: 0 };
        vec![none; self.count.limits.len()]
    }

    /// The last hold that was placed under a name; one that never was for any other name.
    fn named(&self, name: &str) -> u64 {
        let place = self.names.iter().rposition(|other| other == name);
        place.map_or(u64::MAX, |place| place as u64)
    }

    fn bring(&self, oracle: &mut HoldOracle, at_us: u64) -> Result<(), String> {
        if self.is_changed {
            oracle.change(at_us, &self.count.limits).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn change(&mut self, at_us: u64) -> Result<(), String> {
        let mut oracle = self.oracle.clone();
        self.bring(&mut oracle, at_us)?;
        self.oracle = oracle;
        self.is_changed = false;
        Ok(())
    }

    fn refuse_slots(&self) -> Result<(), String> {
        match self.count.hold_us {
            Some(_) => Err("a check of slots is refused: acquire or reserve".to_owned()),
            None => Ok(()),
        }
    }

    fn ask(
        &mut self,
        at_us: u64,
        cost: u64,
        hold: Option<(&str, Kind, u64)>,
        said: Said,
    ) -> Result<LineAnswer, String> {
        if hold.is_none() {
            self.refuse_slots()?;
        }
        self.change(at_us)?;
        let guess = self.no_guess();
        let terms = hold.map(|(_, kind, ttl_us)| (self.names.len() as u64, kind, ttl_us));
        let (admitted, fields) = self.oracle.ask(at_us, cost, terms, &guess);
        if let Some((name, ..)) = hold.filter(|_| admitted) {
            self.names.push(name.to_owned());
        }
        // Under skew a hold ends by the latest time seen.
        let said = match (said, terms) {
            (Said::Until(_), Some((_, _, ttl_us))) => Said::Until(self.oracle.seen_us() + ttl_us),
            (said, _) => said,
        };
        let asked = (cost, terms.map(|(_, kind, _)| kind));
        Ok(decided(&self.oracle, (at_us, asked), admitted.then_some(said), &fields))
    }

    fn settle(&mut self, at_us: u64, name: &str, units: u64) -> Result<LineAnswer, String> {
        let hold = self.named(name);
        Ok(match (self.oracle.settle(at_us, hold, units), self.oracle.was_settled(hold)) {
            (Some(charged), _) => self.charged(units, &charged),
            (None, Some(actual)) => LineAnswer::only(Said::Already(actual)),
            (None, None) => LineAnswer::only(Said::NotOpen),
        })
    }

    fn charged(&self, units: u64, charged: &[Charged]) -> LineAnswer {
        let exact = self.oracle.resets_exactly();
        let each = charged.iter().map(|done| LimitAnswer {
            fields: done.fields,
            at_least: !exact,
            charged: Some((done.fits, done.cut)),
        });
        LineAnswer { said: Said::Charged(units), limits: each.collect() }
    }
}

/// The answer to a question that was admitted, or denied.
fn decided(
    oracle: &HoldOracle,
    (at_us, (cost, kind)): (u64, (u64, Option<Kind>)),
    said: Option<Said>,
    fields: &[Fields],
) -> LineAnswer {
    let mut then = oracle.clone();
    then.end_due(at_us);
    let at_least = !then.resets_exactly();
    let said = said.unwrap_or_else(|| match fields {
        _ if fields.iter().any(|fields| fields.retry_after_us.is_none()) => Said::Never,
        _ => Said::No { held: oracle.waits_for_holds(at_us, cost, kind, fields) },
    });
    let each = fields.iter().map(|fields| LimitAnswer { fields: *fields, at_least, charged: None });
    LineAnswer { said, limits: each.collect() }
}

//! Time lines of costs by unit: the reader, the oracle's answers, and the writer of
//! `vectors/units.txt`.
//!
//! ```
//! use tollgate_proof::vectors::units::write;
//!
//! let asked = "# A unit that a cost does not name has the amount 0.\n\
//!              limits: 5/10s via gcra, 90/10s of tokens via gcra\n\
//!              0 | check tokens=30\n";
//! let written = write(asked)?;
//! assert!(written.contains("0 | check tokens=30 | yes | 5 0 0 | 60 0 3_333_334"), "{written}");
//! assert_eq!(write(&written)?, written);
//! # Ok::<(), tollgate_proof::vectors::VectorError>(())
//! ```

use super::holds::{LimitAnswer, LineAnswer, Said, write_with};
use super::{Ask, VectorError, parse_duration, parse_limit, parse_number, read};
use crate::oracle::{Fields, Oracle};

/// The file: its path in `vectors/`, and its text.
pub const UNIT_VECTORS: (&str, &str) = embed!("units.txt");

/// One fresh subject under its limits, and its questions.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitTimeLine {
    /// The limits as written.
    pub limits: String,
    /// The questions, in order.
    pub lines: Vec<UnitLine>,
    /// The unit of each limit, and its count.
    counts: Vec<(String, Oracle)>,
}

/// One question and its answer.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitLine {
    /// Its line number in the file, from 1.
    pub number: usize,
    /// The comment above it: the case it belongs to.
    pub case: String,
    /// The time, in microseconds.
    pub at_us: u64,
    /// Check, peek or partial.
    pub ask: Ask,
    /// The cost as written.
    pub cost: String,
    /// The expected answer; `None` where it is not written yet.
    pub expect: Option<LineAnswer>,
    /// The amounts of the cost by unit, the first unit first.
    amounts: Vec<(String, u64)>,
}

/// Reads a file of time lines of units. Answers that are not written yet are `None`.
///
/// # Errors
///
/// The first line that cannot be read, with its number.
pub fn parse(text: &str) -> Result<Vec<UnitTimeLine>, VectorError> {
    let begin = |limits: String| {
        let counts = limits.split(", ").map(parse_count).collect::<Result<_, _>>()?;
        Ok(UnitTimeLine { limits, lines: Vec::new(), counts })
    };
    read(text, "limits", begin, |time_line, number, case, line| {
        let line = parse_line(number, case, line, time_line)?;
        time_line.lines.push(line);
        Ok(())
    })
}

/// A limit, which may have `of UNIT` behind its quota.
fn parse_count(text: &str) -> Result<(String, Oracle), String> {
    let (limit, unit) = match text.split_once(" of ") {
        None => (text.to_owned(), "requests"),
        Some((quota, rest)) => {
            let (unit, options) = rest.split_once(' ').unwrap_or((rest, ""));
            (format!("{quota} {options}"), unit)
        }
    };
    let (rule, debt) = parse_limit(limit.trim())?;
    let oracle = Oracle::new(rule).and_then(|oracle| match debt {
        Some(debt) => oracle.with_debt(debt),
        None => Ok(oracle),
    });
    Ok((unit.to_owned(), oracle.map_err(|error| error.to_string())?))
}

fn parse_line(
    number: usize,
    case: &str,
    line: &str,
    time_line: &UnitTimeLine,
) -> Result<UnitLine, String> {
    let columns: Vec<&str> = line.split('|').map(str::trim).collect();
    let [at, question, answers @ ..] = columns.as_slice() else {
        return Err("one column; write at | question, or also | answer".to_owned());
    };
    let expect = match answers {
        [] => None,
        [said, limits @ ..] => Some(LineAnswer::parse(said, limits)?),
    };
    if expect.as_ref().is_some_and(|it| !it.fits(time_line.counts.len())) {
        return Err(format!("the answer has not one column for each of {:?}", time_line.limits));
    }
    let (ask, cost) = match question.split_once(' ') {
        Some(("check", cost)) => (Ask::Check, cost),
        Some(("peek", cost)) => (Ask::Peek, cost),
        Some(("partial", cost)) => (Ask::Partial, cost),
        _ => return Err(format!("{question:?} is not a question: see vectors/README.md")),
    };
    let (at_us, amounts) = (parse_duration(at)?, parse_amounts(cost)?);
    let (case, cost) = (case.to_owned(), cost.to_owned());
    Ok(UnitLine { number, case, at_us, ask, cost, expect, amounts })
}

/// `requests=1,tokens=5`, requests before the others, which are in the order of their names.
fn parse_amounts(cost: &str) -> Result<Vec<(String, u64)>, String> {
    let mut amounts = Vec::new();
    for part in cost.split(',') {
        let (unit, amount) = part
            .split_once('=')
            .ok_or_else(|| format!("{part:?} is not an amount: write `tokens=5`"))?;
        amounts.push((unit.to_owned(), parse_number(amount)?));
    }
    amounts.sort_by_key(|(unit, _)| (unit != "requests", unit.clone()));
    Ok(amounts)
}

/// Writes the file with the oracle's answers in place of those that it has.
///
/// # Errors
///
/// The first line that cannot be read.
pub fn write(text: &str) -> Result<String, VectorError> {
    write_with(text, |questions| {
        let time_lines = parse(questions)?;
        let answers = time_lines.iter().flat_map(|time_line| {
            let numbers = time_line.lines.iter().map(|line| line.number);
            numbers.zip(time_line.run().into_iter().map(Some))
        });
        Ok(answers.collect())
    })
}

impl UnitTimeLine {
    /// The oracle's answer to each line.
    #[must_use]
    pub fn run(&self) -> Vec<LineAnswer> {
        let mut counts = self.counts.clone();
        self.lines.iter().map(|line| line.answer(&mut counts)).collect()
    }
}

impl UnitLine {
    /// Every limit is judged by the amount of its own unit, and all are charged or none is.
    fn answer(&self, counts: &mut [(String, Oracle)]) -> LineAnswer {
        let (at_us, mut amounts) = (self.at_us, self.amounts.clone());
        if let (Ask::Partial, Some((first, granted))) = (self.ask, amounts.first_mut()) {
            let of_it = counts.iter().filter(|(unit, _)| unit == first);
            let left = of_it.map(|(_, oracle)| oracle.peek(at_us, 1).fields.remaining).min();
            *granted = left.unwrap_or(*granted).min(*granted).max(1);
        }
        let amount = |unit: &str| {
            let named = amounts.iter().find(|(known, _)| known == unit);
            named.map_or(0, |(_, amount)| *amount)
        };
        let peeked: Vec<_> =
            counts.iter().map(|(unit, oracle)| oracle.peek(at_us, amount(unit))).collect();
        let admitted = peeked.iter().all(|answer| answer.admitted);
        let mut fields: Vec<Fields> = peeked.iter().map(|answer| answer.fields).collect();
        if self.ask != Ask::Peek {
            for ((unit, oracle), fields) in counts.iter_mut().zip(&mut fields) {
                match amount(unit) {
                    units @ 1.. if admitted => *fields = oracle.check(at_us, units).fields,
                    _ => oracle.keep_repair(at_us),
                }
            }
        }
        let said = match (admitted, self.ask) {
            (true, Ask::Partial) => Said::Granted(amounts.first().map_or(0, |(_, units)| *units)),
            (true, _) => Said::Yes,
            _ if fields.iter().any(|fields| fields.retry_after_us.is_none()) => Said::Never,
            _ => Said::No { held: false },
        };
        let each = fields.into_iter();
        let limits = each.map(|fields| LimitAnswer { fields, at_least: false, charged: None });
        LineAnswer { said, limits: limits.collect() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_file_is_as_the_oracle_writes_it() {
        let (path, text) = UNIT_VECTORS;
        let written = write(text).unwrap();
        for (number, (line, written)) in (1..).zip(text.lines().zip(written.lines())) {
            assert_eq!(line, written, "{path}:{number}: see vectors/README.md on how to write it");
        }
        assert_eq!(text, written);
    }

    /// Each kind of question and answer, and every strategy.
    #[test]
    fn it_has_every_kind_of_question() {
        let (_, text) = UNIT_VECTORS;
        for said in ["| yes", "| no ", "| never", "| granted", "| peek", "of tokens", "month of"] {
            assert!(text.contains(said), "no `{said}`");
        }
        for strategy in ["gcra", "fixed_window", "sliding_log", "sliding_window", "token_bucket"] {
            assert!(text.contains(&format!("via {strategy}")), "no `{strategy}`");
        }
    }

    #[test]
    fn bad_files_are_refused_with_their_line() {
        for (text, message) in [
            ("0 | check tokens=1", "line 1: a `limits: ...` line"),
            ("limits: 5 of tokens via gcra", "line 1: the limit \"5 via gcra\""),
            ("limits: 5/s via gcra\n0", "line 2: one column"),
            ("limits: 5/s via gcra\n0 | charge tokens=1", "line 2: \"charge tokens=1\" is not"),
            ("limits: 5/s via gcra\n0 | check 1", "line 2: \"1\" is not an amount"),
            ("limits: 5/s via gcra\n0 | peek tokens=x", "line 2: \"x\" is not a whole number"),
            ("limits: 5/s via gcra\n0 | peek a=1 | yes", "line 2: the answer has not one column"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{text:?}: {error}");
        }
    }
}

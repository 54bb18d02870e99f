//! Time lines as data: the reader for the files in `vectors/`, described in its README.
//!
//! ```
//! use tollgate_proof::vectors::parse;
//!
//! let text = "# The second of two in a second waits.\n\
//!             limit: 1/s via gcra\n\
//!             0     | 1 | yes | 0 | 0     | 1s\n\
//!             400ms | 1 | no  | 0 | 600ms | 600ms\n";
//! let lines = parse(text)?;
//! assert_eq!(lines[0].lines[1].expect.fields.retry_after_us, Some(600_000));
//! # Ok::<(), tollgate_proof::vectors::VectorError>(())
//! ```

use std::fmt;

use crate::oracle::{self, Fields, Oracle, OracleAnswer, Rounding, Rule};

/// Embeds a file of `vectors/`, with its path there.
macro_rules! embed {
    ($path:literal) => {
        ($path, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/", $path)))
    };
}

pub mod holds;
pub mod units;
pub mod wire;

/// Every file of the strategies in `vectors/`: its path there, and its text.
pub const VECTORS: &[(&str, &str)] = &[
    embed!("fixed_window/calendar.txt"),
    embed!("fixed_window/charge.txt"),
    embed!("fixed_window/clock.txt"),
    embed!("fixed_window/edges.txt"),
    embed!("fixed_window/first_hit.txt"),
    embed!("gcra/charge.txt"),
    embed!("gcra/clock.txt"),
    embed!("gcra/edges.txt"),
    embed!("gcra/partial.txt"),
    embed!("gcra/table.txt"),
    embed!("sliding_log/charge.txt"),
    embed!("sliding_log/clock.txt"),
    embed!("sliding_log/edges.txt"),
    embed!("sliding_log/weights.txt"),
    embed!("sliding_window/charge.txt"),
    embed!("sliding_window/clock.txt"),
    embed!("sliding_window/conservative.txt"),
    embed!("sliding_window/interpolate.txt"),
    embed!("sliding_window/truncate.txt"),
    embed!("token_bucket/charge.txt"),
    embed!("token_bucket/greedy.txt"),
    embed!("token_bucket/greedy_clock.txt"),
    embed!("token_bucket/interval.txt"),
    embed!("token_bucket/interval_clock.txt"),
    embed!("uniform/charge.txt"),
    embed!("uniform/clock.txt"),
    embed!("uniform/never.txt"),
    embed!("uniform/spacing.txt"),
];

/// One fresh subject under one limit, and its questions.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeLine {
    /// The limit as written.
    pub limit: String,
    /// The same for the oracle.
    pub rule: Rule,
    /// The debt of the limit, in units; `None` for the usual one.
    pub debt: Option<u64>,
    /// The questions, in order.
    pub lines: Vec<Line>,
}

/// How a line asks.
#[allow(clippy::exhaustive_enums, reason = "a runner must handle every one")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Charge it if all of it is admitted.
    Check,
    /// Charge nothing.
    Peek,
    /// Take what remains of it.
    Partial,
    /// Charge it without a check. The answer is admitted if it fitted, and grants what was charged.
    Charge,
}

/// One question and its answer.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its line number in the file, from 1.
    pub number: usize,
    /// The comment above it: the case it belongs to.
    pub case: String,
    /// The time, in microseconds.
    pub at_us: u64,
    /// Check, peek, partial or charge.
    pub ask: Ask,
    /// The cost asked, in units.
    pub cost: u64,
    /// The expected answer.
    pub expect: OracleAnswer,
}

/// The place of an error in a file, and the correction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorError {
    line: usize,
    message: String,
}

impl fmt::Display for VectorError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for VectorError {}

/// Reads a file of time lines.
///
/// # Errors
///
/// The first line that cannot be read, with its number.
pub fn parse(text: &str) -> Result<Vec<TimeLine>, VectorError> {
    let begin = |limit: String| {
        let (rule, debt) = parse_limit(&limit)?;
        Ok(TimeLine { limit, rule, debt, lines: Vec::new() })
    };
    read(text, "limit", begin, |time_line, number, case, line| {
        time_line.lines.push(parse_line(number, case, line)?);
        Ok(())
    })
}

/// Reads a file of time lines. Each begins with a line of its limits behind this word; `add` gets
/// the number of each further line, the comment above it, and the line.
fn read<T>(
    text: &str,
    word: &str,
    begin: impl Fn(String) -> Result<T, String>,
    add: impl Fn(&mut T, usize, &str, &str) -> Result<(), String>,
) -> Result<Vec<T>, VectorError> {
    let mut found: Vec<T> = Vec::new();
    let mut case = String::new();
    for (index, raw) in text.lines().enumerate() {
        let (number, line) = (index + 1, raw.trim());
        let at_line = |message| VectorError { line: number, message };
        let limits = line.strip_prefix(word).and_then(|rest| rest.strip_prefix(':'));
        if line.is_empty() {
            continue;
        } else if let Some(comment) = line.strip_prefix('#') {
            comment.trim().clone_into(&mut case);
        } else if let Some(limits) = limits {
            found.push(begin(limits.trim().to_owned()).map_err(at_line)?);
        } else if let Some(time_line) = found.last_mut() {
            add(time_line, number, &case, line).map_err(at_line)?;
        } else {
            return Err(at_line(format!("a `{word}: ...` line must come first")));
        }
    }
    Ok(found)
}

impl TimeLine {
    /// Asks the oracle every line; the lines it answers otherwise, with its answers.
    ///
    /// # Errors
    ///
    /// When the rule was changed since [`parse`] to one that the oracle refuses.
    pub fn run(&self) -> Result<Vec<(&Line, OracleAnswer)>, crate::oracle::RuleError> {
        let mut oracle = Oracle::new(self.rule)?;
        if let Some(debt) = self.debt {
            oracle = oracle.with_debt(debt)?;
        }
        let answers = self.lines.iter().map(|line| {
            let answer = match line.ask {
                Ask::Check => oracle.check(line.at_us, line.cost),
                Ask::Peek => oracle.peek(line.at_us, line.cost),
                Ask::Partial => oracle.partial(line.at_us, line.cost),
                Ask::Charge => oracle.charge(line.at_us, line.cost).answer(line.cost),
            };
            (line, answer)
        });
        Ok(answers.filter(|(line, answer)| line.expect != *answer).collect())
    }
}

/// `at | cost | allow | remaining | retry | reset`
fn parse_line(number: usize, case: &str, line: &str) -> Result<Line, String> {
    let columns: Vec<&str> = line.split('|').map(str::trim).collect();
    let &[at, cost, allow, remaining, retry, reset] = columns.as_slice() else {
        let count = columns.len();
        return Err(format!(
            "{count} columns; write six: at | cost | allow | remaining | retry | reset"
        ));
    };
    let (ask, cost) = match cost.split_once(' ') {
        None => (Ask::Check, cost),
        Some(("peek", cost)) => (Ask::Peek, cost),
        Some(("partial", cost)) => (Ask::Partial, cost),
        Some(("charge", cost)) => (Ask::Charge, cost),
        Some((word, _)) => return Err(format!("{word:?} is not `peek`, `partial` or `charge`")),
    };
    let cost = parse_number(cost)?;
    let (admitted, granted) = match (ask, allow) {
        (Ask::Partial, granted) => {
            let granted = parse_number(granted)?;
            (granted > 0, granted)
        }
        (Ask::Check | Ask::Charge, "yes") => (true, cost),
        (Ask::Charge, "owes") => (false, cost),
        (Ask::Charge, cuts) => {
            let cut = cuts.strip_prefix("cuts ").map(parse_number).transpose()?;
            let taken = cut.and_then(|cut| cost.checked_sub(cut)).filter(|taken| *taken < cost);
            (false, taken.ok_or_else(|| format!("{cuts:?}: write yes, owes, or cuts 2"))?)
        }
        (Ask::Peek, "yes") => (true, 0),
        (_, "no" | "never") => (false, 0),
        _ => return Err(format!("allow is {allow:?}; write yes, no or never")),
    };
    let retry_after_us = if retry == "-" { None } else { Some(parse_duration(retry)?) };
    let waits = match retry_after_us {
        _ if ask == Ask::Charge => true,
        None => allow == "never",
        Some(0) => admitted,
        Some(_) => !admitted && allow != "never",
    };
    if !waits {
        return Err(format!(
            "retry {retry:?} does not fit allow {allow:?}; write 0 for yes, a wait for no, \
             - for never"
        ));
    }
    let fields = Fields {
        remaining: parse_number(remaining)?,
        retry_after_us,
        reset_after_us: parse_duration(reset)?,
    };
    let expect = OracleAnswer { admitted, granted, fields };
    Ok(Line { number, case: case.to_owned(), at_us: parse_duration(at)?, ask, cost, expect })
}

/// `N/D [burst B] [precision P] [rounding R] [refill interval] [anchor first-hit] [debt M]
/// [via STRATEGY]` or `N/UNIT in ZONE [from EDGE] [debt M]`, after an optional `NAME:`. A reader
/// for vectors: it trusts the options to fit the strategy.
fn parse_limit(text: &str) -> Result<(Rule, Option<u64>), String> {
    let quota = text.split_once(": ").map_or(text, |(_name, quota)| quota);
    let mut words = quota.split_whitespace();
    let (n, d) = words
        .next()
        .and_then(|word| word.split_once('/'))
        .ok_or_else(|| format!("the limit {text:?} does not begin with a quota such as 5/10s"))?;
    if let Some(least_us) = least_of(d, quota) {
        let quota = quota.trim_end_matches(" via fixed_window");
        let (calendar, debt) = match quota.split_once(" debt ") {
            Some((calendar, debt)) => (calendar, Some(parse_number(debt)?)),
            None => (quota, None),
        };
        let calendar = calendar.split_once('/').map_or("", |(_, calendar)| calendar);
        let edges = oracle::edges_of(calendar);
        let edges = edges.ok_or_else(|| format!("the edges of {calendar:?} are not known"))?;
        return Ok((Rule::Dates { n: parse_number(n)?, d_us: least_us, edges }, debt));
    }
    let one_of_it = d.starts_with(|first: char| first.is_ascii_alphabetic());
    let (n, d_us) = (
        parse_number(n)?,
        if one_of_it { parse_duration(&format!("1{d}"))? } else { parse_duration(d)? },
    );
    let (mut burst, mut precision_us, mut strategy) = (n, d_us / 10, "sliding_log");
    let mut debt = None;
    let (mut rounding, mut interval, mut first_hit) = (Rounding::Conservative, false, false);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word:?} wants a value"))?;
        match (word, value) {
            ("burst", _) => burst = parse_number(value)?,
            ("precision", _) => precision_us = parse_duration(value)?,
            ("debt", _) => debt = Some(parse_number(value)?),
            ("rounding", "conservative") => rounding = Rounding::Conservative,
            ("rounding", "interpolate") => rounding = Rounding::Interpolate,
            ("rounding", "truncate") => rounding = Rounding::Truncate,
            ("refill", "greedy" | "interval") => interval = value == "interval",
            ("anchor", "epoch" | "first-hit") => first_hit = value == "first-hit",
            ("via", _) => strategy = value,
            _ => return Err(format!("{word:?} {value:?} is not an option of a limit")),
        }
    }
    let rule = match strategy {
        "uniform" => Rule::Greedy { n, d_us, burst: 1 },
        "token_bucket" if interval => Rule::Interval { n, d_us, burst },
        "gcra" | "token_bucket" => Rule::Greedy { n, d_us, burst },
        "fixed_window" if first_hit => Rule::FixedFirstHit { n, d_us },
        "fixed_window" => Rule::FixedEpoch { n, d_us },
        "sliding_log" => Rule::Log { n, d_us },
        "sliding_window" => Rule::Window { n, d_us, precision_us, rounding },
        _ => return Err(format!("{strategy:?} is not a strategy")),
    };
    Oracle::new(rule).map(|_| (rule, debt)).map_err(|error| error.to_string())
}

/// The least length of a calendar's unit.
fn least_of(unit: &str, quota: &str) -> Option<u64> {
    let days = match unit {
        "day" if quota.contains(" in ") => 1,
        "week" if quota.contains(" in ") => 7,
        "month" => 28,
        "year" => 365,
        _ => return None,
    };
    Some(days * 86_400_000_000)
}

/// A number with a unit, in microseconds; without a unit they are microseconds.
fn parse_duration(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let factor: u64 = match &text[digits.len()..] {
        "" | "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        unit => return Err(format!("{unit:?} in {text:?} is not one of us, ms, s, m, h, d")),
    };
    let number = parse_number(digits)?;
    number.checked_mul(factor).ok_or_else(|| format!("{text:?} is more than 2^64 us"))
}

/// A whole number; `_` may separate its digits.
fn parse_number(text: &str) -> Result<u64, String> {
    let digits = text.replace('_', "");
    digits.parse().map_err(|_| format!("{text:?} is not a whole number below 2^64"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::path::Path;

    /// The strategies of rates: each has a folder.
    fn strategies() -> impl Iterator<Item = &'static str> {
        tollgate::Strategy::RATES.iter().map(|strategy| strategy.name())
    }

    #[test]
    fn the_oracle_agrees_with_every_line() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
        let mut wrong = Vec::new();
        for strategy in strategies() {
            let mut files = 0;
            for entry in std::fs::read_dir(folder.join(strategy)).unwrap() {
                let path = entry.unwrap().path();
                let text = std::fs::read_to_string(&path).unwrap();
                let time_lines = parse(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
                assert!(time_lines.iter().all(|it| !it.lines.is_empty()), "{path:?} asks nothing");
                for time_line in &time_lines {
                    assert!(time_line.limit.contains(strategy), "{path:?}");
                    for (line, answer) in time_line.run().unwrap() {
                        let (number, case) = (line.number, &line.case);
                        wrong.push(format!("{path:?}:{number}: {case}\n  {answer:?}"));
                    }
                }
                files += 1;
            }
            assert!(files >= 3, "{strategy} has {files} files");
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn every_file_is_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
        let mut files = Vec::new();
        for strategy in strategies() {
            for entry in std::fs::read_dir(folder.join(strategy)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                files.push(format!("{strategy}/{name}"));
            }
        }
        files.sort();
        assert_eq!(VECTORS.iter().map(|(path, _)| *path).collect::<Vec<_>>(), files);
    }

    #[test]
    fn a_wrong_line_is_found() {
        let time_line = |retry: &str| {
            let text = format!("limit: 1/s via gcra\n0|1|yes|0|0|1s\n0|1|no|0|{retry}|1s\n");
            parse(&text).unwrap().remove(0)
        };
        assert_eq!(time_line("1s").run().unwrap(), []);
        let wrong = time_line("999999");
        assert_eq!(wrong.run().unwrap()[0].0.number, 3);
    }

    #[test]
    fn limits_are_read() {
        let second = 1_000_000;
        let rule = Rule::Greedy { n: 100, d_us: second, burst: 200 };
        assert_eq!(parse_limit("api: 100/s burst 200 via token_bucket"), Ok((rule, None)));
        let rule = Rule::Interval { n: 5, d_us: 1_500_000, burst: 5 };
        assert_eq!(parse_limit("5/1500ms refill interval via token_bucket"), Ok((rule, None)));
        assert_eq!(parse_limit("5/10s"), Ok((Rule::Log { n: 5, d_us: 10 * second }, None)));
        let rule = Rule::Window {
            n: 240,
            d_us: 3_600 * second,
            precision_us: 60 * second,
            rounding: Rounding::Truncate,
        };
        let text = "240/h precision 60s rounding truncate via sliding_window";
        assert_eq!(parse_limit(text), Ok((rule, None)));
    }

    #[test]
    fn bad_files_are_refused_with_their_line() {
        for (text, message) in [
            ("# x\n0|1|yes|0|0|0", "line 2: a `limit: ...` line"),
            ("limit: 5 via gcra", "line 1: the limit \"5 via gcra\""),
            ("limit: 5/s via leaky", "line 1: \"leaky\" is not a strategy"),
            ("limit: 5/s burst", "line 1: \"burst\" wants a value"),
            ("limit: 5/s colour red", "line 1: \"colour\" \"red\""),
            ("limit: 0/s via gcra", "line 1: n is 0"),
            ("limit: 5/s\n0|1|yes", "line 2: 3 columns"),
            ("limit: 5/s\n0|steal 1|yes|0|0|0", "line 2: \"steal\""),
            ("limit: 5/s\n0|1|maybe|0|0|0", "line 2: allow is \"maybe\""),
            ("limit: 5/s\n0|1|no|0|0|0", "line 2: retry \"0\""),
            ("limit: 5/s\n0|1|no|0|-|0", "line 2: retry \"-\""),
            ("limit: 5/s\n0|1|never|0|5|0", "line 2: retry \"5\""),
            ("limit: 5/s\n0y|1|yes|0|0|0", "line 2: \"y\" in \"0y\""),
            ("limit: 5/s\n-1|1|yes|0|0|0", "line 2: \"-1\""),
            ("limit: 5/s\n300000000d|1|yes|0|0|0", "line 2: \"300000000d\""),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{text:?}: {error}");
        }
    }
}

//! Limits as JSON of handwritten scripts: `[[1,10],[60,120],[3600,240,60]]`, that is seconds, units
//! and the seconds of a sub-bucket.
//!
//! Such scripts count in windows since the epoch, or in sub-buckets without the one that is partly
//! outside of the window. Both are limits of ours, so the text is read and not only translated.

use core::ops::Range;

use crate::error::ParseError;
use crate::limit::{Limit, LimitSet};
use crate::strategy::Strategy;

const SHAPE: &str = "write `[[SECONDS, N], [SECONDS, N, PRECISION]]` in whole numbers, as in \
                     `[[1,10],[60,120],[3600,240,60]]`";

/// A row: its numbers, and its place in the text.
struct Row {
    numbers: Vec<String>,
    at: Range<usize>,
}

/// Whether a text of limits is JSON.
pub(super) fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('[')
}

/// Parses a text that [`is_json`].
pub(super) fn set(text: &str, strategy: Option<Strategy>) -> Result<LimitSet, ParseError> {
    if let Some(strategy) = strategy {
        return Err(ParseError::whole(
            text,
            "the strategy is given twice",
            format!("limits as JSON have theirs: leave out the `{strategy}` given beside them"),
        ));
    }
    let limits = rows(text)?.iter().map(|row| limit(text, row)).collect::<Result<Vec<_>, _>>()?;
    LimitSet::new(limits).map_err(|error| ParseError::whole(text, error.what(), error.remedy()))
}

/// The limit of a row. An error of its numbers is about the row.
fn limit(text: &str, row: &Row) -> Result<Limit, ParseError> {
    let (length, units, step) = match &row.numbers[..] {
        [length, units] => (length, units, length),
        [length, units, step] => (length, units, step),
        _ => return Err(ParseError::at(text, row.at.clone(), "this is not a limit", SHAPE)),
    };
    let longer = |step: u64, length: u64| step >= length;
    let is_one = step.parse().ok().zip(length.parse().ok()).is_some_and(|(a, b)| longer(a, b));
    let written = if is_one {
        format!("{units}/{length}s via fixed_window")
    } else {
        format!("{units}/{length}s precision {step}s rounding truncate via sliding_window")
    };
    let about = |error: ParseError| {
        let what = format!("{}, in `{written}`", error.what());
        ParseError::at(text, row.at.clone(), what, error.remedy())
    };
    written.parse().map_err(about)
}

/// The rows of the array.
fn rows(text: &str) -> Result<Vec<Row>, ParseError> {
    let mut scanner = Scanner { text, at: 0 };
    let mut rows = Vec::new();
    scanner.take('[')?;
    loop {
        let start = scanner.next_at();
        scanner.take('[')?;
        let mut numbers = Vec::new();
        loop {
            numbers.push(scanner.number()?);
            if !scanner.goes_on()? {
                break;
            }
        }
        rows.push(Row { numbers, at: start..scanner.at });
        if !scanner.goes_on()? {
            break;
        }
    }
    match scanner.peek() {
        None => Ok(rows),
        Some(_) => scanner.fail(),
    }
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

impl Scanner<'_> {
    /// The next character that is not blank.
    fn peek(&mut self) -> Option<char> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed.chars().next()
    }

    fn next_at(&mut self) -> usize {
        self.peek();
        self.at
    }

    fn fail<T>(&mut self) -> Result<T, ParseError> {
        let start = self.next_at().min(self.text.len());
        let end = start + self.peek().map_or(1, char::len_utf8);
        Err(ParseError::at(self.text, start..end, "this is not a list of limits as JSON", SHAPE))
    }

    fn take(&mut self, wanted: char) -> Result<(), ParseError> {
        if self.peek() != Some(wanted) {
            return self.fail();
        }
        self.at += wanted.len_utf8();
        Ok(())
    }

    /// Takes a comma, after which more follows, or the end of an array.
    fn goes_on(&mut self) -> Result<bool, ParseError> {
        match self.peek() {
            Some(',') => self.take(',').map(|()| true),
            _ => self.take(']').map(|()| false),
        }
    }

    /// The digits of a whole number.
    fn number(&mut self) -> Result<String, ParseError> {
        self.peek();
        let rest = self.text.get(self.at..).unwrap_or_default();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        if digits.is_empty() {
            return self.fail();
        }
        self.at += digits.len();
        Ok(digits)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that cannot go on has failed
mod tests {
    use super::*;

    #[test]
    fn json_is_read_with_the_meaning_that_it_has_there() {
        let set: LimitSet = "[[1,10],[60,120],[3600,240,60]]".parse().unwrap();
        let same = "10/s via fixed_window, 120/m via fixed_window, \
                    240/h precision 60s rounding truncate via sliding_window";
        assert_eq!(set, same.parse().unwrap());
        // A sub-bucket as long as the window is the window, as one that is longer.
        for text in ["[[10, 5, 10]]", " [ [10,5,11] ] ", "[[10,5]]"] {
            assert_eq!(
                text.parse::<LimitSet>().unwrap(),
                "5/10s via fixed_window".parse().unwrap()
            );
        }
    }

    #[test]
    fn errors_are_about_a_place_of_the_json() {
        for (text, at, says) in [
            ("[", 1..2, "not a list of limits"),
            ("[[1,10]", 7..8, "not a list of limits"),
            ("[[1,10]] x", 9..10, "not a list of limits"),
            ("[[1.5,10]]", 3..4, "not a list of limits"),
            ("[[1]]", 1..4, "this is not a limit"),
            ("[[1,2,3,4]]", 1..10, "this is not a limit"),
            ("[[1,0]]", 1..6, "a quota of 0 would never admit anything"),
            ("[[1,10],[3600,240,7]]", 8..20, "the precision does not divide 1h, in `240/3600s"),
        ] {
            let error = text.parse::<LimitSet>().unwrap_err();
            assert!(error.what().contains(says), "{text}: {error}");
            assert_eq!(error.span(), at, "{text}: {error}");
        }
        let error = "[[1,10],[1,20]]".parse::<LimitSet>().unwrap_err();
        assert!(error.what().contains("identity"), "{error}");
        let error = LimitSet::parse_with("[[1,10]]", Strategy::Gcra).unwrap_err();
        assert!(error.remedy().contains("leave out the `gcra`"), "{error}");
    }
}

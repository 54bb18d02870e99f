//! The words of a text, and the values of one: numbers, durations, strategies.

use core::ops::Range;

use super::foreign;
use super::hints::similar_names;
use crate::error::ParseError;
use crate::limit::{MAX_UNITS, Unit};
use crate::strategy::Strategy;
use crate::time::parse_duration_us;

pub(super) const SHAPE: &str = "a limit is written `[NAME:] N/D [options] [via STRATEGY]`, as in `10/s` or \
                     `100/s burst 200 via token_bucket`";

/// The option of a whole set.
pub(super) const LEASE: &str = "lease";

/// The options of the notation, and the values that they take.
pub(super) const OPTIONS: [(&str, &str); 11] = [
    ("of", "a unit, as in `of tokens`"),
    ("in", "a time zone, as in `in Europe/Berlin`"),
    ("from", "a date or a time, as in `from 15th` or `from Monday 06:00`"),
    ("burst", "a whole number, as in `burst 200`"),
    ("precision", "a duration, as in `precision 60s`"),
    ("rounding", "conservative, interpolate or truncate"),
    ("refill", "greedy or interval"),
    ("anchor", "epoch or first-hit"),
    ("debt", "a whole number from 0 up, as in `debt 200`"),
    ("via", "a strategy, as in `via gcra`"),
    (LEASE, "a size and a time, as in `lease 50 for 200ms`, or `lease auto`"),
];

/// A word of the text and its position.
#[derive(Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) start: usize,
}

impl Token<'_> {
    pub(super) fn span(self) -> Range<usize> {
        self.start..self.start + self.text.len()
    }

    /// The words before and after the first `at`.
    pub(super) fn cut(self, at: char) -> Option<(Self, Self)> {
        let (before, after) = self.text.split_once(at)?;
        let start = self.start + before.len() + at.len_utf8();
        Some((Self { text: before, ..self }, Self { text: after, start }))
    }
}

/// Whether a word is an option, with or without its value.
pub(super) fn is_option(token: &Token<'_>) -> bool {
    let word = token.cut('=').map_or(*token, |(word, _)| word);
    OPTIONS.iter().any(|(name, _)| *name == word.text)
}

/// A limit at a place of a text.
pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) range: Range<usize>,
}

impl<'a> Reader<'a> {
    pub(super) fn fail<T>(
        &self,
        at: Range<usize>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Result<T, ParseError> {
        Err(ParseError::at(self.text, at, what, remedy))
    }

    pub(super) fn tokens(&self) -> Vec<Token<'a>> {
        let part = &self.text[self.range.clone()];
        let base = part.as_ptr() as usize - self.text.as_ptr() as usize;
        part.split_whitespace()
            .map(|word| Token {
                text: word,
                start: base + (word.as_ptr() as usize - part.as_ptr() as usize),
            })
            .collect()
    }

    /// Parses a whole number of units, at least 1.
    pub(super) fn number(
        &self,
        text: &str,
        at: Range<usize>,
        what: &str,
    ) -> Result<u64, ParseError> {
        let at = at.start..at.end.max(at.start + 1);
        if text.is_empty() {
            return self.fail(at, "the number is missing", SHAPE);
        }
        if text.starts_with('-') {
            return self.fail(
                at,
                format!("{what} cannot be negative"),
                "give a whole number from 1 up",
            );
        }
        let digits = foreign::digits(text);
        let text = digits.as_deref().unwrap_or(text);
        if text.contains(['e', 'E']) && text.parse::<f64>().is_ok() {
            return self.fail(
                at,
                "this is not a whole number",
                "write all its digits, as in `1000/h`",
            );
        }
        if text.contains('.') && text.parse::<f64>().is_ok() {
            return self.fail(
                at,
                format!("{what} is a whole number"),
                "use a longer duration: `3/10s` instead of `0.3/s`",
            );
        }
        if !text.bytes().all(|b| b.is_ascii_digit()) {
            return self.fail(
                at,
                "this is not a whole number",
                "write digits only, as in `1000/h`",
            );
        }
        match text.parse::<u64>() {
            Ok(0) => {
                self.fail(at, format!("{what} of 0 would never admit anything"), "give at least 1")
            }
            Ok(number) if number <= MAX_UNITS => Ok(number),
            _ => self.fail(
                at,
                format!("{what} of this size is too large"),
                format!("the largest is 2^40 = {MAX_UNITS}"),
            ),
        }
    }

    pub(super) fn duration(
        &self,
        text: &str,
        at: Range<usize>,
        bare: bool,
    ) -> Result<u64, ParseError> {
        if text.starts_with('-') {
            return self.fail(at, "a duration cannot be negative", "durations go from 1us to 366d");
        }
        parse_duration_us(text, bare).or_else(|fault| {
            let (what, remedy) = fault.explain();
            self.fail(at.start..at.end.max(at.start + 1), what, remedy)
        })
    }

    /// Parses the unit that a rate counts.
    pub(super) fn unit(&self, value: Token<'_>) -> Result<Unit, ParseError> {
        let counted = value.text.strip_prefix('-');
        match counted.unwrap_or(value.text).parse::<Unit>() {
            Ok(Unit::SLOTS) => self.fail(
                value.span(),
                "slots are taken and given back, and are no rate",
                "write the limit as `20 at once`",
            ),
            Ok(unit) => Ok(if counted.is_some() { unit.uncounted() } else { unit }),
            Err(error) => self.fail(value.span(), error.what(), error.remedy()),
        }
    }

    pub(super) fn strategy(&self, value: Token<'_>) -> Result<Strategy, ParseError> {
        if let Some(strategy) = Strategy::named(value.text) {
            return Ok(strategy);
        }
        // `via token bucket`: the name goes on after a blank.
        let next = self.tokens().into_iter().find(|next| next.start > value.start);
        let next = next.filter(|next| !is_option(next));
        let both = next.map(|next| value.start..next.span().end);
        for at in [both, Some(value.span())].into_iter().flatten() {
            let name = self.text.get(at.clone()).unwrap_or_default();
            if let Some(remedy) = foreign::strategy(name) {
                return self.fail(at, unknown(name), remedy);
            }
        }
        self.fail(value.span(), unknown(value.text), similar_names(value.text))
    }
}

fn unknown(strategy: &str) -> String {
    format!("unknown strategy `{}`", strategy.escape_default())
}

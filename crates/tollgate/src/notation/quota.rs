//! Quotas: `10/s`, `10 per 15 minutes`, `1000/month`.

use core::iter::Peekable;
use core::ops::Range;
use core::str::FromStr;

use super::reader::{Reader, SHAPE, Token, is_option};
use super::{calendar, foreign};
use crate::error::ParseError;
use crate::limit::Quota;
use crate::time::Period;

/// The positions of a limit's numbers, for errors found later.
pub(super) struct Spans {
    pub(super) units: Range<usize>,
    pub(super) period: Range<usize>,
    pub(super) burst: Option<Range<usize>>,
    pub(super) precision: Option<Range<usize>>,
    pub(super) debt: Option<Range<usize>>,
}

impl<'a> Reader<'a> {
    /// Parses the quota that begins with `first`: `10/s`, `10 / s`, `10 per 15 minutes`.
    pub(super) fn quota(
        &self,
        first: Token<'a>,
        tokens: &mut Peekable<impl Iterator<Item = Token<'a>>>,
    ) -> Result<(Quota, Spans), ParseError> {
        if let Some((what, remedy)) = foreign::quota(first.text) {
            return self.fail(first.span(), what, remedy);
        }
        let (units, mut period) = match first.cut('/') {
            Some(both) => both,
            None => {
                let over = |next: &Token<'_>| next.text.starts_with('/') || next.text == "per";
                let Some(over) = tokens.next_if(over) else {
                    let rest = self.text.get(first.start..).unwrap_or_default();
                    let said = foreign::sentence(rest).or_else(|| foreign::slots(rest));
                    let remedy = said.as_deref().unwrap_or(SHAPE);
                    return self.fail(first.span(), "this is not a quota", remedy);
                };
                let rest = over.cut('/').map(|(_, rest)| rest);
                let end = Token { text: "", start: over.span().end };
                (first, rest.unwrap_or(end))
            }
        };
        if period.text.is_empty() {
            period = tokens.next_if(|next| !is_option(next)).unwrap_or(period);
        }
        // `15 minutes`: a number, and a separate word for the unit.
        let digits = !period.text.is_empty() && period.text.bytes().all(|b| b.is_ascii_digit());
        let apart = |next: &Token<'_>| {
            digits && !is_option(next) && next.text.bytes().all(|b| b.is_ascii_alphabetic())
        };
        let unit = tokens.next_if(apart);
        let period_span = period.start..unit.unwrap_or(period).span().end;
        let duration = [period.text, unit.map_or("", |unit| unit.text)].concat();
        let units_span = units.span();
        let number = self.number(units.text, units_span.clone(), "a quota")?;
        let (burst, precision, debt) = (None, None, None);
        let at = period_span.clone();
        let spans = Spans { units: units_span, period: at, burst, precision, debt };
        if let Some(calendar) = calendar::always(&duration) {
            return Ok((Quota::in_calendar(number, calendar), spans));
        }
        let us = self.duration(&duration, period_span.clone(), true)?;
        let Some(period) = Period::from_micros(us) else {
            let what = if us == 0 {
                "a quota over no time at all means nothing"
            } else {
                "the duration is longer than 366 days"
            };
            return self.fail(period_span, what, "durations go from 1us to 366d");
        };
        Ok((Quota::new(number, period), spans))
    }
}

/// Parses a quota alone: `10/s`, `10 per 15 minutes`.
fn parse_quota(text: &str) -> Result<Quota, ParseError> {
    let reader = Reader { text, range: 0..text.len() };
    let mut tokens = reader.tokens().into_iter().peekable();
    let Some(first) = tokens.next() else {
        return Err(ParseError::whole(text, "a quota is missing", "write one, as in `10/s`"));
    };
    let (quota, _) = reader.quota(first, &mut tokens)?;
    match tokens.next() {
        None => Ok(quota),
        Some(more) => reader.fail(
            more.span(),
            "this is not a part of a quota",
            "a quota is a number and a duration, as in `10/s`",
        ),
    }
}

impl FromStr for Quota {
    type Err = ParseError;

    /// Parses units per period, without options.
    ///
    /// ```
    /// use tollgate::Quota;
    /// let quota: Quota = "10/1m".parse()?;
    /// assert_eq!((quota.units, quota.period), (10, "60s".parse()?));
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// An invalid quota, a number or a duration out of range, or text after the quota.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse_quota(text)
    }
}

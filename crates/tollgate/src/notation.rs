//! The notation of limits: `[NAME:] N/D [of UNIT] [in ZONE] [from EDGE] [burst B] [precision P]
//! [rounding R] [refill R] [anchor A] [debt M] [via STRATEGY] [lease L]`,
//! `[NAME:] N at once [hold D]` or `[NAME:] ban D after N denials in D [up to D]`, joined by `,` or
//! `;`. JSON of handwritten scripts is read too.

use core::ops::Range;
use core::str::FromStr;

use crate::error::ParseError;
use crate::limit::{
    Anchor, Element, LeasePart, Limit, LimitSet, MAX_BARE_UNITS, Quota, Refill, Rounding,
    check_name,
};
use crate::strategy::Strategy;
use crate::time::Period;

mod at_once;
mod ban;
mod calendar;
mod foreign;
mod hints;
mod json;
mod lease;
mod quota;
mod reader;

use ban::BAN;
use hints::{choices, did_you_mean, list};
use lease::WrittenLease;
use quota::Spans;
use reader::{LEASE, OPTIONS, Reader, SHAPE, Token, is_option};

/// The longest text of limits that is parsed, in bytes.
const MAX_TEXT_BYTES: usize = 8_192;

fn parse_set(text: &str, strategy: Option<Strategy>) -> Result<LimitSet, ParseError> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(ParseError::whole(
            "",
            format!("the text of the limits has {} bytes", text.len()),
            format!("at most {MAX_TEXT_BYTES} are read"),
        ));
    }
    if json::is_json(text) {
        return json::set(text, strategy);
    }
    if let Some(remedy) = foreign::header(text) {
        return Err(ParseError::whole(text, "a window as in a header names no strategy", remedy));
    }
    let mut limits: Vec<Limit> = Vec::new();
    let mut start = 0;
    let mut lease: Option<WrittenLease> = None;
    for part in text.split([',', ';']) {
        let range = start..start + part.len();
        let (limit, written) = Reader { text, range }.limit(strategy)?;
        if let Some((written, earlier)) = written.as_ref().zip(lease.as_ref()) {
            let first = &text[earlier.word.start..earlier.end()];
            return Err(ParseError::at(
                text,
                written.word.clone(),
                "a lease is given twice",
                format!("one lease is for all limits of a set: keep `{first}`, or this one"),
            ));
        }
        lease = lease.or(written);
        if limits.iter().any(|earlier| earlier.is_same(&limit)) {
            let blanks = part.len() - part.trim_start().len();
            return Err(ParseError::at(
                text,
                start + blanks..start + part.trim_end().len(),
                format!("two limits have the identity `{}`", limit.identity()),
                "name them, as in `short: 5/10s, long: 20/10s`",
            ));
        }
        limits.push(limit);
        start += part.len() + 1;
    }
    if limits.iter().all(Limit::hears_denials) {
        return Err(ParseError::whole(
            text,
            "a ban counts the denials of the limits beside it, and there are none",
            "write it beside another limit, as in `10/s, ban 1m after 10 denials in 1m`",
        ));
    }
    let set = LimitSet::new(limits)
        .map_err(|error| ParseError::whole(text, error.what(), error.remedy()))?;
    let Some(WrittenLease { size, ttl, .. }) = &lease else { return Ok(set) };
    set.leasing(size.0, ttl.as_ref().map(|ttl| ttl.0)).map_err(|refusal| {
        let span = match (refusal.part, ttl) {
            (LeasePart::Ttl, Some((_, span))) => span.clone(),
            _ => size.1.clone(),
        };
        ParseError::at(text, span, refusal.what, refusal.remedy)
    })
}

/// Parses the limit at `range` of `text`; `strategy` is the one given outside of the text.
fn parse_limit(
    text: &str,
    range: Range<usize>,
    strategy: Option<Strategy>,
) -> Result<Limit, ParseError> {
    match (Reader { text, range }).limit(strategy)? {
        (limit, None) => Ok(limit),
        (_, Some(lease)) => Err(ParseError::at(
            text,
            lease.word,
            "a lease is for a set of limits, not for one alone",
            "leave it out here, or read the text as a set of limits",
        )),
    }
}

impl<'a> Reader<'a> {
    fn limit(
        &self,
        strategy: Option<Strategy>,
    ) -> Result<(Limit, Option<WrittenLease>), ParseError> {
        let mut tokens = self.tokens().into_iter().peekable();
        let Some(mut first) = tokens.next() else {
            let at = self.range.start..self.range.end.max(self.range.start + 1);
            return self.fail(at, "a limit is missing", SHAPE);
        };
        let mut name = None;
        if let Some(colon) = first.text.find(':') {
            let given = &first.text[..colon];
            check_name(self.text, given, first.start..first.start + colon.max(1))?;
            name = Some(given.to_owned());
            let rest = &first.text[colon + 1..];
            first = if rest.is_empty() {
                match tokens.next() {
                    Some(next) => next,
                    None => return self.fail(first.span(), "the quota is missing", SHAPE),
                }
            } else {
                Token { text: rest, start: first.start + colon + 1 }
            };
        }
        if first.text == BAN {
            return Ok((self.ban(name, first, &mut tokens, strategy)?, None));
        }
        if first.text == "up" {
            return self.fail(
                first.span(),
                "this is a part of a ban, and a limit begins after the comma",
                "leave out the comma, as in `ban 1m after 10 denials in 1m up to 1h`",
            );
        }
        if tokens.peek().is_some_and(|next| next.text == "at") {
            return Ok((self.at_once(name, first, &mut tokens, strategy)?, None));
        }
        let (mut quota, mut spans) = self.quota(first, &mut tokens)?;
        let mut via = None;
        let mut given: Vec<Token<'a>> = Vec::new();
        let mut lease: Option<WrittenLease> = None;
        while let Some(word) = tokens.next() {
            let (word, joined) =
                word.cut('=').map_or((word, None), |(word, value)| (word, Some(value)));
            let Some((option, takes)) = OPTIONS.iter().find(|(name, _)| *name == word.text) else {
                return self.unknown_word(word);
            };
            let is_again = lease.is_some() && word.text == LEASE;
            if is_again || given.iter().any(|earlier| earlier.text == word.text) {
                return self.fail(
                    word.span(),
                    format!("`{option}` is given twice"),
                    "once is enough",
                );
            }
            let value = joined.filter(|value| !value.text.is_empty());
            let Some(value) = value.or_else(|| joined.is_none().then(|| tokens.next()).flatten())
            else {
                return self.fail(
                    word.span(),
                    format!("`{option}` needs a value"),
                    format!("it takes {takes}"),
                );
            };
            if word.text == LEASE {
                lease = Some(self.lease(word, takes, value, &mut tokens)?);
                continue;
            }
            given.push(word);
            if ["in", "from"].contains(&word.text) {
                let period = &self.text[spans.period.clone()];
                let calendar = self.calendar_of(&quota, period, word)?;
                let calendar = match word.text {
                    "in" => self.zone(calendar, value)?,
                    _ => self.edge(calendar, value, &mut tokens, is_option)?,
                };
                (quota.period, quota.calendar) = (calendar.unit().least(), Some(calendar));
                continue;
            }
            self.option(word.text, takes, value, &mut quota, &mut spans, &mut via)?;
        }
        Ok((self.build(name, quota, via, strategy, &given, &spans)?, lease))
    }

    fn unknown_word<T>(&self, word: Token<'_>) -> Result<T, ParseError> {
        let names = OPTIONS.map(|(name, _)| name);
        if let Some(remedy) = foreign::strategy(word.text) {
            return self.fail(word.span(), format!("unknown strategy `{}`", word.text), remedy);
        }
        if word.text == BAN {
            return self.fail(
                word.span(),
                "a ban is a limit of its own, since it counts the denials of all that are beside it",
                "write it behind a comma, as in `10/s, ban 1m after 10 denials in 1m`",
            );
        }
        if let Some(strategy) = Strategy::named(word.text) {
            return self.fail(
                word.span(),
                "a strategy is written after `via`",
                format!("write `via {strategy}`"),
            );
        }
        self.fail(word.span(), format!("unknown word `{}`", word.text.escape_default()), {
            let hint = did_you_mean(word.text, names);
            let intro = if hint.is_empty() { "the" } else { "The" };
            format!("{hint}{intro} options are {}", list(names))
        })
    }

    fn option(
        &self,
        option: &str,
        takes: &str,
        value: Token<'_>,
        quota: &mut Quota,
        spans: &mut Spans,
        via: &mut Option<(Strategy, Range<usize>)>,
    ) -> Result<(), ParseError> {
        let wrong = || {
            ParseError::at(
                self.text,
                value.span(),
                format!("`{}` is nothing that `{option}` takes", value.text.escape_default()),
                format!("it takes {takes}"),
            )
        };
        match option {
            "of" => quota.unit = self.unit(value)?,
            "burst" => {
                quota.burst = Some(self.number(value.text, value.span(), "a burst")?);
                spans.burst = Some(value.span());
            }
            "debt" => {
                quota.debt = Some(match value.text {
                    "0" => 0,
                    some => self.number(some, value.span(), "a debt")?,
                });
                spans.debt = Some(value.span());
            }
            "precision" => {
                let us = self.duration(value.text, value.span(), false)?;
                quota.precision = Some(Period::from_micros(us).ok_or_else(wrong)?);
                spans.precision = Some(value.span());
            }
            "rounding" => {
                quota.rounding = Some(match value.text {
                    "conservative" => Rounding::Conservative,
                    "interpolate" => Rounding::Interpolate,
                    "truncate" => Rounding::Truncate,
                    _ => return Err(wrong()),
                });
            }
            "refill" => {
                quota.refill = Some(match value.text {
                    "greedy" => Refill::Greedy,
                    "interval" => Refill::Interval,
                    _ => return Err(wrong()),
                });
            }
            "anchor" => {
                quota.anchor = Some(match value.text {
                    "epoch" => Anchor::Epoch,
                    "first-hit" => Anchor::FirstHit,
                    _ => return Err(wrong()),
                });
            }
            _ => {
                let strategy = self.strategy(value)?;
                *via = Some((strategy, value.span()));
            }
        }
        Ok(())
    }

    fn build(
        &self,
        name: Option<String>,
        quota: Quota,
        via: Option<(Strategy, Range<usize>)>,
        beside: Option<Strategy>,
        given: &[Token<'a>],
        spans: &Spans,
    ) -> Result<Limit, ParseError> {
        let strategy = match (via, beside) {
            (Some((_, span)), Some(beside)) => {
                return self.fail(
                    span,
                    "the strategy is given twice",
                    format!("leave out this `via`, or the `{beside}` given beside the limit"),
                );
            }
            (Some((Strategy::Ban, span)), None) => {
                return self.fail(
                    span,
                    "a ban counts denials, not a rate",
                    "write it beside the limit, as in `10/s, ban 1m after 10 denials in 1m`",
                );
            }
            (None, Some(Strategy::Ban)) => {
                return self.fail(
                    spans.units.start..spans.period.end,
                    "a ban counts denials, not a rate",
                    "write it beside the limit, as in `10/s, ban 1m after 10 denials in 1m`",
                );
            }
            (Some((Strategy::Concurrency, span)), None) => {
                return self.fail(
                    span,
                    "`concurrency` counts what is at work at a time, not a rate",
                    format!("write `{} at once`", quota.units),
                );
            }
            (None, Some(Strategy::Concurrency)) => {
                return self.fail(
                    spans.units.start..spans.period.end,
                    "`concurrency` counts what is at work at a time, not a rate",
                    format!("write `{} at once`", quota.units),
                );
            }
            (Some((strategy, _)), None) | (None, Some(strategy)) => strategy,
            (None, None) if quota.calendar.is_some() => Strategy::FixedWindow,
            (None, None)
                if quota.units > MAX_BARE_UNITS
                    && given.iter().all(|word| ["of", "debt"].contains(&word.text)) =>
            {
                return self.fail(
                    spans.units.start..spans.period.end,
                    format!(
                        "a bare quota above {MAX_BARE_UNITS} would remember every event of each \
                         subject"
                    ),
                    format!("say what you want with `via`:\n{}", choices(&quota)),
                );
            }
            (None, None) => Strategy::SlidingLog,
        };
        let all = ["via", "of", "in", "from"];
        for word in given.iter().filter(|word| !all.contains(&word.text)) {
            if !strategy.options().contains(&word.text) {
                let takers: Vec<_> = Strategy::RATES
                    .iter()
                    .filter(|s| s.options().contains(&word.text))
                    .map(|s| s.name())
                    .collect();
                return self.fail(
                    word.span(),
                    format!("`{strategy}` takes no `{}`", word.text),
                    format!("`via` one that does: {}", list(takers)),
                );
            }
        }
        Limit::build(name, quota, strategy).map_err(|(_, refusal)| {
            let at = match refusal.element {
                Element::Units | Element::Ban => spans.units.clone(),
                Element::Period => spans.period.clone(),
                Element::Burst => spans.burst.clone().unwrap_or_else(|| spans.units.clone()),
                Element::Debt => spans.debt.clone().unwrap_or_else(|| spans.units.clone()),
                Element::Precision => {
                    spans.precision.clone().unwrap_or_else(|| spans.period.clone())
                }
            };
            ParseError::at(self.text, at, refusal.what, refusal.remedy)
        })
    }
}

impl FromStr for Limit {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse_limit(text, 0..text.len(), None)
    }
}

impl FromStr for LimitSet {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse_set(text, None)
    }
}

impl LimitSet {
    /// Parses a set, with `strategy` for every limit without a `via`.
    ///
    /// # Errors
    /// As parsing; also a limit that already has a `via`.
    pub fn parse_with(text: &str, strategy: Strategy) -> Result<Self, ParseError> {
        parse_set(text, Some(strategy))
    }
}

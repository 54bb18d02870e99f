//! The nodes of a case, as written in a file.

use core::ops::Range;

use serde::Deserialize;
use tollgate_policy::OnFailure;
use toml::Spanned;

use super::{Away, NodesCase, Spread};
use crate::experiment::file::duration;
use tollgate_logs::decide::PerLimits;

/// The round trip, unless it is given: that to a store in the same region.
const ROUND_TRIP_US: u64 = 1_000;

/// How long a check waits for the store unless said: many round trips, and far below a second.
const DEADLINE_US: u64 = 50_000;

/// Nodes, as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::experiment) struct RawNodes {
    number: Spanned<OneOrSome>,
    round_trip: Option<Spanned<String>>,
    clock_error: Option<Spanned<String>>,
    deadline: Option<Spanned<String>>,
    on_failure: Option<Spanned<String>>,
    deny_cache: Option<Spanned<String>>,
    spread: Option<Spanned<String>>,
    away: Option<Spanned<Vec<RawAway>>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrSome {
    One(u32),
    Some(Vec<u32>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAway {
    number: Option<u32>,
    from: String,
    until: String,
}

/// An error with its position in the text, if it has one.
type NodesError = (Option<Range<usize>>, String);

impl RawNodes {
    /// Parses the nodes for a case with these parts: one setting for each number of them.
    pub(in crate::experiment) fn read(
        &self,
        parts: &[PerLimits],
    ) -> Result<Vec<NodesCase>, NodesError> {
        let numbers = match self.number.get_ref() {
            OneOrSome::One(number) => core::slice::from_ref(number),
            OneOrSome::Some(numbers) => numbers,
        };
        if numbers.is_empty() {
            let what = "`number` has none: 10, or [1, 10, 100]";
            return Err((Some(self.number.span()), what.to_owned()));
        }
        if let Some(twice) = numbers.iter().enumerate().find(|(at, it)| numbers[..*at].contains(it))
        {
            let what = format!("`number` has {} twice", twice.1);
            return Err((Some(self.number.span()), what));
        }
        numbers.iter().map(|number| self.read_one(*number, parts)).collect()
    }

    fn read_one(&self, number: u32, parts: &[PerLimits]) -> Result<NodesCase, NodesError> {
        let at = |text: &Spanned<String>, what: String| (Some(text.span()), what);
        let time = |text: &Option<Spanned<String>>, key: &str| {
            let read = |text: &Spanned<String>| {
                duration(text.get_ref()).map_err(|what| at(text, format!("`{key}`: {what}")))
            };
            text.as_ref().map(read).transpose()
        };
        let nodes = NodesCase {
            number,
            round_trip_us: time(&self.round_trip, "round_trip")?.unwrap_or(ROUND_TRIP_US),
            clock_error_ppm: match &self.clock_error {
                None => 0,
                Some(text) => parts_in_a_million(text.get_ref()).ok_or_else(|| {
                    at(
                        text,
                        format!("`clock_error` is a share, e.g. 0.1%, not `{}`", text.get_ref()),
                    )
                })?,
            },
            deadline_us: time(&self.deadline, "deadline")?.unwrap_or(DEADLINE_US),
            on_failure: match &self.on_failure {
                None => OnFailure::Deny,
                Some(text) => text.get_ref().parse().map_err(|error: tollgate::ParseError| {
                    at(text, format!("`on_failure`: {error}"))
                })?,
            },
            deny_cache_us: time(&self.deny_cache, "deny_cache")?,
            spread: match &self.spread {
                None => Spread::Random,
                Some(text) => match text.get_ref().as_str() {
                    "random" => Spread::Random,
                    "client" => Spread::ByClient,
                    other => {
                        let what = format!("`spread` is \"random\" or \"client\", not \"{other}\"");
                        return Err(at(text, what));
                    }
                },
            },
            away: match &self.away {
                None => Vec::new(),
                Some(away) => away
                    .get_ref()
                    .iter()
                    .map(RawAway::read)
                    .collect::<Result<_, _>>()
                    .map_err(|what| (Some(away.span()), what))?,
            },
        };
        let span_of = |key| match key {
            "clock_error" => self.clock_error.as_ref().map(Spanned::span),
            "deadline" => self.deadline.as_ref().map(Spanned::span),
            "on_failure" => self.on_failure.as_ref().map(Spanned::span),
            "away" => self.away.as_ref().map(Spanned::span),
            _ => Some(self.number.span()),
        };
        nodes.check(parts).map_err(|(key, what)| (span_of(key), what))?;
        Ok(nodes)
    }
}

impl RawAway {
    fn read(&self) -> Result<Away, String> {
        let time = |text: &str, key| duration(text).map_err(|what| format!("`{key}`: {what}"));
        let (from_us, until_us) = (time(&self.from, "from")?, time(&self.until, "until")?);
        Ok(Away { number: self.number, from_us, until_us })
    }
}

/// Parses a percentage of at most four decimals, such as `0.1%`.
fn parts_in_a_million(text: &str) -> Option<u32> {
    let number = text.strip_suffix('%')?.trim_end();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 4 || whole.len() > 3 {
        return None;
    }
    let fraction = format!("{fraction:0<4}").parse::<u32>().ok()?;
    Some(whole.parse::<u32>().ok()? * 10_000 + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_read_to_parts_in_a_million() {
        for (text, ppm) in [("0.1%", 1_000), ("0.1 %", 1_000), ("1%", 10_000), ("0.0001%", 1)] {
            assert_eq!(parts_in_a_million(text), Some(ppm), "{text}");
        }
        for text in ["", "%", "0.1", "-0.1%", "0.00001%", "1000000%", ".1%", "1.%", "a%"] {
            assert_eq!(parts_in_a_million(text), None, "{text}");
        }
    }
}

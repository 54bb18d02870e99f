//! Durations, rates and capacities in files and options.

use jiff::{Span, SpanRelativeTo};
use tollgate::{LimitSet, Strategy};

use super::reader::ReadResult;
use crate::experiment::{Capacity, Invalid, Rate};

const DAYS_ARE_24_HOURS: SpanRelativeTo<'static> = SpanRelativeTo::days_are_24_hours();

/// Parses a duration into microseconds: `10s`, `1h 30m`, `500ms`.
pub(in crate::experiment) fn duration(text: &str) -> ReadResult<u64> {
    // A day has 24 hours here; a month has no fixed length.
    let read = text.parse::<Span>().and_then(|span| span.to_duration(DAYS_ARE_24_HOURS));
    let micros = read.ok().and_then(|duration| u64::try_from(duration.as_micros()).ok());
    // At most a hundred years: anything longer is a mistake.
    micros
        .filter(|micros| *micros <= 100 * 365 * 86_400_000_000)
        .ok_or_else(|| format!("`{text}` is not a duration, e.g. 10s, 500ms, 1h 30m or 7d"))
}

pub(super) fn optional(text: Option<&str>, key: &str) -> ReadResult<Option<u64>> {
    text.map(duration).transpose().map_err(|what| format!("`{key}`: {what}"))
}

/// Parses units per period in the notation of limits.
fn quota(text: &str, what: &str) -> ReadResult<(u64, u64)> {
    let limits = LimitSet::parse_with(text, Strategy::FixedWindow);
    let limits = limits.map_err(|error| format!("{what}: {error}"))?;
    match limits.limits() {
        [limit] => Ok((limit.quota().units, limit.quota().period.as_micros())),
        _ => Err(format!("{what}: `{text}` is more than one")),
    }
}

pub(in crate::experiment) fn rate(text: &str) -> ReadResult<Rate> {
    let (units, period_us) = quota(text, "`rate` is units per time, e.g. 10/s")?;
    Ok(Rate::new(units, period_us))
}

/// Parses the load that a resource can take, such as `300/10s`.
pub(in crate::experiment) fn capacity(text: &str) -> ReadResult<Capacity> {
    let (units, window_us) = quota(text, "`capacity` is units per time, e.g. 300/10s")?;
    Ok(Capacity { text: text.to_owned(), units, window_us })
}

impl core::str::FromStr for Rate {
    type Err = Invalid;

    /// Parses a rate such as `10/s`.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        rate(text).map_err(Invalid)
    }
}

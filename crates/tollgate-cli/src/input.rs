//! Parses arguments, with errors that describe valid input.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use tollgate::{
    Adjustment, Cost, Limit, LimitSet, MAX_COST, ParseError, Period, Strategy, Subject,
};

/// The longest argument that an error quotes, in characters.
const SHOWN_CHARS: usize = 60;

/// The cost of a check: a number of requests, or an amount of each unit.
pub(crate) fn costs(text: &str, peeks: bool) -> Result<Cost> {
    if text.contains('=') { Ok(text.parse()?) } else { Ok(cost(text, peeks)?.into()) }
}

/// The units of a check: an integer from 1 to 2^40.
pub(crate) fn cost(text: &str, peeks: bool) -> Result<u64> {
    match whole(text, "a cost")? {
        (_, 0) if peeks => {
            bail!(
                "a cost of 0 asks nothing: a peek charges nothing whatever its cost: leave it out"
            )
        }
        (_, 0) => {
            bail!("a cost of 0 would charge nothing: to look without charging, use `tollgate peek`")
        }
        (true, _) => bail!(
            "a cost cannot be negative: to give units back, use `tollgate adjust SUBJECT --limit \
             LIMIT --by N`"
        ),
        (false, cost) => Ok(cost),
    }
}

/// The units that were used: an integer from 0 to 2^40, or an amount of each unit.
pub(crate) fn actual(text: &str) -> Result<Cost> {
    if text.contains('=') {
        return Ok(Cost::parse_used(text)?);
    }
    match whole(text, "what was used")? {
        (true, _) => bail!("used units cannot be negative: give 0 if nothing was used"),
        (false, units) => Ok(units.into()),
    }
}

/// The units of an adjustment: an integer other than 0, from -2^40 to 2^40, or an amount of each
/// unit.
pub(crate) fn delta(text: &str) -> Result<Adjustment> {
    if text.contains('=') {
        return Ok(text.parse()?);
    }
    let (negative, units) = whole(text, "an adjustment")?;
    if units == 0 {
        bail!("an adjustment of 0 changes nothing: give 1 and up to give back, negative to take");
    }
    let units = i64::try_from(units)?;
    Ok(Adjustment::from(if negative { -units } else { units }))
}

/// The smallest memory store in bytes: below that, sets of limits take most of it.
const LEAST_BYTES: u64 = 1 << 20;

/// The units of a size, in bytes.
const UNITS: [(&str, u64); 9] = [
    ("", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// A size in bytes: an integer followed by a unit such as `KiB` or `MB`.
pub(crate) fn bytes(text: &str) -> Result<usize> {
    let like = "write a whole number and a unit, e.g. `1GiB`, `256MiB` or `500MB`";
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let unit = unit.trim_start();
    let found = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let shown = shown(text);
    let (Some((_, unit)), false) = (found, digits.is_empty()) else {
        bail!("`{shown}` is not a size: {like}");
    };
    let size = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(*unit));
    let Some(size) = size.and_then(|size| usize::try_from(size).ok()) else {
        bail!("`{shown}` is more than this machine can address: {like}");
    };
    if (size as u64) < LEAST_BYTES {
        bail!("`{shown}` is too small: the least is 1MiB");
    }
    Ok(size)
}

/// The sign and the magnitude of an integer of at most 2^40.
fn whole(text: &str, what: &str) -> Result<(bool, u64)> {
    let shown = shown(text);
    if text.is_empty() {
        bail!("{what} is missing: give a whole number, as in `5`");
    }
    let negative = text.starts_with('-');
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        if text.parse::<f64>().is_ok_and(f64::is_finite) {
            bail!(
                "{what} is a whole number, not `{shown}`: count in smaller units, e.g. `15` of \
                 `100/s` instead of `1.5` of `10/s`"
            );
        }
        bail!("{what} is a whole number, not `{shown}`: write digits only, as in `5`");
    }
    match digits.parse::<u64>() {
        Ok(units) if units <= MAX_COST => Ok((negative, units)),
        _ => bail!("{what} of {shown} is too large: the largest is 2^40 = {MAX_COST}"),
    }
}

/// An argument as quoted in an error: without control characters, and shortened.
pub(crate) fn shown(text: &str) -> String {
    let mut chars = text.chars();
    let mut shown: String =
        chars.by_ref().take(SHOWN_CHARS).map(|c| if c.is_control() { '?' } else { c }).collect();
    if chars.next().is_some() {
        shown.push_str("...");
    }
    shown
}

/// A time to wait: `90s`, `1h30m`, `0`.
pub(crate) fn wait(text: &str) -> Result<Duration> {
    if matches!(text, "0" | "0s" | "0ms") {
        return Ok(Duration::ZERO);
    }
    let example = "write a time to wait as in `90s`, `1500ms` or `1h30m`";
    if !text.starts_with(|c: char| c.is_ascii_digit())
        || !text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.')
    {
        return Err(ParseError::whole(text, "this is not a duration", example).into());
    }
    Ok(text.parse::<Period>()?.as_duration())
}

/// The strategy with this name.
pub(crate) fn strategy(name: &str) -> Result<Strategy> {
    Strategy::named(name).ok_or_else(|| {
        let names: Vec<_> = Strategy::RATES.iter().map(|s| s.name()).collect();
        anyhow!("unknown strategy `{}`: the strategies are {}", shown(name), names.join(", "))
    })
}

/// Limits that count together, from one or several texts.
pub(crate) fn limits(texts: &[String], strategy: Option<Strategy>) -> Result<LimitSet> {
    let text = texts.join(", ");
    Ok(match strategy {
        Some(strategy) => LimitSet::parse_with(&text, strategy)?,
        None => text.parse()?,
    })
}

/// A subject in its written form, or a literal value.
pub(crate) fn subject(text: &str, literal: bool) -> Result<Subject> {
    Ok(if literal { Subject::literal(text)? } else { Subject::parse(text)? })
}

/// `SUBJECT=LIMIT`, split at the last `=`.
pub(crate) fn on(
    text: &str,
    strategy: Option<Strategy>,
    literal: bool,
) -> Result<(Subject, LimitSet)> {
    let Some((subject, limit)) = text.rsplit_once('=') else {
        return Err(ParseError::whole(
            text,
            "a limit is missing",
            "`--on` takes SUBJECT=LIMIT, as in `--on user:42=10/s`",
        )
        .into());
    };
    Ok((self::subject(subject, literal)?, limits(&[limit.to_owned()], strategy)?))
}

/// The first limit from which only holds take, if there is one.
pub(crate) fn slots(parts: &[(Subject, LimitSet)]) -> Option<&Limit> {
    parts.iter().flat_map(|(_, limits)| limits.limits()).find(|limit| limit.needs_hold())
}

/// Refuses limits from which only holds take, for what places none.
pub(crate) fn refuse_slots(parts: &[(Subject, LimitSet)], asks: &str) -> Result<()> {
    let Some(limit) = slots(parts) else { return Ok(()) };
    bail!(
        "`{limit}` counts work in progress, and {asks} would never give a slot back: use \
         `tollgate run SUBJECT --at-once {} -- COMMAND`",
        limit.capacity()
    )
}

/// Checks the shard value, which all subjects of one check share on a cluster.
pub(crate) fn shard(value: &str) -> Result<()> {
    if value.is_empty() {
        bail!("`--shard` is empty: give the value that the subjects share, as in `--shard 12`");
    }
    Subject::new("shard", value)?;
    Ok(())
}

/// A secret from the environment. An empty one is an error, since it is probably a mistake.
pub(crate) fn secret(name: &str) -> Result<Option<String>> {
    match std::env::var(name) {
        Ok(text) if text.is_empty() => {
            bail!("{name} is set and empty: give it a value or unset it")
        }
        Ok(text) => Ok(Some(text)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => bail!("{name} is not UTF-8"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn sizes() {
        for (text, size) in [
            ("1MiB", 1 << 20),
            ("1GiB", 1 << 30),
            ("256 mib", 256 << 20),
            ("500MB", 500_000_000),
            ("2tib", 2 << 40),
            ("1048576", 1 << 20),
        ] {
            assert_eq!(bytes(text).unwrap(), size, "{text}");
        }
        for (text, says) in [
            ("", "`` is not a size: write a whole number and a unit, e.g. `1GiB`"),
            ("much", "`much` is not a size"),
            ("GiB", "is not a size"),
            ("1.5GiB", "`1.5GiB` is not a size"),
            ("-1GiB", "is not a size"),
            ("1G", "is not a size"),
            ("0", "`0` is too small: the least is 1MiB"),
            ("1048575", "too small"),
            ("99999999999999999999", "more than this machine can address"),
            ("16777216TiB", "more than this machine can address"),
        ] {
            let error = bytes(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn costs() {
        assert_eq!(cost("1", false).unwrap(), 1);
        assert_eq!(cost("+7", false).unwrap(), 7);
        assert_eq!(cost("1099511627776", false).unwrap(), 1 << 40);
        for (text, says) in [
            ("0", "use `tollgate peek`"),
            ("-0", "use `tollgate peek`"),
            ("-1", "cannot be negative: to give units back, use `tollgate adjust"),
            ("1.5", "a whole number, not `1.5`: count in smaller units"),
            ("1e3", "a whole number, not `1e3`: count in smaller units"),
            ("-1.5", "a whole number"),
            ("1099511627777", "too large: the largest is 2^40 = 1099511627776"),
            ("99999999999999999999999999", "too large"),
            ("", "missing"),
            ("five", "write digits only"),
            ("inf", "write digits only"),
            ("-", "write digits only"),
            ("--json", "write digits only"),
        ] {
            let error = cost(text, false).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        assert!(cost("0", true).unwrap_err().to_string().contains("leave it out"));
    }

    #[test]
    fn deltas() {
        assert_eq!(delta("+5").unwrap(), 5.into());
        assert_eq!(delta("-5").unwrap(), (-5).into());
        assert_eq!(delta("tokens=-5").unwrap().to_string(), "tokens=-5");
        for (text, says) in
            [("0", "changes nothing"), ("-0", "changes nothing"), ("0.5", "whole number")]
        {
            assert!(delta(text).unwrap_err().to_string().contains(says), "{text}");
        }
    }

    #[test]
    fn waits() {
        assert_eq!(wait("0").unwrap(), Duration::ZERO);
        assert_eq!(wait("1h30m").unwrap(), Duration::from_secs(5400));
        assert_eq!(wait("1500ms").unwrap(), Duration::from_millis(1500));
        for (text, says) in [
            ("", "not a duration"),
            ("s", "not a duration"),
            ("-1s", "not a duration"),
            ("10", "unknown unit of time"),
            ("1.5s", "`1500ms` instead of `1.5s`"),
            ("1month", "calendar periods"),
            ("1s via gcra", "not a duration"),
            ("400d", "longer than 366 days"),
        ] {
            let error = wait(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        let caret = wait("10x").unwrap_err().to_string();
        assert!(caret.contains("\n  10x\n  ^^^ the units are"), "{caret}");
    }

    #[test]
    fn subjects_with_limits() {
        let (subject, limits) = on("a=b:c=5/s", None, false).err().map_or_else(
            || unreachable!("`a=b` is not the name of a dimension"),
            |_| on("token:c=d=5/s", None, false).unwrap(),
        );
        assert_eq!(subject.to_string(), "token:c=d");
        assert_eq!(limits.to_string(), "5/s via sliding_log");
        assert!(on("user:1", None, false).unwrap_err().to_string().contains("SUBJECT=LIMIT"));
        let gcra = Strategy::named("gcra");
        assert_eq!(on("u:1=5/s", gcra, false).unwrap().1.to_string(), "5/s burst 5 via gcra");
        assert!(on("u:1=5/s via gcra", gcra, false).is_err());
        assert!(strategy("gcr").unwrap_err().to_string().contains("the strategies are uniform"));
    }

    proptest! {
        #[test]
        fn no_argument_panics(text in "\\PC*|[-+0-9.esmhdu=:,;/% a-z]{0,24}") {
            let _ = cost(&text, false);
            let _ = delta(&text);
            let _ = wait(&text);
            let _ = strategy(&text);
            let _ = on(&text, None, false);
            let _ = limits(std::slice::from_ref(&text), Strategy::named("gcra"));
            let _ = shard(&text);
            prop_assert!(shown(&text).chars().count() <= SHOWN_CHARS + 3);
        }

        #[test]
        fn every_whole_number_is_a_cost_or_too_large(units in 1_u64..) {
            let read = cost(&units.to_string(), false).ok();
            prop_assert_eq!(read, (units <= MAX_COST).then_some(units));
        }
    }
}

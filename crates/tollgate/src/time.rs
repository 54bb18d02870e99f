//! Times and durations in whole microseconds, and the notation of durations.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::error::ParseError;

/// The longest duration of a quota: 366 days, in microseconds.
pub const MAX_PERIOD_US: u64 = 366 * 86_400 * 1_000_000;

/// How far a store's clock may lag behind the newest stored time before it counts as a step
/// back: one second, in microseconds. `docs/definitions.md`, section 3.
pub const SKEW_US: u64 = 1_000_000;

/// A point in a store's time: whole microseconds since the Unix epoch.
///
/// At most [`Time::MAX`], so that every sum of a time and a wait stays below 2^53. A double holds
/// these exactly, and Lua on Redis has no other numbers.
///
/// ```
/// use tollgate::Time;
/// let t = Time::from_micros(1_500_000);
/// assert_eq!(t.as_micros(), 1_500_000);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(u64);

impl Time {
    /// The last representable time, in the year 2184. Later times are replaced by it.
    pub const MAX: Self = Self((1 << 53) - (1 << 51));

    /// The time `us` microseconds after the Unix epoch, or [`Time::MAX`] if that is earlier.
    #[inline]
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        if us > Self::MAX.0 { Self::MAX } else { Self(us) }
    }

    /// Whole microseconds since the Unix epoch.
    #[inline]
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// This time plus `wait`, at most [`Time::MAX`].
    #[must_use]
    pub fn plus(self, wait: Duration) -> Self {
        let us = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        Self::from_micros(self.0.saturating_add(us))
    }
}

/// A duration of a quota, in microseconds: at least 1, at most [`MAX_PERIOD_US`].
///
/// Displays in the largest unit that divides it: `1500ms`, `10s`, `1h`, `30d`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Period(u64);

impl Period {
    /// A period of `us` microseconds, or `None` when it is 0 or longer than 366 days.
    #[must_use]
    pub const fn from_micros(us: u64) -> Option<Self> {
        if us == 0 || us > MAX_PERIOD_US { None } else { Some(Self(us)) }
    }

    /// The length in microseconds.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The length as a [`Duration`].
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        Duration::from_micros(self.0)
    }
}

/// Units of time in the notation, longest first, in microseconds.
pub(crate) const UNITS: [(&str, u64); 7] = [
    ("w", 7 * 86_400_000_000),
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

impl fmt::Display for Period {
    /// Writes `10s`. The alternate form `{:#}` writes exactly one unit as `s` (as in `10/s`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Weeks are parsed but never written: `7d` is equal, and each duration has one text.
        for (unit, us) in UNITS.iter().skip(1) {
            if self.0.is_multiple_of(*us) {
                let count = self.0 / us;
                return if count == 1 && f.alternate() {
                    f.write_str(unit)
                } else {
                    write!(f, "{count}{unit}")
                };
            }
        }
        Ok(())
    }
}

impl FromStr for Period {
    type Err = ParseError;

    /// Parses a duration as in limits: whole numbers with units from long to short.
    ///
    /// ```
    /// use tollgate::Period;
    /// assert_eq!("1h30m".parse::<Period>()?, "90m".parse()?);
    /// assert!("1.5s".parse::<Period>().is_err() && "0s".parse::<Period>().is_err());
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// An invalid duration, or one outside of 1us to 366d.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wrong = |fault: DurationFault| {
            let (what, remedy) = fault.explain();
            ParseError::whole(text, what, remedy)
        };
        let us = parse_duration_us(text, false).map_err(wrong)?;
        Self::from_micros(us).ok_or_else(|| {
            let what = match us {
                0 => "this is not a time",
                _ => "the duration is longer than 366 days",
            };
            ParseError::whole(text, what, "durations go from 1us to 366d")
        })
    }
}

/// Why a text is not a valid duration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DurationFault {
    Empty,
    Unit,
    Calendar,
    Fraction,
    Order,
    TooLong,
}

impl DurationFault {
    /// The problem and the correction.
    pub(crate) fn explain(self) -> (&'static str, &'static str) {
        match self {
            Self::Empty => ("a duration is missing", "write one, as in `10s`, `1500ms`, `1h30m`"),
            Self::Unit => {
                ("unknown unit of time", "the units are us, ms, s, m, h, d and w, as in `1500ms`")
            }
            Self::Calendar => (
                "months and years are calendar periods of varying length",
                "write days, as in `30d` or `365d`; a limit can be of one, as in `1000/month`",
            ),
            Self::Fraction => {
                ("durations are whole numbers", "use a smaller unit: `1500ms` instead of `1.5s`")
            }
            Self::Order => {
                ("units must go from long to short, each once", "write it as in `1h30m`")
            }
            Self::TooLong => ("the duration is too long", "the longest is 366d"),
        }
    }
}

/// Parses `10s`, `1500ms`, `1h30m` or, with `bare_unit`, `s` for one second. Returns microseconds.
pub(crate) fn parse_duration_us(text: &str, bare_unit: bool) -> Result<u64, DurationFault> {
    let mut rest = text;
    let mut total = 0_u64;
    let mut shortest = u64::MAX;
    if rest.is_empty() {
        return Err(DurationFault::Empty);
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        if tail.starts_with('.') {
            return Err(DurationFault::Fraction);
        }
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, next) = tail.split_at(letters);
        let us = unit_us(unit)?;
        if us >= shortest {
            return Err(DurationFault::Order);
        }
        shortest = us;
        let count = match number {
            "" if bare_unit && rest.len() == text.len() => 1,
            "" => return Err(DurationFault::Unit),
            n => n.parse::<u64>().map_err(|_| DurationFault::TooLong)?,
        };
        total = count
            .checked_mul(us)
            .and_then(|part| total.checked_add(part))
            .ok_or(DurationFault::TooLong)?;
        rest = next;
    }
    Ok(total)
}

fn unit_us(unit: &str) -> Result<u64, DurationFault> {
    let short = match unit {
        "sec" | "secs" | "second" | "seconds" => "s",
        "min" | "mins" | "minute" | "minutes" => "m",
        "hr" | "hour" | "hours" => "h",
        "day" | "days" => "d",
        "week" | "weeks" => "w",
        "mo" | "M" | "month" | "months" | "y" | "year" | "years" => {
            return Err(DurationFault::Calendar);
        }
        other => other,
    };
    UNITS.iter().find(|(name, _)| *name == short).map(|(_, us)| *us).ok_or(DurationFault::Unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_print() {
        for (text, us, printed) in [
            ("10s", 10_000_000, "10s"),
            ("1500ms", 1_500_000, "1500ms"),
            ("1h30m", 5_400_000_000, "90m"),
            ("30d", 2_592_000_000_000, "30d"),
            ("2w", 1_209_600_000_000, "14d"),
            ("250us", 250, "250us"),
            ("60s", 60_000_000, "1m"),
        ] {
            assert_eq!(parse_duration_us(text, false), Ok(us), "{text}");
            assert_eq!(Period::from_micros(us).map(|p| p.to_string()).as_deref(), Some(printed));
        }
        assert_eq!(parse_duration_us("s", true), Ok(1_000_000));
        assert_eq!(parse_duration_us("s", false), Err(DurationFault::Unit));
        assert_eq!(parse_duration_us("1.5s", true), Err(DurationFault::Fraction));
        assert_eq!(parse_duration_us("1month", true), Err(DurationFault::Calendar));
        assert_eq!(parse_duration_us("30m1h", true), Err(DurationFault::Order));
        assert_eq!(parse_duration_us("10", true), Err(DurationFault::Unit));
        assert_eq!(parse_duration_us("", true), Err(DurationFault::Empty));
        assert_eq!(parse_duration_us("1hm", true), Err(DurationFault::Unit));
        assert_eq!(parse_duration_us("99999999999999999999d", true), Err(DurationFault::TooLong));
    }

    #[test]
    fn one_unit_prints_bare_in_the_alternate_form() {
        let hour = Period::from_micros(3_600_000_000).unwrap();
        assert_eq!(format!("{hour:#} {hour}"), "h 1h");
        assert_eq!(Period::from_micros(MAX_PERIOD_US + 1), None);
        assert_eq!(Period::from_micros(0), None);
    }

    #[test]
    fn times_saturate() {
        assert_eq!(Time::from_micros(u64::MAX), Time::MAX);
        assert_eq!(Time::MAX.plus(Duration::from_secs(1)), Time::MAX);
        assert!(Time::MAX.as_micros() + (1 << 51) <= 1 << 53);
    }
}

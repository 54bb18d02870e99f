//! Durations as numbers of seconds and as text.

use core::fmt;
use core::time::Duration;

use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;

/// A wait: a number of seconds with at most 6 decimals, and the same as text.
///
/// A fraction is the raw number of `serde_json`, so that no digit is lost. Other formats of serde
/// are not for it.
///
/// ```
/// use std::time::Duration;
/// let wait = tollgate::wire::Wait(Duration::from_micros(1_500_000));
/// assert_eq!(serde_json::to_string(&wait)?, r#"{"seconds":1.5,"text":"1.5s"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_structs)] // a duration, and nothing else
pub struct Wait(pub Duration);

impl Wait {
    /// The seconds as a whole number; `None` if they have a fraction.
    #[must_use]
    pub fn whole(self) -> Option<u64> {
        let seconds = Seconds::new(self.0);
        (seconds.us == 0).then_some(seconds.whole)
    }

    /// The seconds in digits, with a point if they have a fraction.
    #[must_use]
    pub fn digits(self) -> String {
        Seconds::new(self.0).to_string()
    }

    pub(super) fn serialize_seconds<S: Serializer>(self, to: S) -> Result<S::Ok, S::Error> {
        match self.whole() {
            Some(whole) => to.serialize_u64(whole),
            // Digits with a point are a valid JSON number. A float would lose some of them.
            None => RawValue::from_string(self.digits()).map_err(S::Error::custom)?.serialize(to),
        }
    }
}

impl fmt::Display for Wait {
    /// In days, hours, minutes and seconds: `1.5s`, `2m5s`, `3d4h`. It is rounded up to a
    /// microsecond.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seconds { mut whole, us } = Seconds::new(self.0);
        let mut is_written = false;
        for (unit, length) in [('d', 86_400), ('h', 3_600), ('m', 60)] {
            if whole >= length {
                write!(f, "{}{unit}", whole / length)?;
                (whole, is_written) = (whole % length, true);
            }
        }
        match (whole, us) {
            (0, 0) if is_written => Ok(()),
            (whole, us) => write!(f, "{}s", Seconds { whole, us }),
        }
    }
}

/// A duration in readable form: `1.5s`, `2m5s`, `3d4h`. It is rounded up to a microsecond, and
/// covers up to 2^64 - 1 s.
#[must_use]
pub fn duration(duration: Duration) -> String {
    Wait(duration).to_string()
}

/// A duration in seconds and microseconds, rounded up. Two numbers, since 128-bit division is slow
/// and every answer formats some durations.
#[derive(Clone, Copy)]
struct Seconds {
    whole: u64,
    /// The remaining microseconds.
    us: u32,
}

impl Seconds {
    fn new(duration: Duration) -> Self {
        let (whole, us) = (duration.as_secs(), duration.subsec_nanos().div_ceil(1_000));
        match us {
            1_000_000 => Self { whole: whole.saturating_add(1), us: 0 },
            us => Self { whole, us },
        }
    }
}

impl fmt::Display for Seconds {
    /// `whole.fraction`, without trailing zeros.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { whole, mut us } = *self;
        if us == 0 {
            return whole.fmt(f);
        }
        let mut places = 6;
        while us.is_multiple_of(10) {
            (us, places) = (us / 10, places - 1);
        }
        write!(f, "{whole}.{us:0places$}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn durations_are_exact_and_round_up() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "0.000001s"),
            (1_500_000_000, "1.5s"),
            (1_500_000_001, "1.500001s"),
            (60_000_000_000, "1m"),
            (125_000_000_000, "2m5s"),
            (3_600_000_000_001, "1h0.000001s"),
            (273_600_000_000_000, "3d4h"),
            (999_999_001, "1s"),
            (59_999_999_001, "1m"),
            (1_000_001_000, "1.000001s"),
            (10_020_000_000, "10.02s"),
        ] {
            assert_eq!(duration(Duration::from_nanos(nanos)), text);
        }
        assert_eq!(duration(Duration::MAX), "213503982334601d7h15s");
        let longest = Duration::new(u64::MAX / 86_400 * 86_400 - 1, 999_999_000);
        assert_eq!(duration(longest), "213503982334600d23h59m59.999999s");
        let json = serde_json::to_string(&Wait(longest)).unwrap();
        assert!(json.starts_with("{\"seconds\":18446744073709526399.999999,"), "{json}");
    }

    proptest! {
        #[test]
        fn seconds_say_the_same_number(us in 0_u64..=1 << 53) {
            let json = serde_json::to_string(&Wait(Duration::from_micros(us))).unwrap();
            let seconds = json.strip_prefix("{\"seconds\":").unwrap();
            let text = seconds.split_once(',').unwrap().0;
            let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
            let back = whole.parse::<u64>().unwrap() * 1_000_000
                + format!("{fraction:0<6}").parse::<u64>().unwrap();
            prop_assert_eq!(back, us);
        }
    }
}

//! Durations as numbers and as text.

use core::fmt::Write as _;
use core::time::Duration;

use compact_str::CompactString;
use serde::ser::{self, SerializeStruct as _};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A wait for machines: a number of seconds with at most 6 decimals, and the same as text.
///
/// ```
/// use std::time::Duration;
/// let wait = tollgate_server::json::Wait(Duration::from_micros(1_500_000));
/// assert_eq!(serde_json::to_string(&wait)?, r#"{"seconds":1.5,"text":"1.5s"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_structs)] // a duration, and nothing else
pub struct Wait(pub Duration);

impl Serialize for Wait {
    /// Rounded up to a whole microsecond; no float is involved.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let us = micros(self.0);
        let mut seconds = Text::default();
        push_decimal(&mut seconds, us);
        let mut text = Text::default();
        push_duration(&mut text, us);
        let mut parts = serializer.serialize_struct("Wait", 2)?;
        // Digits and a point are a number of JSON as they stand.
        let number: &RawValue = serde_json::from_str(&seconds).map_err(ser::Error::custom)?;
        parts.serialize_field("seconds", number)?;
        parts.serialize_field("text", text.as_str())?;
        parts.end()
    }
}

/// A text that needs no allocation: every duration that a decision has is shorter.
type Text = CompactString;

/// Whole microseconds, rounded up.
fn micros(duration: Duration) -> u128 {
    duration.as_nanos().div_ceil(1_000)
}

/// Microseconds as seconds, `whole.fraction`, without trailing zeros.
fn push_decimal(text: &mut Text, us: u128) {
    // Writing to a text does not fail.
    let (whole, mut fraction) = (us / 1_000_000, us % 1_000_000);
    let _ = write!(text, "{whole}");
    if fraction == 0 {
        return;
    }
    let mut digits = 6;
    while fraction % 10 == 0 {
        fraction /= 10;
        digits -= 1;
    }
    let _ = write!(text, ".{fraction:0digits$}");
}

/// A duration as people read it, exact to the microsecond and never rounded down: `1.5s`,
/// `2m5s`, `3d4h`.
#[must_use]
pub fn duration(duration: Duration) -> String {
    let mut text = Text::default();
    push_duration(&mut text, micros(duration));
    text.into()
}

fn push_duration(text: &mut Text, mut us: u128) {
    const UNITS: [(&str, u128); 3] =
        [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000)];
    for (unit, length) in UNITS {
        if us >= length {
            let _ = write!(text, "{}{unit}", us / length);
            us %= length;
        }
    }
    if us > 0 || text.is_empty() {
        push_decimal(text, us);
        text.push('s');
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
        ] {
            assert_eq!(duration(Duration::from_nanos(nanos)), text);
        }
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

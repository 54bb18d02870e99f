//! Durations as JSON numbers and as text.

use core::time::Duration;

use arrayvec::ArrayString;
use serde::ser::{self, SerializeStruct as _};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A wait as JSON: a number of seconds with at most 6 decimals, and the same as text.
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
    /// Rounds up to a whole microsecond, and uses no floats.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let seconds = Seconds::new(self.0);
        let mut parts = serializer.serialize_struct("Wait", 2)?;
        match seconds.us {
            0 => parts.serialize_field("seconds", &seconds.whole)?,
            _ => {
                let mut text = Text::default();
                seconds.push(&mut text);
                // Digits with a point are a valid JSON number.
                let number: &RawValue = serde_json::from_str(&text).map_err(ser::Error::custom)?;
                parts.serialize_field("seconds", number)?;
            }
        }
        let mut text = Text::default();
        seconds.push_units(&mut text);
        parts.serialize_field("text", text.as_str())?;
        parts.end()
    }
}

/// A duration in readable form: `1.5s`, `2m5s`, `3d4h`. It is rounded up to a microsecond, and
/// covers up to 2^64 - 1 s.
#[must_use]
pub fn duration(duration: Duration) -> String {
    let mut text = Text::default();
    Seconds::new(duration).push_units(&mut text);
    text.as_str().to_owned()
}

/// Space for the longest duration, 2^64 s, in either form.
type Text = ArrayString<48>;

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

    /// `whole.fraction`, without trailing zeros.
    fn push(self, text: &mut Text) {
        push_number(text, self.whole);
        if self.us == 0 {
            return;
        }
        text.push('.');
        let (mut rest, mut place) = (self.us, 100_000);
        while rest > 0 {
            push_number(text, u64::from(rest / place));
            (rest, place) = (rest % place, place / 10);
        }
    }

    /// In days, hours, minutes and seconds.
    fn push_units(mut self, text: &mut Text) {
        for (unit, length) in [('d', 86_400), ('h', 3_600), ('m', 60)] {
            if self.whole >= length {
                push_number(text, self.whole / length);
                text.push(unit);
                self.whole %= length;
            }
        }
        if self.whole > 0 || self.us > 0 || text.is_empty() {
            self.push(text);
            text.push('s');
        }
    }
}

fn push_number(text: &mut Text, number: u64) {
    text.push_str(itoa::Buffer::new().format(number));
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

//! Durations as numbers and as text.

use core::time::Duration;

use serde::{Serialize, Serializer, ser};

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
        #[derive(Serialize)]
        struct Parts<'s> {
            seconds: &'s serde_json::value::RawValue,
            text: &'s str,
        }
        let us = micros(self.0);
        let seconds = decimal(us / 1_000_000, us % 1_000_000);
        let seconds =
            serde_json::value::RawValue::from_string(seconds).map_err(ser::Error::custom)?;
        Parts { seconds: &seconds, text: &duration(self.0) }.serialize(serializer)
    }
}

/// Whole microseconds, rounded up.
fn micros(duration: Duration) -> u128 {
    duration.as_nanos().div_ceil(1_000)
}

/// `whole.fraction`, the fraction in millionths, without trailing zeros.
fn decimal(whole: u128, millionths: u128) -> String {
    if millionths == 0 {
        return whole.to_string();
    }
    let digits = format!("{millionths:06}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

/// A duration as people read it, exact to the microsecond and never rounded down: `1.5s`,
/// `2m5s`, `3d4h`.
#[must_use]
pub fn duration(duration: Duration) -> String {
    const UNITS: [(&str, u128); 3] =
        [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000)];
    let mut us = micros(duration);
    let mut text = String::new();
    for (unit, length) in UNITS {
        if us >= length {
            text.push_str(&(us / length).to_string());
            text.push_str(unit);
            us %= length;
        }
    }
    if us > 0 || text.is_empty() {
        text.push_str(&decimal(us / 1_000_000, us % 1_000_000));
        text.push('s');
    }
    text
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

//! A share as people write it: `0.1%`, exact.

use std::fmt;
use std::str::FromStr;

/// A share in parts per million, below the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tolerance {
    ppm: u32,
}

/// The parts of a whole.
const WHOLE: u32 = 1_000_000;

/// The reason why a text is not a share.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "write a share of less than 100 % with at most four decimal places, as in `0.1%`; `0%` for none"
)]
#[non_exhaustive]
pub struct ToleranceError;

tollgate::debug_as_display!(ToleranceError);

impl Tolerance {
    /// Nothing.
    pub const NONE: Self = Self { ppm: 0 };

    /// This many parts per million; `None` from the whole on.
    #[must_use]
    pub const fn from_ppm(ppm: u32) -> Option<Self> {
        if ppm < WHOLE { Some(Self { ppm }) } else { None }
    }

    /// The parts per million, below 1,000,000.
    #[must_use]
    pub const fn ppm(self) -> u32 {
        self.ppm
    }

    /// The share of `count`, rounded down: this many may be denied.
    #[must_use]
    pub fn of_rounded_down(self, count: u64) -> u64 {
        let part = u128::from(count) * u128::from(self.ppm) / u128::from(WHOLE);
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}

impl FromStr for Tolerance {
    type Err = ToleranceError;

    fn from_str(text: &str) -> Result<Self, ToleranceError> {
        let number = text.strip_suffix('%').ok_or(ToleranceError)?.trim();
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = |part: &str, most: usize| {
            (1..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !is_number(whole, 2) || !is_number(decimals, 4) {
            return Err(ToleranceError);
        }
        let parse = |digits: &str| digits.parse::<u32>().map_err(|_| ToleranceError);
        let ppm = parse(whole)? * 10_000 + parse(&format!("{decimals:0<4}"))?;
        Self::from_ppm(ppm).ok_or(ToleranceError)
    }
}

/// As it is written: `0.1 %`.
impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.ppm / 10_000, self.ppm % 10_000);
        let decimals = format!("{rest:04}");
        match decimals.trim_end_matches('0') {
            "" => write!(f, "{whole} %"),
            decimals => write!(f, "{whole}.{decimals} %"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact_and_rounded_down() {
        for (text, ppm, shown) in [
            ("0.1%", 1_000, "0.1 %"),
            ("1%", 10_000, "1 %"),
            ("0 %", 0, "0 %"),
            ("99.9999%", 999_999, "99.9999 %"),
            ("0.0001%", 1, "0.0001 %"),
            ("12.50%", 125_000, "12.5 %"),
        ] {
            let share: Tolerance = text.parse().unwrap();
            assert_eq!((share.ppm(), share.to_string().as_str()), (ppm, shown), "{text}");
        }
        let share: Tolerance = "0.1%".parse().unwrap();
        assert_eq!([999, 1_000, 1_999, 2_000].map(|n| share.of_rounded_down(n)), [0, 1, 1, 2]);
        assert_eq!(share.of_rounded_down(u64::MAX), u64::MAX / 1_000);
        for text in ["", "%", "0.1", "100%", "-1%", ".5%", "5.%", "0.12345%", "1e1%", "x%", "1,5%"]
        {
            assert!(text.parse::<Tolerance>().is_err(), "{text}");
        }
    }
}

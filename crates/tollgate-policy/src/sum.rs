//! Sums of numbers, each times a factor: of fields for a cost, of headers for a commit.

use core::fmt;
use core::str::FromStr;

use tollgate::ParseError;

/// The most numbers in one sum.
pub(crate) const MAX_TERMS: usize = 8;

/// The digits after the point of a factor.
const DIGITS: usize = 6;

/// A factor of 1, in millionths.
const ONE: u64 = 1_000_000;

/// The largest factor: 2^40.
const MAX_FACTOR: u64 = 1 << 40;

/// Numbers, each times a factor. The sum is exact, and rounded up once.
///
/// ```
/// use tollgate_policy::{Amount, Field, WeightedSum};
/// let price = WeightedSum::new([
///     (Field::parse("field.tokens_in")?, "0.15".parse()?),
///     (Field::parse("field.tokens_out")?, "0.6".parse()?),
/// ]);
/// assert_eq!(price.to_string(), "0.15 * field.tokens_in + 0.6 * field.tokens_out");
/// let amount = Amount::From { sum: price, max: 200_000, otherwise: Some(0) };
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WeightedSum<T> {
    terms: Vec<(T, Factor)>,
}

/// A decimal number above 0 and at most 2^40, with at most six digits after the point.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Factor {
    millionths: u64,
}

impl Factor {
    /// The factor 1.
    pub const ONE: Self = Self { millionths: ONE };

    /// Whether the price of 1,000 rounds by more than 1 %.
    pub(crate) fn is_coarse(self) -> bool {
        // In thousandths of a unit.
        let exact = self.millionths;
        let rounded = exact.div_ceil(1_000) * 1_000;
        (rounded - exact).saturating_mul(100) > exact
    }
}

impl<T> WeightedSum<T> {
    /// A sum of these numbers, each times its factor.
    pub fn new(terms: impl IntoIterator<Item = (T, Factor)>) -> Self {
        Self { terms: terms.into_iter().collect() }
    }

    /// Every source of a number.
    pub fn sources(&self) -> impl Iterator<Item = &T> {
        self.terms.iter().map(|(source, _)| source)
    }

    pub(crate) fn factors(&self) -> impl Iterator<Item = Factor> {
        self.terms.iter().map(|(_, factor)| *factor)
    }

    /// Whether the number of its terms is in range.
    pub(crate) fn is_sound(&self) -> bool {
        (1..=MAX_TERMS).contains(&self.terms.len())
    }

    /// The sum, at most `u64::MAX`.
    ///
    /// # Errors
    /// The first source without a number.
    pub(crate) fn total(&self, number: impl Fn(&T) -> Option<u64>) -> Result<u64, &T> {
        let mut millionths = 0_u128;
        for (source, factor) in &self.terms {
            let number = number(source).ok_or(source)?;
            let product = u128::from(number) * u128::from(factor.millionths);
            millionths = millionths.saturating_add(product);
        }
        Ok(u64::try_from(millionths.div_ceil(ONE.into())).unwrap_or(u64::MAX))
    }
}

/// The whole number of a text of digits; `u64::MAX` stands for all above.
pub(crate) fn whole_number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

impl<T> From<T> for WeightedSum<T> {
    /// The number alone.
    fn from(source: T) -> Self {
        Self { terms: vec![(source, Factor::ONE)] }
    }
}

impl FromStr for Factor {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let is_decimal =
            part.len() <= DIGITS && [whole, part].iter().all(|it| whole_number(it).is_some());
        let millionths = || {
            let whole = whole.parse::<u64>().ok().filter(|whole| *whole <= MAX_FACTOR)?;
            let part: u64 = format!("{part:0<DIGITS$}").parse().ok()?;
            Some(whole * ONE + part)
        };
        match millionths().filter(|it| is_decimal && (1..=MAX_FACTOR * ONE).contains(it)) {
            Some(millionths) => Ok(Self { millionths }),
            None => Err(ParseError::whole(
                text,
                "this is not a factor",
                "a factor is above 0 and at most 2^40, with at most six digits after the point, \
                 such as `3` or `\"0.15\"`",
            )),
        }
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.millionths / ONE, self.millionths % ONE);
        write!(f, "{whole}")?;
        match part {
            0 => Ok(()),
            part => write!(f, ".{}", format!("{part:06}").trim_end_matches('0')),
        }
    }
}

impl<T: fmt::Display> fmt::Display for WeightedSum<T> {
    /// `field.weight`, or `3 * field.in + 15 * field.out`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (source, factor)) in self.terms.iter().enumerate() {
            f.write_str(if place > 0 { " + " } else { "" })?;
            match *factor {
                Factor::ONE => write!(f, "{source}")?,
                factor => write!(f, "{factor} * {source}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factor(text: &str) -> Factor {
        text.parse().unwrap()
    }

    #[test]
    fn a_sum_is_exact_and_rounded_up_once() {
        let sum = WeightedSum::new([(0_usize, factor("0.15")), (1, factor("0.6"))]);
        let total = |numbers: [u64; 2]| sum.total(|at| Some(numbers[*at]));
        // 0.15 + 0.6 is 0.75, and not 1 + 1.
        assert_eq!(total([1, 1]), Ok(1));
        assert_eq!(total([0, 0]), Ok(0));
        assert_eq!(total([20, 5]), Ok(6));
        assert_eq!(total([21, 5]), Ok(7));
        assert_eq!(total([u64::MAX, u64::MAX]), Ok(13_835_058_055_282_163_712));
        let steep = WeightedSum::new([(0_usize, factor("1099511627776"))]);
        assert_eq!(steep.total(|_| Some(u64::MAX)), Ok(u64::MAX));
        assert_eq!(sum.total(|at| (*at == 0).then_some(1)), Err(&1));
    }

    #[test]
    fn factors_are_read_and_written_alike() {
        for text in ["1", "3", "0.15", "0.000001", "1099511627776", "2.5"] {
            assert_eq!(factor(text).to_string(), text);
        }
        for text in ["", "0", "0.0", ".5", "1.", "-1", "1e3", "0.0000001", "1099511627777", "a"] {
            assert!(text.parse::<Factor>().is_err(), "{text}");
        }
        assert_eq!(factor("01.50").to_string(), "1.5");
    }

    /// 1,000 tokens at 0.15 are 150; at 0.000003 they are 0.003, which is charged as 1.
    #[test]
    fn a_price_below_its_unit_is_coarse() {
        let coarse = |text: &str| factor(text).is_coarse();
        assert!(!coarse("3") && !coarse("0.15") && !coarse("0.001") && !coarse("0.0999"));
        assert!(coarse("0.000003") && coarse("0.0011") && coarse("0.0485"));
    }
}

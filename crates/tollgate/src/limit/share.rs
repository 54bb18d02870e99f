//! Shares of limits: the units that one of several nodes may admit by itself while they cannot
//! count together.

use core::fmt;
use core::str::FromStr;

use super::{Limit, LimitSet};
use crate::error::ParseError;
use crate::time::Period;

/// The largest denominator of a [`Share`].
const MAX_DENOMINATOR: u32 = 1_000_000;

/// A part of a whole: above 0, at most all of it, as an exact fraction in lowest terms.
///
/// ```
/// use tollgate::Share;
/// let share: Share = "25 %".parse()?;
/// assert_eq!(share, "1/4".parse()?);
/// assert_eq!(share.to_string(), "1/4");
/// assert_eq!(share.of(1_000), 250);
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Share {
    numerator: u32,
    denominator: u32,
}

impl Share {
    /// The fraction `numerator/denominator`, with a denominator of at most a million. `None` for 0,
    /// for more than the whole, and for a larger denominator.
    #[must_use]
    pub const fn new(numerator: u32, denominator: u32) -> Option<Self> {
        if numerator == 0 || numerator > denominator || denominator > MAX_DENOMINATOR {
            return None;
        }
        let (mut common, mut rest) = (denominator, numerator);
        while rest > 0 {
            (common, rest) = (rest, common % rest);
        }
        Some(Self { numerator: numerator / common, denominator: denominator / common })
    }

    /// The share of each of this number of nodes: `1/nodes`. `None` for 0 and for more than a
    /// million.
    #[must_use]
    pub const fn of_nodes(nodes: u32) -> Option<Self> {
        Self::new(1, nodes)
    }

    /// The numerator and the denominator, in lowest terms.
    #[must_use]
    pub const fn fraction(self) -> (u32, u32) {
        (self.numerator, self.denominator)
    }

    /// The share as a percentage, `80 %` or `12.5 %`; as a fraction where a percentage with two
    /// decimal places is not exact.
    ///
    /// ```
    /// # use tollgate::Share;
    /// let percent = |text: &str| text.parse().map(Share::percent);
    /// assert_eq!(percent("4/5")?, "80 %");
    /// assert_eq!(percent("1/8")?, "12.5 %");
    /// assert_eq!(percent("1/3")?, "1/3");
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    #[must_use]
    pub fn percent(self) -> String {
        let (part, whole) = (u64::from(self.numerator) * 10_000, u64::from(self.denominator));
        if part % whole != 0 {
            return self.to_string();
        }
        match (part / whole / 100, part / whole % 100) {
            (percent, 0) => format!("{percent} %"),
            (percent, rest) => {
                format!("{percent}.{} %", format!("{rest:02}").trim_end_matches('0'))
            }
        }
    }

    /// This share of `units`, rounded down.
    #[must_use]
    pub fn of(self, units: u64) -> u64 {
        let units = u128::from(units) * u128::from(self.numerator) / u128::from(self.denominator);
        // At most as many as before.
        u64::try_from(units).unwrap_or(u64::MAX)
    }
}

impl FromStr for Share {
    type Err = ParseError;

    /// Parses a percentage with at most four decimal places, or a fraction: `25 %`, `12.5%`, `1/3`.
    ///
    /// # Errors
    /// Anything else, 0, and more than the whole.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let refused = |what: String| {
            ParseError::whole(text, what, "write a percentage or a fraction, e.g. `25 %` or `1/4`")
        };
        let no_share = || match text {
            "" => refused("an empty text is not a share".to_owned()),
            _ => refused(format!("`{text}` is not a share")),
        };
        let (part, whole) = match text.split_once('/') {
            Some((part, whole)) => (digits(part.trim()), digits(whole.trim())),
            None => percent(text.trim().strip_suffix('%').ok_or_else(no_share)?.trim_end()),
        };
        let (part, whole) = (part.ok_or_else(no_share)?, whole.ok_or_else(no_share)?);
        if whole == 0 {
            return Err(no_share());
        }
        if part == 0 {
            return Err(refused("a share of nothing would never admit anything".to_owned()));
        }
        if part > whole {
            return Err(refused(format!("`{text}` is more than the whole limit")));
        }
        if whole > MAX_DENOMINATOR {
            return Err(refused(format!(
                "the denominator of a share is at most {MAX_DENOMINATOR}"
            )));
        }
        Self::new(part, whole).ok_or_else(no_share)
    }
}

/// A number of a few digits, and nothing else.
fn digits(text: &str) -> Option<u32> {
    let sound = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    sound.then(|| text.parse().ok()).flatten()
}

/// A percentage without its sign, as a fraction.
fn percent(text: &str) -> (Option<u32>, Option<u32>) {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_whole = !text.contains('.');
    let places = u32::try_from(decimals.len()).ok().filter(|places| *places <= 4);
    let Some(scale) = places.and_then(|places| 10_u32.checked_pow(places)) else {
        return (None, None);
    };
    let decimals = if is_whole { Some(0) } else { digits(decimals) };
    let part = digits(whole)
        .zip(decimals)
        .and_then(|(whole, decimals)| whole.checked_mul(scale)?.checked_add(decimals));
    (part, scale.checked_mul(100))
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

impl Limit {
    /// This share of the limit, under the same strategy, with the same identity: N, the burst and
    /// the debt are scaled and rounded down. A share of N below one unit is one unit in a longer
    /// period, rounded up; a burst is at least one unit. So the rate is never above the share, and
    /// never 0. Section 10 of `docs/definitions.md` has the bounds.
    ///
    /// The text of the result parses to an equal limit, except for the identity where a limit
    /// without a name has a longer period.
    ///
    /// ```
    /// use tollgate::Limit;
    /// let limit: Limit = "100/s burst 200 via gcra".parse()?;
    /// assert_eq!(limit.share("1/4".parse()?)?.to_string(), "25/s burst 50 via gcra");
    /// assert_eq!(limit.share("1/400".parse()?)?.to_string(), "1/4s burst 1 via gcra");
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// A share of one unit in more than 366 days, or one that cannot be counted exactly.
    pub fn share(&self, share: Share) -> Result<Self, ParseError> {
        let refused = |what: &str, remedy: &str| {
            let what = format!("the share {share} of `{self}` cannot be counted: {what}");
            ParseError::whole(&self.full_text, what, remedy)
        };
        if let Some(calendar) = &self.quota.calendar {
            let what = format!(
                "a local share cannot count a {}: the count of its beginning is in the store",
                calendar.unit().name()
            );
            let remedy = "give another answer for when the store fails";
            return Err(refused(&what, remedy));
        }
        // A node counts the denials of its share. One that counts nothing has no parts.
        if self.hears_denials() || self.is_uncounted() {
            return Ok(self.clone());
        }
        let mut quota = self.quota.clone();
        quota.units = share.of(quota.units);
        quota.burst = quota.burst.map(|burst| share.of(burst).max(1));
        quota.debt = quota.debt.map(|debt| share.of(debt));
        if quota.units == 0 {
            quota.units = 1;
            let longer = self.stretched(share).ok_or_else(|| {
                refused(
                    "it is one unit in more than 366 days",
                    "give a larger share, or another answer for when the store fails",
                )
            })?;
            (quota.period, quota.precision) = longer;
        }
        let shared = Self::build(self.name.clone(), quota, self.strategy);
        let shared = shared.map_err(|(_, refusal)| refused(&refusal.what, &refusal.remedy))?;
        // Two periods of a set can become one, and counts keep their identity where numbers change.
        Ok(Self { identity: self.identity.clone(), ..shared })
    }

    /// The period in which this share of the limit is at most one unit, with as many sub-buckets as
    /// before. `None` beyond the longest period.
    fn stretched(&self, share: Share) -> Option<(Period, Option<Period>)> {
        let (numerator, denominator) = share.fraction();
        let period = u128::from(self.quota.period.as_micros());
        let units = u128::from(self.quota.units) * u128::from(numerator);
        let least = (period * u128::from(denominator)).div_ceil(units);
        let precision = self.quota.precision.map(|precision| u128::from(precision.as_micros()));
        let buckets = precision.map_or(1, |precision| period / precision);
        let bucket = least.div_ceil(buckets);
        let period = |us: u128| u64::try_from(us).ok().and_then(Period::from_micros);
        Some((period(bucket * buckets)?, precision.and_then(|_| period(bucket))))
    }
}

impl LimitSet {
    /// This share of every limit, with the same identities and the same policy.
    ///
    /// # Errors
    /// As [`Limit::share`].
    pub fn share(&self, share: Share) -> Result<Self, ParseError> {
        let limits: Result<_, _> = self.limits().iter().map(|limit| limit.share(share)).collect();
        let set = Self::new(limits?)?;
        match self.policy() {
            Some(policy) => set.in_policy(policy),
            None => Ok(set),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(text: &str) -> Share {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn shares_are_percentages_and_fractions() {
        for (text, fraction) in [
            ("25 %", (1, 4)),
            ("25%", (1, 4)),
            (" 100 % ", (1, 1)),
            ("12.5%", (1, 8)),
            ("0.0001%", (1, 1_000_000)),
            ("2/8", (1, 4)),
            ("1 / 3", (1, 3)),
            ("1/1", (1, 1)),
            ("999999/1000000", (999_999, 1_000_000)),
        ] {
            assert_eq!(share(text).fraction(), fraction, "{text}");
            assert_eq!(share(&share(text).to_string()), share(text));
        }
        assert_eq!(Share::of_nodes(4), Some(share("25%")));
    }

    #[test]
    fn what_is_no_share_is_refused_with_what_would_be_one() {
        for (text, what) in [
            ("", "is not a share"),
            ("0 %", "a share of nothing"),
            ("0/4", "a share of nothing"),
            ("101 %", "more than the whole"),
            ("100.01%", "more than the whole"),
            ("5/4", "more than the whole"),
            ("1/0", "is not a share"),
            ("0/0", "is not a share"),
            ("NaN", "is not a share"),
            ("NaN %", "is not a share"),
            ("inf%", "is not a share"),
            ("-25 %", "is not a share"),
            ("+25 %", "is not a share"),
            ("0.25", "is not a share"),
            ("25", "is not a share"),
            ("%", "is not a share"),
            (".5%", "is not a share"),
            ("5.%", "is not a share"),
            ("1.23456%", "is not a share"),
            ("1e1%", "is not a share"),
            ("1/2/3", "is not a share"),
            ("1/1000001", "at most 1000000"),
            ("99999999999/100000000000", "is not a share"),
            ("٢٥%", "is not a share"),
        ] {
            let error = text.parse::<Share>().unwrap_err();
            assert!(error.what().contains(what), "{text}: {error}");
            assert!(error.remedy().contains("`25 %`"), "{text}: {error}");
        }
        for (part, whole) in [(0, 1), (2, 1), (1, 0), (0, 0), (1, 1_000_001)] {
            assert_eq!(Share::new(part, whole), None, "{part}/{whole}");
        }
    }

    #[test]
    fn a_share_of_each_strategy_keeps_its_kind_and_its_identity() {
        for (limit, part, expected) in [
            ("100/s via gcra", "1/4", "25/s burst 25 via gcra"),
            ("7/s via sliding_log", "1/4", "1/s via sliding_log"),
            ("3/s via sliding_log", "1/4", "1/1333334us via sliding_log"),
            ("3/s burst 9 via gcra", "1/4", "1/1333334us burst 2 via gcra"),
            ("100/s burst 2 via gcra", "1/4", "25/s burst 1 via gcra"),
            ("2/10s via uniform", "1/4", "1/20s via uniform"),
            ("8/10s debt 9 via uniform", "1/4", "2/10s debt 2 via uniform"),
            ("3/1h via fixed_window", "1/4", "1/80m anchor epoch via fixed_window"),
            (
                "5/h burst 12 refill interval via token_bucket",
                "1/10",
                "1/2h burst 1 refill interval via token_bucket",
            ),
            (
                "240/h precision 60s via sliding_window",
                "1/4",
                "60/h precision 1m rounding conservative via sliding_window",
            ),
            (
                "3/1us precision 1us rounding truncate via sliding_window",
                "1/10",
                "1/4us precision 4us rounding truncate via sliding_window",
            ),
            // 20/3 us in two sub-buckets of a whole number of microseconds.
            ("3/2us precision 1us via sliding_window", "1/10", "1/8us precision 4us"),
            ("a: 10/s via gcra", "1/1", "a: 10/s burst 10 via gcra"),
        ] {
            let limit: Limit = limit.parse().unwrap();
            let shared = limit.share(share(part)).unwrap();
            assert!(shared.to_string().starts_with(expected), "{limit} {part}: {shared}");
            assert_eq!(shared.identity(), limit.identity());
            assert_eq!(shared.name(), limit.name());
            let read: Limit = shared.to_string().parse().unwrap();
            assert_eq!(read.quota(), shared.quota());
        }
    }

    #[test]
    fn a_set_keeps_its_identity_where_two_periods_become_one() {
        let set: LimitSet = "1/s, 2/2s".parse().unwrap();
        let shared = set.clone().in_policy("p").unwrap().share(share("50%")).unwrap();
        assert_eq!(shared.to_string(), "1/2s via sliding_log, 1/2s via sliding_log");
        assert_eq!(shared.identity(), "p>sliding_log/1s,sliding_log/2s");
        assert_eq!(set.share(share("1/1")).unwrap(), set);
    }

    #[test]
    fn what_no_share_can_be_counted_of_is_refused() {
        for (limit, part, what) in [
            (
                "1000/month",
                "1/2",
                "a local share cannot count a month: the count of its beginning is in the store",
            ),
            ("1/366d via gcra", "1/2", "more than 366 days"),
            ("1/366d via sliding_log", "999999/1000000", "more than 366 days"),
            ("3/366d precision 1d via sliding_window", "1/4", "more than 366 days"),
            ("1000000000/s via gcra", "1/3", "cannot be counted exactly"),
        ] {
            let limit: Limit = limit.parse().unwrap();
            let error = limit.share(share(part)).unwrap_err();
            assert!(error.what().contains(what), "{limit}: {error}");
            assert!(error.what().contains(&format!("the share {part} of")), "{error}");
        }
    }
}

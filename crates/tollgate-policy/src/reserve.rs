//! Costs that are known afterwards: an estimate is held, and what was used is committed.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use tollgate::{Cost, MAX_COST, ParseError, Period, Share, Unit};

use crate::field::Field;
use crate::sum::WeightedSum;

/// The shortest and the longest time of a hold: 1 ms and 366 days.
pub(crate) const MIN_HOLD: Duration = Duration::from_millis(1);
pub(crate) const MAX_HOLD: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// A cost that is known afterwards.
///
/// ```
/// use std::time::Duration;
/// use tollgate_policy::{Commit, Estimate, Reserve};
/// let reserve = Reserve::new(Estimate::Units(500), 2_000, Duration::from_secs(120))
///     .commit(Commit::parse("header.x-tokens-used")?);
/// let text = "reserve 500, commit header.x-tokens-used, at most 2000, hold 2m";
/// assert_eq!(reserve.to_string(), text);
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Reserve {
    /// The units that are held while the request is in progress.
    pub estimate: Estimate,
    /// Where a front reads what was used. `None`: the service or a caller says it.
    pub commit: Option<Commit>,
    /// The most that a request may reserve, and that a commit charges: 1 to 2^40.
    pub max: u64,
    /// How long a hold lasts without being renewed: 1 ms to 366 days. A hold that also has a slot
    /// lasts at most as long as that.
    pub hold: Duration,
    /// Whether the estimate is charged where nobody says what was used.
    pub charge_at_end: bool,
}

impl Reserve {
    /// A cost that is known afterwards. Where nobody says what was used, the estimate is charged.
    #[must_use]
    pub fn new(estimate: Estimate, max: u64, hold: Duration) -> Self {
        Self { estimate, commit: None, max, hold, charge_at_end: true }
    }

    /// Sets where a front reads what was used.
    #[must_use]
    pub fn commit(self, commit: Commit) -> Self {
        Self { commit: Some(commit), ..self }
    }

    /// Nothing is charged where nobody says what was used.
    #[must_use]
    pub fn free_at_end(self) -> Self {
        Self { charge_at_end: false, ..self }
    }

    /// How long it is held, and whether the estimate is charged then.
    pub(crate) fn terms(&self) -> (Duration, bool) {
        (self.hold, self.charge_at_end)
    }

    /// Whether its numbers are in range; `least` is that of an estimate without its field.
    pub(crate) fn is_sound(&self, least: u64) -> bool {
        let most = self.max.min(MAX_COST);
        let in_range = |units: u64| (1..=most).contains(&units);
        let estimate = match &self.estimate {
            Estimate::Units(units) => in_range(*units),
            Estimate::From { sum, otherwise } => {
                are_numbers(sum) && otherwise.is_none_or(|it| (least..=most).contains(&it))
            }
            Estimate::Quantile { percent, otherwise, .. } => {
                (1..=99).contains(percent) && in_range(*otherwise)
            }
        };
        let named = self.commit.as_ref().is_none_or(Commit::is_sound);
        let lasts = (MIN_HOLD..=MAX_HOLD).contains(&self.hold);
        self.max <= MAX_COST && estimate && named && lasts
    }
}

/// The expected units of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Estimate {
    /// A fixed number of units.
    Units(u64),
    /// The number in a field, as the most tokens that a request asks for, or a sum of several.
    From {
        /// Of `header.NAME` and `field.NAME`.
        sum: WeightedSum<Field>,
        /// The estimate if a field is absent or not a whole number. `None` denies the request.
        otherwise: Option<u64>,
    },
    /// A running quantile of this process's commits for the policy.
    Quantile {
        /// The quantile, 1 to 99: of 90, nine in ten requests have used at most the estimate.
        percent: u8,
        /// The estimate until 20 requests were committed.
        otherwise: u64,
        /// The maximum part of each limit that an estimate takes, so that a small limit is not
        /// refused for the use of others.
        at_most: Share,
    },
}

impl Estimate {
    /// The quantile that a text such as `p90` names.
    pub(crate) fn percent(text: &str) -> Option<u8> {
        let digits = text.strip_prefix('p').filter(|it| it.bytes().all(|b| b.is_ascii_digit()))?;
        digits.parse().ok().filter(|percent| (1..=99).contains(percent))
    }
}

/// Where a front reads what a request has used.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Commit {
    /// The number in a header of the response, by its name in lower case, or a sum of several.
    Headers(WeightedSum<Arc<str>>),
    /// The bytes of the response's body that were sent.
    Bytes,
}

impl Commit {
    /// Parses `header.NAME` or `bytes`.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        if text == "bytes" {
            return Ok(Self::Bytes);
        }
        let right = "it is a header of the response, e.g. `header.x-tokens-used`, or `bytes`";
        if !text.starts_with("header.") {
            let what = match text {
                "" => "an empty text says not what was used".to_owned(),
                _ => format!("`{text}` says not what was used"),
            };
            return Err(ParseError::whole(text, what, right));
        }
        match Field::parse(text)? {
            Field::Header(name) => Ok(Self::Headers(Arc::<str>::from(&*name).into())),
            _ => Err(ParseError::whole(text, "this is not a header", right)),
        }
    }

    fn is_sound(&self) -> bool {
        let Self::Headers(sum) = self else { return true };
        let is_header = |name: &Arc<str>| {
            let parsed = Self::parse(&format!("header.{name}"));
            parsed == Ok(Self::Headers(Arc::clone(name).into()))
        };
        sum.is_sound() && sum.sources().all(is_header)
    }
}

/// Where a front reads what a request has used, of each unit that its policies reserve.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Commits(Vec<(Unit, Commit)>);

impl Commits {
    /// The headers of the response that it reads.
    pub fn headers(&self) -> impl Iterator<Item = &Arc<str>> {
        let sums = self.0.iter().filter_map(|(_, commit)| match commit {
            Commit::Headers(sum) => Some(sum),
            Commit::Bytes => None,
        });
        sums.flat_map(WeightedSum::sources)
    }

    /// The used units, from the number in a header and the bytes of the body. A unit of which a
    /// header says nothing is not named; `None` if no unit is.
    pub fn used(&self, header: impl Fn(&str) -> Option<u64>, bytes: u64) -> Option<Cost> {
        let named = self.0.iter().filter_map(|(unit, commit)| match commit {
            Commit::Bytes => Some((*unit, bytes)),
            Commit::Headers(sum) => Some((*unit, sum.total(|name| header(name)).ok()?)),
        });
        let named: Vec<(Unit, u64)> = named.collect();
        (!named.is_empty()).then(|| named.into_iter().collect())
    }
}

impl FromIterator<(Unit, Commit)> for Commits {
    fn from_iter<I: IntoIterator<Item = (Unit, Commit)>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Headers(sum) => {
                let named = |name: &Arc<str>| format!("header.{name}");
                let named = sum.sources().map(named).zip(sum.factors());
                WeightedSum::new(named).fmt(f)
            }
            Self::Bytes => f.write_str("bytes"),
        }
    }
}

impl fmt::Display for Reserve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { estimate, commit, max, hold, charge_at_end } = self;
        match estimate {
            Estimate::Units(units) => write!(f, "reserve {units}")?,
            Estimate::From { sum, otherwise } => {
                write!(f, "reserve {sum}")?;
                write_otherwise(f, *otherwise)?;
            }
            Estimate::Quantile { percent, otherwise, at_most } => {
                write!(f, "reserve p{percent}, otherwise {otherwise}, within {at_most}")?;
            }
        }
        if let Some(commit) = commit {
            write!(f, ", commit {commit}")?;
        }
        write!(f, ", at most {max}")?;
        let us = u64::try_from(hold.as_micros()).unwrap_or(u64::MAX);
        match Period::from_micros(us) {
            Some(hold) => write!(f, ", hold {hold}")?,
            None => write!(f, ", hold {hold:?}")?,
        }
        f.write_str(if *charge_at_end { "" } else { ", nothing at its end" })
    }
}

/// Whether numbers can be in these fields.
pub(crate) fn are_numbers(sum: &WeightedSum<Field>) -> bool {
    let mut fields = sum.sources();
    sum.is_sound() && fields.all(|field| matches!(field, Field::Header(_) | Field::Custom(_)))
}

/// Writes the amount without a field.
pub(crate) fn write_otherwise(f: &mut fmt::Formatter<'_>, units: Option<u64>) -> fmt::Result {
    match units {
        Some(units) => write!(f, ", otherwise {units}"),
        None => f.write_str(", otherwise denied"),
    }
}

//! The cost of a request: a number, a field, or an estimate that is committed afterwards.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use tollgate::{MAX_COST, ParseError, Period, Share};

use crate::field::Field;

/// The shortest and the longest time of a hold: 1 ms and 366 days.
pub(crate) const MIN_HOLD: Duration = Duration::from_millis(1);
pub(crate) const MAX_HOLD: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The cost of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cost {
    /// A fixed number of units: 1 to 2^40.
    Fixed(u64),
    /// The number in a field.
    From {
        /// `header.NAME` or `field.NAME`.
        field: Field,
        /// The largest cost that is admitted: 1 to 2^40.
        max: u64,
        /// The cost if the field is absent, not a whole number, or 0. `None` denies the request.
        otherwise: Option<u64>,
    },
    /// An estimate, which is held until it is known what was used. A front that only checks charges
    /// the estimate.
    Reserve(Reserve),
}

impl Cost {
    /// The field that it is read from.
    #[must_use]
    pub fn field(&self) -> Option<&Field> {
        match self {
            Self::From { field, .. }
            | Self::Reserve(Reserve { estimate: Estimate::From { field, .. }, .. }) => Some(field),
            _ => None,
        }
    }

    /// The largest cost that is admitted, where it is not fixed.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        match self {
            Self::Fixed(_) => None,
            Self::From { max, .. } | Self::Reserve(Reserve { max, .. }) => Some(*max),
        }
    }

    /// The cost of every request, or of one without its field; `None` if that is denied.
    pub(crate) fn least(&self) -> Option<u64> {
        match self {
            Self::Fixed(units)
            | Self::Reserve(Reserve { estimate: Estimate::Units(units), .. }) => Some(*units),
            // It is lowered to its part of a limit.
            Self::Reserve(Reserve { estimate: Estimate::Quantile { .. }, .. }) => Some(1),
            Self::From { otherwise, .. }
            | Self::Reserve(Reserve { estimate: Estimate::From { otherwise, .. }, .. }) => {
                *otherwise
            }
        }
    }
}

/// A cost that is known afterwards.
///
/// ```
/// use std::time::Duration;
/// use tollgate_policy::{Commit, Cost, Estimate, Reserve};
/// let reserve = Reserve::new(Estimate::Units(500), 2_000, Duration::from_secs(120))
///     .commit(Commit::parse("header.x-tokens-used")?);
/// let text = Cost::Reserve(reserve).to_string();
/// assert_eq!(text, "reserve 500, commit header.x-tokens-used, at most 2000, hold 2m");
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

    /// Whether its numbers are in range.
    pub(crate) fn is_sound(&self) -> bool {
        let most = self.max.min(MAX_COST);
        let in_range = |units: u64| (1..=most).contains(&units);
        let estimate = match &self.estimate {
            Estimate::Units(units) => in_range(*units),
            Estimate::From { field, otherwise } => {
                let is_number = matches!(field, Field::Header(_) | Field::Custom(_));
                is_number && otherwise.is_none_or(in_range)
            }
            Estimate::Quantile { percent, otherwise, .. } => {
                (1..=99).contains(percent) && in_range(*otherwise)
            }
        };
        let named = match &self.commit {
            Some(commit) => Commit::parse(&commit.to_string()).as_ref() == Ok(commit),
            None => true,
        };
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
    /// The number in a field, as the most tokens that a request asks for.
    From {
        /// `header.NAME` or `field.NAME`.
        field: Field,
        /// The estimate if the field is absent, not a whole number, or 0. `None` denies the
        /// request.
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
    /// A header of the response, by its name in lower case.
    Header(Arc<str>),
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
            Field::Header(name) => Ok(Self::Header(Arc::from(&*name))),
            _ => Err(ParseError::whole(text, "this is not a header", right)),
        }
    }
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header.{name}"),
            Self::Bytes => f.write_str("bytes"),
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let otherwise = |f: &mut fmt::Formatter<'_>, units: &Option<u64>| match units {
            Some(units) => write!(f, ", otherwise {units}"),
            None => f.write_str(", otherwise denied"),
        };
        match self {
            Self::Fixed(units) => write!(f, "{units}"),
            Self::From { field, max, otherwise: units } => {
                write!(f, "{field}, at most {max}")?;
                otherwise(f, units)
            }
            Self::Reserve(Reserve { estimate, commit, max, hold, charge_at_end }) => {
                match estimate {
                    Estimate::Units(units) => write!(f, "reserve {units}")?,
                    Estimate::From { field, otherwise: units } => {
                        write!(f, "reserve {field}")?;
                        otherwise(f, units)?;
                    }
                    Estimate::Quantile { percent, otherwise: units, at_most } => {
                        write!(f, "reserve p{percent}, otherwise {units}, within {at_most}")?;
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
    }
}

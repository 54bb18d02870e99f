//! An administrator's correction of a count: an amount of each unit.

use core::fmt;
use core::str::FromStr;

use smallvec::{SmallVec, smallvec};

use crate::cost::{Cost, amounts_in, number};
use crate::error::ParseError;
use crate::limit::{LimitSet, MAX_COST, Unit};

/// An [adjustment](crate::Admin::adjust) of a count: how much of each unit it gives back, or takes
/// where negative. A plain number is requests.
///
/// ```
/// use tollgate::{Adjustment, Ask, Cost, Limiter};
///
/// let limiter = Limiter::memory("60/m, 100000/m of tokens via gcra".parse()?);
/// let cost = Cost::new([("requests", 1), ("tokens", 800)])?;
/// let _ = limiter.check(Ask::new("bob").cost(cost)).now()?;
/// let by = Adjustment::new([("tokens", 300)])?;
/// assert_eq!(by, "tokens=300".parse()?);
/// assert_eq!(limiter.admin().adjust("bob", by).now()?, [0, 300]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adjustment(SmallVec<[(Unit, i64); 1]>);

impl Adjustment {
    /// An adjustment of these amounts by unit.
    ///
    /// # Errors
    /// As [`Cost::used`].
    pub fn new<'u>(amounts: impl IntoIterator<Item = (&'u str, i64)>) -> Result<Self, ParseError> {
        let amounts: Vec<_> = amounts.into_iter().collect();
        let size = Cost::used(amounts.iter().map(|(unit, by)| (*unit, by.unsigned_abs())))?;
        let signed = |unit: &Unit| {
            let named = amounts.iter().find(|(name, _)| *name == unit.name());
            (*unit, named.map_or(0, |(_, by)| *by))
        };
        Ok(Self(size.amounts().iter().map(|(unit, _)| signed(unit)).collect()))
    }

    /// An adjustment of one unit.
    #[must_use]
    pub fn of_unit(unit: Unit, by: i64) -> Self {
        Self(smallvec![(unit, by)])
    }

    /// The amount of a unit: 0 for one that is not named.
    #[must_use]
    pub fn of(&self, unit: &Unit) -> i64 {
        self.iter().find(|(known, _)| *known == unit).map_or(0, |(_, by)| by)
    }

    /// The number of requests, if there is no other unit.
    #[must_use]
    pub fn plain(&self) -> Option<i64> {
        match self.0[..] {
            [(Unit::REQUESTS, by)] => Some(by),
            _ => None,
        }
    }

    /// Every unit with its amount, requests first.
    pub fn iter(&self) -> impl Iterator<Item = (&Unit, i64)> {
        self.0.iter().map(|(unit, by)| (unit, *by))
    }

    /// Whether it gives units back, of any unit.
    #[must_use]
    pub fn gives(&self) -> bool {
        self.iter().any(|(_, by)| by > 0)
    }

    /// Takes all that remains of each limit.
    pub(crate) fn taking_all(limits: &LimitSet) -> Self {
        Self(limits.limits().iter().map(|limit| (*limit.unit(), i64::MIN)).collect())
    }

    /// The units that it changes; `None` where it changes nothing, or more than a cost can be.
    pub(crate) fn size(&self) -> Option<Cost> {
        let each = self.0.iter().map(|(unit, by)| (*unit, by.unsigned_abs()));
        let size = Cost::of(&each.filter(|(_, size)| *size > 0).collect::<Vec<_>>());
        let fits = size.amounts().iter().all(|(_, size)| (1..=MAX_COST).contains(&size));
        fits.then_some(size)
    }
}

impl From<i64> for Adjustment {
    fn from(requests: i64) -> Self {
        Self::of_unit(Unit::REQUESTS, requests)
    }
}

impl FromStr for Adjustment {
    type Err = ParseError;

    /// Parses a number, or `UNIT=AMOUNT` joined by commas, each with a sign or without.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::new(amounts_in(text, |text, word, at| {
            let digits = word.strip_prefix(['-', '+']).unwrap_or(word);
            let size = number(text, digits, at + word.len() - digits.len())?.cast_signed();
            Ok(if word.starts_with('-') { -size } else { size })
        })?)
    }
}

impl fmt::Display for Adjustment {
    /// A plain number, or `requests=1,tokens=-800`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(requests) = self.plain() {
            return write!(f, "{requests}");
        }
        for (place, (unit, by)) in self.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}{unit}={by}")?;
        }
        Ok(())
    }
}

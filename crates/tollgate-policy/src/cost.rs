//! The cost of a request: of each unit a number, a sum of fields, or an estimate that is committed
//! afterwards.

use core::fmt;

use tollgate::{MAX_COST, MAX_COST_UNITS, ParseError, Unit};

use crate::field::Field;
use crate::reserve::{Estimate, Reserve, are_numbers, write_otherwise};
use crate::sum::WeightedSum;

/// How a policy takes the cost of a request: an amount of each unit.
///
/// ```
/// use tollgate_policy::{Amount, CostRule, Field};
/// let tokens = Amount::From {
///     sum: Field::parse("field.tokens")?.into(),
///     max: 8_000,
///     otherwise: Some(500),
/// };
/// let cost = CostRule::new([("requests", Amount::Fixed(1)), ("tokens", tokens)])?;
/// assert_eq!(cost.to_string(), "requests: 1; tokens: field.tokens, at most 8000, otherwise 500");
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CostRule {
    /// At least one, requests first.
    amounts: Vec<(Unit, Amount)>,
}

/// How much of one unit a request takes.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Amount {
    /// A fixed amount: 1 to 2^40.
    Fixed(u64),
    /// The number in a field, or a sum of several.
    From {
        /// Of `header.NAME` and `field.NAME`.
        sum: WeightedSum<Field>,
        /// The largest amount that is admitted: 1 to 2^40.
        max: u64,
        /// The amount if a field is absent or not a whole number. `None` denies the request.
        otherwise: Option<u64>,
    },
    /// An estimate, which is held until it is known what was used. A front that only checks charges
    /// the estimate.
    Reserve(Reserve),
}

impl CostRule {
    /// A cost of these amounts by unit.
    ///
    /// # Errors
    /// No amount; more than [`MAX_COST_UNITS`]; a unit twice; an invalid name.
    pub fn new<'u>(
        amounts: impl IntoIterator<Item = (&'u str, Amount)>,
    ) -> Result<Self, ParseError> {
        let mut all: Vec<(Unit, Amount)> = Vec::new();
        for (name, amount) in amounts {
            let unit: Unit = name.parse()?;
            if all.iter().any(|(known, _)| *known == unit) {
                let remedy = "give one amount for each unit";
                return Err(ParseError::whole(name, format!("`{unit}` is given twice"), remedy));
            }
            all.push((unit, amount));
        }
        if !(1..=MAX_COST_UNITS).contains(&all.len()) {
            let what = format!("a cost has {} units", all.len());
            let remedy = format!("give 1 to {MAX_COST_UNITS} units, as in `requests = 1`");
            return Err(ParseError::whole("", what, remedy));
        }
        all.sort_by_key(|(unit, _)| (*unit != Unit::REQUESTS, *unit));
        Ok(Self { amounts: all })
    }

    /// The amount of each unit, requests first.
    pub fn amounts(&self) -> impl Iterator<Item = (&Unit, &Amount)> + Clone {
        self.amounts.iter().map(|(unit, amount)| (unit, amount))
    }

    /// The amount of a unit; `None` if the rule does not name it.
    #[must_use]
    pub fn of(&self, unit: &Unit) -> Option<&Amount> {
        self.amounts().find(|(known, _)| *known == unit).map(|(_, amount)| amount)
    }

    /// The amount of requests, where there is no other unit.
    #[must_use]
    pub fn plain(&self) -> Option<&Amount> {
        match &self.amounts[..] {
            [(Unit::REQUESTS, amount)] => Some(amount),
            _ => None,
        }
    }

    /// The fields that it is read from.
    pub fn fields(&self) -> impl Iterator<Item = &Field> {
        self.amounts.iter().flat_map(|(_, amount)| amount.fields())
    }

    /// The amounts that are known afterwards.
    pub(crate) fn reserves(&self) -> impl Iterator<Item = (&Unit, &Reserve)> {
        self.amounts().filter_map(|(unit, amount)| Some((unit, amount.reserve()?)))
    }

    /// Whether it is the cost of a policy that names none.
    pub(crate) fn is_default(&self) -> bool {
        self.plain() == Some(&Amount::Fixed(1))
    }

    /// Whether its numbers are in range, and its estimates are one hold.
    pub(crate) fn is_sound(&self) -> bool {
        // Of several units a request may take nothing of one.
        let least = u64::from(self.plain().is_some());
        self.has_one_hold() && self.amounts.iter().all(|(_, amount)| amount.is_sound(least))
    }

    /// Whether its estimates are held alike.
    pub(crate) fn has_one_hold(&self) -> bool {
        let mut terms = self.reserves().map(|(_, reserve)| reserve.terms());
        let first = terms.next();
        terms.all(|terms| Some(terms) == first)
    }
}

impl Amount {
    /// The fields that it is read from.
    pub fn fields(&self) -> impl Iterator<Item = &Field> {
        let sum = match self {
            Self::From { sum, .. }
            | Self::Reserve(Reserve { estimate: Estimate::From { sum, .. }, .. }) => Some(sum),
            _ => None,
        };
        sum.into_iter().flat_map(WeightedSum::sources)
    }

    /// The largest amount that is admitted, where it is not fixed.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        match self {
            Self::Fixed(_) => None,
            Self::From { max, .. } | Self::Reserve(Reserve { max, .. }) => Some(*max),
        }
    }

    pub(crate) fn reserve(&self) -> Option<&Reserve> {
        match self {
            Self::Reserve(reserve) => Some(reserve),
            _ => None,
        }
    }

    /// The amount of every request, or of one without its field; `None` if that is denied.
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

    fn is_sound(&self, least: u64) -> bool {
        let in_range = |units: u64| (1..=MAX_COST).contains(&units);
        match self {
            Self::Fixed(units) => in_range(*units),
            Self::From { sum, max, otherwise } => {
                are_numbers(sum)
                    && in_range(*max)
                    && otherwise.is_none_or(|it| (least..=*max).contains(&it))
            }
            Self::Reserve(reserve) => reserve.is_sound(least),
        }
    }
}

impl Default for CostRule {
    /// One request.
    fn default() -> Self {
        Self::from(Amount::Fixed(1))
    }
}

impl From<Amount> for CostRule {
    /// This amount of requests.
    fn from(amount: Amount) -> Self {
        Self { amounts: vec![(Unit::REQUESTS, amount)] }
    }
}

impl fmt::Display for CostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(amount) = self.plain() {
            return amount.fmt(f);
        }
        for (place, (unit, amount)) in self.amounts().enumerate() {
            let before = if place > 0 { "; " } else { "" };
            write!(f, "{before}{unit}: {amount}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(units) => write!(f, "{units}"),
            Self::From { sum, max, otherwise } => {
                write!(f, "{sum}, at most {max}")?;
                write_otherwise(f, *otherwise)
            }
            Self::Reserve(reserve) => reserve.fmt(f),
        }
    }
}

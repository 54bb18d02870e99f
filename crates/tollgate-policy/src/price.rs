//! The cost of one request: what each unit of a cost rule comes to with the request's fields.

use smallvec::SmallVec;
use tollgate::{Cost, Unit};

use crate::cost::{Amount, CostRule};
use crate::field::{Field, Fields, value};
use crate::reserve::{Estimate, Reserve};
use crate::resolve::Refused;
use crate::sum::{WeightedSum, whole_number};

/// Why a request has no cost.
pub(crate) enum Uncosted {
    /// The amount of a unit is above its bound.
    TooCostly(Unit, u64),
    Missing(Field),
}

impl Uncosted {
    pub(crate) fn refused(self, policy: usize) -> Refused {
        match self {
            Self::TooCostly(unit, max) => Refused::Cost { policy, unit, max },
            Self::Missing(field) => Refused::Missing { policy, field },
        }
    }
}

impl CostRule {
    /// The cost of a request.
    #[inline]
    pub(crate) fn of_request(&self, fields: &dyn Fields) -> Result<Cost, Uncosted> {
        if let Some(amount) = self.plain() {
            return amount.of_request(fields, (&Unit::REQUESTS, false)).map(Cost::from);
        }
        self.of_units(fields)
    }

    fn of_units(&self, fields: &dyn Fields) -> Result<Cost, Uncosted> {
        let mut amounts: SmallVec<[(Unit, u64); 4]> = SmallVec::new();
        for (unit, amount) in self.amounts() {
            let amount = amount.of_request(fields, (unit, true))?;
            if amount > 0 {
                amounts.push((*unit, amount));
            }
        }
        match (amounts.is_empty(), self.fields().next()) {
            // A request that takes nothing is as one that does not say what it takes.
            (true, Some(field)) => Err(Uncosted::Missing(field.clone())),
            _ => Ok(amounts.into_iter().collect()),
        }
    }
}

impl Amount {
    /// The amount of this unit that a request takes, which may be 0 only if `or_none`.
    #[inline]
    fn of_request(
        &self,
        fields: &dyn Fields,
        (unit, or_none): (&Unit, bool),
    ) -> Result<u64, Uncosted> {
        let (sum, max, otherwise) = match self {
            Self::Fixed(units) => return Ok(*units),
            Self::From { sum, max, otherwise } => (sum, *max, *otherwise),
            Self::Reserve(Reserve { estimate, max, .. }) => match estimate {
                Estimate::Units(units) => return Ok(*units),
                Estimate::From { sum, otherwise } => (sum, *max, *otherwise),
                // The gate knows better, once it has seen enough.
                Estimate::Quantile { otherwise, .. } => return Ok(*otherwise),
            },
        };
        let number = |field: &Field| whole_number(&value(fields, field)?);
        match sum.total(number) {
            Ok(units) if units > max => Err(Uncosted::TooCostly(*unit, max)),
            Ok(units) if units > 0 || or_none => Ok(units),
            total => otherwise.ok_or_else(|| Uncosted::Missing(missing(total, sum).clone())),
        }
    }
}

/// The field that a total lacks, or else the first one.
fn missing<'f>(total: Result<u64, &'f Field>, sum: &'f WeightedSum<Field>) -> &'f Field {
    total.err().or(sum.sources().next()).unwrap_or(&Field::Ip)
}

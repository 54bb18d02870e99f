//! The amounts that an event of a log takes.

use tollgate::{Cost, Limit, LimitSet, Unit};

use crate::error::Error;

/// The unit of the costs of a log: the one besides requests that limits count. If there is one,
/// each event is also one request. Without one, costs are requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventUnit {
    unit: Unit,
    counts_requests: bool,
}

impl Default for EventUnit {
    fn default() -> Self {
        Self { unit: Unit::REQUESTS, counts_requests: true }
    }
}

impl EventUnit {
    /// The unit of the costs under these limits.
    ///
    /// # Errors
    /// [`Error::Units`] if they count several besides requests.
    pub fn of<'l>(sets: impl IntoIterator<Item = &'l LimitSet>) -> Result<Self, Error> {
        let limits = sets.into_iter().flat_map(LimitSet::limits);
        let (mut other, mut counts_requests) = (None, false);
        for limit in limits.filter(|limit| limit.has_capacity() && !limit.needs_hold()) {
            match (*limit.unit(), other) {
                (Unit::REQUESTS, _) => counts_requests = true,
                (unit, Some(known)) if known != unit => {
                    return Err(Error::Units { one: known, other: unit });
                }
                (unit, _) => other = Some(unit),
            }
        }
        Ok(match other {
            None => Self::default(),
            Some(unit) => Self { unit, counts_requests },
        })
    }

    /// Whether a limit counts the costs of the log.
    #[must_use]
    pub fn is_of(self, limit: &Limit) -> bool {
        self.unit == Unit::REQUESTS || *limit.unit() == self.unit
    }

    /// Whether each event is also one request, beside its cost of another unit.
    #[must_use]
    pub fn has_requests(self) -> bool {
        self.counts_requests && self.unit != Unit::REQUESTS
    }

    /// The unit of the costs.
    #[must_use]
    pub fn unit(self) -> Unit {
        self.unit
    }

    /// The cost of an event with this cost in the log.
    #[must_use]
    pub fn cost(self, cost: u32) -> Cost {
        let units = u64::from(cost);
        if self.unit == Unit::REQUESTS {
            return Cost::from(units);
        }
        let request = self.has_requests().then_some((Unit::REQUESTS, 1));
        request.into_iter().chain([(self.unit, units)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_of_the_unit_that_limits_name() {
        let of = |text: &str| EventUnit::of([&text.parse().unwrap()]);
        for (limits, cost) in [
            ("5/s, 2 at once", "requests=7"),
            ("5/s of tokens", "tokens=7"),
            ("5/s, 9/m of tokens, 5/h of tokens", "requests=1,tokens=7"),
        ] {
            assert_eq!(of(limits).unwrap().cost(7), cost.parse::<Cost>().unwrap(), "{limits}");
        }
        let error = of("5/s of tokens, 5/s of rows").unwrap_err().to_string();
        assert!(error.contains("tokens and rows") && error.contains("--policy"), "{error}");
    }
}

//! The rate of a bucket that refills continuously, by which headers promise no more than it gives.

use tollgate::{Limit, Refill};

/// Units that are replenished in a period.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    units: u64,
    period_us: u64,
    /// 2^64 / units, to multiply by: a division takes ten times as long.
    inverse: u64,
}

impl Rate {
    /// That of a limit which refills continuously.
    pub(super) fn of(limit: &Limit) -> Option<Self> {
        let quota = limit.quota();
        let steady = quota.burst.is_some() && quota.refill != Some(Refill::Interval);
        steady.then(|| Self::new(quota.units, quota.period.as_micros()))
    }

    fn new(units: u64, period_us: u64) -> Self {
        let units = units.max(1);
        Self { units, period_us, inverse: u64::MAX / units }
    }

    /// `product / units`, rounded up.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the upper half
    fn div_ceil(self, product: u64) -> u64 {
        // The estimate is the quotient, or one less.
        let estimate = ((u128::from(product) * u128::from(self.inverse)) >> 64) as u64;
        let rest = product - estimate * self.units;
        estimate + u64::from(rest > 0) + u64::from(rest > self.units)
    }

    /// The time in microseconds until this number of units is replenished, rounded up.
    #[inline]
    pub(super) fn us_of(self, units: u64) -> u64 {
        match units.checked_mul(self.period_us) {
            Some(product) => self.div_ceil(product),
            None => self.us_of_many(units),
        }
    }

    #[cold]
    fn us_of_many(self, units: u64) -> u64 {
        let product = u128::from(units) * u128::from(self.period_us);
        u64::try_from(product.div_ceil(u128::from(self.units))).unwrap_or(u64::MAX)
    }

    /// The units that are replenished within `us` microseconds, rounded down.
    pub(super) fn units_in(self, us: u64) -> u64 {
        let product = u128::from(us) * u128::from(self.units);
        u64::try_from(product / u128::from(self.period_us.max(1))).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_multiplied_inverse_divides_exactly() {
        for units in [1, 2, 3, 7, 1_000, 1_000_003, 1 << 40, (1 << 63) + 1, u64::MAX] {
            let rate = Rate::new(units, 1);
            for near in [0, 1, 2, 1_000, u64::MAX / units] {
                for off in [-1_i64, 0, 1] {
                    let product = near.checked_mul(units).and_then(|p| p.checked_add_signed(off));
                    let Some(product) = product else { continue };
                    assert_eq!(rate.us_of(product), product.div_ceil(units), "{product}/{units}");
                }
            }
            assert_eq!(rate.us_of(u64::MAX), u64::MAX.div_ceil(units), "{units}");
        }
        // A product of more than 64 bits.
        assert_eq!(Rate::new(1 << 40, 1 << 40).us_of(1 << 40), 1 << 40);
    }
}

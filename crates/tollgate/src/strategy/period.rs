//! The exact time until one unit is replenished, and multiples of it.

/// An exact duration or point in time: whole microseconds and a fraction of one.
///
/// The fraction is a numerator below the denominator of the [`Emission`] that made it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Exact {
    pub(crate) us: u64,
    pub(crate) num: u64,
}

impl Exact {
    /// The value in microseconds, rounded up.
    #[inline]
    pub(crate) const fn ceil_us(self) -> u64 {
        self.us + (self.num > 0) as u64
    }
}

/// `T = D/N` in lowest terms: `numerator / denominator` microseconds per unit.
///
/// Multiples are computed separately for the whole and the fractional part. No product then reaches
/// 2^53, and the Lua version can do the same in doubles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Emission {
    numerator: u64,
    denominator: u64,
    whole_us: u64,
    part: u64,
    /// 2^64 / numerator, to multiply by: a division takes longer than the rest of a step.
    inverse: u64,
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Emission {
    /// The time between units at `units` per `period_us`; neither is 0.
    pub(crate) const fn new(units: u64, period_us: u64) -> Self {
        let common = gcd(units, period_us);
        let (numerator, denominator) = (period_us / common, units / common);
        Self {
            numerator,
            denominator,
            whole_us: numerator / denominator,
            part: numerator % denominator,
            inverse: u64::MAX / numerator,
        }
    }

    /// The numerator of the time per unit in microseconds, in lowest terms.
    pub(crate) const fn numerator(self) -> u64 {
        self.numerator
    }

    /// The denominator of the time per unit, and of every fraction of a microsecond.
    pub(crate) const fn denominator(self) -> u64 {
        self.denominator
    }

    /// The time that `units` units take.
    #[inline]
    pub(crate) const fn times(self, units: u64) -> Exact {
        if self.denominator == 1 {
            return Exact { us: units * self.whole_us, num: 0 };
        }
        let (us, parts) = (units * self.whole_us, units * self.part);
        // True for one unit; the test avoids a division, which takes longer than the rest of a
        // step.
        if parts < self.denominator { Exact { us, num: parts } } else { self.carry(us, parts) }
    }

    /// Normalizes microseconds and a fraction that is one or more.
    #[inline(never)]
    const fn carry(self, us: u64, parts: u64) -> Exact {
        Exact { us: us + parts / self.denominator, num: parts % self.denominator }
    }

    #[inline]
    pub(crate) const fn add(self, a: Exact, b: Exact) -> Exact {
        let num = a.num + b.num;
        if num >= self.denominator {
            Exact { us: a.us + b.us + 1, num: num - self.denominator }
        } else {
            Exact { us: a.us + b.us, num }
        }
    }

    /// `a - b`, or zero when `b` is larger.
    #[inline]
    pub(crate) const fn minus(self, a: Exact, b: Exact) -> Exact {
        let borrow = (a.num < b.num) as u64;
        if a.us < b.us + borrow {
            return Exact { us: 0, num: 0 };
        }
        Exact { us: a.us - b.us - borrow, num: a.num + borrow * self.denominator - b.num }
    }

    /// Converts `rest`, less than one unit of `was`, into the same part of a unit of this emission,
    /// rounded up to a whole microsecond.
    pub(crate) fn scaled_us(self, was: Self, rest: Exact) -> u64 {
        let parts = rest.us * was.denominator + rest.num;
        mul_div_up(parts, self.numerator, was.numerator).div_ceil(self.denominator)
    }

    /// How many whole units fit into `span`.
    #[inline]
    pub(crate) fn units_in(self, span: Exact) -> u64 {
        let parts = u128::from(span.us) * u128::from(self.denominator) + u128::from(span.num);
        let Ok(parts) = u64::try_from(parts) else { return self.units_in_many(parts) };
        // The estimate is the quotient, or one less.
        #[allow(clippy::cast_possible_truncation)] // the upper half
        let estimate = ((u128::from(parts) * u128::from(self.inverse)) >> 64) as u64;
        let rest = parts - estimate * self.numerator;
        estimate + u64::from(rest >= self.numerator)
    }

    /// The same for a span that does not fit into 64 bits, in parts of a microsecond.
    #[cold]
    fn units_in_many(self, parts: u128) -> u64 {
        u64::try_from(parts / u128::from(self.numerator)).unwrap_or(u64::MAX)
    }
}

/// `a * b / c` rounded down, without overflow.
pub(crate) fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    u64::try_from(u128::from(a) * u128::from(b) / u128::from(c)).unwrap_or(u64::MAX)
}

/// `a * b / c` rounded up, without overflow.
pub(crate) fn mul_div_up(a: u64, b: u64, c: u64) -> u64 {
    u64::try_from((u128::from(a) * u128::from(b)).div_ceil(u128::from(c))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_per_ten_seconds_never_drifts() {
        let emission = Emission::new(3, 10_000_000);
        assert_eq!(emission.times(1), Exact { us: 3_333_333, num: 1 });
        assert_eq!(emission.times(3), Exact { us: 10_000_000, num: 0 });
        let three = (0..3).fold(Exact::default(), |sum, _| emission.add(sum, emission.times(1)));
        assert_eq!(three, emission.times(3));
        assert_eq!(emission.units_in(emission.times(2)), 2);
        assert_eq!(
            emission.units_in(emission.minus(emission.times(2), Exact { us: 0, num: 1 })),
            1
        );
        assert_eq!(emission.minus(emission.times(1), emission.times(2)), Exact::default());
        assert_eq!(emission.times(1).ceil_us(), 3_333_334);
        assert_eq!(emission.denominator(), 3);
    }

    #[test]
    fn the_multiplied_inverse_divides_exactly() {
        for period_us in [1, 2, 3, 7, 10, 1_000_000, (1 << 45) - 1, 366 * 86_400_000_000] {
            let emission = Emission::new(1, period_us);
            for near in [0, 1, 2, 1_000, (1 << 51) / period_us] {
                for off in [-1_i64, 0, 1] {
                    let Some(us) = (near * period_us).checked_add_signed(off) else { continue };
                    assert_eq!(emission.units_in(Exact { us, num: 0 }), us / period_us, "{us}");
                }
            }
        }
        // In parts of a microsecond, up to the largest that 64 bits hold, and beyond.
        for period_us in [1, 3, 7, 999_999, 1_000_003, (1 << 40) + 1] {
            let emission = Emission::new(1 << 20, period_us);
            for us in [0, 1, 2, 999, 1 << 43, (1 << 44) - 1, 1 << 44, (1 << 45) + 7] {
                for num in [0, 1, (1 << 20) - 1] {
                    let parts = (u128::from(us) << 20) + u128::from(num);
                    let units = u64::try_from(parts / u128::from(period_us)).unwrap_or(u64::MAX);
                    assert_eq!(emission.units_in(Exact { us, num }), units, "{us} {num}");
                }
            }
        }
    }

    #[test]
    fn large_primes_stay_exact() {
        let emission = Emission::new(1_000_003, 30 * 86_400_000_000);
        for units in [1, 2, 999_999, 1_000_003] {
            assert_eq!(emission.units_in(emission.times(units)), units);
        }
        assert_eq!(emission.times(1_000_003), Exact { us: 30 * 86_400_000_000, num: 0 });
        // A span whose parts do not fit into 64 bits.
        let emission = Emission::new(1_000_003, 524_288_000_000);
        let span = emission.times(1 << 32);
        assert_eq!(emission.units_in(span), 1 << 32);
        assert_eq!(emission.units_in(emission.minus(span, Exact { us: 1, num: 0 })), (1 << 32) - 1);
    }

    #[test]
    fn products_of_large_numbers() {
        assert_eq!(mul_div(1 << 40, 1 << 45, 1 << 45), 1 << 40);
        assert_eq!(mul_div(7, 10, 3), 23);
        assert_eq!(mul_div_up(7, 10, 3), 24);
        assert_eq!(mul_div_up(6, 10, 3), 20);
    }
}

//! A limit as the oracle takes it: plain numbers, checked against section 7 of the definitions.

use std::fmt;

/// One variant for each strategy and option. Units: `n` and `burst` in units of cost, every
/// `_us` in microseconds.
#[allow(clippy::exhaustive_enums, reason = "tests match on every strategy")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// `uniform` (with `burst` 1), `gcra`, and `token_bucket` with greedy refill.
    Greedy {
        /// Units of the quota.
        n: u64,
        /// Its duration.
        d_us: u64,
        /// The capacity, in total.
        burst: u64,
    },
    /// `token_bucket` with `refill interval`.
    Interval {
        /// Units that come back at each multiple of the duration.
        n: u64,
        /// The duration.
        d_us: u64,
        /// The capacity, in total.
        burst: u64,
    },
    /// `fixed_window`, its windows starting at the epoch multiples of `d_us`.
    FixedEpoch {
        /// Units per window.
        n: u64,
        /// The window.
        d_us: u64,
    },
    /// `fixed_window anchor first-hit`.
    FixedFirstHit {
        /// Units per window.
        n: u64,
        /// The window.
        d_us: u64,
    },
    /// `fixed_window` of a calendar. It is judged between the first and the last edge only.
    Dates {
        /// Units per window.
        n: u64,
        /// The least length of a window: a number for its unit.
        d_us: u64,
        /// Where windows begin, in seconds.
        edges: &'static [i64],
    },
    /// `sliding_log`.
    Log {
        /// Units in any window.
        n: u64,
        /// The window.
        d_us: u64,
    },
    /// `sliding_window`.
    Window {
        /// Units in any window.
        n: u64,
        /// The window.
        d_us: u64,
        /// Length of a sub-bucket; divides the window.
        precision_us: u64,
        /// How the straddling bucket counts.
        rounding: Rounding,
    },
}

/// How a sliding window counts the bucket that straddles its old end.
#[allow(clippy::exhaustive_enums, reason = "tests match on every rounding")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// In full.
    Conservative,
    /// By the share of it that the window still covers.
    Interpolate,
    /// Not at all.
    Truncate,
}

/// Why a rule is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError(String);

impl fmt::Display for RuleError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for RuleError {}

/// The largest `n`, `burst` and cost: 2^40. The units in one window or bucket never exceed it.
pub(super) const MOST_UNITS: i128 = 1 << 40;
/// The longest duration: 366 days, in microseconds.
const LONGEST_US: u64 = 366 * 24 * 3600 * 1_000_000;
/// The most sub-buckets of a sliding window.
const MOST_BUCKETS: u64 = 1_000;

impl Rule {
    /// Section 7 of the definitions, and one more bound: the time to refill an interval bucket must
    /// be below 2^63 us, so that the wait has a number.
    pub(super) fn verify(&self) -> Result<(), RuleError> {
        let (n, d_us, burst) = match *self {
            Self::Greedy { n, d_us, burst } | Self::Interval { n, d_us, burst } => (n, d_us, burst),
            Self::FixedEpoch { n, d_us }
            | Self::FixedFirstHit { n, d_us }
            | Self::Dates { n, d_us, .. }
            | Self::Log { n, d_us }
            | Self::Window { n, d_us, .. } => (n, d_us, n),
        };
        within("n", n, 1 << 40)?;
        within("burst", burst, 1 << 40)?;
        within("d_us", d_us, LONGEST_US)?;
        let (n, d, b) = (i128::from(n), i128::from(d_us), i128::from(burst));
        match *self {
            Self::Greedy { .. } => {
                let lowest = n / gcd(n, d);
                require(b * lowest < 1 << 53, || {
                    format!("burst {b} times {lowest} (n in lowest terms) is not below 2^53")
                })?;
                require(b * d <= n << 51, || {
                    format!("burst {b} takes longer than 2^51 us to come back: lower the burst")
                })
            }
            Self::Interval { .. } => require((b + n - 1) / n * d < 1 << 63, || {
                format!("burst {b} takes 2^63 us or longer to come back: lower the burst")
            }),
            Self::Window { precision_us: p, .. } => {
                require(p >= 1 && d_us.is_multiple_of(p), || {
                    format!("precision_us {p} does not divide d_us {d_us}")
                })?;
                require(d_us / p <= MOST_BUCKETS, || {
                    format!("precision_us {p} makes more than {MOST_BUCKETS} sub-buckets of {d_us}")
                })
            }
            _ => Ok(()),
        }
    }
}

impl Rule {
    /// The capacity of a fresh subject.
    pub(super) fn limit(&self) -> i128 {
        match *self {
            Self::Greedy { burst, .. } | Self::Interval { burst, .. } => burst.into(),
            Self::FixedEpoch { n, .. }
            | Self::FixedFirstHit { n, .. }
            | Self::Dates { n, .. }
            | Self::Log { n, .. }
            | Self::Window { n, .. } => n.into(),
        }
    }

    /// The most units that can be used: the limit and the debt (section 8), which is by default as
    /// much as the limit, as far as section 7 lets it.
    pub(super) fn most(&self, debt: Option<u64>) -> Result<i128, RuleError> {
        let limit = self.limit();
        let exact = |most: i128| {
            most <= MOST_UNITS
                && match *self {
                    Self::Greedy { n, d_us, .. } => {
                        let (n, d) = (i128::from(n), i128::from(d_us));
                        most * (n / gcd(n, d)) < 1 << 53 && most * d <= n << 51
                    }
                    Self::Interval { n, d_us, .. } => {
                        let (n, d) = (i128::from(n), i128::from(d_us));
                        (most + n - 1) / n * d <= 1 << 51
                    }
                    _ => true,
                }
        };
        if let Some(debt) = debt {
            let most = limit + i128::from(debt);
            require(exact(most) || debt == 0, || format!("a debt of {debt} is too large"))?;
            return Ok(most);
        }
        // The largest that is exact, found by halving.
        let (mut fits, mut too_many) = (limit, 2 * limit + 1);
        while too_many - fits > 1 {
            let middle = fits + (too_many - fits) / 2;
            if exact(middle) {
                fits = middle;
            } else {
                too_many = middle;
            }
        }
        Ok(fits)
    }
}

fn within(name: &str, value: u64, most: u64) -> Result<(), RuleError> {
    require((1..=most).contains(&value), || format!("{name} is {value}; it must be 1 to {most}"))
}

fn require(holds: bool, message: impl FnOnce() -> String) -> Result<(), RuleError> {
    if holds { Ok(()) } else { Err(RuleError(message())) }
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

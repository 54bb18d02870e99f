//! Tests of the oracle: examples worked by hand, and properties over random histories.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod clock;
mod properties;
mod search;
mod several;
mod worked;

use super::{Fields, Oracle, OracleAnswer, Rounding, Rule};

const MS: u64 = 1_000;
const S: u64 = 1_000_000;
const DAY: u64 = 24 * 3600 * S;

fn fresh(rule: Rule) -> Oracle {
    Oracle::new(rule).unwrap()
}

fn greedy(n: u64, d_us: u64, burst: u64) -> Oracle {
    fresh(Rule::Greedy { n, d_us, burst })
}

/// Ten units in ten seconds, by seconds.
fn sliding(rounding: Rounding) -> Oracle {
    fresh(Rule::Window { n: 10, d_us: 10 * S, precision_us: S, rounding })
}

/// An Allow of `cost`: (remaining, reset).
fn allow(cost: u64, remaining: u64, reset_after_us: u64) -> OracleAnswer {
    let fields = Fields { remaining, retry_after_us: Some(0), reset_after_us };
    OracleAnswer { admitted: true, granted: cost, fields }
}

/// A Deny, *not yet*: (remaining, retry, reset).
fn not_yet(remaining: u64, retry_after_us: u64, reset_after_us: u64) -> OracleAnswer {
    let fields = Fields { remaining, retry_after_us: Some(retry_after_us), reset_after_us };
    OracleAnswer { admitted: false, granted: 0, fields }
}

/// A Deny, *never*: (remaining, reset).
fn never(remaining: u64, reset_after_us: u64) -> OracleAnswer {
    let fields = Fields { remaining, retry_after_us: None, reset_after_us };
    OracleAnswer { admitted: false, granted: 0, fields }
}

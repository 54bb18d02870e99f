//! A window beside a rate with a burst, which bounds the long run.

use tollgate::{LimitSet, Period, Strategy, Unit};

use super::Options;
use super::scan::{Profile, Window};
use super::table::limit_of;

const SECOND_US: u64 = 1_000_000;

/// The longest window that is tried: a day.
pub(super) const LONGEST: Option<Period> = Period::from_micros(86_400 * SECOND_US);

/// The shortest one: the burst bounds anything shorter.
const SHORTEST_US: u64 = 60 * SECOND_US;

/// A log covers a window so many times.
const TIMES: u64 = 10;

/// The strategy: of those that count a window in a few bytes the one nearest to it.
const STRATEGY: Strategy = Strategy::SlidingWindow;

/// A limit of a window, with the clients that it denies.
pub(super) struct Second {
    pub(super) limits: LimitSet,
    pub(super) period: Period,
    /// The most units of one client in any window, whatever it does.
    pub(super) worst_window: u64,
    /// Whether it ever denies each client.
    pub(super) is_denied: Vec<bool>,
}

/// The limit of a window that denies none of the clients in `is_admitted`, and a client that is
/// always at the limit of the rate: this many units at once, one more each `step_us`. The longest
/// window counts that the log covers ten times.
pub(super) fn second(
    (windows, profiles): (&[Window], &[Profile]),
    is_admitted: &[bool],
    (burst, step_us, log_us): (u64, u64, u64),
    options: &Options,
) -> Option<Second> {
    let covered = |window: &&Window| {
        window.period_us >= SHORTEST_US && log_us >= TIMES.saturating_mul(window.period_us)
    };
    let found = windows.iter().rev().filter(covered).find_map(|window| {
        let period = Period::from_micros(window.period_us)?;
        let each = window.busy.iter().zip(profiles);
        let least = each.map(|(busy, profile)| busy.least(STRATEGY, profile, window.period_us));
        let least = least.collect::<Option<Vec<u64>>>()?;
        let most = least.iter().zip(is_admitted).filter(|(_, is)| **is).map(|(least, _)| *least);
        let units = rounded_up(most.max()?);
        let limits = limit_of(STRATEGY, units, period, Unit::REQUESTS).ok()?;
        let worst_window = STRATEGY.traits(limits.limits().first()?.quota()).worst_window;
        let without = burst.saturating_add(window.period_us / step_us);
        let is_denied = least.iter().map(|least| *least > units).collect();
        (worst_window < without).then_some(Second { limits, period, worst_window, is_denied })
    });
    found.filter(|_| options.wants_second)
}

/// The next number with two digits and then zeros.
fn rounded_up(units: u64) -> u64 {
    let mut unit = 1;
    while units / unit >= 100 {
        unit *= 10;
    }
    units.div_ceil(unit).saturating_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_two_digits() {
        let found = [0, 7, 99, 100, 101, 261, 1_000, 12_345].map(rounded_up);
        assert_eq!(found, [0, 7, 99, 100, 110, 270, 1_000, 13_000]);
    }
}

//! The least number of units that denies at most this many requests: found by replaying some.

use crate::error::Error;

/// The most limits that are replayed for one strategy.
pub(super) const CANDIDATES: usize = 16;

/// The result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found<T> {
    /// The smallest number that was tried and keeps to the share, or the given one.
    pub(super) units: u64,
    /// The largest number that was tried and does not; 0 if all did.
    pub(super) too_few: u64,
    /// The measurement with `units`, unless it was not tried.
    pub(super) measured: Option<T>,
}

/// Searches below `enough`, which keeps to the share, near `hint` first. `try_units` measures a
/// number; `None` if it does not keep to the share.
pub(super) fn search<T>(
    enough: u64,
    hint: Option<u64>,
    mut try_units: impl FnMut(u64) -> Result<Option<T>, Error>,
) -> Result<Found<T>, Error> {
    let mut found = Found { units: enough, too_few: 0, measured: None };
    let mut next = hint;
    for _ in 0..CANDIDATES {
        if found.units - found.too_few <= 1 {
            break;
        }
        let middle = found.too_few + (found.units - found.too_few) / 2;
        let units = next.take().unwrap_or(middle);
        let units = units.clamp(found.too_few + 1, found.units - 1);
        let measured = try_units(units)?;
        // A hint is nearly right: the second number lies beside it, and often is the other end.
        let step = (units / 16).max(1);
        let is_hint = Some(units) == hint;
        if measured.is_some() {
            (found.units, found.measured) = (units, measured);
            next = is_hint.then(|| units.saturating_sub(step));
        } else {
            found.too_few = units;
            next = is_hint.then(|| units.saturating_add(step));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(enough: u64, hint: Option<u64>, truth: u64) -> (Found<u64>, usize) {
        let mut tries = 0;
        let found = search(enough, hint, |units| {
            tries += 1;
            assert!(units > 0 && units < enough);
            Ok((units >= truth).then_some(units))
        });
        (found.unwrap(), tries)
    }

    #[test]
    fn it_is_exact_up_to_65536_and_close_beyond() {
        for enough in [1_u64, 2, 3, 100, 65_536] {
            for truth in [1, 2, enough / 3, enough / 2, enough - 1, enough] {
                let truth = truth.clamp(1, enough);
                for hint in [None, Some(1), Some(truth), Some(truth + 1), Some(enough)] {
                    let (found, tries) = run(enough, hint, truth);
                    assert!(tries <= CANDIDATES);
                    if hint.is_none() || tries < CANDIDATES {
                        assert_eq!((found.units, found.too_few), (truth, truth - 1), "{hint:?}");
                    }
                    assert!(found.measured.is_none_or(|at| at == found.units));
                }
            }
        }
        let (found, tries) = run(1 << 30, None, 123_456_789);
        assert_eq!(tries, CANDIDATES);
        assert!(found.too_few < 123_456_789 && 123_456_789 <= found.units);
        assert!(found.units - found.too_few <= 1 << 14);
        // A good hint is worth ten tries.
        assert!(run(1 << 16, Some(200), 200).1 <= 6);
    }
}

//! Outliers: clients that are much busier than all others.

use super::Options;

/// An outlier asks for at least this many times the units of the next client.
const GAP: u64 = 4;

/// At most one in this many clients is an outlier.
const AT_MOST_ONE_IN: usize = 20;

/// A client that opens one page with so many assets is not an outlier.
pub(super) const PAGE: u64 = 100;

/// A client that asks once in this time is not one either, such as a monitor.
const STEADY_US: u64 = 10_000_000;

/// The demand in a window up to which a client is not an outlier.
pub(super) fn ordinary(window_us: u64) -> u64 {
    PAGE + window_us / STEADY_US
}

/// The outliers among these clients, unless they are kept among the others.
pub(super) fn apart(options: &Options, demand: &[u64], ordinary: u64) -> Vec<bool> {
    match options.sets_outliers_apart {
        true => outliers(demand, ordinary),
        false => vec![false; demand.len()],
    }
}

/// Whether each of these clients is an outlier, by its demand in its busiest window. The lowest gap
/// counts that is [`GAP`] times wide, with at most one in [`AT_MOST_ONE_IN`] clients above it. A
/// client with a demand of at most `ordinary` is not an outlier.
fn outliers(busiest: &[u64], ordinary: u64) -> Vec<bool> {
    let mut sorted = busiest.to_vec();
    sorted.sort_unstable_by(|one, other| other.cmp(one));
    let most = sorted.len() / AT_MOST_ONE_IN;
    let gap = sorted.windows(2).take(most).rev().find_map(|pair| match pair {
        [above, below] if *above > ordinary && *above >= GAP.saturating_mul((*below).max(1)) => {
            Some(*above)
        }
        _ => None,
    });
    busiest.iter().map(|units| gap.is_some_and(|gap| *units >= gap)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_above_the_lowest_gap_are_outliers() {
        let of = |top: &[u64], rest: usize| {
            let mut all = vec![10; rest];
            all.extend_from_slice(top);
            outliers(&all, 0).iter().filter(|is| **is).count()
        };
        assert_eq!(of(&[40], 39), 1);
        assert_eq!(of(&[39], 39), 0, "less than four times");
        assert_eq!(of(&[40, 1_000], 58), 2, "the lowest gap counts");
        assert_eq!(of(&[30, 1_000], 58), 1);
        assert_eq!(of(&[40, 40, 40], 57), 3, "three of 60");
        assert_eq!(of(&[40, 40, 40], 56), 0, "no more than one in 20");
        assert_eq!(of(&[1_000], 18), 0, "of 19 none");
        assert!(outliers(&[], 0).is_empty());
        let mut monitors = vec![12; 60];
        monitors.extend([60, 60]);
        let number = |ordinary| outliers(&monitors, ordinary).iter().filter(|is| **is).count();
        assert_eq!((number(59), number(60)), (2, 0), "once a minute is ordinary in an hour");
    }
}

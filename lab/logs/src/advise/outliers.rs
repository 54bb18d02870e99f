//! Outliers: clients whose demand says nothing about that of people. They are robots, scanners, or
//! much busier than all others.

use serde::Serialize;

use super::Options;
use crate::describe::Kind;
use crate::event::ClientId;
use crate::parse::By;
use crate::read::Traffic;

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

/// The fewest clients without robots and scanners that advice is made from.
const FEWEST_LEFT: usize = 10;

/// Why a client is an outlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Why {
    /// It asks for at least four times what the next client does.
    Busy,
    /// At least half of its requests, and at least 20, were answered by 400, 401, 403, 404 or 405.
    Scanner,
    /// At least half of its requests have an agent that names a robot.
    Robot,
}

impl Why {
    /// The reason for an outlier of this kind.
    pub(super) fn of(kind: Option<Kind>) -> Self {
        match kind {
            None => Self::Busy,
            Some(Kind::Scanner) => Self::Scanner,
            Some(Kind::Robot) => Self::Robot,
        }
    }

    /// One of them in a sentence: `a robot`.
    #[must_use]
    pub const fn one(self) -> &'static str {
        match self {
            Self::Busy => "much busier",
            Self::Scanner => Kind::Scanner.one(),
            Self::Robot => Kind::Robot.one(),
        }
    }
}

/// The robots and scanners among these clients.
pub(super) fn kinds(traffic: &Traffic, options: &Options, ids: &[ClientId]) -> Vec<Option<Kind>> {
    let kind = |id: &ClientId| traffic.descriptions.as_ref()?.kind(*id);
    apart_kinds(options, ids.iter().map(kind).collect())
}

/// These kinds, as far as they are set apart: all requests together are nobody, and neither is a
/// path. Where more than half of the clients are scanners, refused requests are part of the work,
/// and none is one. Where few others would be left, all are ordinary.
pub(super) fn apart_kinds(options: &Options, mut kinds: Vec<Option<Kind>>) -> Vec<Option<Kind>> {
    let count = |kinds: &[Option<Kind>], kind| kinds.iter().filter(|it| **it == kind).count();
    if count(&kinds, Some(Kind::Scanner)) > kinds.len() / 2 {
        kinds.iter_mut().filter(|it| **it == Some(Kind::Scanner)).for_each(|it| *it = None);
    }
    let is_somebody = !matches!(options.by, By::All | By::Path);
    if !options.sets_outliers_apart || !is_somebody || count(&kinds, None) < FEWEST_LEFT {
        return vec![None; kinds.len()];
    }
    kinds
}

/// The outliers among these clients, unless they are kept among the others.
pub(super) fn apart(
    options: &Options,
    (demand, kinds): (&[u64], &[Option<Kind>]),
    ordinary: u64,
) -> Vec<bool> {
    if !options.sets_outliers_apart {
        return vec![false; demand.len()];
    }
    let others: Vec<u64> =
        demand.iter().zip(kinds).filter(|(_, kind)| kind.is_none()).map(|(it, _)| *it).collect();
    let mut is_busy = outliers(&others, ordinary).into_iter();
    kinds.iter().map(|kind| kind.is_some() || is_busy.next().unwrap_or(false)).collect()
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
    fn what_most_clients_do_is_ordinary_and_few_others_are_too_few() {
        let found = |scanners: usize, robots: usize, others: usize| {
            let mut kinds = vec![Some(Kind::Scanner); scanners];
            kinds.extend(vec![Some(Kind::Robot); robots]);
            kinds.extend(vec![None; others]);
            let apart = apart_kinds(&Options::default(), kinds);
            let count = |kind| apart.iter().filter(|it| **it == Some(kind)).count();
            (count(Kind::Scanner), count(Kind::Robot))
        };
        assert_eq!([found(10, 0, 10), found(11, 0, 10)], [(10, 0), (0, 0)]);
        assert_eq!([found(0, 50, 10), found(0, 50, 9)], [(0, 50), (0, 0)]);
        assert_eq!(found(30, 5, 10), (0, 5), "the scanners are ordinary, the robots are not");
        let path = Options { by: By::Path, ..Options::default() };
        assert_eq!(apart_kinds(&path, vec![Some(Kind::Robot); 40]), vec![None; 40]);
    }

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

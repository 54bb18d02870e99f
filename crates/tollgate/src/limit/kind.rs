//! What kinds of limits there are, and what their capacities count.

/// What a limit bounds. What checks, holds and denials do to each kind is in the engine, and for
/// Redis in the composer of its scripts. Everybody else asks a [`Limit`](crate::Limit) for the one
/// property that matters there.
///
/// Kinds are ordered by what demand meets first.
///
/// ```
/// use tollgate::{Limit, LimitKind};
/// let limit: Limit = "20 at once".parse()?;
/// assert_eq!(limit.kind(), LimitKind::Slots);
/// assert!(limit.needs_hold());
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(clippy::exhaustive_enums)] // who does something else for each kind must see a new one
pub enum LimitKind {
    /// So many units in a time: checks charge them, and holds keep them.
    Rate,
    /// So many slots at a time: holds take them, and a check, which never gives one back, is
    /// refused.
    Slots,
    /// Nothing for a time, after so many denials by the limits beside it. It refuses any cost or
    /// none, and nothing is taken from it.
    Ban,
}

/// What a limit counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Unit {
    /// Requests, or what their cost says.
    Requests,
    /// Holds at a time, of a concurrency limit.
    Slots,
}

impl Unit {
    /// Its name in answers: `requests`, `slots`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Slots => "slots",
        }
    }

    /// Why a cost beyond a limit of so many is never admitted, for people.
    #[must_use]
    pub fn beyond(self, limit: u64) -> String {
        match self {
            Self::Requests => format!("the cost is above {limit}"),
            Self::Slots => format!("more slots are asked for than there are, {limit}"),
        }
    }
}

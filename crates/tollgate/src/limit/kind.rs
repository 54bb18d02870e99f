//! The kinds of limits.

/// The quantity that a limit bounds. The engine, and for Redis the composer of its scripts, define
/// the effect of checks, holds and denials on each kind. Everybody else asks a
/// [`Limit`](crate::Limit) for the one property that matters there.
///
/// Kinds are ordered by the one that demand meets first.
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
    #[doc(alias("requests per second", "rps"))]
    Rate,
    /// So many slots at a time: holds take them, and a check, which never gives one back, is
    /// refused.
    #[doc(alias("semaphore", "concurrency", "in flight", "bulkhead"))]
    Slots,
    /// Nothing for a time, after so many denials by the limits beside it. It refuses any cost or
    /// none, and nothing is taken from it.
    #[doc(alias("cooldown", "jail"))]
    Ban,
}

//! The gate itself: the policies in force, the store that counts, and the counters of answers.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use tollgate::{Limit, LimitSet, Limiter, MemoryStore, ParseError, Period, Quota, Store, Strategy};

use super::live::{Live, tell_deadlines};
use super::local::LocalCounts;
use super::observe::Registry;
use super::rulings::Following;
use super::snapshot_cache::SnapshotCache;
use super::{Counters, Current, DecisionMark, GateCounters, HoldCounters, Loss, Observer};
use crate::policies::Policies;

/// Applies policies to requests; all fronts share one. Clones are cheap and share the gate.
///
/// A request is one atomic check over all limits of all policies that apply. Shadow policies are
/// checked separately, and only recorded. [`Gate::replace`] changes the policies while the gate is
/// in use.
///
/// ```
/// use tollgate::MemoryStore;
/// use tollgate_policy::{Format, Gate, Outcome, Policies};
///
/// let text = r#"
///     version = 1
///     [[policies]]
///     name = "login"
///     on_failure = "deny"
///     limits = [{ subject = "ip", limit = "1/h" }]
/// "#;
/// let gate = Gate::new(Policies::parse(text, Format::Toml)?, MemoryStore::new())?;
/// # futures_executor::block_on(async {
/// let request = [("ip", "10.0.0.1")];
/// assert!(gate.check(&request).await.is_allowed());
/// let answer = gate.check(&request).await;
/// assert_eq!(answer.outcome(), Outcome::Denied);
/// assert_eq!(answer.policy().map(|policy| policy.name.as_str()), Some("login"));
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Gate<S>(pub(super) Arc<Inner<S>>);

/// The state that the clones of a gate share.
pub(super) struct Inner<S> {
    pub(super) limiter: Limiter<S>,
    pub(super) live: SnapshotCache,
    /// The number of the newest revision; locked while policies are replaced.
    pub(super) newest: Mutex<u64>,
    pub(super) registry: Registry,
    pub(super) unmatched: Counters,
    /// The counters of inline limits.
    pub(super) inline: Counters,
    /// The answers that were repeated under a request id.
    pub(super) repeats: AtomicU64,
    /// The checks under ids that were repeated too often.
    pub(super) overused: AtomicU64,
    pub(super) holds: HoldCounters,
    pub(super) loss: Loss,
    /// The counts of this process alone while the store is away.
    pub(super) local: OnceLock<Box<LocalCounts>>,
    pub(super) following: Following,
    pub(super) observer: Option<Box<dyn Observer>>,
    /// How the front hashes API keys.
    pub(super) keys: OnceLock<KeyHash>,
}

/// The hash of an API key, as the front provides it.
type KeyHash = Box<dyn Fn(&str) -> String + Send + Sync>;

impl<S> Clone for Gate<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> fmt::Debug for Gate<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("live", &self.0.live.load()).finish_non_exhaustive()
    }
}

impl<S: Store> Gate<S> {
    /// A gate with counts in `store`.
    ///
    /// # Errors
    /// None at present: the policies were checked when they were created.
    pub fn new(policies: Policies, store: S) -> Result<Self, ParseError> {
        Self::build(policies, store, None)
    }

    /// A gate that reports every answer, with its duration, to an observer.
    ///
    /// # Errors
    /// As [`Gate::new`].
    pub fn observed(
        policies: Policies,
        store: S,
        observer: impl Observer + 'static,
    ) -> Result<Self, ParseError> {
        Self::build(policies, store, Some(Box::new(observer)))
    }

    fn build(
        policies: Policies,
        store: S,
        observer: Option<Box<dyn Observer>>,
    ) -> Result<Self, ParseError> {
        // A limiter needs default limits; every question here has its own.
        let minute = Period::from_micros(60_000_000).ok_or_else(|| {
            ParseError::whole("1m", "this is not a period", "give one from 1us to 366d")
        })?;
        let unused = LimitSet::from(Limit::new(Quota::new(1, minute), Strategy::Gcra)?);
        let registry = Registry::default();
        let mark = DecisionMark::new(store.identity(), &policies);
        let usual = tell_deadlines(&store, &policies);
        let live = Live::new(policies, 1, mark, usual, &registry);
        Ok(Self(Arc::new(Inner {
            limiter: Limiter::new(unused, store),
            live: SnapshotCache::new(live),
            newest: Mutex::new(1),
            registry,
            unmatched: Counters::default(),
            inline: Counters::default(),
            repeats: AtomicU64::new(0),
            overused: AtomicU64::new(0),
            holds: HoldCounters::default(),
            loss: Loss::new("the store"),
            local: OnceLock::new(),
            following: Following::default(),
            observer,
            keys: OnceLock::new(),
        })))
    }

    /// Counts local shares in `store`, in place of one by this machine's clock. For simulations.
    /// False if a limit with a share was checked before: its counts stay where they are.
    pub fn count_local_shares_in(&self, store: MemoryStore) -> bool {
        let counts = LocalCounts::new(self.0.limiter.limits().clone(), store);
        self.0.local.set(Box::new(counts)).is_ok()
    }

    /// The store that keeps the counts.
    #[must_use]
    pub fn store(&self) -> &S {
        self.0.limiter.store()
    }

    /// True when both are clones of one gate.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The policies in force, with their derived parts.
    #[must_use]
    #[inline]
    pub fn current(&self) -> Current {
        Current(self.0.live.load())
    }

    /// The counters of this gate.
    #[must_use]
    pub fn counters(&self) -> GateCounters<'_> {
        let Inner { registry, inline, unmatched, holds, repeats, overused, .. } = &*self.0;
        GateCounters {
            registry,
            inline_limits: inline,
            unmatched,
            holds,
            repeats: repeats.load(Ordering::Relaxed),
            overused_ids: overused.load(Ordering::Relaxed),
        }
    }

    /// The start time of a check, if there is an observer.
    #[inline]
    pub(super) fn started(&self) -> Option<Instant> {
        self.0.observer.as_ref().map(|_| Instant::now())
    }
}

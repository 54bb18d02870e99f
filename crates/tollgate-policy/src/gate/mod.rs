//! The gate: finds the policies that apply to a request, checks them all in one store call, and
//! returns the answer.

use core::any::Any;
use core::fmt;
use core::future::Future;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use arc_swap::Guard;
use parking_lot::Mutex;
use tollgate::{
    Ask, Decision, Error, Limit, LimitSet, Limiter, MemoryStore, ParseError, Patience, Period,
    Quota, Receipt, Refund, Store, Strategy,
};

mod admin;
mod answer;
mod ask;
mod counts;
mod current;
mod decision_mark;
mod extensions;
mod fast_path;
mod hold_counters;
mod holding;
mod inline;
mod known;
mod local;
mod loss;
mod observe;
mod open_holds;
mod prepared;
mod replace;
mod rulings;
mod settling;
mod snapshot_cache;
mod standing;
mod together;

pub use admin::Admin;
pub use answer::{Answer, Shadow};
pub use current::Current;
pub use decision_mark::DecisionMark;
pub use hold_counters::HoldCounters;
pub use holding::Admission;
pub use inline::{Inline, Terms};
pub use loss::Loss;
pub use observe::{Counters, Event, GateCounters, Observer};
pub use prepared::Prepared;
pub use replace::{Reread, Revision};
pub use settling::Holds;
pub use standing::{Standing, SubjectCounts};
pub use together::CheckBatch;

use extensions::Extensions;
use local::LocalCounts;
use observe::Registry;
use rulings::{Following, Rulings};
use snapshot_cache::SnapshotCache;

use crate::field::{Field, Fields};
use crate::outcome::{Authority, Outcome};
use crate::policies::{Matched, Policies};
use crate::quantile::Quantile;
use crate::resolve::{Cause, Early, Plan};

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
pub struct Gate<S>(Arc<Inner<S>>);

struct Inner<S> {
    limiter: Limiter<S>,
    live: SnapshotCache,
    /// The number of the newest revision; locked while policies are replaced.
    newest: Mutex<u64>,
    registry: Registry,
    unmatched: Counters,
    /// The counters of inline limits.
    inline: Counters,
    /// The answers that were repeated under a request id.
    repeats: AtomicU64,
    /// The checks under ids that were repeated too often.
    overused: AtomicU64,
    holds: HoldCounters,
    loss: Loss,
    /// What this process admits by itself while the store is away.
    local: OnceLock<Box<LocalCounts>>,
    following: Following,
    observer: Option<Box<dyn Observer>>,
    /// How the front hashes API keys.
    keys: OnceLock<KeyHash>,
}

/// The hash of an API key, as the front provides it.
type KeyHash = Box<dyn Fn(&str) -> String + Send + Sync>;

/// The policies of one revision, with their counters.
pub(crate) struct Live {
    pub(crate) policies: Policies,
    pub(crate) revision: Revision,
    mark: DecisionMark,
    counters: Vec<Arc<Counters>>,
    /// Of each policy that reserves a quantile of what was committed.
    quantiles: Vec<Option<Arc<Mutex<Quantile>>>>,
    /// The values that fronts derive from these policies.
    extensions: Extensions,
    /// The deadline of policies that have none.
    usual: Duration,
    /// The rulings of administrators; `None` while there are none.
    rulings: Option<Arc<Rulings>>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Live({})", self.revision)
    }
}

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
            ParseError::whole("1m", "this is no period", "give one from 1us to 366d")
        })?;
        let unused = LimitSet::from(Limit::new(Quota::new(1, minute), Strategy::Gcra)?);
        let registry = Registry::default();
        let mark = DecisionMark::new(store.identity(), &policies);
        let usual = replace::tell_deadlines(&store, &policies);
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

    /// The policies in force, with what was derived from them.
    #[must_use]
    #[inline]
    pub fn current(&self) -> Current {
        Current(self.0.live.load())
    }

    /// What this gate has counted.
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

    /// Checks whether a request may go on, and charges it if so.
    ///
    /// There is always an answer: if the store does not answer within the deadline, the failure
    /// rule of the policies decides. The request is read before this returns, so the future does
    /// not borrow from it. Dropped before its end, the future has charged either nothing or all.
    pub fn check<'g>(
        &'g self,
        fields: &dyn Fields,
    ) -> impl Future<Output = Answer<'static>> + Send + use<'g, S> {
        self.ask(self.prepare(fields))
    }

    /// The first half of [`Gate::check`]: finds the policies of a request and builds its subjects.
    /// Use it if a front has more to set before the store is called.
    #[inline]
    pub fn prepare(&self, fields: &dyn Fields) -> Prepared {
        let mut prepared = self.begin();
        prepared.live.policies.find(fields, &mut prepared.matched);
        prepared.fill(fields);
        prepared
    }

    /// As [`Gate::prepare`], for one policy by its name. Its conditions are ignored; everything
    /// else of it applies. `None` if there is no policy of this name.
    ///
    /// A shadow policy stays in shadow: it is checked, and never denies.
    #[must_use]
    pub fn prepare_named(&self, policy: &str, fields: &dyn Fields) -> Option<Prepared> {
        let mut prepared = self.begin();
        let place = prepared.live.policies.place_of(policy)?;
        prepared.matched = prepared.live.policies.matched_alone(place);
        prepared.fill(fields);
        Some(prepared)
    }

    /// A request without policies yet.
    #[inline(always)]
    fn begin(&self) -> Prepared {
        Prepared {
            live: self.0.live.load(),
            matched: Matched::default(),
            // Written in place, so that it is not moved.
            plan: Plan::new(),
            shadows: Vec::new(),
            started: self.started(),
            name: None,
            kind: None,
            is_peek: false,
            patience: Patience::None,
        }
    }

    /// The start time of a check, if there is an observer.
    #[inline]
    fn started(&self) -> Option<Instant> {
        self.0.observer.as_ref().map(|_| Instant::now())
    }

    /// The second half of [`Gate::check`]: calls the store.
    pub async fn ask(&self, prepared: Prepared) -> Answer<'static> {
        if prepared.is_peek {
            return self.peek(prepared).await;
        }
        let Prepared { live, matched, plan, shadows, started, .. } = prepared;
        // A guard is for short use: while many are held, further ones are slow.
        let live = Guard::into_inner(live);
        let mut answer = self.0.ask(&live, &plan, Duration::MAX).await;
        // Recorded before the shadow checks: a caller that gives up during those has been charged.
        self.0.record(&answer, &matched.enforced, started);
        let shadows = self.0.ask_shadows(&live, &answer, plan.deadline, &shadows, started).await;
        answer.shadows = shadows;
        answer.into_owned()
    }

    /// The answer to a request that is a peek.
    async fn peek(&self, prepared: Prepared) -> Answer<'static> {
        let Prepared { live, plan, kind, .. } = prepared;
        let live = Guard::into_inner(live);
        let kind = kind.or_else(|| plan.holds(&live).map(|(kind, _)| kind));
        let answer = match plan.question(&live) {
            Some(ask) => {
                let ask = match kind {
                    Some(kind) => ask.holding(kind, None),
                    None => ask,
                };
                let result = self.0.limiter.check(ask.peek().within(plan.deadline)).await;
                self.0.conclude(&live, &plan, result, true)
            }
            None => plan.answered_early(&live),
        };
        answer.into_owned()
    }

    /// [`Gate::ask`] without async, if the store answers at once, as memory does. Otherwise `None`,
    /// and the store was not called. The answer borrows: an owned answer takes as long as
    /// everything else.
    #[inline]
    pub fn ask_now<'a>(&'a self, prepared: &'a Prepared) -> Option<Answer<'a>> {
        if prepared.is_peek || !self.store().facts().answers_at_once {
            return None;
        }
        let Prepared { live, matched, plan, shadows, started, .. } = prepared;
        let mut answer = self.0.ask_now(live, plan);
        self.0.record(&answer, &matched.enforced, *started);
        answer.shadows = self.0.ask_shadows_now(live, &answer, plan.deadline, shadows, *started);
        Some(answer)
    }

    /// An alternative second half: refuses a request with an unusable field, such as a header that
    /// was sent twice. The store is not called; the request is counted as missing.
    pub fn refuse(&self, prepared: Prepared, field: Field) -> Answer<'static> {
        let Prepared { live, matched: Matched { enforced, .. }, started, .. } = prepared;
        let early = Early {
            outcome: Outcome::Missing,
            policy: enforced.first().copied(),
            cause: Some(Arc::new(Cause::Missing(field))),
            ..Early::NO_POLICY
        };
        let answer = Answer::early(&live, &early);
        self.0.record(&answer, &enforced, started);
        answer.into_owned()
    }

    /// Refunds the charges of an answer, including those of shadow policies. `None` if nothing was
    /// charged.
    ///
    /// # Errors
    /// A store failure. Failures of shadow refunds are ignored: shadow charges have no effect.
    pub async fn refund(&self, answer: &Answer<'_>) -> Result<Option<Refund>, Error> {
        let refund = match answer.decision().and_then(Decision::receipt) {
            Some(receipt) => Some(self.inline().refund(&receipt).await?),
            None => None,
        };
        for receipt in answer.shadow_receipts() {
            let _ = self.inline().refund(&receipt).await;
        }
        Ok(refund)
    }

    /// Charges `units` more for an admitted request whose cost is known only afterwards. It charges
    /// as much of them as remains, since the request can no longer be denied. The decision contains
    /// the granted units. `None` if nothing had been charged, or `units` is 0.
    ///
    /// # Errors
    /// More than 2^40 units; or a store failure. Shadow policies as in [`Gate::refund`].
    pub async fn charge_extra(
        &self,
        answer: &Answer<'_>,
        units: u64,
    ) -> Result<Option<Decision<'static>>, Error> {
        if units == 0 {
            return Ok(None);
        }
        let decision = match answer.decision().and_then(Decision::receipt) {
            Some(receipt) => Some(self.charge(&receipt, units, answer).await?),
            None => None,
        };
        for receipt in answer.shadow_receipts() {
            let _ = self.charge(&receipt, units, answer).await;
        }
        Ok(decision)
    }

    async fn charge(
        &self,
        receipt: &Receipt,
        units: u64,
        answer: &Answer<'_>,
    ) -> Result<Decision<'static>, Error> {
        let parts: Vec<(&tollgate::Subject, &LimitSet)> =
            receipt.charges.iter().map(|part| (&part.subject, &part.limits)).collect();
        let mut ask = Ask::from(parts).cost(units).partial();
        if let Some(shard) = &receipt.shard {
            ask = ask.shard(shard.as_str());
        }
        if let Some(local) = self.0.local_limiter(receipt) {
            return Ok(local.check(ask).now()?.into_owned());
        }
        let own = answer.policy().and_then(|policy| policy.deadline);
        let deadline = own.unwrap_or_else(|| self.current().deadline());
        Ok(self.0.limiter.check(ask.within(deadline)).await?.into_owned())
    }
}

impl Live {
    /// The value of this type derived from these policies, created now if there is none.
    #[inline]
    fn extension<T: Any + Send + Sync>(&self, make: impl Fn(&Policies) -> T) -> &T {
        self.extensions.get_or_init(|| make(&self.policies))
    }

    fn new(
        policies: Policies,
        number: u64,
        mark: DecisionMark,
        usual: Duration,
        registry: &Registry,
    ) -> Self {
        let names = policies.policies().iter().map(|policy| policy.name.as_str());
        let counters = registry.counters(names);
        let quantiles = registry.quantiles(policies.policies().iter());
        let revision = Revision { number, hash: policies.hash().to_owned() };
        let (extensions, rulings) = (Extensions::default(), None);
        Self { policies, revision, mark, counters, quantiles, extensions, usual, rulings }
    }

    #[inline]
    fn count(&self, place: usize, outcome: Outcome, authority: Authority) {
        if let Some(counters) = self.counters.get(place) {
            counters.add(outcome, authority);
        }
    }
}

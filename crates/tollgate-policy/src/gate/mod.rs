//! The one door: a request comes in, the policies that apply are asked in one check, an answer goes
//! out.

use core::fmt;
use core::future::Future;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tollgate::{
    Ask, Decision, Error, Limit, LimitSet, Limiter, ParseError, Period, Quota, Receipt, Refund,
    Store, Strategy,
};

mod answer;
mod observe;

pub use answer::{Answer, Authority, Outcome, Revision, Shadow};
pub use observe::{Counters, Event, Observer};

use answer::{Asked, Shadowed};
use observe::Registry;

use crate::field::Fields;
use crate::model::OnFailure;
use crate::policies::Policies;
use crate::resolve::{Part, Plan, Refused};

/// The door that every front asks through. Cheap to clone: clones are the same door.
///
/// One request is one atomic check over all limits of all policies that apply; policies in shadow
/// are asked apart, and only recorded. [`Gate::replace`] changes the policies while it is asked.
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
    live: ArcSwap<Live>,
    /// The number of the newest revision; held while policies are replaced.
    newest: Mutex<u64>,
    registry: Registry,
    unmatched: Counters,
    observer: Option<Box<dyn Observer>>,
}

/// The policies of one revision, with their counters.
pub(crate) struct Live {
    pub(crate) policies: Policies,
    pub(crate) revision: Revision,
    counters: Vec<Arc<Counters>>,
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

/// What a gate would do next for a request.
enum Next {
    Say(Asked),
    Ask(Plan),
}

impl<S: Store> Gate<S> {
    /// A gate over counts in `store`.
    ///
    /// # Errors
    /// None today: what is wrong with policies was said when they were made.
    pub fn new(policies: Policies, store: S) -> Result<Self, ParseError> {
        Self::build(policies, store, None)
    }

    /// A gate that tells an observer of every answer, with the time it took.
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
        // A limiter has limits for those who ask with none; every question here has its own.
        let minute = Period::from_micros(60_000_000).ok_or_else(|| {
            ParseError::whole("1m", "this is no period", "give one from 1us to 366d")
        })?;
        let unused = LimitSet::from(Limit::new(Quota::new(1, minute), Strategy::Gcra)?);
        let registry = Registry::default();
        let live = Live::new(policies, 1, &registry);
        Ok(Self(Arc::new(Inner {
            limiter: Limiter::new(unused, store),
            live: ArcSwap::from_pointee(live),
            newest: Mutex::new(1),
            registry,
            unmatched: Counters::default(),
            observer,
        })))
    }

    /// Where the counts live.
    #[must_use]
    pub fn store(&self) -> &S {
        self.0.limiter.store()
    }

    /// True when both are the same door: clones of one gate.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The policies of now.
    #[must_use]
    pub fn policies(&self) -> Policies {
        self.0.live.load().policies.clone()
    }

    /// The revision of now.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.0.live.load().revision.clone()
    }

    /// Takes other policies from the next request on. Requests that are being answered keep those
    /// they began with. Counts stay where the name of the policy, the subject and the identities
    /// of the limits do.
    pub fn replace(&self, policies: Policies) -> Revision {
        let mut newest = self.0.newest.lock();
        *newest += 1;
        let live = Live::new(policies, *newest, &self.0.registry);
        let revision = live.revision.clone();
        self.0.live.store(Arc::new(live));
        revision
    }

    /// The counters of every policy that there was, by name.
    #[must_use]
    pub fn counters(&self) -> Vec<(String, Arc<Counters>)> {
        self.0.registry.all()
    }

    /// How many requests no policy applied to.
    #[must_use]
    pub fn unmatched(&self) -> u64 {
        self.0.unmatched.total(Outcome::NoPolicy)
    }

    /// Asks whether a request may go on, and charges it when it may.
    ///
    /// Always an answer: where the store cannot give one within the deadline, the failure rule of
    /// the policies does. What the request is made of is looked at before this returns, so that
    /// the future holds nothing of it. Dropped before its end, it has charged nothing, or all.
    pub fn check<'g>(
        &'g self,
        fields: &dyn Fields,
    ) -> impl Future<Output = Answer> + Send + use<'g, S> {
        let inner = &*self.0;
        let started = inner.observer.as_ref().map(|_| Instant::now());
        let live = inner.live.load_full();
        let matched = live.policies.matched(fields);
        let next = live.next(&matched.enforced, fields);
        // Planned now, since the fields are there only now; asked when the others admit.
        let shadows: SmallVec<[(usize, Next); 1]> =
            matched.shadows.iter().map(|number| (*number, live.next(&[*number], fields))).collect();
        let enforced = matched.enforced;
        async move {
            let (asked, authority) = inner.perform(&live, next).await;
            let mut answer = Answer { live, authority, asked, shadows: Vec::new() };
            let counted = answer.is_allowed() && answer.authority != Authority::FailureRule;
            for (number, next) in shadows {
                if !counted {
                    break;
                }
                let (mut asked, _) = inner.perform(&answer.live, next).await;
                asked.policy = Some(number);
                let failed = asked.error.is_some();
                answer.shadows.push(Shadowed(asked));
                // A store that has just failed is not asked for what has no effect.
                if failed {
                    break;
                }
            }
            inner.record(&answer, &enforced, started);
            answer
        }
    }

    /// Gives back what was charged for an answer, in shadow too; none when nothing was.
    ///
    /// # Errors
    /// The store could not answer.
    pub async fn refund(&self, answer: &Answer) -> Result<Option<Refund>, Error> {
        for shadowed in &answer.shadows {
            if let Some(receipt) = shadowed.0.decision.as_ref().and_then(Decision::receipt) {
                self.0.limiter.refund(&receipt).await?;
            }
        }
        let Some(receipt) = answer.decision().and_then(Decision::receipt) else { return Ok(None) };
        self.0.limiter.refund(&receipt).await.map(Some)
    }

    /// Charges `units` more for a request that was admitted, when its cost is known only
    /// afterwards: as much of them as remains, for what has been done cannot be denied any more.
    /// What was granted is in the decision; none when nothing had been charged, or `units` is 0.
    ///
    /// # Errors
    /// More than 2^40 units; the store could not answer.
    pub async fn charge_extra(
        &self,
        answer: &Answer,
        units: u64,
    ) -> Result<Option<Decision<'static>>, Error> {
        if units == 0 {
            return Ok(None);
        }
        for shadowed in &answer.shadows {
            if let Some(receipt) = shadowed.0.decision.as_ref().and_then(Decision::receipt) {
                // What a shadow grants has no effect.
                let _ = self.charge(&receipt, units, answer).await?;
            }
        }
        let Some(receipt) = answer.decision().and_then(Decision::receipt) else { return Ok(None) };
        self.charge(&receipt, units, answer).await.map(Some)
    }

    async fn charge(
        &self,
        receipt: &Receipt,
        units: u64,
        answer: &Answer,
    ) -> Result<Decision<'static>, Error> {
        let parts: Vec<(&tollgate::Subject, &LimitSet)> =
            receipt.charges.iter().map(|part| (&part.subject, &part.limits)).collect();
        let ask = Ask::from(parts).cost(units).partial();
        let deadline = answer.policy().map_or(crate::DEFAULT_DEADLINE, |policy| policy.deadline);
        Ok(self.0.limiter.check_within(deadline, ask).await?.into_owned())
    }
}

impl<S: Store> Inner<S> {
    async fn perform(&self, live: &Live, next: Next) -> (Asked, Authority) {
        let plan = match next {
            Next::Say(asked) => {
                let failed = matches!(asked.outcome, Outcome::FailedOpen | Outcome::FailedClosed);
                let authority = if failed { Authority::FailureRule } else { Authority::Policy };
                return (asked, authority);
            }
            Next::Ask(plan) => plan,
        };
        let parts: SmallVec<[Part; 1]> = plan.parts.iter().map(|(_, part)| *part).collect();
        let mut each = plan
            .parts
            .into_iter()
            .filter_map(|(subject, part)| Some((subject, live.policies.limits_of(part)?)));
        let Some((subject, limits)) = each.next() else {
            let first = parts.first().map(|part| part.policy);
            return (Asked::alone(Outcome::Unlimited, first), Authority::Policy);
        };
        let mut ask = Ask::new(subject).under(limits).cost(plan.cost);
        for (subject, limits) in each {
            ask = ask.and_under(subject, limits);
        }
        let first = parts.first().map(|part| part.policy);
        match self.limiter.check_within(plan.deadline, ask).await {
            Ok(decision) => {
                let decision = decision.into_owned();
                let outcome = match decision.verdict() {
                    tollgate::Verdict::Allow => Outcome::Allowed,
                    tollgate::Verdict::NotYet(_) => Outcome::Denied,
                    tollgate::Verdict::Never => Outcome::Never,
                };
                let mut asked = Asked {
                    outcome,
                    policy: first,
                    parts,
                    decision: Some(decision),
                    missing: None,
                    error: None,
                };
                if asked.parts.len() > 1 {
                    asked.policy = asked.binding(live).or(first);
                }
                (asked, Authority::Store)
            }
            Err(error) => {
                let outcome = failed(plan.on_failure);
                let asked = Asked { error: Some(error), ..Asked::alone(outcome, first) };
                (asked, Authority::FailureRule)
            }
        }
    }

    fn record(&self, answer: &Answer, enforced: &[usize], started: Option<Instant>) {
        let duration = started.map(|started| started.elapsed());
        let Answer { live, authority, asked, shadows } = answer;
        let tell = |number: Option<usize>, outcome, authority, limit: Option<&Limit>| {
            let Some((observer, duration)) = self.observer.as_ref().zip(duration) else { return };
            let policy = number.and_then(|number| live.policies.policy(number));
            let policy = policy.map(|policy| policy.name.as_str());
            observer.observe(&Event { policy, limit, outcome, authority, duration });
        };
        if enforced.is_empty() {
            self.unmatched.add(Outcome::NoPolicy, Authority::Policy);
            tell(None, Outcome::NoPolicy, Authority::Policy, None);
        }
        for &number in enforced {
            let outcome = asked.outcome_of(live, number, enforced.len());
            live.count(number, outcome, *authority);
            if self.observer.is_some() {
                let binds = asked.policy == Some(number);
                tell(Some(number), outcome, *authority, answer.limit().filter(|_| binds));
            }
        }
        for Shadowed(asked) in shadows {
            if let Some(number) = asked.policy {
                live.count(number, asked.outcome, Authority::Shadow);
                let decision = asked.decision.as_ref();
                let binding = decision.map(Decision::binding);
                let limit = binding.as_ref().map(tollgate::Report::limit);
                tell(Some(number), asked.outcome, Authority::Shadow, limit);
            }
        }
    }
}

fn failed(rule: OnFailure) -> Outcome {
    match rule {
        OnFailure::Allow => Outcome::FailedOpen,
        OnFailure::Deny => Outcome::FailedClosed,
    }
}

impl Asked {
    /// The policy of the limit that binds.
    fn binding(&self, live: &Live) -> Option<usize> {
        let decision = self.decision.as_ref()?;
        let binding = decision.binding();
        let is_it = |report: &tollgate::Report<'_>| {
            core::ptr::eq(report.limit(), binding.limit())
                && core::ptr::eq(report.subject(), binding.subject())
        };
        let mut found = self.reports(live).filter(|(_, report)| is_it(report));
        let (policy, _) = found.next()?;
        let named = |number: &usize| {
            live.policies.policy(*number).is_some_and(|other| core::ptr::eq(other, policy))
        };
        self.parts.iter().map(|part| part.policy).find(named)
    }

    /// What became of one policy's part.
    fn outcome_of(&self, live: &Live, number: usize, policies: usize) -> Outcome {
        if policies == 1 || self.policy == Some(number) {
            return self.outcome;
        }
        match self.outcome {
            Outcome::Allowed if !self.parts.iter().any(|part| part.policy == number) => {
                Outcome::Unlimited
            }
            Outcome::Denied | Outcome::Never => {
                let own = live.policies.policy(number);
                let mut reports = self.reports(live);
                let denies = reports.any(|(policy, report)| {
                    own.is_some_and(|own| core::ptr::eq(own, policy)) && !report.admits()
                });
                if denies { Outcome::Denied } else { Outcome::Withheld }
            }
            Outcome::Banned | Outcome::Missing => Outcome::Withheld,
            other => other,
        }
    }
}

impl Live {
    fn new(policies: Policies, number: u64, registry: &Registry) -> Self {
        let names = policies.policies().iter().map(|policy| policy.name.as_str());
        let counters = registry.of(names);
        let revision = Revision { number, hash: policies.hash().to_owned() };
        Self { policies, revision, counters }
    }

    #[inline]
    fn count(&self, place: usize, outcome: Outcome, authority: Authority) {
        if let Some(counters) = self.counters.get(place) {
            counters.add(outcome, authority);
        }
    }

    /// What is to be done for these policies.
    #[inline]
    fn next(&self, numbers: &[usize], fields: &dyn Fields) -> Next {
        let Some(first) = numbers.first() else {
            return Next::Say(Asked::alone(Outcome::NoPolicy, None));
        };
        match self.policies.plan(numbers, fields) {
            Ok(plan) if plan.parts.is_empty() => {
                Next::Say(Asked::alone(Outcome::Unlimited, Some(*first)))
            }
            Ok(plan) => Next::Ask(plan),
            Err(refused) => Next::Say(said(refused)),
        }
    }
}

#[cold]
fn said(refused: Refused) -> Asked {
    match refused {
        Refused::Banned { policy } => Asked::alone(Outcome::Banned, Some(policy)),
        Refused::Cost { policy } => Asked::alone(Outcome::Never, Some(policy)),
        Refused::Missing { policy, field } => {
            Asked { missing: Some(field), ..Asked::alone(Outcome::Missing, Some(policy)) }
        }
        Refused::Parts { policy, on_failure } => {
            let error = Error::Ask(format!(
                "the policies that apply count more than {} subjects, which no check has: let \
                 fewer apply together",
                tollgate::MAX_PARTS
            ));
            let outcome = failed(on_failure);
            Asked { error: Some(error), ..Asked::alone(outcome, Some(policy)) }
        }
    }
}

//! The one door: a request comes in, the policies that apply are asked in one check, an answer goes
//! out.

use core::fmt;
use core::future::Future;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tollgate::{
    Ask, Decision, Error, Limit, LimitSet, Limiter, ParseError, Period, Quota, Receipt, Refund,
    Store, StoreError, Strategy,
};

mod answer;
mod apart;
mod observe;

pub use answer::{Answer, Authority, Outcome, Revision, Shadow};
pub use apart::{Standing, Terms};
pub use observe::{Counters, Event, Observer};

use answer::{Answered, Asked, Trouble};
use observe::Registry;

use crate::field::{Field, Fields};
use crate::model::OnFailure;
use crate::policies::{Matched, Policies};
use crate::resolve::{Plan, Refused};

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
    /// Of limits that callers brought.
    brought: Counters,
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

/// A request that was looked at, and not decided yet: what there is to ask, and nothing of the
/// request itself.
#[derive(Debug)]
#[must_use = "a request that is not asked for is not limited"]
pub struct Looked(Box<Answered>);

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
            brought: Counters::default(),
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
        self.ask(self.look(fields))
    }

    /// The first half of [`Gate::check`]: finds the policies of a request and makes its subjects.
    /// For fronts that have more to say before the store is asked.
    pub fn look(&self, fields: &dyn Fields) -> Looked {
        let started = self.started();
        let live = self.0.live.load_full();
        let matched = live.policies.matched(fields);
        prepare(live, matched, fields, started)
    }

    /// When a question begins, for the observer.
    #[inline]
    fn started(&self) -> Option<Instant> {
        self.0.observer.as_ref().map(|_| Instant::now())
    }

    /// The second half of [`Gate::check`]: asks the store.
    pub async fn ask(&self, looked: Looked) -> Answer {
        let mut answered = looked.0;
        let Answered { live, asked, .. } = &mut *answered;
        self.0.perform(live, asked).await;
        // Before the shadows: who goes away while those are asked has been charged.
        self.0.record(&answered);
        if !answered.shadows.is_empty() {
            self.0.ask_shadows(&mut answered).await;
        }
        Answer(answered)
    }

    /// The other second half: refuses a request that has a field which cannot be taken for what it
    /// should be, as a header that was sent twice. Nothing is asked; it is counted as missing.
    pub fn refuse(&self, looked: Looked, field: Field) -> Answer {
        let mut answered = looked.0;
        let Answered { asked, enforced, shadows, .. } = &mut *answered;
        shadows.clear();
        *asked = Asked {
            outcome: Outcome::Missing,
            policy: enforced.first().copied(),
            trouble: Some(Trouble::Missing(field)),
            ..Asked::default()
        };
        self.0.record(&answered);
        Answer(answered)
    }

    /// [`Gate::ask`] without waiting, where the store answers at once, as memory does; else the
    /// request as it was, and nothing was asked.
    ///
    /// # Errors
    /// The store has to be waited for.
    pub fn ask_now(&self, looked: Looked) -> Result<Answer, Looked> {
        if !self.store().answers_at_once() {
            return Err(looked);
        }
        let mut answered = looked.0;
        let Answered { live, asked, .. } = &mut *answered;
        if let Some((ask, deadline)) = asked.question(live) {
            let result = match self.0.limiter.check_at_once(ask) {
                Ok(Ok(decision)) => Ok(decision),
                Ok(Err(ask)) => {
                    let checked = at_once(self.0.limiter.check_within(deadline, ask));
                    checked.unwrap_or_else(|| Err(no_answer()))
                }
                Err(error) => Err(error),
            };
            asked.conclude(live, result);
        }
        self.0.record(&answered);
        if !answered.shadows.is_empty() {
            at_once(self.0.ask_shadows(&mut answered));
        }
        Ok(Answer(answered))
    }

    /// Gives back what was charged for an answer, in shadow too; none when nothing was.
    ///
    /// # Errors
    /// The store could not answer. What became of a shadow's charge is not told: it has no effect.
    pub async fn refund(&self, answer: &Answer) -> Result<Option<Refund>, Error> {
        let refund = match answer.decision().and_then(Decision::receipt) {
            Some(receipt) => Some(self.0.limiter.refund(&receipt).await?),
            None => None,
        };
        for receipt in answer.shadow_receipts() {
            let _ = self.0.limiter.refund(&receipt).await;
        }
        Ok(refund)
    }

    /// Charges `units` more for a request that was admitted, when its cost is known only
    /// afterwards: as much of them as remains, for what has been done cannot be denied any more.
    /// What was granted is in the decision; none when nothing had been charged, or `units` is 0.
    ///
    /// # Errors
    /// More than 2^40 units; the store could not answer. As [`Gate::refund`] for shadows.
    pub async fn charge_extra(
        &self,
        answer: &Answer,
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
        answer: &Answer,
    ) -> Result<Decision<'static>, Error> {
        let parts: Vec<(&tollgate::Subject, &LimitSet)> =
            receipt.charges.iter().map(|part| (&part.subject, &part.limits)).collect();
        let mut ask = Ask::from(parts).cost(units).partial();
        if let Some(shard) = &receipt.shard {
            ask = ask.shard(shard.as_str());
        }
        let deadline = answer.policy().map_or(crate::DEFAULT_DEADLINE, |policy| policy.deadline);
        Ok(self.0.limiter.check_within(deadline, ask).await?.into_owned())
    }
}

impl<S: Store> Inner<S> {
    async fn perform(&self, live: &Live, asked: &mut Asked) {
        if let Some((ask, deadline)) = asked.question(live) {
            let result = self.limiter.check_within(deadline, ask).await;
            asked.conclude(live, result);
        }
    }

    /// Asks the policies in shadow, after the others have admitted, and records them. All of them
    /// together get the time that the others had: a shadow holds nobody up for longer.
    async fn ask_shadows(&self, answered: &mut Answered) {
        let Answered { live, asked, shadows, started, .. } = answered;
        let mut counted = 0;
        if asked.outcome.admits() && asked.authority != Authority::FailureRule {
            let whole = asked.plan.deadline;
            let whole = if whole == Duration::MAX { crate::DEFAULT_DEADLINE } else { whole };
            let began = Instant::now();
            for shadow in &mut *shadows {
                let left = whole.saturating_sub(began.elapsed());
                if left.is_zero() {
                    break;
                }
                shadow.plan.deadline = shadow.plan.deadline.min(left);
                let place = shadow.policy;
                self.perform(live, shadow).await;
                shadow.policy = place;
                counted += 1;
                // A store that has just failed is not asked for what has no effect.
                if matches!(shadow.trouble, Some(Trouble::Error(_))) {
                    break;
                }
            }
        }
        shadows.truncate(counted);
        let duration = started.map(|started| started.elapsed());
        for asked in shadows {
            if let Some(place) = asked.policy {
                live.count(place, asked.outcome, Authority::Shadow);
                let decision = asked.decision.as_ref();
                let said = (asked.outcome, Authority::Shadow);
                self.tell(live, Some(place), said, decision, duration, false);
            }
        }
    }

    /// Counts what became of the policies that are enforced, and tells the observer.
    #[inline]
    fn record(&self, answered: &Answered) {
        let Answered { live, enforced, asked, started, .. } = answered;
        let duration = started.map(|started| started.elapsed());
        let authority = asked.authority;
        if enforced.is_empty() {
            self.unmatched.add(asked.outcome, authority);
            self.tell(live, None, (asked.outcome, authority), None, duration, true);
        }
        for &place in enforced {
            let outcome = asked.outcome_of(live, place, enforced.len());
            live.count(place, outcome, authority);
            let decides = asked.policy == Some(place);
            let decision = asked.decision.as_ref().filter(|_| decides);
            self.tell(live, Some(place), (outcome, authority), decision, duration, decides);
        }
    }

    /// Tells the observer, when there is one; `decision` is that of the limit that binds.
    #[inline]
    fn tell(
        &self,
        live: &Live,
        place: Option<usize>,
        (outcome, authority): (Outcome, Authority),
        decision: Option<&Decision<'_>>,
        duration: Option<Duration>,
        decides: bool,
    ) {
        let Some((observer, duration)) = self.observer.as_ref().zip(duration) else { return };
        let binding = decision.map(Decision::binding);
        let limit = binding.as_ref().map(tollgate::Report::limit);
        let policy = place.and_then(|place| live.policies.policy(place));
        let policy = policy.map(|policy| policy.name.as_str());
        observer.observe(&Event { policy, limit, outcome, authority, duration, decides });
    }
}

impl Looked {
    /// True when a field decides about this request: a policy that is not in shadow has a condition
    /// on it, or applies and looks at it. What only shadows look at has no effect.
    #[must_use]
    pub fn enforces(&self, field: &Field) -> bool {
        let Answered { live, enforced, .. } = &*self.0;
        live.policies.is_condition(field)
            || enforced.iter().any(|place| live.policies.looks_at(*place, field))
    }
}

/// Makes the questions of the policies that a request meets.
#[inline]
fn prepare(
    live: Arc<Live>,
    matched: Matched,
    fields: &dyn Fields,
    started: Option<Instant>,
) -> Looked {
    let Matched { enforced, shadows } = matched;
    let asked = Asked::default();
    let mut answered = Box::new(Answered { live, enforced, asked, shadows: Vec::new(), started });
    let Answered { live, enforced, asked, shadows: planned, .. } = &mut *answered;
    asked.prepare(live, enforced, fields);
    if !shadows.is_empty() {
        // Planned now, since the fields are there only now; asked when the others admit.
        planned.extend(shadows.into_iter().map(|place| {
            let mut asked = Asked::default();
            asked.prepare(live, &[place], fields);
            asked.policy = Some(place);
            asked
        }));
    }
    Looked(answered)
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
        self.plan.parts.iter().map(|part| part.policy).find(named)
    }

    /// What became of one policy's part.
    fn outcome_of(&self, live: &Live, number: usize, policies: usize) -> Outcome {
        if policies == 1 || self.policy == Some(number) {
            return self.outcome;
        }
        match self.outcome {
            Outcome::Allowed if !self.plan.parts.iter().any(|part| part.policy == number) => {
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
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            plan: Plan::default(),
            outcome: Outcome::NoPolicy,
            authority: Authority::Policy,
            policy: None,
            decision: None,
            trouble: None,
        }
    }
}

impl Asked {
    /// What is to be asked for these policies; or what is answered without asking.
    #[inline]
    fn prepare(&mut self, live: &Live, places: &[usize], fields: &dyn Fields) {
        let Some(first) = places.first() else { return };
        match live.policies.plan(places, fields, &mut self.plan) {
            Ok(()) if self.plan.parts.is_empty() => {
                self.policy = Some(*first);
                self.outcome = Outcome::Unlimited;
            }
            Ok(()) => {}
            Err(refused) => self.refuse(refused),
        }
    }

    /// The question to the store; none when there is nothing to ask.
    #[inline]
    fn question<'l>(&mut self, live: &'l Live) -> Option<(Ask<'l>, Duration)> {
        let Plan { subjects, parts, cost, shard, deadline, .. } = &mut self.plan;
        let (mut subjects, mut parts) = (subjects.drain(..), parts.iter());
        let subject = subjects.next()?;
        // Every part was made of limits that are there.
        let first = live.policies.limits_of(*parts.next()?)?;
        let mut ask = Ask::new(subject).under(first).cost(*cost);
        for (subject, part) in subjects.zip(parts) {
            ask = ask.and_under(subject, live.policies.limits_of(*part)?);
        }
        if let Some(shard) = shard.take() {
            ask = ask.shard(String::from(shard));
        }
        Some((ask, *deadline))
    }

    /// Takes what the store says.
    #[inline]
    fn conclude(&mut self, live: &Live, result: Result<Decision<'_>, Error>) {
        self.policy = self.plan.parts.first().map(|part| part.policy);
        match result {
            Ok(decision) => {
                self.outcome = Outcome::of(decision.verdict());
                self.authority = Authority::Store;
                self.decision = Some(decision.into_owned());
                if self.plan.parts.len() > 1 {
                    self.policy = self.binding(live).or(self.policy);
                }
            }
            Err(error) => {
                self.outcome = failed(self.plan.on_failure);
                self.authority = Authority::FailureRule;
                self.plan.parts.clear();
                self.trouble = Some(Trouble::Error(error));
            }
        }
    }

    #[cold]
    fn refuse(&mut self, refused: Refused) {
        self.plan.subjects.clear();
        self.plan.parts.clear();
        let (outcome, policy, trouble) = match refused {
            Refused::Banned { policy } => (Outcome::Banned, policy, None),
            Refused::Cost { policy } => (Outcome::Never, policy, None),
            Refused::Missing { policy, field } => {
                (Outcome::Missing, policy, Some(Trouble::Missing(field)))
            }
            // Whatever the failure rules say: nothing failed, and a caller who makes more policies
            // apply must not get around all of them.
            Refused::Parts { policy } => {
                let error = Error::Ask(format!(
                    "the policies that apply count more than {} subjects, which no check has: let \
                     fewer apply together",
                    tollgate::MAX_PARTS
                ));
                self.authority = Authority::FailureRule;
                (Outcome::FailedClosed, policy, Some(Trouble::Error(error)))
            }
        };
        (self.outcome, self.policy, self.trouble) = (outcome, Some(policy), trouble);
    }
}

/// What a future gives that is ready at once.
#[inline]
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = core::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// A store that breaks its word is one that did not answer.
#[cold]
fn no_answer() -> Error {
    let what = "the store did not answer at once, though it says that it does";
    StoreError::ambiguous(what).into()
}

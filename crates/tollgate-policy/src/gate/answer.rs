//! What a gate answers.

use core::any::Any;
use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use tollgate::{Decision, Error, Limit, Receipt, Report};

use super::Live;
use super::outcome::{Authority, Outcome, Revision};
use crate::field::{Field, Fields};
use crate::model::Policy;
use crate::policies::Policies;
use crate::resolve::{Part, Parts, Plan, Refused};

/// What there is to ask, and what is said when there is nothing.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Without subjects when there is nothing to ask.
    pub(crate) plan: Plan,
    /// What is said then; none when no policy applies. Apart, since for most it is not there.
    pub(crate) early: Option<Box<Said<'static>>>,
}

impl Asked {
    /// What is to be asked for these policies; or what is answered without asking.
    #[inline]
    pub(super) fn prepare(&mut self, live: &Live, places: &[usize], fields: &dyn Fields) {
        let Some(first) = places.first() else { return };
        match live.policies.plan(places, fields, live.usual, &mut self.plan) {
            Ok(()) if self.plan.parts.is_empty() => {
                let (outcome, policy) = (Outcome::Unlimited, Some(*first));
                self.early = Some(Box::new(Said { outcome, policy, ..Said::default() }));
            }
            Ok(()) => {}
            Err(refused) => self.refuse(refused),
        }
    }

    #[cold]
    pub(super) fn refuse(&mut self, refused: Refused) {
        self.plan.subjects.clear();
        self.plan.parts.clear();
        let mut authority = Authority::Policy;
        let (outcome, policy, cause) = match refused {
            Refused::Banned { policy } => (Outcome::Banned, policy, None),
            Refused::Cost { policy } => (Outcome::Never, policy, None),
            Refused::Missing { policy, field } => {
                (Outcome::Missing, policy, Some(Cause::Missing(field)))
            }
            // Whatever the failure rules say: nothing failed, and a caller who makes more policies
            // apply must not get around all of them.
            Refused::Parts { policy } => {
                let error = Error::Ask(format!(
                    "the policies that apply count more than {} subjects, which no check has: let \
                     fewer apply together",
                    tollgate::MAX_PARTS
                ));
                authority = Authority::FailureRule;
                (Outcome::FailedClosed, policy, Some(Cause::Error(error)))
            }
        };
        let policy = Some(policy);
        let said = Said { outcome, authority, policy, decision: None, cause };
        self.early = Some(Box::new(said));
    }
}

/// What the store said, or the policies in its place.
#[derive(Debug)]
pub(crate) struct Said<'l> {
    pub(crate) outcome: Outcome,
    pub(crate) authority: Authority,
    /// The policy that decided; none where none applies.
    pub(crate) policy: Option<usize>,
    pub(crate) decision: Option<Decision<'l>>,
    pub(crate) cause: Option<Cause>,
}

impl Said<'static> {
    /// What is said where no policy applies.
    pub(crate) const NOTHING: Self = Said {
        outcome: Outcome::NoPolicy,
        authority: Authority::Policy,
        policy: None,
        decision: None,
        cause: None,
    };
}

impl Default for Said<'_> {
    fn default() -> Self {
        Said::NOTHING
    }
}

impl Said<'_> {
    /// The same, no longer borrowing what it was asked with.
    pub(crate) fn into_owned(self) -> Said<'static> {
        let Self { outcome, authority, policy, decision, cause } = self;
        let decision = decision.map(Decision::into_owned);
        Said { outcome, authority, policy, decision, cause }
    }
}

/// What kept a store from deciding.
#[derive(Debug)]
pub(crate) enum Cause {
    Missing(Field),
    Error(Error),
}

/// What a gate answers: whether the request may go on, who says so, and why.
///
/// It holds the policies that it was given under, and so stays right when they are replaced.
#[derive(Debug)]
#[must_use = "an answer that nobody looks at limits nothing"]
pub struct Answer(pub(crate) Box<Answered>);

/// What an answer holds. It is boxed: an answer is handed on from future to future, and moving
/// all of this each time takes longer than to allocate it.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) live: Arc<Live>,
    pub(crate) parts: Parts,
    pub(crate) said: Said<'static>,
    /// Those in shadow, asked when the others have admitted.
    pub(crate) shadows: Vec<Shadowed>,
}

/// What a policy in shadow would have said.
#[derive(Debug)]
pub(crate) struct Shadowed {
    pub(crate) policy: usize,
    pub(crate) outcome: Outcome,
    pub(crate) decision: Option<Decision<'static>>,
}

/// An [`Answer`] that is looked at, in the hands of a gate ([`Gate::judge`](super::Gate::judge)) or
/// on its own ([`Answer::view`]).
#[derive(Clone, Copy, Debug)]
pub struct AnswerView<'a> {
    pub(crate) live: &'a Live,
    pub(crate) parts: &'a [Part],
    pub(crate) outcome: Outcome,
    pub(crate) authority: Authority,
    pub(crate) policy: Option<usize>,
    pub(crate) decision: Option<&'a Decision<'a>>,
    pub(crate) cause: Option<&'a Cause>,
    pub(crate) shadows: &'a [Shadowed],
}

impl<'a> AnswerView<'a> {
    #[inline]
    pub(crate) fn of(
        live: &'a Live,
        parts: &'a [Part],
        said: &'a Said<'a>,
        shadows: &'a [Shadowed],
    ) -> Self {
        let Said { outcome, authority, policy, decision, cause } = said;
        let (outcome, authority, policy) = (*outcome, *authority, *policy);
        let (decision, cause) = (decision.as_ref(), cause.as_ref());
        Self { live, parts, outcome, authority, policy, decision, cause, shadows }
    }

    /// True when the request may go on.
    #[must_use]
    pub fn is_allowed(self) -> bool {
        self.outcome.admits()
    }

    /// What became of it.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        self.outcome
    }

    /// Who says so.
    #[must_use]
    pub fn authority(self) -> Authority {
        self.authority
    }

    /// The policies that it was given under.
    #[must_use]
    pub fn revision(self) -> &'a Revision {
        &self.live.revision
    }

    /// The policy that decided: on a denial the one that denied, else the one whose limit binds;
    /// none where none applies.
    #[must_use]
    pub fn policy(self) -> Option<&'a Policy> {
        self.live.policies.policy(self.policy?)
    }

    /// The limit that binds: on a denial the one with the longest wait, else the one with the least
    /// left; none where no limit was asked.
    #[must_use]
    pub fn limit(self) -> Option<&'a Limit> {
        Some(self.decision()?.binding().limit())
    }

    /// What the store decided over all limits that are enforced; none where it was not asked, or
    /// could not answer.
    #[must_use]
    pub fn decision(self) -> Option<&'a Decision<'a>> {
        self.decision
    }

    /// All of those policies.
    #[must_use]
    pub fn policies(self) -> &'a Policies {
        &self.live.policies
    }

    /// The value that a front derives from the policies of this revision: one of each type, made
    /// once, and dropped with them. Threads that ask while it is being made wait.
    ///
    /// ```
    /// use tollgate::MemoryStore;
    /// use tollgate_policy::{Format, Gate, Policies};
    ///
    /// let text = "version = 1\n[[policies]]\nname = \"api\"\non_failure = \"deny\"\n\
    ///             limits = [{ subject = \"ip\", limit = \"1/h\" }]";
    /// let gate = Gate::new(Policies::parse(text, Format::Toml)?, MemoryStore::new())?;
    /// # futures_executor::block_on(async {
    /// let answer = gate.check(&[("ip", "10.0.0.1")]).await;
    /// let count = |policies: &Policies| policies.policies().len();
    /// assert_eq!(answer.view().extension(count), &1);
    /// assert_eq!(answer.view().extension(|_| 7_usize), &1, "it was made before");
    /// assert_eq!(answer.view().extension(|_| "text"), &"text", "each type has a value");
    /// assert_eq!(answer.view().extension(count), &1);
    /// gate.replace(Policies::parse(&format!("{text}\n"), Format::Toml)?);
    /// let answer = gate.check(&[("ip", "10.0.0.1")]).await;
    /// assert_eq!(answer.view().extension(|_| 7_usize), &7, "other policies");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn extension<T: Any + Send + Sync>(self, make: impl Fn(&Policies) -> T) -> &'a T {
        self.live.extension(make)
    }

    /// Where the limits of each subject of the decision lie among the policies, in the order of
    /// the decision; nothing without a decision.
    #[must_use]
    pub fn parts(self) -> &'a [Part] {
        self.decision.map_or(&[], |_| self.parts)
    }

    /// Every limit's part in the decision, with its policy.
    pub fn reports(self) -> impl Iterator<Item = (&'a Policy, Report<'a>)> {
        let policies = &self.live.policies;
        reports(self.decision(), self.parts)
            .filter_map(|(part, report)| Some((policies.policy(part.policy)?, report)))
    }

    /// How long to wait until the same request is admitted, if nothing else happens; none when it
    /// was admitted, never will be, or nobody knows.
    #[must_use]
    pub fn retry_after(self) -> Option<Duration> {
        match self.outcome {
            Outcome::Denied => self.decision()?.retry_after(),
            _ => None,
        }
    }

    /// What is missed: a dimension, or the field of a cost.
    #[must_use]
    pub fn missing(self) -> Option<&'a Field> {
        match self.cause {
            Some(Cause::Missing(field)) => Some(field),
            _ => None,
        }
    }

    /// Why the store could not answer, when the failure rule did.
    #[must_use]
    pub fn error(self) -> Option<&'a Error> {
        match self.cause {
            Some(Cause::Error(error)) => Some(error),
            _ => None,
        }
    }

    /// What the policies in shadow would have said.
    pub fn shadows(self) -> impl Iterator<Item = Shadow<'a>> {
        let live = self.live;
        self.shadows.iter().map(move |shadowed| Shadow { live, shadowed })
    }
}

/// What it says is said at [`AnswerView`].
impl Answer {
    /// The answer as a gate shows it that keeps none.
    #[must_use]
    #[inline]
    pub fn view(&self) -> AnswerView<'_> {
        let Answered { live, parts, said, shadows } = &*self.0;
        AnswerView::of(live, parts, said, shadows)
    }

    /// True when the request may go on.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.view().is_allowed()
    }

    /// What became of it.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.view().outcome()
    }

    /// Who says so.
    #[must_use]
    pub fn authority(&self) -> Authority {
        self.view().authority()
    }

    /// The policies that it was given under.
    #[must_use]
    pub fn revision(&self) -> &Revision {
        self.view().revision()
    }

    /// The policy that decided: [`AnswerView::policy`].
    #[must_use]
    pub fn policy(&self) -> Option<&Policy> {
        self.view().policy()
    }

    /// The limit that binds: [`AnswerView::limit`].
    #[must_use]
    pub fn limit(&self) -> Option<&Limit> {
        self.view().limit()
    }

    /// What the store decided: [`AnswerView::decision`].
    #[must_use]
    pub fn decision(&self) -> Option<&Decision<'static>> {
        self.0.said.decision.as_ref()
    }

    /// All of the policies that it was given under.
    #[must_use]
    pub fn policies(&self) -> &Policies {
        self.view().policies()
    }

    /// Where the limits of each subject lie: [`AnswerView::parts`].
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        self.view().parts()
    }

    /// Every limit's part in the decision, with its policy.
    pub fn reports(&self) -> impl Iterator<Item = (&Policy, Report<'_>)> {
        self.view().reports()
    }

    /// How long to wait: [`AnswerView::retry_after`].
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.view().retry_after()
    }

    /// What is missed: a dimension, or the field of a cost.
    #[must_use]
    pub fn missing(&self) -> Option<&Field> {
        self.view().missing()
    }

    /// Why the store could not answer, when the failure rule did.
    #[must_use]
    pub fn error(&self) -> Option<&Error> {
        self.view().error()
    }

    /// What was charged in shadow.
    pub(crate) fn shadow_receipts(&self) -> impl Iterator<Item = Receipt> {
        self.0.shadows.iter().filter_map(|shadowed| shadowed.decision.as_ref()?.receipt())
    }

    /// What the policies in shadow would have said.
    pub fn shadows(&self) -> impl Iterator<Item = Shadow<'_>> {
        self.view().shadows()
    }
}

/// Every limit's part in a decision over `parts`, with the part that it belongs to.
pub(crate) fn reports<'a>(
    decision: Option<&'a Decision<'_>>,
    parts: &'a [Part],
) -> impl Iterator<Item = (&'a Part, Report<'a>)> {
    let all = decision.into_iter().flat_map(Decision::reports);
    all.filter_map(|report| Some((parts.get(report.part())?, report)))
}

/// What a policy in shadow would have said.
#[derive(Clone, Copy, Debug)]
pub struct Shadow<'a> {
    live: &'a Live,
    shadowed: &'a Shadowed,
}

impl<'a> Shadow<'a> {
    /// The policy.
    #[must_use]
    pub fn policy(&self) -> Option<&'a Policy> {
        self.live.policies.policy(self.shadowed.policy)
    }

    /// What would have become of the request.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.shadowed.outcome
    }

    /// What the store decided.
    #[must_use]
    pub fn decision(&self) -> Option<&'a Decision<'static>> {
        self.shadowed.decision.as_ref()
    }
}

impl fmt::Display for Answer {
    /// One line for people: the outcome, the policy, and what the store said, with the subject of
    /// the limit that binds, which is personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.outcome().name())?;
        if let Some(policy) = self.policy() {
            write!(f, " by {}", policy.name)?;
        }
        if let Some(field) = self.missing() {
            write!(f, ": no {field}")?;
        }
        if let Some(error) = self.error() {
            write!(f, ": {error}")?;
        }
        if let Some(decision) = self.decision() {
            write!(f, ": {decision}")?;
        }
        Ok(())
    }
}

//! Inline limits, which the caller passes with the check, and settings of a prepared request.

use core::time::Duration;
use std::time::Instant;

use tollgate::{Ask, Decision, Error, ReceiptPart, Refund, Store};

use super::holding::unnamed;
use super::local::InlineShares;
use super::observe::{Part, RuleName};
use super::{Admission, Answer, Gate};
use crate::model::DEFAULT_DEADLINE;
use crate::on_failure::OnFailure;
use crate::outcome::{Authority, Outcome};
use crate::reserve::Commits;

/// The failure rule and the deadline of inline limits; a policy has its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Terms {
    /// The answer when the store cannot answer.
    pub on_failure: OnFailure,
    /// The longest time to wait for the store.
    pub deadline: Duration,
}

impl Terms {
    /// Terms with this failure rule and the default deadline.
    #[must_use]
    pub fn new(on_failure: OnFailure) -> Self {
        Self { on_failure, deadline: DEFAULT_DEADLINE }
    }

    /// Sets the longest time to wait for the store.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }
}

/// Checks and holds under inline limits, without a policy: [`Gate::inline`]. The counts are those
/// of the same limits on the command line and in programs.
#[derive(Debug)]
pub struct Inline<'g, S> {
    pub(super) gate: &'g Gate<S>,
    rules: &'g [RuleName<'g>],
    is_shadow: bool,
}

impl<S: Store> Gate<S> {
    /// The checks and holds under inline limits, which the caller passes.
    #[must_use]
    #[inline]
    pub const fn inline(&self) -> Inline<'_, S> {
        Inline { gate: self, rules: &[], is_shadow: false }
    }

    fn conclude_limits(
        &self,
        result: Result<Decision<'_>, Error>,
        shares: Option<&InlineShares>,
        terms: Terms,
    ) -> Result<Answer<'static>, Error> {
        // An invalid ask is the caller's error; the failure rule does not apply.
        if let Err(error @ (Error::Ask(_) | Error::Parse(_))) = result {
            return Err(error);
        }
        Ok(self.0.conclude_inline(&self.0.live.load(), terms.on_failure, shares, result))
    }
}

impl<'g, S: Store> Inline<'g, S> {
    /// Names the rules that the parts of the ask are from, in the order of the parts: observers
    /// receive the name of the binding one ([`Event::rule`](super::Event::rule)).
    #[must_use]
    pub fn from_rules(self, rules: &'g [RuleName<'g>]) -> Self {
        Self { rules, ..self }
    }

    /// Whether the answer only shows what the limits would do, and denies nobody: it is then
    /// counted and reported under [`Authority::Shadow`].
    #[must_use]
    pub fn in_shadow(self, is_shadow: bool) -> Self {
        Self { is_shadow, ..self }
    }

    fn part(&self) -> Part {
        if self.is_shadow { Part::Alone } else { Part::Decides }
    }

    /// Counts and reports a question that is denied without a call to the store, since its rule
    /// admits nobody.
    pub fn deny_all(self) {
        let (started, gate) = (self.gate.started(), &self.gate.0);
        let authority = if self.is_shadow { Authority::Shadow } else { Authority::Policy };
        gate.inline.add(Outcome::Banned, authority);
        let what = (Outcome::Banned, authority, self.part());
        let duration = started.map(|started| started.elapsed());
        let rule = self.rules.first().copied();
        gate.report(&gate.live.load(), (None, rule), what, None, (None, duration));
    }

    /// Checks the limits, and charges when all of them admit. A [peek](Ask::peek) changes no count
    /// and no counter.
    ///
    /// # Errors
    /// An invalid ask, such as a cost of 0; a limit of which the share of a local rule cannot be
    /// counted. A store failure is not an error: the failure rule of `terms` decides.
    pub async fn check(self, ask: Ask<'_>, terms: Terms) -> Result<Answer<'static>, Error> {
        let started = self.gate.started();
        let is_peek = ask.is_peek();
        let shares = InlineShares::new(&ask, terms.on_failure, is_peek)?;
        let result = self.gate.0.limiter.check(ask.within(terms.deadline)).await;
        if is_peek {
            return self.gate.conclude_limits(result, shares.as_deref(), terms);
        }
        self.charged_limits(result, shares, terms, started)
    }

    /// Refunds the charge of a receipt, once, or a [part](tollgate::Receipt::part) of it. Units
    /// that this process admitted by its share are given back there, if they still count.
    ///
    /// # Errors
    /// Zero units, or more than were charged; a receipt of another store, or of the share of
    /// another process; or a store failure.
    pub async fn refund(self, receipt: impl Into<ReceiptPart<'_>>) -> Result<Refund, Error> {
        let part = receipt.into();
        match self.gate.0.local_limiter(part.receipt) {
            Some(local) => local.refund(part).await,
            None => self.gate.0.limiter.refund(part).await,
        }
    }

    /// [`Gate::hold`] under inline limits. The ask says what holds the units, and for how long
    /// ([`Ask::holding`]).
    ///
    /// # Errors
    /// As [`Gate::hold`].
    pub async fn hold(self, ask: Ask<'_>, terms: Terms) -> Result<Admission, Error> {
        let started = self.gate.started();
        let mut placing = self.gate.0.limiter.hold(ask.within(terms.deadline));
        let placed = (&mut placing).await;
        let in_doubt = unnamed(placing.in_doubt());
        let (result, hold, ahead) = self.gate.0.placed(placed, Default::default)?;
        let answer = self.charged_limits(result, None, terms, started)?;
        Ok(Admission { answer, hold, commits: Commits::default(), in_doubt, ahead })
    }

    fn charged_limits(
        &self,
        result: Result<Decision<'_>, Error>,
        shares: Option<Box<InlineShares>>,
        terms: Terms,
        started: Option<Instant>,
    ) -> Result<Answer<'static>, Error> {
        let gate = self.gate;
        let answer = gate.conclude_limits(result, shares.as_deref(), terms)?;
        if gate.0.is_repeated(&answer) {
            return Ok(answer);
        }
        let (outcome, authority) = (answer.outcome(), answer.authority());
        let (live, error) = (&answer.live, answer.error());
        let counted = if self.is_shadow { Authority::Shadow } else { authority };
        gate.0.inline.add(outcome, counted);
        // A store that missed a shorter deadline than usual may answer all others in time.
        if error.is_none() || terms.deadline >= live.usual {
            gate.0.loss.see(outcome, authority, error);
        }
        let what = (outcome, counted, self.part());
        let duration = started.map(|started| started.elapsed());
        // A failure has no binding limit: its limits are from one rule, or from any of several.
        let rule = match (self.rules, answer.decision()) {
            ([one], _) => Some(*one),
            ([], _) | (_, None) => None,
            (several, Some(decision)) => several.get(decision.binding().part()).copied(),
        };
        gate.0.report(live, (None, rule), what, answer.decision(), (error, duration));
        Ok(answer)
    }
}

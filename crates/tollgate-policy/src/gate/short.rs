//! The shortest way from a request to an answer.

use tollgate::{Counted, Store};

use super::{AnswerView, Authority, Gate, Outcome, Stamp};
use crate::field::Fields;
use crate::policies::Only;

impl<S: Store> Gate<S> {
    /// [`Gate::look`] and [`Gate::judge`] in one, where every request is asked the same: of one
    /// policy for all of them, with one subject of one field. It is the shortest way, with what to
    /// note on the request ([`Looked::stamp`]).
    ///
    /// None elsewhere, for a gate that is observed, and where the store has not at hand what it
    /// takes, as memory has not for a subject that is new: nothing was asked, and the other way is
    /// to be taken.
    #[inline(always)]
    pub fn judge_at_once<T>(
        &self,
        fields: &impl Fields,
        view: impl FnOnce(AnswerView<'_>) -> T,
    ) -> Option<(Stamp, T)> {
        if self.0.observer.is_some() {
            return None;
        }
        self.0.live.with(|live| {
            let Only { part, field, prefix, limits, cost } = live.policies.only()?;
            let value = fields.field(field)?;
            let subject = match prefix.plain(&value) {
                Some(subject) => subject,
                None => prefix.with(&value).ok()?,
            };
            let counted = Counted::new(&subject, limits);
            let decision = self.0.limiter.check_at_once(counted, *cost).ok()?;
            // Looked at where it lies: the processor stalls on what was written just now.
            decision.as_ref().map(|decision| {
                let (outcome, authority) = (Outcome::of(decision.verdict()), Authority::Store);
                live.count(part.policy, outcome, authority);
                let answer = AnswerView {
                    live,
                    parts: core::slice::from_ref(part),
                    outcome,
                    authority,
                    policy: Some(part.policy),
                    decision: Some(decision),
                    trouble: None,
                    shadows: &[],
                };
                (live.stamp, view(answer))
            })
        })
    }
}

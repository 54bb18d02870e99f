//! A check of a request: it is prepared while its fields can be read, and then asked.

use core::future::Future;
use core::time::Duration;
use std::sync::Arc;

use arc_swap::Guard;
use tollgate::{Patience, Store};

use super::{Answer, Gate, Prepared};
use crate::field::{Field, Fields};
use crate::outcome::Outcome;
use crate::policies::Matched;
use crate::resolve::{Cause, Early, Plan};

impl<S: Store> Gate<S> {
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
        let moment = prepared.live.policies.moment(fields);
        let fields = moment.as_ref().map_or(fields, |moment| moment as &dyn Fields);
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
        self.prepare_by(Some(policy), fields, Prepared::fill)
    }

    /// As [`Gate::prepare`], or as [`Gate::prepare_named`] with a name, and without the rulings of
    /// administrators: it finds the hold of a request that was ruled about later.
    #[must_use]
    pub fn prepare_unruled(&self, policy: Option<&str>, fields: &dyn Fields) -> Option<Prepared> {
        self.prepare_by(policy, fields, Prepared::fill_unruled)
    }

    fn prepare_by(
        &self,
        policy: Option<&str>,
        fields: &dyn Fields,
        fill: impl FnOnce(&mut Prepared, &dyn Fields),
    ) -> Option<Prepared> {
        let mut prepared = self.begin();
        let policies = &prepared.live.policies;
        let place = policy.map(|name| policies.place_of(name).ok_or(())).transpose().ok()?;
        let moment = policies.moment(fields);
        let fields = moment.as_ref().map_or(fields, |moment| moment as &dyn Fields);
        match place {
            Some(place) => prepared.matched = policies.matched_alone(place),
            None => policies.find(fields, &mut prepared.matched),
        }
        fill(&mut prepared, fields);
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

    /// [`Gate::ask`] without async, if the store answers immediately, as memory does. Otherwise
    /// `None`, and the store was not called. The answer borrows: an owned answer takes as long as
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
}

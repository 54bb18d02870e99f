//! Thresholds: a charge that takes a limit from below a part of its capacity to it or above.

use core::time::Duration;

use tollgate::{
    Ask, Charged, ChargedLimit, Error, Hold, Limit, LimitSet, ParseError, Settled, Share, Store,
    Subject, SubjectText, Unit,
};

use super::answer::reports;
use super::crossing::Crossing;
use super::live::Live;
use super::shared::Inner;
use super::{Answer, Gate};
use crate::outcome::Outcome;
use crate::ready::{ReadyDimension, ReadyEntry, Without};

impl<S: Store> Gate<S> {
    /// Whether nobody has reported this crossing yet in this window of the limit, over all
    /// processes on this store. It is marked in the store then: report it now, or nobody does.
    ///
    /// # Errors
    /// A store that could not answer.
    pub async fn is_first(&self, crossing: &Crossing) -> Result<bool, Error> {
        let subject: Subject =
            crossing.subject.parse().map_err(|error: ParseError| Error::Ask(error.to_string()))?;
        let once = crossing.once().map_err(|error| Error::Ask(error.to_string()))?;
        Ok(self.0.limiter.check(Ask::new(&subject).under(&once)).await?.is_allowed())
    }
}

impl<S: Store> Inner<S> {
    /// Reports the thresholds that an admitted request reached.
    #[cold]
    pub(super) fn cross(&self, live: &Live, answer: &Answer<'_>) {
        let Some(decision) = answer.decision().filter(|_| answer.outcome == Outcome::Allowed)
        else {
            return;
        };
        if answer.authority.is_in_place_of_store() {
            return;
        }
        for (part, report) in reports(Some(decision), &answer.parts) {
            let Some(ready) = live.policies.ready(part.policy) else { continue };
            let Some(entry) = ready.entries.get(part.entry) else { continue };
            let state = State {
                limit: report.limit(),
                remaining: report.remaining(),
                charged: Some(decision.amounts().of(report.limit().unit())),
                reset_after: report.reset_after(),
            };
            self.crossed(live, (part.policy, report.subject()), &entry.notify, &state);
        }
    }

    /// Reports the thresholds that a charge without a check reached.
    pub(super) fn cross_by_charge(&self, ask: &Ask<'_>, charged: &[Charged]) {
        let live = self.live.load();
        if !live.policies.notifies() {
            return;
        }
        let part = |(subject, limits): (&SubjectText<'_>, Option<&LimitSet>)| {
            Some((subject.clone().resolve().ok()?, limits?.clone()))
        };
        let counts: Vec<(Subject, LimitSet)> = ask.parts().filter_map(part).collect();
        let counts = counts.iter().map(|(subject, limits)| (subject, limits));
        let charged = ChargedLimit::each(counts, charged);
        self.cross_each(&live, charged, |unit| ask.amounts().of(unit));
    }

    /// The same of a commit: only what it charges beyond its estimate is new.
    pub(super) fn cross_by_commit(&self, hold: &Hold, settled: &Settled) {
        let live = self.live.load();
        if !live.policies.notifies() {
            return;
        }
        let more = |unit: &Unit| {
            let held = hold.cost.amounts().of(unit);
            settled.actual.amounts().of(unit).saturating_sub(held)
        };
        self.cross_each(&live, hold.charged(settled), more);
    }

    fn cross_each<'a>(
        &self,
        live: &Live,
        charged: impl Iterator<Item = ChargedLimit<'a>>,
        more: impl Fn(&Unit) -> u64,
    ) {
        for ChargedLimit { subject, policy, limit, charged, .. } in charged {
            let place = policy.and_then(|name| live.policies.place_of(name));
            let Some((place, ready)) = place.and_then(|at| Some((at, live.policies.ready(at)?)))
            else {
                continue;
            };
            let more = more(limit.unit());
            let state = State {
                limit,
                remaining: charged.remaining,
                charged: (charged.fits || more == 0).then_some(more),
                reset_after: Duration::from_micros(charged.reset_after_us),
            };
            for entry in ready.entries.iter().filter(|entry| entry.is_of(subject)) {
                self.crossed(live, (place, subject.as_str()), &entry.notify, &state);
            }
        }
    }

    fn crossed(
        &self,
        live: &Live,
        (policy, subject): (usize, &str),
        thresholds: &[(String, Share)],
        state: &State<'_>,
    ) {
        let Some(observer) = &self.observer else { return };
        let Some(policy) = live.policies.policy(policy) else { return };
        let capacity = state.limit.capacity();
        let used = capacity.saturating_sub(state.remaining);
        // Beyond the limit nobody knows how much was used before: the mark in the store decides.
        let before = state.charged.map_or(0, |charged| used.saturating_sub(charged));
        let mine = thresholds.iter().filter(|(of, _)| of == state.limit.identity());
        for (_, threshold) in mine {
            let least = threshold.of(capacity).max(1);
            if used >= least && before < least {
                observer.crossed(Crossing {
                    policy: policy.name.clone(),
                    subject: subject.to_owned(),
                    limit: state.limit.clone(),
                    threshold: *threshold,
                    used,
                    reset_after: state.reset_after,
                });
            }
        }
    }
}

/// A limit after a charge.
struct State<'a> {
    limit: &'a Limit,
    remaining: u64,
    /// The units that were charged; `None` beyond the limit.
    charged: Option<u64>,
    reset_after: Duration,
}

impl ReadyEntry {
    /// Whether a subject has the dimensions of this entry, or of their replacements.
    fn is_of(&self, subject: &Subject) -> bool {
        subject.dimensions().all(|(name, _)| self.dimensions.iter().any(|it| it.may_be(name)))
    }
}

impl ReadyDimension {
    fn may_be(&self, name: &str) -> bool {
        match self {
            Self::Constant { prefix, .. } => prefix.dimension() == name,
            Self::Field { prefix, absent, .. } => {
                prefix.dimension() == name
                    || matches!(absent, Without::Instead(other) if other.may_be(name))
            }
        }
    }
}

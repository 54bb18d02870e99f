//! Asks the store about the descriptors of a request, by the meaning of their domain.

use core::time::Duration;

use futures_util::future::join_all;
use tollgate::{Ask, Decision, LimitSet, MAX_PARTS, Subject};
use tollgate_envoy::Meaning;
use tollgate_policy::{Answer, Gate, OnFailure, Terms};
use tollgate_stores::AnyStore;
use tonic::Status;

use super::plan::{How, Planned};
use super::question::Hits;

/// An answer of the store, and the descriptors that it is about, by their places.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) answer: Answer<'static>,
    pub(super) places: Vec<usize>,
}

/// Asks about all descriptors that are counted.
pub(super) struct Decider<'d> {
    pub(super) gate: &'d Gate<AnyStore>,
    pub(super) planned: &'d [Planned<'d>],
    pub(super) deadline: Duration,
    /// Whether an answer that the store does not give admits.
    pub(super) on_failure: OnFailure,
}

impl Decider<'_> {
    /// # Errors
    /// A count that cannot be asked for.
    pub(super) async fn ask(&self, meaning: Meaning) -> Result<Vec<Asked>, Status> {
        match meaning {
            Meaning::Envoy => self.one_by_one(0..self.planned.len(), Meaning::Envoy, true).await,
            Meaning::Tollgate => self.together().await,
        }
    }

    /// Asks for each of these by itself, all at the same time.
    async fn one_by_one(
        &self,
        places: impl Iterator<Item = usize>,
        meaning: Meaning,
        charges: bool,
    ) -> Result<Vec<Asked>, Status> {
        let counts = places.filter_map(|place| {
            let planned = self.planned.get(place)?;
            let How::Count(subject, limits) = &planned.how else { return None };
            let hits = if charges { planned.hits } else { Hits::Look };
            Some(self.one(place, (subject, limits), hits, meaning))
        });
        let mut counts: Vec<_> = counts.collect();
        // A single one needs no list of futures.
        match (counts.pop(), counts.is_empty()) {
            (Some(only), true) => Ok(vec![only.await?]),
            (last, _) => join_all(counts.into_iter().chain(last)).await.into_iter().collect(),
        }
    }

    async fn one(
        &self,
        place: usize,
        (subject, limits): (&Subject, &LimitSet),
        hits: Hits,
        meaning: Meaning,
    ) -> Result<Asked, Status> {
        let ask = || Ask::new(subject).under(limits);
        let answer = match hits {
            Hits::Charge(hits) => {
                let answer = self.charge(ask().cost(hits)).await?;
                match meaning {
                    Meaning::Envoy => self.charge_denied(answer, || ask().cost(hits)).await?,
                    Meaning::Tollgate => answer,
                }
            }
            Hits::Look => self.look(ask()).await?,
            Hits::GiveBack(hits) => {
                self.give_back(ask(), hits).await?;
                self.look(ask()).await?
            }
        };
        Ok(Asked { answer, places: vec![place] })
    }

    fn terms(&self) -> Terms {
        Terms::new(self.on_failure).deadline(self.deadline)
    }

    async fn charge(&self, ask: Ask<'_>) -> Result<Answer<'static>, Status> {
        self.gate.check_limits(ask, self.terms()).await.map_err(unasked)
    }

    /// Charges what was denied, also beyond the limit: in Envoy's meaning denied requests count
    /// too. So do those that are asked for after their stream, whatever remains.
    ///
    /// The check goes first, since it is counted, reported and answered for like every other. An
    /// admitted one needs no second call.
    async fn charge_denied<'a>(
        &self,
        answer: Answer<'static>,
        ask: impl Fn() -> Ask<'a>,
    ) -> Result<Answer<'static>, Status> {
        let is_denied = answer.decision().is_some_and(|decision| !decision.is_allowed());
        if !is_denied {
            return Ok(answer);
        }
        let charge = self.gate.charge_limits(ask());
        // It is denied already. What a store does not charge in time is not charged.
        if !matches!(tokio::time::timeout(self.deadline, charge).await, Ok(Ok(_))) {
            return Ok(answer);
        }
        // What remains, and the waits, are those after the charge. A window that has ended
        // meanwhile would admit.
        let after = self.look(ask()).await?;
        let is_denied = after.decision().is_some_and(|decision| !decision.is_allowed());
        Ok(if is_denied { after } else { answer })
    }

    async fn look(&self, ask: Ask<'_>) -> Result<Answer<'static>, Status> {
        self.gate.peek_limits(ask, self.terms()).await.map_err(unasked)
    }

    /// Gives hits back, at most those that count. A store that is late is not waited for.
    async fn give_back(&self, ask: Ask<'_>, hits: u64) -> Result<(), Status> {
        let late = || Status::unavailable("the store cannot take hits back in time");
        let delta = i64::try_from(hits).map_err(|_| late())?;
        let given = tokio::time::timeout(self.deadline, self.gate.adjust(ask, delta)).await;
        match given.map_err(|_| late())? {
            Ok(_) => Ok(()),
            Err(error) => Err(Status::unavailable(format!("the store: {error}"))),
        }
    }

    /// Charges all that can deny, or none of them. What cannot deny is charged after them.
    async fn together(&self) -> Result<Vec<Asked>, Status> {
        let is = |place: &usize, aside: bool| {
            let planned = self.planned.get(*place);
            planned.is_some_and(|planned| {
                let gives_back = matches!(planned.hits, Hits::GiveBack(_));
                planned.is_aside() == aside && !gives_back
            })
        };
        let all = 0..self.planned.len();
        let given = all.clone().filter(|place| !is(place, true) && !is(place, false));
        let mut asked = self.one_by_one(given, Meaning::Tollgate, true).await?;
        let bans = |planned: &Planned<'_>| matches!(planned.how, How::Ban) && !planned.is_aside();
        let mut admits = !self.planned.iter().any(bans);
        let groups = self.groups(all.clone().filter(|place| is(place, false)));
        let mut answers = Vec::with_capacity(groups.len());
        for (hits, places) in &groups {
            let charges = admits && *hits != Hits::Look;
            answers.push(self.group(places, *hits, charges).await?);
            if admits && answers.last().is_some_and(|answer| !answer.is_allowed()) {
                admits = false;
                self.undo(&groups, &mut answers).await?;
            }
        }
        let places = groups.into_iter().map(|(_, places)| places);
        let together = answers.into_iter().zip(places);
        asked.extend(together.map(|(answer, places)| Asked { answer, places }));
        let aside = all.filter(|place| is(place, true));
        asked.extend(self.one_by_one(aside, Meaning::Tollgate, admits).await?);
        Ok(asked)
    }

    /// Gives back what these groups were charged, and looks again.
    async fn undo(
        &self,
        groups: &[(Hits, Vec<usize>)],
        answers: &mut [Answer<'static>],
    ) -> Result<(), Status> {
        for ((hits, places), answer) in groups.iter().zip(answers) {
            if let Some(receipt) = answer.decision().and_then(Decision::receipt) {
                // What a store cannot take back stays charged: never too much is admitted.
                let _ = self.gate.refund_receipt(&receipt).await;
                *answer = self.group(places, *hits, false).await?;
            }
        }
        Ok(())
    }

    /// The counts among these in groups of one cost, no group with one count twice. What only
    /// looks goes first, since it needs no giving back.
    fn groups(&self, places: impl Iterator<Item = usize>) -> Vec<(Hits, Vec<usize>)> {
        let mut groups: Vec<(Hits, Vec<usize>)> = Vec::new();
        let count = |place: usize| match self.planned.get(place).map(|planned| &planned.how) {
            Some(How::Count(subject, limits)) => Some((subject, limits.identity())),
            _ => None,
        };
        for place in places {
            let Some(own) = count(place) else { continue };
            let Some(hits) = self.planned.get(place).map(|planned| planned.hits) else { continue };
            let fits = |(other, places): &&mut (Hits, Vec<usize>)| {
                let is_new = !places.iter().any(|place| count(*place) == Some(own));
                *other == hits && places.len() < MAX_PARTS && is_new
            };
            match groups.iter_mut().find(fits) {
                Some((_, places)) => places.push(place),
                None => groups.push((hits, vec![place])),
            }
        }
        groups.sort_by_key(|(hits, _)| *hits != Hits::Look);
        groups
    }

    async fn group(
        &self,
        places: &[usize],
        hits: Hits,
        charges: bool,
    ) -> Result<Answer<'static>, Status> {
        let counts = places.iter().filter_map(|place| match &self.planned.get(*place)?.how {
            How::Count(subject, limits) => Some((subject, limits)),
            _ => None,
        });
        let ask = Ask::from(counts.collect::<Vec<_>>());
        let ask = match hits {
            Hits::Charge(hits) => ask.cost(hits),
            _ => ask,
        };
        if charges { self.charge(ask).await } else { self.look(ask).await }
    }
}

/// A count that cannot be asked for. A store that cannot answer is no such error.
fn unasked(error: tollgate::Error) -> Status {
    Status::invalid_argument(error.to_string())
}

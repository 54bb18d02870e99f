//! Asks the store about the descriptors of a request, by the meaning of their domain.

use core::time::Duration;

use futures_util::future::join_all;
use tollgate::{Ask, Decision, LimitSet, MAX_PARTS, RequestId, Subject};
use tollgate_envoy::Meaning;
use tollgate_policy::{Answer, Authority, Gate, OnFailure, Terms};
use tollgate_stores::AnyStore;
use tonic::Status;

use super::plan::{How, Planned};
use super::question::Hits;
use super::settle::id_at;

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
    /// The id of the request, if it has one.
    pub(super) id: Option<RequestId<'d>>,
}

impl Decider<'_> {
    /// # Errors
    /// A count that cannot be asked for.
    pub(super) async fn ask(&self, meaning: Meaning) -> Result<Vec<Asked>, Status> {
        match meaning {
            Meaning::Envoy => self.one_by_one(0..self.planned.len(), Meaning::Envoy, true).await,
            Meaning::Tollgate => Box::pin(self.together()).await,
        }
    }

    /// Asks for each of these by itself, all at the same time.
    async fn one_by_one(
        &self,
        places: impl Iterator<Item = usize>,
        meaning: Meaning,
        charges: bool,
    ) -> Result<Vec<Asked>, Status> {
        let mut counts =
            places.filter_map(|place| Some((place, self.planned.get(place)?.count()?)));
        let Some(first) = counts.next() else { return Ok(Vec::new()) };
        let one = |count| self.one(count, meaning, charges);
        // Nearly always it is the only one, and needs no list of futures.
        match counts.next() {
            None => Ok(vec![one(first).await?]),
            Some(second) => {
                let all = [first, second].into_iter().chain(counts);
                join_all(all.map(one)).await.into_iter().collect()
            }
        }
    }

    /// Asks for one count. The rare case is boxed, so that the future of the usual case stays
    /// small.
    async fn one(
        &self,
        (place, (subject, limits, hits)): (usize, (&Subject, &LimitSet, Hits)),
        meaning: Meaning,
        charges: bool,
    ) -> Result<Asked, Status> {
        let ask = || Ask::new(subject).under(limits);
        let answer = match hits {
            Hits::Charge(hits) if charges => {
                let answer = self.charge(place, ask().cost(hits)).await?;
                let is_denied = answer.decision().is_some_and(|decision| !decision.is_allowed());
                match meaning {
                    // While the store is away there is nothing to charge more to.
                    Meaning::Envoy if is_denied && answer.authority() == Authority::Store => {
                        Box::pin(self.charge_denied(answer, || ask().cost(hits))).await?
                    }
                    Meaning::Envoy | Meaning::Tollgate => answer,
                }
            }
            Hits::GiveBack(hits) if charges => {
                Box::pin(self.give_back(ask(), hits)).await?;
                Box::pin(self.look(ask())).await?
            }
            Hits::Charge(_) | Hits::GiveBack(_) | Hits::Look => Box::pin(self.look(ask())).await?,
        };
        Ok(Asked { answer, places: vec![place] })
    }

    fn terms(&self) -> Terms {
        Terms::new(self.on_failure).deadline(self.deadline)
    }

    /// Charges what the descriptor at this place asks, and others with it; once, if the request
    /// has an id.
    async fn charge(&self, place: usize, ask: Ask<'_>) -> Result<Answer<'static>, Status> {
        match self.id {
            None => self.gate.inline().check(ask, self.terms()).await.map_err(unasked),
            Some(id) => Box::pin(self.charge_once(id, place, ask)).await,
        }
    }

    async fn charge_once(
        &self,
        id: RequestId<'_>,
        place: usize,
        ask: Ask<'_>,
    ) -> Result<Answer<'static>, Status> {
        let text = id_at(id.text(), place);
        let ask = ask.request(id.with_text(&text));
        self.gate.inline().check(ask, self.terms()).await.map_err(unasked)
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
        let charge = self.gate.admin().charge(ask());
        // It is denied already. Units that a store does not charge in time are not charged.
        if !matches!(tokio::time::timeout(self.deadline, charge).await, Ok(Ok(_))) {
            return Ok(answer);
        }
        // The remaining units and the waits are those after the charge. A window that has ended
        // meanwhile would admit.
        let after = self.look(ask()).await?;
        let is_denied = after.decision().is_some_and(|decision| !decision.is_allowed());
        Ok(if is_denied { after } else { answer })
    }

    async fn look(&self, ask: Ask<'_>) -> Result<Answer<'static>, Status> {
        self.gate.inline().check(ask.peek(), self.terms()).await.map_err(unasked)
    }

    /// Gives hits back, at most those that count. It does not wait for a late store.
    async fn give_back(&self, ask: Ask<'_>, hits: u64) -> Result<(), Status> {
        let late = || Status::unavailable("the store cannot take hits back in time");
        let delta = i64::try_from(hits).map_err(|_| late())?;
        let given = tokio::time::timeout(self.deadline, self.gate.admin().adjust(ask, delta)).await;
        match given.map_err(|_| late())? {
            Ok(_) => Ok(()),
            Err(error) => Err(Status::unavailable(format!("the store: {error}"))),
        }
    }

    /// Charges all that can deny, or none of them. Counts that cannot deny are charged after them.
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
        // Units that are given back for another group must not be answered again as if they were
        // charged.
        let is_one = groups.iter().filter(|(hits, _)| *hits != Hits::Look).count() <= 1;
        let charging = Self { id: self.id.filter(|_| is_one), ..*self };
        for (hits, places) in &groups {
            let charges = admits && *hits != Hits::Look;
            answers.push(charging.group(places, *hits, charges).await?);
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
                // Units that a store cannot take back stay charged: never too much is admitted.
                let _ = self.gate.inline().refund(&receipt).await;
                *answer = self.group(places, *hits, false).await?;
            }
        }
        Ok(())
    }

    /// The counts among these in groups of one cost, no group with one count twice. A part that
    /// only reads goes first, since it needs no refund.
    fn groups(&self, places: impl Iterator<Item = usize>) -> Vec<(Hits, Vec<usize>)> {
        let mut groups: Vec<(Hits, Vec<usize>)> = Vec::new();
        let count = |place: usize| {
            let (subject, limits, hits) = self.planned.get(place)?.count()?;
            Some((subject, limits.identity(), hits))
        };
        for place in places {
            let Some(own @ (_, _, hits)) = count(place) else { continue };
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
        let counts = places.iter().filter_map(|place| {
            let (subject, limits, _) = self.planned.get(*place)?.count()?;
            Some((subject, limits))
        });
        let ask = Ask::from(counts.collect::<Vec<_>>());
        let ask = match hits {
            Hits::Charge(hits) => ask.cost(hits),
            _ => ask,
        };
        match places.first() {
            Some(place) if charges => self.charge(*place, ask).await,
            _ => self.look(ask).await,
        }
    }
}

/// A count that cannot be asked for. A failure of the store is a different error.
fn unasked(error: tollgate::Error) -> Status {
    Status::invalid_argument(error.to_string())
}

//! Asks the store about the descriptors of a request, by the meaning of their domain.

use core::time::Duration;

use futures_util::future::join_all;
use tollgate::{Ask, Decision, LimitSet, MAX_PARTS, RequestId, Subject};
use tollgate_envoy::Meaning;
use tollgate_policy::{Answer, Authority, Gate, Inline, OnFailure, RuleName, Terms};
use tollgate_stores::AnyStore;
use tonic::Status;

use super::plan::Planned;
use super::question::Hits;
use super::settle::id_at;

/// An answer of the store, and the descriptors that it is about, by their places.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) answer: Answer<'static>,
    pub(super) places: Vec<usize>,
}

/// The questions of one request to the store.
pub(super) struct Decider<'d> {
    pub(super) gate: &'d Gate<AnyStore>,
    pub(super) planned: &'d [Planned<'d>],
    pub(super) deadline: Duration,
    /// The rule that answers when the store cannot.
    pub(super) on_failure: OnFailure,
    /// The id of the request, if it has one.
    pub(super) id: Option<RequestId<'d>>,
}

impl Decider<'_> {
    /// Asks about every counted descriptor. One answer may be about several of them.
    ///
    /// # Errors
    /// An invalid question: a cost that is too high, or one count twice.
    pub(super) async fn ask(&self, meaning: Meaning) -> Result<Vec<Asked>, Status> {
        self.planned.iter().filter(|planned| planned.is_banned()).for_each(|planned| {
            let rules = core::slice::from_ref(&planned.name);
            self.gate.inline().from_rules(rules).in_shadow(planned.is_shadow()).deny_all();
        });
        match meaning {
            Meaning::Envoy => self.each_alone(0..self.planned.len(), Meaning::Envoy, true).await,
            Meaning::Tollgate => Box::pin(self.all_or_none()).await,
        }
    }

    /// Asks a separate question about each of these, concurrently.
    async fn each_alone(
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
                let answer = self.charge(&[place], ask().cost(hits)).await?;
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
            Hits::Look => Box::pin(self.look(ask().peek_at_nothing())).await?,
            Hits::Charge(_) | Hits::GiveBack(_) | Hits::Peek => Box::pin(self.look(ask())).await?,
        };
        Ok(Asked { answer, places: vec![place] })
    }

    fn terms(&self) -> Terms {
        Terms::new(self.on_failure).deadline(self.deadline)
    }

    /// Charges the ask of these descriptors, at most once if the request has an id. The place of
    /// the first one distinguishes the ids of one request.
    async fn charge(&self, places: &[usize], ask: Ask<'_>) -> Result<Answer<'static>, Status> {
        let mut all = places.iter().filter_map(|place| self.planned.get(*place));
        let several: Vec<RuleName<'_>>;
        let (rules, is_shadow) = match places {
            // Nearly always it is one, and needs no list. Those in shadow mode are asked alone.
            [_] => all.next().map_or((&[][..], false), |one| {
                (core::slice::from_ref(&one.name), one.is_shadow())
            }),
            _ => {
                several = all.map(|planned| planned.name).collect();
                (&several[..], false)
            }
        };
        let inline = self.gate.inline().from_rules(rules).in_shadow(is_shadow);
        match self.id.zip(places.first()) {
            None => inline.check(ask, self.terms()).await.map_err(unasked),
            Some((id, place)) => Box::pin(self.charge_once(inline, (id, *place), ask)).await,
        }
    }

    async fn charge_once(
        &self,
        inline: Inline<'_, AnyStore>,
        (id, place): (RequestId<'_>, usize),
        ask: Ask<'_>,
    ) -> Result<Answer<'static>, Status> {
        let text = id_at(id.text(), place);
        let ask = ask.request(id.with_text(&text));
        inline.check(ask, self.terms()).await.map_err(unasked)
    }

    /// Charges the hits of a denied check, beyond the limit: Envoy counts denied requests too. So
    /// must hits that are sent after the stream (`apply_on_stream_done`).
    ///
    /// The check goes first, so that it is counted and reported like every other. An admitted one
    /// needs no second call.
    async fn charge_denied<'a>(
        &self,
        answer: Answer<'static>,
        ask: impl Fn() -> Ask<'a>,
    ) -> Result<Answer<'static>, Status> {
        let charge = self.gate.admin().charge(ask());
        // If the store does not charge in time, the denial stands, and the hits may not count.
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

    /// Gives hits back, at most those that count. Waits for the store until the deadline.
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
    async fn all_or_none(&self) -> Result<Vec<Asked>, Status> {
        let is_charged = |place: &usize, is_aside: bool| {
            let planned = self.planned.get(*place);
            planned.is_some_and(|planned| {
                let gives_back = matches!(planned.hits, Hits::GiveBack(_));
                planned.is_aside() == is_aside && !gives_back
            })
        };
        let all = 0..self.planned.len();
        let given_back =
            all.clone().filter(|place| !is_charged(place, true) && !is_charged(place, false));
        let mut asked = self.each_alone(given_back, Meaning::Tollgate, true).await?;
        let is_ban = |planned: &Planned<'_>| planned.is_banned() && !planned.is_aside();
        let mut admits = !self.planned.iter().any(is_ban);
        let groups = self.groups(all.clone().filter(|place| is_charged(place, false)));
        let mut answers = Vec::with_capacity(groups.len());
        // With several groups that charge, the id is dropped: a repeat would get the first answer
        // of a group that was refunded since.
        let is_charge = |hits: &Hits| matches!(hits, Hits::Charge(_));
        let is_one = groups.iter().filter(|(hits, _)| is_charge(hits)).count() <= 1;
        let charging = Self { id: self.id.filter(|_| is_one), ..*self };
        for (hits, places) in &groups {
            let charges = admits && is_charge(hits);
            answers.push(charging.group(places, *hits, charges).await?);
            if admits && answers.last().is_some_and(|answer| !answer.is_allowed()) {
                admits = false;
                self.undo(&groups, &mut answers).await?;
            }
        }
        let places = groups.into_iter().map(|(_, places)| places);
        let together = answers.into_iter().zip(places);
        asked.extend(together.map(|(answer, places)| Asked { answer, places }));
        let aside = all.filter(|place| is_charged(place, true));
        asked.extend(self.each_alone(aside, Meaning::Tollgate, admits).await?);
        Ok(asked)
    }

    /// Refunds the charges of these groups, and replaces their answers by those of a peek.
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

    /// The counts among these, grouped by hits: at most [`MAX_PARTS`] in a group, and no count
    /// twice in one. The group that only reads goes first, since it needs no refund.
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
        groups.sort_by_key(|(hits, _)| matches!(hits, Hits::Charge(_)));
        groups
    }

    /// Charges a group in one question, or looks at it.
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
            Hits::Look => ask.peek_at_nothing(),
            Hits::Peek | Hits::GiveBack(_) => ask,
        };
        if charges { self.charge(places, ask).await } else { self.look(ask).await }
    }
}

/// The status of an invalid question. A failure of the store is an answer.
fn unasked(error: tollgate::Error) -> Status {
    Status::invalid_argument(error.to_string())
}

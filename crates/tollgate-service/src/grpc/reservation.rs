//! Holds for Kuadrant's service: the counts of a request's descriptors, and the holds on them.

use core::time::Duration;

use tollgate::{Ask, Error, Hold, HoldKind, HoldName, LimitSet, MAX_COST, Subject};
use tollgate_envoy::OnFailure;
use tollgate_envoy::proto::service::RateLimitRequest;
use tollgate_envoy::proto::service::rate_limit_response::Code;
use tollgate_policy::{Answer, Prepared, RuleName, Terms};
use tonic::Status;

use super::plan::{How, Planned};
use super::policies;
use super::question::Hits;
use crate::listen::Undelivered;
use crate::service::Service;

/// The longest hold on units, and that of a request without a time, as with limitador.
const MAX_TTL: Duration = Duration::from_secs(60);

/// The shortest hold, as everywhere.
const MIN_TTL: Duration = Duration::from_millis(1);

/// The separator between the holds of the descriptors. No hold has it.
const BETWEEN: char = '.';

/// The counts of a request, and how it is answered.
pub(super) struct Counting<'c> {
    pub(super) service: &'c Service,
    /// The time of each call to the store.
    pub(super) deadline: Duration,
    /// The caller's id for the hold.
    pub(super) name: Option<HoldName>,
}

/// The outcome of a request for a hold.
#[derive(Debug)]
pub(super) struct Reserved {
    pub(super) code: Code,
    /// Empty where nothing is held.
    pub(super) id: String,
    /// Gives the holds back if the answer is not delivered.
    pub(super) undelivered: Option<Undelivered>,
}

impl Reserved {
    /// Nothing is held.
    pub(super) fn without(code: Code) -> Self {
        Self { code, id: String::new(), undelivered: None }
    }

    fn nothing(is_allowed: bool) -> Self {
        Self::without(code(is_allowed))
    }
}

fn code(is_allowed: bool) -> Code {
    if is_allowed { Code::Ok } else { Code::OverLimit }
}

type CountedBy<'p> = (&'p Subject, &'p LimitSet);

impl Counting<'_> {
    /// Holds what these descriptors are counted under: all of it, or nothing. Counts in shadow or
    /// quota mode are not held, since they deny nobody by themselves.
    ///
    /// # Errors
    /// Too many counts; or the store cannot answer, and that is an error by the rules.
    pub(super) async fn reserve(
        &self,
        planned: &[Planned<'_>],
        on_failure: OnFailure,
        (amount, ttl): (u64, Option<Duration>),
    ) -> Result<Reserved, Status> {
        let bans = |planned: &&Planned<'_>| matches!(planned.how, How::Ban) && !planned.is_aside();
        let (parts, rules) = named_parts(planned, false);
        if let Some(planned) = planned.iter().find(bans) {
            let rules = core::slice::from_ref(&planned.name);
            self.service.gate.inline().from_rules(rules).deny_all();
            return Ok(Reserved::nothing(false));
        }
        if amount > MAX_COST && !parts.is_empty() {
            return Ok(Reserved::nothing(false));
        }
        if parts.is_empty() {
            return Ok(Reserved::nothing(true));
        }
        let ttl = time_of(ttl, &parts);
        let rule = match on_failure {
            OnFailure::Allow => tollgate_policy::OnFailure::Allow,
            // A local share holds nothing.
            OnFailure::Deny | OnFailure::Error | OnFailure::Local(_) => {
                tollgate_policy::OnFailure::Deny
            }
        };
        let (ask, terms) = (Ask::from(parts), Terms::new(rule).deadline(self.deadline));
        let gate = &self.service.gate;
        let (answer, hold) = if amount == 0 {
            (gate.inline().check(ask.peek(), terms).await.map_err(status)?, None)
        } else {
            let ask = ask.cost(amount);
            let ask = match self.name {
                Some(name) => ask.named(name),
                None => ask,
            };
            let held = gate.inline().from_rules(&rules).hold(ask.reserve(ttl), terms);
            let held = self.service.heard(held.await).map_err(status)?;
            self.service.give_back(held.in_doubt);
            (held.answer, held.hold)
        };
        if answer.decision().is_none() && on_failure == OnFailure::Error {
            return Err(unavailable(&answer));
        }
        let id = hold.as_ref().map(|hold| self.service.sign(hold)).unwrap_or_default();
        let undelivered = hold.map(|hold| self.service.undelivered(hold));
        Ok(Reserved { code: code(answer.is_allowed()), id, undelivered })
    }

    /// Holds by the policies, for each descriptor: for all, or for none.
    ///
    /// # Errors
    /// A cost that a policy does not take.
    pub(super) async fn reserve_by_policies(
        &self,
        all: Vec<Prepared>,
        (amount, ttl): (u64, Option<Duration>),
    ) -> Result<Reserved, Status> {
        let gate = &self.service.gate;
        let mut holds: Vec<Option<Hold>> = Vec::with_capacity(all.len());
        for prepared in all {
            let parts: Vec<CountedBy<'_>> = prepared.counts().collect();
            let is_too_much = amount > MAX_COST && !parts.is_empty();
            let ttl = time_of(ttl, &parts);
            drop(parts);
            let held = if is_too_much {
                Ok((false, None))
            } else if amount == 0 {
                Ok((gate.ask(prepared.peek()).await.is_allowed(), None))
            } else {
                let kind = prepared.reserves().map_or(HoldKind::Reserve, |(kind, _)| kind);
                let held = gate.hold(prepared, kind, Some(ttl)).await;
                let held = self.service.heard(held);
                held.map(|held| {
                    self.service.give_back(held.in_doubt);
                    (held.answer.is_allowed(), held.hold)
                })
            };
            match held {
                Ok((true, hold)) => holds.push(hold),
                not => {
                    for hold in holds.iter().flatten() {
                        // Holds that a store cannot take back expire by themselves.
                        let _ = gate.holds().release(hold).await;
                    }
                    return not.map(|_| Reserved::nothing(false)).map_err(status);
                }
            }
        }
        let sign = |hold: &Option<Hold>| hold.as_ref().map(|hold| self.service.sign(hold));
        let ids: Vec<String> = holds.iter().map(|hold| sign(hold).unwrap_or_default()).collect();
        let id = if holds.iter().any(Option::is_some) { ids.join(".") } else { String::new() };
        let undelivered = self.undelivered(holds);
        Ok(Reserved { code: Code::Ok, id, undelivered })
    }

    /// Gives all of these back if the answer is not delivered.
    fn undelivered(&self, holds: Vec<Option<Hold>>) -> Option<Undelivered> {
        let each = holds.into_iter().flatten().map(|hold| self.service.undelivered(hold));
        each.reduce(Undelivered::and)
    }

    /// Settles a hold on these descriptors: `actual` units were used. Units without a hold are
    /// charged all the same. True when the hold was open, or was settled before.
    ///
    /// # Errors
    /// The store cannot answer, or too many units.
    pub(super) async fn commit(
        &self,
        planned: &[Planned<'_>],
        id: &str,
        actual: u64,
    ) -> Result<bool, Status> {
        let held = parts(planned, false);
        let hold = match self.name.filter(|_| id.is_empty() && !held.is_empty()) {
            Some(name) => {
                let ask = Ask::from(held.clone()).named(name);
                Some(self.service.gate.holds().named_under(ask).map_err(status)?)
            }
            None => self.hold_on(id, &held),
        };
        let settled = self.settle(hold, actual).await?;
        let left = match settled {
            Some(true) => return Ok(true),
            Some(false) => parts(planned, true),
            None => [held, parts(planned, true)].concat(),
        };
        for part in left {
            self.charge(Ask::from(vec![part]), actual).await?;
        }
        Ok(settled.is_some())
    }

    /// [`Counting::commit`] by the policies: the holds of all descriptors.
    ///
    /// # Errors
    /// As that.
    pub(super) async fn commit_by_policies(
        &self,
        request: &RateLimitRequest,
        id: &str,
        actual: u64,
    ) -> Result<bool, Status> {
        let all = self.prepare(request, |_| actual.max(1))?;
        let is_named = self.name.is_some() && id.is_empty();
        let (mut ids, mut is_released) = (id.split(BETWEEN), false);
        for (place, (prepared, descriptor)) in all.iter().zip(&request.descriptors).enumerate() {
            let id = (!is_named).then(|| ids.next().unwrap_or_default());
            let mut hold = self.hold_of(prepared, id)?;
            // A ban or an exemption may be newer than the hold.
            if hold.is_none() {
                let unruled =
                    policies::unruled(self.service, &request.domain, (place, descriptor))?;
                hold = self.hold_of(&unruled.named(self.name), id)?;
            }
            match self.settle(hold, actual).await? {
                Some(_) => is_released = true,
                None => {
                    if let Some(ask) = prepared.question() {
                        self.charge(ask, actual).await?;
                    }
                }
            }
        }
        Ok(is_released)
    }

    /// The hold of one descriptor by its id, or by the caller's where that is `None`.
    ///
    /// # Errors
    /// By the caller's id nothing could be held.
    fn hold_of(&self, prepared: &Prepared, id: Option<&str>) -> Result<Option<Hold>, Status> {
        match id {
            Some(id) => Ok(self.hold_on(id, &prepared.counts().collect::<Vec<_>>())),
            None => self.service.gate.holds().named(prepared).map_err(status),
        }
    }

    /// The hold of this id, if it is on exactly these counts. `None` for the hold of another and
    /// for a text that this service did not sign. Limits that have changed since are the same
    /// counts.
    fn hold_on(&self, id: &str, parts: &[CountedBy<'_>]) -> Option<Hold> {
        let hold = self.service.hold_of(id).filter(|hold| hold.kind() != HoldKind::Acquire)?;
        let mut held: Vec<_> =
            hold.counts.iter().map(|(of, limits)| (of, limits.policy())).collect();
        let mut asked: Vec<_> = parts.iter().map(|(of, limits)| (*of, limits.policy())).collect();
        held.sort_unstable();
        asked.sort_unstable();
        (held == asked).then_some(hold)
    }

    /// Whether a hold was settled before, where it is known; `None` where it is not open.
    async fn settle(&self, hold: Option<Hold>, actual: u64) -> Result<Option<bool>, Status> {
        let Some(hold) = hold else { return Ok(None) };
        match self.service.gate.holds().commit(&hold, actual).await {
            Ok(settled) => Ok(Some(settled.already)),
            Err(Error::NotOpen(_)) => Ok(None),
            Err(error) => Err(status(error)),
        }
    }

    /// Charges what the descriptors ask, whatever remains.
    ///
    /// # Errors
    /// The store cannot answer.
    pub(super) async fn report(&self, planned: &[Planned<'_>]) -> Result<(), Status> {
        for (subject, limits, hits) in planned.iter().filter_map(Planned::count) {
            let ask = Ask::new(subject).under(limits);
            match hits {
                Hits::Look | Hits::Peek => {}
                Hits::Charge(hits) => self.charge(ask, hits).await?,
                Hits::GiveBack(hits) => {
                    let delta = i64::try_from(hits).unwrap_or(i64::MAX);
                    self.in_time(self.service.gate.admin().adjust(ask, delta)).await?;
                }
            }
        }
        Ok(())
    }

    /// Charges without a check.
    ///
    /// # Errors
    /// The store cannot answer.
    pub(super) async fn charge(&self, ask: Ask<'_>, units: u64) -> Result<(), Status> {
        if units > 0 {
            self.in_time(self.service.gate.admin().charge(ask.cost(units))).await?;
        }
        Ok(())
    }

    async fn in_time<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Status> {
        let late = |_| Status::unavailable("the store cannot charge in time");
        tokio::time::timeout(self.deadline, call).await.map_err(late)?.map_err(status)
    }

    /// Finds the policies of each descriptor, at this cost.
    ///
    /// # Errors
    /// An entry that is not a field, or a cost that a policy does not take.
    pub(super) fn prepare(
        &self,
        request: &RateLimitRequest,
        cost: impl Fn(usize) -> u64,
    ) -> Result<Vec<Prepared>, Status> {
        let descriptors = request.descriptors.iter().enumerate();
        let each = descriptors.map(|(place, descriptor)| {
            let prepared = policies::prepared(self.service, &request.domain, (place, descriptor))?;
            let prepared = prepared.within(self.deadline).named(self.name);
            policies::costing(prepared, place, cost(place))
        });
        each.collect()
    }
}

/// The counts of these descriptors, each once: those that can deny, or those that cannot.
fn parts<'p>(planned: &'p [Planned<'_>], aside: bool) -> Vec<CountedBy<'p>> {
    named_parts(planned, aside).0
}

/// The same with the names of their rules.
fn named_parts<'p>(
    planned: &'p [Planned<'_>],
    aside: bool,
) -> (Vec<CountedBy<'p>>, Vec<RuleName<'p>>) {
    let mut parts: Vec<CountedBy<'p>> = Vec::with_capacity(planned.len());
    let mut rules = Vec::with_capacity(planned.len());
    for planned in planned.iter().filter(|planned| planned.is_aside() == aside) {
        let Some((subject, limits, _)) = planned.count() else { continue };
        let is_it =
            |(of, under): &CountedBy<'_>| *of == subject && under.identity() == limits.identity();
        if !parts.iter().any(is_it) {
            parts.push((subject, limits));
            rules.push(planned.name);
        }
    }
    (parts, rules)
}

/// How long a hold on these counts lasts: at most as long as a slot among them says, else a minute.
fn time_of(ttl: Option<Duration>, parts: &[CountedBy<'_>]) -> Duration {
    let own = parts.iter().filter_map(|(_, limits)| limits.hold()).min();
    let most = own.map_or(MAX_TTL, tollgate::Period::as_duration);
    ttl.map_or(most, |ttl| ttl.max(MIN_TTL).min(most))
}

fn unavailable(answer: &Answer<'_>) -> Status {
    let why = answer.error().map_or(String::new(), |error| format!(": {error}"));
    Status::unavailable(format!("the store cannot answer{why}"))
}

/// An error of the library: of the store, or of the request.
fn status(error: Error) -> Status {
    match error {
        Error::Store(error) => Status::unavailable(format!("the store: {error}")),
        Error::Conflict(why) => Status::failed_precondition(why),
        Error::TooManyHolds(why) => Status::resource_exhausted(why),
        other => Status::invalid_argument(other.to_string()),
    }
}

//! Holds for callers: reserve and commit, acquire, renew and release.

use core::time::Duration;

use tollgate::{Cost, Error, Hold, HoldId, HoldKind, HoldName, Patience, Settled, Time};
use tollgate_policy::{Admission, OnFailure};

use crate::listen::Undelivered;

use super::delivery::{give_back_in_doubt, undelivered};
use super::receipts::MAX_RECEIPT_BYTES;
use super::{By, Kind, Question, Refusal, Service, ask, bytes_of};

/// Why a hold may not be open.
const NOT_OPEN: &str = "it has ended by itself, was settled, was reset, or never was";

/// The question for a hold: the units, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Terms {
    /// `None` for units, where nobody said what their end does.
    kind: Option<HoldKind>,
    /// `None` where nobody said it; slots say it themselves.
    ttl: Option<Duration>,
    /// The caller's id for the hold.
    pub(crate) name: Option<HoldName>,
}

impl Terms {
    /// The terms of units for this long. At the end nothing is charged, or the estimate where
    /// `at_end` is `charge`. Settings that the request leaves out come from the policy that
    /// reserves its cost.
    ///
    /// # Errors
    /// Another `at_end`.
    pub(crate) fn reserve(ttl: Option<Duration>, at_end: Option<&str>) -> Result<Self, Refusal> {
        let kind = match at_end {
            None => None,
            Some("nothing") => Some(HoldKind::Reserve),
            Some("charge") => Some(HoldKind::Charging),
            Some(text) => {
                let detail = format!(
                    "`{text}` is not an effect of an end: write \"charge\" for the estimate, or \
                     \"nothing\""
                );
                return Err(Refusal::invalid(detail).at("at_end"));
            }
        };
        Ok(Self { kind, ttl, name: None })
    }

    /// The terms of slots.
    pub(crate) fn acquire() -> Self {
        Self { kind: Some(HoldKind::Acquire), ttl: None, name: None }
    }

    /// The kind of the hold and its time, where a policy says what is not said here.
    ///
    /// # Errors
    /// No time for units.
    fn or(
        self,
        policy: Option<(HoldKind, Duration)>,
    ) -> Result<(HoldKind, Option<Duration>), Refusal> {
        let (kind, ttl) = policy.unzip();
        let kind = self.kind.or(kind).unwrap_or(HoldKind::Reserve);
        let ttl = self.ttl.or(ttl).filter(|_| kind != HoldKind::Acquire);
        if kind != HoldKind::Acquire && ttl.is_none() {
            let detail = "`ttl` is missing, e.g. \"60s\"";
            return Err(Refusal::invalid(detail).at("ttl"));
        }
        Ok((kind, ttl))
    }

    /// The same terms under the caller's id, if it gives one.
    pub(crate) fn named(self, name: Option<HoldName>) -> Self {
        Self { name, ..self }
    }
}

/// The id that a caller gives to its hold.
///
/// # Errors
/// Another text, which is not repeated.
pub(crate) fn hold_name(id: &str) -> Result<HoldName, Refusal> {
    let refused = |error: tollgate::ParseError| {
        Refusal::invalid(format!("{}: {}", error.what(), error.remedy())).at("id")
    };
    id.parse().map_err(refused)
}

/// The kind of cost that a peek judges, by its name.
///
/// # Errors
/// Another name.
pub(crate) fn kind_of_peek(name: &str) -> Result<Option<HoldKind>, Refusal> {
    HoldKind::of_peek(name).map_err(|error| {
        Refusal::invalid(format!("{}: {}", error.what(), error.remedy())).at("kind")
    })
}

/// A placed hold, as its holder receives it.
#[derive(Debug)]
pub(crate) struct Holding {
    /// The signed text.
    pub(crate) hold: String,
    pub(crate) fence: u64,
    /// When it ends by itself.
    pub(crate) end: Time,
}

/// A hold to settle.
#[derive(Debug)]
pub(crate) struct HoldToSettle {
    pub(crate) hold: Hold,
    /// Whether no limit applies to its question now, so that there may be no hold.
    is_unlimited: bool,
}

impl From<Hold> for HoldToSettle {
    fn from(hold: Hold) -> Self {
        Self { hold, is_unlimited: false }
    }
}

/// The answer to a question for a hold.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) held: Admission,
    pub(crate) holding: Option<Holding>,
    /// Gives the hold back if the answer is not delivered.
    pub(crate) undelivered: Option<Undelivered>,
}

impl Service {
    /// Whether a caller waits, by its word: `again`, or `in_line`.
    ///
    /// # Errors
    /// Another text; or callers may not say it to this service.
    pub(crate) fn patience(&self, said: &str) -> Result<Patience, Refusal> {
        let patience = said.parse().map_err(|error: tollgate::ParseError| {
            Refusal::invalid(format!("{}: {}", error.what(), error.remedy())).at("waiting")
        })?;
        if !self.caller_waiting {
            let detail = "this service takes it from no caller that it waits, since such a caller \
                          is never banned (--caller-waiting off): leave it out";
            return Err(Refusal::new(Kind::Forbidden, detail).at("waiting"));
        }
        Ok(patience)
    }

    /// Places a hold, as [`Service::answer`] charges.
    ///
    /// # Errors
    /// As [`Service::answer`]; also a question for a receipt or with an idempotency key, a failure
    /// rule of a local share, and what [`tollgate::Limiter::hold`] refuses.
    pub(crate) async fn hold(
        &self,
        question: Question<'_>,
        asked: Terms,
    ) -> Result<Answered, Refusal> {
        question.without_kind()?;
        question.without_response()?;
        let name = asked.name;
        let Question { by, cost, idempotency_key, receipt, patience, .. } = question;
        if receipt {
            let detail = "a hold is its own receipt: leave it out, and commit or release the hold";
            return Err(Refusal::invalid(detail).at("receipt"));
        }
        if idempotency_key.is_some() {
            let detail = "holds are not remembered by request: leave it out. A hold that nobody \
                          settles ends by itself";
            return Err(Refusal::invalid(detail).at("idempotency_key"));
        }
        let mut held = match by {
            By::Policies { policy, fields } => {
                let prepared = self.prepared(policy.as_deref(), &fields, cost)?;
                // Where nothing is asked, nothing is held: a denial, or no policy.
                let nothing = prepared
                    .question()
                    .is_none()
                    .then_some((HoldKind::Reserve, Duration::from_secs(1)));
                let (kind, ttl) = asked.or(prepared.reserves().or(nothing))?;
                let held =
                    self.gate.hold(prepared.named(name).with_patience(patience), kind, ttl).await;
                self.heard(held)?
            }
            By::Limits { parts, shard, terms } => {
                self.takes(&parts)?;
                if matches!(terms.on_failure, OnFailure::Local(_)) {
                    let detail = "a local share holds nothing: the failure rule of a hold is \
                                  `allow` or `deny`";
                    return Err(Refusal::invalid(detail).at("on_failure"));
                }
                if bytes_of(&parts) > MAX_RECEIPT_BYTES {
                    let detail = "a hold over subjects and limits that are so long would be too \
                                  long to come back: ask in several questions";
                    return Err(Refusal::invalid(detail));
                }
                let mut ask = ask(&parts, shard.as_deref())?.cost(cost.unwrap_or(Cost::from(1)));
                ask = ask.with_patience(patience);
                if let Some(name) = name {
                    ask = ask.named(name);
                }
                let (kind, ttl) = asked.or(None)?;
                let held = self.gate.inline().hold(ask.holding(kind, ttl), terms).await;
                self.heard(held)?
            }
        };
        self.give_back(held.in_doubt.take());
        let undelivered = held.hold.clone().map(|hold| self.undelivered(hold));
        let holding = held.hold.as_ref().map(|hold| self.holding(hold));
        Ok(Answered { held, holding, undelivered })
    }

    /// The same, after a warning where one id is given to many holds.
    pub(crate) fn heard<T>(&self, held: Result<T, Error>) -> Result<T, Error> {
        held.inspect_err(|error| self.deliveries.heard(error))
    }

    /// Gives back what the store may have placed though it failed, in the background.
    pub(crate) fn give_back(&self, in_doubt: Option<Hold>) {
        if let Some(hold) = in_doubt {
            give_back_in_doubt(&self.gate, &self.deliveries, hold);
        }
    }

    /// Gives a hold back if its answer is not delivered.
    pub(crate) fn undelivered(&self, hold: Hold) -> Undelivered {
        undelivered(&self.gate, &self.deliveries, hold.undelivered())
    }

    /// The signed text of a hold.
    pub(crate) fn sign(&self, hold: &Hold) -> String {
        self.receipts.sign(hold)
    }

    /// The hold of a signed text; `None` if this service did not sign it.
    #[cfg(feature = "grpc")]
    pub(crate) fn hold_of(&self, text: &str) -> Option<Hold> {
        self.receipts.read(text).ok()
    }

    fn holding(&self, hold: &Hold) -> Holding {
        Holding { hold: self.sign(hold), fence: hold.fence, end: hold.end }
    }

    /// The hold of a signed text.
    ///
    /// # Errors
    /// A text that this service did not sign.
    pub(crate) fn signed(&self, hold: &str) -> Result<Hold, Refusal> {
        self.receipts.read(hold)
    }

    /// The hold of a question with this id, whether it was answered or not.
    ///
    /// # Errors
    /// A question by which nothing could be held.
    pub(crate) fn named(
        &self,
        question: Question<'_>,
        name: HoldName,
    ) -> Result<HoldToSettle, Refusal> {
        question.without_kind()?;
        question.without_waiting()?;
        match question.by {
            By::Policies { policy, fields } => {
                let policy = policy.as_deref();
                let mut prepared = self.prepared(policy, &fields, None)?;
                let is_unlimited = prepared.is_unlimited();
                // A ban or an exemption may be newer than the hold.
                if prepared.question().is_none()
                    && let Some(unruled) = self.gate.prepare_unruled(policy, &fields)
                {
                    prepared = unruled;
                }
                let hold = self.gate.holds().named(&prepared.named(Some(name)))?;
                let nothing = is_unlimited.then(|| nothing_held(name));
                let hold = hold.or(nothing).ok_or_else(|| {
                    let detail = "no policy with limits applies to these fields, so that nothing \
                                  is held: give the fields of the acquire";
                    Refusal::new(Kind::Conflict, detail).at("fields")
                })?;
                Ok(HoldToSettle { hold, is_unlimited })
            }
            By::Limits { parts, shard, .. } => {
                self.takes(&parts)?;
                let ask = ask(&parts, shard.as_deref())?.named(name);
                Ok(self.gate.holds().named_under(ask)?.into())
            }
        }
    }

    /// Settles a hold: so much was used. Where no limit applies to its question and it is not open,
    /// it answers as the reserve did: nothing is charged.
    ///
    /// # Errors
    /// A hold that is not open; too many units, or units for a slot; or a store that could not
    /// answer.
    pub(crate) async fn commit(
        &self,
        HoldToSettle { hold, is_unlimited }: &HoldToSettle,
        actual: impl Into<Cost>,
    ) -> Result<Settled, Refusal> {
        let (actual, most) = (actual.into(), tollgate::MAX_COST);
        if let Some(units) = actual.plain().filter(|units| *units > most) {
            let detail = format!("`actual` is 0 to 2^40 = {most}, not {units}");
            return Err(Refusal::invalid(detail).at("actual"));
        }
        let nothing = || Ok(Settled::now(0.into(), Vec::new(), Default::default()));
        if hold.counts.is_empty() {
            return nothing();
        }
        match self.gate.holds().commit(hold, actual).await {
            Err(Error::NotOpen(_)) if *is_unlimited => nothing(),
            settled => Ok(settled?),
        }
    }

    /// Gives back what a hold keeps, without a charge. Twice is as once.
    ///
    /// # Errors
    /// A hold that is not open; or a store that could not answer.
    pub(crate) async fn release(&self, held: &HoldToSettle) -> Result<(), Refusal> {
        let hold = &held.hold;
        if hold.id.name().is_some() {
            return self.commit(held, 0).await.map(drop);
        }
        if self.gate.holds().release(hold).await? || self.was_released(hold).await? {
            return Ok(());
        }
        let detail = format!("the hold {} is not open: {NOT_OPEN}; nothing was charged", hold.id);
        Err(Refusal::new(Kind::Conflict, detail).at("hold"))
    }

    /// Whether a hold that is not open was released before. No store remembers slots that were
    /// given back: one that would still be open, by the end in its text, is one of them.
    async fn was_released(&self, hold: &Hold) -> Result<bool, Refusal> {
        if hold.kind() != HoldKind::Acquire {
            return match self.gate.holds().commit(hold, 0).await {
                Ok(settled) => Ok(settled.actual == 0),
                Err(Error::NotOpen(_)) => Ok(false),
                Err(error) => Err(error.into()),
            };
        }
        let ask = ask(&hold.counts, hold.shard.as_deref())?;
        let terms = tollgate_policy::Terms::new(OnFailure::Deny);
        let looked = self.gate.inline().check(ask.peek(), terms).await?;
        Ok(looked.decision().is_some_and(|decision| decision.at() < hold.end))
    }

    /// Renews a hold. It comes back with its new end.
    ///
    /// # Errors
    /// A hold that is not open; a `ttl` out of range; or a store that could not answer.
    pub(crate) async fn renew(
        &self,
        hold: &mut Hold,
        ttl: Option<Duration>,
    ) -> Result<Holding, Refusal> {
        if hold.counts.is_empty() || !self.gate.holds().renew(hold, ttl).await? {
            let detail = format!(
                "the hold is not open: {NOT_OPEN}; others may have what it kept: stop, and ask for \
                 a new one"
            );
            return Err(Refusal::new(Kind::Conflict, detail).at("hold"));
        }
        Ok(self.holding(hold))
    }
}

/// A hold on no count, as of a request that no limit applies to.
fn nothing_held(name: HoldName) -> Hold {
    Hold::new(HoldId::of_any_kind(name), 0, 0, Time::default(), [])
}

//! The service without a protocol. Each front parses its input into a [`Question`], calls the
//! service, and writes the answer or the [`Refusal`] in the form of its protocol.

mod batch;
mod caller_limits;
mod charging;
mod delivery;
mod description;
mod holding;
mod inline_limits;
mod question;
mod receipts;
mod refusal;
mod signing_keys;

use std::sync::Arc;

use tollgate::{
    Ask, Cost, Decision, Limit, LimitSet, MAX_COST, Patience, Refund, RequestId, Share, Subject,
};
use tollgate_policy::{Answer, CostRefused, Gate, OnFailure, Prepared};
use tollgate_stores::AnyStore;

pub use caller_limits::CallerLimits;
pub(crate) use charging::Charge;
pub(crate) use delivery::{Deliveries, Fate};
pub(crate) use description::{DescribedFields, Description, HASH_OR_KEY, Reading, looks_hashed};
pub(crate) use holding::{
    Answered, HoldToSettle, Holding, Terms as HoldTerms, hold_name, kind_of_peek,
};
pub(crate) use inline_limits::InlineLimits;
pub(crate) use question::{Act, By, Parts, Question, profile_of};
pub(crate) use receipts::{MIN_KEY_BYTES, Receipts};
pub(crate) use refusal::{Kind, Refusal};

use caller_limits::Gatekeeper;
use receipts::MAX_RECEIPT_BYTES;

use crate::topology::all_is_served;

/// The longest subject, limit or field value, in bytes.
pub(crate) const MAX_TEXT_BYTES: usize = 1_024;

/// Answers questions.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) gate: Gate<AnyStore>,
    receipts: Receipts,
    gatekeeper: Gatekeeper,
    /// Whether callers may say that they wait.
    caller_waiting: bool,
    inline_limits: Arc<InlineLimits>,
    deliveries: Arc<Deliveries>,
    /// How described requests are read.
    pub(crate) reading: Reading,
}

impl Service {
    pub(crate) fn new(
        gate: Gate<AnyStore>,
        receipts: Receipts,
        reading: Reading,
        allowed: CallerLimits,
        inline_limits: Arc<InlineLimits>,
        deliveries: Arc<Deliveries>,
    ) -> Self {
        let gatekeeper = Gatekeeper::new(allowed);
        let caller_waiting = false;
        Self { gate, receipts, gatekeeper, caller_waiting, inline_limits, deliveries, reading }
    }

    /// Whether callers may say that they wait.
    pub(crate) fn with_caller_waiting(self, caller_waiting: bool) -> Self {
        Self { caller_waiting, ..self }
    }

    /// The limits of a text, cached.
    ///
    /// # Errors
    /// The text is not a valid set of limits.
    pub(crate) fn limits(&self, text: &str) -> Result<LimitSet, Refusal> {
        let read = self.inline_limits.read(text);
        read.map_err(|error| Refusal::invalid(error.to_string()).at("limit"))
    }

    /// The failure rule of inline limits from a text: `allow`, `deny`, or `local` with a share.
    /// `local` alone is the share of one of the policies' nodes.
    ///
    /// # Errors
    /// The reason why it is invalid.
    pub(crate) fn failure_rule(&self, text: &str) -> Result<OnFailure, String> {
        if text == "local" {
            let share = self.gate.current().policies().nodes().and_then(Share::of_nodes);
            let why = "`local` needs a share, e.g. 25 %: the policies do not set `nodes`";
            return share.map(OnFailure::Local).ok_or_else(|| why.to_owned());
        }
        let read = text.parse::<OnFailure>();
        read.map_err(|error| format!("{}: {}", error.what(), error.remedy()))
    }

    /// Whether callers may send these limits.
    ///
    /// # Errors
    /// They may not.
    pub(crate) fn takes(&self, parts: &Parts) -> Result<(), Refusal> {
        self.gatekeeper.admit(parts, self.gate.store())
    }

    /// Answers a question.
    ///
    /// # Errors
    /// The question is invalid, or this service's settings do not allow it. A store that cannot
    /// answer is not an error: the failure rule answers.
    pub(crate) async fn answer(
        &self,
        question: Question<'_>,
        act: Act,
    ) -> Result<Answer<'static>, Refusal> {
        match act {
            Act::Check => question.without_kind()?,
            Act::Peek => question.without_waiting()?,
        }
        let Question { by, cost, idempotency_key, receipt, kind, patience, .. } = question;
        if patience == Patience::InLine {
            let detail = "a check takes no slot to wait in line for: use `again`";
            return Err(Refusal::invalid(detail).at("waiting"));
        }
        if idempotency_key.is_some() {
            Self::check_idempotency(&by, act)?;
        }
        match by {
            By::Policies { policy, fields } => {
                let prepared = self.prepared(policy.as_deref(), &fields, cost)?;
                Ok(match act {
                    Act::Check => self.gate.ask(prepared.with_patience(patience)).await,
                    Act::Peek => self.gate.ask(prepared.kind(kind).peek()).await,
                })
            }
            By::Limits { parts, shard, terms } => {
                self.takes(&parts)?;
                if let (Act::Check, Some(limit)) = (act, slots_of(&parts)) {
                    return Err(check_of_slots(limit));
                }
                if receipt && bytes_of(&parts) > MAX_RECEIPT_BYTES {
                    let detail = "a receipt over subjects and limits that are so long would be too \
                                  long to come back: leave it out, or ask in several questions";
                    return Err(Refusal::invalid(detail).at("receipt"));
                }
                let ask = ask(&parts, shard.as_deref())?.cost(cost.unwrap_or(Cost::from(1)));
                let mut ask = ask.with_patience(patience);
                if let Some(kind) = kind {
                    ask = ask.holding(kind, None);
                }
                if let Some(key) = &idempotency_key {
                    ask = ask.request(RequestId::new(key));
                }
                let answer = match act {
                    Act::Check => self.gate.inline().check(ask, terms).await,
                    Act::Peek => self.gate.inline().check(ask.peek(), terms).await,
                };
                let answer = answer?;
                if answer.decision().is_some_and(Decision::is_id_overused) {
                    self.heard_overused_id("idempotency_key");
                }
                Ok(answer)
            }
        }
    }

    /// Checks one limit of a caller for one subject, as [`Service::answer`] does, without async.
    /// `None` where that is refused, or the store fails: then nothing was charged.
    #[cfg(feature = "resp")]
    #[inline]
    pub(crate) fn check_at_once<T>(
        &self,
        together: &mut tollgate_policy::CheckBatch,
        counted: tollgate::Counted<'_>,
        cost: u64,
        view: impl FnOnce(&Decision<'_>) -> T,
    ) -> Option<T> {
        if !self.gatekeeper.admits_single() {
            return None;
        }
        self.gate.inline().check_in(together, counted, cost, view).ok()
    }

    /// Rejects an idempotency key where the service would store nothing under it.
    fn check_idempotency(by: &By<'_>, act: Act) -> Result<(), Refusal> {
        let why = match (act, by) {
            (Act::Peek, _) => "a peek charges nothing, so there is nothing to guard",
            (Act::Check, By::Limits { .. }) => return Ok(()),
            (Act::Check, By::Policies { .. }) => {
                "requests are remembered under inline limits, and not by policies: ask with \
                 `subject` and `limit`, or leave it out"
            }
        };
        Err(Refusal::invalid(why).at("idempotency_key"))
    }

    fn prepared(
        &self,
        policy: Option<&str>,
        fields: &DescribedFields<'_>,
        cost: Option<Cost>,
    ) -> Result<Prepared, Refusal> {
        let mut prepared = match policy {
            None => self.gate.prepare(fields),
            Some(name) => self.gate.prepare_named(name, fields).ok_or_else(|| no_policy(name))?,
        };
        if let Some(cost) = cost {
            if let Some(cost) = cost.plain().filter(|cost| !(1..=MAX_COST).contains(cost)) {
                let detail = format!("a cost is 1 to 2^40 = {MAX_COST}, not {cost}");
                return Err(Refusal::invalid(detail).at("cost"));
            }
            prepared.cost(cost).map_err(|refused| match refused {
                CostRefused::Sets(policy) => Refusal::invalid(format!(
                    "the policy `{}` sets the cost ({}): leave it out, or let the policy take it \
                     from a field, e.g. cost = {{ from = \"field.cost\", max = 100 }}",
                    policy.name, policy.cost
                ))
                .at("cost"),
                CostRefused::Unknown(error) => Refusal::from(error),
            })?;
        }
        Ok(prepared)
    }

    /// Warns of an id that is given to many checks, by the name of its kind.
    pub(crate) fn heard_overused_id(&self, of: &str) {
        self.deliveries.heard_overused_id(of);
    }

    /// Shares the key that signs, by a store that others use too.
    pub(crate) async fn share_key(&self) {
        self.receipts.share(&self.gate).await;
    }

    /// The signed receipt of an answer; `None` when nothing was charged.
    pub(crate) fn receipt(&self, answer: &Answer<'_>) -> Option<String> {
        let receipt = answer.decision().and_then(Decision::receipt)?;
        Some(self.receipts.sign(&receipt))
    }

    /// Refunds the charge of a signed receipt, or `units` of it.
    ///
    /// # Errors
    /// A receipt that this service did not sign, zero units or more than were charged, or a store
    /// that could not answer.
    pub(crate) async fn refund(
        &self,
        receipt: &str,
        units: Option<Cost>,
    ) -> Result<Refund, Refusal> {
        let receipt: tollgate::Receipt = self.receipts.read(receipt)?;
        let units = units.unwrap_or_else(|| receipt.cost.clone());
        if !receipt.part(units.clone()).is_charged() {
            let why = match receipt.cost.plain() {
                Some(charged) => {
                    format!("give 1 to {charged}, of the charged units: {units} is not")
                }
                None => format!("`{units}` is not a part of the charged `{}`", receipt.cost),
            };
            return Err(Refusal::invalid(why).at("units"));
        }
        Ok(self.gate.inline().refund(receipt.part(units)).await?)
    }

    /// Whether there has been a connection to the store since the start.
    pub(crate) fn has_store(&self) -> bool {
        self.gate.store().has_connected()
    }

    /// Tests whether the store can count.
    ///
    /// # Errors
    /// Why it cannot.
    pub(crate) async fn probe_store(&self) -> Result<(), Refusal> {
        self.gate.admin().probe(self.gate.current().deadline()).await?;
        all_is_served(self.gate.store()).await
    }
}

/// The first limit of these parts from which only holds take.
fn slots_of(parts: &Parts) -> Option<&Limit> {
    let mut limits = parts.iter().flat_map(|(_, limits)| limits.limits());
    limits.find(|limit| limit.needs_hold())
}

#[cold]
fn check_of_slots(limit: &Limit) -> Refusal {
    let detail = format!(
        "`{limit}` counts work in progress, and a check would never give a slot back: `acquire` \
         takes one (POST /v1/acquire, TOLLGATE.ACQUIRE), and `release` gives it back"
    );
    Refusal::invalid(detail).at("limit")
}

/// Builds the ask over these parts, at least one.
///
/// # Errors
/// There is no part.
pub(crate) fn ask<'p>(
    parts: &'p [(Subject, LimitSet)],
    shard: Option<&'p str>,
) -> Result<Ask<'p>, Refusal> {
    if parts.is_empty() {
        return Err(Refusal::invalid("an empty list asks nothing").at("on"));
    }
    let each: Vec<_> = parts.iter().map(|(subject, limits)| (subject, limits)).collect();
    let ask = Ask::from(each);
    Ok(match shard {
        Some(shard) => ask.shard(shard),
        None => ask,
    })
}

/// The refusal for a policy name that does not exist.
pub(crate) fn no_policy(name: &str) -> Refusal {
    let detail = format!("there is no policy `{name}`: GET /v1/policies lists them");
    Refusal::new(Kind::NotFound, detail).at("policy")
}

/// The refusal of a policy that does not exist, where one has a similar name.
pub(crate) fn no_such(name: &str, similar: &str) -> Refusal {
    let detail = format!("there is no policy `{name}`: did you mean `{similar}`?");
    Refusal::new(Kind::NotFound, detail).at("policy")
}

/// The approximate size in bytes of these parts in a receipt.
fn bytes_of(parts: &Parts) -> usize {
    parts.iter().map(|(subject, limits)| subject.as_str().len() + limits.full_text().len()).sum()
}

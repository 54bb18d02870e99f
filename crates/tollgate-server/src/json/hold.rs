//! The JSON forms of holds, placed, committed, renewed and released, and of charges.

use core::time::Duration;

use serde::Serialize;
use tollgate::engine::{OpenHold, ShownHold};
use tollgate::{
    Charged, ChargedLimit, Decision, Hold, HoldKind, Inspection, LimitSet, Settled, Subject, Time,
};
use tollgate_policy::Held;

use super::{AnswerJson, Wait};
use crate::service::Holding;

/// An answer, with the hold where one was placed.
#[derive(Serialize)]
pub(crate) struct HeldJson<'a> {
    #[serde(flatten)]
    answer: AnswerJson<'a>,
    hold: Option<String>,
    fence: Option<u64>,
    /// How long it lasts, unless it is renewed or settled.
    ends_after: Option<Wait>,
    /// How many wait in line ahead of this question.
    #[serde(skip_serializing_if = "is_none_ahead")]
    ahead: usize,
}

const fn is_none_ahead(ahead: &usize) -> bool {
    *ahead == 0
}

impl<'a> HeldJson<'a> {
    pub(crate) fn new(held: &'a Held, holding: Option<Holding>) -> Self {
        let now = held.answer.decision().map(Decision::at);
        let ends_after = holding.as_ref().zip(now).map(|(holding, now)| {
            let us = holding.end.as_micros().saturating_sub(now.as_micros());
            Wait(Duration::from_micros(us))
        });
        let (hold, fence) = holding.map(|it| (it.hold, it.fence)).unzip();
        Self { answer: AnswerJson::new(&held.answer), hold, fence, ends_after, ahead: held.ahead }
    }
}

/// What a commit did.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct CommittedJson<'a> {
    /// Whether it was settled before, and nothing was charged now.
    pub already: bool,
    /// The units charged for the hold, now or before.
    pub actual: u64,
    /// What was done to each limit; empty where it was settled before.
    pub limits: Vec<ChargedJson<'a>>,
}

impl<'a> CommittedJson<'a> {
    /// What settling this hold did.
    #[must_use]
    pub fn new(hold: &'a Hold, settled: &'a Settled) -> Self {
        let limits = hold.charged(settled).map(ChargedJson::from).collect();
        Self { already: settled.already, actual: settled.actual, limits }
    }
}

/// What a charge without a check did.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct ChargeJson<'a> {
    /// The units that were to be charged to each limit.
    pub cost: u64,
    /// What was done to each limit; empty where no policy applies.
    pub limits: Vec<ChargedJson<'a>>,
}

impl<'a> ChargeJson<'a> {
    /// What a charge of this cost did to these counts.
    #[must_use]
    pub fn new(cost: u64, counts: &'a [(Subject, LimitSet)], charged: &'a [Charged]) -> Self {
        let counts = counts.iter().map(|(subject, limits)| (subject, limits));
        let limits = ChargedLimit::each(counts, charged).map(ChargedJson::from).collect();
        Self { cost, limits }
    }
}

/// What a commit or a charge did to one limit.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct ChargedJson<'a> {
    /// The subject, in its written form.
    pub subject: &'a str,
    /// The policy of the limit; `None` for inline limits.
    pub policy: Option<&'a str>,
    /// The limit's identity.
    pub identity: &'a str,
    /// The limit in its full form.
    pub limit: &'a str,
    /// Whether a check would have admitted the units.
    pub fits: bool,
    /// The units that were not charged, since the limit cannot owe them.
    pub cut: u64,
    /// The largest cost in units that the limit would admit now.
    pub remaining: u64,
    /// The wait until the limit admits the same units; `None` if it never does.
    pub retry_after: Option<Wait>,
    /// The shortest wait until the limit is fresh.
    pub reset_after: Wait,
}

impl<'a> From<ChargedLimit<'a>> for ChargedJson<'a> {
    fn from(done: ChargedLimit<'a>) -> Self {
        let Charged { fits, cut, remaining, .. } = *done.charged;
        Self {
            subject: done.subject.as_str(),
            policy: done.policy,
            identity: done.limit.identity(),
            limit: done.limit.full_text(),
            fits,
            cut,
            remaining,
            retry_after: done.charged.retry_after().map(Wait),
            reset_after: Wait(done.charged.reset_after()),
        }
    }
}

#[derive(Serialize)]
pub(crate) struct RenewedJson {
    /// Not where the caller knows the hold by its id alone.
    hold: Option<String>,
    fence: Option<u64>,
    end_us: u64,
}

impl RenewedJson {
    pub(crate) fn new(Holding { hold, fence, end }: Holding, is_by_id: bool) -> Self {
        let (hold, fence) = (!is_by_id).then_some((hold, fence)).unzip();
        Self { hold, fence, end_us: end.as_micros() }
    }
}

#[derive(Serialize)]
pub(crate) struct ReleasedJson {
    pub(crate) released: bool,
}

/// An open hold, as an inspection shows it.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct OpenHoldJson {
    /// What settles it: the signed text of a service, or the word of the command line.
    pub hold: String,
    /// What it keeps: `acquire`, `reserve`, or `charging` for a reserve whose end charges.
    pub kind: &'static str,
    /// Its cost, in units or slots.
    pub cost: u64,
    /// When it ends by itself, by the store's clock, in microseconds since 1970.
    pub end_us: u64,
    /// How long ago it was placed, by the same clock; `None` where an earlier version placed it.
    pub age: Option<Wait>,
}

impl OpenHoldJson {
    /// The first open holds of a count to end, each as `text` writes it.
    pub fn each(
        (subject, limits, shard): (&Subject, &LimitSet, Option<&str>),
        held: &Inspection,
        text: impl Fn(&Hold) -> String,
    ) -> Vec<Self> {
        let each = held.holds.iter().map(|ShownHold { hold: open, age_us }| {
            let OpenHold { end_us, id, cost } = open;
            let counts = [(subject.clone(), limits.clone())];
            let mut hold = Hold::new(*id, 0, *cost, Time::from_micros(*end_us), counts);
            hold.shard = shard.map(str::to_owned);
            let kind = match hold.kind() {
                HoldKind::Acquire => "acquire",
                HoldKind::Charging => "charging",
                _ => "reserve",
            };
            let age = age_us.map(|age_us| Wait(Duration::from_micros(age_us)));
            Self { hold: text(&hold), kind, cost: *cost, end_us: *end_us, age }
        });
        each.collect()
    }
}

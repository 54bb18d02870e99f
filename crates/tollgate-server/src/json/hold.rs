//! The JSON forms of holds: placed, committed, renewed and released.

use core::time::Duration;

use serde::Serialize;
use tollgate::{Charged, Decision, Settled};
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
}

impl<'a> HeldJson<'a> {
    pub(crate) fn new(held: &'a Held, holding: Option<Holding>) -> Self {
        let now = held.answer.decision().map(Decision::at);
        let ends_after = holding.as_ref().zip(now).map(|(holding, now)| {
            let us = holding.end.as_micros().saturating_sub(now.as_micros());
            Wait(Duration::from_micros(us))
        });
        let (hold, fence) = holding.map(|it| (it.hold, it.fence)).unzip();
        Self { answer: AnswerJson::new(&held.answer), hold, fence, ends_after }
    }
}

#[derive(Serialize)]
pub(crate) struct CommittedJson {
    already: bool,
    actual: u64,
    limits: Vec<ChargedJson>,
}

impl From<&Settled> for CommittedJson {
    fn from(settled: &Settled) -> Self {
        let limits = settled.charged.iter().map(ChargedJson::from).collect();
        Self { already: settled.already, actual: settled.actual, limits }
    }
}

/// What a commit did to one limit.
#[derive(Serialize)]
struct ChargedJson {
    fits: bool,
    cut: u64,
    remaining: u64,
    reset_after: Wait,
}

impl From<&Charged> for ChargedJson {
    fn from(charged: &Charged) -> Self {
        let Charged { fits, cut, remaining, .. } = *charged;
        Self { fits, cut, remaining, reset_after: Wait(charged.reset_after()) }
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

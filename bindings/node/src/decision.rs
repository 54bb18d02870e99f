//! Decisions that are made again from their numbers, for the details that are seldom asked for.

use napi::Either;
use napi::bindgen_prelude::Null;
use napi_derive::napi;
use tollgate::{Cost, Decision, Limiter as Engine, Report, wire};
use tollgate_binding::{Limiter, Replay, SubjectPart, ask, ready};

use crate::amounts::{Amount, asked};
use crate::error::{self, Result};
use crate::handles::Handled as _;
use crate::limits::parts;
use crate::numbers::{self, number};
use crate::reply::or_null;

/// A decision as JavaScript keeps it.
#[napi(object, object_to_js = false)]
#[derive(Debug)]
pub(crate) struct Made {
    /// The number of its limiter.
    pub limiter: u32,
    /// Its subjects.
    pub subjects: Vec<String>,
    /// For each of them the number of its limits; 0 for the limiter's own.
    pub limits: Vec<u32>,
    /// The asked amounts, of a cost that is no plain number.
    pub amounts: Option<Vec<Amount>>,
    /// Its numbers.
    pub numbers: Vec<f64>,
}

impl Made {
    /// Does something with the decision, and with the limiter that it was made by.
    pub(crate) fn with<T>(self, use_it: impl FnOnce(&Limiter, &Decision<'_>) -> T) -> Result<T> {
        let limiter = Limiter::find(self.limiter)?;
        let parts = parts(self.subjects, &self.limits)?;
        let cost = asked(self.amounts.as_deref())?;
        with(&limiter, (&parts, cost), &self.numbers, |decision| use_it(&limiter, decision))
    }
}

/// Does something with the decision of `numbers`.
pub(crate) fn with<T>(
    limiter: &Limiter,
    (parts, cost): (&[SubjectPart], Cost),
    numbers: &[f64],
    use_it: impl FnOnce(&Decision<'_>) -> T,
) -> Result<T> {
    let outcome = numbers::outcome(numbers)?;
    let cost = Cost::from(cost.amounts().with_first(outcome.granted.max(1)));
    let ask = ask(parts, cost, false).map_err(error::raised)?;
    let replay = Replay { outcome, identity: limiter.identity() };
    let engine = Engine::new(limiter.limits.clone(), replay);
    // A peek, which may be over slots, too: nothing is charged by it here.
    let decision = ready(engine.check(ask.peek())).map_err(error::raised)?;
    let decision = decision.map_err(error::raised)?;
    Ok(use_it(&decision))
}

/// The details of a decision that are seldom asked for.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub(crate) struct Details {
    /// One line for humans.
    pub text: String,
    /// Every field, as the service answers them.
    pub json: String,
    /// The receipt of the charge as text; none where nothing was charged.
    pub receipt: Option<String>,
    /// The capacity of the binding limit, in units.
    pub limit: f64,
    /// The unit of that and of the remaining number.
    pub unit: String,
    /// The place of the binding limit in `limits`.
    pub binding: u32,
    /// The report of each limit.
    pub limits: Vec<LimitReport>,
}

/// The report of one limit in a decision.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub(crate) struct LimitReport {
    /// The subject, in its written form.
    pub subject: String,
    /// The policy of the limit; null without one.
    pub policy: Either<String, Null>,
    /// The limit's identity, which names its count.
    pub identity: String,
    /// The limit in its full form.
    pub limit: String,
    /// The units that a fresh subject can take.
    pub capacity: f64,
    /// The largest cost that it would admit now.
    pub remaining: f64,
    /// The unit of `capacity` and `remaining`.
    pub unit: String,
    /// The seconds until it admits the cost: 0 for now, null for never.
    pub retry_after: Either<f64, Null>,
    /// The seconds until it is fresh.
    pub reset_after: f64,
    /// Whether this limit would admit the cost.
    pub admits: bool,
    /// The effect on its count when its numbers had changed.
    pub carried: String,
}

impl From<Report<'_>> for LimitReport {
    fn from(report: Report<'_>) -> Self {
        let report = wire::Report::from(report);
        Self {
            subject: report.subject.to_owned(),
            policy: or_null(report.policy.map(str::to_owned)),
            identity: report.identity.to_owned(),
            limit: report.limit.to_owned(),
            capacity: number(report.capacity),
            remaining: number(report.remaining),
            unit: report.unit.to_owned(),
            retry_after: or_null(report.retry_after.map(|wait| wait.0.as_secs_f64())),
            reset_after: report.reset_after.0.as_secs_f64(),
            admits: report.admits,
            carried: report.carried.to_owned(),
        }
    }
}

/// The details of a decision.
#[napi(catch_unwind)]
pub(crate) fn details(made: Made) -> Result<Details> {
    made.with(|_, decision| Details {
        text: decision.to_string(),
        json: tollgate_binding::json(decision),
        receipt: decision.receipt().map(|receipt| receipt.to_string()),
        limit: number(decision.limit()),
        unit: decision.unit().name().to_owned(),
        binding: u32::try_from(decision.binding_place()).unwrap_or(u32::MAX),
        limits: decision.reports().map(LimitReport::from).collect(),
    })
}

//! Decisions that are made anew of their numbers, for what is seldom asked of them.

use napi_derive::napi;
use tollgate::{Decision, Limiter as Engine};
use tollgate_binding::{Limiter, Part, ask, ready};

use crate::error::{self, Result};
use crate::handles::Handled as _;
use crate::limits::parts;
use crate::numbers::{self, number};
use crate::reply::or_null;
use crate::tap::Replay;

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
    /// Its numbers.
    pub numbers: Vec<f64>,
}

impl Made {
    /// Does something with the decision, and with the limiter that it was made by.
    pub(crate) fn with<T>(self, use_it: impl FnOnce(&Limiter, &Decision<'_>) -> T) -> Result<T> {
        let limiter = Limiter::find(self.limiter)?;
        let parts = parts(self.subjects, &self.limits)?;
        with(&limiter, &parts, &self.numbers, |decision| use_it(&limiter, decision))
    }
}

/// Does something with the decision of `numbers`.
pub(crate) fn with<T>(
    limiter: &Limiter,
    parts: &[Part],
    numbers: &[f64],
    use_it: impl FnOnce(&Decision<'_>) -> T,
) -> Result<T> {
    let outcome = numbers::outcome(numbers)?;
    let cost = outcome.granted.max(1);
    let ask = ask(parts, cost, false).map_err(error::raised)?;
    let replay = Replay { outcome, identity: limiter.identity() };
    let engine = Engine::new(limiter.limits.clone(), replay);
    let decision = ready(engine.check(ask)).map_err(error::raised)?;
    let decision = decision.map_err(error::raised)?;
    Ok(use_it(&decision))
}

/// What is seldom asked of a decision.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub(crate) struct Details {
    /// One line for humans.
    pub text: String,
    /// The binding limit as text.
    pub limit: String,
    /// Its capacity, in units.
    pub capacity: f64,
    /// What that and what remains count.
    pub unit: String,
    /// Its subject, in its written form.
    pub subject: String,
    /// The report of each limit.
    pub limits: Vec<LimitReport>,
}

/// What one limit said in a decision.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub(crate) struct LimitReport {
    /// The subject, in its written form.
    pub subject: String,
    /// The limit as text.
    pub limit: String,
    /// Whether this limit would admit the cost.
    pub admits: bool,
    /// The largest cost that it would admit now.
    pub remaining: f64,
    /// What `remaining` counts.
    pub unit: String,
    /// The seconds until it admits the cost: 0 for now, null for never.
    pub retry_after: napi::Either<f64, napi::bindgen_prelude::Null>,
    /// The seconds until it is fresh.
    pub reset_after: f64,
}

/// The details of a decision.
#[napi(catch_unwind)]
pub(crate) fn details(made: Made) -> Result<Details> {
    let micros = |wait: core::time::Duration| u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
    made.with(|_, decision| {
        let binding = decision.binding();
        let limits = decision.reports().map(|report| LimitReport {
            subject: report.subject().to_owned(),
            limit: report.limit().to_string(),
            admits: report.admits(),
            remaining: number(report.remaining()),
            unit: report.limit().unit().name().to_owned(),
            retry_after: or_null(report.retry_after().map(micros)),
            reset_after: report.reset_after().as_secs_f64(),
        });
        Details {
            text: decision.to_string(),
            limit: binding.limit().to_string(),
            capacity: number(decision.limit()),
            unit: decision.unit().name().to_owned(),
            subject: binding.subject().to_owned(),
            limits: limits.collect(),
        }
    })
}

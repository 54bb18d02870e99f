//! `/v1/check`, `/v1/peek`, `/v1/charge` and `/v1/refund`: by policies and under inline limits.

use std::collections::HashMap;

use http::header::{HeaderValue, RETRY_AFTER};
use http::{Request, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tollgate::wire::{self, Refunded};
use tollgate_policy::Answer;

use super::answer::json;
use super::cost::UsedJson;
use super::problem::Problem;
use super::query::Query;
use super::question::{Body, QuestionJson, read, read_one};
use crate::http::Reply;
use crate::operations::Operation;
use crate::service::{Act, Charge, Service};
use crate::wire::{answer, responded};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefundJson {
    receipt: String,
    units: Option<UsedJson>,
}

/// The form of a single denial.
#[derive(Clone, Copy, Default)]
pub(super) struct Denial {
    /// The status in place of 200.
    pub(super) status: Option<StatusCode>,
    /// Whether `Retry-After` also says a wait that is an upper bound.
    pub(super) any_wait: bool,
}

impl Denial {
    pub(super) fn is_given(self) -> bool {
        self.status.is_some() || self.any_wait
    }

    /// Reads it from the query of a request for this operation.
    pub(super) fn of<B>(request: &Request<B>, operation: Operation) -> Result<Self, Problem> {
        if request.uri().query().is_none() {
            return Ok(Self::default());
        }
        let query = Query::new(request.uri()).only(operation)?;
        Ok(Self { status: query.deny_status()?, any_wait: query.any_wait()? })
    }

    /// Gives the response to a denial its status and `Retry-After`. A wait that ends earlier when
    /// somebody settles a hold is not a fixed time to come back at. It is left out unless the
    /// request asks for it.
    pub(super) fn apply(self, answer: &Answer<'_>, response: &mut Reply) {
        let Some(status) = self.status.filter(|_| !answer.is_allowed()) else { return };
        *response.status_mut() = status;
        let is_told = self.any_wait || !answer.is_until_hold();
        if let Some(wait) = answer.retry_after().filter(|_| is_told) {
            let seconds = tollgate_tower::answer::retry_seconds(wait);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
    }
}

/// The response to a body of questions.
pub(super) async fn respond(
    service: &Service,
    body: &[u8],
    act: Act,
    denial: Denial,
) -> Result<Reply, Problem> {
    match read(body)? {
        Body::One(question) => {
            let question = question.into_question(service)?;
            let (receipt, profile) = (question.receipt, question.response);
            let answer = service.answer(question, act).await?;
            let said = answer_json(service, &answer, receipt);
            let mut response = match profile {
                None => json(&said),
                Some(profile) => json(&responded(said, &answer, profile)),
            };
            denial.apply(&answer, &mut response);
            Ok(response)
        }
        Body::Many(_) if denial.status.is_some() => Err(Problem::bad(
            "a batch has no one status: leave `deny_status` out, and look at each `allowed`",
        )
        .at("deny_status")),
        Body::Many(items) => Ok(respond_to_all(service, &items, act).await),
    }
}

async fn respond_to_all(service: &Service, items: &[&RawValue], act: Act) -> Reply {
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Item<'a> {
        Answer(Box<wire::Answer<'a>>),
        Problem { problem: Problem },
    }
    let read = |place: usize| {
        let question: QuestionJson<'_> = read_one(items[place].get().as_bytes())?;
        if question.response.is_some() {
            let detail = "an item of a batch has no `response`: leave it out";
            return Err(Problem::bad(detail).at("response"));
        }
        question.into_question(service)
    };
    let answers: Vec<Result<_, Problem>> = service.answer_all(items.len(), act, read).await;
    let items = answers.iter().enumerate().map(|(place, answer)| match answer {
        Ok((answer, receipt)) => Item::Answer(Box::new(answer_json(service, answer, *receipt))),
        Err(problem) => {
            Item::Problem { problem: problem.clone().within(&format!("checks[{place}]")) }
        }
    });
    json(&HashMap::from([("results", items.collect::<Vec<_>>())]))
}

fn answer_json<'a>(service: &Service, said: &'a Answer<'_>, receipt: bool) -> wire::Answer<'a> {
    let mut answer = answer(said);
    answer.receipt = receipt.then(|| service.receipt(said)).flatten();
    answer
}

/// Charges a question without a check.
pub(super) async fn charge(service: &Service, body: &[u8]) -> Result<Reply, Problem> {
    let question: QuestionJson<'_> = read_one(body)?;
    let Charge { cost, counts, charged } = service.charge(question.into_charge(service)?).await?;
    let counts = counts.iter().map(|(subject, limits)| (subject, limits));
    Ok(json(&wire::Charge::new(cost, counts, &charged)))
}

/// Refunds the charge of a receipt, or a part of it.
pub(super) async fn refund(service: &Service, body: &[u8]) -> Result<Reply, Problem> {
    let RefundJson { receipt, units } = read_one(body)?;
    let units = units.map(|UsedJson(units)| units);
    Ok(json(&Refunded::from(service.refund(&receipt, units).await?)))
}

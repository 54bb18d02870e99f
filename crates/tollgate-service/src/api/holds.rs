//! `/v1/reserve`, `/v1/commit`, `/v1/acquire`, `/v1/renew` and `/v1/release`: holds.

use core::time::Duration;

use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::value::RawValue;
use tollgate::HoldName;
use tollgate::wire::{Committed, Released};

use super::answer::json;
use super::check::Denial;
use super::cost::UsedJson;
use super::problem::Problem;
use super::question::{QuestionJson, not_null, read_one};
use super::text::Text;
use crate::http::Reply;
use crate::operations::Operation;
use crate::service::{Answered, HoldTerms, HoldToSettle, Service, hold_name};
use crate::wire::renewed;

/// The header with the hold.
const HOLD: HeaderName = HeaderName::from_static("tollgate-hold");

/// The longest hold in a header, in bytes: proxies read heads of 4 KiB.
const MAX_HEADER_BYTES: usize = 2 * 1_024;

/// The hold, and the settlement.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SettleJson<'a> {
    hold: String,
    #[serde(default, deserialize_with = "not_null")]
    actual: Option<UsedJson>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    ttl: Option<Text<'a>>,
}

/// A hold that its caller named, its used units, and its time from now.
type Named<'a> = (HoldToSettle, Option<UsedJson>, Option<Text<'a>>);

/// The same of a hold that its caller named: the question that it was asked by, with its `id`.
fn settled_by_id<'a>(service: &Service, body: &'a [u8]) -> Result<Option<Named<'a>>, Problem> {
    #[derive(Deserialize)]
    struct ById<'a> {
        #[serde(borrow)]
        id: Option<&'a RawValue>,
        hold: Option<&'a RawValue>,
    }
    // The form that reads the body next reports what is wrong with it.
    let Ok(ById { id: Some(_), hold: None }) = serde_json::from_slice(body) else {
        return Ok(None);
    };
    let mut question: QuestionJson<'a> = read_one(body)?;
    let name = name_of(question.id.take())?.ok_or_else(|| Problem::bad("an `id`"))?;
    let (actual, ttl) = (question.actual.take(), question.ttl.take());
    let hold = service.named(question.into_question(service)?, name)?;
    Ok(Some((hold, actual, ttl)))
}

pub(super) fn name_of(id: Option<Text<'_>>) -> Result<Option<HoldName>, Problem> {
    Ok(id.map(|Text(id)| hold_name(&id)).transpose()?)
}

/// The response to a body for a hold that was placed.
pub(super) async fn settle(
    service: &Service,
    body: &[u8],
    operation: Operation,
    denial: Denial,
) -> Result<Reply, Problem> {
    if denial.is_given() {
        return Err(Problem::bad("nothing is denied here: leave the query out").at("deny_status"));
    }
    let (mut held, actual, ttl) = match settled_by_id(service, body)? {
        Some(named) => named,
        None => {
            let SettleJson { hold, actual, ttl } = read_one(body)?;
            (service.signed(&hold)?.into(), actual, ttl)
        }
    };
    for (is_given, is_for, field) in
        [(actual.is_some(), Operation::Commit, "actual"), (ttl.is_some(), Operation::Renew, "ttl")]
    {
        if is_given && operation != is_for {
            return Err(Problem::bad(format!("`{field}` is not for this: leave it out")).at(field));
        }
    }
    Ok(match operation {
        Operation::Commit => {
            let missing = || Problem::bad("missing field `actual`: the units used").at("actual");
            let settled = {
                let UsedJson(actual) = actual.ok_or_else(missing)?;
                service.commit(&held, actual).await?
            };
            json(&Committed::new(&held.hold, &settled))
        }
        Operation::Renew => {
            let ttl = ttl.map(|Text(text)| ttl_of(&text)).transpose()?;
            let holding = service.renew(&mut held.hold, ttl).await?;
            json(&renewed(holding, held.hold.id.is_of_any_kind()))
        }
        _ => {
            service.release(&held).await?;
            json(&Released::new())
        }
    })
}

/// The response to a body for a new hold.
pub(super) async fn place(
    service: &Service,
    body: &[u8],
    operation: Operation,
    denial: Denial,
) -> Result<Reply, Problem> {
    let mut question: QuestionJson<'_> = read_one(body)?;
    let terms = match operation {
        Operation::Reserve => {
            let ttl = question.ttl.take().map(|Text(text)| ttl_of(&text)).transpose()?;
            let at_end = question.at_end.take();
            let at_end = at_end.as_ref().map(|Text(text)| text.as_ref());
            HoldTerms::reserve(ttl, at_end)?
        }
        _ => HoldTerms::acquire(),
    };
    let terms = terms.named(name_of(question.id.take())?);
    let question = question.into_question(service)?;
    let Answered { held: answered, holding, undelivered } = service.hold(question, terms).await?;
    let text = holding.as_ref().and_then(|holding| header_of(&holding.hold));
    let mut response = json(&crate::wire::held(&answered, holding));
    response.headers_mut().extend(text.map(|text| (HOLD, text)));
    if let Some(undelivered) = undelivered {
        undelivered.attach(response.extensions_mut());
    }
    denial.apply(&answered.answer, &mut response);
    Ok(response)
}

/// The hold for proxies, which read headers and no bodies. None where it is longer than they take.
fn header_of(hold: &str) -> Option<HeaderValue> {
    let is_short = hold.len() <= MAX_HEADER_BYTES;
    is_short.then(|| HeaderValue::from_str(hold).ok()).flatten()
}

fn ttl_of(text: &str) -> Result<Duration, Problem> {
    tollgate::HoldTerms::read_ttl(text)
        .map_err(|error| Problem::bad(format!("{}: {}", error.what(), error.remedy())).at("ttl"))
}

//! `/v1/reserve`, `/v1/commit`, `/v1/acquire`, `/v1/renew` and `/v1/release`: holds.

use core::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use serde::{Deserialize, Serialize};
use tollgate::{Charged, HoldKind, Period};

use super::check::{Denial, json};
use super::problem::Problem;
use super::question::{QuestionJson, Text, not_null, read_one};
use crate::json::{AnswerJson, Wait};
use crate::service::{HoldTerms, Holding, Service};

/// What is done with a hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    Reserve,
    Commit,
    Acquire,
    Renew,
    Release,
}

impl Act {
    pub(super) fn from_path(path: &str) -> Option<Self> {
        Some(match path {
            "/v1/reserve" => Self::Reserve,
            "/v1/commit" => Self::Commit,
            "/v1/acquire" => Self::Acquire,
            "/v1/renew" => Self::Renew,
            "/v1/release" => Self::Release,
            _ => return None,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommitJson {
    hold: String,
    actual: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RenewJson<'a> {
    hold: String,
    #[serde(borrow, default, deserialize_with = "not_null")]
    ttl: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReleaseJson {
    hold: String,
}

/// An answer, with the hold where one was placed.
#[derive(Serialize)]
struct HeldJson<'a> {
    #[serde(flatten)]
    answer: AnswerJson<'a>,
    hold: Option<String>,
    fence: Option<u64>,
    /// How long it lasts, unless it is renewed or settled.
    ends_after: Option<Wait>,
}

#[derive(Serialize)]
struct CommittedJson {
    already: bool,
    actual: u64,
    limits: Vec<ChargedJson>,
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
struct RenewedJson {
    hold: String,
    fence: u64,
    end_us: u64,
}

#[derive(Serialize)]
struct ReleasedJson {
    released: bool,
}

/// The response to a body for one of these paths.
pub(super) async fn respond(
    service: &Service,
    body: &[u8],
    act: Act,
    denial: Denial,
) -> Result<Response<Full<Bytes>>, Problem> {
    match act {
        Act::Reserve | Act::Acquire => place(service, body, act, denial).await,
        _ if denial.is_given() => {
            Err(Problem::bad("nothing is denied here: leave the query out").at("deny_status"))
        }
        Act::Commit => {
            let CommitJson { hold, actual } = read_one(body)?;
            let settled = service.commit(&hold, actual).await?;
            let limits = settled.charged.iter().map(ChargedJson::from).collect();
            Ok(json(&CommittedJson { already: settled.already, actual: settled.actual, limits }))
        }
        Act::Renew => {
            let RenewJson { hold, ttl } = read_one(body)?;
            let ttl = ttl.map(|Text(text)| ttl_of(&text)).transpose()?;
            let Holding { hold, fence, end } = service.renew(&hold, ttl).await?;
            Ok(json(&RenewedJson { hold, fence, end_us: end.as_micros() }))
        }
        Act::Release => {
            let ReleaseJson { hold } = read_one(body)?;
            service.release(&hold).await?;
            Ok(json(&ReleasedJson { released: true }))
        }
    }
}

async fn place(
    service: &Service,
    body: &[u8],
    act: Act,
    denial: Denial,
) -> Result<Response<Full<Bytes>>, Problem> {
    let mut question: QuestionJson<'_> = read_one(body)?;
    let terms = match act {
        Act::Reserve => {
            let ttl = question.ttl.take().ok_or_else(|| {
                Problem::bad("for how long? `ttl` is missing, as \"60s\"").at("ttl")
            })?;
            let kind = match question.at_end.take() {
                None => HoldKind::Reserve,
                Some(Text(text)) if text == "charge" => HoldKind::Charging,
                Some(Text(text)) => {
                    let detail = format!(
                        "`{text}` is nothing that an end does: write \"charge\", or leave it out \
                         for a hold whose end charges nothing"
                    );
                    return Err(Problem::bad(detail).at("at_end"));
                }
            };
            HoldTerms { kind, ttl: Some(ttl_of(&ttl.0)?) }
        }
        _ => HoldTerms { kind: HoldKind::Acquire, ttl: None },
    };
    let question = question.into_question(service)?;
    let (held, holding) = service.hold(question, terms).await?;
    let answer = &held.answer;
    let now = answer.decision().map(tollgate::Decision::at);
    let ends_after = holding.as_ref().zip(now).map(|(holding, now)| {
        let us = holding.end.as_micros().saturating_sub(now.as_micros());
        Wait(Duration::from_micros(us))
    });
    let (hold, fence) = holding.map(|it| (it.hold, it.fence)).unzip();
    let answer_json = AnswerJson::new(answer);
    let mut response = json(&HeldJson { answer: answer_json, hold, fence, ends_after });
    denial.apply(answer, &mut response);
    Ok(response)
}

fn ttl_of(text: &str) -> Result<Duration, Problem> {
    let read: Result<Period, _> = text.parse();
    read.map(Period::as_duration)
        .map_err(|error| Problem::bad(format!("{}: {}", error.what(), error.remedy())).at("ttl"))
}

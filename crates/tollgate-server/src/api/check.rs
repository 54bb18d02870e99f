//! `/v1/check` and `/v1/peek`: questions by policies and under limits that the caller brings.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use serde_json::value::RawValue;
use tollgate::{Ask, Error, LimitSet, MAX_COST, Subject};
use tollgate_policy::{Answer, Gate, OnFailure, Terms};
use tollgate_stores::AnyStore;
use tollgate_tower::identity::PathReading;

use super::caller_limits::{CallerLimits, Gatekeeper};
use super::limits::BroughtLimits;
use super::problem::Problem;
use super::question::{Body, Limits, On, Question, Text, Told, read, read_one};
use super::receipts::{MAX_RECEIPT_BYTES, Receipts};
use super::whose::subject_of;
use crate::json::AnswerJson;

/// What an answer over one limit has, and more: it is written without growing.
const USUAL_BYTES: usize = 768;

/// How many limits the items of one batch have together: each is told in the answer.
const MAX_BATCH_LIMITS: usize = 1_024;

/// How long a batch may take: whoever waits for it waits for all.
const BATCH_TIME: Duration = Duration::from_secs(1);

/// After how many limits a batch lets others have a turn: some tens of microseconds.
const TURN_LIMITS: usize = 64;

/// Answers questions.
#[derive(Debug)]
pub(crate) struct Checks {
    pub(crate) gate: Gate<AnyStore>,
    pub(crate) receipts: Receipts,
    caller_limits: Gatekeeper,
    /// How the paths of described requests are read.
    pub(crate) paths: PathReading,
    limits: Arc<BroughtLimits>,
}

/// What is done with a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Do {
    Check,
    Peek,
}

/// One subject, or several, with their limits.
pub(crate) type Parts = Vec<(Subject, LimitSet)>;

impl Checks {
    pub(crate) fn new(
        gate: Gate<AnyStore>,
        receipts: Receipts,
        paths: PathReading,
        allowed: CallerLimits,
        limits: Arc<BroughtLimits>,
    ) -> Self {
        let on_redis = matches!(gate.store(), AnyStore::Redis(_));
        let caller_limits = Gatekeeper::new(allowed, on_redis);
        Self { gate, receipts, caller_limits, paths, limits }
    }

    /// The response to a body of questions; `deny_status` is that of a single denial.
    pub(crate) async fn respond(
        &self,
        body: &[u8],
        act: Do,
        deny_status: Option<StatusCode>,
    ) -> Result<Response<Full<Bytes>>, Problem> {
        match read(body)? {
            Body::One(question) => {
                let receipt = question.receipt.unwrap_or(false);
                let answer = self.answer(*question, act).await?;
                let mut response = json(&self.said(&answer, receipt));
                if let Some(status) = deny_status.filter(|_| !answer.is_allowed()) {
                    *response.status_mut() = status;
                    if let Some(wait) = answer.retry_after() {
                        let seconds = tollgate_tower::answer::retry_seconds(wait);
                        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
                    }
                }
                Ok(response)
            }
            Body::Many(_) if deny_status.is_some() => Err(Problem::bad(
                "a batch has no one status: leave `deny_status` out, and look at each `allowed`",
            )
            .at("deny_status")),
            Body::Many(items) => self.many(&items, act).await,
        }
    }

    /// Items one after the other: each sees what those before it have charged.
    async fn many(&self, items: &[&RawValue], act: Do) -> Result<Response<Full<Bytes>>, Problem> {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Item<'a> {
            Answer(Box<AnswerJson<'a>>),
            Problem { problem: Problem },
        }
        let mut answers: Vec<Result<(Answer, bool), Problem>> = Vec::with_capacity(items.len());
        let (began, mut limits, mut turn) = (Instant::now(), 0, 0);
        for (place, item) in items.iter().enumerate() {
            let answer = async {
                if began.elapsed() > BATCH_TIME {
                    return Err(Problem::new(
                        StatusCode::SERVICE_UNAVAILABLE,
                        format!("the items before took {BATCH_TIME:?}: this one was not asked"),
                    ));
                }
                if limits > MAX_BATCH_LIMITS {
                    return Err(Problem::bad(format!(
                        "the items before have {MAX_BATCH_LIMITS} limits: this one was not asked"
                    )));
                }
                let question: Question<'_> = read_one(item.get().as_bytes())?;
                let receipt = question.receipt.unwrap_or(false);
                Ok((self.answer(question, act).await?, receipt))
            };
            let within = |problem: Problem| problem.within(&format!("checks[{place}]"));
            let answer = answer.await.map_err(within);
            let decision = answer.as_ref().ok().and_then(|(answer, _)| answer.decision());
            let asked = decision.map_or(0, |decision| decision.reports().count());
            answers.push(answer);
            (limits, turn) = (limits + asked, turn + asked.max(1));
            // A store in memory never waits, and nobody else on this thread would be answered.
            if turn >= TURN_LIMITS {
                turn = 0;
                tokio::task::yield_now().await;
            }
        }
        let items = answers.iter().map(|answer| match answer {
            Ok((answer, receipt)) => Item::Answer(Box::new(self.said(answer, *receipt))),
            Err(problem) => Item::Problem { problem: problem.clone() },
        });
        Ok(json(&HashMap::from([("results", items.collect::<Vec<_>>())])))
    }

    fn said<'a>(&self, answer: &'a Answer, receipt: bool) -> AnswerJson<'a> {
        let mut said = AnswerJson::of(answer);
        if receipt {
            let receipt = answer.decision().and_then(tollgate::Decision::receipt);
            said.receipt = receipt.map(|receipt| self.receipts.sign(&receipt));
        }
        said
    }

    async fn answer(&self, question: Question<'_>, act: Do) -> Result<Answer, Problem> {
        let Question { policy, fields, limit, on, shard, on_failure, cost, receipt, .. } = question;
        let (deadline, key) = (question.deadline, question.idempotency_key);
        if key.is_some() {
            let why = match (act, self.gate.store()) {
                (Do::Peek, _) => {
                    Some("a peek charges nothing, so there is nothing to guard".into())
                }
                (Do::Check, AnyStore::Redis(_)) => None,
                (Do::Check, store) => {
                    let kind = store.kind();
                    Some(format!("{kind} remembers no requests: count on Redis, or leave it out"))
                }
            };
            if let Some(why) = why {
                return Err(Problem::bad(why).at("idempotency_key"));
            }
        }
        let subject = subject_of(question.subject, question.written_subject)?;
        let brought = subject.is_some() || limit.is_some() || on.is_some();
        let by_policies = policy.is_some() || fields.is_some();
        match (brought, by_policies) {
            (true, true) => Err(Problem::bad(
                "this asks both by policies (`policy`, `fields`) and under limits of its own \
                 (`subject`, `limit`, `on`): ask by the one or by the other",
            )),
            (false, false) => Err(Problem::bad(
                "this asks nothing: say `subject` and `limit`, or `fields` for your policies",
            )),
            (false, true) => {
                if key.is_some() {
                    let detail = "requests are remembered under limits that you bring, and not by \
                                  policies: ask with `subject` and `limit`, or leave it out";
                    return Err(Problem::bad(detail).at("idempotency_key"));
                }
                let own = [
                    shard.map(|_| "shard"),
                    on_failure.map(|_| "on_failure"),
                    deadline.map(|_| "deadline"),
                ];
                if let Some(field) = own.into_iter().flatten().next() {
                    let detail = format!("policies say their own `{field}`: leave it out");
                    return Err(Problem::bad(detail).at(field));
                }
                let fields = fields.unwrap_or_default().read(self.paths);
                let fields = fields.map_err(|why| Problem::bad(why).at("fields"))?;
                self.by_policies(policy.as_ref(), &fields, cost, act).await
            }
            (true, false) => {
                let deadline = match deadline {
                    Some(Text(text)) => deadline_of(&text)?,
                    None => self.gate.usual_deadline(),
                };
                let terms = Terms::new(failure_rule(on_failure.as_ref())?).deadline(deadline);
                let parts = self.parts(subject, limit, on)?;
                self.caller_limits.admit(&parts)?;
                if receipt == Some(true) && bytes_of(&parts) > MAX_RECEIPT_BYTES {
                    let detail = "a receipt over subjects and limits that are so long would be too \
                                  long to come back: leave it out, or ask in several questions";
                    return Err(Problem::bad(detail).at("receipt"));
                }
                let ask = ask(&parts, shard)?.cost(cost.unwrap_or(1));
                let answer = match (act, &key) {
                    (Do::Check, Some(Text(key))) => {
                        self.gate.check_limits_once(key, ask, terms).await
                    }
                    (Do::Check, None) => self.gate.check_limits(ask, terms).await,
                    (Do::Peek, _) => self.gate.peek_limits(ask, terms).await,
                };
                answer.map_err(|error| of_ask(&error))
            }
        }
    }

    async fn by_policies(
        &self,
        policy: Option<&Text<'_>>,
        fields: &Told<'_>,
        cost: Option<u64>,
        act: Do,
    ) -> Result<Answer, Problem> {
        let mut looked = match policy {
            None => self.gate.look(fields),
            Some(Text(name)) => {
                self.gate.look_named(name, fields).ok_or_else(|| no_policy(name))?
            }
        };
        if let Some(cost) = cost {
            if cost == 0 || cost > MAX_COST {
                let detail = format!("a cost is 1 to 2^40 = {MAX_COST}, not {cost}");
                return Err(Problem::bad(detail).at("cost"));
            }
            looked.cost(cost).map_err(|policy| {
                Problem::bad(format!(
                    "the policy `{}` says its own cost ({}): leave it out, or let the policy take \
                     it from a field, as cost = {{ from = \"field.cost\", max = 100 }}",
                    policy.name, policy.cost
                ))
                .at("cost")
            })?;
        }
        Ok(match act {
            Do::Check => self.gate.ask(looked).await,
            Do::Peek => self.gate.peek(looked).await,
        })
    }

    /// The subjects with their limits, from either way to write them.
    pub(crate) fn parts(
        &self,
        subject: Option<Subject>,
        limit: Option<Limits<'_>>,
        on: Option<Vec<&RawValue>>,
    ) -> Result<Parts, Problem> {
        match (subject, limit, on) {
            (Some(subject), Some(limit), None) => Ok(vec![(subject, self.limits_of(&limit)?)]),
            (None, None, Some(list)) => {
                let each = list.iter().enumerate().map(|(place, item)| {
                    let part = || {
                        let On { subject, written_subject, limit } =
                            read_one(item.get().as_bytes())?;
                        let subject = subject_of(subject, written_subject)?.ok_or_else(nobody)?;
                        Ok((subject, self.limits_of(&limit)?))
                    };
                    part().map_err(|problem: Problem| problem.within(&format!("on[{place}]")))
                });
                each.collect()
            }
            (None, Some(_), None) => Err(nobody()),
            (Some(_), None, None) => {
                Err(Problem::bad("under which limit? `limit` is missing, as \"10/s\"").at("limit"))
            }
            _ => Err(Problem::bad(
                "`on` lists all subjects: put `subject` and `limit` into it, or leave it out",
            )
            .at("on")),
        }
    }

    fn limits_of(&self, Limits(text): &Limits<'_>) -> Result<LimitSet, Problem> {
        self.limits.read(text).map_err(|error| Problem::bad(error.to_string()).at("limit"))
    }
}

/// About what a receipt over these has.
fn bytes_of(parts: &Parts) -> usize {
    parts.iter().map(|(subject, limits)| subject.as_str().len() + limits.full_text().len()).sum()
}

/// The ask over these parts, of which there is at least one.
pub(crate) fn ask<'p>(
    parts: &'p [(Subject, LimitSet)],
    shard: Option<Text<'p>>,
) -> Result<Ask<'p>, Problem> {
    if parts.is_empty() {
        return Err(Problem::bad("an empty list asks nothing").at("on"));
    }
    let each: Vec<_> = parts.iter().map(|(subject, limits)| (subject, limits)).collect();
    let ask = Ask::from(each);
    Ok(match shard {
        Some(Text(shard)) => ask.shard(shard),
        None => ask,
    })
}

pub(crate) fn no_policy(name: &str) -> Problem {
    let detail = format!("there is no policy `{name}`: GET /v1/policies lists them");
    Problem::new(StatusCode::NOT_FOUND, detail).at("policy")
}

pub(crate) fn nobody() -> Problem {
    Problem::bad("whose count? `subject` is missing, as \"user:42\"").at("subject")
}

fn deadline_of(text: &str) -> Result<Duration, Problem> {
    tollgate_policy::parse_deadline(text).ok_or_else(|| {
        let detail =
            format!("`{text}` is no deadline: write a duration from 1ms to 1m, as \"20ms\"");
        Problem::bad(detail).at("deadline")
    })
}

fn failure_rule(said: Option<&Text<'_>>) -> Result<OnFailure, Problem> {
    match said.map(|Text(word)| &**word) {
        None | Some("deny") => Ok(OnFailure::Deny),
        Some("allow") => Ok(OnFailure::Allow),
        Some(other) => {
            Err(Problem::bad(format!("`{other}` is no failure rule: say \"deny\" or \"allow\""))
                .at("on_failure"))
        }
    }
}

/// What the library refuses of a question.
pub(crate) fn of_ask(error: &Error) -> Problem {
    match error {
        Error::Store(error) => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("the store: {error}"))
        }
        other => Problem::bad(other.to_string()),
    }
}

/// A 200 with this.
pub(crate) fn json(value: &impl Serialize) -> Response<Full<Bytes>> {
    // What is written has only texts for keys, and no number that JSON has not.
    let mut body = Vec::with_capacity(USUAL_BYTES);
    let _ = serde_json::to_writer(&mut body, value);
    let mut response = Response::new(Full::new(Bytes::from(body)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

//! The admin API: inspect, adjust and reset counts, on a separate listener.

use core::future::Future;
use core::pin::Pin;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use http::{Request, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tollgate::wire::{Answer, OpenHold, Released};
use tollgate::{Adjustment, Inspection, LimitSet, ParseError, Period, Subject};
use tollgate_policy::{Effect, OnFailure, SubjectCounts, Terms};

use super::answer::{json, no_sniff, no_store, reply, text};
use super::bearer::Guard;
use super::cost::{AdjustmentJson, CostJson};
use super::problem::Problem;
use super::query::Query;
use super::question::{LimitsJson, no_subject, not_null, parts, read_one};
use super::request::{body_of, is_read, strict};
use super::subject::{SubjectJson, subject_of};
use super::text::Text;
use super::{Api, policies, queues, rulings};
use crate::clock::since_epoch;
use crate::console::{self, Overview};
use crate::http::{Answering, Caller, Explain, Reply, Whole};
use crate::operations::{Callers, Operation};
use crate::recorder::Recorder;
use crate::reload::{Reader, ReloadError};
use crate::service::{Parts, Refusal, ask, no_policy};
use crate::top::By;
use crate::wire;

/// The list of endpoints, as plain text.
pub(super) const ADMIN_INDEX: &str = include_str!("admin_index.txt");

/// The subjects of `/v1/admin/top`: how many by default, and at most.
const TOP_USUAL: usize = 10;
const TOP_MOST: usize = 100;

/// The API for administrators.
pub(crate) struct Admin {
    pub(crate) api: Arc<Api>,
    pub(crate) guard: Guard,
    pub(crate) reader: Reader,
    pub(crate) recorder: Recorder,
    pub(crate) overview: Overview,
}

/// The count that a request is about.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CountJson<'a> {
    #[serde(borrow, default, deserialize_with = "not_null")]
    policy: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    subject: Option<SubjectJson<'a>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    written_subject: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    limit: Option<LimitsJson<'a>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    on: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    shard: Option<Text<'a>>,
    /// The units to add; only for an adjustment.
    #[serde(default, deserialize_with = "not_null")]
    pub(super) by: Option<AdjustmentJson>,
    /// The units of a credit, how long it lasts, and its id.
    #[serde(default, deserialize_with = "not_null")]
    pub(super) units: Option<CostJson>,
    #[serde(borrow, default, rename = "for", deserialize_with = "not_null")]
    pub(super) lasts: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    pub(super) id: Option<Text<'a>>,
}

#[derive(Serialize)]
struct Inspected {
    held: Option<HeldJson>,
}

/// The stored state of a count.
#[derive(Serialize)]
struct HeldJson {
    written_under: String,
    words: Vec<u64>,
    logs: Vec<Vec<(u64, u64)>>,
    fresh_at_us: u64,
    shared: bool,
    /// How many holds are open, and the first 100 of them to end.
    open: u64,
    holds: Vec<OpenHold>,
}

/// The answer that a check of one unit would get now.
#[derive(Serialize)]
struct Peeked<'a> {
    /// The decision in words.
    text: Option<String>,
    answer: Answer<'a>,
}

/// The hold that is given back.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReleaseJson {
    hold: String,
}

/// The subject that is looked up, in the form of the log of denials.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LookUp<'a> {
    #[serde(borrow)]
    subject: Text<'a>,
}

/// The entry of a request in the audit log.
#[derive(Default)]
pub(super) struct Audit {
    /// The subjects in the form of the log of denials.
    pub(super) subjects: String,
    by: Option<Adjustment>,
    /// The ruling, the requests for which rulings were lifted, or the dead jobs of a queue.
    pub(super) about: String,
}

type Answered<'a> = Pin<Box<dyn Future<Output = Result<Reply, Problem>> + Send + 'a>>;

impl Answering for Admin {
    const EXPLAIN: Explain = super::problem::explain;

    fn no_room() -> Reply {
        Api::no_room()
    }

    fn is_open(&self) -> bool {
        self.api.is_open()
    }

    async fn answer(&self, request: Request<Whole>, caller: Caller<'_>) -> Reply {
        let operation = Operation::at(request.uri().path());
        let mut response = self.answered(request, caller).await;
        no_sniff(response.headers_mut());
        self.api.count(operation, response.status());
        response
    }
}

impl Admin {
    async fn answered(&self, request: Request<Whole>, caller: Caller<'_>) -> Reply {
        let peer = caller.peer.address();
        if console::is_page(request.uri().path()) {
            let reply = self.guard.refuse_page(request.headers(), peer);
            return reply.unwrap_or_else(|| self.page(&request));
        }
        if let Some(refused) = self.guard.refuse(request.headers(), peer).await {
            return refused;
        }
        let answered: Answered<'_> = Box::pin(self.route(request, caller));
        answered.await.unwrap_or_else(|problem| problem.response())
    }

    /// A file of the console.
    fn page(&self, request: &Request<Whole>) -> Reply {
        let path = request.uri().path();
        if let Err(problem) = strict(request) {
            return problem.response();
        }
        if !is_read(request) {
            return Problem::method("GET");
        }
        let page = console::page(path, self.guard.has_token());
        page.unwrap_or_else(|| Problem::not_found(path).response())
    }

    async fn route(&self, request: Request<Whole>, caller: Caller<'_>) -> Result<Reply, Problem> {
        strict(&request)?;
        let path = request.uri().path();
        let operation = Operation::at(path).filter(|it| it.is_for(Callers::Administrators));
        let Some(operation) = operation else { return Err(Problem::not_found(path)) };
        if operation.monitors() {
            return self.api.route(request, caller).await;
        }
        if let Some(others) = operation.row().methods.instead_of(request.method()) {
            return Ok(Problem::method(others));
        }
        let service = &self.api.service;
        let query = Query::new(request.uri());
        match operation {
            Operation::Index => Ok(text("text/plain; charset=utf-8", ADMIN_INDEX)),
            Operation::Series => self.series(query),
            Operation::Rulings => rulings::list(&service.gate).await,
            Operation::Top => self.top(query),
            Operation::Overview => {
                let with_peers = query.only(operation)?.with_peers()?;
                let figures = self.overview.answer(with_peers).await;
                Ok(no_store(reply((StatusCode::OK, figures))))
            }
            Operation::AdminPolicies => policies::list(service, query),
            Operation::AdminExplain => policies::explain(service, query).await,
            _ => self.act(operation, request, caller.peer.address()).await,
        }
    }

    /// Does what an administrator asks for, and logs it.
    async fn act(
        &self,
        operation: Operation,
        request: Request<Whole>,
        peer: IpAddr,
    ) -> Result<Reply, Problem> {
        let (body, act) = (body_of(request)?, operation.word());
        let mut of = Audit::default();
        let answered = match operation {
            Operation::Reload => self.reload().await,
            Operation::Ban => self.rule(Effect::Ban, &body, &mut of).await,
            Operation::Exempt => self.rule(Effect::Exempt, &body, &mut of).await,
            Operation::Set => self.rule(Effect::Set, &body, &mut of).await,
            Operation::Lift => {
                let about = read_one(&body)?;
                rulings::lift(&self.api.service.gate, about, &mut of.about).await
            }
            Operation::Lookup => self.look_up(&body, &mut of),
            Operation::Credit => self.credit(&body, &mut of).await,
            Operation::AdminRelease => self.release(&body, &mut of).await,
            Operation::Dead => queues::dead(&self.api.queues, &body, &mut of.about).await,
            _ => self.correct(operation, &body, &mut of).await,
        };
        // Log every act with its subject, also when it fails: each corrected count must be
        // explainable.
        let Audit { subjects, by, about } = of;
        let [subjects, about] = [subjects, about].map(|text| (!text.is_empty()).then_some(text));
        // Requests are a number in the log.
        let plain = by.as_ref().and_then(Adjustment::plain);
        let by_unit = by.filter(|by| by.plain().is_none()).map(|by| by.to_string());
        let by: &dyn tracing::Value = if by_unit.is_some() { &by_unit } else { &plain };
        match &answered {
            Ok(_) => tracing::info!(
                target: "tollgate", act, %peer, subjects, by, about, "admin request"
            ),
            // The detail is not logged, since it may quote the subject.
            Err(problem) => tracing::warn!(
                target: "tollgate",
                act,
                %peer,
                subjects,
                by,
                about,
                status = problem.status().as_u16(),
                "an administrator was refused"
            ),
        }
        answered
    }

    async fn rule(&self, effect: Effect, body: &[u8], of: &mut Audit) -> Result<Reply, Problem> {
        rulings::rule(&self.api, effect, read_one(body)?, &mut of.about).await
    }

    /// The subjects with their limits that a request is about, and their shard.
    pub(super) fn counts(
        &self,
        count: CountJson<'_>,
        operation: Operation,
    ) -> Result<(Parts, Option<String>), Problem> {
        let CountJson { policy, subject, written_subject, limit, on, shard, .. } = count;
        let mut subject = subject_of(subject, written_subject)?;
        if policy.is_some()
            && let Some(named) = &mut subject
        {
            *named = self.api.service.reading.key_hashed(named).map_err(|why| why.at("subject"))?;
        }
        let mut shard = shard.map(|Text(shard)| shard.into_owned());
        let parts = match (&policy, limit, on) {
            (Some(Text(policy)), None, None) => {
                let subject = subject.ok_or_else(no_subject)?;
                let counts = self.counts_of(policy, &subject, operation)?;
                shard = shard.or(counts.shard);
                counts.limits.into_iter().map(|limits| (subject.clone(), limits)).collect()
            }
            (policy, limit, on) => {
                let mut parts = parts(&self.api.service, subject, limit, on)?;
                if let Some(Text(policy)) = policy {
                    for (_, limits) in &mut parts {
                        let within = limits.clone().in_policy(policy);
                        let wrong = |error: ParseError| Problem::bad(error.to_string());
                        *limits = within.map_err(|error| wrong(error).at("policy"))?;
                    }
                }
                parts
            }
        };
        Ok((parts, shard))
    }

    /// Inspects a count, or changes it.
    async fn correct(
        &self,
        operation: Operation,
        body: &[u8],
        of: &mut Audit,
    ) -> Result<Reply, Problem> {
        let mut count: CountJson<'_> = read_one(body)?;
        let by = count.by.take().map(|AdjustmentJson(by)| by);
        if by.is_some() != (operation == Operation::Adjust) {
            return Err(match by {
                Some(_) => Problem::bad("only an adjustment has a `by`"),
                None => Problem::bad("by how many units? `by` is missing: 5 gives, -5 takes"),
            }
            .at("by"));
        }
        let of_credit = [
            ("units", count.units.is_some()),
            ("for", count.lasts.is_some()),
            ("id", count.id.is_some()),
        ];
        if let Some((name, _)) = of_credit.into_iter().find(|(_, is_there)| *is_there) {
            return Err(Problem::bad(format!("only a credit has `{name}`")).at(name));
        }
        // The counts of a policy are independent, so each is reset alone. Those of `on` stay
        // together, and the gate refuses several.
        let of_policy = count.policy.is_some() && count.limit.is_none() && count.on.is_none();
        let (parts, shard) = self.counts(count, operation)?;
        of.subjects = self.written(&parts);
        of.by.clone_from(&by);
        let gate = &self.api.service.gate;
        let shard = shard.as_deref();
        let refused = Refusal::from;
        match operation {
            Operation::Inspect => {
                let held = gate.admin().inspect(ask(&parts, shard)?).await.map_err(refused)?;
                let count = parts.first().map(|(subject, limits)| (subject, limits, shard));
                Ok(json(&Inspected { held: held.zip(count).map(|it| self.held_json(it)) }))
            }
            Operation::AdminPeek => {
                let terms = Terms::new(OnFailure::Deny).deadline(gate.current().deadline());
                let answer = gate
                    .inline()
                    .check(ask(&parts, shard)?.peek(), terms)
                    .await
                    .map_err(refused)?;
                let text = answer.decision().map(ToString::to_string);
                Ok(json(&Peeked { text, answer: wire::answer(&answer) }))
            }
            Operation::Reset => {
                let each = if of_policy { 1 } else { parts.len().max(1) };
                let mut was_there = false;
                for parts in parts.chunks(each) {
                    was_there |= gate.admin().reset(ask(parts, shard)?).await.map_err(refused)?;
                }
                Ok(json(&serde_json::json!({ "was_there": was_there })))
            }
            _ => {
                let by = by.unwrap_or_else(|| 0.into());
                let changed =
                    gate.admin().adjust(ask(&parts, shard)?, by).await.map_err(refused)?;
                Ok(json(&serde_json::json!({ "changed": changed })))
            }
        }
    }

    /// Subjects in the form of the log of denials.
    pub(super) fn written(&self, parts: &Parts) -> String {
        let written = |(subject, _): &(Subject, LimitSet)| self.api.metrics.written(subject);
        let mut subjects: Vec<_> = parts.iter().filter_map(written).collect();
        subjects.dedup();
        subjects.join(" ")
    }

    fn held_json(
        &self,
        (held, count): (Inspection, (&Subject, &LimitSet, Option<&str>)),
    ) -> HeldJson {
        let holds = OpenHold::each(count, &held, |hold| self.api.service.sign(hold));
        HeldJson {
            written_under: held.written_under,
            words: held.words,
            logs: held.logs,
            fresh_at_us: held.fresh_at.as_micros(),
            shared: held.shared,
            open: held.open,
            holds,
        }
    }

    /// Gives back what a hold keeps that an inspection has shown, or any other.
    async fn release(&self, body: &[u8], of: &mut Audit) -> Result<Reply, Problem> {
        let ReleaseJson { hold } = read_one(body)?;
        let service = &self.api.service;
        let hold = service.signed(&hold)?;
        let written = hold.counts.iter().filter_map(|(it, _)| self.api.metrics.written(it));
        of.subjects = written.collect::<Vec<_>>().join(" ");
        service.release(&hold.into()).await?;
        Ok(json(&Released::new()))
    }

    /// The counts that a policy keeps for a subject: all of them for a reset, otherwise exactly
    /// one.
    fn counts_of(
        &self,
        policy: &str,
        subject: &Subject,
        operation: Operation,
    ) -> Result<SubjectCounts, Problem> {
        let counts = self.api.service.gate.current().counts_of(policy, subject);
        let counts = counts.map_err(|error| Problem::bad(error.to_string()).at("policy"))?;
        let counts = counts.ok_or_else(|| no_policy(policy))?;
        match &counts.limits[..] {
            [] => Err(Problem::bad(format!(
                "the policy `{policy}` counts nobody by these dimensions: GET /v1/policies says by \
                 which it counts"
            ))
            .at("subject")),
            [_, _, ..] if operation != Operation::Reset => {
                let texts: Vec<_> = counts.limits.iter().map(ToString::to_string).collect();
                let detail = format!(
                    "the policy `{policy}` has several counts for this subject, under `{}`: name \
                     one as `limit`",
                    texts.join("`, `")
                );
                Err(Problem::bad(detail).at("limit"))
            }
            _ => Ok(counts),
        }
    }

    /// The decisions of the last period, by limit and outcome.
    fn series(&self, query: Query<'_>) -> Result<Reply, Problem> {
        let query = query.only(Operation::Series)?;
        let text = query.get("last").unwrap_or("10m");
        let last_s = seconds(text).ok_or_else(|| {
            let detail = format!("`{text}` is not a time to look back: write e.g. 10m, 24h or 30d");
            Problem::bad(detail).at("last")
        })?;
        Ok(json(&self.recorder.last(last_s, since_epoch().as_secs())))
    }

    /// The busiest or the most denied subjects of the last one to two minutes.
    fn top(&self, query: Query<'_>) -> Result<Reply, Problem> {
        let query = query.only(Operation::Top)?;
        let by = match query.get("by") {
            None | Some("asked") => By::Asked,
            Some("denied") => By::Denied,
            Some(text) => {
                let detail = format!("unknown `by`: `{text}`; use asked or denied");
                return Err(Problem::bad(detail).at("by"));
            }
        };
        let most = query.number("n", TOP_USUAL, TOP_MOST)?;
        // It is counted wherever this listener is.
        let top = self.api.metrics.top().ok_or_else(|| Problem::not_found("/v1/admin/top"))?;
        Ok(json(&top.busiest(by, most, Instant::now())))
    }

    /// The key behind a hash, among those that were counted in the last one to two minutes.
    fn look_up(&self, body: &[u8], of: &mut Audit) -> Result<Reply, Problem> {
        let LookUp { subject: Text(written) } = read_one(body)?;
        let top = self.api.metrics.top().ok_or_else(|| Problem::not_found("/v1/admin/lookup"))?;
        let found = top.find(&written);
        // A request may send any text: only subjects that were found are logged.
        if !found.is_empty() {
            of.subjects = written.into_owned();
        }
        Ok(no_store(json(&serde_json::json!({ "found": found }))))
    }

    async fn reload(&self) -> Result<Reply, Problem> {
        match self.reader.clone().read().await {
            Ok(read) => Ok(json(&serde_json::json!({ "revision": read.revision().to_string() }))),
            Err(ReloadError::NoFile) => Err(Problem::new(
                StatusCode::CONFLICT,
                "these are the policies of the demo: there is no file to read again",
            )),
            Err(ended @ ReloadError::Ended) => {
                Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, ended.to_string()))
            }
            Err(broken) => Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, broken.to_string())),
        }
    }
}

/// Parses a duration into whole seconds: `90s`, `10m`, `24h`, `30d`.
fn seconds(text: &str) -> Option<u64> {
    let duration = text.parse::<Period>().ok()?.as_duration();
    (duration.subsec_micros() == 0).then_some(duration.as_secs())
}

//! Envoy's rate limit service without a protocol: it answers the messages, over gRPC and as JSON.

use core::time::Duration;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use tollgate::{Decision, RequestId, Store as _};
use tollgate_envoy::proto::service::RateLimitRequest;
use tollgate_envoy::proto::service::RateLimitResponse;
use tollgate_envoy::proto::service::rate_limit_response::{Code, DescriptorStatus};
use tollgate_envoy::{Meaning, OnFailure};
use tollgate_policy::Answer;
use tollgate_tower::answer::Profile;
use tollgate_tower::identity::Networks;
use tonic::Status;

use super::answer::{self, Judged};
use super::decide::Decider;
use super::headers::{self, Limits, Templates};
use super::json::Messages;
use super::plan::{Planned, plan};
use super::question::Hits;
use super::rules::{Live, Rules};
use super::{metadata, policies, question, settle};
use crate::auth_options::AuthOptions;
use crate::envoy::{EnvoyOptions, EnvoyRules};
use crate::metrics::{Failure, Metrics};
use crate::service::Service;
use crate::start_error::StartError;

/// Answers questions about descriptors.
#[derive(Debug)]
pub(crate) struct Rls {
    rules: Arc<Rules>,
    denies_unknown: bool,
    /// The headers of answers; without it, those of HTTP, and none in the meaning of the reference.
    headers: Option<Profile>,
    metadata: bool,
    metrics: Metrics,
    /// Whether policies answer for domains without rules.
    has_policies: bool,
    messages: Option<Messages>,
    ids: Option<RequestIds>,
}

/// From whom ids of requests are read, and how long they are remembered.
#[derive(Debug)]
struct RequestIds {
    trust: Networks,
    remembered: Duration,
}

impl Rls {
    /// # Errors
    /// Rules that cannot be read.
    pub(crate) fn new(
        options: &EnvoyOptions,
        headers: Option<Profile>,
        auth: &AuthOptions,
        policies: Option<&PathBuf>,
        metrics: &Metrics,
    ) -> Result<Self, StartError> {
        if options.metrics && options.rules != EnvoyRules::None {
            metrics.count_rules();
        }
        Ok(Self {
            rules: Arc::new(Rules::load(options, metrics.clone())?),
            denies_unknown: options.denies_unknown,
            headers,
            metadata: options.metadata,
            metrics: metrics.clone(),
            has_policies: policies.is_some(),
            messages: Messages::new(),
            ids: auth
                .request_id_header
                .is_some()
                .then(|| RequestIds { trust: auth.trust.clone(), remembered: auth.request_id_for }),
        })
    }

    /// The rules in force.
    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Whether policies answer for domains without rules.
    pub(super) fn has_policies(&self) -> bool {
        self.has_policies
    }

    /// The first by name of the domains that have rules.
    pub(crate) fn domain(&self) -> Option<String> {
        self.rules.live().config().domains().min().map(str::to_owned)
    }

    /// The address of the control plane that has not sent any rules yet.
    pub(crate) fn awaited(&self) -> Option<&str> {
        self.rules.awaited()
    }

    /// Reads the rules again whenever they change, until it is dropped.
    pub(crate) async fn follow(self: Arc<Self>) {
        Arc::clone(&self.rules).follow().await;
    }

    /// Reads the rules again.
    pub(crate) async fn reread(self: Arc<Self>) {
        Arc::clone(&self.rules).reread().await;
    }

    /// Whether the ids are read that this peer gives to its requests. Anybody else could choose an
    /// id that was used, and be charged once in all.
    pub(crate) fn reads_ids_of(&self, peer: IpAddr) -> bool {
        self.ids.as_ref().is_some_and(|ids| ids.trust.contains(peer))
    }

    /// Counts the duration of an answer over gRPC, if the reference's metrics are asked for.
    pub(super) fn took(&self, duration: Duration) {
        if let Some(rules) = self.metrics.rules() {
            rules.answers.add(duration, 1);
        }
    }

    /// Counts a request without an answer of the counts, in the same way.
    fn fail(&self, failure: Failure) {
        if let Some(rules) = self.metrics.rules() {
            rules.fail(failure);
        }
    }

    /// Answers a request. `timeout` is the time that its caller waits; `is_trusted` says whether
    /// ids of its requests are read. Descriptors that name holds settle them.
    ///
    /// # Errors
    /// An invalid request, or a store that cannot answer (not an answer here).
    pub(crate) async fn answer(
        &self,
        service: &Service,
        request: &RateLimitRequest,
        timeout: Option<Duration>,
        is_trusted: bool,
    ) -> Result<RateLimitResponse, Status> {
        let answer = self.answer_or_fail(service, request, timeout, is_trusted).await;
        if let Err(status) = &answer {
            self.fail(match status.code() {
                tonic::Code::Unavailable => Failure::Store,
                _ => Failure::Request,
            });
        }
        answer
    }

    async fn answer_or_fail(
        &self,
        service: &Service,
        request: &RateLimitRequest,
        timeout: Option<Duration>,
        is_trusted: bool,
    ) -> Result<RateLimitResponse, Status> {
        let hits = question::read(request)?;
        let deadline = deadline(service, timeout)?;
        if settle::is_any(request) {
            let settled = self.settle(service, request.clone(), hits, deadline, is_trusted);
            return Box::pin(settled).await;
        }
        self.decide(service, request, hits, deadline, None).await
    }

    /// Answers a request of this peer in JSON, over HTTP: the status, and the answer or the
    /// problem. `None` where nothing is answered so.
    pub(crate) async fn json(
        &self,
        service: &Service,
        body: &[u8],
        peer: IpAddr,
    ) -> Option<(StatusCode, Bytes)> {
        let bad = |why: &str| Some((StatusCode::BAD_REQUEST, Bytes::from(format!("{why}\n"))));
        let messages = self.messages.as_ref()?;
        let request = match messages.read(body) {
            Ok(request) => request,
            Err(why) => return bad(&why),
        };
        let answer = self.answer(service, &request, None, self.reads_ids_of(peer));
        let response = match Box::pin(answer).await {
            Ok(response) => response,
            Err(status) if status.code() == tonic::Code::Unavailable => {
                let why = Bytes::from(format!("{}\n", status.message()));
                return Some((StatusCode::INTERNAL_SERVER_ERROR, why));
            }
            Err(status) => return bad(status.message()),
        };
        let status = match response.overall_code() {
            Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
            Code::Ok => StatusCode::OK,
            Code::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Some((status, Bytes::from(messages.write(&response))))
    }

    async fn settle(
        &self,
        service: &Service,
        mut request: RateLimitRequest,
        mut hits: Vec<Hits>,
        deadline: Duration,
        is_trusted: bool,
    ) -> Result<RateLimitResponse, Status> {
        let taken = settle::settle(service, &mut request, &mut hits).await?;
        let id = taken.request.as_deref().zip(self.ids.as_ref().filter(|_| is_trusted));
        let id =
            id.map(|(id, ids)| RequestId::new(id).remembered(ids.remembered).of_each_question());
        let mut response = match hits.is_empty() {
            true => {
                RateLimitResponse { overall_code: Code::Ok.into(), ..RateLimitResponse::default() }
            }
            false => self.decide(service, &request, hits, deadline, id).await?,
        };
        for place in taken.places {
            response.statuses.insert(place, settle::settled());
        }
        Ok(response)
    }

    pub(super) async fn decide(
        &self,
        service: &Service,
        request: &RateLimitRequest,
        hits: Vec<Hits>,
        deadline: Duration,
        id: Option<RequestId<'_>>,
    ) -> Result<RateLimitResponse, Status> {
        let live = self.rules.live();
        match live.config().domain(&request.domain) {
            Some(domain) => {
                let planned = plan(request, &hits, &live, domain, service)?;
                let on_failure = match domain.on_failure() {
                    OnFailure::Allow => tollgate_policy::OnFailure::Allow,
                    OnFailure::Deny | OnFailure::Error => tollgate_policy::OnFailure::Deny,
                    OnFailure::Local(share) => tollgate_policy::OnFailure::Local(share),
                };
                let gate = &service.gate;
                let decider = Decider { gate, planned: &planned, deadline, on_failure, id };
                let asked = decider.ask(domain.meaning()).await?;
                hear(service, id, asked.iter().map(|asked| &asked.answer));
                let judged = answer::judge(&planned, &asked, domain.on_failure())?;
                // Beside those that are errors, which are counted where the answer ends.
                if asked.iter().any(|asked| asked.answer.error().is_some()) {
                    self.fail(Failure::Store);
                }
                self.count(&live, &planned, &judged);
                let metadata = self.metadata.then(|| metadata::of(request, &planned, &judged));
                let profile = self.headers.unwrap_or(match domain.meaning() {
                    Meaning::Envoy => Profile::None,
                    Meaning::Tollgate => Profile::default(),
                });
                let told = answer::told_about(&judged).filter(|_| profile != Profile::None);
                let told = told.and_then(|place| asked.get(judged.get(place)?.asked?));
                let templates = told.map(|_| Templates::new(request, &live, &planned));
                let limits = templates.as_ref().zip(told);
                let limits = limits.map(|(templates, told)| templates.of(told, &judged));
                let mut response = answer::response(judged);
                response.dynamic_metadata = metadata;
                if let Some((told, limits)) = told.zip(limits) {
                    headers::tell(&mut response, profile, &limits, &told.answer);
                }
                Ok(response)
            }
            None if self.has_policies => {
                self.by_policies(service, request, &hits, (deadline, id)).await
            }
            None => {
                let metadata = self.metadata.then(|| metadata::of(request, &[], &[]));
                Ok(RateLimitResponse { dynamic_metadata: metadata, ..self.unknown(hits.len()) })
            }
        }
    }

    pub(super) fn code_of_unknown(&self) -> Code {
        if self.denies_unknown { Code::OverLimit } else { Code::Ok }
    }

    /// The answer for a domain that nobody knows.
    fn unknown(&self, descriptors: usize) -> RateLimitResponse {
        let code = self.code_of_unknown();
        let status = DescriptorStatus { code: code.into(), ..DescriptorStatus::default() };
        RateLimitResponse {
            overall_code: code.into(),
            statuses: vec![status; descriptors],
            ..RateLimitResponse::default()
        }
    }

    /// Counts the hits of each rule, if they are asked for.
    fn count(&self, live: &Live, planned: &[Planned<'_>], judged: &[Judged]) {
        for (planned, judged) in planned.iter().zip(judged) {
            let (Some(rule), Some(reached)) = (planned.rule, judged.reached) else { continue };
            let (Some(counts), Hits::Charge(hits)) = (live.counts(rule), planned.hits) else {
                continue;
            };
            let of_values = planned.series.as_ref().zip(self.metrics.rules());
            let of_values = of_values.map(|(series, all)| all.of_values(series, counts));
            of_values.as_ref().unwrap_or(counts).add(hits, reached, rule.is_shadow());
        }
    }

    async fn by_policies(
        &self,
        service: &Service,
        request: &RateLimitRequest,
        hits: &[Hits],
        (deadline, id): (Duration, Option<RequestId<'_>>),
    ) -> Result<RateLimitResponse, Status> {
        let descriptors = request.descriptors.iter().enumerate();
        let asked = descriptors.zip(hits).map(|(descriptor, hits)| {
            policies::ask(service, &request.domain, descriptor, *hits, (deadline, id))
        });
        let answers = futures_util::future::try_join_all(asked).await?;
        hear(service, id, &answers);
        let mut judged = Vec::with_capacity(answers.len());
        for (place, answer) in answers.iter().enumerate() {
            judged.push(Judged {
                status: answer::by_policies(answer, policies::reported(answer)),
                is_quota: false,
                is_shadow: false,
                is_never: answer.decision().is_some_and(Decision::is_never),
                reached: None,
                asked: answer.decision().map(|_| place),
            });
        }
        let profile = self.headers.unwrap_or_default();
        let told = answer::told_about(&judged).and_then(|place| answers.get(place));
        let mut response = answer::response(judged);
        response.dynamic_metadata = self.metadata.then(|| metadata::of(request, &[], &[]));
        if let Some(told) = told {
            let all: Vec<_> = answers.iter().map(tollgate_tower::header_templates).collect();
            let own = tollgate_tower::header_templates(told);
            let limits = Limits {
                bound: own.iter().map(|template| &**template).collect(),
                others: all.iter().flatten().map(|template| &**template).collect(),
            };
            headers::tell(&mut response, profile, &limits, told);
        }
        Ok(response)
    }
}

/// Warns of an id that is given to all requests.
fn hear<'a>(
    service: &Service,
    id: Option<RequestId<'_>>,
    answers: impl IntoIterator<Item = &'a Answer<'static>>,
) {
    let is_overused = |answer: &Answer<'_>| answer.decision().is_some_and(Decision::is_id_overused);
    if id.is_some() && answers.into_iter().any(is_overused) {
        service.heard_overused_id(settle::REQUEST);
    }
}

/// The least time in which a store beyond this process can answer.
const LEAST: Duration = Duration::from_micros(100);

/// The time of a call to the store. A tenth of the caller's is kept for the way back.
///
/// # Errors
/// The caller waits too short for the store: to ask it would only count what nobody hears of.
pub(super) fn deadline(service: &Service, timeout: Option<Duration>) -> Result<Duration, Status> {
    let usual = service.gate.current().deadline();
    let Some(timeout) = timeout else { return Ok(usual) };
    let left = timeout * 9 / 10;
    if left < LEAST && !service.gate.store().facts().answers_at_once {
        return Err(Status::deadline_exceeded(format!(
            "grpc-timeout: {timeout:?} is too short for the store, which was not asked"
        )));
    }
    Ok(usual.min(left))
}

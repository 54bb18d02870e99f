//! Kuadrant's rate limit service: Envoy's question in two halves, and holds, under the same rules
//! and policies.

use core::time::Duration;

use http::HeaderMap;
use tollgate::{HoldName, MAX_COST};
use tollgate_envoy::proto::KUADRANT_SERVICE;
use tollgate_envoy::proto::kuadrant::rate_limit_service_server::RateLimitService;
use tollgate_envoy::proto::kuadrant::{
    CommitRequest, CommitResponse, ReserveRequest, ReserveResponse,
};
use tollgate_envoy::proto::service::rate_limit_response::Code;
use tollgate_envoy::proto::service::{RateLimitRequest, RateLimitResponse};
use tonic::{Request, Response, Status};

use super::front::{Front, marked, timeout_of};
use super::plan::plan;
use super::question::{self, Hits};
use super::reservation::{Counting, Reserved};
use super::rls::{Rls, deadline};
use super::settle;
use crate::listen::Undelivered;
use crate::service::{Service, hold_name};

/// The generated service asks this.
pub(super) struct Kuadrant(pub(super) Front);

#[tonic::async_trait]
impl RateLimitService for Kuadrant {
    async fn check_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let (Self(front), timeout) = (self, timeout_of(&request));
        let (metadata, _, message) = request.into_parts();
        let answer = front.rls.look(&front.service, &message, timeout);
        let answer = traced(front, metadata.as_ref(), "CheckRateLimit", answer).await?;
        Ok(marked(answer, RateLimitResponse::overall_code))
    }

    async fn report(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let (Self(front), timeout) = (self, timeout_of(&request));
        let (metadata, _, message) = request.into_parts();
        let answer = front.rls.report(&front.service, &message, timeout);
        let answer = traced(front, metadata.as_ref(), "Report", answer).await?;
        Ok(Response::new(answer))
    }

    async fn reserve(
        &self,
        request: Request<ReserveRequest>,
    ) -> Result<Response<ReserveResponse>, Status> {
        let (Self(front), timeout) = (self, timeout_of(&request));
        let (metadata, _, message) = request.into_parts();
        let name = name_of(metadata.as_ref())?;
        let answer = front.rls.reserve(&front.service, message, (timeout, name));
        let (answer, undelivered) = traced(front, metadata.as_ref(), "Reserve", answer).await?;
        let mut response = marked(answer, ReserveResponse::code);
        if let Some(undelivered) = undelivered {
            undelivered.attach(response.extensions_mut());
        }
        Ok(response)
    }

    async fn commit(
        &self,
        request: Request<CommitRequest>,
    ) -> Result<Response<CommitResponse>, Status> {
        let (Self(front), timeout) = (self, timeout_of(&request));
        let (metadata, _, message) = request.into_parts();
        let name = name_of(metadata.as_ref())?;
        let answer = front.rls.commit(&front.service, message, (timeout, name));
        let answer = traced(front, metadata.as_ref(), "Commit", answer).await?;
        Ok(Response::new(answer))
    }
}

/// Answers within a span, where calls are traced.
async fn traced<T>(
    front: &Front,
    headers: &HeaderMap,
    method: &'static str,
    answer: impl Future<Output = Result<T, Status>> + Send,
) -> Result<T, Status> {
    // The future of an answer is large.
    front.traced(headers, (KUADRANT_SERVICE, method), Box::pin(answer)).await
}

/// The caller's id for a hold, which the messages have no field for.
///
/// # Errors
/// The text cannot be an id.
fn name_of(metadata: &HeaderMap) -> Result<Option<HoldName>, Status> {
    let Some(id) = metadata.get(settle::ID) else { return Ok(None) };
    let bad = |why: &str| Status::invalid_argument(format!("{}: {why}", settle::ID));
    let id = id.to_str().map_err(|_| bad("its bytes are not all printable ASCII"))?;
    hold_name(id).map(Some).map_err(|refusal| bad(&refusal.detail))
}

impl Rls {
    /// Answers a request without charging anything.
    async fn look(
        &self,
        service: &Service,
        request: &RateLimitRequest,
        timeout: Option<Duration>,
    ) -> Result<RateLimitResponse, Status> {
        let hits = vec![Hits::Peek; question::read(request)?.len()];
        self.decide(service, request, hits, deadline(service, timeout)?, None).await
    }

    /// Charges a request, whatever remains.
    async fn report(
        &self,
        service: &Service,
        request: &RateLimitRequest,
        timeout: Option<Duration>,
    ) -> Result<RateLimitResponse, Status> {
        let hits = question::read(request)?;
        let counting = Counting { service, deadline: deadline(service, timeout)?, name: None };
        let live = self.rules().live();
        match live.config().domain(&request.domain) {
            Some(domain) => {
                counting.report(&plan(request, &hits, &live, domain, service)?).await?;
            }
            None if self.has_policies() => {
                if hits.iter().any(|hits| matches!(hits, Hits::GiveBack(_))) {
                    let why = "policies take no hits back: leave `is_negative_hits` out";
                    return Err(Status::invalid_argument(why));
                }
                let cost = |place: usize| match hits.get(place) {
                    Some(Hits::Charge(hits)) => *hits,
                    _ => 1,
                };
                let all = counting.prepare(request, cost)?;
                for (prepared, hits) in all.iter().zip(&hits) {
                    if let (Some(ask), Hits::Charge(_)) = (prepared.question(), hits) {
                        // A policy may say its own cost.
                        let units = ask.amounts().first();
                        counting.charge(ask, units).await?;
                    }
                }
            }
            None => {}
        }
        Ok(RateLimitResponse { overall_code: Code::Ok.into(), ..RateLimitResponse::default() })
    }

    /// Holds an estimate.
    async fn reserve(
        &self,
        service: &Service,
        request: ReserveRequest,
        (timeout, name): (Option<Duration>, Option<HoldName>),
    ) -> Result<(ReserveResponse, Option<Undelivered>), Status> {
        let ReserveRequest { domain, descriptors, amount, ttl } = request;
        let request = RateLimitRequest { domain, descriptors, hits_addend: 1 };
        let hits = question::read(&request)?;
        let ttl = ttl.and_then(|ttl| Duration::try_from(ttl).ok());
        let terms = (amount, ttl);
        let counting = Counting { service, deadline: deadline(service, timeout)?, name };
        let live = self.rules().live();
        let Reserved { code, id, undelivered } = match live.config().domain(&request.domain) {
            Some(domain) => {
                let planned = plan(&request, &hits, &live, domain, service)?;
                counting.reserve(&planned, domain.on_failure(), terms).await?
            }
            None if self.has_policies() => {
                let all = counting.prepare(&request, |_| amount.clamp(1, MAX_COST))?;
                counting.reserve_by_policies(all, terms).await?
            }
            None => Reserved::without(self.code_of_unknown()),
        };
        Ok((ReserveResponse { code: code.into(), reservation_id: id }, undelivered))
    }

    /// Charges what was used, and ends the hold.
    async fn commit(
        &self,
        service: &Service,
        request: CommitRequest,
        (timeout, name): (Option<Duration>, Option<HoldName>),
    ) -> Result<CommitResponse, Status> {
        let CommitRequest { domain, descriptors, reservation_id: id, actual_amount: actual } =
            request;
        if actual > MAX_COST {
            return Err(Status::invalid_argument(format!(
                "actual_amount: at most 2^40 = {MAX_COST}, not {actual}; nothing was charged"
            )));
        }
        let request = RateLimitRequest { domain, descriptors, hits_addend: 1 };
        let hits = question::read(&request)?;
        let counting = Counting { service, deadline: deadline(service, timeout)?, name };
        let live = self.rules().live();
        let is_released = match live.config().domain(&request.domain) {
            Some(domain) => {
                let planned = plan(&request, &hits, &live, domain, service)?;
                counting.commit(&planned, &id, actual).await?
            }
            None if self.has_policies() => {
                counting.commit_by_policies(&request, &id, actual).await?
            }
            None => false,
        };
        Ok(CommitResponse { reservation_released: is_released })
    }
}

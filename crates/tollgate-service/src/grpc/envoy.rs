//! Envoy's rate limit service, as the generated code asks it.

use futures_util::FutureExt as _;
use tollgate::Store as _;
use tollgate_envoy::proto::SERVICE;
use tollgate_envoy::proto::service::rate_limit_service_server::RateLimitService;
use tollgate_envoy::proto::service::{RateLimitRequest, RateLimitResponse};
use tonic::Status;

use super::front::{Front, marked, timeout_of};

/// Marks a request of a peer whose ids of requests are read.
#[derive(Clone, Copy)]
pub(super) struct GivesIds;

/// The generated service asks this.
pub(super) struct Envoy(pub(super) Front);

#[tonic::async_trait]
impl RateLimitService for Envoy {
    async fn should_rate_limit(
        &self,
        request: tonic::Request<RateLimitRequest>,
    ) -> Result<tonic::Response<RateLimitResponse>, Status> {
        let Self(front) = self;
        let headers = request.metadata();
        let timeout = timeout_of(&request);
        let answer = async {
            let gives_ids = request.extensions().get::<GivesIds>().is_some();
            let answer = front.rls.answer(&front.service, request.get_ref(), timeout, gives_ids);
            front.traced(headers.as_ref(), (SERVICE, "ShouldRateLimit"), answer).await
        };
        // The future of an answer is large. Memory answers immediately: the future lies on the
        // stack then, and nothing is allocated for it.
        let answer = match front.service.gate.store().facts().answers_at_once {
            true => answer.now_or_never().unwrap_or_else(|| {
                Err(Status::internal("the store did not answer immediately, though it claims to"))
            }),
            false => Box::pin(answer).await,
        }?;
        Ok(marked(answer, RateLimitResponse::overall_code))
    }
}

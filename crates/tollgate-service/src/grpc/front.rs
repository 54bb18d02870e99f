//! State that the generated services share: the service, and the reports of their answers.

use core::time::Duration;
use std::sync::Arc;

use http::HeaderMap;
use opentelemetry::KeyValue;
use opentelemetry::context::FutureExt as _;
use opentelemetry::trace::TraceContextExt as _;
use tollgate_envoy::proto::service::rate_limit_response;
use tonic::{Code, Status};

use super::question;
use super::rls::Rls;
use crate::metrics::Metrics;
use crate::service::Service;
use crate::traces::Traces;

/// The gate that the generated services ask.
#[derive(Clone)]
pub(crate) struct Front {
    pub(super) service: Arc<Service>,
    pub(super) rls: Arc<Rls>,
    pub(super) metrics: Metrics,
}

impl Front {
    pub(crate) fn new(service: Arc<Service>, rls: Arc<Rls>, metrics: Metrics) -> Self {
        Self { service, rls, metrics }
    }

    /// Answers within a span, where calls are traced.
    pub(super) async fn traced<T>(
        &self,
        headers: &HeaderMap,
        method: (&'static str, &'static str),
        answer: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        match self.metrics.traces() {
            None => answer.await,
            Some(traces) => traced(traces, headers, method, answer).await,
        }
    }
}

/// Marks the answer to a request that is over its limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct OverLimit;

/// A response, with a mark where it denies.
pub(super) fn marked<T>(
    answer: T,
    code: impl Fn(&T) -> rate_limit_response::Code,
) -> tonic::Response<T> {
    let is_over = code(&answer) == rate_limit_response::Code::OverLimit;
    let mut response = tonic::Response::new(answer);
    if is_over {
        response.extensions_mut().insert(OverLimit);
    }
    response
}

/// The time that the caller of a request waits, if the request gives it.
pub(super) fn timeout_of<T>(request: &tonic::Request<T>) -> Option<Duration> {
    let text = request.metadata().get("grpc-timeout")?.to_str().ok()?;
    question::timeout(text)
}

/// Answers within a span, with the attributes that OpenTelemetry has for calls.
async fn traced<T>(
    traces: &Traces,
    headers: &HeaderMap,
    (service, method): (&'static str, &'static str),
    answer: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let span = traces.start(
        headers,
        format!("{service}/{method}"),
        [
            KeyValue::new("rpc.system", "grpc"),
            KeyValue::new("rpc.service", service),
            KeyValue::new("rpc.method", method),
        ],
    );
    let answer = answer.with_context(span.clone()).await;
    let code = answer.as_ref().err().map_or(Code::Ok, Status::code);
    let span = span.span();
    span.set_attribute(KeyValue::new("rpc.grpc.status_code", i64::from(i32::from(code))));
    if matches!(code, Code::Internal | Code::Unavailable) {
        span.set_status(opentelemetry::trace::Status::error(""));
    }
    span.end();
    answer
}

//! A client of gRPC.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::future::Future;

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tollgate_envoy::proto::descriptor::RateLimitDescriptor;
use tollgate_envoy::proto::descriptor::rate_limit_descriptor::Entry;
use tollgate_envoy::proto::service::rate_limit_service_client::RateLimitServiceClient;
use tollgate_envoy::proto::service::{RateLimitRequest, RateLimitResponse, rate_limit_response};
use tonic::body::Body;
use tonic::{Code, Status};

use crate::{Service, tcp};

/// One connection.
#[derive(Clone)]
pub(crate) struct Wire(pub(crate) SendRequest<Body>);

impl tower_service::Service<Request<Body>> for Wire {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

impl Wire {
    pub(crate) async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let (sender, connection) =
            handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    pub(crate) fn client(&self) -> RateLimitServiceClient<Self> {
        RateLimitServiceClient::with_origin(self.clone(), origin())
    }

    pub(crate) async fn ask(
        &self,
        request: &RateLimitRequest,
    ) -> Result<RateLimitResponse, Status> {
        let answer = self.client().should_rate_limit(request.clone()).await?;
        Ok(answer.into_inner())
    }

    /// Asks about these descriptors, written as `key=value,key=value`. The result is the outcome
    /// together, and then that of each, such as `OK 4` or `OVER 0`.
    pub(crate) async fn summary(&self, domain: &str, descriptors: &[&str]) -> String {
        summary(&self.ask(&request(domain, descriptors)).await.unwrap())
    }

    /// The code and the words of an error.
    pub(crate) async fn refused(&self, request: &RateLimitRequest) -> (Code, String) {
        let status = self.ask(request).await.unwrap_err();
        (status.code(), status.message().to_owned())
    }
}

pub(crate) fn origin() -> Uri {
    Uri::from_static("http://localhost")
}

impl Service {
    pub(crate) async fn wire(&self) -> Wire {
        Wire::over(TcpStream::connect(tcp(&self.server.grpc()[0])).await.unwrap()).await
    }
}

/// The outcome of a request.
pub(crate) fn summary(answer: &RateLimitResponse) -> String {
    let code = |code: i32| match rate_limit_response::Code::try_from(code) {
        Ok(rate_limit_response::Code::Ok) => "OK",
        Ok(rate_limit_response::Code::OverLimit) => "OVER",
        _ => "?",
    };
    let each: Vec<_> = answer
        .statuses
        .iter()
        .map(|status| format!("{} {}", code(status.code), status.limit_remaining))
        .collect();
    format!("{}: {}", code(answer.overall_code), each.join(", "))
}

pub(crate) fn request(domain: &str, descriptors: &[&str]) -> RateLimitRequest {
    RateLimitRequest {
        domain: domain.to_owned(),
        descriptors: descriptors.iter().map(|text| descriptor(text)).collect(),
        hits_addend: 0,
    }
}

/// A descriptor, written as `key=value,key=value`, after `5 ` or `-5 ` for its number of hits.
pub(crate) fn descriptor(text: &str) -> RateLimitDescriptor {
    let (hits, text) = match text.split_once(' ') {
        Some((hits, rest)) if hits.parse::<i64>().is_ok() => (hits.parse::<i64>().ok(), rest),
        _ => (None, text),
    };
    let entries = text.split(',').map(|entry| {
        let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
        Entry { key: key.to_owned(), value: value.to_owned() }
    });
    RateLimitDescriptor {
        entries: entries.collect(),
        limit: None,
        hits_addend: hits.map(i64::unsigned_abs),
        is_negative_hits: hits.is_some_and(|hits| hits < 0),
    }
}

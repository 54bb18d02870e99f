//! A control plane for tests: the aggregated discovery service in the state-of-the-world protocol.

use core::convert::Infallible;
use core::pin::Pin;
use std::net::SocketAddr;

use futures_util::stream::unfold;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tollgate_envoy::proto::RULES_TYPE;
use tollgate_envoy::proto::discovery::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use tollgate_envoy::proto::discovery::{DiscoveryRequest, DiscoveryResponse};
use tollgate_envoy::proto::rules::{RateLimitConfig, RateLimitDescriptor, RateLimitPolicy};
use tonic::codegen::Service as _;
use tonic::codegen::tokio_stream::Stream;
use tonic::{Response, Status, Streaming};

/// It sends what it was given last, to everybody who comes and whenever that changes.
pub(super) struct ControlPlane {
    pub(super) address: SocketAddr,
    responses: watch::Sender<Option<DiscoveryResponse>>,
    requests: mpsc::UnboundedReceiver<DiscoveryRequest>,
    /// Ends when it is dropped, with all connections.
    _serving: JoinSet<()>,
}

#[derive(Clone)]
struct Discovery {
    responses: watch::Sender<Option<DiscoveryResponse>>,
    requests: mpsc::UnboundedSender<DiscoveryRequest>,
}

impl ControlPlane {
    pub(super) async fn start() -> Self {
        Self::on("127.0.0.1:0".parse().unwrap(), None).await
    }

    /// Listens here, and speaks TLS if it has an acceptor.
    pub(super) async fn on(address: SocketAddr, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (responses, _) = watch::channel(None);
        let (asked, requests) = mpsc::unbounded_channel();
        let discovery = Discovery { responses: responses.clone(), requests: asked };
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (discovery, tls) = (discovery.clone(), tls.clone());
                connections.spawn(async move {
                    match tls {
                        None => discovery.serve(stream).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                discovery.serve(stream).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, responses, requests, _serving: serving }
    }

    /// Sends these rules under this version.
    pub(super) fn send(&self, version: &str, rules: &[RateLimitConfig]) {
        let any = |rules: &RateLimitConfig| (RULES_TYPE.to_owned(), rules.encode_to_vec());
        self.send_any(version, rules.iter().map(any));
    }

    /// Sends resources of any type.
    pub(super) fn send_any(&self, version: &str, all: impl Iterator<Item = (String, Vec<u8>)>) {
        self.send_of(RULES_TYPE, version, all);
    }

    /// Sends a response of this type.
    pub(super) fn send_of(
        &self,
        of: &str,
        version: &str,
        all: impl Iterator<Item = (String, Vec<u8>)>,
    ) {
        let any = |(type_url, value)| prost_types::Any { type_url, value };
        self.responses.send_replace(Some(DiscoveryResponse {
            version_info: version.to_owned(),
            resources: all.map(any).collect(),
            type_url: of.to_owned(),
            nonce: format!("of {version}"),
        }));
    }

    /// The next request.
    pub(super) async fn asked(&mut self) -> DiscoveryRequest {
        let next = tokio::time::timeout(core::time::Duration::from_secs(60), self.requests.recv());
        next.await.expect("nobody asks").unwrap()
    }

    /// The version, the nonce and the reason of the next request.
    pub(super) async fn answered(&mut self) -> (String, String, String) {
        let asked = self.asked().await;
        let why = asked.error_detail.map(|why| format!("{}: {}", why.code, why.message));
        (asked.version_info, asked.response_nonce, why.unwrap_or_default())
    }
}

impl Discovery {
    async fn serve<T>(self, stream: T)
    where
        T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    {
        let service = AggregatedDiscoveryServiceServer::new(self);
        let answer = service_fn(move |request: Request<Incoming>| {
            let mut service = service.clone();
            async move { Ok::<_, Infallible>(service.call(request).await.unwrap()) }
        });
        let connection = http2::Builder::new(TokioExecutor::new());
        let _ = connection.serve_connection(TokioIo::new(stream), answer).await;
    }
}

#[tonic::async_trait]
impl AggregatedDiscoveryService for Discovery {
    type StreamAggregatedResourcesStream =
        Pin<Box<dyn Stream<Item = Result<DiscoveryResponse, Status>> + Send>>;

    async fn stream_aggregated_resources(
        &self,
        requests: tonic::Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        let (mut requests, asked) = (requests.into_inner(), self.requests.clone());
        tokio::spawn(async move {
            while let Ok(Some(request)) = requests.message().await {
                let _ = asked.send(request);
            }
        });
        let mut responses = self.responses.subscribe();
        responses.mark_changed();
        Ok(Response::new(Box::pin(unfold(responses, async |mut responses| {
            loop {
                responses.changed().await.ok()?;
                let response = responses.borrow_and_update().clone();
                if let Some(response) = response {
                    return Some((Ok(response), responses));
                }
            }
        }))))
    }
}

/// A year's limit of the descriptor `user`, for this domain.
pub(super) fn rules(domain: &str, requests_per_unit: u32) -> RateLimitConfig {
    let rate_limit = RateLimitPolicy { unit: 6, requests_per_unit, ..RateLimitPolicy::default() };
    let user = RateLimitDescriptor {
        key: "user".to_owned(),
        rate_limit: Some(rate_limit),
        ..RateLimitDescriptor::default()
    };
    let (name, domain) = (format!("{domain}-rules"), domain.to_owned());
    RateLimitConfig { name, domain, descriptors: vec![user] }
}

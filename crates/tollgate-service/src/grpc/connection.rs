//! Serves HTTP/2 over one connection, with the services that are asked over it.

use core::convert::Infallible;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::Mutex;
use tokio::time::sleep;
use tollgate_envoy::proto::kuadrant::rate_limit_service_server as kuadrant_server;
use tollgate_envoy::proto::service::rate_limit_service_server::RateLimitServiceServer;
use tollgate_envoy::proto::{DESCRIPTOR_SET, KUADRANT_SERVICE, SERVICE};
use tollgate_tower::ToItsEnd;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service as _;
use tonic_health::ServingStatus;
use tonic_health::server::{HealthReporter, health_reporter};
use tonic_reflection::server::Builder;

use super::calls::{Calls, Room};
use super::counts::{self, Ended, Method};
use super::delivery::followed;
use super::envoy::{Envoy, GivesIds};
use super::frames::Framed;
use super::front::{Front, OverLimit};
use super::inbound::{Inbound, Outbound};
use super::kuadrant::Kuadrant;
use super::rls::Rls;
use crate::listen::{
    Bounds, Budget, Connection, MAX_WAITING_BYTES, MAX_WAITING_BYTES_OF_ONE, Protocol, Transport,
    something_comes,
};
use crate::metrics::FrontCounts;
use crate::start_error::StartError;
use crate::tls::HTTP2;

/// The most bytes of a message: 1 MiB. A hundred descriptors take some kilobytes.
const MAX_MESSAGE_BYTES: usize = 1_024 * 1_024;

/// The most bytes of a message of health or reflection.
const MAX_SHORT_BYTES: usize = 4 * 1_024;

/// The maximum number of concurrent calls over one connection, and the minimum that each connection
/// may have.
const MAX_CALLS: usize = 256;
const MIN_CALLS: usize = 8;

/// The maximum number of concurrent calls that all connections are promised together, beyond the
/// minimum of each. A new one is promised a part of the rest. HTTP/2 itself refuses what is beyond
/// the promise, before it takes memory.
const PROMISED_CALLS: usize = 32 * 1_024;
const PROMISED_PART: usize = 32;

/// The part of the buffers of all connections that calls and their messages take at most. The rest
/// is kept for the other fronts.
const BUFFERS_PART: usize = 2;

/// The most bytes of the heads of a call.
const MAX_HEAD_BYTES: u32 = 16 * 1_024;

/// The most bytes that a connection may send ahead, for all calls and for one.
const CONNECTION_WINDOW: u32 = 256 * 1_024;
const CALL_WINDOW: u32 = 64 * 1_024;

/// How often a silent client is asked whether it is still there, and how long it may take.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(10);

/// The names that health is asked for: of all, as the reference is called, and the services' own.
const NAMES: [&str; 4] = ["", "ratelimit", SERVICE, KUADRANT_SERVICE];

/// A service, with its types hidden: those of health and reflection have no names.
type Boxed = Arc<
    dyn Fn(Request<Inbound<Incoming>>) -> BoxFuture<Result<Response<Body>, Infallible>>
        + Send
        + Sync,
>;
type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Serves gRPC over connections.
#[derive(Clone)]
pub(crate) struct Grpc(Arc<Shared>);

struct Shared {
    rls: Arc<Rls>,
    counts: Arc<FrontCounts>,
    rate_limit: RateLimitServiceServer<Envoy>,
    kuadrant: kuadrant_server::RateLimitServiceServer<Kuadrant>,
    health: Boxed,
    reflection: Boxed,
    reflection_v1alpha: Boxed,
    reporter: HealthReporter,
    /// Whether the service ends; locked while health is set.
    is_closed: Mutex<bool>,
    /// The budget of memory for calls and their messages.
    budget: Arc<Budget>,
    /// The calls that connections are promised.
    promised: Arc<Budget>,
    /// The budget of memory for answers that may not have been read.
    unread: Arc<Budget>,
    bounds: Bounds,
    max_age: Duration,
    grace: Duration,
}

impl Grpc {
    /// # Errors
    /// Never for the services that are built in.
    pub(crate) async fn new(
        front: Front,
        budget: &Arc<Budget>,
        bounds: Bounds,
        max_age: Duration,
        grace: Duration,
    ) -> Result<Self, StartError> {
        let (reporter, health) = health_reporter();
        let health = health.max_decoding_message_size(MAX_SHORT_BYTES);
        let described = || {
            use tonic_reflection::pb::{v1, v1alpha};
            Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(v1::FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(v1alpha::FILE_DESCRIPTOR_SET)
                .include_reflection_service(false)
        };
        let fault = |error: tonic_reflection::server::Error| StartError::Options(error.to_string());
        let reflection = described().build_v1().map_err(fault)?;
        let reflection = reflection.max_decoding_message_size(MAX_SHORT_BYTES);
        let v1alpha = described().build_v1alpha().map_err(fault)?;
        let v1alpha = v1alpha.max_decoding_message_size(MAX_SHORT_BYTES);
        let rate_limit = RateLimitServiceServer::new(Envoy(front.clone()))
            .max_decoding_message_size(MAX_MESSAGE_BYTES);
        let kuadrant = kuadrant_server::RateLimitServiceServer::new(Kuadrant(front.clone()))
            .max_decoding_message_size(MAX_MESSAGE_BYTES);
        let this = Self(Arc::new(Shared {
            counts: front.metrics.front(counts::calls()),
            rls: front.rls,
            rate_limit,
            kuadrant,
            health: Arc::new(move |request| health.clone().call(request)),
            reflection: Arc::new(move |request| reflection.clone().call(request)),
            reflection_v1alpha: Arc::new(move |request| v1alpha.clone().call(request)),
            reporter,
            is_closed: Mutex::new(false),
            budget: budget.part(bounds.buffers / BUFFERS_PART),
            promised: Budget::new(PROMISED_CALLS),
            unread: Budget::new(MAX_WAITING_BYTES),
            bounds,
            max_age,
            grace,
        }));
        this.report(match this.0.rls.awaited() {
            None => ServingStatus::Serving,
            Some(_) => ServingStatus::NotServing,
        })
        .await;
        Ok(this)
    }

    async fn report(&self, status: ServingStatus) {
        for name in NAMES {
            self.0.reporter.set_service_status(name, status).await;
        }
    }

    /// Tells health that the service answers, once it has rules.
    pub(crate) async fn opens(self) {
        let mut known = self.0.rls.rules().are_known();
        if known.wait_for(|are_known| *are_known).await.is_err() {
            return;
        }
        let is_closed = self.0.is_closed.lock().await;
        if !*is_closed {
            self.report(ServingStatus::Serving).await;
        }
    }

    /// Tells health that the service ends.
    pub(crate) async fn closes(&self) {
        let mut is_closed = self.0.is_closed.lock().await;
        *is_closed = true;
        self.report(ServingStatus::NotServing).await;
    }
}

impl Shared {
    /// Takes room for a call.
    ///
    /// # Errors
    /// There is no room left. The stream is reset with a code that says that nothing of the call
    /// was done, so its client may repeat it. An answer would take more memory than that, and be
    /// left unread by those who take the room.
    fn admit(&self, request: &Request<Incoming>, calls: &Arc<Calls>) -> Result<Room, h2::Error> {
        calls.room(&self.budget, head_bytes(request)).ok_or_else(|| {
            let method = Method::from_path(request.uri().path());
            self.count(method, Ended::Refused);
            h2::Reason::REFUSED_STREAM.into()
        })
    }

    fn count(&self, method: Option<Method>, ended: Ended) {
        self.counts.add(method.map(|method| method as usize), ended as usize, 1);
    }

    async fn call(
        &self,
        request: Request<Incoming>,
        calls: &Arc<Calls>,
    ) -> Result<Response<Body>, Infallible> {
        let method = Method::from_path(request.uri().path());
        let began = Instant::now();
        let _call = calls.begin();
        let Bounds { body: most, idle, .. } = self.bounds;
        let request = request.map(|body| match method.is_some_and(Method::has_more) {
            true => Inbound::in_pieces(body, Arc::clone(&self.budget), idle),
            false => Inbound::new(body, Arc::clone(&self.budget), most),
        });
        let response = match method {
            Some(Method::ShouldRateLimit) => {
                let Ok(response) = self.rate_limit.clone().call(request).await;
                response
            }
            Some(Method::CheckRateLimit | Method::Report | Method::Reserve | Method::Commit) => {
                let Ok(response) = self.kuadrant.clone().call(request).await;
                response
            }
            Some(Method::Health) => {
                let Ok(response) = (self.health)(request).await;
                response
            }
            Some(Method::Reflection) => {
                let Ok(response) = (self.reflection)(request).await;
                response
            }
            Some(Method::ReflectionV1Alpha) => {
                let Ok(response) = (self.reflection_v1alpha)(request).await;
                response
            }
            None => {
                let why = format!("there is no such method: ask {SERVICE} or {KUADRANT_SERVICE}");
                Status::unimplemented(why).into_http()
            }
        };
        self.count(method, ended(&response));
        if let Some(method) = method.filter(|method| method.is_question()) {
            let duration = began.elapsed();
            self.counts.took(duration);
            if method == Method::ShouldRateLimit {
                self.rls.took(duration);
            }
        }
        Ok(response)
    }
}

/// The bytes of the head of a call.
fn head_bytes<B>(request: &Request<B>) -> usize {
    let headers = request.headers().iter();
    headers.map(|(name, value)| name.as_str().len() + value.len()).sum()
}

/// How a call ended. An error is in the head of its answer.
fn ended<B>(response: &Response<B>) -> Ended {
    let code = response.headers().get(Status::GRPC_STATUS);
    match response.extensions().get::<OverLimit>() {
        Some(_) => Ended::OverLimit,
        None if code.is_some_and(|code| code != "0") => Ended::Error,
        None => Ended::Ok,
    }
}

impl Protocol for Grpc {
    const ALPN: &'static [u8] = HTTP2;

    async fn serve<T>(self, connection: Connection<T>)
    where
        T: Transport,
    {
        let Connection { mut stream, peer, pace, mut ending, .. } = connection;
        poll_fn(|cx| {
            pace.is_served_by(cx.waker());
            Poll::Ready(())
        })
        .await;
        // A connection that nothing came from holds no buffers.
        tokio::select! {
            biased;
            () = something_comes(&mut stream) => {}
            _ = ending.wait_for(|ending| *ending) => return,
        }
        pace.works();
        let Self(shared) = self;
        let framed = Framed::new(stream, Arc::clone(&pace));
        let calls = Calls::new(Arc::clone(&pace));
        let service = {
            let (shared, calls, pace) =
                (Arc::clone(&shared), Arc::clone(&calls), Arc::clone(&pace));
            let gives_ids = shared.rls.reads_ids_of(peer.address());
            let unread = shared.unread.part(MAX_WAITING_BYTES_OF_ONE);
            service_fn(move |mut request: Request<Incoming>| {
                if gives_ids {
                    request.extensions_mut().insert(GivesIds);
                }
                let (shared, calls) = (Arc::clone(&shared), Arc::clone(&calls));
                let (pace, unread) = (Arc::clone(&pace), Arc::clone(&unread));
                async move {
                    let room = shared.admit(&request, &calls)?;
                    let call = async move { shared.call(request, &calls).await };
                    // A client that cancels resets its stream, and the HTTP library drops what
                    // works on it. The store does its part all the same.
                    let Ok(response) = ToItsEnd::new(call).await;
                    let response = followed(response, &pace, &unread);
                    Ok::<_, h2::Error>(response.map(|body| Outbound { body, _room: room }))
                }
            })
        };
        let most = (shared.promised.room() / PROMISED_PART).clamp(MIN_CALLS, MAX_CALLS);
        // The least is not taken where nothing is left: every connection has it.
        let _promised = shared.promised.take(most);
        let served = settings(most).serve_connection(TokioIo::new(framed), service);
        let mut served = pin!(served);
        let closes = async {
            tokio::select! {
                _ = ending.wait_for(|ending| *ending) => {}
                () = sleep(shared.max_age) => {}
                () = rests(&calls, shared.bounds.idle) => {}
            }
        };
        tokio::select! {
            // An error of the connection concerns only the client.
            _ = served.as_mut() => return,
            () = closes => served.as_mut().graceful_shutdown(),
        }
        // The client knows, and its questions are answered.
        let _ = tokio::time::timeout(shared.grace, served).await;
    }
}

/// Waits until a connection was idle nearly as long as it may be: without that notice it would be
/// cut while its client sends the next call.
async fn rests(calls: &Calls, most: Duration) {
    let most = most * 9 / 10;
    loop {
        match calls.idle() {
            Some(idle) if idle >= most => return,
            Some(idle) => sleep(most - idle).await,
            None => sleep(most).await,
        }
    }
}

/// The settings of a connection with this maximum number of concurrent calls.
fn settings(calls: usize) -> http2::Builder<TokioExecutor> {
    let mut settings = http2::Builder::new(TokioExecutor::new());
    settings
        .timer(TokioTimer::new())
        .max_concurrent_streams(u32::try_from(calls).unwrap_or(u32::MAX))
        .max_header_list_size(MAX_HEAD_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(CALL_WINDOW)
        .max_send_buf_size(usize::try_from(CALL_WINDOW).unwrap_or(usize::MAX))
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG);
    settings
}

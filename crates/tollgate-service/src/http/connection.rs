//! Serves HTTP/1.1 over one connection.

use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::watch;

use super::body::{Whole, read};
use super::paced::{Explain, Paced};
use super::pieces::Pieces;
use crate::listen::{
    Budget, Connection, Pace, Peer, Phase, Protocol, Transport, Undelivered, something_comes,
};

/// The most bytes of a request head.
pub(crate) const MAX_HEAD_BYTES: usize = 16 * 1_024;

/// The most bytes that are read ahead, and that wait to be written. A head fits, and many open
/// connections together need little memory.
const MAX_BUFFER_BYTES: usize = MAX_HEAD_BYTES + 4 * 1_024;

/// A response of the service.
pub(crate) type Reply = Response<Full<Bytes>>;

/// Answers HTTP requests.
pub(crate) trait Answering: Send + Sync + 'static {
    /// The full response in place of a refusal by the HTTP library itself.
    const EXPLAIN: Explain;

    /// The answer when the budget has no room for the request or its response.
    fn no_room() -> Reply;

    /// Whether the body of a request on this path matters.
    fn reads_body(&self, path: &str) -> bool {
        let _ = path;
        true
    }

    /// False when the service is about to stop: each response then closes its connection.
    fn is_open(&self) -> bool;

    /// Answers a request with its body.
    fn answer(
        &self,
        request: Request<Whole>,
        caller: Caller<'_>,
    ) -> impl Future<Output = Reply> + Send;
}

/// The client of a request, and its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    pub(crate) peer: Peer,
    pub(crate) pace: &'a Pace,
}

/// Responses larger than this take a share of the budget. Smaller ones need none, since each
/// connection holds only one.
const LONG_BYTES: u64 = 16 * 1_024;

/// An unneeded body of up to this size is read, so that the connection can be reused.
const UNWANTED_BYTES: u64 = 4 * 1_024;

/// Serves HTTP/1.1 over connections.
pub(crate) struct Http<A>(pub(crate) Arc<A>);

impl<A> Clone for Http<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A: Answering> Protocol for Http<A> {
    async fn serve<T>(self, connection: Connection<T>)
    where
        T: Transport,
    {
        let Connection { stream, peer, pace, budget, ending } = connection;
        converse(&Client { answering: &*self.0, peer, pace, budget, ending }, stream).await;
    }
}

/// The client of one connection, and the parts that answer it.
struct Client<'a, A> {
    answering: &'a A,
    peer: Peer,
    pace: Arc<Pace>,
    budget: Arc<Budget>,
    ending: watch::Receiver<bool>,
}

/// Serves one connection until the client closes it. An idle connection holds no buffers.
async fn converse<A: Answering, T>(client: &Client<'_, A>, mut stream: T)
where
    T: Transport,
{
    let pace = &client.pace;
    poll_fn(|cx| {
        pace.is_served_by(cx.waker());
        Poll::Ready(())
    })
    .await;
    let mut early = Bytes::new();
    let mut ending = client.ending.clone();
    loop {
        if early.is_empty() {
            tokio::select! {
                biased;
                () = something_comes(&mut stream) => {}
                _ = ending.wait_for(|ending| *ending) => return,
            }
        }
        pace.works();
        let paced = Paced::new(stream, Arc::clone(pace), A::EXPLAIN).after(early);
        // Boxed, since an idle connection would otherwise occupy the size of this whole future.
        match Box::pin(answer_all(client, paced)).await {
            Some(rested) => (stream, early) = rested,
            None => return,
        }
    }
}

/// Answers requests until the connection ends or has been idle for a while. An idle connection is
/// returned, with the bytes already read of the next request.
async fn answer_all<A: Answering, T>(client: &Client<'_, A>, stream: Paced<T>) -> Option<(T, Bytes)>
where
    T: Transport,
{
    let pace = &client.pace;
    let answer = service_fn(|request| async {
        Ok::<_, core::convert::Infallible>(answer_one(client, request).await)
    });
    let mut http = http1::Builder::new();
    http.max_header_size(MAX_HEAD_BYTES).max_buf_size(MAX_BUFFER_BYTES);
    // A client that has closed its sending side, as a script with a pipe, still expects the answer.
    http.half_close(true).writev(false);
    let mut connection = http.serve_connection(TokioIo::new(stream), answer);
    let mut ending = client.ending.clone();
    // An error of the connection concerns only the client.
    let served = poll_fn(|cx| match pace.is_to_rest() {
        true => Poll::Ready(Until::Rest),
        false => Pin::new(&mut connection).poll(cx).map(|_| Until::Over),
    });
    // First what the client has sent: a service that ends closes only what is idle.
    let until = tokio::select! {
        biased;
        until = served => until,
        _ = ending.wait_for(|ending| *ending) => Until::Ending,
    };
    match until {
        Until::Over => return None,
        Until::Ending => {
            Pin::new(&mut connection).graceful_shutdown();
            let _ = connection.await;
            return None;
        }
        Until::Rest => {}
    }
    // Between two requests the shutdown completes immediately, and sends nothing to the client.
    Pin::new(&mut connection).graceful_shutdown();
    let mut done = pin!(connection.without_shutdown());
    match poll_fn(|cx| Poll::Ready(done.as_mut().poll(cx))).await {
        Poll::Ready(parts) => {
            parts.ok().map(|parts| (parts.io.into_inner().into_stream(), parts.read_buf))
        }
        Poll::Pending => {
            let _ = done.await;
            None
        }
    }
}

/// Answers a request.
async fn answer_one<A: Answering>(
    client: &Client<'_, A>,
    request: Request<Incoming>,
) -> Response<Pieces> {
    let Client { answering, peer, pace, budget, .. } = client;
    pace.set_phase(Phase::Body);
    let (head, body) = request.into_parts();
    let is_read = answering.reads_body(head.uri.path())
        || body.size_hint().upper().is_some_and(|most| most <= UNWANTED_BYTES);
    let (body, unread) = match is_read {
        true => {
            let body = read(body, budget).await;
            let unread = body.is_err();
            (body, unread)
        }
        false => (Ok(Bytes::new()), true),
    };
    // The request is complete: from here on the service, not the client, uses the time.
    pace.set_phase(Phase::Work);
    let caller = Caller { peer: *peer, pace };
    let mut response = answering.answer(Request::from_parts(head, body), caller).await;
    if unread {
        // The rest of the body is read and discarded after the response.
        pace.leave_unread();
    }
    if unread || !answering.is_open() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let long = response.body().size_hint().lower();
    let mut share = None;
    if long > LONG_BYTES {
        share = budget.take(usize::try_from(long).unwrap_or(usize::MAX));
        if share.is_none() {
            response = A::no_room();
        }
    }
    // The replacement above is undone here.
    if let Some(undelivered) = Undelivered::of(response.extensions_mut()) {
        pace.on_the_way.add(undelivered);
    }
    pace.set_phase(Phase::Write);
    response.map(|body| Pieces::new(body, share, pace))
}

/// Why `answer_all` stops to answer requests.
enum Until {
    /// The connection has ended.
    Over,
    /// The connection has been idle for a while.
    Rest,
    /// The service shuts down.
    Ending,
}

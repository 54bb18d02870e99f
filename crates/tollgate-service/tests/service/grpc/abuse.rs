//! Clients that misbehave.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::BodyExt as _;
use hyper::body::Frame;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tollgate_service::Options;
use tonic::Code;
use tonic::body::Body;

use super::{RULES, service, service_with};
use crate::client::Client;
use crate::grpc_client::{Wire, request};
use crate::{long_answer, tcp};

const LONG: Duration = Duration::from_secs(30);
const HEALTH: &str = "http://localhost/grpc.health.v1.Health/Check";
const REFLECTION: &str =
    "http://localhost/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const PATH: &str = "http://localhost/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

fn quickly(options: &mut Options) {
    options.bounds.idle = Duration::from_millis(600);
    options.bounds.body = Duration::from_millis(300);
}

/// A body whose pieces come when they are sent.
struct Slow(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Slow {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: core::pin::Pin<&mut Self>,
        cx: &mut core::task::Context<'_>,
    ) -> core::task::Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }
}

fn call(body: Body) -> Request<Body> {
    Request::post(PATH)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(body)
        .unwrap()
}

/// The code that a call ends with: in its head, or after its message.
async fn code_of(response: http::Response<hyper::body::Incoming>) -> Code {
    let read = |headers: &HeaderMap| {
        headers.get("grpc-status").map(|code| Code::from_bytes(code.as_bytes()))
    };
    if let Some(code) = read(response.headers()) {
        return code;
    }
    let trailers = response.into_body().collect().await.unwrap().trailers().cloned().unwrap();
    read(&trailers).unwrap()
}

#[tokio::test]
async fn a_message_is_bounded_and_others_go_on() {
    let service = service().await;
    let wire = service.wire().await;
    let long = format!("user={}", "x".repeat(1_100_000));
    assert_eq!(wire.refused(&request("shop", &[&long])).await.0, Code::OutOfRange);
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 2");
    // Bytes that are not a message.
    for (bytes, code) in [
        (&b"\x00\x00\x00\x00\x02\xff\xff"[..], Code::Internal),
        (b"\x00\x00\x00\x00\x09short", Code::Internal),
        (b"\x01\x00\x00\x00\x00", Code::Internal),
        (b"", Code::Internal),
    ] {
        let body = Body::new(http_body_util::Full::new(Bytes::from_static(bytes)));
        let said = wire.clone().0.send_request(call(body)).await.unwrap();
        let said = code_of(said).await;
        assert!(said == code || said == Code::Unimplemented, "{bytes:?}: {said:?}");
    }
    let mut other = call(Body::empty());
    *other.uri_mut() =
        "http://localhost/grpc.reflection.v1alpha.ServerReflection/X".parse().unwrap();
    let said = wire.clone().0.send_request(other).await.unwrap();
    assert_eq!(code_of(said).await, Code::Unimplemented);
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 1");
}

#[tokio::test]
async fn the_memory_of_all_messages_is_bounded() {
    let service = service_with(RULES, |options| options.bounds.buffers = 600_000).await;
    let wire = service.wire().await;
    let long = format!("user={}", "x".repeat(60_000));
    assert_eq!(wire.summary("shop", &[&long]).await, "OK: OK 2");
    let (sender, receiver) = mpsc::channel(2);
    let mut message = vec![0, 0, 4, 0, 0];
    message.extend(vec![0; 240_000]);
    sender.send(Bytes::from(message)).await.unwrap();
    let mut other = service.wire().await.0;
    let waiting = tokio::spawn(other.send_request(call(Body::new(Slow(receiver)))));
    let began = Instant::now();
    // The half message takes its share, so there is no room for another one.
    loop {
        let answer = wire.ask(&request("shop", &[&long])).await;
        if answer.is_err_and(|status| status.code() == Code::ResourceExhausted) {
            break;
        }
        assert!(began.elapsed() < LONG, "there is always room");
        tokio::task::yield_now().await;
    }
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 2", "short ones need none");
    drop(sender);
    code_of(waiting.await.unwrap().unwrap()).await;
    assert!(wire.ask(&request("shop", &[&long])).await.is_ok(), "there is room again");
}

#[tokio::test]
async fn a_message_that_does_not_come_is_not_waited_for() {
    let service = service_with(RULES, quickly).await;
    let wire = service.wire().await;
    let (sender, receiver) = mpsc::channel(2);
    sender.send(Bytes::from_static(b"\x00\x00\x00\x00\x09")).await.unwrap();
    let began = Instant::now();
    let said = wire.clone().0.send_request(call(Body::new(Slow(receiver)))).await.unwrap();
    assert_eq!(code_of(said).await, Code::DeadlineExceeded);
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
}

/// The bytes of the buffers that are in use.
async fn held(client: &mut Client) -> u64 {
    let page = client.get("/metrics").await.text;
    let line =
        page.lines().find_map(|line| line.strip_prefix("tollgate_connection_buffers_bytes "));
    line.unwrap_or_else(|| panic!("{page}")).parse().unwrap()
}

/// Connections of many streams that never send their message, and one that reads no answer.
#[tokio::test]
async fn calls_have_a_bound_together_and_leave_room_to_others() {
    // Half of it is for calls: 512 of them.
    let service = service_with(RULES, |options| options.bounds.buffers = 4 * 1_024 * 1_024).await;
    let mut client = service.client().await;
    let address = tcp(&service.server.grpc()[0]);
    let mut kept = Vec::new();
    let mut attackers = Vec::new();
    for _ in 0..20 {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new())
                .initial_stream_window_size(1)
                .handshake::<_, Body>(hyper_util::rt::TokioIo::new(stream))
                .await
                .unwrap();
        tokio::spawn(connection);
        for number in 0..60 {
            let (sent, receiver) = mpsc::channel(1);
            if number % 2 == 0 {
                sent.send(prost_of(&request("shop", &["0 user=1"]))).await.unwrap();
            } else {
                kept.push(sent);
            }
            let path = [PATH, HEALTH][number / 2 % 2];
            let mut asked = call(Body::new(Slow(receiver)));
            *asked.uri_mut() = path.parse().unwrap();
            attackers.push(tokio::spawn(sender.send_request(asked)));
        }
    }
    let began = Instant::now();
    let refused = r#"tollgate_grpc_calls_total{method="ShouldRateLimit",result="refused"}"#;
    while !client.get("/metrics").await.text.contains(refused) {
        assert!(began.elapsed() < LONG, "all are taken");
        tokio::task::yield_now().await;
    }
    // The rest is the others', and so is the room for the first calls of a new connection.
    let room = held(&mut client).await;
    assert!((800_000..=2 * 1_024 * 1_024).contains(&room), "{room}");
    let (_, batch) = long_answer();
    assert_eq!(client.post("/v1/check", &batch).await.status.as_u16(), 200);
    assert_eq!(service.wire().await.summary("shop", &["user=2"]).await, "OK: OK 2");
    // A refused call is one that its client may repeat.
    let mut reasons = Vec::new();
    drop(kept);
    for attacker in attackers {
        if let Err(error) = attacker.await.unwrap() {
            let source = std::error::Error::source(&error).unwrap().to_string();
            reasons.push(source);
        }
    }
    assert!(reasons.len() > 500, "{}", reasons.len());
    assert!(reasons.iter().all(|reason| reason.contains("refused stream")), "{reasons:?}");
    let began = Instant::now();
    while held(&mut client).await > 0 {
        assert!(began.elapsed() < LONG, "it is never given back");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_call_of_health_whose_message_does_not_come_is_not_waited_for() {
    let service = service_with(RULES, quickly).await;
    let wire = service.wire().await;
    let mut waiting = Vec::new();
    let watch = "http://localhost/grpc.health.v1.Health/Watch";
    // A stream of questions simply ends.
    let (late, ended) = (Code::DeadlineExceeded, Code::Ok);
    for (path, code) in [(HEALTH, late), (watch, late), (REFLECTION, ended)] {
        let (sender, receiver) = mpsc::channel(2);
        let mut asked = call(Body::new(Slow(receiver)));
        *asked.uri_mut() = path.parse().unwrap();
        waiting.push((code, sender, wire.clone().0.send_request(asked)));
    }
    for (expected, sender, asked) in waiting {
        let said = tokio::time::timeout(LONG, asked).await.expect("it hangs").unwrap();
        let code = tokio::time::timeout(LONG, code_of(said)).await.expect("it hangs");
        assert_eq!(code, expected);
        drop(sender);
    }
}

#[tokio::test]
async fn an_idle_connection_is_told_to_go() {
    let service = service_with(RULES, quickly).await;
    let wire = service.wire().await;
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 2");
    let began = Instant::now();
    while !wire.0.is_closed() {
        assert!(began.elapsed() < LONG, "it stays");
        tokio::time::sleep(Duration::from_millis(20)).await; // tidy: sleep-ok a look each
    }
    // It was refused, and not cut.
    let page = service.client().await.get("/metrics").await.text;
    assert!(page.contains("tollgate_connections_closed_total{reason=\"idle\"} 0"), "{page}");
    // Silence, half a preface, and HTTP/1.1 end too.
    for begun in [&b""[..], b"PRI * HTTP/2.0\r\n", b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"] {
        let mut stream = TcpStream::connect(tcp(&service.server.grpc()[0])).await.unwrap();
        stream.write_all(begun).await.unwrap();
        let mut said = Vec::new();
        let _ = tokio::time::timeout(LONG, stream.read_to_end(&mut said)).await.expect("it hangs");
        assert!(!said.starts_with(b"HTTP/1.1 2"), "{said:?}");
    }
}

#[tokio::test]
async fn an_old_connection_is_told_to_go_and_calls_end_first() {
    let service =
        service_with(RULES, |options| options.envoy.max_age = Duration::from_millis(300)).await;
    let mut asked = 0;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        let wire = service.wire().await;
        while !wire.0.is_closed() {
            match wire.ask(&request("shop", &["0 user=1"])).await {
                Ok(_) => asked += 1,
                // It was refused between two calls, and this one was not taken.
                Err(status) => assert!(wire.0.is_closed(), "{status:?}"),
            }
        }
    }
    assert!(asked > 3, "{asked}");
}

/// A client that sends and never reads is closed, and no other one waits for it.
#[tokio::test]
async fn a_client_that_does_not_read_is_closed() {
    let service = service_with(RULES, quickly).await;
    // A window of one byte: the answer cannot be sent.
    let stream = TcpStream::connect(tcp(&service.server.grpc()[0])).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new())
            .initial_stream_window_size(1)
            .handshake::<_, Body>(hyper_util::rt::TokioIo::new(stream))
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let message = prost_of(&request("shop", &["user=1"]));
    let body = Body::new(http_body_util::Full::new(message));
    let response = sender.send_request(call(body)).await.unwrap();
    let wire = Wire::over(TcpStream::connect(tcp(&service.server.grpc()[0])).await.unwrap()).await;
    assert_eq!(wire.summary("shop", &["user=2"]).await, "OK: OK 2");
    let ended = tokio::time::timeout(LONG, connection).await;
    assert!(ended.is_ok(), "it is never closed");
    drop(response);
    let page = service.client().await.get("/metrics").await.text;
    assert!(page.contains("tollgate_connections_closed_total{reason=\"idle\"} 1"), "{page}");
}

/// A message, framed.
fn prost_of(request: &tollgate_envoy::proto::service::RateLimitRequest) -> Bytes {
    use prost::Message as _;
    let message = request.encode_to_vec();
    let mut framed = vec![0];
    framed.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    framed.extend(message);
    Bytes::from(framed)
}

#[tokio::test]
async fn a_flood_of_calls_is_answered_with_one_count() {
    let service = service().await;
    let wire = service.wire().await;
    let calls = (0..2_000).map(|_| {
        let wire = wire.clone();
        tokio::spawn(async move { wire.summary("shop", &["user=vip"]).await })
    });
    let mut admitted = 0;
    for call in calls.collect::<Vec<_>>() {
        admitted += usize::from(call.await.unwrap().starts_with("OK"));
    }
    assert_eq!(admitted, 1_000);
}

//! Clients that misbehave: too much, too slow, too many. Each is let go of, and others are served.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::{Service, here, long_answer};

/// The time after which a test hangs, on any machine.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A service whose deadlines are short, except that of `slow`.
async fn hasty() -> Service {
    Service::with(|options| {
        let short = Duration::from_millis(500);
        options.bounds.head = short;
        options.bounds.body = short;
        options.bounds.write = short;
        options.bounds.idle = short;
    })
    .await
}

/// How many connections the service has closed for this reason, by its own word.
pub(crate) async fn closed(service: &Service, reason: &str) -> u64 {
    let page = service.client().await.get("/metrics").await.text;
    let name = format!("tollgate_connections_closed_total{{reason=\"{reason}\"}} ");
    let line = page.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap_or_else(|| panic!("no {name}: {page}")).parse().unwrap()
}

/// Sends this and waits until the service closes; the result is its answer.
async fn until_closed(address: SocketAddr, sent: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A service that refuses may close before all of it was sent.
    let _ = stream.write_all(sent).await;
    let mut said = Vec::new();
    let read = timeout(LONG, stream.read_to_end(&mut said)).await.expect("it hangs");
    // A reset is an end, too.
    let _ = read;
    String::from_utf8(said).unwrap()
}

fn problem(said: &str) -> (u16, Value) {
    let status = said.split(' ').nth(1).unwrap_or_else(|| panic!("no response: {said:?}"));
    let (head, body) = said.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-type: application/problem+json"), "{head}");
    (status.parse().unwrap(), serde_json::from_str(body).unwrap())
}

/// A proxy before the service may read another `Host` of two, or supply one that is missing (RFC
/// 9112, section 3.2).
#[tokio::test]
async fn a_request_has_one_host() {
    let service = Service::start().await;
    for path in ["/v1/auth", "/healthz", "/v1/check"] {
        for (hosts, says) in [
            ("", "needs a `Host` header"),
            ("host: a\r\nhost: a\r\n", "this has 2"),
            ("host: a b\r\n", "invalid `Host` header"),
            ("host: a@b\r\n", "invalid `Host` header"),
            ("host: http://a/\r\n", "invalid `Host` header"),
            ("host: a:80b\r\n", "invalid `Host` header"),
            ("host: :80\r\n", "invalid `Host` header"),
            ("host: [::1\r\n", "invalid `Host` header"),
        ] {
            let sent = format!("GET {path} HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
            let said = until_closed(service.address, sent.as_bytes()).await;
            let (status, problem) = problem(&said);
            assert_eq!(status, 400, "{path} {hosts}: {said}");
            assert!(problem["detail"].as_str().unwrap().contains(says), "{problem}");
        }
    }
    for host in ["a", "a:80", "a:", "[::1]", "[::1]:80", "192.0.2.1:80", "a.example.", ""] {
        let sent = format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        let said = until_closed(service.address, sent.as_bytes()).await;
        assert!(said.starts_with("HTTP/1.1 200"), "{host}: {said}");
    }
    let said = until_closed(service.address, b"GET /healthz HTTP/1.0\r\n\r\n").await;
    assert!(said.starts_with("HTTP/1.0 200"), "{said}");
}

#[tokio::test]
async fn a_body_that_is_encoded_is_not_guessed_at() {
    let service = Service::start().await;
    let mut client = service.client().await;
    let question = r#"{"subject": "a", "limit": "9/h"}"#;
    for (encoding, status) in [("gzip", 415), ("identity, br", 415), ("identity", 200)] {
        let headers = [("content-encoding", encoding)];
        let reply = client.ask("POST", "/v1/check", &headers, question).await;
        assert_eq!(reply.status.as_u16(), status, "{encoding}: {}", reply.text);
        assert!(status == 200 || reply.text.contains("send plain JSON"), "{}", reply.text);
    }
}

#[tokio::test]
async fn what_is_too_large_is_told_its_bound() {
    let service = Service::start().await;
    let large = "a".repeat(20_000);
    let many = "a: 1\r\n".repeat(101);
    for (sent, status, says) in [
        (format!("GET / HTTP/1.1\r\nhost: a\r\nx: {large}\r\n\r\n"), 431, "16384 bytes"),
        (format!("GET /{large} HTTP/1.1\r\nhost: a\r\n\r\n"), 431, "16384 bytes"),
        (format!("GET / HTTP/1.1\r\nhost: a\r\n{many}\r\n"), 431, "100 headers"),
        // Its end never comes.
        (format!("GET / HTTP/1.1\r\nhost: a\r\nx: {large}{large}{large}{large}"), 431, "16384"),
        (
            format!(
                "POST /v1/check HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
                 content-length: 65537\r\n\r\n{}",
                "a".repeat(65_537)
            ),
            413,
            "65536 bytes",
        ),
        (
            format!(
                "POST /v1/check HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
                 transfer-encoding: chunked\r\n\r\n10000\r\n{}\r\n1\r\na\r\n0\r\n\r\n",
                "a".repeat(65_536)
            ),
            413,
            "65536 bytes",
        ),
    ] {
        let said = until_closed(service.address, sent.as_bytes()).await;
        let (found, problem) = problem(&said);
        assert_eq!(found, status, "{said}");
        assert!(problem["detail"].as_str().unwrap().contains(says), "{problem}");
    }
    // One byte less is not an error of size.
    let fits = format!(
        "POST /v1/check HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 65536\r\n\r\n{}",
        "a".repeat(65_536)
    );
    assert_eq!(problem(&until_closed(service.address, fits.as_bytes()).await).0, 400);
}

#[tokio::test]
async fn what_is_no_http_is_told_so() {
    let service = Service::start().await;
    for (sent, says) in [
        ("HELLO\r\n\r\n", "HTTP/1.1"),
        ("GET / HTTP/9.9\r\n\r\n", "HTTP/1.1"),
        ("GET / HTTP/1.1\r\nhost a\r\n\r\n", "HTTP/1.1"),
        ("\u{0}\u{1}\u{2}\r\n\r\n", "HTTP/1.1"),
        ("GET / HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n", "`Content-Length`"),
    ] {
        let (status, problem) = problem(&until_closed(service.address, sent.as_bytes()).await);
        assert_eq!(status, 400, "{sent:?}");
        assert!(problem["detail"].as_str().unwrap().contains(says), "{problem}");
    }
    // Two lengths, or a length and chunks: a proxy before us may read the other one.
    for sent in [
        "POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        "POST /v1/check HTTP/1.1\r\nhost: a\r\ntransfer-encoding: x\r\n\r\nab",
    ] {
        let said = until_closed(service.address, sent.as_bytes()).await;
        assert_eq!(problem(&said).0, 400, "{sent:?}: {said}");
    }
}

#[tokio::test]
async fn whoever_is_slow_is_closed_and_the_others_are_served() {
    let service = hasty().await;
    for (slow, reason) in [
        // Nothing at all.
        ("", "idle"),
        // Half of a head.
        ("GET / HTTP/1.1\r\nhost: a\r\n", "head"),
        // Half of a body.
        ("POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{\"subject\":", "body"),
        // Half of a body in chunks.
        (
            "POST /v1/check HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"sub",
            "body",
        ),
        // Half of a second head, which came with the first.
        ("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\nGET /heal", "idle"),
    ] {
        let before = closed(&service, reason).await;
        let mut stream = TcpStream::connect(service.address).await.unwrap();
        stream.write_all(slow.as_bytes()).await.unwrap();
        let (ended, mut served) = (
            tokio::spawn(async move {
                let mut said = Vec::new();
                timeout(LONG, stream.read_to_end(&mut said)).await.expect("it hangs").ok();
                String::from_utf8(said).unwrap()
            }),
            0,
        );
        while !ended.is_finished() {
            let reply = service.client().await.get("/healthz").await;
            assert_eq!(reply.status.as_u16(), 200);
            served += 1;
        }
        assert!(served > 0);
        assert!(closed(&service, reason).await > before, "{slow:?} was not closed as {reason}");
        // A client that has asked something has the answer.
        let said = ended.await.unwrap();
        assert_eq!(said.starts_with("HTTP/1.1 200"), slow.starts_with("GET /healthz"), "{said}");
    }
}

#[tokio::test]
async fn a_byte_now_and_then_does_not_prolong_a_head() {
    let service = hasty().await;
    let mut stream = TcpStream::connect(service.address).await.unwrap();
    let start = Instant::now();
    let mut closed = false;
    while start.elapsed() < LONG && !closed {
        closed = stream.write_all(b"a").await.is_err()
            || matches!(
                timeout(Duration::from_millis(50), stream.read(&mut [0; 64])).await,
                Ok(Ok(0) | Err(_))
            );
    }
    assert!(closed, "it hangs");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_closed() {
    let service = hasty().await;
    let mut stream = TcpStream::connect(service.address).await.unwrap();
    // So many pipelined questions that the answers fill every buffer on the way.
    let question = b"GET /v1/openapi.yaml HTTP/1.1\r\nhost: a\r\n\r\n";
    let start = Instant::now();
    let mut stopped = false;
    while start.elapsed() < LONG && !stopped {
        // Until nothing more is taken: then the service has stopped reading, or closed.
        match timeout(Duration::from_secs(5), stream.write_all(&question.repeat(200))).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => stopped = true,
        }
    }
    assert!(stopped, "it takes questions without end");
    // Whether it was closed is seen by reading: the end comes, and not another answer for each.
    let mut said = Vec::new();
    let read = timeout(LONG, stream.read_to_end(&mut said)).await.expect("it hangs");
    let _ = read;
    assert_eq!(closed(&service, "write").await, 1);
}

#[tokio::test]
async fn idle_connections_make_room_for_new_ones() {
    let service = Service::with(|options| options.bounds.connections = 20).await;
    let mut idle = Vec::new();
    for _ in 0..50 {
        idle.push(TcpStream::connect(service.address).await.unwrap());
    }
    for _ in 0..30 {
        let reply = service.client().await.get("/healthz").await;
        assert_eq!(reply.status.as_u16(), 200);
    }
    let mut open = 0;
    for mut stream in idle {
        let ended = timeout(Duration::from_millis(1), stream.read(&mut [0; 1])).await;
        open += usize::from(ended.is_err());
    }
    assert!(open < 20, "{open} are open");
}

#[tokio::test]
async fn connections_with_half_a_request_do_not_shut_others_out() {
    let service = Service::with(|options| {
        options.bounds.connections = 4;
        options.admin = Some(here());
    })
    .await;
    let mut busy = Vec::new();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(service.address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
        busy.push(stream);
    }
    // New clients are served, and those that have waited longest make room.
    for _ in 0..10 {
        assert_eq!(service.client().await.get("/healthz").await.status.as_u16(), 200);
    }
    let mut ended = 0;
    for mut stream in busy {
        let read = timeout(Duration::from_millis(1), stream.read(&mut [0; 1])).await;
        ended += usize::from(read.is_ok());
    }
    assert!(ended > 0, "nobody made room");
    // Administrators have separate places.
    let admin = crate::tcp(service.server.admin().unwrap());
    let mut admin = crate::client::Client::connect(admin).await;
    assert_eq!(admin.get("/healthz").await.status.as_u16(), 200);
}

#[tokio::test]
async fn who_sends_a_body_that_nobody_wants_still_gets_the_answer() {
    let service = Service::start().await;
    let body = "a".repeat(300_000);
    for (line, status) in [
        ("POST /v1/auth", "200"),
        ("POST /nowhere", "404"),
        ("POST /metrics", "405"),
        ("GET /v1/check", "405"),
    ] {
        let sent =
            format!("{line} HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let said = until_closed(service.address, sent.as_bytes()).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{line}: {said}");
        assert!(said.contains("connection: close"), "{said}");
    }
}

/// One long answer that is not read is a client that does not read, and not an idle one.
#[tokio::test]
async fn a_client_that_does_not_read_a_long_answer_is_closed() {
    let service = hasty().await;
    let (batch, _) = long_answer();
    let mut stream = TcpStream::connect(service.address).await.unwrap();
    stream.write_all(batch.as_bytes()).await.unwrap();
    let is_closed = async { while closed(&service, "write").await == 0 {} };
    timeout(LONG, is_closed).await.expect("it is not closed");
    drop(stream);
}

/// A connection frees its buffers after a second. A client that comes back finds it as it was, also
/// with half of a question that came before.
#[tokio::test]
async fn who_was_idle_for_a_while_is_answered_as_before() {
    let service = Service::start().await;
    let question = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
    for cut in [0, 1, 20, question.len() - 1] {
        let (begun, rest) = question.split_at(cut);
        let mut stream = TcpStream::connect(service.address).await.unwrap();
        stream.write_all(&[question, begun].concat()).await.unwrap();
        for _ in 0..2 {
            let mut status = [0; 15];
            timeout(LONG, stream.read_exact(&mut status)).await.expect("it hangs").unwrap();
            assert_eq!(&status, b"HTTP/1.1 200 OK", "{cut}");
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let length = String::from_utf8(head).unwrap();
            let length = length.lines().find_map(|it| it.strip_prefix("content-length: ")).unwrap();
            let mut body = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut body).await.unwrap();
            tokio::time::sleep(Duration::from_millis(1_600)).await; // tidy: sleep-ok it is idle
            stream.write_all(&[rest, begun].concat()).await.unwrap();
        }
    }
}

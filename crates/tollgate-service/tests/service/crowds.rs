//! Many connections that each hold a little, and their bound together.

use std::time::Duration;

use http::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, Handle};
use tokio::time::timeout;
use tollgate_service::Address;

use crate::{Service, here, long_answer};

const LONG: Duration = Duration::from_secs(30);

async fn send(service: &Service, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(service.address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// The status of the answer that comes, and no more of it.
async fn status(stream: &mut TcpStream) -> String {
    let mut line = [0; 12];
    timeout(LONG, stream.read_exact(&mut line)).await.expect("no answer").unwrap();
    String::from_utf8(line.to_vec()).unwrap().split(' ').nth(1).unwrap().to_owned()
}

/// How much is held for connections, by the service's own word.
async fn held(service: &Service) -> u64 {
    let page = service.client().await.get("/metrics").await.text;
    let line = page.lines().find_map(|it| it.strip_prefix("tollgate_connection_buffers_bytes "));
    line.unwrap().parse().unwrap()
}

/// A proxy's question is its head: a client that sends half of a body is answered, and holds
/// nothing.
#[tokio::test]
async fn nobody_waits_for_a_body_that_is_not_read() {
    let service = Service::start().await;
    for body in ["content-length: 60000\r\n\r\nhalf", "transfer-encoding: chunked\r\n\r\n5\r\nhalf"]
    {
        let asked = format!("POST /v1/auth HTTP/1.1\r\nhost: a\r\n{body}");
        assert_eq!(status(&mut send(&service, &asked).await).await, "200", "{body}");
    }
    // A small one that has come is passed over, and the connection is kept.
    let mut client = service.client().await;
    for _ in 0..3 {
        assert_eq!(client.post("/v1/auth", "hello").await.status, StatusCode::OK);
    }
    assert!(service.client().await.get("/metrics").await.text.contains(ACCEPTED));
}

/// Three that are described above, and the one that looks.
const ACCEPTED: &str = "tollgate_connections_accepted_total 4\n";

/// Half bodies share a budget: a client beyond it hears that immediately, and small questions go
/// on.
#[tokio::test]
async fn bodies_on_their_way_have_a_bound_together() {
    let service = Service::with(|options| options.bounds.buffers = 200_000).await;
    let half = "POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 60000\r\n\r\n{";
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(send(&service, half).await);
    }
    let full = async { while held(&service).await < 180_000 {} };
    timeout(LONG, full).await.expect("they are not counted");
    assert_eq!(status(&mut send(&service, half).await).await, "503");
    let question = r#"{"subject": "user:1", "limit": "9/h"}"#;
    assert_eq!(service.client().await.check(question).await["allowed"], true);
    // A client that leaves makes room.
    drop(waiting);
    let empty = async { while held(&service).await > 0 {} };
    timeout(LONG, empty).await.expect("it is never given back");
    let mut stream = send(&service, half).await;
    stream.write_all(&[b' '; 59_999]).await.unwrap();
    assert_eq!(status(&mut stream).await, "400", "it was read to its end");
}

/// Answers that nobody reads share it, too. Over a Unix socket, which buffers some 200 kB: TCP to
/// the same machine buffers megabytes.
#[tokio::test]
async fn answers_that_nobody_reads_have_a_bound_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let service = Service::with(|options| {
        options.bounds.buffers = 4_100_000;
        options.listen.push(Address::Unix(path.clone()));
    })
    .await;
    let (batch, body) = long_answer();
    let mut unread = Vec::new();
    for _ in 0..12 {
        let mut stream = UnixStream::connect(&path).await.unwrap();
        stream.write_all(batch.as_bytes()).await.unwrap();
        unread.push(stream);
    }
    let full = async { while held(&service).await < 2_600_000 {} };
    timeout(LONG, full).await.expect("they are not counted");
    let mut client = service.client().await;
    let refused = client.post("/v1/check", &body).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.text.contains("ask again, or for less in one request"), "{}", refused.text);
    let question = r#"{"subject": "user:1", "limit": "9/h"}"#;
    assert_eq!(client.check(question).await["allowed"], true, "small answers are no part of it");
    drop(unread);
    let again = async { while client.post("/v1/check", &body).await.status != StatusCode::OK {} };
    timeout(LONG, again).await.expect("there is never room again");
}

/// One address does not take all places.
#[tokio::test]
async fn an_address_has_as_many_connections_as_it_may() {
    let service = Service::with(|options| {
        options.bounds.per_address = Some(3);
        options.admin = Some(here());
    })
    .await;
    let mut kept = Vec::new();
    for _ in 0..3 {
        let mut client = service.client().await;
        assert_eq!(client.get("/healthz").await.status, StatusCode::OK);
        kept.push(client);
    }
    let mut fourth = TcpStream::connect(service.address).await.unwrap();
    let read = timeout(LONG, fourth.read(&mut [0; 1])).await.expect("it hangs");
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    let page = kept[0].get("/metrics").await.text;
    assert!(page.contains("tollgate_connections_closed_total{reason=\"address\"} 1\n"), "{page}");
    drop(kept.pop());
    let again = async {
        loop {
            let mut stream = TcpStream::connect(service.address).await.unwrap();
            let asked = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
            if stream.write_all(asked).await.is_ok() && stream.read_u8().await.is_ok() {
                return;
            }
        }
    };
    timeout(LONG, again).await.expect("a place that was left is not given again");
}

/// A runtime serves its connections until they end, and the next one that comes is served by the
/// runtime with the fewest.
#[test]
fn connections_are_spread_over_the_runtimes() {
    let one_thread = || Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let [first, second, of_test] = [(); 3].map(|()| one_thread());
    let handles = [&first, &second].map(|runtime| runtime.handle().clone());
    // A connection of HTTP/1.1 is one task, and nothing else runs there.
    let served = || handles.each_ref().map(|handle: &Handle| handle.metrics().num_alive_tasks());
    of_test.block_on(async {
        let service = Service::with(|options| options.runtimes = handles.to_vec()).await;
        let mut clients = Vec::new();
        for expected in [[1, 0], [1, 1], [2, 1], [2, 2], [3, 2], [3, 3]] {
            let mut client = service.client().await;
            assert_eq!(client.get("/healthz").await.status, StatusCode::OK);
            assert_eq!(served(), expected);
            clients.push(client);
        }
        // Those of the first go.
        let mut is_of_first = [true, false].into_iter().cycle();
        clients.retain(|_| is_of_first.next() == Some(false));
        let gone = async {
            while served() != [0, 3] {
                tokio::task::yield_now().await;
            }
        };
        timeout(LONG, gone).await.expect("connections do not end");
        for expected in [[1, 3], [2, 3], [3, 3], [4, 3]] {
            let mut client = service.client().await;
            assert_eq!(client.get("/healthz").await.status, StatusCode::OK);
            assert_eq!(served(), expected);
            clients.push(client);
        }
        let stopping = service.server.end().await;
        assert_eq!(stopping.cut, 0);
    });
}

/// Reading of gRPC takes no turns from the other protocols where it has a runtime of its own.
#[test]
fn grpc_is_served_by_its_own_runtimes() {
    let one_thread = || Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let [all, of_grpc, of_test] = [(); 3].map(|()| one_thread());
    let served = || [&all, &of_grpc].map(|runtime| runtime.metrics().num_alive_tasks() > 0);
    of_test.block_on(async {
        let service = Service::with(|options| {
            options.runtimes = vec![all.handle().clone()];
            options.grpc_runtimes = vec![of_grpc.handle().clone()];
            options.grpc = vec![crate::here()];
        })
        .await;
        let wire = service.wire().await;
        assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 0");
        assert_eq!(served(), [false, true]);
        // Kept, since a connection that ends is not a task any more.
        let mut client = service.client().await;
        assert_eq!(client.get("/healthz").await.status, StatusCode::OK);
        assert_eq!(served(), [true, true]);
        drop((wire, client));
    });
}

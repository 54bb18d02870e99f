//! A real server whose clients hang up, cancel and are killed: no slot leaks, and none is taken
//! twice.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tollgate::{Ask, HoldKind, MemoryStore, Store};
use tollgate_policy::Gate;
use tollgate_redis::RedisStore;
use tollgate_testbed::redis_or_skip;

use super::{layer, settled};
use crate::common::policies;

/// Four slots for everybody, which last far longer than the test.
const FOUR: &str = r#"
    [[policies]]
    name = "p"
    on_failure = "deny"
    deadline = "1m"
    limits = [{ subject = "pool=all", limit = "4 at once hold 1h" }]
"#;

/// A body that begins, and goes on when the test allows it.
struct Endless {
    begun: bool,
    _at_work: AtWork,
}

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        if self.begun {
            return std::task::Poll::Pending;
        }
        self.begun = true;
        std::task::Poll::Ready(Some(Ok(http_body::Frame::data(Bytes::from_static(b"begun")))))
    }
}

/// Counts the requests that are at work, and their maximum.
#[derive(Default)]
struct Peak(AtomicU64, AtomicU64);

struct AtWork(Arc<Peak>);

impl AtWork {
    fn new(peak: &Arc<Peak>) -> Self {
        let now = peak.0.fetch_add(1, Ordering::SeqCst) + 1;
        peak.1.fetch_max(now, Ordering::SeqCst);
        Self(Arc::clone(peak))
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A server with a body without an end, a head without an end, and a quick answer.
async fn serve<S: Store + 'static>(gate: Gate<S>) -> (SocketAddr, Arc<Peak>, Arc<Semaphore>) {
    let (peak, never) = (Arc::<Peak>::default(), Arc::new(Semaphore::new(0)));
    let (a, b, c) = (Arc::clone(&peak), Arc::clone(&peak), Arc::clone(&peak));
    let waits = Arc::clone(&never);
    let app = Router::new()
        .route(
            "/body",
            get(async move || Body::new(Endless { begun: false, _at_work: AtWork::new(&a) })),
        )
        .route(
            "/head",
            get(async move || {
                let _at_work = AtWork::new(&b);
                let _ = waits.acquire().await;
                "done"
            }),
        )
        .route(
            "/quick",
            get(async move || {
                let _at_work = AtWork::new(&c);
                "quick"
            }),
        )
        .layer(layer(gate));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, served).await });
    (address, peak, never)
}

async fn request(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let text = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// The first bytes of an answer.
async fn first(stream: &mut TcpStream) -> String {
    let mut room = [0; 4096];
    let read = stream.read(&mut room).await.unwrap();
    String::from_utf8_lossy(&room[..read]).into_owned()
}

async fn hang_ups_leak_nothing<S: Store + 'static>(gate: Gate<S>) {
    let (address, peak, _never) = serve(gate.clone()).await;
    let placed = || gate.counters().holds.placed(HoldKind::Acquire);
    let mut ended = 0;
    for round in 0..6 {
        let path = if round % 2 == 0 { "/body" } else { "/head" };
        let mut open = Vec::new();
        for _ in 0..4 {
            let mut stream = request(address, path).await;
            if path == "/body" {
                assert!(first(&mut stream).await.starts_with("HTTP/1.1 200"));
            }
            open.push(stream);
        }
        while placed() < ended + 4 {
            tokio::task::yield_now().await;
        }
        let denied = first(&mut request(address, "/quick").await).await;
        assert!(denied.starts_with("HTTP/1.1 429"), "{denied}");
        assert!(!denied.to_ascii_lowercase().contains("retry-after"), "{denied}");
        for stream in open {
            // A process that is killed with unread bytes resets its connections; one that closes
            // does not.
            if round >= 3 {
                stream.set_zero_linger().unwrap();
            }
            drop(stream);
        }
        ended += 4;
        settled(&gate, ended).await;
        let quick = first(&mut request(address, "/quick").await).await;
        assert!(quick.starts_with("HTTP/1.1 200"), "{quick}");
        ended += 1;
        settled(&gate, ended).await;
    }
    assert_eq!(peak.1.load(Ordering::SeqCst), 4);
    assert_eq!(gate.counters().holds.not_open(), 0);
}

/// A thousand clients that go away wherever they happen to be, also while the store is asked.
async fn storm<S: Store + Clone + 'static>(gate: Gate<S>) {
    let (address, peak, _never) = serve(gate.clone()).await;
    let mut clients = JoinSet::new();
    for client in 0..16_u64 {
        clients.spawn(async move {
            for turn in 0..64 {
                let path = ["/body", "/head", "/quick"][usize::try_from(turn % 3).unwrap()];
                let mut stream = request(address, path).await;
                for _ in 0..(client * 7 + turn * 3) % 11 {
                    tokio::task::yield_now().await;
                }
                if path == "/quick" {
                    first(&mut stream).await;
                } else if turn % 2 == 0 {
                    stream.set_zero_linger().unwrap();
                }
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    // Every slot comes back, and the pool is whole again.
    let holds = gate.counters().holds;
    let mut free = 0;
    while free < 4 || holds.settled() < holds.placed(HoldKind::Acquire) {
        let limits = "4 at once hold 1h".parse::<tollgate::LimitSet>().unwrap();
        let limiter = tollgate::Limiter::new(limits.in_policy("p").unwrap(), gate.store().clone());
        free = limiter.check(Ask::new("pool:all").peek()).await.unwrap().remaining();
        tokio::task::yield_now().await;
    }
    let peak = peak.1.load(Ordering::SeqCst);
    assert!((1..=4).contains(&peak), "{peak} at once");
    assert_eq!(holds.not_open(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_memory() {
    hang_ups_leak_nothing(Gate::new(policies(FOUR), MemoryStore::new()).unwrap()).await;
    storm(Gate::new(policies(FOUR), MemoryStore::new()).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_redis() {
    let server = redis_or_skip!();
    let gate = async || {
        let store = RedisStore::connect(&server.url()).await.unwrap();
        Gate::new(policies(FOUR), store).unwrap()
    };
    hang_ups_leak_nothing(gate().await).await;
    storm(gate().await).await;
}

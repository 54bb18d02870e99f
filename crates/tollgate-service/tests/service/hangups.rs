//! Clients that go before they have read their answers: nobody holds what nobody heard of.

use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::poll;
use futures_util::task::AtomicWaker;
use hyper::client::conn::http2::handshake;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tollgate::MemoryStore;
use tollgate_envoy::proto::kuadrant::ReserveRequest;
use tollgate_envoy::proto::kuadrant::rate_limit_service_client::RateLimitServiceClient;
use tollgate_redis::RedisStore;
use tollgate_service::{AnyStore, Bounds, EnvoyRules};
use tollgate_testbed::redis_or_skip;

use crate::client::Client;
use crate::grpc_client::{Wire, descriptor, origin};
use crate::holds::done;
use crate::redis_client::line;
use crate::{FILE, Service, gate_of, here, tcp};

/// How often each door is tried, and how many at a time.
pub(crate) const TRIES: usize = 300;
pub(crate) const AT_ONCE: usize = 20;

/// The time after which a test hangs, on any machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

const GIVEN_BACK: &str = "tollgate_holds_undelivered_total{result=\"given_back\"}";

const SLOTS: u64 = 1_000;
const RULES: &str = "
domain: shop
descriptors:
  - key: user
    limit: 1000/d via fixed_window
";

/// How a client goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Goes {
    /// It closes: its system resets the connection because of unread bytes.
    Closes,
    /// It resets the connection.
    Resets,
}

/// When a client goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    /// After this many turns of the others.
    Turns(usize),
    /// When its answer has come, and was not read.
    Answered,
}

impl When {
    /// Each try at another time.
    fn of(number: usize) -> Self {
        if number.is_multiple_of(4) { Self::Answered } else { Self::Turns(number * 7 % 90) }
    }

    async fn comes(self, stream: &TcpStream) {
        match self {
            Self::Turns(turns) => {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
            }
            Self::Answered => stream.readable().await.unwrap(),
        }
    }
}

pub(crate) fn http(path: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n{body}").into()
}

fn acquire() -> Value {
    json!({ "subject": "backend", "limit": "1000 at once hold 2m" })
}

/// Asks and goes. Before, it may have asked something else over the same connection, and read that.
pub(crate) async fn go(
    address: SocketAddr,
    (before, asks): (Option<&[u8]>, &[u8]),
    goes: Goes,
    number: usize,
) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    if let Some(before) = before {
        stream.write_all(before).await.unwrap();
        assert!(stream.read(&mut [0; 4_096]).await.unwrap() > 0);
    }
    stream.write_all(asks).await.unwrap();
    When::of(number).comes(&stream).await;
    if goes == Goes::Resets {
        stream.set_zero_linger().unwrap();
    }
}

/// Until this many slots are free again.
async fn are_free(client: &mut Client, slots: u64, what: &str) {
    let began = Instant::now();
    loop {
        // A store that is late is answered for by the failure rule, which knows no number.
        let said = done(client, "/v1/peek", acquire()).await;
        if said["remaining"] == json!(slots) {
            return println!("{what}: {slots} free after {:?}", began.elapsed());
        }
        if began.elapsed() >= LONG {
            let failed =
                number(client, "tollgate_holds_undelivered_total{result=\"failed\"}").await;
            panic!("{what}: not {slots} are free, and {failed} could not be given back: {said}");
        }
        tokio::task::yield_now().await;
    }
}

async fn number(client: &mut Client, of: &str) -> u64 {
    let page = client.get("/metrics").await.text;
    let line = page.lines().find_map(|line| line.strip_prefix(of));
    line.unwrap_or_else(|| panic!("{of}\n{page}")).trim().parse().unwrap()
}

/// A service that takes every reset for one of an answer that nobody read: how late it is depends
/// on the machine.
async fn start(store: AnyStore, folder: &tempfile::TempDir) -> Service {
    start_with(store, folder, LONG).await
}

async fn start_with(store: AnyStore, folder: &tempfile::TempDir, grace: Duration) -> Service {
    let rules = folder.path().join("rules.yaml");
    std::fs::write(&rules, RULES).unwrap();
    Service::start_with(gate_of(FILE, store), |options| {
        options.resp = vec![here()];
        options.grpc = vec![here()];
        options.envoy.rules = EnvoyRules::Files(rules);
        options.bounds.grace = grace;
    })
    .await
}

/// The doors over TCP, for clients that close and that reset, over new connections and used ones.
async fn every_door_over_tcp(service: &Service, what: &str) {
    let client = &mut service.client().await;
    let (by_http, by_resp) = (service.address, tcp(&service.server.resp()[0]));
    let question = http("/v1/acquire", &acquire());
    let peek = http("/v1/peek", &acquire());
    let last = "POST /v1/acquire HTTP/1.0\r\ncontent-length: ";
    let body = acquire().to_string();
    let last = format!("{last}{}\r\n\r\n{body}", body.len());
    let command = line("TOLLGATE.ACQUIRE backend 1000~at~once~hold~2m");
    let command = String::from_utf8(command).unwrap().replace('~', " ").into_bytes();
    let ping = line("PING");
    for (door, address, asks) in [
        ("http, new", by_http, (None, &question[..])),
        ("http, kept alive", by_http, (Some(&peek[..]), &question[..])),
        ("http, closed by the service", by_http, (None, last.as_bytes())),
        ("resp, new", by_resp, (None, &command[..])),
        ("resp, used", by_resp, (Some(&ping[..]), &command[..])),
    ] {
        for goes in [Goes::Closes, Goes::Resets] {
            for first in (0..TRIES).step_by(AT_ONCE) {
                let tries = first..first + AT_ONCE;
                let tries = tries.map(|number| go(address, asks, goes, number));
                futures_util::future::join_all(tries).await;
            }
            are_free(client, SLOTS, &format!("{what}, {door}, {goes:?}")).await;
        }
    }
    let placed = number(client, "tollgate_holds_placed_total{kind=\"acquire\"}").await;
    let given = number(client, "tollgate_holds_undelivered_total{result=\"given_back\"}").await;
    assert_eq!(placed, given, "{what}: every hold was given back");
    assert_eq!(number(client, "tollgate_holds_open ").await, 0, "{what}");
    assert!(placed >= TRIES as u64, "{what}: {placed}");
}

async fn reserve(wire: &Wire) -> Result<String, tonic::Status> {
    let request = ReserveRequest {
        domain: "shop".to_owned(),
        descriptors: vec![descriptor("user=1")],
        amount: 1,
        ttl: None,
    };
    let mut client = RateLimitServiceClient::with_origin(wire.clone(), origin());
    Ok(client.reserve(request).await?.into_inner().reservation_id)
}

/// A connection from which nothing is read while it is paused.
struct Paused {
    stream: TcpStream,
    pause: Arc<Pause>,
}

#[derive(Default)]
struct Pause {
    is_on: AtomicBool,
    reader: AtomicWaker,
}

impl Pause {
    fn set(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
        self.reader.wake();
    }
}

impl AsyncRead for Paused {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.pause.reader.register(cx.waker());
        match self.pause.is_on.load(Ordering::Relaxed) {
            true => Poll::Pending,
            false => Pin::new(&mut self.stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Paused {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// More turns than what was read needs on its way to the caller, through the tasks of the client.
const TURNS: usize = 32;

/// How many calls a connection has. The service closes one whose client only cancels. A connection
/// that a client closes has one: nothing says which of several answers were read before a reset.
const CALLS: usize = 10;

/// How many calls had an answer of the store.
async fn answered(client: &mut Client) -> u64 {
    number(client, "tollgate_grpc_calls_total{method=\"Reserve\",result=\"ok\"}").await
}

/// gRPC, for clients that cancel their calls, and for clients that close their connections.
async fn every_call_of_grpc(service: &Service, closes: bool, what: &str) {
    let client = &mut service.client().await;
    let address = tcp(&service.server.grpc()[0]);
    let (mut kept, mut cancelled) = (0, 0);
    let calls = if closes { 1 } else { CALLS };
    for connection in 0..TRIES / calls {
        let (stream, pause) = (TcpStream::connect(address).await.unwrap(), Arc::default());
        let stream = TokioIo::new(Paused { stream, pause: Arc::clone(&pause) });
        let (sender, running) = handshake(TokioExecutor::new(), stream).await.unwrap();
        let (wire, running) = (Wire(sender), tokio::spawn(running));
        for call in 0..calls {
            let mut asking = Box::pin(reserve(&wire));
            let turns = (connection * calls + call) * 7 % 400;
            let mut said = poll!(&mut asking);
            for turn in 0..turns + TURNS {
                // Replies that were read are confirmed, as no reset would report it to the service
                // otherwise.
                pause.set(turn >= turns);
                tokio::task::yield_now().await;
                if said.is_pending() {
                    said = poll!(&mut asking);
                }
            }
            drop(asking);
            if closes {
                running.abort();
            }
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            pause.set(false);
            match said {
                Poll::Ready(Ok(hold)) if !hold.is_empty() => kept += 1,
                Poll::Ready(Ok(_)) => panic!("there is room for all"),
                Poll::Ready(Err(_)) | Poll::Pending => cancelled += 1,
            }
        }
    }
    println!("{what}, closes {closes}: {kept} kept, {cancelled} cancelled");
    let began = Instant::now();
    loop {
        let placed = number(client, "tollgate_holds_placed_total{kind=\"reserve\"}").await;
        let given = number(client, "tollgate_holds_undelivered_total{result=\"given_back\"}").await;
        let answered = answered(client).await;
        let open = number(client, "tollgate_holds_open ").await;
        if placed == kept + given && placed == answered && open == kept {
            break;
        }
        let mut fates = String::new();
        for fate in ["failed", "not_open"] {
            let of = format!("tollgate_holds_undelivered_total{{result=\"{fate}\"}}");
            fates += &format!(", {} {fate}", number(client, &of).await);
        }
        let seen = format!(
            "{answered} answered, {placed} placed, {kept} kept, {given} given{fates}, {open} open"
        );
        assert!(began.elapsed() < LONG, "{what}: {seen}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn memory_has_back_what_nobody_heard_of() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(AnyStore::Memory(MemoryStore::new()), &folder).await;
    every_door_over_tcp(&service, "memory").await;
    for closes in [false, true] {
        let service = start(AnyStore::Memory(MemoryStore::new()), &folder).await;
        every_call_of_grpc(&service, closes, "memory, gRPC").await;
    }
}

#[tokio::test]
async fn a_file_has_back_what_nobody_heard_of() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("counts.db");
    // A store that is late is another matter: its holds are in doubt.
    let url = format!("sqlite://{}?deadline=60s", file.display());
    let service = start(AnyStore::open(&url).await.unwrap(), &folder).await;
    every_door_over_tcp(&service, "SQLite").await;
    for closes in [false, true] {
        let service = start(AnyStore::open(&url).await.unwrap(), &folder).await;
        every_call_of_grpc(&service, closes, "SQLite, gRPC").await;
    }
}

#[tokio::test]
async fn redis_has_back_what_nobody_heard_of() {
    let server = redis_or_skip!();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("{}?deadline=60s", server.url());
    let open = async || AnyStore::from(RedisStore::connect(&url).await.unwrap());
    let service = start(open().await, &folder).await;
    every_door_over_tcp(&service, "Redis").await;
    for closes in [false, true] {
        let service = start(open().await, &folder).await;
        every_call_of_grpc(&service, closes, "Redis, gRPC").await;
    }
}

/// The metrics count the store's charges, whatever became of the callers.
async fn every_check_is_counted_once(store: AnyStore, what: &str) {
    let folder = tempfile::tempdir().unwrap();
    let service = start(store, &folder).await;
    let client = &mut service.client().await;
    let question = json!({ "subject": "clicks", "limit": "5000/366d via fixed_window" });
    let by_http = http("/v1/check", &question);
    let by_resp = line("TOLLGATE.CHECK clicks 5000/366d~via~fixed_window");
    let by_resp = String::from_utf8(by_resp).unwrap().replace('~', " ").into_bytes();
    for (address, asks) in [(service.address, &by_http), (tcp(&service.server.resp()[0]), &by_resp)]
    {
        for goes in [Goes::Closes, Goes::Resets] {
            for first in (0..TRIES).step_by(AT_ONCE) {
                let tries = first..first + AT_ONCE;
                let tries = tries.map(|number| go(address, (None, asks), goes, number));
                futures_util::future::join_all(tries).await;
            }
        }
    }
    let began = Instant::now();
    loop {
        let left = done(client, "/v1/peek", question.clone()).await["remaining"].as_u64().unwrap();
        let allowed = "tollgate_inline_decisions_total{outcome=\"allowed\",authority=\"store\"}";
        let counted = number(client, allowed).await;
        // Each fourth client has waited for its answer.
        if 5_000 - left == counted && counted >= TRIES as u64 {
            return println!("{what}: {counted} charged, and as many counted");
        }
        assert!(began.elapsed() < LONG, "{what}: {left} left, {counted} counted");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_check_counts_once_whatever_becomes_of_its_caller() {
    let folder = tempfile::tempdir().unwrap();
    every_check_is_counted_once(AnyStore::Memory(MemoryStore::new()), "memory").await;
    let url = format!("sqlite://{}?deadline=60s", folder.path().join("checks.db").display());
    every_check_is_counted_once(AnyStore::open(&url).await.unwrap(), "SQLite").await;
    let server = redis_or_skip!();
    let url = format!("{}?deadline=60s", server.url());
    let store = RedisStore::connect(&url).await.unwrap();
    every_check_is_counted_once(store.into(), "Redis").await;
}

/// A store that answers too late may have placed a hold, though its caller heard that nothing is
/// held.
#[tokio::test]
async fn what_a_redis_that_stood_still_has_placed_is_given_back() {
    let server = redis_or_skip!();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("{}?deadline=50ms", server.url());
    let service = start(RedisStore::connect(&url).await.unwrap().into(), &folder).await;
    let client = &mut service.client().await;
    let by_resp = tcp(&service.server.resp()[0]);
    let question = http("/v1/acquire", &acquire());
    let command = line("TOLLGATE.ACQUIRE backend 1000~at~once~hold~2m");
    let command = String::from_utf8(command).unwrap().replace('~', " ").into_bytes();
    let mut given_back = 0;
    for (door, address, asks) in [("http", service.address, &question), ("resp", by_resp, &command)]
    {
        let began = Instant::now();
        // Nothing may have been placed, as when the breaker was open: then it has tested nothing.
        while number(client, GIVEN_BACK).await == given_back {
            assert!(began.elapsed() < LONG, "{door}");
            are_free(client, SLOTS, door).await;
            server.freeze();
            let each = (0..AT_ONCE).map(async |_| {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(asks).await.unwrap();
                let mut said = vec![0; 4_096];
                let length = stream.read(&mut said).await.unwrap();
                String::from_utf8_lossy(&said[..length]).into_owned()
            });
            let all = futures_util::future::join_all(each).await;
            server.thaw();
            assert!(all.iter().all(|said| said.contains("failed_closed")), "{door}: {all:?}");
            are_free(client, SLOTS, door).await;
        }
        given_back = number(client, GIVEN_BACK).await;
    }
    let wire = service.wire().await;
    let began = Instant::now();
    while number(client, GIVEN_BACK).await == given_back {
        assert!(began.elapsed() < LONG, "grpc");
        // The server knows the script from here on. A late answer holds nothing.
        while reserve(&wire).await.map_or(true, |hold| hold.is_empty()) {}
        server.freeze();
        let all = futures_util::future::join_all((0..AT_ONCE).map(|_| reserve(&wire))).await;
        server.thaw();
        assert!(all.iter().all(Result::is_err), "grpc");
        let looked = json!({ "subject": "envoy:shop|user=1", "limit": "1000/d via fixed_window" });
        // Answered charges stay, and nothing else: at most a few rounds.
        loop {
            let said = done(client, "/v1/peek", looked.clone()).await;
            if said["remaining"].as_u64().is_some_and(|left| left >= SLOTS - AT_ONCE as u64 / 2) {
                break;
            }
            assert!(began.elapsed() < LONG, "{said}");
            tokio::task::yield_now().await;
        }
    }
}

/// An answer that was read counts as delivered, however the connection ends.
#[tokio::test]
async fn who_has_read_its_answer_keeps_its_hold() {
    let folder = tempfile::tempdir().unwrap();
    let usual = Bounds::default().grace;
    let service = start_with(AnyStore::Memory(MemoryStore::new()), &folder, usual).await;
    let client = &mut service.client().await;
    let question = http("/v1/acquire", &acquire());
    let command = line("TOLLGATE.ACQUIRE backend 1000~at~once~hold~2m");
    let command = String::from_utf8(command).unwrap().replace('~', " ").into_bytes();
    let mut left = SLOTS;
    for (address, asks, goes_on) in [
        (service.address, question, http("/v1/peek", &acquire())),
        (tcp(&service.server.resp()[0]), command, line("PING")),
    ] {
        // It reads and closes.
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&asks).await.unwrap();
        assert!(stream.read(&mut [0; 4_096]).await.unwrap() > 0);
        drop(stream);
        left -= 1;
        // It says that it will send no more, and reads.
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&asks).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).await.unwrap();
        assert!(!said.is_empty());
        drop(stream);
        left -= 1;
        // It reads, sends more, and resets: the first answer was read.
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&asks).await.unwrap();
        assert!(stream.read(&mut [0; 4_096]).await.unwrap() > 0);
        stream.write_all(&goes_on).await.unwrap();
        assert!(stream.read(&mut [0; 4_096]).await.unwrap() > 0);
        stream.set_zero_linger().unwrap();
        drop(stream);
        left -= 1;
    }
    // Holds are given back before this one, which is the last to go.
    go(service.address, (None, &http("/v1/acquire", &acquire())), Goes::Closes, 0).await;
    let began = Instant::now();
    while number(client, "tollgate_holds_undelivered_total{result=\"given_back\"}").await == 0 {
        assert!(began.elapsed() < LONG);
    }
    are_free(client, left, "read").await;
    assert_eq!(number(client, "tollgate_holds_undelivered_total{result=\"given_back\"}").await, 1);
}

//! A service that starts without its Redis: it answers by its rules, and connects when that comes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::thread;
use std::time::Instant;

use hyper_util::client::legacy::Client as Http2;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tollgate_envoy::proto::descriptor::RateLimitDescriptor;
use tollgate_envoy::proto::descriptor::rate_limit_descriptor::Entry;
use tollgate_envoy::proto::service::RateLimitRequest;
use tollgate_envoy::proto::service::rate_limit_response::Code;
use tollgate_envoy::proto::service::rate_limit_service_client::RateLimitServiceClient;
use tollgate_testbed::{
    Client as RedisClient, ClusterOptions, RedisServer, Reply, SentinelOptions, cluster_or_skip,
    redis_or_skip, sentinels_or_skip,
};

use crate::Place;
use crate::redis::{self, redis_cli};
use crate::serving::{LONG, Serving};

const POLICIES: &str = r#"version = 1
match = "first"
[[policies]]
name = "login"
when = { path = "/login" }
on_failure = "deny"
limits = [{ subject = "ip", limit = "900000/h via gcra" }]
[[policies]]
name = "page"
on_failure = "allow"
limits = [{ subject = "ip", limit = "900000/h via gcra" }]
"#;

const RULES: &str = "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: { unit: day, \
                     requests_per_unit: 900 }\n";

/// The line of the start, and that of the store that has come.
const STARTED: &str = "started without the store, so the failure rules decide";
const CAME: &str = "the store has come after";

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LONG, "not in time: {what}");
        thread::yield_now();
    }
}

fn file(place: &Place, name: &str, text: &str) -> String {
    let path = place.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn post(serving: &Serving, path: &str, body: &Value) -> (u16, Value) {
    let (status, text) = serving.client().ask("POST", path, &body.to_string()).unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

/// The outcome for a path by the policies.
fn outcome(serving: &Serving, path: &str) -> String {
    let question = json!({ "fields": { "ip": "192.0.2.7", "path": path } });
    post(serving, "/v1/check", &question).1["outcome"].as_str().unwrap().to_owned()
}

fn probe(serving: &Serving, path: &str) -> (u16, String) {
    serving.client().ask("GET", path, "").unwrap()
}

/// The state before the first connection.
fn is_without(serving: &Serving) {
    assert_eq!(serving.line_after("store      "), "redis (away, connects when it comes)");
    assert_eq!(outcome(serving, "/page"), "failed_open");
    assert_eq!(outcome(serving, "/login"), "failed_closed");
    let (status, body) = probe(serving, "/readyz");
    assert_eq!(status, 200);
    assert!(body.starts_with("ready\nstore: not reached since the start"), "{body}");
    let (status, body) = probe(serving, "/readyz?store=1");
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("no connection to Redis yet"), "{body}");
}

/// Waits for the store, and says what is so then.
fn has_come(serving: &Serving) {
    until("the store decides", || {
        probe(serving, "/readyz?store=1").0 == 200
            && [outcome(serving, "/page"), outcome(serving, "/login")] == ["allowed", "allowed"]
    });
    assert_eq!(probe(serving, "/readyz"), (200, "ready\n".to_owned()));
}

/// Ends it, and it has logged each of the two lines once.
fn logged_once(serving: Serving) -> String {
    let log = serving.end();
    for line in [STARTED, CAME] {
        assert_eq!(log.matches(line).count(), 1, "{line}: {log}");
    }
    log
}

/// The same, and nothing failed beside the checks.
fn logged_nothing_else(serving: Serving) -> String {
    let log = logged_once(serving);
    assert!(!log.contains("bans and exemptions cannot be read"), "{log}");
    assert!(!log.contains("cannot be kept in the store"), "{log}");
    log
}

/// The words of the reply over the Redis protocol.
fn resp(serving: &Serving) -> Vec<String> {
    let address = serving.line_after("redis      ").parse().unwrap();
    let words = ["TOLLGATE.CHECK", "user:1", "900/h"].map(str::as_bytes);
    let reply = RedisClient::tcp(address).unwrap().command(&words).unwrap();
    reply.items().iter().filter_map(Reply::text).collect()
}

/// Whether gRPC admits. An error does not.
fn grpc(serving: &Serving) -> Option<bool> {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let origin = format!("http://{}", serving.line_after("grpc       "));
    let wire = Http2::builder(TokioExecutor::new()).http2_only(true).build(HttpConnector::new());
    let mut client = RateLimitServiceClient::with_origin(wire, origin.parse().unwrap());
    let entry = Entry { key: "user".to_owned(), value: "1".to_owned() };
    let descriptor = RateLimitDescriptor { entries: vec![entry], ..Default::default() };
    let request = RateLimitRequest {
        domain: "shop".to_owned(),
        descriptors: vec![descriptor],
        hits_addend: 0,
    };
    let answer = runtime.block_on(client.should_rate_limit(request)).ok()?;
    Some(answer.into_inner().overall_code == i32::from(Code::Ok))
}

#[test]
fn every_front_answers_without_the_store_and_counts_once_it_comes() {
    let place = Place::new();
    let (policies, rules) = (file(&place, "p.toml", POLICIES), file(&place, "limits.yaml", RULES));
    let store = format!("unix://{}?prefix=staging", place.path().join("redis.sock").display());
    let here = "127.0.0.1:0";
    let serving = Serving::start(
        &place,
        &[
            "--store",
            &store,
            "--config",
            &policies,
            "--resp",
            here,
            "--grpc",
            here,
            "--envoy-config",
            &rules,
            "--queue",
            "mail=5",
            "--queue",
            "letters",
        ],
    );
    is_without(&serving);
    for queue in ["mail", "letters"] {
        let (status, said) = post(&serving, &format!("/v1/queues/{queue}"), &json!({}));
        assert_eq!(status, 503, "{said}");
    }
    assert_eq!(grpc(&serving), None, "Envoy decides");
    let refused = resp(&serving);
    assert!(refused.contains(&"failed_closed".to_owned()), "{refused:?}");
    // Nothing can be signed that would be lost.
    let (status, said) =
        post(&serving, "/v1/acquire", &json!({ "subject": "user:1", "limit": "3 at once" }));
    assert!(said["hold"].is_null(), "{status} {said}");

    let Some((_redis, _)) = redis::start(place.path(), &[]) else { return };
    has_come(&serving);
    until("the queue is there", || post(&serving, "/v1/queues/mail", &json!({})).0 == 202);
    let (status, said) = post(&serving, "/v1/queues/letters", &json!({}));
    assert_eq!(status, 400, "{said}");
    assert_eq!(grpc(&serving), Some(true));
    let counted = resp(&serving);
    assert!(counted.contains(&"store".to_owned()), "{counted:?}");
    // The key that replicas share has been made, and lies under the prefix like everything else.
    let other = Serving::start(&place, &["--store", &store, "--config", &policies]);
    let question = json!({ "subject": "user:1", "limit": "3 at once" });
    let (_, said) = post(&serving, "/v1/acquire", &question);
    let hold = json!({ "hold": said["hold"] });
    until("the other takes it", || post(&other, "/v1/release", &hold).0 == 200);
    let keys = redis_cli(&place.path().join("redis.sock"), &["KEYS", "*"]);
    assert!(keys.lines().all(|key| key.contains("staging")), "{keys}");
    assert!(keys.contains("notices"), "{keys}");
    until("the queues were looked at", || {
        probe(&serving, "/metrics").1.contains("tollgate_queue_waiting_jobs{queue=\"mail\"} 1")
    });
    let log = logged_nothing_else(serving);
    assert_eq!(log.matches("`--queue letters`: offers fail: the queue").count(), 1, "{log}");
}

#[test]
fn bans_are_unknown_until_the_store_comes() {
    let redis = redis_or_skip!();
    let place = Place::new();
    let policies = file(&place, "p.toml", POLICIES);
    let args = ["--store", &redis.url(), "--config", &policies];
    let first = Serving::start(&place, &args);
    let at = first.admin_address();
    let (code, ..) = place.run(&["admin", "--at", &at, "ban", "ip=192.0.2.7", "--for", "1h"]);
    assert_eq!(code, 0);
    assert_eq!(outcome(&first, "/page"), "banned");
    first.end();
    // It does not answer, which counts as away.
    redis.freeze();
    let serving = Serving::start(&place, &args);
    is_without(&serving);
    redis.thaw();
    until("the ban is known", || outcome(&serving, "/page") == "banned");
    logged_nothing_else(serving);
}

#[test]
fn a_server_that_loads_its_data_is_waited_for() {
    let place = Place::new();
    let policies = file(&place, "p.toml", POLICIES);
    let socket = place.path().join("redis.sock");
    let Some((redis, url)) = redis::start(place.path(), &[]) else { return };
    for key in 0..100 {
        redis_cli(&socket, &["SETRANGE", &format!("k{key}"), "4000", "x"]);
    }
    redis_cli(&socket, &["SAVE"]);
    drop(redis);
    let slow = ["--key-load-delay", "30000", "--loading-process-events-interval-bytes", "1024"];
    let Some((_redis, _)) = redis::start(place.path(), &slow) else { return };
    let serving = Serving::start(&place, &["--store", &url, "--config", &policies]);
    let (_, why) = probe(&serving, "/readyz?store=1");
    assert!(why.contains("LOADING"), "{why}");
    has_come(&serving);
    logged_nothing_else(serving);
}

#[test]
fn a_cluster_is_waited_for() {
    let mut cluster = cluster_or_skip!(ClusterOptions::new().primaries(3));
    let place = Place::new();
    let policies = file(&place, "p.toml", POLICIES);
    for node in 0..3 {
        cluster.kill(node);
    }
    let serving = Serving::start(&place, &["--store", &cluster.url(), "--config", &policies]);
    is_without(&serving);
    for node in 0..3 {
        cluster.restart(node);
    }
    has_come(&serving);
    // Its nodes are there before they agree that all is well, so more may be logged.
    logged_once(serving);
}

#[test]
fn a_primary_that_sentinels_do_not_know_yet_is_waited_for() {
    let sentinels = sentinels_or_skip!(SentinelOptions::new().replicas(0));
    let place = Place::new();
    let policies = file(&place, "p.toml", POLICIES);
    let each = |words: &[&[u8]]| -> Vec<Reply> {
        sentinels.sentinels().iter().map(|sentinel| sentinel.command(words)).collect()
    };
    let name = sentinels.name().as_bytes();
    each(&[b"SENTINEL", b"REMOVE", name]);
    let serving = Serving::start(&place, &["--store", &sentinels.url(), "--config", &policies]);
    is_without(&serving);
    let (_, why) = probe(&serving, "/readyz?store=1");
    assert!(why.contains("they know no primary of that name"), "{why}");
    let port = sentinels.server(0).port().to_string();
    each(&[b"SENTINEL", b"MONITOR", name, b"127.0.0.1", port.as_bytes(), b"2"]);
    has_come(&serving);
    logged_nothing_else(serving);
}

/// The exit code and the output of a service that ends by itself before it serves.
fn ends(place: &Place, args: &[&str]) -> (i32, String) {
    let mut command = Serving::command(place, args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    // One that serves would go on for ever.
    if !line.is_empty() {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(line.is_empty(), "{args:?} serves: {line}{said}");
    (output.status.code().unwrap(), said)
}

/// A server that answers everybody so, until the test ends.
fn answering(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

#[test]
fn what_can_never_work_ends_it() {
    let place = Place::new();
    let http = answering("HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n");
    let (code, said) = ends(&place, &["--store", "redis://h:x"]);
    assert!(code == 2 && said.contains("the port is a number"), "{code} {said}");
    let not_redis = format!("redis://{http}");
    let not_sentinels = format!("redis+sentinel://{http}/main");
    let no_cluster = redis_or_skip!("--requirepass", "right-password");
    let (address, right) = (no_cluster.address(), "right-password");
    for (url, says) in [
        (not_redis, "is not Redis's answer"),
        (not_sentinels, "is not Redis's answer"),
        (format!("redis://{address}"), "Redis wants a password"),
        (format!("redis://:wrong@{address}"), "knows no such user with this password"),
        (format!("redis+cluster://:{right}@{address}"), "is not a node of a cluster"),
        (format!("redis+sentinel://:{right}@{address}/main?sentinel_password=wrong"), "password"),
    ] {
        let (code, said) = ends(&place, &["--store", &url, "--store-wait", "0"]);
        assert!(code == 2 && said.contains(says), "{url}: {code} {said}");
        // With a wait it reports that immediately, and ends then.
        let (code, said) = ends(&place, &["--store", &url, "--store-wait", "200ms"]);
        assert!(code == 2 && said.contains("which ends this service in 0.2s"), "{url}: {said}");
        assert!(!said.contains(right) && !said.contains(STARTED), "{said}");
    }
}

#[test]
fn a_refusal_that_passes_in_time_ends_nothing() {
    let redis = redis_or_skip!("--requirepass", "late-password");
    let place = Place::new();
    let policies = file(&place, "p.toml", POLICIES);
    let url = format!("redis://:new-password@{}", redis.address());
    let args = ["--store", &url, "--config", &policies, "--store-wait", "60s"];
    let serving = thread::scope(|scope| {
        let starting = scope.spawn(|| Serving::start(&place, &args));
        until("it is refused", || {
            let log = login(&redis, b"late-password").command(&[b"ACL", b"LOG"]).unwrap();
            !log.items().is_empty()
        });
        let set = [&b"CONFIG"[..], b"SET", b"requirepass", b"new-password"];
        login(&redis, b"late-password").command(&set).unwrap();
        starting.join().unwrap()
    });
    assert_eq!(serving.line_after("store      "), "redis");
    has_come(&serving);
    let log = serving.end();
    assert_eq!(log.matches("the store refuses, which ends this service in 1m").count(), 1, "{log}");
}

fn login(redis: &RedisServer, password: &[u8]) -> RedisClient {
    let mut client = RedisClient::tcp(redis.address()).unwrap();
    client.command(&[b"AUTH", password]).unwrap();
    client
}

#[test]
fn a_store_that_comes_and_refuses_ends_it() {
    let place = Place::new();
    let policies = file(&place, "p.toml", POLICIES);
    let socket = format!("unix://:wrong@{}", place.path().join("redis.sock").display());
    let args = ["--store", &socket, "--config", &policies, "--store-wait", "100ms"];
    let serving = Serving::start(&place, &args);
    is_without(&serving);
    let Some((_redis, _)) = redis::start(place.path(), &["--requirepass", "right"]) else { return };
    let (code, log) = serving.ended();
    assert_eq!(code, 2, "{log}");
    assert!(log.contains("knows no such user with this password"), "{log}");
    assert_eq!(log.matches("which ends this service in 0.1s (--store-wait)").count(), 1, "{log}");
}

/// A signal ends it while it waits.
#[test]
fn it_ends_while_it_waits() {
    let place = Place::new();
    let socket = place.path().join("redis.sock");
    let url = format!("unix://{}", socket.display());
    let serving = Serving::start(&place, &["--store", &url]);
    assert!(probe(&serving, "/readyz").1.contains("store: not reached"));
    let log = serving.end();
    assert!(log.contains(STARTED) && !log.contains(CAME), "{log}");
}

//! One count through all doors: HTTP, the Redis protocol, gRPC, a program and the
//! command line ask about one subject on one Redis, and admit exactly the limit together.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::thread;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use hyper_util::client::legacy::Client as Http2;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::runtime::{Builder, Runtime};
use tollgate::{Limiter, Subject};
use tollgate_envoy::proto::descriptor::RateLimitDescriptor;
use tollgate_envoy::proto::descriptor::rate_limit_descriptor::Entry;
use tollgate_envoy::proto::service::RateLimitRequest;
use tollgate_envoy::proto::service::rate_limit_response::Code;
use tollgate_envoy::proto::service::rate_limit_service_client::RateLimitServiceClient;
use tollgate_redis::RedisStore;
use tollgate_testbed::{Client as RedisClient, RedisServer};

use crate::Place;
use crate::redis;
use crate::serving::{Client, Serving};

const PAGE: &str = include_str!("../../../../docs/envoy.md");

/// Where the page tells of it.
const SECTION: &str = "## One count through all doors\n";

/// The limit of the page, and the units that it admits.
const LIMITS: &str = "600/d via fixed_window";
const ADMITS: u32 = 600;

/// The block of this kind in the section.
fn block(kind: &str) -> &'static str {
    let section = PAGE.split(SECTION).nth(1).unwrap();
    let from = section.split(&format!("```{kind}\n")).nth(1).unwrap();
    from.split("```").next().unwrap()
}

/// A Redis, a service on it with every door, and a program on it.
struct Doors {
    serving: Serving,
    store: String,
    program: SocketAddr,
    place: Place,
    runtime: Runtime,
    _redis: RedisServer,
}

impl Doors {
    /// None when no Redis is installed; that has been said then.
    fn open() -> Option<Self> {
        let place = Place::new();
        let (redis, url) = redis::start(place.path(), &[])?;
        // However busy the machine is: a caller that waits too long gets the answer of a failure
        // rule.
        let store = format!("{url}?deadline=30s");
        let rules = place.path().join("limits.yaml");
        std::fs::write(&rules, block("yaml")).unwrap();
        let rules = rules.display().to_string();
        let here = "127.0.0.1:0";
        let args = ["--store", &store, "--resp", here, "--grpc", here, "--envoy-config", &rules];
        let serving = Serving::start(&place, &args);
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let program = runtime.block_on(program(&store));
        Some(Self { serving, store, program, place, runtime, _redis: redis })
    }

    fn resp(&self) -> SocketAddr {
        self.serving.line_after("redis      ").parse().unwrap()
    }

    /// The callers of each front for a user: whether the user is admitted, each time it is called.
    fn askers<'d>(&'d self, user: &'d str) -> Vec<(&'static str, Asker<'d>)> {
        vec![
            ("HTTP", self.http(user)),
            ("RESP", self.redis(user)),
            ("gRPC", self.grpc(user)),
            ("program", self.program(user)),
            ("command line", self.command_line(user)),
        ]
    }

    fn http<'d>(&'d self, user: &'d str) -> Asker<'d> {
        let mut client = self.serving.client();
        let subject = format!("envoy:shop|user={user}");
        let body = serde_json::json!({ "subject": subject, "limit": LIMITS }).to_string();
        Box::new(move || {
            let (status, said) = client.ask("POST", "/v1/check", &body).unwrap();
            let said: serde_json::Value = serde_json::from_str(&said).unwrap();
            assert_eq!((status, &said["authority"]), (200, &"store".into()), "{said}");
            said["allowed"].as_bool().unwrap()
        })
    }

    fn redis<'d>(&'d self, user: &'d str) -> Asker<'d> {
        let mut client = RedisClient::tcp(self.resp()).unwrap();
        let subject = format!("envoy:shop|user={user}");
        Box::new(move || {
            let words = [&b"TOLLGATE.CHECK"[..], subject.as_bytes(), LIMITS.as_bytes()];
            let reply = client.command(&words).unwrap();
            let [name, allowed, _, _, authority, by, ..] = reply.items() else {
                panic!("{reply:?}")
            };
            assert_eq!(name.text().as_deref(), Some("allowed"), "{reply:?}");
            assert_eq!(authority.text().as_deref(), Some("authority"), "{reply:?}");
            assert_eq!(by.text().as_deref(), Some("store"), "{reply:?}");
            allowed.int() == Some(1)
        })
    }

    fn grpc<'d>(&'d self, user: &'d str) -> Asker<'d> {
        let origin = format!("http://{}", self.serving.line_after("grpc       "));
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let wire = Http2::builder(TokioExecutor::new()).http2_only(true).build(connector);
        let mut client = RateLimitServiceClient::with_origin(wire, origin.parse().unwrap());
        let entry = Entry { key: "user".to_owned(), value: user.to_owned() };
        let descriptor = RateLimitDescriptor { entries: vec![entry], ..Default::default() };
        let request = RateLimitRequest {
            domain: "shop".to_owned(),
            descriptors: vec![descriptor],
            hits_addend: 0,
        };
        Box::new(move || {
            let answer = self.runtime.block_on(client.should_rate_limit(request.clone()));
            answer.unwrap().into_inner().overall_code == i32::from(Code::Ok)
        })
    }

    fn program<'d>(&'d self, user: &'d str) -> Asker<'d> {
        let mut client = Client::connect(self.program).unwrap();
        let header = format!("x-user: {user}\r\n");
        Box::new(move || {
            let (status, ..) = client.whole_with(&header, "GET", "/", "").unwrap();
            assert!([200, 429].contains(&status), "{status}");
            status == 200
        })
    }

    fn command_line<'d>(&'d self, user: &'d str) -> Asker<'d> {
        let subject = format!("envoy:shop|user={user}");
        Box::new(move || {
            let args = ["check", "--literal", &subject, "-l", LIMITS, "--store", &self.store];
            let (code, out, err) = self.place.run(&args);
            assert!([0, 1].contains(&code), "{code} {out} {err}");
            code == 0
        })
    }
}

type Asker<'d> = Box<dyn FnMut() -> bool + Send + 'd>;

/// A program of pages on this store, which counts by the header of a user.
async fn program(store: &str) -> SocketAddr {
    let store = RedisStore::connect(store).await.unwrap();
    let limiter = Arc::new(Limiter::new(LIMITS.parse().unwrap(), store));
    let page = async move |headers: HeaderMap| {
        let user = format!("shop|user={}", headers["x-user"].to_str().unwrap());
        match limiter.check(Subject::new("envoy", user).unwrap()).await.unwrap().is_allowed() {
            true => StatusCode::OK,
            false => StatusCode::TOO_MANY_REQUESTS,
        }
    };
    let app = Router::new().route("/", get(page));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, app).await });
    address
}

#[test]
fn all_doors_admit_exactly_the_limit_together() {
    let Some(doors) = Doors::open() else { return };
    let askers: Vec<_> = (0..2).flat_map(|_| doors.askers("ann")).collect();
    let all_have_begun = Arc::new(Barrier::new(askers.len()));
    let admitted: Vec<(&str, u32)> = thread::scope(|scope| {
        let asking: Vec<_> = askers
            .into_iter()
            .map(|(door, mut ask)| {
                let all_have_begun = Arc::clone(&all_have_begun);
                scope.spawn(move || {
                    assert!(ask(), "{door}: the first is admitted");
                    all_have_begun.wait();
                    let mut admitted = 1;
                    while ask() {
                        admitted += 1;
                    }
                    (door, admitted)
                })
            })
            .collect();
        asking.into_iter().map(|asking| asking.join().unwrap()).collect()
    });
    println!("{admitted:?}");
    let sum: u32 = admitted.iter().map(|(_, admitted)| admitted).sum();
    assert_eq!(sum, ADMITS, "{admitted:?}");
    for (door, mut ask) in doors.askers("ann") {
        assert!(!ask(), "{door}: nothing remains");
    }
    for (door, mut ask) in doors.askers("bob") {
        assert!(ask(), "{door}: another user has a count of its own");
    }
}

/// The lines of the page, each by another door, and the code of it.
#[test]
fn the_lines_of_the_page_ask_about_one_count() {
    let Some(doors) = Doors::open() else { return };
    let program = env!("CARGO_BIN_EXE_tollgate");
    let lines: Vec<String> = block("sh")
        .lines()
        .map(|line| {
            line.replace("localhost:8700", &doors.serving.address().to_string())
                .replace("-p 6380", &format!("-p {}", doors.resp().port()))
                .replace("redis://127.0.0.1:6379", &format!("'{}'", doors.store))
                .replacen("tollgate check", &format!("{program} check"), 1)
        })
        .collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    for line in &lines {
        let output = Command::new("sh").args(["-c", line]).output().unwrap();
        assert!(output.status.success() && !output.stdout.is_empty(), "{line}: {output:?}");
    }
    assert!(block("rust").contains(r#"Subject::new("envoy", "shop|user=ann")?"#));
    assert!(block("rust").contains(LIMITS), "{}", block("rust"));
    assert!((doors.program("ann"))());
    let args = ["peek", "--literal", "envoy:shop|user=ann", "-l", LIMITS, "--store", &doors.store];
    let left = doors.place.json(&[&args[..], &["--json"]].concat())["remaining"].clone();
    assert_eq!(left, ADMITS - 5, "each of the five was charged");
}

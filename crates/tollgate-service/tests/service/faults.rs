//! A store that freezes and dies, as the service's clients see it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use tollgate::StoreError;
use tollgate_policy::{Authority, Outcome};
use tollgate_redis::RedisStore;
use tollgate_service::AnyStore;
use tollgate_sqlite::{Access, SqliteStore};
use tollgate_testbed::{Mode, Proxy, RedisServer, Reply, redis_or_skip};

use crate::client::Client;
use crate::{Service, gate_of};

const DEADLINE: Duration = tollgate_policy::DEFAULT_DEADLINE;

/// The time that a busy machine may take beyond a deadline, as `docs/faults.md` states it.
const SLACK: Duration = Duration::from_millis(100);

const FILE: &str = r#"
    version = 1
    match = "first"
    [[policies]]
    name = "allow"
    on_failure = "allow"
    deadline = "50ms"
    when = { path = "/allow" }
    limits = [{ subject = "ip", limit = "1000000/h via gcra" }]
    [[policies]]
    name = "unsaid"
    on_failure = "deny"
    when = { path = "/unsaid" }
    limits = [{ subject = "ip", limit = "1000000/h via gcra" }]
    [[policies]]
    name = "deny"
    on_failure = "deny"
    deadline = "50ms"
    limits = [{ subject = "ip", limit = "1000000/h via gcra" }]
"#;

const QUESTIONS: [(&str, &str); 3] = [
    (r#"{"policy": "allow", "fields": {"ip": "192.0.2.7"}}"#, "failed_open"),
    (r#"{"policy": "deny", "fields": {"ip": "192.0.2.7"}}"#, "failed_closed"),
    (r#"{"subject": "user:1", "limit": "1000000/h via gcra"}"#, "failed_closed"),
];

async fn service_on(server: &RedisServer) -> Service {
    let store = RedisStore::connect(&server.url()).await.unwrap();
    Service::start_with(gate_of(FILE, AnyStore::from(store)), |_| {}).await
}

/// Asks for this time: every answer is the rule's, reports that, and comes within the deadline.
async fn stand_in(service: &Service, time: Duration, what: &str) {
    let (end, mut took) = (Instant::now() + time, Vec::new());
    let mut client = service.client().await;
    while Instant::now() < end {
        for (question, outcome) in QUESTIONS {
            let began = Instant::now();
            let said = client.check(question).await;
            took.push(began.elapsed());
            assert_eq!(said["outcome"], outcome, "{said}");
            assert_eq!(said["authority"], "failure_rule");
            assert_eq!(said["allowed"], outcome == "failed_open");
            assert_eq!(said["remaining"], Value::Null, "nobody knows");
            assert!(said["error"].is_string(), "{said}");
        }
        let told = [("x-original-uri", "/"), ("x-forwarded-for", "192.0.2.7")];
        let began = Instant::now();
        let reply = client.ask("GET", "/v1/auth", &told, "").await;
        took.push(began.elapsed());
        assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (503, Some("1")));
        assert_eq!(client.get("/readyz").await.status.as_u16(), 200, "it answers by its rules");
        assert_eq!(client.get("/readyz?store=1").await.status.as_u16(), 503);
        assert_eq!(client.get("/healthz").await.status.as_u16(), 200);
        tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep-ok a client's pace
    }
    took.sort_unstable();
    let (p99, most) = (took[took.len() * 99 / 100], took[took.len() - 1]);
    println!("{what}: {} answers, p99 {p99:?}, at most {most:?}", took.len());
    assert!(p99 <= DEADLINE + SLACK, "{what}: p99 {p99:?}");
    assert!(most <= DEADLINE + 5 * SLACK, "{what}: at most {most:?}");
}

/// Until the store answers every question again: within 5 s, without a restart.
async fn comes_back(client: &mut Client, what: &str) {
    let began = Instant::now();
    for (question, _) in QUESTIONS {
        while client.check(question).await["authority"] != "store" {
            assert!(began.elapsed() < Duration::from_secs(5), "{what}: not back after 5 s");
            tokio::time::sleep(Duration::from_millis(20)).await; // tidy: sleep-ok a client's pace
        }
    }
    while client.get("/readyz?store=1").await.status.as_u16() != 200 {
        assert!(began.elapsed() < Duration::from_secs(5), "{what}: not ready after 5 s");
        tokio::time::sleep(Duration::from_millis(20)).await; // tidy: sleep-ok a client's pace
    }
    println!("{what}: back after {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_or_killed_redis_is_answered_for_within_the_deadline() {
    let mut server = redis_or_skip!();
    let service = service_on(&server).await;
    let mut client = service.client().await;
    comes_back(&mut client, "at first").await;

    server.freeze();
    stand_in(&service, Duration::from_secs(5), "frozen").await;
    server.thaw();
    comes_back(&mut client, "thawed").await;

    server.kill();
    stand_in(&service, Duration::from_secs(5), "killed").await;
    server.restart();
    comes_back(&mut client, "restarted").await;

    // The authority that answered is counted.
    let counters = service.gate.counters().policies();
    let of = |name: &str| &counters.iter().find(|(known, _)| known == name).unwrap().1;
    assert!(of("allow").get(Outcome::FailedOpen, Authority::FailureRule) > 0);
    assert!(of("deny").get(Outcome::FailedClosed, Authority::FailureRule) > 0);
    assert_eq!(of("allow").total(Outcome::FailedClosed), 0);
    assert_eq!(of("deny").total(Outcome::FailedOpen), 0);
    let inline = service.gate.counters().inline_limits;
    assert!(inline.get(Outcome::FailedClosed, Authority::FailureRule) > 0);
}

/// A policy that gives the store less time than the way to it takes fails by itself: the other one,
/// which can wait, is counted.
#[tokio::test(flavor = "multi_thread")]
async fn one_policys_deadline_is_not_anothers_breaker() {
    const IMPATIENT: &str = r#"
        version = 1
        match = "first"
        [[policies]]
        name = "cheap"
        on_failure = "deny"
        deadline = "5ms"
        limits = [{ subject = "ip", limit = "1000000/h via gcra" }]
        [[policies]]
        name = "login"
        on_failure = "allow"
        deadline = "10s"
        limits = [{ subject = "ip", limit = "3/h via gcra" }]
    "#;
    let server = redis_or_skip!();
    let proxy = Proxy::start(server.address());
    let way = Duration::from_millis(10);
    proxy.set(Mode::Delay { least: way, most: way });
    let store = RedisStore::connect(&proxy.url()).await.unwrap();
    let service = Service::start_with(gate_of(IMPATIENT, AnyStore::from(store)), |_| {}).await;
    let mut client = service.client().await;
    let mut seen = BTreeMap::<(&str, String), u32>::new();
    for round in 0..200 {
        // Some come more often in a row than the breaker counts to.
        let often = if round % 10 == 0 { 6 } else { 1 };
        for policy in std::iter::repeat_n("cheap", often).chain(["login"]) {
            let asked = format!(r#"{{"policy": "{policy}", "fields": {{"ip": "192.0.2.7"}}}}"#);
            let answer = client.post("/v1/check", &asked).await.json();
            let outcome = answer["outcome"].as_str().unwrap().to_owned();
            *seen.entry((policy, outcome)).or_default() += 1;
        }
    }
    let logins = |outcome: &str| seen.get(&("login", outcome.to_owned())).copied();
    assert_eq!((logins("allowed"), logins("denied")), (Some(3), Some(197)), "{seen:?}");
    assert!(seen.contains_key(&("cheap", "failed_closed".to_owned())), "{seen:?}");
}

/// A store that cannot write would deny every login, although it answers reads.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_refuses_writes_is_not_ready_where_the_store_is_asked() {
    let server = redis_or_skip!();
    let service = service_on(&server).await;
    let mut client = service.client().await;
    comes_back(&mut client, "at first").await;
    let set = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
        let reply = server.command(&words);
        assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
    };

    set(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(client.get("/readyz").await.status.as_u16(), 200);
    let reply = client.get("/readyz?store=1").await;
    assert_eq!(reply.status.as_u16(), 503, "{}", reply.text);
    assert!(reply.text.contains("maxmemory"), "{}", reply.text);
    set(&["CONFIG", "SET", "maxmemory", "0"]);
    comes_back(&mut client, "with memory again").await;

    set(&["REPLICAOF", "127.0.0.1", "1"]);
    let reply = client.get("/readyz?store=1").await;
    assert_eq!(reply.status.as_u16(), 503, "{}", reply.text);
    assert!(reply.text.contains("READONLY"), "{}", reply.text);
    assert_eq!(client.get("/readyz").await.status.as_u16(), 200);
    set(&["REPLICAOF", "NO", "ONE"]);
    comes_back(&mut client, "a primary again").await;
    assert_eq!(server.without_ttl(), Vec::<Vec<u8>>::new(), "what was written to see goes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_file_is_not_ready_where_the_store_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("counts.db");
    let file = file.to_str().unwrap();
    let store = SqliteStore::open(file).unwrap();
    let service = Service::start_with(gate_of(FILE, AnyStore::from(store)), |_| {}).await;
    let mut client = service.client().await;
    assert_eq!(client.get("/readyz?store=1").await.status.as_u16(), 200);

    let (locked, is_locked) = std::sync::mpsc::channel();
    let (unlock, to_unlock) = std::sync::mpsc::channel::<()>();
    let other = SqliteStore::open(file).unwrap();
    let holder = tokio::spawn(async move {
        other
            .transaction(Access::Write, move |_| {
                locked.send(()).unwrap();
                to_unlock.recv().unwrap();
                Ok::<_, StoreError>(())
            })
            .await
    });
    tokio::task::spawn_blocking(move || is_locked.recv().unwrap()).await.unwrap();
    assert_eq!(client.get("/readyz").await.status.as_u16(), 200);
    let reply = client.get("/readyz?store=1").await;
    assert_eq!(reply.status.as_u16(), 503, "{}", reply.text);
    unlock.send(()).unwrap();
    holder.await.unwrap().unwrap();
    assert_eq!(client.get("/readyz?store=1").await.status.as_u16(), 200);
}

/// Probes come often and from everywhere: they are nobody's questions.
#[tokio::test]
async fn a_look_at_the_store_is_counted_nowhere() {
    let service = Service::start().await;
    let mut client = service.client().await;
    for _ in 0..3 {
        assert_eq!(client.get("/readyz?store=1").await.status.as_u16(), 200);
    }
    assert_eq!(service.gate.counters().inline_limits.total(Outcome::Allowed), 0);
    for wrong in ["store=yes", "store", "stroe=1", "store=1&store=1"] {
        let reply = client.get(&format!("/readyz?{wrong}")).await;
        assert_eq!(reply.status.as_u16(), 400, "{wrong}: {}", reply.text);
    }
}

/// The URL's settings apply to inline limits, and a question may replace them.
#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_of_the_url_holds_and_a_question_may_bring_its_own() {
    let server = redis_or_skip!();
    let store = RedisStore::connect(&format!("{}?deadline=2s", server.url())).await.unwrap();
    let service = Service::start_with(gate_of(FILE, AnyStore::from(store)), |_| {}).await;
    let mut client = service.client().await;
    comes_back(&mut client, "at first").await;
    let long = Duration::from_millis(300);
    for (question, answered) in [
        (r#"{"subject": "user:1", "limit": "9/h"}"#, true),
        (r#"{"policy": "unsaid", "fields": {"ip": "192.0.2.1"}}"#, true),
        (r#"{"subject": "user:1", "limit": "9/h", "deadline": "20ms"}"#, false),
        (r#"{"subject": "user:1", "limit": "9/h", "deadline": "5s"}"#, true),
    ] {
        // The server pauses for longer than the usual deadline, and then answers.
        let pause = long.as_millis().to_string();
        let words: Vec<&[u8]> = vec![b"CLIENT", b"PAUSE", pause.as_bytes(), b"ALL"];
        assert!(!matches!(server.command(&words), Reply::Error(_)));
        let began = Instant::now();
        let said = client.check(question).await;
        assert_eq!(said["authority"] == "store", answered, "{question}: {said}");
        assert_eq!(began.elapsed() >= long / 2, answered, "{question}: {:?}", began.elapsed());
        comes_back(&mut client, question).await;
    }
    for wrong in ["0ms", "2m", "1", "", "1 s"] {
        let body = format!(r#"{{"subject": "a", "limit": "9/h", "deadline": "{wrong}"}}"#);
        let reply = client.post("/v1/check", &body).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["field"]), (400, &"deadline".into()));
    }
}

/// The same for a file that another process has locked; and the error tells the time that it took.
#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_of_a_files_url_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("counts.db");
    let open = |query: &str| {
        SqliteStore::open(&format!("sqlite://{}{query}", path.to_str().unwrap())).unwrap()
    };
    let other = open("");
    for (query, waits) in [("?deadline=10s", true), ("", false)] {
        let service = Service::start_with(gate_of(FILE, AnyStore::from(open(query))), |_| {}).await;
        let mut client = service.client().await;
        for question in [
            r#"{"subject": "user:1", "limit": "99/h"}"#,
            r#"{"policy": "unsaid", "fields": {"ip": "192.0.2.1"}}"#,
        ] {
            let (locked, is_locked) = std::sync::mpsc::channel();
            let (answered, is_answered) = std::sync::mpsc::channel::<()>();
            let other = other.clone();
            let holder = tokio::spawn(async move {
                other
                    .transaction(Access::Write, move |_| {
                        locked.send(()).unwrap();
                        // Longer than the usual deadline, or until the question has failed.
                        let longest = if waits { DEADLINE + SLACK } else { DEADLINE * 60 };
                        let _ = is_answered.recv_timeout(longest);
                        Ok::<_, StoreError>(())
                    })
                    .await
            });
            tokio::task::spawn_blocking(move || is_locked.recv().unwrap()).await.unwrap();
            let said = client.check(question).await;
            assert_eq!(said["authority"] == "store", waits, "{query} {question}: {said}");
            if !waits {
                let error = said["error"].as_str().unwrap();
                assert!(error.contains("held its lock for ") && !error.contains("5s"), "{error}");
            }
            let _ = answered.send(());
            holder.await.unwrap().unwrap();
        }
    }
}

/// An answer that was lost is asked for again, and nothing is charged twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_with_an_idempotency_key_is_charged_once() {
    let server = redis_or_skip!();
    let service = service_on(&server).await;
    let mut client = service.client().await;
    comes_back(&mut client, "at first").await;
    let question = |key: &str, limit: &str| {
        format!(r#"{{"subject": "user:7", "limit": "{limit}", "idempotency_key": "{key}"}}"#)
    };
    let asked = [("a", 8, false), ("a", 8, true), ("b", 7, false), ("a", 8, true)];
    for (key, remaining, repeated) in asked {
        let answer = client.check(&question(key, "9/h")).await;
        assert_eq!(
            (&answer["remaining"], &answer["repeated"]),
            (&remaining.into(), &repeated.into())
        );
    }
    // Each request is counted with its first answer.
    let page = client.get("/metrics").await.text;
    assert!(page.contains("tollgate_repeated_answers_total 2"), "{page}");
    for (body, says) in [
        (question("", "9/h"), "1 to 256"),
        (question(&"k".repeat(257), "9/h"), "1 to 256"),
        (r#"{"policy": "deny", "idempotency_key": "a"}"#.to_owned(), "under inline limits"),
    ] {
        let reply = client.post("/v1/check", &body).await;
        assert_eq!(reply.status.as_u16(), 400, "{body}: {}", reply.text);
        assert!(reply.text.contains(says), "{}", reply.text);
    }
    // A key that is used for something else charges nothing.
    let reply = client.post("/v1/check", &question("a", "8/h")).await;
    assert_eq!(reply.status.as_u16(), 400, "{}", reply.text);
    assert!(reply.text.contains("used for another question"), "{}", reply.text);
    assert_eq!(client.check(&question("c", "9/h")).await["remaining"], 6);
    let reply = client.post("/v1/peek", &question("a", "9/h")).await;
    assert_eq!(reply.json()["field"], "idempotency_key");
}

//! The console: its files, who may ask for them, and the figures that it shows.

use std::time::{Duration, Instant};

use http::StatusCode;
use serde_json::{Value, json};
use tollgate::MemoryStore;
use tollgate_policy::{Format, Policies};
use tollgate_queue::{
    AnyQueues, ConsumerSettings, DeliveryTag, Job, MemoryQueues, ProducerSettings, Queue,
};
use tollgate_service::{AnyStore, Denials, Metrics, Options, Queues, Subjects};

use crate::client::{Client, Reply};
use crate::{FILE, Service, here};

const TOKEN: &str = "0123456789abcdef";

async fn service(change: impl FnOnce(&mut Options)) -> Service {
    let denials = Denials::new(Subjects::Hashed, Some(b"a key")).unwrap();
    let metrics = Metrics::with(Some(denials), None);
    let policies = Policies::parse(FILE, Format::Toml).unwrap();
    let gate = metrics.gate(policies, AnyStore::Memory(MemoryStore::new())).unwrap();
    Service::start_with(gate, |options| {
        options.admin = Some(here());
        options.metrics = metrics;
        change(options);
    })
    .await
}

/// Asks for the figures until they are so; they are a second old at most, and recorded each second.
async fn figures(admin: &mut Client, is_so: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let reply = admin.get("/v1/admin/overview").await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        let figures = reply.json();
        if is_so(&figures) {
            return figures;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{figures:#}");
        tokio::task::yield_now().await;
    }
}

fn row<'f>(figures: &'f Value, policy: &Value, limit: &str) -> Option<&'f Value> {
    let rows = figures["limits"].as_array().unwrap();
    rows.iter().find(|row| row["policy"] == *policy && row["limit"] == limit)
}

#[tokio::test]
async fn the_figures_are_what_was_asked() {
    let service = service(|_| {}).await;
    let (mut client, mut admin) = (service.client().await, service.admin().await);
    let ask = |policy: &str, ip: u8| {
        format!(r#"{{"policy": "{policy}", "fields": {{"ip": "192.0.2.{ip}"}}}}"#)
    };
    for _ in 0..7 {
        client.check(&ask("login", 1)).await;
    }
    for _ in 0..4 {
        client.check(&ask("trial", 2)).await;
    }
    for _ in 0..3 {
        client.check(r#"{"subject": "user:ann", "limit": "1/h"}"#).await;
    }
    // A request to which no policy applies but the one in shadow.
    client.check(r#"{"fields": {"ip": "192.0.2.3"}}"#).await;
    let is_there = |figures: &Value| {
        let limits = figures["limits"].as_array().unwrap().iter();
        let sum = |key: &str| -> u64 { limits.clone().map(|it| it[key].as_u64().unwrap()).sum() };
        sum("admitted") + sum("denied") == 20
    };
    let figures = figures(&mut admin, |figures| is_there(figures)).await;
    let counts = |policy: Value, limit: &str| {
        let row = row(&figures, &policy, limit).unwrap_or_else(|| panic!("{figures:#}"));
        let minutes = row["minutes"].as_array().unwrap();
        assert_eq!(minutes.len(), 60);
        let sum = |at: usize| -> u64 { minutes.iter().map(|it| it[at].as_u64().unwrap()).sum() };
        assert_eq!(
            (json!(sum(0)), json!(sum(1))),
            (row["admitted"].clone(), row["denied"].clone())
        );
        (sum(0), sum(1), row["shadow"].as_bool().unwrap())
    };
    assert_eq!(counts(json!("login"), "sliding_log/1h"), (2, 5, false));
    let first = &figures["limits"][0];
    assert_eq!(
        (&first["policy"], &first["numbers"]),
        (&json!("login"), &json!("2/h via sliding_log"))
    );
    assert_eq!(counts(json!("trial"), "sliding_log/1h"), (2, 3, true), "it would deny");
    assert_eq!(counts(json!(null), "inline"), (1, 2, false));
    // A request that only meets a policy in shadow goes on without a limit.
    assert_eq!(counts(json!(null), "none"), (5, 0, false));
    let by = figures["durations"]["by"].as_array().unwrap();
    assert_eq!((by.len(), &by[0]["authority"]), (1, &json!("store")));
    assert_eq!(by[0]["answers"], 10, "{by:?}");
    assert!(by[0]["p50_us"].as_u64() <= by[0]["p99_us"].as_u64(), "{by:?}");
    let store = &figures["store"];
    assert_eq!((&store["kind"], &store["counts"]), (&json!("memory"), &json!(true)));
    assert!(store["subjects"].as_u64() >= Some(3) && store["error"].is_null(), "{store}");
    assert_eq!((&figures["policies"], &figures["queues"]), (&json!(5), &json!([])));
    assert_eq!(figures["denied"]["observed"], 7);
    // The same figures as series: those in shadow are marked.
    let series = admin.get("/v1/admin/series?last=10m").await.json();
    for one in series["series"].as_array().unwrap() {
        let admits = ["allowed", "no_policy"].contains(&one["outcome"].as_str().unwrap());
        assert_eq!(one["admits"], admits, "{one}");
    }
    let shadows = series["series"].as_array().unwrap().iter().filter(|one| one["shadow"] == true);
    assert_eq!(shadows.map(|one| &one["policy"]).collect::<Vec<_>>(), ["trial", "trial"]);
}

#[tokio::test]
async fn a_hash_is_looked_up_and_a_subject_is_explained() {
    let service = service(|_| {}).await;
    let (mut client, mut admin) = (service.client().await, service.admin().await);
    let ask = r#"{"policy": "login", "fields": {"ip": "192.0.2.1"}}"#;
    for _ in 0..3 {
        client.check(ask).await;
    }
    let top = admin.get("/v1/admin/top?by=denied").await.json();
    let hash = top["subjects"][0]["subject"].as_str().unwrap();
    let look_up = |written: &str| json!({ "subject": written }).to_string();
    let reply = admin.post("/v1/admin/lookup", &look_up(hash)).await;
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let found = json!({ "found": [{ "subject": "ip:192.0.2.1", "policy": "login" }] });
    assert_eq!(reply.json(), found);
    let reply = admin.post("/v1/admin/lookup", &look_up("ip:192.0.2.1")).await;
    assert_eq!(reply.json(), json!({ "found": [] }));
    let reply = admin.post("/v1/admin/lookup", "{}").await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{}", reply.text);

    let whose = r#"{"policy": "login", "subject": "ip:192.0.2.1"}"#;
    let peeked = admin.post("/v1/admin/peek", whose).await.json();
    assert_eq!(peeked["answer"]["limits"][0]["remaining"], 0);
    let text = peeked["text"].as_str().unwrap();
    assert!(text.starts_with("deny ip:192.0.2.1: retry in "), "{text}");
    let explained = admin.get("/v1/admin/explain?ip=192.0.2.1&path=/login&method=POST").await;
    assert_eq!(explained.json()["answer"]["outcome"], "denied");
    let policies = admin.get("/v1/admin/policies").await.json();
    assert_eq!(policies["policies"][0]["name"], "login");
    // A look is not a request: nobody asked more often for it.
    let after = admin.get("/v1/admin/top?by=asked").await.json();
    assert_eq!(after["observed"], 3);
}

#[tokio::test]
async fn reloads_are_listed_with_what_they_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.toml");
    let policy = "version = 1\n[[policies]]\nname = \"login\"\non_failure = \"deny\"\n\
                  limits = [{ subject = \"ip\", limit = \"2/h\" }]\n";
    std::fs::write(&path, policy).unwrap();
    let metrics = Metrics::new();
    let policies = Policies::load(&path).unwrap();
    let gate = metrics.gate(policies, AnyStore::Memory(MemoryStore::new())).unwrap();
    let service = Service::start_with(gate, |options| {
        options.admin = Some(here());
        options.metrics = metrics;
        options.config = Some(path.clone());
    })
    .await;
    let mut admin = service.admin().await;
    let before = figures(&mut admin, |_| true).await;
    assert_eq!(before["reloads"]["last"], json!([]));
    for (text, status) in [(policy, 200), (&*policy.replace("2/h", "3/h"), 200), ("version", 422)] {
        std::fs::write(&path, text).unwrap();
        assert_eq!(admin.post("/v1/admin/reload", "").await.status.as_u16(), status);
    }
    let after = figures(&mut admin, |figures| figures["reloads"]["counts"]["broken"] == 1).await;
    let reloads = &after["reloads"];
    assert_eq!(reloads["counts"], json!({ "taken": 1, "unchanged": 1, "broken": 1 }));
    let last = reloads["last"].as_array().unwrap();
    assert_eq!((last.len(), &last[0]["result"]), (2, &json!("broken")));
    assert!(last[0]["error"].as_str().unwrap().contains("version"), "{last:?}");
    assert_eq!(last[1]["revision"], after["revision"]);
    let lines = ["- limit of ip: 2/h via sliding_log", "+ limit of ip: 3/h via sliding_log"];
    let change = json!([{ "policy": "login", "what": "changed", "lines": lines }]);
    assert_eq!(last[1]["changes"], change);
}

/// Header names that tell where a request comes from.
const ORIGIN: &str = "origin";
const SITE: &str = "sec-fetch-site";

#[tokio::test]
async fn a_page_of_another_origin_is_refused_and_the_own_one_is_not() {
    let service = service(|options| options.admin_token = Some(TOKEN.to_owned())).await;
    let mut admin = service.admin().await;
    let bearer = format!("Bearer {TOKEN}");
    let host = "127.0.0.1:8701";
    let ask =
        async |admin: &mut Client, method: &str, path: &str, more: &[(&str, &str)]| -> Reply {
            let mut headers = vec![("host", host), ("authorization", &*bearer)];
            headers.extend(more);
            let body =
                if method == "POST" { r#"{"subject": "user:1", "limit": "2/h"}"# } else { "" };
            admin.ask(method, path, &headers, body).await
        };
    let own = [
        &[][..],
        &[(SITE, "none")],
        &[(SITE, "same-origin")],
        &[(ORIGIN, "http://127.0.0.1:8701"), (SITE, "same-origin")],
        &[(ORIGIN, "https://127.0.0.1:8701")],
    ];
    let foreign = [
        &[(ORIGIN, "http://evil.example")][..],
        &[(ORIGIN, "http://127.0.0.1:8702")],
        &[(ORIGIN, "http://127.0.0.1")],
        &[(ORIGIN, "127.0.0.1:8701")],
        &[(ORIGIN, "null"), (SITE, "same-origin")],
        &[(ORIGIN, "http://127.0.0.1:8701"), (ORIGIN, "http://evil.example")],
        &[(ORIGIN, "http://127.0.0.1:8701"), (SITE, "cross-site")],
        &[(SITE, "cross-site")],
        &[(SITE, "same-site")],
        &[(SITE, "same-origin"), (SITE, "cross-site")],
    ];
    for (method, path) in
        [("GET", "/console"), ("GET", "/v1/admin/overview"), ("POST", "/v1/admin/reset")]
    {
        for more in own {
            let reply = ask(&mut admin, method, path, more).await;
            assert_eq!(reply.status, StatusCode::OK, "{path} {more:?}: {}", reply.text);
        }
    }
    for more in foreign {
        let reply = ask(&mut admin, "GET", "/console", more).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{more:?}");
        assert!(reply.text.contains("web pages of another origin"), "{}", reply.text);
    }
    for more in foreign.into_iter().chain(foreign) {
        let reply = ask(&mut admin, "POST", "/v1/admin/reset", more).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{more:?}");
    }
    // A page that asks on and on locks nobody out of the console in the same browser.
    let reply = ask(&mut admin, "POST", "/v1/admin/reset", own[2]).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
}

#[tokio::test]
async fn the_page_is_open_and_its_figures_are_not() {
    let service = service(|options| options.admin_token = Some(TOKEN.to_owned())).await;
    let mut admin = service.admin().await;
    let page = admin.get("/console").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.text.contains("data-token=\"needed\"") && !page.text.contains(TOKEN));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"));
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(page.header("set-cookie").is_none());
    for (path, kind) in [("style.css", "text/css"), ("main.js", "text/javascript")] {
        let reply = admin.get(&format!("/console/{path}")).await;
        assert!(reply.header("content-type").unwrap().starts_with(kind), "{path}");
    }
    assert_eq!(admin.get("/console/secrets").await.status, StatusCode::NOT_FOUND);
    assert_eq!(admin.post("/console", "").await.status, StatusCode::METHOD_NOT_ALLOWED);
    for path in ["/v1/admin/overview", "/v1/admin/policies", "/v1/admin/explain?ip=192.0.2.1"] {
        let reply = admin.get(path).await;
        assert_eq!(reply.status, StatusCode::UNAUTHORIZED, "{path}");
        assert!(!reply.text.contains("login"), "{}", reply.text);
    }
    // A token in the address is not accepted, and neither is one of an earlier service.
    let reply = admin.get(&format!("/v1/admin/overview?token={TOKEN}")).await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
    let old = [("authorization", "Bearer fedcba9876543210")];
    let reply = admin.ask("POST", "/v1/admin/lookup", &old, r#"{"subject": "a"}"#).await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
    let right = [("authorization", &*format!("Bearer {TOKEN}"))];
    let reply = admin.ask("GET", "/v1/admin/overview", &right, "").await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    let wrong = admin.ask("GET", "/v1/admin/overview?all=1", &right, "").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn clients_have_no_console() {
    let service = service(|_| {}).await;
    let mut client = service.client().await;
    for path in ["/console", "/v1/admin/overview"] {
        assert_eq!(client.get(path).await.status, StatusCode::NOT_FOUND);
    }
    let mut admin = service.admin().await;
    assert!(admin.get("/console").await.text.contains("data-token=\"none\""));
    // A name that anybody can let lead here is refused, for the page too.
    let reply = admin.ask("GET", "/console", &[("host", "evil.example")], "").await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn an_answer_is_given_again_for_a_second() {
    let service = service(|_| {}).await;
    let (mut client, mut admin) = (service.client().await, service.admin().await);
    // Two in a row are of one second but for the rarest of cases, which is tried again. A new
    // answer would count the check between them.
    for _ in 0..20 {
        let first = admin.get("/v1/admin/overview").await.text;
        client.check(r#"{"subject": "user:1", "limit": "9/h"}"#).await;
        if admin.get("/v1/admin/overview").await.text == first {
            return;
        }
    }
    panic!("each answer is made anew");
}

#[tokio::test]
async fn every_answer_for_administrators_says_that_its_type_is_meant() {
    let service = service(|options| options.admin_token = Some(TOKEN.to_owned())).await;
    let (mut client, mut admin) = (service.client().await, service.admin().await);
    let right = ("authorization", &*format!("Bearer {TOKEN}"));
    let nosniff = Some("nosniff");
    for (method, path, headers, status) in [
        ("GET", "/console", &[][..], 200),
        ("GET", "/console/main.js", &[], 200),
        ("GET", "/console/secrets", &[], 404),
        ("GET", "/v1/admin/overview", &[right], 200),
        ("GET", "/v1/admin/overview?peers=2", &[right], 400),
        ("GET", "/v1/admin/rulings", &[right], 200),
        ("GET", "/v1/admin/overview", &[], 401),
        ("POST", "/v1/admin/ban", &[right], 400),
        ("GET", "/", &[right], 200),
        ("GET", "/metrics", &[right], 200),
        ("GET", "/%3Cscript%3E", &[right], 404),
        ("DELETE", "/console", &[], 405),
    ] {
        let reply = admin.ask(method, path, headers, "").await;
        assert_eq!(reply.status.as_u16(), status, "{path}: {}", reply.text);
        assert_eq!(reply.header("x-content-type-options"), nosniff, "{method} {path}");
    }
    // So do pages and errors for clients.
    for path in
        ["/", "/metrics", "/healthz", "/v1/openapi.yaml", "/%3Cscript%3E", "/v1/explain?x=1"]
    {
        let reply = client.get(path).await;
        assert_eq!(reply.header("x-content-type-options"), nosniff, "{path}");
    }
}

#[tokio::test]
async fn rulings_are_among_the_figures_and_those_that_end_first_are_listed() {
    let service = service(|_| {}).await;
    let mut admin = service.admin().await;
    for (ip, lasts) in [(1, "2h"), (2, "1h")].into_iter().chain((3..53).map(|ip| (ip, "3h"))) {
        let ruling = json!({ "when": { "ip": format!("192.0.2.{ip}") }, "for": lasts });
        let reply = admin.post("/v1/admin/ban", &ruling.to_string()).await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    }
    let figures = figures(&mut admin, |figures| figures["rulings"]["count"] == 52).await;
    let first = figures["rulings"]["first"].as_array().unwrap();
    assert_eq!(first.len(), 50);
    for (at, ip) in [(0, "192.0.2.2"), (1, "192.0.2.1")] {
        assert_eq!(
            (&first[at]["effect"], &first[at]["when"]),
            (&json!("ban"), &json!({ "ip": [ip] }))
        );
    }
}

#[tokio::test]
async fn dead_jobs_are_listed_offered_again_and_discarded() {
    let queue = Queue::new(AnyQueues::Memory(MemoryQueues::new()), "mail").unwrap();
    let producer = queue.producer(ProducerSettings::new(9)).unwrap();
    for to in ["ann", "bob", "cem"] {
        assert!(!producer.offer(&Job::new().field("to", to)).await.unwrap().is_refused());
    }
    let worker = queue.consumer(ConsumerSettings::new().deliveries(1)).unwrap();
    for job in worker.take("w", 3).await.unwrap().jobs {
        worker
            .nack(DeliveryTag::new(job.id, job.attempt), Duration::ZERO, "<b>no</b>")
            .await
            .unwrap();
    }
    let queues = Queues::open([(queue, None)]).await.unwrap();
    let service = service(|options| options.queues = queues).await;
    let mut admin = service.admin().await;
    let ask = async |admin: &mut Client, body: Value| {
        admin.post("/v1/admin/dead", &body.to_string()).await
    };
    let dead = ask(&mut admin, json!({ "queue": "mail" })).await.json();
    assert_eq!(dead.as_array().unwrap().len(), 3, "{dead}");
    assert_eq!((&dead[0]["fields"]["to"], &dead[0]["why"]), (&json!("ann"), &json!("<b>no</b>")));
    let again = json!({ "queue": "mail", "again": dead[1]["id"] });
    let one = json!({ "jobs": 1, "dead": 2, "full": false });
    assert_eq!(ask(&mut admin, again.clone()).await.json(), one);
    assert_eq!(
        ask(&mut admin, again).await.status,
        StatusCode::NOT_FOUND,
        "it is not dead any more"
    );
    let rest = ask(&mut admin, json!({ "queue": "mail", "forget": "all" })).await.json();
    assert_eq!(rest, json!({ "jobs": 2, "dead": 0, "full": false }));
    let is_seen = |queue: &Value| queue["waiting"] == 1 && queue["dead"] == 0;
    let figures = figures(&mut admin, |figures| is_seen(&figures["queues"][0])).await;
    let queue = &figures["queues"][0];
    assert_eq!(
        (&queue["bound"], &queue["rate"], &queue["dead"]),
        (&json!(9), &json!(null), &json!(0))
    );
    for (body, field, says) in [
        (json!({}), "queue", "whose dead jobs"),
        (json!({ "queue": "mall" }), "queue", "those there are: mail"),
        (json!({ "queue": "mail", "again": "1" }), "again", "the id of a job"),
        (json!({ "queue": "mail", "again": "all", "forget": "all" }), "forget", "exclude"),
    ] {
        let problem = ask(&mut admin, body.clone()).await.json();
        assert_eq!(problem["field"], field, "{body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(says), "{body}: {problem}");
    }
}

#[tokio::test]
async fn instances_are_side_by_side_and_one_that_is_gone_says_why() {
    let token = |options: &mut Options| options.admin_token = Some(TOKEN.to_owned());
    let other = service(token).await;
    for _ in 0..4 {
        let ask = r#"{"policy": "login", "fields": {"ip": "192.0.2.1"}}"#;
        other.client().await.check(ask).await;
    }
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address = other.server.admin().unwrap().clone();
    let at = address.to_string();
    let one = service(|options| {
        token(options);
        options.peers = vec![address, gone.to_string().parse().unwrap()];
    })
    .await;
    let mut admin = one.admin().await;
    let bearer = format!("Bearer {TOKEN}");
    let right = [("authorization", &*bearer)];
    let began = Instant::now();
    let peers = loop {
        let figures = admin.ask("GET", "/v1/admin/overview", &right, "").await.json();
        if figures["peers"][1]["denied"] == 2 {
            break figures["peers"].clone();
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{figures:#}");
        tokio::task::yield_now().await;
    };
    assert_eq!((&peers[0]["at"], &peers[0]["denied"]), (&json!("this instance"), &json!(0)));
    assert_eq!((&peers[1]["at"], &peers[1]["admitted"]), (&json!(at), &json!(2)));
    assert_eq!(peers[1]["store_counts"], true);
    assert_eq!(peers[2]["at"], gone.to_string());
    assert!(peers[2]["error"].as_str().unwrap().contains("refused"), "{peers:#}");
    let alone = admin.ask("GET", "/v1/admin/overview?peers=0", &right, "").await.json();
    assert_eq!(alone["peers"], json!([]));
}

//! Counts are those of the questions, and there are never more series than there may be.

use std::sync::mpsc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tollgate::MemoryStore;
use tollgate_policy::{Policies, Reload, Reread};
use tollgate_redis::RedisStore;
use tollgate_service::{AnyStore, Options};
use tollgate_testbed::redis_or_skip;

use crate::common::{Page, Service, policies, promtool};

/// Policies under which every outcome comes about.
pub(crate) const EVERY: &str = r#"
match = "all"
[[policies]]
name = "login"
when = { path = "/login" }
on_failure = "deny"
limits = [{ subject = "ip", limit = "attempts: 2/h via sliding_log" }]

[[policies]]
name = "wide"
when = { path = "/login" }
on_failure = "deny"
limits = [{ subject = "host", limit = "100/h via gcra", notify = "1 %" }]

[[policies]]
name = "dear"
when = { path = "/dear" }
on_failure = "deny"
cost = { from = "field.weight", max = 50, otherwise = 1 }
limits = [{ subject = "ip", limit = "3/h via gcra" }]

[[policies]]
name = "shut"
when = { path = "/shut" }
on_failure = "deny"
limits = [{ subject = "ip", limit = "3/h", overrides = [
    { when = { ip = "192.0.2.66" }, limit = "banned" },
] }]

[[policies]]
name = "known"
when = { path = "/known" }
on_failure = "deny"
limits = [{ subject = "user", limit = "3/h", absent = "deny" }]

[[policies]]
name = "free"
when = { path = "/free" }
on_failure = "deny"
limits = [{ subject = "user", limit = "3/h", absent = "skip" }]

[[policies]]
name = "real"
when = { path = "/trial" }
on_failure = "deny"
limits = [{ subject = "ip", limit = "100/h via gcra" }]

[[policies]]
name = "trial"
when = { path = "/trial" }
on_failure = "deny"
shadow = true
limits = [{ subject = "ip", limit = "1/h" }]
"#;

/// Every text that could be a subject in the questions here.
const SUBJECTS: [&str; 6] =
    ["192.0.2", "198.51.100", "127.0.0.1", "user:42", "alice", "shop.example"];

fn described(path: &str, ip: &str) -> String {
    format!(
        "{{\"fields\": {{\"ip\": \"{ip}\", \"host\": \"shop.example\", \"path\": \"{path}\", \
         \"field.weight\": \"10\"}}}}"
    )
}

/// Asks for every outcome that a store which works gives.
pub(crate) async fn ask_everything(service: &Service) {
    for (path, ip, outcomes) in [
        ("/login", "192.0.2.7", &["allowed", "allowed", "denied"][..]),
        ("/dear", "192.0.2.7", &["never"]),
        ("/shut", "192.0.2.66", &["banned"]),
        ("/shut", "192.0.2.7", &["allowed"]),
        ("/known", "192.0.2.7", &["missing"]),
        ("/free", "192.0.2.7", &["unlimited"]),
        ("/trial", "192.0.2.7", &["allowed", "allowed", "allowed"]),
        ("/none", "192.0.2.7", &["no_policy", "no_policy"]),
    ] {
        for outcome in outcomes {
            assert_eq!(service.check(&described(path, ip)).await, *outcome, "{path}");
        }
    }
    let inline = "{\"subject\": \"user:42\", \"limit\": \"1/h\"}";
    for outcome in ["allowed", "denied", "denied"] {
        assert_eq!(service.check(inline).await, outcome);
    }
    let dear = "{\"subject\": \"user:42\", \"limit\": \"3/h\", \"cost\": 5}";
    assert_eq!(service.check(dear).await, "never");
    // A proxy's question counts as any request.
    let forwarded = "\r\nx-forwarded-for: 198.51.100.9\r\nx-forwarded-uri: /login\r\n\
                     x-forwarded-host: shop.example\r\nx-forwarded-method: GET";
    assert_eq!(service.get("/v1/auth", forwarded).await.status, 200);
    // Looking counts nowhere.
    assert_eq!(service.post("/v1/peek", inline).await.status, 200);
    assert_eq!(service.post("/v1/peek", &described("/login", "192.0.2.7")).await.status, 200);
    assert_eq!(service.get("/v1/explain?ip=192.0.2.7&path=/login", "").await.status, 200);
    assert_eq!(service.get("/readyz", "").await.status, 200);
    assert_eq!(service.get("/user:42", "").await.status, 404);
    assert_eq!(service.post("/v1/check", "{\"user:42\"").await.status, 400);
    assert_eq!(service.admin("GET", "/v1/admin/reload").await.status, 405);
}

fn counted(page: &Page, name: &str, expected: &[(&[(&str, &str)], f64)]) {
    for (labels, count) in expected {
        assert_eq!(page.sum(name, labels), Some(*count), "{name} {labels:?}\n{}", page.text);
    }
    let all: f64 = expected.iter().map(|(_, count)| count).sum();
    assert_eq!(page.sum(name, &[]), Some(all), "{name} has more\n{}", page.text);
}

/// The labels of a policy's part.
macro_rules! part {
    ($policy:literal, $outcome:literal, $authority:literal) => {
        &[("policy", $policy), ("outcome", $outcome), ("authority", $authority)][..]
    };
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
async fn every_outcome_is_counted_as_it_was_asked_for() {
    let service = Service::start(EVERY, AnyStore::Memory(MemoryStore::new())).await;
    // Before anything was asked there is a page too, and zeros where something will be.
    let page = service.page().await;
    assert_eq!(page.sum("tollgate_inline_decisions_total", &[]), Some(0.0));
    assert_eq!(page.sum("tollgate_memory_subjects", &[]), Some(0.0));
    ask_everything(&service).await;
    let page = service.page().await;
    counted(
        &page,
        "tollgate_decisions_total",
        &[
            (part!("login", "allowed", "store"), 3.0),
            (part!("login", "denied", "store"), 1.0),
            (part!("wide", "allowed", "store"), 3.0),
            (part!("wide", "withheld", "store"), 1.0),
            (part!("dear", "never", "store"), 1.0),
            (part!("shut", "banned", "policy"), 1.0),
            (part!("shut", "allowed", "store"), 1.0),
            (part!("known", "missing", "policy"), 1.0),
            (part!("free", "unlimited", "policy"), 1.0),
            (part!("real", "allowed", "store"), 3.0),
            (part!("trial", "allowed", "shadow"), 1.0),
            (part!("trial", "denied", "shadow"), 2.0),
        ],
    );
    // The first denial is an increase, of the one who would deny.
    assert_eq!(page.sum("tollgate_decisions_total", part!("real", "denied", "store")), Some(0.0));
    assert_eq!(page.sum("tollgate_decisions_total", part!("trial", "denied", "store")), None);
    let none = &[("outcome", "no_policy"), ("authority", "policy")][..];
    counted(&page, "tollgate_unmatched_decisions_total", &[(none, 2.0)]);
    let inline = "tollgate_inline_decisions_total";
    counted(
        &page,
        inline,
        &[
            (&[("outcome", "allowed"), ("authority", "store")], 1.0),
            (&[("outcome", "denied")], 2.0),
            (&[("outcome", "never")], 1.0),
        ],
    );
    counted(
        &page,
        "tollgate_limit_decisions_total",
        &[
            (&[("policy", "login"), ("limit", "attempts"), ("outcome", "allowed")], 3.0),
            (&[("policy", "login"), ("limit", "attempts"), ("outcome", "denied")], 1.0),
            (&[("policy", "dear"), ("limit", "gcra/1h"), ("outcome", "never")], 1.0),
            (&[("policy", "shut"), ("limit", "sliding_log/1h"), ("outcome", "allowed")], 1.0),
            (&[("policy", "real"), ("limit", "gcra/1h"), ("authority", "store")], 3.0),
            (&[("policy", "trial"), ("outcome", "allowed"), ("authority", "shadow")], 1.0),
            (&[("policy", "trial"), ("outcome", "denied"), ("authority", "shadow")], 2.0),
            (&[("policy", ""), ("limit", "inline"), ("outcome", "allowed")], 1.0),
            (&[("policy", ""), ("limit", "inline"), ("outcome", "denied")], 2.0),
            (&[("policy", ""), ("limit", "inline"), ("outcome", "never")], 1.0),
        ],
    );
    // One for each answer of the store, though three of them were over two policies.
    let durations = "tollgate_decision_duration_seconds";
    let of = |suffix: &str, authority| {
        page.sum(&format!("{durations}_{suffix}"), &[("authority", authority)]).unwrap()
    };
    assert_eq!((of("count", "store"), of("count", "failure_rule")), (13.0, 0.0));
    let most = page.sum(&format!("{durations}_bucket"), &[("authority", "store"), ("le", "inf")]);
    assert_eq!(most, Some(13.0));
    assert!(of("sum", "store") > 0.0);
    let requests = "tollgate_http_requests_total";
    for (endpoint, status, count) in [
        ("/v1/check", "2xx", 17.0),
        ("/v1/check", "4xx", 1.0),
        ("/v1/peek", "2xx", 2.0),
        ("/v1/auth", "2xx", 1.0),
        ("/v1/explain", "2xx", 1.0),
        ("/readyz", "2xx", 1.0),
        ("/metrics", "2xx", 1.0),
        ("/v1/admin/reload", "4xx", 1.0),
        ("other", "4xx", 1.0),
    ] {
        let labels = [("endpoint", endpoint), ("status", status)];
        assert_eq!(page.sum(requests, &labels), Some(count), "{endpoint} {status}");
    }
    assert_eq!(page.sum(requests, &[]), Some(26.0));
    assert_eq!(page.sum("tollgate_connections_accepted_total", &[]), Some(27.0));
    assert!(page.sum("tollgate_connections", &[]) >= Some(1.0));
    assert_eq!(page.sum("tollgate_policies", &[]), Some(8.0));
    assert_eq!(page.sum("tollgate_store_info", &[("kind", "memory")]), Some(1.0));
    assert!(page.sum("tollgate_memory_subjects", &[]) > Some(4.0));
    assert!(page.sum("tollgate_memory_bytes", &[]) > Some(100.0));
    assert!(page.sum("process_start_time_seconds", &[]) > Some(1.7e9));
    page.tells_nothing_of(&SUBJECTS);
    promtool(&["check", "metrics"], &page.text);
}

#[tokio::test]
async fn what_got_through_is_recorded_over_time_as_it_is_counted() {
    let service = Service::start(EVERY, AnyStore::Memory(MemoryStore::new())).await;
    ask_everything(&service).await;
    let page = service.page().await;
    let counted =
        |outcome: &str| page.sum("tollgate_limit_decisions_total", &[("outcome", outcome)]);
    // Once a second the counters are read.
    let start = std::time::Instant::now();
    loop {
        let reply = service.admin("GET", "/v1/admin/series?last=1m").await;
        for subject in SUBJECTS {
            assert!(!reply.body.contains(subject), "{subject}: {}", reply.body);
        }
        let recorded: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!((&recorded["step_s"], &recorded["buckets"]), (&1.into(), &60.into()));
        let all = recorded["series"].as_array().unwrap();
        let sum = |outcome: &str| -> u64 {
            let of = all.iter().filter(|one| one["outcome"] == outcome);
            let counts = of.flat_map(|one| one["counts"].as_array().unwrap());
            counts.map(|count| count.as_u64().unwrap()).sum()
        };
        let is_same = |outcome: &str| counted(outcome) == Some(sum(outcome) as f64);
        if ["allowed", "denied", "never"].into_iter().all(is_same) {
            assert!(sum("denied") >= 3, "{recorded}");
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{recorded}");
    }
    assert!(service.admin("GET", "/v1/admin/series?last=30d").await.body.contains("3600"));
    for (query, says) in [("last=soon", "not a time to look back"), ("first=1m", "is unknown")] {
        let reply = service.admin("GET", &format!("/v1/admin/series?{query}")).await;
        assert!(reply.status == 400 && reply.body.contains(says), "{}", reply.body);
    }
    assert_eq!(service.admin("POST", "/v1/admin/series").await.status, 405);
}

#[tokio::test]
async fn a_store_that_fails_is_seen() {
    let mut redis = redis_or_skip!();
    let url = format!("{}?breaker_timeout=200ms", redis.url());
    let store = RedisStore::connect(&url).await.unwrap();
    let rule = |name: &str| {
        format!(
            "[[policies]]\nname = \"{name}\"\nwhen = {{ path = \"/{name}\" }}\n\
             on_failure = \"{name}\"\nlimits = [{{ subject = \"ip\", limit = \"9/h via gcra\" }}]\n"
        )
    };
    let text = format!("match = \"first\"\n{}{}", rule("allow"), rule("deny"));
    let service = Service::start(&text, AnyStore::from(store)).await;
    assert_eq!(service.check(&described("/allow", "192.0.2.7")).await, "allowed");
    let page = service.page().await;
    assert_eq!(page.sum("tollgate_redis_breaker_state", &[]), Some(0.0));
    assert!(page.sum("tollgate_redis_script_loads_total", &[]) >= Some(1.0));
    assert_eq!(page.sum("tollgate_store_info", &[("kind", "redis")]), Some(1.0));
    assert_eq!(page.sum("tollgate_memory_bytes", &[]), None);
    redis.kill();
    for _ in 0..10 {
        assert_eq!(service.check(&described("/allow", "192.0.2.7")).await, "failed_open");
        assert_eq!(service.check(&described("/deny", "192.0.2.7")).await, "failed_closed");
        let inline = "{\"subject\": \"user:42\", \"limit\": \"1/h\", \"on_failure\": \"allow\"}";
        assert_eq!(service.check(inline).await, "failed_open");
    }
    let page = service.page().await;
    counted(
        &page,
        "tollgate_decisions_total",
        &[
            (part!("allow", "allowed", "store"), 1.0),
            (part!("allow", "failed_open", "failure_rule"), 10.0),
            (part!("deny", "failed_closed", "failure_rule"), 10.0),
        ],
    );
    let inline = &[("outcome", "failed_open"), ("authority", "failure_rule")][..];
    counted(&page, "tollgate_inline_decisions_total", &[(inline, 10.0)]);
    let durations = "tollgate_decision_duration_seconds_count";
    assert_eq!(page.sum(durations, &[("authority", "failure_rule")]), Some(30.0));
    assert_eq!(page.sum(durations, &[("authority", "store")]), Some(1.0));
    page.tells_nothing_of(&SUBJECTS);
    promtool(&["check", "metrics"], &page.text);
    // It opens only when callers have asked without success for a while.
    let begun = std::time::Instant::now();
    while service.page().await.sum("tollgate_redis_breaker_state", &[]) != Some(1.0) {
        assert!(begun.elapsed() < std::time::Duration::from_secs(30), "it never opens");
        assert_eq!(service.check(&described("/deny", "192.0.2.7")).await, "failed_closed");
    }
}

#[tokio::test]
async fn limits_and_policies_without_number_make_no_series_without_number() {
    let mut text = "match = \"first\"\n".to_owned();
    for number in 0..1_200 {
        text.push_str(&format!(
            "[[policies]]\nname = \"p{number}\"\nwhen = {{ field.n = \"{number}\" }}\n\
             on_failure = \"deny\"\nlimits = [{{ subject = \"ip\", limit = \"1/h via gcra\" }}]\n"
        ));
    }
    let service = Service::start(&text, AnyStore::Memory(MemoryStore::new())).await;
    service.check("{\"subject\": \"u\", \"limit\": \"1/s\"}").await;
    // One of each status before: of `/metrics` too.
    service.page().await;
    let before = service.page().await.series.len();
    let inline: Vec<String> = (1..=10_000)
        .map(|n| format!("{{\"subject\": \"user:42\", \"limit\": \"9/{n}m via gcra\"}}"))
        .collect();
    service.batch(&inline).await;
    let page = service.page().await;
    assert_eq!(page.series.len(), before);
    let of_limits = [("policy", ""), ("limit", "inline")];
    assert_eq!(page.sum("tollgate_limit_decisions_total", &of_limits), Some(10_001.0));

    let asked: Vec<String> = (0..1_200)
        .map(|n| format!("{{\"fields\": {{\"ip\": \"192.0.2.7\", \"field.n\": \"{n}\"}}}}"))
        .collect();
    for round in [1.0, 2.0] {
        service.batch(&asked).await;
        let page = service.page().await;
        for name in ["tollgate_decisions_total", "tollgate_limit_decisions_total"] {
            let other = [("policy", "other")];
            assert_eq!(page.sum(name, &other), Some(200.0 * round), "{name}");
        }
        assert_eq!(page.sum("tollgate_decisions_total", &[]), Some(1_200.0 * round));
        let own = [("policy", "p1"), ("outcome", "denied")];
        assert_eq!(page.sum("tollgate_decisions_total", &own), Some(round - 1.0));
        assert!(page.series.len() < before + 4_100, "{}", page.series.len());
        page.tells_nothing_of(&SUBJECTS);
    }
}

#[tokio::test]
async fn reloads_count_whoever_wants_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policies.toml");
    let good = |units: u64| {
        format!(
            "version = 1\n[[policies]]\nname = \"p\"\non_failure = \"deny\"\n\
             limits = [{{ subject = \"ip\", limit = \"{units}/h\" }}]\n"
        )
    };
    std::fs::write(&path, good(1)).unwrap();
    let policies = Policies::load(&path).unwrap();
    let store = AnyStore::Memory(MemoryStore::new());
    let service = Service::with(policies, store, Some(path.clone())).await;
    let (sender, seen) = mpsc::channel();
    let _watcher = service
        .server
        .watch(move |reload| {
            let _ = sender.send(matches!(reload, Reload::Replaced { .. }));
        })
        .unwrap()
        .unwrap();
    // Waits off the runtime, in which the service itself runs.
    let seen = std::sync::Arc::new(std::sync::Mutex::new(seen));
    let told = async || {
        let seen = std::sync::Arc::clone(&seen);
        let wait = move || seen.lock().unwrap().recv_timeout(Duration::from_secs(30)).unwrap();
        tokio::task::spawn_blocking(wait).await.unwrap()
    };
    let counts = async || {
        let page = service.page().await;
        let of = |result| page.sum("tollgate_reloads_total", &[("result", result)]).unwrap();
        let sound = page.sum("tollgate_last_reload_successful", &[]).unwrap();
        let revision: Vec<_> =
            page.series.iter().filter(|(name, ..)| name == "tollgate_revision_info").collect();
        let [(_, labels, _)] = &revision[..] else { panic!("{revision:?}") };
        let policies = service.get("/v1/policies", "").await.body;
        assert!(policies.contains(&format!("\"revision\":\"{}\"", labels["revision"])));
        [of("taken"), of("unchanged"), of("broken"), sound]
    };
    assert_eq!(counts().await, [0.0, 0.0, 0.0, 1.0]);
    // As a signal does.
    assert!(matches!(service.server.reload().await, Ok(Reread::Unchanged(_))));
    assert_eq!(counts().await, [0.0, 1.0, 0.0, 1.0]);
    // As the file itself.
    std::fs::write(&path, "version = 2\n").unwrap();
    assert!(!told().await);
    assert_eq!(counts().await, [0.0, 1.0, 1.0, 0.0]);
    // As an administrator.
    assert_eq!(service.admin("POST", "/v1/admin/reload").await.status, 422);
    assert_eq!(counts().await, [0.0, 1.0, 2.0, 0.0]);
    std::fs::write(&path, good(2)).unwrap();
    assert!(told().await);
    assert_eq!(counts().await, [1.0, 1.0, 2.0, 1.0]);
    assert_eq!(service.admin("POST", "/v1/admin/reload").await.status, 200);
    assert_eq!(counts().await, [1.0, 2.0, 2.0, 1.0]);
}

/// Commands of the Redis protocol that come together are decided together, and each one counts.
#[tokio::test]
async fn pipelined_commands_are_counted_as_if_each_came_alone() {
    let set = |options: &mut Options| options.resp = vec!["127.0.0.1:0".parse().unwrap()];
    let store = AnyStore::Memory(MemoryStore::new());
    let service = Service::start_with(policies(EVERY), store, set).await;
    let mut stream = TcpStream::connect(service.server.resp()[0].to_string()).await.unwrap();
    let words = ["CL.THROTTLE", "user:42", "2", "1", "3600"];
    let words = words.map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let commands = format!("*5\r\n{}", words.concat()).repeat(10);
    stream.write_all(format!("{commands}QUIT\r\n").as_bytes()).await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert_eq!((said.matches("*5\r\n:0").count(), said.matches("*5\r\n:1").count()), (3, 7));
    let page = service.page().await;
    let command = &[("command", "cl.throttle"), ("result", "answer")];
    assert_eq!(page.sum("tollgate_resp_commands_total", command), Some(10.0), "{}", page.text);
    counted(
        &page,
        "tollgate_inline_decisions_total",
        &[(&[("outcome", "allowed")], 3.0), (&[("outcome", "denied")], 7.0)],
    );
    let durations = "tollgate_decision_duration_seconds";
    let of_store = &[("authority", "store")];
    assert_eq!(page.sum(&format!("{durations}_count"), of_store), Some(10.0), "{}", page.text);
    assert!(page.sum(&format!("{durations}_sum"), of_store).unwrap() > 0.0, "{}", page.text);
    let limit = &[("limit", "inline")];
    assert_eq!(page.sum("tollgate_limit_decisions_total", limit), Some(10.0), "{}", page.text);
}

//! The readers of the page: scrapers in either format, the dashboard, and the queries of the docs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http::Request;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tollgate::MemoryStore;
use tollgate_queue::{AnyQueues, MemoryQueues, ProducerSettings, Queue};
use tollgate_redis::RedisStore;
use tollgate_service::{AnyStore, EnvoyRules, Options, Queues, TimeSeriesOptions, XdsOptions};
use tollgate_testbed::{RedisServer, SKIPPED, redis_program};
use tonic::body::Body;

use crate::common::{Page, Service, policies, promtool};
use crate::counting::{EVERY, ask_everything};

pub(crate) fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[tokio::test]
async fn each_reader_gets_its_format_on_both_listeners() {
    let service = Service::start(EVERY, AnyStore::Memory(MemoryStore::new())).await;
    ask_everything(&service).await;
    let plain = service.get("/metrics", "").await;
    let kind = "content-type: text/plain; version=0.0.4; charset=utf-8";
    assert!(plain.head.contains(kind), "{}", plain.head);
    let accept = "\r\naccept: application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1";
    let open = service.get("/metrics", accept).await;
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(open.head.contains(kind), "{}", open.head);
    assert!(open.body.ends_with("\n# EOF\n"));
    assert!(open.body.contains("# TYPE tollgate_decisions counter\n"));
    assert!(open.body.contains("# UNIT tollgate_decision_duration_seconds seconds\n"));
    // Samples are the same in both, but for the request that came between.
    let samples = |text: &str| -> Vec<String> {
        let counts = |line: &&str| {
            let changes =
                ["#", "tollgate_http", "tollgate_connections", "tollgate_memory", "process_"];
            !changes.iter().any(|start| line.starts_with(start))
        };
        text.lines().filter(counts).map(str::to_owned).collect()
    };
    assert_eq!(samples(&plain.body), samples(&open.body));
    assert!(samples(&plain.body).len() > 60);
    let admin = service.admin("GET", "/metrics").await;
    assert_eq!((admin.status, samples(&admin.body)), (200, samples(&plain.body)));
    assert_eq!(service.post("/metrics", "").await.status, 405);
    // Every family says what it is, once.
    let page = Page::parse(&plain.body);
    for name in page.names() {
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .unwrap_or(name);
        for what in ["HELP", "TYPE"] {
            let line = format!("# {what} {family} ");
            assert_eq!(plain.body.matches(&line).count(), 1, "{line}");
        }
    }
}

/// The series of services over every kind of store after traffic, one of them with time series:
/// labels by name.
pub(crate) async fn everything() -> Option<BTreeMap<String, BTreeSet<String>>> {
    let memory = Service::start(EVERY, AnyStore::Memory(MemoryStore::new())).await;
    ask_everything(&memory).await;
    let mut pages = vec![memory.page().await];
    let Some(_) = redis_program() else {
        println!("{SKIPPED}");
        return None;
    };
    let redis = RedisServer::start();
    let store = RedisStore::connect(&format!("{}?deadline=10s", redis.url())).await.unwrap();
    let timeseries = tollgate_redis::Options::from_url(&redis.url()).unwrap();
    let timeseries = TimeSeriesOptions::new(timeseries, Duration::ZERO).unwrap();
    let queue = Queue::new(AnyQueues::Memory(MemoryQueues::new()), "mail").unwrap();
    let queues = Queues::open([(queue, Some(ProducerSettings::new(9)))]).await.unwrap();
    let rules = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    let rule = "rate_limit: { unlimited: true }";
    let shop = format!(
        "domain: shop\ndescriptors: [{{ key: a, {rule}, descriptors: [{{ key: b, {rule} }}] }}]\n"
    );
    std::fs::write(rules.path(), shop).unwrap();
    let set = |options: &mut Options| {
        options.timeseries = Some(timeseries);
        options.queues = queues;
        options.resp = vec!["127.0.0.1:0".parse().unwrap()];
        options.grpc = vec!["127.0.0.1:0".parse().unwrap()];
        options.envoy.rules = EnvoyRules::Files(rules.path().to_owned());
        options.envoy.metrics = true;
    };
    let service = Service::start_with(policies(EVERY), AnyStore::from(store), set).await;
    ask_everything(&service).await;
    let mut stream = TcpStream::connect(service.server.resp()[0].to_string()).await.unwrap();
    stream.write_all(b"PING\r\nQUIT\r\n").await.unwrap();
    stream.read_to_string(&mut String::new()).await.unwrap();
    let stream = TcpStream::connect(service.server.grpc()[0].to_string()).await.unwrap();
    let (mut client, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let call = Request::post("http://localhost/any/Call").body(Body::empty()).unwrap();
    client.send_request(call).await.unwrap();
    service.server.reread_rules().await;
    // The jobs of a queue are there after it was prepared for the first time, and thresholds after
    // they were reported.
    let begin = Instant::now();
    let page = loop {
        let page = service.page().await;
        let has = |wanted: &str| page.series.iter().any(|(name, ..)| name == wanted);
        if has("tollgate_queue_waiting_jobs") && has("tollgate_thresholds_total") {
            break page;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "nobody looks at the queue");
    };
    pages.push(page);
    // Nobody listens there.
    let set = |options: &mut Options| {
        options.envoy.rules = EnvoyRules::Xds(XdsOptions::new("127.0.0.1:1"));
    };
    let store = AnyStore::Memory(MemoryStore::new());
    pages.push(Service::start_with(policies(EVERY), store, set).await.page().await);
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, labels, _) in pages.into_iter().flat_map(|page| page.series) {
        found.entry(name).or_default().extend(labels.into_keys());
    }
    Some(found)
}

/// The names in a query.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Named {
    metrics: BTreeSet<String>,
    /// Labels that are compared with a value, with the metric.
    matched: BTreeSet<(String, String)>,
    /// Labels that series are grouped by.
    grouped: BTreeSet<String>,
}

impl Named {
    pub(crate) fn read(query: &str) -> Self {
        let mut named = Self::default();
        let mut rest = query;
        // The name that braces belong to, and whether parentheses hold labels.
        let mut metric = String::new();
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
            let word = &rest[..word.unwrap_or(rest.len())];
            match first {
                '{' => {
                    let (inside, after) = rest[1..].split_once('}').unwrap();
                    for matcher in inside.split(',').filter(|it| !it.trim().is_empty()) {
                        let label = matcher.split(['=', '!']).next().unwrap().trim();
                        named.matched.insert((metric.clone(), label.to_owned()));
                    }
                    rest = after;
                }
                '[' => rest = rest.split_once(']').unwrap().1,
                '"' => rest = rest[1..].split_once('"').unwrap().1,
                _ if word.is_empty() || first.is_ascii_digit() => {
                    rest = &rest[word.len().max(first.len_utf8())..];
                }
                _ => {
                    rest = rest[word.len()..].trim_start();
                    match word {
                        "by" | "without" | "on" | "ignoring" | "group_left" | "group_right" => {
                            let (inside, after) = rest[1..].split_once(')').unwrap();
                            let labels = inside.split(',').map(str::trim);
                            let labels = labels.filter(|it| !it.is_empty());
                            named.grouped.extend(labels.map(str::to_owned));
                            rest = after;
                        }
                        "and" | "or" | "unless" | "bool" | "offset" => {}
                        _ if rest.starts_with('(') => {}
                        // An aggregation whose labels come first.
                        _ if rest.starts_with("by") || rest.starts_with("without") => {}
                        _ => {
                            metric = word.to_owned();
                            named.metrics.insert(metric.clone());
                        }
                    }
                }
            }
        }
        named
    }

    pub(crate) fn exists(&self, query: &str, there: &BTreeMap<String, BTreeSet<String>>) {
        assert!(!self.metrics.is_empty(), "{query} asks for nothing");
        for metric in &self.metrics {
            assert!(there.contains_key(metric), "there is no `{metric}`, as in {query}");
        }
        for (metric, label) in &self.matched {
            let labels = there.get(metric).unwrap_or_else(|| panic!("braces of nothing: {query}"));
            assert!(is_label(labels, label), "`{metric}` has no `{label}`, as in {query}");
        }
        for label in &self.grouped {
            let has = |metric: &String| is_label(&there[metric], label);
            assert!(self.metrics.iter().any(has), "no `{label}` in what {query} asks for");
        }
    }
}

/// Whether there is such a label: of the page, or one that Prometheus adds to every series.
fn is_label(labels: &BTreeSet<String>, label: &str) -> bool {
    labels.contains(label) || ["instance", "job"].contains(&label)
}

#[test]
fn names_in_queries_are_found() {
    let query = "sum by (policy) (rate(a_total{outcome=\"x\",policy=~\"$p\"}[5m])) / on(policy) \
                 group_left() sum(b) by (le) > 0.5 and topk(5, c_seconds offset 5m)";
    let named = Named::read(query);
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(named.metrics, set(&["a_total", "b", "c_seconds"]));
    assert_eq!(named.grouped, set(&["policy", "le"]));
    let matched = [("a_total", "outcome"), ("a_total", "policy")];
    let matched = matched.map(|(metric, label)| (metric.to_owned(), label.to_owned()));
    assert_eq!(named.matched, BTreeSet::from(matched));
}

/// Every query of the dashboard, its variables filled in, with the legend.
fn dashboard() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(file("examples/grafana/tollgate.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut queries = Vec::new();
    let mut panels: Vec<&serde_json::Value> =
        dashboard["panels"].as_array().unwrap().iter().collect();
    let mut titles = BTreeSet::new();
    let mut places = BTreeSet::new();
    while let Some(panel) = panels.pop() {
        panels.extend(panel["panels"].as_array().into_iter().flatten());
        assert!(titles.insert(panel["title"].as_str().unwrap()), "{panel}");
        assert!(places.insert(panel["id"].as_u64().unwrap()), "{panel}");
        if panel["type"] == "row" {
            continue;
        }
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
        assert!(!panel["description"].as_str().unwrap().is_empty(), "{}", panel["title"]);
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let legend = target["legendFormat"].as_str().unwrap_or_default();
            queries.push((query.to_owned(), legend.to_owned()));
        }
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert_eq!(variables[0]["name"], "datasource");
    for variable in variables {
        if let Some(query) = variable["query"]["query"].as_str() {
            let inside = query.strip_prefix("label_values(").unwrap().strip_suffix(')').unwrap();
            let (metric, label) = inside.rsplit_once(',').unwrap();
            queries.push((format!("sum by ({label}) ({metric})"), String::new()));
        }
    }
    let fill = |query: String| {
        let filled = query.replace("$__rate_interval", "5m").replace("$__range", "1h");
        let filled = filled.replace("$instance", ".*").replace("$policy", ".*");
        assert!(!filled.contains('$'), "a variable without a value: {query}");
        filled
    };
    queries.into_iter().map(|(query, legend)| (fill(query), legend)).collect()
}

/// The blocks of queries in the page of the docs.
fn documented() -> Vec<String> {
    let text = std::fs::read_to_string(file("docs/metrics.md")).unwrap();
    let blocks = text.split("```promql\n").skip(1).map(|rest| rest.split_once("```").unwrap().0);
    let queries = blocks.flat_map(|block| block.split("\n\n"));
    let without_comments = |query: &str| -> String {
        query.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join(" ")
    };
    queries.map(without_comments).collect()
}

#[tokio::test]
async fn every_name_in_the_dashboard_and_the_docs_exists() {
    let Some(there) = everything().await else { return };
    let (dashboard, documented) = (dashboard(), documented());
    assert!(dashboard.len() >= 15 && documented.len() >= 5, "{} queries", dashboard.len());
    for (query, legend) in &dashboard {
        let named = Named::read(query);
        named.exists(query, &there);
        for label in legend.split("{{").skip(1) {
            let label = label.split_once("}}").unwrap().0;
            let has = |metric: &String| is_label(&there[metric], label);
            assert!(named.metrics.iter().any(has), "a legend with {label} for {query}");
        }
    }
    for query in &documented {
        Named::read(query).exists(query, &there);
    }
    let rules: Vec<String> = dashboard
        .iter()
        .map(|(query, _)| query)
        .chain(&documented)
        .enumerate()
        .map(|(place, query)| {
            format!("  - record: query:{place}\n    expr: {}\n", serde_json::json!(query))
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yml");
    std::fs::write(&path, format!("groups:\n- name: all\n  rules:\n{}", rules.concat())).unwrap();
    promtool(&["check", "rules", path.to_str().unwrap()], "");
}

/// The table of the docs has every metric with all of its labels, and nothing else.
#[tokio::test]
async fn the_table_of_the_docs_is_the_page() {
    let Some(there) = everything().await else { return };
    let mut families: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // The names of others are in docs/envoy.md.
    let ours = |name: &String| name.starts_with("tollgate_") || name.starts_with("process_");
    for (name, mut labels) in there.into_iter().filter(|(name, _)| ours(name)) {
        let suffixes = ["_bucket", "_sum", "_count"];
        let family = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix));
        labels.remove("le");
        families.entry(family.unwrap_or(&name).to_owned()).or_default().extend(labels);
    }
    let text = std::fs::read_to_string(file("docs/metrics.md")).unwrap();
    // The layer in a program has some of its own.
    let (before, rest) = text.split_once("\n## Of a program").unwrap();
    let text = [before, rest.split_once("\n## ").unwrap().1].join("\n");
    let mut table: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, labels, ..] = &cells[..] else { panic!("{line}") };
        let name = name.trim_matches('`').to_owned();
        if ours(&name) {
            let labels = labels.split(',').map(|label| label.trim().trim_matches('`'));
            let labels = labels.filter(|label| !label.is_empty()).map(str::to_owned).collect();
            assert!(table.insert(name.clone(), labels).is_none(), "{name} twice");
        }
    }
    assert_eq!(table, families);
}

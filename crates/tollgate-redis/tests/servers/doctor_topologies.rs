//! The doctor before real clusters and sentinels: the fault of each, and of which node.

use std::time::{Duration, Instant};

use tollgate::Limiter;
use tollgate_redis::RedisStore;
use tollgate_redis::doctor::{ConnectError, Finding, Level, Report, examine};
use tollgate_testbed::{
    ClusterOptions, RedisCluster, RedisSentinels, RedisServer, Reply, SentinelOptions,
    cluster_or_skip, redis_or_skip, sentinels_or_skip,
};

/// The settings of a server that is fit where it has replicas.
const FIT: [&str; 8] = [
    "--maxmemory",
    "100mb",
    "--appendonly",
    "yes",
    "--min-replicas-to-write",
    "1",
    "--min-replicas-max-lag",
    "10",
];

/// How long a node may be silent: longer than any is on a busy machine.
const SILENT: Duration = Duration::from_secs(10);

/// A cluster of 3 primaries.
fn three() -> ClusterOptions {
    ClusterOptions::new().node_timeout(SILENT)
}

/// A cluster of one node.
fn one() -> ClusterOptions {
    three().primaries(1).replicas(0)
}

/// A primary, 2 replicas and 3 sentinels.
fn watched() -> SentinelOptions {
    SentinelOptions::new().down_after(SILENT)
}

fn above(url: &str, level: Level) -> Vec<Finding> {
    let mut findings = examine(url).unwrap().findings;
    findings.retain(|finding| finding.level > level);
    for finding in &findings {
        assert!(finding.remedy.is_some(), "{finding:?}");
    }
    findings
}

fn failures(url: &str) -> Vec<Finding> {
    above(url, Level::Warning)
}

fn only_failure(url: &str) -> Finding {
    let mut found = failures(url);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// The findings of this name above `Ok`.
fn bad(url: &str, id: &str) -> Vec<Finding> {
    above(url, Level::Ok).into_iter().filter(|finding| finding.id == id).collect()
}

fn only(url: &str, id: &str) -> Finding {
    let mut found = bad(url, id);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn of<'r>(report: &'r Report, id: &str) -> &'r Finding {
    report.findings.iter().find(|finding| finding.id == id).unwrap()
}

/// Runs a line as it would be typed at redis-cli.
fn type_in(server: &RedisServer, line: &str) {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    assert_eq!(server.command(&words), Reply::Status("OK".into()), "{line}");
}

fn name(cluster: &RedisCluster, index: usize) -> String {
    cluster.address(index).to_string()
}

/// Whether a user with these rights can count at that URL.
fn counts(url: &str) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = RedisStore::connect(url).await.unwrap();
        let limiter = Limiter::new("10/s, 240/h via gcra".parse().unwrap(), store);
        limiter.check("user:42").await.unwrap().is_allowed()
    })
}

/// The line that makes a user with the least rights, as the doctor prints it.
fn least(url: &str) -> String {
    let report = examine(url).unwrap();
    let remedy = of(&report, "rights").remedy.clone().unwrap();
    remedy.trim_start_matches("a user with no more: ").to_owned()
}

fn as_user(url: &str) -> String {
    format!("{}?deadline=5s", url.replace("://", "://tollgate:PASSWORD@"))
}

#[test]
fn a_healthy_cluster_has_nothing_against_it_and_is_not_written_to() {
    let cluster = cluster_or_skip!(three().arguments(&FIT));
    let report = examine(&cluster.url()).unwrap();
    let bad: Vec<_> = report.findings.iter().filter(|found| found.level > Level::Ok).collect();
    assert!(bad.is_empty() && report.is_fit(), "{bad:?}");
    assert_eq!(report.nodes.len(), 6);
    assert_eq!(report.about(of(&report, "eviction")).unwrap(), "all 6 nodes");
    assert_eq!(of(&report, "nodes").what, "primaries: 3, replicas: 3");
    assert!((0..6).all(|index| cluster.count_keys(index) == 0), "the doctor writes nothing");
    // One address leads to all nodes.
    let report = examine(&format!("redis+cluster://{}", cluster.address(4))).unwrap();
    assert_eq!((report.nodes.len(), report.is_fit()), (6, true));
}

#[test]
fn slots_without_a_primary_are_named() {
    let cluster = cluster_or_skip!(one());
    let url = cluster.url();
    assert!(failures(&url).is_empty());
    let server = &cluster.servers()[0];
    type_in(server, "CLUSTER DELSLOTS 5 16000 16001");
    let failure = only_failure(&url);
    assert_eq!(failure.id, "slots");
    let what = "3 slots have no primary (5, 16000-16001): every check is refused";
    assert!(failure.what.starts_with(what), "{failure:?}");
    let remedy = format!("redis-cli --cluster fix {}", name(&cluster, 0));
    assert_eq!(failure.remedy.as_ref(), Some(&remedy));
    type_in(server, "CONFIG SET cluster-require-full-coverage no");
    let failure = only_failure(&url);
    assert!(failure.what.ends_with("subjects whose slot is among them get errors"), "{failure:?}");
}

#[test]
fn a_primary_without_a_replica_costs_something_and_a_node_that_evicts_is_unfit() {
    let mut cluster = cluster_or_skip!(three().replicas(0));
    let url = cluster.url();
    let nodes: Vec<_> = (0..3).map(|index| name(&cluster, index)).collect();
    let alone = only(&url, "replicas");
    assert_eq!((alone.level, alone.nodes.len()), (Level::Warning, 3));
    // Without replicas min-replicas-to-write would only refuse.
    assert!(bad(&url, "failover").is_empty() && failures(&url).is_empty());

    type_in(&cluster.servers()[1], "CONFIG SET maxmemory 100mb");
    type_in(&cluster.servers()[1], "CONFIG SET maxmemory-policy allkeys-lru");
    let failure = only_failure(&url);
    assert_eq!((failure.id, &failure.nodes[..]), ("eviction", &nodes[1..2]));
    assert!(failure.what.contains("allkeys-lru"), "{failure:?}");
    type_in(&cluster.servers()[1], "CONFIG SET maxmemory-policy noeviction");

    type_in(&cluster.servers()[2], "CONFIG SET cluster-node-timeout 2000");
    let differs = only(&url, "timeout");
    assert!(differs.what.contains(&format!("2000 on {}", nodes[2])), "{differs:?}");
    for server in cluster.servers() {
        type_in(server, "CONFIG SET cluster-node-timeout 60000");
    }
    assert!(only(&url, "timeout").what.contains("60000 ms"));

    // Now a node is not missed for a minute.
    cluster.kill(1);
    let failure = only_failure(&url);
    assert_eq!((failure.id, &failure.nodes[..]), ("reach", &nodes[1..2]));
    assert!(failure.what.starts_with("it owns slots and cannot be reached"), "{failure:?}");

    // Then the others take it for failed.
    for index in [0, 2] {
        type_in(&cluster.servers()[index], "CONFIG SET cluster-node-timeout 1000");
    }
    let begin = Instant::now();
    let failure = loop {
        match &bad(&url, "slots")[..] {
            [failure] => break failure.clone(),
            _ => assert!(begin.elapsed() < Duration::from_secs(60), "it is not missed"),
        }
    };
    assert!(failure.what.contains("slots have a primary that failed"), "{failure:?}");
    assert_eq!(failure.nodes[..], nodes[1..2]);
}

#[test]
fn a_node_with_another_password_is_named() {
    let options = three().replicas(0).arguments(&["--requirepass", "secret"]);
    let cluster = cluster_or_skip!(options);
    let with = |password: &str| cluster.url().replace("://", &format!("://:{password}@"));
    assert!(failures(&with("secret")).is_empty());
    for url in [cluster.url(), with("wrong")] {
        let report = examine(&url).unwrap();
        assert_eq!(report.count(Level::Failure), report.findings.len(), "{report:?}");
        assert!(report.findings.iter().all(|finding| finding.id == "login"));
        assert!(!format!("{report:?}").contains("wrong"), "{report:?}");
    }
    type_in(&cluster.servers()[2], "CONFIG SET requirepass other");
    let failure = only_failure(&with("secret"));
    assert_eq!((failure.id, failure.nodes), ("login", vec![name(&cluster, 2)]));
    assert!(failure.remedy.unwrap().contains("set them on each"));
}

#[test]
fn an_address_that_leads_nowhere_is_named_with_what_to_write() {
    let cluster = cluster_or_skip!(one());
    let (url, server) = (cluster.url(), &cluster.servers()[0]);
    let port = cluster.address(0).port();
    // Alone it does not know its own address.
    assert_eq!(only(&url, "announced").level, Level::Warning);
    type_in(server, "CONFIG SET cluster-announce-ip 0.0.0.0");
    let failure = only_failure(&url);
    assert_eq!((failure.id, failure.nodes), ("announced", vec![format!("0.0.0.0:{port}")]));
    assert!(failure.remedy.unwrap().contains("cluster-announce-ip"));

    type_in(server, "CONFIG SET cluster-announce-ip 127.0.0.2");
    let failure = only_failure(&url);
    assert_eq!((failure.id, failure.nodes), ("reach", vec![format!("127.0.0.2:{port}")]));
    let reach = format!("?reach=127.0.0.2:{port}>");
    assert!(failure.remedy.unwrap().ends_with(&format!("{reach}HOST:PORT")));
    assert!(failures(&format!("{url}{reach}127.0.0.1:{port}")).is_empty());

    // Another node answers there.
    let other = one().start();
    let failure = only_failure(&format!("{url}{reach}{}", other.address(0)));
    assert_eq!(failure.id, "reach");
    assert!(failure.what.starts_with("another node answers there"), "{failure:?}");
}

#[test]
fn the_addresses_of_the_url_lead_to_one_cluster() {
    let cluster = cluster_or_skip!(one());
    let other = one().start();
    let url = |second: &str| format!("{},{second}", cluster.url());
    let failure = only_failure(&url(&name(&other, 0)));
    assert_eq!((failure.id, failure.nodes), ("seeds", vec![name(&other, 0)]));
    assert!(failure.what.contains("another cluster"), "{}", failure.what);

    let mut server = redis_or_skip!();
    let address = server.address().to_string();
    let failure = only_failure(&url(&address));
    assert_eq!((failure.id, failure.nodes), ("seeds", vec![address.clone()]));
    assert!(failure.remedy.unwrap().contains(&format!("write redis://{address}")));

    server.kill();
    assert!(failures(&url(&address)).is_empty());
    assert_eq!(only(&url(&address), "seeds").nodes, vec![address.clone()]);
    let error = examine(&format!("redis+cluster://{address}")).unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
}

#[test]
fn the_line_makes_a_user_who_can_count_on_a_cluster() {
    let cluster = cluster_or_skip!(three().replicas(0));
    let line = least(&cluster.url());
    for server in cluster.servers() {
        type_in(server, &line);
    }
    let url = as_user(&cluster.url());
    assert!(failures(&url).is_empty(), "{:?}", failures(&url));
    // Facts that this user may not see are reported.
    assert_eq!(bad(&url, "settings").len() + bad(&url, "nodes").len(), 2);
    assert!(counts(&url));

    type_in(&cluster.servers()[1], "ACL SETUSER tollgate -asking");
    let failure = only_failure(&url);
    assert!(failure.what.contains("lacks the right to asking,"), "{failure:?}");
    for server in cluster.servers() {
        type_in(server, "ACL SETUSER tollgate -cluster|slots");
    }
    for failure in failures(&url) {
        assert_eq!(failure.id, "rights");
        assert!(failure.remedy.unwrap().contains("+cluster|slots"));
    }
}

/// The names of the servers under sentinels.
fn servers(all: &RedisSentinels) -> Vec<String> {
    all.servers().iter().map(|server| server.address().to_string()).collect()
}

#[test]
fn healthy_sentinels_have_nothing_against_them() {
    let mut all = sentinels_or_skip!(watched().arguments(&FIT));
    let report = examine(&all.url()).unwrap();
    let bad: Vec<_> = report.findings.iter().filter(|found| found.level > Level::Ok).collect();
    assert!(bad.is_empty() && report.is_fit(), "{bad:?}");
    assert_eq!(report.nodes.len(), 3);
    assert_eq!(report.nodes[0], servers(&all)[0]);
    assert_eq!(of(&report, "primary").nodes, [servers(&all)[0].clone()]);
    assert_eq!(of(&report, "quorum").what, "a failover needs 2 of 3 sentinels (quorum 2)");
    assert!(of(&report, "failover").what.contains("in the last 10 s"));

    all.kill(1);
    all.kill(2);
    let failure = only_failure(&all.url());
    assert_eq!((failure.id, failure.nodes), ("failover", vec![servers(&all)[0].clone()]));
    assert!(failure.what.contains("NOREPLICAS"), "{}", failure.what);
    assert!(only_of_none(&all.url()).what.starts_with("no replica that is up"));
}

/// The warning about replicas that names no server.
fn only_of_none(url: &str) -> Finding {
    let mut found = bad(url, "replicas");
    found.retain(|finding| finding.nodes.is_empty());
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn a_name_that_sentinels_do_not_know_is_told_with_those_they_know() {
    let all = sentinels_or_skip!(watched().replicas(0).sentinels(1).name("limits"));
    let failure = only_failure(&all.url().replace("/limits", "/limit"));
    assert_eq!(failure.id, "name");
    assert_eq!(failure.what, "they watch no primary named `limit`; they watch `limits`");
    // One sentinel, and no replica.
    assert!(failures(&all.url()).is_empty());
    assert_eq!(only(&all.url(), "quorum").level, Level::Warning);
    assert!(only_of_none(&all.url()).what.contains("can take over"));
    // A server is not a sentinel.
    let url = format!("redis+sentinel://{}/limits", all.server(0).address());
    assert_eq!(only_failure(&url).id, "sentinels");
}

#[test]
fn sentinels_that_are_away_are_named_and_too_few_are_a_failure() {
    let mut all = sentinels_or_skip!(watched());
    let (url, away) = (all.url(), all.sentinel(2).address().to_string());
    all.kill_sentinel(2);
    assert!(failures(&url).is_empty());
    assert_eq!(only(&url, "sentinels").nodes, [away]);
    all.kill_sentinel(1);
    let failure = only_failure(&url);
    assert_eq!(failure.id, "quorum");
    all.kill_sentinel(0);
    let error = examine(&url).unwrap_err();
    assert!(matches!(error, ConnectError::NoSentinel { .. }), "{error:?}");
}

#[test]
fn passwords_of_sentinels_and_servers_are_apart() {
    let options = watched().replicas(1).sentinels(1);
    let all = sentinels_or_skip!(options.password("one").sentinel_password("two"));
    let with = |login: &str, query: &str| {
        format!("{}{query}", all.url().replace("://", &format!("://{login}")))
    };
    let sentinel = vec![all.sentinel(0).address().to_string()];
    let failure = only_failure(&with(":one@", ""));
    assert_eq!((failure.id, failure.nodes), ("login", sentinel));
    assert!(failure.remedy.unwrap().contains("?sentinel_password="));
    let failure = only_failure(&with("", "?sentinel_password=two"));
    assert_eq!((failure.id, failure.nodes), ("login", servers(&all)));
    assert!(failures(&with(":one@", "?sentinel_password=two")).is_empty());
}

#[test]
fn the_line_makes_a_user_who_can_count_on_the_primary_of_sentinels() {
    let all = sentinels_or_skip!(watched().replicas(1).sentinels(1));
    let line = least(&all.url());
    for server in all.servers() {
        type_in(server, &line);
    }
    let url = as_user(&all.url());
    assert!(failures(&url).is_empty(), "{:?}", failures(&url));
    assert!(counts(&url));
    type_in(all.server(0), "ACL SETUSER tollgate -role");
    let failure = only_failure(&url);
    assert_eq!(failure.nodes, [servers(&all)[0].clone()]);
    assert!(failure.what.contains("lacks the right to role,"), "{failure:?}");
}

//! The doctor before real servers: it reports the fault of each.

use futures_executor::block_on;
use tollgate_redis::doctor::{
    ConnectError, Connection, Facts, Finding, Level, acl_line, diagnose, gather,
};
use tollgate_testbed::{ClusterOptions, RedisServer, Reply, cluster_or_skip, redis_or_skip};

fn facts(url: &str) -> Facts {
    block_on(gather(&mut Connection::open(url).unwrap())).unwrap()
}

/// The failures that are found at this URL.
fn failures(url: &str) -> Vec<Finding> {
    let mut findings = diagnose(&facts(url));
    findings.retain(|finding| finding.level == Level::Failure);
    findings
}

fn only_failure(url: &str) -> Finding {
    let mut found = failures(url);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// Runs a line as it would be typed at redis-cli.
fn type_in(server: &RedisServer, line: &str) -> Reply {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    server.command(&words)
}

#[test]
fn a_fit_server_is_found_fit_over_both_sockets() {
    let server = redis_or_skip!("--maxmemory", "100mb", "--appendonly", "yes");
    for url in [server.url(), format!("unix://{}", server.socket().display())] {
        let bad: Vec<_> =
            diagnose(&facts(&url)).into_iter().filter(|found| found.level > Level::Ok).collect();
        assert!(bad.is_empty(), "{bad:?}");
    }
    assert!(server.keys().is_empty(), "the doctor writes nothing");
}

#[test]
fn a_server_as_it_comes_is_fit_at_a_price() {
    let server = redis_or_skip!();
    let findings = diagnose(&facts(&server.url()));
    let warned: Vec<_> =
        findings.iter().filter(|found| found.level > Level::Ok).map(|found| found.id).collect();
    assert_eq!(warned, ["eviction", "persistence"]);
    assert!(failures(&server.url()).is_empty());
    // The settings of snapshots are derived from nothing.
    server.command(&[b"CONFIG", b"SET", b"save", b"3600 1"]);
    assert_eq!(facts(&server.url()).snapshots, Some(true));
}

#[test]
fn a_server_that_evicts_is_unfit() {
    let server = redis_or_skip!("--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru");
    let failure = only_failure(&server.url());
    assert_eq!(failure.id, "eviction");
    assert!(failure.what.contains("allkeys-lru"), "{failure:?}");
    assert!(failure.what.contains("jobs of queues are lost"), "{failure:?}");
    let mut client = server.client().unwrap();
    let value = vec![b'x'; 10_000];
    for number in 0..1_000 {
        client.command(&[b"SET", format!("k{number}").as_bytes(), &value]).unwrap();
    }
    let findings = diagnose(&facts(&server.url()));
    let evicted = findings.iter().find(|found| found.id == "evicted").unwrap();
    assert!(evicted.what.contains("counts and jobs of queues may"), "{findings:?}");
    // Jobs have no end: such a policy leaves them.
    server.command(&[b"CONFIG", b"SET", b"maxmemory-policy", b"volatile-ttl"]);
    let failure = only_failure(&server.url());
    assert!(!failure.what.contains("are lost"), "{failure:?}");
    assert!(failure.what.contains("that jobs are accepted once under"), "{failure:?}");
}

#[test]
fn a_replica_names_its_primary() {
    let primary = redis_or_skip!();
    let replica = redis_or_skip!("--replicaof", "127.0.0.1", &primary.port().to_string());
    let failure = only_failure(&replica.url());
    assert_eq!(failure.id, "role");
    let remedy = failure.remedy.unwrap();
    assert!(remedy.ends_with(&format!("127.0.0.1:{}", primary.port())), "{remedy}");
}

#[test]
fn a_node_of_a_cluster_is_unfit() {
    let server = redis_or_skip!("--cluster-enabled", "yes");
    let failure = only_failure(&server.url());
    assert_eq!(failure.id, "cluster");
    assert_eq!(failure.remedy.unwrap(), "write redis+cluster://HOST:PORT,HOST:PORT");
}

#[test]
fn a_cluster_of_one_node_is_fit_until_it_grows() {
    let cluster = cluster_or_skip!(ClusterOptions::new().primaries(1).replicas(0));
    let url = format!("redis://{}", cluster.address(0));
    assert!(failures(&url).is_empty());
    let findings = diagnose(&facts(&url));
    let found = findings.into_iter().find(|found| found.id == "cluster").unwrap();
    assert_eq!(found.level, Level::Warning);
    // It does not know its own address.
    let port = cluster.address(0).port();
    assert_eq!(found.remedy.unwrap(), format!("write redis+cluster://HOST:{port}"));
}

#[test]
fn passwords_are_asked_for() {
    let server = redis_or_skip!("--requirepass", "secret");
    let failure = only_failure(&server.url());
    assert_eq!(failure.id, "login");
    assert!(failure.what.contains("NOAUTH"), "{failure:?}");
    let with = |password: &str| server.url().replace("://", &format!("://:{password}@"));
    assert!(failures(&with("secret")).is_empty());
    let error = Connection::open(&with("wrong")).unwrap_err();
    let ConnectError::Refused { address, .. } = &error else { panic!("{error:?}") };
    assert_eq!(*address, server.address().to_string());
    assert!(!error.to_string().contains("wrong"), "{error}");
}

#[test]
fn the_line_makes_a_user_that_is_fit_and_no_more() {
    let server = redis_or_skip!();
    let line = acl_line(&facts(&server.url()));
    assert_eq!(type_in(&server, &line), Reply::Status("OK".into()), "{line}");
    let url = server.url().replace("://", "://tollgate:PASSWORD@");
    let seen = facts(&url);
    assert!(failures(&url).is_empty(), "{:?}", failures(&url));
    let rights = diagnose(&seen).into_iter().find(|found| found.id == "rights").unwrap();
    assert_eq!(rights.what, "this user has every right that is needed");
    // Each of the rights is needed: one less is seen.
    type_in(&server, "ACL SETUSER tollgate -rpush");
    let failure = only_failure(&url);
    assert!(failure.what.contains("lacks the right to rpush,"), "{failure:?}");
    type_in(&server, "ACL SETUSER tollgate +rpush -info");
    let seen = diagnose(&facts(&url));
    assert!(seen.iter().any(|found| found.id == "info"), "{seen:?}");
}

#[test]
fn a_user_without_rights_is_told_which() {
    let server = redis_or_skip!();
    type_in(&server, "ACL SETUSER nobody on >x resetkeys -@all");
    let failure = only_failure(&server.url().replace("://", "://nobody:x@"));
    assert_eq!(failure.id, "rights");
    assert!(failure.what.contains("NOPERM"), "{failure:?}");
    let remedy = failure.remedy.unwrap();
    assert_eq!(type_in(&server, &remedy), Reply::Status("OK".into()), "{remedy}");
    assert!(failures(&server.url().replace("://", "://tollgate:PASSWORD@")).is_empty());
    // The right commands on the wrong keys.
    type_in(&server, "ACL SETUSER elsewhere on >x resetkeys ~other:* +@all");
    let failure = only_failure(&server.url().replace("://", "://elsewhere:x@"));
    assert_eq!(failure.id, "rights");
}

#[test]
fn tls_before_a_server_without_it_is_no_connection() {
    let server = redis_or_skip!();
    let error = Connection::open(&server.url().replace("redis:", "rediss:")).unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
}

#[test]
fn a_frozen_server_is_given_up_on() {
    let server = redis_or_skip!();
    let mut connection = Connection::open(&server.url()).unwrap();
    server.freeze();
    assert!(block_on(gather(&mut connection)).is_err());
}

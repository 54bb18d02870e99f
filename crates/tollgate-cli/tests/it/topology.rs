//! The operators' view of failovers, slots that nobody serves, and sentinels that are away.

use std::thread;
use std::time::Instant;

use tollgate_testbed::{ClusterOptions, SentinelOptions, cluster_or_skip, sentinels_or_skip};

use crate::Place;
use crate::serving::{LONG, Serving};

/// Waits until a metric has the value.
fn until(serving: &Serving, name: &str, wanted: impl Fn(u64) -> bool) {
    let begin = Instant::now();
    loop {
        let (_, page) = serving.client().ask("GET", "/metrics", "").unwrap();
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = line.unwrap_or_else(|| panic!("no {name}: {page}"));
        if wanted(value.parse().unwrap()) {
            return;
        }
        assert!(begin.elapsed() < LONG, "{name} stays {value}");
        thread::yield_now();
    }
}

fn ready(serving: &Serving) -> (u16, String) {
    serving.client().ask("GET", "/readyz?store=1", "").unwrap()
}

/// How many lines of a log have this text.
fn lines(log: &str, text: &str) -> usize {
    log.lines().filter(|line| line.contains(text)).count()
}

#[test]
fn failovers_and_sentinels_that_are_away_are_logged_and_counted() {
    let mut sentinels = sentinels_or_skip!(SentinelOptions::new().replicas(1));
    let place = Place::new();
    let serving = Serving::start(&place, &["--store", &sentinels.url()]);
    let all = sentinels.sentinels().len() as u64;
    until(&serving, "tollgate_redis_sentinels_answering", |answering| answering == all);
    let old = sentinels.primary();
    let new = sentinels.failover();
    until(&serving, "tollgate_redis_takeovers_total", |takeovers| takeovers == 1);
    sentinels.kill_sentinels();
    until(&serving, "tollgate_redis_sentinels_answering", |answering| answering == 0);
    // The primary that was known is used on.
    assert_eq!(ready(&serving).0, 200);
    sentinels.restart_sentinels();
    until(&serving, "tollgate_redis_sentinels_answering", |answering| answering == all);
    let log = serving.end();
    assert_eq!(lines(&log, "another Redis is the primary"), 1, "{log}");
    let line = log.lines().find(|line| line.contains("another Redis")).unwrap();
    let port = format!("{}\" to=", old.port());
    assert!(line.contains(&port) && line.contains("epoch=1"), "{line}");
    let to = sentinels.server(new).port();
    assert!(line.contains(&format!(":{to}\" epoch")), "{line}");
    assert_eq!(lines(&log, "sentinels do not answer"), 1, "{log}");
    assert!(lines(&log, "sentinels are back") >= 1, "{log}");
}

#[test]
fn slots_without_a_primary_are_logged_counted_and_not_ready() {
    let options = ClusterOptions::new().primaries(3).replicas(0).full_coverage(false);
    let mut cluster = cluster_or_skip!(options);
    let place = Place::new();
    let serving = Serving::start(&place, &["--store", &cluster.url()]);
    until(&serving, "tollgate_redis_slots_down", |slots| slots == 0);
    assert_eq!(ready(&serving).0, 200);
    // The one whose slots the probe of the store is not among.
    let probe = cluster.owner_of(b"tg1:{tollgate:ready}").unwrap_or_default();
    let lost = cluster.primaries().into_iter().find(|primary| *primary != probe).unwrap();
    cluster.kill(lost);
    until(&serving, "tollgate_redis_slots_down", |slots| slots > 5_000);
    let (status, said) = ready(&serving);
    assert!(status == 503 && said.contains("have no primary"), "{status} {said}");
    cluster.restart(lost);
    until(&serving, "tollgate_redis_slots_down", |slots| slots == 0);
    let log = serving.end();
    assert_eq!(lines(&log, "slots of the cluster have no primary"), 1, "{log}");
    assert_eq!(lines(&log, "all slots have a primary again"), 1, "{log}");
}

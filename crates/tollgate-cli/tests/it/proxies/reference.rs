//! The statements of envoyproxy/ratelimit's own integration tests (f2fb157), with Envoy before
//! real pages and the rules in the meaning of the reference. Windows are a year long where a test
//! must not meet an end of one, and a second where it waits for it.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use tollgate_testbed::Program;

use super::envoy::{command, find};
use super::wire::{Answer, Client, Pages};
use super::{STARTS_WITHIN, replaced, started};
use crate::Place;
use crate::serving::Serving;

pub(super) const ENVOY: &str = include_str!("reference.yaml");

const RULES: &str = "
domain: rl
descriptors:
  - key: category
    value: account
    rate_limit: { unit: year, requests_per_unit: 4, replaces: [{ name: one_bar }, { name: other }] }
  - key: from
    value: proxy
    descriptors:
      - key: to
        value: one_bar
        rate_limit: { unit: year, requests_per_unit: 2, replaces: [{ name: one_bar }] }
      - key: to
        value: plain
        rate_limit: { unit: year, requests_per_unit: 1 }
      - key: to
        value: instead
        rate_limit: { unit: year, requests_per_unit: 2, replaces: [{ name: none }] }
      - key: to
        value: other
        rate_limit: { unit: year, requests_per_unit: 2, name: other }
  - key: foo
    rate_limit: { unit: year, requests_per_unit: 2 }
    descriptors:
      - key: bar
        rate_limit: { unit: year, requests_per_unit: 3 }
      - key: bar
        value: one
        rate_limit: { unit: year, requests_per_unit: 1, name: one_bar }
      - key: bar
        value: banned
        rate_limit: { unit: year, requests_per_unit: 0, name: none }
      - key: baz
        value: limited
        rate_limit: { unit: year, requests_per_unit: 3 }
      - key: baz
        value: shady
        rate_limit: { unit: year, requests_per_unit: 3 }
        shadow_mode: true
      - key: baz
        value: quick
        rate_limit: { unit: second, requests_per_unit: 1 }
  - key: any
    detailed_metric: true
    rate_limit: { unit: year, requests_per_unit: 2 }
  - key: service
    value: one
    quota_mode: true
    rate_limit: { unit: year, requests_per_unit: 1 }
    metadata: { has_quota: { name: one } }
  - key: service
    value: two
    quota_mode: true
    rate_limit: { unit: year, requests_per_unit: 2 }
    metadata: { has_quota: { name: two } }
";

/// Two services behind an Envoy that asks for limits.
struct Setup {
    envoy: SocketAddr,
    services: [Pages; 2],
    limits: Serving,
    _envoy: Program,
    _place: Place,
}

impl Setup {
    /// None when Envoy is not installed; that has been said then.
    fn start() -> Option<Self> {
        let program = find()?;
        let place = Place::new();
        let rules = place.path().join("rules.yaml");
        std::fs::write(&rules, RULES).unwrap();
        let rules = rules.display().to_string();
        let args = ["--grpc", "127.0.0.1:0", "--envoy-config", &rules];
        let args = [&args[..], &["--envoy-metrics", "--envoy-metadata"]].concat();
        let limits = Serving::start(&place, &args);
        let grpc: SocketAddr = limits.line_after("grpc       ").parse().unwrap();
        let services = [Pages::open(), Pages::open()];
        let (envoy, running) = started(&place.path().join("envoy.log"), |listen| {
            let port = |port: u16| format!("port_value: {port} ");
            let [one, two] = &services;
            let text = replaced(
                ENVOY.to_owned(),
                &[
                    ("port_value: 8080 ", &port(listen.port())),
                    ("port_value: 8081 ", &port(grpc.port())),
                    ("port_value: 3001 ", &port(one.address.port())),
                    ("port_value: 3002 ", &port(two.address.port())),
                ],
            );
            command(&program, &place.path().join("envoy.yaml"), &text)
        });
        Some(Self { envoy, services, limits, _envoy: running, _place: place })
    }

    fn ask(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let headers: String = headers.iter().map(|(n, v)| format!("\n{n}: {v}")).collect();
        Client(1).ask(self.envoy, &format!("GET {path}{headers}"))
    }

    fn statuses(&self, headers: &[(&str, &str)], times: usize) -> Vec<u16> {
        (0..times).map(|_| self.ask("/headers", headers).status).collect()
    }

    /// The value of a metric of the reference.
    fn metric(&self, line: &str) -> u64 {
        let (status, page) = self.limits.client().ask("GET", "/metrics", "").unwrap();
        assert_eq!(status, 200);
        let found = page.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
        found.map_or(0, |count| count.parse().unwrap())
    }
}

#[test]
fn a_limit_denies_in_its_window_and_admits_in_the_next_one() {
    let Some(setup) = Setup::start() else { return };
    let limited = [("foo", "pelle"), ("baz", "limited")];
    assert_eq!(setup.statuses(&limited, 5), [200, 200, 200, 429, 429]);
    let denied = setup.ask("/headers", &limited);
    assert_eq!(denied.header("x-envoy-ratelimited"), Some("true"));
    // As there, headers and a body come only where they are asked for.
    assert_eq!((denied.header("ratelimit"), &*denied.body), (None, ""));
    let shady = [("foo", "pelle"), ("baz", "shady")];
    assert_eq!(setup.statuses(&shady, 5), [200; 5]);
    assert_eq!(setup.ask("/headers", &shady).header("x-ratelimit-limit"), Some("3, 3;w=31536000"));
    let quick = [("foo", "pelle"), ("baz", "quick")];
    for status in [429, 200] {
        let began = Instant::now();
        while setup.ask("/headers", &quick).status != status {
            assert!(began.elapsed() < STARTS_WITHIN, "never {status}");
        }
    }
}

#[test]
fn a_limit_replaces_others_and_leaves_them_as_they_were() {
    let Some(setup) = Setup::start() else { return };
    let banned = [("foo", "a"), ("bar", "banned")];
    let with = |more: &[(&'static str, &'static str)]| [&banned[..], more].concat();
    assert_eq!(setup.statuses(&banned, 1), [429]);
    assert_eq!(setup.statuses(&with(&[("from", "proxy"), ("to", "plain")]), 1), [429]);
    let instead = with(&[("from", "proxy"), ("to", "instead")]);
    assert_eq!(setup.statuses(&instead, 3), [200, 200, 429]);
    let one = [("foo", "mine"), ("bar", "one")];
    let with = |more: &[(&'static str, &'static str)]| [&one[..], more].concat();
    let replaced = with(&[("from", "proxy"), ("to", "one_bar")]);
    assert_eq!(setup.statuses(&replaced, 3), [200, 200, 429]);
    let not_replaced = with(&[("from", "proxy"), ("to", "unknown")]);
    assert_eq!(setup.statuses(&not_replaced, 2), [200, 429]);
    assert_eq!(setup.statuses(&replaced, 1), [429]);
    // Several at once.
    let all = with(&[("from", "proxy"), ("to", "other"), ("category", "account")]);
    assert_eq!(setup.statuses(&all, 5), [200, 200, 200, 200, 429]);
    assert_eq!(setup.statuses(&[("foo", "second"), ("bar", "one")], 2), [200, 429]);
    let other = [("foo", "third"), ("bar", "x"), ("from", "proxy"), ("to", "other")];
    assert_eq!(setup.statuses(&other, 3), [200, 200, 429]);
    assert_eq!(setup.statuses(&all, 1), [429]);
}

#[test]
fn a_detailed_metric_has_the_value() {
    let Some(setup) = Setup::start() else { return };
    assert_eq!(setup.statuses(&[("any", "seen")], 3), [200, 200, 429]);
    let over = "ratelimit_service_rate_limit_over_limit{domain=\"rl\",key1=\"any_seen\"}";
    assert_eq!(setup.metric(over), 1);
}

#[test]
fn quotas_deny_together_and_debits_come_after_the_response() {
    let Some(setup) = Setup::start() else { return };
    let quota: Vec<_> = (0..3).map(|_| setup.ask("/quota", &[]).status).collect();
    assert_eq!(quota, [200, 200, 429], "one of one and two of two");
    let Some(setup) = Setup::start() else { return };
    let two = "ratelimit_service_rate_limit_total_hits{domain=\"rl\",key1=\"service_two\"}";
    let hits = |wanted: u64, of: &str| {
        let began = Instant::now();
        // The debit comes after the response.
        while setup.metric(of) != wanted {
            assert!(began.elapsed() < STARTS_WITHIN, "{of} is {} of {wanted}", setup.metric(of));
            thread::sleep(Duration::from_millis(5)); // tidy: sleep-ok a look each
        }
    };
    for number in 1..=3 {
        assert_eq!(setup.ask("/debit", &[]).status, 200, "request {number}");
        hits(number, two);
    }
    assert_eq!(setup.ask("/debit", &[]).status, 429, "the third was one more than two");
    let Some(setup) = Setup::start() else { return };
    let one = "ratelimit_service_rate_limit_total_hits{domain=\"rl\",key1=\"service_one\"}";
    let visits = || setup.services.each_ref().map(Pages::visits);
    let hits = |wanted: [u64; 2]| {
        let began = Instant::now();
        while [setup.metric(one), setup.metric(two)] != wanted {
            assert!(began.elapsed() < STARTS_WITHIN, "no debit of {wanted:?}");
            thread::sleep(Duration::from_millis(5)); // tidy: sleep-ok a look each
        }
    };
    // The first service while it has quota, one more than its limit, and then the second.
    for wanted in [[1, 0], [2, 0], [2, 1], [2, 2], [2, 3]] {
        assert_eq!(setup.ask("/either", &[]).status, 200, "{wanted:?}");
        assert_eq!(visits().map(|visits| visits as u64), wanted);
        hits(wanted);
    }
    assert_eq!(setup.ask("/either", &[]).status, 429);
}

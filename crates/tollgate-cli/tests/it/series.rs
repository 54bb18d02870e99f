//! `serve --timeseries`: the commands to a server of time series, and the behaviour without one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::time::Instant;

use serde_json::Value;

use crate::Place;
use crate::redis;
use crate::serving::{Client, LONG, Serving};
use crate::timeseries::{Being, TimeSeriesServer};

/// A policy whose name is an option of RedisTimeSeries.
const FILE: &str = r#"
version = 1
[[policies]]
name = "labels"
on_failure = "deny"
limits = [{ subject = "ip", limit = "3/h" }]
"#;

/// A service whose counts go to this server.
fn serve(place: &Place, url: &str, more: &[&str]) -> Serving {
    let file = place.path().join("policies.toml");
    std::fs::write(&file, FILE).unwrap();
    let args = ["--config", file.to_str().unwrap(), "--timeseries", url];
    Serving::start(place, &[&args, more].concat())
}

/// Asks so often by the policy, each time from this address: how often it was allowed and denied.
fn ask(client: &mut Client, ip: &str, times: u32) -> [u64; 2] {
    let question = format!(r#"{{"policy": "labels", "fields": {{"ip": "{ip}"}}}}"#);
    let mut said = [0, 0];
    for _ in 0..times {
        let is_denied = client.check(&question).unwrap()["allowed"] == false;
        said[usize::from(is_denied)] += 1;
    }
    said
}

/// One number of the page.
fn metric(client: &mut Client, name: &str) -> u64 {
    let page = client.ask("GET", "/metrics", "").unwrap().1;
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name}: {page}")).parse().unwrap()
}

/// Until it is so, which it will be.
fn until(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "it does not come to be");
        std::thread::yield_now();
    }
}

const TAKEN: &str = "tollgate_timeseries_samples_total";
const WAITING: &str = "tollgate_timeseries_waiting_samples";

fn lost(client: &mut Client) -> [u64; 3] {
    ["full", "refused", "unknown"].map(|reason| {
        metric(client, &format!("tollgate_timeseries_lost_samples_total{{reason=\"{reason}\"}}"))
    })
}

/// The sum of the additions, by key.
fn sums(commands: &[Vec<String>]) -> BTreeMap<&str, u64> {
    let mut sums = BTreeMap::new();
    for command in commands.iter().filter(|command| command[0] == "TS.ADD") {
        *sums.entry(&*command[1]).or_default() += command[3].parse::<u64>().unwrap();
    }
    sums
}

#[test]
fn every_decision_is_in_a_series_once_the_service_has_ended() {
    let place = Place::new();
    let server = TimeSeriesServer::start(Being::There);
    let serving = serve(&place, &server.url, &[]);
    let mut client = serving.client();
    assert_eq!(ask(&mut client, "192.0.2.7", 7), [3, 4]);
    // Some are written while it serves, the others when it ends.
    let first = server.next();
    assert_eq!(
        first.join(" "),
        "TS.CREATE serve:labels:sliding_log/1h:allowed RETENTION 86400000 DUPLICATE_POLICY SUM \
         LABELS data hits policy labels_ limit sliding_log/1h outcome allowed"
    );
    assert_eq!(ask(&mut client, "192.0.2.8", 5), [3, 2]);
    let own = r#"{"subject": "user:ann", "limit": "2/h"}"#;
    for _ in 0..5 {
        client.check(own).unwrap();
    }
    assert_eq!(lost(&mut client), [0; 3]);
    let log = serving.end();
    assert!(!log.contains("WARN"), "{log}");
    assert_eq!(log.matches("counts get into the time series at redis://127").count(), 1, "{log}");

    let commands = [vec![first], server.all()].concat();
    let expected = [
        ("serve::inline:allowed", 2),
        ("serve::inline:denied", 3),
        ("serve:labels:sliding_log/1h:allowed", 6),
        ("serve:labels:sliding_log/1h:denied", 6),
    ];
    assert_eq!(sums(&commands), BTreeMap::from(expected));
    // Every byte of a command, but for its time, which is that of a whole second, and the count.
    let words = |command: &[String]| match command[0].as_str() {
        "TS.ADD" => {
            assert!(command[2].parse::<u64>().unwrap() % 1_000 == 0, "{command:?}");
            let [name, key, _, _, rest @ ..] = command else { panic!("{command:?}") };
            format!("{name} {key} AT COUNT {}", rest.join(" "))
        }
        _ => command.join(" "),
    };
    let told: BTreeSet<String> = commands.iter().map(|command| words(command)).collect();
    let add = "AT COUNT RETENTION 86400000 ON_DUPLICATE SUM LABELS";
    let create = "RETENTION 86400000 DUPLICATE_POLICY SUM LABELS";
    let both = |key: &str, labels: &str| {
        [format!("TS.ADD {key} {add} {labels}"), format!("TS.CREATE {key} {create} {labels}")]
    };
    let limit = "policy labels_ limit sliding_log/1h";
    let of = "serve:labels:sliding_log/1h";
    let expected = [
        both("serve::inline:allowed", "data hits limit inline outcome allowed"),
        both("serve::inline:denied", "data denials limit inline outcome denied"),
        both(&format!("{of}:allowed"), &format!("data hits {limit} outcome allowed")),
        both(&format!("{of}:denied"), &format!("data denials {limit} outcome denied")),
    ];
    assert_eq!(told, BTreeSet::from_iter(expected.concat()));
    assert!(!format!("{commands:?}").contains("ann"), "no subject is sent");
}

/// The labels of each series that these commands make, by its key.
fn labels(commands: &[Vec<String>]) -> BTreeMap<&str, BTreeMap<&str, &str>> {
    let made = commands.iter().filter(|command| command[0] == "TS.CREATE");
    let labelled = made.map(|command| {
        let from = command.iter().position(|word| word == "LABELS").unwrap() + 1;
        let labels = command[from..].chunks(2).map(|pair| (&*pair[0], &*pair[1]));
        (&*command[1], labels.collect())
    });
    labelled.collect()
}

/// Whether a filter of `TS.MRANGE` selects a series with these labels.
fn selects(filter: &str, labels: &BTreeMap<&str, &str>) -> bool {
    filter.split(' ').all(|condition| match condition.strip_suffix("!=") {
        Some(label) => labels.contains_key(label),
        None => {
            let (label, wanted) = condition.split_once('=').unwrap();
            if wanted.is_empty() {
                return !labels.contains_key(label);
            }
            let mut values = wanted.trim_matches(['(', ')']).split(',');
            labels.get(label).is_some_and(|is| values.any(|value| value == *is))
        }
    })
}

/// Offers to a queue have series beside those of limits, and each query of the dashboard and of the
/// page finds some of what the service and the lab write.
#[test]
fn offers_have_series_and_the_dashboard_finds_all_that_is_written() {
    let place = Place::new();
    let server = TimeSeriesServer::start(Being::There);
    let store = place.store();
    let serving = serve(&place, &server.url, &["--store", &store, "--queue", "mail=2"]);
    let mut client = serving.client();
    for status in [202, 202, 429, 429, 429] {
        assert_eq!(client.whole("POST", "/v1/queues/mail", "{}").unwrap().0, status);
    }
    assert_eq!(ask(&mut client, "192.0.2.7", 5), [3, 2]);
    serving.end();
    let (code, out, error) = place.run(&["lab", "zoo", "40", "30", "--timeseries", &server.url]);
    assert_eq!(code, 0, "{error}");
    let run = out.split_once(" run=").unwrap().1.lines().next().unwrap();
    let commands = server.all();
    let sums = sums(&commands);
    assert_eq!(sums["serve::queue:mail:accepted"], 2, "{sums:?}");
    assert_eq!(sums["serve::queue:mail:refused"], 3, "{sums:?}");
    let series = labels(&commands);
    let queue = [("data", "denials"), ("queue", "mail"), ("outcome", "refused")];
    assert_eq!(series["serve::queue:mail:refused"], BTreeMap::from(queue));

    let file = |name: &str| {
        std::fs::read_to_string(format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    };
    let dashboard: Value = serde_json::from_str(&file("examples/grafana/timeseries.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let mut filters: Vec<String> = panels
        .flat_map(|panel| panel["targets"].as_array().unwrap())
        .map(|target| {
            let command = ["type", "command", "aggregation"].map(|it| target[it].as_str().unwrap());
            assert_eq!(command, ["timeSeries", "ts.mrange", "sum"]);
            target["filter"].as_str().unwrap().replace("$run", run)
        })
        .collect();
    assert_eq!(filters.len(), 6);
    let page = file("docs/timeseries.md").replace("RUN", run);
    let grouped = page.lines().filter_map(|line| line.split_once("| `FILTER "));
    let grouped = grouped.map(|(_, rest)| rest.split_once(" GROUPBY ").unwrap().0.to_owned());
    filters.extend(grouped);
    assert_eq!(filters.len(), 10, "and those that add up");
    let mut found = BTreeSet::new();
    for filter in &filters {
        let keys = series.iter().filter(|(_, labels)| selects(filter, labels));
        let keys: Vec<&str> = keys.map(|(key, _)| *key).collect();
        assert!(!keys.is_empty(), "{filter}: {series:?}");
        found.extend(keys);
    }
    assert_eq!(found, series.keys().copied().collect(), "a panel for each series");
}

#[test]
fn several_services_add_up() {
    let place = Place::new();
    let server = TimeSeriesServer::start(Being::There);
    let both = [0, 1].map(|_| serve(&place, &server.url, &["--timeseries-retention", "1h"]));
    for serving in &both {
        assert_eq!(ask(&mut serving.client(), "192.0.2.7", 4), [3, 1]);
    }
    for serving in both {
        serving.end();
    }
    let commands = server.all();
    let of = "serve:labels:sliding_log/1h";
    let (allowed, denied) = (format!("{of}:allowed"), format!("{of}:denied"));
    assert_eq!(sums(&commands), BTreeMap::from([(&*allowed, 6), (&*denied, 2)]));
    for command in &commands {
        let command = command.join(" ");
        assert!(command.contains("RETENTION 3600000 "), "{command}");
        assert!(command.contains("ON_DUPLICATE SUM") || command.contains("DUPLICATE_POLICY SUM"));
    }
}

/// How many decisions the service's own series has.
fn recorded(admin: &mut Client) -> u64 {
    let series = admin.ask("GET", "/v1/admin/series?last=10m", "").unwrap().1;
    let series: Value = serde_json::from_str(&series).unwrap();
    let series = series["series"].as_array().unwrap().iter();
    let counts = series.flat_map(|one| one["counts"].as_array().unwrap());
    counts.map(|count| count.as_u64().unwrap()).sum()
}

#[test]
fn a_redis_without_time_series_is_told_and_the_service_serves() {
    let place = Place::new();
    let plain = TimeSeriesServer::start(Being::Plain);
    let redis = redis::start(place.path(), &[]);
    let urls = [Some(&plain.url), redis.as_ref().map(|(_, url)| url)];
    for url in urls.into_iter().flatten() {
        let serving = serve(&place, url, &[]);
        let mut client = serving.client();
        assert_eq!(ask(&mut client, "192.0.2.7", 5), [3, 2]);
        // Its own series goes on.
        let mut admin = serving.admin();
        until(|| recorded(&mut admin) == 5);
        let waiting = metric(&mut client, WAITING);
        assert!(waiting >= 2, "{waiting}");
        assert_eq!((metric(&mut client, TAKEN), lost(&mut client)), (0, [0; 3]));
        let log = serving.end();
        assert_eq!(log.matches("counts do not get into the time series").count(), 1, "{log}");
        for says in ["WARN", "has no time series (TS.ADD is unknown to it)", "Redis 8", "embedded"]
        {
            assert!(log.contains(says), "{says}: {log}");
        }
        assert!(log.contains(&format!("the last {waiting} counts were not written")), "{log}");
    }
    assert_eq!(plain.all(), Vec::<Vec<String>>::new());
}

#[test]
fn a_server_that_comes_and_goes_holds_nothing_up_and_gets_all_of_it() {
    let place = Place::new();
    let server = TimeSeriesServer::start(Being::Gone);
    let serving = serve(&place, &server.url, &[]);
    let mut client = serving.client();
    let mut commands = Vec::new();
    let mut asked = 0;
    for ip in ["192.0.2.1", "192.0.2.2"] {
        assert_eq!(ask(&mut client, ip, 5), [3, 2]);
        asked += 5;
        until(|| metric(&mut client, WAITING) > 0);
        server.turn(Being::There);
        until(|| {
            commands.extend(server.all());
            sums(&commands).values().sum::<u64>() == asked && metric(&mut client, WAITING) == 0
        });
        // It goes while nothing is under way.
        server.turn(Being::Gone);
    }
    assert_eq!(
        metric(&mut client, TAKEN),
        commands.iter().filter(|it| it[0] == "TS.ADD").count() as u64
    );
    assert_eq!(lost(&mut client), [0; 3]);
    assert_eq!(sums(&commands).into_values().collect::<Vec<u64>>(), [6, 4]);
    let log = serving.end();
    for says in ["counts do not get into", "closed the connection", "counts get into"] {
        assert_eq!(log.matches(says).count(), 1, "{says}: {log}");
    }
}

#[test]
fn what_may_have_arrived_is_not_sent_again() {
    let place = Place::new();
    let server = TimeSeriesServer::start(Being::Mute);
    let serving = serve(&place, &server.url, &[]);
    let mut client = serving.client();
    assert_eq!(ask(&mut client, "192.0.2.1", 5), [3, 2]);
    until(|| lost(&mut client)[2] >= 2 && metric(&mut client, WAITING) == 0);
    server.turn(Being::There);
    assert_eq!(ask(&mut client, "192.0.2.2", 5), [3, 2]);
    until(|| metric(&mut client, TAKEN) >= 2 && metric(&mut client, WAITING) == 0);
    let log = serving.end();
    assert!(
        log.contains("counts do not get into") && log.contains("closed the connection"),
        "{log}"
    );
    // A series has one sample of a second.
    let mut seen = BTreeSet::new();
    for command in server.all().into_iter().filter(|command| command[0] == "TS.ADD") {
        assert!(seen.insert((command[1].clone(), command[2].clone())), "twice: {command:?}");
    }
    assert!(seen.len() >= 3, "{seen:?}");
}

#[test]
fn a_server_that_says_nothing_and_one_that_is_not_there_hold_nothing_up() {
    let place = Place::new();
    // It is connected to, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("redis://{}?deadline=600s", silent.local_addr().unwrap());
    for (url, says) in [(&*silent, ""), ("redis://127.0.0.1:1", "cannot be reached")] {
        let serving = serve(&place, url, &[]);
        assert_eq!(ask(&mut serving.client(), "192.0.2.7", 5), [3, 2]);
        let mut admin = serving.admin();
        until(|| recorded(&mut admin) == 5);
        let log = serving.end();
        assert!(log.contains("counts were not written") && log.contains(says), "{log}");
    }
}

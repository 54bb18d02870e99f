//! `lab --live`: real time, real clients.

use std::io::Read as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::Place;
use crate::lab::write;
use crate::lent::{lent_cluster_or_skip, lent_sentinels_or_skip};
use crate::redis::{self, redis_cli};
use crate::serving::LONG;

/// Half a second under two strategies, with clients that ask again.
const EXPERIMENT: &str = r#"
version = 1
duration = "500ms"
capacity = "20/100ms"
operation = "5ms"

[[workload]]
name = "many"
clients = 5
arrivals = "poisson"
rate = "400/s"
retry = "obey"
times = 2

[[workload]]
name = "edge"
arrivals = "edge"
window = "100ms"
size = 20
before = "30ms"

[[case]]
limits = [{ per = "resource", limit = "20/100ms" }]
strategies = ["fixed_window", "sliding_log"]

[[case]]
name = "both"
limits = [
    { per = "resource", limit = "20/100ms via sliding_window" },
    { per = "client", limit = "8/100ms via gcra" },
]
"#;

/// The facts that are true of every run.
fn check(json: &Value) {
    assert_eq!(json["complete"], true);
    let cases = json["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 3);
    for case in cases {
        let number = |name: &str| case[name].as_u64().unwrap();
        let live = &case["live"];
        assert_eq!(live["failed"], 0, "{live}");
        // All who want something ask, and their results add up.
        assert!(number("requests") > 250 && number("attempts") >= number("requests"), "{case}");
        assert_eq!(number("attempts"), number("admitted") + number("denied"));
        assert!(number("admitted") > 0 && number("denied") > 0);
        let latency = |of: &str| live["latency_us"][of].as_u64().unwrap();
        let percentiles = ["p50", "p90", "p99", "p99_9", "max"].map(latency);
        assert!(percentiles.is_sorted(), "{live}");
        // It is from when it was due, so it holds what it was late.
        assert!(latency("p50") >= live["late_us"]["p50"].as_u64().unwrap(), "{live}");
        assert!(live["operation_share"].as_f64().unwrap() > 0.0, "{live}");
        // The store's own times say in which window an attempt was.
        for limit in case["limits"].as_array().unwrap() {
            assert_eq!(limit["holds"], true, "{limit}");
        }
    }
    let peak = |place: usize| cases[place]["peak"].as_u64().unwrap();
    assert!(peak(1) <= 20 && peak(2) <= 20, "windows that slide hold");
    // Unless this machine is so slow that a request sent before an edge came after it.
    let missed = cases[0]["live"]["missed_edges"].as_u64().unwrap();
    assert!(peak(0) > 20 || missed > 0, "fixed ones let more through at their edges");
    let sum = |of: &str, case: &Value| -> u64 {
        case["buckets"].as_array().unwrap().iter().map(|it| it[of].as_u64().unwrap()).sum()
    };
    for case in cases {
        assert_eq!(sum("admitted", case), case["admitted"], "whenever it was decided");
    }
}

#[test]
fn real_clients_in_real_time_are_measured_in_memory() {
    let place = Place::new();
    let file = write(&place, "short.toml", EXPERIMENT);
    let json = place.json(&["lab", "run", &file, "--live", "--json"]);
    check(&json);
    assert_eq!(json["live"]["store"], "memory://");
    assert_eq!(json["cases"][0]["live"]["cpu_us"], Value::Null, "there is no server");
    // First attempts are the same as in simulated time: attempts that are tried again are not.
    let simulated = place.json(&["lab", "run", &file, "--json"]);
    for (live, simulated) in
        json["cases"].as_array().unwrap().iter().zip(simulated["cases"].as_array().unwrap())
    {
        assert_eq!(live["requests"], simulated["requests"]);
        assert_eq!(simulated.get("live"), None, "no figure of a clock");
    }
    let (code, out, _) = place.run(&["lab", "run", &file, "--live", "--operation", "2s"]);
    assert_eq!(code, 0);
    let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
    for says in ["in real time on memory://", "latency p99", "of an operation of 2 s, within the"] {
        assert!(out.contains(says), "{says}: {out}");
    }
}

/// Each case tells what its decisions took of the servers.
fn tells_the_work(json: &Value) {
    for case in json["cases"].as_array().unwrap() {
        let live = &case["live"];
        // Those that come together share one.
        let calls = live["calls"].as_f64().unwrap();
        assert!(calls > 0.0 && calls <= 1.0, "a decision is at most one call: {live}");
        assert!(live["commands"].as_f64().unwrap() > 1.0, "{live}");
        assert!(live["cpu_us"].as_f64().unwrap() > 0.0, "{live}");
    }
}

#[test]
fn on_redis_the_servers_work_is_told_and_nothing_is_left_behind() {
    let place = Place::new();
    let Some((_server, url)) = redis::start(place.path(), &[]) else { return };
    let file = write(&place, "short.toml", EXPERIMENT);
    let json = place.json(&["lab", "run", &file, "--live", "--json", "--store", &url]);
    check(&json);
    tells_the_work(&json);
    // The memory is that of the server's keys, and of those of one case alone.
    let long = "version = 1\nduration = \"300ms\"\n\
                workload = [{ arrivals = \"steady\", rate = \"200/s\", clients = 5 }]\n\
                case = [{ limits = [{ per = \"resource\", limit = \"20/1h via sliding_log\" }] },\n\
                        { limits = [{ per = \"client\", limit = \"8/1h via gcra\" }] }]\n";
    let file = write(&place, "long.toml", long);
    let json = place.json(&["lab", "run", &file, "--live", "--json", "--store", &url]);
    let cases = json["cases"].as_array().unwrap();
    let of = |case: &Value| ["keys", "bytes"].map(|of| case[of].as_u64().unwrap());
    let ([one, log], [five, each]) = (of(&cases[0]), of(&cases[1]));
    assert_eq!([one, five], [1, 5], "one log, and a key for each client");
    assert!(log > 20 * 8 && each > 5 * 40, "{log} {each}");
    assert_eq!(redis_cli(&place.path().join("redis.sock"), &["DBSIZE"]).trim(), "0");
}

/// Twice as many offers as two workers do, for a second.
const QUEUE: &str = r#"
version = 1
duration = "1s"
capacity = "40/s"

[[workload]]
name = "producers"
arrivals = "steady"
rate = "80/s"

[[case]]
name = "queue"
queue = { bound = 5, workers = 2, work = "50ms" }
"#;

#[test]
fn a_queue_in_real_time_takes_what_its_workers_do() {
    let place = Place::new();
    let file = write(&place, "queue.toml", QUEUE);
    let run = ["lab", "run", &file, "--live", "--json"];
    is_of_its_workers(&place.json(&run));
    let Some((_server, url)) = redis::start(place.path(), &[]) else { return };
    is_of_its_workers(&place.json(&[&run[..], &["--store", &url]].concat()));
    assert_eq!(redis_cli(&place.path().join("redis.sock"), &["DBSIZE"]).trim(), "0");
}

fn is_of_its_workers(json: &Value) {
    let case = &json["cases"][0];
    let (queue, live) = (&case["queue"], &case["live"]);
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap();
    assert_eq!((number(live, "failed"), json["complete"] == true), (0, true), "{live}");
    let (accepted, refused) = (number(queue, "accepted"), number(queue, "refused"));
    assert_eq!((accepted + refused, accepted), (80, number(case, "admitted")), "{queue}");
    // A worker takes no job before its last one is done, and the run lasts as long as it says: so
    // many of each at most. Two are at work, and 5 may wait.
    let done = number(queue, "done");
    let jobs = f64::from(u32::try_from(done).unwrap());
    let seconds = jobs / queue["done_per_s"].as_f64().unwrap();
    assert!(done >= 1 && jobs <= 2.0 * (seconds / 0.05 + 1.0), "{queue}");
    assert!(accepted <= done + 2 + 5, "{queue}");
    assert_eq!(number(queue, "depth_max"), 5, "{queue}");
    assert!(number(&queue["waited_us"], "max") > 50_000, "{queue}");
    let sum = |name: &str| -> u64 {
        queue["buckets"].as_array().unwrap().iter().map(|bucket| number(bucket, name)).sum()
    };
    assert!(sum("delivered") <= number(queue, "delivered"), "{queue}");
    assert!(sum("delivered") >= sum("done") && sum("done") > 0, "{queue}");
}

/// Nodes with leases in front of one server; half of them are cut off from it for a while.
const NODES: &str = r#"
version = 1
duration = "1s"

[[workload]]
name = "hot"
arrivals = "poisson"
rate = "2000/s"

[[case]]
name = "cut off"
limits = [{ per = "resource", limit = "1000/s burst 200 via gcra lease auto 10%" }]

[case.nodes]
number = 4
on_failure = "local 25 %"
deny_cache = "1s"
away = [{ number = 2, from = "400ms", until = "700ms" }]
"#;

#[test]
fn nodes_in_real_time_hold_leases_and_go_on_by_their_shares() {
    let place = Place::new();
    let Some((_server, url)) = redis::start(place.path(), &[]) else { return };
    let file = write(&place, "nodes.toml", NODES);
    let json = place.json(&["lab", "run", &file, "--live", "--json", "--store", &url]);
    let case = &json["cases"][0];
    let (nodes, limit) = (&case["nodes"], &case["limits"][0]);
    assert_eq!(limit["holds"], true, "{limit}");
    // How many more than one depends on how busy the machine is; the counts below hold beside eight
    // busy processes with a wide margin.
    assert!(nodes["per_question"].as_f64().unwrap() > 1.0, "{nodes}");
    let number = |name: &str| nodes[name].as_u64().unwrap();
    assert!(number("by_lease") > 100 && number("by_local_share") > 20, "{nodes}");
    let decided = ["by_store", "by_lease", "by_deny_cache", "by_local_share", "by_failure_rule"];
    assert_eq!(decided.map(number).iter().sum::<u64>(), case["attempts"], "{nodes}");
    assert_eq!(case["live"]["failed"], 0, "the rule answered for the store");
    // Facts that only a simulation knows.
    assert!(nodes["round_trip_us"].is_null() && nodes["admitted_alone"].is_null(), "{nodes}");
    assert_eq!(redis_cli(&place.path().join("redis.sock"), &["DBSIZE"]).trim(), "0");
}

/// Several nodes decide, and the report has the work of all of them; under sentinels the primary
/// decides.
#[test]
fn on_a_cluster_and_under_sentinels_the_work_of_those_who_decide_is_told() {
    let cluster = lent_cluster_or_skip!();
    let sentinels = lent_sentinels_or_skip!();
    let place = Place::new();
    let short = "version = 1\nduration = \"100ms\"\n\
                 workload = [{ arrivals = \"steady\", rate = \"500/s\" }]\n\
                 case = [{ limits = [{ per = \"client\", limit = \"20/100ms via gcra\" }] }]\n";
    for (url, experiment) in [(cluster.url(), EXPERIMENT), (sentinels.url(), short)] {
        let file = write(&place, "short.toml", experiment);
        let json = place.json(&["lab", "run", &file, "--live", "--json", "--store", &url]);
        if experiment == EXPERIMENT {
            check(&json);
        }
        tells_the_work(&json);
    }
    let left: usize = (0..3).map(|node| cluster.count_keys(node)).sum();
    assert_eq!((left, sentinels.server(0).keys().len()), (0, 0));
}

/// Starts a run of steady traffic for some seconds.
fn running(place: &Place, url: &str, seconds: u32) -> std::process::Child {
    let steady = format!(
        "version = 1\nduration = \"{seconds}s\"\n\
         workload = [{{ arrivals = \"steady\", rate = \"200/s\" }}]\n\
         case = [{{ limits = [{{ per = \"client\", limit = \"50/5m via gcra\" }}] }}]\n"
    );
    start(place, &steady, url)
}

/// Starts a run, and waits until it has written something.
fn start(place: &Place, experiment: &str, url: &str) -> std::process::Child {
    let file = write(place, "live.toml", experiment);
    let mut command = place.std(&["lab", "run", &file, "--live", "--json", "--store", url]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while redis_cli(&place.path().join("redis.sock"), &["DBSIZE"]).trim() == "0" {
        assert!(start.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(5)); // tidy: sleep-ok it polls
    }
    child
}

fn ended(mut child: std::process::Child) -> (Option<i32>, Value, String) {
    let (mut out, mut error) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    let code = child.wait().unwrap().code();
    (code, serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{error}")), error)
}

#[test]
fn what_a_server_does_not_answer_failed_and_the_run_goes_on() {
    let place = Place::new();
    let Some((server, url)) = redis::start(place.path(), &[]) else { return };
    let child = running(&place, &format!("{url}?deadline=200ms"), 5);
    server.freeze();
    // Several times as long as an answer may take.
    std::thread::sleep(Duration::from_millis(1_000)); // tidy: sleep-ok the server is paused
    server.thaw();
    let (code, json, error) = ended(child);
    assert_eq!(code, Some(0), "{error}");
    let case = &json["cases"][0];
    let number = |name: &str| case[name].as_u64().unwrap();
    let failed = case["live"]["failed"].as_u64().unwrap();
    assert!(failed > 0 && number("admitted") > 0, "{case}");
    assert_eq!(number("attempts"), number("admitted") + number("denied") + failed);
    assert_eq!(number("attempts"), 1_000, "the loop is open: whoever is due asks");
    let told = json["findings"].to_string();
    assert!(told.contains(&format!("{failed} of 1000 attempts got no answer: ")), "{told}");
}

#[test]
fn who_queues_behind_a_server_that_stands_still_is_measured() {
    let place = Place::new();
    let Some((server, url)) = redis::start(place.path(), &[]) else { return };
    // More pipelined commands than a connection takes by itself.
    let burst = "version = 1\nduration = \"2s\"\n\
                 workload = [{ arrivals = \"bursts\", size = 6000, every = \"1s\" }]\n\
                 case = [{ limits = [{ per = \"client\", limit = \"50/5m via gcra\" }] }]\n";
    let child = start(&place, burst, &url);
    server.freeze();
    std::thread::sleep(Duration::from_millis(1_500)); // tidy: sleep-ok the server is paused
    server.thaw();
    let (code, json, error) = ended(child);
    assert_eq!(code, Some(0), "{error}");
    let live = &json["cases"][0]["live"];
    assert_eq!((&live["failed"], &json["cases"][0]["attempts"]), (&0.into(), &12_000.into()));
    assert!(live["in_flight"].as_u64().unwrap() >= 6_000, "{live}");
    assert!(live["latency_us"]["max"].as_u64().unwrap() > 100_000, "{live}");
}

#[test]
fn a_server_that_is_gone_does_not_take_what_was_measured_with_it() {
    let place = Place::new();
    let Some((server, url)) = redis::start(place.path(), &[]) else { return };
    let two = "version = 1\nduration = \"1s\"\n\
               workload = [{ arrivals = \"steady\", rate = \"200/s\" }]\n\
               [[case]]\nlimits = [{ per = \"client\", limit = \"50/5m\" }]\n\
               strategies = [\"gcra\", \"sliding_log\"]\n";
    let child = start(&place, two, &url);
    drop(server);
    let (code, json, error) = ended(child);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("redis.sock"), "{error}");
    assert_eq!(json["complete"], false);
    let cases = json["cases"].as_array().unwrap();
    let number = |place: usize, name: &str| cases[place][name].as_u64().unwrap();
    assert!(number(0, "admitted") > 0 && number(0, "attempts") == 200, "{json}");
    assert_eq!((cases[0]["live"]["cpu_us"].clone(), number(1, "attempts")), (Value::Null, 0));
}

#[test]
fn ctrl_c_ends_real_time_with_what_was_measured() {
    let place = Place::new();
    let Some((_server, url)) = redis::start(place.path(), &[]) else { return };
    let child = running(&place, &url, 600);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let (code, json, error) = ended(child);
    assert_eq!(code, Some(130), "{error}");
    assert!(error.contains("this is what was measured so far"), "{error}");
    assert_eq!(json["complete"], false);
    assert!(json["cases"][0]["live"]["latency_us"]["max"].as_u64().unwrap() > 0, "{json}");
    assert_eq!(redis_cli(&place.path().join("redis.sock"), &["DBSIZE"]).trim(), "0");
}

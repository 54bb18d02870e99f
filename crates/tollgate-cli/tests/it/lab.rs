//! `lab`: experiments as people run them, and their reports as a browser shows them.

use std::io::Read as _;
use std::process::Stdio;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::Place;
use crate::lent::{lent_cluster_or_skip, lent_sentinels_or_skip};
use crate::redis::{self, redis_cli};
use crate::serving::LONG;
use crate::timeseries::{Being, TimeSeriesServer};

/// Several workloads that ask again, and cases of several parts: small, and with all that there is.
pub(crate) const EXPERIMENT: &str = r#"
version = 1
name = "All <b>&</b> \"more\""
duration = "20s"
capacity = "20/5s"

[[workload]]
name = "polite"
clients = 5
arrivals = "poisson"
rate = "8/s"
retry = "obey"
times = 3

[[workload]]
name = "storm"
clients = 3
arrivals = "bursts"
size = 10
every = "3s"
retry = "at_once"

[[case]]
limits = [{ per = "resource", limit = "20/5s" }]
strategies = "all"

[[case]]
name = "both"
limits = [
    { per = "resource", limit = "20/5s via sliding_log" },
    { per = "client", limit = "3/5s via gcra" },
]
"#;

pub(crate) fn write(place: &Place, name: &str, text: &str) -> String {
    let path = place.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_zoo_shows_its_finding() {
    let place = Place::new();
    let report = place.path().join("zoo.html");
    let report = report.to_str().unwrap();
    let (code, out, error) = place.run(&["lab", "zoo", "400", "300", "--report", report]);
    assert_eq!(code, 0, "{error}");
    for says in [
        "uniform gates let 41",
        "Never more than 300 within 10 s (300 at most): sliding log, leaky bucket.",
        " attempts decided in memory in",
        "written to ",
    ] {
        assert!(out.contains(says), "{says}: {out}");
    }
    let page = std::fs::read_to_string(report).unwrap();
    assert!(page.contains("leaky bucket") && page.matches("<svg").count() == 12);
    // Pictures come before tables.
    assert!(page.rfind("<svg").unwrap() < page.find("<table").unwrap());
    assert!(out.find('█').unwrap() < out.find("never served").unwrap(), "{out}");
    // Others may read it, as any file that a program makes.
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(report).unwrap().permissions().mode();
    assert_ne!(mode & 0o044, 0, "{mode:o}");
    // The subject of the example is explained where people look for it.
    for (words, says) in [
        (&["help", "zoo"][..], "a zoo can handle 300 calls in 10 s"),
        (&["help", "lab", "zoo"], "the example of an article on rate limiting with Redis"),
    ] {
        let (_, out, _) = place.run(words);
        assert!(out.contains(says), "{words:?}: {out}");
    }
    let json = place.json(&["lab", "zoo", "400", "300", "--json"]);
    let admitted: Vec<&Value> =
        json["cases"].as_array().unwrap().iter().map(|case| &case["admitted"]).collect();
    let [gates, log, bucket] = admitted[..] else { panic!("{admitted:?}") };
    assert_eq!(*gates, 10 * 4 + 400 + 1, "visitors, the gang, and bob once");
    assert!(log.as_u64() > bucket.as_u64(), "{admitted:?}");
}

#[test]
fn the_sides_and_the_race_are_counted() {
    let place = Place::new();
    let json = place.json(&["lab", "sides", "--json"]);
    let peaks: Vec<&Value> =
        json["cases"].as_array().unwrap().iter().map(|case| &case["peak"]).collect();
    assert_eq!(peaks, [200, 20, 100, 100]);
    let admitted: Vec<u64> = json["cases"][0]["zoom"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bucket| bucket["admitted"].as_u64().unwrap())
        .collect();
    assert_eq!(admitted.iter().sum::<u64>(), 200, "both sides of one edge");
    let json = place.json(&["lab", "race", "--clients", "100", "--json"]);
    assert_eq!((&json["atomic"], &json["on"]), (&5.into(), &"simulated".into()));
    assert!(json["overshoot"].as_u64().unwrap() > 5, "{json}");
    let (code, out, _) = place.run(&["lab", "race"]);
    assert!(code == 0 && out.contains("one atomic check"), "{out}");
}

#[test]
fn a_queue_takes_what_its_workers_do() {
    let place = Place::new();
    let (code, out, error) = place.run(&["lab", "queue"]);
    assert_eq!(code, 0, "{error}");
    let read = words(&out);
    for says in [
        "- 1 worker: 20.0 a second are offered; 1 worker of 100 ms a job does 10.0 a second at \
         most: \
         10.0 a second are accepted, 10.0 refused, and 10.0 done.",
        "1 worker: at most 10 of 10 wait, 9.9 on average; half of the jobs wait no longer than 1 s",
        "20.0 a second are accepted, 0.0 refused, and 20.0 done.",
        "- 2 workers: 2.00 times the workers, 2.00 times as many accepted.",
        "accepted a second 10.0/s 20.0/s",
        "highest depth 10 0",
        "Depth of the queue: a column is the most of 1 s; ┄ is the bound, 10",
        "2400 attempts decided in memory in",
    ] {
        assert!(read.contains(says), "{says}: {out}");
    }
    let queue = |args: &[&str]| {
        let json = place.json(&[&["lab", "queue", "--json"], args].concat());
        json["cases"].as_array().unwrap().iter().map(|it| it["queue"].clone()).collect::<Vec<_>>()
    };
    let rates = |args: &[&str]| -> Vec<[f64; 2]> {
        let rate = |it: &Value, of: &str| it[of].as_f64().unwrap();
        let both = |it: &Value| ["accepted_per_s", "refused_per_s"].map(|of| rate(it, of));
        queue(args).iter().map(both).collect()
    };
    assert_eq!(rates(&[]), [[10.0, 10.0], [20.0, 0.0]]);
    let more = ["--offers", "300/10s", "--work", "50ms", "--workers", "1,2,1000", "--for", "20s"];
    assert_eq!(rates(&more), [[20.0, 10.0], [30.0, 0.0], [30.0, 0.0]]);
    let deep = &queue(&["--bound", "3", "--for", "10s"])[0];
    assert_eq!((&deep["depth_max"], &deep["bound"]), (&3.into(), &3.into()));
    assert_eq!(deep["waited_us"]["max"], 300_000);
}

/// Words as they are read, whatever the width.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The pages show what the commands print.
#[test]
fn the_figures_of_the_pages_are_those_of_runs() {
    let place = Place::new();
    let page = |name: &str| {
        let path = format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).unwrap()
    };
    let (lab, readme) = (page("docs/lab.md"), page("README.md"));
    for (args, page, after) in [
        (&["queue"][..], &lab, "offers twice as many jobs a second"),
        (&["zoo", "400", "300"], &readme, "tollgate lab zoo 400 300 --report zoo.html"),
    ] {
        let (code, out, error) = place.run(&[&["lab"], args].concat());
        assert_eq!(code, 0, "{error}");
        let (_, rest) = page.split_once(after).unwrap();
        let block = rest.split_once("```text\n").unwrap().1.split_once("```").unwrap().0;
        for line in block.split("- ").filter(|line| !line.trim().is_empty()) {
            assert!(words(&out).contains(&words(line)), "{line}: {out}");
        }
    }
    let json = place.json(&["lab", "sides", "--json"]);
    let peak = |case: usize| &json["cases"][case]["peak"];
    let says = format!(
        "A fixed window admits {} within an hour. A limit of an hour together with one of a minute \
         admits {}. Sliding windows never admit more than {}.",
        peak(0),
        peak(1),
        peak(3)
    );
    assert!(words(&lab).contains(&says) && peak(2) == peak(3), "{says}");
}

#[test]
fn what_a_queue_cannot_do_is_told_before_anything_runs() {
    let place = Place::new();
    let both =
        format!("{EXPERIMENT}[[case]]\nname = \"q\"\nqueue = {{ bound = 5, work = \"1s\" }}\n");
    let file = write(&place, "both.toml", &both);
    let broken = write(&place, "broken.toml", &both.replace("bound = 5", "bound = 0"));
    let backend = format!("{EXPERIMENT}[backend]\nservers = 1\nwork = \"1s\"\n");
    let slow = write(&place, "backend.toml", &backend);
    let unslow = write(&place, "slow.toml", &backend.replace("servers = 1", "servers = 0"));
    let report = place.path().join("never.html");
    for (args, says) in [
        (&["run", &file, "--store", "redis://127.0.0.1:1"][..], "127.0.0.1:1"),
        (&["run", &broken], "broken.toml:35: q: `bound` is 1 to 10000000 jobs, not 0"),
        (&["run", &slow, "--live"], "simulated in memory: leave out --live"),
        (&["run", &slow, "--store", "redis://127.0.0.1:1"], "in memory: leave out --store"),
        (&["run", &unslow, "--live"], "slow.toml:34: backend: `servers` is 1 to 100000, not 0"),
        (&["queue", "--bound", "0"], "1..=10000000"),
        (&["queue", "--offers", "many"], "`rate` is units per time, e.g. 10/s"),
        (&["queue", "--work", "0"], "--work: this is not a time"),
        (&["queue", "--work", "soon"], "--work"),
        (&["queue", "--work", "24h"], "`work` is less than a day"),
        (&["queue", "--for", "0"], "--for: this is not a time"),
        (&["queue", "--workers", "1,0"], "1..=100000"),
        (&["queue", "--workers", "2,2"], "`workers` has 2 twice"),
    ] {
        let args = [&["lab"], args, &["--report", report.to_str().unwrap()]].concat();
        let (code, out, error) = place.run(&args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {error}");
        assert!(error.contains(says), "{args:?}: {error}");
    }
    assert!(!report.exists());
    // Memory by name is memory.
    let (code, out, error) = place.run(&["lab", "run", &file, "--store", "memory://", "--json"]);
    assert_eq!(code, 0, "{error}");
    let json: Value = serde_json::from_str(&out).unwrap();
    let last = json["cases"].as_array().unwrap().last().unwrap();
    assert!(last["queue"]["accepted"].as_u64().unwrap() > 10, "{last}");
}

#[test]
fn nodes_are_simulated_in_memory_and_real_on_redis() {
    let place = Place::new();
    let text = "version = 1\nduration = \"2s\"\n\
        workload = [{ arrivals = \"poisson\", rate = \"1000/s\" }]\n\
        case = [{ name = \"n\", limits = [{ per = \"resource\", \
        limit = \"500/s via gcra lease auto 5%\" }], nodes = { number = [2, 8] } }]\n";
    let file = write(&place, "nodes.toml", text);
    let json = place.json(&["lab", "run", &file, "--json"]);
    assert_eq!(json["cases"][1]["name"], "n, 8 nodes");
    for case in json["cases"].as_array().unwrap() {
        assert_eq!(case["limits"][0]["holds"], true, "{case}");
        assert!(case["nodes"]["questions"].as_u64().unwrap() > 0, "{case}");
    }
    for (args, says) in [
        (&["--live"][..], "`n, 2 nodes` has nodes, which in real time share a Redis"),
        (&["--store", "redis://127.0.0.1:1"], "leave out --store, or add --live"),
    ] {
        let (code, out, error) = place.run(&[&["lab", "run", &file], args].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {error}");
        assert!(error.contains(says), "{args:?}: {error}");
    }
}

#[test]
fn the_race_on_a_real_server_leaves_nothing_behind() {
    let place = Place::new();
    let Some((_server, url)) = redis::start(place.path(), &[]) else { return };
    races(&place, &url);
    assert_eq!(redis_cli(&place.path().join("redis.sock"), &["DBSIZE"]).trim(), "0");
}

/// On a cluster both keys have slots of their own; under sentinels the primary has them.
#[test]
fn the_race_on_a_cluster_and_under_sentinels_leaves_nothing_behind() {
    let cluster = lent_cluster_or_skip!();
    let sentinels = lent_sentinels_or_skip!();
    let place = Place::new();
    races(&place, &cluster.url());
    races(&place, &sentinels.url());
    let left: usize = (0..3).map(|node| cluster.count_keys(node)).sum();
    assert_eq!((left, sentinels.server(0).keys().len()), (0, 0));
}

fn races(place: &Place, url: &str) {
    let race = ["lab", "race", "--clients", "200", "--limit", "3", "--store", url, "--json"];
    let json = place.json(&race);
    assert_eq!((&json["atomic"], &json["on"]), (&3.into(), &"redis".into()));
    // How many get through is that moment's chance; never fewer than may.
    assert!(json["check_then_increment"].as_u64().unwrap() >= 3, "{json}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_in_memory_and_on_redis() {
    let place = Place::new();
    let file = write(&place, "all.toml", EXPERIMENT);
    let run = |more: &[&str]| {
        let (code, out, error) = place.run(&[&["lab", "run", &file, "--json"], more].concat());
        assert_eq!((code, error.as_str()), (0, ""));
        out
    };
    let first = run(&[]);
    assert_eq!(first, run(&["--seed", "1"]));
    assert_ne!(first, run(&["--seed", "2"]));
    let zoo = |more: &[&str]| place.run(&[&["lab", "zoo", "40", "30", "--json"], more].concat()).1;
    let Some((_server, url)) = redis::start(place.path(), &[]) else { return };
    assert_eq!(first, run(&["--store", &url]));
    assert_eq!(zoo(&[]), zoo(&["--store", &url]), "with its queue");
    let queue = "version = 1\nduration = \"20s\"\n\
        workload = [{ arrivals = \"poisson\", rate = \"30/s\", retry = \"obey\" }]\n\
        case = [{ queue = { bound = 5, workers = 2, work = \"90ms\", rate = \"15/s via gcra\", \
        counts = \"all\" } }]\n";
    let queue = write(&place, "queue.toml", queue);
    let queue = |more: &[&str]| place.run(&[&["lab", "run", &queue, "--json"], more].concat());
    assert_eq!(queue(&[]), queue(&["--store", &url]), "with a rate, and clients that come back");
    assert_eq!(redis_cli(&place.path().join("redis.sock"), &["DBSIZE"]).trim(), "0");
}

#[test]
fn what_is_wrong_is_told_before_anything_is_written() {
    let place = Place::new();
    let file = write(&place, "all.toml", EXPERIMENT);
    let broken = write(&place, "broken.toml", &EXPERIMENT.replace("poisson", "poison"));
    let folder = place.path().to_str().unwrap();
    let nowhere = format!("{folder}/nowhere/out.html");
    for (args, says) in [
        (&["run", "/nowhere.toml"][..], "/nowhere.toml: the file cannot be read"),
        (&["run", &broken], "broken.toml:7: polite: there are no arrivals `poison`: one of steady"),
        (&["run", &file, "--report", &nowhere], "out.html: cannot be written"),
        (&["run", &file, "--report", folder], "this is a folder"),
        (&["run", &file, "--store", "redis://127.0.0.1:1"], "127.0.0.1:1"),
        (&["run", &file, "--store", "sqlite:///x"], "is not a store of an experiment"),
        (&["run", &file, "--operation", "5ms"], "--live"),
        (&["run", &file, "--live", "--operation", "5"], "--operation"),
        (&["run", &file, "--live", "--operation", "0"], "this is not a time"),
        (&["zoo", "400", "0"], "0"),
        (&["zoo"], "LOOPS"),
        (&["race", "--clients", "0"], "1..=1000"),
    ] {
        let (code, out, error) = place.run(&[&["lab"], args].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {error}");
        assert!(error.contains(says), "{args:?}: {error}");
    }
    let left: Vec<_> =
        std::fs::read_dir(place.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "nothing half-written: {left:?}");
}

#[test]
fn a_large_experiment_is_refused_with_what_it_would_take_and_runs_when_told_to() {
    let place = Place::new();
    let of = |duration: &str, rate: &str, more: &str| {
        let text = format!(
            "version = 1\nduration = \"{duration}\"\n\
             workload = [{{ arrivals = \"steady\", rate = \"{rate}\"{more} }}]\n\
             case = [{{ limits = [{{ per = \"client\", limit = \"5/s via gcra\" }}] }}]\n"
        );
        write(&place, "large.toml", &text)
    };
    for (duration, rate, more, says) in [
        (
            "365d",
            "1000/s",
            "",
            "large: about 31536000000 requests, 8 h 46 min at a million attempts",
        ),
        (
            "10s",
            "1000000000/s",
            ", retry = \"obey\", times = 3",
            "up to 40000000000 attempts with their retries",
        ),
        ("60s", "1000000/s", ", retry = \"obey\"", "GiB of requests that wait to be tried again"),
        // Few requests, each of them tried again for as long as the experiment takes.
        (
            "1h",
            "1/s",
            ", retry = \"at_once\", pause = \"1us\", times = 4000000000",
            "about 3600 requests, up to 12960000000000 attempts with their retries",
        ),
    ] {
        let file = of(duration, rate, more);
        let (code, out, error) = place.run(&["lab", "run", &file]);
        assert_eq!((code, out.as_str()), (2, ""), "{error}");
        assert!(error.contains(says) && error.contains("add --large"), "{error}");
    }
    let (code, out, error) = place.run(&["lab", "run", &of("10s", "10/s", ""), "--large"]);
    assert_eq!(code, 0, "{out}{error}");
}

#[test]
fn ctrl_c_ends_a_long_run_with_what_was_measured() {
    for case in [
        "limits = [{ per = \"client\", limit = \"5/s via gcra\" }]",
        "queue = { bound = 10, work = \"1ms\" }",
    ] {
        is_ended_by_ctrl_c(case);
    }
}

fn is_ended_by_ctrl_c(case: &str) {
    let place = Place::new();
    let endless = format!(
        "version = 1\nduration = \"365d\"\n\
         workload = [{{ arrivals = \"steady\", rate = \"1000/s\" }}]\ncase = [{{ {case} }}]\n"
    );
    let file = write(&place, "endless.toml", &endless);
    let report = place.path().join("cut.html");
    let mut command = place.std(&["lab", "run", &file, "--large", "--json", "--report"]);
    command.arg(&report).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It has begun when it has taken some time of the processor: more than its start takes.
    let start = Instant::now();
    while cpu_ticks(child.id()) < 20 {
        assert!(start.elapsed() < LONG);
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let (mut out, mut error) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{error}");
    assert!(error.contains("this is what was measured so far"), "{error}");
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["complete"], false);
    assert!(json["cases"][0]["attempts"].as_u64().unwrap() > 0, "something was measured");
    assert!(std::fs::read_to_string(&report).unwrap().contains("<svg"));
}

/// The processor time of a process, in ticks.
fn cpu_ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn what_got_through_goes_into_time_series_that_the_documents_queries_find() {
    let place = Place::new();
    let server = TimeSeriesServer::start(Being::There);
    let zoo = ["lab", "zoo", "400", "300", "--timeseries", &server.url];
    let (code, out, error) = place.run(&zoo);
    assert_eq!(code, 0, "{error}");
    let (_, run) =
        out.split_once("TS.MRANGE - + AGGREGATION SUM 1000 FILTER data=hits run=").unwrap();
    let run = run.lines().next().unwrap();
    let commands = server.all();
    let key = format!("lab:{run}:sliding log:admitted");
    assert!(commands.iter().any(|it| it[..] == ["PEXPIRE", &key, "86400000"]), "{commands:?}");
    let keys: std::collections::BTreeSet<&str> =
        commands.iter().filter(|it| it[0] == "TS.ADD").map(|it| &*it[1]).collect();
    let expire = commands.iter().filter(|it| it[0] == "PEXPIRE").map(|it| &*it[1]);
    assert_eq!(expire.collect::<std::collections::BTreeSet<_>>(), keys, "each that was written");
    let words = |command: &[String]| command.join(" ");
    let created: Vec<String> =
        commands.iter().filter(|it| it[0] == "TS.CREATE").map(|it| words(it)).collect();
    assert!(
        created.iter().any(|it| {
            it.contains(
        &format!("DUPLICATE_POLICY SUM LABELS data hits run {run} outcome admitted experiment The Zoo: 400 calls")
    )
        }),
        "{created:?}"
    );
    let sum = |data: &str| -> u64 {
        let of = commands.iter().filter(|it| it[0] == "TS.ADD" && it.contains(&data.to_owned()));
        of.map(|it| it[3].parse::<u64>().unwrap()).sum()
    };
    let json = place.json(&["lab", "zoo", "400", "300", "--json"]);
    let all = |of: &str| -> u64 {
        json["cases"].as_array().unwrap().iter().map(|case| case[of].as_u64().unwrap()).sum()
    };
    assert_eq!([sum("hits"), sum("denials")], [all("admitted"), all("denied")]);
    let (code, ..) = place.run(&[&zoo[..], &["--timeseries-retention", "0"]].concat());
    assert_eq!(
        (code, server.all().iter().any(|it| it[0] == "PEXPIRE")),
        (0, false),
        "0 keeps them"
    );

    let server = TimeSeriesServer::start(Being::Plain);
    let (code, out, error) = place.run(&["lab", "zoo", "400", "300", "--timeseries", &server.url]);
    assert_eq!((code, out.as_str()), (2, ""), "before anything ran");
    assert!(error.contains("TS.ADD") && error.contains("Redis 8"), "{error}");
    let (code, _, error) = place.run(&["lab", "sides", "--timeseries", "memory://"]);
    assert!(code == 2 && error.contains("memory keeps no time series"), "{error}");
}

//! `replay`: a log in, a table or one JSON object out.

use std::io::Read as _;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::Place;
use crate::redis::{self, redis_cli};

/// Two clients: one asks six times within three seconds, one once; an invalid line; one line out of
/// order.
const LOG: &str = "\
10.0.0.1 - - [17/May/2015:10:05:00 +0000] \"GET /a HTTP/1.1\" 200 5
10.0.0.1 - - [17/May/2015:10:05:01 +0000] \"GET /a HTTP/1.1\" 200 5
10.0.0.1 - - [17/May/2015:10:05:01 +0000] \"GET /b HTTP/1.1\" 200 5
10.0.0.2 - bob [17/May/2015:10:05:00 +0000] \"GET /b HTTP/1.1\" 200 5
this is not a line of a log
10.0.0.1 - - [17/May/2015:10:05:02 +0000] \"GET /a HTTP/1.1\" 200 5
10.0.0.1 - - [17/May/2015:10:05:02 +0000] \"GET /a HTTP/1.1\" 200 5
10.0.0.1 - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 5
";

fn with_log() -> (Place, String) {
    let place = Place::new();
    let path = place.path().join("access.log");
    std::fs::write(&path, LOG).unwrap();
    (place, path.to_str().unwrap().to_owned())
}

#[test]
fn json_is_the_object_that_scripts_rely_on() {
    let (place, log) = with_log();
    let json = place.json(&["replay", &log, "--limit", "3/10s", "--json"]);
    let expected = serde_json::json!({
        "events": 7, "out_of_order": 1, "unparsed": 1,
        "strategies": [{
            "strategy": "sliding_log", "limit": "3/10s via sliding_log",
            "admitted": 4, "denied": 3, "peak_in_window": 3, "clients_denied": 1,
            "top_denied": [["10.0.0.1", 3]],
        }],
    });
    assert_eq!(json, expected);
    let all = place.json(&["replay", &log, "--limit", "3/10s", "--strategy", "all", "--json"]);
    let strategies = all["strategies"].as_array().unwrap();
    assert_eq!(strategies.len(), tollgate::Strategy::RATES.len());
    for case in strategies {
        let sum = case["admitted"].as_u64().unwrap() + case["denied"].as_u64().unwrap();
        assert_eq!(sum, 7, "{case}");
    }
}

#[test]
fn people_get_a_table_and_what_to_know_of_it() {
    let (place, log) = with_log();
    let (code, out, err) = place.run(&["replay", &log, "-l", "3/10s", "--strategy", "all"]);
    assert_eq!((code, err.as_str()), (0, ""));
    for says in [
        "7 events of 2 clients by ip, 2015-05-17T10:05:00Z to 2015-05-17T10:05:03Z\n",
        "\n sliding_log ",
        " 1 of 2 ",
        "42.9 %",
        "\n3/10s via sliding_log\n  most denied: 10.0.0.1 (3)\n",
        "note: 1 line is stamped earlier than the line before",
        "note: skipped 1 line\n  line 5: ",
        "    this is not a line of a log\n",
        "note: all stamps are whole seconds",
        "`--spread 1`",
    ] {
        assert!(out.contains(says), "{says} is not in\n{out}");
    }
    let (_, out, _) = place.run(&["replay", &log, "-l", "3/10s", "--by", "user"]);
    assert!(out.starts_with("1 event of 1 client by user"), "{out}");
}

/// A table of zeros would look like traffic that no limit denies.
#[test]
fn a_report_shows_the_same_decisions_with_who_was_denied_most_and_when() {
    let (place, log) = with_log();
    let page = place.path().join("page.html");
    let page = page.to_str().unwrap();
    let args = ["replay", &log, "--limit", "3/10s", "--strategy", "all", "--report", page];
    let (code, out, error) = place.run(&args);
    assert_eq!(code, 0, "{error}");
    assert!(out.ends_with(&format!("\nwritten to {page}\n")), "{out}");
    let json = place.json(&[&args[..], &["--json"]].concat());
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("2015-05-17T10:05:00Z to 2015-05-17T10:05:03Z"), "calendar time");
    assert!(html.contains("UTC, from 2015-05-17T10:05:00Z"), "at the axes too");
    let (_, rest) = html.split_once("id=\"results\">").unwrap();
    let results: serde_json::Value =
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    let cases = results["cases"].as_array().unwrap();
    let strategies = json["strategies"].as_array().unwrap();
    assert_eq!(cases.len(), strategies.len());
    for (case, strategy) in cases.iter().zip(strategies) {
        for key in ["admitted", "denied"] {
            assert_eq!(case[key], strategy[key], "{}: {key}", case["name"]);
        }
        let (mine, theirs) = (&case["most_denied"][0], &strategy["top_denied"][0]);
        assert_eq!((&mine["client"], &mine["denied"]), (&theirs[0], &theirs[1]));
        assert!(mine["first_us"].as_u64() <= mine["last_us"].as_u64(), "{mine}");
        assert!(mine["longest_wait_us"].as_u64() > Some(0), "{mine}");
        assert!(case["told_wait_us"]["p50"].as_u64() > Some(0), "{case}");
    }
    assert!(html.find("Denied most often").unwrap() < html.find("<h2>Measures").unwrap());
    let nowhere = ["replay", &log, "--limit", "3/10s", "--report", "/nowhere/page.html"];
    let (code, out, error) = place.run(&nowhere);
    assert!(code == 2 && out.is_empty() && error.contains("/nowhere/page.html"), "{error}");
}

#[test]
fn a_report_weighs_by_cost_as_the_replay_does() {
    let place = Place::new();
    let log = place.path().join("units.jsonl");
    let mut text = String::new();
    for (second, ip, units) in
        [(0, "::a", 4), (1, "::a", 4), (2, "::a", 4), (3, "::b", 9), (4, "::a", 2)]
    {
        text += &format!(
            "{{\"time\": {}, \"ip\": \"{ip}\", \"units\": {units}}}\n",
            1_764_228_000 + second
        );
    }
    std::fs::write(&log, text).unwrap();
    let page = place.path().join("page.html");
    let (log, page) = (log.to_str().unwrap(), page.to_str().unwrap());
    let args = ["replay", log, "-l", "10/10s via sliding_log", "--report", page, "--json"];
    // Without costs nothing is denied; in units the third request is.
    for (more, denied, peak) in [(&[][..], 0, 4), (&["--cost", "units"], 1, 10)] {
        let json = place.json(&[&args[..], more].concat());
        let replayed = &json["strategies"][0];
        assert_eq!(
            (&replayed["denied"], &replayed["peak_in_window"]),
            (&denied.into(), &peak.into())
        );
        let html = std::fs::read_to_string(page).unwrap();
        let (_, rest) = html.split_once("id=\"results\">").unwrap();
        let results: serde_json::Value =
            serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
        let case = &results["cases"][0];
        assert_eq!((&case["denied"], &case["requests"]), (&denied.into(), &5.into()));
        assert_eq!(
            (&case["limits"][0]["peak"], &case["limits"][0]["holds"]),
            (&peak.into(), &true.into())
        );
        assert_eq!(html.contains("count these units"), !more.is_empty());
    }
    // Each request is one of the limits that do not name the unit of the field.
    let limits = "3/10s via sliding_log, 10/10s of tokens via sliding_log";
    let args = ["replay", log, "-l", limits, "--report", page, "--json", "--cost", "units"];
    let replayed = &place.json(&args)["strategies"][0];
    assert_eq!((&replayed["denied"], &replayed["peak_in_window"]), (&1.into(), &3.into()));
    let html = std::fs::read_to_string(page).unwrap();
    let (_, rest) = html.split_once("id=\"results\">").unwrap();
    let results: serde_json::Value =
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    let peaks = [0, 1].map(|limit| results["cases"][0]["limits"][limit]["peak"].clone());
    assert_eq!(peaks, [3, 10]);
    let (code, _, error) =
        place.run(&["replay", log, "-l", "9/s of rows, 9/s of tokens", "--cost", "units"]);
    assert!(
        code == 2 && error.contains("rows and tokens") && error.contains("--policy"),
        "{error}"
    );
}

#[test]
fn a_log_without_an_event_is_an_error() {
    let (place, log) = with_log();
    let strange = place.path().join("strange.log");
    std::fs::write(&strange, "hello\nworld\n").unwrap();
    let empty = place.path().join("empty.log");
    std::fs::write(&empty, "").unwrap();
    let [strange, empty] = [&strange, &empty].map(|path| path.to_str().unwrap());
    for (log, by, says) in [
        (&*log, "nothing", "has no field \"nothing\"; it has ip, path"),
        (strange, "ip", "skipped 2 lines\n  line 1: no [time] behind the client"),
        (empty, "ip", "the log is empty"),
    ] {
        for form in [None, Some("--json")] {
            let args = ["replay", log, "-l", "3/10s", "--by", by].into_iter().chain(form);
            let (code, out, error) = place.run(&args.collect::<Vec<_>>());
            assert_eq!((code, &*out), (2, ""), "{log} by {by}: {error}");
            assert!(error.contains(says), "{log} by {by}: {error}");
        }
    }
}

#[test]
fn a_spread_is_the_same_for_the_same_seed() {
    let (place, log) = with_log();
    let spread = |seed: &str| {
        place.json(&["replay", &log, "--limit", "1/500ms", "--spread", seed, "--json"])
    };
    assert_eq!(spread("7"), spread("7"));
    let whole = place.json(&["replay", &log, "--limit", "1/500ms", "--json"]);
    assert_eq!(whole["strategies"][0]["denied"], 2);
}

#[test]
fn a_log_may_come_from_a_pipe_or_be_packed() {
    let (place, _) = with_log();
    let packed =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/semicomplete_access.log.gz");
    let json = place.json(&["replay", packed, "--limit", "5/10s", "--by", "ip", "--json"]);
    assert_eq!(json["events"], 10_000);
    assert_eq!(json["strategies"][0]["peak_in_window"], 5);
    // Several are one: a packed one and a plain one.
    let plain = place.path().join("access.log");
    let both = ["replay", packed, plain.to_str().unwrap(), "--limit", "5/10s", "--json"];
    assert_eq!(place.json(&both)["events"], 10_007);
    let output = place
        .tollgate(&["replay", "-", "--limit", "3/10s", "--json"])
        .write_stdin(LOG)
        .output()
        .unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["events"], 7);
}

#[test]
fn bad_input_says_what_would_be_right() {
    let (place, log) = with_log();
    let folder = place.path().to_str().unwrap();
    for (args, says) in [
        (&["replay", "no-such.log", "-l", "3/s"][..], "no-such.log: no such file"),
        (&["replay", folder, "-l", "3/s"], "is a directory"),
        (&["replay", &log], "no limit is given: add one, as in `--limit 5/10s`"),
        (&["replay", &log, "-l", "0/s"], "\n  0/s\n  ^ give at least 1"),
        (
            &["replay", &log, "-l", "3/s via gcra", "--strategy", "all"],
            "the strategy is given twice",
        ),
        (&["replay", &log, "-l", "3/s", "--strategy", "fixed"], "write `fixed_window`"),
        (&["replay", &log, "-l", "3/s", "--by", ""], "--by needs a field: ip, path, user"),
        (&["replay", &log, "-l", "3/s", "--spread", "often"], "'often'"),
        (&["replay", &log, "-l", "3/s", "--store", "redis://"], "the host is missing"),
        (&["replay", &log, "-l", "3/s", "--store", "sqlite://x"], "is not a store of a replay"),
        (&["replay"], "<LOG>"),
    ] {
        let (code, out, err) = place.run(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.starts_with("error: ") && err.contains(says), "{args:?} says\n{err}");
    }
}

pub(crate) const BUNDLED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/semicomplete_access.log.gz");

/// Copies of it: one file that is named twice is an error.
pub(crate) fn copies(place: &Place, number: usize) -> Vec<String> {
    let copy = |n| {
        let path = place.path().join(format!("copy-{n}.gz"));
        std::fs::copy(BUNDLED, &path).unwrap();
        path.to_str().unwrap().to_owned()
    };
    (0..number).map(copy).collect()
}

/// The number of a command's calls, by INFO.
fn calls(socket: &std::path::Path, command: &str) -> u64 {
    let stats = redis_cli(socket, &["INFO", "commandstats"]);
    let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
    let calls = line.and_then(|line| line.split_once("calls=")?.1.split_once(','));
    calls.map_or(0, |(calls, _)| calls.parse().unwrap())
}

#[test]
fn redis_decides_as_memory_does_with_many_events_in_a_call() {
    let place = Place::new();
    let Some((_server, url)) = redis::start(place.path(), &[]) else { return };
    let socket = place.path().join("redis.sock");
    for limits in [&["5/10s"][..], &["100/1h"], &["5/10s", "100/1h", "20/1m"]] {
        redis_cli(&socket, &["CONFIG", "RESETSTAT"]);
        let mut args = vec!["replay", BUNDLED, "--by", "ip", "--strategy", "all", "--json"];
        args.extend(limits.iter().flat_map(|limit| ["--limit", limit]));
        let (code, in_memory, _) = place.run(&args);
        assert_eq!(code, 0);
        args.extend(["--store", &url]);
        let (code, on_redis, err) = place.run(&args);
        assert_eq!((code, on_redis), (0, in_memory), "{limits:?}: {err}");
        let events = 10_000 * tollgate::Strategy::RATES.len() as u64;
        let used = calls(&socket, "evalsha");
        assert!((events / 16..events / 8).contains(&used), "{used} calls for {events} events");
        assert_eq!(calls(&socket, "eval"), 0);
        assert_eq!(redis_cli(&socket, &["DBSIZE"]), "0\n", "everything is removed");
    }
}

#[test]
fn a_replay_that_is_interrupted_or_fails_leaves_nothing() {
    let place = Place::new();
    let Some((_server, url)) = redis::start(place.path(), &[]) else { return };
    let socket = place.path().join("redis.sock");
    redis_cli(&socket, &["SET", "tg1:{mine}:gcra/1s", "stays"]);
    // Long enough that it is still at work when the first of its keys is seen.
    let logs = copies(&place, 30);
    let logs: Vec<&str> = logs.iter().map(String::as_str).collect();
    let args = [&["replay"], &logs[..], &["-l", "5/10s", "--strategy", "all", "--store", &url]];
    let start = || {
        let mut command = place.std(&args.concat());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        while redis_cli(&socket, &["DBSIZE"]) == "1\n" {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it wrote anything");
        }
        child
    };
    let end = |mut child: std::process::Child| {
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (child.wait().unwrap().code(), err)
    };
    let child = start();
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    let (code, err) = end(child);
    assert_eq!(code, Some(130), "{err}");
    assert!(err.contains("interrupted: the keys of this replay are removed"), "{err}");
    assert_eq!(redis_cli(&socket, &["KEYS", "*"]), "tg1:{mine}:gcra/1s\n");
    // The connection is cut, or the script forgotten: not a number is shown that may be wrong.
    let mut child = start();
    // Between two batches nothing is under way, and it goes on over another connection.
    while child.try_wait().unwrap().is_none() {
        let list = redis_cli(&socket, &["CLIENT", "LIST"]);
        let asking = list.lines().find(|line| line.contains(" cmd=evalsha "));
        if let Some(id) = asking.and_then(|line| line.strip_prefix("id=")?.split(' ').next()) {
            redis_cli(&socket, &["CLIENT", "KILL", "ID", id]);
        }
    }
    let (code, err) = end(child);
    assert!(code == Some(2) && err.contains("got no decision"), "{code:?}: {err}");
    assert_eq!(redis_cli(&socket, &["KEYS", "*"]), "tg1:{mine}:gcra/1s\n");
    let child = start();
    redis_cli(&socket, &["SCRIPT", "FLUSH"]);
    let (code, err) = end(child);
    assert!(code == Some(2) && err.contains("forgotten the script"), "{code:?}: {err}");
    assert_eq!(redis_cli(&socket, &["KEYS", "*"]), "tg1:{mine}:gcra/1s\n");
}

//! `advise`: a log in, a limit and a policy file out.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::Place;
use crate::replaying::{BUNDLED, copies};

/// People who ask at most twelve times in any minute, and two robots.
fn known(place: &Place) -> String {
    let mut log = String::new();
    let mut line = |at_ms: u64, client: &str| {
        let (seconds, ms) = (1_700_000_000 + at_ms / 1_000, at_ms % 1_000);
        writeln!(log, "{{\"ts\":{seconds}.{ms:03},\"ip\":\"{client}\",\"size\":{}}}", 1 + ms % 3)
            .unwrap();
    };
    for burst in 0..6 {
        for person in 0..100 {
            for n in 0..12 {
                line(burst * 150_000 + person * 40 + n * 4_000, &format!("10.0.0.{person}"));
            }
        }
        for n in 0..2_000 {
            line(burst * 150_000 + n * 31, "192.0.2.1");
            line(burst * 150_000 + n * 31 + 7, "192.0.2.2");
        }
    }
    let path = place.path().join("known.log");
    std::fs::write(&path, log).unwrap();
    path.to_str().unwrap().to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is a number"))
}

/// The policy file passes the check without a warning, and a replay of it and of the limit denies
/// what was promised.
fn keeps_its_promise(place: &Place, log: &str, options: &[&str]) -> Value {
    let file = place.path().join("advised.toml");
    let file = file.to_str().unwrap();
    let args = [&["advise", log, "--json", "--policy", file], options].concat();
    let advice = place.json(&args);
    let recommended = &advice["recommended"];
    assert_eq!(std::fs::read_to_string(file).unwrap(), recommended["policy"].as_str().unwrap());
    let (code, out, err) = place.run(&["config", "check", "--deny-warnings", file]);
    assert_eq!(code, 0, "{out}{err}");
    let denied = |clients: &str, outliers: &str| {
        number(&recommended[clients]) + number(&recommended[outliers])
    };
    let clients = denied("clients_denied", "outliers_denied");
    let requests = denied("requests_denied", "outliers_requests_denied");
    let by = ["--by", "--cost", "--spread"];
    let mut same: Vec<&str> = Vec::new();
    for pair in options.chunks(2).filter(|pair| by.contains(&pair[0])) {
        same.extend(pair);
    }
    let limit = recommended["limit"].as_str().unwrap();
    let replayed = place.json(&[&["replay", log, "--json", "--limit", limit], &same[..]].concat());
    let case = &replayed["strategies"][0];
    assert_eq!((number(&case["clients_denied"]), number(&case["denied"])), (clients, requests));
    // The policy file itself, with the fields of the log in place of its own.
    let subject = recommended["policy"].as_str().unwrap().contains("\"route\"");
    let field: &[&str] = if subject { &["--field", "route=path"] } else { &[] };
    let by_policy = [&["replay", log, "--json", "--policy", file], &same[..], field].concat();
    let report = place.json(&by_policy);
    assert_eq!((number(&report["clients_denied"]), number(&report["denied"])), (clients, requests));
    advice
}

#[test]
fn the_truth_of_a_known_log_is_recommended_and_robots_are_named() {
    let place = Place::new();
    let log = known(&place);
    let advice = keeps_its_promise(&place, &log, &["--per", "1s,1m,1h"]);
    assert_eq!(advice["recommended"]["limit"], "12/m via sliding_log");
    assert_eq!(advice["recommended"]["clients_denied"], 0);
    assert_eq!(advice["recommended"]["outliers_denied"], 2);
    let minute = &advice["windows"][1];
    assert_eq!((&minute["busiest"]["p50"], &minute["busiest"]["max"]), (&12.into(), &12.into()));
    let names = |of: &Value| -> Vec<String> {
        let each = of["outliers"].as_array().unwrap().iter();
        each.map(|it| it["client"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(minute), ["192.0.2.1", "192.0.2.2"]);
    // With a burst, too: ten at once and one each 10 s let the people in, and not the robots.
    let burst = keeps_its_promise(&place, &log, &[]);
    assert_eq!(burst["recommended"]["limit"], "6/m burst 10 refill greedy via token_bucket");
    assert_eq!(names(&burst["recommended"]), ["192.0.2.1", "192.0.2.2"]);
    let denied = ["clients_denied", "requests_denied", "outliers_denied"];
    assert_eq!(denied.map(|it| number(&burst["recommended"][it])), [0, 0, 2]);
    let wait = number(&burst["recommended"]["longest_wait_us"]);
    assert!((9_900_000..=10_000_000).contains(&wait), "{wait}");
    assert_eq!(advice["half_of_load"], 2);
    // Kept among the others, two of 102 robots are more than a thousandth: they decide.
    let kept = keeps_its_promise(&place, &log, &["--outliers", "keep", "--per", "1m"]);
    assert!(number(&kept["recommended"]["worst_window"]) > 1_000);
    assert_eq!(kept["recommended"]["clients_denied"], 0);
    let two = keeps_its_promise(
        &place,
        &log,
        &["--outliers", "keep", "--per", "1m", "--deny-clients", "2%"],
    );
    assert_eq!(two["recommended"]["limit"], "12/m via sliding_log");
    assert_eq!(two["recommended"]["clients_denied"], 2);
}

#[test]
fn every_kind_of_advice_keeps_its_promise_on_the_shipped_log() {
    let place = Place::new();
    for options in [
        &[][..],
        &["--max-wait", "200ms", "--strategy", "gcra"],
        &["--per", "1s,1m,1h"],
        &["--deny-requests", "1%"],
        &["--deny-requests", "0.5%", "--per", "10s", "--strategy", "gcra"],
        &["--deny-clients", "2%", "--per", "10s,1m", "--strategy", "sliding_window"],
        &["--by", "ip,path"],
        &["--by", "all"],
        &["--by", "path", "--deny-clients", "1%"],
        &["--by", "agent", "--strategy", "token_bucket"],
        &["--cost", "bytes", "--per", "1h"],
        &["--cost", "bytes", "--unit", "bytes", "--per", "1h"],
        &["--spread", "7", "--strategy", "uniform"],
    ] {
        let advice = keeps_its_promise(&place, BUNDLED, options);
        let recommended = &advice["recommended"];
        let ordinary = number(&advice["clients"]);
        if options.contains(&"--unit") {
            let limit = recommended["limit"].as_str().unwrap();
            let policy = recommended["policy"].as_str().unwrap();
            let cost = "cost = { bytes = { from = \"field.bytes\",";
            assert!(limit.contains("/h of bytes ") && policy.contains(cost), "{policy}");
        }
        if let ["--deny-requests", share, ..] = options {
            let most = if *share == "1%" { 100 } else { 50 };
            assert!(number(&recommended["requests_denied"]) <= most, "{options:?}");
            let row = advice["windows"].as_array().unwrap().iter();
            let row = row.flat_map(|it| it["limits"].as_array().unwrap());
            let tried = row.filter(|it| it["requests_denied"].is_u64()).count();
            assert!(tried >= 5, "{options:?}");
        } else {
            assert!(number(&recommended["clients_denied"]) * 50 <= ordinary, "{options:?}");
        }
    }
}

#[test]
fn people_get_tables_a_curve_and_what_is_not_known() {
    let place = Place::new();
    let page = place.path().join("page.html");
    let csv = place.path().join("clients.csv");
    let (page, csv) = (page.to_str().unwrap(), csv.to_str().unwrap());
    let (code, out, err) = place.run(&["advise", BUNDLED, "--report", page, "--csv", csv]);
    assert_eq!((code, err.as_str()), (0, ""));
    for says in [
        "10000 events of 1753 clients by ip, 2015-05-17T10:05:00Z to 2015-05-20T21:05:59Z\n",
        "half of the load is made by 124 clients (7.1 %)\n",
        "\n 1m      2     7    34      75    108 ",
        "The largest page view of a client (requests at most 2 s apart): p50 1, p90 3, p99 11,",
        "\n  66.249.73.135: 482 requests, a robot; status 200 (420)",
        "\n robots         240       1935      34        0 (0.0 %)         0 (0.0 %) \n",
        "Limits with a burst that deny at most 0.1 % of the clients (--per shows windows)\n",
        "\n 6/m burst 103           10 s                   463                0                 0 \n",
        "\n 2/s burst 12          500 ms                  7212                0                 0 \n\n",
        "burst  clients ever denied\n",
        " <- recommended\n",
        "\nRecommended: 6/m burst 103 refill greedy via token_bucket\n",
        "\n  A replay of it denies none of 10000 requests.\n",
        "Facts that are not in the log\n  - The demand under a limit",
        "denied clients retry",
        "  limits = [{ subject = \"ip\", limit = \"6/m burst 103 refill greedy via token_bucket\" }]\n",
        "note: all stamps are whole seconds",
    ] {
        assert!(out.contains(says), "{says} is not in\n{out}");
    }
    assert!(!out.contains('\x1b'), "no colours but on a terminal");
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("<svg") && html.contains("6/m burst 103 "));
    let (_, out, _) = place.run(&["advise", BUNDLED, "--per", "1s,1m,1h"]);
    for says in [
        "Limits that deny at most 0.1 % of the clients\n",
        "  uniform: some requests of a client are at one time",
        "units  clients ever denied\n",
        "\nRecommended: 75/h via sliding_log\n",
        "denies 42 requests of 10000 (0.4 %), of 1 client of 1753. The longest wait is 59\n  min 1 s.",
    ] {
        assert!(out.contains(says), "{says} is not in\n{out}");
    }
    let rows = std::fs::read_to_string(csv).unwrap();
    assert_eq!(rows.lines().count(), 1_754);
    let busiest = rows.lines().find(|row| row.starts_with("66.249.73.135,482,482,"));
    assert!(busiest.is_some(), "the client that was counted without this project");
}

#[test]
fn more_clients_than_the_bound_are_sampled_and_it_is_said_first() {
    let place = Place::new();
    let args = ["advise", BUNDLED, "--max-clients", "500"];
    let (code, out, _) = place.run(&args);
    assert_eq!(code, 0);
    assert!(out.contains("\nSAMPLED: ") && out.contains("one of 4 by a hash of the name"), "{out}");
    let json = place.json(&[&args[..], &["--json"]].concat());
    assert_eq!(json["sampled"]["one_in"], 4);
    assert!((350..=500).contains(&number(&json["clients"])));
    assert_eq!(
        number(&json["requests"]) + number(&json["sampled"]["events_left_out"]),
        number(&json["events"])
    );
    assert_eq!(place.run(&args).1.lines().nth(2), out.lines().nth(2), "the same each time");
}

#[test]
fn what_cannot_be_advised_on_is_an_error_with_the_remedy() {
    let place = Place::new();
    let write = |name: &str, text: &str| {
        let path = place.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let line = |second: u32, client: &str| format!("{{\"ts\":{second},\"ip\":\"{client}\"}}\n");
    let one: String = (0..60).map(|second| line(second, "::1")).collect();
    let one = write("one.log", &one);
    let second: String = (0..60).map(|n| line(5, &format!("10.0.0.{n}"))).collect();
    let second = write("second.log", &second);
    let two = write("two.log", &format!("{}{}", line(1, "::1"), line(90, "::2")));
    let strange = write("strange.log", "hello\nworld\n");
    let empty = write("empty.log", "");
    let folder = place.path().to_str().unwrap().to_owned();
    for (args, says) in [
        (&["advise", &one][..], "all events of the log are of one client by ip"),
        (&["advise", &second], "all events of the log are within one second"),
        (&["advise", &strange], "skipped 2 lines\n  line 1: no [time] behind the client"),
        (&["advise", &empty], "the log is empty"),
        (&["advise", &two, "--by", "user"], "no line of the log is an event with the field `user`"),
        (&["advise", BUNDLED, "--by", "colour"], "has no field \"colour\"; it has ip, path, user"),
        (&["advise", &two, "--by", "ip,ip"], "a field is named twice"),
        (&["advise", &two, "--by", "ip,all"], "`all` already counts everything"),
        (&["advise", &two, "--cost", "weight"], "whole number of at least 1 in the field `weight`"),
        (&["advise", &two, "--cost", "a,b"], "a cost is read from one field"),
        (&["advise", &two, "--cost", "a", "--unit", "slots"], "--unit"),
        (&["advise", &two, "--unit", "bytes"], "--cost"),
        (&["advise", &two, "--deny-clients", "1"], "less than 100 % with at most four decimal"),
        (&["advise", &two, "--deny-requests", "100%"], "as in `0.1%`"),
        (&["advise", &two, "--deny-clients", "1%", "--deny-requests", "1%"], "cannot be used with"),
        (&["advise", &two, "--per", "5"], "--per"),
        (&["advise", &two, "--max-wait", "5"], "--max-wait"),
        (&["advise", &two, "--max-wait", "5s", "--per", "1m"], "cannot be used with"),
        (&["advise", &two, "--max-wait", "5s", "--strategy", "uniform"], "a rate with a burst"),
        (&["advise", &two, "--max-wait", "1us"], "gives a unit back in 1000us"),
        (&["advise", &two, "--per", "1s,2s,3s,4s,5s,6s,7s,8s,9s"], "give 1 to 8 windows"),
        (&["advise", &two, "--strategy", "gcr"], "did you mean `gcra`"),
        (&["advise", &two, "--max-clients", "0"], "--max-clients"),
        (&["advise", &two, "--policy", &folder], "this is a folder"),
        (&["advise", &two, "--csv", "/nowhere/c.csv"], "/nowhere/c.csv: cannot be written"),
        (&["advise", "no-such.log"], "no-such.log: no such file"),
    ] {
        let (code, out, err) = place.run(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.starts_with("error: ") && err.contains(says), "{args:?} says\n{err}");
    }
}

/// An advice that is to write three files; the policy file exists already.
struct Interrupted {
    folder: std::path::PathBuf,
    child: Child,
}

/// Far more than the end of a process takes on a busy machine.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

const OLD_POLICY: &str = "# the one of yesterday\n";

impl Interrupted {
    fn start(place: &Place, logs: &[&str]) -> Self {
        let folder = place.path().join("out");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("policy.toml"), OLD_POLICY).unwrap();
        let mut args = vec!["advise", "--deny-requests", "1%"];
        args.extend(logs);
        let mut command = place.std(&args);
        for (option, name) in
            [("--policy", "policy.toml"), ("--csv", "clients.csv"), ("--report", "page.html")]
        {
            command.arg(option).arg(folder.join(name));
        }
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self { folder, child }
    }

    /// Sends the signal of Ctrl-C. Returns the exit code as a shell gives it, and the output, and
    /// checks that no file was touched.
    fn end(mut self) -> (i32, String) {
        assert!(self.child.try_wait().unwrap().is_none(), "it ended before the signal");
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let sent = Instant::now();
        // The output fits into a pipe, so it ends without a reader.
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if sent.elapsed() > ENDS_WITHIN {
                self.child.kill().unwrap();
                panic!("it goes on after the signal");
            }
            std::thread::yield_now();
        };
        let (mut out, mut err) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!(out, "", "no part of an advice");
        let files: Vec<_> = fs::read_dir(&self.folder).unwrap().map(Result::unwrap).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        assert_eq!(fs::read_to_string(self.folder.join("policy.toml")).unwrap(), OLD_POLICY);
        (status.code().or(status.signal().map(|signal| 128 + signal)).unwrap(), err)
    }

    /// Whether it handles the signal itself: from the end of the log on.
    fn handles_signals(&self) -> bool {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(path).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
        caught >> (Signal::INT.as_raw() - 1) & 1 == 1
    }
}

#[test]
fn an_advice_that_is_interrupted_while_it_reads_ends_at_once_and_writes_nothing() {
    let place = Place::new();
    let fifo = place.path().join("log");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let advice = Interrupted::start(&place, &[fifo.to_str().unwrap()]);
    let mut log = File::options().write(true).open(&fifo).unwrap();
    // More than a pipe holds, so it has read some. Then it waits for more, which never comes.
    let lines: String =
        (0..20_000).map(|n| format!("{{\"ts\":{n},\"ip\":\"10.0.0.{}\"}}\n", n % 9)).collect();
    log.write_all(lines.as_bytes()).unwrap();
    let (code, err) = advice.end();
    assert_eq!((code, err.as_str()), (130, ""));
    drop(log);
}

#[test]
fn an_advice_that_is_interrupted_while_it_replays_says_so_and_writes_nothing() {
    let place = Place::new();
    let copies = copies(&place, 20);
    let copies: Vec<&str> = copies.iter().map(String::as_str).collect();
    let advice = Interrupted::start(&place, &copies);
    while !advice.handles_signals() {
        std::thread::yield_now();
    }
    let (code, err) = advice.end();
    assert_eq!(code, 130, "{err}");
    assert!(err.contains("interrupted: no advice is written"), "{err}");
}

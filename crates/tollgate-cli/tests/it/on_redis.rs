//! The one-shot commands on Redis: the same answers and exit codes as on a file.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use tollgate_testbed::{Proxy, RedisServer, Trick};

use crate::Place;
use crate::redis::{self, redis_cli};

fn started(place: &Place, arguments: &[&str]) -> Option<(RedisServer, String)> {
    redis::start(place.path(), arguments)
}

#[test]
fn counts_last_from_one_command_to_the_next() {
    let place = Place::new();
    let Some((_server, url)) = started(&place, &[]) else { return };
    let zoo = ["zoo", "--limit", "3/60s via sliding_log, 10/h via gcra", "--store", &url];
    let of = |command: &str, more: &[&str]| place.run(&[&[command], &zoo[..], more].concat());
    let begin = Instant::now();
    for left in ["2", "1", "0"] {
        let (code, out, err) = of("check", &[]);
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(out.starts_with(&format!("allow zoo: {left} of 3 left")), "{out}");
    }
    let (code, out, _) = of("check", &[]);
    // As long as the programs since took to start, and no longer.
    let is_due = |passed| {
        out.starts_with(&format!(
            "deny zoo: 0 of 3 left, retry in {}",
            59_u64.saturating_sub(passed)
        ))
    };
    assert!(code == 1 && (0..=begin.elapsed().as_secs()).any(is_due), "{out}");
    assert_eq!(of("check", &["--cost", "4"]).0, 3);
    let (code, out, _) = of("peek", &["--json"]);
    let peeked: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &peeked["remaining"]), (1, &serde_json::json!(0)));
    let (code, out, _) = of("inspect", &[]);
    assert_eq!(code, 0);
    assert!(out.contains("\n    3 events held\n"), "{out}");
    let (code, out, _) = of("adjust", &["--by", "+2"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("gave back 2 units to zoo: 2 of 3 left"), "{out}");
    let limits = "9/h via gcra, 900/h of tokens via gcra";
    let adjust = |by| place.run(&["adjust", "zoo", "-l", limits, "--store", &url, "--by", by]);
    let (code, out, _) = adjust("requests=-1,tokens=-300");
    assert_eq!(code, 0);
    assert!(out.contains("took 300 units from zoo: 600 of 900 left"), "{out}");
    let (_, out, _) = adjust("tokens=200");
    assert!(out.contains("changed nothing for zoo: 8 of 9 left"), "{out}");
    assert!(out.contains("admits at most 200 tokens more"), "{out}");
    assert_eq!(of("reset", &[]).1, "reset zoo (3/m via sliding_log, 10/h burst 10 via gcra)\n");
    assert!(of("reset", &[]).1.starts_with("nothing was held for zoo"));
    assert_eq!(of("check", &[]).0, 0);
}

#[test]
fn the_environment_names_the_store_and_a_shard_is_part_of_the_keys() {
    let place = Place::new();
    let Some((_server, url)) = started(&place, &[]) else { return };
    let check = |more: &[&str]| {
        let pair = [
            "check",
            "--on",
            "resource:12=5/10s via sliding_log",
            "--on",
            "consumer:1=3/10s via sliding_log",
        ];
        place.tollgate(&[&pair, more].concat()).env("TOLLGATE_STORE", &url).unwrap();
    };
    check(&[]);
    check(&["--shard", "12"]);
    let keys = redis_cli(&place.path().join("redis.sock"), &["KEYS", "*"]);
    let mut keys: Vec<&str> = keys.lines().collect();
    keys.sort_unstable();
    let expected = [
        "tg1:{12}{consumer:1}:sliding_log/10s",
        "tg1:{12}{resource:12}:sliding_log/10s",
        "tg1:{consumer:1}:sliding_log/10s",
        "tg1:{resource:12}:sliding_log/10s",
    ];
    assert_eq!(keys, expected);
}

#[test]
fn errors_say_what_to_do_and_show_no_password() {
    let place = Place::new();
    let Some((_server, url)) = started(&place, &["--requirepass", "right"]) else { return };
    // A port on which nobody listens: one that was just given back.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nobody = format!("redis://:secret@127.0.0.1:{port}");
    let wrong = url.replace("://", "://:secret@");
    for (url, says) in [
        (url.as_str(), "password"),
        (&wrong, "password"),
        (&nobody, "nothing listens there"),
        ("redis://:secret@127.0.0.1:0", "the port is a number from 1 to 65535"),
    ] {
        let (code, out, err) = place.run(&["check", "zoo", "-l", "3/s", "--store", url]);
        assert_eq!((code, out.as_str()), (2, ""), "{url}");
        assert!(err.contains(says) && !err.contains("secret"), "{url}: {err}");
        let run = ["run", "zoo", "-l", "3/s", "--store", url, "--", "true"];
        let (code, _, err) = place.run(&run);
        assert!(code == 125 && err.contains(says), "{url}: {code} {err}");
    }
    let right = url.replace("://", "://:right@");
    assert_eq!(place.code(&["check", "zoo", "-l", "3/s", "--store", &right]), 0);
}

/// A run with these arguments before its command, once it says that it waits.
fn waiting(place: &Place, url: &str, limit: &str) -> Child {
    let run = ["run", "gate", "--limit", limit, "--store", url, "-v", "--", "echo", "ran"];
    assert_eq!(place.code(&["check", "gate", "--limit", limit, "--store", url]), 0);
    let mut child = place.std(&run).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("waiting for gate: retry in "), "{line}");
    child
}

fn ended(mut child: Child) -> (Option<i32>, String) {
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    (child.wait().unwrap().code(), out)
}

#[test]
fn run_waits_for_its_turn_and_an_interrupted_wait_charges_nothing() {
    let place = Place::new();
    let Some((_server, url)) = started(&place, &[]) else { return };
    assert_eq!(ended(waiting(&place, &url, "1/500ms via uniform")), (Some(0), "ran\n".to_owned()));
    let late = ["run", "late", "-l", "1/h", "-w", "1s", "--store", &url, "--", "true"];
    assert_eq!((place.code(&late), place.code(&late)), (0, 124));
    let child = waiting(&place, &url, "1/h via gcra");
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    assert_eq!(ended(child), (Some(130), String::new()));
    // A command that cannot be started gives its charge back.
    let none = ["run", "none", "-l", "1/h", "--store", &url, "--", "no-such-command-anywhere"];
    assert_eq!((place.code(&none), place.code(&none)), (127, 127));
}

#[test]
fn a_connection_that_is_closed_during_the_wait_is_made_anew() {
    let place = Place::new();
    let Some((_server, url)) = started(&place, &[]) else { return };
    let child = waiting(&place, &url, "1/2s via uniform");
    let killed = redis_cli(&place.path().join("redis.sock"), &["CLIENT", "KILL", "TYPE", "normal"]);
    assert_eq!(killed, "1\n");
    assert_eq!(ended(child), (Some(0), "ran\n".to_owned()));
}

#[test]
fn the_user_that_the_doctor_makes_can_do_all_of_it() {
    let place = Place::new();
    let Some((_server, url)) = started(&place, &[]) else { return };
    let json = place.json(&["doctor", "--store", &url, "--json"]);
    let findings = json["findings"].as_array().unwrap();
    let rights = findings.iter().find(|finding| finding["id"] == "rights").unwrap();
    let (_, line) = rights["remedy"].as_str().unwrap().split_once(": ").unwrap();
    let line: Vec<&str> = line.split(' ').collect();
    assert_eq!(redis_cli(&place.path().join("redis.sock"), &line), "OK\n", "{line:?}");
    let url = url.replace("://", "://tollgate:PASSWORD@");
    for limit in ["3/60s via sliding_log", "3/60s via gcra, 9/h via sliding_window, 5/m"] {
        let zoo = ["zoo", "--limit", limit, "--store", &url];
        for (command, more) in [
            ("check", &[][..]),
            ("peek", &[]),
            ("inspect", &[]),
            ("adjust", &["--by", "-1"]),
            ("adjust", &["--by", "1"]),
            ("reset", &[]),
        ] {
            let (code, _, err) = place.run(&[&[command], &zoo[..], more].concat());
            assert_eq!((code, err.as_str()), (0, ""), "{command}");
        }
        // A refund: the command cannot be started.
        let run = [&["run"], &zoo[..], &["--", "no-such-command-anywhere"]].concat();
        assert_eq!(place.code(&run), 127);
    }
}

/// A lost answer costs no slot: `run` asks again under the name that it gave its hold.
#[test]
fn a_slot_is_one_where_the_answer_was_lost() {
    let server = tollgate_testbed::start_or_skip!(RedisServer::start());
    let proxy = Proxy::start(server.address());
    let place = Place::new();
    let (direct, url) = (server.url(), format!("{}?deadline=2s", proxy.url()));
    let run = |url: &str, command: &str| {
        let args = ["run", "x", "--at-once", "1", "--hold", "1h", "--wait", "0", "--store", url];
        place.run(&[&args[..], &["--", "sh", "-c", command]].concat())
    };
    // After this the scripts are known.
    assert_eq!(run(&url, "exit 7").0, 7);
    proxy.only(&["EVALSHA"]);
    proxy.next(1, Trick::LoseReply);
    let (code, out, err) = run(&url, "echo ran");
    assert_eq!((code, out.as_str(), err.as_str()), (0, "ran\n", ""));
    assert_eq!(proxy.seen().tricks, 1);
    assert_eq!(run(&direct, "exit 7").0, 7, "the slot was given back");
    // Where the second answer is lost, too, the slot is given back.
    proxy.next(2, Trick::LoseReply);
    let (code, out, err) = run(&url, "echo ran");
    assert_eq!((code, out.as_str(), proxy.seen().tricks), (125, "", 3), "{err}");
    assert!(err.contains("closed the connection before it answered"), "{err}");
    assert_eq!(run(&direct, "exit 7").0, 7, "the slot was given back");
}

/// The estimate of `explain` is near the server's own figure, and the key has as many bytes as it
/// assumes.
#[test]
fn the_explained_bytes_are_those_of_the_server() {
    let place = Place::new();
    let Some((_server, url)) = started(&place, &[]) else { return };
    let subject = "user:01234567890";
    for (limit, events) in [
        ("60/m via gcra", 1),
        ("60/m via fixed_window", 1),
        ("60/m via sliding_window", 1),
        ("3600/h precision 60s via sliding_window", 1),
        ("60/m via sliding_log", 1),
        ("60/m via sliding_log", 40),
    ] {
        for _ in 0..events {
            place.run(&["check", subject, "--limit", limit, "--store", &url]);
        }
        let socket = place.path().join("redis.sock");
        let keys = redis_cli(&socket, &["KEYS", "*"]);
        let key = keys.trim();
        let held: u64 =
            redis_cli(&socket, &["MEMORY", "USAGE", key, "SAMPLES", "0"]).trim().parse().unwrap();
        let explained = place.json(&["explain", limit, "--json"]);
        let text = explained["limits"][0]["bytes_redis"].as_str().unwrap();
        let number = |word: &str| -> u64 {
            let (_, rest) = text.split_once(word).unwrap();
            rest.split(' ').next().unwrap().parse().unwrap()
        };
        let log = text.contains("per remembered event");
        let estimate = number("about ") + if log { events * number("key and ") } else { 0 };
        let ratio =
            f64::from(u32::try_from(estimate).unwrap()) / f64::from(u32::try_from(held).unwrap());
        assert!((0.8..1.25).contains(&ratio), "{limit}: {text}, and {held} by the server");
        redis_cli(&socket, &["FLUSHALL"]);
    }
    let (code, out, _) = place.run(&["explain", "10/s via gcra"]);
    assert_eq!(code, 0);
    for row in ["\n  bytes, redis   about ", "\n  fault, redis   a restart keeps"] {
        assert!(out.contains(row), "{out}");
    }
}

//! `reserve` and `commit`; `run --at-once`, a semaphore for scripts.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::json;

use crate::Place;

const BOB: [&str; 3] = ["bob", "--limit", "1000/h via fixed_window"];

fn reserved(place: &Place, more: &[&str]) -> String {
    let (code, out, err) = place.run(&[&["reserve"], &BOB[..], more].concat());
    assert_eq!((code, err.as_str()), (0, ""));
    out.trim_end().to_owned()
}

fn left(place: &Place, which: &[&str]) -> u64 {
    place.json(&[&["peek"], which, &["--json"]].concat())["remaining"].as_u64().unwrap()
}

#[test]
fn an_estimate_is_reserved_and_committed_once() {
    let place = Place::new();
    let hold = reserved(&place, &["--cost", "800", "--ttl", "60s"]);
    assert!(hold.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)), "{hold}");
    assert_eq!(left(&place, &BOB), 200);
    let (code, out, err) =
        place.run(&[&["reserve"], &BOB[..], &["--cost", "300", "--ttl", "60s"]].concat());
    assert_eq!((code, out.as_str()), (1, ""), "standard output is for the hold");
    assert!(err.starts_with("deny bob: 200 of 1000 left, retry in "), "{err}");
    let (code, out, _) = place.run(&["commit", &hold, "300"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("charged 300 units to bob: 700 left (1000/h "), "{out}");
    let (code, out, _) = place.run(&["commit", &hold, "999"]);
    assert_eq!(code, 0);
    assert_eq!(out, "it was committed before, with 300 units: nothing was charged now\n");
    let json = place.json(&["commit", &hold, "300", "--json"]);
    assert_eq!(json, json!({ "already": true, "actual": 300, "limits": [] }));
    assert_eq!(left(&place, &BOB), 700);
    // Unused units come back, and a reset ends a hold.
    let hold = reserved(&place, &["--cost", "700", "--ttl", "60s"]);
    assert_eq!(place.code(&["commit", &hold, "0"]), 0);
    assert_eq!(left(&place, &BOB), 700);
    let hold = reserved(&place, &["--cost", "1", "--ttl", "60s"]);
    assert_eq!(place.code(&[&["reset"], &BOB[..]].concat()), 0);
    let (code, _, err) = place.run(&["commit", &hold, "1"]);
    assert_eq!(code, 1);
    assert!(err.contains("is not open") && err.contains("nothing was charged"), "{err}");
    assert_eq!(left(&place, &BOB), 1000);
}

#[test]
fn estimates_of_several_units_are_committed_by_unit() {
    let place = Place::new();
    // Slow enough that no unit flows back between two commands.
    let bob = ["bob", "--limit", "60/365d via gcra, 100000/365d of tokens via gcra"];
    let ask = |first: &[&str], more: &[&str]| place.run(&[first, &bob, more].concat());
    let estimate = ["--cost", "requests=1,tokens=4000", "--ttl", "60s", "--charge-at-end"];
    let (code, hold, err) = ask(&["reserve"], &estimate);
    assert_eq!(code, 0, "{err}");
    let hold = hold.trim();
    let (code, _, err) = place.run(&["commit", hold, "token=5"]);
    assert_eq!(code, 2);
    assert!(err.contains("no limit counts `token`") && err.contains("tokens"), "{err}");
    let (code, out, _) = place.run(&["commit", hold, "tokens=1312"]);
    assert_eq!(code, 0);
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("charged 1 requests to bob: 59 left (60/365d "), "{out}");
    assert!(
        lines[1].starts_with("charged 1312 tokens to bob: 98688 left (100000/365d of "),
        "{out}"
    );
    let json = place.json(&["commit", hold, "tokens=7", "--json"]);
    let charged = json!({ "requests": 1, "tokens": 1312 });
    assert_eq!(json, json!({ "already": true, "actual": charged, "limits": [] }));
    let (code, out, _) = ask(&["charge"], &["--cost", "tokens=688"]);
    assert_eq!((code, out.lines().count()), (0, 1));
    assert!(out.starts_with("charged 688 tokens to bob: 98000 left "), "{out}");
    let (code, out, _) = ask(&["check"], &["--cost", "requests=1,tokens=98001"]);
    assert_eq!(code, 1);
    assert!(out.contains("of tokens"), "{out}");
}

#[test]
fn what_nobody_reserved_is_charged_without_a_check() {
    let place = Place::new();
    let bob = ["bob", "--limit", "1000/h debt 200 via gcra", "--cost"];
    let charge = |cost: &str| place.run(&[&["charge"], &bob[..], &[cost]].concat());
    let (code, out, _) = charge("1100");
    assert_eq!(code, 0);
    assert!(out.starts_with("charged 1100 units to bob: 0 left (1000/h "), "{out}");
    let (code, out, _) = charge("300");
    assert_eq!(code, 0);
    let says = " of them cut, more than can be owed to bob: 0 left (1000/h ";
    assert!(out.starts_with("charged 300 units, ") && out.contains(says), "{out}");
    assert_eq!(place.code(&[&["check"], &bob[..], &["1"]].concat()), 1);
    let said = place.json(&["charge", "ann", "-l", "9/h, 2 at once", "--cost", "10", "--json"]);
    let entry = &said["limits"][0];
    assert_eq!((&said["cost"], &entry["subject"]), (&json!(10), &json!("ann")));
    assert_eq!((&entry["fits"], &entry["cut"]), (&json!(false), &json!(0)));
    assert_eq!(
        (&entry["retry_after"], &entry["identity"]),
        (&json!(null), &json!("sliding_log/1h"))
    );
    assert_eq!(said["limits"][1]["remaining"], 2, "a charge takes no slot");
    let peeked = place.json(&["peek", "ann", "-l", "9/h, 2 at once", "--json"]);
    assert_eq!((&peeked["unit"], &peeked["until_hold"]), (&json!("requests"), &json!(false)));
    let (code, _, err) = charge("0");
    assert!(code == 2 && err.contains("a cost of 0"), "{err}");
}

#[test]
fn a_peek_looks_ahead_to_a_check_a_reserve_or_an_acquire() {
    let place = Place::new();
    let peek = |cost: &str, kind: &str| {
        let which = ["bob", "-l", "20 at once, 100000/m via gcra", "--cost", cost];
        place.run(&[&["peek"], &which[..], &["--kind", kind]].concat())
    };
    assert_eq!(peek("800", "reserve").0, 0);
    assert_eq!(peek("20", "acquire").0, 0);
    let (code, out, _) = peek("21", "acquire");
    assert_eq!(code, 3);
    let says = "never, more slots are asked for than there are, 20";
    assert!(out.starts_with("would deny bob: ") && out.contains(says), "{out}");
    assert_eq!(peek("800", "check").0, 3);
    let (code, _, err) = peek("1", "hold");
    assert!(code == 2 && err.contains("`--kind`") && err.contains("`acquire`"), "{err}");
}

#[test]
fn a_hold_that_nobody_knows_is_shown_and_given_back() {
    let place = Place::new();
    reserved(&place, &["--cost", "300", "--ttl", "1h"]);
    let shown = place.json(&[&["inspect"], &BOB[..], &["--json"]].concat());
    let held = &shown["subjects"][0]["held"];
    let hold = &held["holds"][0];
    assert_eq!(
        (&held["open"], &hold["kind"], &hold["cost"]),
        (&json!(1), &json!("reserve"), &json!(300))
    );
    let (_, out, _) = place.run(&[&["inspect"], &BOB[..]].concat());
    assert!(out.contains("  1 hold open\n    reserve 300 until "), "{out}");
    assert!(out.contains("), age "), "{out}");
    let age = hold["age"]["seconds"].as_f64().unwrap();
    assert!(age > 0.0 && age < 3_600.0, "{hold}");
    let word = hold["hold"].as_str().unwrap();
    assert!(out.contains(&format!("tollgate commit {word} 0\n")), "{out}");
    assert_eq!(place.code(&["commit", word, "0"]), 0);
    assert_eq!(left(&place, &BOB), 1000);
}

const ID: [&str; 2] = ["--id", "b1946ac92492d2347c6235b4d2611184"];

#[test]
fn a_hold_with_an_id_is_one_and_is_committed_by_it() {
    let place = Place::new();
    let asked = [&["--cost", "800", "--ttl", "60s"][..], &ID].concat();
    let hold = reserved(&place, &asked);
    assert_eq!(reserved(&place, &asked), hold, "the answer was lost: it is the same hold");
    assert_eq!(left(&place, &BOB), 200);
    let other = [&["reserve"], &BOB[..], &["--cost", "9", "--ttl", "60s"], &ID].concat();
    let (code, out, err) = place.run(&other);
    assert!(
        code == 2 && out.is_empty() && err.contains("asked for otherwise"),
        "{code} {out}{err}"
    );
    let (code, out, err) = place.run(&[&["commit"], &BOB[..], &["300"], &ID].concat());
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with("charged 300 units to bob: 700 left (1000/h "), "{out}");
    // By the id or by the hold, it is one. Two subjects have one id, too.
    assert!(place.run(&["commit", &hold, "999"]).1.starts_with("it was committed before"));
    let pair = ["--on", "ann=9/h", "--on", "carl=9/h", "--id", "0123456789abcdef"];
    assert_eq!(place.code(&[&["reserve"], &pair[..], &["--ttl", "60s"]].concat()), 0);
    let committed = place.json(&[&["commit", "4"], &pair[..], &["--json"]].concat());
    assert_eq!([&committed["already"], &committed["actual"]], [&json!(false), &json!(4)]);
    assert_eq!(left(&place, &["carl", "-l", "9/h"]), 5);
    // A commit of 0 for a hold that never came refuses a later one.
    let late = ["--id", "fedcba9876543210"];
    let (code, out, _) = place.run(&[&["commit"], &BOB[..], &["0"], &late].concat());
    assert_eq!(code, 0);
    assert_eq!(
        out,
        "no hold has this id, so nothing was charged: one that comes later is refused\n"
    );
    let (code, _, err) = place.run(&[&["reserve"], &BOB[..], &["--ttl", "60s"], &late].concat());
    assert!(code == 2 && err.contains("was released or committed before"), "{code} {err}");
    assert_eq!(
        place.code(&[&["commit"], &BOB[..], &["1", "--id", "0000000000000000"]].concat()),
        1
    );
    assert_eq!(left(&place, &BOB), 700);
}

#[test]
fn bad_holds_are_refused_with_a_reason() {
    let place = Place::new();
    let hold = reserved(&place, &["--cost", "8", "--ttl", "60s"]);
    let damaged = format!("{}A{}", &hold[..20], &hold[21..]);
    for (args, says) in [
        (&["commit", "", "1"][..], "was the reservation denied"),
        (&["commit", "no-hold", "1"], "is not a hold"),
        (&["commit", &hold[1..], "1"], "is not a hold"),
        (&["commit"], "give the hold and the used units, as in"),
        (&["commit", &hold], "give the hold and the used units, as in"),
        (&["commit", &hold, "1", "-l", "9/h"], "a hold names its subject"),
        (&["commit", &hold, "1", "--shard", "x"], "a hold names its subject"),
        (&["commit", "bob", "1", ID[0], ID[1]], "no limit is given for `bob`"),
        (&["commit", "1", ID[0], ID[1]], "no subject is given"),
        (&["commit", "bob", "1", "-l", "9/h", "--id", "short"], "`--id`: the id of a hold has 5"),
        (&["reserve", "bob", "-l", "9/h", "--ttl", "1m", "--id", ""], "give 16 to 256 printable"),
        (&["commit", &hold, "-1"], "cannot be negative"),
        (&["commit", &hold, "1.5"], "a whole number"),
        (&["commit", &hold, "9007199254740992"], "too large"),
        (&["reserve", "bob", "-l", "9/h", "--ttl", "soon"], "unknown unit of time"),
        (&["reserve", "bob", "-l", "9/h", "--ttl", "0s"], "a hold lasts 1ms to 366d"),
        (&["reserve", "bob", "-l", "9/h", "--ttl", "1m", "--cost", "0"], "a cost of 0"),
        (&["reserve", "bob", "-l", "9/h", "--ttl", "400d"], "a hold lasts 1ms to 366d"),
        (
            &["reserve", "bob", "-l", "9/h, 2 at once hold 30s", "--ttl", "1m"],
            "a hold of 1m is longer than a slot of `2 at once hold 30s` lasts: give 1ms to 30s",
        ),
        (&["check", "bob", "-l", "2 at once"], "use `tollgate run SUBJECT --at-once 2"),
        (&["scripts", "2 at once"], "would never give a slot back"),
        (&["run", "bob", "--at-once", "0", "--", "true"], "a cost of 0"),
        (&["run", "bob", "--at-once", "2", "--hold", "0", "--", "true"], "over immediately"),
        (&["run", "--on", "a=9/h", "--at-once", "2", "--", "true"], "no subject"),
    ] {
        let (code, out, err) = place.run(args);
        assert!(code == 2 || args[0] == "run" && code == 125, "{args:?}: {code} {err}");
        assert!(out.is_empty() && err.contains(says), "{args:?}: {out}{err}");
    }
    // Another letter makes an invalid hold, or one that is not open.
    assert_ne!(place.code(&["commit", &damaged, "1"]), 0);
    assert_eq!(left(&place, &BOB), 992, "the hold is open as before");
    assert_eq!(place.code(&["reserve", "bob", "-l", "9/h", "--ttl", "1m", "--cost", "10"]), 3);
}

#[test]
fn slots_are_explained_and_looked_at() {
    let place = Place::new();
    let (_, out, _) = place.run(&["explain", "20 at once hold 30s"]);
    for says in ["at most 20 open at a time", "free again after 30s", "up to 20 more slots"] {
        assert!(out.split_whitespace().collect::<Vec<_>>().join(" ").contains(says), "{out}");
    }
    assert!(!out.contains("18446744073709551615") && !out.contains("worst window"), "{out}");
    let json = place.json(&["explain", "20 at once hold 30s", "--json"]);
    assert_eq!(json["limits"][0]["worst_window"], serde_json::Value::Null);
    let slots = ["x", "--limit", "1 at once hold 30s"];
    let program = assert_cmd::cargo::cargo_bin!("tollgate").display().to_string();
    let look =
        format!("{program} peek x -l '1 at once hold 30s'; {program} inspect x -l '1 at once'");
    let (code, out, err) = place.run(&["run", "x", "--at-once", "1", "--", "sh", "-c", &look]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with("would deny x: 0 of 1 left, retry in 29."), "{out}");
    assert!(out.contains("0 of 1 left, 1 used"), "{out}");
    assert_eq!(left(&place, &slots), 1);
}

#[test]
fn a_slot_and_its_charges_come_back_when_the_command_cannot_run() {
    let place = Place::new();
    let args = ["run", "x", "--at-once", "1", "--limit", "5/h", "--", "no-such-command"];
    assert_eq!(place.code(&args), 127);
    assert_eq!(left(&place, &["x", "-l", "5/h, 1 at once"]), 1);
    assert_eq!(left(&place, &["x", "-l", "5/h, 9 at once"]), 5, "nothing is charged");
    let args = ["run", "x", "--at-once", "1", "--limit", "5/h", "--", "sh", "-c"];
    let (code, out, _) = place.run(&[&args[..], &["echo $TOLLGATE_FENCE; exit 7"]].concat());
    let first: u64 = out.trim_end().parse().unwrap();
    assert_eq!(code, 7);
    let (_, out, _) = place.run(&[&args[..], &["echo $TOLLGATE_FENCE"]].concat());
    assert!(out.trim_end().parse::<u64>().unwrap() > first, "{out} is not above {first}");
}

/// A run whose command says a line, once it has.
fn running(place: &Place, args: &[&str]) -> Child {
    let mut child = place
        .std(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

const CAT: [&str; 4] = ["--", "sh", "-c", "echo ready; exec cat"];

#[test]
fn a_slot_is_renewed_while_the_command_runs_and_given_back_on_sigterm() {
    let place = Place::new();
    let slots = ["run", "x", "--at-once", "1", "--hold", "900ms"];
    let mut holder = running(&place, &[&slots[..], &CAT].concat());
    let stdin = holder.stdin.take();
    // Longer than two holds: it was renewed.
    let began = Instant::now();
    let (code, _, err) = place.run(&[&slots[..], &["--wait", "2s", "--", "true"]].concat());
    assert_eq!(code, 124, "{err}");
    assert_eq!(err, "error: no slot of x came free within --wait 2s\n");
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    signal(&holder, Signal::TERM);
    assert_eq!(holder.wait().unwrap().code(), Some(128 + 15));
    drop(stdin);
    let mut said = String::new();
    holder.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
    assert_eq!(place.code(&[&slots[..], &["--wait", "0", "--", "true"]].concat()), 0);
}

/// A terminal sends Ctrl-C to both. The exit code is that of the command.
#[test]
fn ctrl_c_ends_the_command_and_gives_the_slot_back() {
    let place = Place::new();
    let slots = ["run", "x", "--at-once", "1", "--hold", "60s"];
    for (command, code) in
        [("echo ready; exec cat", 128 + 2), ("trap 'exit 7' INT; echo ready; read line", 7)]
    {
        let mut started = place.std(&[&slots[..], &["--", "sh", "-c", command]].concat());
        started.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = started.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let none = [&slots[..], &["--wait", "0", "--", "true"]].concat();
        assert_eq!(place.code(&none), 124, "the slot is taken");
        let stdin = holder.stdin.take();
        kill_process_group(Pid::from_child(&holder), Signal::INT).unwrap();
        assert_eq!(holder.wait().unwrap().code(), Some(code), "{command}");
        drop(stdin);
        let mut said = String::new();
        holder.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "");
        assert_eq!(place.code(&none), 0, "it came back long before its hold ended");
    }
}

#[test]
fn a_holder_whose_slot_is_gone_says_so() {
    let place = Place::new();
    let slots = ["run", "x", "--at-once", "1", "--hold", "600ms"];
    let mut holder = running(&place, &[&slots[..], &CAT].concat());
    assert_eq!(place.code(&["reset", "x", "--limit", "1 at once hold 600ms"]), 0);
    let mut line = String::new();
    BufReader::new(holder.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("error: THE SLOT OF x IS GONE: "), "{line}");
    // The command goes on, and its code counts.
    drop(holder.stdin.take());
    assert_eq!(holder.wait().unwrap().code(), Some(0));
}

/// A run that waits in line, once it says that it does.
fn waiter(place: &Place, slot: &[&str], work: &str) -> Child {
    let args = [slot, &["--verbose", "--", "sh", "-c", work]].concat();
    let mut child = place.std(&args).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("waiting for job: every slot is taken"), "{line}");
    child
}

#[test]
fn slots_go_to_waiters_in_the_order_of_their_arrival() {
    let place = Place::new();
    let log = place.path().join("log").display().to_string();
    let slot = ["run", "job", "--at-once", "1", "--wait", "60s"];
    let mut holder = running(&place, &[&slot[..], &CAT].concat());
    let mut waiters: Vec<Child> =
        (1..=12).map(|n| waiter(&place, &slot, &format!("echo {n} >> {log}"))).collect();
    // A caller that gives up blocks nobody.
    signal(&waiters[3], Signal::TERM);
    assert_eq!(waiters[3].wait().unwrap().code(), Some(128 + 15));
    drop(holder.stdin.take());
    for (at, waiter) in waiters.iter_mut().enumerate() {
        let code = waiter.wait().unwrap().code();
        assert!(code == Some(0) || at == 3, "{at}: {code:?}");
    }
    let order = std::fs::read_to_string(&log).unwrap();
    assert_eq!(order.split_whitespace().collect::<Vec<_>>().join(" "), "1 2 3 5 6 7 8 9 10 11 12");
    assert_eq!(holder.wait().unwrap().code(), Some(0));
}

/// The slot is free, and kept for the one who was first, until its place ends.
#[test]
fn a_killed_waiter_delays_the_next_until_its_place_ends() {
    let place = Place::new();
    let slot = ["run", "job", "--at-once", "1", "--hold", "4s"];
    let mut holder = running(&place, &[&slot[..], &CAT].concat());
    let mut first = waiter(&place, &slot, "true");
    let mut second = waiter(&place, &[&slot[..], &["--wait", "60s"]].concat(), "true");
    signal(&first, Signal::KILL);
    first.wait().unwrap();
    drop(holder.stdin.take());
    assert_eq!(holder.wait().unwrap().code(), Some(0));
    let (code, _, err) = place.run(&[&slot[..], &["--wait", "0", "--", "true"]].concat());
    assert_eq!(code, 124, "nobody overtakes: {err}");
    assert_eq!(second.wait().unwrap().code(), Some(0));
    assert_eq!(place.code(&[&slot[..], &["--wait", "0", "--", "true"]].concat()), 0);
}

/// Each worker asks more often than the ban allows, since it waits.
#[test]
fn who_waits_for_a_slot_is_not_banned() {
    let place = Place::new();
    let limits = ["--limit", "1000/m, ban 10m after 10 denials in 1m"];
    let slot = ["run", "job", "--at-once", "1", "--wait", "60s"];
    let work = ["--", "sh", "-c", "sleep 0.3"];
    let mut workers: Vec<Child> =
        (0..8).map(|_| place.std(&[&slot[..], &limits, &work].concat()).spawn().unwrap()).collect();
    for worker in &mut workers {
        assert_eq!(worker.wait().unwrap().code(), Some(0));
    }
    // A caller that does not wait is denied, and banned.
    let mut holder = running(&place, &[&slot[..], &limits, &CAT].concat());
    let which = ["job", "--limit", "1 at once, 1000/m, ban 10m after 10 denials in 1m"];
    for _ in 0..10 {
        let reserve = [&["reserve"], &which[..], &["--ttl", "10s"]].concat();
        assert_eq!(place.code(&reserve), 1);
    }
    drop(holder.stdin.take());
    assert_eq!(holder.wait().unwrap().code(), Some(0));
    let banned = [&slot[..4], &limits, &["--wait", "0", "--", "true"]].concat();
    let (code, _, err) = place.run(&banned);
    assert_eq!(code, 124, "{err}");
}

/// Six workers with two slots, one of them killed: its command goes on, and is the only third.
#[test]
fn never_more_at_once_than_there_are_slots() {
    let place = Place::new();
    let log = place.path().join("log").display().to_string();
    // Each command writes one line when it begins and one when it ends, in one write each.
    let work = format!("echo + >> {log}; sleep 0.3; echo - >> {log}");
    let slots = ["run", "pool", "--at-once", "2", "--hold", "1500ms"];
    let killed_work = format!("echo k >> {log}; echo ready; sleep 1.2");
    let mut killed = running(&place, &[&slots[..], &["--", "sh", "-c", &killed_work]].concat());
    let mut workers: Vec<Child> = (0..6)
        .map(|_| {
            let loops = [&slots[..], &["--wait", "30s", "--", "sh", "-c", &work]].concat();
            place.std(&loops).stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    signal(&killed, Signal::KILL);
    killed.wait().unwrap();
    for worker in &mut workers {
        assert_eq!(worker.wait().unwrap().code(), Some(0));
    }
    let text = std::fs::read_to_string(&log).unwrap();
    let (mut open, mut most, mut ended) = (0_i32, 0, 0);
    for line in text.lines().filter(|line| *line != "k") {
        open += if line == "+" { 1 } else { -1 };
        ended += i32::from(line == "-");
        most = most.max(open);
    }
    assert_eq!((open, ended), (0, 6), "{text}");
    assert!(most <= 2, "{most} at once\n{text}");
    // The slot of the killed one comes back with the end of its hold.
    let both = ["run", "pool", "--at-once", "2", "--hold", "1500ms", "--cost", "2", "-w", "2s"];
    assert_eq!(place.code(&[&both[..], &["--", "true"]].concat()), 0);
}

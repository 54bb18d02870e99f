//! `run`: exit codes, waits, signals.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::Place;

const BACKUP: [&str; 4] = ["run", "backup", "--limit", "100/h"];

fn run(place: &Place, command: &[&str]) -> (i32, String, String) {
    place.run(&[&BACKUP[..], &["--"], command].concat())
}

#[test]
fn it_exits_with_the_commands_code() {
    let place = Place::new();
    let (code, out, err) = run(&place, &["sh", "-c", "echo $0 $1; exit 7", "a b", "--limit"]);
    assert_eq!((code, out.as_str(), err.as_str()), (7, "a b --limit\n", ""));
    assert_eq!(run(&place, &["true"]).0, 0);
    assert_eq!(run(&place, &["sh", "-c", "kill -KILL $$"]).0, 128 + 9);
    assert_eq!(run(&place, &["sh", "-c", "kill -TERM $$"]).0, 128 + 15);
}

#[test]
fn a_command_that_cannot_be_started_charges_nothing() {
    let place = Place::new();
    let (code, _, err) = run(&place, &["no-such-command-anywhere"]);
    assert_eq!(code, 127);
    assert!(err.starts_with("error: `no-such-command-anywhere` cannot be run: "), "{err}");
    let file = place.path().join("plain.txt");
    std::fs::write(&file, "no program").unwrap();
    let (code, _, err) = run(&place, &[file.to_str().unwrap()]);
    assert_eq!(code, 126, "{err}");
    let json = place.json(&["peek", "backup", "--limit", "100/h", "--json"]);
    assert_eq!(json["remaining"], 100);
}

#[test]
fn a_turn_that_does_not_come_in_time_is_124() {
    let place = Place::new();
    assert_eq!(place.code(&["check", "backup", "--limit", "1/h"]), 0);
    let (code, out, err) =
        place.run(&["run", "backup", "--limit", "1/h", "--wait", "2s", "--", "echo", "ran"]);
    assert_eq!((code, out.as_str()), (124, ""));
    assert!(err.starts_with("error: the turn of backup comes in 59m"), "{err}");
    assert!(err.ends_with("too late for --wait 2s\n"), "{err}");
    assert_eq!(place.code(&["run", "backup", "-l", "1/h", "-w", "0", "--", "true"]), 124);
}

#[test]
fn never_and_errors_are_125() {
    let place = Place::new();
    let (code, _, err) =
        place.run(&["run", "backup", "--limit", "1/h", "--cost", "2", "--", "true"]);
    assert_eq!(code, 125);
    assert!(err.contains("never, the cost is above 1"), "{err}");
    for args in [
        &["run", "backup", "--limit", "0/h", "--", "true"][..],
        &["run", "backup", "--limit", "1/h", "--cost", "0", "--", "true"],
        &["run", "backup", "--limit", "1/h", "--wait", "soon", "--", "true"],
        &["run", "backup", "--limit", "1/h", "--store", "memory://", "--", "true"],
        &["run", "backup", "--", "true"],
    ] {
        let (code, _, err) = place.run(args);
        assert_eq!(code, 125, "{args:?}");
        assert!(err.starts_with("error: "), "{err}");
    }
}

#[test]
fn it_waits_for_its_turn() {
    let place = Place::new();
    let args = ["run", "gate", "--limit", "1/100ms via uniform", "-v", "--", "echo", "ran"];
    let outputs = [place.run(&args), place.run(&args), place.run(&args)];
    for (code, out, _) in &outputs {
        assert_eq!((*code, out.as_str()), (0, "ran\n"));
    }
}

/// A run that waits for an hour, once it says that it does.
fn waiting(place: &Place) -> (Child, String) {
    assert_eq!(place.code(&["check", "backup", "--limit", "2/h"]), 0);
    let args = ["run", "backup", "--limit", "2/h", "--cost", "2", "--verbose", "--", "echo", "ran"];
    let mut child = place.std(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    (child, line)
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn an_interrupted_wait_charges_nothing() {
    for (sent, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let place = Place::new();
        let (mut child, line) = waiting(&place);
        assert!(line.starts_with("waiting for backup: retry in 59m"), "{line}");
        signal(&child, sent);
        assert_eq!(child.wait().unwrap().code(), Some(code));
        let mut out = String::new();
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        assert_eq!(out, "");
        let json = place.json(&["peek", "backup", "--limit", "2/h", "--json"]);
        assert_eq!(json["remaining"], 1);
    }
}

#[test]
fn a_running_command_gets_the_signals() {
    let place = Place::new();
    let args = [&BACKUP[..], &["--", "sh", "-c", "echo ready; exec cat"]].concat();
    let mut child = place.std(&args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    // `wait` closes a child's stdin, at whose end `cat` would leave before it is signalled.
    let stdin = child.stdin.take();
    // Ctrl-C is the terminal's to send to the command: alone it ends nothing here.
    signal(&child, Signal::INT);
    signal(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    drop(stdin);
}

#[test]
fn what_is_ignored_stays_ignored() {
    let place = Place::new();
    let program = assert_cmd::cargo::cargo_bin!("tollgate").display().to_string();
    // As `nohup` starts it.
    let script = format!(
        "trap '' HUP; exec '{program}' run backup --limit 100/h -- sh -c 'kill -HUP $$ $PPID; echo alive'"
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .env("TOLLGATE_STORE", place.store())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "alive\n");
}

#[test]
fn waiters_that_lose_a_race_are_not_banned() {
    let place = Place::new();
    let limit = "1/100ms via uniform, ban 1h after 2 denials in 1h";
    let args = |wait| ["run", "gate", "--limit", limit, "--wait", wait, "--", "true"];
    let waiters: Vec<Child> =
        (0..8).map(|_| place.std(&args("60s")).stderr(Stdio::piped()).spawn().unwrap()).collect();
    for waiter in waiters {
        let output = waiter.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
    // A caller that does not wait is banned as always.
    let long = "1/h via uniform, ban 1h after 2 denials in 1h";
    let once = |wait| ["run", "other", "--limit", long, "--wait", wait, "--", "true"];
    let codes: Vec<i32> = ["0", "0", "1ms"].map(|wait| place.code(&once(wait))).into();
    assert_eq!(codes, [0, 124, 124]);
    let is_free =
        || place.json(&["peek", "other", "--limit", long, "--json"])["limits"][1]["admits"].clone();
    assert_eq!(is_free(), true);
    assert_eq!(place.code(&once("0")), 124);
    assert_eq!(is_free(), false);
}

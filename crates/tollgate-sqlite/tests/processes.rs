//! Several processes on one file, and processes that are killed.
//!
//! The children are this very test program, started again with a variable that says what to do.

#![allow(clippy::expect_used, clippy::unwrap_used)] // a test that cannot go on has failed

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tollgate::engine::Mode;
use tollgate::{Counted, LimitSet, Question, Subject};
use tollgate_sqlite::{Options, SqliteStore};

const PATH: &str = "TOLLGATE_TEST_PATH";
const LIMIT: &str = "TOLLGATE_TEST_LIMIT";
const CHECKS: &str = "TOLLGATE_TEST_CHECKS";

/// A child that makes `checks` checks and prints a line for each: `1` admitted or `0` denied, and
/// the microseconds it took.
fn child(path: &Path, limit: &str, checks: usize) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "when_started_as_a_child_it_checks", "--nocapture", "--test-threads=1"])
        .env(PATH, path)
        .env(LIMIT, limit)
        .env(CHECKS, checks.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("a child")
}

/// Not a separate test: the work of the other tests' children. Started by hand it does nothing.
#[test]
fn when_started_as_a_child_it_checks() {
    let Ok(path) = std::env::var(PATH) else { return };
    let limits: LimitSet = std::env::var(LIMIT).expect("a limit").parse().expect("a limit");
    let checks: usize = std::env::var(CHECKS).expect("a number").parse().expect("a number");
    let store = SqliteStore::open_with(Options::new(path).deadline(Duration::from_secs(60)))
        .expect("an open store");
    let mut out = std::io::stdout().lock();
    for _ in 0..checks {
        let start = Instant::now();
        let granted = charge(&store, &limits);
        let line = format!("checked {granted} {}\n", start.elapsed().as_micros());
        // One write for each line: a line that the parent read was acknowledged.
        out.write_all(line.as_bytes()).and_then(|()| out.flush()).expect("a reader");
    }
}

fn ask(store: &SqliteStore, limits: &LimitSet, mode: Mode) -> tollgate::engine::Outcome {
    let subject = Subject::new("key", "zoo").expect("a subject");
    let parts = [Counted::new(&subject, limits)];
    store.check_now(&Question::new(&parts, 1, mode)).expect("an outcome")
}

fn charge(store: &SqliteStore, limits: &LimitSet) -> u64 {
    ask(store, limits, Mode::Whole).granted
}

/// The answers of a child, as they come: admitted, and how long it took.
fn answers(child: &mut Child) -> impl Iterator<Item = (u64, u64)> + use<> {
    let out = child.stdout.take().expect("its output");
    BufReader::new(out).lines().map_while(Result::ok).filter_map(|line| {
        // The test harness writes the test's name before the first line.
        let (_, said) = line.split_once("checked ")?;
        let (granted, us) = said.split_once(' ')?;
        Some((granted.parse().ok()?, us.parse().ok()?))
    })
}

/// Kills a writer after `after` of 10,000 acknowledged checks, and counts what is left.
fn killed_after(limit: &str, after: usize) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("killed.db");
    let mut writer = child(&path, limit, 10_000);
    let mut reader = answers(&mut writer);
    let acknowledged: u64 = reader.by_ref().take(after).map(|(granted, _)| granted).sum();
    assert_eq!(acknowledged, after as u64, "the limit is larger than all checks");
    // `Child::kill` is SIGKILL.
    writer.kill().expect("killed");
    writer.wait().expect("ended");
    // Lines that it wrote before it died were acknowledged, too.
    let acknowledged = acknowledged + reader.map(|(granted, _)| granted).sum::<u64>();
    assert!(acknowledged < 10_000, "it was killed in the middle");
    let limits: LimitSet = limit.parse().expect("a limit");
    let store = SqliteStore::open_with(Options::new(&path)).expect("the file is whole");
    let peek = ask(&store, &limits, Mode::Peek);
    let counted = 100_000 - peek.fields[0].remaining;
    assert!(
        (acknowledged..=acknowledged + 1).contains(&counted),
        "{acknowledged} were acknowledged and {counted} are counted"
    );
    let conn = rusqlite::Connection::open(&path).expect("the file");
    let sound: String =
        conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("checked");
    assert_eq!(sound, "ok");
}

#[test]
fn kill_9_loses_no_acknowledged_charge() {
    // A counter, and a log whose every event is a row; at points that no page or batch prefers.
    killed_after("100000/366d anchor first-hit via fixed_window", 4_321);
    killed_after("100000/366d via sliding_log", 1_234);
    killed_after("100000/366d via sliding_log", 1);
}

#[test]
fn four_processes_admit_exactly_the_limit_and_none_starves() {
    for limit in ["4000/366d anchor first-hit via fixed_window", "4000/366d via sliding_log"] {
        let dir = tempfile::tempdir().expect("a directory");
        // They also create the file at the same time.
        let path = dir.path().join("shared.db");
        let mut children: Vec<Child> = (0..4).map(|_| child(&path, limit, 2_000)).collect();
        let readers: Vec<_> = children
            .iter_mut()
            .map(|child| {
                let answers = answers(child);
                std::thread::spawn(move || answers.collect::<Vec<_>>())
            })
            .collect();
        let mut admitted = 0;
        let mut slowest_us = Vec::new();
        for (child, reader) in children.iter_mut().zip(readers) {
            let answers = reader.join().expect("read");
            assert!(child.wait().expect("ended").success());
            assert_eq!(answers.len(), 2_000, "every check was answered");
            admitted += answers.iter().map(|(granted, _)| granted).sum::<u64>();
            slowest_us.push(answers.iter().map(|(_, us)| *us).max());
        }
        assert_eq!(admitted, 4_000, "{limit}");
        println!("{limit}: slowest check of each process, in us: {slowest_us:?}");
    }
}

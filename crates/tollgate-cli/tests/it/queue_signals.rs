//! Workers of a queue that are ended, killed, or notified of a change in it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::Place;
use crate::queue::{push, signal, stats};
use crate::redis;

/// Starts a worker that says, by a file, that it is in the middle of a job.
fn in_the_middle(place: &Place, command: &str, more: &[&str]) -> Child {
    let begun = place.path().join("begun");
    let command = format!("echo x > {}; {command}", begun.display());
    let args = [&["queue", "work", "mail", "--exec", &command], more].concat();
    let child = place.std(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&begun);
    child
}

fn wait_for(path: &Path) {
    let begin = Instant::now();
    while !path.exists() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{} never came", path.display());
        std::thread::yield_now();
    }
}

#[test]
fn a_signal_lets_what_is_in_hand_finish_and_gives_back_the_rest() {
    let place = Place::new();
    for n in ["1", "2", "3"] {
        assert_eq!(push(&place, &[&format!("n={n}"), "--bound", "9"]), 0);
    }
    let go = place.path().join("go");
    let command = format!("until test -e {}; do sleep 0.01; done", go.display());
    let child = in_the_middle(&place, &command, &["--batch", "3"]);
    signal(&child, Signal::INT);
    // It has received the signal: jobs that it had only taken wait again.
    let begin = Instant::now();
    let hands =
        ["queue", "work", "mail", "--max-jobs", "1", "--json", "--exec", "test $JOB_n != 1"];
    assert_eq!(place.json(&hands)["done"], 1);
    assert!(begin.elapsed() < Duration::from_secs(20), "not by its visibility timeout");
    std::fs::write(go, "").unwrap();
    let output = child
        .wait_with_output()
        .map(|output| (output.status.code(), String::from_utf8(output.stderr).unwrap()));
    assert_eq!(output.unwrap(), (Some(0), "1 done, 2 returned to the queue\n".to_owned()));
    let stats = stats(&place);
    assert_eq!((&stats["done"], &stats["in_flight"]), (&2.into(), &1.into()));
}

#[test]
fn a_second_signal_ends_the_commands_too() {
    let place = Place::new();
    assert_eq!(push(&place, &["--bound", "9"]), 0);
    let ended = place.path().join("ended");
    let command =
        format!("trap 'echo x > {}; exit 1' TERM; while :; do sleep 0.01; done", ended.display());
    let mut child = in_the_middle(&place, &command, &[]);
    // Two signals that come together are one: the second is sent until it is received.
    let begin = Instant::now();
    let status = loop {
        signal(&child, Signal::TERM);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "it goes on");
        std::thread::sleep(Duration::from_millis(10)); // tidy: sleep-ok between two signals
    };
    assert_eq!(status.code(), Some(128 + 15));
    wait_for(&ended);
    assert_eq!(stats(&place)["in_flight"], 1);
}

#[test]
fn a_worker_that_is_killed_loses_nothing() {
    let place = Place::new();
    assert_eq!(push(&place, &["--bound", "9"]), 0);
    // It ends with the folder of this test.
    let command = "while test -e $HOME/begun; do sleep 0.05; done";
    let mut child = in_the_middle(&place, command, &["--visibility", "100ms"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let args =
        ["queue", "work", "mail", "--max-jobs", "1", "--exec", "echo $TOLLGATE_JOB_DELIVERY"];
    // It comes back once its visibility timeout has passed.
    assert_eq!(place.run(&args).1, "2\n");
    let stats = stats(&place);
    assert_eq!(
        (&stats["done"], &stats["redelivered"], &stats["in_flight"]),
        (&1.into(), &1.into(), &0.into())
    );
}

/// A worker that waits for something reports that once, and again when it is over.
#[test]
fn a_worker_says_what_has_become_of_its_queue_and_of_its_store() {
    let place = Place::new();
    let Some((redis, store)) = redis::start(place.path(), &[]) else { return };
    let run = |args: &[&str]| place.run(&[&["queue"], args, &["--store", &store]].concat()).0;
    let push = ["push", "mail", "to=ann", "--bound", "9"];
    assert_eq!(run(&push), 0);
    let work = ["queue", "work", "mail", "--exec", "true", "--store", &store];
    let mut worker = place.std(&work).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(worker.stderr.take().unwrap()).lines().map_while(Result::ok);
    let begin = Instant::now();
    while run(&["remove", "mail"]) != 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "its job is never done");
    }
    assert_eq!(
        lines.next().unwrap(),
        "the queue was removed: waiting until it is made again, Ctrl-C ends"
    );
    drop(redis);
    let said = lines.next().unwrap();
    assert!(said.starts_with("waiting: "), "{said}");
    let again = redis::start(place.path(), &[]);
    assert!(again.is_some(), "it was there before");
    let said = lines.next().unwrap();
    assert!(said.starts_with("the store is back after "), "{said}");
    signal(&worker, Signal::TERM);
    assert!(worker.wait().unwrap().success());
    assert_eq!(lines.next().as_deref(), Some("1 done"));
}

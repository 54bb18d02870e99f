//! `top`: the figures of a running service in a terminal.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::Place;
use crate::serving::Serving;

/// A service that was asked five times, and its admin listener.
fn serve(place: &Place) -> (Serving, String) {
    let serving = Serving::start(place, &["--log-denials", "plain"]);
    for _ in 0..5 {
        serving.client().check(r#"{"subject": "user:42", "limit": "3/h"}"#).unwrap();
    }
    let at = serving.admin_address();
    (serving, at)
}

#[test]
fn the_figures_are_shown_once_or_as_json() {
    let place = Place::new();
    let (_serving, at) = serve(&place);
    // They are recorded once a second, which may be between two of the checks.
    let (out, lines) = loop {
        let (code, out, error) = place.run(&["top", "--once", "--at", &at]);
        assert_eq!((code, error.as_str()), (0, ""));
        let lines: Vec<String> =
            out.lines().map(|it| it.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let inline = lines.iter().find(|line| line.starts_with("inline "));
        let last = inline.into_iter().flat_map(|line| line.split(' ').rev().take(2));
        if last.filter_map(|number| number.parse::<u64>().ok()).sum::<u64>() >= 5 {
            break (out, lines);
        }
    };
    assert!(!out.contains('\u{1b}'), "{out:?}");
    assert!(lines[0].starts_with("tollgate ") && lines[0].contains("1 policies"), "{out}");
    assert!(lines[1].starts_with("store memory counts, answered in "), "{out}");
    assert!(lines[1].contains("; 5 store: half within "), "{out}");
    assert!(
        lines.iter().any(|line| line.starts_with("inline ") && line.ends_with(" 3 2")),
        "{out}"
    );
    assert!(lines.contains(&"user:42 - 5".to_owned()), "{out}");
    assert!(lines.contains(&"user:42 - 2".to_owned()), "{out}");
    let figures = place.json(&["top", "--json", "--at", &at]);
    assert_eq!(figures["limits"][0]["denied"], 2);
}

#[test]
fn it_goes_on_until_ctrl_c_and_over_an_outage() {
    let place = Place::new();
    let (serving, at) = serve(&place);
    let mut command = place.std(&["top", "--at", &at, "--every", "1s"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let heads = lines.by_ref().filter(|line| line.starts_with("tollgate ")).take(2);
    assert_eq!(heads.count(), 2, "it is shown again");
    drop(serving);
    let gone = lines.find(|line| line.contains("does not answer"));
    assert!(gone.is_some_and(|line| line.contains(&at)));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert!(child.wait().unwrap().success(), "it ends well");
}

#[test]
fn a_service_that_is_not_there_and_a_pause_that_is_too_short_are_errors() {
    let place = Place::new();
    for (args, says) in [
        (&["top", "--at", "127.0.0.1:9"][..], "does not answer"),
        (&["top", "--every", "100ms"], "1s or more"),
        (&["top", "--at", "nowhere"], "is not an address"),
    ] {
        let (code, out, error) = place.run(args);
        assert!(code == 2 && out.is_empty() && error.contains(says), "{args:?}: {error}");
    }
}

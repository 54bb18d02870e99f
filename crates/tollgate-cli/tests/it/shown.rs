//! Help, `explain`, completions, and readers that go away.

use std::process::Stdio;

use crate::Place;

const COMMANDS: [&[&str]; 16] = [
    &["check"],
    &["peek"],
    &["run"],
    &["reset"],
    &["adjust"],
    &["inspect"],
    &["explain"],
    &["replay"],
    &["lab"],
    &["lab", "run"],
    &["lab", "zoo"],
    &["lab", "sides"],
    &["lab", "queue"],
    &["lab", "race"],
    &["doctor"],
    &["completions"],
];

#[test]
fn every_command_has_help_with_an_example() {
    let place = Place::new();
    for command in COMMANDS {
        for flag in ["-h", "--help"] {
            let (code, out, err) = place.run(&[command, &[flag]].concat());
            assert_eq!((code, err.as_str()), (0, ""), "{command:?}");
            assert!(out.contains("Example"), "{command:?} {flag}: {out}");
            assert!(out.contains(&format!("tollgate {}", command.join(" "))), "{out}");
            assert!(!out.contains('\x1b'), "colours without a terminal");
        }
    }
    let (code, out, _) = place.run(&["--version"]);
    assert_eq!((code, out.trim_end()), (0, concat!("tollgate ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn explain_says_what_a_limit_means() {
    let place = Place::new();
    let (code, out, _) = place.run(&["explain", "100/s burst 200 via token_bucket"]);
    assert_eq!(code, 0);
    for says in [
        "100/s burst 200 refill greedy via token_bucket\n",
        "at most 299 in any 1s",
        "100 per 1s",
        "200 at once, then one each 10ms",
        "at most 200 more, by charges without a check",
        "nobody waits longer than 4s,",
        "?sync=full",
    ] {
        assert!(out.contains(says), "{says} is not in {out}");
    }
    let (_, out, _) = place.run(&["explain", "10/s", "240/h"]);
    assert!(out.contains("a burst meets  10/s via sliding_log"), "{out}");
    assert!(out.contains("demand meets   240/h via sliding_log"), "{out}");
    let json = place.json(&["explain", "7/m", "--strategy", "gcra", "--json"]);
    assert_eq!(json["limits"][0]["limit"], "7/m burst 7 via gcra");
    assert_eq!(json["limits"][0]["worst_window"], 13);
    assert_eq!(json["limits"][0]["capacity"], 7);
    assert_eq!(json["limits"][0]["debt"], 7);
    assert!(json.get("binding").is_none());
    assert!(json["limits"][0].get("lease").is_none());
    // Leases: the units of a node, and the bound for this number of nodes.
    let leased = "100000/s via gcra lease auto 0.25%";
    let (_, out, _) = place.run(&["explain", leased, "--nodes", "4"]);
    let says =
        "auto 0.25% for 100ms: a node holds at most 250 units; 4 nodes admit at most 200999 in any";
    assert!(out.split_whitespace().collect::<Vec<_>>().join(" ").contains(says), "{out}");
    let json = place.json(&["explain", leased, "--json"]);
    let lease = &json["limits"][0]["lease"];
    assert_eq!((&lease["units"], &lease["worst_window"]), (&250.into(), &200_249.into()));
}

#[test]
fn completions_name_the_commands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, _) = place.run(&["completions", shell]);
        assert_eq!(code, 0);
        assert!(out.contains("inspect") && out.contains("sliding_log"), "{shell}");
    }
}

#[test]
fn a_reader_that_went_away_is_no_error() {
    let place = Place::new();
    for (args, code) in [
        (&["explain", "10/s"][..], 0),
        (&["check", "zoo", "--limit", "1/h", "--cost", "2"], 3),
        (&["completions", "bash"], 0),
        (&["--help"], 0),
    ] {
        let mut command = place.std(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // A pipe whose reading end is closed before anything is written.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command.stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    }
}

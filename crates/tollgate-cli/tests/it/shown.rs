//! Help, `explain`, completions, `bench`, and readers that go away.

use std::process::Stdio;

use crate::Place;

const COMMANDS: [&[&str]; 18] = [
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
    &["bench", "memory"],
    &["bench", "sqlite"],
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
        "nobody waits longer than 2s,",
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
    assert!(json.get("binding").is_none());
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

#[test]
fn the_bench_compares_two_sides() {
    let place = Place::new();
    let args = ["bench", "memory", "--keys", "1,2000", "--threads", "1,2", "--calls", "10000"];
    let json = place.json(&[&args[..], &["--runs", "3", "--json"]].concat());
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        for side in ["tollgate", "governor"] {
            assert!(row[format!("{side}_ns")].as_f64().unwrap() > 0.0, "{row}");
            let admitted = row[format!("{side}_admitted")].as_f64().unwrap();
            assert!((admitted - 0.9).abs() < 0.02, "{row}");
        }
    }
    for row in json["owned"].as_array().unwrap() {
        for way in ["check_now_ns", "check_within_ns"] {
            assert!(row[way].as_f64().unwrap() > 0.0, "{row}");
        }
    }
    assert_eq!(json["owned"].as_array().unwrap().len(), 4);
    assert_eq!(json["bytes"][0]["side"], "tollgate");
    assert_eq!(json["bytes"][1]["keys"], 2000);
}

#[test]
fn the_bench_of_the_file_compares_with_a_bare_loop() {
    let place = Place::new();
    let dir = place.path().to_str().unwrap();
    let json = place.json(&["bench", "sqlite", "--checks", "100", "--dir", dir, "--json"]);
    for figure in ["decisions_per_second", "bare_per_second", "denials_per_second", "ratio"] {
        assert!(json[figure].as_f64().unwrap() > 0.0, "{json}");
    }
    // Its files are gone.
    assert_eq!(place.path().read_dir().unwrap().count(), 0);
}

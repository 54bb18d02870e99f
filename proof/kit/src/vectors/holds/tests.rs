//! Tests of time lines with holds.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::path::Path;

use super::*;

#[test]
fn every_file_is_as_the_oracle_writes_it() {
    for (path, text) in HOLD_VECTORS {
        let written = write(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        for (number, (line, written)) in (1..).zip(text.lines().zip(written.lines())) {
            assert_eq!(line, written, "{path}:{number}: see vectors/README.md on how to write it");
        }
        assert_eq!(*text, written, "{path}");
    }
}

#[test]
fn every_file_is_embedded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/holds");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| format!("holds/{}", entry.unwrap().file_name().into_string().unwrap()))
        .collect();
    files.sort();
    assert_eq!(HOLD_VECTORS.iter().map(|(path, _)| *path).collect::<Vec<_>>(), files);
}

/// For each strategy, and for slots: the questions, and the kinds of answers.
#[test]
fn every_strategy_has_every_kind_of_question() {
    let rates = tollgate::Strategy::RATES.iter().map(|strategy| strategy.name());
    for kind in rates.chain(["concurrency"]) {
        let (_, text) = HOLD_VECTORS.iter().find(|(path, _)| path.contains(kind)).unwrap();
        let mut seen = BTreeSet::new();
        for time_line in parse(text).unwrap() {
            assert!(time_line.limits.contains(if kind == "concurrency" {
                "at once"
            } else {
                kind
            }));
            for line in time_line.lines {
                seen.extend(said_of(&line));
            }
        }
        for outcome in [
            "reserve until",
            "reserve charging until",
            "commit charged",
            "commit already",
            "cancel charged",
            "commit not open",
            "renew until",
            "renew not open",
            "denied for holds",
            "reset",
            "peek yes",
        ] {
            assert!(seen.contains(outcome), "{kind} has no `{outcome}`: {seen:?}");
        }
        if kind == "concurrency" {
            for outcome in ["acquire until", "release released", "release not open"] {
                assert!(seen.contains(outcome), "no `{outcome}`: {seen:?}");
            }
        }
    }
}

fn said_of(line: &HoldLine) -> Vec<String> {
    let Some(answer) = &line.expect else { return Vec::new() };
    let asked = match &line.ask {
        HoldAsk::Reserve { charging: true, .. } => "reserve charging",
        HoldAsk::Reserve { .. } => "reserve",
        HoldAsk::Acquire { .. } => "acquire",
        HoldAsk::Commit(..) => "commit",
        HoldAsk::Cancel(_) => "cancel",
        HoldAsk::Release(_) => "release",
        HoldAsk::Renew(..) => "renew",
        HoldAsk::Peek(_) => "peek",
        HoldAsk::Reset => return vec!["reset".to_owned()],
        _ => "other",
    };
    let said = answer.said.to_string();
    let word = said.split_once(' ').map_or(&said[..], |(word, _)| word);
    let mut all = vec![match answer.said {
        Said::NotOpen => format!("{asked} not open"),
        _ => format!("{asked} {word}"),
    }];
    if answer.said == (Said::No { held: true }) {
        all.push("denied for holds".to_owned());
    }
    all
}

#[test]
fn a_wrong_answer_is_written_anew() {
    let text = "limits: 5/10s via gcra\n0 | reserve a 3 for 8s | until 9s | 9 0 0\n# x\n";
    let right = "limits: 5/10s via gcra\n0 | reserve a 3 for 8s | until 8s | 2 0 8s\n# x\n";
    assert_eq!(write(text).unwrap(), right);
    assert_eq!(write(right).unwrap(), right);
    assert!(!expect(text).allows(&expect(right)));
    assert!(expect(right).allows(&expect(right)));
    // Only a reset that is marked may be longer than it says.
    let line = |reset: &str| format!("limits: 5/10s via gcra\n0 | peek 1 | yes | 2 0 {reset}\n");
    let (exact, least, longer) = (expect(&line("8s")), expect(&line("8s+")), expect(&line("9s")));
    assert!(least.allows(&longer) && least.allows(&exact) && !exact.allows(&longer));
    assert!(!longer.allows(&exact) && !expect(&line("9s+")).allows(&exact));
}

fn expect(text: &str) -> LineAnswer {
    parse(text).unwrap().remove(0).lines.remove(0).expect.unwrap()
}

#[test]
fn bad_files_are_refused_with_their_line() {
    for (text, message) in [
        ("0 | peek 1", "line 1: a `limits: ...` line"),
        ("limits: 5 via gcra", "line 1: the limit \"5 via gcra\""),
        ("limits: 5 at once for 3s", "line 1: \" for 3s\""),
        ("limits: 5/s via gcra\n0", "line 2: one column"),
        ("limits: 5/s via gcra\n0 | steal 1", "line 2: \"steal 1\" is not a question"),
        ("limits: 5/s via gcra\n0 | reserve a 1 until 2s", "line 2: \"reserve a 1 until 2s\""),
        ("limits: 5/s via gcra\n0 | peek 1 | maybe | 1 0 0", "line 2: \"maybe\" is not an answer"),
        ("limits: 5/s via gcra\n0 | peek 1 | yes", "line 2: the answer has not one column"),
        ("limits: 5/s via gcra\n0 | peek 1 | yes | 1 0", "line 2: \"1 0\": write remaining"),
        ("limits: 5/s via gcra\n0 | peek 1 | yes | 1 0 0 owes", "line 2: \"1 0 0 owes\": only"),
        ("limits: 5/s via gcra\nchange: 5 at once", "line 2: a change has as many limits"),
        ("limits: 5/s via gcra\n0 | acquire a 1", "line 2: these limits have no slots"),
        ("limits: 5/s via gcra\n0 | reserve a 1 for 9s\n0 | renew a", "line 3: say how long"),
        ("limits: 5 at once\n0 | check 1", "line 2: a check of slots is refused"),
    ] {
        let error = match parse(text) {
            Err(error) => error.to_string(),
            Ok(_) => write(text).unwrap_err().to_string(),
        };
        assert!(error.starts_with(message), "{text:?}: {error}");
    }
}

//! `judge --log`: a recorded log shows a mistake that no other traffic does.

use std::fs;

use serde_json::Value;

use super::broken::{broken, judged};
use super::served::NETWORKS;
use crate::Place;
use crate::replaying::BUNDLED;

/// Two clients of one network, each within the limit of 3 in 10 s.
const LOG: &str = r#"{"ip":"192.0.2.7","ts":1000}
{"ip":"192.0.2.8","ts":1001}
{"ip":"192.0.2.7","ts":1002}
{"ip":"192.0.2.8","ts":1003}
{"ip":"192.0.2.7","ts":1004}
"#;

/// How many requests of a log were asked.
fn asked(report: &Value) -> Option<u64> {
    let rows = report["traffic"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == "a recorded log")?["asked"].as_u64()
}

#[test]
fn a_limiter_that_only_a_log_shows_is_found_and_its_right_form_is_kept() {
    let place = Place::new();
    let log = place.path().join("log.json");
    fs::write(&log, LOG).unwrap();
    let log = ["--log", log.to_str().unwrap()];
    let (code, report) = judged(&place, "wrong", NETWORKS, &[]);
    assert_eq!((code, broken(&report), asked(&report)), (0, Vec::new(), None));

    let (code, report) = judged(&place, "wrong", NETWORKS, &log);
    assert_eq!((code, asked(&report)), (1, Some(5)), "{report:#}");
    for row in
        report["verdicts"].as_array().unwrap().iter().filter(|row| row["verdict"] == "broken")
    {
        assert_eq!(row["traffic"], "a recorded log", "{row:#}");
        let history = row["history"].to_string();
        assert!(history.contains("192.0.2.7") || history.contains("192.0.2.8"), "{history}");
    }

    let (code, report) = judged(&place, "right", NETWORKS, &log);
    assert_eq!((code, broken(&report), asked(&report)), (0, Vec::new(), Some(5)));
}

/// The options of the reader, and a log of ten thousand lines.
#[test]
fn a_log_is_read_as_replay_reads_it() {
    let place = Place::new();
    let more = ["--log", BUNDLED, "--by", "ip,path", "--spread", "7"];
    let (code, report) = judged(&place, "right", NETWORKS, &more);
    assert_eq!((code, broken(&report), asked(&report)), (0, Vec::new(), Some(10_000)));
    for (args, why) in [
        (&["--by", "path"][..], "--log is missing"),
        (&["--log", "/nowhere.log"], "/nowhere.log"),
        (&["--log", BUNDLED, "--cost", "all"], "--cost all"),
    ] {
        let judge = ["judge", "-l", "5/s", "--command", "true"];
        let (code, out, err) = place.run(&[&judge[..], args].concat());
        assert_eq!(code, 2, "{args:?}: {out}");
        assert!(err.contains(why), "{args:?}: {err}");
    }
}

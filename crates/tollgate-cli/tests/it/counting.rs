//! `check`, `peek`, `reset`, `adjust`, `inspect`: counts that outlive the process.

use std::os::unix::fs::PermissionsExt as _;

use crate::Place;

const ZOO: [&str; 4] = ["check", "zoo", "--limit", "3/60s via sliding_log"];

#[test]
fn three_of_five_are_admitted() {
    let place = Place::new();
    let codes: Vec<_> = (0..5).map(|_| place.code(&ZOO)).collect();
    assert_eq!(codes, [0, 0, 0, 1, 1]);
}

/// A script that is given a name by somebody is given no other's count.
#[test]
fn a_literal_subject_is_taken_as_it_is() {
    let place = Place::new();
    for (typed, literally, written) in [
        ("user:%31", "user:%2531", "user:1"),
        ("user:1,role:admin", "user:1%2Crole:admin", "role:admin,user:1"),
    ] {
        let ask = |literal: &[&str]| {
            let args = ["check", typed, "--limit", "9/h", "--json"];
            place.json(&[&args, literal].concat())["limits"][0]["subject"].clone()
        };
        assert_eq!((ask(&["--literal"]), ask(&[])), (literally.into(), written.into()));
        let on = format!("{typed}=9/h");
        let answer = place.json(&["check", "--literal", "--on", &on, "--json"]);
        assert_eq!(answer["limits"][0]["subject"], literally);
        let script = ["scripts", "9/h", "--literal", "--format", "json", "--subject", typed];
        assert!(place.json(&script)["keys"].to_string().contains(literally), "{typed}");
    }
}

#[test]
fn check_says_what_is_left_and_when_to_come_back() {
    let place = Place::new();
    let (code, out, err) = place.run(&ZOO);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out, "allow zoo: 2 of 3 left, full again in 1m (3/m via sliding_log)\n");
    let (code, out, _) = place.run(&[
        "check",
        "zoo",
        "--limit",
        "3/60s",
        "--cost",
        "3",
        "--strategy",
        "sliding_log",
    ]);
    assert_eq!(code, 1);
    assert!(out.starts_with("deny zoo: 2 of 3 left, retry in 5"), "{out}");
    let (code, out, _) = place.run(&["check", "zoo", "--limit", "3/60s", "-c", "4"]);
    assert_eq!(code, 3);
    assert_eq!(out, "deny zoo: never, the cost is above 3 (3/m via sliding_log)\n");
}

#[test]
fn json_is_one_object() {
    let place = Place::new();
    let json = place.json(&[&ZOO[..], &["--json"]].concat());
    assert_eq!(json["allowed"], true);
    assert_eq!(json["outcome"], "allowed");
    assert_eq!((json["granted"].as_u64(), json["limit"].as_u64()), (Some(1), Some(3)));
    assert_eq!(json["remaining"], 2);
    assert!(json["retry_after"].is_null());
    assert_eq!(json["reset_after"]["seconds"], 60);
    assert_eq!(json["reset_after"]["text"], "1m");
    assert_eq!(json["binding"], 0);
    assert_eq!(json["limits"][0]["limit"], "3/m via sliding_log");
    assert_eq!(json["limits"][0]["identity"], "sliding_log/1m");
    assert_eq!(json["authority"], "store");
    assert!(json["at_us"].as_u64().unwrap() > 1_700_000_000_000_000);
    let json = place.json(&["peek", "zoo", "--limit", "3/60s", "--cost", "3", "--json"]);
    assert_eq!(json["outcome"], "denied");
    // Exact: the text and the number say the same.
    let seconds = json["retry_after"]["seconds"].as_f64().unwrap();
    assert!(seconds > 0.0 && seconds <= 60.0, "{json}");
    let json = place.json(&["peek", "zoo", "--limit", "3/60s", "--cost", "4", "--json"]);
    assert_eq!((&json["outcome"], &json["retry_after"]), (&"never".into(), &().into()));
}

#[test]
fn a_pair_is_all_or_nothing() {
    let place = Place::new();
    let pair = |verb| {
        let on = ["--on", "resource:12=5/10m via sliding_log", "--on"];
        place.run(
            &[&[verb][..], &on, &["consumer:1=3/10m via sliding_log", "--shard", "12"]].concat(),
        )
    };
    let codes: Vec<_> = (0..4).map(|_| pair("check").0).collect();
    assert_eq!(codes, [0, 0, 0, 1]);
    let (code, out, _) = pair("peek");
    assert_eq!(code, 1);
    let lines: Vec<_> = out.lines().collect();
    assert!(lines[0].starts_with("would deny consumer:1: 0 of 3 left, retry in "), "{out}");
    assert!(lines[1].starts_with("  ok    resource:12  5/10m via sliding_log  2 of 5"), "{out}");
    assert!(lines[2].starts_with("  deny  consumer:1   3/10m via sliding_log  0 of 3"), "{out}");
    // Another consumer meets what is left of the resource, which the denials did not touch.
    let (code, out, _) =
        place.run(&["check", "consumer:2", "-l", "3/10m", "--on", "resource:12=5/10m", "-c", "2"]);
    assert_eq!(code, 0, "{out}");
}

#[test]
fn peeks_charge_nothing_and_resets_forget() {
    let place = Place::new();
    let bob = ["bob", "--limit", "1/h"];
    let with = |verb| [&[verb][..], &bob].concat();
    for _ in 0..3 {
        assert_eq!(place.code(&with("peek")), 0);
    }
    assert_eq!(place.code(&with("check")), 0);
    assert_eq!(place.code(&with("peek")), 1);
    let (code, out, _) = place.run(&with("reset"));
    assert_eq!((code, out.as_str()), (0, "reset bob (1/h via sliding_log)\n"));
    let (code, out, _) = place.run(&with("reset"));
    assert_eq!((code, out.as_str()), (0, "nothing was held for bob (1/h via sliding_log)\n"));
    assert_eq!(place.code(&with("check")), 0);
}

#[test]
fn adjustments_give_and_take_within_their_bound() {
    let place = Place::new();
    let adjust = |by: &str| place.run(&["adjust", "bob", "--limit", "3/h", "--by", by]);
    assert_eq!(place.code(&["check", "bob", "--limit", "3/h", "--cost", "3"]), 0);
    let (code, out, _) = adjust("+2");
    assert_eq!(code, 0);
    assert_eq!(
        out,
        "gave back 2 units to bob: 2 of 3 left (3/h via sliding_log)\n\
         bound: any window that holds this admits at most 2 units more than the limit's own bound\n"
    );
    // A fresh subject has nothing that could be given back, so nothing more is admitted.
    let (code, out, _) = place.run(&["adjust", "ann", "--limit", "3/h", "--by", "+2"]);
    assert_eq!(code, 0);
    assert_eq!(out, "nothing was charged to ann: 3 of 3 left (3/h via sliding_log)\n");
    let (_, out, _) = adjust("-1");
    assert!(out.starts_with("took 1 unit from bob: 1 of 3 left"), "{out}");
    let (_, out, _) = adjust("-7");
    assert!(out.starts_with("took 1 unit from bob: 0 of 3 left"), "{out}");
    let json = place.json(&["adjust", "bob", "--limit", "3/h", "--by", "5", "--json"]);
    assert_eq!(json["limits"][0]["remaining_changed_by"], 3, "{json}");
    assert_eq!(json["limits"][0]["remaining"], 3);
}

#[test]
fn inspect_shows_what_is_held() {
    let place = Place::new();
    let (code, out, _) = place.run(&["inspect", "bob", "--limit", "3/h"]);
    assert_eq!(code, 0);
    assert!(out.ends_with("nothing is held: fresh\n"), "{out}");
    assert_eq!(place.code(&["check", "bob", "--limit", "3/h", "--cost", "2"]), 0);
    let (_, out, _) = place.run(&["inspect", "bob", "--limit", "3/h"]);
    for says in ["1 of 3 left, 2 used", "1 event held", "cost 2", "fresh at 2"] {
        assert!(out.contains(says), "{says} is not in {out}");
    }
    let json = place.json(&["inspect", "bob", "--limit", "3/h", "--json"]);
    let one = &json["subjects"][0];
    assert_eq!(one["held"]["written_under"], "3/h via sliding_log");
    assert_eq!(one["held"]["logs"][0][0][1], 2);
    assert_eq!(one["peek"]["remaining"], 1);
}

#[test]
fn the_default_store_is_in_the_state_folder_for_its_user_only() {
    let place = Place::new();
    let check = || {
        place.tollgate(&["check", "zoo", "--limit", "1/h"]).env_remove("TOLLGATE_STORE").output()
    };
    assert_eq!(check().unwrap().status.code(), Some(0));
    let folder = place.path().join(".local/state/tollgate");
    assert!(folder.join("tollgate.db").is_file());
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(check().unwrap().status.code(), Some(1));
    // Another folder holds other counts; `--store` goes over the environment.
    let state = place.path().join("state");
    let mut other = place.tollgate(&["check", "zoo", "--limit", "1/h"]);
    other.env("TOLLGATE_STORE", "").env("XDG_STATE_HOME", &state);
    assert_eq!(other.output().unwrap().status.code(), Some(0));
    assert!(state.join("tollgate/tollgate.db").is_file());
    let url = format!("sqlite://{}?sync=full", state.join("tollgate/tollgate.db").display());
    assert_eq!(place.code(&["check", "zoo", "--limit", "1/h", "--store", &url]), 1);
}

//! `queue look`: jobs that wait and jobs in hand, in a file and on a Redis.

use serde_json::json;

use crate::Place;
use crate::redis;

/// The same on every kind of store.
fn everywhere(check: impl Fn(&Place, &str)) {
    let place = Place::new();
    check(&place, &place.store());
    let place = Place::new();
    let Some((_redis, store)) = redis::start(place.path(), &[]) else { return };
    check(&place, &store);
}

/// The exit code and stdout; stderr is empty.
fn run_queue(place: &Place, store: &str, words: &[&str]) -> (i32, String) {
    let (code, out, err) = place.run(&[&["queue"], words, &["--store", store]].concat());
    assert_eq!(err, "", "{words:?}");
    (code, out)
}

#[test]
fn jobs_are_looked_at_and_not_taken() {
    everywhere(|place, store| {
        let (code, _, err) = place.run(&["queue", "look", "mail", "--store", store]);
        assert!(code == 2 && err.contains("there is no queue `mail` there"), "{err}");
        for n in 0..4 {
            let push = ["push", "mail", "--bound", "9", "to=ann", &format!("n={n}")];
            assert_eq!(run_queue(place, store, &push).0, 0);
        }
        // One fails and is put off for an hour; one is in hand while it looks itself.
        let look = format!("\"$PROGRAM\" queue look mail --json --store '{store}'; exit 3");
        let work = ["--max-jobs", "2", "--concurrency", "2", "--pause", "1h", "--max-pause", "1h"];
        let work = [&["queue", "work", "mail", "--exec", &look, "--store", store], &work[..]];
        let mut work = place.tollgate(&work.concat());
        work.env("PROGRAM", assert_cmd::cargo::cargo_bin!("tollgate"));
        let seen = String::from_utf8(work.output().unwrap().stdout).unwrap();
        let seen: serde_json::Value =
            serde_json::Deserializer::from_str(&seen).into_iter().next().unwrap().unwrap();
        let held = seen["in_hand"].as_array().unwrap();
        assert!(held.iter().any(|job| job["held"] == true && job["deliveries"] == 1), "{seen}");
        let before = run_queue(place, store, &["stats", "mail", "--json"]).1;
        let (_, out) = run_queue(place, store, &["look", "mail", "--json"]);
        let look: serde_json::Value = serde_json::from_str(&out).unwrap();
        let (waiting, in_hand) = (&look["waiting"], &look["in_hand"]);
        assert_eq!((waiting.as_array().unwrap().len(), in_hand.as_array().unwrap().len()), (2, 2));
        assert_eq!(waiting[0]["fields"], json!({"to": "ann", "n": "2"}));
        let out_job = &in_hand[0];
        assert_eq!(
            (&out_job["held"], &out_job["deliveries"], &out_job["why"]),
            (&json!(false), &json!(1), &json!("exited with 3"))
        );
        // Shorter by chance by up to half.
        let back = out_job["back_us"].as_u64().unwrap();
        assert!((1_700_000_000..=3_600_000_000).contains(&back), "{back}");
        assert!(waiting[0]["age_us"].as_u64().unwrap() < 60_000_000);
        let (code, out) = run_queue(place, store, &["look", "mail", "--first", "1"]);
        let rows: Vec<&str> = out.lines().collect();
        assert_eq!((code, rows.len()), (0, 4), "{out}");
        assert!(rows[2].contains("waiting") && rows[2].trim_end().ends_with("to=ann n=2"), "{out}");
        assert!(rows[3].contains("delayed") && rows[3].contains(" in "), "{out}");
        let (_, out) = run_queue(place, store, &["look", "mail", "--in-hand", "--json"]);
        assert!(out.starts_with("{\"in_hand\":"), "{out}");
        let (_, out) = run_queue(place, store, &["look", "mail", "--waiting", "--json"]);
        assert!(out.starts_with("{\"waiting\":") && !out.contains("in_hand"), "{out}");
        let age = |text: &str| {
            let mut stats: serde_json::Value = serde_json::from_str(text).unwrap();
            stats["oldest_us"].take();
            stats
        };
        assert_eq!(age(&before), age(&run_queue(place, store, &["stats", "mail", "--json"]).1));
    });
}

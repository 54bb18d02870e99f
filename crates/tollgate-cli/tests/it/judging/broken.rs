//! Each broken limiter of the kit, as a program behind pipes: those that questions can show are
//! found, and their right forms are not.

#![allow(dead_code, reason = "the kit's own test uses the rest")]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some mistakes are just that

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;

use serde_json::Value;

use super::served::{SERVED, STORE_LIMITS};
use crate::Place;

#[path = "../../../../../proof/kit/tests/broken/clients.rs"]
pub(super) mod clients;
#[path = "../../../../../proof/kit/tests/broken/gcra.rs"]
pub(super) mod gcra;
#[path = "../../../../../proof/kit/tests/broken/kit.rs"]
pub(super) mod kit;
#[path = "../../../../../proof/kit/tests/broken/queue.rs"]
pub(super) mod queue;
#[path = "../../../../../proof/kit/tests/broken/several.rs"]
pub(super) mod several;
#[path = "../../../../../proof/kit/tests/broken/sim.rs"]
pub(super) mod sim;
#[path = "../../../../../proof/kit/tests/broken/table.rs"]
pub(super) mod table;
#[path = "../../../../../proof/kit/tests/broken/windows.rs"]
pub(super) mod windows;

use kit::STORES;
use table::{LIMITERS, QUEUES};

/// Those that no question of a driver shows, and why. The queues are all of this kind.
const NOT_SHOWN: [(&str, &str); 3] = [
    ("refunds whatever counts now", "a driver asks for no refund"),
    ("resets by a pattern", "a driver asks for no reset"),
    ("charges several subjects one by one", "a question has one subject"),
];

/// The limits of a limiter.
fn limits_of(name: &str) -> &'static str {
    let found = LIMITERS.iter().find(|row| row.name == name);
    found.map_or(STORE_LIMITS, |row| row.load.limits[0])
}

/// The exit code and the report of a judgement of this test binary, as the program that it is when
/// it is started for that, with more arguments.
pub(super) fn judged(place: &Place, form: &str, name: &str, more: &[&str]) -> (i32, Value) {
    let binary = std::env::current_exe().unwrap();
    let program = format!(
        "sh -c \"exec '{}' --exact judging::served::served_as_a_program 3>&1 >/dev/null\"",
        binary.display()
    );
    let args = ["judge", "--json", "-l", limits_of(name), "--command", &program];
    let args = [&args[..], more].concat();
    let output = place.tollgate(&args).env(SERVED, format!("{form} {name}")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout);
    (output.status.code().unwrap(), report.unwrap_or_else(|_| panic!("{form} {name}: {said}")))
}

/// The broken promises of a report, with their reasons.
pub(super) fn broken(report: &Value) -> Vec<String> {
    let rows = report["verdicts"].as_array().unwrap().iter();
    let broken = rows.filter(|row| row["verdict"] == "broken");
    broken.map(|row| format!("{}: {}", row["promise"], row["reason"])).collect()
}

/// Runs on all of a list, by two threads.
fn each(names: Vec<String>, run: impl Fn(&str) + Sync) {
    let left = Mutex::new(names);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(name) = { left.lock().unwrap().pop() } {
                    run(&name);
                }
            });
        }
    });
}

#[test]
fn each_broken_limiter_that_questions_can_show_is_found() {
    let place = Place::new();
    let shown = |name: &&str| !NOT_SHOWN.iter().any(|(other, _)| other == name);
    let names = LIMITERS.iter().map(|row| row.name).chain(STORES.iter().map(|(name, ..)| *name));
    let names: Vec<String> = names.filter(shown).map(str::to_owned).collect();
    assert_eq!(names.len() + NOT_SHOWN.len() + QUEUES.len(), 52);
    let missed = Mutex::new(Vec::new());
    each(names, |name| {
        let (code, report) = judged(&place, "wrong", name, &[]);
        let found = broken(&report);
        println!("{name}: {found:?}");
        if (code, report["verdict"].as_str()) != (1, Some("broken")) {
            missed.lock().unwrap().push(name.to_owned());
        }
        for row in report["verdicts"].as_array().unwrap() {
            assert_eq!(row["verdict"] == "broken", row.get("history").is_some(), "{name}: {row}");
        }
    });
    assert_eq!(missed.into_inner().unwrap(), Vec::<String>::new(), "not found");
}

#[test]
fn no_right_form_of_a_broken_limiter_is_called_broken() {
    let place = Place::new();
    // Many have the same right form: one of each kind is enough.
    let mut kinds = BTreeSet::new();
    let is_new = |row: &&table::Row| {
        let load = row.load;
        let asks = (load.costs.len() > 1, load.costs.iter().any(|cost| *cost < 1), load.repeats);
        kinds.insert((load.limits, asks, load.failover, load.subjects, load.clock_steps.len()))
    };
    let names = LIMITERS.iter().filter(is_new).map(|row| row.name.to_owned());
    let mut names: Vec<String> = names.collect();
    // Its replies are lost, and its store is away.
    for name in ["sends again when a reply is lost", "allows when the store is away"] {
        if !names.iter().any(|other| other == name) {
            names.push(name.to_owned());
        }
    }
    names.push(STORES[0].0.to_owned());
    each(names, |name| {
        let (code, report) = judged(&place, "right", name, &[]);
        assert_eq!((code, broken(&report)), (0, Vec::new()), "{name}");
        let bound = &report["verdicts"][0];
        assert_eq!((&bound["promise"], &bound["verdict"]), (&"bound".into(), &"kept".into()));
    });
}

//! `advise --apply` and `--check`, `--each` and `--limits 2`: from a log to a limit in force.

use std::fmt::Write as _;

use serde_json::Value;

use crate::Place;
use crate::replaying::BUNDLED;
use crate::serving::Serving;

/// People who ask `most` times in a minute, over three hours.
fn people(place: &Place, name: &str, most: u64) -> String {
    let mut log = String::new();
    for person in 0..50 {
        for visit in 0..3 {
            for n in 0..most {
                let at = 1_700_000_000 + visit * 3_600 + person * 30 + n / 4;
                writeln!(log, "{{\"ts\":{at},\"ip\":\"10.0.0.{person}\"}}").unwrap();
            }
        }
    }
    // It ends after four hours.
    log.push_str("{\"ts\":1700014400,\"ip\":\"10.0.0.1\"}\n");
    let path = place.path().join(name);
    std::fs::write(&path, log).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_limit_is_applied_in_shadow_then_checked_then_in_force() {
    let place = Place::new();
    let log = people(&place, "access.log", 40);
    let file = place.path().join("p.toml");
    // A file with a policy of its own keeps it, comments included.
    let own = "# Ours.\nversion = 1\n[[policies]]\nname = \"login\"\non_failure = \"deny\"\n\
               when = { path = \"/login\" }\nlimits = [{ subject = \"ip\", limit = \"5/m\" }]\n";
    std::fs::write(&file, own).unwrap();
    let path = file.to_str().unwrap();
    let (code, out, error) = place.run(&["advise", &log, "--apply", path]);
    assert_eq!(code, 0, "{error}");
    let steps = [format!("tollgate serve --config {path} --record"), format!("--check {path}")];
    assert!(steps.iter().all(|step| out.contains(step)), "{out}");
    let text = std::fs::read_to_string(&file).unwrap();
    // What it did not say, which policies count, is said now.
    let with_match = own.replace("version = 1\n", "version = 1\nmatch = \"all\"\n");
    assert!(text.starts_with(&with_match) && text.contains("shadow = true"), "{text}");
    let (code, out, error) = place.run(&["config", "check", "--deny-warnings", path]);
    assert_eq!(code, 0, "{out}{error}");

    // In the service it counts, and denies nobody.
    let record = place.path().join("checks.jsonl");
    let record = record.to_str().unwrap();
    let serving = Serving::start(&place, &["--config", path, "--record", record]);
    let mut client = serving.client();
    for n in 0..60 {
        let answer = client.check(r#"{"fields": {"ip": "192.0.2.7", "path": "/"}}"#).unwrap();
        assert_eq!(answer["allowed"], true, "{answer}");
        let shadow = if n < 40 { "allowed" } else { "denied" };
        assert_eq!(answer["shadows"][0]["outcome"], shadow, "{n}: {answer}");
    }
    drop(client);
    serving.end();
    assert_eq!(std::fs::read_to_string(record).unwrap().lines().count(), 60);

    // The same people keep to it; others who ask for twice as much do not.
    let held = place.json(&["advise", &log, "--check", path, "--json"]);
    assert_eq!(
        (&held["checked"]["holds"], &held["checked"]["clients_denied"]),
        (&true.into(), &0.into())
    );
    assert_eq!(held["checked"]["limit"], held["recommended"]["limit"]);
    let loud = people(&place, "loud.log", 90);
    let (code, out, error) = place.run(&["advise", &loud, "--check", path]);
    assert_eq!(code, 1, "{error}");
    assert!(out.contains("did not hold") && out.contains("denies 50 clients"), "{out}");
    // And a limit in the file is read, whatever made it.
    std::fs::write(&file, text.replace("burst 40", "burst 90").replace("shadow = true\n", ""))
        .unwrap();
    let (code, out, _) = place.run(&["advise", &loud, "--check", path]);
    assert_eq!(code, 0, "{out}");

    let (code, _, error) = place.run(&["advise", &log, "--apply", path]);
    assert_eq!(code, 2);
    assert!(error.contains("has a policy `advised` already"), "{error}");
}

#[test]
fn a_file_that_policies_cannot_be_added_to_or_checked_is_an_error() {
    let place = Place::new();
    let log = people(&place, "access.log", 20);
    let write = |name: &str, text: &str| {
        let path = place.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let yaml = write("p.yaml", "version: 1\n");
    let broken = write("broken.toml", "version = 1\n[[policies]]\nname = 3\n");
    let own = "version = 1\nmatch = \"all\"\n[[policies]]\nname = \"own\"\non_failure = \"deny\"\n\
               limits = [{ subject = \"ip\", limit = \"5/m\" }]\n";
    let all = write("all.toml", own);
    for (args, reason) in [
        (vec!["--apply", &yaml], "added to a TOML file"),
        (vec!["--apply", &broken], "broken.toml:3"),
        (vec!["--apply", "/nowhere/p.toml"], "/nowhere"),
        (vec!["--each", "path", "--apply", &all], "`match = \"first\"`"),
        (vec!["--check", &all], "has no policy `advised`"),
        (vec!["--check", "absent.toml"], "absent.toml"),
        (vec!["--check", &all, "--per", "1m"], "cannot be used with"),
        (vec!["--each", "path", "--per", "1m"], "cannot be used with"),
        (vec!["--limits", "3"], "3 is not in 1..=2"),
        (vec!["--limits", "2", "--strategy", "sliding_log"], "--limits 2 adds to"),
        (vec!["--each", "nothing"], "nothing"),
        (vec!["--each", "all"], "name a field, such as `path`"),
        (vec!["--each", "ip"], "distinguishes the clients by it already"),
    ] {
        let (code, out, error) = place.run(&[&["advise", &log], &args[..]].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {error}");
        assert!(error.contains(reason), "{args:?}: {error}");
    }
    assert_eq!(std::fs::read_to_string(&all).unwrap(), own, "nothing is written");
}

#[test]
fn each_endpoint_has_a_limit_and_the_policies_deny_what_the_table_says() {
    let place = Place::new();
    let file = place.path().join("each.toml");
    let file = file.to_str().unwrap();
    let args = ["advise", BUNDLED, "--each", "path", "--policy", file, "--json"];
    let advice = place.json(&args);
    let values = advice["values"].as_array().unwrap();
    assert_eq!(values.len(), 20);
    let (code, out, error) = place.run(&["config", "check", "--deny-warnings", file]);
    assert_eq!(code, 0, "{out}{error}");
    // The whole log under the whole file: the policies deny what the rows say in all.
    let report = place.json(&["replay", BUNDLED, "--policy", file, "--json"]);
    let denied: u64 = values.iter().map(|row| row["requests_denied"].as_u64().unwrap()).sum();
    assert_eq!(report["denied"].as_u64().unwrap(), denied, "{report}");
    let (code, out, _) = place.run(&args[..4]);
    assert_eq!(code, 0);
    for row in values {
        assert!(out.contains(row["limit"].as_str().unwrap()), "{row}");
    }
    assert!(out.contains("have no limit here"), "{out}");
    // All requests for an endpoint together are one client of it.
    let together = place.json(&[&args[..4], &["--by", "all", "--json"]].concat());
    assert!(together["values"].as_array().unwrap().iter().all(|row| row["clients"] == 1));
    assert_eq!(together["values"][0]["requests"], values[0]["requests"]);
}

#[test]
fn a_window_beside_the_rate_denies_nobody_else() {
    let place = Place::new();
    let advice = |more: &[&str]| {
        let args = [&["advise", BUNDLED, "--json"], more].concat();
        place.json(&args)["recommended"].clone()
    };
    let (one, two) = (advice(&[]), advice(&["--limits", "2"]));
    let text = |it: &Value| it["limit"].as_str().unwrap().to_owned();
    assert!(text(&two).starts_with(&format!("{}, ", text(&one))), "{two}");
    assert_eq!(two["clients_denied"], one["clients_denied"]);
    assert!(two["worst_window"].as_u64() < one["worst_window"].as_u64(), "{two}");
}

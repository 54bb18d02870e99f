//! `diff` and `replay --policy`: policy files over a log.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::Place;
use crate::replaying::{BUNDLED, copies};

const OLD: &str = r#"
version = 1
match = "first"

[[policies]]
name = "images"
on_failure = "allow"
when = { path = "/images/*" }
limits = [{ subject = "ip", limit = "3/10s via sliding_log" }]

[[policies]]
name = "rest"
on_failure = "allow"
limits = [{ subject = ["ip", "method"], limit = "20/1m via fixed_window" }]
"#;

const NEW: &str = r#"
version = 1
match = "all"

[[policies]]
name = "images"
on_failure = "allow"
when = { path = "/images/*" }
limits = [{ subject = "ip", limit = "5/10s via gcra" }]

[[policies]]
name = "robots"
on_failure = "deny"
when = { header.user-agent = ["Googlebot*", "Mozilla/5.0 (compatible; *"] }
limits = [{ subject = "header.user-agent", limit = "10/1m via sliding_window", absent = "skip" }]

[[policies]]
name = "everybody"
on_failure = "allow"
limits = [{ subject = "pool=all", limit = "100/1m via token_bucket" }]
"#;

fn write(place: &Place, name: &str, text: &str) -> String {
    let path = place.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The cells of a row of CSV.
fn cells(row: &str) -> Vec<String> {
    let (mut all, mut cell, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut chars = row.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => all.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
    }
    all.push(cell);
    all
}

/// By line: the other cells.
fn rows(path: &str) -> BTreeMap<u64, [String; 4]> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("line,at_us,client,admitted,policy"));
    lines
        .map(|row| {
            let [line, rest @ ..]: [String; 5] = cells(row).try_into().unwrap();
            (line.parse().unwrap(), rest)
        })
        .collect()
}

/// Compares a diff with two replays, line by line. This reads nothing but what the program writes.
fn is_two_replays(place: &Place, log: &str, [old, new]: [&str; 2], options: &[&str]) -> Value {
    let replayed = |file: &str, name: &str| {
        let csv = place.path().join(name).to_str().unwrap().to_owned();
        let args = [&["replay", log, "--policy", file, "--csv", &csv, "--json"], options].concat();
        let report = place.json(&args);
        let rows = rows(&csv);
        let denied = rows.values().filter(|row| row[2] == "false").count() as u64;
        assert_eq!(report["denied"].as_u64(), Some(denied), "{report}");
        assert_eq!(report["events"].as_u64(), Some(rows.len() as u64));
        rows
    };
    let (before, after) = (replayed(old, "old.csv"), replayed(new, "new.csv"));
    let csv = place.path().join("diff.csv").to_str().unwrap().to_owned();
    let args = [&["diff", old, new, "--log", log, "--csv", &csv, "--json"], options].concat();
    let (code, out, err) = place.run(&args);
    let diff: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{err}"));
    let mut expected = BTreeMap::new();
    for (line, [at_us, client, was, by]) in &before {
        let [same_at, same_client, is, now_by] = &after[line];
        assert_eq!((at_us, client), (same_at, same_client));
        if was != is {
            let by = if is == "true" { by } else { now_by };
            expected.insert(*line, [at_us, client, is, by].map(String::clone));
        }
    }
    assert_eq!(rows(&csv), expected);
    assert_eq!(code, i32::from(!expected.is_empty()));
    for (direction, admitted) in [("to_denied", "false"), ("to_admitted", "true")] {
        let mut by_policy: BTreeMap<&str, Vec<(u64, &[String; 4])>> = BTreeMap::new();
        for (line, row) in expected.iter().filter(|(_, row)| row[2] == admitted) {
            by_policy.entry(&row[3]).or_default().push((*line, row));
        }
        let found = &diff[direction];
        let total: usize = by_policy.values().map(Vec::len).sum();
        assert_eq!(found["requests"].as_u64(), Some(total as u64), "{direction}");
        let policies = found["policies"].as_array().unwrap();
        assert_eq!(policies.len(), by_policy.len());
        for policy in policies {
            let mut rows = by_policy[policy["policy"].as_str().unwrap()].clone();
            assert_eq!(policy["requests"].as_u64(), Some(rows.len() as u64));
            // The first by time; lines of one time are in the order of the log.
            rows.sort_by_key(|(line, row)| (row[0].parse::<u64>().unwrap(), *line));
            let lines: Vec<u64> = rows.iter().take(5).map(|(line, _)| *line).collect();
            let examples = policy["examples"].as_array().unwrap();
            let found: Vec<u64> = examples.iter().map(|it| it["line"].as_u64().unwrap()).collect();
            assert_eq!(found, lines);
            let mut clients: Vec<&str> = rows.iter().map(|(_, row)| row[1].as_str()).collect();
            clients.sort_unstable();
            clients.dedup();
            assert_eq!(policy["clients"].as_u64(), Some(clients.len() as u64));
        }
    }
    diff
}

#[test]
fn a_diff_is_two_replays_compared_line_by_line() {
    let place = Place::new();
    let (old, new) = (write(&place, "old.toml", OLD), write(&place, "new.toml", NEW));
    for options in [&[][..], &["--spread", "3"], &["--by", "agent"], &["--by", "ip,path"]] {
        let diff = is_two_replays(&place, BUNDLED, [&old, &new], options);
        let changed = |direction: &str| diff[direction]["requests"].as_u64().unwrap();
        assert!(changed("to_denied") > 100 && changed("to_admitted") > 100, "{diff}");
        assert!(diff["requests"].as_u64().unwrap() > 9_800);
    }
    let same = is_two_replays(&place, BUNDLED, [&old, &old], &[]);
    assert_eq!(same["to_denied"]["requests"], 0);
}

/// The lines of the log, so that an example can be looked up.
#[test]
fn an_example_names_a_line_of_the_log() {
    let place = Place::new();
    let mut log = String::from("no line\n");
    for (second, client) in [(9, "::b"), (5, "::a"), (6, "::a"), (7, "::a"), (8, "::b")] {
        writeln!(log, "{{\"ts\":{second},\"ip\":\"{client}\"}}").unwrap();
    }
    let log = write(&place, "log", &log);
    let (code, out, err) = place.run(&["diff", "3/1m", "2/1m", "--log", &log]);
    assert_eq!((code, err.as_str()), (1, ""));
    for says in [
        "5 events of 2 clients by ip",
        "from admitted to denied: 1 request of 1 client\n  by limit: 1 request of 1 client\n",
        "    most: ::a (1)\n    line 5: 1970-01-01T00:00:07Z ::a\n",
        "note: skipped 1 line\n  line 1:",
    ] {
        assert!(out.contains(says), "{says} is not in\n{out}");
    }
    assert!(!out.contains("from denied to admitted"), "{out}");
    let (code, out, _) = place.run(&["diff", "2/1m", "3/1m", "--log", &log]);
    assert!(code == 1 && out.contains("no longer by limit: 1 request"), "{out}");
    let (code, out, _) = place.run(&["diff", "3/1m", "5/1h", "--log", &log]);
    assert!(code == 0 && out.contains("nobody is decided otherwise"), "{out}");
}

/// A month of the calendar is another count than 30 days, unless a name makes them one.
#[test]
fn limits_that_begin_anew_are_noted() {
    let place = Place::new();
    let log = write(&place, "log", "{\"ts\":9,\"ip\":\"::a\"}\n");
    let file = |name: &str, limit: &str| {
        let limits = format!("limits = [{{ subject = \"ip\", limit = \"{limit}\" }}]\n");
        let policy = "version = 1\n[[policies]]\nname = \"api\"\non_failure = \"deny\"\n";
        write(&place, name, &format!("{policy}{limits}"))
    };
    let days = file("days.toml", "9/30d via fixed_window");
    let month = file("month.toml", "9/month in Europe/Berlin");
    let tokyo = file("tokyo.toml", "8/month in Asia/Tokyo from 15th");
    let named = ["a: 9/30d via fixed_window", "a: 9/month"];
    let [named, as_month] = [file("named.toml", named[0]), file("as_month.toml", named[1])];
    for (old, new, says) in [
        (
            &days,
            &month,
            "api: `9/month in Europe/Berlin via fixed_window` counts apart from `9/30d",
        ),
        (&month, &days, "counts apart from `9/month in Europe/Berlin via fixed_window`: with the"),
        (&month, &tokyo, ""),
        (&named, &as_month, ""),
    ] {
        let (code, out, err) = place.run(&["diff", old, new, "--log", &log]);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert!(out.contains(says), "{out}");
        assert_eq!(out.contains("begins anew"), !says.is_empty(), "{out}");
    }
}

#[test]
fn limits_and_policy_files_are_compared_with_each_other() {
    let place = Place::new();
    let file = write(
        &place,
        "same.toml",
        "version = 1\n[[policies]]\nname = \"one\"\non_failure = \"deny\"\n\
         limits = [{ subject = \"ip\", limit = \"5/10s via gcra\" }]\n",
    );
    let same = ["diff", "5/10s via gcra", &file, "--log", BUNDLED];
    assert_eq!(place.code(&same), 0, "a file and the same limit");
    let replayed = place.json(&["replay", BUNDLED, "-l", "5/10s via gcra", "--json"]);
    let diff = place.json(&[&same[..], &["--json"]].concat());
    assert_eq!(diff["old"]["denied"], replayed["strategies"][0]["denied"]);
    assert_eq!(diff["new"]["admitted"], replayed["strategies"][0]["admitted"]);
    let costs = ["--cost", "bytes", "--by", "all"];
    let limit = "10000000/1h via gcra";
    let replayed = [&["replay", BUNDLED, "-l", limit, "--json"], &costs[..]].concat();
    let replayed = place.json(&replayed);
    let diff = [&["diff", limit, limit, "--log", BUNDLED, "--json"], &costs[..]].concat();
    let diff = place.json(&diff);
    assert_eq!(diff["old"]["denied"], replayed["strategies"][0]["denied"]);
    assert!(diff["old"]["denied"].as_u64().unwrap() > 0);
}

#[test]
fn what_does_not_fit_is_an_error_with_the_remedy() {
    let place = Place::new();
    let (old, new) = (write(&place, "old.toml", OLD), write(&place, "new.toml", NEW));
    let broken = write(&place, "broken.toml", "version = 1\n[[policies]]\nname = \"a\"\n");
    let strange = write(&place, "policies.txt", OLD);
    let user = write(
        &place,
        "user.toml",
        "version = 1\n[[policies]]\nname = \"one\"\non_failure = \"deny\"\n\
         limits = [{ subject = \"user\", limit = \"5/10s\", absent = \"skip\" }]\n",
    );
    let nothing = write(&place, "nothing.log", "hello\n");
    for (args, says) in [
        (&["diff", &old, &user, "--log", BUNDLED][..], "read user, which no line of the log has"),
        (
            &["diff", &old, &new, "--log", BUNDLED, "--field", "route=path"],
            "no policy reads `route`",
        ),
        (&["diff", &old, &new, "--log", BUNDLED, "--field", "path"], "write FIELD=LOGFIELD"),
        (&["diff", &old, &new, "--log", BUNDLED, "--field", "rout=path"], "did you mean `route`"),
        (&["diff", &old, &broken, "--log", BUNDLED], "broken.toml"),
        (&["diff", &old, "none.toml", "--log", BUNDLED], "none.toml"),
        (&["diff", &old, &strange, "--log", BUNDLED], "a policy file ends in .toml, .yaml or .yml"),
        (&["diff", "5/10s", "5/10x", "--log", BUNDLED], "unknown unit of time"),
        (&["diff", &old, &new, "--log", &nothing], "no line of the log is an event"),
        (&["diff", &old, &new, "--log", "no-such.log"], "no-such.log: no such file"),
        (&["diff", &old, &new], "--log"),
        (&["diff", &old, &new, "--log", BUNDLED, "--max-clients", "9"], "more than 9 different"),
        (&["diff", &old, &new, "--log", BUNDLED, "--csv", "/nowhere/x"], "/nowhere/x"),
        (&["replay", BUNDLED, "--policy", &old, "--limit", "5/s"], "cannot be used with"),
        (&["replay", BUNDLED, "--limit", "5/s", "--csv", "x.csv"], "--policy"),
        (&["replay", BUNDLED, "--limit", "5/s", "--field", "a=b"], "only a policy file has fields"),
        (&["replay", BUNDLED, "--policy", &user], "`--field user=NAME` names the field"),
    ] {
        let (code, out, err) = place.run(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.starts_with("error: ") && err.contains(says), "{args:?} says\n{err}");
    }
    let absent = ["replay", BUNDLED, "--policy", &user, "--field", "user=", "--json"];
    let report = place.json(&absent);
    assert_eq!((&report["denied"], &report["admitted"]), (&0.into(), &10_000.into()));
}

#[test]
fn an_interrupted_diff_leaves_no_file() {
    let place = Place::new();
    let folder = place.path().join("out");
    std::fs::create_dir(&folder).unwrap();
    let csv = folder.join("changed.csv");
    let mut args = vec!["diff", "5/10s", "1/1h via gcra", "--csv", csv.to_str().unwrap()];
    // Long enough that it still decides when its file is seen.
    let copies = copies(&place, 60);
    args.extend(copies.iter().flat_map(|copy| ["--log", copy]));
    let mut command = place.std(&args);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let files = || std::fs::read_dir(&folder).unwrap().count();
    let mut seen = 0;
    // The file that shows that the folder can be written to is there for a moment before.
    while seen < 1_000 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it wrote anything");
        seen = if files() == 1 { seen + 1 } else { 0 };
    }
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{err}");
    assert!(err.contains("interrupted: nothing is written"), "{err}");
    assert_eq!(files(), 0);
}

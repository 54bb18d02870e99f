//! Every command in a terminal of 80 columns.

use std::process::Command;

use crate::Place;
use crate::redis;
use crate::replaying::BUNDLED;
use crate::serving::Serving;

const COLUMNS: usize = 80;

/// Commands whose output is for programs, or is copied: it is never wrapped.
const EXACT: [&str; 6] = ["serve", "run", "scripts", "completions", "man", "hash-key"];

/// A policy file whose names and limits are long.
const POLICIES: &str = r#"
version = 1
match = "all"

[[policies]]
name = "members-of-organisations"
on_failure = { local = "25 %" }
when = { path = "/api/v1/organisations/*/members", method = ["GET", "POST", "DELETE"] }
limits = [{ subject = ["ip", "user"], absent = { user = "skip" }, limit = "10/s, 240/h, 1000/d via gcra" }]

[[policies]]
name = "everybody"
on_failure = "allow"
limits = [{ subject = "ip", limit = "100/s burst 200 via token_bucket" }]
"#;

/// A file with an error.
const BROKEN: &str =
    "version = 1\n[[policies]]\nname = \"a\"\nlimits = [{ subject = \"ip\", limit = \"ten\" }]\n";

impl Place {
    /// The output in this many columns.
    fn in_columns(&self, columns: usize, args: &[&str]) -> String {
        let output = self.tollgate(args).env("COLUMNS", columns.to_string()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!error.contains("error: ") && !output.stdout.is_empty(), "{args:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// The lines that are too wide. A line of one word cannot be narrower, and a line of a file or of
/// code is shown as it is.
fn too_wide(out: &str) -> Vec<&str> {
    let mut is_code = false;
    let wide = out.lines().filter(|line| {
        // The policy file of an advice is the end of its output.
        is_code ^= line.trim_start().starts_with("```") || line.starts_with("The policy file (");
        let text = line.trim();
        let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_quoted = digits.trim_start().starts_with("| ") || text.starts_with("--> ");
        line.chars().count() > COLUMNS && text.contains(' ') && !is_code && !is_quoted
    });
    wide.collect()
}

/// Runs each of these, and returns the commands that were run.
fn fit<'a>(place: &Place, runs: &[Vec<&'a str>]) -> Vec<&'a str> {
    for args in runs {
        let out = place.in_columns(COLUMNS, args);
        assert_eq!(too_wide(&out), [""; 0], "{args:?}\n{out}");
    }
    runs.iter().map(|args| args[0]).collect()
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// The runs that need neither a service nor a server.
fn offline<'a>(policies: &'a str, old: &'a str, broken: &'a str) -> Vec<Vec<&'a str>> {
    let subject = "route:/api/v1/organisations/{id}/members,user:anneliese.mustermann";
    let limits = ["--limit", "10/s", "--limit", "240/h via gcra", "--limit", "1000/d"];
    let counted =
        |command: &'a str, more: &[&'a str]| [&[command, subject], &limits[..], more].concat();
    let log = ["advise", BUNDLED];
    let queue = |line: &'a str| [&["queue"], &words(line)[..]].concat();
    let long = "to=anneliese.mustermann@organisation.example";
    vec![
        counted("check", &[]),
        counted("peek", &[]),
        counted("reserve", &["--ttl", "1m"]),
        counted("charge", &["--cost", "30"]),
        counted("inspect", &[]),
        vec!["credit", subject, "--limit", "1000/m", "--units", "5000", "--for", "30d"],
        vec!["adjust", subject, "--limit", "1000/m", "--by", "+20"],
        counted("reset", &[]),
        words("explain 100000/s,240/h --nodes 4 --local 25% --strategy gcra"),
        log.to_vec(),
        [&log[..], &["--per", "10s,1m,1h"]].concat(),
        [&log[..], &["--by", "ip,path"]].concat(),
        vec!["replay", BUNDLED, "--limit", "5/10s", "--limit", "240/h", "--strategy", "all"],
        vec!["replay", BUNDLED, "--policy", policies, "--field", "user=agent"],
        vec!["diff", old, policies, "--log", BUNDLED, "--field", "user=agent"],
        vec!["config", "check", policies],
        vec!["config", "check", broken],
        words("lab zoo 40 30"),
        words("lab sides"),
        words("lab race"),
        words("lab queue --offers 19/s --for 30s"),
        queue("push mail --bound 20 --client anneliese.mustermann")
            .into_iter()
            .chain([long, "n=1"])
            .collect(),
        queue("push mail").into_iter().chain([long, "n=2"]).collect(),
        words("help"),
    ]
}

#[test]
fn every_command_fits_into_80_columns() {
    let place = Place::new();
    let write = |name: &str, text: &str| {
        let path = place.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let policies = write("policies-of-the-whole-organisation-2026-11-30.toml", POLICIES);
    let old = write("old.toml", &POLICIES.replace("240/h", "24/h").replace("100/s", "1/s"));
    let broken = write("broken.toml", BROKEN);
    let mut seen = fit(&place, &offline(&policies, &old, &broken));
    // One of the jobs is dead, and one is in the queue.
    place.run(&words("queue work mail --exec false --max-jobs 1 --deliveries 1"));
    let queue = ["queue look mail", "queue list", "queue stats mail", "queue dead mail"];
    fit(&place, &queue.map(words));

    let serving = Serving::start(&place, &["--config", &policies]);
    let at = serving.admin_address();
    let port = serving.address().to_string();
    let check = format!("http://{port}/v1/check");
    let body = r#"{"subject": "{subject}", "limit": "5/10s via gcra", "cost": {cost}}"#;
    let judge = ["judge", "-l", "5/10s via gcra", "--within", "1s", "--http", &check];
    let subject = "ip:2001:db8:85a3:8d3:1319:8a2e:370:7344";
    for _ in 0..3 {
        let ask = "{\"fields\": {\"ip\": \"2001:db8:85a3:8d3:1319:8a2e:370:7344\"}}";
        serving.client().check(ask).unwrap();
    }
    let admin = |line: &'static str| [&["admin", "--at", &at], &words(line)[..]].concat();
    let of = ["--policy", "everybody"];
    seen.extend(fit(
        &place,
        &[
            vec!["health", &port],
            [&admin("inspect")[..], &[subject], &of].concat(),
            [&admin("peek")[..], &[subject], &of].concat(),
            admin("explain ip=2001:db8:85a3:8d3:1319:8a2e:370:7344 method=POST path=/login"),
            admin(
                "ban ip=2001:db8:85a3:8d3:1319:8a2e:370:7344 --for 1h --reason the-scan-of-a-range",
            ),
            admin("rulings"),
            admin("reloads"),
            admin("series"),
            admin("top"),
            vec!["top", "--once", "--at", &at],
            [&judge[..], &["--body", body, "--allowed", "json:/allowed=true"]].concat(),
        ],
    ));

    let arguments = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    let Some((_server, url)) = redis::start(place.path(), &arguments) else { return };
    seen.extend(fit(&place, &[vec!["doctor", "--store", &url]]));

    // No command is forgotten.
    let help = place.in_columns(COLUMNS, &["--help"]);
    let (_, rest) = help.split_once("Commands:\n").unwrap();
    let (commands, _) = rest.split_once("\n\n").unwrap();
    let listed =
        commands.lines().filter(|line| line.starts_with("  ") && !line[2..].starts_with(' '));
    for line in listed {
        let name = line.split_whitespace().next().unwrap();
        let tested = seen.contains(&name) || EXACT.contains(&name) || name == "commit";
        assert!(tested, "{name} is not tried in {COLUMNS} columns");
        let out = place.in_columns(COLUMNS, &[name, "--help"]);
        assert_eq!(too_wide(&out), [""; 0], "{name} --help");
    }
}

#[test]
fn every_page_is_printed_and_fits() {
    let place = Place::new();
    let list = place.in_columns(COLUMNS, &["help"]);
    let (_, pages) = list.split_once("\nPages (tollgate help PAGE):\n").unwrap();
    // A line that is further to the right continues the one above.
    let names = pages.lines().filter(|line| !line.starts_with("   "));
    let pages: Vec<&str> = names.map(|line| words(line.trim())[0]).collect();
    assert!(
        pages.len() > 40
            && ["advise", "doctor", "lab", "queue"].iter().all(|it| pages.contains(it))
    );
    for page in pages {
        let out = place.in_columns(COLUMNS, &["help", page]);
        assert!(out.starts_with("# "), "{page}: {out:.200}");
        assert_eq!(too_wide(&out), [""; 0], "{page}");
    }
}

#[test]
fn the_width_is_that_of_the_terminal_of_columns_or_80() {
    let place = Place::new();
    let explain = ["explain", "100/s burst 200 via token_bucket"];
    let widest = |out: &str| out.lines().map(|line| line.trim_end().chars().count()).max().unwrap();
    let usual = place.tollgate(&explain).env_remove("COLUMNS").output().unwrap();
    let usual = String::from_utf8(usual.stdout).unwrap();
    assert_eq!(usual, place.in_columns(80, &explain));
    assert!((70..=80).contains(&widest(&usual)), "{usual}");
    for wrong in ["0", "wide", ""] {
        let output = place.tollgate(&explain).env("COLUMNS", wrong).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), usual, "{wrong}");
    }
    assert!(widest(&place.in_columns(60, &explain)) <= 60);
    let wide = widest(&place.in_columns(200, &explain));
    assert!((81..=100).contains(&wide), "sentences end at 100: {wide}");
    // A table has the whole width, becomes narrower, and then is records.
    let advise = ["advise", BUNDLED, "--per", "1h"];
    assert!(
        place
            .in_columns(200, &advise)
            .lines()
            .any(|line| line.starts_with(" strategy ") && line.len() > 80)
    );
    let records = place.in_columns(40, &advise);
    assert!(records.contains("\nstrategy sliding_log\n  units "), "{records}");
    // A terminal of 60 columns.
    let program = assert_cmd::cargo::cargo_bin!("tollgate").display().to_string();
    let shell = format!("stty rows 24 cols 60 && '{program}' explain '{}'", explain[1]);
    let mut command = Command::new("script");
    command.args(["-qec", &shell, "/dev/null"]).env_remove("COLUMNS").env("NO_COLOR", "1");
    let output = command.output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap().replace('\r', "");
    assert_eq!(out, place.in_columns(60, &explain));
}

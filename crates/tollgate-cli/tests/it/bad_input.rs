//! Bad input: the problem, its place, and the correction. Exit 2, nothing on stdout.

use crate::Place;

/// The arguments must be refused, and the message must hold every one of these.
fn refused(place: &Place, args: &[&str], says: &[&str]) {
    let (code, out, err) = place.run(args);
    assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
    assert!(err.starts_with("error: "), "{err}");
    for part in says {
        assert!(err.contains(part), "{args:?} says\n{err}\nwithout\n{part}");
    }
}

#[test]
fn limits() {
    let place = Place::new();
    for (limit, says) in [
        ("", &["a limit is missing", "[NAME:] N/D"][..]),
        ("10", &["this is not a quota"]),
        ("0/s", &["\n  0/s\n  ^ give at least 1", "would never admit anything"]),
        ("-1/s", &["a quota cannot be negative"]),
        ("1.5/s", &["\n  ^^^ use a longer duration: `3/10s`", "whole number"]),
        ("99999999999999/s", &["the largest is 2^40"]),
        ("5/0s", &["a quota over no time at all means nothing"]),
        ("5/400d", &["longer than 366 days"]),
        ("5/1month", &["calendar periods", "`30d`"]),
        ("10/s via gcr", &["\n  10/s via gcr\n           ^^^ did you mean `gcra`?"]),
        ("10/s gcra", &["write `via gcra`"]),
        ("10/s burst 5 via sliding_log", &["`sliding_log` takes no `burst`", "`via` one that"]),
        ("10/s, 20/s", &["two limits have the identity `sliding_log/1s`", "name them"]),
        ("5000/h", &["via gcra", "at most 9999 in any 1h", "bytes per subject"]),
        ("1099511627776/366d via gcra", &["^"]),
        ("5/10s precision 3s via sliding_window", &["^^"]),
    ] {
        refused(&place, &["check", "zoo", "--limit", limit], says);
        refused(&place, &["explain", "--", limit], says);
        refused(&place, &["check", "--on", &format!("zoo={limit}")], says);
    }
    refused(
        &place,
        &["check", "zoo", "--limit", "5/s via gcra", "--strategy", "gcra"],
        &["leave out this `via`, or the `gcra` given beside the limit"],
    );
    refused(&place, &["check", "zoo", "-l", "5/s", "--strategy", "gcr"], &["did you mean `gcra`"]);
    let leaky = ["check", "zoo", "-l", "5/s", "--strategy", "leaky_bucket"];
    refused(&place, &leaky, &["a leaky bucket that meters is `gcra`"]);
}

#[test]
fn costs() {
    let place = Place::new();
    for (cost, says) in [
        ("0", "a cost of 0 would charge nothing: to look without charging, use `tollgate peek`"),
        ("-1", "a cost cannot be negative: to give units back, use `tollgate adjust"),
        ("1.5", "a cost is a whole number, not `1.5`"),
        ("1e3", "a cost is a whole number, not `1e3`"),
        ("1099511627777", "a cost of 1099511627777 is too large: the largest is 2^40"),
        ("99999999999999999999999", "too large: the largest is 2^40"),
        ("many", "write digits only, as in `5`"),
        ("", "a cost is missing"),
    ] {
        refused(&place, &["check", "zoo", "--limit", "5/s", "--cost", cost], &[says]);
    }
    refused(&place, &["peek", "zoo", "-l", "5/s", "-c", "0"], &["leave it out"]);
    refused(&place, &["adjust", "zoo", "-l", "5/s", "--by", "0"], &["changes nothing"]);
    refused(&place, &["adjust", "zoo", "-l", "5/s", "--by", "0.5"], &["a whole number"]);
}

#[test]
fn subjects() {
    let place = Place::new();
    for (subject, says) in [
        ("", &["a value is missing", "`dim:value`"][..]),
        ("user:", &["a value is missing"]),
        ("user:1,user:2", &["the dimension `user` is given twice"]),
        ("a:1,b:%4", &["\n  a:1,b:%4\n        ^^ write `%25` for a percent sign"]),
        (":x", &["is not the name of a dimension"]),
        ("b d:1", &["is not the name of a dimension"]),
    ] {
        refused(&place, &["check", subject, "--limit", "5/s"], says);
        refused(&place, &["check", "--on", &format!("{subject}=5/s")], says);
    }
    refused(&place, &["check"], &["no subject is given: write `SUBJECT --limit LIMIT`"]);
    refused(&place, &["check", "zoo"], &["no limit is given for `zoo`", "`--limit 10/s`"]);
    refused(&place, &["check", "--limit", "5/s"], &["no subject is given for `--limit`"]);
    refused(&place, &["check", "--on", "zoo"], &["`--on` takes SUBJECT=LIMIT"]);
    refused(&place, &["check", "zoo", "-l", "5/s", "--shard", ""], &["`--shard` is empty"]);
    let twice = ["check", "--on", "a=5/s", "--on", "a=6/s"];
    refused(&place, &twice, &["`a` is asked twice under the same limits"]);
    let two = ["adjust", "--on", "a=5/s", "--on", "b=5/s", "--by", "1"];
    refused(&place, &two, &["one subject at a time"]);
}

#[test]
fn stores() {
    let place = Place::new();
    let check = |url: &str, says: &[&str]| {
        refused(&place, &["check", "zoo", "--limit", "5/s", "--store", url], says);
    };
    check("memory://", &["would forget everything", "use `sqlite://PATH`"]);
    check(
        "redis+clusters://a",
        &["unknown kind of store `redis+clusters://`: this version has `sqlite"],
    );
    check("redis+cluster://a/1", &["a cluster has only database 0"]);
    check("redis+sentinel://a", &["write `redis+sentinel://HOST,HOST,HOST/NAME`"]);
    check("redis://a,b", &["nodes of a cluster are `redis+cluster://HOST,HOST`"]);
    check("redis://:secret@", &["the host is missing: write `redis://HOST`"]);
    check("postgres://localhost", &["unknown kind of store `postgres://`"]);
    check("sqlite://", &["the path is missing"]);
    check("sqlite:///x.db?sync=off", &["sync=full"]);
    let file = |name: &str| place.path().join(name);
    std::fs::write(file("notes.txt"), "these are my notes, and nobody's counts\n".repeat(30))
        .unwrap();
    let url = |name: &str| format!("sqlite://{}", file(name).display());
    check(&url("notes.txt"), &["notes.txt"]);
    check(&url(""), &["is a directory"]);
    check(&url("none/here.db"), &["does not exist"]);
    let notes = std::fs::read_to_string(file("notes.txt")).unwrap();
    assert!(notes.starts_with("these are my notes"), "the file was changed");
}

#[test]
fn unknown_words_are_met_with_a_suggestion() {
    let place = Place::new();
    refused(&place, &["chekc", "zoo"], &["unrecognized subcommand 'chekc'", "'check'"]);
    refused(&place, &["check", "zoo", "--limt", "5/s"], &["--limit"]);
    refused(&place, &["adjust", "zoo", "--limit", "5/s"], &["--by"]);
    refused(&place, &["run", "zoo", "--limit", "5/s"], &["COMMAND"]);
    refused(&place, &["queues", "push"], &["unrecognized subcommand 'queues'", "'queue'"]);
}

/// Each machine would count alone, in a file of that name.
#[test]
fn an_address_without_a_scheme_is_no_file() {
    let place = Place::new();
    let log = place.path().join("access.log");
    std::fs::write(&log, "").unwrap();
    let log = log.to_str().unwrap();
    let experiment = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/lab/storm.toml");
    for address in ["redis.prod:6379", "localhost:6379", "counts", "ann:s3cret@redis.prod:6379"] {
        for command in [
            &["check", "a", "--limit", "1/h"][..],
            &["peek", "a", "--limit", "1/h"],
            &["run", "a", "--limit", "1/h", "--", "true"],
            &["reset", "a", "--limit", "1/h"],
            &["inspect", "a", "--limit", "1/h"],
            &["queue", "list"],
            &["doctor"],
            &["replay", log, "--limit", "1/h"],
            &["lab", "run", experiment],
            &["serve", "--listen", "127.0.0.1:0"],
        ] {
            let at = command.iter().position(|word| *word == "--").unwrap_or(command.len());
            let (words, rest) = command.split_at(at);
            let args = [words, &["--store", address], rest].concat();
            let output = place.tollgate(&args).current_dir(place.path()).output().unwrap();
            let error = String::from_utf8(output.stderr).unwrap();
            let code = if command[0] == "run" { 125 } else { 2 };
            assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
            assert!(error.contains("scheme"), "{args:?}: {error}");
            assert!(!error.contains("s3cret"), "{args:?}: {error}");
            assert!(!place.path().join(address).exists(), "{address}");
        }
    }
}

/// One error is reported once.
#[test]
fn an_error_repeats_nothing() {
    let place = Place::new();
    let broken = place.path().join("policies.toml");
    std::fs::write(&broken, "version = 1\n[[policies]]\nnam = \"p\"\n").unwrap();
    let broken = broken.to_str().unwrap();
    for args in [
        &["check", "a", "--limit", "1/h", "--store", "redis://127.0.0.1:1"][..],
        &["serve", "--store", "sqlite:///nowhere/at/all"],
        &["serve", "--config", broken],
        &["serve", "--config", "/nowhere.toml"],
        &["check", "a", "--limit", "1/h", "--store", "sqlite:///nowhere/at/all"],
    ] {
        let (code, _, error) = place.run(args);
        assert_eq!(code, 2, "{args:?}: {error}");
        assert!(!error.contains("error: error:"), "{error}");
        assert!(!error.contains("goes on by itself"), "{error}");
        for (place, _) in error.match_indices("  because: ") {
            let (before, cause) = error.split_at(place);
            let cause = cause.trim_start_matches("  because: ").lines().next().unwrap();
            assert!(!before.contains(cause), "{error}");
        }
    }
}

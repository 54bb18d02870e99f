//! `scripts`: the output works when it is pasted into a shell, before a real server.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use crate::Place;
use crate::redis::{self, redis_cli};

/// A shell in which `redis-cli` reaches the test's server.
pub(crate) fn sh(place: &Place, text: &str) -> Output {
    sh_with(place, &format!("redis-cli -s '{}'", place.path().join("redis.sock").display()), text)
}

/// A shell in which `redis-cli` is this command.
pub(crate) fn sh_with(place: &Place, redis_cli: &str, text: &str) -> Output {
    let bin = place.path().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let program = bin.join("redis-cli");
    let path = std::env::var("PATH").unwrap();
    if !program.exists() {
        let text = format!("#!/bin/sh\nPATH='{path}' exec {redis_cli} \"$@\"\n");
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    Command::new("sh")
        .args(["-c", text])
        .env("PATH", format!("{}:{path}", bin.display()))
        .current_dir(place.path())
        .output()
        .unwrap()
}

/// The lines that a shell prints for this text.
pub(crate) fn pasted(place: &Place, text: &str) -> Vec<String> {
    let output = sh(place, text);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && error.is_empty(), "{error}\nfor\n{text}");
    let out = String::from_utf8(output.stdout).unwrap();
    out.lines().map(str::to_owned).collect()
}

pub(crate) fn printed(place: &Place, args: &[&str]) -> String {
    let (code, out, err) = place.run(&[&["scripts"], args].concat());
    assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
    out
}

#[test]
fn pasted_lines_admit_and_then_deny() {
    let place = Place::new();
    let Some(_server) = redis::start(place.path(), &[]) else { return };
    for strategy in tollgate::Strategy::RATES {
        let limit = format!("1/h via {}", strategy.name());
        let json = place.json(&["scripts", &limit, "--answer", "boolean", "--format", "json"]);
        let text = printed(&place, &[&limit, "--answer", "boolean"]);
        let sha = json["sha1"].as_str().unwrap();
        // The server's name for the script is the one that is called.
        assert_eq!(pasted(&place, &text), [sha, "1"], "{text}");
        assert_eq!(pasted(&place, &text), [sha, "0"], "{text}");
    }
}

#[test]
fn calendars_and_other_units_have_no_script() {
    let place = Place::new();
    for (limit, says) in [
        (
            "9/month in UTC",
            ["is of a calendar", "ask by tollgate, or give a duration, such as `30d`"],
        ),
        ("9/m of tokens via gcra", ["burst 9 via gcra` counts tokens", "leave `of tokens` out"]),
    ] {
        for args in [&["scripts", "5/h", limit][..], &["scripts", "--on", &format!("bob={limit}")]]
        {
            let (code, out, err) = place.run(args);
            assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
            assert!(says.iter().all(|part| err.contains(part)), "{args:?}: {err}");
        }
    }
}

#[test]
fn the_verbose_answer_says_how_long_to_wait() {
    let place = Place::new();
    let Some((_server, url)) = redis::start(place.path(), &[]) else { return };
    let limits = ["10/s via gcra", "3/h via sliding_window"];
    let text = printed(&place, &[&limits[..], &["--cost", "2"]].concat());
    let answer = pasted(&place, &text);
    let [_, nonce, granted, _now, left, wait, _, others, more, _] = &answer[..] else {
        panic!("{answer:?}")
    };
    assert_eq!([nonce, granted, left, wait, others, more], ["0", "2", "8", "0", "1", "0"]);
    let answer = pasted(&place, &text);
    assert!(answer[2] == "0" && answer[8].parse::<u64>().unwrap() > 1_000_000, "{answer:?}");
    // It is the same count as the command line's.
    let set = limits.join(", ");
    let json = place.json(&["peek", "user:42", "--limit", &set, "--store", &url, "--json"]);
    assert_eq!(json["limits"][1]["remaining"], 1, "{json}");
    // A peek changes nothing, and a partial one takes what is left.
    let with = |more: &[&str]| {
        pasted(&place, &printed(&place, &[&limits[..], &["--cost", "2"], more].concat()))
    };
    assert_eq!(with(&["--peek"])[2], "0");
    assert_eq!(with(&["--partial", "--peek"])[2], "1");
    assert_eq!(with(&["--partial"])[2], "1");
    assert_eq!(with(&["--partial"])[2], "0");
}

#[test]
fn the_script_alone_is_a_file_for_eval() {
    let place = Place::new();
    let Some(_server) = redis::start(place.path(), &[]) else { return };
    let args = ["1/h via gcra", "--subject", "user:7", "--answer", "boolean"];
    let text = printed(&place, &args);
    let line = text.lines().last().unwrap().strip_prefix("# ").unwrap();
    assert_eq!(line, "redis-cli --eval limit.lua 'tg1:{user:7}:gcra/1h' , 1");
    let lua = printed(&place, &[&args[..], &["--format", "lua"]].concat());
    std::fs::write(place.path().join("limit.lua"), lua).unwrap();
    assert_eq!([pasted(&place, line), pasted(&place, line)], [["1"], ["0"]]);
}

/// The prefix of the store is in the printed keys, and in the variable that every command reads.
#[test]
fn the_keys_are_those_of_the_stores_environment() {
    let place = Place::new();
    let Some((_server, url)) = redis::start(place.path(), &[]) else { return };
    let staging = format!("{url}?prefix=staging");
    let store = ["--store", &staging];
    let args = [&["1/h via gcra", "--answer", "boolean"][..], &store].concat();
    let text = printed(&place, &args);
    assert_eq!(pasted(&place, &text).last().unwrap(), "1");
    let peek = ["peek", "user:42", "--limit", "1/h via gcra", "--store"];
    assert_eq!(place.run(&[&peek[..], &[&staging]].concat()).0, 1);
    assert_eq!(place.run(&[&peek[..], &[&url]].concat()).0, 0);
    let offer = printed(&place, &[&["--queue", "mail", "--bound", "9"][..], &store].concat());
    pasted(&place, &offer);
    let keys = redis_cli(&place.path().join("redis.sock"), &["KEYS", "*"]);
    assert!(keys.lines().all(|key| key.starts_with("staging:tg")), "{keys}");
    for store in ["sqlite:///tmp/x.db", "memory://", ""] {
        assert!(printed(&place, &["1/h", "--store", store]).contains("'tg1:{user:42}:"), "{store}");
    }
    let (code, _, err) = place.run(&["scripts", "1/h", "--store", "redis://h?prefix={a}"]);
    assert!(code == 2 && err.contains("`prefix` takes 1 to 64 letters"), "{err}");
}

/// The address is in every printed line: that of the store, or another.
#[test]
fn the_printed_lines_reach_the_server() {
    let place = Place::new();
    let printed_with = |args: &[&str]| printed(&place, &[&["1/h"][..], args].concat());
    for (args, cli) in [
        (&["--store", "redis://10.0.0.7"][..], "redis-cli -h 10.0.0.7 -p 6379 "),
        (&["--store", "redis://h:7000/3"], "redis-cli -h h -p 7000 -n 3 "),
        (&["--store", "rediss://bob:secret@h:7000"], "redis-cli -h h -p 7000 --tls --user bob "),
        (&["--store", "unix:///run/a b.sock"], "redis-cli -s '/run/a b.sock' "),
        (&["--store", "redis+cluster://a:7001,b:7002"], "redis-cli -h a -p 7001 -c "),
        (&["--store", "redis://h", "--host", "i", "--port", "7"], "redis-cli -h i -p 7 "),
        (&["--port", "7"], "redis-cli -p 7 "),
        (&["--host", "::1"], "redis-cli -h ::1 "),
        (&[], "redis-cli "),
    ] {
        let text = printed_with(args);
        for verb in ["-x SCRIPT LOAD", "EVALSHA", "--eval limit.lua"] {
            assert!(text.contains(&format!("{cli}{verb} ")), "{args:?}: {text}");
        }
        assert!(!text.contains("secret"), "{text}");
    }
    let text = printed_with(&["--store", "redis://:secret@h"]);
    assert!(text.contains("REDISCLI_AUTH") && !text.contains("secret"), "{text}");
    let text = printed_with(&["--store", "redis+sentinel://h:26379/limits"]);
    assert!(text.contains("SENTINEL GET-MASTER-ADDR-BY-NAME"), "{text}");
    let (code, _, err) = place.run(&["scripts", "1/h", "--port", "0"]);
    assert!(code == 2 && err.contains("give 1 to 65535"), "{err}");
}

#[test]
fn the_words_of_a_call_must_fit_the_limits() {
    let place = Place::new();
    for (args, says) in [
        (&["1/h", "--arguments", "n h"][..], "`h` is not a word of a call"),
        (&["1/h", "--arguments", "cost"], "no word is a number of a limit"),
        (&["1/1500ms", "--arguments", "n s"], "is not of a whole number of s"),
        (&["a: 1/s, b: 2/m", "--arguments", "n n s"], "of different times"),
        (&["a: 1/s, b: 2/m", "--arguments", "n s s"], "as many words are needed"),
        (&["1/h", "--arguments", "n n ms"], "as many words are needed"),
        (&["1/h", "--arguments", "n burst ms"], "more often than limits have one"),
        (&["1/h", "--arguments", "json n"], "leave `n`, `s`, `ms`, `us` out"),
        (&["10/s, 120/m", "--arguments", "json s"], "leave `n`, `s`, `ms`, `us` out"),
        (&["1/h", "--arguments", "n cost cost"], "`cost` is written twice"),
        (&["10/s via sliding_window", "--arguments", "json"], "not of whole seconds"),
        (&["1/h, ban 1m after 2 denials in 1m", "--arguments", "n"], "is not a rate over a time"),
        (&["1/h debt 3", "--arguments", "n"], "leave `debt` out"),
        (&["1/h", "--on", "bob=a: 1/s, b: 2/s", "--arguments", "json"], "different numbers of"),
    ] {
        let (code, out, err) = place.run(&[&["scripts"], args].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.starts_with("error: ") && err.contains(says), "{args:?}: {err}");
    }
}

#[test]
fn two_subjects_are_one_call() {
    let place = Place::new();
    let Some(_server) = redis::start(place.path(), &[]) else { return };
    let pair = ["--on", "resource:12=5/10s via sliding_log", "--on"];
    let of = |consumer: &str, more: &[&str]| {
        let on = format!("{consumer}=3/10s via sliding_log");
        let text = printed(&place, &[&pair[..], &[&on], &["--shard", "12"], more].concat());
        let answer = pasted(&place, &text);
        answer[1..].to_vec()
    };
    let boolean = ["--answer", "boolean"];
    let first: Vec<_> = (0..4).flat_map(|_| of("consumer:1", &boolean)).collect();
    assert_eq!(first, ["1", "1", "1", "0"]);
    // The other consumer finds two left of the resource.
    let second: Vec<_> = (0..3).flat_map(|_| of("consumer:2", &boolean)).collect();
    assert_eq!(second, ["1", "1", "0"]);
    let keys = redis_cli(&place.path().join("redis.sock"), &["KEYS", "*"]);
    assert!(keys.lines().all(|key| key.starts_with("tg1:{12}{")), "{keys}");
}

#[test]
fn json_has_all_of_it() {
    let place = Place::new();
    let args = ["scripts", "a: 10/s, 5/m via sliding_log", "--format", "json", "--shard", "x"];
    let json = place.json(&args);
    assert_eq!(json["sha1"].as_str().unwrap().len(), 40);
    assert_eq!(json["keys"].as_array().unwrap().len(), 3, "{json}");
    assert_eq!(json["keys"][0]["pattern"], "tg1:{x}{SUBJECT}:a,sliding_log/1m");
    assert_eq!(json["keys"][1]["key"], "tg1:{x}{user:42}:a,sliding_log/1m~a");
    assert_eq!(json["argv"][0]["value"], "1");
    assert_eq!(json["reply"].as_array().unwrap().len(), 3 + 2 * 3 + 1);
    assert!(json["script"].as_str().unwrap().starts_with("#!lua\n"));
}

#[test]
fn nothing_breaks_out_of_the_shell_or_the_script() {
    let place = Place::new();
    let Some(_server) = redis::start(place.path(), &[]) else { return };
    for subject in
        ["user:';touch broken;'", "a:$(touch broken)`touch broken`", "a:x\nTOLLGATE\n", "ü:{}"]
    {
        let args = ["1/h via gcra", "--subject", subject, "--answer", "boolean"];
        let (code, text, err) = place.run(&[&["scripts"], &args[..]].concat());
        if code == 0 {
            let answer = pasted(&place, &text);
            assert_eq!(answer.last().unwrap(), "1", "{text}");
        } else {
            // Some are not valid subjects.
            assert!(code == 2 && err.starts_with("error: "), "{subject}: {err}");
        }
    }
    // A limit is read, and only what it means is written.
    for limit in
        ["x]]y: 1/h", "a'b: 1/h", "$(touch broken): 1/h", "1/h via gcra\nTOLLGATE", "a\n: 1/h"]
    {
        let (code, out, err) = place.run(&["scripts", limit]);
        assert!(code == 2 || !out.contains(limit), "{limit}: {out}");
        assert!(code == 0 || err.starts_with("error: "), "{err}");
    }
    assert!(!place.path().join("broken").exists());
}

#[test]
fn bad_input_says_what_would_be_right() {
    let place = Place::new();
    for (args, says) in [
        (&["scripts"][..], "<LIMIT>"),
        (&["scripts", "0/s"], "give at least 1"),
        (&["scripts", "10/s", "--cost", "0"], "use `tollgate peek`"),
        (&["scripts", "10/s", "--subject", ""], "a value is missing"),
        (&["scripts", "10/s", "--answer", "maybe"], "'maybe'"),
        (&["scripts", "10/s", "--on", "user:42=10/s"], "is asked twice under the same limits"),
    ] {
        let (code, out, err) = place.run(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.starts_with("error: ") && err.contains(says), "{args:?}: {err}");
    }
}

/// A client that is not ours offers within the bound, and a worker of ours takes what it offered.
#[test]
fn a_pasted_offer_is_accepted_until_the_queue_is_full_and_worked_on() {
    let place = Place::new();
    let Some((_server, url)) = redis::start(place.path(), &[]) else { return };
    let text = printed(&place, &["--queue", "mail", "--bound", "2"]);
    for (depth, is_full) in [("0", false), ("1", false), ("2", true)] {
        let answer = pasted(&place, &text);
        let [_, word, wait, was, id] = &answer[..] else { panic!("{answer:?}") };
        assert_eq!((word.as_str(), was.as_str(), id.is_empty()), ("0", depth, is_full));
        // No job has left yet: nothing says how long it takes.
        assert_eq!(wait, "-1", "{answer:?}");
    }
    // With another bound the error names the original one.
    let other = pasted(&place, &printed(&place, &["--queue", "mail", "--bound", "3"]));
    assert_eq!(other[2], "settings", "{other:?}");
    assert!(other[3].contains("\"bound\":2"), "{other:?}");
    let work = ["--store", &url, "--until-empty", "--exec", "cat"];
    let (code, out, err) = place.run(&[&["queue", "work", "mail"], &work[..]].concat());
    assert_eq!(code, 0, "{err}");
    assert_eq!(out.matches("hello").count() + err.matches("hello").count(), 2, "{out}{err}");
}

/// A client's bound is in the call that is printed, and in what it answers.
#[test]
fn a_pasted_offer_of_a_client_is_under_its_bound() {
    let place = Place::new();
    let Some((_server, url)) = redis::start(place.path(), &[]) else { return };
    let text = printed(&place, &["--queue", "mail", "--bound", "9", "--per-client", "2"]);
    for is_refused in [false, false, true] {
        let answer = pasted(&place, &text);
        let id = answer.last().unwrap();
        assert_eq!((id == "!2", id.contains('-')), (is_refused, !is_refused), "{answer:?}");
    }
    let look = place.json(&["queue", "look", "mail", "--store", &url, "--json"]);
    assert_eq!(look["waiting"][1]["client"], "ann");
    assert_eq!(look["waiting"].as_array().unwrap().len(), 2);
}

#[test]
fn an_offer_is_of_a_queue_and_a_check_of_limits() {
    let place = Place::new();
    for (args, says) in [
        (&["--queue", "mail"][..], "--bound"),
        (&["10/s", "--bound", "3"], "name it with --queue NAME"),
        (&["10/s", "--queue", "mail", "--bound", "3"], "cannot be used with"),
        (&["--queue", "a b", "--bound", "3"], "a b"),
        (&["--queue", "mail", "--bound", "0"], "the bound is 1 to"),
    ] {
        let (code, out, err) = place.run(&[&["scripts"], args].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}");
        assert!(err.contains(says), "{args:?}: {err}");
    }
}

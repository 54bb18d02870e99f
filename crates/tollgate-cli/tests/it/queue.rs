//! `queue`: a shell's view of a bounded queue.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::Place;
use crate::redis;
use crate::serving::Serving;

pub(crate) fn push(place: &Place, args: &[&str]) -> i32 {
    place.code(&[&["queue", "push", "mail"], args].concat())
}

pub(crate) fn stats(place: &Place) -> serde_json::Value {
    place.json(&["queue", "stats", "mail", "--json"])
}

#[test]
fn a_job_goes_from_push_to_work() {
    let place = Place::new();
    assert_eq!(push(&place, &["to=ann", "note=a=b \"c\"\n", "--bound", "2"]), 0);
    // The settings of an existing queue need not be repeated.
    let (code, out, _) = place.run(&["queue", "push", "mail", "to=bob"]);
    assert!(code == 0 && out.starts_with("accepted: ") && out.ends_with(", 2 now\n"), "{out}");
    let (code, out, err) = place.run(&["queue", "push", "mail", "to=cem"]);
    assert_eq!((code, err.as_str()), (1, ""));
    assert!(out.starts_with("refused: full with 2"), "{out}");
    let command = "cat; printf '%s|%s|%s' \"$JOB_to\" \"$JOB_note\" $TOLLGATE_JOB_DELIVERY";
    let (code, out, err) =
        place.run(&["queue", "work", "mail", "--exec", command, "--max-jobs", "1"]);
    assert_eq!((code, err.as_str()), (0, "1 done\n"));
    let (line, rest) = out.split_once('\n').unwrap();
    let job: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(job["fields"], serde_json::json!({"to": "ann", "note": "a=b \"c\"\n"}));
    assert_eq!((&job["delivery"], rest), (&1.into(), "ann|a=b \"c\"\n|1"));
    let stats = stats(&place);
    assert_eq!(
        (&stats["waiting"], &stats["refused"], &stats["done"]),
        (&1.into(), &1.into(), &1.into())
    );
}

/// The README's commands, pasted into a shell; and the first ones of `docs/queue.md`, after them.
#[test]
fn the_readme_and_the_page_on_queues_work_when_pasted() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let read = |path: &str| std::fs::read_to_string(format!("{folder}{path}")).unwrap();
    // The first lines of a shell that offer something, and their output.
    let block = |text: &str| {
        let (_, section) = text.split_once("tollgate queue push").unwrap();
        let (lines, rest) = section.split_once("\n```\n```text\n").unwrap();
        let (shown, _) = rest.split_once("\n```").unwrap();
        (format!("tollgate queue push{lines}"), shown.to_owned())
    };
    let place = Place::new();
    let program = assert_cmd::cargo::cargo_bin!("tollgate");
    for page in ["README.md", "docs/queue.md"] {
        let (lines, shown) = block(&read(page));
        // In a separate home: the counts and queues of the person who runs this stay untouched.
        let (home, program) = (place.path().display(), program.display());
        let script = format!(
            "exec 2>&1; unset XDG_STATE_HOME TOLLGATE_STORE; export HOME='{home}'
             tollgate() {{ '{program}' \"$@\"; }}; {lines}"
        );
        let output = crate::scripts::sh(&place, &script);
        let out = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{page}: {out}");
        assert_eq!(without_ids(&out), without_ids(&shown), "{page}");
    }
}

/// The same lines with no id of a job that was accepted, which is another each time.
fn without_ids(text: &str) -> Vec<String> {
    let line =
        |line: &str| match line.strip_prefix("accepted: ").and_then(|it| it.split_once("-0, ")) {
            Some((_, depth)) => format!("accepted: ID, {depth}"),
            None => line.trim_end().to_owned(),
        };
    text.trim_end().lines().map(line).collect()
}

/// Something else has put more among the jobs than a job may have: the others are offered again.
#[test]
fn a_dead_job_that_is_none_holds_up_no_other() {
    let place = Place::new();
    let Some((_redis, store)) = redis::start(place.path(), &[]) else { return };
    let run = |args: &[&str]| place.run(&[&["queue"], args, &["--store", &store]].concat());
    assert_eq!(run(&["push", "mail", "n=1", "--bound", "9"]).0, 0);
    let fields: String = (0..65).map(|n| format!(" f{n} v")).collect();
    let add = format!("redis-cli XADD 'tgq1:{{queue:mail}}:jobs' '*'{fields}");
    assert!(crate::scripts::sh(&place, &add).status.success());
    assert_eq!(run(&["push", "mail", "n=2"]).0, 0);
    let work = ["work", "mail", "--exec", "false", "--deliveries", "1", "--until-empty"];
    assert_eq!(run(&work).0, 0);
    let (code, out, err) = run(&["dead", "mail", "--again", "all"]);
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    assert!(out.starts_with("2 jobs offered again, 1 dead; "), "{out}");
    let (_, id) = out.trim_end().rsplit_once("is not a valid job: `--forget ").unwrap();
    let id = id.trim_end_matches('`');
    let json = serde_json::from_str::<serde_json::Value>(
        &run(&["dead", "mail", "--again", "all", "--json"]).1,
    );
    assert_eq!(json.unwrap()["no_job"][0], id);
    let (code, out, err) = run(&["dead", "mail", "--forget", id]);
    assert_eq!((code, out.as_str()), (0, "1 job deleted, 0 dead\n"), "{err}");
    assert_eq!(run(&["stats", "mail"]).1.matches("waiting    2").count(), 1);
}

#[test]
fn the_commands_code_decides_and_dead_jobs_can_be_had_again() {
    let place = Place::new();
    assert_eq!(push(&place, &["n=1", "--bound", "9"]), 0);
    let work = |command: &str, more: &[&str]| {
        let args = ["queue", "work", "mail", "--pause", "1ms", "--until-empty", "--exec", command];
        place.run(&[&args[..], more].concat())
    };
    let (code, _, err) = work("exit 3", &["--deliveries", "2"]);
    assert_eq!(code, 0);
    assert!(
        err.contains("delivery 2: exited with 3\n0 done, 1 to be redelivered, 1 dead\n"),
        "{err}"
    );
    let dead = place.json(&["queue", "dead", "mail", "--json"]);
    assert_eq!((&dead[0]["deliveries"], &dead[0]["why"]), (&2.into(), &"exited with 3".into()));
    assert_eq!(dead[0]["fields"]["n"], "1");
    let id = dead[0]["id"].as_str().unwrap();
    let (code, out, _) = place.run(&["queue", "dead", "mail", "--again", id]);
    assert_eq!((code, out.as_str()), (0, "1 job offered again, 0 dead\n"));
    let (code, _, err) = place.run(&["queue", "dead", "mail", "--again", id]);
    assert!(code == 2 && err.contains(&format!("no dead job {id} is kept in `mail`")), "{err}");
    assert_eq!(work("true", &[]).2, "1 done\n");
    // A command that is killed, or takes too long, has failed as well.
    assert_eq!(push(&place, &["n=2"]), 0);
    let (_, _, err) = work("test $TOLLGATE_JOB_DELIVERY = 2 || kill -9 $$", &[]);
    assert!(err.contains("was ended by signal 9") && err.contains("1 done"), "{err}");
    assert_eq!(push(&place, &["n=3"]), 0);
    let command = "test $TOLLGATE_JOB_DELIVERY = 2 || sleep 600 & wait";
    let (_, _, err) = work(command, &["--timeout", "100ms"]);
    assert!(err.contains("took longer than 0.1s"), "{err}");
}

#[test]
fn lines_and_bytes_are_jobs_too() {
    let place = Place::new();
    let mut lines = place.tollgate(&["queue", "push", "mail", "--lines", "--bound", "3"]);
    let lines = lines.write_stdin("{\"n\": 1}\n\n{\"n\": \"two\"}").output().unwrap();
    assert_eq!(String::from_utf8(lines.stdout).unwrap(), "2 accepted, 0 refused\n");
    let mut lines = place.tollgate(&["queue", "push", "mail", "--lines", "--json"]);
    let lines = lines.write_stdin("{\"n\": 3}\n{\"n\": 4}\n[5]\n{\"n\": 6}").output().unwrap();
    let (out, err) =
        (String::from_utf8(lines.stdout).unwrap(), String::from_utf8(lines.stderr).unwrap());
    let outcomes: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&outcomes[0]["outcome"], &outcomes[1]["outcome"]),
        (&"accepted".into(), &"full".into())
    );
    assert_eq!((lines.status.code(), outcomes.len()), (Some(2), 2));
    assert!(err.contains("line 3; the 2 lines before it were offered: 1 were accepted"), "{err}");
    let mut bytes = place.tollgate(&["queue", "push", "scans", "--stdin", "--bound", "1"]);
    assert!(bytes.write_stdin([0_u8, 255]).output().unwrap().status.success());
    let (_, out, _) = place.run(&["queue", "work", "scans", "--exec", "cat", "--max-jobs", "1"]);
    assert!(out.contains("\"base64\":\"AP8=\""), "{out}");
    let mut large = place.tollgate(&["queue", "push", "scans", "--stdin"]);
    let large = large.write_stdin(vec![0; 65_537]).output().unwrap();
    assert!(String::from_utf8(large.stderr).unwrap().contains("more than 65536 bytes"));
}

#[test]
fn wrong_input_is_told_and_changes_nothing() {
    let place = Place::new();
    for (args, says) in [
        (&["push", "mail", "to=ann"][..], "the queue `mail` is new: set how many jobs may wait"),
        (&["push", "ma il", "--bound", "1"], "is not the name of a queue"),
        (&["push", "mail", "to", "--bound", "1"], "`to` is not a field: write FIELD=VALUE"),
        (&["push", "mail", "a=1", "a=2", "--bound", "1"], "two fields `a`"),
        (&["push", "mail", "--bound", "0"], "the bound is 1 to 10000000"),
        (&["push", "mail", "--bound", "1", "--remember", "8d"], "at most 7 days"),
        (&["push", "mail", "--bound", "1", "--deadline", "x"], "not a duration"),
        (&["work", "mail", "--exec", "true", "--visibility", "0s"], "1 ms to a day"),
        (&["work", "mail", "--exec", "true", "--create", "--concurrency", "0"], "concurrent jobs"),
        (&["work", "mail", "--exec", "true", "--rate", "0/s"], "0/s"),
        (&["stats", "mail"], "there is no queue `mail` there"),
        (&["change", "mail", "--bound", "2"], "there is no queue `mail` there"),
        (&["change", "mail"], "no change is given"),
        (&["dead", "mail", "--again", "x"], "`x` is not the id of a job"),
        (&["push", "mail", "--bound", "1", "--store", "memory://"], "would forget everything"),
    ] {
        let (code, out, err) = place.run(&[&["queue"], args].concat());
        assert!(code == 2 && out.is_empty() && err.contains(says), "{args:?}: {code} {out} {err}");
    }
    assert_eq!(push(&place, &["--bound", "1"]), 0);
    let (code, _, err) = place.run(&["queue", "push", "mail", "--bound", "2"]);
    assert!(code == 2 && err.contains("was made with a bound of 1 (waiting)"), "{err}");
    assert_eq!(place.code(&["queue", "change", "mail", "--bound", "2", "--rate", "1/s"]), 0);
    assert_eq!(push(&place, &["--bound", "2"]), 0);
    let (_, out, _) = place.run(&["queue", "change", "mail", "--no-rate"]);
    assert!(out.contains("a bound of 2 (waiting)") && out.contains("no rate"), "{out}");
}

#[test]
fn a_job_is_accepted_once_and_too_old_is_dropped() {
    let place = Place::new();
    assert_eq!(push(&place, &["--bound", "9", "--once", "order:1"]), 0);
    let known = place.json(&["queue", "push", "mail", "--once", "order:1", "--json"]);
    assert_eq!(known["outcome"], "known");
    assert_eq!(push(&place, &["--deadline", "0s"]), 0);
    let ran = ["queue", "work", "mail", "--exec", "true", "--until-empty", "--json"];
    assert_eq!(place.json(&ran)["done"], 1);
    assert_eq!(stats(&place)["too_old"], 1);
}

/// A dead job that is forgotten leaves nothing that keeps the same from being offered again.
#[test]
fn what_is_forgotten_is_not_known_any_more() {
    let place = Place::new();
    forgotten(&place, &[]);
    let Some((_redis, store)) = redis::start(place.path(), &[]) else { return };
    forgotten(&place, &["--store", &store]);
}

fn forgotten(place: &Place, store: &[&str]) {
    let run = |args: &[&str]| place.run(&[&["queue"], args, store].concat());
    let push = || run(&["push", "mail", "to=ann", "--once", "order:1", "--bound", "9"]).1;
    let die = || {
        let work = ["work", "mail", "--exec", "false", "--deliveries", "1", "--until-empty"];
        assert_eq!(run(&work).0, 0);
    };
    for which in ["all", "one"] {
        assert!(push().starts_with("accepted: "), "{which}");
        die();
        assert!(push().starts_with("known: "), "{which}");
        // Offered again, it is the same job still.
        assert_eq!(run(&["dead", "mail", "--again", "all"]).0, 0);
        assert!(push().starts_with("known: "), "{which}");
        die();
        let dead: serde_json::Value =
            serde_json::from_str(&run(&["dead", "mail", "--json"]).1).unwrap();
        let id = if which == "all" { which } else { dead[0]["id"].as_str().unwrap() };
        let (code, out, err) = run(&["dead", "mail", "--forget", id]);
        assert_eq!((code, out.as_str()), (0, "1 job deleted, 0 dead\n"), "{err}");
    }
    assert!(push().starts_with("accepted: "));
}

#[test]
fn jobs_that_were_done_are_kept_where_that_is_wanted() {
    let place = Place::new();
    assert_eq!(push(&place, &["n=1", "--bound", "9"]), 0);
    let work = ["queue", "work", "mail", "--exec", "true", "--until-empty", "--keep-done", "2"];
    assert_eq!(place.code(&work), 0);
    for n in ["n=2", "n=3"] {
        assert_eq!(push(&place, &[n]), 0);
    }
    assert_eq!(place.code(&work), 0);
    let done = place.json(&["queue", "done", "mail", "--json"]);
    assert_eq!(done.as_array().unwrap().len(), 2);
    assert_eq!((&done[0]["fields"]["n"], &done[1]["fields"]["n"]), (&"2".into(), &"3".into()));
    let (_, out, _) = place.run(&["queue", "done", "mail", "--most", "1"]);
    assert!(out.contains("n=2") && !out.contains("n=3"), "{out}");
    assert_eq!(place.code(&["queue", "change", "mail", "--keep-done", "0"]), 0);
    let (_, out, _) = place.run(&["queue", "done", "mail"]);
    assert!(out.starts_with("no jobs that were done are kept"), "{out}");
}

#[test]
fn all_queues_are_listed_with_what_is_in_them() {
    let place = Place::new();
    listed(&place, &[]);
}

#[test]
fn queues_on_a_redis_are_listed_in_whatever_they_lie() {
    let place = Place::new();
    let Some((_redis, store)) = redis::start(place.path(), &[]) else { return };
    listed(&place, &["--store", &store]);
    let more = ["queue", "push", "scans", "a=b", "--bound", "3", "--form", "list"];
    assert_eq!(place.run(&[&more[..], &["--store", &store]].concat()).0, 0);
    let json = place.json(&["queue", "list", "--json", "--store", &store]);
    let names: Vec<&str> =
        json.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["mail", "reports", "scans"]);
}

#[test]
fn a_paused_queue_accepts_and_gives_nothing_until_it_goes_on() {
    let place = Place::new();
    paused(&place, &[]);
    let Some((_redis, store)) = redis::start(place.path(), &[]) else { return };
    paused(&place, &["--store", &store]);
    paused(&place, &["--store", &store, "--form", "list"]);
}

fn paused(place: &Place, store: &[&str]) {
    let name = format!("mail{}", store.len());
    let run =
        |verb: &str, args: &[&str]| place.run(&[&["queue", verb, &name], args, store].concat());
    let (code, _, error) = run("pause", &[]);
    assert!(code == 2 && error.contains("there is no queue `mail"), "{error}");
    assert_eq!(run("push", &["to=ann", "--bound", "2"]).0, 0);
    let (code, out, error) = run("pause", &[]);
    assert!(code == 0 && out == "paused: 1 waiting, 0 in flight\n", "{out}{error}");
    assert_eq!(run("push", &["to=bob"]).0, 0);
    assert_eq!(run("push", &["to=eve"]).0, 1, "up to the bound");
    let (_, out, _) = run("stats", &[]);
    assert!(out.contains("paused     until `tollgate queue resume`"), "{out}");
    let worked = place.path().join(format!("worked{}", store.len()));
    let exec = format!("echo $JOB_to >> {}", worked.display());
    let args = ["queue", "work", &name, "--exec", &exec, "--until-empty"];
    let mut command = place.std(&[&args[..], store].concat());
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    // It says that it waits, and does not end though it was to end when nothing waits.
    let says = "the queue is paused: waiting for `tollgate queue resume`";
    assert!(told.by_ref().map_while(Result::ok).any(|line| line == says), "{name}");
    assert!(!worked.exists());
    // The worker that waits may have taken one already.
    assert!(run("resume", &[]).1.starts_with("resumed: "), "{name}");
    assert!(child.wait().unwrap().success());
    assert_eq!(std::fs::read_to_string(&worked).unwrap(), "ann\nbob\n");
    let json: serde_json::Value = serde_json::from_str(&run("resume", &["--json"]).1).unwrap();
    assert_eq!((&json["paused"], &json["waiting"]), (&false.into(), &0.into()));
}

#[test]
fn a_server_that_may_lose_jobs_is_told_when_they_are_pushed_and_worked_on_and_served() {
    for (policy, loses) in [
        ("allkeys-lru", "jobs are lost then"),
        ("volatile-ttl", "ids of --once and counts of rates are forgotten then"),
    ] {
        let place = Place::new();
        let full = ["--maxmemory", "64mb", "--maxmemory-policy", policy];
        let Some((_redis, store)) = redis::start(place.path(), &full) else { return };
        let says = format!(
            "this Redis evicts keys when it is full (maxmemory-policy {policy}), and {loses}: set"
        );
        let push = ["queue", "push", "mail", "to=ann", "--bound", "9", "--store", &store];
        let (code, _, error) = place.run(&push);
        assert!(code == 0 && error.matches(&says).count() == 1, "{error}");
        let work = ["queue", "work", "mail", "--exec", "true", "--until-empty", "--store", &store];
        let (code, _, error) = place.run(&work);
        assert!(code == 0 && error.matches(&says).count() == 1, "{error}");
        // A service logs it at its start, unless it has no queue.
        for (queue, times) in [(&["--queue", "mail=9", "--queue", "more=9"][..], 1), (&[], 0)] {
            let serving = Serving::start(&place, &[queue, &["--store", &store]].concat());
            let error = serving.end();
            assert_eq!(error.matches(&says).count(), times, "{error}");
        }
    }
}

fn listed(place: &Place, store: &[&str]) {
    let run = |args: &[&str]| place.run(&[&["queue"], args, store].concat());
    let (code, out, _) = run(&["list"]);
    assert!(code == 0 && out.starts_with("there is no queue: "), "{out}");
    assert_eq!(run(&["push", "reports", "a=b", "--bound", "5"]).0, 0);
    for _ in 0..2 {
        assert_eq!(run(&["push", "mail", "to=ann", "--bound", "9"]).0, 0);
    }
    let (_, out, _) = run(&["list"]);
    let rows: Vec<Vec<&str>> =
        out.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((rows[0][0], rows[0][1], rows[0][2]), ("mail", "2", "9"), "{out}");
    assert_eq!((rows[1][0], rows[1][1], rows[1][2]), ("reports", "1", "5"), "{out}");
    assert_eq!(rows.len(), 2, "{out}");
    let (_, out, _) = run(&["list", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&json[0]["name"], &json[0]["stats"]["waiting"]), (&"mail".into(), &2.into()));
}

#[test]
fn a_queue_is_removed_with_what_is_in_it_only_by_force() {
    let place = Place::new();
    assert_eq!(push(&place, &["--bound", "9"]), 0);
    let (code, out, _) = place.run(&["queue", "remove", "mail"]);
    assert!(code == 1 && out.starts_with("kept, because `--force` is missing: 1 waiting"), "{out}");
    assert_eq!(place.json(&["queue", "remove", "mail", "--force", "--json"])["removed"], true);
    let (code, _, err) = place.run(&["queue", "remove", "mail"]);
    assert!(code == 2 && err.contains("there is no queue `mail` there"), "{err}");
    assert_eq!(push(&place, &["--bound", "3"]), 0);
    assert_eq!(stats(&place)["accepted"], 1);
}

#[test]
fn who_waits_for_room_gets_it() {
    let place = Place::new();
    assert_eq!(push(&place, &["n=1", "--bound", "1"]), 0);
    assert_eq!(push(&place, &["n=2", "--wait", "100ms"]), 1);
    let mut waits = place.std(&["queue", "push", "mail", "n=2", "--wait", "50s"]).spawn().unwrap();
    let ran = ["queue", "work", "mail", "--exec", "true", "--max-jobs", "2", "--json"];
    assert_eq!(place.json(&ran)["done"], 2);
    assert!(waits.wait().unwrap().success());
}

#[test]
fn a_watch_says_what_a_second_came_to() {
    let place = Place::new();
    assert_eq!(push(&place, &["--bound", "9"]), 0);
    let args = ["queue", "stats", "mail", "--watch", "200ms", "--json"];
    let mut watch = place.std(&args).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next =
        || -> serde_json::Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let first = next();
    assert_eq!((&first["waiting"], first.get("per_second")), (&1.into(), None));
    for _ in 0..3 {
        assert_eq!(push(&place, &[]), 0);
    }
    let begin = Instant::now();
    let mut sum = 0.0;
    while sum == 0.0 {
        sum += next()["per_second"]["accepted"].as_f64().unwrap();
        assert!(begin.elapsed() < Duration::from_secs(30), "no rate is seen");
    }
    watch.kill().unwrap();
    watch.wait().unwrap();
}

/// A misspelled name does not wait silently for ever.
#[test]
fn a_queue_that_nobody_made_is_not_waited_for_without_a_word() {
    let place = Place::new();
    let work = ["queue", "work", "mial", "--exec", "true", "--until-empty"];
    let (code, _, error) = place.run(&work);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("there is no queue `mial` there: check its name"), "{error}");
    assert!(error.contains("`tollgate queue push mial to=ann --bound 10` makes it"), "{error}");
    assert_eq!(place.code(&["queue", "remove", "mial"]), 2, "it was not made");
    assert_eq!(place.code(&[&work[..], &["--create"]].concat()), 0);
    // It reports what it waits for; a person who pastes another bound learns how to change it.
    assert_eq!(place.code(&["queue", "push", "mail", "to=ann", "--bound", "2"]), 0);
    let (code, _, error) = place.run(&["queue", "push", "mail", "to=bob", "--bound", "10"]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("`tollgate queue change mail --help`"), "{error}");
    assert_eq!(place.code(&["queue", "work", "mail", "--exec", "true", "--until-empty"]), 0);
    let mut worker = place.std(&["queue", "work", "mail", "--exec", "true"]);
    let mut worker = worker.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut lines = std::io::BufReader::new(worker.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut lines, &mut said).unwrap();
    assert!(said.contains("no job waits in `mail`: waiting for the next, Ctrl-C ends"), "{said}");
    // It follows when the queue is changed, and reports that.
    assert_eq!(place.code(&["queue", "push", "mail", "to=cem"]), 0);
    while place.run(&["queue", "stats", "mail"]).1.contains("waiting    1") {
        std::thread::sleep(Duration::from_millis(5)); // tidy: sleep-ok it polls
    }
    assert_eq!(place.code(&["queue", "change", "mail", "--keep-dead", "7"]), 0);
    let mut said = String::new();
    std::io::BufRead::read_line(&mut lines, &mut said).unwrap();
    assert!(said.starts_with("the queue was changed: 30s for a job, 5 deliveries"), "{said}");
    assert!(said.contains("7 dead jobs kept from now on"), "{said}");
    signal(&worker, Signal::TERM);
    assert!(worker.wait().unwrap().success());
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

//! The page `from-a-script`: its lines are pasted as a reader would, before a real Redis.

use crate::Place;
use crate::page::{block, rows};
use crate::redis::{self, redis_cli};
use crate::resp;
use crate::scripts::{pasted, printed};

const PAGE: &str = include_str!("../../../../docs/from-a-script.md");

/// The lines of the page that print a script, and no more.
fn lines() -> Vec<&'static str> {
    let is_whole = |line: &&str| !line.ends_with("| sh") && !line.ends_with("--format call");
    PAGE.lines().filter(|line| line.starts_with("tollgate scripts ")).filter(is_whole).collect()
}

/// The words of a line as a shell has them.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut is_quoted) = (vec![String::new()], false);
    for letter in line.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            letter => words.last_mut().unwrap().push(letter),
        }
    }
    words
}

/// The line of `text` that calls its script.
fn call(text: &str) -> &str {
    text.lines().find(|line| line.contains(" EVALSHA ")).unwrap()
}

#[test]
fn each_line_of_the_page_prints_a_script_that_answers() {
    let place = Place::new();
    let Some(_server) = redis::start(place.path(), &[]) else { return };
    let lines = lines();
    assert_eq!(lines.len(), 12, "{lines:?}");
    for line in lines {
        let words = words(line);
        let words: Vec<&str> = words[2..].iter().map(String::as_str).collect();
        let answer = pasted(&place, &printed(&place, &words));
        // The SHA1 by the server, then the reply.
        let first = &answer[1];
        let admits = ["OK", "1", "0"].contains(&first.as_str());
        assert!(admits && !answer.concat().contains("TOLLGATE"), "{line}: {answer:?}");
    }
}

/// The two endings that spare a reader the script.
#[test]
fn a_script_is_loaded_by_one_line_and_its_call_is_printed_by_another() {
    let place = Place::new();
    let Some(_server) = redis::start(place.path(), &[]) else { return };
    let (first, second) = block(PAGE, "sh", 0).trim().split_once('\n').unwrap();
    assert_eq!(first.strip_suffix(" | sh"), second.strip_suffix(" --format call"));
    let of = |line: &str| {
        let words = words(line);
        printed(&place, &words[2..].iter().map(String::as_str).collect::<Vec<_>>())
    };
    let whole = of(first.strip_suffix(" | sh").unwrap());
    let alone = of(second);
    assert_eq!(alone.trim_end(), call(&whole));
    let mut answers = pasted(&place, &whole)[1..].to_vec();
    answers.extend((0..3).flat_map(|_| pasted(&place, &alone)));
    assert_eq!(answers, ["1", "1", "1", "0"]);
    // The end of the text, which stays on a terminal, names both.
    let (_, end) = whole.rsplit_once("\nTOLLGATE\n").unwrap();
    assert!(end.contains("`--format call`") && end.contains("`| sh`"), "{end}");
}

/// The lines for a shell, for the Redis protocol and for HTTP.
#[test]
fn each_row_of_the_page_answers() {
    let place = Place::new();
    let Some((_server, url)) = redis::start(place.path(), &[]) else { return };
    let (mut shell, mut protocol, mut http) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows(PAGE) {
        match &row[..] {
            [to, line] if to == "a shell" => shell.push(line.clone()),
            [to, line] if to == "serve --resp" => protocol.push(line.clone()),
            [to, line] if to.starts_with("serve") => http.push(line.clone()),
            _ => {}
        }
    }
    assert_eq!((shell.len(), protocol.len(), http.len()), (8, 7, 8));
    for line in &shell {
        // A worker's command is the reader's own.
        let words = words(line.split('`').next().unwrap());
        let words = words[1..].iter().map(String::as_str).chain(["--store", &url]);
        let (code, _, err) = place.run(&words.collect::<Vec<_>>());
        assert_eq!((code, err.as_str()), (0, ""), "{line}");
    }
    let (serving, port) = resp::serve(&place, None, &["--store", &url, "--queue", "mail"]);
    for line in &protocol {
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some(answer) = resp::cli(port, &words, "") else { return };
        let is_answer = answer.starts_with("allowed\n") || answer.lines().count() == 5;
        assert!(is_answer, "{line}: {answer}");
    }
    for line in &http {
        let (path, body) = line.split_once("` with `").unwrap();
        let (status, answer) =
            serving.client().ask("POST", path.strip_prefix("POST ").unwrap(), body).unwrap();
        let says = if path.contains("queues") { "accepted" } else { "allowed" };
        assert!(status < 300 && answer.contains(says), "{line}: {status} {answer}");
    }
    serving.end();
}

/// Foreign workers take jobs, and a job counts until it is deleted.
#[test]
fn a_worker_of_the_readers_own_takes_jobs_of_the_offer() {
    let place = Place::new();
    let Some(_server) = redis::start(place.path(), &[]) else { return };
    let line = lines().into_iter().find(|line| line.contains("--queue")).unwrap();
    let line = line.replace("--bound 10", "--bound 2");
    let words = words(&line);
    let words: Vec<&str> = words[2..].iter().map(String::as_str).collect();
    let text = printed(&place, &words);
    assert!(pasted(&place, &text).last().unwrap().contains('-'));
    // A job of one's own, as the page says.
    let (before, _) = call(&text).split_once(" 4 to ann text hello").unwrap();
    let offer = format!("{before} 2 request_details 'some~values'");
    let offered = || pasted(&place, &offer).last().cloned().unwrap_or_default();
    assert!(offered().contains('-') && offered().is_empty());
    let mut own = PAGE.lines().filter(|line| line.starts_with("redis-cli X"));
    let mut run = |id: &str| pasted(&place, &own.next().unwrap().replace(" ID", id));
    let taken = run("");
    let id = format!(" {}", taken[1]);
    assert_eq!(taken[2..], ["to", "ann", "text", "hello"]);
    assert!(offered().is_empty());
    assert_eq!((run(&id), run(&id)), (vec!["1".to_owned()], vec!["1".to_owned()]));
    assert!(offered().contains('-') && offered().is_empty());
}

/// `inspect` shows the count of the script, if it gets the same shard. So did `ZCARD`.
#[test]
fn inspect_finds_the_count_of_the_script() {
    let place = Place::new();
    let Some((_server, url)) = redis::start(place.path(), &[]) else { return };
    let line = lines().into_iter().find(|line| line.contains("s n n")).unwrap();
    let words_of = |line: &str| words(line).into_iter().skip(1).collect::<Vec<_>>();
    let script = words_of(line);
    let script: Vec<&str> = script[1..].iter().map(String::as_str).collect();
    pasted(&place, &printed(&place, &script));
    let line = PAGE.lines().find(|line| line.starts_with("tollgate inspect ")).unwrap();
    let words = words_of(&line.replace("redis://127.0.0.1:6379", &url));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (code, out, _) = place.run(&words);
    assert!(code == 0 && out.contains("4 of 5 left, 1 used"), "{out}");
}

/// The policy file before a web server, and the command of the experiment.
#[test]
fn the_policy_file_and_the_experiment_of_the_page_are_taken() {
    let place = Place::new();
    let file = place.path().join("policies.toml");
    std::fs::write(&file, block(PAGE, "toml", 0)).unwrap();
    let (code, out, err) = place.run(&["config", "check", file.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let line = PAGE.lines().find(|line| line.starts_with("tollgate lab zoo ")).unwrap();
    let report = place.path().join("zoo.html");
    let words = words(&line.replace("zoo.html", report.to_str().unwrap()));
    let words: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    assert_eq!(place.code(&words), 0, "{line}");
    assert!(std::fs::read_to_string(&report).unwrap().contains("<svg"));
}

#[test]
fn the_call_of_the_article_stays_as_it_is() {
    let place = Place::new();
    let Some(_server) = redis::start(place.path(), &[]) else { return };
    let line = lines().into_iter().find(|line| line.contains("s n n")).unwrap();
    let words = words(line);
    let words: Vec<&str> = words[2..].iter().map(String::as_str).collect();
    let text = printed(&place, &words);
    let first = call(&text);
    assert!(first.ends_with(" 10 5 3"), "{first}");
    let mut answers = vec![pasted(&place, &text)[1].clone()];
    answers.extend((0..3).map(|_| pasted(&place, first).concat()));
    assert_eq!(answers, ["OK", "OK", "OK", "CONSUMER OVERLIMIT: 3"]);
    // Other numbers and another consumer under the same SHA1.
    let other = first.replace("consumer:1", "consumer:2").replace(" 10 5 3", " 10 5 9");
    let answers: Vec<_> = (0..3).map(|_| pasted(&place, &other).concat()).collect();
    assert_eq!(answers, ["OK", "OK", "RESOURCE OVERLIMIT: 5"]);
    let raised = first.replace(" 10 5 3", " 10 6 4");
    assert_eq!(pasted(&place, &raised).concat(), "OK");
    let wrong = first.replace(" 10 5 3", " 10 5 0");
    let wrong = pasted(&place, &wrong).concat();
    assert!(wrong.contains("TOLLGATE a number of units must be a whole number"), "{wrong}");
    // For `ZCARD`: `LLEN` less one.
    let cli = |words: &[&str]| redis_cli(&place.path().join("redis.sock"), words);
    let keys = cli(&["KEYS", "*resource:12*"]);
    assert_eq!(cli(&["LLEN", keys.trim()]).trim(), "7");
}

#[test]
fn json_is_the_argument_of_one_script_for_all_numbers() {
    let place = Place::new();
    let Some(_server) = redis::start(place.path(), &[]) else { return };
    let json = "[[1,10],[60,120],[3600,240,60]]";
    let args = [json, "--arguments", "json _ cost", "--answer", "words", "--cost", "9"];
    let text = printed(&place, &args);
    assert_eq!(pasted(&place, &text)[1], "OK");
    let first = call(&text).to_owned();
    let with = |other: &str| pasted(&place, &first.replace(json, other)).concat();
    assert!(first.contains(&format!("'{json}' 0 9")), "{first}");
    // Far more a second, and a smaller hour: what was counted is taken over.
    assert_eq!(with("[[1,1000],[60,120],[3600,15,60]]"), "L3 OVERLIMIT: 9");
    for (other, says) in [
        ("[[1,10],[60,120]]", "with 3 rows"),
        ("{}", "with 3 rows"),
        ("[[1,10],[60,120],[3600,240,61]]", "limit 3 of this script has 60 sub-buckets"),
        ("[[1,10],[60,120],[3600,240]]", "limit 3 of this script has 60 sub-buckets"),
        ("[[1,10],[60,120,6],[3600,240,60]]", "limit 2 of this script has 0 sub-buckets"),
        ("[[1,10],7,[3600,240,60]]", "a number of units must be"),
    ] {
        let answer = with(other);
        assert!(answer.contains("TOLLGATE ") && answer.contains(says), "{other}: {answer}");
    }
}

/// A bucket is called as the article's script is, but for one key.
#[test]
fn a_bucket_takes_limit_interval_and_batch() {
    let place = Place::new();
    let Some((_server, url)) = redis::start(place.path(), &[]) else { return };
    let text = printed(&place, &["1000/d via token_bucket", "--arguments"]);
    assert!(call(&text).ends_with("' 1000 86400000 1"), "{}", call(&text));
    let answer = pasted(&place, &text);
    assert_eq!(answer[1..4].join(" "), format!("0 1 {}", answer[3]));
    assert_eq!(answer[4], "999");
    let batch = call(&text).replace(" 86400000 1", " 86400000 998");
    let answer = pasted(&place, &batch);
    assert_eq!((answer[1].as_str(), answer[3].as_str()), ("998", "1"), "{answer:?}");
    let never = pasted(&place, &call(&text).replace(" 86400000 1", " 86400000 1001"));
    assert_eq!((never[1].as_str(), never[4].as_str()), ("0", "-1"), "{never:?}");
    // It is the count of every other Tollgate.
    let peek = ["peek", "user:42", "--limit", "1000/d via token_bucket", "--store", &url, "--json"];
    assert!(place.json(&peek)["remaining"].as_u64().unwrap() < 20);
}

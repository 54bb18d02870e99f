//! The page `from-a-script`: its lines are pasted as a reader would, before a real Redis.

use crate::Place;
use crate::redis::{self, redis_cli};
use crate::scripts::{pasted, printed};

const PAGE: &str = include_str!("../../../../docs/from-a-script.md");

/// The lines of the page that print a script.
fn lines() -> Vec<&'static str> {
    PAGE.lines().filter(|line| line.starts_with("tollgate scripts ")).collect()
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
    assert_eq!(lines.len(), 9, "{lines:?}");
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

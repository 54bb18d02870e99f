//! The answers of `vectors/wire/decisions.txt`, with `--json`.

use serde_json::Value;
use tollgate_proof::vectors::wire::{Asked, decisions};

use crate::Place;

fn words(asked: &Asked, hold: &str) -> Vec<String> {
    let cost = asked.cost().to_string();
    let ttl = asked.text("ttl");
    let mut words = match asked.act {
        "commit" => vec![asked.act, hold, &cost],
        _ => vec![asked.act, asked.text("subject"), "-l", asked.text("limit"), "-c", &cost],
    };
    if !ttl.is_empty() {
        words.extend(["--ttl", ttl]);
    }
    words.push("--json");
    words.into_iter().map(str::to_owned).collect()
}

#[test]
fn the_program_answers_what_the_file_says() {
    let place = Place::new();
    let mut hold = String::new();
    // Slots are taken by `run`, which prints what its command prints.
    for asked in decisions().unwrap().iter().filter(|asked| asked.act != "acquire") {
        let words = words(asked, &hold);
        let said: Value = place.json(&words.iter().map(String::as_str).collect::<Vec<_>>());
        if let Some(text) = said["hold"].as_str() {
            text.clone_into(&mut hold);
        }
        assert_eq!(asked.settled(&said), asked.answer, "{}", asked.about);
    }
}

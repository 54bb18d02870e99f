//! The answers of `vectors/wire/decisions.txt`, over HTTP and over the Redis protocol.

use serde_json::{Value, json};
use tollgate_proof::vectors::wire::{Asked, decisions};

use crate::FILE;
use crate::holds::on_memory;
use crate::redis_client::command;

#[tokio::test]
async fn http_answers_what_the_file_says() {
    let (service, _clock) = on_memory(FILE).await;
    let mut client = service.client().await;
    let mut hold = Value::Null;
    for asked in decisions().unwrap() {
        let mut question = asked.question.clone();
        if question.get("hold").is_some() {
            question["hold"] = hold.clone();
        }
        let said = client.post(&format!("/v1/{}", asked.act), &question.to_string()).await.json();
        if said["hold"].is_string() {
            hold = said["hold"].clone();
        }
        assert_eq!(asked.settled(&said), asked.answer, "{}", asked.about);
    }
}

/// The words of the same question.
fn words(asked: &Asked, hold: &str) -> Vec<String> {
    let name = format!("TOLLGATE.{}", asked.act.to_ascii_uppercase());
    let cost = asked.cost().to_string();
    let words = match asked.act {
        "commit" => vec![&name, hold, &cost],
        "reserve" => {
            assert_eq!(asked.text("ttl"), "1m");
            let [subject, limit] = [asked.text("subject"), asked.text("limit")];
            vec![&name, subject, limit, "COST", &cost, "TTL", "60000"]
        }
        _ => vec![&name, asked.text("subject"), asked.text("limit"), "COST", &cost],
    };
    words.into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn resp_answers_what_the_file_says() {
    let (service, _clock) = on_memory(FILE).await;
    let mut redis = service.redis().await;
    assert!(redis.ask("HELLO 3").await.contains("\"proto\": 3"));
    let mut hold = String::new();
    for asked in decisions().unwrap() {
        let words = words(&asked, &hold);
        redis.send(&command(&words.iter().map(String::as_bytes).collect::<Vec<_>>())).await;
        let reply = redis.reply().await;
        let mut text = reply.clone();
        for (resp, json) in [(": #t", ": true"), (": #f", ": false"), (": nil", ": null")] {
            text = text.replace(resp, json);
        }
        let said: Value = serde_json::from_str(&text).unwrap_or_else(|_| json!(reply));
        if let Some(text) = said["hold"].as_str() {
            text.clone_into(&mut hold);
        }
        assert_eq!(asked.settled(&said), asked.answer, "{}", asked.about);
    }
}

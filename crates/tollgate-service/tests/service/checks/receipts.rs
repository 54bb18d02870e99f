//! Receipts: refunds, in parts too, by every instance with the key.

use super::*;

#[tokio::test]
async fn a_receipt_gives_back_once() {
    let service = Service::start().await;
    let mut client = service.client().await;
    let question = r#"{"subject": "user:1", "limit": "1/h", "receipt": true}"#;
    let receipt = client.check(question).await["receipt"].as_str().unwrap().to_owned();
    assert_eq!(client.check(question).await["receipt"], Value::Null, "nothing was charged");
    let body = json!({ "receipt": receipt }).to_string();
    for (already, given) in [(false, 1), (true, 0)] {
        let reply = client.post("/v1/refund", &body).await;
        assert_eq!(reply.json()["already"], already, "{}", reply.text);
        assert_eq!(
            reply.json()["given"]
                .as_array()
                .map_or(0, |all| { all.iter().filter_map(Value::as_u64).sum::<u64>() }),
            given
        );
    }
    assert_eq!(client.check(question).await["allowed"], true);
    // Not one letter may be another.
    let first = if receipt.starts_with('A') { 'B' } else { 'A' };
    let forged = format!("{first}{}", &receipt[1..]);
    for text in [forged.as_str(), "", "AAAA", &receipt[..receipt.len() - 1], &"A".repeat(40_000)] {
        let reply = client.post("/v1/refund", &json!({ "receipt": text }).to_string()).await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND, "{text}");
        assert_eq!(reply.json()["field"], "receipt");
    }
    // By a policy, too.
    let login = r#"{"policy": "login", "fields": {"ip": "192.0.2.7"}, "receipt": true}"#;
    let receipt = client.check(login).await["receipt"].clone();
    let reply = client.post("/v1/refund", &json!({ "receipt": receipt }).to_string()).await;
    assert_eq!(reply.json()["given"], json!([1]));
}

#[tokio::test]
async fn a_receipt_gives_back_in_parts_and_no_more_than_was_charged() {
    let service = Service::start().await;
    let mut client = service.client().await;
    let question =
        r#"{"subject": "bob", "limit": "1000/h via fixed_window", "cost": 800, "receipt": true}"#;
    let receipt = client.check(question).await["receipt"].as_str().unwrap().to_owned();
    for (units, already, given, left) in
        [(300, false, 300, 500), (400, false, 400, 100), (300, false, 100, 0), (300, true, 0, 0)]
    {
        let body = json!({ "receipt": receipt, "units": units }).to_string();
        let reply = client.post("/v1/refund", &body).await.json();
        assert_eq!(reply, json!({ "already": already, "given": [given], "left": left }));
    }
    for units in [0, 801] {
        let body = json!({ "receipt": receipt, "units": units }).to_string();
        let reply = client.post("/v1/refund", &body).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{}", reply.text);
        assert_eq!(reply.json()["field"], "units");
        assert!(reply.text.contains("give 1 to 800"), "{}", reply.text);
    }
}

#[tokio::test]
async fn instances_with_one_key_take_each_others_receipts() {
    let key = Some(b"0123456789abcdef0123456789abcdef".to_vec());
    let one = Service::with(|options| options.receipt_key.clone_from(&key)).await;
    let other = Service::start_with(one.gate.clone(), |options| options.receipt_key = key).await;
    let stranger = Service::start_with(one.gate.clone(), |_| {}).await;
    let question = r#"{"subject": "user:1", "limit": "1/h", "receipt": true}"#;
    let said = one.client().await.check(question).await;
    let body = json!({ "receipt": said["receipt"] }).to_string();
    let reply = stranger.client().await.post("/v1/refund", &body).await;
    assert_eq!(reply.status, StatusCode::NOT_FOUND);
    let reply = other.client().await.post("/v1/refund", &body).await;
    assert_eq!(reply.json()["given"], json!([1]), "{}", reply.text);
}

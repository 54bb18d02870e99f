//! The commands of the full answer: under limits in the call, and by policies.

use serde_json::Value;

use super::{service, talk};
use crate::redis_client::command;

#[tokio::test]
async fn an_answer_has_the_fields_of_http_in_both_versions() {
    let service = service().await;
    let (mut redis, mut http) = (service.redis().await, service.client().await);
    let question = r#"{"subject": "user:42", "limit": "3/h via gcra"}"#;
    let over_http: Value = http.check(question).await;
    redis.ask("HELLO 3").await;
    let check = [&b"TOLLGATE.CHECK"[..], b"user:42", b"3/h via gcra"];
    redis.send(&command(&check)).await;
    let said = redis.reply().await;
    let (before, rest) = said.split_once("\"limits\": [").unwrap();
    let (limits, after) = rest.split_once("], \"shadows\"").unwrap();
    assert!(
        limits.contains("\"capacity\": 3, ") && limits.contains("\"admits\": #t, "),
        "{limits}"
    );
    // Without the fields of the one limit, which have the same names.
    let said = format!("{before}\"limits\": [], \"shadows\"{after}");
    for (name, value) in over_http.as_object().unwrap() {
        let begin = format!("{name:?}: ");
        let found = said.split_once(&begin).unwrap_or_else(|| panic!("no {name}: {said}")).1;
        let expected = match (name.as_str(), value) {
            ("remaining", _) => "1".to_owned(),
            // The second check came later.
            ("at_us", _) => "1".to_owned(),
            (_, Value::Bool(is_so)) => format!("#{}", if *is_so { 't' } else { 'f' }),
            (_, Value::Null) => "nil".to_owned(),
            (_, Value::Array(_)) => "[".to_owned(),
            (_, Value::Object(_)) => "{\"seconds\": ".to_owned(),
            (_, other) => other.to_string(),
        };
        assert!(found.starts_with(&expected), "{name}: {said}");
    }
    redis.ask("HELLO 2").await;
    redis.send(&command(&check)).await;
    let said = redis.reply().await;
    assert!(
        said.starts_with(r#"["allowed", 1, "outcome", "allowed", "authority", "store", "#),
        "{said}"
    );
    assert!(said.contains(r#""remaining", 0"#), "{said}");
    assert_eq!(http.check(question).await["allowed"], false, "one count");
}

/// A field of an answer at the first level.
pub(crate) fn of(answer: &str, name: &str) -> String {
    // The fields of its limits have the same names.
    let (before, rest) = answer.split_once(r#""limits", ["#).unwrap_or((answer, ""));
    let after = rest.rsplit_once(r#"], "shadows""#).map_or("", |(_, after)| after);
    let whole = format!("{before}{after}");
    let found = whole.split_once(&format!("{name:?}, ")).unwrap_or_else(|| panic!("{answer}")).1;
    found.split([',', ']']).next().unwrap().to_owned()
}

#[tokio::test]
async fn costs_looks_and_receipts() {
    let service = service().await;
    let (mut redis, mut http) = (service.redis().await, service.client().await);
    for (line, allowed, remaining) in [
        ("TOLLGATE.PEEK a 10/h 20/d COST 10", "1", "10"),
        ("tollgate.check a 10/h 20/d cost 4", "1", "6"),
        ("TOLLGATE.CHECK a 10/h 20/d COST 7", "0", "6"),
        ("TOLLGATE.PEEK a 10/h 20/d", "1", "6"),
    ] {
        let said = redis.ask(line).await;
        assert_eq!(
            (of(&said, "allowed"), of(&said, "remaining")),
            (allowed.into(), remaining.into())
        );
    }
    let said = redis.ask("TOLLGATE.CHECK a 10/h 20/d COST 6 RECEIPT").await;
    let receipt = of(&said, "receipt");
    let refund = http.post("/v1/refund", &format!(r#"{{"receipt": {receipt}, "units": 2}}"#)).await;
    assert_eq!(refund.status.as_u16(), 200, "{}", refund.text);
    assert_eq!(of(&redis.ask("TOLLGATE.PEEK a 10/h 20/d").await, "remaining"), "2");
    let receipt = receipt.trim_matches('"');
    let refund = format!("TOLLGATE.REFUND {receipt}");
    for (line, says) in [
        (format!("{refund} 1"), r#"["already", 0, "given", [1, 1], "left", 3]"#.to_owned()),
        (format!("{refund} 7"), "(ERR give 1 to 6, of the charged units: 7 is not)".to_owned()),
        (format!("{refund} 0"), "(ERR give 1 to 6, of the charged units: 0 is not)".to_owned()),
        (format!("{refund} x"), "(ERR value is not an integer or out of range)".to_owned()),
        (refund.clone(), r#"["already", 0, "given", [3, 3], "left", 0]"#.to_owned()),
        (refund.clone(), r#"["already", 1, "given", [0, 0], "left", 0]"#.to_owned()),
    ] {
        assert_eq!(redis.ask(&line).await, says, "{line}");
    }
    assert_eq!(of(&redis.ask("TOLLGATE.PEEK a 10/h 20/d").await, "remaining"), "6");
    redis.ask("HELLO 3").await;
    let said = redis.ask(&refund).await;
    assert_eq!(said, r#"{"already": #t, "given": [0, 0], "left": 0}"#);
    for strange in ["TOLLGATE.REFUND x", "TOLLGATE.REFUND"] {
        assert!(redis.ask(strange).await.starts_with("(ERR "), "{strange}");
    }
}

#[tokio::test]
async fn an_answer_has_the_response_that_it_stands_for() {
    let service = service().await;
    let mut redis = service.redis().await;
    let line = "TOLLGATE.CHECK user:1 1/h RESPONSE draft";
    let policy = r#"["name", "ratelimit-policy", "value", ""client";q=1;w=3600"]"#;
    for status in [200, 429] {
        let said = redis.ask(line).await;
        let begin = format!(r#""response", ["status", {status}, "headers", ["#);
        let said = said.replace('\\', "");
        assert!(said.contains(&begin) && said.contains(policy), "{said}");
    }
    let said = redis.ask("TOLLGATE.REQUEST * ip 192.0.2.7 PEEK RESPONSE none").await;
    assert!(said.ends_with(r#""response", ["status", 200, "headers", [], "body", ""]]"#), "{said}");
    let said = redis.ask("TOLLGATE.PEEK user:1 1/h RESPONSE all").await;
    assert_eq!(said, "(ERR `all` is not a set of headers: draft, legacy, both or none)");
    let said = redis.ask("TOLLGATE.CHARGE user:1 1/h RESPONSE draft").await;
    assert!(said.starts_with("(ERR "), "{said}");
}

#[tokio::test]
async fn several_subjects_are_one_question() {
    let service = service().await;
    let (mut redis, mut http) = (service.redis().await, service.client().await);
    let both = "TOLLGATE.CHECK tenant:1 5/h AND user:1 2/h 9/d";
    for (line, allowed, remaining) in [
        (format!("{both} COST 2 RECEIPT"), "1", "0"),
        // All or nothing: the tenant is not charged.
        (both.to_owned(), "0", "0"),
        ("TOLLGATE.PEEK tenant:1 5/h".to_owned(), "1", "3"),
        ("TOLLGATE.PEEK tenant:1 5/h and user:2 2/h".to_owned(), "1", "2"),
        // A subject may be named as a word of the syntax.
        ("TOLLGATE.CHECK COST 4/h AND AND 3/h AND key:PEEK 2/h COST 2".to_owned(), "1", "0"),
        ("TOLLGATE.PEEK AND 3/h".to_owned(), "1", "1"),
        ("TOLLGATE.PEEK COST 4/h".to_owned(), "1", "2"),
        ("TOLLGATE.CHECK a 4/h SHARD x DEADLINE 60000 ONFAILURE allow".to_owned(), "1", "3"),
        ("TOLLGATE.PEEK a 4/h onfailure DENY deadline 1 shard x".to_owned(), "1", "3"),
    ] {
        let said = redis.ask(&line).await;
        let found = (of(&said, "allowed"), of(&said, "remaining"));
        assert_eq!(found, (allowed.into(), remaining.into()), "{line}");
    }
    let question = r#"{"on": [{"subject": "tenant:1", "limit": "5/h"},
                              {"subject": "user:1", "limit": "2/h, 9/d"}]}"#;
    assert_eq!(http.check(question).await["allowed"], false, "one count");
}

#[tokio::test]
async fn policies_decide_about_requests() {
    let service = service().await;
    let mut redis = service.redis().await;
    let login = "TOLLGATE.REQUEST * ip 192.0.2.7 path /login method POST";
    for (line, allowed, policy) in [
        (format!("{login} PEEK"), "1", "\"login\""),
        (login.to_owned(), "1", "\"login\""),
        (login.to_owned(), "1", "\"login\""),
        (login.to_owned(), "0", "\"login\""),
        // By name, whatever its conditions; a value may be a word of the syntax.
        ("TOLLGATE.REQUEST login ip 192.0.2.7 user COST PEEK".to_owned(), "0", "\"login\""),
        ("TOLLGATE.REQUEST login ip 192.0.2.8 user PEEK COST 2".to_owned(), "1", "\"login\""),
        ("TOLLGATE.REQUEST login ip 192.0.2.8".to_owned(), "0", "\"login\""),
    ] {
        let said = redis.ask(&line).await;
        assert_eq!(of(&said, "allowed"), allowed, "{line}: {said}");
        assert!(said.contains(&format!("\"policy\", {policy}")), "{said}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_said_in_a_line() {
    let service = service().await;
    let mut redis = service.redis().await;
    talk(
        &mut redis,
        &[
            ("TOLLGATE.CHECK a", "(ERR wrong number of arguments for 'tollgate.check' command)"),
            (
                "TOLLGATE.CHECK a 0/s",
                "(ERR a quota of 0 would never admit anything: give at least 1)",
            ),
            ("TOLLGATE.CHECK a 1/s COST", "(ERR syntax error)"),
            ("TOLLGATE.CHECK a 1/s COST 1 COST 1", "(ERR syntax error)"),
            ("TOLLGATE.CHECK a 1/s RECEIPT 2/s", "(ERR syntax error)"),
            ("TOLLGATE.CHECK a 1/s AND", "(ERR syntax error)"),
            ("TOLLGATE.CHECK a 1/s AND b", "(ERR `b` has no limit: write one after it, e.g. 10/s)"),
            ("TOLLGATE.CHECK a COST 1", "(ERR `a` has no limit: write one after it, e.g. 10/s)"),
            (
                "TOLLGATE.CHECK a 1/s DEADLINE 0",
                "(ERR a deadline is 1 to 60000 milliseconds, not 0)",
            ),
            (
                "TOLLGATE.CHECK a 1/s DEADLINE 60001",
                "(ERR a deadline is 1 to 60000 milliseconds, not 60001)",
            ),
            ("TOLLGATE.CHECK a 1/s DEADLINE 5ms", "(ERR value is not an integer or out of range)"),
            ("TOLLGATE.CHECK a 1/s ONFAILURE", "(ERR syntax error)"),
            (
                "TOLLGATE.CHECK a 1/s ONFAILURE open",
                "(ERR `open` is not a failure rule: say `allow`, `deny`, or a share for this node, e.g. \
                 `local 25 %`)",
            ),
            ("TOLLGATE.CHECK a 1/s COST -1", "(ERR value is not an integer or out of range)"),
            ("TOLLGATE.CHECK a 1/s COST 1.5", "(ERR value is not an integer or out of range)"),
            ("TOLLGATE.REQUEST * ip", "(ERR `ip` has no value)"),
            (
                "TOLLGATE.REQUEST nobody ip 192.0.2.7",
                "(ERR there is no policy `nobody`: GET /v1/policies lists them)",
            ),
        ],
    )
    .await;
    for (line, says) in [
        ("TOLLGATE.CHECK a 1/s COST 0", "(ERR a check costs at least 1"),
        ("TOLLGATE.CHECK a 1/s COST 1099511627777", "(ERR a cost of 1099511627777 is too large"),
        ("TOLLGATE.CHECK a 1/s, 2/s", "(ERR "),
        // Options of other commands are unknown here.
        ("TOLLGATE.CHECK a 1/s PEEK", "(ERR this is not a quota"),
        ("TOLLGATE.PEEK a 1/s ID x", "(ERR this is not a quota"),
        ("TOLLGATE.REQUEST * nothing x", "(ERR "),
        ("TOLLGATE.REQUEST * ip 192.0.2.7 SHARD x", "(ERR "),
        ("TOLLGATE.CHECK a 1/s AND a 1/s", "(ERR "),
        ("TOLLGATE.REQUEST * ip x", "(ERR `ip` is not an address"),
    ] {
        let said = redis.ask(line).await;
        assert!(said.starts_with(says), "{line}: {said}");
    }
    let long = "a".repeat(1_025);
    let said = redis.ask(&format!("TOLLGATE.CHECK {long} 1/s")).await;
    assert_eq!(said, "(ERR a word has at most 1024 bytes, not 1025)");
    redis.send(&command(&[b"TOLLGATE.CHECK", b"\xff", b"1/s"])).await;
    assert_eq!(redis.reply().await, "(ERR a word is not UTF-8)");
    redis.send(&command(&[b"TOLLGATE.CHECK", b"a", b""])).await;
    assert_eq!(redis.reply().await, "(ERR an empty text is not a limit)");
    // Nothing of all that was counted.
    assert_eq!(of(&redis.ask("TOLLGATE.PEEK a 1/s").await, "remaining"), "1");
}

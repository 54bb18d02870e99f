//! The response that a decision stands for, for middleware in another language.

use super::*;

/// The status, the value of a header or nothing, and the body.
fn read<'v>(said: &'v Value, header: &str) -> (u64, &'v str, &'v str) {
    let response = &said["response"];
    let headers = response["headers"].as_array().unwrap();
    let found = headers.iter().find(|it| it["name"] == header);
    let value = found.and_then(|it| it["value"].as_str()).unwrap_or_default();
    (response["status"].as_u64().unwrap(), value, response["body"].as_str().unwrap())
}

#[tokio::test]
async fn an_answer_has_the_response_that_it_stands_for() {
    let service = Service::start().await;
    let mut client = service.client().await;
    let question = r#"{"subject": "user:42", "limit": "api: 1/h", "response": "both"}"#;
    let said = client.check(question).await;
    assert_eq!(read(&said, "ratelimit-policy"), (200, r#""api";q=1;w=3600"#, ""));
    assert_eq!(read(&said, "x-ratelimit-remaining"), (200, "0", ""));
    let said = client.check(question).await;
    let (status, wait, body) = read(&said, "retry-after");
    assert_eq!((status, wait), (429, "3600"));
    assert!(body.contains(r#""violated-policies":["api"]"#), "{body}");
    let several = r#"{"on": [{"subject": {"tenant": "1", "user": "2"}, "limit": "5/h, 3/m"},
        {"subject": "user:3", "limit": "9/h"}, {"subject": "user:4", "limit": "9/h"}],
        "cost": 4, "response": "draft"}"#;
    let names = [
        r#""client/tenant+user/1h";q=5;w=3600"#,
        r#""client/tenant+user/1m";q=3;w=60"#,
        r#""client/user";q=9;w=3600"#,
        r#""client/3";q=9;w=3600"#,
    ]
    .join(", ");
    let said = client.check(several).await;
    let (status, policy, body) = read(&said, "ratelimit-policy");
    assert_eq!((status, policy), (422, &*names));
    assert!(body.contains(r#""violated-policies":["client/tenant+user/1m"]"#), "{body}");
    let said = client.check(&several.replace("\"cost\": 4", "\"cost\": 3")).await;
    assert_eq!(read(&said, "ratelimit-policy"), (200, &*names, ""));
    let none = r#"{"subject": "user:43", "limit": "1/h", "response": "none"}"#;
    assert_eq!(client.check(none).await["response"]["headers"], json!([]));
    assert!(
        client.check(r#"{"subject": "user:44", "limit": "1/h"}"#).await.get("response").is_none()
    );
}

#[tokio::test]
async fn a_response_by_policies_is_that_of_the_layer() {
    let service = Service::start().await;
    let mut client = service.client().await;
    let fields = |fields: Value| json!({ "fields": fields, "response": "draft" }).to_string();
    let login = json!({ "path": "/login", "method": "POST", "ip": "192.0.2.7" });
    for status in [200, 200, 429] {
        let said = client.check(&fields(login.clone())).await;
        assert_eq!(read(&said, "ratelimit-policy").0, status);
        assert_eq!(read(&said, "ratelimit-policy").1, r#""login";q=2;w=3600"#);
    }
    let banned = json!({ "header.x-bad": "yes", "ip": "192.0.2.7" });
    let said = client.check(&fields(banned)).await;
    assert_eq!(read(&said, "retry-after").0, 403);
    let nobody = json!({ "path": "/login", "method": "POST" });
    assert_eq!(read(&client.check(&fields(nobody)).await, "retry-after").0, 503);
}

#[tokio::test]
async fn only_what_a_request_waits_for_has_a_response() {
    let service = Service::start().await;
    let mut client = service.client().await;
    for (path, body) in [
        ("/v1/check", r#"{"subject": "a", "limit": "1/h", "response": "all"}"#),
        ("/v1/charge", r#"{"subject": "a", "limit": "1/h", "response": "draft"}"#),
        ("/v1/reserve", r#"{"subject": "a", "limit": "1/h", "ttl": "1s", "response": "draft"}"#),
    ] {
        let reply = client.post(path, body).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{path}: {}", reply.text);
        assert_eq!(reply.json()["field"], "response", "{path}: {}", reply.text);
    }
    let batch = r#"{"checks": [{"subject": "a", "limit": "1/h", "response": "draft"}]}"#;
    let said = client.post("/v1/check", batch).await.json();
    assert_eq!(said["results"][0]["problem"]["field"], "checks[0].response", "{said}");
}

//! Answers under rules, under limits that a request brings, and by policies.

use http::StatusCode;
use tollgate_envoy::proto::descriptor::rate_limit_descriptor::RateLimitOverride;
use tollgate_envoy::proto::service::RateLimitRequest;
use tollgate_envoy::proto::service::rate_limit_response::rate_limit::Unit;
use tollgate_service::Options;
use tollgate_tower::answer::{Profile, Reset};
use tonic::Code;

use super::{RULES, service, service_with};
use crate::grpc_client::{request, summary};
use crate::{FILE, Service, here};

/// Seconds of a year: no window here is longer.
const YEAR: i64 = 365 * 86_400;

#[tokio::test]
async fn each_descriptor_has_its_status_in_its_place() {
    let service = service().await;
    let wire = service.wire().await;
    for (descriptors, expected) in [
        (&["user=1"][..], "OK: OK 2"),
        (&["user=1", "other=1", "free=1", "user=2"], "OK: OK 1, OK 0, OK 4294967295, OK 2"),
        (&["user=vip"], "OK: OK 999"),
        (&["user=1"], "OK: OK 0"),
        (&["user=1"], "OVER: OVER 0"),
        (&["user=2", "user=1"], "OVER: OK 1, OVER 0"),
        (&["banned=1"], "OVER: OVER 0"),
        (&["path=/a/1"], "OK: OK 1"),
        (&["path=/a/2"], "OK: OK 1"),
        (&["path=/b/1"], "OK: OK 0"),
        (&["shared=/a/1"], "OK: OK 1"),
        (&["shared=/a/2"], "OK: OK 0"),
        (&["shared=/a/3"], "OVER: OVER 0"),
        (&["trial=1"], "OK: OK 0"),
        (&["trial=1"], "OK: OK 0"),
        (&["path=/a/3", "instead=1"], "OK: OK 0, OK 8"),
        (&["part=1", "part=2"], "OK: OK 0, OK 0"),
        (&["part=1", "part=3"], "OK: OVER 0, OK 0"),
        (&["part=1", "part=3"], "OVER: OVER 0, OVER 0"),
        (&["part=1", "user=3"], "OVER: OVER 0, OK 2"),
        (&["user=1,more=1"], "OK: OK 0"),
    ] {
        assert_eq!(wire.summary("shop", descriptors).await, expected, "{descriptors:?}");
    }
}

#[tokio::test]
async fn a_status_says_which_limit_and_when_it_begins_anew() {
    let service = service().await;
    let wire = service.wire().await;
    let answer = wire.ask(&request("shop", &["path=/a/1", "none=1"])).await.unwrap();
    let [status, none] = &answer.statuses[..] else { panic!("{answer:?}") };
    let limit = status.current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit, &*limit.name), (2, 6, "paths"));
    assert_eq!(Unit::try_from(limit.unit).unwrap(), Unit::Year);
    let reset = status.duration_until_reset.unwrap();
    assert!((1..=YEAR).contains(&reset.seconds) && reset.nanos == 0, "{reset:?}");
    let until = YEAR - i64::try_from(now()).unwrap() % YEAR;
    assert!((reset.seconds - until).abs() <= 1, "{reset:?} is not {until}");
    assert_eq!((&none.current_limit, none.duration_until_reset), (&None, None));
    // Limits of ours: the requested units come back when the oldest of two leaves.
    for expected in ["OK: OK 1", "OK: OK 0"] {
        assert_eq!(wire.summary("shop", &["quick=1"]).await, expected);
    }
    let answer = wire.ask(&request("shop", &["quick=1"])).await.unwrap();
    assert_eq!(summary(&answer), "OVER: OVER 0");
    let status = &answer.statuses[0];
    let limit = status.current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit), (2, 0), "10 s is not one of Envoy's units");
    let reset = status.duration_until_reset.unwrap();
    assert!((9..=10).contains(&reset.seconds) && reset.nanos == 0, "{reset:?}");
    // Both count, and the report is theirs.
    assert_eq!(wire.summary("shop", &["both=1"]).await, "OK: OK 0");
    let answer = wire.ask(&request("shop", &["both=1"])).await.unwrap();
    assert_eq!(summary(&answer), "OVER: OVER 0");
    assert_eq!(answer.statuses[0].current_limit.as_ref().unwrap().requests_per_unit, 5);
    assert!(answer.statuses[0].duration_until_reset.unwrap().seconds <= 10);
}

fn now() -> u64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()
}

#[tokio::test]
async fn hits_are_charged_looked_at_and_given_back() {
    let service = service().await;
    let wire = service.wire().await;
    for (descriptors, hits, expected) in [
        (&["user=1"][..], 2, "OK: OK 1"),
        (&["0 user=1"], 2, "OK: OK 1"),
        (&["0 user=1", "0 user=2"], 0, "OK: OK 1, OK 3"),
        (&["1 user=1"], 9, "OK: OK 0"),
        // All of the limit is used, and no more.
        (&["0 user=1"], 0, "OK: OK 0"),
        (&["user=1"], 0, "OVER: OVER 0"),
        (&["0 user=1"], 0, "OVER: OVER 0"),
        (&["-1 user=1"], 0, "OK: OK 0"),
        (&["-2 user=1"], 0, "OK: OK 2"),
        (&["-1000 user=1"], 0, "OK: OK 3"),
        (&["-5 user=never"], 0, "OK: OK 3"),
        // Denied hits count too, and the debt has to be paid back first.
        (&["4 user=2"], 0, "OVER: OVER 0"),
        (&["0 user=2"], 0, "OVER: OVER 0"),
        (&["user=2"], 0, "OVER: OVER 0"),
        (&["-3 user=2"], 0, "OK: OK 1"),
        (&["user=2"], 0, "OK: OK 0"),
        // One that is over its limit keeps no other from being charged.
        (&["user=2", "3 user=4"], 0, "OVER: OVER 0, OK 0"),
        (&["999 user=vip"], 0, "OK: OK 1"),
        (&["-1 banned=1"], 0, "OK: OK 0"),
        (&["0 banned=1"], 0, "OK: OK 0"),
        (&["banned=1"], 0, "OVER: OVER 0"),
    ] {
        let asked = RateLimitRequest { hits_addend: hits, ..request("shop", descriptors) };
        let answer = wire.ask(&asked).await.unwrap();
        assert_eq!(summary(&answer), expected, "{descriptors:?} {hits}");
    }
}

#[tokio::test]
async fn a_request_brings_its_own_limit() {
    let service = service().await;
    let wire = service.wire().await;
    let with = |text: &str, requests_per_unit, unit| {
        let mut asked = request("shop", &[text]);
        asked.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit, unit });
        asked
    };
    for (asked, expected) in [
        (with("user=1", 10, 6), "OK: OK 9"),
        // The count is that of the rule, since the window is.
        (request("shop", &["user=1"]), "OK: OK 1"),
        (with("user=1", 10, 7), "OK: OK 9"),
        (with("nobody=1", 1, 6), "OK: OK 0"),
        (with("nobody=1", 1, 6), "OVER: OVER 0"),
        (with("user=2", 0, 6), "OVER: OVER 0"),
        // Neither shadow nor quota mode.
        (with("trial=1", 1, 6), "OK: OK 0"),
        (with("trial=1", 1, 6), "OVER: OVER 0"),
        (RateLimitRequest { domain: "other".into(), ..with("user=1", 1, 0) }, "OK: OK 0"),
    ] {
        let answer = wire.ask(&asked).await.unwrap();
        assert_eq!(summary(&answer), expected, "{asked:?}");
    }
    let limit = wire.ask(&with("user=3", 10, 7)).await.unwrap().statuses[0].current_limit.clone();
    assert_eq!(limit.map(|limit| (limit.requests_per_unit, limit.unit)), Some((10, 7)));
    for unit in [0, 8, -1] {
        let (code, text) = wire.refused(&with("user=1", 1, unit)).await;
        assert_eq!(code, Code::InvalidArgument);
        assert!(text.starts_with("descriptors[0].limit.unit: "), "{text}");
    }
    let strict =
        service_with(RULES, |options| options.caller_limits = tollgate_service::CallerLimits::Off);
    let strict = strict.await;
    let wire = strict.wire().await;
    assert_eq!(wire.refused(&with("user=1", 1, 1)).await.0, Code::PermissionDenied);
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 2");
}

#[tokio::test]
async fn what_is_wrong_is_said_and_nothing_charged() {
    let service = service().await;
    let wire = service.wire().await;
    let domain_empty = request("", &["user=1"]);
    let said = wire.refused(&domain_empty).await;
    assert_eq!(said, (Code::Unknown, "rate limit domain must not be empty".into()));
    let said = wire.refused(&request("shop", &[])).await;
    assert_eq!(said, (Code::Unknown, "rate limit descriptor list must not be empty".into()));
    let long = format!("user={}", "x".repeat(65_536));
    let (code, text) = wire.refused(&request("shop", &["user=1", &long])).await;
    assert_eq!(code, Code::InvalidArgument);
    assert!(text.starts_with("descriptors[1]: "), "{text}");
    let (code, text) = wire.refused(&request("shop", &["user=1"; 10_000])).await;
    assert_eq!(code, Code::InvalidArgument);
    assert_eq!(text, "descriptors: a request has at most 100, not 10000");
    let mut much = request("shop", &["user=1"]);
    much.descriptors[0].hits_addend = Some(u64::MAX);
    assert_eq!(wire.refused(&much).await.0, Code::InvalidArgument);
    assert_eq!(wire.summary("shop", &["0 user=1"]).await, "OK: OK 3");
    // A long value has its own count all the same.
    let (one, other) = ("x".repeat(60_000), format!("{}y", "x".repeat(59_999)));
    for _ in 0..3 {
        wire.summary("shop", &[&format!("user={one}")]).await;
    }
    assert_eq!(wire.summary("shop", &[&format!("user={one}")]).await, "OVER: OVER 0");
    assert_eq!(wire.summary("shop", &[&format!("user={other}")]).await, "OK: OK 2");
}

/// Headers of an answer, in the order of their names.
fn headers(answer: &tollgate_envoy::proto::service::RateLimitResponse) -> Vec<(String, String)> {
    let pair = |header: &tollgate_envoy::proto::core::HeaderValue| {
        (header.key.clone(), header.value.clone())
    };
    let mut headers: Vec<_> = answer.response_headers_to_add.iter().map(pair).collect();
    headers.sort();
    headers
}

#[tokio::test]
async fn headers_tell_of_the_limit_that_binds_and_a_denial_has_a_sentence() {
    let service = telling().await;
    let wire = service.wire().await;
    let ask = async |descriptors: &[&str]| wire.ask(&request("shop", descriptors)).await.unwrap();
    let answer = ask(&["user=1", "path=/a/1", "free=1", "none=1"]).await;
    let told = headers(&answer);
    let names: Vec<_> = told.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["ratelimit", "ratelimit-policy"]);
    // The name of the rule, else its path, and all limits of the answer.
    assert!(told[0].1.starts_with(r#""paths";r=1;t="#), "{told:?}");
    let both = format!(r#""paths";q=2;w={YEAR}, "shop.user";q=3;w={YEAR}"#);
    assert_eq!(told[1].1, both);
    assert!(answer.raw_body.is_empty());
    ask(&["user=1", "user=1"]).await;
    let answer = ask(&["user=1", "path=/a/1"]).await;
    assert_eq!(summary(&answer), "OVER: OVER 0, OK 0");
    let told = headers(&answer);
    let names: Vec<_> = told.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["ratelimit", "ratelimit-policy", "retry-after"]);
    assert!(told[0].1.starts_with(r#""shop.user";r=0;t="#), "{told:?}");
    assert_eq!(told[1].1, format!(r#""shop.user";q=3;w={YEAR}, "paths";q=2;w={YEAR}"#));
    let reset = answer.statuses[0].duration_until_reset.unwrap().seconds;
    let wait: i64 = told[2].1.parse().unwrap();
    assert!((wait - reset).abs() <= 1, "{wait} is not {reset}");
    // One sentence: Envoy makes it the `grpc-message` of a client of gRPC.
    let body = String::from_utf8(answer.raw_body).unwrap();
    assert_eq!(body, format!("Too many requests. Ask again in {wait} s.\n"));
    // No waiting helps: no body says that it does.
    let answer = ask(&["banned=1"]).await;
    assert_eq!((headers(&answer).len(), answer.raw_body.len()), (0, 0));
    // Nor does another descriptor's wait: not beside a ban, and not beside hits that never fit.
    for never in ["banned=1", "4 user=9"] {
        for asked in [[never, "user=1"], ["user=1", never]] {
            let answer = ask(&asked).await;
            let told = headers(&answer);
            assert!(told.iter().all(|(name, _)| name != "retry-after"), "{asked:?}: {told:?}");
            assert!(answer.raw_body.is_empty(), "{asked:?}");
        }
    }
}

/// A service that tells clients of their limits, under [`RULES`].
async fn telling() -> crate::Service {
    service_with(RULES, |options| options.headers = Some(Profile::Draft)).await
}

/// Names may have what separates a list, and two limits that a request brings have two names.
#[tokio::test]
async fn the_limits_of_an_answer_are_listed_each_by_its_name() {
    let text = "
domain: shop
descriptors:
  - key: a
    rate_limit: { unit: day, requests_per_unit: 5, name: 'acme, inc' }
  - key: b
    rate_limit: { unit: day, requests_per_unit: 9, name: 'acme, ltd' }
";
    let service = service_with(text, |options| options.headers = Some(Profile::Draft)).await;
    let mut asked = request("shop", &["a=1", "b=1", "c=1", "d=1"]);
    for (descriptor, requests_per_unit) in asked.descriptors[2..].iter_mut().zip([3, 4]) {
        let unit = Unit::Hour.into();
        descriptor.limit = Some(RateLimitOverride { requests_per_unit, unit });
    }
    let answer = service.wire().await.ask(&asked).await.unwrap();
    let told = headers(&answer);
    let listed = [
        r#""shop.c_1";q=3;w=3600"#,
        r#""acme, inc";q=5;w=86400"#,
        r#""acme, ltd";q=9;w=86400"#,
        r#""shop.d_1";q=4;w=3600"#,
    ];
    assert_eq!(told[1].1, listed.join(", "));
}

/// A dry run changes nothing, and a quota counts where it denies.
#[tokio::test]
async fn limits_that_do_not_deny_are_not_told() {
    let service = telling().await;
    let wire = service.wire().await;
    let ask = async |descriptors: &[&str]| wire.ask(&request("shop", descriptors)).await.unwrap();
    for _ in 0..3 {
        let answer = ask(&["trial=1", "user=1"]).await;
        let told = headers(&answer);
        assert!(told[0].1.starts_with(r#""shop.user";r="#), "{told:?}");
        assert_eq!(told[1].1, format!(r#""shop.user";q=3;w={YEAR}"#));
    }
    assert_eq!(headers(&ask(&["trial=1"]).await), []);
    // Of two quotas one is spent, and the other admits.
    ask(&["part=1"]).await;
    let answer = ask(&["part=1", "part=2"]).await;
    assert_eq!(summary(&answer), "OK: OVER 0, OK 0");
    assert_eq!((headers(&answer), answer.raw_body), (vec![], vec![]));
    let answer = ask(&["part=1", "part=2"]).await;
    assert_eq!(summary(&answer), "OVER: OVER 0, OVER 0");
    assert!(headers(&answer)[0].1.starts_with(r#""shop.part";r=0;t="#));
    assert!(answer.raw_body.starts_with(b"Too many requests. Ask again in "));
}

#[tokio::test]
async fn the_meaning_of_the_reference_has_no_headers_unless_they_are_wanted() {
    let ask = async |service: crate::Service| {
        let asked = request("shop", &["user=1"; 4]);
        let answer = service.wire().await.ask(&asked).await.unwrap();
        let names: Vec<_> = headers(&answer).into_iter().map(|(name, _)| name).collect();
        (names.join(" "), !answer.raw_body.is_empty())
    };
    let with = |headers: Option<Profile>| move |options: &mut Options| options.headers = headers;
    let tollgate = RULES.replace("domain: shop", "domain: shop\nmeaning: tollgate");
    let both = "ratelimit ratelimit-policy retry-after \
                x-ratelimit-limit x-ratelimit-remaining x-ratelimit-reset";
    for (text, headers, names, has_body) in [
        (RULES, None, "", false),
        (&*tollgate, None, "ratelimit ratelimit-policy retry-after", true),
        (&*tollgate, Some(Profile::None), "", false),
        (RULES, Some(Profile::Both(Reset::Delta)), both, true),
    ] {
        let told = ask(service_with(text, with(headers)).await).await;
        assert_eq!(told, (names.to_owned(), has_body), "{headers:?}");
    }
}

#[tokio::test]
async fn metadata_is_that_of_what_was_admitted() {
    let service = service_with(
        "
domain: shop
descriptors:
  - key: a
    rate_limit: { unit: year, requests_per_unit: 1 }
    metadata: { to: { name: a, more: 1 }, only: [true, null] }
  - key: b
    rate_limit: { unit: year, requests_per_unit: 9 }
    metadata: { to: { name: b, own: x } }
",
        |options| options.envoy.metadata = true,
    )
    .await;
    let wire = service.wire().await;
    let mut asked = request("shop", &["a=1", "3 b=1"]);
    asked.hits_addend = 1;
    let told = async |asked: &RateLimitRequest| {
        let answer = wire.ask(asked).await.unwrap();
        format!("{:?}", answer.dynamic_metadata.unwrap())
            .replace("Value { kind: Some", "")
            .replace("Struct { fields: ", "")
    };
    let said = told(&asked).await;
    for part in [
        r#""domain": (StringValue("shop"))"#,
        r#""hitsAddend": (NumberValue(1.0))"#,
        r#""hitsAddend": (NumberValue(3.0))"#,
        r#"(StringValue("a=1"))"#,
        r#""name": (StringValue("a"))"#,
        r#""own": (StringValue("x"))"#,
        r#""more": (NumberValue(1.0))"#,
        r#"(BoolValue(true))"#,
    ] {
        assert!(said.contains(part), "{said}\nhas no {part}");
    }
    assert!(!said.contains(r#""name": (StringValue("b"))"#), "the first stays: {said}");
    let said = told(&asked).await;
    assert!(!said.contains(r#"StringValue("a"))"#), "the first was denied: {said}");
    assert!(said.contains(r#""name": (StringValue("b"))"#), "{said}");
    // Where a rule has none, it is the request. A domain without rules has that too.
    let request_alone = told(&request("nobody", &["user=1"])).await;
    assert!(request_alone.contains(r#""domain": (StringValue("nobody"))"#), "{request_alone}");
    assert!(!request_alone.contains("metadata"), "{request_alone}");
    // Off by default.
    let plain = super::service().await;
    let answer = plain.wire().await.ask(&request("shop", &["user=1"])).await.unwrap();
    assert_eq!(answer.dynamic_metadata, None);
}

#[tokio::test]
async fn all_or_nothing_charges_nothing_on_a_denial() {
    let service = service_with(
        "
domain: shop
meaning: tollgate
descriptors:
  - key: a
    rate_limit: { unit: year, requests_per_unit: 5 }
  - key: b
    rate_limit: { unit: year, requests_per_unit: 2 }
  - key: trial
    shadow_mode: true
    rate_limit: { unit: year, requests_per_unit: 3 }
  - key: banned
    rate_limit: { unit: year, requests_per_unit: 0 }
",
        |_| {},
    )
    .await;
    let wire = service.wire().await;
    for (descriptors, expected) in [
        (&["a=1", "b=1", "trial=1"][..], "OK: OK 4, OK 1, OK 2"),
        (&["a=1", "b=1", "trial=1"], "OK: OK 3, OK 0, OK 1"),
        // Nothing is charged, whatever the order.
        (&["a=1", "b=1", "trial=1"], "OVER: OK 3, OVER 0, OK 1"),
        (&["b=1", "a=1"], "OVER: OVER 0, OK 3"),
        (&["2 a=1", "banned=1"], "OVER: OK 3, OVER 0"),
        (&["0 a=1"], "OK: OK 3"),
        // Different hits, and the same descriptor twice: charged and given back.
        (&["2 a=1", "3 b=2"], "OVER: OK 3, OVER 2"),
        (&["0 a=1", "0 b=2"], "OK: OK 3, OK 2"),
        (&["2 a=1", "b=2"], "OK: OK 1, OK 1"),
        (&["a=2", "a=2"], "OK: OK 4, OK 3"),
        // No hits are admitted where all is used, and no more.
        (&["0 b=1", "a=2"], "OK: OK 0, OK 2"),
        (&["0 a=2", "-1 b=1"], "OK: OK 2, OK 1"),
    ] {
        assert_eq!(wire.summary("shop", descriptors).await, expected, "{descriptors:?}");
    }
    // Twice as many as one check can have.
    let many: Vec<String> = (0..40).map(|number| format!("a=many-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let said = wire.summary("shop", &many).await;
    assert_eq!(said, format!("OK: {}", ["OK 4"; 40].join(", ")));
    let mut denied = many.clone();
    denied.push("b=1");
    wire.summary("shop", &["b=1"]).await;
    assert!(wire.summary("shop", &denied).await.starts_with("OVER: OK 4, OK 4"));
    assert_eq!(wire.summary("shop", &["0 a=many-0", "0 a=many-39"]).await, "OK: OK 4, OK 4");
}

#[tokio::test]
async fn a_domain_that_nobody_knows_is_admitted_or_denied() {
    let service = service().await;
    let wire = service.wire().await;
    assert_eq!(wire.summary("other", &["user=1", "a=b"]).await, "OK: OK 0, OK 0");
    let strict = service_with(RULES, |options| options.envoy.denies_unknown = true).await;
    let wire = strict.wire().await;
    assert_eq!(wire.summary("other", &["user=1", "a=b"]).await, "OVER: OVER 0, OVER 0");
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 2");
}

#[tokio::test]
async fn policies_answer_for_domains_without_rules() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("policies.toml");
    std::fs::write(&config, FILE).unwrap();
    let service = service_with(RULES, |options| options.config = Some(config)).await;
    let wire = service.wire().await;
    let login = "remote_address=192.0.2.7,path=/login?x=1,method=POST";
    for (descriptors, expected) in [
        (&[login][..], "OK: OK 1"),
        (&["0 remote_address=192.0.2.7,path=/login,method=POST"], "OK: OK 1"),
        (&[login, "path=/else"], "OK: OK 0, OK 0"),
        (&[login, "ip=192.0.2.8,path=/pages/1"], "OVER: OVER 0, OK 4"),
        (&["3 ip=192.0.2.8,path=/pages/1"], "OK: OK 1"),
        (&["user=1"], "OK: OK 0"),
    ] {
        assert_eq!(wire.summary("gateway", descriptors).await, expected, "{descriptors:?}");
    }
    let answer = wire.ask(&request("gateway", &[login])).await.unwrap();
    let limit = answer.statuses[0].current_limit.clone().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit, &*limit.name), (2, 3, "login"));
    assert!(answer.statuses[0].duration_until_reset.unwrap().seconds > 3_000);
    let told = headers(&answer);
    assert!(
        told.iter().any(|(name, value)| name == "ratelimit" && value.starts_with(r#""login""#))
    );
    // The same count as over HTTP.
    let mut client = service.client().await;
    let fields = r#"{"fields": {"ip": "192.0.2.7", "path": "/login", "method": "POST"}}"#;
    assert_eq!(client.check(fields).await["allowed"], false);
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 2", "rules go before policies");
    for (descriptors, says) in [
        ("ip=here", "descriptors[0]: `ip` is not an address"),
        ("a b=1", "descriptors[0]: this is not the name of a field"),
        ("-1 ip=192.0.2.7", "take no hits back"),
    ] {
        let (code, text) = wire.refused(&request("gateway", &[descriptors])).await;
        assert_eq!(code, Code::InvalidArgument);
        assert!(text.contains(says), "{text}");
    }
}

#[tokio::test]
async fn the_same_is_asked_in_json() {
    let service = service().await;
    let mut client = service.client().await;
    let mut ask = async |body: &str| client.ask("POST", "/json", &[], body).await;
    let question =
        r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "1"}]}]}"#;
    for remaining in [2, 1] {
        let reply = ask(question).await;
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (StatusCode::OK, Some("application/json"))
        );
        let json = reply.json();
        assert_eq!(json["overallCode"], "OK");
        assert_eq!(json["statuses"][0]["limitRemaining"], remaining);
        assert_eq!(json["statuses"][0]["currentLimit"]["unit"], "YEAR");
        assert!(json["statuses"][0]["durationUntilReset"].as_str().unwrap().ends_with('s'));
    }
    let more = r#"{"domain": "shop", "hitsAddend": 2, "descriptors": [
        {"entries": [{"key": "user", "value": "1"}]},
        {"entries": [{"key": "user", "value": "2"}], "hits_addend": "0", "limit": {"unit": "DAY", "requestsPerUnit": 7}}]}"#;
    let reply = ask(more).await;
    assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS, "{}", reply.text);
    assert_eq!(reply.json()["overallCode"], "OVER_LIMIT");
    assert_eq!(reply.json()["statuses"][1]["limitRemaining"], 7);
    for (body, says) in [
        ("", "EOF"),
        ("{}", "rate limit domain must not be empty"),
        (r#"{"domain": "shop"}"#, "rate limit descriptor list must not be empty"),
        (r#"{"domain": "shop", "descriptor": []}"#, "descriptor"),
        (r#"{"domain": 5}"#, "invalid type"),
        (r#"{"domain": "shop", "hitsAddend": -1}"#, "out of range"),
        ("{} {}", "trailing characters"),
    ] {
        let reply = ask(body).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{body}");
        assert!(reply.text.contains(says), "{body}: {}", reply.text);
    }
    let reply = client.ask("GET", "/json", &[], "").await;
    assert_eq!(reply.status, StatusCode::METHOD_NOT_ALLOWED);
}

/// HTTP, gRPC and JSON count together, and the subject is the one that the page says.
#[tokio::test]
async fn one_count_through_all_doors() {
    let service = service().await;
    let wire = service.wire().await;
    let mut client = service.client().await;
    let question = r#"{"subject": "envoy:shop|user=1", "limit": "3/365d via fixed_window"}"#;
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 2");
    assert_eq!(client.check(question).await["remaining"], 1);
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 0");
    assert_eq!(client.check(question).await["allowed"], false);
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OVER: OVER 0");
    let page = client.get("/metrics").await.text;
    for line in [
        "tollgate_grpc_calls_total{method=\"ShouldRateLimit\",result=\"ok\"} 2",
        "tollgate_grpc_calls_total{method=\"ShouldRateLimit\",result=\"over_limit\"} 1",
    ] {
        assert!(page.contains(line), "{page}");
    }
}

#[tokio::test]
async fn nothing_is_listened_to_unless_asked_for() {
    let service = Service::with(|options| options.listen = vec![here()]).await;
    assert!(service.server.grpc().is_empty());
    let mut client = service.client().await;
    let question = r#"{"domain": "a", "descriptors": [{"entries": [{"key": "b"}]}]}"#;
    let reply = client.ask("POST", "/json", &[], question).await;
    assert_eq!((reply.status, &reply.json()["overallCode"]), (StatusCode::OK, &"OK".into()));
}

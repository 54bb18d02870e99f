//! The content of answers: golden files for each profile, every field read back by a third-party
//! parser, and refusals as a gRPC client sees them.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};
use sfv::{BareItem, List, ListEntry, Parser};
use sha2::{Digest as _, Sha256};
use tollgate::{Ask, Decision, LimitSet, Limiter, ManualClock, MemoryStore};
use tollgate_tower::answer::{Answers, HeaderTemplate, Profile, Reset, Wire, retry_seconds};
use tonic_types::StatusExt as _;

/// 2025-11-20 in microseconds, and a part of a second.
const NOW_US: u64 = 1_763_632_025_250_000;

const PROFILES: [(&str, Profile); 6] = [
    ("draft", Profile::Draft),
    ("legacy-delta", Profile::Legacy(Reset::Delta)),
    ("legacy-epoch", Profile::Legacy(Reset::Epoch)),
    ("both-delta", Profile::Both(Reset::Delta)),
    ("both-epoch", Profile::Both(Reset::Epoch)),
    ("none", Profile::None),
];

fn set(text: &str) -> LimitSet {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn limiter(limits: &str) -> (ManualClock, Limiter<MemoryStore>) {
    let clock = ManualClock::at_micros(NOW_US);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (clock, Limiter::new(set(limits), store))
}

fn marked(answers: Answers, templates: &[&HeaderTemplate], decision: &Decision<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    answers.mark(&mut headers, templates, decision);
    headers
}

fn show(out: &mut String, what: &str, response: &Response<Bytes>) {
    writeln!(out, "# {what}\n{}", response.status()).unwrap();
    for (name, value) in response.headers() {
        writeln!(out, "{name}: {}", value.to_str().unwrap()).unwrap();
    }
    if !response.body().is_empty() {
        writeln!(out, "\n{}", String::from_utf8_lossy(response.body())).unwrap();
    }
    out.push('\n');
}

/// Everything that is answered under a profile, as text.
fn transcript(profile: Profile) -> String {
    let answers = Answers::new(profile).expose(true);
    let mut out = String::new();
    let mut admitted = |what: &str, templates: &[&HeaderTemplate], decision: &Decision<'_>| {
        assert!(decision.is_allowed());
        let mut response = Response::new(Bytes::new());
        answers.mark(response.headers_mut(), templates, decision);
        show(&mut out, what, &response);
    };

    let (_, several) = limiter("10/s, 240/h");
    let template = HeaderTemplate::new("api", several.limits()).unwrap();
    admitted("10/s, 240/h: admitted", &[&template], &several.check("bob").now().unwrap());
    let (_, bucket) = limiter("100/s burst 200 via token_bucket");
    let tokens = HeaderTemplate::new("burst", bucket.limits()).unwrap();
    admitted(
        "100/s burst 200 via token_bucket: admitted",
        &[&tokens],
        &bucket.check("bob").now().unwrap(),
    );
    let (_, short) = limiter("10/250ms");
    let quick = HeaderTemplate::new("quick", short.limits()).unwrap();
    admitted("10/250ms: admitted", &[&quick], &short.check("bob").now().unwrap());
    let (shared, own) = (set("5/10s"), set("3/10s"));
    let pair = [
        HeaderTemplate::new("resource", &shared).unwrap(),
        HeaderTemplate::new("consumer", &own).unwrap(),
    ];
    let pair = [&pair[0], &pair[1]];
    let ask = || [("resource:12", &shared), ("consumer:1", &own)];
    admitted(
        "5/10s and 3/10s of another subject: admitted",
        &pair,
        &short.check(ask()).now().unwrap(),
    );

    let denied = several.check(Ask::new("bob").cost(10)).now().unwrap();
    show(&mut out, "not yet", &answers.refused(Wire::Http, &[&template], &denied).unwrap());
    let denied = short.check(Ask::from(ask()).cost(3)).now().unwrap();
    show(
        &mut out,
        "not yet, by the consumer",
        &answers.refused(Wire::Http, &pair, &denied).unwrap(),
    );
    let denied = several.check(Ask::new("bob").cost(11)).now().unwrap();
    show(&mut out, "never", &answers.refused(Wire::Http, &[&template], &denied).unwrap());
    let wait = Duration::from_millis(1_500);
    show(&mut out, "no store", &answers.unavailable(Wire::Http, &["api"], wait));
    show(&mut out, "banned", &answers.banned(Wire::Http, Some("api")));
    out
}

#[test]
fn answers_are_those_of_the_golden_files() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
    for (name, profile) in PROFILES {
        let path = format!("{folder}/{name}.txt");
        let now = transcript(profile);
        if std::env::var_os("TOLLGATE_BLESS").is_some() {
            std::fs::write(&path, &now).unwrap();
        }
        let then = std::fs::read_to_string(&path).unwrap();
        assert_eq!(now, then, "{path}: with TOLLGATE_BLESS=1 the file is written anew");
    }
}

// ---- Read back.

/// Items of a list of strings, with an integer parameter each by name.
fn items(value: &HeaderValue) -> Vec<(String, sfv::Parameters)> {
    let list: List = Parser::new(value.as_bytes()).parse().unwrap();
    list.into_iter()
        .map(|entry| match entry {
            ListEntry::Item(item) => match item.bare_item {
                BareItem::String(name) => (name.as_str().to_owned(), item.params),
                other => panic!("{other:?} is not a string"),
            },
            ListEntry::InnerList(_) => panic!("{value:?} has an inner list"),
        })
        .collect()
}

fn integer(params: &sfv::Parameters, key: &str) -> u64 {
    let value = params.iter().find(|(k, _)| k.as_str() == key).map(|(_, value)| value);
    match value {
        Some(BareItem::Integer(number)) => u64::try_from(i64::from(*number)).unwrap(),
        other => panic!("{key} is {other:?}"),
    }
}

/// (name, q, w) of each policy.
fn policies(text: &str) -> Vec<(String, u64, u64)> {
    let template = HeaderTemplate::new("p", &set(text)).unwrap();
    let value: HeaderValue = template.policy().parse().unwrap();
    items(&value)
        .into_iter()
        .map(|(name, params)| {
            assert_eq!(params.len(), 2);
            (name, integer(&params, "q"), integer(&params, "w"))
        })
        .collect()
}

#[test]
fn policies_say_what_the_limits_give() {
    for (text, expected) in [
        ("10/s", &[("p", 10, 1)][..]),
        ("10/s, 120/m, 240/h", &[("p/1s", 10, 1), ("p/1m", 120, 60), ("p/1h", 240, 3_600)]),
        ("1/10s via uniform", &[("p", 1, 10)]),
        ("10/s via uniform", &[("p", 10, 1)]),
        ("1000/1h via token_bucket", &[("p", 1_000, 3_600)]),
        ("100/s burst 200 via token_bucket", &[("p", 200, 2)]),
        ("100/s burst 10 via gcra", &[("p", 100, 1)]),
        ("7/m burst 10 via gcra", &[("p", 10, 86)]),
        ("1000/d burst 2000 refill interval via token_bucket", &[("p", 2_000, 172_800)]),
        // Windows that are not whole seconds.
        ("10/250ms", &[("p", 40, 1)]),
        ("10/300ms", &[("p", 33, 1)]),
        ("5/1500ms", &[("p", 6, 2)]),
        ("1/1us", &[("p", 1_000_000, 1)]),
        ("1099511627776/1us via fixed_window", &[("p", 999_999_999_999_999, 1)]),
        ("1/366d", &[("p", 1, 31_622_400)]),
        // Names that would be one.
        ("a: 10/s, b: 20/s, 30/s", &[("p/a", 10, 1), ("p/b", 20, 1), ("p/1s", 30, 1)]),
        (
            "10/s via gcra, 20/s via fixed_window",
            &[("p/gcra/1s", 10, 1), ("p/fixed_window/1s", 20, 1)],
        ),
    ] {
        let expected: Vec<_> =
            expected.iter().map(|(name, q, w)| ((*name).to_owned(), *q, *w)).collect();
        assert_eq!(policies(text), expected, "{text}");
    }
}

#[test]
fn policies_name_the_units_of_limits() {
    let limits = "60/m via gcra, 1000/m of tokens via gcra, 9/month of bytes, 20 at once";
    let template = HeaderTemplate::new("p", &set(limits)).unwrap();
    let value: HeaderValue = template.policy().parse().unwrap();
    let told = items(&value).into_iter().map(|(name, params)| {
        let unit = match params.get("qu") {
            Some(BareItem::String(unit)) => Some(unit.as_str().to_owned()),
            None => None,
            other => panic!("qu is {other:?}"),
        };
        (name, integer(&params, "q"), params.get("w").is_some(), unit)
    });
    let unit = |name: &str| Some(name.to_owned());
    let expected = [
        ("p/gcra/1m", 60, true, None),
        ("p/gcra/1m/tokens", 1_000, true, unit("tokens")),
        ("p/month", 9, false, unit("bytes")),
        ("p/30s", 20, false, unit("concurrent-requests")),
    ];
    let expected =
        expected.map(|(name, q, has_window, unit)| (name.to_owned(), q, has_window, unit));
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

/// Each limit has the key of its own subject, and of nobody else.
#[test]
fn partition_keys_are_those_of_the_subjects() {
    let (_, limiter) = limiter("9/m via gcra, 90/h via gcra");
    let pool = set("500/m via gcra, ban 1m after 9 denials in 1m");
    let templates = [
        HeaderTemplate::new("api", limiter.limits()).unwrap(),
        HeaderTemplate::new("pool", &pool).unwrap(),
    ];
    let templates = templates.each_ref();
    let keys = |answers: Answers, subject: &str| {
        let ask = Ask::new(subject).and_under("pool", &pool);
        let headers = marked(answers, &templates, &limiter.check(ask).now().unwrap());
        let listed = items(&headers["ratelimit-policy"]).into_iter();
        let key = |params: &sfv::Parameters| match params.get("pk") {
            Some(BareItem::ByteSequence(key)) => Some(key.clone()),
            _ => None,
        };
        listed.map(|(_, params)| key(&params)).collect::<Vec<_>>()
    };
    let draft = Answers::new(Profile::Draft);
    assert_eq!(keys(draft, "ann"), [None, None, None]);
    let shown = draft.partition_keys(true);
    let digest = |subject: &str| Some(Sha256::digest(subject)[..6].to_vec());
    assert_eq!(keys(shown, "ann"), [digest("ann"), digest("ann"), digest("pool")]);
    assert_eq!(keys(shown, "bob")[0], digest("bob"));
}

#[test]
fn names_are_escaped_so_that_two_stay_two() {
    for (name, read) in [
        ("api", "api"),
        ("a b", "a b"),
        ("a\"b\\", "a\"b\\"),
        ("a;q=1, \"b", "a;q=1, \"b"),
        ("50%", "50%25"),
        ("caf\u{e9}", "caf%C3%A9"),
        ("caf%C3%A9", "caf%25C3%25A9"),
        ("a\r\nb\0\x7f", "a%0D%0Ab%00%7F"),
    ] {
        let limiter = Limiter::memory(set("1/h via gcra"));
        let template = HeaderTemplate::new(name, limiter.limits()).unwrap();
        let _ = limiter.check("bob").now().unwrap();
        let denied = limiter.check("bob").now().unwrap();
        let response = Answers::default().refused(Wire::Http, &[&template], &denied).unwrap();
        for field in ["ratelimit-policy", "ratelimit"] {
            assert_eq!(items(&response.headers()[field])[0].0, read);
        }
        let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(body["violated-policies"], serde_json::json!([read]));
        let body = Answers::default().banned(Wire::Http, Some(name)).into_body();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["violated-policies"], serde_json::json!([read]));
    }
    let error = HeaderTemplate::new(&"x".repeat(159), &set("1/s")).unwrap_err().to_string();
    assert!(error.contains("has 161 bytes"), "{error}");
    assert!(HeaderTemplate::new(&"x".repeat(158), &set("1/s")).is_ok());
    assert!(HeaderTemplate::new("", &set("1/s")).is_err());
}

#[test]
fn a_nearly_full_bucket_promises_no_more_than_its_rate() {
    let (_, limiter) = limiter("100/s burst 200 via token_bucket");
    let template = HeaderTemplate::new("b", limiter.limits()).unwrap();
    let headers = marked(Answers::default(), &[&template], &limiter.check("bob").now().unwrap());
    assert_eq!(headers["ratelimit"], "\"b\";r=199;t=2");
    // Denied with something left: `r` is cut to the units of one second.
    let denied = limiter.check(Ask::new("bob").cost(200)).now().unwrap();
    let response = Answers::default().refused(Wire::Http, &[&template], &denied).unwrap();
    assert_eq!(response.headers()["ratelimit"], "\"b\";r=100;t=1");
    assert_eq!(response.headers()["retry-after"], "1");
    // A bucket that refills whole is different: all remaining units may be used until then.
    let (_, whole) = crate::limiter("100/m refill interval via token_bucket");
    let template = HeaderTemplate::new("b", whole.limits()).unwrap();
    let decision = whole.check("bob").now().unwrap();
    let reset = retry_seconds(decision.reset_after());
    let headers = marked(Answers::default(), &[&template], &decision);
    assert_eq!(headers["ratelimit"], format!("\"b\";r=99;t={reset}").as_str());
}

/// No month is as long as the next, so its policy has no window; when it ends is exact.
#[test]
fn a_calendar_has_no_window_in_seconds() {
    let clock = ManualClock::at_micros(1_711_839_600_000_000);
    let store = MemoryStore::builder().clock(clock).build();
    let limiter = Limiter::new(set("2/day in Europe/Berlin"), store);
    let template = HeaderTemplate::new("p", limiter.limits()).unwrap();
    let headers = marked(Answers::default(), &[&template], &limiter.check("bob").now().unwrap());
    assert_eq!(headers["ratelimit-policy"], "\"p\";q=2");
    // The day of 23 hours has just begun.
    assert_eq!(headers["ratelimit"], "\"p\";r=1;t=82800");
    let both = set("2/day in Europe/Berlin, 9/month in Europe/Berlin, 5/d via gcra");
    let template = HeaderTemplate::new("p", &both).unwrap();
    let policies = "\"p/day\";q=2, \"p/month\";q=9, \"p/1d\";q=5;w=86400";
    assert_eq!(template.policy(), policies);
}

#[test]
fn with_many_limits_only_the_one_that_binds_is_listed() {
    let text = (1..=17).map(|n| format!("{}/{n}s", 100 - n)).collect::<Vec<_>>().join(", ");
    let (_, many) = limiter(&text);
    let template = HeaderTemplate::new("p", many.limits()).unwrap();
    let headers = marked(Answers::default(), &[&template], &many.check("bob").now().unwrap());
    assert_eq!(headers["ratelimit-policy"], "\"p/17s\";q=83;w=17");
    assert_eq!(items(&headers["ratelimit"])[0].0, "p/17s");
    let (first, rest) = text.rsplit_once(", ").unwrap();
    let (a, b) = (set(first), set(rest));
    let templates = [HeaderTemplate::new("a", &a).unwrap(), HeaderTemplate::new("b", &b).unwrap()];
    let decision = many.check([("x:1", &a), ("x:2", &b)]).now().unwrap();
    let headers = marked(Answers::default(), &[&templates[0], &templates[1]], &decision);
    assert_eq!(headers["ratelimit-policy"], "\"b\";q=83;w=17");
    let sixteen = many.check([("x:3", &a)]).now().unwrap();
    let headers = marked(Answers::default(), &[&templates[0]], &sixteen);
    assert_eq!(items(&headers["ratelimit-policy"]).len(), 16);
}

#[test]
fn fields_of_an_inner_server_stay_in_lists_and_give_way_as_numbers() {
    let (_, limiter) = limiter("10/s");
    let template = HeaderTemplate::new("outer", limiter.limits()).unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("ratelimit", "\"inner\";r=1;t=1".parse().unwrap());
    headers.insert("x-ratelimit-limit", "7".parse().unwrap());
    headers.insert("access-control-expose-headers", "X-Inner".parse().unwrap());
    let answers = Answers::new(Profile::Both(Reset::Delta)).expose(true);
    for _ in 0..2 {
        answers.mark(&mut headers, &[&template], &limiter.check("bob").now().unwrap());
    }
    let all: Vec<_> = headers.get_all("ratelimit").iter().collect();
    assert_eq!((all.len(), all[0].to_str().unwrap()), (3, "\"inner\";r=1;t=1"));
    assert_eq!(headers.get_all("x-ratelimit-limit").iter().collect::<Vec<_>>(), ["10"]);
    let exposed: Vec<_> = headers.get_all("access-control-expose-headers").iter().collect();
    assert_eq!(exposed.len(), 2);
    assert_eq!(exposed[0], "X-Inner");
    for name in exposed[1].to_str().unwrap().split(", ") {
        assert!(name == "Retry-After" || headers.contains_key(name), "{name}");
    }
    let quiet = marked(Answers::default(), &[&template], &limiter.check("bob").now().unwrap());
    assert!(!quiet.contains_key("access-control-expose-headers"));
}

#[test]
fn cards_of_other_limits_make_nothing_up() {
    let (_, limiter) = limiter("10/s, 20/m");
    let decision = limiter.check("bob").now().unwrap();
    for profile in [Profile::Draft, Profile::Both(Reset::Epoch)] {
        assert!(marked(Answers::new(profile), &[], &decision).is_empty());
    }
    assert!(Answers::default().refused(Wire::Http, &[], &decision).is_none());
}

#[test]
fn waits_are_rounded_up_and_never_none() {
    for (wait, seconds) in [
        (Duration::ZERO, 1),
        (Duration::from_micros(1), 1),
        (Duration::from_secs(1), 1),
        (Duration::from_micros(1_000_001), 2),
        (Duration::from_secs(86_400), 86_400),
        (Duration::MAX, u64::MAX),
    ] {
        assert_eq!(retry_seconds(wait), seconds);
    }
}

// ---- gRPC, as tonic's client reads it.

#[test]
fn grpc_clients_get_a_status_and_when_to_retry() {
    let (_, limiter) = limiter("3/10s via gcra");
    let template = HeaderTemplate::new("api", limiter.limits()).unwrap();
    let answers = Answers::new(Profile::Both(Reset::Delta));
    let _ = limiter.check(Ask::new("bob").cost(3)).now().unwrap();
    let denied = limiter.check("bob").now().unwrap();
    assert!(
        answers
            .refused(Wire::Grpc, &[&template], &limiter.check(Ask::new("al").peek()).now().unwrap())
            .is_none()
    );
    let never = limiter.check(Ask::new("bob").cost(4)).now().unwrap();
    let minute = Duration::from_secs(60);
    let exact = denied.retry_after();
    assert_eq!(exact, Some(Duration::from_micros(3_333_334)));
    for (response, code, retry) in [
        (
            answers.refused(Wire::Grpc, &[&template], &denied).unwrap(),
            tonic::Code::ResourceExhausted,
            exact,
        ),
        (
            answers.refused(Wire::Grpc, &[&template], &never).unwrap(),
            tonic::Code::InvalidArgument,
            None,
        ),
        (answers.unavailable(Wire::Grpc, &["api"], minute), tonic::Code::Unavailable, Some(minute)),
        (
            answers.unavailable(Wire::Grpc, &[], Duration::ZERO),
            tonic::Code::Unavailable,
            Some(Duration::ZERO),
        ),
        (answers.banned(Wire::Grpc, Some("api")), tonic::Code::PermissionDenied, None),
    ] {
        assert_eq!((response.status().as_u16(), response.body().len()), (200, 0));
        let status = tonic::Status::from_header_map(response.headers()).unwrap();
        assert_eq!(status.code(), code);
        assert!(!status.message().is_empty());
        let details = status.get_details_retry_info();
        assert_eq!(details.and_then(|info| info.retry_delay), retry, "{code}");
        // Such headers are trailers, where these fields are forbidden.
        for field in ["ratelimit", "ratelimit-policy", "x-ratelimit-limit", "retry-after"] {
            assert!(!response.headers().contains_key(field));
        }
    }
}

#[test]
fn the_protocol_is_that_of_the_request() {
    for (content_type, wire, answered) in [
        ("application/grpc", Wire::Grpc, "application/grpc"),
        ("Application/gRPC+proto", Wire::Grpc, "application/grpc"),
        ("application/grpc; charset=x", Wire::Grpc, "application/grpc"),
        ("application/grpc-web+proto", Wire::GrpcWeb, "application/grpc-web+proto"),
        ("application/grpc-web-text", Wire::GrpcWebText, "application/grpc-web-text+proto"),
        ("application/grpcs", Wire::Http, "application/problem+json"),
        ("application/grpc-websocket", Wire::Http, "application/problem+json"),
        ("application/json", Wire::Http, "application/problem+json"),
        ("a", Wire::Http, "application/problem+json"),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", content_type.parse().unwrap());
        assert_eq!(Wire::from_headers(&headers), wire, "{content_type}");
        let response = Answers::default().expose(true).banned(wire, Some("api"));
        assert_eq!(response.headers()["content-type"], answered);
        let exposes = response.headers().contains_key("access-control-expose-headers");
        assert_eq!(exposes, matches!(wire, Wire::GrpcWeb | Wire::GrpcWebText));
    }
}

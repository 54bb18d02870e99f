//! The commands with their numbers: golden replies, and one count with HTTP.

use std::time::{Duration, Instant};

use tollgate::{ManualClock, MemoryStore};
use tollgate_policy::{Authority, Outcome};
use tollgate_redis::RedisStore;
use tollgate_service::{AnyStore, CallerLimits};
use tollgate_testbed::redis_or_skip;

use super::{service, talk};
use crate::redis_client::command;
use crate::{FILE, Service, gate_of, here};

/// A service with a manual clock.
async fn timed() -> (Service, ManualClock) {
    let clock = ManualClock::at_micros(1_700_000_000_000_000);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let gate = gate_of(FILE, AnyStore::Memory(store));
    (Service::start_with(gate, |options| options.resp = vec![here()]).await, clock)
}

/// The replies of redis-cell 0.5.0 to the same calls.
#[tokio::test]
async fn redis_cells_table() {
    let (service, clock) = timed().await;
    let mut redis = service.redis().await;
    talk(
        &mut redis,
        &[
            ("CL.THROTTLE user123 15 30 60", "[0, 16, 15, -1, 2]"),
            ("CL.THROTTLE a 0 1 2 1", "[0, 1, 0, -1, 2]"),
            ("cl.throttle a 0 1 2 1", "[1, 1, 0, 2, 2]"),
            ("CL.THROTTLE big 4 1 1 6", "[1, 5, 5, -1, 0]"),
            ("CL.THROTTLE pk 4 1 1 0", "[0, 5, 5, -1, 0]"),
            ("CL.THROTTLE pk 4 1 1 5", "[0, 5, 0, -1, 5]"),
            ("CL.THROTTLE pk 4 1 1 0", "[0, 5, 0, -1, 5]"),
            ("CL.THROTTLE pk 4 1 1 1", "[1, 5, 0, 1, 5]"),
            ("CL.THROTTLE fast 9 2000 1 1", "[0, 10, 9, -1, 0]"),
        ],
    )
    .await;
    // Its own unit tests: a limit of 5, one a second.
    let mut now = 0;
    for (ms, quantity, expected) in [
        (0, 6, "[1, 5, 5, -1, 0]"),
        (0, 1, "[0, 5, 4, -1, 1]"),
        (0, 1, "[0, 5, 3, -1, 2]"),
        (0, 1, "[0, 5, 2, -1, 3]"),
        (0, 1, "[0, 5, 1, -1, 4]"),
        (0, 1, "[0, 5, 0, -1, 5]"),
        (0, 1, "[1, 5, 0, 1, 5]"),
        (3_000, 1, "[0, 5, 2, -1, 3]"),
        (3_100, 1, "[0, 5, 1, -1, 4]"),
        (4_000, 1, "[0, 5, 1, -1, 4]"),
        (8_000, 1, "[0, 5, 4, -1, 1]"),
        (9_500, 1, "[0, 5, 4, -1, 1]"),
        (9_500, 0, "[0, 5, 4, -1, 1]"),
        (9_500, 2, "[0, 5, 2, -1, 3]"),
        (9_500, 5, "[1, 5, 2, 3, 3]"),
    ] {
        clock.advance(Duration::from_millis(ms - now));
        now = ms;
        let said = redis.ask(&format!("CL.THROTTLE h7 4 1 1 {quantity}")).await;
        assert_eq!(said, expected, "{ms} ms, {quantity}");
    }
}

#[tokio::test]
async fn each_command_has_its_order_and_rounding() {
    let (service, clock) = timed().await;
    let mut redis = service.redis().await;
    // A burst of two, one each 1.5 s. Half a millisecond later, 1.4995 s are left.
    for (command, first, second, third) in [
        ("CL.THROTTLE c 1 2 3", "[0, 2, 1, -1, 2]", "[0, 2, 0, -1, 3]", "[1, 2, 0, 2, 3]"),
        ("RL.THROTTLE r 1 2 3", "[0, 2, 1, -1, 2]", "[0, 2, 0, -1, 3]", "[1, 2, 0, 2, 3]"),
        ("GCRA g 1 2 3", "[0, 2, 1, -1, 2]", "[0, 2, 0, -1, 3]", "[1, 2, 0, 2, 3]"),
        // Its burst is the whole capacity, and its waits are rounded down.
        ("THROTTLE t 2 2 3", "[1, 2, 1, 1, 0]", "[1, 2, 0, 3, 0]", "[0, 2, 0, 2, 1]"),
    ] {
        for (expected, us) in [(first, 0), (second, 0), (third, 500)] {
            clock.advance(Duration::from_micros(us));
            assert_eq!(redis.ask(command).await, expected, "{command}");
        }
    }
    talk(
        &mut redis,
        &[
            ("GCRA x 4 1 1 TOKENS 6", "[1, 5, 5, -1, 0]"),
            ("GCRA x 4 10 0.5 tokens 5", "[0, 5, 0, -1, 1]"),
            ("THROTTLE y 2 1 1 3", "[0, 2, 2, 0, -1]"),
            ("THROTTLE y 2 1 1 0", "[1, 2, 2, 0, 0]"),
            ("GCRA x 1", "(ERR wrong number of arguments for 'gcra' command)"),
            ("GCRA x 1 1 1 1", "(ERR syntax error)"),
            ("THROTTLE x 1 1 1 -1", "(ERR negative quantity: -1)"),
            ("RL.THROTTLE x 1 0 1", "(ERR Zero rates are not supported)"),
            ("CL.THROTTLE x 1 0 1", "(Cell error: Store error: Zero rates are not supported)"),
            ("CL.THROTTLE x abc 1 1", "(Cell error: Store error: Couldn't parse as integer: abc)"),
            (
                "CL.THROTTLE x 1 1",
                "(Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per \
                 period> <period> [<quantity>])",
            ),
        ],
    )
    .await;
    // Numbers that cannot be counted exactly.
    let said = redis.ask("RL.THROTTLE x 1099511627774 1099511627775 31622400").await;
    assert!(said.contains("cannot be counted exactly") && !said.contains("^^"), "{said}");
    assert_eq!(redis.ask("GCRA x 4 10 0.5").await, "[1, 5, 0, 1, 1]", "an error charges nothing");
}

#[tokio::test]
async fn one_count_for_all_who_ask() {
    let (service, _) = timed().await;
    let (mut redis, mut http) = (service.redis().await, service.client().await);
    assert_eq!(redis.ask("CL.THROTTLE user:42 9 10 60 3").await, "[0, 10, 7, -1, 18]");
    // By HTTP, and with other numbers: the used units are carried over.
    let question = r#"{"subject": "user:42", "limit": "cell: 10/60s burst 10 via gcra"}"#;
    assert_eq!(http.check(question).await["remaining"], 6);
    assert_eq!(redis.ask("GCRA user:42 9 10 60").await, "[0, 10, 5, -1, 30]");
    assert_eq!(redis.ask("THROTTLE user:42 10 10 60").await, "[1, 10, 4, 36, 0]");
    assert_eq!(redis.ask("CL.THROTTLE user:42 19 20 3600 0").await, "[0, 20, 14, -1, 1080]");
    assert_eq!(redis.ask("CL.THROTTLE user:43 9 10 60 0").await, "[0, 10, 10, -1, 0]");
    // Bytes that are not the text of a subject are the value of `key`.
    let mut odd = [&b"CL.THROTTLE"[..], b"", b"1", b"1", b"1"];
    for (key, subject) in [(&b"a b:c"[..], "key:a b:c"), (b":x", "key::x"), (b"plain", "plain")] {
        odd[1] = key;
        redis.send(&command(&odd)).await;
        assert_eq!(redis.reply().await, "[0, 2, 1, -1, 1]");
        let question =
            format!(r#"{{"subject": "{subject}", "limit": "cell: 1/s burst 2 via gcra"}}"#);
        assert_eq!(http.check(&question).await["remaining"], 0, "{subject}");
    }
    odd[1] = b"\xff\x00";
    redis.send(&command(&odd)).await;
    assert_eq!(redis.reply().await, "[0, 2, 1, -1, 1]");
    odd[1] = b"";
    redis.send(&command(&odd)).await;
    assert!(redis.reply().await.starts_with("(Cell error: Store error: "));
    // It is in the counters.
    let page = http.get("/metrics").await.text;
    for line in [
        "tollgate_resp_commands_total{command=\"cl.throttle\",result=\"answer\"} 7",
        "tollgate_resp_commands_total{command=\"cl.throttle\",result=\"error\"} 1",
        "tollgate_inline_decisions_total{outcome=\"allowed\",authority=\"store\"} 11",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
}

/// One key has one count, with and without its dimension, whatever counts it.
#[tokio::test]
async fn a_key_is_one_in_all_commands() {
    const LIMIT: &[u8] = b"cell: 1/60s burst 9 via gcra";
    const ID: &[u8] = b"b1946ac92492d2347c6235b4d2611184";
    for key in [&b"plain"[..], b"a b", b"a b:c", b":x", b"user:", b"caf\xc3\xa9:1"] {
        let (service, _) = timed().await;
        let mut redis = service.redis().await;
        let long = [b"key:", key].concat();
        let shown = key.escape_ascii();
        let mut remaining = 9;
        for own in [key, &long] {
            let numbers: [(&[u8], &[u8], usize); 4] = [
                (b"CL.THROTTLE", b"8", 2),
                (b"RL.THROTTLE", b"8", 2),
                (b"GCRA", b"8", 2),
                (b"THROTTLE", b"9", 2),
            ];
            for (name, burst, place) in numbers {
                redis.send(&command(&[name, own, burst, b"1", b"60"])).await;
                remaining -= 1;
                let said = redis.reply().await;
                let left = said.split(", ").nth(place).unwrap();
                assert_eq!(left, remaining.to_string(), "{shown}: {said}");
            }
        }
        let mut has = async |words: &[&[u8]], says: &str| {
            redis.send(&command(words)).await;
            let said = redis.reply().await;
            assert!(said.contains(says), "{shown}, {}: {said}", words[0].escape_ascii());
        };
        for own in [key, &long] {
            has(&[b"TOLLGATE.PEEK", own, LIMIT], r#""remaining", 1"#).await;
        }
        has(&[b"TOLLGATE.CHECK", b"other", b"9/h", b"AND", &long, LIMIT], r#""remaining", 0"#)
            .await;
        has(&[b"TOLLGATE.PEEK", key, LIMIT], r#""remaining", 0"#).await;
        // Holds, which one form names and the other ends.
        let (slots, of_id) = (&b"1 at once"[..], [&b"ID"[..], ID]);
        has(&[b"TOLLGATE.ACQUIRE", key, slots, of_id[0], ID], r#""allowed", 1"#).await;
        has(&[b"TOLLGATE.ACQUIRE", &long, slots], r#""allowed", 0"#).await;
        has(&[b"TOLLGATE.RELEASE", of_id[0], ID, b"ON", &long, slots], "1").await;
        has(&[b"TOLLGATE.PEEK", key, slots], r#""remaining", 1"#).await;
    }
}

/// Pipelined commands are decided together, and counted as if they came alone.
#[tokio::test]
async fn pipelined_commands_are_answered_in_order_and_all_counted() {
    let (service, _) = timed().await;
    let (mut redis, mut http) = (service.redis().await, service.client().await);
    let lines = [
        ("CL.THROTTLE a 1 1 60", "[0, 2, 1, -1, 60]"),
        ("CL.THROTTLE a 1 1 60", "[0, 2, 0, -1, 120]"),
        ("CL.THROTTLE a 1 1 60", "[1, 2, 0, 60, 120]"),
        ("CL.THROTTLE a 1 1 60 0", "[0, 2, 0, -1, 120]"),
        ("GCRA key:a 1 1 60", "[1, 2, 0, 60, 120]"),
        ("PING", "PONG"),
        ("CL.THROTTLE b 1 1 60 3", "[1, 2, 2, -1, 0]"),
        ("CL.THROTTLE b 1 x 60", "(Cell error: Store error: Couldn't parse as integer: x)"),
        ("THROTTLE key:b 2 1 60 2", "[1, 2, 0, 120, 0]"),
        ("TOLLGATE.CHECK b 1/h COST 0", "(ERR a check costs at least 1"),
        ("CL.THROTTLE key:b:c 1 1 60", "[0, 2, 1, -1, 60]"),
    ];
    let sent: Vec<Vec<u8>> =
        lines.iter().map(|(line, _)| crate::redis_client::line(line)).collect();
    redis.send(&sent.concat()).await;
    for (line, expected) in lines {
        let said = redis.reply().await;
        assert!(said.starts_with(expected), "{line}: {said}");
    }
    let question = r#"{"subject": "key:b:c", "limit": "cell: 1/60s burst 2 via gcra"}"#;
    assert_eq!(http.check(question).await["remaining"], 0, "the same subject as over HTTP");
    let page = http.get("/metrics").await.text;
    for line in [
        "tollgate_resp_commands_total{command=\"cl.throttle\",result=\"answer\"} 6",
        "tollgate_resp_commands_total{command=\"cl.throttle\",result=\"error\"} 1",
        "tollgate_resp_commands_total{command=\"gcra\",result=\"answer\"} 1",
        "tollgate_resp_commands_total{command=\"throttle\",result=\"answer\"} 1",
        "tollgate_resp_commands_total{command=\"ping\",result=\"answer\"} 1",
        "tollgate_inline_decisions_total{outcome=\"allowed\",authority=\"store\"} 5",
        "tollgate_inline_decisions_total{outcome=\"denied\",authority=\"store\"} 2",
        "tollgate_inline_decisions_total{outcome=\"never\",authority=\"store\"} 1",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
}

#[tokio::test]
async fn a_service_without_limits_of_callers_says_so() {
    let service = Service::with(|options| {
        options.resp = vec![here()];
        options.caller_limits = CallerLimits::Off;
    })
    .await;
    let mut redis = service.redis().await;
    assert!(redis.ask("GCRA a 1 1 1").await.starts_with("(NOPERM this service takes no limits"));
    let said = redis.ask("CL.THROTTLE a 1 1 1").await;
    assert!(said.starts_with("(Cell error: Store error: this service takes no limits"), "{said}");
}

/// The rule of these commands is to deny, and there are no numbers to report.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_freezes_is_answered_for_within_the_deadline() {
    let server = redis_or_skip!();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let gate = gate_of(FILE, AnyStore::from(store));
    let service = Service::start_with(gate, |options| options.resp = vec![here()]).await;
    let mut redis = service.redis().await;
    // The first script may take longer than a deadline on a busy machine.
    let start = Instant::now();
    while redis.ask("CL.THROTTLE a 99 1 3600").await.starts_with('(') {
        assert!(start.elapsed() < Duration::from_secs(30), "it does not count");
    }
    server.freeze();
    for (command, begin) in [
        ("CL.THROTTLE a 99 1 3600", "(Cell error: Store error: the store cannot answer, so"),
        ("GCRA a 99 1 3600", "(UNAVAILABLE the store cannot answer, so nothing is admitted: "),
        ("THROTTLE a 99 1 3600 0", "(UNAVAILABLE the store cannot answer, so nothing"),
    ] {
        let start = Instant::now();
        let said = redis.ask(command).await;
        assert!(said.starts_with(begin), "{said}");
        assert!(start.elapsed() < Duration::from_secs(10), "{command}: {:?}", start.elapsed());
    }
    // A deadline and a failure rule of the call.
    let start = Instant::now();
    let said = redis.ask("TOLLGATE.CHECK a 99/h DEADLINE 20 ONFAILURE allow").await;
    assert!(
        said.starts_with(r#"["allowed", 1, "outcome", "failed_open", "authority", "failure_rule""#),
        "{said}"
    );
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    for (allowed, rule) in [(1, "local 25%"), (1, "LOCAL 1/4"), (0, "local 25 %")] {
        redis
            .send(&command(&[b"TOLLGATE.CHECK", b"b", b"8/h", b"ONFAILURE", rule.as_bytes()]))
            .await;
        let said = redis.reply().await;
        let begin = format!(r#"["allowed", {allowed}, "outcome", "#);
        let by = r#""authority", "local_share", "#;
        assert!(said.starts_with(&begin) && said.contains(by), "{said}");
    }
    let said = redis.ask("TOLLGATE.CHECK b 8/h ONFAILURE local").await;
    assert!(said.contains("do not set `nodes`"), "{said}");
    assert_eq!(redis.ask("PING").await, "PONG");
    server.thaw();
    let start = Instant::now();
    while redis.ask("CL.THROTTLE b 99 1 3600").await.starts_with('(') {
        assert!(start.elapsed() < Duration::from_secs(30), "it does not come back");
    }
    let inline = service.gate.counters().inline_limits;
    assert!(inline.get(Outcome::FailedClosed, Authority::FailureRule) >= 2);
    assert_eq!(inline.total(Outcome::FailedOpen), 1);
}

#[tokio::test]
async fn a_long_key_is_an_error_and_no_end() {
    let service = service().await;
    let mut redis = service.redis().await;
    let long = "a".repeat(65_536);
    let said = redis.ask(&format!("GCRA {long} 1 1 1")).await;
    assert_eq!(said, "(ERR a key has at most 1024 bytes, not 65536)");
    let fits = "a".repeat(1_024);
    assert_eq!(redis.ask(&format!("GCRA {fits} 1 1 1")).await, "[0, 2, 1, -1, 1]");
}

//! Holds over the Redis protocol: the same as over HTTP, and the same holds.

use std::time::Duration;

use serde_json::json;
use tollgate::Ask;

use super::ask::of;
use super::talk;
use crate::FILE;
use crate::holds::{JOBS, done, on_both, on_memory, refused, remaining};
use crate::redis_client::Redis;

const NOT_OPEN: &str = "(NOTOPEN ";

/// The hold of a reply in RESP2.
fn hold_of(reply: &str) -> String {
    let hold = of(reply, "hold");
    assert!(hold.len() > 20 && hold.starts_with('"'), "{reply}");
    hold.trim_matches('"').to_owned()
}

/// Each line is refused with this beginning, and says this.
async fn refuses(redis: &mut Redis, lines: &[(&str, &str, &str)]) {
    for (line, begin, says) in lines {
        let said = redis.ask(line).await;
        assert!(said.starts_with(begin) && said.contains(says), "{line}: {said}");
    }
}

async fn left(redis: &mut Redis, of_what: &str) -> String {
    of(&redis.ask(&format!("TOLLGATE.PEEK {of_what}")).await, "remaining")
}

#[tokio::test]
async fn who_waits_says_so_where_that_is_allowed() {
    let (service, _clock) = on_memory(FILE).await;
    let mut redis = service.redis().await;
    let reserve = "TOLLGATE.RESERVE bob 9/h TTL 1000";
    refuses(
        &mut redis,
        &[
            (&format!("{reserve} WAITING AGAIN"), "(NOPERM ", "--caller-waiting off"),
            (&format!("{reserve} WAITING soon"), "(ERR ", "say `again`"),
        ],
    )
    .await;
}

#[tokio::test]
async fn an_estimate_is_held_and_what_was_used_is_charged() {
    let (service, _clock) = on_memory(FILE).await;
    let (mut redis, mut http) = (service.redis().await, service.client().await);
    let limit = "1000/h";
    let first = redis.ask(&format!("TOLLGATE.RESERVE bob {limit} COST 800 TTL 60000")).await;
    assert_eq!((of(&first, "allowed"), of(&first, "remaining")), ("1".into(), "200".into()));
    assert!(first.contains(r#""ends_after", ["seconds", 60, "text", "1m"]"#), "{first}");
    assert!(of(&first, "fence").parse::<u64>().unwrap() > 0, "{first}");
    let denied = redis.ask(&format!("tollgate.reserve bob {limit} ttl 60000 cost 300")).await;
    assert_eq!((of(&denied, "allowed"), of(&denied, "hold")), ("0".into(), "nil".into()));
    assert_eq!(of(&denied, "until_hold"), "1");
    let hold = hold_of(&first);
    let said = redis.ask(&format!("TOLLGATE.COMMIT {hold} 300")).await;
    let begin = r#"["already", 0, "actual", 300, "limits", [["subject", "bob", "policy", nil, "#;
    assert!(said.starts_with(begin), "{said}");
    assert!(said.contains(r#""fits", 1, "cut", 0, "remaining", 700, "retry_after", "#), "{said}");
    let again = r#"["already", 1, "actual", 300, "limits", []]"#;
    for other in ["300", "900"] {
        let said = redis.ask(&format!("TOLLGATE.COMMIT {hold} {other}")).await;
        assert_eq!(said, again, "the first counts");
    }
    // HTTP knows the same hold.
    let commit = json!({ "hold": hold, "actual": 300 });
    assert_eq!(done(&mut http, "/v1/commit", commit).await["already"], true);
    assert_eq!(left(&mut redis, "bob 1000/h").await, "700");
    refuses(
        &mut redis,
        &[
            (&format!("TOLLGATE.RELEASE {hold}"), NOT_OPEN, "nothing was charged"),
            (&format!("TOLLGATE.RENEW {hold} TTL 60000"), NOT_OPEN, "not open"),
        ],
    )
    .await;
    // Nothing was used.
    let begin = r#"["already", 0, "actual", 0, "limits", [["subject", "bob", "policy", nil, "#;
    for end in ["TOLLGATE.CANCEL", "TOLLGATE.COMMIT"] {
        let held = redis.ask(&format!("TOLLGATE.RESERVE bob {limit} COST 700 TTL 60000")).await;
        let units = if end == "TOLLGATE.COMMIT" { " 0" } else { "" };
        let line = format!("{end} {}{units}", hold_of(&held));
        let said = redis.ask(&line).await;
        assert!(said.starts_with(begin) && said.contains(r#""fits", 1, "cut", 0, "#), "{said}");
        let said = redis.ask(&line).await;
        assert_eq!(said, r#"["already", 1, "actual", 0, "limits", []]"#, "{line}");
    }
    // In RESP3 it is a map.
    redis.ask("HELLO 3").await;
    let said = redis.ask(&format!("TOLLGATE.COMMIT {hold} 1")).await;
    assert_eq!(said, r#"{"already": #t, "actual": 300, "limits": []}"#);
}

#[tokio::test]
async fn slots_are_taken_renewed_and_released() {
    let (service, clock) = on_memory(FILE).await;
    let (mut redis, mut http) = (service.redis().await, service.client().await);
    redis.send(&acquire("backend", "2 at once hold 1m")).await;
    let first = redis.reply().await;
    redis.send(&acquire("backend", "2 at once hold 1m")).await;
    let second = redis.reply().await;
    let [one, two] = [&first, &second].map(|said| of(said, "fence").parse::<u64>().unwrap());
    assert!(two > one, "{second}");
    redis.send(&acquire("backend", "2 at once hold 1m")).await;
    let third = redis.reply().await;
    assert_eq!((of(&third, "allowed"), of(&third, "hold")), ("0".into(), "nil".into()));
    clock.advance(Duration::from_secs(30));
    let said = redis.ask(&format!("TOLLGATE.RENEW {}", hold_of(&first))).await;
    let end = 1_700_000_000_000_000_u64 + 90_000_000;
    assert!(said.ends_with(&format!(r#", "fence", {one}, "end_us", {end}]"#)), "{said}");
    let renewed = hold_of(&said);
    let said = redis.ask(&format!("TOLLGATE.RELEASE {renewed}")).await;
    assert_eq!(said, r#"["released", 1]"#);
    // The new text and the old one are the same hold, and twice is as once.
    for hold in [&renewed, &hold_of(&first)] {
        let said = redis.ask(&format!("TOLLGATE.RELEASE {hold}")).await;
        assert_eq!(said, r#"["released", 1]"#);
    }
    // A slot is given back without units.
    let second = hold_of(&second);
    let commit = [(&*format!("TOLLGATE.COMMIT {second} 5"), "(ERR ", "released without units")];
    refuses(&mut redis, &commit).await;
    let acquired = json!({ "subject": "backend", "limit": "2 at once hold 1m" });
    assert_eq!(remaining(&done(&mut http, "/v1/peek", acquired).await), 1);
    let release = json!({ "hold": second });
    done(&mut http, "/v1/release", release).await;
    refuses(&mut redis, &[(&format!("TOLLGATE.RENEW {second}"), NOT_OPEN, "stop")]).await;
}

/// Words with blanks in them.
fn acquire(subject: &str, limit: &str) -> Vec<u8> {
    crate::redis_client::command(&[b"TOLLGATE.ACQUIRE", subject.as_bytes(), limit.as_bytes()])
}

#[tokio::test]
async fn a_hold_that_has_ended_charges_nothing() {
    let (service, clock) = on_memory(FILE).await;
    let mut redis = service.redis().await;
    let reserve = "TOLLGATE.RESERVE bob 10/h COST 4 TTL 10000";
    let late = redis.ask(reserve).await;
    clock.advance(Duration::from_secs(9));
    let late = hold_of(&late);
    let renewed = hold_of(&redis.ask(&format!("TOLLGATE.RENEW {late} TTL 10000")).await);
    clock.advance(Duration::from_micros(9_999_999));
    assert_eq!(left(&mut redis, "bob 10/h").await, "6");
    // The end is not part of the hold.
    clock.advance(Duration::from_micros(1));
    refuses(
        &mut redis,
        &[
            (&format!("TOLLGATE.COMMIT {renewed} 4"), NOT_OPEN, "nothing was charged"),
            (&format!("TOLLGATE.CANCEL {renewed}"), NOT_OPEN, "nothing was charged"),
            (&format!("TOLLGATE.RELEASE {renewed}"), NOT_OPEN, "nothing was charged"),
            (
                &format!("TOLLGATE.RENEW {renewed} TTL 10000"),
                NOT_OPEN,
                "others may have what it kept",
            ),
        ],
    )
    .await;
    assert_eq!(left(&mut redis, "bob 10/h").await, "10");
    let charging = hold_of(&redis.ask(&format!("{reserve} ATEND charge")).await);
    clock.advance(Duration::from_secs(10));
    let commit = format!("TOLLGATE.COMMIT {charging} 1");
    refuses(&mut redis, &[(&commit, NOT_OPEN, "that charged the estimate")]).await;
    assert_eq!(left(&mut redis, "bob 10/h").await, "6");
    // After a reset there is nothing to settle.
    let reset = hold_of(&redis.ask(reserve).await);
    let limits: tollgate::LimitSet = "10/h".parse().unwrap();
    service.gate.admin().reset(Ask::new("bob").under(&limits)).await.unwrap();
    let commit = format!("TOLLGATE.COMMIT {reset} 4");
    refuses(&mut redis, &[(&commit, NOT_OPEN, "nothing was charged")]).await;
    assert_eq!(left(&mut redis, "bob 10/h").await, "10");
}

#[tokio::test]
async fn one_hold_more_than_a_count_can_have_is_a_refusal_of_its_own() {
    let (service, _clock) = on_memory(FILE).await;
    let mut redis = service.redis().await;
    let charging = "TOLLGATE.RESERVE bob 1000/s TTL 60000 ATEND charge";
    for _ in 0..1_000 {
        hold_of(&redis.ask(charging).await);
    }
    let allow = format!("{charging} ONFAILURE allow");
    refuses(
        &mut redis,
        &[
            (charging, "(TOOMANY ", "1000 holds that charge at their end are open on one count"),
            (&allow, "(TOOMANY ", "nothing was held or charged"),
        ],
    )
    .await;
    // Holds whose end charges nothing have a separate bound: this is only denied.
    let denied = redis.ask(&charging.replace("charge", "nothing")).await;
    assert_eq!(of(&denied, "hold"), "nil", "{denied}");
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
async fn what_makes_no_sense_is_refused() {
    let (service, _clock) = on_memory(FILE).await;
    let (mut redis, mut http) = (service.redis().await, service.client().await);
    let syntax = "(ERR syntax error)";
    let no_number =
        "(ERR TTL is how long the hold lasts, a whole number of milliseconds, e.g. TTL 60000)";
    talk(
        &mut redis,
        &[
            ("TOLLGATE.RESERVE bob 9/h TTL 1000 TTL 1000", syntax),
            ("TOLLGATE.RESERVE bob 9/h COST 1 TTL", syntax),
            ("TOLLGATE.RESERVE bob 9/h TTL 1m", no_number),
            ("TOLLGATE.RESERVE bob 9/h TTL -1", no_number),
            (
                "TOLLGATE.RESERVE bob 9/h",
                "(ERR wrong number of arguments for 'tollgate.reserve' command)",
            ),
            ("TOLLGATE.RESERVE bob 9/h COST 1", "(ERR TTL is missing, e.g. TTL 60000 for 60 s)"),
            ("TOLLGATE.COMMIT x", "(ERR wrong number of arguments for 'tollgate.commit' command)"),
            (
                "TOLLGATE.CANCEL x 1",
                "(ERR wrong number of arguments for 'tollgate.cancel' command)",
            ),
        ],
    )
    .await;
    refuses(
        &mut redis,
        &[
            ("TOLLGATE.RESERVE bob 9/h TTL 0", "(ERR ", "give 1ms to"),
            ("TOLLGATE.RESERVE bob 9/h TTL 9223372036854775807", "(ERR ", "give 1ms to"),
            (
                "TOLLGATE.RESERVE bob 9/h TTL 60000 ATEND release",
                "(ERR ",
                "not an effect of an end",
            ),
            ("TOLLGATE.RESERVE bob 9/h TTL 60000 COST 0", "(ERR ", "at least 1"),
            ("TOLLGATE.RESERVE bob 9/h TTL 60000 COST 9007199254740992", "(ERR ", "too large"),
            (
                "TOLLGATE.RESERVE bob 9/h TTL 60000 ONFAILURE local",
                "(ERR ",
                "`local` needs a share",
            ),
            ("TOLLGATE.RESERVE bob 9/h TTL 60000 ONFAILURE local1/4", "(ERR ", ""),
            // Options of checks are unknown for a hold.
            ("TOLLGATE.RESERVE bob 9/h TTL 60000 RECEIPT", "(ERR ", ""),
            ("TOLLGATE.ACQUIRE bob 9/h", "(ERR ", "no slots to acquire"),
            ("TOLLGATE.ACQUIRE bob 9/h TTL 60000", "(ERR ", ""),
        ],
    )
    .await;
    let local = [&b"TOLLGATE.RESERVE"[..], b"bob", b"9/h", b"TTL", b"60000"];
    let local = [&local[..], &[b"ONFAILURE", b"local 1/4"]].concat();
    redis.send(&crate::redis_client::command(&local)).await;
    let said = redis.reply().await;
    assert!(said.starts_with("(ERR ") && said.contains("holds nothing"), "{said}");
    // A check of slots takes none.
    let check = [&b"TOLLGATE.CHECK"[..], b"bob", b"2 at once"];
    redis.send(&crate::redis_client::command(&check)).await;
    let said = redis.reply().await;
    assert!(said.starts_with("(ERR ") && said.contains("TOLLGATE.ACQUIRE"), "{said}");
    let slots = json!({ "subject": "bob", "limit": "2 at once" });
    assert_eq!(remaining(&done(&mut http, "/v1/peek", slots).await), 2);

    let held = redis.ask("TOLLGATE.RESERVE bob 9/h TTL 60000 COST 2").await;
    let (hold, number) = (hold_of(&held), "value is not an integer");
    for (units, says) in [
        ("9007199254740992", "`actual` is 0 to 2^40"),
        ("1099511627777", "`actual` is 0 to 2^40"),
        ("9223372036854775808", number),
        ("-1", number),
        ("1.5", number),
        ("x", number),
    ] {
        let line = format!("TOLLGATE.COMMIT {hold} {units}");
        refuses(&mut redis, &[(&line, "(ERR ", says)]).await;
    }
    refuses(
        &mut redis,
        &[
            (&format!("TOLLGATE.RENEW {hold}"), "(ERR ", "give a `ttl`"),
            (&format!("TOLLGATE.RENEW {hold} 60000"), "(ERR syntax error)", ""),
            (&format!("TOLLGATE.REFUND {hold}"), "(ERR ", "not a receipt of this service"),
        ],
    )
    .await;
    // Every letter is part of the signature, so that nobody settles the hold of another.
    let other = hold_of(&redis.ask("TOLLGATE.RESERVE eve 9/h TTL 60000 COST 2").await);
    let checked = redis.ask("TOLLGATE.CHECK bob 9/h RECEIPT").await;
    let receipt = of(&checked, "receipt").trim_matches('"').to_owned();
    let (signature, text) = (&other[..22], &hold[22..]);
    let forged = format!("{signature}{text}");
    for strange in ["x", "AAAA", &hold[1..], &hold[..hold.len() - 2], &receipt, &forged] {
        for (command, rest) in
            [("COMMIT", " 1"), ("CANCEL", ""), ("RENEW", " TTL 60000"), ("RELEASE", "")]
        {
            let line = format!("TOLLGATE.{command} {strange}{rest}");
            refuses(&mut redis, &[(&line, "(ERR ", "not a hold of this service")]).await;
        }
    }
    // Bytes that are not text are not a hold.
    redis.send(&crate::redis_client::command(&[b"TOLLGATE.RELEASE", b"\xff"])).await;
    assert!(redis.reply().await.contains("not a hold of this service"));
    // Both are still as they were placed.
    let commit = json!({ "hold": other, "actual": 9 });
    assert_eq!(done(&mut http, "/v1/commit", commit).await["already"], false);
    assert_eq!(left(&mut redis, "eve 9/h").await, "0");
    assert_eq!(left(&mut redis, "bob 9/h").await, "6", "two are held, and one was checked");
}

#[tokio::test]
async fn policies_hold_for_a_request() {
    let (service, clock) = on_memory(JOBS).await;
    let (mut redis, mut http) = (service.redis().await, service.client().await);
    let job = "TOLLGATE.REQUEST * field.kind job user 7";
    // Its failure rule lets others pass, which is no reason to admit this.
    let said = redis.ask(job).await;
    assert_eq!(
        (of(&said, "allowed"), of(&said, "outcome")),
        ("0".into(), "\"failed_closed\"".into())
    );
    let first = redis.ask(&format!("{job} ACQUIRE")).await;
    assert_eq!((of(&first, "allowed"), of(&first, "policy")), ("1".into(), "\"jobs\"".into()));
    assert!(first.contains(r#""ends_after", ["seconds", 10, "#), "{first}");
    assert_eq!(of(&redis.ask(&format!("{job} acquire")).await, "allowed"), "1");
    let denied = redis.ask(&format!("{job} ACQUIRE")).await;
    assert_eq!((of(&denied, "allowed"), of(&denied, "hold")), ("0".into(), "nil".into()));
    done(&mut http, "/v1/release", json!({ "hold": hold_of(&first) })).await;
    assert_eq!(of(&redis.ask(&format!("{job} PEEK")).await, "remaining"), "1");
    // Units of a request, which its policy holds for no longer than its slots.
    let line = format!("{job} RESERVE 20000");
    refuses(&mut redis, &[(&line, "(ERR ", "give 1ms to 10s")]).await;
    let held = redis.ask(&format!("{job} RESERVE 5000 ATEND charge")).await;
    assert_eq!(of(&redis.ask(&format!("{job} PEEK")).await, "remaining"), "0");
    let commit = json!({ "hold": hold_of(&held), "actual": 1 });
    assert_eq!(done(&mut http, "/v1/commit", commit).await["actual"], 1);
    for (options, says) in [
        ("RESERVE 5000 PEEK", "exclude each other"),
        ("ACQUIRE PEEK", "exclude each other"),
        ("RESERVE 5000 ACQUIRE", "exclude each other"),
        ("ATEND charge", "add RESERVE"),
        ("ACQUIRE ATEND charge", "add RESERVE"),
        ("RESERVE 5000 ATEND open", "not an effect of an end"),
        ("RESERVE 5s", "whole number of milliseconds, e.g. RESERVE 60000"),
        ("ACQUIRE RECEIPT", "its own receipt"),
    ] {
        refuses(&mut redis, &[(&format!("{job} {options}"), "(ERR ", says)]).await;
    }
    // Without a policy there is nothing to hold.
    let said = redis.ask("TOLLGATE.REQUEST * user 7 ACQUIRE").await;
    assert_eq!((of(&said, "outcome"), of(&said, "hold")), ("\"no_policy\"".into(), "nil".into()));
    clock.advance(Duration::from_secs(10));
    assert_eq!(of(&redis.ask(&format!("{job} PEEK")).await, "remaining"), "2");
    let release = json!({ "hold": hold_of(&first) });
    refused(&mut http, "/v1/release", release, 409, "not open").await;
    let page = http.get("/metrics").await.text;
    for line in [
        "tollgate_resp_commands_total{command=\"tollgate.request\",result=\"error\"} 9",
        "tollgate_holds_placed_total{kind=\"acquire\"} 2",
        "tollgate_holds_placed_total{kind=\"reserve\"} 1",
        "tollgate_holds_open 1\n",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}

#[tokio::test]
async fn the_table_of_commands_describes_them() {
    let (service, _clock) = on_memory(FILE).await;
    let mut redis = service.redis().await;
    let said = redis.ask("COMMAND INFO tollgate.reserve tollgate.renew").await;
    assert_eq!(
        said,
        r#"[["tollgate.reserve", -5, [write, fast], 1, 1, 1, [], [], [], []], ["tollgate.renew", -2, [write, fast], 0, 0, 0, [], [], [], []]]"#
    );
    redis.ask("HELLO 3").await;
    let docs = redis.ask("COMMAND DOCS tollgate.commit").await;
    let begin = r#"{"tollgate.commit": {"summary": "Ends a hold, and charges the used units.", "since": "0.1.0", "group": "rate-limit", "arguments": [{"name": "which", "type": "oneof", "arguments": [{"name": "hold", "type": "string"}, {"name": "id", "type": "string", "token": "ID"}]}, {"name": "units", "type": "string"}, {"name": "asked", "type": "block", "token": "ON", "#;
    assert!(docs.starts_with(begin), "{docs}");
    let docs = redis.ask("COMMAND DOCS tollgate.reserve").await;
    let at_end = r#"{"name": "at_end", "type": "oneof", "token": "ATEND", "flags": ~[optional]"#;
    assert!(docs.contains(at_end) || docs.contains(&at_end.replace('~', "")), "{docs}");
    let ttl = r#"{"name": "milliseconds", "type": "integer", "token": "TTL"}"#;
    assert!(docs.contains(ttl), "TTL is not optional: {docs}");
}

/// The reply to a line; a quoted part of it is one word.
async fn ask_quoted(redis: &mut Redis, line: &str) -> String {
    let parts = line.split('"').enumerate();
    let words = parts.flat_map(|(place, part)| match place % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    let words: Vec<_> = words.map(str::as_bytes).collect();
    redis.send(&crate::redis_client::command(&words)).await;
    redis.reply().await
}

const ID: &str = "b1946ac92492d2347c6235b4d2611184";

#[tokio::test]
async fn a_hold_with_an_id_of_the_caller_is_settled_by_it() {
    for (service, _folder) in on_both().await {
        let (mut redis, mut http) = (service.redis().await, service.client().await);
        let slots = "backend \"2 at once hold 1m\"";
        let acquire = format!("TOLLGATE.ACQUIRE {slots} ID {ID}");
        let first = ask_quoted(&mut redis, &acquire).await;
        for _ in 1..=16 {
            let again = ask_quoted(&mut redis, &acquire).await;
            assert_eq!(of(&again, "fence"), of(&first, "fence"), "{again}");
            assert_eq!(of(&again, "remaining"), "1");
        }
        // The same slot over HTTP, which counts the same answers.
        let named = json!({ "subject": "backend", "limit": "2 at once hold 1m", "id": ID });
        refused(&mut http, "/v1/acquire", named, 409, "16 times again").await;
        let said = ask_quoted(&mut redis, &acquire).await;
        assert!(said.starts_with(NOT_OPEN) && said.contains("16 times again"), "{said}");
        let other = format!("TOLLGATE.ACQUIRE {slots} COST 2 ID {ID}");
        let said = ask_quoted(&mut redis, &other).await;
        assert!(said.starts_with(NOT_OPEN) && said.contains("asked for otherwise"), "{said}");
        let said = ask_quoted(&mut redis, &format!("TOLLGATE.RENEW ID {ID} ON {slots}")).await;
        let [hold, fence] = ["hold", "fence"].map(|field| of(&said, field));
        assert_eq!((&*hold, &*fence), ("nil", "nil"), "{said}");
        assert!(of(&said, "end_us").parse::<u64>().unwrap() > 0, "{said}");
        // The subject and the limit are part of the id.
        for asked in ["other \"2 at once hold 1m\"", "backend \"x: 2 at once hold 1m\""] {
            ask_quoted(&mut redis, &format!("TOLLGATE.RELEASE ID {ID} ON {asked}")).await;
        }
        assert_eq!(
            of(&ask_quoted(&mut redis, &format!("TOLLGATE.PEEK {slots}")).await, "remaining"),
            "1"
        );
        for _ in 0..2 {
            let said =
                ask_quoted(&mut redis, &format!("TOLLGATE.RELEASE id {ID} on {slots}")).await;
            assert_eq!(said, r#"["released", 1]"#, "twice is as once");
        }
        assert_eq!(
            of(&ask_quoted(&mut redis, &format!("TOLLGATE.PEEK {slots}")).await, "remaining"),
            "2"
        );
        // A release that comes first: the acquire is refused.
        let early = "0123456789abcdef";
        ask_quoted(&mut redis, &format!("TOLLGATE.RELEASE ID {early} ON {slots}")).await;
        let said = ask_quoted(&mut redis, &format!("TOLLGATE.ACQUIRE {slots} ID {early}")).await;
        assert!(said.starts_with(NOT_OPEN) && said.contains("released or committed"), "{said}");
        // Units, on two counts.
        let asked = "bob 100/h AND team 1000/h";
        for (units, left, end) in
            [(30, "70", format!("COMMIT ID {ID} 30")), (0, "70", format!("CANCEL ID {early}"))]
        {
            let id = if units == 0 { early } else { ID };
            let held =
                redis.ask(&format!("TOLLGATE.RESERVE {asked} TTL 60000 COST 70 ID {id}")).await;
            assert_eq!(of(&held, "allowed"), "1", "{held}");
            let settle = format!("TOLLGATE.{end} ON {asked}");
            for already in ["0", "1"] {
                let said = redis.ask(&settle).await;
                assert_eq!(of(&said, "actual"), units.to_string(), "{said}");
                assert_eq!(of(&said, "already"), already, "{said}");
            }
            let said = redis.ask("TOLLGATE.PEEK bob 100/h").await;
            assert_eq!(of(&said, "remaining"), left, "{said}");
        }
    }
}

#[tokio::test]
async fn a_hold_of_a_policy_has_an_id_of_the_caller() {
    let (service, _clock) = on_memory(JOBS).await;
    let mut redis = service.redis().await;
    let job = "field.kind job user 7";
    let acquire = format!("TOLLGATE.REQUEST * {job} ACQUIRE ID {ID}");
    let first = redis.ask(&acquire).await;
    assert_eq!(of(&redis.ask(&acquire).await, "fence"), of(&first, "fence"));
    let said = redis.ask(&format!("TOLLGATE.RENEW ID {ID} POLICY jobs {job} TTL 5000")).await;
    assert_eq!(of(&said, "hold"), "nil", "{said}");
    let said = redis.ask(&format!("TOLLGATE.RELEASE ID {ID} POLICY * {job}")).await;
    assert_eq!(said, r#"["released", 1]"#);
    let peek = format!("TOLLGATE.REQUEST * {job} PEEK");
    assert_eq!(of(&redis.ask(&peek).await, "remaining"), "2");
    refuses(
        &mut redis,
        &[
            (&acquire, NOT_OPEN, "released or committed"),
            (&format!("TOLLGATE.RELEASE ID {ID} POLICY * user 7"), NOT_OPEN, "nothing is held"),
            (&format!("TOLLGATE.RELEASE ID {ID} POLICY none {job}"), "(ERR ", "no policy `none`"),
            (
                &format!("TOLLGATE.RELEASE ID {ID} POLICY * {job} SHARD a"),
                "(ERR ",
                "sets its shard",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn an_id_that_is_none_is_refused_and_never_repeated() {
    let (service, _clock) = on_memory(FILE).await;
    let mut redis = service.redis().await;
    for (length, says) in [(15, "has 15 bytes"), (257, "has 257 bytes")] {
        let id = "s".repeat(length);
        refuses(
            &mut redis,
            &[
                (&format!("TOLLGATE.RESERVE bob 9/h TTL 60000 ID {id}"), "(ERR ", says),
                (&format!("TOLLGATE.COMMIT ID {id} 1 ON bob 9/h"), "(ERR ", says),
            ],
        )
        .await;
    }
    let secret = [&b"TOLLGATE.RELEASE"[..], b"ID", b"a secret of sixteen", b"ON", b"bob", b"9/h"];
    redis.send(&crate::redis_client::command(&secret)).await;
    let said = redis.reply().await;
    assert!(said.starts_with("(ERR ") && !said.contains("sixteen"), "{said}");
    refuses(
        &mut redis,
        &[
            (&format!("TOLLGATE.RELEASE ID {ID}"), "(ERR ", "the hold is missing: beside its ID"),
            (&format!("TOLLGATE.RELEASE ID {ID} ON"), "(ERR ", "syntax error"),
            (&format!("TOLLGATE.RELEASE ID {ID} ON bob"), "(ERR ", "`bob` has no limit"),
            (&format!("TOLLGATE.RELEASE ID {ID} 3 ON bob 9/h"), "(ERR ", "wrong number"),
            (&format!("TOLLGATE.COMMIT ID {ID} ON bob 9/h"), "(ERR ", "wrong number"),
            (&format!("TOLLGATE.COMMIT ID {ID} x ON bob 9/h"), "(ERR ", "not an integer"),
            (&format!("TOLLGATE.COMMIT ID {ID} 1 ON bob 9/h"), NOT_OPEN, "no hold with this id"),
            (&format!("TOLLGATE.RENEW ID {ID} ON bob 9/h TTL 60000"), NOT_OPEN, "not open"),
            ("TOLLGATE.RELEASE ID", "(ERR ", "wrong number"),
        ],
    )
    .await;
}

/// A charge that came too late for its hold, under limits and by a policy.
#[tokio::test]
async fn what_nobody_holds_is_charged_without_a_check() {
    let (service, _clock) = on_memory(FILE).await;
    let mut redis = service.redis().await;
    let says = |said: &str, each: &[&str]| {
        each.iter().for_each(|part| assert!(said.contains(part), "{part} is not in {said}"));
    };
    let said = redis.ask("TOLLGATE.CHARGE bob 100/h COST 130 SHARD eu").await;
    says(&said, &[r#"["cost", 130, "limits", ["#, r#""fits", 0, "cut", 0, "remaining", 0, "#]);
    let said = redis.ask("tollgate.charge bob 100/h cost 130 shard eu").await;
    says(
        &said,
        &[r#"[["subject", "bob", "#, r#""fits", 0, "cut", 60, "#, r#""retry_after", nil, "#],
    );
    let said = redis.ask("TOLLGATE.CHARGE carl 9/h AND ann 20/h 30/m COST 2").await;
    says(&said, &[r#""remaining", 7, "#, r#""remaining", 18, "#, r#""remaining", 28, "#]);
    refuses(
        &mut redis,
        &[
            ("TOLLGATE.CHARGE bob", "(ERR ", "wrong number"),
            ("TOLLGATE.CHARGE bob 9/h COST 0", "(ERR ", "cost"),
            ("TOLLGATE.CHARGE bob 9/h RECEIPT", "(ERR ", "this is not a quota"),
            ("TOLLGATE.REQUEST * ip 192.0.2.7 CHARGE PEEK", "(ERR ", "exclude each other"),
            ("TOLLGATE.REQUEST * ip 192.0.2.7 CHARGE RECEIPT", "(ERR ", "no receipt"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_peek_looks_ahead_to_a_check_a_reserve_or_an_acquire() {
    let (service, _clock) = on_memory(FILE).await;
    let mut redis = service.redis().await;
    let asked = ["TOLLGATE.PEEK", "bob", "20 at once", "1000/m", "COST", "800"];
    for (kind, allowed) in
        [(["KIND", "reserve"], "1"), (["kind", "ACQUIRE"], "0"), (["KIND", "check"], "0")]
    {
        let words: Vec<&[u8]> = asked.iter().chain(&kind).map(|word| word.as_bytes()).collect();
        redis.send(&crate::redis_client::command(&words)).await;
        assert_eq!(of(&redis.reply().await, "allowed"), allowed, "{kind:?}");
    }
    refuses(
        &mut redis,
        &[
            ("TOLLGATE.PEEK bob 9/h KIND hold", "(ERR ", "`check`, `reserve` or `acquire`"),
            ("TOLLGATE.PEEK bob 9/h KIND acquire", "(ERR ", "no slots to acquire"),
            ("TOLLGATE.REQUEST * ip 192.0.2.7 KIND reserve", "(ERR ", "only a peek has a `kind`"),
        ],
    )
    .await;
}

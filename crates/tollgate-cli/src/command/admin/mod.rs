//! `admin`: inspects and corrects counts of a running service, over its admin listener.

mod json;
mod look;

use core::time::Duration;
use std::collections::BTreeMap;

use anyhow::{Context as _, Result, anyhow, bail};
use bytes::Bytes;
use http::Request;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http_body_util::Full;
use serde_json::{Value, json};
use tollgate_service::Operation;

use crate::args::{
    Admin, AdminAction, AdminCount, AdminService, CreditArgs, RulingArgs, RulingTarget, TopBy,
};
use crate::client::{Service, Wanted};
use crate::input::{costs, delta, secret, shown, wait};
use crate::show::{self, Output};

use self::json::whole_of;
pub(super) use self::json::{list, text_of};

/// The environment variable with the administrators' token, which keeps it out of process lists.
const TOKEN: &str = "TOLLGATE_ADMIN_TOKEN";

/// The address that is asked.
const ADMIN: Wanted = Wanted { line: "admin", example: "127.0.0.1:8701" };

/// The part of a request that differs between operations.
pub(super) enum Payload {
    Nothing,
    Query(String),
    Body(Value),
}

pub(crate) fn admin(args: &Admin, out: &mut Output) -> Result<u8> {
    let (operation, payload) = asked(&args.act)?;
    let mut answer = ask(&args.service, operation, payload)?;
    if matches!(args.act, AdminAction::Reloads) {
        answer = answer["reloads"].take();
    }
    if args.json {
        out.json(&answer)?;
    } else {
        out.text(&text(&args.act, &answer))?;
    }
    let missed = match args.act {
        AdminAction::Lift(_) => answer["was_there"] == false,
        AdminAction::Lookup { .. } => answer["found"].as_array().is_some_and(Vec::is_empty),
        _ => false,
    };
    Ok(u8::from(missed))
}

/// The operation that an action asks for, and its query or body.
fn asked(act: &AdminAction) -> Result<(Operation, Payload)> {
    Ok(match act {
        AdminAction::Inspect(counted) => (Operation::Inspect, Payload::Body(count_body(counted))),
        AdminAction::Peek(counted) => (Operation::AdminPeek, Payload::Body(count_body(counted))),
        AdminAction::Lookup { hash } => {
            (Operation::Lookup, Payload::Body(json!({ "subject": hash })))
        }
        AdminAction::Explain { fields } => {
            (Operation::AdminExplain, Payload::Query(fields_query(fields)?))
        }
        AdminAction::Reloads => (Operation::Overview, Payload::Nothing),
        AdminAction::Reset(counted) => (Operation::Reset, Payload::Body(count_body(counted))),
        AdminAction::Adjust { counted, by } => {
            let mut body = count_body(counted);
            body["by"] = serde_json::to_value(delta(by)?)?;
            (Operation::Adjust, Payload::Body(body))
        }
        AdminAction::Credit { counted, credit: CreditArgs { units, lasts, id } } => {
            let mut body = count_body(counted);
            let cost = costs(units, false).context("--units")?;
            body["units"] = match cost.plain() {
                Some(requests) => requests.into(),
                None => cost.amounts().iter().map(|(unit, it)| (unit.to_string(), it)).collect(),
            };
            body["for"] = lasts.as_str().into();
            if let Some(id) = id {
                body["id"] = id.as_str().into();
            }
            (Operation::Credit, Payload::Body(body))
        }
        AdminAction::Release { hold } => {
            (Operation::AdminRelease, Payload::Body(json!({ "hold": hold })))
        }
        AdminAction::Ban(ruled) => (Operation::Ban, Payload::Body(ruling(ruled)?)),
        AdminAction::Exempt(ruled) => (Operation::Exempt, Payload::Body(ruling(ruled)?)),
        AdminAction::Set { ruled, limits } => {
            let mut body = ruling(ruled)?;
            body["limits"] = limits_body(limits)?;
            (Operation::Set, Payload::Body(body))
        }
        AdminAction::Lift(about) => (Operation::Lift, Payload::Body(ruling_body(about)?)),
        AdminAction::Rulings => (Operation::Rulings, Payload::Nothing),
        AdminAction::Reload => (Operation::Reload, Payload::Body(json!({}))),
        AdminAction::Series { last } => {
            let last = wait(last).context("--last")?;
            (Operation::Series, Payload::Query(format!("last={}s", last.as_secs().max(1))))
        }
        AdminAction::Top { by, n } => {
            let by = match by {
                TopBy::Asked => "asked",
                TopBy::Denied => "denied",
            };
            (Operation::Top, Payload::Query(format!("by={by}&n={n}")))
        }
    })
}

fn count_body(counted: &AdminCount) -> Value {
    let AdminCount { subject, policy, limit } = counted;
    let mut body = json!({ "written_subject": subject });
    for (key, value) in [("policy", policy), ("limit", limit)] {
        if let Some(value) = value {
            body[key] = value.as_str().into();
        }
    }
    body
}

/// These fields of a request, in a query.
fn fields_query(fields: &[String]) -> Result<String> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for field in fields {
        let (name, value) = field.split_once('=').ok_or_else(|| {
            anyhow!("`{}` is not a field: write FIELD=VALUE, e.g. `ip=192.0.2.7`", shown(field))
        })?;
        query.append_pair(name, value);
    }
    Ok(query.finish())
}

fn ruling(ruled: &RulingArgs) -> Result<Value> {
    let mut body = ruling_body(&ruled.about)?;
    body["for"] = ruled.lasts.as_str().into();
    if let Some(reason) = &ruled.reason {
        body["reason"] = reason.as_str().into();
    }
    Ok(body)
}

fn ruling_body(RulingTarget { when, policy }: &RulingTarget) -> Result<Value> {
    let mut fields: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for condition in when {
        let (field, value) = condition.split_once('=').ok_or_else(|| {
            anyhow!(
                "`{}` is not a condition: write FIELD=VALUE, e.g. `ip=203.0.113.0/24` or \
                 `user=ann`",
                shown(condition)
            )
        })?;
        fields.entry(field).or_default().push(value);
    }
    let mut body = json!({ "when": fields });
    if let Some(policy) = policy {
        body["policy"] = policy.as_str().into();
    }
    Ok(body)
}

/// Limits by their names in the policy.
fn limits_body(limits: &[String]) -> Result<Value> {
    let mut all = serde_json::Map::new();
    for limit in limits {
        let (name, text) = limit.split_once('=').ok_or_else(|| {
            anyhow!(
                "`{}` names no limit: write NAME=LIMIT, e.g. `minute=500/m` or \
                 `sliding_log/1m=unlimited`",
                shown(limit)
            )
        })?;
        if all.insert(name.to_owned(), text.into()).is_some() {
            bail!("the limit `{}` is given twice", shown(name));
        }
    }
    Ok(all.into())
}

/// The service's answer; a refusal is an error with the service's text.
pub(super) fn ask(args: &AdminService, operation: Operation, payload: Payload) -> Result<Value> {
    let service = Service::parse(&args.at, ADMIN)?;
    let mut request = Request::builder().method(operation.method()).header(HOST, "localhost");
    if let Some(token) = secret(TOKEN)? {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let path = operation.path();
    let request = match payload {
        Payload::Nothing => request.uri(path).body(Full::default()),
        Payload::Query(query) => request.uri(format!("{path}?{query}")).body(Full::default()),
        Payload::Body(body) => {
            let request = request.uri(path).header(CONTENT_TYPE, "application/json");
            request.body(Full::new(Bytes::from(body.to_string())))
        }
    };
    let request = request.context("cannot build a request from this")?;
    let answer = service.ask(request, wait(&args.timeout)?).with_context(|| {
        format!(
            "{} does not answer: give the address of the service's `--admin` with --at",
            args.at
        )
    })?;
    let status = answer.status();
    let body: Value = serde_json::from_slice(answer.body()).with_context(|| {
        format!("{} is not an admin listener of tollgate: {status}, and no JSON", args.at)
    })?;
    if !status.is_success() {
        let detail = body["detail"].as_str().unwrap_or("the answer gives no reason");
        let remedy = match status {
            http::StatusCode::UNAUTHORIZED => {
                format!(": set {TOKEN} in the environment of this command")
            }
            http::StatusCode::NOT_FOUND if detail.contains(path) => {
                format!(": give the address that `serve` prints after `{}`", ADMIN.line)
            }
            _ => String::new(),
        };
        bail!("{status}: {detail}{remedy}");
    }
    Ok(body)
}

/// The answer in readable form.
fn text(act: &AdminAction, answer: &Value) -> String {
    match act {
        AdminAction::Inspect(counted) => held(&counted.subject, &answer["held"]),
        AdminAction::Peek(_) => look::peeked(answer),
        AdminAction::Lookup { hash } => look::found(hash, &answer["found"]),
        AdminAction::Explain { .. } => look::explained(answer),
        AdminAction::Reloads => look::reloads(answer),
        AdminAction::Reset(counted) if answer["was_there"] == true => {
            format!("reset {}\n", shown(&counted.subject))
        }
        AdminAction::Reset(counted) => {
            format!("nothing was held for {}\n", shown(&counted.subject))
        }
        AdminAction::Adjust { counted, .. } => {
            let changed = list(&answer["changed"]);
            let changed: Vec<String> = changed.iter().map(text_of).collect();
            format!("changed {} by {}\n", shown(&counted.subject), changed.join(", "))
        }
        AdminAction::Credit { counted, credit } => given(counted, credit, answer),
        AdminAction::Release { .. } => "released the hold\n".to_owned(),
        AdminAction::Ban(_) | AdminAction::Exempt(_) | AdminAction::Set { .. } => ruled(answer),
        AdminAction::Lift(about) if answer["was_there"] == true => {
            format!("lifted {}\n", shown(&about.when.join(", ")))
        }
        AdminAction::Lift(about) => not_lifted(about, &answer["others"]),
        AdminAction::Rulings => rulings(answer),
        AdminAction::Reload => {
            format!("policies of revision {}\n", text_of(&answer["revision"]))
        }
        AdminAction::Series { .. } => series(answer),
        AdminAction::Top { by, .. } => top(*by, answer),
    }
}

fn given(counted: &AdminCount, credit: &CreditArgs, answer: &Value) -> String {
    let ends = answer["ends_after"]["text"].as_str().unwrap_or("-");
    format!(
        "{} has a credit of {} for {ends}: {} {} left\ntake back what is left: tollgate admin release {}\n",
        shown(&counted.subject),
        shown(&credit.units),
        text_of(&answer["remaining"]),
        text_of(&answer["unit"]),
        whole_of(&answer["hold"])
    )
}

fn ruled(answer: &Value) -> String {
    if let Some(warning) = answer["warning"].as_str() {
        show::note(&format!("warning: {}", shown(warning)));
    }
    let one = |ruled: &Value| {
        let policy = ruled["policy"].as_str();
        let policy = policy.map_or(String::new(), |policy| format!(" in {}", shown(policy)));
        format!(
            "{} {}{policy}{} for {}\n",
            text_of(&ruled["effect"]),
            conditions(&ruled["when"]),
            limits(&ruled["limits"], ":"),
            left(&ruled["left_ms"])
        )
    };
    match &answer["replaced"] {
        Value::Null => one(&answer["ruled"]),
        replaced => format!("{}  in place of {}", one(&answer["ruled"]), one(replaced)),
    }
}

/// The limits that a ruling sets, behind this sign; nothing for a ban.
fn limits(limits: &Value, sign: &str) -> String {
    let each = limits.as_object().into_iter().flatten();
    let each = each.map(|(name, limit)| format!("{} = {}", shown(name), text_of(limit)));
    let all = each.collect::<Vec<_>>().join(", ");
    if all.is_empty() { all } else { format!("{sign} {all}") }
}

/// The rulings that exist in place of the ruling to lift.
fn not_lifted(about: &RulingTarget, others: &Value) -> String {
    let of =
        about.policy.as_ref().map_or("all policies".to_owned(), |it| format!("`{}`", shown(it)));
    let mut text = format!("no ruling on {} for {of}\n", shown(&about.when.join(", ")));
    for other in others.as_array().into_iter().flatten() {
        let words = match other.as_str() {
            Some(policy) => format!("with --policy {}", shown(policy)),
            None => "without --policy".to_owned(),
        };
        text.push_str(&format!("  lift the existing ruling {words}\n"));
    }
    text
}

fn rulings(answer: &Value) -> String {
    let all = list(&answer["rulings"]);
    if all.is_empty() {
        return "no bans and no exemptions\n".to_owned();
    }
    let mut table = show::texts(["ruling", "requests", "policy", "left", "reason"]);
    for one in all {
        let no_effect = one["no_effect"].as_str();
        let no_effect =
            no_effect.map_or_else(String::new, |why| format!(" (no effect: {})", shown(why)));
        table.add_row([
            format!("{}{}{no_effect}", text_of(&one["effect"]), limits(&one["limits"], "")),
            conditions(&one["when"]),
            one["policy"].as_str().map_or_else(|| "all".to_owned(), shown),
            left(&one["left_ms"]),
            one["reason"].as_str().map_or_else(String::new, shown),
        ]);
    }
    format!("{table}\n")
}

fn conditions(when: &Value) -> String {
    let each = when.as_object().into_iter().flatten().map(|(field, any_of)| {
        let any_of: Vec<String> = any_of.as_array().into_iter().flatten().map(text_of).collect();
        format!("{} = {}", shown(field), any_of.join(" | "))
    });
    each.collect::<Vec<_>>().join(", ")
}

/// The remaining time of a ruling, in whole seconds if it is more than one.
fn left(left_ms: &Value) -> String {
    let left = Duration::from_millis(left_ms.as_u64().unwrap_or(0));
    let left = if left.as_secs() > 0 { Duration::from_secs(left.as_secs()) } else { left };
    show::duration(left)
}

fn held(subject: &str, held: &Value) -> String {
    let subject = shown(subject);
    if held.is_null() {
        return format!("{subject}\n  nothing is held: fresh\n");
    }
    let mut text = format!("{subject}\n  written under {}\n", text_of(&held["written_under"]));
    let logs = list(&held["logs"]);
    for log in logs {
        let events = log.as_array().map_or(0, Vec::len);
        text.push_str(&format!("  {events} events held\n"));
    }
    if let Some(words) = held["words"].as_array().filter(|words| !words.is_empty()) {
        let words: Vec<String> = words.iter().map(text_of).collect();
        text.push_str(&format!("  words [{}]\n", words.join(", ")));
    }
    if held["shared"] == true {
        text.push_str("  shared with other subjects: the store is full\n");
    }
    if let Some(open) = held["open"].as_u64().filter(|open| *open > 0) {
        text.push_str(&format!("  {} open\n", show::count(open, "hold")));
        for hold in list(&held["holds"]) {
            let end = show::time(hold["end_us"].as_u64().unwrap_or(0));
            let (kind, cost) = (text_of(&hold["kind"]), text_of(&hold["cost"]));
            let age = hold["age"]["text"].as_str().unwrap_or("-");
            let hold = whole_of(&hold["hold"]);
            text.push_str(&format!("    {kind} {cost} until {end}, age {age}: {hold}\n"));
        }
    }
    if let Some(fresh_at_us) = held["fresh_at_us"].as_u64() {
        text.push_str(&format!("  fresh at {}\n", show::time(fresh_at_us)));
    }
    text
}

/// A line for each limit and outcome, with its sum.
fn series(answer: &Value) -> String {
    let series = list(&answer["series"]);
    if series.is_empty() {
        return "no requests in this time\n".to_owned();
    }
    let mut table = show::table(["policy and limit", "outcome", "total", "peak"]);
    let step = text_of(&answer["step_s"]);
    for one in series {
        let counts = list(&one["counts"]);
        let counts = counts.iter().filter_map(Value::as_u64);
        let (all, most) = counts.fold((0, 0), |(all, most), one| (all + one, one.max(most)));
        let policy = one["policy"].as_str().map_or(String::new(), |policy| format!("{policy}: "));
        table.add_row([
            format!("{policy}{}", text_of(&one["limit"])),
            text_of(&one["outcome"]),
            all.to_string(),
            format!("{most} in {step} s"),
        ]);
    }
    format!("{table}\n")
}

/// A line for each subject, and a summary of the others.
fn top(by: TopBy, answer: &Value) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let (what, verb) = match by {
        TopBy::Asked => ("decisions", "asked"),
        TopBy::Denied => ("denials", "was denied"),
    };
    let (span_ms, observed) = (number(&answer["span_ms"]), number(&answer["observed"]));
    let span = show::duration(Duration::from_secs(span_ms.div_ceil(1_000)));
    let mut text = format!("{observed} {what} in the last {span}\n");
    let subjects = list(&answer["subjects"]);
    if subjects.is_empty() {
        return text;
    }
    let mut table = show::table(["rank", "subject", "policy", "count", "share"]);
    for (one, rank) in subjects.iter().zip(1_u32..) {
        let error = number(&one["error"]);
        let least = number(&one["count"]).saturating_sub(error);
        let about = if error > 0 { "at least " } else { "" };
        let tenths = u128::from(least) * 1_000 / u128::from(observed.max(1));
        table.add_row([
            rank.to_string(),
            text_of(&one["subject"]),
            one["policy"].as_str().map_or_else(|| "-".to_owned(), shown),
            format!("{about}{least}"),
            format!("{}.{} %", tenths / 10, tenths % 10),
        ]);
    }
    text.push_str(&format!("{table}\n"));
    let others = number(&answer["others_at_most"]);
    if others > 0 {
        let times = if others == 1 { "once".to_owned() } else { format!("{others} times") };
        text.push_str(&format!("nobody else {verb} more than {times}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    /// A body is sent by POST alone, and to an operation of administrators.
    #[test]
    fn each_action_asks_as_its_operation_is_asked() {
        for line in [
            "inspect user:42 --policy login",
            "peek user:42 --limit 3/10s",
            "lookup 5d1f0c6a92e7b384",
            "explain path=/login",
            "reloads",
            "reset user:42 --policy login",
            "adjust user:42 --limit 3/10s --by 1",
            "credit user:42 --policy login --units 5 --for 30d",
            "release hold",
            "ban user=ann --for 1h",
            "exempt user=ann --for 1h",
            "set user=ann --policy api --limit minute=500/m --for 1h",
            "lift user=ann",
            "rulings",
            "reload",
            "series",
            "top",
        ] {
            let words = ["tollgate", "admin"].into_iter().chain(line.split(' '));
            let Command::Admin(args) = Cli::try_parse_from(words).unwrap().command else {
                panic!("{line}");
            };
            let (operation, payload) = asked(&args.act).unwrap();
            let has_body = matches!(payload, Payload::Body(_));
            assert_eq!(operation.method() == http::Method::POST, has_body, "{line}");
            assert!(operation.path().starts_with("/v1/admin/"), "{line}");
        }
    }

    #[test]
    fn open_holds_are_told_with_their_ages() {
        let hold = |age: Value| {
            let end_us = 1_000_000_060_000_000_u64;
            json!({ "hold": "H", "kind": "acquire", "cost": 1, "end_us": end_us, "age": age })
        };
        let holds = [hold(json!({ "seconds": 2.5, "text": "2.5s" })), hold(Value::Null)];
        let text = held("zoo", &json!({ "written_under": "W", "open": 2, "holds": holds }));
        let one = "    acquire 1 until 2001-09-09T01:47:40Z, age";
        assert!(text.ends_with(&format!("  2 holds open\n{one} 2.5s: H\n{one} -: H\n")), "{text}");
    }

    #[test]
    fn a_count_with_an_error_is_a_lower_bound() {
        let answer = json!({
            "by": "denied", "span_ms": 93_211, "observed": 8_000, "others_at_most": 31,
            "subjects": [
                {"subject": "5d1f0c6a92e7b384", "policy": "login", "count": 4_000, "error": 0},
                {"subject": "c07e51b8a4d2963f", "policy": null, "count": 61, "error": 12},
            ],
        });
        let text = top(TopBy::Denied, &answer);
        let lines: Vec<String> =
            text.lines().map(|it| it.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[0], "8000 denials in the last 1m34s");
        assert_eq!(lines[3], "1 5d1f0c6a92e7b384 login 4000 50.0 %");
        assert_eq!(lines[4], "2 c07e51b8a4d2963f - at least 49 0.6 %");
        assert_eq!(lines[5], "nobody else was denied more than 31 times");
    }
}

//! The commands of the full answer: under limits in the call, and by policies.
//!
//! The answer has the fields of the answer over HTTP, as a map.

use core::time::Duration;
use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use tollgate::{LimitSet, Subject};
use tollgate_policy::{MAX_DEADLINE, MIN_DEADLINE, OnFailure, Terms};

use super::arguments::{AND, ID};
use super::codec::Words;
use super::commands::Command;
use super::key;
use super::options::Options;
use super::reply::Replies;
use super::why::{self, Why, refused};
use crate::json::{AnswerJson, ChargeJson, HeldJson};
use crate::service::{
    Act, Answered, By, Charge, Description, HoldTerms, MAX_TEXT_BYTES, Parts, Question, Service,
    hold_name, kind_of_peek,
};

/// What decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// The limits in the call.
    Check,
    /// The same, and nothing is charged.
    Peek,
    /// The same limits, which are charged without a check.
    Charge,
    /// Policies, which may also place a hold.
    Request,
    /// Limits in the call, of which units are held.
    Reserve,
    /// Limits in the call, of which slots are held.
    Acquire,
}

/// Every policy that matches, in place of a name.
const ALL_POLICIES: &str = "*";

/// Answers a command.
pub(super) async fn answer(
    (asked, command): (Asked, &Command),
    words: &Words<'_>,
    service: &Service,
    replies: &mut Replies,
) -> Result<(), Why> {
    let words = texts(words.get(1..).unwrap_or_default())?;
    let by_policies = asked == Asked::Request;
    let (what, options) = words.split_at(begin_of_options(command, &words, by_policies));
    let options = Options::read(command, options)?;
    let hold = hold_terms(asked, &options)?;
    let by = if by_policies {
        by_policies_of(what, service)?
    } else {
        let parts = parts(what, service)?;
        let shard = options.get("SHARD").map(Cow::Borrowed);
        By::Limits { parts, shard, terms: terms(&options, service)? }
    };
    let receipt = options.has("RECEIPT");
    let cost = options.number("COST")?;
    let kind = options.get("KIND").map(|name| kind_of_peek(&name.to_ascii_lowercase()));
    let kind = kind.transpose().map_err(refused)?.flatten();
    let waiting = options.get("WAITING").map(str::to_ascii_lowercase);
    let waiting = waiting.map(|said| service.patience(&said)).transpose().map_err(refused)?;
    let patience = waiting.unwrap_or_default();
    if let Some(terms) = hold {
        let name = options.get(ID).map(hold_name).transpose().map_err(refused)?;
        let question = Question { by, cost, idempotency_key: None, receipt, kind, patience };
        let answered = service.hold(question, terms.named(name)).await.map_err(refused)?;
        let Answered { held, holding, undelivered } = answered;
        write_json(&HeldJson::new(&held, holding), replies);
        replies.undelivered.extend(undelivered);
        return Ok(());
    }
    let idempotency_key = options.get(ID).map(Cow::Borrowed);
    let question = Question { by, cost, idempotency_key, receipt, kind, patience };
    if asked == Asked::Charge || options.has("CHARGE") {
        let Charge { cost, counts, charged } = service.charge(question).await.map_err(refused)?;
        write_json(&ChargeJson::new(cost, &counts, &charged), replies);
        return Ok(());
    }
    let act = if options.has("PEEK") || asked == Asked::Peek { Act::Peek } else { Act::Check };
    let answer = service.answer(question, act).await.map_err(refused)?;
    let mut json = AnswerJson::new(&answer);
    json.receipt = receipt.then(|| service.receipt(&answer)).flatten();
    write_json(&json, replies);
    Ok(())
}

/// The terms of the hold that a command places; `None` where it only asks.
fn hold_terms(asked: Asked, options: &Options<'_>) -> Result<Option<HoldTerms>, Why> {
    let (ttl, acquires) = match asked {
        Asked::Check | Asked::Peek | Asked::Charge => return Ok(None),
        Asked::Reserve => {
            let missing = "for how long? TTL is missing, as TTL 60000 for 60 s";
            (Some(options.ttl("TTL")?.ok_or(missing)?), false)
        }
        Asked::Acquire => (None, true),
        Asked::Request => (options.ttl("RESERVE")?, options.has("ACQUIRE")),
    };
    let at_end = options.get("ATEND").map(str::to_ascii_lowercase);
    if ttl.is_none() && at_end.is_some() {
        return Err("ATEND is for what is reserved: leave it out, or add RESERVE".into());
    }
    let acts = [ttl.is_some(), acquires, options.has("PEEK"), options.has("CHARGE")];
    if acts.into_iter().filter(|is_given| *is_given).count() > 1 {
        return Err("RESERVE, ACQUIRE, PEEK and CHARGE exclude each other".into());
    }
    let terms = match ttl {
        Some(_) => Some(HoldTerms::reserve(ttl, at_end.as_deref()).map_err(refused)?),
        None => acquires.then(HoldTerms::acquire),
    };
    Ok(terms)
}

/// The words as texts of bounded length.
///
/// # Errors
/// A word that is none.
pub(super) fn texts<'w>(words: &[&'w [u8]]) -> Result<Vec<&'w str>, Why> {
    let text = |word: &&'w [u8]| match core::str::from_utf8(word) {
        Ok(text) if text.len() <= MAX_TEXT_BYTES => Ok(text),
        Ok(text) => {
            Err(format!("a word has at most {MAX_TEXT_BYTES} bytes, not {}", text.len()).into())
        }
        Err(_) => Err("a word is not UTF-8".into()),
    };
    words.iter().map(text).collect()
}

/// The place of the first option among the words after the name of a command.
pub(super) fn begin_of_options(command: &Command, words: &[&str], by_policies: bool) -> usize {
    let mut place = 1;
    while let Some(word) = words.get(place) {
        // What follows the name of a field, or `AND`, may be any word: a value or a subject.
        match Options::find(command, word).and_then(|option| option.token) {
            Some(AND) => place += 2,
            Some(_) => return place,
            None => place += 1 + usize::from(by_policies),
        }
    }
    words.len()
}

/// The subjects with their limits.
pub(super) fn parts(words: &[&str], service: &Service) -> Result<Parts, Why> {
    let (mut parts, mut rest) = (Parts::new(), words);
    loop {
        let (subject, after) = rest.split_first().ok_or("syntax error")?;
        let is_end = |word: &&str| word.eq_ignore_ascii_case(AND);
        let end = after.iter().position(is_end).unwrap_or(after.len());
        let (limits, after) = after.split_at(end);
        parts.push(part(subject, limits, service)?);
        match after {
            [] => return Ok(parts),
            [_, after @ ..] => rest = after,
        }
    }
}

fn part(subject: &str, limits: &[&str], service: &Service) -> Result<(Subject, LimitSet), Why> {
    if limits.is_empty() {
        return Err(format!("`{subject}` has no limit: write one after it, as 10/s").into());
    }
    if limits.iter().any(|limit| limit.trim().is_empty()) {
        return Err("an empty text is no limit".into());
    }
    let text = limits.join(", ");
    if text.len() > MAX_TEXT_BYTES {
        return Err(format!("the limits have at most {MAX_TEXT_BYTES} bytes together").into());
    }
    Ok((key::subject(subject.as_bytes())?, why::limits(service, &text)?))
}

/// What holds when the store cannot answer, and how long it may take.
fn terms(options: &Options<'_>, service: &Service) -> Result<Terms, Why> {
    let on_failure = match options.get("ONFAILURE") {
        None => OnFailure::Deny,
        Some(rule) => service.failure_rule(&rule.to_ascii_lowercase())?,
    };
    let deadline = match options.number("DEADLINE")? {
        None => service.gate.current().deadline(),
        Some(millis) => {
            let deadline = Duration::from_millis(millis);
            if !(MIN_DEADLINE..=MAX_DEADLINE).contains(&deadline) {
                let [least, most] = [MIN_DEADLINE, MAX_DEADLINE].map(|it| it.as_millis());
                let why = format!("a deadline is {least} to {most} milliseconds, not {millis}");
                return Err(why.into());
            }
            deadline
        }
    };
    Ok(Terms::new(on_failure).deadline(deadline))
}

pub(super) fn by_policies_of<'w>(words: &[&'w str], service: &Service) -> Result<By<'w>, Why> {
    let Some((policy, fields)) = words.split_first() else { return Err("syntax error".into()) };
    let mut described = Description::default();
    for pair in fields.chunks(2) {
        let [name, value] = pair else {
            return Err(format!("`{}` has no value", pair.concat()).into());
        };
        described.add(name, Cow::Borrowed(value))?;
    }
    let fields = described.read(&service.reading)?;
    let policy = (*policy != ALL_POLICIES).then_some(Cow::Borrowed(*policy));
    Ok(By::Policies { policy, fields })
}

/// Writes an answer as HTTP does: with the same fields.
pub(super) fn write_json(json: &impl Serialize, replies: &mut Replies) {
    // Serialization cannot fail: all keys are strings.
    write(&serde_json::to_value(json).unwrap_or_default(), replies);
}

/// Writes a value. The keys of a map are in alphabetical order.
fn write(value: &Value, replies: &mut Replies) {
    match value {
        Value::Null => replies.null(),
        Value::Bool(is_so) => replies.boolean(*is_so),
        Value::Number(number) => match number.as_i64() {
            Some(number) => replies.integer(number),
            None => replies.double(&number.to_string()),
        },
        Value::String(text) => replies.text(text),
        Value::Array(all) => {
            replies.array(all.len());
            all.iter().for_each(|value| write(value, replies));
        }
        Value::Object(pairs) => {
            replies.map(pairs.len());
            for (key, value) in pairs {
                replies.text(key);
                write(value, replies);
            }
        }
    }
}

//! The commands of the full answer: under limits in the call, and by policies.
//!
//! The answer has the fields of the answer over HTTP, as a map.

use std::borrow::Cow;

use serde_json::Value;
use tollgate::Subject;
use tollgate_policy::{OnFailure, Terms};

use super::codec::{Words, whole_number};
use super::reply::Replies;
use super::why::{self, Why, refused};
use crate::api::MAX_TEXT_BYTES;
use crate::json::AnswerJson;
use crate::service::{Act, By, Description, Question, Service};

/// What decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// `TOLLGATE.CHECK subject limit [limit ...] [COST n] [ID key] [RECEIPT]`.
    Check,
    /// `TOLLGATE.PEEK subject limit [limit ...] [COST n]`.
    Peek,
    /// `TOLLGATE.REQUEST policy field value [field value ...] [COST n] [PEEK]`.
    Request,
}

/// Every policy that matches, in place of a name.
const ALL_POLICIES: &str = "*";

/// The words after those that say what decides.
#[derive(Debug, Default)]
struct Options<'w> {
    cost: Option<u64>,
    id: Option<&'w str>,
    receipt: bool,
    peek: bool,
}

/// Answers a command.
pub(super) async fn answer(
    asked: Asked,
    words: &Words<'_>,
    service: &Service,
    replies: &mut Replies,
) {
    if let Err(why) = try_answer(asked, words, service, replies).await {
        replies.error(format_args!("{} {}", why.kind, why.text));
    }
}

async fn try_answer(
    asked: Asked,
    words: &Words<'_>,
    service: &Service,
    replies: &mut Replies,
) -> Result<(), Why> {
    let words = texts(words.get(1..).unwrap_or_default())?;
    let Some((first, rest)) = words.split_first() else { return Err("syntax error".into()) };
    let by_policies = asked == Asked::Request;
    let begin = rest.iter().enumerate().position(|(place, word)| {
        // A field's value may be any word.
        (!by_policies || place % 2 == 0) && is_option(word)
    });
    let (what, options) = rest.split_at(begin.unwrap_or(rest.len()));
    let options = read_options(asked, options)?;
    let by = if by_policies {
        by_policies_of(first, what, service)?
    } else {
        by_limits_of(first, what, service)?
    };
    let act = if options.peek || asked == Asked::Peek { Act::Peek } else { Act::Check };
    let Options { cost, id, receipt, .. } = options;
    let question = Question { by, cost, idempotency_key: id.map(Cow::Borrowed), receipt };
    let answer = service.answer(question, act).await.map_err(refused)?;
    let mut json = AnswerJson::new(&answer);
    json.receipt = receipt.then(|| service.receipt(&answer)).flatten();
    // Serialization cannot fail: all keys are strings.
    write(&serde_json::to_value(&json).unwrap_or_default(), replies);
    Ok(())
}

fn texts<'w>(words: &[&'w [u8]]) -> Result<Vec<&'w str>, Why> {
    let text = |word: &&'w [u8]| match core::str::from_utf8(word) {
        Ok(text) if text.len() <= MAX_TEXT_BYTES => Ok(text),
        Ok(text) => {
            Err(format!("a word has at most {MAX_TEXT_BYTES} bytes, not {}", text.len()).into())
        }
        Err(_) => Err("a word is not UTF-8".into()),
    };
    words.iter().map(text).collect()
}

fn is_option(word: &str) -> bool {
    ["COST", "ID", "RECEIPT", "PEEK"].iter().any(|option| option.eq_ignore_ascii_case(word))
}

fn read_options<'w>(asked: Asked, words: &[&'w str]) -> Result<Options<'w>, Why> {
    let (mut options, mut rest) = (Options::default(), words);
    let syntax = || Why::from("syntax error");
    while let [option, after @ ..] = rest {
        rest = after;
        match (option.to_ascii_uppercase().as_str(), asked) {
            ("COST", _) if options.cost.is_none() => {
                let (cost, after) = rest.split_first().ok_or_else(syntax)?;
                let cost = whole_number(cost.as_bytes()).and_then(|cost| u64::try_from(cost).ok());
                let why = || Why::from("value is not an integer or out of range");
                (options.cost, rest) = (Some(cost.ok_or_else(why)?), after);
            }
            ("ID", Asked::Check) if options.id.is_none() => {
                let (id, after) = rest.split_first().ok_or_else(syntax)?;
                (options.id, rest) = (Some(*id), after);
            }
            ("RECEIPT", Asked::Check | Asked::Request) if !options.receipt => {
                options.receipt = true;
            }
            ("PEEK", Asked::Request) if !options.peek => options.peek = true,
            _ => return Err(syntax()),
        }
    }
    Ok(options)
}

fn by_limits_of<'w>(subject: &str, limits: &[&str], service: &Service) -> Result<By<'w>, Why> {
    if limits.iter().any(|limit| limit.trim().is_empty()) {
        return Err("an empty text is no limit".into());
    }
    let text = limits.join(", ");
    if text.len() > MAX_TEXT_BYTES {
        return Err(format!("the limits have at most {MAX_TEXT_BYTES} bytes together").into());
    }
    let subject = Subject::literal(subject)
        .map_err(|error| Why::from(format!("{}: {}", error.what(), error.remedy())))?;
    let parts = vec![(subject, why::limits(service, &text)?)];
    let terms = Terms::new(OnFailure::Deny).deadline(service.gate.usual_deadline());
    Ok(By::Limits { parts, shard: None, terms })
}

fn by_policies_of<'w>(
    policy: &'w str,
    fields: &[&'w str],
    service: &Service,
) -> Result<By<'w>, Why> {
    let mut described = Description::default();
    for pair in fields.chunks(2) {
        let [name, value] = pair else {
            return Err(format!("`{}` has no value", pair.concat()).into());
        };
        described.add(name, Cow::Borrowed(value))?;
    }
    let fields = described.read(service.paths)?;
    let policy = (policy != ALL_POLICIES).then_some(Cow::Borrowed(policy));
    Ok(By::Policies { policy, fields })
}

/// Writes an answer. The keys of a map are in alphabetical order.
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

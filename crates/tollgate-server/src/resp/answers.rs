//! Answers with the fields that HTTP has, as maps.

use serde::Serialize;
use serde_json::Value;
use tollgate_policy::Answer;

use super::reply::Replies;
use super::why::{Why, refused};
use crate::json::{AnswerJson, ChargeJson, HeldJson};
use crate::service::{Act, Answered, Charge, HoldTerms, Question, Service, hold_name};

/// Asks, and writes the answer.
///
/// # Errors
/// The service refuses.
pub(super) async fn ask(
    service: &Service,
    question: Question<'_>,
    act: Act,
    replies: &mut Replies,
) -> Result<(), Why> {
    let receipt = question.receipt;
    let answer: Answer<'_> = service.answer(question, act).await.map_err(refused)?;
    let mut json = AnswerJson::new(&answer);
    json.receipt = receipt.then(|| service.receipt(&answer)).flatten();
    write_json(&json, replies);
    Ok(())
}

/// Charges without a check, and writes what was charged.
///
/// # Errors
/// The service refuses.
pub(super) async fn charge(
    service: &Service,
    question: Question<'_>,
    replies: &mut Replies,
) -> Result<(), Why> {
    let Charge { cost, counts, charged } = service.charge(question).await.map_err(refused)?;
    write_json(&ChargeJson::new(cost, &counts, &charged), replies);
    Ok(())
}

/// Places a hold, and writes it.
///
/// # Errors
/// The service refuses, or the id is none.
pub(super) async fn place(
    service: &Service,
    mut question: Question<'_>,
    terms: HoldTerms,
    replies: &mut Replies,
) -> Result<(), Why> {
    // The id of a command that holds is that of the hold.
    let name = question.idempotency_key.take().map(|id| hold_name(&id));
    let name = name.transpose().map_err(refused)?;
    let answered = service.hold(question, terms.named(name)).await.map_err(refused)?;
    let Answered { held, holding, undelivered } = answered;
    write_json(&HeldJson::new(&held, holding), replies);
    replies.undelivered.extend(undelivered);
    Ok(())
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

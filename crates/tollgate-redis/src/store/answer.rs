//! What the scripts answer, read.

use redis::Value;
use smallvec::SmallVec;
use tollgate::engine::{Fields, Outcome};
use tollgate::{Carried, Question, StoreError, Time};

pub(crate) fn unread() -> StoreError {
    StoreError::permanent("the server answered what no script of ours answers")
}

pub(crate) fn natural(value: &Value) -> Result<u64, StoreError> {
    match value {
        Value::Int(number) => u64::try_from(*number).map_err(|_| unread()),
        Value::BulkString(digits) => {
            let digits = std::str::from_utf8(digits).map_err(|_| unread())?;
            digits.parse().map_err(|_| unread())
        }
        _ => Err(unread()),
    }
}

/// Reads what a check answered, after the nonce.
pub(super) fn read_outcome(
    answer: Vec<Value>,
    question: &Question<'_>,
    limits: usize,
    nonce: u64,
) -> Result<Outcome, StoreError> {
    let mut rest = &answer[..];
    let mut number = nonce;
    if question.request.is_some() {
        let (first, others) = rest.split_first().ok_or_else(unread)?;
        if *first == Value::Int(-1) {
            return Err(StoreError::misuse(
                "this request id was used for another question: give each question its own",
            ));
        }
        number = natural(first)?;
        rest = others;
    }
    let usual = 2 + 3 * limits;
    if rest.len() != usual && rest.len() != usual + 2 * limits {
        return Err(unread());
    }
    let (granted, now) = (natural(&rest[0])?, natural(&rest[1])?);
    let mut fields: SmallVec<[Fields; 1]> = SmallVec::new();
    for i in 0..limits {
        let [left, wait, reset] = &rest[2 + 3 * i..5 + 3 * i] else { return Err(unread()) };
        let wait = if *wait == Value::Int(-1) { None } else { Some(natural(wait)?) };
        let (mut at, mut carried) = (now, Carried::Same);
        if let Some([charged, how]) = rest.get(usual + 2 * i..usual + 2 * i + 2) {
            at = natural(charged)?;
            carried = match how {
                Value::Int(0) => Carried::Same,
                Value::Int(1) => Carried::Over,
                _ => Carried::Fresh,
            };
        }
        fields.push(Fields::new(natural(left)?, wait, natural(reset)?, at, carried));
    }
    let receipt = if granted > 0 && !question.mode.is_peek() { number } else { 0 };
    Ok(Outcome::new(granted, fields, receipt, Time::from_micros(now)))
}

/// What lies at the keys: a state, a list, or nothing.
pub(super) enum Found {
    Nothing,
    State(Vec<u8>),
    Log(Vec<Vec<u8>>),
}

/// Reads what an inspection answered, after the nonce.
pub(super) fn read_states(
    answer: Vec<Value>,
    keys: usize,
) -> Result<(Time, Vec<Found>), StoreError> {
    if answer.len() != keys + 1 {
        return Err(unread());
    }
    let mut values = answer.into_iter();
    let now = Time::from_micros(natural(&values.next().ok_or_else(unread)?)?);
    let bytes = |value| match value {
        Value::BulkString(bytes) => Ok(bytes),
        _ => Err(unread()),
    };
    let found = values.map(|value| match value {
        Value::Nil => Ok(Found::Nothing),
        Value::Array(rows) => {
            Ok(Found::Log(rows.into_iter().map(bytes).collect::<Result<_, _>>()?))
        }
        other => Ok(Found::State(bytes(other)?)),
    });
    Ok((now, found.collect::<Result<_, StoreError>>()?))
}

pub(super) fn damaged(what: &str) -> StoreError {
    StoreError::permanent(format!("a state in Redis cannot be read: {what}; reset the subject"))
        .alone()
}

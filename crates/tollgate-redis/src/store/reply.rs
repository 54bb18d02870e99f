//! Parses the replies of the scripts.

use core::sync::atomic::{AtomicU64, Ordering};

use redis::Value;
use smallvec::SmallVec;
use tollgate::engine::{Fields, MAX_CREDITS, Outcome};
use tollgate::{Carried, Limit, MAX_COST, Question, StoreError, Time};

pub(crate) fn unexpected_reply() -> StoreError {
    StoreError::permanent("the server answered what no script of ours answers")
}

pub(crate) fn parse_unsigned(value: &Value) -> Result<u64, StoreError> {
    match value {
        Value::Int(number) => u64::try_from(*number).map_err(|_| unexpected_reply()),
        Value::BulkString(digits) => {
            let digits = std::str::from_utf8(digits).map_err(|_| unexpected_reply())?;
            digits.parse().map_err(|_| unexpected_reply())
        }
        _ => Err(unexpected_reply()),
    }
}

/// The server's time, where it is not within the edges of a calendar that a call brought: then
/// nothing was changed.
pub(super) fn time_of_other_windows(answer: &[Value]) -> Option<u64> {
    match answer {
        [Value::BulkString(word), now] if word == b"windows" => parse_unsigned(now).ok(),
        _ => None,
    }
}

/// Parses the part of the reply to a check under a request id before the answer: the number of the
/// charge, and the fate of other ids.
pub(super) fn read_request(answer: &[Value]) -> Result<(u64, Forgotten, &[Value]), StoreError> {
    match answer {
        [Value::Int(-1)] => Err(Question::of_other_question()),
        [number, forgotten, rest @ ..] => {
            Ok((parse_unsigned(number)?, Forgotten::parse(forgotten)?, rest))
        }
        _ => Err(unexpected_reply()),
    }
}

/// How many ids were forgotten before their time; `None` for an id that was repeated too often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Forgotten(Option<u64>);

impl Forgotten {
    pub(super) fn parse(value: &Value) -> Result<Self, StoreError> {
        Ok(Self(match value {
            Value::Int(-1) => None,
            count => Some(parse_unsigned(count)?),
        }))
    }

    /// Adds them to the counter. Returns whether the id was repeated too often.
    pub(super) fn count(self, counter: &AtomicU64) -> bool {
        counter.fetch_add(self.0.unwrap_or(0), Ordering::Relaxed);
        self.0.is_none()
    }
}

/// The most that can remain of a limit, with all the credits that a count may have.
pub(super) fn most_left(limit: &Limit) -> u64 {
    limit.capacity() + MAX_CREDITS as u64 * MAX_COST
}

/// Parses the reply of a check after the nonce, and the part before the answer under a request id.
/// A reply that is impossible for these limits is an error. A charge has this number.
pub(super) fn read_outcome(
    answer: &[Value],
    question: &Question<'_>,
    limits: usize,
    (number, is_remembered): (u64, bool),
) -> Result<Outcome, StoreError> {
    let rest = answer;
    let usual = 2 + 3 * limits;
    if rest.len() != usual && rest.len() != usual + 2 * limits {
        return Err(unexpected_reply());
    }
    let (granted, now) = (parse_unsigned(&rest[0])?, parse_unsigned(&rest[1])?);
    let is_partial = question.mode.is_partial();
    let first = question.cost.first();
    if granted > first || granted != 0 && granted != first && !is_partial {
        return Err(unexpected_reply());
    }
    let mut fields: SmallVec<[Fields; 2]> = SmallVec::new();
    let mut has_to_wait = granted > 0;
    let all = question.parts.iter().flat_map(|part| part.limits.limits());
    for (i, limit) in all.enumerate() {
        let [left, wait, reset] = &rest[2 + 3 * i..5 + 3 * i] else {
            return Err(unexpected_reply());
        };
        let wait = if *wait == Value::Int(-1) { None } else { Some(parse_unsigned(wait)?) };
        let left = parse_unsigned(left)?;
        // A part is of the first unit alone.
        let is_part = is_partial && question.cost.first_unit() == limit.unit();
        let is_above = question.cost.of(limit.unit()) > limit.capacity() && !is_part;
        // The script of holds answers where a count has credits, but for a remembered answer.
        let is_sound = match is_remembered {
            true => left <= most_left(limit) && wait == Some(0),
            false => left <= limit.capacity() && wait.is_none() == is_above,
        };
        if !is_sound {
            return Err(unexpected_reply());
        }
        has_to_wait |= wait != Some(0);
        let (mut at, mut carried) = (now, Carried::Same);
        if let Some([charged, how]) = rest.get(usual + 2 * i..usual + 2 * i + 2) {
            at = parse_unsigned(charged)?;
            carried = match how {
                Value::Int(0) => Carried::Same,
                Value::Int(1) => Carried::Over,
                _ => Carried::Fresh,
            };
        }
        fields.push(Fields::new(left, wait, parse_unsigned(reset)?, at, carried));
    }
    if !has_to_wait {
        return Err(unexpected_reply());
    }
    let receipt = if granted > 0 && !question.mode.is_peek() { number } else { 0 };
    Ok(Outcome::new(granted, fields, receipt, Time::from_micros(now)))
}

/// The values at the keys: a state, a list, or nothing.
pub(super) enum StoredValue {
    Nothing,
    State(Vec<u8>),
    Log(Vec<Vec<u8>>),
}

impl StoredValue {
    /// Whether holds of the count are open, as its state says of itself.
    pub(super) fn is_held(&self) -> bool {
        let Self::State(bytes) = self else { return false };
        let tag = bytes.split(|byte| *byte == b'|').next().unwrap_or_default();
        // The debt of windows and logs can follow.
        let parts = tag.rsplit(|byte| *byte == b';').next().unwrap_or_default();
        parts.first() == Some(&b'h')
    }
}

/// Parses the reply of an inspection after the nonce.
pub(super) fn read_states(
    answer: Vec<Value>,
    keys: usize,
) -> Result<(Time, Vec<StoredValue>), StoreError> {
    if answer.len() != keys + 1 {
        return Err(unexpected_reply());
    }
    let mut values = answer.into_iter();
    let now = Time::from_micros(parse_unsigned(&values.next().ok_or_else(unexpected_reply)?)?);
    let bytes = |value| match value {
        Value::BulkString(bytes) => Ok(bytes),
        _ => Err(unexpected_reply()),
    };
    let found = values.map(|value| match value {
        Value::Nil => Ok(StoredValue::Nothing),
        Value::Array(rows) => {
            Ok(StoredValue::Log(rows.into_iter().map(bytes).collect::<Result<_, _>>()?))
        }
        other => Ok(StoredValue::State(bytes(other)?)),
    });
    Ok((now, found.collect::<Result<_, StoreError>>()?))
}

pub(super) fn damaged(what: &str) -> StoreError {
    StoreError::permanent(format!("a state in Redis cannot be read: {what}; reset the subject"))
        .alone()
}

#[cfg(test)]
mod tests {
    use tollgate::engine::Mode;
    use tollgate::{Counted, LimitSet, Subject};

    use super::*;

    const NONCE: u64 = 9;

    /// Parses these numbers as the reply to a check of cost 3 under limits of 10 and 5.
    fn read(mode: Mode, cost: u64, numbers: &[i64]) -> Result<u64, StoreError> {
        let limits: LimitSet = "x: 10/s via gcra, y: 5/10s via sliding_log".parse().unwrap();
        let subject = Subject::literal("ann").unwrap();
        let parts = [Counted::new(&subject, &limits)];
        let question = Question::new(&parts, cost, mode);
        let answer: Vec<Value> = numbers.iter().copied().map(Value::Int).collect();
        read_outcome(&answer, &question, 2, (NONCE, false)).map(|outcome| outcome.granted)
    }

    #[test]
    fn what_no_check_of_these_limits_can_answer_is_refused() {
        let whole = |numbers: &[i64]| read(Mode::Whole, 3, numbers).ok();
        assert_eq!(whole(&[3, 100, 7, 0, 30, 2, 0, 90]), Some(3));
        assert_eq!(whole(&[0, 100, 7, 0, 30, 2, 50, 90]), Some(0));
        for (what, numbers) in [
            ("more than was asked for", [4, 100, 7, 0, 30, 2, 0, 90]),
            ("a part of it", [2, 100, 7, 0, 30, 2, 0, 90]),
            ("more left than there is", [3, 100, 11, 0, 30, 2, 0, 90]),
            ("more left than there is of the second", [3, 100, 7, 0, 30, 6, 0, 90]),
            ("never, of what there is", [0, 100, 7, -1, 30, 2, 0, 90]),
            ("a denial that is over at once", [0, 100, 7, 0, 30, 2, 0, 90]),
            ("a wait below zero", [0, 100, 7, -2, 30, 2, 50, 90]),
        ] {
            assert_eq!(whole(&numbers), None, "{what}");
        }
        let numbers = [2, 100, 8, 0, 20, 3, 0, 90];
        assert_eq!(read(Mode::Partial, 3, &numbers).ok(), Some(2));
        assert_eq!(read(Mode::PeekPartial, 3, &numbers).ok(), Some(2));
        // A cost of 6 can never be admitted in full under a limit of 5.
        assert_eq!(read(Mode::Whole, 6, &[0, 100, 10, 0, 0, 5, -1, 0]).ok(), Some(0));
        assert!(read(Mode::Whole, 6, &[0, 100, 10, 0, 0, 5, 7, 0]).is_err());
    }
}

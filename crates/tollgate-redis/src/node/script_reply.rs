//! Reads the reply of a script, and checks that it is the reply to its call.

use redis::Value;

use super::redirect::NotAnswered;
use super::reply_errors::not_answered;
use crate::compose::unpack_reply;
use crate::fault::{ChargeState, Fault};

/// Parses a script's reply: a list that begins with the nonce, or a packed list of numbers.
pub(super) fn read(answer: Value, nonce: u64) -> Result<Vec<Value>, NotAnswered> {
    let garbled = Fault::Garbled { charge: ChargeState::Unknown };
    let mut list = match answer {
        Value::ServerError(error) => return Err(not_answered(&error)),
        Value::Array(list) => list.into_iter(),
        Value::BulkString(packed) => {
            let Some(mut numbers) = unpack_reply(&packed) else { return Err(garbled.into()) };
            let ours = numbers.next().is_some_and(|number| u64::try_from(number) == Ok(nonce));
            return if ours { Ok(numbers.map(Value::Int).collect()) } else { Err(garbled.into()) };
        }
        _ => return Err(garbled.into()),
    };
    let ours = match list.next() {
        Some(Value::BulkString(digits)) => is_written(&digits, nonce),
        Some(Value::Int(number)) => u64::try_from(number) == Ok(nonce),
        _ => false,
    };
    if ours { Ok(list.collect()) } else { Err(garbled.into()) }
}

/// Whether these are the canonical digits of the number: no sign, no leading zero.
fn is_written(digits: &[u8], number: u64) -> bool {
    let alone = digits == b"0" || !matches!(digits.first(), Some(b'+' | b'0'));
    alone && std::str::from_utf8(digits).is_ok_and(|digits| digits.parse() == Ok(number))
}

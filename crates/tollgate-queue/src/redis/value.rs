//! The values in the replies of scripts.

use core::time::Duration;

use tollgate::StoreError;
use tollgate_redis::ScriptReply;

use crate::error::Error;

/// The error for a reply that no script of ours gives.
pub(super) fn unexpected_reply() -> Error {
    StoreError::permanent(
        "a queue's script gave an unknown answer: do other versions, or somebody else, write its \
         keys (`tgq1:`)?",
    )
    .into()
}

pub(super) fn integer(word: &ScriptReply) -> Result<i64, Error> {
    match word {
        ScriptReply::Int(number) => Ok(*number),
        _ => Err(unexpected_reply()),
    }
}

pub(super) fn unsigned(word: &ScriptReply) -> Result<u64, Error> {
    u64::try_from(integer(word)?).map_err(|_| unexpected_reply())
}

pub(super) fn text(word: &ScriptReply) -> Result<String, Error> {
    match word {
        ScriptReply::Bytes(bytes) => {
            String::from_utf8(bytes.clone()).map_err(|_| unexpected_reply())
        }
        ScriptReply::Int(number) => Ok(number.to_string()),
        _ => Err(unexpected_reply()),
    }
}

/// A wait; -1 means that none is known.
pub(super) fn optional_wait(word: &ScriptReply) -> Result<Option<Duration>, Error> {
    let us = integer(word)?;
    Ok(u64::try_from(us).ok().map(Duration::from_micros))
}

//! Names of limits and of policies.

use core::ops::Range;

use crate::error::ParseError;

/// The longest name of a limit, in characters.
const MAX_NAME_CHARS: usize = 64;

/// A name is a letter followed by letters, digits, `_`, `-` or `.`.
pub(crate) fn check_name(text: &str, name: &str, at: Range<usize>) -> Result<(), ParseError> {
    let mut bytes = name.bytes();
    let sound = bytes.next().is_some_and(|b| b.is_ascii_alphabetic())
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
        && name.len() <= MAX_NAME_CHARS;
    if sound {
        return Ok(());
    }
    Err(ParseError::at(
        text,
        at,
        "this is not the name of a limit",
        format!(
            "a name is a letter, then letters, digits, `_`, `-` or `.`, at most {MAX_NAME_CHARS}"
        ),
    ))
}

/// Rejects an invalid name of a policy: the name becomes a part of keys.
pub(crate) fn check_policy(name: &str) -> Result<(), ParseError> {
    let sound = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    if !name.is_empty() && name.len() <= MAX_NAME_CHARS && name.bytes().all(sound) {
        return Ok(());
    }
    Err(ParseError::whole(
        name,
        "this is not the name of a policy",
        format!("a name is 1 to {MAX_NAME_CHARS} letters, digits, `_`, `-` or `.`"),
    ))
}

//! The subject of a key: the same in every command.

use tollgate::Subject;

use super::why::Why;
use crate::service::MAX_TEXT_BYTES;

/// The optional prefix: `key:x` and `x` are one key.
const KEY: &[u8] = b"key:";

/// The subject of a key: as in `subject` of `/v1/check`, and any other bytes are the value of
/// `key`.
///
/// # Errors
/// A key that is empty or too long.
#[inline]
pub(super) fn subject(key: &[u8]) -> Result<Subject, Why> {
    if key.len() > MAX_TEXT_BYTES {
        return Err(format!("a key has at most {MAX_TEXT_BYTES} bytes, not {}", key.len()).into());
    }
    // The written form of `key:x` is `x`, if that has no colon.
    let rest = key.strip_prefix(KEY).filter(|rest| !rest.is_empty());
    let short = rest.filter(|rest| !rest.contains(&b':')).unwrap_or(key);
    let literal = core::str::from_utf8(short).ok().and_then(|text| Subject::literal(text).ok());
    match literal {
        Some(subject) => Ok(subject),
        None => {
            let value = rest.unwrap_or(key);
            Subject::new("key", value).map_err(|error| error.what().to_owned().into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_with_and_without_its_dimension() {
        let of = |key: &[u8]| subject(key).map_err(|why| why.text);
        for key in [
            &b"x"[..],
            b"a b",
            b"a b:c",
            b"\xff",
            b"\xff:1",
            b"user:",
            b":1",
            b"key",
            b"key:",
            b"%,",
        ] {
            let long = [KEY, key].concat();
            assert_eq!(of(key), of(&long), "{}", key.escape_ascii());
            assert_eq!(of(key), Ok(Subject::new("key", key).unwrap()), "{}", key.escape_ascii());
        }
        // Another dimension is not the dimension `key`.
        assert_eq!(of(b"user:7"), Ok(Subject::new("user", "7").unwrap()));
        assert_eq!(of(b"key:user:7"), Ok(Subject::new("key", "user:7").unwrap()));
        for bad in [&b""[..], &[b'x'; MAX_TEXT_BYTES + 1]] {
            assert!(of(bad).is_err());
        }
    }
}

//! The form of a path that policies compare, and its endpoint: `/users/*/orders` for
//! `/users/42/orders/`.

use std::borrow::Cow;

use tollgate_tower::identity::PathReading;

/// The fewest hexadecimal digits of an identifier.
const FEWEST_HEX: usize = 16;

/// The longest segment that is not an identifier if it has a digit.
const LONGEST_WORD: usize = 32;

/// A path as fronts give it to policies. One that they refuse stays as it is.
pub(super) fn formed(path: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let form = |path: &[u8]| {
        let text = std::str::from_utf8(path).ok()?;
        match PathReading::default().read(text).ok()? {
            Cow::Owned(form) => Some(form.into_bytes()),
            Cow::Borrowed(_) => None,
        }
    };
    form(&path).map_or(path, Cow::Owned)
}

/// A path with `*` in the place of each segment that is a number, a UUID or another identifier.
pub(super) fn endpoint(path: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if !path.split(|byte| *byte == b'/').any(is_identifier) {
        return path;
    }
    let segments = path.split(|byte| *byte == b'/');
    let segments: Vec<&[u8]> =
        segments.map(|segment| if is_identifier(segment) { b"*" } else { segment }).collect();
    Cow::Owned(segments.join(&b'/'))
}

/// Whether a segment is one of many.
fn is_identifier(segment: &[u8]) -> bool {
    let digits = segment.iter().filter(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return false;
    }
    let is_hex = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'-';
    digits == segment.len()
        || (segment.len() >= FEWEST_HEX && segment.iter().all(is_hex))
        || segment.len() > LONGEST_WORD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_stars_and_words_stay() {
        for (path, expected) in [
            ("/", "/"),
            ("/users/42/orders", "/users/*/orders"),
            ("/users/42", "/users/*"),
            ("/v1/items/550e8400-e29b-41d4-a716-446655440000/x", "/v1/items/*/x"),
            ("/o/9f86d081884c7d65", "/o/*"),
            ("/2015/05/17/a-page-of-2015/", "/*/*/*/a-page-of-2015"),
            ("/blog/", "/blog"),
            ("/deadbeef/facade", "/deadbeef/facade"),
            ("/eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", "/*"),
            ("//%6Cogin/", "/login"),
            ("*", "*"),
            ("/a/../b/", "/a/../b/"),
        ] {
            let found = endpoint(formed(Cow::Borrowed(path.as_bytes())));
            assert_eq!(String::from_utf8_lossy(&found), expected, "{path}");
        }
    }
}

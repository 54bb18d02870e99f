//! One form for one path, so that writing it differently is no second count.

use std::borrow::Cow;

/// Whether the case of letters tells paths apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Case {
    /// `/Login` is another path than `/login`, as for most routers.
    #[default]
    Keep,
    /// They are one, as for routers that do not look at the case of ASCII letters.
    Fold,
}

/// The one form of a path: no empty segments, none of dots, no slash at the end, no escape that is
/// not needed, the others in upper case. It takes linear time, and gives at most three bytes for
/// one, and one more.
///
/// ```
/// use tollgate_tower::identity::{Case, normal_path};
/// assert_eq!(normal_path("//a/./b/../%6Cogin/", Case::Keep), "/a/login");
/// assert_eq!(normal_path("/a%2fb", Case::Keep), "/a%2Fb");
/// assert_eq!(normal_path("/Login", Case::Fold), "/login");
/// ```
#[must_use]
pub fn normal_path(path: &str, case: Case) -> Cow<'_, str> {
    // `OPTIONS *` asks about the server, not about a path.
    if path == "*" || path == "/" {
        return Cow::Borrowed(path);
    }
    let mut out = Vec::with_capacity(path.len() + 1);
    for segment in path.as_bytes().split(|byte| *byte == b'/') {
        let start = out.len();
        out.push(b'/');
        push_segment(&mut out, segment, case);
        match out.get(start + 1..) {
            Some(b"" | b".") => out.truncate(start),
            Some(b"..") => {
                out.truncate(start);
                let parent = out.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                out.truncate(parent);
            }
            _ => {}
        }
    }
    if out.is_empty() {
        out.push(b'/');
    }
    if out == path.as_bytes() {
        return Cow::Borrowed(path);
    }
    // It is ASCII: all else was escaped.
    Cow::Owned(String::from_utf8(out).unwrap_or_default())
}

/// True when a segment of the path is `.` or `..`, in whatever spelling.
#[must_use]
pub fn has_dots(path: &str) -> bool {
    let dots = |segment: &str| {
        let mut rest = segment;
        let mut dots = 0;
        while let Some(next) = [".", "%2e", "%2E"].iter().find_map(|dot| rest.strip_prefix(dot)) {
            (rest, dots) = (next, dots + 1);
        }
        rest.is_empty() && (1..=2).contains(&dots)
    };
    // Most paths have neither; looking for two bytes is quick.
    path.bytes().any(|byte| matches!(byte, b'.' | b'%')) && path.split('/').any(dots)
}

fn push_segment(out: &mut Vec<u8>, segment: &[u8], case: Case) {
    let digit = |byte: Option<&u8>| {
        byte.and_then(|b| char::from(*b).to_digit(16)).and_then(|d| u8::try_from(d).ok())
    };
    let mut at = 0;
    while let Some(&byte) = segment.get(at) {
        let escaped = match (byte, digit(segment.get(at + 1)), digit(segment.get(at + 2))) {
            (b'%', Some(high), Some(low)) => Some(high * 16 + low),
            _ => None,
        };
        at += if escaped.is_some() { 3 } else { 1 };
        let byte = escaped.unwrap_or(byte);
        if is_plain(byte) {
            out.push(if case == Case::Fold { byte.to_ascii_lowercase() } else { byte });
        } else {
            out.push(b'%');
            for nibble in [byte >> 4, byte & 15] {
                out.push(b"0123456789ABCDEF"[usize::from(nibble)]);
            }
        }
    }
}

/// What a segment holds without an escape (RFC 3986, 3.3).
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_seen_in_every_spelling() {
        for path in ["/.", "/..", "/a/../b", "/a/%2e%2E/b", "/.%2e", "./a", "/a/%2E", "/a/./"] {
            assert!(has_dots(path), "{path}");
        }
        for path in ["/", "/a", "/a.b", "/...", "/.a", "/a..", "/%2e%2e%2e", "/.well-known/x", ""] {
            assert!(!has_dots(path), "{path}");
        }
    }

    #[test]
    fn paths_have_one_form() {
        for (path, form) in [
            ("", "/"),
            ("/", "/"),
            ("*", "*"),
            ("//", "/"),
            ("/..", "/"),
            ("/../../a", "/a"),
            ("/a/..", "/"),
            ("/a/%2e%2E/b", "/b"),
            ("/a/.%2e/b", "/b"),
            ("/a/...", "/a/..."),
            ("/a//b///", "/a/b"),
            ("/%61%7E%7e", "/a~~"),
            ("/a%2fb%2F", "/a%2Fb%2F"),
            ("/%zz/%4", "/%25zz/%254"),
            ("/%25zz", "/%25zz"),
            ("/%", "/%25"),
            ("/\u{e9}", "/%C3%A9"),
            ("/%c3%a9", "/%C3%A9"),
            ("/a b", "/a%20b"),
            ("a", "/a"),
        ] {
            assert_eq!(normal_path(path, Case::Keep), form, "{path}");
        }
        assert_eq!(normal_path("/LOGIN/%4C%c3", Case::Fold), "/login/l%C3");
        assert!(matches!(normal_path("/a/b", Case::Keep), Cow::Borrowed(_)));
    }
}

//! Texts with a `*` before their end.

use core::fmt;

use tollgate::ParseError;

use crate::field::Field;

/// A text with a `*` before its end, such as `/users/*/orders`.
///
/// A `*` is at least one character. In a path it is within one segment, and in a host within one
/// label. At the end it is whatever follows, also nothing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub struct Glob {
    text: Box<str>,
    separator: Option<char>,
}

impl Glob {
    /// Reads a text whose first `*` is there.
    ///
    /// # Errors
    /// A field whose values have no parts, or a `*` beside another one.
    pub(crate) fn parse(field: &Field, text: &str, star: usize) -> Result<Self, ParseError> {
        let refuse = |at: usize, remedy| {
            Err(ParseError::at(text, at..at + 1, "a `*` cannot stand here", remedy))
        };
        if let Some(twice) = text.find("**") {
            return refuse(twice + 1, "one `*` is enough: at the end it is whatever follows");
        }
        let separator = match field {
            Field::Ip => return refuse(star, "an address has it at the end, e.g. `10.*`"),
            Field::Path => Some('/'),
            Field::Host if text.starts_with('*') && !text.starts_with("*.") => {
                return refuse(0, "every host below one is written `*.example.com`");
            }
            Field::Host => Some('.'),
            _ => None,
        };
        Ok(Self { text: text.into(), separator })
    }

    /// The text as it is written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The text before the first `*`.
    pub(crate) fn begins(&self) -> &str {
        self.text.split('*').next().unwrap_or_default()
    }

    /// The text behind the last `*`.
    pub(crate) fn ends(&self) -> &str {
        self.text.rsplit('*').next().unwrap_or_default()
    }

    /// True when this value is one of it.
    pub(crate) fn holds(&self, value: &str) -> bool {
        let is_open = self.text.ends_with('*');
        let Some(separator) = self.separator else { return is_like(&self.text, value, is_open) };
        // No `*` before the end has a separator, so each part of a value meets one of the text.
        let mut parts = self.text.split(separator).peekable();
        let mut rest = Some(value);
        while let Some(part) = parts.next() {
            let Some(left) = rest else { return false };
            let value = match parts.peek() {
                Some(_) => {
                    let Some((value, more)) = left.split_once(separator) else { return false };
                    rest = Some(more);
                    value
                }
                None => {
                    rest = None;
                    left
                }
            };
            let is_open = is_open && parts.peek().is_none();
            if !is_open && value.contains(separator) || !is_like(part, value, is_open) {
                return false;
            }
        }
        true
    }

    /// True when no value is one of both, as far as beginnings and ends tell.
    pub(crate) fn is_disjoint(&self, other: &Self) -> bool {
        let differ = |a: &str, b: &str| !a.starts_with(b) && !b.starts_with(a);
        let end = |a: &str, b: &str| !a.ends_with(b) && !b.ends_with(a);
        differ(self.begins(), other.begins()) || end(self.ends(), other.ends())
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether a value is like this text, in which each `*` is one character or more. The last one of
/// an open text is any number of them.
fn is_like(text: &str, value: &str, is_open: bool) -> bool {
    let text = if is_open { text.strip_suffix('*').unwrap_or(text) } else { text };
    let mut pieces = text.split('*');
    let Some(mut rest) = value.strip_prefix(pieces.next().unwrap_or_default()) else {
        return false;
    };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return is_open || rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        // What a `*` is takes as little as it can: that leaves most for the pieces behind it.
        let Some(least) = rest.chars().next().map(char::len_utf8) else { return false };
        if pieces.peek().is_none() && !is_open {
            return rest.get(least..).is_some_and(|rest| rest.ends_with(piece));
        }
        let Some(at) = rest.get(least..).and_then(|rest| rest.find(piece)) else { return false };
        rest = rest.get(least + at + piece.len()..).unwrap_or_default();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glob(field: &str, text: &str) -> Glob {
        let star = text.find('*').unwrap();
        Glob::parse(&Field::parse(field).unwrap(), text, star).unwrap()
    }

    #[test]
    fn a_star_is_within_a_segment() {
        for (field, text, yes, no) in [
            (
                "path",
                "/users/*/orders",
                &["/users/7/orders", "/users/a.b/orders"][..],
                &["/users/7", "/users//orders", "/users/7/8/orders", "/users/7/orders/1"][..],
            ),
            ("path", "/v*/x", &["/v1/x", "/v10/x"], &["/v/x", "/v1/2/x", "/v1/x/y"]),
            ("path", "/*/x/*", &["/a/x/", "/a/x/b/c"], &["/x/b", "/a/x", "/a/b/x/c"]),
            ("path", "/*.php", &["/a.php", "/.php.php"], &["/.php", "/a/b.php", "/a.php5"]),
            ("path", "/a*b*c/d", &["/aXbYc/d", "/abbcc/d"], &["/abc/d", "/aXb/Yc/d"]),
            (
                "host",
                "api-*.example.com",
                &["api-1.example.com"],
                &["api-.example.com", "api-1.a.example.com"],
            ),
            ("user", "svc-*-prod", &["svc-a-prod", "svc-a/b-prod"], &["svc--prod", "svc-a-prods"]),
            ("user", "*@example.com", &["a@example.com"], &["@example.com", "a@example.com.org"]),
            ("user", "a*é*", &["axé", "axéz"], &["aé", "ax"]),
        ] {
            let glob = glob(field, text);
            for value in yes {
                assert!(glob.holds(value), "{text} {value}");
            }
            for value in no {
                assert!(!glob.holds(value), "{text} {value}");
            }
        }
    }

    #[test]
    fn beginnings_and_ends_tell_what_is_apart() {
        let apart = |one: &str, other: &str| glob("path", one).is_disjoint(&glob("path", other));
        assert!(apart("/a/*/x", "/b/*/x") && apart("/a/*/x", "/a/*/y"));
        assert!(!apart("/a/*/x", "/a*/x") && !apart("/a/*/x", "/*x"));
    }
}

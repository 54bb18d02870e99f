//! Reads the entries of a header that proxies append to, from the right, and only as far as needed.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

use super::address;

/// The most entries that are read, from the right: no request passes through more proxies.
pub(super) const MAX_ENTRIES: usize = 32;

/// The longest entry, in bytes: a `Forwarded` element with all its parts is far shorter.
pub(super) const MAX_ENTRY_BYTES: usize = 512;

/// The format of the entries of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Syntax {
    /// Plain addresses.
    Plain,
    /// Elements of RFC 7239.
    Forwarded,
}

/// The entries of all lines of one header, from the right: an address, or `None` for an invalid
/// entry. The iterator ends after an entry that is too long, since its start is unknown.
pub(super) struct FromRight<'h, Lines> {
    lines: Lines,
    line: Option<&'h [u8]>,
    syntax: Syntax,
}

/// Starts at the right end of the last line.
pub(super) fn from_right<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
    syntax: Syntax,
) -> FromRight<'h, impl Iterator<Item = &'h HeaderValue>> {
    FromRight { lines: headers.get_all(name).iter().rev(), line: None, syntax }
}

impl<'h, Lines: Iterator<Item = &'h HeaderValue>> Iterator for FromRight<'h, Lines> {
    type Item = Option<IpAddr>;

    fn next(&mut self) -> Option<Self::Item> {
        // Empty entries are skipped (RFC 9110, 5.6.1), but their number is bounded too.
        for _ in 0..MAX_ENTRIES {
            let line = match self.line.take() {
                Some(line) => line,
                None => self.lines.next()?.as_bytes(),
            };
            let tail = line.len().saturating_sub(MAX_ENTRY_BYTES + 1);
            let comma = match self.syntax {
                Syntax::Plain => last_comma(&line[tail..]),
                Syntax::Forwarded => last_comma_unquoted(&line[tail..]),
            };
            let entry = match comma {
                Some(at) => {
                    self.line = Some(&line[..tail + at]);
                    &line[tail + at + 1..]
                }
                None if tail > 0 => return Some(None),
                None => line,
            };
            if entry.trim_ascii().is_empty() {
                continue;
            }
            return Some(match self.syntax {
                Syntax::Plain => address::parse(entry),
                Syntax::Forwarded => forwarded_for(entry),
            });
        }
        Some(None)
    }
}

fn last_comma(text: &[u8]) -> Option<usize> {
    text.iter().rposition(|byte| *byte == b',')
}

/// The last comma outside of quotes, found from the right. Text of the client on the left, such as
/// an open quote, cannot include what a proxy appended.
fn last_comma_unquoted(text: &[u8]) -> Option<usize> {
    let mut quoted = false;
    for at in (0..text.len()).rev() {
        match text[at] {
            b',' if !quoted => return Some(at),
            b'"' => {
                let slashes = text[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
                // Within quotes, a quote after a backslash is part of the text.
                if !quoted || slashes.is_multiple_of(2) {
                    quoted = !quoted;
                }
            }
            _ => {}
        }
    }
    None
}

/// The address of a `Forwarded` element: `for=192.0.2.60;proto=http;by=203.0.113.43`. `None` if it
/// has no `for` or several, or is not valid by RFC 7239.
fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    let mut rest = element.trim_ascii();
    let mut found = None;
    loop {
        let equals = rest.iter().position(|byte| *byte == b'=')?;
        let name = rest[..equals].trim_ascii_start();
        if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
            return None;
        }
        let (value, after) = value(&rest[equals + 1..])?;
        if name.eq_ignore_ascii_case(b"for") {
            if found.is_some() {
                return None;
            }
            found = Some(address::parse(&value)?);
        }
        rest = after.trim_ascii_start();
        match rest.split_first() {
            None => return found,
            Some((b';', more)) => rest = more,
            Some(_) => return None,
        }
        // Some proxies write `for=1.2.3.4;`.
        if rest.trim_ascii().is_empty() {
            return found;
        }
    }
}

/// A token or a quoted string, unescaped, and the text after it.
fn value(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        // `:` and brackets should be quoted, but often are not; they do not separate.
        let end = text.iter().position(|byte| !is_token(*byte) && !b":[]".contains(byte));
        let end = end.unwrap_or(text.len());
        return (end > 0).then(|| (text[..end].to_vec(), &text[end..]));
    };
    let mut out = Vec::new();
    let mut bytes = quoted.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some((out, &quoted[at + 1..])),
            b'\\' => out.push(*bytes.next()?.1),
            _ => out.push(*byte),
        }
    }
    None
}

/// A token character by RFC 9110, 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(lines: &[&str], syntax: Syntax) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append("x", line.parse().unwrap());
        }
        from_right(&headers, &HeaderName::from_static("x"), syntax)
            .take(40)
            .map(|entry| entry.map_or("-".to_owned(), |address| address.to_string()))
            .collect()
    }

    #[test]
    fn lists_are_read_from_the_right_over_all_lines() {
        for (lines, expected) in [
            (&["1.1.1.1, 2.2.2.2", "3.3.3.3"][..], &["3.3.3.3", "2.2.2.2", "1.1.1.1"][..]),
            (&["1.1.1.1,,2.2.2.2 ,"], &["2.2.2.2", "1.1.1.1"]),
            (&["x, 2.2.2.2"], &["2.2.2.2", "-"]),
            (&["", "2.2.2.2", ""], &["2.2.2.2"]),
            (&[], &[]),
        ] {
            assert_eq!(entries(lines, Syntax::Plain), expected, "{lines:?}");
        }
        let long = format!("1.1.1.1, {}, 2.2.2.2", "9".repeat(65_536));
        assert_eq!(entries(&[&long], Syntax::Plain)[..2], ["2.2.2.2", "-"]);
        let commas = format!("1.1.1.1{}", ",".repeat(65_536));
        assert_eq!(entries(&[&commas], Syntax::Plain)[0], "-");
    }

    #[test]
    fn forwarded_is_read_as_rfc_7239_writes_it() {
        for (line, expected) in [
            ("for=192.0.2.60;proto=http;by=203.0.113.43", &["192.0.2.60"][..]),
            ("For=\"[2001:db8:cafe::17]:4711\"", &["2001:db8:cafe::17"]),
            ("for=192.0.2.43, FOR=198.51.100.17", &["198.51.100.17", "192.0.2.43"]),
            ("proto=https ; for=\"192.0.2.43:80\" ; host=\"a,b;c\\\"d\"", &["192.0.2.43"]),
            ("for=unknown", &["-"]),
            ("for=_gazonk", &["-"]),
            ("for=\"_gazonk:80\"", &["-"]),
            ("proto=http", &["-"]),
            ("for=1.1.1.1;for=2.2.2.2", &["-"]),
            ("for=1.1.1.1 2.2.2.2", &["-"]),
            ("for=\"1.1.1.1", &["-"]),
            ("for=", &["-"]),
            ("=1.1.1.1", &["-"]),
            ("for=192.0.2.43;", &["192.0.2.43"]),
            ("for=[2001:db8::1]:80", &["2001:db8::1"]),
            ("for=\"1.1.1.\\1\"", &["1.1.1.1"]),
            ("1.1.1.1", &["-"]),
        ] {
            assert_eq!(entries(&[line], Syntax::Forwarded), expected, "{line}");
        }
        // An open quote to the left takes nothing in.
        let spoofed = "for=\"6.6.6.6, for=9.9.9.9";
        assert_eq!(entries(&[spoofed], Syntax::Forwarded)[0], "9.9.9.9");
        let spoofed = "for=6.6.6.6;x=\"\\, for=\"9.9.9.9:1\";host=\"a, b\"";
        assert_eq!(entries(&[spoofed], Syntax::Forwarded)[0], "9.9.9.9");
    }
}

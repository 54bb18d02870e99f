//! Common and combined log lines:
//! `[vhost] client ident user [time] "request" status bytes "referer" "agent"`, and anything after
//! it. The parser ignores everything after the requested field.

use std::borrow::Cow;

use super::client::{self, Client, address};
use super::line::{Reason, path_of};
use crate::time;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Ip,
    Path,
    User,
    Method,
    Status,
    Bytes,
    Referer,
    Agent,
    Host,
    Vhost,
    Forwarded,
}

impl Field {
    /// The field with this name; `None` when these formats have no such field.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "method" => Self::Method,
            "status" => Self::Status,
            "bytes" => Self::Bytes,
            "referer" => Self::Referer,
            "agent" => Self::Agent,
            "host" => Self::Host,
            "vhost" => Self::Vhost,
            "x_forwarded_for" => Self::Forwarded,
            _ => return None,
        })
    }
}

/// The fields that every event needs, and the rest of the line as bytes.
#[derive(Debug)]
pub(super) struct Head<'a> {
    pub(super) at_us: u64,
    /// Whether the time has a zone.
    pub(super) has_zone: bool,
    vhost: &'a [u8],
    client: &'a [u8],
    /// Between the client and the time: `ident user`.
    names: &'a [u8],
    /// After the bracket that closes the time.
    rest: &'a [u8],
}

impl<'a> Head<'a> {
    /// Parses the client and the time of a nonempty line.
    pub(super) fn parse(line: &'a [u8]) -> Result<Self, Reason> {
        let mut client_end = memchr::memchr(b' ', line).ok_or(Reason::NoTime)?;
        // `X-Forwarded-For` in the client's place is a list.
        while line[client_end - 1] == b',' {
            let rest = &line[client_end + 1..];
            client_end += 1 + memchr::memchr(b' ', rest).ok_or(Reason::NoTime)?;
        }
        let (client, behind) = line.split_at(client_end);
        let ((at_us, has_zone), open, close) = find_time(behind)?;
        let mut head = Self {
            at_us,
            has_zone,
            vhost: b"",
            client,
            names: behind[..open].trim_ascii(),
            rest: &behind[close + 1..],
        };
        head.take_vhost();
        Ok(head)
    }

    /// The address of the client.
    ///
    /// # Errors
    /// The first word is not an address, or is `-`.
    pub(super) fn client(&self) -> Result<Client<'a>, Reason> {
        let peer = Some(self.client).filter(|text| *text != b"-").map(Cow::Borrowed);
        client::client(|| "host".to_owned(), peer, || self.forwarded().map(Cow::Borrowed))
    }

    /// The addresses that proxies saw: the first quoted text behind the agent that is a list of
    /// addresses.
    fn forwarded(&self) -> Option<&'a [u8]> {
        let mut rest = quoted(self.behind_bytes().ok()?)?.1;
        rest = quoted(rest)?.1;
        loop {
            let open = memchr::memchr(b'"', rest)?;
            let (text, tail) = quoted(rest.get(open..)?)?;
            if address(text).is_some() {
                return Some(text);
            }
            rest = tail;
        }
    }

    /// Whether a request follows the time, as in common and combined logs.
    pub(super) fn has_request(&self) -> bool {
        self.rest.starts_with(b" \"")
    }

    /// The bytes after the time.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Moves the first word to `vhost` if it is one: `vhost[:port] client ident user`. An ident is
    /// never an address, so an address in second place is the client. A host name there is the
    /// client only after `vhost:port`, with ident and user still to follow.
    fn take_vhost(&mut self) {
        if self.names.first().is_none_or(|b| *b == b'-') || is_ip(self.client) {
            return;
        }
        let (word, rest) = split_word(self.names);
        let behind_port = ends_in_port(self.client) && memchr::memchr(b' ', rest).is_some();
        if behind_port || is_ip(word) {
            (self.vhost, self.client, self.names) = (self.client, word, rest);
        }
    }

    pub(super) fn field(&self, field: Field) -> Result<&'a [u8], Reason> {
        match field {
            Field::Ip | Field::Host => Ok(self.client),
            Field::Forwarded => Ok(self.forwarded().unwrap_or_default()),
            Field::Vhost => Ok(self.vhost),
            Field::User => match split_word(self.names).1 {
                b"\"\"" => Ok(b""),
                user => Ok(user),
            },
            Field::Method => Ok(split_request(self.request()?.0)?.0),
            Field::Path => Ok(path_of(split_request(self.request()?.0)?.1)),
            Field::Status => {
                let (status, _) = split_word(self.request()?.1.trim_ascii_start());
                let digits = !status.is_empty() && status.iter().all(u8::is_ascii_digit);
                Ok(if digits { status } else { b"" })
            }
            Field::Bytes => {
                let (_, rest) = split_word(self.request()?.1.trim_ascii_start());
                Ok(split_word(rest.trim_ascii_start()).0)
            }
            Field::Referer => Ok(quoted(self.behind_bytes()?).map_or(b"", |(value, _)| value)),
            Field::Agent => {
                let behind_referer = quoted(self.behind_bytes()?).map(|(_, rest)| rest);
                Ok(behind_referer.and_then(quoted).map_or(b"", |(value, _)| value))
            }
        }
    }

    /// The request without its quotes, and the bytes after it.
    fn request(&self) -> Result<(&'a [u8], &'a [u8]), Reason> {
        quoted(self.rest).ok_or(Reason::CutRequest)
    }

    /// The bytes after the status and the size.
    fn behind_bytes(&self) -> Result<&'a [u8], Reason> {
        let (_, rest) = split_word(self.request()?.1.trim_ascii_start());
        Ok(split_word(rest.trim_ascii_start()).1)
    }
}

/// The most bytes between a bracket and its closing one, so that a line full of brackets costs no
/// more than another.
const MAX_TIME: usize = 64;

/// The time in brackets, and the positions of the brackets. The first time that is followed by the
/// request's quote wins, since a user name may contain brackets (a quote in it is escaped);
/// otherwise the first time. After a quote there is only client input, unless an empty user was
/// written as `""`.
fn find_time(line: &[u8]) -> Result<((u64, bool), usize, usize), Reason> {
    let quote = first_quote(line).unwrap_or(line.len());
    let mut found = Err(Reason::NoTime);
    for open in memchr::memchr_iter(b'[', line) {
        if open > quote && found != Err(Reason::NoTime) {
            break;
        }
        let window = &line[open..line.len().min(open + MAX_TIME)];
        let Some(len) = memchr::memchr(b']', window) else { continue };
        let close = open + len;
        match time::parse_any(&line[open + 1..close]) {
            Ok(at) if line[close + 1..].starts_with(b" \"") => return Ok((at, open, close)),
            Ok(at) if found.is_err() => found = Ok((at, open, close)),
            Err(error) if found == Err(Reason::NoTime) => found = Err(error.into()),
            _ => {}
        }
    }
    found
}

/// The position of the first quote without a backslash before it.
fn first_quote(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(b'"', b'\\', text.get(from..)?)?;
        if text[at] == b'"' {
            return Some(at);
        }
        from = at + 2;
    }
}

/// The quoted text at the beginning (leading blanks are skipped), and the bytes after it.
pub(super) fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start().strip_prefix(b"\"")?;
    let end = first_quote(text)?;
    Some((&text[..end], &text[end + 1..]))
}

/// The method and the target of `METHOD target HTTP/1.1`. A target may contain blanks (not every
/// client escapes them), and the version may be missing (HTTP/0.9).
fn split_request(request: &[u8]) -> Result<(&[u8], &[u8]), Reason> {
    let (method, target) = split_word(request);
    let is_method = |b: &u8| b.is_ascii_alphabetic() || matches!(b, b'-' | b'_');
    if method.is_empty() || target.is_empty() || !method.iter().all(is_method) {
        return Err(Reason::NoRequest);
    }
    match memchr::memrchr(b' ', target) {
        Some(at) if target[at + 1..].starts_with(b"HTTP/") => Ok((method, &target[..at])),
        _ => Ok((method, target)),
    }
}

/// The text up to the first blank, and the text after it without leading blanks.
fn split_word(text: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b' ', text) {
        Some(at) => (&text[..at], text[at + 1..].trim_ascii_start()),
        None => (text, b""),
    }
}

fn is_ip(word: &[u8]) -> bool {
    word.split(|byte| *byte == b',').all(|part| address(part).is_some())
}

/// Whether a line begins with an address.
pub(super) fn begins_with_address(line: &[u8]) -> bool {
    is_ip(split_word(line).0)
}

fn ends_in_port(word: &[u8]) -> bool {
    memchr::memrchr(b':', word).is_some_and(|at| {
        let port = &word[at + 1..];
        !port.is_empty() && port.iter().all(u8::is_ascii_digit)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{By, Parser, Reason};
    use crate::time::TimeError;

    const AT_US: u64 = 1_431_857_103_000_000;
    const COMBINED: &str = concat!(
        r#"1.2.3.4 - ann [17/May/2015:10:05:03 +0000] "GET /a\"b/c?d=\"e HTTP/1.1" 200 17 "#,
        r#""http://r.org/?\"x" "A \"q\" [b]" 0.1 extra"#
    );

    fn read(line: &str, by: &str) -> Result<(u64, String), Reason> {
        let mut parser = Parser::new(by.parse().unwrap());
        let parsed = parser.parse(line.as_bytes())?.unwrap();
        Ok((parsed.at_us, String::from_utf8(parsed.key.into_owned()).unwrap()))
    }

    fn key(line: &str, by: &str) -> String {
        let (at_us, key) = read(line, by).unwrap_or_else(|reason| panic!("{line}: {reason}"));
        assert_eq!(at_us, AT_US, "{line}");
        key
    }

    #[test]
    fn reads_every_field_of_a_combined_line() {
        for (by, value) in [
            ("ip", "1.2.3.4"),
            ("host", "1.2.3.4"),
            ("user", "ann"),
            ("path", r#"/a\"b/c"#),
            ("method", "GET"),
            ("status", "200"),
            ("bytes", "17"),
            ("referer", r#"http://r.org/?\"x"#),
            ("agent", r#"A \"q\" [b]"#),
        ] {
            assert_eq!(key(COMBINED, by), value, "{by}");
        }
    }

    #[test]
    fn the_client_and_the_time_are_enough_whatever_follows() {
        for line in [
            "::1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5",
            "::1 - - [17/May/2015:10:05:03 +0000] \"GET /cut",
            "::1 - - [17/May/2015:10:05:03 +0000]",
            "::1 - - [17/May/2015:10:05:03 +0000] [pid 5] -",
            "::1 - - [17/May/2015:12:05:03 +0200] \"\\x16\\x03\" 400 0",
            "::1 [17/May/2015:10:05:03 +0000]",
            "::1 - - [2015-05-17T10:05:03+00:00] \"GET / HTTP/1.1\"",
            "  ::1 - - [17/May/2015:10:05:03 +0000] \"-\" 408 -",
            "::1 - \"\" [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 401 1",
            "[::1]:8080 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\"",
        ] {
            assert_eq!(key(line, "ip"), "::1", "{line}");
        }
    }

    #[test]
    fn a_virtual_host_in_front_is_told_from_a_client() {
        let rest = "[17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5";
        for (names, client, vhost) in [
            ("www.x.org:443 9.8.7.6 - - ", "9.8.7.6", Some("www.x.org:443")),
            ("www.x.org 2001:db8::1 - ann ", "2001:db8::1", Some("www.x.org")),
            ("www.x.org:80 far.example - - ", "far.example", Some("www.x.org:80")),
            ("www.x.org:80 9.8.7.6:5555 - - ", "9.8.7.6", Some("www.x.org:80")),
            ("2001:db8::1 - - ", "2001:db8::1", None),
            ("2001:db8::80 ident ann ", "2001:db8::80", None),
            ("far.example ident ann ", "far.example", None),
        ] {
            let line = format!("{names}{rest}");
            let by = if client.ends_with("example") { "host" } else { "ip" };
            assert_eq!(key(&line, by), client, "{line}");
            assert_eq!(read(&line, "vhost").ok().map(|(_, v)| v).as_deref(), vhost, "{line}");
        }
        assert_eq!(key(&format!("x.org 2001:db8::1 - ann {rest}"), "user"), "ann");
    }

    #[test]
    fn a_time_in_a_user_name_is_not_the_time_of_the_line() {
        let line =
            "::1 - x[01/Jan/2020:00:00:00 +0000]y [17/May/2015:10:05:03 +0000] \"GET /\" 200";
        assert_eq!(key(line, "user"), "x[01/Jan/2020:00:00:00 +0000]y");
        let line = "::1 - [] \\\" [17/May/2015:10:05:03 +0000] \"GET /[31/Feb/2015:x] \" 200";
        assert_eq!(key(line, "user"), "[] \\\"");
        let line = "::1 - - [31/Feb/2015:10:05:03 +0000] \"GET /[17/May/2015:10:05:03 +0000] \"";
        assert_eq!(read(line, "ip"), Err(Reason::Time(TimeError::NoSuchTime)));
    }

    #[test]
    fn requests_that_clients_really_send() {
        let line =
            |request: &str| format!("::1 - - [17/May/2015:10:05:03 +0000] \"{request}\" 200 5");
        for (request, path) in [
            ("GET /a b/c?d HTTP/1.1", "/a b/c"),
            ("GET /old", "/old"),
            ("OPTIONS * HTTP/1.0", "*"),
            ("GET http://x.org/a?b HTTP/1.1", "/a"),
            ("VERSION-CONTROL /v HTTP/1.1", "/v"),
        ] {
            assert_eq!(key(&line(request), "path"), path, "{request}");
        }
        for request in ["-", "", "GET", "\\x16\\x03\\x01 x", "{\\\"a\\\": 1}"] {
            assert_eq!(read(&line(request), "path"), Err(Reason::NoRequest), "{request}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let short = "1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET /x HTTP/1.1\" 200 5";
        let no = |by: &str| Err(Reason::NoField(by.parse().unwrap()));
        for (line, by, expected) in [
            (short, "user", no("user")),
            (short, "referer", no("referer")),
            (short, "agent", no("agent")),
            (short, "vhost", no("vhost")),
            (short, "colour", Err(Reason::UnknownField("colour".into()))),
            (&short[..52], "path", Err(Reason::CutRequest)),
            ("- - - [17/May/2015:10:05:03 +0000]", "ip", Err(Reason::NoClient)),
            ("1.2.3.4 - - 17/May/2015", "ip", Err(Reason::NoTime)),
            ("word", "ip", Err(Reason::NoTime)),
            ("", "ip", Err(Reason::Blank)),
            (" \t ", "ip", Err(Reason::Blank)),
            ("1.2.3.4 - - [31/Feb/2015:10:05:03 +0000]", "ip", Err(TimeError::NoSuchTime.into())),
            ("1.2.3.4 - - [now] \"GET / HTTP/1.1\"", "ip", Err(TimeError::Form.into())),
        ] {
            assert_eq!(read(line, by), expected, "{line}");
        }
        let reason = read(short, "colour").unwrap_err().to_string();
        assert!(reason.contains("method, status") && reason.contains("\"colour\""), "{reason}");
        let reason = Reason::NoField(By::User).to_string();
        assert!(reason.contains("no user"), "{reason}");
    }

    #[test]
    fn a_line_of_brackets_ends_in_good_time() {
        // 64 KiB of opening brackets: scanning to the end for each would read 2 * 10^9 bytes.
        let mut line = b"x ".to_vec();
        line.resize(64 * 1024, b'[');
        line.push(b']');
        assert!(Parser::new(By::Ip).parse(&line).is_err());
    }
}

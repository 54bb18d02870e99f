//! Takes off the prefixes of programs that collect lines: Kubernetes, Docker, syslog.

/// The most prefixes of one line: a line of syslog may be one of a container.
pub(super) const MAX_PREFIXES: usize = 3;

/// The longest name of a service or a pod.
const MAX_NAME: usize = 128;

/// The line after its prefix; `None` where there is no prefix.
pub(super) fn unwrapped(line: &[u8]) -> Option<&[u8]> {
    let rest = match *line.first()? {
        b'<' => after_priority(line)?,
        b'[' => after_pod(line)?,
        // Most lines begin with an address.
        b'0'..=b'9' if !begins_with_time(line) => return None,
        b'0'..=b'9' => after_time(line)?,
        b'A'..=b'Z' if is_month(line) => after_host(line.get(16..)?)?,
        _ => after_service(line)?,
    };
    Some(rest.trim_ascii_start())
}

/// Whether a line begins with a date and a time: `2015-05-17T10:05:03`, or with a blank in between.
pub(super) fn is_date(line: &[u8]) -> bool {
    let is_form = |(at, byte): (usize, &u8)| match at {
        4 | 7 => *byte == b'-',
        10 => matches!(*byte, b'T' | b' '),
        13 | 16 => *byte == b':',
        _ => byte.is_ascii_digit(),
    };
    line.len() > 19 && line.iter().enumerate().take(19).all(is_form)
}

/// Whether the first word of a line is a date and a time.
pub(super) fn begins_with_time(line: &[u8]) -> bool {
    // A date alone is the first column of other logs.
    const SHORTEST: usize = "2015-05-17T10:05:03".len();
    let (first, _) = word(line);
    first.len() >= SHORTEST && is_date(line) && crate::time::parse_any(first).is_ok()
}

/// `May 17 10:05:03 `, the time of RFC 3164.
fn is_month(line: &[u8]) -> bool {
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let Some((head, _)) = line.split_first_chunk::<16>() else { return false };
    let is_name = MONTHS.chunks(3).any(|month| head.starts_with(month));
    let marks = [head[3], head[6], head[9], head[12], head[15]];
    is_name && marks == *b"  :: " && head[7..15].iter().all(|b| b.is_ascii_digit() || *b == b':')
}

/// `TIME stdout F LINE` of the container runtime interface, `TIME host program[7]: LINE` of syslog,
/// or `TIME LINE` of `docker logs --timestamps`.
fn after_time(line: &[u8]) -> Option<&[u8]> {
    let rest = word(line).1;
    if let (b"stdout" | b"stderr", tagged) = word(rest)
        && let (b"F" | b"P", line) = word(tagged)
    {
        return Some(line);
    }
    // A load balancer's line begins with a time as well.
    let host = after_host(rest);
    host.or_else(|| {
        Some(rest).filter(|rest| super::clf::begins_with_address(rest) || rest.starts_with(b"{"))
    })
}

/// `<34>May 17 10:05:03 host program[7]: LINE`, or `<34>1 TIME host program 7 id - LINE`.
fn after_priority(line: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b'>', line.get(..6)?)?;
    let (digits, rest) = (line.get(1..end)?, line.get(end + 1..)?);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    match rest.strip_prefix(b"1 ") {
        None if is_month(rest) => after_host(rest.get(16..)?),
        None if is_date(rest) => after_host(word(rest).1),
        None => None,
        Some(rest) => {
            let mut rest = rest;
            for _ in 0..5 {
                rest = word(rest).1;
            }
            let rest = match rest.first()? {
                b'[' => {
                    let end = memchr::memmem::find(rest, b"] ")?;
                    rest.get(end + 2..)?
                }
                _ => word(rest).1,
            };
            Some(rest.strip_prefix(b"\xef\xbb\xbf").unwrap_or(rest))
        }
    }
}

/// `host program[7]: LINE`.
fn after_host(text: &[u8]) -> Option<&[u8]> {
    let (host, rest) = word(text);
    let (program, line) = word(rest);
    let is_name = !host.is_empty() && program.len() > 1 && program.ends_with(b":");
    is_name.then_some(line)
}

/// `[pod/NAME/CONTAINER] LINE` of `kubectl logs --prefix`.
fn after_pod(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"[pod/")?;
    let end = memchr::memchr(b']', rest.get(..rest.len().min(2 * MAX_NAME))?)?;
    rest.get(end + 1..)
}

/// `web-1  | LINE` of `docker compose`.
fn after_service(line: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b' ', line.get(..line.len().min(MAX_NAME))?)?;
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let rest = line.get(end..)?.trim_ascii_start();
    let rest = rest.strip_prefix(b"| ")?;
    line.get(..end)?.iter().all(is_name).then_some(rest)
}

/// The text up to the first blank, and the text after it without leading blanks.
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b' ', text) {
        Some(at) => (&text[..at], text[at + 1..].trim_ascii_start()),
        None => (text, b""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_prefix_is_taken_off_and_nothing_else() {
        let clf = "1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5";
        for prefix in [
            "2015-05-17T10:05:03.123456789Z stdout F ",
            "2015-05-17T10:05:03+02:00 stderr P ",
            "2015-05-17T10:05:03.1Z ",
            "2015-05-17T10:05:03.123456+02:00 web nginx: ",
            "2015-05-17T10:05:03Z web nginx[7]: ",
            "May 17 10:05:03 web nginx: ",
            "May  7 10:05:03 web.example nginx[12]: ",
            "<190>May 17 10:05:03 web nginx: ",
            "<190>2015-05-17T10:05:03Z web nginx: ",
            "<34>1 2015-05-17T10:05:03Z web nginx 7 - - ",
            "<34>1 2015-05-17T10:05:03Z web nginx 7 ID4 [a@1 b=\"c]\"] ",
            "web-1  | ",
            "shop_web.1 | ",
            "[pod/web-7c9/nginx] ",
        ] {
            let line = format!("{prefix}{clf}");
            assert_eq!(unwrapped(line.as_bytes()), Some(clf.as_bytes()), "{prefix}");
        }
        let elb =
            "2015-05-13T23:39:43.9Z lb 1.2.3.4:1 10.0.0.1:80 0.1 0.1 0.1 200 200 0 29 \"GET /\"";
        let csv = "2015-05-17 10:05:03,1.2.3.4";
        for line in [clf, elb, csv, "May - - [17/May/2015:10:05:03 +0000]", "", "<", "[", "a | b"] {
            assert_eq!(unwrapped(line.as_bytes()).filter(|_| line != "a | b"), None, "{line}");
        }
    }
}

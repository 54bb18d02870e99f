//! The canonical forms in which fronts provide a path, a host and an address; and patterns that
//! never match them, which are not read.

use tollgate::ParseError;

use crate::field::Field;
use crate::pattern::Pattern;

impl Pattern {
    /// Parses `abc`, `abc*`, `*`, for a host `*.example.com`, for an address `10.0.0.0/8`, and for
    /// an API key `hash:` with 32 hexadecimal digits.
    ///
    /// # Errors
    /// An empty text, one over [`MAX_PATTERN_BYTES`](crate::MAX_PATTERN_BYTES), or a misplaced `*`;
    /// a pattern that no address, path, host or API key can match in the form in which fronts
    /// provide them.
    pub fn parse(field: &Field, text: &str) -> Result<Self, ParseError> {
        let pattern = Self::read(field, text)?;
        match never(field, &pattern, text) {
            None => Ok(pattern),
            Some((what, remedy)) => Err(ParseError::whole(text, what, remedy)),
        }
    }
}

/// The reason why no request has a value of this pattern, and the correction; `None` if one can.
/// `written` decides, not the text after its conversion to lower case.
fn never(field: &Field, pattern: &Pattern, written: &str) -> Option<(String, String)> {
    let (what, why, right) = match field {
        Field::Path => (
            "path",
            "fronts give each path in one form (docs/identity.md, `tollgate help identity`)",
            path(pattern),
        ),
        Field::Host => {
            let why = "a host is given alone: no scheme, no port, no dot at the end";
            ("host", why, host(pattern))
        }
        Field::Ip => ("address", "it is what an address begins with", address(pattern)),
        Field::Method => ("method", "it is one word (RFC 9110, section 5.6.2)", method(pattern)),
        Field::ApiKey => {
            let why = "fronts hash API keys, so a part of one matches nothing";
            let right = matches!(pattern, Pattern::Prefix(_) | Pattern::Glob(_))
                .then(|| "each key whole, or `*` for any".to_owned());
            ("API key", why, right)
        }
        _ => return None,
    };
    let right = right?;
    Some((format!("no {what} is ever like `{written}`"), format!("{why}: write {right}")))
}

/// The text of a pattern that begins with one, and its last `*` or nothing.
fn parts(pattern: &Pattern) -> Option<(&str, &str)> {
    Some(match pattern {
        Pattern::Exact(text) => (text, ""),
        Pattern::Prefix(text) => (text, "*"),
        Pattern::Glob(glob) => match glob.text().strip_suffix('*') {
            Some(text) => (text, "*"),
            None => (glob.text(), ""),
        },
        _ => return None,
    })
}

fn method(pattern: &Pattern) -> Option<String> {
    let (text, _) = parts(pattern)?;
    let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let right = || "it alone, e.g. `GET`, or a list, e.g. `[\"GET\", \"HEAD\"]`".to_owned();
    (!text.bytes().all(is_of_word)).then(right)
}

fn path(pattern: &Pattern) -> Option<String> {
    let (text, end) = parts(pattern)?;
    if let Some(right) = no_regular_expression(text, end) {
        return Some(right);
    }
    // The rest is never part of a path, and needs no escape.
    let path = text.split(['?', '#']).next().unwrap_or_default();
    let mut form = match path.split_once("://") {
        Some((_, rest)) => path_form(rest.find('/').map_or("/", |slash| &rest[slash..]), end),
        None => path_form(path, end),
    };
    if is_refused(form.strip_suffix(end).unwrap_or(&form), !end.is_empty()) {
        return Some("it without: a segment of dots and a zero byte are refused in a path".into());
    }
    // Everything that begins with `/` is what `*` matches: more than was intended.
    if form == "/*" && text != "/" {
        form = "`/`, or what the path begins with".to_owned();
        return Some(form);
    }
    (form != format!("{text}{end}")).then(|| format!("`{form}`"))
}

/// The correction of a regular expression, which a path never looks like.
fn no_regular_expression(text: &str, end: &str) -> Option<String> {
    let plain = text.strip_prefix('^').unwrap_or(text);
    let has_name = text.contains('{') && text.contains('}');
    // A `$` alone is a letter of a path, as in `/fhir/$everything`.
    let has_sign = [".*", "(?", "[", "\\"].iter().any(|sign| text.contains(sign));
    let is_ended = end.is_empty() && text.ends_with('$') && has_sign;
    let is_one = plain.len() < text.len() || is_ended || text.contains("(?") || has_name;
    let is_path = |plain: &str| {
        plain.starts_with('/') && !plain.contains(['(', '[', '{', '|', '?', '+', '\\', '^', '$'])
    };
    is_one.then(|| {
        let plain = format!("{plain}{end}");
        let plain = plain.strip_suffix('$').unwrap_or(&plain);
        let plain = without_names(plain);
        let plain = plain.replace("[^/]+", "*").replace("[^/]*", "*").replace(".*", "*");
        let like = if is_path(&plain) { plain } else { "/api/*".to_owned() };
        format!(
            "`{like}`, as a pattern is no regular expression: a `*` is one segment, and at the end \
             whatever follows; a list has several"
        )
    })
}

/// A template of a router, such as `/users/{id}/orders`, with a `*` for each name.
fn without_names(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, name)) = rest.split_once('{') {
        let Some((_, after)) = name.split_once('}') else { break };
        out.push_str(before);
        out.push('*');
        rest = after;
    }
    out + rest
}

/// The path setting of `tollgate serve` and the layer under which this pattern matches, and its
/// value.
pub(crate) fn setting(pattern: &Pattern) -> Option<&'static str> {
    let (text, _) = parts(pattern)?;
    match (text.contains("%2F") || text.contains("%5C"), text.contains(';')) {
        (true, true) => Some("--escaped-slashes keep --path-parameters keep"),
        (true, false) => Some("--escaped-slashes keep"),
        (false, true) => Some("--path-parameters keep"),
        (false, false) => None,
    }
}

/// True for a path that is refused under every setting: with a segment of only dots between slashes
/// of any kind, or with a zero byte.
fn is_refused(text: &str, open: bool) -> bool {
    let slashed = text.replace("%2F", "/").replace("%5C", "/");
    let mut segments = slashed.split('/').peekable();
    while let Some(segment) = segments.next() {
        let (name, is_whole) = match segment.split_once(';') {
            Some((name, _)) => (name, true),
            None => (segment, segments.peek().is_some() || !open),
        };
        if is_whole && matches!(name, "." | "..") {
            return true;
        }
    }
    text.contains("%00")
}

/// A path in its canonical form. The last segment of a prefix may continue, and is only escaped.
fn path_form(text: &str, end: &str) -> String {
    let open = !end.is_empty();
    let mut form = String::with_capacity(text.len() + 2);
    let mut segments = text.split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        let spelled = spelled(segment, open && last);
        match spelled.as_str() {
            _ if open && last => {
                form.push('/');
                form.push_str(&spelled);
            }
            "" | "." => {}
            ".." => form.truncate(form.rfind('/').unwrap_or(0)),
            _ => {
                form.push('/');
                form.push_str(&spelled);
            }
        }
    }
    if form.is_empty() {
        form.push('/');
    }
    form + end
}

/// A segment with only the necessary escapes, in upper case.
fn spelled(segment: &str, open: bool) -> String {
    let bytes = segment.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut out = String::with_capacity(segment.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        // The end of a prefix may be the start of an escape.
        let half = match bytes.get(at + 1..) {
            Some([]) => true,
            Some([one]) => one.is_ascii_digit() || (b'A'..=b'F').contains(one),
            _ => false,
        };
        let escape = digit(at + 1).zip(digit(at + 2)).filter(|_| byte == b'%');
        if let Some(byte) = escape.and_then(|(high, low)| u8::try_from(high * 16 + low).ok()) {
            push(&mut out, byte);
            at += 3;
        } else if open && byte == b'%' && half {
            out.push_str(&segment[at..]);
            break;
        } else {
            push(&mut out, byte);
            at += 1;
        }
    }
    out
}

fn push(out: &mut String, byte: u8) {
    // RFC 3986, section 3.3.
    if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte) {
        out.push(char::from(byte));
    } else {
        out.push_str(&format!("%{byte:02X}"));
    }
}

fn host(pattern: &Pattern) -> Option<String> {
    let (before, (text, after)) = match pattern {
        Pattern::Below(text) => ("*", (&**text, "")),
        _ => ("", parts(pattern)?),
    };
    if !text.is_ascii() {
        return Some("its name in ASCII, each part of which begins with `xn--`".to_owned());
    }
    let alone = text.split_once("://").map_or(text, |(_, rest)| rest);
    let mut alone = alone.split(['/', '?', '#']).next().unwrap_or_default();
    // An address in brackets is IPv6: its colons do not begin a port.
    let ports = alone.rfind(']').map_or(0, |bracket| bracket + 1);
    if alone.get(ports..).is_some_and(|rest| rest.matches(':').count() == 1)
        && let Some(colon) = alone.rfind(':')
    {
        alone = &alone[..colon];
    }
    // A prefix of a host may end with a dot.
    if after.is_empty() || alone.len() < text.len() {
        alone = alone.trim_end_matches('.');
    }
    if alone.is_empty() {
        return Some("the name of a host".to_owned());
    }
    if before.is_empty() && alone.starts_with('.') {
        return Some(format!("`*{alone}` for every host below it"));
    }
    // A prefix that includes a port is a complete name.
    let after = if alone.len() < text.len() && !text.ends_with(alone) { "" } else { after };
    let right = format!("{before}{alone}{after}");
    (alone != text).then(|| format!("`{right}`"))
}

fn address(pattern: &Pattern) -> Option<String> {
    let Pattern::Prefix(text) = pattern else { return None };
    let groups = text.split(':').all(|group| group.len() <= 4 && is_hex(group));
    let is_ipv6 = text.contains(':') && groups;
    let octet = |octet: &str| octet.parse::<u8>().is_ok_and(|number| number.to_string() == octet);
    let is_ipv4 = text
        .rsplit_once('.')
        .is_none_or(|(whole, _)| whole.split('.').all(octet) && text.split('.').count() <= 4);
    let last = text.rsplit('.').next().unwrap_or_default();
    let is_open = last.is_empty() || octet(last);
    let short_ipv6 = !text.contains('.') && text.len() <= 4 && is_hex(text);
    let may_be = is_ipv6 || (is_ipv4 && is_open) || short_ipv6;
    (!may_be).then(|| "a network, e.g. `192.0.2.0/24`, or `192.0.2.*`".to_owned())
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(field: &Field, text: &str) -> String {
        let pattern = Pattern::read(field, text).unwrap();
        never(field, &pattern, text).map_or_else(String::new, |(what, remedy)| {
            assert_eq!(what.split('`').nth(1), Some(text));
            remedy.split_once(": write ").unwrap().1.to_owned()
        })
    }

    #[test]
    fn paths_that_no_front_gives_are_known_and_others_left_alone() {
        for fine in [
            "/",
            "/*",
            "*",
            "/a",
            "/a/*",
            "/a*",
            "/a/b.html",
            "/a/.*",
            "/a/..*",
            "/a/...",
            "/a%2Fb",
            "/a%*",
            "/a%2*",
            "/a%2F*",
            "/%25zz",
            "/%C3%A9*",
            "/~a:@!$&'()+,;=",
        ] {
            assert_eq!(right(&Field::Path, fine), "", "{fine}");
        }
        for (written, form) in [
            ("/a/", "`/a`"),
            ("//a", "`/a`"),
            ("//", "`/`"),
            ("/a//b", "`/a/b`"),
            ("/a//*", "`/a/*`"),
            ("//*", "`/`, or what the path begins with"),
            ("/./a", "`/a`"),
            ("/a/.", "`/a`"),
            ("/a/./b*", "`/a/b*`"),
            ("/x/../a", "`/a`"),
            ("/..", "`/`"),
            ("/a/../b*", "`/b*`"),
            ("a", "`/a`"),
            ("a/*", "`/a/*`"),
            ("a*", "`/a*`"),
            ("/%6Cogin", "`/login`"),
            ("/%6Cogin*", "`/login*`"),
            ("/a%2fb", "`/a%2Fb`"),
            ("/a%2f*", "`/a%2F*`"),
            ("/a%zz", "`/a%25zz`"),
            ("/a%", "`/a%25`"),
            ("/a%f*", "`/a%25f*`"),
            ("/a%2", "`/a%252`"),
            ("/a b", "`/a%20b`"),
            ("/é*", "`/%C3%A9*`"),
            ("/a?b=c", "`/a`"),
            ("/a?*", "`/a*`"),
            ("https://a.com/b/*", "`/b/*`"),
        ] {
            assert_eq!(right(&Field::Path, written), form, "{written}");
        }
    }

    #[test]
    fn paths_that_are_refused_under_every_setting_are_known() {
        let form = "it without: a segment of dots and a zero byte are refused in a path";
        for written in ["/a%00", "/a%00*", "/a%2F..", "/a%5C.%2Fb", "/..;a", "/a%2F..;*", "/.%2F*"]
        {
            assert_eq!(right(&Field::Path, written), form, "{written}");
        }
        for fine in ["/a%2F..*", "/a%2F...", "/a%2F.b", "/a;..", "/a%2500"] {
            assert_eq!(right(&Field::Path, fine), "", "{fine}");
        }
    }

    #[test]
    fn paths_that_take_a_setting_are_known() {
        let of = |text: &str| setting(&Pattern::read(&Field::Path, text).unwrap());
        assert_eq!(of("/a%5C;b"), Some("--escaped-slashes keep --path-parameters keep"));
        for text in ["/a%2Fb", "/a%2F*", "/a%5Cb"] {
            assert_eq!(of(text), Some("--escaped-slashes keep"), "{text}");
        }
        for text in ["/a;b", "/a;*"] {
            assert_eq!(of(text), Some("--path-parameters keep"), "{text}");
        }
        for text in ["/a", "/a/*", "*", "/a%252Fb", "/a%", "/a%2*"] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn hosts_that_no_front_gives_are_known_and_others_left_alone() {
        for fine in
            ["a.com", "A.com", "*.a.com", "*", "a.*", "a.c*", "[::1]", "::1", "192.0.2.7", "xn--a"]
        {
            assert_eq!(right(&Field::Host, fine), "", "{fine}");
        }
        for (written, form) in [
            ("a.com:8080", "`a.com`"),
            ("a.com:*", "`a.com`"),
            ("[::1]:80", "`[::1]`"),
            ("a.com.", "`a.com`"),
            ("*.a.com.", "`*.a.com`"),
            ("*.a.com:80", "`*.a.com`"),
            ("https://a.com", "`a.com`"),
            ("http://A.com:80/x", "`a.com`"),
            ("https://a*", "`a*`"),
            ("https://*", "the name of a host"),
            (".", "the name of a host"),
            ("*.", "the name of a host"),
            (".a.com", "`*.a.com` for every host below it"),
            ("a.com/", "`a.com`"),
            ("é.com", "its name in ASCII, each part of which begins with `xn--`"),
        ] {
            assert_eq!(right(&Field::Host, written), form, "{written}");
        }
    }

    #[test]
    fn what_is_no_method_is_known_and_others_left_alone() {
        for fine in ["GET", "get", "M-SEARCH", "PRO*", "*"] {
            assert_eq!(right(&Field::Method, fine), "", "{fine}");
        }
        for written in ["get it", "GET,HEAD", "GET HEAD*", "é"] {
            let form = "it alone, e.g. `GET`, or a list, e.g. `[\"GET\", \"HEAD\"]`";
            assert_eq!(right(&Field::Method, written), form, "{written}");
        }
    }

    #[test]
    fn what_no_address_begins_with_is_known_and_others_left_alone() {
        for fine in
            ["10.*", "1*", "192.0.2.*", "192.0.2.1*", "*", "2001:db8:*", "2001*", "::*", "fe*"]
        {
            assert_eq!(right(&Field::Ip, fine), "", "{fine}");
        }
        for written in ["300.*", "010.*", "1.2.3.4.*", "1.2.3.400*", "office*", "fe80g:*", ".*"] {
            let form = "a network, e.g. `192.0.2.0/24`, or `192.0.2.*`";
            assert_eq!(right(&Field::Ip, written), form, "{written}");
        }
    }
}

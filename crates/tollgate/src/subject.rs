//! Subjects: the dimensions of a key, with a single written form.

use core::fmt;
use core::str::FromStr;
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use compact_str::CompactString;

use crate::error::ParseError;
use crate::ipv4::Start;

/// The longest written form of a subject, in bytes: 64 KiB.
pub const MAX_SUBJECT_BYTES: usize = 65_536;

/// The most dimensions a subject may have.
pub const MAX_DIMENSIONS: usize = 16;

/// The dimension of a subject without a colon.
const DEFAULT_DIMENSION: &str = "key";
const DEFAULT_PREFIX: &str = "key:";

/// The identity that a count belongs to: one or more dimensions with a value each, such as
/// `user:42` or `ip:10.0.0.1,route:login`.
///
/// The written form is printable ASCII. Bytes that would be ambiguous (`%`, `,`), blanks, control
/// and non-ASCII bytes are written `%XX`. The first colon separates dimension and value, so an IPv6
/// address needs no escape. Text without a colon has the dimension `key`. Dimensions are sorted
/// alphabetically. Two subjects are equal exactly when their written forms are.
///
/// There are two kinds of constructors. [`Subject::new`] and [`Subject::literal`] take what follows
/// the first colon *literally*: no value that a client sends can turn it into another subject.
/// [`Subject::parse`] parses the written form, with its commas and escapes, as the command line
/// does.
///
/// ```
/// use tollgate::Subject;
///
/// let user = Subject::literal("user:42")?;
/// assert_eq!(user, Subject::new("user", "42")?);
/// assert_eq!(Subject::literal("42")?, Subject::new("key", "42")?);
/// // A hostile value stays a value.
/// assert_eq!(Subject::literal("user:1,role:admin")?.to_string(), "user:1%2Crole:admin");
/// let pair = Subject::parse("route:login,ip:2001:db8::1")?;
/// assert_eq!(pair.to_string(), "ip:2001:db8::1,route:login");
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[doc(alias("key", "identifier"))]
pub struct Subject(CompactString);

impl Subject {
    /// A subject of one dimension, with a literal value.
    ///
    /// # Errors
    /// An empty dimension or value, an invalid dimension (it may contain letters, digits, `_`, `-`,
    /// `.`), or a written form over [`MAX_SUBJECT_BYTES`].
    #[inline]
    pub fn new(dimension: &str, value: impl AsRef<[u8]>) -> Result<Self, ParseError> {
        let value = value.as_ref();
        Self::from_plain(dimension, value)
            .map_or_else(|| Self::from_dimensions([(dimension, value)]), Ok)
    }

    /// A short subject whose value needs no escape, as most are; `None` for others.
    #[inline]
    fn from_plain(dimension: &str, value: &[u8]) -> Option<Self> {
        // `key:x` is written `x`; the fast path is not worth it for long text.
        if dimension == DEFAULT_DIMENSION || dimension.len() + value.len() >= 128 {
            return None;
        }
        if dimension.is_empty() || value.is_empty() || !is_name(dimension) || has_odd(value) {
            return None;
        }
        let mut text = CompactString::with_capacity(dimension.len() + 1 + value.len());
        text.push_str(dimension);
        text.push(':');
        text.push_str(core::str::from_utf8(value).ok()?);
        Some(Self(text))
    }

    /// A subject as programs write it, `user:42` or just `42`: the text after the first colon is
    /// literal. [`crate::Limiter::check`] does this with a string.
    ///
    /// # Errors
    /// As [`Subject::new`].
    #[inline]
    pub fn literal(text: &str) -> Result<Self, ParseError> {
        if is_plain(text) {
            return Ok(Self(CompactString::new(text)));
        }
        let (dimension, value) = split(text);
        Self::new(dimension, value)
    }

    /// A subject from text that is known to be a written form.
    #[inline]
    pub(crate) fn from_written(text: &str) -> Self {
        Self(CompactString::new(text))
    }

    /// A subject of several dimensions, with literal values, in any order.
    ///
    /// # Errors
    /// As [`Subject::new`]; also a dimension given twice, none, or more than [`MAX_DIMENSIONS`].
    pub fn from_dimensions<'a>(
        dimensions: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Self, ParseError> {
        let mut pairs: Vec<(&str, &[u8])> = dimensions.into_iter().collect();
        pairs.sort_unstable_by_key(|(dimension, _)| *dimension);
        let whole = || render(&pairs);
        if pairs.is_empty() {
            return Err(ParseError::whole("", "a subject is missing", "write one, e.g. `user:42`"));
        }
        if pairs.len() > MAX_DIMENSIONS {
            let text = whole();
            return Err(ParseError::whole(
                &text,
                "a subject has at most 16 dimensions",
                "name only those that the count belongs to",
            ));
        }
        for (dimension, value) in &pairs {
            check_pair(dimension, value, &whole)?;
        }
        if let Some(twice) = pairs.windows(2).find(|w| w[0].0 == w[1].0) {
            return Err(ParseError::whole(
                &whole(),
                format!("the dimension `{}` is given twice", twice[0].0),
                "give each dimension once",
            ));
        }
        let text = whole();
        if text.len() > MAX_SUBJECT_BYTES {
            return Err(ParseError::whole(
                "",
                format!("the subject has {} bytes in its written form", text.len()),
                format!("at most {MAX_SUBJECT_BYTES}: hash long values first"),
            ));
        }
        Ok(Self(text))
    }

    /// Parses the written form: `dim:value`, several joined by `,`, `%XX` escapes.
    ///
    /// # Errors
    /// The problem and its place: an empty part, an invalid escape, a repeated dimension.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        // Most subjects have one dimension and no escape.
        if is_plain(text) {
            return Ok(Self::from_written(text));
        }
        let mut owned: Vec<(&str, Vec<u8>)> = Vec::new();
        let mut start = 0;
        for part in text.split(',') {
            let (dimension, value) = split(part);
            let value_at = start + part.len() - value.len();
            let bytes = unescape(value).map_err(|at| {
                ParseError::at(
                    text,
                    value_at + at..(value_at + at + 3).min(text.len()),
                    "`%` starts an escape of two hexadecimal digits",
                    "write `%25` for a percent sign",
                )
            })?;
            if part.is_empty() || bytes.is_empty() {
                return Err(ParseError::at(
                    text,
                    start..(start + part.len()).max(start + 1),
                    "a value is missing",
                    "a subject is `dim:value`, several joined by `,`, e.g. `user:42,route:login`",
                ));
            }
            owned.push((dimension, bytes));
            start += part.len() + 1;
        }
        Self::from_dimensions(owned.iter().map(|(d, v)| (*d, v.as_slice())))
    }

    /// The written form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The dimensions and their values, sorted by dimension.
    pub fn dimensions(&self) -> impl Iterator<Item = (&str, Cow<'_, [u8]>)> {
        self.0.split(',').map(|part| {
            let (dimension, value) = split(part);
            (dimension, unescape(value).map_or(Cow::Borrowed(value.as_bytes()), Cow::Owned))
        })
    }
}

/// The prefix of all subjects of one dimension, such as `ip:`: validated once, used for many
/// subjects.
///
/// ```
/// use tollgate::{Subject, SubjectPrefix};
///
/// let ip = SubjectPrefix::new("ip")?;
/// assert_eq!(ip.with("192.0.2.7")?, Subject::new("ip", "192.0.2.7")?);
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubjectPrefix {
    text: CompactString,
    /// The prefix of subjects with an IPv4 address, if it is short.
    start: Option<Start>,
}

impl SubjectPrefix {
    /// The prefix of the subjects of a dimension.
    ///
    /// # Errors
    /// An invalid dimension: it may contain letters, digits, `_`, `-`, `.`.
    pub fn new(dimension: &str) -> Result<Self, ParseError> {
        let text = compact_str::format_compact!("{dimension}:");
        if dimension.is_empty() || !is_name(dimension) {
            return Err(no_name(dimension, &text));
        }
        // `key:x` is written `x`.
        let start = Start::new(if text == DEFAULT_PREFIX { "" } else { &text });
        Ok(Self { text, start })
    }

    /// The dimension.
    #[must_use]
    pub fn dimension(&self) -> &str {
        self.text.strip_suffix(':').unwrap_or(&self.text)
    }

    /// As [`Subject::new`] with this dimension.
    ///
    /// # Errors
    /// An empty value, or one that is too long.
    #[inline]
    pub fn with(&self, value: &str) -> Result<Subject, ParseError> {
        // For text that fits into a subject without an allocation, and needs no escape.
        let short = self.text.len() + value.len() <= size_of::<CompactString>();
        // `key:x` is written `x`.
        if !short || value.is_empty() || has_odd(value.as_bytes()) || self.text == DEFAULT_PREFIX {
            return Subject::new(self.dimension(), value);
        }
        let mut text = self.text.clone();
        text.push_str(value);
        Ok(Subject(text))
    }

    /// The subject of an IPv4 address, such as `ip:192.0.2.7`, on a faster path.
    #[must_use]
    #[inline]
    pub fn with_ipv4(&self, address: Ipv4Addr) -> Subject {
        Subject(match self.start {
            Some(start) => start.with(address),
            None => compact_str::format_compact!("{}{address}", self.text),
        })
    }
}

/// True when one of these bytes must be escaped.
#[inline]
fn has_odd(text: &[u8]) -> bool {
    // No early exit: the loop becomes a few vector instructions.
    let odd = |byte: u8| !(0x21..=0x7e).contains(&byte) | (byte == b'%') | (byte == b',');
    text.iter().fold(false, |found, byte| found | odd(*byte))
}

/// True when `text` is a written form of one dimension without escapes, found without parsing it.
#[inline]
pub(crate) fn is_plain(text: &str) -> bool {
    // No early exit: the loop becomes a few vector instructions.
    let (mut odd, mut colon) = (false, false);
    for byte in text.bytes() {
        odd |= !(0x21..=0x7e).contains(&byte) | (byte == b'%') | (byte == b',');
        colon |= byte == b':';
    }
    if odd || text.is_empty() || text.len() > MAX_SUBJECT_BYTES {
        return false;
    }
    if !colon {
        return true;
    }
    // `key:x` is written `x`, and an empty dimension or value is an error.
    let (dimension, value) = split(text);
    !dimension.is_empty() && !value.is_empty() && is_name(dimension) && dimension != "key"
}

fn is_name(dimension: &str) -> bool {
    dimension.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

/// Splits at the first colon; without one, the dimension is `key`.
fn split(part: &str) -> (&str, &str) {
    part.split_once(':').unwrap_or((DEFAULT_DIMENSION, part))
}

fn check_pair(
    dimension: &str,
    value: &[u8],
    whole: &dyn Fn() -> CompactString,
) -> Result<(), ParseError> {
    if value.is_empty() {
        return Err(ParseError::whole(
            &whole(),
            format!("the value of `{dimension}` is empty"),
            "an absent identity must not share one count: decide what to do without it",
        ));
    }
    if dimension.is_empty() || !is_name(dimension) {
        return Err(no_name(dimension, &whole()));
    }
    Ok(())
}

fn no_name(dimension: &str, whole: &str) -> ParseError {
    ParseError::whole(
        whole,
        format!("`{}` is not the name of a dimension", dimension.escape_default()),
        "use letters, digits, `_`, `-` and `.`, as in `user:42`",
    )
}

fn render(pairs: &[(&str, &[u8])]) -> CompactString {
    let mut out = CompactString::default();
    for (i, (dimension, value)) in pairs.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        let bare = pairs.len() == 1 && *dimension == DEFAULT_DIMENSION && !value.contains(&b':');
        if !bare {
            out.push_str(dimension);
            out.push(':');
        }
        for &byte in *value {
            if matches!(byte, 0x21..=0x7e) && byte != b'%' && byte != b',' {
                out.push(char::from(byte));
            } else {
                out.push('%');
                for nibble in [byte >> 4, byte & 15] {
                    out.push(char::from(b"0123456789ABCDEF"[usize::from(nibble)]));
                }
            }
        }
    }
    out
}

/// The bytes of a value, or the position of an invalid escape.
fn unescape(value: &str) -> Result<Vec<u8>, usize> {
    let bytes = value.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while let Some(&byte) = bytes.get(i) {
        if byte != b'%' {
            out.push(byte);
            i += 1;
            continue;
        }
        let digit = |at: usize| {
            bytes
                .get(at)
                .and_then(|&b| char::from(b).to_digit(16))
                .and_then(|d| u8::try_from(d).ok())
        };
        match (digit(i + 1), digit(i + 2)) {
            (Some(high), Some(low)) => out.push(high * 16 + low),
            _ => return Err(i),
        }
        i += 3;
    }
    Ok(out)
}

/// Decodes `%XX` escapes as in a subject, for the URLs of stores. `None` if a `%` is not followed
/// by two hexadecimal digits, or the bytes are not UTF-8.
#[doc(hidden)]
#[must_use]
pub fn unescape_text(text: &str) -> Option<String> {
    String::from_utf8(unescape(text).ok()?).ok()
}

impl From<IpAddr> for Subject {
    /// The dimension `ip`. An IPv4-mapped IPv6 address becomes the IPv4 address.
    fn from(ip: IpAddr) -> Self {
        const IP: Option<Start> = Start::new("ip:");
        match (IP, ip.to_canonical()) {
            (Some(start), IpAddr::V4(v4)) => Self(start.with(v4)),
            (_, ip) => Self(compact_str::format_compact!("ip:{ip}")),
        }
    }
}

impl FromStr for Subject {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subject({:?})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_values_cannot_become_other_subjects() {
        for hostile in ["a,role:admin", "a%2C", "{x}", "a\r\nSET", "\0", "é", "a b", "::1"] {
            let subject = Subject::new("user", hostile).unwrap();
            let dims: Vec<_> = subject.dimensions().map(|(d, v)| (d, v.into_owned())).collect();
            assert_eq!(dims, [("user", hostile.as_bytes().to_vec())], "{hostile}");
            assert_eq!(Subject::parse(subject.as_str()).unwrap(), subject);
            assert_eq!(Subject::literal(&format!("user:{hostile}")).unwrap(), subject);
        }
    }

    #[test]
    fn a_prefix_makes_the_same_subjects() {
        let long = "x".repeat(30);
        for dimension in ["ip", "client", "key", "header.x-a-name-that-is-long"] {
            let prefix = SubjectPrefix::new(dimension).unwrap();
            assert_eq!(prefix.dimension(), dimension);
            for value in ["10.0.0.1", "a:b", "a,b", "a%b", "é", " ", &long] {
                assert_eq!(prefix.with(value).unwrap(), Subject::new(dimension, value).unwrap());
            }
            let address = Ipv4Addr::new(192, 0, 2, 255);
            let written = Subject::new(dimension, address.to_string()).unwrap();
            assert_eq!(prefix.with_ipv4(address), written);
            assert!(prefix.with("").is_err() && prefix.with(&"x".repeat(70_000)).is_err());
        }
        assert!(SubjectPrefix::new("").is_err() && SubjectPrefix::new("a:b").is_err());
    }

    #[test]
    fn one_form_for_one_subject() {
        assert_eq!(Subject::parse("key:zoo").unwrap(), Subject::literal("zoo").unwrap());
        assert_eq!(Subject::parse("b:1,a:2").unwrap(), Subject::parse("a:2,b:1").unwrap());
        assert_eq!(Subject::new("key", "a:b").unwrap().to_string(), "key:a:b");
        assert_eq!(Subject::parse("ip:::1").unwrap().to_string(), "ip:::1");
        assert_eq!(Subject::literal("user:%41").unwrap().to_string(), "user:%2541");
        let mapped: IpAddr = "::ffff:1.2.3.4".parse().unwrap();
        assert_eq!(Subject::from(mapped).to_string(), "ip:1.2.3.4");
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        assert_eq!(Subject::from(v6).to_string(), "ip:2001:db8::1");
    }

    #[test]
    fn bad_subjects_say_what_is_wrong() {
        for (text, says) in [
            ("", "a value is missing"),
            ("user:", "a value is missing"),
            ("a:1,,b:2", "a value is missing"),
            ("a:1,a:2", "given twice"),
            ("a:%4", "`%` starts an escape"),
            ("a:%zz", "`%` starts an escape"),
            (":x", "not the name of a dimension"),
        ] {
            let error = Subject::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        assert!(Subject::new("user", vec![b'x'; MAX_SUBJECT_BYTES]).is_err());
        assert!(Subject::new("user", vec![b'x'; MAX_SUBJECT_BYTES - 5]).is_ok());
    }
}

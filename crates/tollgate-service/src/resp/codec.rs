//! Reads requests: arrays of bulk strings, as slices of the bytes that were received.
//!
//! Nothing is copied and no tree is built. Each bound is checked at the length that a client
//! announces, before the bytes arrive.

use core::fmt;

use arrayvec::ArrayVec;

/// The most words of a command.
pub(super) const MAX_WORDS: usize = 64;

/// The longest line with a length: a sign, ten digits and the line's end fit.
const MAX_LENGTH_LINE: usize = 16;

/// The longest command that is written as a plain line.
const MAX_INLINE: usize = 64;

/// The words of a command.
pub(super) type Words<'b> = ArrayVec<&'b [u8], MAX_WORDS>;

/// The bounds of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bounds {
    /// The words, [`MAX_WORDS`] at most.
    pub(super) words: usize,
    /// The bytes of one word.
    pub(super) word_bytes: usize,
    /// The bytes of the whole command as it is sent.
    pub(super) bytes: usize,
    /// The beginning of messages about a length.
    prefix: &'static str,
}

impl Bounds {
    /// For a client that may ask. A key of 64 KiB gets an answer that says what is wrong with it.
    pub(super) const USUAL: Self =
        Self { words: MAX_WORDS, word_bytes: 64 * 1_024, bytes: 128 * 1_024, prefix: "" };

    /// For a client that has not said its password.
    pub(super) const STRANGER: Self =
        Self { words: 16, word_bytes: 1_024, bytes: 4 * 1_024, prefix: "unauthenticated " };
}

/// The start of the received bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// A whole command of this many bytes, with its words; none for an empty line or array.
    Command(usize),
    /// The start of a command.
    Chunk,
}

/// Why nothing more can be read from a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Broken {
    /// A client of HTTP, perhaps led here by a web page. It gets no answer.
    Http,
    /// The problem, in the words of Redis where it has some.
    Protocol(&'static str, &'static str),
    /// A byte other than the one that begins a word.
    NoWord(u8),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ERR Protocol error: ")?;
        match self {
            Self::Http => f.write_str("this is HTTP"),
            Self::Protocol(prefix, what) => write!(f, "{prefix}{what}"),
            Self::NoWord(byte) => write!(f, "expected '$', got '{}'", byte.escape_ascii()),
        }
    }
}

/// Reads the command at the start of `bytes` into `words`.
///
/// # Errors
/// The bytes are not a command within these bounds; nothing after them can be read.
pub(super) fn read<'b>(
    bytes: &'b [u8],
    bounds: &Bounds,
    words: &mut Words<'b>,
) -> Result<Found, Broken> {
    words.clear();
    match bytes.first() {
        None => Ok(Found::Chunk),
        Some(b'*') => read_array(bytes, bounds, words),
        Some(_) => read_line(bytes, words),
    }
}

fn read_array<'b>(
    bytes: &'b [u8],
    bounds: &Bounds,
    words: &mut Words<'b>,
) -> Result<Found, Broken> {
    let refuse = |what| Err(Broken::Protocol(bounds.prefix, what));
    let (count, mut at) = match length(bytes, 1) {
        Length::Is(count, at) => (count, at),
        Length::Chunk => return Ok(Found::Chunk),
        Length::TooLong => return refuse("too big mbulk count string"),
        Length::None => return refuse("invalid multibulk length"),
    };
    // An array of no words, or a null array, is not a command, and Redis skips it.
    let count = usize::try_from(count).unwrap_or(0);
    if count > bounds.words {
        return refuse("invalid multibulk length");
    }
    for _ in 0..count {
        match bytes.get(at) {
            None => return Ok(Found::Chunk),
            Some(b'$') => {}
            Some(other) => return Err(Broken::NoWord(*other)),
        }
        let (size, start) = match length(bytes, at + 1) {
            Length::Is(size, start) => (size, start),
            Length::Chunk => return Ok(Found::Chunk),
            Length::TooLong => return refuse("too big bulk count string"),
            Length::None => return refuse("invalid bulk length"),
        };
        let size = usize::try_from(size).ok().filter(|size| *size <= bounds.word_bytes);
        let Some(size) = size else { return refuse("invalid bulk length") };
        let end = start + size;
        if end + 2 > bounds.bytes {
            return refuse("the command is too long");
        }
        match bytes.get(end..end + 2) {
            Some(b"\r\n") => {}
            Some(_) => return refuse("a bulk string ends with CR LF"),
            None if bytes.get(end).is_some_and(|byte| *byte != b'\r') => {
                return refuse("a bulk string ends with CR LF");
            }
            None => return Ok(Found::Chunk),
        }
        // Neither bound can be exceeded: `end` is within `bytes`, and `count` within the capacity.
        if let Some(word) = bytes.get(start..end) {
            let _ = words.try_push(word);
        }
        at = end + 2;
    }
    Ok(Found::Command(at))
}

/// A command that is written as a line. Only two of them are read: bytes that a web page can make a
/// browser send must never be a command.
fn read_line<'b>(bytes: &'b [u8], words: &mut Words<'b>) -> Result<Found, Broken> {
    let refuse = |what| Err(Broken::Protocol("", what));
    let visible = bytes.get(..MAX_INLINE).unwrap_or(bytes);
    if is_http(visible) {
        return Err(Broken::Http);
    }
    let Some(end) = memchr::memchr(b'\n', visible) else {
        if bytes.len() >= MAX_INLINE {
            return refuse("too big inline request");
        }
        return Ok(Found::Chunk);
    };
    let line = visible.get(..end).unwrap_or_default().trim_ascii();
    if line.is_empty() {
        return Ok(Found::Command(end + 1));
    }
    if !line.eq_ignore_ascii_case(b"PING") && !line.eq_ignore_ascii_case(b"QUIT") {
        return refuse("a line is PING or QUIT here, all other commands are arrays");
    }
    let _ = words.try_push(line);
    Ok(Found::Command(end + 1))
}

/// Whether bytes begin as a line of HTTP.
fn is_http(line: &[u8]) -> bool {
    const STARTS: [&[u8]; 7] =
        [b"POST ", b"GET /", b"HEAD /", b"PUT /", b"DELETE /", b"OPTIONS ", b"HOST:"];
    STARTS
        .iter()
        .any(|start| line.get(..start.len()).is_some_and(|begun| begun.eq_ignore_ascii_case(start)))
}

/// A length in its own line.
enum Length {
    /// The number, and where the bytes after the line begin.
    Is(i64, usize),
    /// The line has no end so far.
    Chunk,
    /// The line is longer than any length.
    TooLong,
    /// The line is not a number.
    None,
}

#[inline]
fn length(bytes: &[u8], at: usize) -> Length {
    let rest = bytes.get(at..).unwrap_or_default();
    // Nearly all are of one or two digits.
    match rest {
        [one @ b'1'..=b'9', b'\r', b'\n', ..] => Length::Is(i64::from(one - b'0'), at + 3),
        [ten @ b'1'..=b'9', one @ b'0'..=b'9', b'\r', b'\n', ..] => {
            Length::Is(i64::from(ten - b'0') * 10 + i64::from(one - b'0'), at + 4)
        }
        _ => any_length(rest, at),
    }
}

fn any_length(rest: &[u8], at: usize) -> Length {
    let visible = rest.get(..MAX_LENGTH_LINE).unwrap_or(rest);
    let Some(end) = memchr::memchr(b'\r', visible) else {
        return if rest.len() >= MAX_LENGTH_LINE { Length::TooLong } else { Length::Chunk };
    };
    let Some(number) = visible.get(..end).and_then(whole_number) else { return Length::None };
    match rest.get(end + 1) {
        Some(b'\n') => Length::Is(number, at + end + 2),
        Some(_) => Length::None,
        None => Length::Chunk,
    }
}

/// A whole number in the one form that Redis takes: no `+`, no leading zero, no blank.
pub(super) fn whole_number(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_plain = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !is_plain {
        return None;
    }
    // i64's parser takes more than this, so the form was checked before.
    core::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;

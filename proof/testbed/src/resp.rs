//! The bytes of the wire: replies, and where a frame ends.

use std::fmt;

/// How deep replies may lie in one another. Those of Redis lie three deep at most.
const DEPTH: usize = 16;

/// A reply of Redis, as RESP2 has them.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "RESP2 has these kinds and will not get more")]
pub enum Reply {
    /// `:5`
    Int(i64),
    /// `$3 foo`; none is the null of GET for a key that is not there.
    Bulk(Option<Vec<u8>>),
    /// `+OK`
    Status(String),
    /// `-ERR why`
    Error(String),
    /// `*2 ...`; the null array is an empty one here.
    Array(Vec<Self>),
}

impl Reply {
    /// `Ok` for `OK`, else the reply as words.
    pub(crate) fn done(&self) -> Result<(), String> {
        match self {
            Self::Status(text) if text == "OK" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    }

    /// The number, also one that was sent as text.
    #[must_use]
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Bulk(_) | Self::Status(_) => self.text()?.parse().ok(),
            Self::Error(_) | Self::Array(_) => None,
        }
    }

    /// The text of a bulk, a status or an error.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Bulk(Some(bytes)) => Some(String::from_utf8_lossy(bytes).into_owned()),
            Self::Status(text) | Self::Error(text) => Some(text.clone()),
            Self::Bulk(None) | Self::Int(_) | Self::Array(_) => None,
        }
    }

    /// The bytes of a bulk.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        if let Self::Bulk(Some(bytes)) = self { Some(bytes) } else { None }
    }

    /// The elements of an array; none of anything else.
    #[must_use]
    pub fn items(&self) -> &[Self] {
        if let Self::Array(items) = self { items } else { &[] }
    }

    /// The first word of an error: `NOSCRIPT`, `OOM`, `ERR`.
    #[must_use]
    pub fn error_code(&self) -> Option<&str> {
        if let Self::Error(text) = self { text.split(' ').next() } else { None }
    }

    /// The reply at the start of `bytes`, and how many bytes it takes; none while there is more
    /// to come.
    ///
    /// # Errors
    ///
    /// The bytes are not RESP2.
    pub fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, NotResp> {
        let Some(end) = frame(bytes)? else { return Ok(None) };
        let mut rest = bytes.get(..end).ok_or(NotResp)?;
        let reply = Self::take(&mut rest)?;
        Ok(Some((reply, end)))
    }

    /// Takes one reply from a frame that is known to be whole.
    fn take(rest: &mut &[u8]) -> Result<Self, NotResp> {
        let (kind, line) = take_line(rest)?.ok_or(NotResp)?;
        let text = || String::from_utf8_lossy(line).into_owned();
        Ok(match kind {
            b'+' => Self::Status(text()),
            b'-' => Self::Error(text()),
            b':' => Self::Int(number(line)?),
            b'$' => match usize::try_from(number(line)?) {
                Err(_) => Self::Bulk(None),
                Ok(length) => {
                    let bulk = rest.get(..length).ok_or(NotResp)?.to_vec();
                    *rest = rest.get(length + 2..).ok_or(NotResp)?;
                    Self::Bulk(Some(bulk))
                }
            },
            b'*' => {
                let length = number(line)?.max(0);
                Self::Array((0..length).map(|_| Self::take(rest)).collect::<Result<_, _>>()?)
            }
            _ => return Err(NotResp),
        })
    }
}

/// The bytes are not RESP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NotResp;

impl fmt::Display for NotResp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what the other side said is not RESP")
    }
}

impl std::error::Error for NotResp {}

/// A command as clients send it.
#[must_use]
pub fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// How long the frame at the start of `bytes` is, a request or a reply, in RESP2 or RESP3; none
/// while there is more to come.
///
/// # Errors
///
/// The bytes are not a frame.
pub fn frame(bytes: &[u8]) -> Result<Option<usize>, NotResp> {
    let mut rest = bytes;
    // Not a recursion: the other side chooses how deep a frame is.
    let mut left = vec![1_u64];
    while let Some(count) = left.last_mut() {
        if *count == 0 {
            left.pop();
            continue;
        }
        *count -= 1;
        let Some((kind, line)) = take_line(&mut rest)? else { return Ok(None) };
        let inner = match kind {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => 0,
            b'$' | b'!' | b'=' => {
                if let Ok(length) = usize::try_from(number(line)?) {
                    let end = length.checked_add(2).ok_or(NotResp)?;
                    let Some(after) = rest.get(end..) else { return Ok(None) };
                    rest = after;
                }
                0
            }
            b'*' | b'~' | b'>' => elements(line)?,
            b'%' => elements(line)? * 2,
            // An attribute precedes its subject.
            b'|' => elements(line)? * 2 + 1,
            _ => return Err(NotResp),
        };
        if inner > 0 {
            left.push(inner);
        }
        if left.len() > DEPTH {
            return Err(NotResp);
        }
    }
    Ok(Some(bytes.len() - rest.len()))
}

/// The line's kind and its rest, taken from `rest`; `None` while its end is not there.
fn take_line<'b>(rest: &mut &'b [u8]) -> Result<Option<(u8, &'b [u8])>, NotResp> {
    let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let (line, after) = rest.split_at(end);
    let (kind, line) = line.split_first().ok_or(NotResp)?;
    *rest = after.get(2..).ok_or(NotResp)?;
    Ok(Some((*kind, line)))
}

fn number(line: &[u8]) -> Result<i64, NotResp> {
    std::str::from_utf8(line).ok().and_then(|text| text.parse().ok()).ok_or(NotResp)
}

/// The number of elements; 0 for a null array.
fn elements(line: &[u8]) -> Result<u64, NotResp> {
    let count = number(line)?.max(0).unsigned_abs();
    // Twice as many must fit, and nobody sends a billion.
    if count > 1 << 30 { Err(NotResp) } else { Ok(count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: [(&[u8], usize); 8] = [
        (b"+OK\r\n+next", 5),
        (b":-5\r\n", 5),
        (b"$3\r\na\r\n\r\n", 9),
        (b"$-1\r\n", 5),
        (b"*2\r\n:1\r\n*1\r\n$1\r\nx\r\nrest", 19),
        (b"*0\r\n", 4),
        (b"%1\r\n+a\r\n:1\r\n", 12),
        (b"|1\r\n+ttl\r\n:5\r\n$1\r\nx\r\n", 21),
    ];

    #[test]
    fn a_frame_ends_where_it_ends() {
        for (bytes, end) in FRAMES {
            let text = String::from_utf8_lossy(bytes);
            assert_eq!(frame(bytes), Ok(Some(end)), "{text:?}");
            for cut in 0..end {
                assert_eq!(frame(&bytes[..cut]), Ok(None), "{text:?} up to {cut}");
            }
        }
    }

    #[test]
    fn what_is_no_frame_is_said_to_be_none() {
        for bytes in [&b"HTTP/1.1 200 OK\r\n"[..], b"\r\n", b"$x\r\n", b"*9999999999999\r\n"] {
            assert_eq!(frame(bytes), Err(NotResp), "{:?}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(frame(&b"*1\r\n".repeat(DEPTH + 1)), Err(NotResp));
    }

    #[test]
    fn replies_are_read() {
        let bytes = b"*4\r\n:7\r\n$-1\r\n$2\r\n42\r\n-OOM no room\r\n";
        let (reply, end) = Reply::read(bytes).unwrap().unwrap();
        assert_eq!(end, bytes.len());
        let [seven, null, text, error] = reply.items() else { panic!("{reply:?}") };
        assert_eq!((seven.int(), null.bytes(), text.int()), (Some(7), None, Some(42)));
        assert_eq!(error.error_code(), Some("OOM"));
    }

    #[test]
    fn a_request_is_a_frame() {
        let bytes = request(&[b"GET", b"a\r\nb"]);
        assert_eq!(bytes, b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n");
        assert_eq!(frame(&bytes), Ok(Some(bytes.len())));
    }
}

//! Strict framing: where each request of a connection begins and ends. A proxy in front and the
//! HTTP library may disagree on where a malformed request ends. Then one of them takes part of a
//! body for a new request (request smuggling; RFC 9112, sections 2.2, 6.1 and 11.2).

use memchr::memchr;

/// Why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Misframed {
    /// It uses HTTP/2.
    Http2,
    BareLineFeed,
    TwoLengths,
    Length,
    ChunkSize,
}

impl Misframed {
    pub(crate) fn detail(self) -> &'static str {
        match self {
            Self::Http2 => "this is a request of HTTP/2, and here HTTP/1.1 is spoken",
            Self::BareLineFeed => "a line ends with LF alone: CR LF ends each",
            Self::TwoLengths => "a request has `Content-Length` or `Transfer-Encoding`, not both",
            Self::Length => "`Content-Length` is a number of bytes, in digits",
            Self::ChunkSize => "the size of a chunk is a number of bytes, in hexadecimal digits",
        }
    }
}

/// Follows the bytes of a connection, in reads of any size.
#[derive(Debug, Default)]
pub(super) struct Framing {
    at: At,
    /// The part of a line whose end has not arrived. The HTTP library refuses lines that are too
    /// long.
    cut: Vec<u8>,
    length: Option<u64>,
    is_chunked: bool,
    misframed: Option<Misframed>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum At {
    /// Before a request.
    #[default]
    Start,
    Head,
    Body {
        left: u64,
    },
    ChunkSize,
    /// In a chunk, including its line end.
    Chunk {
        left: u64,
    },
    Trailer,
}

impl Framing {
    /// Follows the next bytes. On a refusal it overwrites the line feed that ends the offending
    /// line with a zero byte, which every HTTP library rejects.
    pub(super) fn follow(&mut self, read: &mut [u8]) {
        let mut from = 0;
        while from < read.len() && self.misframed.is_none() {
            let rest = &read[from..];
            if let At::Body { left } | At::Chunk { left } = &mut self.at {
                let skipped = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                *left -= skipped as u64;
                from += skipped;
                self.at = match self.at {
                    At::Body { left: 0 } => At::Start,
                    At::Chunk { left: 0 } => At::ChunkSize,
                    at => at,
                };
                continue;
            }
            let Some(end) = memchr(b'\n', rest) else {
                self.cut.extend_from_slice(rest);
                return;
            };
            let ended = match self.cut.is_empty() {
                true => self.end_line(&rest[..end]),
                false => {
                    let line = [&core::mem::take(&mut self.cut), &rest[..end]].concat();
                    self.end_line(&line)
                }
            };
            if let Err(misframed) = ended {
                self.misframed = Some(misframed);
                read[from + end] = 0;
            }
            from += end + 1;
        }
    }

    /// Why the last bytes are refused.
    pub(super) fn misframed(&self) -> Option<Misframed> {
        self.misframed
    }

    /// Handles a line, up to its line feed.
    fn end_line(&mut self, line: &[u8]) -> Result<(), Misframed> {
        let line = line.strip_suffix(b"\r").ok_or(Misframed::BareLineFeed)?;
        self.at = match (self.at, line) {
            // An empty line before a request is ignored (RFC 9112, section 2.2).
            (At::Start, b"") => At::Start,
            // The preface of HTTP/2 with prior knowledge (RFC 9113, section 3.4).
            (At::Start, b"PRI * HTTP/2.0") => return Err(Misframed::Http2),
            (At::Start, _) => {
                (self.length, self.is_chunked) = (None, false);
                At::Head
            }
            (At::Head, b"") => match self.length.unwrap_or(0) {
                _ if self.is_chunked => At::ChunkSize,
                0 => At::Start,
                left => At::Body { left },
            },
            (At::Head, header) => {
                if let Some(value) = value_of(header, b"content-length:") {
                    self.length = Some(number(value, 10).ok_or(Misframed::Length)?);
                } else if value_of(header, b"transfer-encoding:").is_some() {
                    self.is_chunked = true;
                }
                if self.is_chunked && self.length.is_some() {
                    return Err(Misframed::TwoLengths);
                }
                At::Head
            }
            (At::ChunkSize, line) => {
                let size = line.split(|byte| b"; \t".contains(byte)).next().unwrap_or_default();
                match number(size, 16).and_then(|size| size.checked_add(2)) {
                    Some(2) => At::Trailer,
                    Some(left) => At::Chunk { left },
                    None => return Err(Misframed::ChunkSize),
                }
            }
            (At::Trailer, b"") => At::Start,
            (at, _) => at,
        };
        Ok(())
    }
}

/// The value of this header line, if it has this name.
fn value_of<'a>(header: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, value) = header.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

/// Parses a number that consists of digits only.
fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let digits = core::str::from_utf8(digits).ok().filter(|it| !it.starts_with('+'))?;
    u64::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows requests in reads of this size. Returns the framing and the bytes after it.
    fn followed(requests: &str, piece: usize) -> (Framing, Vec<u8>) {
        let mut framing = Framing::default();
        let mut bytes = requests.as_bytes().to_vec();
        for piece in bytes.chunks_mut(piece) {
            framing.follow(piece);
        }
        (framing, bytes)
    }

    #[test]
    fn each_request_ends_where_the_next_begins() {
        let requests = [
            "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\na\nb\n",
            "POST / HTTP/1.1\r\nCONTENT-LENGTH:\t0\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 3\r\nContent-Length: 3\r\n\r\n\n\n\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
             2\r\na\n\r\n0a ;x=y\r\n0123\n56789\r\n0\r\nmore: x\r\n\r\n",
        ];
        for first in requests {
            for second in requests {
                let both = format!("{first}{second}");
                for piece in 1..=both.len() {
                    let (framing, bytes) = followed(&both, piece);
                    assert_eq!((framing.at, framing.misframed), (At::Start, None), "{both:?}");
                    assert_eq!(bytes, both.as_bytes());
                }
            }
        }
    }

    #[test]
    fn what_has_two_readings_is_refused() {
        for (begins, why) in [
            ("\n", Misframed::BareLineFeed),
            ("GET / HTTP/1.1\n", Misframed::BareLineFeed),
            ("GET / HTTP/1.1\r\nhost: a\n", Misframed::BareLineFeed),
            ("GET / HTTP/1.1\r\nhost: a\r\n\n", Misframed::BareLineFeed),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\n", Misframed::BareLineFeed),
            (
                "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\n",
                Misframed::BareLineFeed,
            ),
            ("PRI * HTTP/2.0\r\n", Misframed::Http2),
            (
                "GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: gzip\r\n",
                Misframed::TwoLengths,
            ),
            (
                "GET / HTTP/1.1\r\nTRANSFER-ENCODING:chunked\r\na: b\r\ncontent-length:1\r\n",
                Misframed::TwoLengths,
            ),
            ("GET / HTTP/1.1\r\nContent-Length: +1\r\n", Misframed::Length),
            ("GET / HTTP/1.1\r\nContent-Length: 1, 1\r\n", Misframed::Length),
            ("GET / HTTP/1.1\r\nContent-Length: 0x1\r\n", Misframed::Length),
            ("GET / HTTP/1.1\r\nContent-Length:\r\n", Misframed::Length),
            (&format!("GET / HTTP/1.1\r\nContent-Length: {}\r\n", u128::MAX), Misframed::Length),
            (
                "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
                Misframed::ChunkSize,
            ),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", Misframed::ChunkSize),
        ] {
            let whole = format!("{begins}and what comes after\n");
            for piece in 1..=whole.len() {
                let (framing, bytes) = followed(&whole, piece);
                assert_eq!(framing.misframed, Some(why), "{begins:?}");
                assert_eq!(bytes.iter().position(|byte| *byte == 0), Some(begins.len() - 1));
                assert_eq!(bytes[begins.len()..], whole.as_bytes()[begins.len()..]);
            }
        }
    }
}

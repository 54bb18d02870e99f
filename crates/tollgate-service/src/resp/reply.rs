//! Writes replies, in the version of the protocol that the client chose.

use core::fmt;
use core::fmt::Write as _;

use tollgate::wire::{Fields, Value};

use crate::listen::Undelivered;

/// A version of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Version {
    /// RESP2: a map is an array of its keys and values.
    #[default]
    Two,
    /// RESP3.
    Three,
}

impl Version {
    pub(super) fn number(self) -> i64 {
        match self {
            Self::Two => 2,
            Self::Three => 3,
        }
    }
}

/// The replies to one or more commands.
#[derive(Debug, Default)]
pub(super) struct Replies {
    pub(super) bytes: Vec<u8>,
    pub(super) version: Version,
    /// The actions that are undone if they are not delivered.
    pub(super) undelivered: Vec<Undelivered>,
}

impl Replies {
    /// A short text without line ends, such as `OK`.
    pub(super) fn status(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error, which begins with its kind, such as `ERR`. A line end within it becomes a blank.
    pub(super) fn error(&mut self, text: impl fmt::Display) {
        let begin = self.bytes.len();
        self.bytes.push(b'-');
        // Writing to a vector cannot fail.
        let _ = write!(Text(&mut self.bytes), "{text}");
        for byte in self.bytes.iter_mut().skip(begin) {
            if byte.is_ascii_control() {
                *byte = b' ';
            }
        }
        self.bytes.extend_from_slice(b"\r\n");
    }

    #[inline]
    pub(super) fn integer(&mut self, number: i64) {
        // Most numbers of an answer have one digit, and take a short path.
        if let Ok(digit @ 0..=9) = u8::try_from(number) {
            return self.bytes.extend_from_slice(&[b':', b'0' + digit, b'\r', b'\n']);
        }
        self.line(b':', itoa::Buffer::new().format(number).as_bytes());
    }

    /// A list of whole numbers.
    #[inline]
    pub(super) fn integers<const N: usize>(&mut self, numbers: [i64; N]) {
        self.array(N);
        for number in numbers {
            self.integer(number);
        }
    }

    pub(super) fn text(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        self.length(b'$', text.len());
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(super) fn null(&mut self) {
        self.bytes.extend_from_slice(match self.version {
            Version::Two => b"$-1\r\n",
            Version::Three => b"_\r\n",
        });
    }

    /// Yes or no; RESP2 has 1 and 0.
    pub(super) fn boolean(&mut self, is_so: bool) {
        match self.version {
            Version::Two => self.integer(i64::from(is_so)),
            Version::Three if is_so => self.line(b'#', b"t"),
            Version::Three => self.line(b'#', b"f"),
        }
    }

    /// A number with a point; RESP2 has texts.
    pub(super) fn double(&mut self, digits: &str) {
        match self.version {
            Version::Two => self.text(digits),
            Version::Three => self.line(b',', digits.as_bytes()),
        }
    }

    /// The start of a list of `count` replies.
    #[inline]
    pub(super) fn array(&mut self, count: usize) {
        self.length(b'*', count);
    }

    /// The start of a list without an order.
    pub(super) fn set(&mut self, count: usize) {
        match self.version {
            Version::Two => self.length(b'*', count),
            Version::Three => self.length(b'~', count),
        }
    }

    /// The start of `count` keys, each with its value.
    pub(super) fn map(&mut self, count: usize) {
        match self.version {
            Version::Two => self.length(b'*', 2 * count),
            Version::Three => self.length(b'%', count),
        }
    }

    /// The fields of an answer as a map, in their order.
    pub(super) fn fields(&mut self, fields: &dyn Fields) {
        self.map(fields.count());
        fields.each(&mut |name, value| {
            self.text(name);
            self.value(value);
        });
    }

    fn value(&mut self, value: Value<'_>) {
        match value {
            Value::Flag(is_so) => self.boolean(is_so),
            Value::Number(number) => self.number(number),
            Value::Seconds(wait) => match wait.whole() {
                Some(whole) => self.number(whole),
                None => self.double(&wait.digits()),
            },
            Value::Text(text) => self.text(text),
            Value::Shown(shown) => self.text(shown.to_string()),
            Value::Cost(amounts) => match amounts.plain() {
                Some(requests) => self.number(requests),
                None => {
                    self.map(amounts.iter().count());
                    for (unit, amount) in amounts.iter() {
                        self.text(unit.name());
                        self.number(amount);
                    }
                }
            },
            Value::Fields(fields) => self.fields(fields),
            Value::List(list) => {
                self.array(list.count());
                (0..list.count()).for_each(|place| self.value(list.at(place)));
            }
            _ => self.null(),
        }
    }

    /// A whole number; one above the integers of the protocol is a number with a point.
    fn number(&mut self, number: u64) {
        match i64::try_from(number) {
            Ok(number) => self.integer(number),
            Err(_) => self.double(itoa::Buffer::new().format(number)),
        }
    }

    fn length(&mut self, kind: u8, length: usize) {
        self.line(kind, itoa::Buffer::new().format(length).as_bytes());
    }

    #[inline]
    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// Formats into a vector.
struct Text<'v>(&'v mut Vec<u8>);

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(version: Version, write: impl FnOnce(&mut Replies)) -> String {
        let mut replies = Replies { version, ..Replies::default() };
        write(&mut replies);
        String::from_utf8(replies.bytes).unwrap()
    }

    #[test]
    fn each_version_has_its_forms() {
        let write = |replies: &mut Replies| {
            replies.map(2);
            replies.text("a");
            replies.integer(-1);
            replies.text("b");
            replies.null();
            replies.set(0);
            replies.array(1);
            replies.status("OK");
            replies.boolean(true);
            replies.boolean(false);
            replies.double("1.5");
        };
        let two = "*4\r\n$1\r\na\r\n:-1\r\n$1\r\nb\r\n$-1\r\n*0\r\n*1\r\n+OK\r\n\
                   :1\r\n:0\r\n$3\r\n1.5\r\n";
        let three = "%2\r\n$1\r\na\r\n:-1\r\n$1\r\nb\r\n_\r\n~0\r\n*1\r\n+OK\r\n\
                     #t\r\n#f\r\n,1.5\r\n";
        assert_eq!(written(Version::Two, write), two);
        assert_eq!(written(Version::Three, write), three);
    }

    /// An error may quote the client's words: they must not end the line.
    #[test]
    fn an_error_is_one_line() {
        let line = written(Version::Two, |replies| replies.error("ERR a\r\n+OK\r\nb"));
        assert_eq!(line, "-ERR a  +OK  b\r\n");
    }
}

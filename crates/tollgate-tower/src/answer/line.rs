//! Header values built in place: one allocation each, that of the value itself.

use http::HeaderValue;

/// The longest value built here, in bytes: a name of 160 and two numbers.
const ROOM: usize = 256;

/// A header value in the making. What does not fit is an error at the end, not a cut.
pub(super) struct Line {
    bytes: [u8; ROOM],
    len: usize,
    full: bool,
}

impl Line {
    pub(super) fn new() -> Self {
        Self { bytes: [0; ROOM], len: 0, full: false }
    }

    // By reference: moving the room along cost more than all else.
    #[inline]
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.push(text.as_bytes())
    }

    #[inline]
    fn push(&mut self, text: &[u8]) -> &mut Self {
        let end = self.len + text.len();
        match self.bytes.get_mut(self.len..end) {
            Some(room) => {
                room.copy_from_slice(text);
                self.len = end;
            }
            None => self.full = true,
        }
        self
    }

    #[inline]
    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        if let Ok(digit @ 0..=9) = u8::try_from(number) {
            return self.push(&[b'0' + digit]);
        }
        // 20 digits are the most that 64 bits have.
        let mut digits = [b'0'; 20];
        let mut start = digits.len();
        let mut rest = number;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
            start -= 1;
            if rest == 0 {
                break;
            }
        }
        self.push(digits.get(start..).unwrap_or_default())
    }

    /// The value; none when it did not fit or holds what no header may.
    pub(super) fn value(&self) -> Option<HeaderValue> {
        if self.full {
            return None;
        }
        HeaderValue::from_bytes(self.bytes.get(..self.len)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_whole() {
        for number in [0, 9, 10, 99, 100, 1 << 40, u64::MAX] {
            let value = Line::new().number(number).value().unwrap();
            assert_eq!(value, number.to_string().as_str());
        }
        let long = "x".repeat(ROOM);
        assert_eq!(Line::new().text(&long).value().unwrap(), long.as_str());
        assert!(Line::new().text(&long).number(1).value().is_none());
        assert!(Line::new().text("a\nb").value().is_none());
    }
}

//! Header values built in place: one allocation each, that of the value itself.

use arrayvec::ArrayString;
use http::HeaderValue;

/// The longest value built here, in bytes: a name of 160 and two numbers.
const ROOM: usize = 256;

/// A header value in the making. What does not fit is an error at the end, not a cut.
pub(super) struct Line {
    text: ArrayString<ROOM>,
    full: bool,
}

impl Line {
    pub(super) fn new() -> Self {
        Self { text: ArrayString::new(), full: false }
    }

    // By reference: moving the room along cost more than all else.
    #[inline]
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.full |= self.text.try_push_str(text).is_err();
        self
    }

    #[inline]
    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        self.text(itoa::Buffer::new().format(number))
    }

    /// The value; none when it did not fit or holds what no header may.
    pub(super) fn value(&self) -> Option<HeaderValue> {
        if self.full {
            return None;
        }
        HeaderValue::from_str(&self.text).ok()
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

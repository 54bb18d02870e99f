//! The id of a request, under which a retry is charged once.

use core::time::Duration;

use crate::error::Error;

/// The longest request id, in bytes.
pub const MAX_REQUEST_BYTES: usize = 256;

/// The longest time that a request id is remembered: a day.
pub const MAX_REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

/// The id of a request, and how long the store remembers it.
///
/// A check that is asked again under the same id gets the first answer and charges nothing more
/// ([`Ask::request`](super::Ask::request)). The id should be unique to the request, such as a UUID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestId<'a> {
    text: &'a str,
    remembered_ms: u32,
    of_each_question: bool,
}

impl<'a> RequestId<'a> {
    /// The id `text`, of 1 to [`MAX_REQUEST_BYTES`] bytes, remembered for 10 minutes. A check under
    /// any other text is an error.
    #[must_use]
    #[inline]
    pub const fn new(text: &'a str) -> Self {
        Self { text, remembered_ms: 600_000, of_each_question: false }
    }

    /// Sets how long it is remembered: whole milliseconds, from one to [`MAX_REMEMBERED`]. A check
    /// with any other time is an error.
    #[must_use]
    pub fn remembered(self, time: Duration) -> Self {
        Self { remembered_ms: u32::try_from(time.as_millis()).unwrap_or(u32::MAX), ..self }
    }

    /// Lets each question have a separate id: the same text for another question is not an error,
    /// and is charged by itself. For ids of a caller that does not know the questions, such as a
    /// proxy.
    #[must_use]
    pub const fn of_each_question(self) -> Self {
        Self { of_each_question: true, ..self }
    }

    /// True for an id of which each question has its own ([`RequestId::of_each_question`]).
    #[must_use]
    pub const fn is_of_each_question(&self) -> bool {
        self.of_each_question
    }

    /// The id.
    #[must_use]
    pub const fn text(&self) -> &'a str {
        self.text
    }

    /// How long it is remembered.
    #[must_use]
    pub const fn time(&self) -> Duration {
        Duration::from_millis(self.remembered_ms as u64)
    }

    /// The same id with this text, which the caller owns.
    #[must_use]
    pub fn with_text<'t>(&self, text: &'t str) -> RequestId<'t> {
        RequestId { text, ..*self }
    }

    pub(super) fn check(self) -> Result<Self, Error> {
        let bytes = self.text.len();
        if bytes == 0 || bytes > MAX_REQUEST_BYTES {
            return Err(Error::Ask(format!(
                "a request id has 1 to {MAX_REQUEST_BYTES} bytes, not {bytes}: a UUID is long enough"
            )));
        }
        if self.remembered_ms == 0 || self.time() > MAX_REMEMBERED {
            return Err(Error::Ask(
                "a request id is remembered for 1 ms to 24 h: a few times as long as callers retry"
                    .to_owned(),
            ));
        }
        Ok(self)
    }
}

impl<'a> From<&'a str> for RequestId<'a> {
    fn from(text: &'a str) -> Self {
        Self::new(text)
    }
}

impl<'a> From<&'a String> for RequestId<'a> {
    fn from(text: &'a String) -> Self {
        Self::new(text)
    }
}

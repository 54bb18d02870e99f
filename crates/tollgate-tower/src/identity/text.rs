//! Short texts that need no allocation, and values that may.

use core::fmt;
use std::borrow::Cow;

/// Room for an address with its prefix (43 bytes) and for a hash (32).
const ROOM: usize = 48;

/// A short ASCII text in place.
#[derive(Clone, Copy)]
pub(super) struct Inline {
    bytes: [u8; ROOM],
    len: usize,
}

impl Default for Inline {
    fn default() -> Self {
        Self { bytes: [0; ROOM], len: 0 }
    }
}

impl Inline {
    pub(super) fn as_str(&self) -> &str {
        // Only whole strings are written into it.
        core::str::from_utf8(self.bytes.get(..self.len).unwrap_or_default()).unwrap_or_default()
    }
}

impl Inline {
    /// Writes bytes that are ASCII.
    #[inline]
    pub(super) fn write_ascii(&mut self, text: &[u8]) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text);
        self.len = end;
        Ok(())
    }
}

impl fmt::Write for Inline {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.write_ascii(text.as_bytes())
    }
}

/// The value of an identity: never empty.
///
/// Its `Debug` shows nothing of it: values are personal data. [`Value::as_str`] does.
#[derive(Clone)]
pub struct Value<'r>(Held<'r>);

#[derive(Clone)]
enum Held<'r> {
    Borrowed(&'r str),
    Owned(String),
    Inline(Inline),
}

impl<'r> Value<'r> {
    pub(super) fn borrowed(text: &'r str) -> Self {
        Self(Held::Borrowed(text))
    }

    pub(super) fn owned(text: String) -> Self {
        Self(Held::Owned(text))
    }

    pub(super) fn inline(text: Inline) -> Self {
        Self(Held::Inline(text))
    }

    /// The value as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Held::Borrowed(text) => text,
            Held::Owned(text) => text,
            Held::Inline(text) => text.as_str(),
        }
    }

    /// The value as text that lives as long as the request, or on its own.
    #[must_use]
    pub fn into_cow(self) -> Cow<'r, str> {
        match self.0 {
            Held::Borrowed(text) => Cow::Borrowed(text),
            Held::Owned(text) => Cow::Owned(text),
            Held::Inline(text) => Cow::Owned(text.as_str().to_owned()),
        }
    }
}

impl AsRef<str> for Value<'_> {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Value<'_> {}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({} bytes)", self.as_str().len())
    }
}

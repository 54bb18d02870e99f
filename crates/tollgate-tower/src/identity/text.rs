//! Values of identities; short ones need no allocation.

use core::fmt;
use std::borrow::Cow;

use compact_str::CompactString;

/// The value of an identity, never empty.
///
/// Its `Debug` omits the value, which is personal data; [`Value::as_str`] returns it.
#[derive(Clone)]
pub struct Value<'r>(Inner<'r>);

#[derive(Clone)]
enum Inner<'r> {
    Borrowed(&'r str),
    Owned(String),
    Short(CompactString),
}

impl<'r> Value<'r> {
    pub(super) fn borrowed(text: &'r str) -> Self {
        Self(Inner::Borrowed(text))
    }

    pub(super) fn owned(text: String) -> Self {
        Self(Inner::Owned(text))
    }

    #[inline]
    pub(super) fn short(text: CompactString) -> Self {
        Self(Inner::Short(text))
    }

    /// The value as text.
    #[must_use]
    #[inline]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Inner::Borrowed(text) => text,
            Inner::Owned(text) => text,
            Inner::Short(text) => text,
        }
    }

    /// The value as text, borrowed from the request or owned.
    #[must_use]
    pub fn into_cow(self) -> Cow<'r, str> {
        match self.0 {
            Inner::Borrowed(text) => Cow::Borrowed(text),
            Inner::Owned(text) => Cow::Owned(text),
            Inner::Short(text) => Cow::Owned(text.into()),
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

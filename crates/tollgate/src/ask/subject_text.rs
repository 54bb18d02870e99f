//! A subject as a caller writes it.

use std::net::IpAddr;

use crate::error::ParseError;
use crate::subject::Subject;

/// A subject as the caller passes it: literal text, or a [`Subject`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SubjectText<'a> {
    /// `user:42`: the text after the first colon is literal.
    Literal(&'a str),
    /// The same text, owned.
    Owned(String),
    /// A [`Subject`], owned.
    Built(Subject),
    /// A [`Subject`], borrowed.
    Known(&'a Subject),
}

impl SubjectText<'_> {
    /// Returns the subject.
    ///
    /// # Errors
    /// As [`Subject::literal`].
    #[inline]
    pub fn resolve(self) -> Result<Subject, ParseError> {
        match self {
            Self::Literal(text) => Subject::literal(text),
            Self::Owned(text) => Subject::literal(&text),
            Self::Built(subject) => Ok(subject),
            Self::Known(subject) => Ok(subject.clone()),
        }
    }
}

impl<'a> From<&'a str> for SubjectText<'a> {
    #[inline]
    fn from(text: &'a str) -> Self {
        Self::Literal(text)
    }
}

impl<'a> From<&'a String> for SubjectText<'a> {
    #[inline]
    fn from(text: &'a String) -> Self {
        Self::Literal(text)
    }
}

impl From<String> for SubjectText<'_> {
    fn from(text: String) -> Self {
        Self::Owned(text)
    }
}

impl From<Subject> for SubjectText<'_> {
    fn from(subject: Subject) -> Self {
        Self::Built(subject)
    }
}

impl<'a> From<&'a Subject> for SubjectText<'a> {
    #[inline]
    fn from(subject: &'a Subject) -> Self {
        Self::Known(subject)
    }
}

impl From<IpAddr> for SubjectText<'_> {
    fn from(ip: IpAddr) -> Self {
        Self::Built(ip.into())
    }
}

//! A subject as a caller writes it, and the types that are one.

use core::fmt;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use crate::error::ParseError;
use crate::subject::Subject;

/// A subject as the caller passes it: literal text, or a [`Subject`].
///
/// ```
/// use std::{borrow::Cow, sync::Arc};
/// use tollgate::{Ask, Limiter};
///
/// let (limiter, id) = (Limiter::memory("10/h".parse()?), 42);
/// let (text, shared): (String, Arc<str>) = (format!("user:{id}"), "user:42".into());
/// limiter.check("user:42").now()?;
/// limiter.check(&text).now()?;
/// limiter.check(&shared).now()?;
/// limiter.check(Cow::Borrowed("user:42")).now()?;
/// limiter.check(format_args!("user:{id}")).now()?;
/// limiter.check(Ask::new(format!("user:{id}")).and(format!("team:{id}"))).now()?;
/// for user in ["user:1", "user:42"].iter() {
///     limiter.check(user).now()?;
/// }
/// assert_eq!(limiter.check(text).now()?.remaining(), 2);
/// # Ok::<(), tollgate::Error>(())
/// ```
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

/// A type that names a subject: `user:42` as any kind of text, a [`Subject`], or an address. A type
/// of a program may be one.
///
/// ```
/// use tollgate::{IntoSubject, Limiter, SubjectText};
///
/// struct User(u64);
///
/// impl<'a> IntoSubject<'a> for &User {
///     fn into_subject(self) -> SubjectText<'a> {
///         SubjectText::Owned(format!("user:{}", self.0))
///     }
/// }
///
/// let limiter = Limiter::memory("10/h".parse()?);
/// limiter.check(&User(42)).now()?;
/// assert_eq!(limiter.check("user:42").now()?.remaining(), 8);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` names no subject to check",
    label = "a subject is expected here, such as `\"user:42\"` or `format!(\"user:{{id}}\")`",
    note = "a number needs a dimension: `format!(\"user:{{id}}\")`, or `Subject::new(\"user\", text)?`",
    note = "several subjects are `Ask::new(one).and(other)`, or a list of (subject, &limits)"
)]
pub trait IntoSubject<'a> {
    /// The subject, as it is written.
    fn into_subject(self) -> SubjectText<'a>;
}

/// Makes subjects of types.
macro_rules! subjects {
    ($($(#[$doc:meta])* $type:ty: |$it:ident| $made:expr;)+) => {$(
        $(#[$doc])*
        impl<'a> IntoSubject<'a> for $type {
            #[inline]
            fn into_subject(self) -> SubjectText<'a> {
                let $it = self;
                $made
            }
        }
    )+};
}

subjects! {
    SubjectText<'a>: |it| it;
    &'a str: |it| SubjectText::Literal(it);
    &&'a str: |it| SubjectText::Literal(it);
    &'a String: |it| SubjectText::Literal(it);
    &'a Arc<str>: |it| SubjectText::Literal(it);
    &'a Cow<'_, str>: |it| SubjectText::Literal(it);
    String: |it| SubjectText::Owned(it);
    Box<str>: |it| SubjectText::Owned(it.into_string());
    Cow<'a, str>: |it| match it {
        Cow::Borrowed(text) => SubjectText::Literal(text),
        Cow::Owned(text) => SubjectText::Owned(text),
    };
    /// The text of `format_args!`.
    fmt::Arguments<'_>: |it| SubjectText::Owned(it.to_string());
    Subject: |it| SubjectText::Built(it);
    &'a Subject: |it| SubjectText::Known(it);
    IpAddr: |it| SubjectText::Built(it.into());
}

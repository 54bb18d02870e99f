//! Why a command that asks was refused, and the limits of such commands.

use core::fmt;
use std::borrow::Cow;

use tollgate::LimitSet;

use crate::service::{Kind, Refusal, Service};

/// An error: its kind as Redis has them, and its text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Why {
    pub(super) kind: &'static str,
    pub(super) text: Cow<'static, str>,
}

impl Why {
    pub(super) fn new(kind: &'static str, text: &'static str) -> Self {
        Self { kind, text: text.into() }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.text)
    }
}

impl<T: Into<Cow<'static, str>>> From<T> for Why {
    fn from(text: T) -> Self {
        Self { kind: "ERR", text: text.into() }
    }
}

/// A refusal of the service.
pub(super) fn refused(refusal: Refusal) -> Why {
    let kind = match refusal.kind {
        Kind::Forbidden => "NOPERM",
        Kind::Unavailable => "UNAVAILABLE",
        Kind::Conflict => "NOTOPEN",
        Kind::Full => "TOOMANY",
        Kind::Invalid | Kind::NotFound => "ERR",
    };
    Why { kind, text: refusal.detail.into() }
}

/// A command has another number of words.
pub(super) fn number_of_words(name: &str) -> Why {
    Why::from(format!("wrong number of arguments for '{name}' command"))
}

/// The limits of a text.
///
/// # Errors
/// The problem, in one line. The refusal of the service shows the place, over several.
pub(super) fn limits(service: &Service, text: &str) -> Result<LimitSet, Why> {
    service.limits(text).or_else(|_| match text.parse::<LimitSet>() {
        Ok(limits) => Ok(limits),
        Err(error) => Err(format!("{}: {}", error.what(), error.remedy()).into()),
    })
}

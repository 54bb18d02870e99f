//! Errors of the engine as errors of JavaScript, whose `code` says which class `lib/errors.js`
//! makes of it.

use tollgate::{Error, ParseError, StoreError};

/// The class of an error, as its `code` says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// A text that is no limit.
    Limit,
    /// An argument with a value that is out of range.
    Argument,
    /// A hold that is not open.
    Hold,
    /// A store that could not answer: whether the same call may succeed later, and whether the
    /// check may have been charged.
    Store { transient: bool, ambiguous: bool },
    /// What should not happen.
    Other,
}

impl AsRef<str> for Fault {
    fn as_ref(&self) -> &str {
        match self {
            Self::Limit => "LimitError",
            Self::Argument => "ArgumentError",
            Self::Hold => "HoldError",
            Self::Store { transient: false, ambiguous: false } => "StoreError",
            Self::Store { transient: true, ambiguous: false } => "StoreError transient",
            Self::Store { transient: false, ambiguous: true } => "StoreError ambiguous",
            Self::Store { transient: true, ambiguous: true } => "StoreError transient ambiguous",
            Self::Other => "TollgateError",
        }
    }
}

impl From<napi::Status> for Fault {
    fn from(_: napi::Status) -> Self {
        Self::Other
    }
}

/// What native functions return.
pub(crate) type Result<T> = core::result::Result<T, Raised>;

/// An error on its way to JavaScript.
pub(crate) type Raised = napi::Error<Fault>;

/// A text that is no limit.
pub(crate) fn limits(error: &ParseError) -> Raised {
    Raised::new(Fault::Limit, format!("limits: {error}"))
}

/// An argument with a value that is out of range. The message names it.
#[cold]
pub(crate) fn argument(what: impl Into<String>) -> Raised {
    Raised::new(Fault::Argument, what.into())
}

/// What should not happen.
#[cold]
pub(crate) fn other(what: impl Into<String>) -> Raised {
    Raised::new(Fault::Other, what.into())
}

/// A store that could not answer.
pub(crate) fn store(error: &StoreError) -> Raised {
    let mut what = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        what = format!("{what}: {cause}");
        source = cause.source();
    }
    let (transient, ambiguous) = (error.is_transient(), error.is_ambiguous());
    Raised::new(Fault::Store { transient, ambiguous }, what)
}

/// Whatever a limiter returns.
#[cold]
pub(crate) fn raised(error: &Error) -> Raised {
    match error {
        Error::Parse(error) => argument(format!("subject: {error}")),
        Error::Ask(what) => argument(what.as_str()),
        Error::NotOpen(what) | Error::Conflict(what) | Error::TooManyHolds(what) => {
            Raised::new(Fault::Hold, what.to_string())
        }
        Error::Store(error) => store(error),
        error => other(error.to_string()),
    }
}

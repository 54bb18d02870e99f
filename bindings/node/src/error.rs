//! Failures as errors of JavaScript, whose `code` says which class `lib/errors.js` makes of it.

use tollgate_binding::{Failure, Fault};

/// The class of an error, as its `code` says it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code(Fault);

impl AsRef<str> for Code {
    fn as_ref(&self) -> &str {
        match self.0 {
            Fault::Limit => "LimitError",
            Fault::Argument => "ArgumentError",
            Fault::Hold => "HoldError",
            Fault::Store { transient: false, ambiguous: false } => "StoreError",
            Fault::Store { transient: true, ambiguous: false } => "StoreError transient",
            Fault::Store { transient: false, ambiguous: true } => "StoreError ambiguous",
            Fault::Store { transient: true, ambiguous: true } => "StoreError transient ambiguous",
            Fault::Other => "TollgateError",
        }
    }
}

impl From<napi::Status> for Code {
    fn from(_: napi::Status) -> Self {
        Self(Fault::Other)
    }
}

/// The result of native functions.
pub(crate) type Result<T> = core::result::Result<T, Raised>;

/// An error on its way to JavaScript.
pub(crate) type Raised = napi::Error<Code>;

/// The error of a failure.
#[cold]
pub(crate) fn raised(failure: impl Into<Failure>) -> Raised {
    let Failure { fault, what } = failure.into();
    Raised::new(Code(fault), what)
}

/// An argument with a value that is out of range. The message names it.
#[cold]
pub(crate) fn argument(what: impl Into<String>) -> Raised {
    raised(Failure::argument(what))
}

/// An error that should not happen.
#[cold]
pub(crate) fn other(what: impl Into<String>) -> Raised {
    raised(Failure::other(what))
}

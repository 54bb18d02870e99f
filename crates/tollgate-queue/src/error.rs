//! The errors of a queue: invalid input, and failures of its store.

use core::fmt;

use tollgate::StoreError;

/// Why a queue could not do an operation. A full queue is not an error:
/// [`crate::OfferOutcome::Full`].
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name, a setting or a job is invalid. The text also describes a valid one.
    #[error("{0}")]
    Invalid(String),
    /// The queue was created with other settings.
    #[error(
        "the queue `{queue}` was made with {made}, and not with {asked}: say the same everywhere, \
         say nothing, or change the queue first: `tollgate queue change {queue} --help` says how"
    )]
    Settings {
        /// The queue.
        queue: String,
        /// The queue's settings.
        made: String,
        /// The caller's settings.
        asked: String,
    },
    /// The store of the queue could not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The rate limiter returned an error.
    #[error("the rate of the queue: {0}")]
    Rate(#[from] tollgate::Error),
}

/// The same as `Display`, since `main` prints a returned error with `Debug`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid(what.into())
    }

    /// Whether a retry may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) => passes(error),
            Self::Rate(error) => error.is_transient(),
            _ => false,
        }
    }
}

/// Whether a store's fault is transient. An ambiguous fault need not be: a missing permission
/// within a script, or an error of the script itself, occurs on each retry.
fn passes(error: &StoreError) -> bool {
    #[cfg(feature = "redis")]
    {
        use std::error::Error as _;
        use tollgate_redis::Fault;
        if let Some(fault) = error.source().and_then(|source| source.downcast_ref::<Fault>()) {
            let is_lua = matches!(fault, Fault::Other { code } if code == "ERR");
            return fault.is_transient() && !is_lua;
        }
    }
    error.is_transient()
}

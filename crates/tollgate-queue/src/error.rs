//! What can go wrong with a queue: the caller's mistakes, and a store's.

use core::fmt;

use tollgate::StoreError;

/// Why a queue did not do what it was asked. Being full is no error: [`crate::OfferOutcome::Full`].
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name, a setting or a job is not as it may be. What is wrong, and what would be right.
    #[error("{0}")]
    Invalid(String),
    /// The queue was made with other settings.
    #[error(
        "the queue `{queue}` was made with {made}, and not with {asked}: say the same everywhere, \
         say nothing, or change the queue first: `tollgate queue change {queue} --help` says how"
    )]
    Settings {
        /// The queue.
        queue: String,
        /// Those it has.
        made: String,
        /// Those that were said.
        asked: String,
    },
    /// Where the queue lies could not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The rate gave no decision.
    #[error("the rate of the queue: {0}")]
    Rate(#[from] tollgate::Error),
}

/// As it displays: `main` prints what it returns with `Debug`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid(what.into())
    }

    /// True when asking again later may succeed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) => passes(error),
            Self::Rate(error) => error.is_transient(),
            _ => false,
        }
    }
}

/// Whether a store's fault may pass. One that leaves in doubt what was done need not: a right that
/// is missing within a script, or a fault of the script itself, is there the next time, too.
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

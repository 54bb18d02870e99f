//! The reasons why a call failed, each a separate class in each language.

use tollgate::{Error, ParseError, StoreError};

/// The class of a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A text that is not a limit.
    Limit,
    /// An argument with a value that is out of range.
    Argument,
    /// A hold that is not open.
    Hold,
    /// A store that could not answer.
    Store {
        /// Whether the same call may succeed later.
        transient: bool,
        /// Whether the check may have been charged.
        ambiguous: bool,
    },
    /// A failure that should not happen.
    Other,
}

/// A failure on its way to the language that called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Its class.
    pub fault: Fault,
    /// The message.
    pub what: String,
}

/// The result of the core.
pub type Result<T> = core::result::Result<T, Failure>;

impl Failure {
    /// An argument with a value that is out of range. The message names it.
    #[cold]
    pub fn argument(what: impl Into<String>) -> Self {
        Self { fault: Fault::Argument, what: what.into() }
    }

    /// A failure that should not happen.
    #[cold]
    pub fn other(what: impl Into<String>) -> Self {
        Self { fault: Fault::Other, what: what.into() }
    }

    /// A text that is not a limit.
    #[must_use]
    pub fn limits(error: &ParseError) -> Self {
        Self { fault: Fault::Limit, what: format!("limits: {error}") }
    }
}

impl From<&StoreError> for Failure {
    /// The message has all causes, each once: some errors have the text of their cause.
    fn from(error: &StoreError) -> Self {
        let mut what = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !what.contains(&cause_text) {
                what = format!("{what}: {cause_text}");
            }
            source = cause.source();
        }
        let (transient, ambiguous) = (error.is_transient(), error.is_ambiguous());
        Self { fault: Fault::Store { transient, ambiguous }, what }
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        match error {
            Error::Parse(error) => Self::argument(format!("subject: {error}")),
            Error::Ask(what) => Self::argument(what),
            Error::NotOpen(what) | Error::Conflict(what) | Error::TooManyHolds(what) => {
                Self { fault: Fault::Hold, what: what.to_string() }
            }
            Error::Store(error) => Self::from(&error),
            other => Self::other(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_the_engine_has_its_class() {
        let subject = tollgate::Subject::literal("").unwrap_err();
        let failure = Failure::from(Error::Parse(subject.clone()));
        assert_eq!(failure, Failure::argument(format!("subject: {subject}")));
        assert_eq!(Failure::from(Error::Ask("cost".to_owned())), Failure::argument("cost"));
        let failure = Failure::from(Error::Store(StoreError::misuse("no")));
        assert_eq!(failure.fault, Fault::Store { transient: false, ambiguous: false });
        let limits = "ten".parse::<tollgate::LimitSet>().unwrap_err();
        assert_eq!(Failure::limits(&limits).fault, Fault::Limit);
        assert!(Failure::limits(&limits).what.starts_with("limits: "));
    }

    #[test]
    fn a_cause_has_its_place_in_the_message_once() {
        let cause = std::io::Error::other("no route");
        let failure = Failure::from(&StoreError::transient("away").because(cause));
        assert_eq!(failure.what, "away: no route");
        let cause = std::io::Error::other("no route");
        let failure = Failure::from(&StoreError::transient("away: no route").because(cause));
        assert_eq!(failure.what, "away: no route");
    }

    #[test]
    fn a_store_says_whether_it_may_answer_later() {
        let failure = Failure::from(&StoreError::transient("away"));
        assert_eq!(failure.fault, Fault::Store { transient: true, ambiguous: false });
        assert!(failure.what.contains("away"), "{}", failure.what);
    }
}

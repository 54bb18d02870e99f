//! Why a question got no answer, independent of the protocol.

use tollgate::Error;

/// The problem of a question, its field, and a valid value. Each front writes it in its protocol's
/// form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) kind: Kind,
    pub(crate) detail: String,
    /// The field of the question, such as `cost`.
    pub(crate) field: Option<&'static str>,
}

/// The kind of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The question is invalid; a retry is refused again.
    Invalid,
    /// The service's settings do not allow it.
    Forbidden,
    /// It names something that does not exist.
    NotFound,
    /// It names a hold that has ended; a retry is refused again.
    Conflict,
    /// A count has as many open holds as it can have; a retry may succeed.
    Full,
    /// The service or its store cannot answer now.
    Unavailable,
}

impl Refusal {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), field: None }
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, detail)
    }

    /// The same refusal, for this field of the question.
    pub(crate) fn at(self, field: &'static str) -> Self {
        Self { field: Some(field), ..self }
    }
}

impl From<Error> for Refusal {
    /// An error of the library: an invalid question, or a store that could not answer.
    fn from(error: Error) -> Self {
        match error {
            Error::Store(error) => Self::new(Kind::Unavailable, format!("the store: {error}")),
            Error::NotOpen(what) => Self::new(Kind::Conflict, what).at("hold"),
            Error::Conflict(what) => Self::new(Kind::Conflict, what).at("id"),
            Error::TooManyHolds(what) => Self::new(Kind::Full, what),
            other => Self::invalid(other.to_string()),
        }
    }
}

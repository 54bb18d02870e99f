//! Why a question got no answer, in the words of no protocol.

use tollgate::Error;

/// What is wrong with a question, where, and what would be right. A front says it in its protocol's
/// own form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) kind: Kind,
    pub(crate) detail: String,
    /// The place in the question, as `cost`.
    pub(crate) field: Option<&'static str>,
}

/// What kind of refusal it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The question makes no sense: asked again, it is refused again.
    Invalid,
    /// This service does not allow it.
    Forbidden,
    /// It names something that is not there.
    NotFound,
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

    /// The same, about this field of the question.
    pub(crate) fn at(self, field: &'static str) -> Self {
        Self { field: Some(field), ..self }
    }
}

impl From<Error> for Refusal {
    /// What the library refuses, or why the store could not answer.
    fn from(error: Error) -> Self {
        match error {
            Error::Store(error) => Self::new(Kind::Unavailable, format!("the store: {error}")),
            other => Self::invalid(other.to_string()),
        }
    }
}

//! A field of a script's reply.

use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct Field {
    pub(super) means: String,
}

pub(super) fn field(means: impl Into<String>) -> Field {
    Field { means: means.into() }
}

//! The query string of a URI.

use std::borrow::Cow;

use http::{StatusCode, Uri};

use super::problem::Problem;
use crate::operations::Operation;

/// The statuses that may replace a denial's default one. None of them also means an invalid
/// question.
const DENY_STATUSES: [StatusCode; 3] =
    [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS];

/// The names and values, decoded.
pub(crate) struct Query<'q>(Vec<(Cow<'q, str>, Cow<'q, str>)>);

impl<'q> Query<'q> {
    pub(crate) fn new(uri: &'q Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        Self(form_urlencoded::parse(query.as_bytes()).collect())
    }

    /// Refuses names that this operation does not have, and repeated ones.
    pub(crate) fn only(self, operation: Operation) -> Result<Self, Problem> {
        let known = operation.row().query;
        for (place, (name, _)) in self.0.iter().enumerate() {
            if !known.contains(&&**name) {
                let detail = format!("`{name}` is unknown here; use {}", known.join(", "));
                return Err(Problem::bad(detail).at(&**name));
            }
            if self.0.iter().take(place).any(|(other, _)| other == name) {
                return Err(Problem::bad(format!("`{name}` comes twice")).at(&**name));
            }
        }
        Ok(self)
    }

    /// The value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// The status that replaces a denial's default one.
    pub(crate) fn deny_status(&self) -> Result<Option<StatusCode>, Problem> {
        let Some(text) = self.get("deny_status") else { return Ok(None) };
        let found = DENY_STATUSES.iter().find(|status| status.as_str() == text);
        let wrong = || {
            let detail = format!("`{text}` is not a status of a denial: 401, 403 or 429");
            Problem::bad(detail).at("deny_status")
        };
        found.copied().map(Some).ok_or_else(wrong)
    }

    /// Whether `Retry-After` also says a wait that is an upper bound.
    pub(crate) fn any_wait(&self) -> Result<bool, Problem> {
        match self.get("retry_after") {
            None | Some("exact") => Ok(false),
            Some("any") => Ok(true),
            Some(text) => {
                let detail = format!(
                    "`{text}` is neither `exact`, nor `any`, for waits that are upper bounds too"
                );
                Err(Problem::bad(detail).at("retry_after"))
            }
        }
    }

    /// How many to list: `usual` by default, at most `most`.
    pub(crate) fn number(&self, name: &str, usual: usize, most: usize) -> Result<usize, Problem> {
        let Some(text) = self.get(name) else { return Ok(usual) };
        let number = text.parse().ok().filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| Problem::bad(format!("`{text}` is not a count: 1 to {most}")).at(name))
    }

    /// Whether the readiness check includes the store.
    pub(crate) fn with_store(&self) -> Result<bool, Problem> {
        match self.get("store") {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(text) => {
                let detail = format!("`{text}` is neither 1, to ask the store too, nor 0");
                Err(Problem::bad(detail).at("store"))
            }
        }
    }

    /// Whether the figures of other instances are wanted, too.
    pub(crate) fn with_peers(&self) -> Result<bool, Problem> {
        match self.get("peers") {
            None | Some("1") => Ok(true),
            Some("0") => Ok(false),
            Some(text) => {
                let detail = format!("`{text}` is neither 0, for this instance alone, nor 1");
                Err(Problem::bad(detail).at("peers"))
            }
        }
    }

    /// All pairs.
    pub(crate) fn pairs(self) -> impl Iterator<Item = (Cow<'q, str>, Cow<'q, str>)> {
        self.0.into_iter()
    }
}

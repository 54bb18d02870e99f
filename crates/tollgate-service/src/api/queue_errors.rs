//! The errors of queues as responses.

use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER};
use tollgate_queue::Error;

use super::problem::Problem;
use crate::http::Reply;

/// `Retry-After`, in seconds, while the store is unavailable.
const AWAY_SECONDS: u64 = 1;

/// The text added to an error of a request that changes nothing.
pub(super) const NO_DOUBT: &str = "";

/// The error response of a queue that could not serve a request, with `Retry-After`.
pub(super) fn failed(error: &Error, in_doubt: &str) -> Reply {
    let problem = of_queue(error, in_doubt);
    let is_away = problem.status() == StatusCode::SERVICE_UNAVAILABLE;
    let mut response = problem.response();
    if is_away {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(AWAY_SECONDS));
    }
    response
}

/// Maps a queue's error to a response. `in_doubt` is the note for an unknown outcome.
pub(super) fn of_queue(error: &Error, in_doubt: &str) -> Problem {
    match error {
        Error::Invalid(what) => Problem::bad(what.clone()),
        // A permanent error: an operator has to set equal settings in both places.
        Error::Settings { .. } => {
            tracing::error!(target: "tollgate", "{error}");
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
        }
        Error::Store(error) if error.is_ambiguous() => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("the queue: {error}{in_doubt}"))
        }
        error => Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("the queue: {error}")),
    }
}

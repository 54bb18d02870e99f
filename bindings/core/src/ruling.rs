//! The ruling of policies on a request.

use bytes::Bytes;
use http::Response;

use crate::http::{Refusal, pairs};
use crate::warnings;

/// The treatment of a request.
#[derive(Debug)]
pub struct Ruling {
    /// The headers for the response of a request that passes.
    pub headers: Vec<(String, String)>,
    /// The response of one that does not.
    pub refusal: Option<Refusal>,
    /// Warnings for the log of the program.
    pub warnings: Vec<String>,
}

/// Marks the response of a request that passes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed;

impl Ruling {
    /// That on a request of which no HTTP can be made.
    pub(crate) fn unreadable(what: &str) -> Self {
        let refusal = Refusal::bad_request(what);
        Self { headers: Vec::new(), refusal: Some(refusal), warnings: warnings::take() }
    }
}

impl From<Response<Bytes>> for Ruling {
    fn from(response: Response<Bytes>) -> Self {
        let warnings = warnings::take();
        match response.extensions().get::<Passed>() {
            Some(Passed) => Self { headers: pairs(response.headers()), refusal: None, warnings },
            None => Self { headers: Vec::new(), refusal: Some(response.into()), warnings },
        }
    }
}

//! Headers and refusals, as JavaScript takes them.

use core::time::Duration;

use http::HeaderMap;
use napi_derive::napi;
use tollgate_binding::Limiter;
use tollgate_tower::answer::{Answers, Wire};

use crate::decision::Made;
use crate::error::{self, Result};
use crate::handles::Handled as _;

/// A response: its status, headers and body.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The status.
    pub status: u32,
    /// Pairs of a name and a value, in the order in which they are written.
    pub headers: Vec<Vec<String>>,
    /// The body, which is text.
    pub body: String,
}

impl From<tollgate_binding::Refusal> for Refusal {
    fn from(
        tollgate_binding::Refusal { status, headers, body }: tollgate_binding::Refusal,
    ) -> Self {
        Self {
            status: u32::from(status),
            headers: pairs(headers),
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }
}

fn pairs(headers: Vec<(String, String)>) -> Vec<Vec<String>> {
    headers.into_iter().map(|(name, value)| vec![name, value]).collect()
}

fn answers(profile: &str) -> Result<Answers> {
    tollgate_binding::answers(profile).map_err(error::raised)
}

/// The headers of a response to a request that a decision was made for.
#[napi(catch_unwind)]
pub(crate) fn headers(made: Made, profile: String) -> Result<Vec<Vec<String>>> {
    let answers = answers(&profile)?;
    made.with(|limiter, decision| {
        let mut map = HeaderMap::new();
        answers.mark(&mut map, &[&limiter.template], decision);
        pairs(tollgate_binding::pairs(&map))
    })
}

/// The response to a denied request; none if it was admitted.
#[napi(catch_unwind)]
pub(crate) fn refusal(made: Made, profile: String) -> Result<Option<Refusal>> {
    let answers = answers(&profile)?;
    made.with(|limiter, decision| {
        let refused = answers.refused(Wire::Http, &[&limiter.template], decision);
        refused.map(|it| tollgate_binding::Refusal::from(it).into())
    })
}

/// The response where the store could not answer. The wait is in seconds.
#[napi(catch_unwind)]
pub(crate) fn unavailable(limiter: u32, retry_after: f64) -> Result<Refusal> {
    let limiter = Limiter::find(limiter)?;
    let wait = Duration::try_from_secs_f64(retry_after).unwrap_or_default();
    let response = answers("draft")?.unavailable(Wire::Http, &[&limiter.name], wait);
    Ok(tollgate_binding::Refusal::from(response).into())
}

/// The subject of a client by the address of its connection.
#[napi(catch_unwind)]
pub(crate) fn client_subject(address: String) -> Result<String> {
    tollgate_binding::client_subject(&address).map_err(error::raised)
}

/// The version of the package.
#[napi(catch_unwind)]
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

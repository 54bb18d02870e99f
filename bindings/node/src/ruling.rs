//! The ruling of policies, as JavaScript sees it.

use napi_derive::napi;
use tollgate_binding::Ruling;

use crate::response::{Refusal, pairs};

/// The treatment of a request.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub(crate) struct PolicyRuling {
    /// The headers for the response of a request that passes.
    pub headers: Vec<Vec<String>>,
    /// The response of one that does not.
    pub refusal: Option<Refusal>,
    /// Warnings for the log.
    pub warnings: Vec<String>,
}

impl From<Ruling> for PolicyRuling {
    fn from(Ruling { headers, refusal, warnings }: Ruling) -> Self {
        Self { headers: pairs(headers), refusal: refusal.map(Refusal::from), warnings }
    }
}

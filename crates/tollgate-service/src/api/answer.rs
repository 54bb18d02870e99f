//! The responses of the HTTP API.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

use crate::http::Reply;

/// More bytes than an answer with one limit needs, so that it is written without reallocation.
const USUAL_BYTES: usize = 768;

/// A 200 response with this value as JSON.
pub(super) fn json(value: &impl Serialize) -> Response<Full<Bytes>> {
    // Serialization cannot fail: all keys are strings, and no number is outside of JSON.
    let mut body = Vec::with_capacity(USUAL_BYTES);
    let _ = serde_json::to_writer(&mut body, value);
    let mut response = Response::new(Full::new(Bytes::from(body)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// An answer in JSON, or an error in words.
pub(super) fn reply((status, body): (StatusCode, Bytes)) -> Reply {
    let is_answer = matches!(status, StatusCode::OK | StatusCode::TOO_MANY_REQUESTS);
    let kind = if is_answer { "application/json" } else { "text/plain; charset=utf-8" };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A 200 response with this text.
pub(super) fn text(kind: &'static str, text: &'static str) -> Reply {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    no_sniff(response.headers_mut());
    response
}

/// A reply that no cache keeps.
pub(super) fn no_store(mut reply: Reply) -> Reply {
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// A browser takes an answer for what its type says. Decisions are left alone: programs read them.
pub(super) fn no_sniff(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

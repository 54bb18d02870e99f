//! Tokens that requests bring, and requests that web pages send.

use hmac::{Hmac, KeyInit as _, Mac as _};
use http::header::{AUTHORIZATION, HeaderName, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use sha2::Sha256;

use super::Reply;
use super::problem::Problem;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The fewest bytes of a token.
pub(crate) const MIN_TOKEN_BYTES: usize = 16;

/// Whether a page in a browser sent this. It can send questions to loopback, and a browser says
/// that it was a page; nobody else sends these headers.
pub(super) fn is_of_a_page(headers: &HeaderMap) -> bool {
    [ORIGIN, SEC_FETCH_SITE].iter().any(|name| headers.contains_key(name))
}

/// Whether a request brings this token: compared by keyed hashes, so that time tells nothing.
pub(super) fn brings(token: &str, headers: &HeaderMap) -> bool {
    let mut said = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (said.next(), said.next()) else { return false };
    let Some((scheme, said)) = value.to_str().ok().and_then(|text| text.split_once(' ')) else {
        return false;
    };
    let Ok(key) = Hmac::<Sha256>::new_from_slice(token.as_bytes()) else { return false };
    let [mut mine, mut theirs] = [key.clone(), key];
    mine.update(token.as_bytes());
    theirs.update(said.trim_start().as_bytes());
    let mine = mine.finalize().into_bytes();
    scheme.eq_ignore_ascii_case("bearer") && theirs.verify_slice(&mine).is_ok()
}

/// 401: the token of this variable is missing, or is another one.
pub(super) fn missing(variable: &str) -> Reply {
    let detail = format!("this takes `Authorization: Bearer TOKEN`, the token of {variable}");
    let mut response = Problem::new(StatusCode::UNAUTHORIZED, detail).response();
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

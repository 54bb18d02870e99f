//! Checks that every request must pass, and its body.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, HOST, HeaderValue, TRANSFER_ENCODING};
use http::uri::Authority;
use http::{Method, Request, StatusCode, Version};

use super::problem::Problem;
use crate::http::{BodyError, MAX_BODY_BYTES, Whole};

/// Whether a request only reads.
pub(super) fn is_read<B>(request: &Request<B>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
}

/// Refuses requests that a proxy in front may interpret differently.
pub(super) fn strict(request: &Request<Whole>) -> Result<(), Problem> {
    one_host(request)?;
    match request.headers().get(TRANSFER_ENCODING) {
        Some(coding) if !coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Err(Problem::new(
            StatusCode::NOT_IMPLEMENTED,
            "`Transfer-Encoding` is `chunked` here, or not there: no other coding is read",
        )),
        _ => Ok(()),
    }
}

/// Refuses a request with no `Host`, with two, or with an invalid one: a proxy in front may have
/// used another (RFC 9112, section 3.2).
fn one_host(request: &Request<Whole>) -> Result<(), Problem> {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.count()) {
        (Some(host), 0) if is_host(host) => Ok(()),
        (Some(_), 0) => Err(Problem::bad("invalid `Host` header: expected NAME or ADDRESS[:PORT]")),
        (None, _) if request.version() < Version::HTTP_11 => Ok(()),
        (None, _) => Err(Problem::bad("a request of HTTP/1.1 needs a `Host` header")),
        (Some(_), more) => {
            Err(Problem::bad(format!("a request has one `Host`, and this has {}", more + 1)))
        }
    }
}

/// Whether the value is `uri-host [":" port]`, or empty, which means that there is no host.
fn is_host(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    // The fast path for nearly all hosts: parsing an authority allocates.
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let name = bytes.iter().take_while(|byte| is_plain(byte)).count();
    match bytes.split_at(name) {
        (_, []) => return true,
        ([_, ..], [b':', port @ ..]) if port.iter().all(u8::is_ascii_digit) => return true,
        _ => {}
    }
    let Ok(authority) = Authority::try_from(value.as_bytes()) else { return false };
    let (text, host) = (authority.as_str(), authority.host());
    let port = text.strip_prefix(host).map(|port| port.strip_prefix(':').unwrap_or(port));
    !host.is_empty() && port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The body of a question.
pub(super) fn body_of(request: Request<Whole>) -> Result<Bytes, Problem> {
    let mut encodings = request.headers().get_all(CONTENT_ENCODING).iter();
    if let Some(other) = encodings.find(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        let shown = String::from_utf8_lossy(other.as_bytes());
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("the body is encoded ({shown}), and is read as it is: send plain JSON"),
        ));
    }
    request.into_body().map_err(|error| match error {
        BodyError::TooLarge => Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("a body has at most {MAX_BODY_BYTES} bytes: ask in several requests"),
        ),
        BodyError::Broken => Problem::bad("the body ended before its end"),
        BodyError::NoRoom => Problem::no_room(),
    })
}

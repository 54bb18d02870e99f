//! Headers and refusals, as all fronts of Tollgate write them.

use core::time::Duration;
use std::time::SystemTime;

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tollgate_tower::answer::{Answers, Profile, Reset};

use crate::{Failure, Result};

/// A response: its status, headers and body.
#[derive(Debug)]
pub struct Refusal {
    /// The status.
    pub status: u16,
    /// The headers, in the order in which they are written.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Refusal {
    /// The response to a request of which nothing can be made, or whose key or cost is invalid. The
    /// client learns no more than that.
    #[must_use]
    pub fn bad_request(detail: &str) -> Self {
        let body = serde_json::json!({
            "type": "about:blank", "title": "Bad Request", "status": 400, "detail": detail,
        });
        let headers = [("content-type", "application/problem+json"), ("cache-control", "no-store")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self { status: 400, headers: headers.into(), body: body.to_string().into_bytes() }
    }

    /// The same where a program cannot tell whose request it is, or its cost.
    #[must_use]
    pub fn unidentified() -> Self {
        Self::bad_request("The key or the cost of this request is invalid.")
    }
}

impl<B: AsRef<[u8]>> From<Response<B>> for Refusal {
    fn from(response: Response<B>) -> Self {
        let (parts, body) = response.into_parts();
        Self {
            status: parts.status.as_u16(),
            headers: pairs(&parts.headers),
            body: body.as_ref().to_vec(),
        }
    }
}

/// The answers of a profile.
///
/// # Errors
/// There is no such profile.
pub(crate) fn answers(name: &str) -> Result<Answers> {
    profile(name).map(Answers::new)
}

/// A profile by its name.
pub(crate) fn profile(name: &str) -> Result<Profile> {
    Ok(match name {
        "draft" => Profile::Draft,
        "legacy" => Profile::Legacy(Reset::Delta),
        "both" => Profile::Both(Reset::Delta),
        "none" => Profile::None,
        other => {
            let shown: String = other.chars().take(40).collect();
            return Err(Failure::argument(format!(
                "headers is {shown:?}: give \"draft\", \"legacy\", \"both\" or \"none\""
            )));
        }
    })
}

/// Headers as pairs. All of them are ASCII.
pub(crate) fn pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

/// The wait that a response of somebody else's limiter asks for. Lines that are no header do not
/// count.
pub fn wait_of<'h>(
    status: u16,
    lines: impl Iterator<Item = (&'h [u8], &'h [u8])>,
) -> Option<Duration> {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            headers.append(name, value);
        }
    }
    tollgate_tower::answer::wait_of(StatusCode::from_u16(status).ok()?, &headers, SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_read_from_lines() {
        let lines: [(&[u8], &[u8]); 3] =
            [(b"Retry-After", b"7"), (b"no name", b"x"), (b"x", b"\n")];
        assert_eq!(wait_of(429, lines.into_iter()), Some(Duration::from_secs(7)));
        assert_eq!(wait_of(7, lines.into_iter()), None);
    }

    #[test]
    fn a_profile_is_one_of_four() {
        for name in ["draft", "legacy", "both", "none"] {
            assert!(answers(name).is_ok(), "{name}");
        }
        assert!(answers("all").unwrap_err().what.starts_with("headers is \"all\": give "));
    }
}

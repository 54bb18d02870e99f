//! Headers and refusals, as all fronts of Tollgate write them.

use http::{HeaderMap, Response};
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
pub fn answers(profile: &str) -> Result<Answers> {
    Ok(Answers::new(match profile {
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
    }))
}

/// Headers as pairs. All of them are ASCII.
pub fn pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_one_of_four() {
        for name in ["draft", "legacy", "both", "none"] {
            assert!(answers(name).is_ok(), "{name}");
        }
        assert!(answers("all").unwrap_err().what.starts_with("headers is \"all\": give "));
    }
}

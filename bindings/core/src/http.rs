//! Headers and refusals, as all fronts of Tollgate write them.

use core::net::IpAddr;

use http::{HeaderMap, Response};
use tollgate_tower::answer::{Answers, Profile, Reset};
use tollgate_tower::identity::ClientAddress;

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

/// The subject of a client by the address of its connection: `ip:192.0.2.7`. Of an IPv6 address it
/// is the network of 64 bits, since one customer has as many addresses of it as it likes.
///
/// # Errors
/// It is not an address.
pub fn client_subject(address: &str) -> Result<String> {
    // A zone (`fe80::1%eth0`) tells no clients apart.
    let host = address.split_once('%').map_or(address, |(host, _)| host);
    let ip: IpAddr = host.parse().map_err(|_| {
        let shown: String = address.chars().take(60).collect();
        Failure::argument(format!("address is {shown:?}: give an IPv4 or IPv6 address"))
    })?;
    let client = ClientAddress::peer().client(ip, &HeaderMap::new());
    Ok(format!("ip:{}", client.text()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_that_of_a_client() {
        assert_eq!(client_subject("192.0.2.7").unwrap(), "ip:192.0.2.7");
        assert_eq!(client_subject("fe80::1%eth0"), client_subject("fe80::2"));
        assert!(client_subject("localhost").unwrap_err().what.starts_with("address is "));
    }

    #[test]
    fn a_profile_is_one_of_four() {
        for name in ["draft", "legacy", "both", "none"] {
            assert!(answers(name).is_ok(), "{name}");
        }
        assert!(answers("all").unwrap_err().what.starts_with("headers is \"all\": give "));
    }
}

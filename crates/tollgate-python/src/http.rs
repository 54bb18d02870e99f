//! Headers and refusals, as all fronts of Tollgate write them.

use core::net::IpAddr;

use http::{HeaderMap, Response};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tollgate_tower::answer::{Answers, Profile, Reset};
use tollgate_tower::identity::ClientAddress;

use crate::argument::{AddressText, ProfileText};
use crate::error;

/// Headers, in the order in which they are written.
pub(crate) type Headers = Vec<(String, String)>;

/// A response: its status, headers and body.
pub(crate) type Refusal<'py> = (u16, Headers, Bound<'py, PyBytes>);

/// The answers of a profile.
pub(crate) fn answers(py: Python<'_>, profile: ProfileText<'_>) -> PyResult<Answers> {
    Ok(Answers::new(match profile.0 {
        "draft" => Profile::Draft,
        "legacy" => Profile::Legacy(Reset::Delta),
        "both" => Profile::Both(Reset::Delta),
        "none" => Profile::None,
        other => {
            let shown: String = other.chars().take(40).collect();
            return Err(error::argument(
                py,
                format!("headers is {shown:?}: give \"draft\", \"legacy\", \"both\" or \"none\""),
            ));
        }
    }))
}

/// Headers as pairs. All of them are ASCII.
pub(crate) fn pairs(headers: &HeaderMap) -> Headers {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

/// A response as Python takes it.
pub(crate) fn refusal<B: AsRef<[u8]>>(py: Python<'_>, response: Response<B>) -> Refusal<'_> {
    let (parts, body) = response.into_parts();
    (parts.status.as_u16(), pairs(&parts.headers), PyBytes::new(py, body.as_ref()))
}

/// The subject of a client by the address of its connection: `ip:192.0.2.7`, and the network of 64
/// bits of an IPv6 address, of which one customer has as many as it likes.
#[pyfunction]
pub(crate) fn client_subject(py: Python<'_>, address: AddressText<'_>) -> PyResult<String> {
    // A zone (`fe80::1%eth0`) tells no clients apart.
    let host = address.0.split_once('%').map_or(address.0, |(host, _)| host);
    let ip: IpAddr = host.parse().map_err(|_| {
        let shown: String = address.0.chars().take(60).collect();
        error::argument(py, format!("address is {shown:?}: give an IPv4 or IPv6 address"))
    })?;
    let client = ClientAddress::peer().client(ip, &HeaderMap::new());
    Ok(format!("ip:{}", client.text()))
}

//! Headers and refusals, as all fronts of Tollgate write them.

use core::net::IpAddr;
use core::time::Duration;

use http::{HeaderMap, Response};
use napi_derive::napi;
use tollgate_tower::answer::{Answers, Profile, Reset, Wire};
use tollgate_tower::identity::ClientAddress;

use crate::decision::Made;
use crate::error::{self, Result};
use crate::handles::Handled as _;
use crate::limiter::Limiter;

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

fn answers(profile: &str) -> Result<Answers> {
    Ok(Answers::new(match profile {
        "draft" => Profile::Draft,
        "legacy" => Profile::Legacy(Reset::Delta),
        "both" => Profile::Both(Reset::Delta),
        "none" => Profile::None,
        other => {
            let shown: String = other.chars().take(40).collect();
            return Err(error::argument(format!(
                "headers is {shown:?}: give \"draft\", \"legacy\", \"both\" or \"none\""
            )));
        }
    }))
}

/// Headers as pairs. All of them are ASCII.
fn pairs(headers: &HeaderMap) -> Vec<Vec<String>> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| vec![name.as_str().to_owned(), text(value)]).collect()
}

fn response<B: AsRef<[u8]>>(response: Response<B>) -> Refusal {
    let (parts, body) = response.into_parts();
    Refusal {
        status: u32::from(parts.status.as_u16()),
        headers: pairs(&parts.headers),
        body: String::from_utf8_lossy(body.as_ref()).into_owned(),
    }
}

/// The headers of a response to a request that a decision was made for.
#[napi(catch_unwind)]
pub(crate) fn headers(made: Made, profile: String) -> Result<Vec<Vec<String>>> {
    let answers = answers(&profile)?;
    made.with(|limiter, decision| {
        let mut map = HeaderMap::new();
        answers.mark(&mut map, &[&limiter.template], decision);
        pairs(&map)
    })
}

/// The response to a denied request; none if it was admitted.
#[napi(catch_unwind)]
pub(crate) fn refusal(made: Made, profile: String) -> Result<Option<Refusal>> {
    let answers = answers(&profile)?;
    made.with(|limiter, decision| {
        answers.refused(Wire::Http, &[&limiter.template], decision).map(response)
    })
}

/// The response where the store could not answer. The wait is in seconds.
#[napi(catch_unwind)]
pub(crate) fn unavailable(limiter: u32, retry_after: f64) -> Result<Refusal> {
    let limiter = Limiter::find(limiter)?;
    let wait = Duration::try_from_secs_f64(retry_after).unwrap_or_default();
    Ok(response(answers("draft")?.unavailable(Wire::Http, &[&limiter.name], wait)))
}

/// The subject of a client by the address of its connection: `ip:192.0.2.7`, and the network of 64
/// bits of an IPv6 address, of which one customer has as many as it likes.
#[napi(catch_unwind)]
pub(crate) fn client_subject(address: String) -> Result<String> {
    // A zone (`fe80::1%eth0`) tells no clients apart.
    let host = address.split_once('%').map_or(address.as_str(), |(host, _)| host);
    let ip: IpAddr = host.parse().map_err(|_| {
        let shown: String = address.chars().take(60).collect();
        error::argument(format!("address is {shown:?}: give an IPv4 or IPv6 address"))
    })?;
    let client = ClientAddress::peer().client(ip, &HeaderMap::new());
    Ok(format!("ip:{}", client.text()))
}

/// The version of the package.
#[napi(catch_unwind)]
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

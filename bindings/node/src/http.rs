//! Headers and refusals, as JavaScript takes them.

use core::time::Duration;

use napi_derive::napi;
use tollgate_binding::{Clients, Limiter};

use crate::decision::Made;
use crate::error::{self, Result};
use crate::handles::Handled;
use crate::numbers::whole;
use crate::response::{Refusal, lines, pairs};

/// The headers of a response to a request that a decision was made for.
#[napi(catch_unwind)]
pub(crate) fn headers(made: Made, profile: String) -> Result<Vec<Vec<String>>> {
    let headers = made.with(|limiter, decision| limiter.headers(decision, &profile))?;
    Ok(pairs(headers.map_err(error::raised)?))
}

/// The response to a denied request; none if it was admitted.
#[napi(catch_unwind)]
pub(crate) fn refusal(made: Made, profile: String) -> Result<Option<Refusal>> {
    let refusal = made.with(|limiter, decision| limiter.refusal(decision, &profile))?;
    Ok(refusal.map_err(error::raised)?.map(Refusal::from))
}

/// The response where the store could not answer. The wait is in seconds.
#[napi(catch_unwind)]
pub(crate) fn unavailable(limiter: u32, retry_after: f64) -> Result<Refusal> {
    let wait = Duration::try_from_secs_f64(retry_after).unwrap_or_default();
    Ok(Limiter::find(limiter)?.unavailable(wait).into())
}

/// The response to a request whose key or cost is invalid.
#[napi(catch_unwind)]
pub(crate) fn unidentified() -> Refusal {
    tollgate_binding::Refusal::unidentified().into()
}

/// The seconds that a response of another limiter asks to wait; none where it asks for none.
#[napi(catch_unwind)]
pub(crate) fn wait_of(status: u32, headers: Vec<Vec<String>>) -> Option<f64> {
    let status = u16::try_from(status).ok()?;
    tollgate_binding::wait_of(status, lines(&headers)).map(|wait| wait.as_secs_f64())
}

/// How the client of a request is found, as JavaScript writes it.
#[napi(object, object_to_js = false)]
#[derive(Debug)]
pub(crate) struct ClientOptions {
    /// The networks of proxies.
    pub proxies: Option<String>,
    /// The number of proxies.
    pub hops: Option<f64>,
    /// The header that they write.
    pub header: Option<String>,
    /// The bits of an IPv6 address that tell clients apart.
    pub ipv6_prefix: Option<f64>,
}

/// The client of a request.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub(crate) struct FoundClient {
    /// Its subject; none where it has no address.
    pub subject: Option<String>,
    /// A likely mistake, the first time that it is met.
    pub warning: Option<String>,
}

/// The number of a way to find clients.
#[napi(catch_unwind)]
pub(crate) fn clients(options: ClientOptions) -> Result<u32> {
    let ClientOptions { proxies, hops, header, ipv6_prefix } = &options;
    let options = tollgate_binding::ClientOptions {
        proxies: proxies.as_deref(),
        hops: hops.map(whole),
        header: header.as_deref(),
        ipv6_prefix: ipv6_prefix.map(whole),
    };
    Ok(Clients::new(&options).map_err(error::raised)?.put())
}

/// The names of the headers that `find_client` has to see, in small letters.
#[napi(catch_unwind)]
pub(crate) fn client_headers(clients: u32) -> Result<Vec<String>> {
    let clients = <Clients as Handled>::find(clients)?;
    Ok(clients.headers().iter().map(ToString::to_string).collect())
}

/// The client of a request; each header is a name and a line.
#[napi(catch_unwind)]
pub(crate) fn find_client(
    clients: u32,
    peer: Option<String>,
    headers: Vec<Vec<String>>,
) -> Result<FoundClient> {
    let clients = <Clients as Handled>::find(clients)?;
    let found = clients.find(peer.as_deref(), lines(&headers));
    let tollgate_binding::FoundClient { subject, warning } = found;
    Ok(FoundClient { subject, warning })
}

/// Forgets a way to find clients that nobody has any more.
#[napi(catch_unwind)]
pub(crate) fn forget_clients(clients: u32) {
    Clients::forget(clients);
}

/// The version of the package.
#[napi(catch_unwind)]
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

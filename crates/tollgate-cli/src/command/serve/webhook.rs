//! The webhook that receives thresholds, over HTTP.

use core::fmt;
use core::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use bytes::Bytes;
use http::{Request, Uri};
use opentelemetry_http::HttpClient;
use tollgate_service::{Address, Options, Posted, Webhook, WebhookClient};

use super::traces::client;
use crate::input::secret;

/// The variable with the secret.
const SECRET: &str = "TOLLGATE_WEBHOOK_SECRET";

/// The receiver at this URL, for a service with these options.
pub(super) fn webhook(url: Option<&str>, options: &Options) -> Result<Option<Arc<Webhook>>> {
    let Some(url) = url.filter(|url| !url.is_empty()) else { return Ok(None) };
    let wanted = "give the URL of a receiver, e.g. https://hooks.example/limits";
    if url.contains('@') {
        bail!("--webhook: a URL with a user or a password is not accepted; reports are signed");
    }
    let parsed: Uri = url.parse().map_err(|error| anyhow!("--webhook {url}: {error}; {wanted}"))?;
    match parsed.scheme_str() {
        Some("http" | "https") => {}
        Some(other) => bail!("--webhook {url}: `{other}` is neither http nor https; {wanted}"),
        None => bail!("--webhook {url}: it does not begin with http:// or https://; {wanted}"),
    }
    if is_own(&parsed, options) {
        bail!("--webhook {url}: the service itself listens there; {wanted}");
    }
    let Some(secret) = secret(SECRET)? else {
        bail!(
            "--webhook needs a secret that signs what it sends: set {SECRET} to 16 bytes or more"
        );
    };
    let sender = Sender(client(url).context("--webhook")?);
    let webhook = Webhook::new(parsed, &secret, Arc::new(sender)).context(SECRET)?;
    Ok(Some(Arc::new(webhook)))
}

/// Whether the service listens at the address of a URL, as far as its text says.
fn is_own(url: &Uri, options: &Options) -> bool {
    let usual = if url.scheme_str() == Some("https") { 443 } else { 80 };
    let port = url.port_u16().unwrap_or(usual);
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    let host = match host {
        "localhost" => Some(IpAddr::from([127, 0, 0, 1])),
        text => text.parse().ok(),
    };
    let Some(host) = host else { return false };
    let own = options.listen.iter().chain(&options.grpc).chain(&options.admin);
    let sockets = own.flat_map(|address| match address {
        Address::Tcp(sockets) => sockets.as_slice(),
        _ => &[],
    });
    sockets.into_iter().any(|own| {
        let is_any = own.ip().is_unspecified() && host.is_loopback();
        own.port() == port && port != 0 && (own.ip() == host || is_any)
    })
}

struct Sender(Arc<dyn HttpClient>);

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl WebhookClient for Sender {
    fn post(&self, request: Request<Bytes>) -> Posted<'_> {
        Box::pin(async move {
            let answer = self.0.send_bytes(request).await;
            answer.map(|answer| answer.status()).map_err(|error| super::traces::reason(&*error))
        })
    }
}

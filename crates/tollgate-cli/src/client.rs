//! One HTTP request to a running service, at an address as `serve` prints it.

use core::time::Duration;
use std::net::IpAddr;

use anyhow::{Context as _, Result, anyhow, bail};
use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::crypto::ring;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tollgate_service::Address;

use crate::input::shown;
use crate::show::duration;

/// Which of the addresses of a service a command needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// The name of the line in which `serve` prints it.
    pub(crate) line: &'static str,
    /// The usual address.
    pub(crate) example: &'static str,
}

/// A running service.
#[derive(Debug)]
pub(crate) struct Service {
    address: Address,
    /// The host and the port, if it is asked over TLS.
    tls: Option<String>,
    wanted: Wanted,
}

impl Service {
    /// The service at an address: `HOST:PORT`, `http://HOST:PORT`, `https://HOST:PORT` with a
    /// certificate that this machine trusts, each also with `/console`, or `unix:/PATH`.
    ///
    /// # Errors
    /// The text is no such address, or one of another protocol.
    pub(crate) fn parse(text: &str, wanted: Wanted) -> Result<Self> {
        let Wanted { line, example } = wanted;
        let wrong = || {
            anyhow!(
                "`{}` is not an address: write HOST:PORT, e.g. `{example}`, or \
                 `unix:/PATH`, as `serve` prints it after `{line}`",
                shown(text)
            )
        };
        let (scheme, place) = text.split_once("://").unwrap_or(("http", text));
        let (is_tls, place) = match scheme {
            "http" | "https" => {
                let place = place.trim_end_matches('/');
                (scheme == "https", place.strip_suffix("/console").unwrap_or(place))
            }
            "unix" => (false, text),
            "redis" | "rediss" => bail!("{}", other_protocol(text, "the Redis protocol", line)),
            "grpc" | "grpcs" => bail!("{}", other_protocol(text, "gRPC", line)),
            _ => return Err(wrong()),
        };
        let address: Address = place.parse().map_err(|_| wrong())?;
        Ok(Self { address, tls: is_tls.then(|| place.to_owned()), wanted })
    }

    /// Sends a request on a new connection, and waits this long for the answer.
    ///
    /// # Errors
    /// The connection fails, no answer arrives in time, or it is not HTTP.
    pub(crate) fn ask(
        &self,
        request: Request<Full<Bytes>>,
        within: Duration,
    ) -> Result<Response<Bytes>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("no runtime can be started")?;
        runtime.block_on(async {
            let late = |_| anyhow!("no answer came within {}", duration(within));
            tokio::time::timeout(within, self.answer(request)).await.map_err(late).flatten()
        })
    }

    async fn answer(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>> {
        if let Some(place) = &self.tls {
            return over_tls(place, request).await;
        }
        let answer = match &self.address {
            Address::Unix(path) => send(UnixStream::connect(path).await?, request).await,
            Address::Tcp(found) => send(TcpStream::connect(&**found).await?, request).await,
            _ => bail!("systemd passes it to the service alone: give the address of the socket"),
        };
        let Err(error) = answer else { return answer };
        // A listener of another protocol closes the connection, and says nothing that is HTTP.
        let protocol = match &self.address {
            Address::Unix(path) => protocol(UnixStream::connect(path).await?).await,
            Address::Tcp(found) => protocol(TcpStream::connect(&**found).await?).await,
            _ => None,
        };
        Err(match protocol {
            Some("TLS") => anyhow!("it is asked over TLS: write `https://` before it"),
            Some(protocol) => {
                anyhow!(other_protocol(&self.address.to_string(), protocol, self.wanted.line))
            }
            None => error,
        })
    }
}

fn other_protocol(text: &str, protocol: &str, line: &str) -> String {
    format!(
        "`{}` is an address for {protocol}: give the one that `serve` prints after `{line}`",
        shown(text)
    )
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Response<Bytes>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let (head, body) = sender.send_request(request).await?.into_parts();
    Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
}

/// Connects over TLS alone, to servers whose certificates the system trusts.
pub(crate) fn over_https() -> Result<HttpsConnector<HttpConnector>> {
    let builder = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(ring::default_provider())
        .context("there is no trusted certificate authority: install `ca-certificates`")?;
    Ok(builder.https_only().enable_http1().build())
}

async fn over_tls(place: &str, request: Request<Full<Bytes>>) -> Result<Response<Bytes>> {
    let client = Client::builder(TokioExecutor::new()).build(over_https()?);
    let (mut head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let url: Uri = format!("https://{}{path}", reachable(place)).parse()?;
    head.uri = url;
    let (head, body) = client.request(Request::from_parts(head, body)).await?.into_parts();
    Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
}

/// A service that listens on all addresses of the machine is asked at its own: no certificate is
/// for `0.0.0.0`.
fn reachable(place: &str) -> String {
    let (host, port) = place.rsplit_once(':').unwrap_or((place, "443"));
    let ip: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    let is_any = host.is_empty() || ip.is_some_and(|ip| ip.is_unspecified());
    if is_any { format!("localhost:{port}") } else { place.to_owned() }
}

/// The protocol of a listener that does not answer in HTTP, by its first bytes.
async fn protocol(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Option<&'static str> {
    stream.write_all(b"PING\r\n\r\n").await.ok()?;
    let mut start = [0; 4];
    stream.read_exact(&mut start).await.ok()?;
    match start {
        [b'-' | b'+', ..] => Some("the Redis protocol"),
        // The settings with which HTTP/2 begins.
        [_, _, _, 4] => Some("gRPC"),
        // An alert.
        [21, 3, ..] => Some("TLS"),
        _ => None,
    }
}

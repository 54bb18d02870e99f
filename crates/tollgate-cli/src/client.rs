//! One HTTP request to a running service.

use core::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tollgate_server::Address;

use crate::show::duration;

/// Sends a request on a new connection, and waits this long for the answer.
///
/// # Errors
/// The connection fails, no answer arrives in time, or it is not HTTP.
pub(crate) fn ask(
    address: &Address,
    request: Request<Full<Bytes>>,
    within: Duration,
) -> Result<Response<Bytes>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime can be started")?;
    runtime.block_on(async {
        let asked = async {
            match address {
                Address::Unix(path) => send(UnixStream::connect(path).await?, request).await,
                Address::Tcp(found) => send(TcpStream::connect(&**found).await?, request).await,
                _ => Err(anyhow!("it is neither an address of a network nor a socket")),
            }
        };
        let late = |_| anyhow!("no answer came within {}", duration(within));
        tokio::time::timeout(within, asked).await.map_err(late).flatten()
    })
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

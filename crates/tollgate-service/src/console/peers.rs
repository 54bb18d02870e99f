//! Other instances beside this one: their figures in short, asked at their admin listeners.

use core::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::Request;
use http::header::{AUTHORIZATION, HOST, HeaderValue};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::listen::Address;

/// How long an instance may take: the console waits for the slowest.
const PATIENCE: Duration = Duration::from_secs(1);

/// The most bytes of an answer: 256 limits with an hour of minutes have a quarter of that.
const MAX_BYTES: usize = 4 << 20;

/// The figures of an instance alone: instances that show one another would ask without an end.
const PATH: &str = "/v1/admin/overview?peers=0";

/// The other instances, and the token that they and this one want.
#[derive(Clone, Default)]
pub(crate) struct Peers {
    addresses: Vec<Address>,
    token: Option<String>,
}

impl core::fmt::Debug for Peers {
    /// Without the token.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Peers").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Peers {
    pub(crate) fn new(addresses: Vec<Address>, token: Option<String>) -> Self {
        Self { addresses, token }
    }

    /// Whether there are no others.
    pub(super) fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// This instance in short, and then the others, asked at the same time.
    pub(super) async fn beside(&self, own: &Value) -> Vec<Value> {
        let others = self.addresses.iter().map(async |address| {
            let answer = match tokio::time::timeout(PATIENCE, self.ask(address)).await {
                Ok(answer) => answer,
                Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
            };
            match answer {
                Ok(figures) => short(&address.to_string(), &figures),
                Err(error) => json!({ "at": address.to_string(), "error": error }),
            }
        });
        let mut all = vec![short("this instance", own)];
        all.extend(join_all(others).await);
        all
    }

    async fn ask(&self, address: &Address) -> Result<Value, String> {
        let failed = |error: std::io::Error| error.to_string();
        match address {
            Address::Unix(path) => {
                self.send(UnixStream::connect(path).await.map_err(failed)?, "localhost").await
            }
            Address::Tcp(found) => {
                let stream = TcpStream::connect(&**found).await.map_err(failed)?;
                let host = stream.peer_addr().map_err(failed)?.to_string();
                self.send(stream, &host).await
            }
            Address::Systemd(_) => Err("systemd opens sockets here, and asks nobody".to_owned()),
        }
    }

    async fn send(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        host: &str,
    ) -> Result<Value, String> {
        let mut request = Request::get(PATH).header(HOST, host);
        if let Some(token) = &self.token {
            let bearer = HeaderValue::from_str(&format!("Bearer {token}"));
            let mut bearer = bearer.map_err(|_| "the token is no header".to_owned())?;
            bearer.set_sensitive(true);
            request = request.header(AUTHORIZATION, bearer);
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
        let failed = |error: hyper::Error| error.to_string();
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        let asked = async {
            let answer = sender.send_request(request).await.map_err(failed)?;
            let status = answer.status();
            if !status.is_success() {
                return Err(format!("it answers {status}"));
            }
            let body = Limited::new(answer.into_body(), MAX_BYTES).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            serde_json::from_slice(&body).map_err(|_| "its answer has no figures".to_owned())
        };
        // The connection ends with the answer, or with the time that it may take.
        tokio::select! {
            answer = asked => answer,
            ended = connection => Err(match ended {
                Ok(()) => "the connection was closed".to_owned(),
                Err(error) => error.to_string(),
            }),
        }
    }
}

/// An instance in short, from its own figures.
fn short(at: &str, figures: &Value) -> Value {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let limits = figures["limits"].as_array().into_iter().flatten();
    let enforced = limits.filter(|one| one["shadow"] != true);
    let sum = |key: &str| -> u64 { enforced.clone().map(|one| number(&one[key])).sum() };
    let by = figures["durations"]["by"].as_array().into_iter().flatten();
    let without = by.filter(|one| one["authority"] != "store");
    json!({
        "at": at,
        "version": figures["version"],
        "revision": figures["revision"],
        "up_s": number(&figures["at_s"]).saturating_sub(number(&figures["started_s"])),
        "now_seconds": figures["now_seconds"],
        "admitted_now": sum("admitted_now"),
        "denied_now": sum("denied_now"),
        "admitted": sum("admitted"),
        "denied": sum("denied"),
        "without_store": without.map(|one| number(&one["answers"])).sum::<u64>(),
        "store_counts": figures["store"]["counts"],
    })
}

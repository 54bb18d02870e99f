//! The driver over HTTP/1.1: one request for each question, from templates.

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http::header::{HOST, HeaderName, HeaderValue};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tollgate_proof::judge::Ask;

use super::network::Protocol;
use super::place::Raw;
use super::reading::{Answer, Reading};
use super::words::{Written, filled};
use crate::args::Judge;
use crate::input::shown;

/// A server, and the request to ask it with.
#[derive(Debug)]
pub(super) struct Http {
    /// The host and the port.
    pub(super) address: String,
    /// Path and query.
    path: String,
    method: Method,
    headers: Vec<(HeaderName, String)>,
    body: Option<String>,
}

impl Http {
    pub(super) fn new(args: &Judge, url: &str) -> Result<Self> {
        let Some(rest) = url.strip_prefix("http://") else {
            bail!(
                "--http `{}`: write http://HOST:PORT/PATH; a limiter behind TLS is asked without \
                 it, on the machine that it runs on",
                shown(url)
            );
        };
        let at = rest.find('/').unwrap_or(rest.len());
        let (place, path) = rest.split_at(at);
        if place.is_empty() {
            bail!("--http `{}` has no host", shown(url));
        }
        let has_port = place.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { place.to_owned() } else { format!("{place}:80") };
        let method = match &args.method {
            Some(text) => text.parse().with_context(|| format!("--method `{}`", shown(text)))?,
            None if args.body.is_some() => Method::POST,
            None => Method::GET,
        };
        let header = |text: &String| {
            let Some((name, value)) = text.split_once(':') else {
                bail!("--header `{}`: write `NAME: VALUE`", shown(text));
            };
            let name = name.trim().parse();
            Ok((name.with_context(|| format!("--header `{}`", shown(text)))?, value.trim().into()))
        };
        let headers = args.header.iter().map(header).collect::<Result<_>>()?;
        let path = if path.is_empty() { "/".to_owned() } else { path.to_owned() };
        Ok(Self { address, path, method, headers, body: args.body.clone() })
    }

    /// All templates.
    pub(super) fn templates(&self) -> Vec<String> {
        let headers = self.headers.iter().map(|(_, value)| value.clone());
        headers.chain([self.path.clone()]).chain(self.body.clone()).collect()
    }

    fn request(&self, ask: &Ask) -> Result<Request<Full<Bytes>>> {
        let path = filled(&self.path, ask, Written::InUrl);
        let path: Uri = path.parse().with_context(|| format!("`{path}` is no path"))?;
        let body = self.body.as_deref().map(|body| filled(body, ask, Written::InJson));
        let mut request = Request::builder().method(self.method.clone()).uri(path);
        request = request.header(HOST, &self.address);
        for (name, value) in &self.headers {
            let value = filled(value, ask, Written::AsItIs);
            request = request.header(name, HeaderValue::from_bytes(value.as_bytes())?);
        }
        Ok(request.body(Full::new(Bytes::from(body.unwrap_or_default())))?)
    }
}

impl Protocol for Http {
    type Connection = SendRequest<Full<Bytes>>;

    async fn connect(&self) -> Result<Self::Connection> {
        let stream = TcpStream::connect(&self.address).await;
        let stream = stream.with_context(|| format!("{} cannot be reached", self.address))?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn ask(
        &self,
        connection: &mut Self::Connection,
        ask: &Ask,
        reading: &Reading,
    ) -> Result<Answer> {
        let request = self.request(ask)?;
        if connection.ready().await.is_err() {
            // The server closed it after the last reply: nothing of this question was sent.
            *connection = self.connect().await?;
            connection.ready().await?;
        }
        let (head, body) = connection.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        let headers = head.headers.iter().map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        let value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let status = head.status.as_u16();
        Ok(reading.read(&Raw { status, headers: headers.collect(), value }))
    }

    async fn send(&self, connection: &mut Self::Connection, ask: &Ask) -> Result<()> {
        let request = self.request(ask)?;
        connection.ready().await?;
        // Written by the task of the connection; the reply is not waited for.
        let reply = connection.send_request(request);
        let waited = tokio::time::timeout(std::time::Duration::from_millis(2), reply).await;
        drop(waited);
        Ok(())
    }
}

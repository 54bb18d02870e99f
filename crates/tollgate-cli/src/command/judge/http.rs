//! The driver over HTTP/1.1: one request for each question, from templates.

use std::future::poll_fn;

use anyhow::{Context as _, Error, Result, bail};
use bytes::Bytes;
use http::header::{HOST, HeaderName, HeaderValue};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::rt::{Read, Write};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tollgate_proof::judge::Ask;
use tower_service::Service as _;

use super::network::{Protocol, unread};
use super::place::Raw;
use super::reading::{Answer, Reading};
use super::target::Target;
use super::words::{Written, filled};
use crate::args::Judge;
use crate::client::over_https;
use crate::input::shown;

/// A server, and the request to ask it with.
pub(super) struct Http {
    pub(super) target: Target,
    /// The connector of https, and the address as the certificate has it.
    tls: Option<(HttpsConnector<HttpConnector>, Uri)>,
    /// The host as the URL has it, for the header.
    host: String,
    /// Path and query.
    path: String,
    method: Method,
    headers: Vec<(HeaderName, String)>,
    body: Option<String>,
}

impl Http {
    pub(super) fn new(args: &Judge, url: &str) -> Result<Self> {
        let (is_tls, rest) = match url.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => bail!("--http `{}`: write http://HOST:PORT/PATH, or https://", shown(url)),
        };
        let at = rest.find('/').unwrap_or(rest.len());
        let (place, path) = rest.split_at(at);
        let target = Target::parse(place, Some(if is_tls { 443 } else { 80 })).context("--http")?;
        let origin = || format!("https://{target}").parse().context("--http");
        let tls = is_tls.then(|| anyhow::Ok((over_https()?, origin()?))).transpose()?;
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
        let (host, body) = (place.to_owned(), args.body.clone());
        Ok(Self { target, tls, host, path, method, headers, body })
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
        request = request.header(HOST, &self.host);
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
        let Some((connector, origin)) = &self.tls else {
            return over(TokioIo::new(self.target.connect().await?)).await;
        };
        let mut connector = connector.clone();
        poll_fn(|context| connector.poll_ready(context)).await.map_err(Error::from_boxed)?;
        let stream = connector.call(origin.clone()).await.map_err(Error::from_boxed);
        over(stream.with_context(|| format!("{} cannot be reached", self.target))?).await
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
        unread(connection.send_request(request)).await;
        Ok(())
    }
}

/// Speaks HTTP over a stream.
async fn over<S>(stream: S) -> Result<SendRequest<Full<Bytes>>>
where
    S: Read + Write + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(stream).await?;
    tokio::spawn(connection);
    Ok(sender)
}

//! A connection to a control plane.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::path::Path;
use std::sync::Arc;

use http::uri::{Authority, Scheme, Uri};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::body::Body;
use tower_service::Service;

use crate::envoy::{XdsOptions, XdsTls};
use crate::tls::{HTTP2, certificates};

/// How long a connection may take to be there.
const CONNECT: Duration = Duration::from_secs(10);

/// How often a silent control plane is asked whether it is still there, and how long it may take.
const PING: Duration = Duration::from_secs(20);
const PONG: Duration = Duration::from_secs(10);

/// The most bytes that a control plane may send ahead.
const WINDOW: u32 = 1_024 * 1_024;

/// Where a control plane is.
#[derive(Debug)]
pub(super) struct Target {
    authority: Authority,
    port: u16,
    origin: Uri,
    tls: Option<XdsTls>,
}

impl Target {
    /// # Errors
    /// The address is invalid, or the files of TLS cannot be used now.
    pub(super) fn new(options: &XdsOptions) -> Result<Self, String> {
        let XdsOptions { address, tls, .. } = options;
        let wrong = || format!("`{address}` is not the address of a control plane: HOST:PORT");
        let authority: Authority = address.parse().map_err(|_| wrong())?;
        let port = authority.port_u16().filter(|_| !address.contains('@')).ok_or_else(wrong)?;
        let scheme = if tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
        let origin = Uri::builder().scheme(scheme).authority(authority.clone()).path_and_query("/");
        let origin = origin.build().map_err(|_| wrong())?;
        let this = Self { authority, port, origin, tls: tls.clone() };
        if let Some(tls) = &this.tls {
            config(tls)?;
            this.name(tls)?;
        }
        Ok(this)
    }

    /// The scheme and the address of its calls.
    pub(super) fn origin(&self) -> &Uri {
        &self.origin
    }

    /// The host, without the brackets of an address of IPv6.
    fn host(&self) -> &str {
        self.authority.host().trim_start_matches('[').trim_end_matches(']')
    }

    fn name(&self, tls: &XdsTls) -> Result<ServerName<'static>, String> {
        let name = tls.name.as_deref().unwrap_or_else(|| self.host());
        let name = ServerName::try_from(name.to_owned());
        name.map_err(|error| format!("the name of the control plane: {error}"))
    }
}

/// One connection, over which calls go.
#[derive(Clone)]
pub(super) struct Channel(SendRequest<Body>);

impl Channel {
    /// # Errors
    /// What keeps it from being there.
    pub(super) async fn connect(target: &Target) -> Result<Self, String> {
        let connected = tokio::time::timeout(CONNECT, Self::connect_to(target)).await;
        connected.unwrap_or_else(|_| Err(format!("it does not answer within {CONNECT:?}")))
    }

    async fn connect_to(target: &Target) -> Result<Self, String> {
        let stream = TcpStream::connect((target.host(), target.port)).await;
        let stream = stream.map_err(|error| error.to_string())?;
        // Rules are few, and each waits for the answer to the last.
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let Some(tls) = &target.tls else { return Self::over(stream).await };
        let connector = TlsConnector::from(Arc::new(config(tls)?));
        let stream = connector.connect(target.name(tls)?, stream).await;
        Self::over(stream.map_err(|error| format!("TLS: {error}"))?).await
    }

    async fn over<T>(stream: T) -> Result<Self, String>
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (send, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PONG)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
        // It ends when the channel is dropped, and its fault is that of the call.
        tokio::spawn(connection);
        Ok(Self(send))
    }
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

/// TLS with the files as they are now: a certificate of days must not end a service of months.
fn config(tls: &XdsTls) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match &tls.authorities {
        Some(path) => {
            for authority in certificates(path).map_err(|error| error.to_string())? {
                roots.add(authority).map_err(|error| of(path, &error.to_string()))?;
            }
        }
        // One unreadable certificate is no reason to distrust the others.
        None => {
            let found = rustls_native_certs::load_native_certs().certs;
            let _ = roots.add_parsable_certificates(found);
        }
    }
    if roots.is_empty() {
        let why = "there is no authority that could be trusted: install `ca-certificates`, or \
                   name a file";
        return Err(why.to_owned());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let mut config = match &tls.certificate {
        None => config.with_no_client_auth(),
        Some((chain, key)) => {
            let private = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| of(key, &format!("no private key in PEM: {error}")))?;
            let certificates = certificates(chain).map_err(|error| error.to_string())?;
            config
                .with_client_auth_cert(certificates, private)
                .map_err(|error| of(chain, &error.to_string()))?
        }
    };
    config.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(config)
}

fn of(path: &Path, why: &str) -> String {
    format!("{}: {why}", path.display())
}

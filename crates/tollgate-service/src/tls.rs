//! The TLS certificate of the service, and the authorities of its clients.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{RootCertStore, ServerConfig, version};

/// How often the files are checked for changes.
const POLL: Duration = Duration::from_secs(2);

/// The names of protocols for ALPN.
pub(crate) const HTTP1: &[u8] = b"http/1.1";
pub(crate) const HTTP2: &[u8] = b"h2";

/// PEM files: a certificate chain, which starts with the service's own, its private key, and
/// possibly the authorities whose clients alone are served.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Tls {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// The certificates of the authorities that sign those of clients. A client without one of
    /// theirs that is valid now is refused in the handshake. `None` asks clients for none.
    pub client_authorities: Option<PathBuf>,
    /// The protocols that are served with TLS; all by default. A kubelet that probes over HTTP has
    /// no certificate where clients over gRPC must have one.
    pub protocols: Vec<TlsProtocol>,
}

/// A protocol that can be served with TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TlsProtocol {
    /// HTTP for clients.
    Http,
    /// The Redis protocol.
    Resp,
    /// gRPC.
    Grpc,
    /// HTTP for administrators, beyond this machine.
    Admin,
}

impl TlsProtocol {
    /// Every protocol.
    pub const ALL: [Self; 4] = [Self::Http, Self::Resp, Self::Grpc, Self::Admin];
}

/// A certificate or a private key that cannot be used.
#[derive(thiserror::Error)]
#[error("{path} {what}: {why}", path = path.display())]
pub struct TlsError {
    path: PathBuf,
    what: &'static str,
    why: String,
}

tollgate::debug_as_display!(TlsError);

impl TlsError {
    fn new(path: &Path, what: &'static str, why: String) -> Self {
        Self { path: path.to_owned(), what, why }
    }
}

impl Tls {
    /// The certificate chain and the private key in these files.
    #[must_use]
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let (certificate, key) = (certificate.into(), key.into());
        Self { certificate, key, client_authorities: None, protocols: TlsProtocol::ALL.into() }
    }

    /// The same for clients that have a certificate of the authorities in this file, and no others.
    #[must_use]
    pub fn client_authorities(self, path: impl Into<PathBuf>) -> Self {
        Self { client_authorities: Some(path.into()), ..self }
    }

    /// The same for these protocols alone.
    #[must_use]
    pub fn protocols(self, protocols: impl Into<Vec<TlsProtocol>>) -> Self {
        Self { protocols: protocols.into(), ..self }
    }

    /// Whether this protocol is served with TLS.
    #[must_use]
    pub fn serves(&self, protocol: TlsProtocol) -> bool {
        self.protocols.contains(&protocol)
    }

    fn config(&self) -> Result<Configs, TlsError> {
        let chain = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|why| {
            TlsError::new(&self.key, "is not a private key in PEM", why.to_string())
        })?;
        let refused = |why: tokio_rustls::rustls::Error| {
            TlsError::new(&self.key, "does not fit the certificate", why.to_string())
        };
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])
            .map_err(refused)?;
        let config = match &self.client_authorities {
            None => config.with_no_client_auth(),
            Some(path) => {
                let why = |why: String| TlsError::new(path, "names no authority of clients", why);
                let mut roots = RootCertStore::empty();
                for authority in certificates(path)? {
                    roots.add(authority).map_err(|fault| why(fault.to_string()))?;
                }
                let provider = Arc::new(ring::default_provider());
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .map_err(|fault| why(fault.to_string()))?;
                config.with_client_cert_verifier(verifier)
            }
        };
        let mut config = config.with_single_cert(chain, key).map_err(refused)?;
        if self.client_authorities.is_some() {
            // A session that is taken up again would not have its certificate looked at again,
            // which may have expired.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        let mut of = |alpn: &[u8]| {
            config.alpn_protocols = vec![alpn.to_vec()];
            Arc::new(config.clone())
        };
        Ok(Configs { http1: of(HTTP1), http2: of(HTTP2) })
    }

    /// The modification time of each file, where the system reports one.
    fn changed(&self) -> Changed {
        let changed = |path| std::fs::metadata(path).and_then(|found| found.modified()).ok();
        let authorities = self.client_authorities.as_ref().and_then(changed);
        [changed(&self.certificate), changed(&self.key), authorities]
    }
}

/// The modification times of the files.
type Changed = [Option<SystemTime>; 3];

/// The certificates in a file; at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let error = |why: String| TlsError::new(path, "is not a certificate in PEM", why);
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found = found.map_err(|why| match why {
        pem::Error::Io(why) => TlsError::new(path, "cannot be read", why.to_string()),
        why => error(why.to_string()),
    })?;
    if found.is_empty() {
        return Err(error("there is none in it".to_owned()));
    }
    Ok(found)
}

/// The certificate in use. It is reloaded while connections are served; new connections use the new
/// one.
#[derive(Debug)]
pub(crate) struct Certificate {
    files: Tls,
    /// The modification times of the files before they were first read.
    first_read: Changed,
    configs: ArcSwap<Configs>,
}

/// The certificate for each protocol that clients ask for.
#[derive(Debug)]
struct Configs {
    http1: Arc<ServerConfig>,
    http2: Arc<ServerConfig>,
}

impl Certificate {
    /// # Errors
    /// The files cannot be used.
    pub(crate) fn read(files: Tls) -> Result<Self, TlsError> {
        let first_read = files.changed();
        let configs = ArcSwap::from_pointee(files.config()?);
        Ok(Self { files, first_read, configs })
    }

    /// This one, if it serves the protocol.
    pub(crate) fn of(this: Option<&Arc<Self>>, protocol: TlsProtocol) -> Option<Arc<Self>> {
        this.filter(|certificate| certificate.files.serves(protocol)).cloned()
    }

    /// Accepts clients of this protocol, by its name for ALPN.
    pub(crate) fn acceptor(&self, alpn: &[u8]) -> TlsAcceptor {
        let configs = self.configs.load();
        let config = if alpn == HTTP2 { &configs.http2 } else { &configs.http1 };
        TlsAcceptor::from(Arc::clone(config))
    }

    /// Reloads the files whenever they change, until it is dropped. One file is written before the
    /// other, so a pair that does not match is tried again at the next change.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut seen = self.first_read;
        loop {
            tokio::time::sleep(POLL).await;
            let this = Arc::clone(&self);
            // On a blocking thread: the files may be on a network, and decisions continue
            // meanwhile.
            let look = move || {
                let changed = this.files.changed();
                if changed != seen {
                    this.reread();
                }
                changed
            };
            match tokio::task::spawn_blocking(look).await {
                Ok(changed) => seen = changed,
                Err(_) => return,
            }
        }
    }

    /// Reloads the files and logs the outcome. If they cannot be used, the old certificate stays in
    /// use.
    pub(crate) fn reread(&self) {
        match self.files.config() {
            Ok(configs) => {
                self.configs.store(Arc::new(configs));
                let path = self.files.certificate.display();
                tracing::info!(target: "tollgate", "{path} was read again");
            }
            Err(error) => {
                tracing::warn!(target: "tollgate", "the old certificate is used on: {error}");
            }
        }
    }
}

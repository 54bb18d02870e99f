//! The certificate of the service.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, version};

/// Files in PEM: a chain of certificates, the service's own first, and its private key.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Tls {
    /// The chain.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// A certificate or a key that cannot be used.
#[derive(thiserror::Error)]
#[error("{path} {what}: {why}", path = path.display())]
pub struct TlsError {
    path: PathBuf,
    what: &'static str,
    why: String,
}

tollgate::debug_as_display!(TlsError);

impl Tls {
    /// These files.
    #[must_use]
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { certificate: certificate.into(), key: key.into() }
    }

    pub(crate) fn acceptor(&self) -> Result<TlsAcceptor, TlsError> {
        let error = |path: &Path, what, why: String| TlsError { path: path.to_owned(), what, why };
        let no_certificate = "is no certificate in PEM";
        let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect)
            .map_err(|why| error(&self.certificate, no_certificate, why.to_string()));
        let chain = chain?;
        if chain.is_empty() {
            let why = "there is none in it".to_owned();
            return Err(error(&self.certificate, no_certificate, why));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|why| error(&self.key, "is no private key in PEM", why.to_string()))?;
        let refused = |why: tokio_rustls::rustls::Error| {
            error(&self.key, "does not fit the certificate", why.to_string())
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])
            .map_err(refused)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(refused)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

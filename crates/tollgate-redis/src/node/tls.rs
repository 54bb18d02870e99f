//! TLS towards a server: the authorities that are trusted, and the client's own certificate.

use core::sync::atomic::{AtomicBool, Ordering};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_rustls::rustls::client::ResolvesClientCert;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SignatureScheme};

use crate::options::{Certificate, Options};

/// TLS to the servers of one store.
#[derive(Clone, Debug)]
pub(super) struct Tls {
    pub(super) config: Arc<ClientConfig>,
    own: Arc<Own>,
}

impl Tls {
    /// # Errors
    /// The problem with a file, or with the authorities.
    pub(super) fn new(options: &Options) -> Result<Self, String> {
        let own = Arc::new(Own {
            certificate: options.certificate.clone().map(Renewed::read).transpose()?,
            is_asked_for: AtomicBool::new(false),
        });
        Ok(Self { config: Arc::new(config(options, Arc::clone(&own))?), own })
    }

    /// The possible objection of a server that ended a connection before its first answer, if it
    /// asks clients for certificates. With TLS 1.3 a client learns only that it is closed.
    pub(super) fn unwelcome(&self) -> Option<&'static str> {
        let is_asked_for = self.own.is_asked_for.load(Ordering::Relaxed);
        is_asked_for.then_some(match self.own.certificate {
            None => "it asks for a certificate of this client: `cert=FILE&key=FILE` in the URL",
            Some(_) => {
                "it asks for a certificate of this client, and ended the connection: is that of \
                 `cert=` signed by an authority that it trusts, and valid now"
            }
        })
    }
}

/// TLS with ring, independent of the crypto provider of the process.
fn config(options: &Options, own: Arc<Own>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    if let Some(pem) = options.authorities.as_deref() {
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| format!("an authority: {error:?}"))?;
            roots.add(certificate).map_err(|error| format!("an authority: {error}"))?;
        }
    } else {
        // One unreadable certificate is no reason to distrust the others.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if roots.is_empty() {
        return Err("there is no authority that could be trusted: install `ca-certificates`, or \
                    name a file with SSL_CERT_FILE"
            .to_owned());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    Ok(config.with_client_cert_resolver(own))
}

/// The client's own certificate, if it has one.
#[derive(Debug)]
struct Own {
    certificate: Option<Renewed>,
    /// Whether a server asked for it.
    is_asked_for: AtomicBool,
}

impl ResolvesClientCert for Own {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.is_asked_for.store(true, Ordering::Relaxed);
        self.certificate.as_ref().map(Renewed::current)
    }

    fn has_certs(&self) -> bool {
        self.certificate.is_some()
    }
}

/// A certificate whose files are read again for each new connection: one of days must not end a
/// service of months.
#[derive(Debug)]
struct Renewed {
    files: Certificate,
    read: Mutex<Arc<CertifiedKey>>,
}

impl Renewed {
    fn read(files: Certificate) -> Result<Self, String> {
        let read = Mutex::new(Arc::new(certified(&files)?));
        Ok(Self { files, read })
    }

    fn current(&self) -> Arc<CertifiedKey> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        // A pair of which only one file is replaced yet does not fit: the old one is used on.
        if let Ok(renewed) = certified(&self.files) {
            *read = Arc::new(renewed);
        }
        Arc::clone(&read)
    }
}

fn certified(files: &Certificate) -> Result<CertifiedKey, String> {
    let fault = |path: &Path, what, why: String| format!("{} {what}: {why}", path.display());
    let no_certificate = "is not a certificate in PEM";
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(&files.chain).and_then(Iterator::collect);
    let chain = chain.map_err(|why| fault(&files.chain, no_certificate, why.to_string()))?;
    if chain.is_empty() {
        return Err(fault(&files.chain, no_certificate, "there is none in it".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|why| fault(&files.key, "is not a private key in PEM", why.to_string()))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider())
        .map_err(|why| fault(&files.key, "does not fit the certificate", why.to_string()))
}

//! TLS.

mod clients;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tollgate::MemoryStore;
use tollgate_service::{AnyStore, Options, Server, StartError, Tls, TlsProtocol};

use crate::client::Client;
use crate::{FILE, Service, gate_of, here};

/// A certificate for `localhost` and its key, in this folder.
pub(crate) fn certificate(folder: &Path, name: &str) -> Tls {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) =
        (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    Tls::new(certificate, key)
}

/// A client that trusts this certificate and no other.
fn config_trusting(certificate: &CertificateDer<'static>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// The same for a client of HTTP/2.
pub(crate) fn trusting_h2(tls: &Tls) -> Arc<ClientConfig> {
    let certificate = CertificateDer::from_pem_file(&tls.certificate).unwrap();
    let mut config = config_trusting(&certificate);
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

impl Service {
    /// A connection of a client that trusts this certificate and no other.
    pub(crate) async fn trusting(
        &self,
        certificate: &CertificateDer<'static>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let config = config_trusting(certificate);
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }
}

/// A kubelet that probes has no certificate.
#[tokio::test]
async fn protocols_without_tls_are_served_beside_those_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let tls = certificate(folder.path(), "one");
    let service = Service::with(|options| {
        options.tls = Some(tls.clone().protocols([TlsProtocol::Grpc]));
        options.grpc = vec![here()];
    })
    .await;
    assert_eq!(service.client().await.get("/readyz").await.status, 200);
    let stream = TcpStream::connect(crate::tcp(&service.server.grpc()[0])).await.unwrap();
    let connector = TlsConnector::from(trusting_h2(&tls));
    let stream = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
}

#[tokio::test]
async fn clients_come_with_tls_where_there_is_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let tls = certificate(folder.path(), "one");
    let service = Service::with(|options| {
        options.tls = Some(tls.clone());
        options.bounds.head = Duration::from_millis(500);
    })
    .await;
    let trusted = CertificateDer::from_pem_file(&tls.certificate).unwrap();
    let mut client = Client::over(service.trusting(&trusted).await.unwrap()).await;
    let said = client.check(r#"{"subject": "user:1", "limit": "3/h"}"#).await;
    assert_eq!(said["remaining"], 2);
    // A connection without TLS is closed, and so is one that begins and stops: no certificate was
    // asked for.
    for begun in [&b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"[..], &[0x16, 0x03, 0x01, 0x02][..], &[]] {
        let mut stream = TcpStream::connect(service.address).await.unwrap();
        stream.write_all(begun).await.unwrap();
        let mut said = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut said));
        let _ = ended.await.expect("it hangs");
        assert!(!said.starts_with(b"HTTP"), "{said:?}");
    }
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (certificate(folder.path(), "one"), certificate(folder.path(), "other"));
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    for (tls, says) in [
        (Tls::new(&one.certificate, &other.key), "other.key does not fit the certificate"),
        (Tls::new(&empty, &one.key), "empty.pem is not a certificate in PEM"),
        (Tls::new(&one.key, &one.key), "one.key is not a certificate in PEM"),
        (Tls::new(&one.certificate, &empty), "empty.pem is not a private key in PEM"),
        (Tls::new(folder.path().join("none"), &one.key), "none cannot be read"),
    ] {
        let gate = gate_of(FILE, AnyStore::Memory(MemoryStore::new()));
        let mut options = Options::new(vec![here()]);
        options.tls = Some(tls);
        let error = Server::start(gate, options).await.unwrap_err();
        assert!(matches!(error, StartError::Tls(_)));
        assert!(error.to_string().contains(says), "{error}");
    }
}

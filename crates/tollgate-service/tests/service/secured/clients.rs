//! Certificates of clients: a client with one of the authorities is served, over every protocol.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, version};
use tollgate::MemoryStore;
use tollgate_service::{AnyStore, Options, Server, Tls};

use super::certificate;
use crate::{FILE, Service, gate_of, here, tcp};

/// The authority of certificates of clients.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A client's certificate until the end of this year.
    fn client(&self, last_year: i32) -> Own {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["client".to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(last_year, 12, 31);
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        (signed.der().clone(), key)
    }
}

type Own = (CertificateDer<'static>, PrivateKeyDer<'static>);

/// A client of this server with its certificate.
fn config(server: &Tls, own: Option<&Own>, tls13: bool, alpn: &[u8]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&server.certificate).unwrap()).unwrap();
    let version = if tls13 { &version::TLS13 } else { &version::TLS12 };
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        Some((chain, key)) => {
            config.with_client_auth_cert(vec![chain.clone()], key.clone_key()).unwrap()
        }
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![alpn.to_vec()];
    Arc::new(config)
}

async fn connect(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::clone(config)).connect(name, stream).await
}

/// Sends this, and returns the first bytes of the answer.
async fn exchange(stream: &mut TlsStream<TcpStream>, sent: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(sent).await?;
    let mut said = vec![0; 9];
    stream.read_exact(&mut said).await?;
    Ok(said)
}

/// A protocol: its address, its name for ALPN, the request and the reply.
type Front = (SocketAddr, &'static [u8], &'static [u8], &'static [u8]);

const HTTP: (&[u8], &[u8], &[u8]) =
    (b"http/1.1", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n", b"HTTP/1.1 ");

fn fronts(server: &Server) -> [Front; 4] {
    let local = |address| SocketAddr::from(([127, 0, 0, 1], tcp(address).port()));
    let ((alpn, asked, heard), preface) =
        (HTTP, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    [
        (local(&server.addresses()[0]), alpn, asked, heard),
        (local(server.admin().unwrap()), alpn, asked, heard),
        (local(&server.resp()[0]), alpn, b"PING\r\nPING\r\n", b"+PONG\r\n+P"),
        // The settings of the service: a frame of the type 4.
        (local(&server.grpc()[0]), b"h2", preface, b"\x04"),
    ]
}

async fn is_served((address, alpn, asked, heard): Front, server: &Tls, own: Option<&Own>) -> bool {
    let mut served = [false; 2];
    for (served, tls13) in served.iter_mut().zip([true, false]) {
        let config = config(server, own, tls13, alpn);
        // With TLS 1.3 a client learns only after its handshake that it is refused.
        *served = match connect(address, &config).await {
            Ok(mut stream) => exchange(&mut stream, asked).await.is_ok_and(|said| {
                let heard = said.starts_with(heard) || said[3..].starts_with(heard);
                assert!(heard, "{said:?}");
                heard
            }),
            Err(_) => false,
        };
    }
    assert_eq!(served[0], served[1], "TLS 1.3 and 1.2");
    served[0]
}

#[tokio::test]
async fn clients_come_with_a_certificate_of_the_authority_over_every_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let [ours, other] = [(); 2].map(|()| Authority::new());
    let path = folder.path().join("clients.pem");
    std::fs::write(&path, &ours.pem).unwrap();
    let tls = certificate(folder.path(), "one").client_authorities(&path);
    let service = Service::with(|options| {
        options.tls = Some(tls.clone());
        options.resp = vec![here()];
        options.grpc = vec![here()];
        // An administrator on this machine needs no TLS.
        options.admin = Some("0.0.0.0:0".parse().unwrap());
        options.admin_token = Some("a token of enough bytes".to_owned());
    })
    .await;
    let (right, expired, strange) = (ours.client(2999), ours.client(2021), other.client(2999));
    for front in fronts(&service.server) {
        for (own, expected) in
            [(Some(&right), true), (None, false), (Some(&strange), false), (Some(&expired), false)]
        {
            assert_eq!(is_served(front, &tls, own).await, expected, "{front:?}");
        }
    }
    // Open connections go on. New clients are judged by the file as it is now.
    let (alpn, asked, _) = HTTP;
    let config = config(&tls, Some(&right), true, alpn);
    let mut open = connect(service.address, &config).await.unwrap();
    exchange(&mut open, asked).await.unwrap();
    std::fs::write(&path, &other.pem).unwrap();
    service.server.reread_certificate().await;
    for front in fronts(&service.server) {
        assert!(!is_served(front, &tls, Some(&right)).await, "{front:?}");
        assert!(is_served(front, &tls, Some(&strange)).await, "{front:?}");
    }
    let again = connect(service.address, &config).await;
    let is_refused = match again {
        Ok(mut stream) => exchange(&mut stream, asked).await.is_err(),
        Err(_) => true,
    };
    assert!(is_refused, "a session is not taken up again");
    open.write_all(asked).await.unwrap();
    // A file that cannot be used changes nothing.
    std::fs::write(&path, "nothing").unwrap();
    service.server.reread_certificate().await;
    assert!(is_served(fronts(&service.server)[0], &tls, Some(&strange)).await);
}

#[tokio::test]
async fn authorities_that_cannot_be_used_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let one = certificate(folder.path(), "one");
    let path = folder.path().join("clients.pem");
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (text, says) in [
        (Some(""), "clients.pem is not a certificate in PEM: there is none in it"),
        (Some(broken), "clients.pem names no authority of clients: "),
        (None, "clients.pem cannot be read: "),
    ] {
        match text {
            Some(text) => std::fs::write(&path, text).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let mut options = Options::new(vec![here()]);
        options.tls = Some(one.clone().client_authorities(&path));
        let gate = gate_of(FILE, AnyStore::Memory(MemoryStore::new()));
        let error = Server::start(gate, options).await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

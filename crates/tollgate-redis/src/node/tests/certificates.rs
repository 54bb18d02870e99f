//! A Redis that asks its clients for certificates.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

use super::server::Server;
use super::{connect, count, refusal};
use crate::fault::Fault;
use crate::node::connector::Connector;
use crate::options::Options;

const LONG: Duration = Duration::from_secs(5);

/// The authority of certificates of clients: its certificate in PEM, and its issuer.
fn authority() -> (String, Issuer<'static, KeyPair>) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // With the same name as the certificate that it signs, it would be taken for self-signed.
    params.distinguished_name.push(DnType::CommonName, "an authority");
    let pem = params.self_signed(&key).unwrap().pem();
    (pem, Issuer::new(params, key))
}

/// Writes a certificate that is valid until the end of this year, and its key.
fn sign(issuer: &Issuer<'static, KeyPair>, last_year: i32, folder: &Path) -> [PathBuf; 2] {
    let files = ["own.pem", "own.key"].map(|name| folder.join(name));
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["client".to_owned()]).unwrap();
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(last_year, 12, 31);
    std::fs::write(&files[0], params.signed_by(&key, issuer).unwrap().pem()).unwrap();
    std::fs::write(&files[1], key.serialize_pem()).unwrap();
    files
}

fn why(fault: Fault) -> String {
    match fault {
        Fault::Tls { why, .. } => why,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_client_has_the_certificate_that_the_server_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let files = concat!(env!("CARGO_MANIFEST_DIR"), "/src/node/tests/tls");
    let [server_chain, server_key] = ["server.pem", "server.key"].map(|it| format!("{files}/{it}"));
    let ((pem, ours), (_, others)) = (authority(), authority());
    let clients = folder.path().join("clients.pem");
    std::fs::write(&clients, pem).unwrap();
    for version in ["TLSv1.3", "TLSv1.2"] {
        let server = Server::start(&[
            "--tls-cert-file",
            &server_chain,
            "--tls-key-file",
            &server_key,
            "--tls-ca-cert-file",
            clients.to_str().unwrap(),
            "--tls-protocols",
            version,
        ]);
        let url = format!("rediss://localhost:{}", server.port);
        let trusting = |url: &str| {
            let options = Options::from_url(url).unwrap();
            options.authorities(*include_bytes!("tls/authority.pem")).deadline(LONG)
        };
        // None, another authority's, one that has expired.
        let said = why(refusal(trusting(&url)).await);
        assert!(said.contains("`cert=FILE&key=FILE`"), "{version}: {said}");
        let [chain, key] = sign(&others, 2999, folder.path());
        let url = format!("{url}?cert={}&key={}", chain.display(), key.display());
        let said = why(refusal(trusting(&url)).await);
        assert!(said.contains("an authority that it trusts"), "{version}: {said}");
        sign(&ours, 2021, folder.path());
        let connector = Connector::new(trusting(&url)).unwrap();
        let ping = redis::cmd("PING");
        let said = why(connector.ask(&ping, LONG).await.unwrap_err());
        assert!(said.contains("valid now"), "{version}: {said}");
        // It is replaced, and a new connection has the new one. Half a pair replaces nothing.
        sign(&ours, 2999, folder.path());
        connector.ask(&ping, LONG).await.unwrap();
        std::fs::write(&key, "no key").unwrap();
        connector.ask(&ping, LONG).await.unwrap();
        sign(&ours, 2999, folder.path());
        assert_eq!(count(&connect(trusting(&url)).await).await, 1);
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let [chain, key] = sign(&authority().1, 2999, folder.path());
    let other = folder.path().join("other.key");
    std::fs::write(&other, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let none = folder.path().join("none.pem");
    for (chain, key, says) in [
        (&chain, &other, "other.key does not fit the certificate"),
        (&key, &key, "own.key is not a certificate in PEM"),
        (&chain, &chain, "own.pem is not a private key in PEM"),
        (&none, &key, "none.pem is not a certificate in PEM"),
    ] {
        let options = Options::tls("localhost", 1).certificate(chain, key);
        let options = options.authorities(*include_bytes!("tls/authority.pem"));
        let said = why(refusal(options).await);
        assert!(said.contains(says), "{said}");
    }
    for (url, says) in [
        ("redis://h?cert=/a&key=/b", "write `rediss`"),
        ("redis+cluster://h?cert=/a&key=/b", "write `rediss`"),
        ("unix:///a?key=/b", "write `rediss`"),
        ("rediss://h?cert=/a", "both a file"),
        ("rediss://h?key=/a", "both a file"),
        ("rediss://h?key=&cert=/a", "`key` takes the path of a file"),
    ] {
        let said = Options::from_url(url).unwrap_err().to_string();
        assert!(said.contains(says), "{url}: {said}");
    }
}

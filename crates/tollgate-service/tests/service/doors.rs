//! Access: tokens, pages of browsers, other protocols, another certificate.

use std::pin::pin;
use std::time::Duration;

use http::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use crate::client::Client;
use crate::secured::certificate;
use crate::{Service, here};

const LONG: Duration = Duration::from_secs(30);
const WHOSE: &str = r#"{"subject": "user:1", "limit": "2/h"}"#;

/// A client that guesses waits, and a client with the token never does.
#[tokio::test]
async fn guesses_of_a_token_wait_and_the_right_one_never_does() {
    let token = "0123456789abcdef";
    let service = Service::with(|options| {
        options.admin = Some(here());
        options.admin_token = Some(token.to_owned());
    })
    .await;
    let right = format!("Bearer {token}");
    let ask = async |said: &str| {
        // A guess for each connection is as slow.
        let headers = [("authorization", said)];
        service.admin().await.ask("POST", "/v1/admin/inspect", &headers, WHOSE).await
    };
    for _ in 0..10 {
        assert_eq!(ask("Bearer 0123456789abcdeX").await.status, StatusCode::UNAUTHORIZED);
    }
    // The eleventh waits. A proxy or a socket is one address for all, and others ask meanwhile.
    let mut guess = pin!(ask("Bearer 0123456789abcdeY"));
    for login in 0..25 {
        let reply = tokio::select! {
            biased;
            reply = ask(&right) => reply,
            _ = &mut guess => panic!("the guess was answered before login {login}"),
        };
        assert_eq!(reply.status, StatusCode::OK, "{login}");
    }
    assert_eq!(guess.await.status, StatusCode::UNAUTHORIZED);
}

/// A name of the attacker's own that leads to 127.0.0.1 makes its page one of this service's.
#[tokio::test]
async fn administrators_without_a_token_ask_by_address() {
    let service = Service::with(|options| {
        options.admin = Some(here());
        options.admin_hosts = vec!["tollgate.internal".to_owned()];
    })
    .await;
    let mut admin = service.admin().await;
    for (host, status) in [
        ("localhost", 200),
        ("localhost:8701", 200),
        ("127.0.0.1:8701", 200),
        ("[::1]:8701", 200),
        ("tollgate.internal:8701", 200),
        ("TOLLGATE.internal", 200),
        ("evil.example:8701", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
    ] {
        let reply = admin.ask("GET", "/v1/admin/series", &[("host", host)], "").await;
        assert_eq!(reply.status, status, "{host}: {}", reply.text);
    }
}

/// A page that somebody looks at spends nobody's budget.
#[tokio::test]
async fn a_page_in_a_browser_asks_only_where_it_may() {
    let service =
        Service::with(|options| options.origins = vec!["https://app.example".to_owned()]).await;
    let mut client = service.client().await;
    let text = ("content-type", "text/plain");
    for (headers, status) in [
        (&[text][..], 200),
        (&[text, ("origin", "https://evil.example")], 403),
        (&[text, ("origin", "null")], 403),
        (&[text, ("sec-fetch-site", "cross-site")], 403),
        (&[text, ("sec-fetch-site", "same-origin")], 403),
        (&[text, ("origin", "https://app.example"), ("sec-fetch-site", "cross-site")], 200),
    ] {
        let reply = client.ask("POST", "/v1/check", headers, WHOSE).await;
        assert_eq!(reply.status, status, "{headers:?}: {}", reply.text);
        // The request that a proxy asks about may well be of a page.
        let reply = client.ask("GET", "/v1/auth", headers, "").await;
        assert_ne!(reply.status, StatusCode::FORBIDDEN, "{headers:?}: {}", reply.text);
    }
    // An address that a person types is not a page.
    let typed = [("sec-fetch-site", "none")];
    assert_eq!(client.ask("GET", "/metrics", &typed, "").await.status, StatusCode::OK);
    let charged = client.check(WHOSE).await;
    assert_eq!(charged["allowed"], false, "two were charged, and the refused ones were not");
}

/// A client that speaks HTTP/2 gets the answer about its protocol in HTTP/2.
#[tokio::test]
async fn http2_is_answered_in_its_own_words() {
    let service = Service::start().await;
    let mut stream = TcpStream::connect(service.address).await.unwrap();
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &settings].concat();
    stream.write_all(&preface).await.unwrap();
    let mut said = Vec::new();
    tokio::time::timeout(LONG, stream.read_to_end(&mut said)).await.unwrap().unwrap();
    let (first, rest) = said.split_at(9);
    assert_eq!(first, settings);
    let (head, goes) = rest.split_at(9);
    assert_eq!(head[..3], [0, 0, u8::try_from(goes.len()).unwrap()], "its length");
    assert_eq!(head[3..], [7, 0, 0, 0, 0, 0], "GOAWAY");
    assert_eq!(goes[..8], [0, 0, 0, 0, 0, 0, 0, 0x0d], "HTTP_1_1_REQUIRED");
    assert!(String::from_utf8_lossy(&goes[8..]).contains("HTTP/1.1"));
}

/// Chunks and a length, codings that nobody reads, lines that end with LF alone. A proxy before us
/// may have found another end of the request, and the rest would be a request to one of us and a
/// body to the other. Nothing after it is answered (RFC 9112, sections 2.2 and 6.1).
#[tokio::test]
async fn a_request_has_one_end() {
    let service = Service::start().await;
    let chunks = format!("{:x}\r\n{WHOSE}\r\n0\r\n\r\n", WHOSE.len());
    let chunked = "host: a\r\ntransfer-encoding: chunked\r\n";
    let next = "GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    for (headers, body, statuses, says) in [
        (chunked.to_owned(), chunks.clone(), &["200", "200"][..], "ok"),
        (format!("{chunked}content-length: 5\r\n"), chunks.clone(), &["400"], "not both"),
        (format!("content-length: 5\r\n{chunked}"), chunks.clone(), &["400"], "not both"),
        (
            chunked.replace("chunked", "gzip, chunked"),
            chunks.clone(),
            &["501", "200"],
            "no other coding",
        ),
        (
            format!("transfer-encoding: gzip\r\n{chunked}"),
            chunks.clone(),
            &["501", "200"],
            "no other coding",
        ),
        ("host: a\nconnection: keep-alive\r\n".to_owned(), String::new(), &["400"], "LF alone"),
        ("host: a\r\n\n".to_owned(), String::new(), &["400"], "LF alone"),
        (chunked.to_owned(), chunks.replace("\r\n0\r\n\r\n", "\r\n0\r\n\n"), &["400"], ""),
        ("host: a\r\ncontent-length: 1,1\r\n".to_owned(), "1".to_owned(), &["400"], "in digits"),
    ] {
        for before in ["", &next.replace("close", "keep-alive")] {
            let request = format!("{before}POST /v1/peek HTTP/1.1\r\n{headers}\r\n{body}{next}");
            let mut stream = TcpStream::connect(service.address).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut said = String::new();
            let read = tokio::time::timeout(LONG, stream.read_to_string(&mut said)).await;
            read.unwrap().unwrap();
            let found: Vec<&str> =
                said.split("HTTP/1.1 ").skip(1).filter_map(|it| it.get(..3)).collect();
            let first = if before.is_empty() { &[][..] } else { &["200"] };
            assert_eq!(found, [first, statuses].concat(), "{request:?}: {said}");
            assert!(said.contains(says), "{request:?}: {said}");
        }
    }
}

/// A certificate that was renewed is used from the next connection on; one that is broken is not.
#[tokio::test]
async fn a_certificate_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let tls = certificate(folder.path(), "used");
    let service = Service::with(|options| options.tls = Some(tls.clone())).await;
    let old = CertificateDer::from_pem_file(&tls.certificate).unwrap();
    let mut kept = Client::over(service.trusting(&old).await.unwrap()).await;
    std::fs::write(&tls.certificate, "broken").unwrap();
    service.server.reread_certificate().await;
    assert!(service.trusting(&old).await.is_ok(), "the old one is used on");
    let tls = certificate(folder.path(), "used");
    let new = CertificateDer::from_pem_file(&tls.certificate).unwrap();
    service.server.reread_certificate().await;
    assert!(service.trusting(&new).await.is_ok());
    assert!(service.trusting(&old).await.is_err());
    assert_eq!(kept.check(WHOSE).await["remaining"], 1, "connections that are open go on");
    // Nobody has to call for it: the files are prepared at startup.
    let tls = certificate(folder.path(), "used");
    let newest = CertificateDer::from_pem_file(&tls.certificate).unwrap();
    let seen = async {
        while service.trusting(&newest).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await; // tidy: sleep-ok polls
        }
    };
    tokio::time::timeout(LONG, seen).await.expect("it is never read");
}

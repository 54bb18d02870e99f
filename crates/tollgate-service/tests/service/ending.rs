//! How a service begins and ends, and other ways to it: TLS, a socket in the file system.

use std::time::Duration;

use http::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tollgate::MemoryStore;
use tollgate_service::{Address, AnyStore, Options, Server, StartError};

use crate::client::Client;
use crate::{FILE, Service, gate_of, here, tcp};

#[tokio::test]
async fn what_was_begun_is_finished_and_nothing_new_is_taken() {
    let service = Service::with(|options| options.linger = Duration::from_secs(2)).await;
    let address = service.address;
    let question = r#"{"subject": "user:1", "limit": "9/h"}"#;
    let mut kept = service.client().await;
    assert_eq!(kept.check(question).await["remaining"], 8);
    let idle = TcpStream::connect(address).await.unwrap();
    // Half of a question.
    let mut begun = TcpStream::connect(address).await.unwrap();
    let head =
        format!("POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", question.len());
    begun.write_all(head.as_bytes()).await.unwrap();
    begun.write_all(&question.as_bytes()[..10]).await.unwrap();

    let ending = tokio::spawn(service.server.end());
    // Not ready first, while requests are still taken.
    loop {
        let reply = kept.get("/readyz").await;
        if reply.status == StatusCode::SERVICE_UNAVAILABLE {
            assert_eq!(reply.header("connection"), Some("close"));
            assert!(reply.text.contains("ending"), "{}", reply.text);
            break;
        }
    }
    // Each answer says that its connection ends, so that clients go elsewhere by themselves.
    let mut late = Client::connect(address).await;
    let reply = late.post("/v1/check", question).await;
    assert_eq!(reply.json()["remaining"], 7);
    assert_eq!(reply.header("connection"), Some("close"));
    // Then no more: the one that is idle is closed, the one that has begun is answered.
    let mut idle = idle;
    assert_eq!(idle.read(&mut [0; 1]).await.unwrap(), 0);
    begun.write_all(&question.as_bytes()[10..]).await.unwrap();
    let mut said = String::new();
    begun.read_to_string(&mut said).await.unwrap();
    assert!(said.starts_with("HTTP/1.1 200") && said.contains("\"remaining\":6"), "{said}");
    assert!(said.contains("connection: close"), "{said}");
    let stopping = ending.await.unwrap();
    assert_eq!(stopping.cut, 0);
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

/// The system tells a client that it is connected before anybody accepts it.
#[tokio::test]
async fn who_waits_to_be_accepted_at_the_end_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("t.sock");
    let service = Service::with(|options| {
        options.listen.push(Address::Unix(socket.clone()));
        options.resp = vec![here()];
        options.grpc = vec![here()];
        options.admin = Some(here());
    })
    .await;
    let admin = tcp(service.server.admin().unwrap());
    let (resp, grpc) = (tcp(&service.server.resp()[0]), tcp(&service.server.grpc()[0]));
    let http: (&[u8], &[u8]) =
        (b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n", b"HTTP/1.1 200");
    let (preface, settings) =
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", b"\0\0\x18\x04");
    let mut waiting = Vec::new();
    // Nobody is accepted meanwhile: this thread is the service's too, and does not wait. More
    // connections than are accepted in one turn come.
    for (address, (asked, heard)) in [
        (service.address, http),
        (resp, (&b"PING\r\n"[..], &b"+PONG\r\n"[..])),
        (grpc, (&preface[..], &settings[..])),
        (admin, http),
    ] {
        // Administrators have 64 connections.
        let most = if address == admin { 60 } else { 150 };
        for number in 0..most {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            // Some have not sent anything yet.
            let is_late = number % 30 == 9;
            if !is_late {
                std::io::Write::write_all(&mut stream, asked).unwrap();
            }
            stream.set_nonblocking(true).unwrap();
            let stream = TcpStream::from_std(stream).unwrap();
            waiting.push((address, stream, is_late.then_some(asked), heard));
        }
    }
    let mut local = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    std::io::Write::write_all(&mut local, http.0).unwrap();
    let ending = tokio::spawn(service.server.end());
    // Once the first is answered, they are being accepted.
    waiting[0].1.readable().await.unwrap();
    for (_, stream, late, _) in &mut waiting {
        if let Some(late) = late {
            stream.write_all(late).await.unwrap();
        }
    }
    for (address, mut stream, late, heard) in waiting {
        let mut said = vec![0; heard.len()];
        let read = stream.read_exact(&mut said).await;
        assert!(read.is_ok() && said == heard, "{address} {late:?}: {read:?} {said:?}");
    }
    let stopping = ending.await.unwrap();
    assert_eq!(stopping.cut, 0);
    let mut said = String::new();
    std::io::Read::read_to_string(&mut local, &mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    assert!(TcpStream::connect(resp).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn what_does_not_end_is_cut_after_the_grace() {
    let service = Service::with(|options| options.grace = Duration::from_millis(200)).await;
    let mut stream = TcpStream::connect(service.address).await.unwrap();
    stream
        .write_all(b"POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n")
        .await
        .unwrap();
    // It is in its body once another connection was answered on the same port; to be sure, ask.
    while !service.gate_is_reached().await {}
    let stopping = service.server.end().await;
    assert_eq!(stopping.cut, 1);
    assert!(matches!(stream.read(&mut [0; 1]).await, Ok(0) | Err(_)));
}

impl Service {
    /// Asks, so that earlier messages on this machine have come.
    async fn gate_is_reached(&self) -> bool {
        let mut client = self.client().await;
        let reached = client.get("/healthz").await.status == StatusCode::OK;
        drop(client);
        reached
    }
}

#[tokio::test]
async fn an_address_that_is_taken_is_told() {
    let service = Service::start().await;
    let taken: Address = service.server.addresses()[0].clone();
    let gate = gate_of(FILE, AnyStore::Memory(MemoryStore::new()));
    let error = Server::start(gate, Options::new(vec![here(), taken.clone()])).await.unwrap_err();
    assert!(matches!(&error, StartError::Bind { address, .. } if *address == taken));
    assert!(error.to_string().contains(&taken.to_string()), "{error}");
}

#[tokio::test]
async fn a_socket_in_the_file_system_serves_and_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.sock");
    let address: Address = format!("unix:{}", path.display()).parse().unwrap();
    // The leftovers of a process that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let gate = gate_of(FILE, AnyStore::Memory(MemoryStore::new()));
    let server = Server::start(gate.clone(), Options::new(vec![address.clone()])).await.unwrap();
    let mut client = Client::over(UnixStream::connect(&path).await.unwrap()).await;
    let told = [("x-original-uri", "/pages/1"), ("x-forwarded-for", "192.0.2.7")];
    let reply = client.ask("GET", "/v1/auth", &told, "").await;
    assert!(reply.header("ratelimit").unwrap().contains("r=4"), "a socket is trusted");
    // A file that is not a socket belongs to somebody.
    let file = folder.path().join("policies.toml");
    std::fs::write(&file, FILE).unwrap();
    let on_file: Address = format!("unix:{}", file.display()).parse().unwrap();
    let refused = Server::start(gate.clone(), Options::new(vec![on_file])).await;
    assert!(matches!(refused, Err(StartError::Bind { .. })));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), FILE);
    // One that is in use is not taken away.
    let second = Server::start(gate, Options::new(vec![address])).await;
    assert!(matches!(second, Err(StartError::Bind { .. })));
    drop(client);
    server.end().await;
    assert!(!path.exists());
}

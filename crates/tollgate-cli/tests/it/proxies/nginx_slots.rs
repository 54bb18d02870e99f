//! nginx, with `examples/nginx/slots.conf`: a slot for each request at work.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::nginx::Nginx;
use super::wire::Client;
use super::{Places, Plan, Proxy, Setup};
use crate::serving::LONG;

struct Slots;

impl Proxy for Slots {
    const EXAMPLE: &'static str = "nginx/slots.conf";

    fn find() -> Option<PathBuf> {
        Nginx::find()
    }

    fn command(program: &Path, example: &str, at: &Places<'_>) -> Command {
        Nginx::command(program, example, at)
    }
}

/// Two slots in place of twenty, before this backend.
fn setup(backend: &TcpListener) -> Option<Setup> {
    let switches = &[("20 at once", "2 at once")];
    let backend = Some(backend.local_addr().unwrap());
    Setup::planned::<Slots>(&Plan { switches, backend, ..Plan::default() })
}

/// Sends a request, whose answer is not waited for.
pub(super) fn send(to: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    stream
}

/// The request that the backend got: it is at work until it is answered or dropped.
pub(super) fn at_work(backend: &TcpListener) -> TcpStream {
    let (mut stream, _) = backend.accept().unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    assert!(stream.read(&mut [0; 1_024]).unwrap() > 0);
    stream
}

pub(super) fn answer(mut work: TcpStream) {
    work.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes").unwrap();
}

pub(super) fn answered(mut client: TcpStream) -> String {
    let mut said = String::new();
    client.read_to_string(&mut said).unwrap();
    said
}

/// Waits until so many slots are free by the service at this address: a proxy gives one back after
/// the answer.
pub(super) fn free(service: SocketAddr, slots: u64) {
    let question = r#"{"subject": "backend", "limit": "2 at once hold 2m"}"#;
    let until = Instant::now() + LONG;
    loop {
        let mut client = crate::serving::Client::connect(service).unwrap();
        let (_, said) = client.ask("POST", "/v1/peek", question).unwrap();
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        if said["remaining"] == slots {
            return;
        }
        assert!(Instant::now() < until, "not {slots}: {said}");
    }
}

#[test]
fn no_more_requests_are_at_work_than_there_are_slots() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let Some(setup) = setup(&backend) else { return };
    let [one, two] = [send(setup.proxy), send(setup.proxy)];
    let (first, second) = (at_work(&backend), at_work(&backend));
    let full = setup.ask(Client(1), "GET /");
    assert_eq!((full.status, full.header("retry-after")), (429, Some("1")), "{full:?}");
    assert!(full.body.contains("Every slot is taken"), "{full:?}");
    free(setup.tap.address, 0);
    // The end of one lets another in. Which of the two clients is answered is not known here.
    answer(first);
    free(setup.tap.address, 1);
    let three = send(setup.proxy);
    let third = at_work(&backend);
    assert_eq!(setup.ask(Client(1), "GET /").status, 429);
    answer(second);
    answer(third);
    for client in [one, two, three] {
        let said = answered(client);
        assert!(said.starts_with("HTTP/1.1 200") && said.ends_with("yes"), "{said}");
    }
    free(setup.tap.address, 2);
}

#[test]
fn a_client_that_goes_and_a_backend_that_fails_give_the_slot_back() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let Some(setup) = setup(&backend) else { return };
    let client = send(setup.proxy);
    let work = at_work(&backend);
    free(setup.tap.address, 1);
    drop(client);
    free(setup.tap.address, 2);
    drop(work);
    let client = send(setup.proxy);
    drop(at_work(&backend));
    assert!(answered(client).starts_with("HTTP/1.1 502"));
    free(setup.tap.address, 2);
}

#[test]
fn without_the_service_nothing_reaches_the_backend() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let Some(mut setup) = setup(&backend) else { return };
    setup.kill_service();
    let said = setup.ask(Client(1), "GET /");
    assert_eq!((said.status, said.header("retry-after")), (503, Some("1")), "{said:?}");
    backend.set_nonblocking(true).unwrap();
    assert!(backend.accept().is_err());
}

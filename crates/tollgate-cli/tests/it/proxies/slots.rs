//! A slot for each request at work, as every proxy has to keep it: two of them, before a backend.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::wire::{Client, read_some};
use crate::serving::LONG;

/// How many clients hang up.
const HUNG_UP: u64 = 160;

/// A proxy, and the service that it asks.
pub(super) struct At {
    pub(super) proxy: SocketAddr,
    pub(super) service: SocketAddr,
}

/// Sends a request, whose answer is not waited for. All clients choose the same id, which is none
/// for a proxy: each request has a slot of its own.
fn send(to: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let ids = "x-request-id: b1946ac92492d2347c6235b4d2611184\r\n\
               tollgate-hold-id: b1946ac92492d2347c6235b4d2611184\r\n";
    let head = format!("GET / HTTP/1.1\r\nhost: a\r\n{ids}connection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// The request that the backend got: it is at work until it is answered or dropped.
fn at_work(backend: &TcpListener) -> TcpStream {
    let (mut stream, _) = backend.accept().unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    assert!(read_some(&mut stream, &mut [0; 1_024]).unwrap() > 0);
    stream
}

fn answer(mut work: TcpStream) {
    work.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes").unwrap();
}

fn answered(mut client: TcpStream) -> String {
    let mut said = String::new();
    client.read_to_string(&mut said).unwrap();
    said
}

/// Waits until so many slots are free by the service at this address: a proxy gives one back after
/// the answer.
fn free(service: SocketAddr, slots: u64) {
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

/// Clients that close 0 to 3 ms after they have asked leave every slot free.
pub(super) fn hung_up(at: &At, backend: &TcpListener) {
    let backend = backend.try_clone().unwrap();
    // It ends with the process of the test.
    std::thread::spawn(move || {
        for mut work in backend.incoming().flatten() {
            if read_some(&mut work, &mut [0; 1_024]).is_ok_and(|bytes| bytes > 0) {
                let _ = work.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes");
            }
        }
    });
    for number in 0..HUNG_UP {
        let client = send(at.proxy);
        let (asked, stays) = (Instant::now(), Duration::from_micros(number * 3_000 / HUNG_UP));
        while asked.elapsed() < stays {
            std::thread::yield_now();
        }
        drop(client);
    }
    free(at.service, 2);
}

/// Requests that the backend sends elsewhere within the proxy, one after the other, more of them
/// than there are slots.
pub(super) fn sent_elsewhere(at: &At, backend: &TcpListener) {
    let backend = backend.try_clone().unwrap();
    // It ends with the process of the test.
    std::thread::spawn(move || {
        for mut work in backend.incoming().flatten() {
            let mut head = [0; 1_024];
            let Ok(bytes) = read_some(&mut work, &mut head) else { continue };
            let rest: &[u8] = match head[..bytes].starts_with(b"GET /from") {
                true => b"x-accel-redirect: /to\r\ncontent-length: 0\r\n\r\n",
                false => b"content-length: 3\r\n\r\nyes",
            };
            let _ = work.write_all(&[b"HTTP/1.1 200 OK\r\n", rest].concat());
        }
    });
    for number in 0..6 {
        let said = Client(1).ask(at.proxy, "GET /from");
        assert_eq!((said.status, &*said.body), (200, "yes"), "request {number}");
        free(at.service, 2);
    }
}

/// No more requests are at work than there are slots. `request` meets none that is free.
pub(super) fn never_more(at: &At, backend: &TcpListener, request: &str) {
    let [one, two] = [send(at.proxy), send(at.proxy)];
    let (first, second) = (at_work(backend), at_work(backend));
    let full = Client(1).ask(at.proxy, request);
    assert_eq!((full.status, full.header("retry-after")), (429, Some("1")), "{full:?}");
    assert!(full.body.contains("Every slot is taken"), "{full:?}");
    free(at.service, 0);
    // The end of one lets another in. Which of the two clients is answered is not known here.
    answer(first);
    free(at.service, 1);
    let three = send(at.proxy);
    let third = at_work(backend);
    assert_eq!(Client(1).ask(at.proxy, "GET /").status, 429);
    answer(second);
    answer(third);
    for client in [one, two, three] {
        let said = answered(client);
        assert!(said.starts_with("HTTP/1.1 200") && said.ends_with("yes"), "{said}");
    }
    free(at.service, 2);
}

/// A client that goes and a backend that fails, with this status, give the slot back.
pub(super) fn always_given_back(at: &At, backend: &TcpListener, failed: &str) {
    let client = send(at.proxy);
    let work = at_work(backend);
    free(at.service, 1);
    drop(client);
    free(at.service, 2);
    drop(work);
    let client = send(at.proxy);
    drop(at_work(backend));
    let said = answered(client);
    assert!(said.starts_with(failed), "{said}");
    free(at.service, 2);
}

/// Nothing reaches the backend where the service does not answer the proxy.
pub(super) fn closed(proxy: SocketAddr, backend: &TcpListener) {
    let said = Client(1).ask(proxy, "GET /");
    assert_eq!((said.status, said.header("retry-after")), (503, Some("1")), "{said:?}");
    backend.set_nonblocking(true).unwrap();
    assert!(backend.accept().is_err());
}

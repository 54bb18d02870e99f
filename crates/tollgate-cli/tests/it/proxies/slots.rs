//! A slot for each request at work, as every proxy has to keep it: two of them, before a backend.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tollgate_proof::Random;

use super::wire::{Client, read_some};
use crate::serving::LONG;

/// How many clients there are, how many at a time, and how long they stay at most. Every tenth
/// reads its answer first.
const HUNG_UP: u64 = 1_000;
const AT_A_TIME: u64 = 8;
const STAYS: Duration = Duration::from_millis(16);

/// A slot for each of them, since a proxy may serve them long after they have gone.
pub(super) const MANY: (&str, &str) = ("20 at once", "1000 at once");

/// A proxy, and the service that it asks.
pub(super) struct At {
    pub(super) proxy: SocketAddr,
    pub(super) service: SocketAddr,
}

/// Sends a request, and does not wait for the answer. All clients choose the same id. A proxy makes
/// its own: each request has a separate slot.
fn send(to: SocketAddr) -> TcpStream {
    send_for(to, "/")
}

fn send_for(to: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let ids = "x-request-id: b1946ac92492d2347c6235b4d2611184\r\n\
               tollgate-hold-id: b1946ac92492d2347c6235b4d2611184\r\n";
    let head = format!("GET {path} HTTP/1.1\r\nhost: a\r\n{ids}connection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// The request that the backend got: it is at work until it is answered or dropped.
pub(super) fn at_work(backend: &TcpListener) -> TcpStream {
    read(backend.accept().unwrap().0)
}

pub(super) fn read(mut stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(LONG)).unwrap();
    assert!(read_some(&mut stream, &mut [0; 1_024]).unwrap() > 0);
    stream
}

pub(super) fn answer(mut work: TcpStream) {
    work.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes").unwrap();
}

fn answered(mut client: TcpStream) -> String {
    let mut said = String::new();
    client.read_to_string(&mut said).unwrap();
    said
}

/// Waits until this many slots are free by the service at this address: a proxy gives one back
/// after the answer.
pub(super) fn free(service: SocketAddr, slots: u64) {
    free_of(service, slots, 2);
}

fn free_of(service: SocketAddr, slots: u64, all: u64) {
    let question = format!(r#"{{"subject": "backend", "limit": "{all} at once hold 2m"}}"#);
    let until = Instant::now() + LONG;
    loop {
        let mut client = crate::serving::Client::connect(service).unwrap();
        let (_, said) = client.ask("POST", "/v1/peek", &question).unwrap();
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        if said["remaining"] == slots {
            return;
        }
        assert!(Instant::now() < until, "not {slots}: {said}");
    }
}

/// The answers of a backend: `/from` is sent elsewhere within the proxy, and `/missing` is not
/// there.
fn answers(backend: &TcpListener) {
    let backend = backend.try_clone().unwrap();
    // It ends with the process of the test.
    std::thread::spawn(move || {
        for mut work in backend.incoming().flatten() {
            let mut head = [0; 1_024];
            let Ok(bytes @ 1..) = read_some(&mut work, &mut head) else { continue };
            let head = &head[..bytes];
            let said: &[u8] = if head.starts_with(b"GET /from") {
                b"200 OK\r\nx-accel-redirect: /to\r\ncontent-length: 0\r\n\r\n"
            } else if head.starts_with(b"GET /missing") {
                b"404 Not Found\r\ncontent-length: 0\r\n\r\n"
            } else {
                b"200 OK\r\ncontent-length: 3\r\n\r\nyes"
            };
            let _ = work.write_all(&[b"HTTP/1.1 ", said].concat());
        }
    });
}

/// Clients that close at any time after they have asked for one of these paths leave every slot
/// free, and every slot that was taken is given back once.
pub(super) fn hung_up(at: &At, backend: &TcpListener, paths: &[&str]) {
    answers(backend);
    let client = |number: u64| {
        let path = Random::new(number).pick(paths);
        let client = send_for(at.proxy, path);
        if number.is_multiple_of(10) {
            answered(client);
        } else {
            let stays = STAYS * u32::try_from(number % 64).unwrap() / 64;
            std::thread::sleep(stays); // tidy: sleep-ok a client that hangs up at any time
        }
    };
    std::thread::scope(|scope| {
        for first in 0..AT_A_TIME {
            let numbers = (first..HUNG_UP).step_by(usize::try_from(AT_A_TIME).unwrap());
            scope.spawn(move || numbers.for_each(client));
        }
    });
    let until = Instant::now() + LONG;
    loop {
        free_of(at.service, HUNG_UP, HUNG_UP);
        let mut client = crate::serving::Client::connect(at.service).unwrap();
        let (_, page) = client.ask("GET", "/metrics", "").unwrap();
        let number = |of: &str| -> u64 {
            let line = page.lines().find_map(|line| line.strip_prefix(of));
            line.unwrap_or_else(|| panic!("{of}: {page}")).trim().parse().unwrap()
        };
        let placed = number("tollgate_holds_placed_total{kind=\"acquire\"}");
        let settled = number("tollgate_hold_calls_total{result=\"settled\"}");
        if placed == settled {
            println!("{placed} of {HUNG_UP} were placed and settled");
            return assert!(placed >= HUNG_UP / 10, "{placed} of {HUNG_UP}");
        }
        assert!(Instant::now() < until, "{placed} placed, {settled} settled");
    }
}

/// Requests that the backend sends elsewhere within the proxy, and pages that are missing, one
/// after the other, more of them than there are slots.
pub(super) fn sent_elsewhere(at: &At, backend: &TcpListener, paths: &[&str]) {
    answers(backend);
    for number in 0..6 {
        for path in paths {
            let said = Client(1).ask(at.proxy, &format!("GET {path}"));
            assert_eq!((said.status, &*said.body), (200, "yes"), "request {number} for {path}");
            free(at.service, 2);
        }
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

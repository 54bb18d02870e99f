//! `judge` over real sockets where the limiter restarts, and where replies are lost.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tollgate_testbed::free_port;

use super::broken::broken;
use crate::Place;
use crate::serving::Serving;

/// Long enough that a service which restarts is back within the period.
const LIMIT: &str = "20/6s via sliding_log";

/// A service at an address of its own, which is killed and started again for each connection to
/// another address.
struct Restarted {
    service: SocketAddr,
    control: SocketAddr,
}

impl Restarted {
    fn start(place: &Arc<Place>, store: &str) -> Self {
        let (service, listener) = (free_port(), TcpListener::bind("127.0.0.1:0").unwrap());
        let control = listener.local_addr().unwrap();
        let (place, store, at) = (Arc::clone(place), store.to_owned(), service.to_string());
        let start =
            move || Serving::start(&place, &["--listen", &at, "--admin", "off", "--store", &store]);
        let mut serving = start();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                serving.program.kill();
                serving = start();
                stream.write_all(b"HTTP/1.0 204 No Content\r\n\r\n").unwrap();
            }
        });
        Self { service, control }
    }

    /// The exit code and the report of a judgement that restarts it.
    fn judged(&self, place: &Place, more: &[&str]) -> (i32, Value) {
        let url = format!("http://{}/v1/check", self.service);
        let body = format!(r#"{{"subject": "{{subject}}", "limit": "{LIMIT}"}}"#);
        let restart = format!("curl -s -m 60 http://{}/", self.control);
        let args = ["judge", "--json", "-l", LIMIT, "--http", &url, "--body", &body];
        let reading = ["--allowed", "json:/allowed=true", "--remaining", "json:/remaining"];
        let exact = ["--decided-at", "json:/at_us", "--retry-after", "json:/retry_after/seconds"];
        let restart = ["--restart", &restart, "--within", "12500ms"];
        report(place, &[&args[..], &reading, &exact, &restart, more].concat())
    }
}

fn report(place: &Place, args: &[&str]) -> (i32, Value) {
    let (code, out, err) = place.run(args);
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{args:?}: {err}"));
    (code, report)
}

/// A row of a report's table.
fn row<'r>(report: &'r Value, table: &str, key: &str, name: &str) -> &'r Value {
    let rows = report[table].as_array().unwrap();
    rows.iter().find(|row| row[key] == name).unwrap_or_else(|| panic!("no {name}: {report:#}"))
}

/// Memory keeps nothing, which is one state of each count; SQLite keeps all.
#[test]
fn what_a_restart_loses_is_found_and_a_store_that_keeps_it_is_kept() {
    let place = Arc::new(Place::new());
    let (file, strict) = (place.store(), ["--may-lose", "0"]);
    let cases =
        [("memory://", &strict[..], true), ("memory://", &[], false), (&file, &strict[..], false)];
    thread::scope(|scope| {
        for (store, more, is_broken) in cases {
            let place = &place;
            scope.spawn(move || {
                let (code, report) = Restarted::start(place, store).judged(place, more);
                let case = format!("{store} {more:?}: {report:#}");
                assert_eq!(code, i32::from(is_broken), "{case}");
                let traffic = row(&report, "traffic", "name", "a restart");
                assert!(traffic["denied"].as_u64() > Some(0), "{case}");
                let bound = row(&report, "verdicts", "promise", "bound");
                assert_eq!(bound["verdict"], if is_broken { "broken" } else { "kept" }, "{case}");
                if is_broken {
                    assert_eq!(bound["traffic"], "a restart", "{case}");
                    assert!(bound["history"].to_string().contains("restart"), "{case}");
                }
            });
        }
    });
}

/// The period of the server below, and the units that it admits in one.
const PERIOD: Duration = Duration::from_millis(300);
const UNITS: usize = 5;

/// The time of a request. The judge closes a connection sooner whose reply is to be lost.
const WORK: Duration = Duration::from_millis(8);

/// The counts of a server, and what it answered to each request id: the units that remained.
#[derive(Default)]
struct Counts {
    admitted: HashMap<String, VecDeque<Instant>>,
    answered: HashMap<String, Option<usize>>,
}

/// A server that takes a while for each answer, and charges a request id once. One that `forgets`
/// notes the id when the reply goes out, and not with the charge.
fn server(forgets: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let counts = Arc::<Mutex<Counts>>::default();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counts = Arc::clone(&counts);
            thread::spawn(move || answer(&stream, &counts, forgets));
        }
    });
    address
}

fn answer(stream: &TcpStream, counts: &Mutex<Counts>, forgets: bool) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    while let Some(first) = lines.next() {
        while lines.next().is_some_and(|line| !line.is_empty()) {}
        let (subject, id) = first.split_once("&id=").unwrap();
        let left = {
            let mut counts = counts.lock().unwrap();
            let known = counts.answered.get(id).copied();
            let left = known.unwrap_or_else(|| counts.ask(subject));
            if !forgets {
                counts.answered.insert(id.to_owned(), left);
            }
            left
        };
        thread::sleep(WORK); // tidy: sleep-ok the client goes away meanwhile
        if forgets {
            if is_gone(stream) {
                return;
            }
            counts.lock().unwrap().answered.insert(id.to_owned(), left);
        }
        let head = if left.is_some() { "200 OK" } else { "429 Too Many Requests" };
        let left = left.unwrap_or(0);
        let reply = format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\nratelimit-remaining: {left}");
        let mut out = stream;
        if out.write_all(format!("{reply}\r\n\r\n").as_bytes()).is_err() {
            return;
        }
    }
}

impl Counts {
    /// The units that remain after a request; none when it is denied.
    fn ask(&mut self, subject: &str) -> Option<usize> {
        let log = self.admitted.entry(subject.to_owned()).or_default();
        let now = Instant::now();
        while log.front().is_some_and(|first| now.duration_since(*first) >= PERIOD) {
            log.pop_front();
        }
        (log.len() < UNITS).then(|| {
            log.push_back(now);
            UNITS - log.len()
        })
    }
}

/// Whether the client has closed the connection.
fn is_gone(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let is_gone = stream.peek(&mut [0]).is_ok_and(|bytes| bytes == 0);
    stream.set_nonblocking(false).unwrap();
    is_gone
}

#[test]
fn an_id_that_is_forgotten_with_a_lost_reply_is_found() {
    let place = Place::new();
    thread::scope(|scope| {
        for forgets in [true, false] {
            let place = &place;
            scope.spawn(move || {
                let url = format!("http://{}/?user={{subject}}&id={{id}}", server(forgets));
                let args = ["judge", "--json", "-l", "5/300ms via sliding_log", "--http", &url];
                let (code, report) = report(place, &args);
                let found = broken(&report);
                assert_eq!(code, i32::from(forgets), "{found:?} {report:#}");
                let once = row(&report, "verdicts", "promise", "charged once");
                assert!(once["checked"].as_u64() > Some(3), "{once:#}");
                if forgets {
                    assert_eq!(once["verdict"], "broken", "{report:#}");
                    assert_eq!(once["traffic"], "lost replies", "{once:#}");
                }
            });
        }
    });
}

//! Two replicas on one Redis behind a proxy, which restart one after the other under load: nobody
//! is answered by a fault, and no more are admitted than the limit says.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_testbed::{Program, RedisServer, free_port};

use super::slots::free;
use super::wire::Pages;
use super::{Proxy, proxied, wire};
use crate::Place;
use crate::redis;
use crate::serving::{Client, LONG, Serving};

/// A second's units, and as many at once, for all clients together.
pub(super) const RATE: u64 = 40;

const POLICIES: &str = r#"
version = 1
[[policies]]
name = "pages"
on_failure = "deny"
limits = [{ subject = "host", limit = "40/s burst 40 via gcra" }]
"#;

const CLIENTS: usize = 4;

/// Answers that come while a replica is away, and between two restarts.
const MEANWHILE: u64 = 150;

/// Two services, each at addresses of its own.
pub(super) struct Replicas {
    args: [Vec<String>; 2],
    pub(super) running: [Serving; 2],
    pub(super) grpc: [SocketAddr; 2],
    pub(super) place: Place,
    _redis: RedisServer,
}

impl Replicas {
    /// None without a Redis; that has been said then. The policies are a file's text, or empty.
    pub(super) fn start(policies: &str, flags: &[&str]) -> Option<Self> {
        let place = Place::new();
        // Under load a busy machine is not a fault of the store.
        let (redis, url) = redis::start(place.path(), &[])?;
        let store = format!("{url}?deadline=5s");
        let config = place.path().join("policies.toml");
        let grpc = [free_port(), free_port()];
        let mut words = vec!["--store", &store, "--grace", "5s"];
        if !policies.is_empty() {
            std::fs::write(&config, policies).unwrap();
            words.extend(["--config", config.to_str().unwrap()]);
        }
        words.extend(flags);
        let args = grpc.map(|grpc| {
            let own = ["--listen", &free_port().to_string(), "--grpc", &grpc.to_string()];
            words.iter().chain(&own).map(|word| (*word).to_owned()).collect::<Vec<_>>()
        });
        let running = args.each_ref().map(|args| Self::run(&place, args));
        Some(Self { args, running, grpc, place, _redis: redis })
    }

    fn run(place: &Place, args: &[String]) -> Serving {
        Serving::start(place, &args.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub(super) fn address(&self, replica: usize) -> SocketAddr {
        self.running[replica].address()
    }

    /// Ends each as an orchestrator does, and starts it again after a while, until both are asked
    /// again by this metric. A proxy that looks at their health has seen one before the other ends.
    pub(super) fn roll(&mut self, meanwhile: &dyn Fn(), asked: &str) {
        for replica in [0, 1] {
            meanwhile();
            self.running[replica].terminate();
            let until = Instant::now() + LONG;
            let status = loop {
                if let Some(status) = self.running[replica].program.child.try_wait().unwrap() {
                    break status;
                }
                assert!(Instant::now() < until, "it does not end");
                thread::yield_now();
            };
            assert_eq!(status.code(), Some(0));
            meanwhile();
            self.running[replica] = Self::run(&self.place, &self.args[replica]);
            let looks = self.args[replica].iter().any(|word| word == "--linger");
            while (looks || replica == 1) && self.metric(asked).contains(&0) {
                assert!(Instant::now() < until, "one is not asked: {:?}", self.metric(asked));
                meanwhile();
            }
        }
    }

    /// The number of this metric at each, since it started.
    fn metric(&self, begin: &str) -> [u64; 2] {
        self.running.each_ref().map(|running| {
            let (_, page) = running.client().ask("GET", "/metrics", "").unwrap();
            let lines = page.lines().filter(|line| line.starts_with(begin));
            lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
        })
    }
}

/// Asks over a connection that stays open as long as the proxy keeps it.
pub(super) fn kept(
    connection: &mut Option<Client>,
    to: SocketAddr,
    request: (&str, &str),
) -> io::Result<u16> {
    let mut client = match connection.take() {
        Some(client) => client,
        None => Client::connect(to)?,
    };
    let (status, headers, _) = client.whole(request.0, request.1, "")?;
    if !headers.to_ascii_lowercase().contains("connection: close") {
        *connection = Some(client);
    }
    Ok(status)
}

/// The number of answers by their status, while something happens; 0 where none came.
pub(super) fn under_load(
    ask: impl Fn(&mut Option<Client>) -> io::Result<u16> + Sync,
    during: impl FnOnce(&dyn Fn()),
) -> BTreeMap<u16, u64> {
    let (answers, stop) = (Mutex::new(BTreeMap::new()), AtomicBool::new(false));
    let all = || answers.lock().unwrap().values().sum::<u64>();
    let client = || {
        let mut connection = None;
        while !stop.load(Ordering::Relaxed) {
            let status = ask(&mut connection).unwrap_or(0);
            *answers.lock().unwrap().entry(status).or_insert(0) += 1;
        }
    };
    let meanwhile = || {
        let (until, enough) = (Instant::now() + LONG, all() + MEANWHILE);
        while all() < enough {
            assert!(Instant::now() < until, "only {} answers", all());
            thread::sleep(Duration::from_millis(1)); // tidy: sleep-ok the moment of a restart
        }
    };
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(client);
        }
        // A failed test of what happens does not leave the clients asking.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| during(&meanwhile)));
        stop.store(true, Ordering::Relaxed);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    answers.into_inner().unwrap()
}

/// Answers of no other status than these two, and some of both: how many were admitted.
pub(super) fn only_admitted_and_denied(answers: &BTreeMap<u16, u64>) -> u64 {
    println!("answers: {answers:?}");
    assert!(answers.keys().eq(&[200, 429]), "faults: {answers:?}");
    answers[&200]
}

/// The example with its second server.
pub(super) fn second<P: Proxy>(replicas: &Replicas) -> (&'static str, String) {
    let live = P::SECOND.trim_start_matches('#');
    (P::SECOND, live.replace("10.0.0.2:8700", &replicas.address(1).to_string()))
}

/// A proxy before these pages and with both replicas.
fn before<P: Proxy>(
    program: &Path,
    replicas: &Replicas,
    pages: SocketAddr,
) -> (SocketAddr, Program) {
    let (old, new) = second::<P>(replicas);
    let at = (pages, replicas.address(0));
    proxied::<P>(program, replicas.place.path(), &[(old, &new)], at)
}

/// For every proxy that asks `/v1/auth`.
pub(super) fn a_rolling_restart_of_two_replicas_fails_nobody<P: Proxy>() {
    let Some(program) = P::find() else { return };
    let flags = [&["--request-id-header", "X-Request-Id"], P::LINGER].concat();
    let Some(mut replicas) = Replicas::start(POLICIES, &flags) else { return };
    let pages = Pages::open();
    let (proxy, _running) = before::<P>(&program, &replicas, pages.address);
    let began = Instant::now();
    let answers = under_load(
        |connection| kept(connection, proxy, ("GET", "/")),
        |meanwhile| replicas.roll(meanwhile, "tollgate_decisions_total"),
    );
    let most = RATE + RATE * u64::try_from(began.elapsed().as_micros()).unwrap() / 1_000_000 + 1;
    let admitted = only_admitted_and_denied(&answers);
    assert!(admitted <= most, "{admitted} of {most}");
    assert_eq!(admitted, pages.visits() as u64);
}

/// Once the proxy knows of it, a replica that is stopped where it is is not asked.
pub(super) fn a_silent_replica_is_left_out<P: Proxy>() {
    let Some(program) = P::find() else { return };
    let Some(replicas) = Replicas::start(POLICIES, &[]) else { return };
    let pages = Pages::open();
    let (proxy, _running) = before::<P>(&program, &replicas, pages.address);
    replicas.running[1].program.freeze().unwrap();
    let until = Instant::now() + LONG;
    let at_once = |_| {
        let asked = Instant::now();
        let status = wire::Client(1).ask(proxy, "GET /").status;
        // A question waits a second for an answer.
        status == 200 && asked.elapsed() < Duration::from_secs(1)
    };
    while !(0..6).all(at_once) {
        assert!(Instant::now() < until, "it is asked all the time");
    }
    replicas.running[1].program.thaw().unwrap();
}

/// For every proxy that asks `/v1/auth`: a stopped replica takes connections, and says nothing.
pub(super) fn a_silent_replica_fails_nobody<P: Proxy>() {
    let Some(program) = P::find() else { return };
    let Some(replicas) = Replicas::start(POLICIES, &[]) else { return };
    let pages = Pages::open();
    let (proxy, _running) = before::<P>(&program, &replicas, pages.address);
    replicas.running[1].program.freeze().unwrap();
    // A method that no proxy repeats of itself: the question has another.
    let ask = || wire::Client(1).ask(proxy, "POST /\n\nname=a").status;
    let statuses = thread::scope(|scope| {
        let asked = [(); 6].map(|()| scope.spawn(ask));
        asked.map(|asked| asked.join().unwrap())
    });
    replicas.running[1].program.thaw().unwrap();
    assert_eq!(statuses, [200; 6]);
}

/// A backend that knows how many requests were at work together.
pub(super) struct Busy {
    pub(super) address: SocketAddr,
    most: Arc<AtomicUsize>,
}

impl Busy {
    pub(super) fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (most, now) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let busy = Self { address, most: Arc::clone(&most) };
        // It ends with the process of the test.
        thread::spawn(move || {
            for mut work in listener.incoming().flatten() {
                let (most, now) = (Arc::clone(&most), Arc::clone(&now));
                thread::spawn(move || {
                    if work.read(&mut [0; 4_096]).is_ok_and(|length| length > 0) {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::sleep(Duration::from_millis(2)); // tidy: sleep-ok work takes time
                        now.fetch_sub(1, Ordering::SeqCst);
                        let said =
                            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                        drop(work.write_all(said));
                    }
                });
            }
        });
        busy
    }

    pub(super) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

/// For every proxy that takes one of two slots for each request: the slots are as free as before,
/// and no more requests were at work.
pub(super) fn keeps_every_slot(replicas: &mut Replicas, busy: &Busy, proxy: SocketAddr) {
    // Of a method that a proxy does not ask again of itself.
    let answers = under_load(
        |connection| kept(connection, proxy, ("POST", "/")),
        |meanwhile| replicas.roll(meanwhile, "tollgate_holds_placed_total"),
    );
    only_admitted_and_denied(&answers);
    assert!(busy.most() <= 2, "{} at work", busy.most());
    for replica in [0, 1] {
        free(replicas.address(replica), 2);
    }
}

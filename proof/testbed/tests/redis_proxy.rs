//! The proxy that makes connections fail: each of its behaviours, before a real server.

#![allow(clippy::unwrap_used)] // a test may unwrap: its panic is its verdict

use std::io::ErrorKind;
use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tollgate_testbed::{Client, Mode, Proxy, RedisServer, Reply, Trick, redis_or_skip};

/// Longer than anything takes here that is not made to take longer.
const SHORT: Duration = Duration::from_millis(100);

fn connect(proxy: &Proxy) -> Client {
    Client::tcp(proxy.address()).unwrap()
}

fn incr(client: &mut Client, key: &str) -> std::io::Result<Option<i64>> {
    client.command(&[b"INCR", key.as_bytes()]).map(|reply| reply.int())
}

fn count(server: &RedisServer, key: &str) -> Option<i64> {
    server.command(&[b"GET", key.as_bytes()]).int()
}

/// Polls until it holds.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

fn is_end(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset)
}

#[test]
fn everything_passes_at_first() {
    let server = redis_or_skip!();
    let proxy = Proxy::start(server.address());
    let mut client = connect(&proxy);
    for number in 1..=100 {
        client.send(&[b"INCR", b"a"]).unwrap();
        client.send(&[b"ECHO", &b"x".repeat(number)]).unwrap();
    }
    for number in 1..=100 {
        assert_eq!(client.receive().unwrap().int(), Some(i64::try_from(number).unwrap()));
        assert_eq!(client.receive().unwrap().bytes().unwrap().len(), number);
    }
    // A reply that is longer than one read.
    let long = b"y".repeat(200_000);
    assert_eq!(client.command(&[b"ECHO", &long]).unwrap().bytes(), Some(&long[..]));
    let seen = proxy.seen();
    assert_eq!((seen.accepted, seen.open, seen.requests, seen.tricks), (1, 1, 201, 0));
    drop(client);
    eventually("the link ends with its client", || proxy.seen().open == 0);
}

#[test]
fn a_delay_is_a_latency_and_not_a_throughput() {
    let server = redis_or_skip!();
    let proxy = Proxy::start(server.address());
    let mut client = connect(&proxy);
    proxy.set(Mode::Delay { least: SHORT, most: SHORT });
    let begun = Instant::now();
    for _ in 0..600 {
        client.send(&[b"INCR", b"a"]).unwrap();
    }
    for number in 1..=600 {
        assert_eq!(client.receive().unwrap().int(), Some(number));
    }
    let took = begun.elapsed();
    // One after the other they would take 60 s, however busy the machine is.
    assert!(took >= SHORT && took < SHORT * 300, "{took:?}");
    proxy.set(Mode::Delay { least: Duration::ZERO, most: Duration::from_millis(5) });
    assert_eq!(incr(&mut client, "a").unwrap(), Some(601));
}

#[test]
fn a_stall_ends_and_everything_arrives_late() {
    let server = redis_or_skip!();
    let proxy = Proxy::start(server.address());
    let mut client = connect(&proxy);
    proxy.set(Mode::Stall);
    client.patience(SHORT).unwrap();
    assert!(incr(&mut client, "a").is_err());
    assert_eq!(count(&server, "a"), None);
    proxy.set(Mode::Pass);
    client.patience(Duration::from_secs(10)).unwrap();
    assert_eq!(client.receive().unwrap(), Reply::Int(1));
    assert_eq!(count(&server, "a"), Some(1));
}

#[test]
fn a_black_hole_swallows_and_its_victims_stay_silent() {
    let server = redis_or_skip!();
    let proxy = Proxy::start(server.address());
    let (mut victim, mut idle) = (connect(&proxy), connect(&proxy));
    assert_eq!(incr(&mut victim, "a").unwrap(), Some(1));
    assert_eq!(incr(&mut idle, "a").unwrap(), Some(2));
    proxy.set(Mode::BlackHole);
    victim.patience(SHORT).unwrap();
    assert!(incr(&mut victim, "a").is_err_and(|error| !is_end(&error)));
    let mut newcomer = connect(&proxy);
    newcomer.patience(SHORT).unwrap();
    eventually("it is accepted", || proxy.seen().accepted == 3);
    proxy.heal();
    for silent in [&mut victim, &mut newcomer] {
        assert!(incr(silent, "a").is_err_and(|error| !is_end(&error)));
    }
    assert_eq!(incr(&mut idle, "a").unwrap(), Some(3));
}

#[test]
fn a_lost_reply_is_a_done_request() {
    let server = redis_or_skip!();
    let proxy = Proxy::start(server.address());
    proxy.next(2, Trick::LoseReply);
    for done in 1..=2 {
        let mut client = connect(&proxy);
        assert!(is_end(&incr(&mut client, "a").unwrap_err()));
        assert_eq!(count(&server, "a"), Some(done));
    }
    assert_eq!(incr(&mut connect(&proxy), "a").unwrap(), Some(3));
    assert_eq!(proxy.seen().tricks, 2);
}

#[test]
fn a_lost_request_is_not_done() {
    let server = redis_or_skip!();
    let proxy = Proxy::start(server.address());
    proxy.only(&["INCR"]);
    proxy.next(1, Trick::LoseRequest);
    let mut client = connect(&proxy);
    // Other commands pass.
    assert_eq!(client.command(&[b"PING"]).unwrap().text().unwrap(), "PONG");
    assert!(is_end(&incr(&mut client, "a").unwrap_err()));
    assert_eq!(count(&server, "a"), None);
    // Names count in any letters.
    proxy.next(1, Trick::LoseRequest);
    assert!(connect(&proxy).command(&[b"incr", b"a"]).is_err());
}

#[test]
fn half_a_reply_is_an_end_within_it() {
    let server = redis_or_skip!();
    let proxy = Proxy::start(server.address());
    proxy.next(1, Trick::HalfReply);
    let mut client = connect(&proxy);
    assert!(is_end(&client.command(&[b"ECHO", b"0123456789"]).unwrap_err()));
    // `$10 0123` of `$10 0123456789`, each line ended.
    assert!(format!("{client:?}").contains("unread: 8"), "{client:?}");
}

#[test]
fn dribbled_bytes_are_a_whole_reply() {
    let server = redis_or_skip!();
    let proxy = Proxy::start(server.address());
    let mut client = connect(&proxy);
    proxy.set(Mode::Dribble { pause: Duration::from_millis(5) });
    let begun = Instant::now();
    assert_eq!(client.command(&[b"ECHO", b"0123456789"]).unwrap().bytes().unwrap(), b"0123456789");
    // Sixteen pauses lie between 17 bytes.
    assert!(begun.elapsed() >= Duration::from_millis(5 * 16));
}

#[test]
fn swapped_replies_are_the_other_clients() {
    let server = redis_or_skip!();
    let proxy = Proxy::start(server.address());
    proxy.only(&["ECHO"]);
    proxy.next(2, Trick::Swap);
    let (mut one, mut other) = (connect(&proxy), connect(&proxy));
    one.send(&[b"ECHO", b"for one"]).unwrap();
    other.send(&[b"ECHO", b"for the other"]).unwrap();
    assert_eq!(one.receive().unwrap().bytes().unwrap(), b"for the other");
    assert_eq!(other.receive().unwrap().bytes().unwrap(), b"for one");
    assert_eq!(one.command(&[b"ECHO", b"again"]).unwrap().bytes().unwrap(), b"again");
    // One that leaves while it waits is nobody's partner.
    proxy.next(3, Trick::Swap);
    let mut gone = connect(&proxy);
    gone.send(&[b"ECHO", b"gone"]).unwrap();
    eventually("it is met", || proxy.seen().tricks == 3);
    drop(gone);
    eventually("it is gone", || proxy.seen().open == 2);
    one.send(&[b"ECHO", b"1"]).unwrap();
    other.send(&[b"ECHO", b"2"]).unwrap();
    assert_eq!(one.receive().unwrap().bytes().unwrap(), b"2");
    assert_eq!(other.receive().unwrap().bytes().unwrap(), b"1");
}

#[test]
fn a_reply_that_came_twice_is_taken_for_the_next() {
    let server = redis_or_skip!();
    let proxy = Proxy::start(server.address());
    proxy.next(1, Trick::Duplicate);
    let mut client = connect(&proxy);
    assert_eq!(client.command(&[b"ECHO", b"a"]).unwrap().bytes().unwrap(), b"a");
    // The hazard itself: the second question is answered with the first reply.
    assert_eq!(client.command(&[b"ECHO", b"b"]).unwrap().bytes().unwrap(), b"a");
    assert_eq!(client.receive().unwrap().bytes().unwrap(), b"b");
}

#[test]
fn garbage_is_no_reply() {
    let server = redis_or_skip!();
    let proxy = Proxy::seeded(server.address(), 7);
    proxy.next(1, Trick::Garbage);
    let error = connect(&proxy).command(&[b"PING"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}

#[test]
fn connections_are_refused_and_accepted_again() {
    let server = redis_or_skip!();
    let proxy = Proxy::start(server.address());
    let mut old = connect(&proxy);
    assert_eq!(incr(&mut old, "a").unwrap(), Some(1));
    proxy.refuse();
    let error = Client::tcp(proxy.address()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    // Nobody who looks for a free port gets this one meanwhile.
    let taken = TcpListener::bind(proxy.address()).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    assert_eq!(incr(&mut old, "a").unwrap(), Some(2));
    proxy.heal();
    assert_eq!(incr(&mut connect(&proxy), "a").unwrap(), Some(3));
    proxy.cut();
    assert!(incr(&mut old, "a").is_err());
    let address = proxy.address();
    drop(proxy);
    // Another test may have the port by now; its listener does not lead to this server.
    let reached = Client::tcp(address).and_then(|mut client| client.command(&[b"INFO", b"server"]));
    let reached = reached.ok().and_then(|info| info.text()).unwrap_or_default();
    assert!(!reached.contains(&server.info("server")["run_id"]), "{reached}");
}

/// A child of this process has a copy of every descriptor until it runs its program.
#[test]
fn connections_are_refused_while_children_are_born() {
    let server = redis_or_skip!();
    let proxy = Proxy::start(server.address());
    thread::scope(|scope| {
        let born = || (0..300).all(|_| Command::new("true").status().is_ok_and(|s| s.success()));
        let parents = [scope.spawn(born), scope.spawn(born)];
        while parents.iter().any(|parent| !parent.is_finished()) {
            proxy.refuse();
            let error = Client::tcp(proxy.address()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
            proxy.accept();
        }
    });
    assert_eq!(incr(&mut connect(&proxy), "a").unwrap(), Some(1));
}

#[test]
fn a_server_that_is_gone_ends_connections() {
    let mut server = redis_or_skip!();
    let proxy = Proxy::start(server.address());
    let mut client = connect(&proxy);
    assert_eq!(incr(&mut client, "a").unwrap(), Some(1));
    server.kill();
    assert!(is_end(&incr(&mut client, "a").unwrap_err()));
    assert!(connect(&proxy).command(&[b"PING"]).is_err());
    server.restart();
    assert_eq!(incr(&mut connect(&proxy), "a").unwrap(), Some(1));
}

#[test]
fn the_same_seed_fails_the_same_way() {
    let server = redis_or_skip!();
    let fate = |seed| {
        let proxy = Proxy::seeded(server.address(), seed);
        proxy.sometimes(300, &[Trick::LoseReply, Trick::LoseRequest, Trick::HalfReply]);
        (0..60).map(|_| connect(&proxy).command(&[b"PING"]).is_ok()).collect::<Vec<_>>()
    };
    let first = fate(1);
    assert_eq!(first, fate(1));
    assert_ne!(first, fate(2));
    let failed = first.iter().filter(|ok| !**ok).count();
    assert!((5..40).contains(&failed), "{failed}");
}

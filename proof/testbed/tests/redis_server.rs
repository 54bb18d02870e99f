//! The fixture that starts Redis servers: it starts, ends and leaves nothing behind.

#![allow(clippy::unwrap_used)] // a test may unwrap: its panic is its verdict

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_testbed::{Client, RedisServer, Reply, redis_or_skip, redis_program};

/// Polls until it holds.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        thread::yield_now();
    }
}

fn exists(pid: u32) -> bool {
    // A process that has ended and that nobody has waited for is still listed, as a zombie: in a
    // container nobody may wait for orphans.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    if stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')) {
        return false;
    }
    let pid = pid.to_string();
    let status = Command::new("kill").args(["-0", &pid]).stderr(Stdio::null()).status();
    status.unwrap().success()
}

#[test]
fn a_server_answers_over_both_sockets_and_is_gone_when_dropped() {
    let server = redis_or_skip!();
    let (pid, dir, address) = (server.pid(), server.dir().to_owned(), server.address());
    let mut tcp = Client::tcp(address).unwrap();
    assert_eq!(tcp.command(&[b"SET", b"a", b"1"]).unwrap(), Reply::Status("OK".into()));
    assert_eq!(server.command(&[b"GET", b"a"]).int(), Some(1));
    assert_eq!(server.url(), format!("redis://127.0.0.1:{}", server.port()));
    assert_eq!(server.command(&[b"DEBUG", b"JMAP"]).error_code(), Some("ERR"));
    assert_eq!(server.command(&[b"DEBUG", b"SLEEP", b"0"]).text().unwrap(), "OK");
    drop(server);
    assert!(!exists(pid) && !dir.exists());
    assert!(Client::tcp(address).is_err());
}

#[test]
fn servers_are_many_and_strangers() {
    let (one, other) = (redis_or_skip!(), redis_or_skip!());
    one.command(&[b"SET", b"mine", b"1"]);
    assert_ne!(one.port(), other.port());
    assert_eq!(one.keys(), [b"mine"]);
    assert!(other.keys().is_empty());
}

#[test]
fn arguments_reach_the_server() {
    let server = redis_or_skip!("--maxmemory", "5mb", "--requirepass", "secret");
    assert_eq!(server.info("memory")["maxmemory"], (5 << 20).to_string());
    let mut stranger = Client::tcp(server.address()).unwrap();
    assert_eq!(stranger.command(&[b"PING"]).unwrap().error_code(), Some("NOAUTH"));
}

#[test]
fn a_frozen_server_answers_later() {
    let server = redis_or_skip!();
    let mut client = Client::tcp(server.address()).unwrap();
    server.freeze();
    client.patience(Duration::from_millis(50)).unwrap();
    client.send(&[b"INCR", b"late"]).unwrap();
    assert!(client.receive().is_err());
    // A connection to it can be made, too: the kernel accepts it.
    assert!(Client::tcp(server.address()).is_ok());
    server.thaw();
    // A command that the client gave up on is executed all the same.
    eventually("the INCR is done", || server.command(&[b"GET", b"late"]).int() == Some(1));
    server.freeze();
    server.thaw();
    assert_eq!(server.command(&[b"PING"]).text().unwrap(), "PONG");
}

#[test]
fn a_restart_keeps_the_port_and_forgets_the_rest() {
    let mut server = redis_or_skip!();
    let (port, pid) = (server.port(), server.pid());
    server.command(&[b"SET", b"a", b"1"]);
    let mut client = Client::tcp(server.address()).unwrap();
    server.kill();
    assert!(client.command(&[b"PING"]).is_err());
    assert!(Client::tcp(server.address()).is_err());
    server.restart();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert!(server.keys().is_empty());
    server.restart();
    assert!(Client::tcp(server.address()).is_ok());
}

#[test]
fn a_frozen_server_can_be_killed() {
    let server = redis_or_skip!();
    let pid = server.pid();
    server.freeze();
    drop(server);
    assert!(!exists(pid));
}

#[test]
fn keys_and_counters_are_read() {
    let server = redis_or_skip!();
    let mut client = server.client().unwrap();
    for number in 0..3_000 {
        let key = format!("k{number:04}");
        client.send(&[b"SET", key.as_bytes(), b"1", b"PX", b"600000"]).unwrap();
    }
    for _ in 0..3_000 {
        assert_eq!(client.receive().unwrap().text().unwrap(), "OK");
    }
    client.command(&[b"SET", b"for ever", b"1"]).unwrap();
    assert_eq!(server.keys().len(), 3_001);
    assert_eq!(server.without_ttl(), [b"for ever"]);
    client.command(&[b"SET", b"a"]).unwrap();
    client.command(&[b"INCR", b"for ever", b"x"]).unwrap();
    let stats = server.commandstats();
    assert_eq!((stats["set"].calls, stats["set"].rejected), (3_001, 1));
    assert!(server.cpu_seconds() > 0.0);
}

#[test]
fn the_server_ends_with_a_process_that_is_killed() {
    if redis_program().is_none() {
        println!("{}", tollgate_testbed::SKIPPED);
        return;
    }
    // This program, started again with only the test below, which tells us its server and stays.
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_process_to_be_killed", "--nocapture"])
        .env("TOLLGATE_TEST_STAY", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let said = lines.find_map(|line| Some(line.unwrap().split_once("SERVER ")?.1.to_owned()));
    let said = said.unwrap();
    let (pid, dir) = said.split_once(' ').unwrap();
    let pid = pid.parse().unwrap();
    assert!(exists(pid));
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the server is gone", || !exists(pid));
    eventually("its directory is gone", || !std::path::Path::new(dir).exists());
}

#[test]
fn a_process_to_be_killed() {
    if std::env::var_os("TOLLGATE_TEST_STAY").is_none() {
        return;
    }
    let server = RedisServer::start();
    println!("SERVER {} {}", server.pid(), server.dir().display());
    loop {
        thread::park();
    }
}

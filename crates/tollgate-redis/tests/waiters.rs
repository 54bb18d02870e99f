//! Waiters in line, in several processes on a real Redis: slots go to them in the order of their
//! arrival, none starves, and none is banned by its polls.
//!
//! The processes are this very test program, started again with a variable that says what to do.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // tests may

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate::{Ask, HoldName, Limiter, Waiting};
use tollgate_redis::{Options, RedisStore};
use tollgate_testbed::redis_or_skip;

const URL: &str = "TOLLGATE_TEST_WAITER_URL";

const PROCESSES: usize = 4;
const WAITERS: usize = 250;

/// Its polls would fill the ban a thousand times over.
const LIMITS: &str = "1 at once hold 60s, 1000000/m via gcra, ban 10m after 10 denials in 1m";

/// The message of a process once all of its waiters are in line.
const ALL_CAME: &str = "all came";

/// Longer than any run takes.
const LONG: Duration = Duration::from_secs(600);

/// The clock that all processes of this machine share.
fn now_us() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

fn say(line: &str) {
    // In one piece: tasks share the pipe.
    let _ = std::io::stdout().write_all(format!("{line}\n").as_bytes());
}

async fn connect(url: &str) -> Limiter<RedisStore> {
    let options = Options::from_url(url).unwrap().deadline(Duration::from_secs(5));
    let store = RedisStore::builder(options).connect().await.unwrap();
    Limiter::new(LIMITS.parse().unwrap(), store)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Not a separate test: the work of the other test's processes. Started by hand it does nothing.
#[test]
fn when_started_as_waiters_they_wait() {
    let Ok(url) = std::env::var(URL) else { return };
    runtime().block_on(async {
        let limiter = connect(&url).await;
        let mut waiters = Vec::new();
        for _ in 0..WAITERS {
            let name = HoldName::random();
            let asked_us = now_us();
            let first =
                limiter.hold(Ask::new("job").named(name).in_line().acquire()).await.unwrap();
            let answered_us = now_us();
            assert!(first.hold.is_none(), "the slot is taken while they come");
            let limiter = limiter.clone();
            waiters.push(tokio::spawn(async move {
                let waiting = Waiting::from(LONG).in_line();
                let held = limiter.until_acquired(Ask::new("job").named(name), waiting).await;
                let hold = held.unwrap().hold.unwrap();
                say(&format!("held {asked_us} {answered_us} {}", hold.fence));
                assert!(limiter.release(&hold).await.unwrap());
            }));
        }
        say(ALL_CAME);
        for waiter in waiters {
            waiter.await.unwrap();
        }
    });
}

fn start(url: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "when_started_as_waiters_they_wait", "--nocapture"])
        .env(URL, url)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// When a waiter asked first, when it was answered, and the number of its hold.
#[derive(Clone, Copy, Debug)]
struct Waited {
    asked_us: u64,
    answered_us: u64,
    fence: u64,
}

fn waited(line: &str) -> Option<Waited> {
    // The harness writes the name of the test before the first line.
    let numbers = line.split_once("held ")?.1.split(' ');
    let numbers: Vec<u64> = numbers.map(|number| number.parse().unwrap()).collect();
    let [asked_us, answered_us, fence] = numbers[..] else { panic!("{line}") };
    Some(Waited { asked_us, answered_us, fence })
}

#[test]
fn a_thousand_waiters_of_four_processes_come_in_the_order_of_their_arrival() {
    let server = redis_or_skip!();
    let url = server.url();
    let runtime = runtime();
    let (limiter, hold) = runtime.block_on(async {
        let limiter = connect(&url).await;
        let hold = limiter.hold(Ask::new("job").acquire()).await.unwrap().hold.unwrap();
        (limiter, hold)
    });
    let mut processes: Vec<Child> = (0..PROCESSES).map(|_| start(&url)).collect();
    let outputs = processes.iter_mut().map(|it| BufReader::new(it.stdout.take().unwrap()).lines());
    let mut outputs: Vec<_> = outputs.collect();
    for lines in &mut outputs {
        assert!(lines.any(|line| line.unwrap().contains(ALL_CAME)), "a process has ended");
    }
    // The line is full: one more is refused.
    runtime.block_on(async {
        let ask = Ask::new("job").named(HoldName::random()).in_line();
        let error = limiter.hold(ask.acquire()).await.unwrap_err();
        assert!(error.to_string().starts_with("1000 wait in line"), "{error}");
        assert!(limiter.release(&hold).await.unwrap());
    });
    let began_us = now_us();
    let mut all = Vec::new();
    for (process, lines) in processes.iter_mut().zip(outputs) {
        all.extend(lines.map_while(Result::ok).filter_map(|line| waited(&line)));
        assert!(process.wait().unwrap().success());
    }
    println!("{} holds within {} ms", all.len(), (now_us() - began_us) / 1_000);
    assert_eq!(all.len(), PROCESSES * WAITERS, "none starves");
    all.sort_unstable_by_key(|it| it.fence);
    let mut latest = all[0];
    for one in &all {
        assert!(one.answered_us >= latest.asked_us, "{one:?} came before {latest:?}");
        if one.asked_us > latest.asked_us {
            latest = *one;
        }
    }
}

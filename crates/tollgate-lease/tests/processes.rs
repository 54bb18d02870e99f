//! The bound over real processes on a real Redis and a real cluster: nodes that are stopped for
//! longer than their lease, killed and replaced, while the server freezes.
//!
//! The nodes are this very test program, started again with a variable that says what to do.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // tests may

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Authority, Clock, LimitSet, Limiter, Period};
use tollgate_lease::{BootClock, Leased};
use tollgate_proof::{cluster_or_skip, redis_or_skip};
use tollgate_redis::{Options, RedisStore};

const URL: &str = "TOLLGATE_TEST_NODE_URL";
const LIMITS: &str = "20000/s burst 4000 via gcra lease 200 for 300ms";
const TASKS: usize = 8;

/// How long a denied client waits.
const PACE: Duration = Duration::from_micros(200);

/// Lets the load go on for a while.
fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms)); // tidy: sleep-ok the length of a load or a fault
}

/// One admitted unit: when it was asked for and answered by the clock of the machine, which all
/// processes share, and whether a lease answered.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    asked_us: u64,
    answered_us: u64,
    is_leased: bool,
}

/// A node: a process with eight tasks that ask without a pause.
struct Node {
    child: Child,
    lines: std::thread::JoinHandle<Vec<Admitted>>,
}

impl Node {
    fn start(url: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "when_started_as_a_node_it_asks", "--nocapture"])
            .env(URL, url)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let lines = std::thread::spawn(move || {
            let admitted = |line: String| {
                let mut words = line.strip_prefix("admitted ")?.split(' ').map(str::to_owned);
                let mut number = || words.next()?.parse().ok();
                let (asked_us, answered_us) = (number()?, number()?);
                Some(Admitted { asked_us, answered_us, is_leased: number()? == 1 })
            };
            out.lines().map_while(Result::ok).filter_map(admitted).collect()
        });
        Self { child, lines }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    fn end(mut self) -> Vec<Admitted> {
        self.signal("-KILL");
        self.child.wait().unwrap();
        self.lines.join().unwrap()
    }
}

/// Not a test of its own: what the nodes of the others do. Started by hand it does nothing.
#[test]
fn when_started_as_a_node_it_asks() {
    let Ok(url) = std::env::var(URL) else { return };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let options = Options::from_url(&url).unwrap().deadline(Duration::from_millis(500));
        let store = RedisStore::builder(options).connect().await.unwrap();
        let store = Leased::builder(store).deny_cache(100).build();
        let limits: LimitSet = LIMITS.parse().unwrap();
        let limiter = Arc::new(Limiter::new(limits, store));
        let ask = |limiter: Arc<Limiter<Leased<RedisStore>>>| async move {
            let clock = BootClock::default();
            loop {
                let asked_us = clock.now().as_micros();
                // A frozen server is an error, and nothing admitted.
                let Ok(decision) = limiter.check("a").await else { continue };
                let answered_us = clock.now().as_micros();
                if decision.is_allowed() {
                    let lease = u8::from(decision.authority() == Authority::Lease);
                    let line = format!("admitted {asked_us} {answered_us} {lease}\n");
                    if std::io::stdout().write_all(line.as_bytes()).is_err() {
                        return;
                    }
                } else {
                    tokio::time::sleep(PACE).await; // tidy: sleep-ok the pace of a denied client
                }
                tokio::task::yield_now().await;
            }
        };
        let tasks: Vec<_> = (0..TASKS).map(|_| tokio::spawn(ask(Arc::clone(&limiter)))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// The most units that were surely admitted within some window of this length: asked for after its
/// start, and answered before its end.
fn surely_within(admitted: &[Admitted], window_us: u64) -> usize {
    let mut starts: Vec<u64> = admitted.iter().map(|one| one.asked_us).collect();
    starts.sort_unstable();
    starts.dedup();
    let mut ends: Vec<(u64, u64)> =
        admitted.iter().map(|one| (one.answered_us, one.asked_us)).collect();
    ends.sort_unstable();
    // Every 16th start: a window a little later holds nearly the same.
    let within = |start: &u64| {
        let from = ends.partition_point(|end| end.0 < *start);
        let to = ends.partition_point(|end| end.0 < start + window_us);
        ends[from..to].iter().filter(|end| end.1 >= *start).count()
    };
    starts.iter().step_by(16).map(within).max().unwrap_or(0)
}

/// Three nodes and their faults; `freeze` stops the server and lets it go on.
fn run(url: &str, freeze: impl Fn(bool)) {
    let mut nodes: Vec<Node> = (0..3).map(|_| Node::start(url)).collect();
    pause(800);
    nodes[0].signal("-STOP");
    pause(900);
    nodes[0].signal("-CONT");
    let mut admitted = nodes.remove(1).end();
    nodes.push(Node::start(url));
    pause(400);
    freeze(true);
    pause(300);
    freeze(false);
    pause(700);
    for node in nodes {
        admitted.extend(node.end());
    }
    let set: LimitSet = LIMITS.parse().unwrap();
    let (limit, lease) = (&set.limits()[0], set.lease().unwrap());
    let leased = admitted.iter().filter(|one| one.is_leased).count();
    println!("{} admitted, {leased} of them by lease", admitted.len());
    assert!(leased * 2 > admitted.len(), "{leased} of {}", admitted.len());
    for window in ["2ms", "20ms", "200ms", "1s"] {
        let window: Period = window.parse().unwrap();
        let found = surely_within(&admitted, window.as_micros()) as u64;
        let most = lease.most_in(limit, window, 4);
        println!("{found} in {window}, at most {most}");
        assert!(found <= most, "{found} in {window}, at most {most}");
    }
    // It is no idle talk: a second holds most of what the limit admits.
    assert!(surely_within(&admitted, 1_000_000) > 12_000);
}

#[test]
fn nodes_on_one_server_never_admit_more_than_the_bound() {
    let server = redis_or_skip!();
    run(&server.url(), |freeze| if freeze { server.freeze() } else { server.thaw() });
}

#[test]
fn nodes_on_a_cluster_never_admit_more_than_the_bound() {
    let cluster = cluster_or_skip!();
    run(&cluster.url(), |freeze| {
        for server in cluster.servers() {
            if freeze { server.freeze() } else { server.thaw() }
        }
    });
}

/// A store that lost its counts adds what it admits anew, and what the nodes held.
#[test]
fn a_lost_store_adds_a_burst_and_what_is_held() {
    let server = redis_or_skip!();
    let nodes: Vec<Node> = (0..2).map(|_| Node::start(&server.url())).collect();
    pause(1_200);
    server.command(&[b"FLUSHALL"]);
    pause(800);
    let admitted: Vec<Admitted> = nodes.into_iter().flat_map(Node::end).collect();
    let set: LimitSet = LIMITS.parse().unwrap();
    let (limit, lease) = (&set.limits()[0], set.lease().unwrap());
    for window in ["20ms", "1s"] {
        let window: Period = window.parse().unwrap();
        let found = surely_within(&admitted, window.as_micros()) as u64;
        let more = limit.capacity() + 2 * lease.units();
        let most = lease.most_in(limit, window, 2) + more;
        println!("{found} in {window}, at most {most}");
        assert!(found <= most, "{found} in {window}, at most {most}");
    }
}

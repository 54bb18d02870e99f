//! The bound over real processes on a real Redis and a real cluster: nodes that are stopped for
//! longer than their lease, killed and replaced, while the server freezes.
//!
//! The nodes are this very test program, started again with a variable that says what to do.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // tests may

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Ask, Authority, Clock, Cost, LimitSet, Limiter};
use tollgate_lease::{BootClock, Leased};
use tollgate_proof::history::{
    Bounds, Call, CallOutcome, Fault, FaultKind, History, Promise, RecordedCount, Verdict, check,
};
use tollgate_redis::{Options, RedisStore};
use tollgate_testbed::{cluster_or_skip, redis_or_skip};

const URL: &str = "TOLLGATE_TEST_NODE_URL";
const LIMITS: &str = "20000/s burst 4000 via gcra lease 200 for 300ms";
/// Limits that admit three quarters as much.
const LESS: &str = "15000/s burst 3000 via gcra lease 150 for 300ms";

const TASKS: usize = 8;

/// How long a node is stopped, in milliseconds: three times its lease, unless this variable says
/// otherwise.
const STOP_MS: (&str, u64) = ("TOLLGATE_TEST_STOP_MS", 900);

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

/// Not a separate test: the work of the other test's nodes. Started by hand it does nothing.
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

/// The admissions of the nodes, as a history: each call was decided between its two instants.
fn history(admitted: &[Admitted], limits: &str, faults: &[Fault]) -> History {
    let limits: LimitSet = limits.parse().unwrap();
    let call = |(one, id): (&Admitted, u64)| Call {
        id,
        client: "node".to_owned(),
        invoked_us: one.asked_us,
        returned_us: Some(one.answered_us),
        parts: vec![RecordedCount { subject: "a".to_owned(), limits: limits.clone() }],
        cost: 1,
        request: None,
        decided_us: None,
        outcome: CallOutcome::Allowed { remaining: None },
    };
    let calls = admitted.iter().zip(1..).map(call).collect();
    History { calls, faults: faults.to_vec(), ..History::default() }
}

/// Checks the bound of this number of nodes over all admissions.
fn check_bound(admitted: &[Admitted], faults: &[Fault], nodes: u64) {
    let report = |limits: &str| {
        let bounds = Bounds { nodes: Some(nodes), ..Bounds::default() };
        check(&history(admitted, limits, faults), &bounds)
    };
    let found = report(LIMITS);
    assert_eq!(found.verdict(Promise::Bound), Verdict::Held, "{found}");
    // They were busy enough to break the bound of less.
    assert_eq!(report(LESS).verdict(Promise::Bound), Verdict::Broken);
    println!("{} admitted within the bound of {nodes} nodes", admitted.len());
}

/// Three nodes and their faults; `freeze` stops the server and lets it go on.
fn run(url: &str, freeze: impl Fn(bool)) {
    let mut nodes: Vec<Node> = (0..3).map(|_| Node::start(url)).collect();
    pause(800);
    nodes[0].signal("-STOP");
    let (variable, usual_ms) = STOP_MS;
    pause(std::env::var(variable).map_or(usual_ms, |ms| ms.parse().unwrap()));
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
    let leased = admitted.iter().filter(|one| one.is_leased).count();
    assert!(leased * 2 > admitted.len(), "{leased} of {}", admitted.len());
    // A node in the place of the killed one is one more.
    check_bound(&admitted, &[], 4);
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

/// Receipts are set aside for amounts of another unit as for requests.
#[test]
fn leases_of_tokens_admit_what_the_limit_admits() {
    let server = redis_or_skip!();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let text = "100000/h of tokens via sliding_log lease 5000 for 1m";
        let start = async || {
            let options = Options::from_url(&server.url()).unwrap();
            let options = options.deadline(Duration::from_secs(30));
            let store = RedisStore::builder(options).connect().await.unwrap();
            Limiter::new(text.parse::<LimitSet>().unwrap(), Leased::new(store))
        };
        let (node, other) = (start().await, start().await);
        let ask = || Ask::new("a").cost(Cost::new([("tokens", 70)]).unwrap());
        let mut receipts = Vec::new();
        for _ in 0..2_000 {
            receipts.extend(node.check(ask()).await.unwrap().receipt());
        }
        assert_eq!(receipts.len(), 1_428);
        let counters = node.store().counters();
        assert!(counters.admitted > 1_000, "{counters:?}");
        for receipt in &receipts[..100] {
            assert_eq!(other.refund(receipt).await.unwrap().given, [70]);
            assert!(other.refund(receipt).await.unwrap().already);
        }
        node.store().give_back().await;
        let left = other.check(ask().peek()).await.unwrap().remaining();
        assert_eq!(left, 100_000 - 1_328 * 70);
    });
}

/// A store that lost its counts admits a burst again, and the nodes' units come on top.
#[test]
fn a_lost_store_adds_a_burst_and_what_is_held() {
    let server = redis_or_skip!();
    let nodes: Vec<Node> = (0..2).map(|_| Node::start(&server.url())).collect();
    pause(1_200);
    let clock = BootClock::default();
    let began_us = clock.now().as_micros();
    server.command(&[b"FLUSHALL"]);
    let ended_us = clock.now().as_micros();
    pause(800);
    let admitted: Vec<Admitted> = nodes.into_iter().flat_map(Node::end).collect();
    let flush = Fault {
        kind: FaultKind::Flush,
        began_us,
        ended_us,
        target: "the server".to_owned(),
        lost_states: 1,
    };
    check_bound(&admitted, &[flush], 2);
}

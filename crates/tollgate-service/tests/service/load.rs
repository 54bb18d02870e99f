//! A Redis that freezes and dies while many ask over the Redis protocol and over gRPC: each of them
//! is answered by the rule while it is away, none waits until it is back, no answer is lost, and
//! decisions come again after it.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_redis::{BreakerState, RedisStore};
use tollgate_service::{AnyStore, EnvoyRules};
use tollgate_testbed::{RedisServer, redis_or_skip};
use tonic::Code;

use crate::grpc_client::{Wire, request, summary};
use crate::redis_client::{Redis, command, line};
use crate::{FILE, Service, gate_of, here};

/// The answer to a caller that has waited for the deadline, and for no other time.
const WAITED: &str = "no answer from Redis within ";
const FOR_THE_DEADLINE: &str = "no answer from Redis within 1s:";

/// The time after which a test hangs, on any machine.
const LONG: Duration = Duration::from_secs(30);

/// How long a fault lasts at least: the breaker looks again several times.
const FAULT: Duration = Duration::from_secs(3);

/// Connections of the Redis protocol, and how often each pipelines its three commands.
const CONNECTIONS: usize = 50;
const TIMES: usize = 2;

/// Connections of gRPC, and the concurrent calls over each.
const WIRES: usize = 5;
const CALLS: usize = 10;

/// How often each of those who ask is answered during a fault, at least.
const TURNS: usize = 5;

/// How often each kind is answered until it counts as answered.
const ENOUGH: usize = 50;

/// The kinds of question, by front and failure rule.
const KINDS: [&str; 6] =
    ["RESP error", "RESP allow", "RESP deny", "gRPC error", "gRPC allow", "gRPC deny"];

/// The kinds whose answers give the reason why the store did not.
const WITH_REASON: [&str; 2] = ["RESP error", "gRPC error"];

/// The authority that answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Store,
    Rule,
    /// The rule, after the caller has waited for the deadline.
    Waited,
}

impl By {
    /// The rule, for this reason.
    fn because(why: &str) -> Self {
        assert_eq!(why.contains(WAITED), why.contains(FOR_THE_DEADLINE), "{why}");
        if why.contains(WAITED) { Self::Waited } else { Self::Rule }
    }
}

/// The observations of one kind in one phase.
#[derive(Clone, Debug, Default)]
struct Seen {
    by_store: usize,
    by_rule: usize,
    /// Those of the rule whose callers have waited.
    waited: usize,
    took: Vec<Duration>,
}

/// The callers, and their observations.
#[derive(Debug, Default)]
struct Load {
    /// Counted up at each change of the server.
    phase: AtomicUsize,
    is_over: AtomicBool,
    seen: Mutex<BTreeMap<&'static str, Seen>>,
    /// How often each of those who ask was answered in this phase, by its name.
    turns: Mutex<BTreeMap<String, usize>>,
}

impl Load {
    fn begin(&self) -> (usize, Instant) {
        (self.phase.load(Ordering::SeqCst), Instant::now())
    }

    /// Notes who answered, unless the server changed meanwhile.
    fn note(&self, who: &str, (phase, began): (usize, Instant), answers: &[(&'static str, By)]) {
        let took = began.elapsed();
        let mut seen = self.seen.lock().unwrap();
        if self.phase.load(Ordering::SeqCst) != phase {
            return;
        }
        *self.turns.lock().unwrap().entry(who.to_owned()).or_default() += 1;
        for (kind, by) in answers {
            let seen = seen.entry(kind).or_default();
            match by {
                By::Store => seen.by_store += 1,
                By::Rule => seen.by_rule += 1,
                By::Waited => {
                    seen.by_rule += 1;
                    seen.waited += 1;
                }
            }
            seen.took.push(took);
        }
    }

    /// Begins a phase in which nothing has been seen.
    fn next(&self) {
        let mut seen = self.seen.lock().unwrap();
        self.phase.fetch_add(1, Ordering::SeqCst);
        seen.clear();
        self.turns.lock().unwrap().clear();
    }

    fn seen(&self, kind: &str) -> Seen {
        self.seen.lock().unwrap().get(kind).cloned().unwrap_or_default()
    }

    /// Until every kind was answered often enough by it; how long that took.
    async fn answered(&self, by: By) -> Duration {
        let began = Instant::now();
        let count = |kind: &str| match by {
            By::Store => self.seen(kind).by_store,
            By::Rule => self.seen(kind).by_rule,
            By::Waited => self.seen(kind).waited,
        };
        while let Some(kind) = KINDS.into_iter().find(|kind| count(kind) < ENOUGH) {
            assert!(began.elapsed() < LONG, "{kind}: {} times by the {by:?}", count(kind));
            tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep-ok it polls
        }
        began.elapsed()
    }

    /// How many of those who ask were answered some times in this phase.
    fn go_on(&self) -> usize {
        self.turns.lock().unwrap().values().filter(|turns| **turns >= TURNS).count()
    }

    /// The server is away until all callers were answered several times: a caller that waits for it
    /// hangs. Every answer is the rule's. A caller that has waited has waited for the deadline, and
    /// most did not wait at all, since the breaker is open.
    async fn stands_in(&self, store: &RedisStore, what: &str) {
        let began = Instant::now();
        self.answered(By::Rule).await;
        while self.go_on() < CONNECTIONS + WIRES * CALLS || began.elapsed() < FAULT {
            let on = self.go_on();
            assert!(began.elapsed() < FAULT + LONG, "{what}: all but {on} wait for the store");
            tokio::time::sleep(Duration::from_millis(20)).await; // tidy: sleep-ok how long it lasts
        }
        assert_ne!(store.breaker(), BreakerState::Closed, "{what}");
        for kind in KINDS {
            let Seen { by_store, by_rule, waited, mut took } = self.seen(kind);
            took.sort_unstable();
            let (p99, most) = (took[took.len() * 99 / 100], took[took.len() - 1]);
            println!(
                "{what}, {kind}: {by_rule} answers, {waited} that name the deadline, p99 {p99:?}, \
                 at most {most:?}"
            );
            assert_eq!(by_store, 0, "{what}, {kind}: by a store that is away");
            if WITH_REASON.contains(&kind) {
                assert!(waited < by_rule / 2, "{what}, {kind}: {waited} of {by_rule} waited");
            }
        }
    }

    async fn comes_back(&self, what: &str) {
        let took = self.answered(By::Store).await;
        println!("{what}: back after {took:?}");
    }
}

/// The commands of one turn: those of each kind some times, and a number that comes back last.
fn turn(key: &str, number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..TIMES {
        bytes.extend(line(&format!("CL.THROTTLE {key} 999999 1000000 3600")));
        for rule in ["allow", "deny"] {
            let limit = &b"1000000/h via gcra"[..];
            let words = [b"TOLLGATE.CHECK", key.as_bytes(), limit, b"ONFAILURE", rule.as_bytes()];
            bytes.extend(command(&words));
        }
    }
    bytes.extend(line(&format!("ECHO {number}")));
    bytes
}

/// The authority that answered a command, by the reply.
fn answered(kind: &str, said: &str) -> By {
    let (store, rule) = match kind {
        "RESP error" => ("[0, 1000000, ", "(Cell error: Store error: the store cannot answer"),
        "RESP allow" => (
            r#"["allowed", 1, "outcome", "allowed", "authority", "store""#,
            r#"["allowed", 1, "outcome", "failed_open", "authority", "failure_rule""#,
        ),
        _ => (
            r#"["allowed", 1, "outcome", "allowed", "authority", "store""#,
            r#"["allowed", 0, "outcome", "failed_closed", "authority", "failure_rule""#,
        ),
    };
    match (said.starts_with(store), said.starts_with(rule)) {
        (true, false) => By::Store,
        (false, true) => By::because(said),
        _ => panic!("{kind}: {said}"),
    }
}

/// Asks over one connection until it is over, always this number of commands together.
async fn ask_resp(mut redis: Redis, key: String, load: Arc<Load>) {
    let mut number = 0;
    while !load.is_over.load(Ordering::SeqCst) {
        number += 1;
        let begin = load.begin();
        redis.send(&turn(&key, number)).await;
        let mut answers = Vec::with_capacity(TIMES * 3);
        for _ in 0..TIMES {
            for kind in &KINDS[..3] {
                answers.push((*kind, answered(kind, &redis.reply().await)));
            }
        }
        // As many replies as commands: one that is lost or doubled moves this one.
        assert_eq!(redis.reply().await, format!("\"{number}\""));
        load.note(&key, begin, &answers);
        tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep-ok a client's pace
    }
    assert_eq!(redis.ask("QUIT").await, "OK");
    assert_eq!(redis.rest().await, "");
}

/// Asks over a connection that others share, one domain after the other.
async fn ask_grpc(wire: Wire, key: String, load: Arc<Load>) {
    while !load.is_over.load(Ordering::SeqCst) {
        for (kind, domain) in KINDS[3..].iter().zip(["error", "allow", "deny"]) {
            let begin = load.begin();
            let question = request(domain, &[&format!("a={key}")]);
            let answer = tokio::time::timeout(LONG, wire.ask(&question)).await;
            let answer = answer.expect("it hangs");
            let by = match answer.as_ref().map(summary).as_deref() {
                Ok("OK: OK 0") if domain == "allow" => By::Rule,
                Ok("OVER: OVER 0") if domain == "deny" => By::Rule,
                Ok(said) if said.starts_with("OK: OK 9") => By::Store,
                Err(status) if domain == "error" => {
                    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
                    By::because(status.message())
                }
                other => panic!("{kind}: {other:?}"),
            };
            load.note(&key, begin, &[(kind, by)]);
        }
        tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep-ok a client's pace
    }
}

/// A service on this server with both doors, under rules for each word of `on_failure`, and its
/// store.
async fn service_on(server: &RedisServer) -> (Service, RedisStore) {
    let folder = tempfile::tempdir().unwrap();
    for rule in ["error", "allow", "deny"] {
        let text = format!(
            "domain: {rule}\non_failure: {rule}\ndescriptors:\n  - key: a\n    \
             limit: 1000000/h via gcra\n"
        );
        std::fs::write(folder.path().join(format!("{rule}.yaml")), text).unwrap();
    }
    // On a busy machine a server that runs may take longer than the usual deadline. Commands of one
    // connection wait one after the other until the breaker opens.
    let url = format!("{}?deadline=1s&breaker_timeout=1s", server.url());
    let store = RedisStore::connect(&url).await.unwrap();
    let service = Service::start_with(gate_of(FILE, AnyStore::from(store.clone())), |options| {
        options.resp = vec![here()];
        options.grpc = vec![here()];
        options.envoy.rules = EnvoyRules::Files(folder.path().to_owned());
    });
    (service.await, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_freezes_and_dies_under_load_is_answered_for_within_the_deadline() {
    let mut server = redis_or_skip!();
    let (service, store) = service_on(&server).await;
    let load = Arc::new(Load::default());
    let mut asking = JoinSet::new();
    for number in 0..CONNECTIONS {
        let redis = service.redis().await;
        asking.spawn(ask_resp(redis, format!("user:{number}"), Arc::clone(&load)));
    }
    for number in 0..WIRES {
        let wire = service.wire().await;
        for call in 0..CALLS {
            asking.spawn(ask_grpc(wire.clone(), format!("{number}-{call}"), Arc::clone(&load)));
        }
    }
    load.comes_back("at first").await;

    server.freeze();
    load.next();
    load.stands_in(&store, "frozen").await;
    load.next();
    server.thaw();
    load.comes_back("thawed").await;

    server.kill();
    load.next();
    load.stands_in(&store, "killed").await;
    load.next();
    server.restart();
    load.comes_back("restarted").await;

    load.is_over.store(true, Ordering::SeqCst);
    // A task that panicked, or hangs, is reported here.
    while let Some(ended) = tokio::time::timeout(LONG, asking.join_next()).await.expect("a hang") {
        ended.unwrap();
    }
}

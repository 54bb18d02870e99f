//! The store on a real Redis Cluster: the kit, and calls while slots and primaries move.

use std::error::Error as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tollgate::{Ask, Error, LimitSet, Limiter, ManualClock, StoreError, Subject};
use tollgate_redis::{Fault, Keys, Options, RedisStore};
use tollgate_testbed::{
    ClusterOptions, RedisCluster, RedisServer, SlotMove, cluster_or_skip, key_slot,
};

use crate::common::{Blocking, opens_and_answers_at_once, pause, runtime};

/// Far away: the machine may be busy.
const LONG: Duration = Duration::from_secs(30);

fn limits(text: &str) -> LimitSet {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn options(cluster: &RedisCluster) -> Options {
    Options::from_url(&cluster.url()).unwrap().deadline(LONG)
}

async fn connect(cluster: &RedisCluster) -> RedisStore {
    RedisStore::builder(options(cluster)).connect().await.unwrap()
}

fn fault<'e>(error: &'e (dyn std::error::Error + 'static)) -> &'e Fault {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(fault) = error.downcast_ref() {
            return fault;
        }
        cause = error.source();
    }
    panic!("no fault: {error}");
}

async fn refusal(options: Options) -> Fault {
    let error: StoreError = RedisStore::builder(options).connect().await.unwrap_err();
    fault(error.source().unwrap()).clone()
}

mod kit {
    use tollgate_proof::conformance::fewer;

    use super::*;
    use crate::common::{one_of, with_least_rights};

    static RUNS: AtomicU64 = AtomicU64::new(0);

    /// One for all checks of the kit.
    fn cluster() -> &'static RedisCluster {
        static CLUSTER: OnceLock<RedisCluster> = OnceLock::new();
        CLUSTER.get_or_init(|| ClusterOptions::new().replicas(0).start())
    }

    /// In one slot, as checks over several subjects are exact.
    fn make(clock: ManualClock) -> Blocking {
        let run = format!("kit-{}", RUNS.fetch_add(1, Ordering::Relaxed));
        static OPTIONS: OnceLock<Options> = OnceLock::new();
        let login = || with_least_rights(&cluster().url(), cluster().servers());
        let options = OPTIONS.get_or_init(login).clone().deadline(LONG);
        let builder = RedisStore::builder(options).run(&run, clock).shard(&run);
        Blocking::connect(builder, cluster().servers())
    }

    // The kit on a single server runs every history of the same scripts.
    tollgate_proof::conformance_tests!(fewer(make, one_of()));
}

/// Many concurrent checks, of subjects on all nodes: exact, and each key where it belongs.
#[test]
fn subjects_are_spread_over_the_nodes_and_each_is_counted_exactly() {
    let cluster = cluster_or_skip!(ClusterOptions::new().replicas(0));
    runtime().block_on(async {
        let store = connect(&cluster).await;
        let limiter =
            Limiter::new(limits("20/1h via gcra, log: 25/1h via sliding_log"), store.clone());
        let subjects: Vec<Subject> =
            (0..60).map(|n| Subject::new("user", n.to_string()).unwrap()).collect();
        let asked = subjects.iter().flat_map(|subject| std::iter::repeat_n(subject, 30));
        let decisions = join_all(asked.map(|subject| limiter.check(subject))).await;
        for (of, subject) in decisions.chunks(30).zip(&subjects) {
            let admitted = of.iter().filter(|it| it.as_ref().unwrap().is_allowed()).count();
            assert_eq!(admitted, 20, "{subject}");
        }
        let mut keys = 0;
        for (node, server) in cluster.servers().iter().enumerate() {
            let here = server.keys();
            assert!(here.len() > 20, "node {node} has {} keys", here.len());
            for key in &here {
                assert_eq!(cluster.owner_of(key), Some(node));
            }
            assert_eq!(server.without_ttl(), Vec::<Vec<u8>>::new());
            keys += here.len();
        }
        assert_eq!((keys, store.count_keys().await.unwrap()), (120, 120));
        assert_eq!(store.refusals(), 0, "a batch had keys of several slots");
    });
}

/// Hammers one subject until the flag stops it; returns how many were admitted, and the errors.
async fn hammer(limiter: &Limiter<RedisStore>, subject: &Subject, stop: &AtomicBool) -> Tally {
    let mut tally = Tally::default();
    while !stop.load(Ordering::Relaxed) {
        match limiter.check(subject).await {
            Ok(decision) if decision.is_allowed() => tally.admitted += 1,
            Ok(_) => tally.denied += 1,
            Err(error) => {
                let Error::Store(error) = error else { panic!("{error}") };
                assert!(error.is_transient() || error.is_ambiguous(), "{error}");
                tally.ambiguous += u64::from(error.is_ambiguous());
                tally.failed += 1;
                pause(1).await;
            }
        }
    }
    tally
}

#[derive(Default, Debug)]
struct Tally {
    admitted: u64,
    denied: u64,
    ambiguous: u64,
    failed: u64,
}

impl Tally {
    fn sum(all: Vec<Self>) -> Self {
        all.into_iter().fold(Self::default(), |sum, it| Self {
            admitted: sum.admitted + it.admitted,
            denied: sum.denied + it.denied,
            ambiguous: sum.ambiguous + it.ambiguous,
            failed: sum.failed + it.failed,
        })
    }
}

/// Runs `work` on the test's thread while callers hammer a subject, until they were also denied
/// after it.
fn under_load(limiter: &Arc<Limiter<RedisStore>>, subject: &Subject, work: impl FnOnce()) -> Tally {
    let stop = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let (limiter, subject, stop) =
                (Arc::clone(limiter), subject.clone(), Arc::clone(&stop));
            runtime().spawn(async move { hammer(&limiter, &subject, &stop).await })
        })
        .collect();
    work();
    stop.store(true, Ordering::Relaxed);
    Tally::sum(runtime().block_on(join_all(tasks)).into_iter().map(Result::unwrap).collect())
}

/// A slot that moves key by key, and one that has two keys of a subject on two nodes for a while:
/// no error, no charge lost or doubled.
#[test]
fn a_slot_moves_under_load_and_every_charge_counts_once() {
    let cluster = cluster_or_skip!(ClusterOptions::new().replicas(0));
    let store = runtime().block_on(connect(&cluster));
    // Two keys: a state and a log. TRYAGAIN comes while one of them has moved.
    let set = limits("100000/1h via gcra, log: 1500/1h via sliding_log");
    let subject = Subject::literal("user:42").unwrap();
    let slot = key_slot(Keys::new().state(&subject, &set).as_bytes());
    let from = cluster.owner_of_slot(slot).unwrap();
    let to = (from + 1) % 3;
    let limiter = Arc::new(Limiter::new(set, store));
    let tally = under_load(&limiter, &subject, || {
        let mut way = SlotMove { slot, from, to };
        for _ in 0..4 {
            cluster.begin_migration(way);
            let keys = cluster.servers()[way.from].keys();
            for key in &keys {
                assert!(cluster.move_key(way, key));
                runtime().block_on(pause(20));
            }
            cluster.finish_migration(way);
            way = SlotMove { slot, from: way.to, to: way.from };
            runtime().block_on(pause(50));
        }
        runtime().block_on(async {
            let begin = Instant::now();
            while limiter.check(Ask::new(&subject).peek()).await.unwrap().is_allowed() {
                assert!(begin.elapsed() < LONG, "the limit is never reached");
                pause(10).await;
            }
        });
    });
    assert_eq!((tally.admitted, tally.failed), (1_500, 0), "{tally:?}");
    assert!(tally.denied > 0);
}

/// While a slot has no key on its old node, calls are sent on with ASKING; the new node has to be
/// given the script then.
#[test]
fn a_slot_that_is_asked_for_elsewhere_is_asked_for_there() {
    let cluster = cluster_or_skip!(ClusterOptions::new().replicas(0));
    runtime().block_on(async {
        let set = limits("3/1h via gcra");
        let limiter = Limiter::new(set.clone(), connect(&cluster).await);
        let subject = Subject::literal("user:7").unwrap();
        let slot = key_slot(Keys::new().state(&subject, &set).as_bytes());
        let from = cluster.owner_of_slot(slot).unwrap();
        let way = SlotMove { slot, from, to: (from + 1) % 3 };
        cluster.begin_migration(way);
        let flushed = cluster.command(way.to, &[b"SCRIPT", b"FLUSH"]);
        assert_eq!(flushed.text().as_deref(), Some("OK"));
        for left in [2, 1, 0] {
            assert_eq!(limiter.check(&subject).await.unwrap().remaining(), left);
            assert_eq!((cluster.count_keys(from), cluster.count_keys(way.to)), (0, 1));
        }
        assert!(!limiter.check(&subject).await.unwrap().is_allowed());
        cluster.finish_migration(way);
        assert!(!limiter.check(&subject).await.unwrap().is_allowed());
        assert_eq!((cluster.count_keys(from), cluster.count_keys(way.to)), (0, 1));
    });
}

/// A planned failover loses nothing; after kill -9 a replica takes over. No charge is doubled: the
/// admitted units and those in doubt are never more than the limit, and both reach it.
#[test]
fn primaries_are_replaced_and_the_count_goes_on() {
    let mut cluster = cluster_or_skip!();
    let store = runtime().block_on(async {
        let options = options(&cluster).deadline(Duration::from_millis(500));
        RedisStore::builder(options).connect().await.unwrap()
    });
    let set = limits("3000/1h via gcra");
    let subject = Subject::literal("user:1").unwrap();
    let slot = key_slot(Keys::new().state(&subject, &set).as_bytes());
    let limiter = Arc::new(Limiter::new(set, store));
    let recovers = |limiter: &Limiter<RedisStore>| {
        runtime().block_on(async {
            let begin = Instant::now();
            while limiter.check(Ask::new(&subject).peek()).await.is_err() {
                assert!(begin.elapsed() < LONG, "it does not recover");
                pause(10).await;
            }
        });
    };
    let planned = under_load(&limiter, &subject, || {
        let primary = cluster.owner_of_slot(slot).unwrap();
        let replica = cluster.replicas_of(primary)[0];
        cluster.failover(replica);
        recovers(&limiter);
    });
    let killed = under_load(&limiter, &subject, || {
        let primary = cluster.owner_of_slot(slot).unwrap();
        cluster.kill(primary);
        recovers(&limiter);
        runtime().block_on(async {
            let begin = Instant::now();
            // One node after the other hears of it.
            while cluster.owner_of_slot(slot) == Some(primary) {
                assert!(begin.elapsed() < LONG, "the replica never takes over");
                pause(10).await;
            }
            while limiter.check(Ask::new(&subject).peek()).await.is_ok_and(|it| it.is_allowed()) {
                assert!(begin.elapsed() < LONG, "the limit is never reached");
                pause(10).await;
            }
        });
    });
    println!("planned: {planned:?}; killed: {killed:?}");
    let admitted = planned.admitted + killed.admitted;
    // A kill may lose charges that the replica had not heard of yet: each is admitted once more.
    let doubt = planned.ambiguous + killed.ambiguous;
    assert!(admitted + doubt >= 3_000, "{admitted} + {doubt}");
    assert!(admitted <= 3_000 + doubt + 100, "{admitted}");
}

/// A node that is away fails the calls of its slots alone.
#[test]
fn the_loss_of_a_node_is_the_loss_of_its_slots() {
    let options_of = ClusterOptions::new().replicas(0).full_coverage(false);
    let mut cluster = cluster_or_skip!(options_of);
    runtime().block_on(async {
        let set = limits("100/1h via gcra");
        let options = options(&cluster).deadline(Duration::from_millis(300));
        let store = RedisStore::builder(options).connect().await.unwrap();
        let limiter = Limiter::new(set.clone(), store);
        cluster.kill(1);
        let mut seen = [0, 0];
        for n in 0..24 {
            let subject = Subject::new("user", n.to_string()).unwrap();
            let key = Keys::new().state(&subject, &set);
            let lost = usize::from((5_461..10_923).contains(&key_slot(key.as_bytes())));
            let answer = limiter.check(&subject).await;
            assert_eq!(answer.is_err(), lost == 1, "{key}: {answer:?}");
            seen[lost] += 1;
        }
        assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
        // One more that is there makes the whole usable again.
        cluster.restart(1);
    });
}

#[test]
fn what_is_no_cluster_or_no_whole_one_is_said_at_the_start() {
    let cluster = cluster_or_skip!(ClusterOptions::new().replicas(0));
    let other = ClusterOptions::new().primaries(1).replicas(0).start();
    let alone = RedisServer::start();
    runtime().block_on(async {
        let address = |server: &RedisServer| ("127.0.0.1", server.address().port());
        let first = |cluster: &RedisCluster| ("127.0.0.1", cluster.address(0).port());
        let fault = refusal(Options::cluster([address(&alone)])).await;
        assert!(matches!(fault, Fault::NotACluster { .. }), "{fault}");
        let fault = refusal(Options::cluster([first(&cluster), first(&other)])).await;
        assert!(matches!(fault, Fault::TwoClusters { .. }), "{fault}");
        let fault = refusal(Options::cluster([("127.0.0.1", 1)])).await;
        assert!(matches!(fault, Fault::Unreachable { .. }), "{fault}");
        let fault = refusal(options(&cluster).password("wrong")).await;
        assert_eq!(fault, Fault::NoPasswordSet);
        // One of several seeds is enough.
        let some = Options::cluster([("127.0.0.1", 1), first(&cluster)]).deadline(LONG);
        assert!(RedisStore::builder(some).connect().await.is_ok());
        // A cluster of one node does not know its own address.
        let one = RedisStore::builder(options(&other)).connect().await.unwrap();
        let limiter = Limiter::new(limits("1/h via gcra"), one);
        assert!(limiter.check("bob").await.unwrap().is_allowed());
        // Names that this machine does not know, as of containers.
        for node in 0..3 {
            for (setting, value) in [
                (&b"cluster-announce-hostname"[..], &b"node.invalid"[..]),
                (b"cluster-preferred-endpoint-type", b"hostname"),
            ] {
                let set = cluster.command(node, &[b"CONFIG", b"SET", setting, value]);
                assert_eq!(set.text().as_deref(), Some("OK"));
            }
        }
        let begin = Instant::now();
        let quick = options(&cluster).connect_timeout(Duration::from_millis(500));
        let announced = |view: &RedisCluster| {
            let slots = view.command(0, &[b"CLUSTER", b"SLOTS"]);
            let mut hosts =
                slots.items().iter().filter_map(|range| range.items()[2].items()[0].text());
            hosts.all(|host| host == "node.invalid")
        };
        while !announced(&cluster) {
            assert!(begin.elapsed() < LONG, "the name is never announced");
            pause(20).await;
        }
        let fault = refusal(quick.clone()).await;
        assert!(matches!(fault, Fault::Announced { .. }), "{fault}");
        assert!(fault.to_string().contains("?reach=node.invalid:"), "{fault}");
        let mut reached = quick;
        for node in 0..3 {
            let port = cluster.address(node).port();
            reached = reached.reach(("node.invalid", port), ("127.0.0.1", port));
        }
        let limiter = Limiter::new(
            limits("1/h via gcra"),
            RedisStore::builder(reached).connect().await.unwrap(),
        );
        for n in 0..20 {
            let subject = Subject::new("user", n.to_string()).unwrap();
            assert!(limiter.check(&subject).await.unwrap().is_allowed());
        }
        // A slot without a node.
        let slot = cluster.command(0, &[b"CLUSTER", b"DELSLOTS", b"0"]);
        assert_eq!(slot.text().as_deref(), Some("OK"));
        let fault = refusal(Options::cluster([first(&cluster)]).deadline(LONG)).await;
        assert!(matches!(fault, Fault::NotCovered { covered: 16_383, .. }), "{fault}");
    });
}

/// One node of a cluster is made to reply as the test wants.
#[test]
fn one_node_of_a_cluster_says_that_it_is_one() {
    let cluster = cluster_or_skip!(ClusterOptions::new().replicas(0));
    runtime().block_on(async {
        let url = format!("redis://127.0.0.1:{}", cluster.address(0).port());
        let options = Options::from_url(&url).unwrap().deadline(LONG);
        let store = RedisStore::builder(options).connect().await.unwrap();
        let limiter = Limiter::new(limits("5/h via gcra"), store);
        let mut wrong = 0;
        for n in 0..20 {
            let subject = Subject::new("user", n.to_string()).unwrap();
            if let Err(error) = limiter.check(Ask::new(&subject)).await {
                assert_eq!(fault(error.source().unwrap()), &Fault::Cluster);
                assert!(error.to_string().contains("write `redis+cluster://HOST`"), "{error}");
                wrong += 1;
            }
        }
        assert!(wrong > 0);
    });
}

/// The refresh of the map of nodes is not waited for.
#[test]
fn an_open_breaker_answers_at_once() {
    let options_of = ClusterOptions::new().replicas(0);
    let cluster = cluster_or_skip!(options_of);
    runtime().block_on(async {
        let options = options(&cluster).breaker_timeout(Duration::from_millis(200));
        let store = RedisStore::builder(options).connect().await.unwrap();
        let limiter = Limiter::new(limits("1000/30d via gcra"), store);
        let _ = limiter.check("bob").await.unwrap();
        (0..cluster.servers().len()).for_each(|index| cluster.freeze(index));
        opens_and_answers_at_once(&limiter).await;
    });
}

//! Asks with a shard on a server that enforces it: a cluster of one node refuses a call whose keys
//! lie in more than one slot.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate::{Ask, Decision, LimitSet, Limiter, ManualClock, MemoryStore, Store, Subject};
use tollgate_redis::{Options, RedisStore};
use tollgate_testbed::{RedisServer, Reply, redis_or_skip};

use crate::common::{cluster, runtime};

const NOON: u64 = 1_763_640_000_000_000;

fn limits(text: &str) -> LimitSet {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// A shard whose text needs an escape, and braces that would end a hash tag.
const SHARD: &str = "a {b}";
const TAG: &str = "tg1:{a%20%7Bb%7D}{";

fn options(server: &RedisServer) -> Options {
    Options::from_url(&server.url()).unwrap().deadline(Duration::from_secs(30))
}

fn slot(server: &RedisServer, key: &[u8]) -> i64 {
    server.command(&[b"CLUSTER", b"KEYSLOT", key]).int().unwrap()
}

/// The keys of the server, all of which lie in the slot of the shard.
fn keys_in_one_slot(server: &RedisServer) -> BTreeSet<String> {
    let keys = server.keys();
    let expected = slot(server, b"a%20%7Bb%7D");
    for key in &keys {
        assert_eq!(slot(server, key), expected, "{}", String::from_utf8_lossy(key));
    }
    let keys: BTreeSet<String> =
        keys.into_iter().map(|key| String::from_utf8(key).unwrap()).collect();
    for key in &keys {
        assert!(key.starts_with(TAG), "{key}");
    }
    keys
}

fn tenant() -> Subject {
    Subject::new("tenant", SHARD).unwrap()
}

fn user() -> Subject {
    Subject::from_dimensions([("tenant", SHARD.as_bytes()), ("user", b"7")]).unwrap()
}

/// One check over two subjects with a log and a state beside it.
struct Sets {
    all: LimitSet,
    one: LimitSet,
}

impl Sets {
    fn new() -> Self {
        let one = limits("log: 5/10s via sliding_log, 9/1m via gcra").in_policy("api").unwrap();
        Self { all: limits("7/10s via gcra"), one }
    }

    fn ask(&self) -> Ask<'_> {
        Ask::from([(tenant(), &self.all), (user(), &self.one)]).shard(SHARD)
    }

    fn tenant(&self) -> Ask<'_> {
        Ask::new(tenant()).under(&self.all).shard(SHARD.to_owned())
    }

    fn user(&self) -> Ask<'_> {
        Ask::new(user()).under(&self.one).shard(SHARD)
    }
}

fn seen(decision: &Decision<'_>) -> String {
    let each = decision.reports().map(|report| {
        let (left, retry, reset) = (report.remaining(), report.retry_after(), report.reset_after());
        format!("{} {}: {left} {retry:?} {reset:?}", report.subject(), report.limit())
    });
    format!("{} {}", decision.granted(), each.collect::<Vec<_>>().join("; "))
}

/// A store's answers to every operation with a shard.
async fn story<S: Store>(store: S, clock: &ManualClock) -> Vec<String> {
    let sets = Sets::new();
    let limiter = Limiter::new(limits("1/h via gcra"), store);
    let mut told = Vec::new();
    let mut receipts = Vec::new();
    for _ in 0..6 {
        clock.advance(Duration::from_millis(300));
        let decision = limiter.check(sets.ask()).await.unwrap().into_owned();
        told.push(seen(&decision));
        receipts.extend(decision.receipt());
    }
    assert_eq!(receipts.len(), 5);
    assert!(receipts.iter().all(|receipt| receipt.shard.as_deref() == Some(SHARD)));
    for receipt in [&receipts[1], &receipts[1], &receipts[4]] {
        told.push(format!("{:?}", limiter.refund(receipt).await.unwrap()));
    }
    let deadline = Duration::from_secs(30);
    told.push(seen(&limiter.check(sets.user().cost(2).within(deadline)).await.unwrap()));
    told.push(seen(&limiter.check(sets.ask().cost(6).partial()).await.unwrap()));
    told.push(format!("{:?}", limiter.admin().adjust(sets.tenant(), 2).await.unwrap()));
    told.push(format!("{:?}", limiter.admin().adjust(sets.user(), -1).await.unwrap()));
    for ask in [sets.tenant(), sets.user()] {
        let held = limiter.admin().inspect(ask).await.unwrap().unwrap();
        told.push(format!("{} {:?}", held.written_under, held.logs));
    }
    told.push(seen(&limiter.check(sets.ask().peek()).await.unwrap()));
    let alone = limiter.check(sets.tenant()).await.unwrap().into_owned();
    told.push(seen(&alone));
    told.push(limiter.admin().reset(sets.user()).await.unwrap().to_string());
    told.push(limiter.admin().reset(sets.user()).await.unwrap().to_string());
    told.push(seen(&limiter.check(sets.ask().peek()).await.unwrap()));
    // Charged before the reset: nothing of the user's is given back.
    told.push(format!("{:?}", limiter.refund(&receipts[0]).await.unwrap()));
    told.push(format!("{:?}", limiter.refund(&alone.receipt().unwrap()).await.unwrap()));
    told.push(format!("{:?}", limiter.admin().inspect(sets.user()).await.unwrap()));
    told
}

#[test]
fn a_shard_changes_where_counts_lie_and_no_decision() {
    let _found = redis_or_skip!();
    runtime().block_on(async {
        let server = cluster().await;
        let clock = || ManualClock::at_micros(NOON);
        let here = clock();
        let memory = story(MemoryStore::builder().clock(here.clone()).build(), &here).await;
        for swapping in [false, true] {
            let there = clock();
            let run = format!("shard-{swapping}");
            let mut builder = RedisStore::builder(options(&server)).run(&run, there.clone());
            if swapping {
                builder = builder.swapping();
            }
            let redis = story(builder.connect().await.unwrap(), &there).await;
            assert_eq!(redis, memory, "swapping: {swapping}");
        }
        assert_eq!(server.without_ttl(), Vec::<Vec<u8>>::new());
    });
}

#[test]
fn all_keys_of_a_shard_lie_in_its_slot() {
    let _found = redis_or_skip!();
    runtime().block_on(async {
        let server = cluster().await;
        // The store's own shard is for asks that name none.
        let store = RedisStore::builder(options(&server)).shard("other").connect().await.unwrap();
        let sets = Sets::new();
        let limiter = Limiter::new(limits("1/h via gcra"), store);
        let receipt = limiter.check(sets.ask()).await.unwrap().receipt().unwrap();
        let state = [
            format!("{TAG}tenant:a%20%7Bb%7D}}:gcra/10s"),
            format!("{TAG}tenant:a%20%7Bb%7D,user:7}}:api>gcra/1m,log"),
            format!("{TAG}tenant:a%20%7Bb%7D,user:7}}:api>gcra/1m,log~log"),
        ];
        assert_eq!(keys_in_one_slot(&server), BTreeSet::from(state));
        // A mark of the refund, the answer under an id, when it was reset: all beside them.
        assert!(!limiter.refund(&receipt).await.unwrap().already);
        assert!(limiter.refund(&receipt).await.unwrap().already);
        let first = limiter.check(sets.ask().request("id 1")).await.unwrap().into_owned();
        let again = limiter.check(sets.ask().request("id 1")).await.unwrap();
        assert_eq!(first.receipt(), again.receipt());
        let there = |part: &str| {
            let keys = keys_in_one_slot(&server);
            assert!(keys.iter().any(|key| key.ends_with(part)), "{part}: {keys:?}");
        };
        there("?");
        assert!(limiter.admin().reset(sets.user()).await.unwrap());
        there("!reset");
        there(&format!("!{}", receipt.number));
        // Without a shard an ask lies in the store's.
        assert!(limiter.check("bob").await.unwrap().is_allowed());
        let keys = server.keys();
        assert!(keys.contains(&b"tg1:{other}{bob}:gcra/1h".to_vec()), "{keys:?}");
    });
}

#[test]
fn without_a_shard_a_cluster_refuses_several_subjects() {
    let _found = redis_or_skip!();
    runtime().block_on(async {
        let server = cluster().await;
        let store = RedisStore::builder(options(&server)).connect().await.unwrap();
        let (all, one) = (limits("7/10s via gcra"), limits("5/10s via gcra"));
        let limiter = Limiter::new(limits("1/h via gcra"), store);
        // So that the tests above show something.
        let ask = Ask::from([("tenant:1", &all), ("user:2", &one)]);
        limiter.check(ask.clone()).await.unwrap_err();
        assert_eq!(server.command(&[b"DBSIZE"]), Reply::Int(0));
        assert!(limiter.check(ask.clone().shard("1")).await.unwrap().is_allowed());
        for shard in [String::new(), "x".repeat(65_537)] {
            let error = limiter.check(ask.clone().shard(shard)).await.unwrap_err().to_string();
            assert!(error.contains("a shard has 1 to 65536 bytes"), "{error}");
        }
        assert!(limiter.check(ask.shard("x".repeat(65_536))).await.unwrap().is_allowed());
    });
}

/// The request lies beside the first count, so another policy there is another place; in any other
/// part it is another question.
#[test]
fn a_request_id_belongs_to_one_policy() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let store = RedisStore::builder(options(&server)).connect().await.unwrap();
        let set = limits("3/h via gcra");
        let (api, web) =
            (set.clone().in_policy("api").unwrap(), set.clone().in_policy("web").unwrap());
        let limiter = Limiter::new(set.clone(), store);
        let ask = |other| Ask::new("bob").and_under("carol", other);
        let first = limiter.check(ask(&api).request("id")).await.unwrap().into_owned();
        let error = limiter.check(ask(&web).request("id")).await.unwrap_err().to_string();
        assert!(error.contains("another question"), "{error}");
        let error = limiter.check(ask(&set).request("id")).await.unwrap_err().to_string();
        assert!(error.contains("another question"), "{error}");
        let again = limiter.check(ask(&api).request("id")).await.unwrap();
        assert_eq!(first.receipt(), again.receipt());
    });
}

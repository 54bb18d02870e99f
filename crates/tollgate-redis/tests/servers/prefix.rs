//! Environments on one server: two prefixes share nothing.

use std::time::Duration;

use tollgate::operation::{Post, ReadNotices, Withdraw};
use tollgate::{Ask, LimitSet, Limiter, Notice, Store as _};
use tollgate_redis::doctor::{Finding, Level, Report, examine};
use tollgate_redis::{Options, RedisStore};
use tollgate_testbed::{ClusterOptions, RedisServer, Reply, cluster_or_skip, redis_or_skip};

use crate::common::runtime;

const PATIENCE: Duration = Duration::from_secs(30);

/// The options of an environment; of none, for an empty prefix.
fn options(url: &str, prefix: &str) -> Options {
    let query = if prefix.is_empty() { String::new() } else { format!("?prefix={prefix}") };
    Options::from_url(&format!("{url}{query}")).unwrap().deadline(PATIENCE)
}

async fn open(url: &str, prefix: &str) -> RedisStore {
    RedisStore::builder(options(url, prefix)).connect().await.unwrap()
}

fn limits(text: &str) -> LimitSet {
    text.parse().unwrap()
}

/// Does each operation in one environment, as if it were alone, and returns what it left: a receipt
/// and a hold that are open.
async fn each_operation(store: &RedisStore) -> (tollgate::Receipt, tollgate::Hold) {
    let set = limits("10/h via sliding_log, 20/d via gcra");
    let limiter = Limiter::new(set.clone(), store.clone());
    assert!(
        limiter.admin().inspect("bob").await.unwrap().is_none(),
        "a count of another environment"
    );
    let decision = limiter.check("bob").await.unwrap();
    assert_eq!(decision.remaining(), 9);
    let receipt = decision.receipt().unwrap();
    assert_eq!(limiter.check(Ask::new("bob").peek()).await.unwrap().remaining(), 9);
    assert_eq!(limiter.check(Ask::new("bob").request("id-1")).await.unwrap().remaining(), 8);
    assert_eq!(limiter.check(Ask::new("bob").request("id-1")).await.unwrap().remaining(), 8);
    let _ = limiter.admin().adjust("bob", 1).await.unwrap();
    let _ = limiter.charge("bob").await.unwrap();
    assert!(limiter.admin().inspect("bob").await.unwrap().is_some());
    assert!(limiter.admin().reset("ann").await.is_ok());
    let reserved =
        limiter.hold(Ask::new("bob").reserve(Duration::from_secs(60))).await.unwrap().hold.unwrap();
    assert!(!limiter.commit(&reserved, 1).await.unwrap().already);
    let slots = Limiter::new(limits("1 at once"), store.clone());
    let hold = slots.hold(Ask::new("bob").acquire()).await.unwrap().hold.unwrap();
    assert!(slots.hold(Ask::new("bob").acquire()).await.unwrap().hold.is_none());
    assert!(slots.renew(&mut hold.clone(), None).await.unwrap());
    let notices = store.perform(&ReadNotices::new(None)).await.unwrap().unwrap();
    assert!(notices.all.is_empty(), "{notices:?}");
    let name = store.keys().prefix();
    for name in [name, "gone"] {
        let notice = Notice::new(name, "text", Duration::from_secs(60)).unwrap();
        store.perform(&Post::new(&notice)).await.unwrap();
    }
    assert!(store.perform(&Withdraw::new("gone")).await.unwrap());
    (receipt, hold)
}

#[test]
fn two_prefixes_share_nothing() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let mut stores = Vec::new();
        for prefix in ["", "staging", "staging.2", "x"] {
            let store = open(&server.url(), prefix).await;
            let left = each_operation(&store).await;
            stores.push((store, left));
        }
        let of_check = limits("10/h via sliding_log, 20/d via gcra");
        for (number, (store, _)) in stores.iter().enumerate() {
            let all = store.perform(&ReadNotices::new(None)).await.unwrap().unwrap().all;
            let names: Vec<&str> = all.iter().map(|notice| notice.name.as_str()).collect();
            assert_eq!(names, [store.keys().prefix()]);
            for (other, (_, (receipt, hold))) in stores.iter().enumerate() {
                let limiter = Limiter::new(of_check.clone(), store.clone());
                let slots = Limiter::new(limits("1 at once"), store.clone());
                if other == number {
                    continue;
                }
                let refused = limiter.refund(receipt).await.unwrap_err().to_string();
                assert!(refused.contains("another store"), "{refused}");
                assert!(!slots.release(hold).await.unwrap());
                assert!(!slots.renew(&mut hold.clone(), None).await.unwrap());
            }
            // Its own are taken, whatever the others tried.
            let limiter = Limiter::new(of_check.clone(), store.clone());
            let (receipt, hold) = &stores[number].1;
            assert!(limiter.refund(receipt).await.is_ok());
            assert!(Limiter::new(limits("1 at once"), store.clone()).release(hold).await.unwrap());
        }
        let starts = ["tg1:", "staging:tg1:", "staging.2:tg1:", "x:tg1:"];
        for start in starts {
            assert!(server.keys().iter().any(|key| key.starts_with(start.as_bytes())), "{start}");
        }
        for key in server.keys() {
            let known = starts.iter().any(|start| key.starts_with(start.as_bytes()));
            assert!(known, "{}", String::from_utf8_lossy(&key));
        }
    });
}

/// A run counts apart within its environment, and removes its own keys alone.
#[test]
fn a_run_is_in_its_environment() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let set = limits("5/h");
        let mut runs = Vec::new();
        for prefix in ["", "staging"] {
            let options = options(&server.url(), prefix);
            let run = RedisStore::builder(options.clone()).run_now("r").connect().await.unwrap();
            for store in [run.clone(), RedisStore::builder(options).connect().await.unwrap()] {
                let limiter = Limiter::new(set.clone(), store);
                assert_eq!(limiter.check("bob").await.unwrap().remaining(), 4);
            }
            runs.push(run);
        }
        assert_eq!(server.keys().len(), 4);
        assert_eq!(runs[1].keys().prefix(), "staging:tg1-r");
        runs[1].clear_run().await.unwrap();
        assert_eq!((runs[0].count_keys().await.unwrap(), server.keys().len()), (1, 3));
        let plain = RedisStore::builder(options(&server.url(), "staging")).connect().await.unwrap();
        assert_eq!(plain.count_keys().await.unwrap(), 1);
        assert!(plain.clear_run().await.is_err(), "the counts of an environment are no run");
    });
}

fn rights(report: &Report) -> &Finding {
    report.findings.iter().find(|finding| finding.id == "rights").unwrap()
}

fn type_in(server: &RedisServer, line: &str) {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    assert_eq!(server.command(&words), Reply::Status("OK".into()), "{line}");
}

/// The doctor's user works under its prefix, and only there.
#[test]
fn the_doctors_user_has_its_prefix_alone() {
    let server = redis_or_skip!();
    let report = examine(&format!("{}?prefix=staging", server.url())).unwrap();
    let remedy = rights(&report).remedy.clone().unwrap();
    let line = remedy.strip_prefix("a user with no more: ").unwrap();
    assert!(line.contains(" resetkeys ~staging:tg1:* "), "{line}");
    type_in(&server, line);
    let url = server.url().replace("://", "://tollgate:PASSWORD@");
    let own = examine(&format!("{url}?prefix=staging")).unwrap();
    assert_eq!(rights(&own).what, "this user has every right that is needed");
    for query in ["", "?prefix=production"] {
        let other = examine(&format!("{url}{query}")).unwrap();
        assert_eq!(rights(&other).level, Level::Failure);
        let start = if query.is_empty() { "`tg1:`" } else { "`production:tg1:`" };
        assert!(rights(&other).what.contains(start), "{other:?}");
    }
    runtime().block_on(async {
        let check = async |prefix: &str| {
            let limiter = Limiter::new(limits("5/h"), open(&url, prefix).await);
            limiter.check("bob").await.map(|decision| decision.remaining())
        };
        assert_eq!(check("staging").await.unwrap(), 4);
        for prefix in ["", "production", "staging.2"] {
            let refused = check(prefix).await.unwrap_err().to_string();
            assert!(refused.contains("the Redis user may not do this"), "{refused}");
        }
    });
    assert_eq!(server.keys().len(), 1);
}

#[test]
fn the_nodes_of_a_cluster_are_asked_about_the_prefix() {
    let cluster = cluster_or_skip!(ClusterOptions::new().primaries(3).replicas(0));
    let url = format!("redis+cluster://{}", cluster.address(0));
    let report = examine(&format!("{url}?prefix=staging")).unwrap();
    assert!(rights(&report).remedy.as_ref().unwrap().contains(" ~staging:tg1:* "), "{report:?}");
    runtime().block_on(async {
        let store = open(&url, "staging").await;
        let limiter = Limiter::new(limits("5/h via sliding_log, 9/d via gcra"), store.clone());
        for number in 0..30 {
            assert!(limiter.check(number.to_string()).await.unwrap().is_allowed());
        }
        assert_eq!(store.count_keys().await.unwrap(), 60);
    });
}

//! The store over TLS, on a real cluster and under real sentinels.

use std::time::{Duration, Instant};

use tollgate::{LimitSet, Limiter, StoreError, Subject};
use tollgate_redis::{Keys, Options, RedisStore};
use tollgate_testbed::{
    AUTHORITY, ClusterOptions, STRANGER, SentinelOptions, SlotMove, cluster_or_skip, key_slot,
    sentinels_or_skip, skip_without_tls,
};

use crate::common::{pause, runtime};

/// Far away: the machine may be busy.
const LONG: Duration = Duration::from_secs(30);

fn limits() -> LimitSet {
    "9/1h via gcra".parse().unwrap()
}

/// The options of a URL, with the authority of the test's servers.
fn options(url: &str) -> Options {
    Options::from_url(url).unwrap().deadline(LONG).authorities(AUTHORITY)
}

async fn limiter(options: Options) -> Limiter<RedisStore> {
    Limiter::new(limits(), RedisStore::builder(options).connect().await.unwrap())
}

async fn refusal(options: Options) -> String {
    let error: StoreError = RedisStore::builder(options).connect().await.unwrap_err();
    error.to_string()
}

/// Somebody else's authority, and the error at the start.
async fn strangers_are_refused(url: &str) {
    let said = refusal(options(url).authorities(STRANGER)).await;
    assert!(said.contains("no TLS connection to Redis at 127.0.0.1:"), "{said}");
    assert!(said.contains("SSL_CERT_FILE can name another"), "{said}");
}

/// Checks until one is answered, and returns what is left then.
async fn goes_on(limiter: &Limiter<RedisStore>, subject: &Subject) -> u64 {
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < LONG, "it does not go on");
        match limiter.check(subject).await {
            Ok(decision) => return decision.remaining(),
            Err(_) => pause(5).await,
        }
    }
}

#[test]
fn a_cluster_is_spoken_to_over_tls_wherever_its_slots_go() {
    skip_without_tls!();
    let mut cluster = cluster_or_skip!(ClusterOptions::new().tls());
    let url = cluster.url();
    assert!(url.starts_with("rediss+cluster://"));
    let on = |node: usize| {
        let subject = cluster.key_of(node, "user:");
        Subject::literal(&subject).unwrap()
    };
    let subjects = [on(0), on(1), on(2)];
    let limiter = runtime().block_on(async {
        strangers_are_refused(&url).await;
        let plain = refusal(options(&url.replace("rediss", "redis"))).await;
        assert!(plain.contains("wants TLS on this port: write `rediss"), "{plain}");
        // The others are found by one.
        let first = format!("rediss+cluster://{}", cluster.address(0));
        let limiter = limiter(options(&first)).await;
        for subject in &subjects {
            assert_eq!(limiter.check(subject).await.unwrap().remaining(), 8, "{subject}");
        }
        limiter
    });
    // MOVED.
    let key = Keys::new().state(&subjects[0], &limits());
    let slot = key_slot(key.as_bytes());
    cluster.migrate_slot(SlotMove { slot, from: 0, to: 1 });
    let moved = runtime().block_on(limiter.check(&subjects[0])).unwrap();
    assert_eq!(moved.remaining(), 7);
    assert!(cluster.servers()[1].keys().contains(&key.into_bytes()));
    // MOVED to a node that was no primary.
    let replica = cluster.replicas_of(1)[0];
    cluster.failover(replica);
    assert_eq!(runtime().block_on(limiter.check(&subjects[1])).unwrap().remaining(), 7);
    // A primary that is gone: its replica knows the charge.
    let replica = cluster.replicas_of(2)[0];
    let begin = Instant::now();
    while cluster.count_keys(replica) == 0 {
        assert!(begin.elapsed() < LONG, "a replica never hears of it");
        std::thread::yield_now();
    }
    cluster.kill(2);
    assert_eq!(runtime().block_on(goes_on(&limiter, &subjects[2])), 7);
}

#[test]
fn sentinels_name_a_server_with_tls_and_may_have_it_too() {
    skip_without_tls!();
    let sentinels = sentinels_or_skip!(SentinelOptions::new().replicas(1).tls());
    let (plain, secure) = (sentinels.url(), sentinels.tls_url());
    let bob = Subject::literal("bob").unwrap();
    let limiters = runtime().block_on(async {
        strangers_are_refused(&plain).await;
        strangers_are_refused(&secure).await;
        // Servers and sentinels are distinguished.
        let said = refusal(options(&plain.replace("rediss", "redis"))).await;
        assert!(said.contains("wants TLS on this port: write `rediss"), "{said}");
        let said = refusal(options(&secure.replace("?sentinel_tls=yes", ""))).await;
        assert!(said.contains("sentinel_tls=yes"), "{said}");
        let said = refusal(options(&format!("{plain}?sentinel_tls=yes"))).await;
        assert!(said.contains("leave out `sentinel_tls=yes`"), "{said}");
        [limiter(options(&plain)).await, limiter(options(&secure)).await]
    });
    for (limiter, left) in limiters.iter().zip([8, 7]) {
        assert_eq!(runtime().block_on(limiter.check(&bob)).unwrap().remaining(), left);
    }
    let begin = Instant::now();
    let has_heard = || {
        let of = |server: usize| sentinels.server(server).info("replication");
        of(0)["master_repl_offset"] == of(1)["master_repl_offset"]
    };
    while !has_heard() {
        assert!(begin.elapsed() < LONG, "the replica never hears of it");
        std::thread::yield_now();
    }
    assert_eq!(sentinels.failover(), 1);
    let left = limiters.iter().map(|limiter| runtime().block_on(goes_on(limiter, &bob)));
    assert_eq!(left.collect::<Vec<_>>(), [6, 5]);
    assert_eq!(sentinels.server(1).keys().len(), 1);
}

//! The fixtures of clusters and sentinels: they come up, change as asked, and leave nothing behind.

#![allow(clippy::unwrap_used)] // a test may unwrap: its panic is its verdict

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use tollgate_testbed::{
    ClusterOptions, RedisServer, Reply, Role, SLOTS, SentinelOptions, SlotMove, cluster_or_skip,
    key_slot, sentinels_or_skip,
};

/// How long what comes by itself may take here.
const PATIENCE: Duration = Duration::from_secs(15);

fn ok() -> Reply {
    Reply::Status("OK".into())
}

/// The reply of a node to a key that belongs to another.
fn redirect(kind: &str, key: &str, server: &RedisServer) -> Reply {
    Reply::Error(format!("{kind} {} {}", key_slot(key.as_bytes()), server.address()))
}

/// Whether the process runs. One that ended and that nobody has waited for is listed too.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[test]
fn a_cluster_covers_all_slots_and_says_who_owns_a_key() {
    let started = Instant::now();
    let cluster = cluster_or_skip!();
    println!("a cluster of 3 + 3 is up after {:?}", started.elapsed());

    let nodes = cluster.nodes();
    assert_eq!(cluster.primaries(), [0, 1, 2]);
    for (index, node) in nodes.iter().enumerate() {
        assert_eq!((node.index, node.address), (index, cluster.address(index)));
        let role = if index < 3 { Role::Primary } else { Role::Replica };
        assert_eq!((node.role, node.primary), (role, index.checked_sub(3)));
    }
    assert!((0..SLOTS).all(|slot| nodes.iter().filter(|node| node.owns(slot)).count() == 1));
    assert_eq!((0..3).map(|i| cluster.replicas_of(i)).collect::<Vec<_>>(), [[3], [4], [5]]);
    let addresses: Vec<_> = nodes.iter().map(|node| node.address.to_string()).collect();
    assert_eq!(cluster.url(), format!("redis+cluster://{}", addresses.join(",")));

    let mut client = cluster.client(0).unwrap();
    for key in ["a", "", "{tag}x", "{}x", "x{a}{b}", "x{{a}}", "{a", "}{a}", "\u{e9}{\u{fc}}"] {
        let slot = client.command(&[b"CLUSTER", b"KEYSLOT", key.as_bytes()]).unwrap();
        assert_eq!(slot.int(), Some(i64::from(key_slot(key.as_bytes()))), "{key}");
        let owner = cluster.owner_of(key.as_bytes()).unwrap();
        for wrong in (0..3).filter(|&index| index != owner) {
            let reply = cluster.command(wrong, &[b"SET", key.as_bytes(), b"1"]);
            assert_eq!(reply, redirect("MOVED", key, &cluster.servers()[owner]));
        }
        assert_eq!(cluster.command(owner, &[b"SET", key.as_bytes(), b"1"]), ok());
    }
    assert_eq!((0..3).map(|index| cluster.count_keys(index)).sum::<usize>(), 9);
    cluster.flush_all();
    assert!((0..3).all(|index| cluster.count_keys(index) == 0));
}

#[test]
fn a_slot_that_moves_asks_and_then_has_moved() {
    let options = ClusterOptions::new().replicas(0).arguments(&[
        "--requirepass",
        "secret",
        "--masterauth",
        "secret",
    ]);
    let cluster = cluster_or_skip!(options);
    let tag = cluster.key_of(0, "tag");
    let slot = key_slot(tag.as_bytes());
    let movement = SlotMove { slot, from: 0, to: 2 };
    let [early, late, new] = ["early", "late", "new"].map(|name| format!("{{{tag}}}{name}"));
    let on = |index: usize, words: &[&str]| {
        cluster.command(index, &words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>())
    };
    assert_eq!(on(0, &["MSET", &early, "1", &late, "2"]), ok());

    cluster.begin_migration(movement);
    assert!(cluster.move_key(movement, early.as_bytes()));
    assert!(!cluster.move_key(movement, early.as_bytes()));
    assert_eq!(on(0, &["GET", &late]).int(), Some(2));
    assert_eq!(on(0, &["GET", &early]), redirect("ASK", &early, &cluster.servers()[2]));
    assert_eq!(on(0, &["SET", &new, "3"]), redirect("ASK", &new, &cluster.servers()[2]));
    assert_eq!(on(0, &["MGET", &early, &late]).error_code(), Some("TRYAGAIN"));
    assert_eq!(on(2, &["GET", &early]), redirect("MOVED", &early, &cluster.servers()[0]));
    let mut target = cluster.client(2).unwrap();
    assert_eq!(target.command(&[b"ASKING"]).unwrap(), ok());
    assert_eq!(target.command(&[b"GET", early.as_bytes()]).unwrap().int(), Some(1));
    assert_eq!(cluster.owner_of_slot(slot), Some(0));

    assert_eq!(cluster.move_keys(movement), 1);
    cluster.finish_migration(movement);
    cluster.wait_until_healthy(PATIENCE);
    assert_eq!(cluster.owner_of_slot(slot), Some(2));
    assert_eq!(on(2, &["MGET", &early, &late]).items().len(), 2);
    for index in 0..2 {
        let reply = on(index, &["GET", &early]);
        assert_eq!(reply, redirect("MOVED", &early, &cluster.servers()[2]));
    }

    // And back, in one go.
    cluster.migrate_slot(SlotMove { slot, from: 2, to: 0 });
    assert_eq!((cluster.count_keys(0), cluster.count_keys(2)), (2, 0));
    assert_eq!(on(0, &["GET", &late]).int(), Some(2));
}

#[test]
fn a_failover_keeps_the_keys_and_a_killed_primary_is_replaced() {
    let mut cluster = cluster_or_skip!();
    let key = cluster.key_of(0, "key");
    assert_eq!(cluster.command(0, &[b"SET", key.as_bytes(), b"1"]), ok());
    cluster.failover(3);
    assert_eq!(cluster.primaries(), [1, 2, 3]);
    cluster.wait_until_healthy(PATIENCE);
    assert_eq!(cluster.replicas_of(3), [0]);
    assert_eq!(cluster.command(3, &[b"GET", key.as_bytes()]).int(), Some(1));

    cluster.kill(1);
    assert!(cluster.health().is_err() && cluster.client(1).is_err());
    cluster.wait_until_healthy(PATIENCE);
    assert_eq!(cluster.primaries(), [2, 3, 4]);
    cluster.restart(1);
    cluster.wait_until_healthy(PATIENCE);
    assert_eq!(cluster.replicas_of(4), [1]);

    cluster.freeze(2);
    cluster.wait_until_healthy(PATIENCE);
    assert_eq!(cluster.primaries(), [3, 4, 5]);
    cluster.resume(2);
    cluster.wait_until_healthy(PATIENCE);
    assert_eq!(cluster.replicas_of(5), [2]);
}

#[test]
fn the_options_of_a_cluster_reach_its_servers() {
    let options = ClusterOptions::new().replicas(0).node_timeout(Duration::from_millis(500));
    let mut cluster = cluster_or_skip!(options.full_coverage(false).arguments(&["--hz", "50"]));
    for (name, value) in [("cluster-node-timeout", "500"), ("hz", "50")] {
        let reply = cluster.command(1, &[b"CONFIG", b"GET", name.as_bytes()]);
        assert_eq!(reply.items()[1].text().unwrap(), value);
    }
    let key = cluster.key_of(1, "key");
    cluster.kill(0);
    let deadline = Instant::now() + PATIENCE;
    while !cluster.nodes()[0].is_failed {
        assert!(Instant::now() < deadline, "nobody misses a node that was killed");
    }
    // The slots of the one that is gone are missed, and the others' are not.
    assert_eq!(cluster.command(1, &[b"SET", key.as_bytes(), b"1"]), ok());
    assert!(cluster.health().is_err());
}

#[test]
fn sentinels_name_the_primary_and_another_when_it_is_killed() {
    let started = Instant::now();
    let mut all = sentinels_or_skip!();
    println!("1 + 2 servers and 3 sentinels are up after {:?}", started.elapsed());

    let addresses: Vec<_> = all.sentinels().iter().map(|s| s.address().to_string()).collect();
    assert_eq!(all.url(), format!("redis+sentinel://{}/main", addresses.join(",")));
    assert_eq!((all.primary(), all.primary_index()), (all.server(0).address(), 0));

    let planned = all.failover();
    assert_ne!(planned, 0);
    assert_eq!(all.primary(), all.server(planned).address());
    all.wait_until_healthy(PATIENCE * 2);

    // Another election may have followed (see `RedisSentinels`), so the test asks for the primary.
    let old = all.primary();
    let killed = all.kill_primary();
    let elected = all.wait_for_new_primary(old, PATIENCE);
    assert_eq!(all.server(elected).command(&[b"SET", b"key", b"1"]), ok());

    all.kill_sentinels();
    assert!(all.sentinels().iter().all(|sentinel| sentinel.client().is_err()));
    all.restart_sentinels();
    all.wait_until_healthy(PATIENCE * 2);
    assert_ne!(all.primary_index(), killed);
}

#[test]
fn a_frozen_primary_is_replaced_under_passwords_too() {
    let options = SentinelOptions::new().name("other").password("one").sentinel_password("two");
    let mut all = sentinels_or_skip!(options);
    let refused = |server: &RedisServer| {
        let mut client = tollgate_testbed::Client::tcp(server.address()).unwrap();
        client.command(&[b"PING"]).unwrap().error_code() == Some("NOAUTH")
    };
    assert!(refused(all.server(0)) && refused(all.server(1)) && refused(all.sentinel(0)));

    let old = all.primary();
    let frozen = all.freeze_primary();
    let elected = all.wait_for_new_primary(old, PATIENCE);
    assert_ne!(elected, frozen);
    all.resume(frozen);
    // Another election may follow (see `RedisSentinels`). All others follow the winner.
    all.wait_until_healthy(PATIENCE * 2);
    all.restart_sentinels();
    all.wait_until_healthy(PATIENCE * 2);
}

#[test]
fn nothing_is_left_of_them_also_when_the_test_panics() {
    let cluster = cluster_or_skip!(ClusterOptions::new().primaries(1));
    let mut all = sentinels_or_skip!(SentinelOptions::new().replicas(1).sentinels(1));
    all.kill(1);
    all.restart(1);
    let servers = cluster.servers().iter().chain(all.servers()).chain(all.sentinels());
    let left: Vec<_> = servers.map(|server| (server.pid(), server.dir().to_owned())).collect();
    assert_eq!(left.len(), 2 + 2 + 1);
    cluster.freeze(0);
    assert!(left.iter().all(|(pid, dir)| runs(*pid) && dir.exists()));
    let panic = catch_unwind(AssertUnwindSafe(move || {
        let _held = (cluster, all);
        panic!("as a test may");
    }));
    assert!(panic.is_err());
    assert!(left.iter().all(|(pid, dir)| !runs(*pid) && !dir.exists()));
}

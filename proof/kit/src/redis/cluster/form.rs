//! How a cluster comes into being, without redis-cli.

use super::super::launch::Setup;
use super::super::poll::{done, until};
use super::super::server::free_port;
use super::{ClusterOptions, PATIENCE, RedisCluster, SLOTS};
use crate::redis::RedisServer;

/// A server, and where the other nodes find it.
struct Member {
    server: RedisServer,
    bus: u16,
    id: String,
}

pub(super) fn form(options: &ClusterOptions) -> RedisCluster {
    let ClusterOptions { primaries, replicas, .. } = *options;
    assert!((1..=usize::from(SLOTS)).contains(&primaries), "a cluster has at least one primary");
    let members: Vec<_> = (0..primaries * (1 + replicas)).map(|_| join(options)).collect();
    share_slots(&members[..primaries]);
    introduce(&members);
    for (index, replica) in members[primaries..].iter().enumerate() {
        let primary = members[index / replicas].id.as_bytes();
        // A replica must have met its primary.
        until(PATIENCE, "a replica", || {
            done(&replica.server.command(&[b"CLUSTER", b"REPLICATE", primary]))
        });
    }
    let servers = members.into_iter().map(|member| member.server).collect();
    let cluster = RedisCluster { servers };
    until(PATIENCE, "the cluster is up", || {
        cluster.health()?;
        // All are healthy as primaries too, which they were before they became replicas.
        let replicas = cluster.nodes().iter().filter(|node| node.primary.is_some()).count();
        let missing = cluster.servers.len() - primaries - replicas;
        if missing == 0 { Ok(()) } else { Err(format!("{missing} are not replicas yet")) }
    });
    cluster
}

/// A server that is in a cluster with itself alone.
fn join(options: &ClusterOptions) -> Member {
    let mut bus = 0;
    let server = RedisServer::set_up(|| {
        bus = free_port();
        let launch = options.launch.clone();
        Setup { launch, arguments: arguments(options, bus), config: None }
    });
    let id = server.command(&[b"CLUSTER", b"MYID"]).text().unwrap_or_default();
    Member { server, bus, id }
}

fn arguments(options: &ClusterOptions, bus: u16) -> Vec<String> {
    let timeout_ms = options.node_timeout.as_millis().to_string();
    let coverage = if options.full_coverage { "yes" } else { "no" };
    let bus = bus.to_string();
    let words = [
        ["--cluster-enabled", "yes"],
        ["--cluster-port", &bus],
        ["--cluster-node-timeout", &timeout_ms],
        ["--cluster-require-full-coverage", coverage],
        ["--repl-diskless-sync-delay", "0"],
    ];
    let words = words.iter().flatten().map(|&word| word.to_owned());
    words.chain(options.arguments.iter().cloned()).collect()
}

/// Gives each primary its part of the slots.
fn share_slots(primaries: &[Member]) {
    let count = primaries.len();
    let start = |part: usize| part * usize::from(SLOTS) / count;
    for (part, primary) in primaries.iter().enumerate() {
        let (first, last) = (start(part).to_string(), (start(part + 1) - 1).to_string());
        let words: [&[u8]; 4] = [b"CLUSTER", b"ADDSLOTSRANGE", first.as_bytes(), last.as_bytes()];
        done(&primary.server.command(&words)).unwrap();
    }
}

/// Makes all know one another.
fn introduce(members: &[Member]) {
    for (index, member) in members.iter().enumerate() {
        // An epoch can be set only while a node knows no other; without, equal ones would have to
        // be settled first.
        let epoch = (index + 1).to_string();
        let words: [&[u8]; 3] = [b"CLUSTER", b"SET-CONFIG-EPOCH", epoch.as_bytes()];
        done(&member.server.command(&words)).unwrap();
    }
    for (index, member) in members.iter().enumerate() {
        // Each pair once. Gossip would spread it too, at its pace.
        for other in &members[index + 1..] {
            let (port, bus) = (other.server.port().to_string(), other.bus.to_string());
            let words: [&[u8]; 5] =
                [b"CLUSTER", b"MEET", b"127.0.0.1", port.as_bytes(), bus.as_bytes()];
            done(&member.server.command(&words)).unwrap();
        }
    }
}

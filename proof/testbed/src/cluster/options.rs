//! How a cluster is made, and how it comes into being without redis-cli.

use std::time::Duration;

use super::{PATIENCE, RedisCluster, SLOTS};
use crate::launch::Setup;
use crate::wait::until;
use crate::{Launch, RedisServer, free_port, tls};

/// How a cluster of tests is made. It has 3 primaries with a replica each at first.
///
/// ```
/// use tollgate_testbed::ClusterOptions;
///
/// fn a_test() {
///     let options = ClusterOptions::new().primaries(1).replicas(0);
///     let cluster = tollgate_testbed::cluster_or_skip!(options);
///     assert_eq!(cluster.owner_of_slot(0), Some(0));
/// }
/// # a_test();
/// ```
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    primaries: usize,
    replicas: usize,
    node_timeout: Duration,
    full_coverage: bool,
    arguments: Vec<String>,
    launch: Launch,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            primaries: 3,
            replicas: 1,
            node_timeout: Duration::from_secs(1),
            full_coverage: true,
            arguments: Vec::new(),
            launch: Launch::default(),
        }
    }
}

impl ClusterOptions {
    /// 3 primaries with a replica each, and a node timeout of 1 s.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many primaries, which share the slots evenly. Fewer than three cannot elect a replica
    /// when one of them dies.
    #[must_use]
    pub fn primaries(self, primaries: usize) -> Self {
        Self { primaries, ..self }
    }

    /// How many replicas each primary has.
    #[must_use]
    pub fn replicas(self, replicas: usize) -> Self {
        Self { replicas, ..self }
    }

    /// How long a node may be silent until it counts as failed, in whole milliseconds
    /// (`cluster-node-timeout`).
    #[must_use]
    pub fn node_timeout(self, node_timeout: Duration) -> Self {
        Self { node_timeout, ..self }
    }

    /// Whether all slots are refused while one has no owner that works
    /// (`cluster-require-full-coverage`, which Redis has on).
    #[must_use]
    pub fn full_coverage(self, full_coverage: bool) -> Self {
        Self { full_coverage, ..self }
    }

    /// More arguments for all servers. A password needs two: `--requirepass` and `--masterauth`.
    #[must_use]
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|&word| word.to_owned()));
        self
    }

    /// How its servers are launched.
    #[must_use]
    pub fn launch(self, launch: Launch) -> Self {
        Self { launch, ..self }
    }

    /// TLS and nothing else, to clients and between the nodes. The certificate is for 127.0.0.1,
    /// signed by [`AUTHORITY`](crate::AUTHORITY). A test that asks for it begins with
    /// [`skip_without_tls!`](crate::skip_without_tls).
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.arguments.extend(tls::arguments());
        self.arguments.extend(["--tls-cluster".to_owned(), "yes".to_owned()]);
        self
    }

    /// Starts the cluster and waits until it is healthy.
    ///
    /// # Panics
    ///
    /// No server is installed, there is no primary, or the cluster does not come up.
    #[must_use]
    pub fn start(&self) -> RedisCluster {
        form(self)
    }
}

/// A server, and where the other nodes find it.
struct Member {
    server: RedisServer,
    bus: u16,
    id: String,
}

fn form(options: &ClusterOptions) -> RedisCluster {
    let ClusterOptions { primaries, replicas, .. } = *options;
    assert!((1..=usize::from(SLOTS)).contains(&primaries), "a cluster has at least one primary");
    let members: Vec<_> = (0..primaries * (1 + replicas)).map(|_| join(options)).collect();
    share_slots(&members[..primaries]);
    introduce(&members);
    for (index, replica) in members[primaries..].iter().enumerate() {
        let primary = members[index / replicas].id.as_bytes();
        // A replica must have met its primary.
        until(PATIENCE, "a replica", || {
            replica.server.command(&[b"CLUSTER", b"REPLICATE", primary]).done()
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
        bus = free_port().port();
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
        primary.server.command(&words).done().unwrap();
    }
}

/// Makes all know one another.
fn introduce(members: &[Member]) {
    for (index, member) in members.iter().enumerate() {
        // An epoch can be set only while a node knows no other; without, equal ones would have to
        // be settled first.
        let epoch = (index + 1).to_string();
        let words: [&[u8]; 3] = [b"CLUSTER", b"SET-CONFIG-EPOCH", epoch.as_bytes()];
        member.server.command(&words).done().unwrap();
    }
    for (index, member) in members.iter().enumerate() {
        // Each pair once. Gossip would spread it too, at its pace.
        for other in &members[index + 1..] {
            let (port, bus) = (other.server.port().to_string(), other.bus.to_string());
            let words: [&[u8]; 5] =
                [b"CLUSTER", b"MEET", b"127.0.0.1", port.as_bytes(), bus.as_bytes()];
            member.server.command(&words).done().unwrap();
        }
    }
}

//! A Redis Cluster of a test's own: real servers that know one another, gone with the test.

mod migration;
mod nodes;
mod options;
mod slots;

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::wait::until;
use crate::{Client, RedisServer, Reply};
pub use migration::SlotMove;
pub use nodes::{Node, RangeOfSlots, Role};
pub use options::ClusterOptions;
pub use slots::{SLOTS, key_slot};

/// How long what a cluster does by itself may take, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a planned failover may take. Redis gives up on one after 5 s.
const FAILOVER: Duration = Duration::from_secs(6);

/// A Redis Cluster on free ports of 127.0.0.1, all of whose processes are killed when this is
/// dropped.
///
/// Its servers have numbers: the first primaries, then the replicas, those of the first primary
/// before those of the second. A number stays a server's own whatever its role becomes.
///
/// Replication begins without the delay of 5 s that Redis has by default. All else is as Redis has
/// it: a node that is alone in its cluster tells clients an empty address, one that holds no slot
/// any more becomes a replica, and a killed primary that comes back before it was missed is empty,
/// and so are its replicas then.
#[derive(Debug)]
pub struct RedisCluster {
    servers: Vec<RedisServer>,
}

impl RedisCluster {
    /// The address for clients, which names all servers:
    /// `redis+cluster://127.0.0.1:P1,127.0.0.1:P2,...`; with TLS `rediss+cluster://...`.
    #[must_use]
    pub fn url(&self) -> String {
        let addresses: Vec<_> = self.servers.iter().map(|s| s.address().to_string()).collect();
        let scheme = if self.servers[0].tls_port().is_some() { "rediss" } else { "redis" };
        format!("{scheme}+cluster://{}", addresses.join(","))
    }

    /// The servers by their numbers: for their counters, logs and processes.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// Where a server listens.
    ///
    /// # Panics
    ///
    /// The number is too large.
    #[must_use]
    pub fn address(&self, index: usize) -> SocketAddr {
        self.servers[index].address()
    }

    /// A connection of one's own to a server, over its unix socket.
    ///
    /// # Errors
    ///
    /// It does not run, or refuses the password.
    ///
    /// # Panics
    ///
    /// The number is too large.
    pub fn client(&self, index: usize) -> io::Result<Client> {
        self.servers[index].client()
    }

    /// Sends a command to a server, whether it owns the keys or not, and waits for its reply.
    ///
    /// # Panics
    ///
    /// It does not answer. An error that it answers, such as `MOVED`, is a [`Reply::Error`].
    #[must_use]
    pub fn command(&self, index: usize, words: &[&[u8]]) -> Reply {
        self.servers[index].command(words)
    }

    /// All nodes by their numbers, as the first server that is awake sees them now.
    ///
    /// # Panics
    ///
    /// No server is awake, or it does not know all nodes.
    #[must_use]
    pub fn nodes(&self) -> Vec<Node> {
        let awake = self.awake().next().expect("a server of the cluster is awake");
        // A handshake can be under way for a moment, also with one that is known already.
        until(PATIENCE, "all nodes are known", || self.seen_by(awake))
    }

    /// All nodes by their numbers, as this server sees them now.
    ///
    /// # Errors
    ///
    /// It does not know all nodes, which is described in words.
    ///
    /// # Panics
    ///
    /// It does not answer.
    pub fn seen_by(&self, index: usize) -> Result<Vec<Node>, String> {
        let text = self.command(index, &[b"CLUSTER", b"NODES"]).text().unwrap_or_default();
        let index_of = |address| self.servers.iter().position(|s| s.address() == address);
        let nodes = nodes::parse(&text, index_of).map_err(|why| format!("{index} sees: {why}"))?;
        let count = nodes.len();
        if count == self.servers.len() { Ok(nodes) } else { Err(format!("{index} sees {count}")) }
    }

    /// The numbers of the primaries that own slots, asked afresh.
    ///
    /// # Panics
    ///
    /// See [`nodes`](Self::nodes).
    #[must_use]
    pub fn primaries(&self) -> Vec<usize> {
        let nodes = self.nodes().into_iter();
        nodes.filter(|node| !node.slots.is_empty()).map(|node| node.index).collect()
    }

    /// The numbers of the replicas that follow this node, asked afresh.
    ///
    /// # Panics
    ///
    /// See [`nodes`](Self::nodes).
    #[must_use]
    pub fn replicas_of(&self, primary: usize) -> Vec<usize> {
        let nodes = self.nodes().into_iter();
        nodes.filter(|node| node.primary == Some(primary)).map(|node| node.index).collect()
    }

    /// The number of the node that owns the slot, asked afresh; none when nobody does.
    ///
    /// # Panics
    ///
    /// See [`nodes`](Self::nodes).
    #[must_use]
    pub fn owner_of_slot(&self, slot: u16) -> Option<usize> {
        self.nodes().into_iter().find(|node| node.owns(slot)).map(|node| node.index)
    }

    /// The number of the node that owns the key, asked afresh; none when nobody does.
    ///
    /// # Panics
    ///
    /// See [`nodes`](Self::nodes).
    #[must_use]
    pub fn owner_of(&self, key: &[u8]) -> Option<usize> {
        self.owner_of_slot(key_slot(key))
    }

    /// A key in a slot of this node: the prefix and a number.
    ///
    /// # Panics
    ///
    /// The node owns no slot; see also [`nodes`](Self::nodes).
    #[must_use]
    pub fn key_of(&self, owner: usize, prefix: &str) -> String {
        let nodes = self.nodes();
        let mut keys = (0..1_000_000).map(|number| format!("{prefix}{number}"));
        let found = keys.find(|key| nodes[owner].owns(key_slot(key.as_bytes())));
        found.expect("the node owns no slot of such a key")
    }

    /// Kills a server (SIGKILL), and returns when it is gone.
    ///
    /// # Panics
    ///
    /// The number is too large.
    pub fn kill(&mut self, index: usize) {
        self.servers[index].kill();
    }

    /// Stops a server where it is (SIGSTOP), and returns when it has stopped.
    ///
    /// # Panics
    ///
    /// It was killed.
    pub fn freeze(&self, index: usize) {
        self.servers[index].freeze();
    }

    /// Lets a frozen server go on (SIGCONT). It may take itself for a primary until it hears from
    /// the others.
    ///
    /// # Panics
    ///
    /// It was killed.
    pub fn resume(&self, index: usize) {
        self.servers[index].thaw();
    }

    /// Starts a server again on its ports and as the node that it was, without its keys; killed
    /// before if it runs. Returns when it answers, which is before it has joined.
    ///
    /// # Panics
    ///
    /// It does not start.
    pub fn restart(&mut self, index: usize) {
        self.servers[index].restart();
    }

    /// Makes a replica the primary in an orderly way (`CLUSTER FAILOVER`, nothing is lost), and
    /// returns when all servers that are awake know it.
    ///
    /// # Panics
    ///
    /// It is not a replica, its primary is not awake, or the failover does not end.
    pub fn failover(&self, replica: usize) {
        let nodes = self.nodes();
        let primary = nodes[replica].primary.expect("only a replica can take over");
        let slots = &nodes[primary].slots;
        let mut asked: Option<Instant> = None;
        until(PATIENCE, "the replica is the primary", || {
            let seen = self.all_see(|nodes| nodes[replica].slots == *slots);
            if seen.is_err() && asked.is_none_or(|at| at.elapsed() > FAILOVER) {
                asked = Some(Instant::now());
                self.command(replica, &[b"CLUSTER", b"FAILOVER"]).done()?;
            }
            seen
        });
    }

    /// Forgets all keys.
    ///
    /// # Panics
    ///
    /// A primary does not answer.
    pub fn flush_all(&self) {
        for primary in self.primaries() {
            let reply = self.command(primary, &[b"FLUSHALL"]);
            assert_eq!(reply.error_code(), None, "{reply:?}");
        }
    }

    /// How many keys a server holds, as a primary or as a replica.
    ///
    /// # Panics
    ///
    /// It does not answer.
    #[must_use]
    pub fn count_keys(&self, index: usize) -> usize {
        let count = self.command(index, &[b"DBSIZE"]).int().expect("DBSIZE is a number");
        usize::try_from(count).expect("DBSIZE is not negative")
    }

    /// Waits until the cluster is healthy: every server that is awake says `cluster_state:ok`, all
    /// of them see the same owners of all slots, the owners are awake, and each replica follows its
    /// primary with its link up.
    ///
    /// # Panics
    ///
    /// It is not within that time.
    pub fn wait_until_healthy(&self, within: Duration) {
        until(within, "the cluster is healthy", || self.health());
    }

    /// Whether the cluster is healthy; see [`wait_until_healthy`](Self::wait_until_healthy).
    ///
    /// # Errors
    ///
    /// A description of the problem.
    ///
    /// # Panics
    ///
    /// A server that is awake does not answer.
    pub fn health(&self) -> Result<(), String> {
        self.all_see(|nodes| nodes::unowned(nodes) == 0)?;
        let nodes = self.nodes();
        for node in &nodes {
            let (index, is_awake) = (node.index, self.servers[node.index].is_awake());
            if !is_awake && !node.slots.is_empty() {
                return Err(format!("{index} has slots and is not awake"));
            }
            if is_awake {
                self.health_of(node)?;
            }
        }
        Ok(())
    }

    fn health_of(&self, node: &Node) -> Result<(), String> {
        let index = node.index;
        let state = self.cluster_info(index, "cluster_state");
        if state != "ok" {
            return Err(format!("{index} has the state {state}"));
        }
        if node.is_failed {
            return Err(format!("{index} is seen as failed"));
        }
        let replication = self.servers[index].info("replication");
        let says = |name: &str| replication.get(name).map_or("", String::as_str);
        let port = || node.primary.map(|primary| self.servers[primary].port().to_string());
        match node.role {
            Role::Primary if says("role") == "master" => Ok(()),
            Role::Replica
                if says("master_link_status") == "up"
                    && Some(says("master_port")) == port().as_deref() =>
            {
                Ok(())
            }
            Role::Primary | Role::Replica => {
                Err(format!("{index} ({:?}) replicates {replication:?}", node.role))
            }
        }
    }

    /// A line of `CLUSTER INFO`.
    fn cluster_info(&self, index: usize, name: &str) -> String {
        let text = self.command(index, &[b"CLUSTER", b"INFO"]).text().unwrap_or_default();
        let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned()).unwrap_or_default()
    }

    /// Whether all servers that are awake see the same primaries and slots, and `holds` of it.
    fn all_see(&self, holds: impl Fn(&[Node]) -> bool) -> Result<(), String> {
        let mut first: Option<Vec<Node>> = None;
        for index in self.awake() {
            let mut nodes = self.seen_by(index)?;
            // The opinion on failed nodes differs, and matters only for those that are awake.
            nodes.iter_mut().for_each(|node| node.is_failed &= self.servers[node.index].is_awake());
            let failed: Vec<_> = nodes.iter().filter(|n| n.is_failed).map(|n| n.index).collect();
            if !failed.is_empty() {
                return Err(format!("{index} takes {failed:?} for failed"));
            }
            if !holds(&nodes) {
                return Err(format!("{index} sees {nodes:?}"));
            }
            let first = first.get_or_insert_with(|| nodes.clone());
            if *first != nodes {
                return Err(format!("{index} sees {nodes:?}, another {first:?}"));
            }
        }
        Ok(())
    }

    /// The numbers of the servers that are awake.
    fn awake(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.servers.len()).filter(|&index| self.servers[index].is_awake())
    }
}

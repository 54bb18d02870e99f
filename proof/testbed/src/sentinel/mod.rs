//! A primary with replicas and the sentinels that watch them, all of a test's own.

mod options;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::wait::until;
use crate::{Client, RedisServer, Reply};
pub use options::SentinelOptions;

/// How long what sentinels do by themselves may take, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often sentinels ask servers for `INFO` and tell others of themselves, in milliseconds: while
/// they are waited for, and as Redis has it.
const PERIODS: [(&str, u128, u128); 2] =
    [("INFO-PERIOD", 200, 10_000), ("PUBLISH-PERIOD", 200, 2_000)];

/// How often sentinels ping, as Redis has it, in milliseconds.
const PING_MS: u128 = 1_000;

/// A primary, its replicas and the sentinels that watch them, on free ports of 127.0.0.1. All
/// processes are killed when this is dropped.
///
/// Both kinds have numbers from 0. Server 0 is the primary at first, and a number stays a server's
/// own whatever its role becomes.
///
/// Replication begins without the delay of 5 s that Redis has by default, and sentinels ping at
/// least twice in the time after which a server counts as down. By default their first ping to a
/// new primary is sent after that time when it is at most 1 s. So now and then they take it for
/// down immediately and promote yet another one.
///
/// All else is as in Redis: a sentinel whose process was stopped for 2 s does nothing for the next
/// 30 s, and an old primary that comes back is made a replica some 8 s later.
#[derive(Debug)]
pub struct RedisSentinels {
    name: String,
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
    ping_ms: u128,
}

impl RedisSentinels {
    /// The address for clients, which names all sentinels:
    /// `redis+sentinel://127.0.0.1:S1,127.0.0.1:S2,127.0.0.1:S3/NAME`, without a password. With
    /// TLS it is `rediss+sentinel://...`, and the sentinels are asked in plain text.
    #[must_use]
    pub fn url(&self) -> String {
        let addresses: Vec<_> = self.sentinels.iter().map(|s| s.address().to_string()).collect();
        let scheme = if self.servers[0].tls_port().is_some() { "rediss" } else { "redis" };
        format!("{scheme}+sentinel://{}/{}", addresses.join(","), self.name)
    }

    /// The same where the sentinels are asked over TLS too.
    ///
    /// # Panics
    ///
    /// They do not speak it: see [`SentinelOptions::tls`].
    #[must_use]
    pub fn tls_url(&self) -> String {
        let port = |sentinel: &RedisServer| sentinel.tls_port().expect("they speak TLS");
        let addresses: Vec<_> =
            self.sentinels.iter().map(|s| format!("127.0.0.1:{}", port(s))).collect();
        format!("rediss+sentinel://{}/{}?sentinel_tls=yes", addresses.join(","), self.name)
    }

    /// The name of the primary among the sentinels.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A server that holds data, by its number.
    ///
    /// # Panics
    ///
    /// The number is too large.
    #[must_use]
    pub fn server(&self, index: usize) -> &RedisServer {
        &self.servers[index]
    }

    /// The servers that hold data, by their numbers.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// A sentinel, by its number.
    ///
    /// # Panics
    ///
    /// The number is too large.
    #[must_use]
    pub fn sentinel(&self, index: usize) -> &RedisServer {
        &self.sentinels[index]
    }

    /// The sentinels, by their numbers.
    #[must_use]
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// A connection of one's own to a server that holds data.
    ///
    /// # Errors
    ///
    /// It does not run.
    ///
    /// # Panics
    ///
    /// The number is too large.
    pub fn client(&self, index: usize) -> io::Result<Client> {
        self.servers[index].client()
    }

    /// Where the primary is, as the first sentinel that is awake says now
    /// (`SENTINEL get-master-addr-by-name`).
    ///
    /// # Panics
    ///
    /// No sentinel is awake, or it does not answer.
    #[must_use]
    pub fn primary(&self) -> SocketAddr {
        let sentinel = self.awake().next().expect("a sentinel is awake");
        self.named_by(sentinel).unwrap_or_else(|why| panic!("{why}"))
    }

    /// The number of the primary, asked afresh as [`primary`](Self::primary) does.
    ///
    /// # Panics
    ///
    /// See [`primary`](Self::primary).
    #[must_use]
    pub fn primary_index(&self) -> usize {
        let address = self.primary();
        let found = self.servers.iter().position(|server| server.address() == address);
        found.expect("the sentinels name one of the servers")
    }

    /// Kills the primary (SIGKILL), and returns its number when it is gone.
    ///
    /// # Panics
    ///
    /// See [`primary`](Self::primary).
    pub fn kill_primary(&mut self) -> usize {
        let index = self.primary_index();
        self.servers[index].kill();
        index
    }

    /// Stops the primary where it is (SIGSTOP), and returns its number.
    ///
    /// # Panics
    ///
    /// It was killed; see also [`primary`](Self::primary).
    #[must_use]
    pub fn freeze_primary(&self) -> usize {
        let index = self.primary_index();
        self.servers[index].freeze();
        index
    }

    /// Lets a frozen server go on (SIGCONT). It keeps its former role until a sentinel changes it.
    ///
    /// # Panics
    ///
    /// It was killed.
    pub fn resume(&self, index: usize) {
        self.servers[index].thaw();
    }

    /// Kills a server (SIGKILL), and returns when it is gone.
    ///
    /// # Panics
    ///
    /// The number is too large.
    pub fn kill(&mut self, index: usize) {
        self.servers[index].kill();
    }

    /// Starts a server again on its port, without its keys and in its first role: number 0 as a
    /// primary, which it is for some 8 s when the sentinels have another by now.
    ///
    /// # Panics
    ///
    /// It does not start.
    pub fn restart(&mut self, index: usize) {
        self.servers[index].restart();
    }

    /// Has the first sentinel that is awake promote a replica (`SENTINEL FAILOVER`). Returns the
    /// new primary's number when all sentinels that are awake name it and it reports that role
    /// itself.
    ///
    /// # Panics
    ///
    /// No sentinel is awake, or nothing came of it.
    pub fn failover(&self) -> usize {
        let old = self.primary();
        let sentinel = self.awake().next().expect("a sentinel is awake");
        until(PATIENCE, "a failover began", || {
            // It refuses while one is under way, and while it knows of no good replica.
            let name = self.name.as_bytes();
            sentinel.command(&[b"SENTINEL", b"FAILOVER", name]).done()
        });
        self.wait_for_new_primary(old, PATIENCE)
    }

    /// Waits until all sentinels that are awake name the same primary, which is not `old` and says
    /// that it is one, and returns its number.
    ///
    /// # Panics
    ///
    /// It is not so within that time.
    pub fn wait_for_new_primary(&self, old: SocketAddr, within: Duration) -> usize {
        until(within, "another primary is named", || {
            let new = self.agreed()?;
            if self.servers[new].address() == old {
                return Err(format!("{old} is still named"));
            }
            Ok(new)
        })
    }

    /// Kills all sentinels. The servers go on as they are.
    pub fn kill_sentinels(&mut self) {
        self.sentinels.iter_mut().for_each(RedisServer::kill);
    }

    /// Kills one sentinel.
    ///
    /// # Panics
    ///
    /// The number is too large.
    pub fn kill_sentinel(&mut self, index: usize) {
        self.sentinels[index].kill();
    }

    /// Starts all sentinels again, killed before if they run, with their own files. Returns when
    /// they answer.
    ///
    /// # Panics
    ///
    /// One does not start.
    pub fn restart_sentinels(&mut self) {
        for sentinel in &mut self.sentinels {
            sentinel.restart();
        }
        self.ping_often();
    }

    /// Waits until all that are awake are healthy: the sentinels name one primary, which says that
    /// it is one; each other server follows it with its link up; and each sentinel sees all the
    /// other sentinels and all these replicas.
    ///
    /// Meanwhile the sentinels ask servers and tell one another five times a second, in place of
    /// every 10 s and 2 s. When it returns they are as they were.
    ///
    /// # Panics
    ///
    /// It is not so within that time.
    pub fn wait_until_healthy(&self, within: Duration) {
        for (name, hurried_ms, _) in PERIODS {
            self.set_period(name, hurried_ms);
        }
        until(within, "the sentinels are healthy", || self.health());
        for (name, _, usual_ms) in PERIODS {
            self.set_period(name, usual_ms);
        }
    }

    /// Whether all are healthy; see [`wait_until_healthy`](Self::wait_until_healthy).
    ///
    /// # Errors
    ///
    /// A description of the problem.
    ///
    /// # Panics
    ///
    /// Somebody who is awake does not answer.
    pub fn health(&self) -> Result<(), String> {
        let primary = self.agreed()?;
        let address = self.servers[primary].address();
        let awake = self.servers.iter().enumerate();
        let replicas = awake.filter(|(index, server)| *index != primary && server.is_awake());
        let mut ports = Vec::new();
        for (_, replica) in replicas {
            is_replica_of(replica, address)?;
            ports.push(replica.port().to_string());
        }
        ports.sort();
        let others = self.awake().count() - 1;
        for sentinel in self.awake() {
            let (found, seen) = (self.fit(sentinel, b"SENTINELS"), self.fit(sentinel, b"REPLICAS"));
            if found.len() != others || seen != ports {
                let port = sentinel.port();
                return Err(format!("sentinel {port} sees sentinels {found:?}, replicas {seen:?}"));
            }
        }
        Ok(())
    }

    /// The number of the primary that all sentinels name who are awake, if it says that it is one.
    ///
    /// # Errors
    ///
    /// A description of the disagreement.
    ///
    /// # Panics
    ///
    /// Somebody who is awake does not answer.
    pub fn agreed(&self) -> Result<usize, String> {
        let named: Result<Vec<_>, String> = self.awake().map(|s| self.named_by(s)).collect();
        let named = named?;
        let first = *named.first().ok_or("no sentinel is awake")?;
        if named.iter().any(|address| *address != first) {
            return Err(format!("the sentinels name {named:?}"));
        }
        let index = self.servers.iter().position(|server| server.address() == first);
        let index = index.ok_or_else(|| format!("{first} is nobody"))?;
        if !self.servers[index].is_awake() {
            return Err(format!("{first} is named and not awake"));
        }
        match self.servers[index].info("replication").get("role").map(String::as_str) {
            Some("master") => Ok(index),
            other => Err(format!("{first} is named, and says that it is {other:?}")),
        }
    }

    fn named_by(&self, sentinel: &RedisServer) -> Result<SocketAddr, String> {
        let words: [&[u8]; 3] = [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", self.name.as_bytes()];
        let reply = sentinel.command(&words);
        let texts: Vec<_> = reply.items().iter().filter_map(Reply::text).collect();
        texts.join(":").parse().map_err(|_| format!("a sentinel names {reply:?}"))
    }

    /// The ports of those whom the sentinel sees and finds nothing amiss with, sorted.
    fn fit(&self, sentinel: &RedisServer, whom: &[u8]) -> Vec<String> {
        let reply = sentinel.command(&[b"SENTINEL", whom, self.name.as_bytes()]);
        let field = |entry: &Reply, name: &str| {
            let mut pairs = entry.items().chunks_exact(2);
            let found = pairs.find(|pair| pair[0].text().as_deref() == Some(name));
            found.and_then(|pair| pair[1].text()).unwrap_or_default()
        };
        let is_fit = |entry: &&Reply| {
            let flags = field(entry, "flags");
            // Only replicas have a link.
            let link = field(entry, "master-link-status");
            ["slave", "sentinel"].contains(&flags.as_str()) && ["ok", ""].contains(&link.as_str())
        };
        let fit = reply.items().iter().filter(is_fit);
        let mut ports: Vec<_> = fit.map(|entry| field(entry, "port")).collect();
        ports.sort();
        ports
    }

    /// Makes sentinels ping as often as this type says; they forget it when they end.
    fn ping_often(&self) {
        self.set_period("PING-PERIOD", self.ping_ms);
    }

    /// Sets a period of the sentinels that are awake. Those that do not know how keep theirs.
    fn set_period(&self, name: &str, period_ms: u128) {
        let value = period_ms.to_string();
        for sentinel in self.awake() {
            let words: [&[u8]; 4] = [b"SENTINEL", b"DEBUG", name.as_bytes(), value.as_bytes()];
            let _ = sentinel.command(&words);
        }
    }

    fn awake(&self) -> impl Iterator<Item = &RedisServer> {
        self.sentinels.iter().filter(|sentinel| sentinel.is_awake())
    }
}

/// Whether it follows that primary with its link up.
fn is_replica_of(server: &RedisServer, primary: SocketAddr) -> Result<(), String> {
    let info = server.info("replication");
    let says = |name: &str, value: &str| info.get(name).is_some_and(|text| text == value);
    let port = primary.port().to_string();
    if says("role", "slave") && says("master_port", &port) && says("master_link_status", "up") {
        return Ok(());
    }
    Err(format!("{} replicates {info:?}", server.address()))
}

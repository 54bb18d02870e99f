//! The servers of a run: one alone, some under sentinels, or a cluster.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_redis::Options;
use tollgate_testbed::{
    ClusterOptions, Launch, Proxy, RedisCluster, RedisSentinels, RedisServer, Reply,
    SentinelOptions,
};

/// Where clients reach servers. Servers reach one another at 127.0.0.1, so that either way can be
/// cut without the other.
pub const FOR_CLIENTS: &str = "127.0.0.3";

/// How long a server may be silent until it is replaced: longer than a brief freeze, even on a busy
/// machine.
const SILENT: Duration = Duration::from_millis(1_500);

/// How servers are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "a run has one of them")]
pub enum Topology {
    /// One server.
    Standalone,
    /// A primary, two replicas and three sentinels.
    Sentinel,
    /// Three primaries with a replica each.
    Cluster,
}

impl Topology {
    /// All.
    pub const ALL: [Self; 3] = [Self::Standalone, Self::Sentinel, Self::Cluster];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self);
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Standalone => "one server",
            Self::Sentinel => "sentinels",
            Self::Cluster => "cluster",
        })
    }
}

/// How the servers of a run are started.
#[derive(Clone, Debug, Default)]
pub struct Ground {
    program: Option<PathBuf>,
    arguments: &'static [&'static str],
    is_proxied: bool,
    variables: Vec<(String, String)>,
}

impl Ground {
    /// Servers of this program; of [`tollgate_testbed::redis_program`] when there is none.
    #[must_use]
    pub fn new(program: Option<PathBuf>) -> Self {
        Self { program, ..Self::default() }
    }

    /// More arguments for the servers that hold data.
    #[must_use]
    pub fn arguments(self, arguments: &'static [&'static str]) -> Self {
        Self { arguments, ..self }
    }

    /// Clients reach each server through a proxy.
    #[must_use]
    pub fn proxied(self, is_proxied: bool) -> Self {
        Self { is_proxied, ..self }
    }

    /// A variable of the environment of all servers.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn launch(&self) -> Launch {
        let mut launch = Launch::new();
        if let Some(program) = &self.program {
            launch = launch.program(program);
        }
        // A firewall tells the servers apart by their users.
        if rustix::process::geteuid().is_root() {
            launch = launch.as_own_user();
        }
        self.variables.iter().fold(launch, |launch, (name, value)| launch.variable(name, value))
    }
}

#[derive(Debug)]
enum Servers {
    One(RedisServer),
    Sentinels(RedisSentinels),
    Cluster(RedisCluster),
}

/// The servers of a run. They end with it.
#[derive(Debug)]
pub struct World {
    servers: Servers,
    proxies: Vec<Proxy>,
}

impl World {
    /// Starts them, and returns when they are well.
    ///
    /// # Panics
    ///
    /// No server is installed, or they do not come up.
    #[must_use]
    pub fn start(topology: Topology, ground: &Ground) -> Self {
        let mut arguments = vec!["--bind", "127.0.0.1", FOR_CLIENTS];
        arguments.extend(ground.arguments);
        let launch = ground.launch();
        let servers = match topology {
            Topology::Standalone => Servers::One(RedisServer::launched(&launch, &arguments)),
            Topology::Sentinel => Servers::Sentinels(
                SentinelOptions::new()
                    .down_after(SILENT)
                    .failover_timeout(SILENT * 3)
                    .arguments(&arguments)
                    .launch(launch)
                    .start(),
            ),
            Topology::Cluster => Servers::Cluster(
                ClusterOptions::new()
                    .node_timeout(SILENT)
                    // Slots that have their owner are served whatever becomes of the others.
                    .full_coverage(false)
                    .arguments(&arguments)
                    .launch(launch)
                    .start(),
            ),
        };
        let mut world = Self { servers, proxies: Vec::new() };
        if ground.is_proxied {
            world.proxies = world.servers().iter().map(|it| Proxy::start(it.address())).collect();
        }
        world
    }

    /// Which topology it is.
    #[must_use]
    pub fn topology(&self) -> Topology {
        match &self.servers {
            Servers::One(_) => Topology::Standalone,
            Servers::Sentinels(_) => Topology::Sentinel,
            Servers::Cluster(_) => Topology::Cluster,
        }
    }

    /// The servers that hold data, by their numbers.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer] {
        match &self.servers {
            Servers::One(server) => std::slice::from_ref(server),
            Servers::Sentinels(all) => all.servers(),
            Servers::Cluster(all) => all.servers(),
        }
    }

    /// A server that holds data.
    ///
    /// # Panics
    ///
    /// The number is too large.
    #[must_use]
    pub fn server(&self, index: usize) -> &RedisServer {
        &self.servers()[index]
    }

    /// The proxies before the servers, in their order, if there are any.
    #[must_use]
    pub fn proxies(&self) -> &[Proxy] {
        &self.proxies
    }

    /// The cluster, if it is one.
    #[must_use]
    pub fn cluster(&self) -> Option<&RedisCluster> {
        match &self.servers {
            Servers::Cluster(all) => Some(all),
            _ => None,
        }
    }

    /// The servers under sentinels, if they are.
    pub fn sentinels(&mut self) -> Option<&mut RedisSentinels> {
        match &mut self.servers {
            Servers::Sentinels(all) => Some(all),
            _ => None,
        }
    }

    /// How a client connects.
    #[must_use]
    pub fn options(&self) -> Options {
        let reach = |index: usize, address: SocketAddr| match self.proxies.get(index) {
            Some(proxy) => (proxy.address().ip().to_string(), proxy.address().port()),
            None => (FOR_CLIENTS.to_owned(), address.port()),
        };
        let servers = || self.servers().iter().map(RedisServer::address).enumerate();
        let reached = servers().map(|(index, address)| reach(index, address));
        let options = match &self.servers {
            Servers::One(server) => {
                let (host, port) = reach(0, server.address());
                return Options::tcp(host, port);
            }
            Servers::Sentinels(all) => {
                let sentinels = all.sentinels().iter().map(|it| ("127.0.0.1", it.port()));
                Options::sentinel(all.name(), sentinels)
            }
            Servers::Cluster(_) => Options::cluster(reached),
        };
        servers().fold(options, |options, (index, address)| {
            options.reach((address.ip().to_string(), address.port()), reach(index, address))
        })
    }

    /// The servers that may be hit: those that take writes now.
    #[must_use]
    pub fn primaries(&self) -> Vec<usize> {
        match &self.servers {
            Servers::One(_) => vec![0],
            Servers::Sentinels(all) => vec![all.primary_index()],
            Servers::Cluster(all) => all.primaries(),
        }
    }

    /// Kills a server (SIGKILL), and returns when it is gone.
    pub fn kill(&mut self, index: usize) {
        match &mut self.servers {
            Servers::One(server) => server.kill(),
            Servers::Sentinels(all) => all.kill(index),
            Servers::Cluster(all) => all.kill(index),
        }
    }

    /// Starts a server again on its port, without its keys.
    pub fn restart(&mut self, index: usize) {
        match &mut self.servers {
            Servers::One(server) => server.restart(),
            Servers::Sentinels(all) => {
                let was_primary = all.primary_index() == index;
                all.restart(index);
                if was_primary {
                    // Sentinels have this written into its configuration, which it has not here.
                    all.server(index).command(&[b"REPLICAOF", b"NO", b"ONE"]);
                }
            }
            Servers::Cluster(all) => all.restart(index),
        }
    }

    /// Whether somebody else has taken the place of a primary: the sentinels name another, or the
    /// rest of the cluster sees it without slots.
    #[must_use]
    pub fn is_replaced(&self, index: usize) -> bool {
        match &self.servers {
            Servers::One(_) => true,
            Servers::Sentinels(all) => all.primary_index() != index,
            Servers::Cluster(all) => {
                let others = (0..all.servers().len())
                    .filter(|&other| other != index && all.servers()[other].is_awake());
                others.map(|other| all.seen_by(other)).all(|seen| {
                    seen.is_ok_and(|nodes| {
                        nodes.iter().all(|it| it.index != index || it.slots.is_empty())
                    })
                })
            }
        }
    }

    /// Whether all servers are well, replicas among them.
    ///
    /// # Errors
    ///
    /// A description of the problem.
    pub fn health(&self) -> Result<(), String> {
        match &self.servers {
            Servers::One(_) => Ok(()),
            Servers::Sentinels(all) => all.health(),
            Servers::Cluster(all) => all.health(),
        }
    }

    /// Whether clients can be served: there is a primary for everything, and all who are awake
    /// agree on it.
    ///
    /// # Errors
    ///
    /// A description of the problem.
    pub fn is_serving(&self) -> Result<(), String> {
        match &self.servers {
            Servers::One(server) => answers(server),
            Servers::Sentinels(all) => all.agreed().map(drop),
            Servers::Cluster(all) => {
                for server in all.servers().iter().filter(|it| it.is_awake()) {
                    let info = server.command(&[b"CLUSTER", b"INFO"]).text().unwrap_or_default();
                    if !info.contains("cluster_state:ok")
                        || !info.contains("cluster_slots_ok:16384")
                    {
                        return Err(format!("{} says {info}", server.address()));
                    }
                }
                for index in all.primaries() {
                    answers(&all.servers()[index])?;
                }
                Ok(())
            }
        }
    }
}

/// Whether a server takes writes as a primary.
fn answers(server: &RedisServer) -> Result<(), String> {
    if !server.is_awake() {
        return Err(format!("{} is not awake", server.address()));
    }
    let role = server.command(&[b"ROLE"]);
    match role.items().first().and_then(Reply::text).as_deref() {
        Some("master") => Ok(()),
        _ => Err(format!("{} says {role:?}", server.address())),
    }
}

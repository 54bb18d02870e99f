//! Finds the node of a call: the one server, the primary that sentinels name, or the node of a
//! cluster that owns the slot of its keys.
//!
//! Nothing that may have run is sent again. A call that surely did not run goes to another node, or
//! to the same once more, within its deadline: after a redirect (MOVED, ASK), after TRYAGAIN, and
//! where there was no connection to send it by.

mod cluster;
mod elsewhere;
mod key_slot;
mod sentinel;
mod single_flight;
mod topology;

use core::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::try_join_all;
use redis::Value;
use tokio::sync::Notify;
use tollgate::StoreError;

use self::cluster::Cluster;
use self::sentinel::Primary;
use crate::fault::Fault;
use crate::node::{BatchScript, BreakerState, Call, CommandConnection, Connector, Deadline, Node};
use crate::options::{Options, Target};
use crate::script::Script;

pub(crate) use self::key_slot::key_slot;
pub use self::topology::{Takeover, Topology};

/// A client of what [`Options`] name. Cheap to clone: clones share the connections.
#[derive(Clone)]
pub(crate) struct Client(Arc<Shared>);

struct Shared {
    options: Options,
    /// Empty until it has connected for the first time.
    servers: OnceLock<Servers>,
    /// Why it has not.
    failed: Mutex<Option<Fault>>,
    connected: Notify,
    /// The longest time that callers wait for a reply, in microseconds.
    longest_wait_us: AtomicU64,
}

enum Servers {
    Server(Node),
    Sentinel(Primary),
    Cluster(Cluster),
}

impl Servers {
    /// Connects: to the server, to the primary, or to the nodes of the cluster.
    async fn connect(options: Options) -> Result<Self, Fault> {
        Ok(match &options.target {
            Target::Server(_) => {
                let node = Node::new(Connector::new(options)?);
                node.fill().await?;
                Self::Server(node)
            }
            Target::Sentinel(sentinels) => {
                let sentinels = sentinels.clone();
                Self::Sentinel(Primary::connect(options, sentinels).await?)
            }
            Target::Cluster { seeds, tls } => {
                let (seeds, tls) = (seeds.clone(), *tls);
                Self::Cluster(Cluster::connect(options, &seeds, tls).await?)
            }
        })
    }

    fn will_wait(&self, longest: Duration) {
        match self {
            Self::Server(node) => node.will_wait(longest),
            Self::Sentinel(primary) => primary.will_wait(longest),
            Self::Cluster(cluster) => cluster.will_wait(longest),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.0.options).finish()
    }
}

impl Client {
    /// A client that refuses all calls until [`Client::try_connect`] has succeeded once.
    pub(crate) fn unconnected(options: Options) -> Self {
        Self(Arc::new(Shared {
            options,
            servers: OnceLock::new(),
            failed: Mutex::new(None),
            connected: Notify::new(),
            longest_wait_us: AtomicU64::new(0),
        }))
    }

    /// Connects, unless it has connected before: then connections are made again by themselves.
    pub(crate) async fn try_connect(&self) -> Result<(), Fault> {
        let shared = &self.0;
        if self.is_connected() {
            return Ok(());
        }
        let connecting = Box::pin(Servers::connect(shared.options.clone())).await;
        let servers = connecting.inspect_err(|fault| {
            *shared.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault.clone());
        })?;
        // Another attempt may have been faster.
        let _ = shared.servers.set(servers);
        let longest = shared.longest_wait_us.load(Ordering::SeqCst);
        if let Some(servers) = shared.servers.get() {
            servers.will_wait(Duration::from_micros(longest));
        }
        shared.connected.notify_waiters();
        Ok(())
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.0.servers.get().is_some()
    }

    /// Waits until it has connected for the first time.
    pub(crate) async fn connected(&self) {
        let mut connected = pin!(self.0.connected.notified());
        // From here on none is missed.
        connected.as_mut().enable();
        if !self.is_connected() {
            connected.await;
        }
    }

    /// The servers, or the fault of a call before the first connection.
    fn servers(&self) -> Result<&Servers, Fault> {
        self.0.servers.get().ok_or_else(|| self.0.not_connected())
    }

    /// Whether keys lie in slots, so that a call may have keys of one slot only.
    pub(crate) fn is_cluster(&self) -> bool {
        self.0.options.is_cluster()
    }

    /// Every node that stores keys now; none before the first connection.
    pub(crate) fn nodes(&self) -> Vec<Node> {
        match self.0.servers.get() {
            None => Vec::new(),
            Some(Servers::Server(node)) => vec![node.clone()],
            Some(Servers::Sentinel(primary)) => vec![primary.node()],
            Some(Servers::Cluster(cluster)) => cluster.nodes(),
        }
    }

    /// The connector to a node that publishes messages.
    pub(crate) fn publisher(&self) -> Option<Arc<Connector>> {
        self.nodes().first().map(|node| Arc::clone(node.connector()))
    }

    /// Callers will wait up to `longest` for a reply. A server may take as long, unless the
    /// options set its time limit.
    pub(crate) fn will_wait(&self, longest: Duration) {
        let us = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        self.0.longest_wait_us.fetch_max(us, Ordering::SeqCst);
        if let Some(servers) = self.0.servers.get() {
            servers.will_wait(longest);
        }
    }

    /// The number of scripts loaded so far, into the present nodes.
    pub(crate) fn loads(&self) -> u64 {
        self.nodes().iter().map(Node::loads).sum()
    }

    /// Asks sentinels or a cluster where the keys are. None for one server.
    ///
    /// # Errors
    /// No node of the cluster tells, or there was no connection yet.
    pub(crate) async fn topology(&self) -> Result<Option<Topology>, Fault> {
        match self.servers()? {
            Servers::Server(_) => Ok(None),
            Servers::Sentinel(primary) => Ok(Some(primary.topology().await)),
            Servers::Cluster(cluster) => cluster.topology().await.map(Some),
        }
    }

    /// The state of the circuit breaker; of several nodes, the worst. It is open before the first
    /// connection, since no call is sent then either.
    pub(crate) fn breaker(&self) -> BreakerState {
        if !self.is_connected() {
            return BreakerState::Open;
        }
        let severity = |state: &BreakerState| match state {
            BreakerState::Closed => 0,
            BreakerState::HalfOpen => 1,
            BreakerState::Open => 2,
        };
        let states = self.nodes().into_iter().map(|node| node.breaker());
        states.max_by_key(severity).unwrap_or(BreakerState::Closed)
    }

    /// Calls a script and returns its reply without the nonce.
    ///
    /// It returns by the deadline. When the future is dropped, the script may still run.
    ///
    /// # Errors
    /// The error's source is the [`Fault`]; [`StoreError::is_ambiguous`] when the script may have
    /// run.
    #[expect(clippy::manual_async_fn, reason = "that of an `async fn` keeps the call twice")]
    pub(crate) fn call<'call>(
        &'call self,
        mut call: Call<'call>,
        by: Deadline,
    ) -> impl Future<Output = Result<Vec<Value>, StoreError>> + Send + 'call {
        async move {
            // Not within the `match`: the future would keep room for its fault.
            let servers = self.servers()?;
            Ok(match servers {
                Servers::Server(node) => node.call(&mut call, by).await.map_err(Fault::from)?,
                Servers::Sentinel(primary) => Box::pin(primary.call(&mut call, by)).await?,
                Servers::Cluster(cluster) => Box::pin(cluster.call(&mut call, by)).await?,
            })
        }
    }

    /// Loads a script into every node, so that its first call need not.
    ///
    /// # Errors
    /// As [`Client::call`]; nothing is charged.
    pub(crate) async fn load(&self, script: &Script, deadline: Duration) -> Result<(), StoreError> {
        self.servers()?;
        let nodes = self.nodes();
        try_join_all(nodes.iter().map(|node| node.load(script, deadline))).await?;
        Ok(())
    }

    /// Loads a batch script and tries it on these keys, so that calls are batched from the first.
    /// On a cluster keys of one slot are always allowed, so there is nothing to try.
    ///
    /// # Errors
    /// As [`Client::call`]; nothing is charged.
    pub(crate) async fn load_batch(
        &self,
        batch: &BatchScript,
        keys: &[String],
        deadline: Duration,
    ) -> Result<(), StoreError> {
        self.servers()?;
        let keys = (!self.is_cluster()).then_some(keys);
        let nodes = self.nodes();
        try_join_all(nodes.iter().map(|node| node.load_batch(batch, keys, deadline))).await?;
        Ok(())
    }
}

impl Shared {
    /// The fault of a call before the first connection.
    fn not_connected(&self) -> Fault {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let why = failed.as_ref().map_or("it is being connected to".to_owned(), Fault::to_string);
        Fault::NotConnected { why }
    }
}

/// A connection for a few commands to one server: the one of `options`, or the primary that
/// sentinels name.
///
/// # Errors
/// As [`CommandConnection::open`]; [`Fault::NotOneServer`] for a cluster.
pub(crate) async fn open_one(options: Options) -> Result<CommandConnection, Fault> {
    let Target::Sentinel(sentinels) = &options.target else {
        return CommandConnection::open(options).await;
    };
    let target = Target::Server(sentinel::primary_now(&options, sentinels).await?);
    CommandConnection::open(Options { target, ..options }).await
}

/// The options of the one server that has this key now: the one of `options`, the primary that
/// sentinels name, or the owner of the key's slot.
///
/// # Errors
/// Sentinels or a cluster cannot be reached, or name no server.
pub(crate) async fn owner_of(options: Options, key: &str) -> Result<Options, Fault> {
    let address = match &options.target {
        Target::Server(_) => return Ok(options),
        Target::Sentinel(sentinels) => sentinel::primary_now(&options, sentinels).await?,
        Target::Cluster { seeds, tls } => cluster::owner_now(&options, (seeds, *tls), key).await?,
    };
    Ok(Options { target: Target::Server(address), ..options })
}

/// Connections for a few commands to every server that stores keys now: the one of `options`, the
/// primary that sentinels name, or all primaries of a cluster.
///
/// # Errors
/// As [`CommandConnection::open`], of any of them.
pub(crate) async fn open_each(options: Options) -> Result<Vec<CommandConnection>, Fault> {
    let Target::Cluster { seeds, tls } = &options.target else {
        return Ok(vec![open_one(options).await?]);
    };
    let addresses = cluster::primaries_now(&options, seeds, *tls).await?;
    let each = addresses.into_iter().map(|address| {
        CommandConnection::open(Options { target: Target::Server(address), ..options.clone() })
    });
    try_join_all(each).await
}

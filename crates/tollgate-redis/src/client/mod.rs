//! Finds the node of a call: the one server, the primary that sentinels name, or the node of a
//! cluster that owns the slot of its keys.
//!
//! Nothing that may have run is sent again. A call that surely did not run goes to another node, or
//! to the same once more, within its deadline: after a redirect (MOVED, ASK), after TRYAGAIN, and
//! where there was no connection to send it by.

mod cluster;
mod key_slot;
mod sentinel;
mod single_flight;

use core::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use redis::Value;
use tollgate::StoreError;

use self::cluster::Cluster;
use self::sentinel::Primary;
use crate::fault::Fault;
use crate::node::{BatchScript, BreakerState, Call, CommandConnection, Connector, Deadline, Node};
use crate::options::{Options, Target};
use crate::script::Script;

pub(crate) use self::key_slot::key_slot;

/// A client of what [`Options`] name. Cheap to clone: clones share the connections.
#[derive(Clone)]
pub(crate) struct Client(Arc<Topology>);

enum Topology {
    Server(Node),
    Sentinel(Primary),
    Cluster(Cluster),
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(self.options()).finish()
    }
}

impl Client {
    /// Connects: to the server, to the primary, or to the nodes of the cluster.
    pub(crate) async fn connect(options: Options) -> Result<Self, StoreError> {
        let topology = match &options.target {
            Target::Server(_) => {
                let node = Node::new(Connector::new(options)?);
                node.fill().await?;
                Topology::Server(node)
            }
            Target::Sentinel(sentinels) => {
                let sentinels = sentinels.clone();
                Topology::Sentinel(Primary::connect(options, sentinels).await?)
            }
            Target::Cluster { seeds, tls } => {
                let (seeds, tls) = (seeds.clone(), *tls);
                Topology::Cluster(Cluster::connect(options, &seeds, tls).await?)
            }
        };
        Ok(Self(Arc::new(topology)))
    }

    fn options(&self) -> &Options {
        match &*self.0 {
            Topology::Server(node) => &node.connector().options,
            Topology::Sentinel(primary) => primary.options(),
            Topology::Cluster(cluster) => cluster.options(),
        }
    }

    /// Whether keys lie in slots, so that a call may have keys of one slot only.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(&*self.0, Topology::Cluster(_))
    }

    /// Every node that stores keys now.
    pub(crate) fn nodes(&self) -> Vec<Node> {
        match &*self.0 {
            Topology::Server(node) => vec![node.clone()],
            Topology::Sentinel(primary) => vec![primary.node()],
            Topology::Cluster(cluster) => cluster.nodes(),
        }
    }

    /// What makes connections to a node that publishes messages.
    pub(crate) fn publisher(&self) -> Option<Arc<Connector>> {
        self.nodes().first().map(|node| Arc::clone(node.connector()))
    }

    /// Callers will wait up to `longest` for a reply. A server may take as long, unless the
    /// options set its time limit.
    pub(crate) fn will_wait(&self, longest: Duration) {
        match &*self.0 {
            Topology::Server(node) => node.will_wait(longest),
            Topology::Sentinel(primary) => primary.will_wait(longest),
            Topology::Cluster(cluster) => cluster.will_wait(longest),
        }
    }

    /// The number of scripts loaded so far, into the present nodes.
    pub(crate) fn loads(&self) -> u64 {
        self.nodes().iter().map(Node::loads).sum()
    }

    /// The state of the circuit breaker; of several nodes, the worst.
    pub(crate) fn breaker(&self) -> BreakerState {
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
    pub(crate) async fn call(
        &self,
        mut call: Call<'_>,
        deadline: Duration,
    ) -> Result<Vec<Value>, StoreError> {
        let by = Deadline::within(deadline);
        Ok(match &*self.0 {
            Topology::Server(node) => node.call(&mut call, by).await.map_err(Fault::from)?,
            Topology::Sentinel(primary) => Box::pin(primary.call(&mut call, by)).await?,
            Topology::Cluster(cluster) => Box::pin(cluster.call(&mut call, by)).await?,
        })
    }

    /// Loads a script into every node, so that its first call need not.
    ///
    /// # Errors
    /// As [`Client::call`]; nothing is charged.
    pub(crate) async fn load(&self, script: &Script, deadline: Duration) -> Result<(), StoreError> {
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
        let keys = (!self.is_cluster()).then_some(keys);
        let nodes = self.nodes();
        try_join_all(nodes.iter().map(|node| node.load_batch(batch, keys, deadline))).await?;
        Ok(())
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

/// Whether the fault came before anything was sent, so that another node may be asked.
fn is_unsent(fault: &Fault) -> bool {
    matches!(fault, Fault::Unreachable { .. } | Fault::Breaker { .. } | Fault::NotPrimary)
}

/// Whether another node may answer by now, after a fault that is no reason to ask it this time.
fn may_be_elsewhere(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Closed { .. }
            | Fault::Deadline { .. }
            | Fault::ClusterDown
            | Fault::ReadOnly
            | Fault::MasterDown
            | Fault::Loading
    )
}

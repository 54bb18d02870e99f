//! Finds a cluster by some of its nodes, and refuses what would not work.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, RwLock};

use futures_util::future::join_all;

use super::map::View;
use super::{Cluster, Shared, SlotMap, view};
use crate::client::key_slot;
use crate::client::single_flight::SingleFlight;
use crate::fault::Fault;
use crate::node::Connector;
use crate::options::{Address, Endpoint, Options};
use crate::slots::SLOTS;

impl Cluster {
    /// Asks all of `seeds`, and connects to the primaries that they name.
    pub(in crate::client) async fn connect(
        options: Options,
        seeds: &[Endpoint],
        tls: bool,
    ) -> Result<Self, Fault> {
        let connector = connector(options, seeds, tls)?;
        let view = seen_by_all(&connector, seeds).await?;
        let shared = Arc::new(Shared {
            connector,
            seeds: seeds.to_vec(),
            map: RwLock::new(Arc::new(SlotMap { nodes: Vec::new(), owners: Box::default() })),
            nodes: Mutex::new(HashMap::new()),
            count: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            longest_wait_us: AtomicU64::new(0),
            refreshes: Arc::new(SingleFlight::new()),
        });
        shared.adopt(&view);
        connect_to_all(&shared, &view).await?;
        Ok(Self(shared))
    }
}

/// The primaries of the cluster to which `seeds` belong, now.
pub(in crate::client) async fn primaries_now(
    options: &Options,
    seeds: &[Endpoint],
    tls: bool,
) -> Result<Vec<Address>, Fault> {
    let view = seen_by_all(&connector(options.clone(), seeds, tls)?, seeds).await?;
    let reached = view.primaries.into_iter().map(|announced| reached(options, announced, tls));
    Ok(reached.collect())
}

/// The primary that has the slot of this key, now.
pub(in crate::client) async fn owner_now(
    options: &Options,
    (seeds, tls): (&[Endpoint], bool),
    key: &str,
) -> Result<Address, Fault> {
    let view = seen_by_all(&connector(options.clone(), seeds, tls)?, seeds).await?;
    let place = view.owners.get(usize::from(key_slot(key.as_bytes())));
    let owner = place.and_then(|place| view.primaries.get(usize::from(*place)).cloned());
    // The view covers all slots.
    let owner = owner.ok_or_else(|| Fault::NotACluster { address: options.to_string() })?;
    Ok(reached(options, owner, tls))
}

/// The address at which a primary is reached.
fn reached(options: &Options, announced: Endpoint, tls: bool) -> Address {
    let Endpoint { host, port } = options.reachable(announced);
    Address::Tcp { host, port, tls }
}

/// Makes the connectors of all nodes.
fn connector(options: Options, seeds: &[Endpoint], tls: bool) -> Result<Connector, Fault> {
    let Some(Endpoint { host, port }) = seeds.first().cloned() else {
        return Err(Fault::NotACluster { address: options.to_string() });
    };
    Connector::to(Address::Tcp { host, port, tls }, options)
}

/// The view of all `seeds` of the slots.
async fn seen_by_all(connector: &Connector, seeds: &[Endpoint]) -> Result<View, Fault> {
    let within = connector.options.connect_timeout;
    let views = join_all(seeds.iter().map(|seed| view(connector, seed, within))).await;
    one_cluster(seeds, views)
}

/// The view with most slots, if all views are of one cluster and it covers all slots.
fn one_cluster(seeds: &[Endpoint], views: Vec<Result<View, Fault>>) -> Result<View, Fault> {
    let mut best: Option<(&Endpoint, View)> = None;
    let mut failed = None;
    for (seed, view) in seeds.iter().zip(views) {
        match (view, &best) {
            (Ok(view), None) => best = Some((seed, view)),
            (Ok(view), Some((other, known))) => {
                // A node that was never part of a cluster knows no other, and no slots.
                if view.covered() > 0 && known.covered() > 0 && known.ids.is_disjoint(&view.ids) {
                    let (one, other) = (other.to_string(), seed.to_string());
                    return Err(Fault::TwoClusters { one, other });
                }
                if view.covered() > known.covered() {
                    best = Some((seed, view));
                }
            }
            // Some nodes may be away. A fault that does not pass by itself is worse.
            (Err(fault), _) if !fault.is_transient() => return Err(fault),
            (Err(fault), _) => failed = failed.or(Some(fault)),
        }
    }
    let Some((seed, view)) = best else {
        let address = crate::options::list(seeds);
        return Err(failed.unwrap_or(Fault::NotACluster { address }));
    };
    let covered = view.covered();
    if covered < usize::from(SLOTS) {
        return Err(Fault::NotCovered { address: seed.to_string(), covered });
    }
    Ok(view)
}

/// Connects to every primary. One may be away, for the cluster may be about to replace it; but a
/// fault that does not pass by itself, or no connection at all, is an error.
async fn connect_to_all(shared: &Arc<Shared>, view: &View) -> Result<(), Fault> {
    let map = shared.map();
    let connected = join_all(map.nodes.iter().map(super::Node::fill)).await;
    let mut away = None;
    let mut reached = 0;
    for (result, announced) in connected.into_iter().zip(&view.primaries) {
        match result {
            Ok(()) => reached += 1,
            Err(Fault::Unreachable { why, .. }) => {
                let address = announced.to_string();
                away = Some(Fault::Announced { address, why });
            }
            Err(fault) if !fault.is_transient() => return Err(fault),
            Err(fault) => away = Some(fault),
        }
    }
    match away {
        Some(fault) if reached == 0 => Err(fault),
        _ => Ok(()),
    }
}

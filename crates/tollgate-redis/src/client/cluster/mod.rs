//! The nodes of a Redis Cluster, and which of them owns a slot.

mod connect;
mod map;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;
use tokio::time::{Instant, sleep_until};

pub(super) use self::connect::{owner_now, primaries_now};
use self::map::View;
use super::elsewhere::{is_unsent, may_be_elsewhere};
use super::key_slot::key_slot;
use super::single_flight::SingleFlight;
use super::topology::Topology;
use crate::fault::{ChargeState, Fault};
use crate::node::{Call, Connector, Deadline, Node, NotAnswered, Redirect, refused};
use crate::options::{Address, Endpoint};
use crate::script::Script;
use crate::slots::SLOTS;

/// The most redirects that a call follows.
const MAX_REDIRECTS: usize = 5;

/// How long a call waits after TRYAGAIN, and before it follows a second redirect: another node
/// needs that long to finish its part of a move.
const MOVING_PAUSE: Duration = Duration::from_millis(3);

/// How long one node may take to say who owns the slots.
const VIEW_TIMEOUT: Duration = Duration::from_millis(500);

/// A cluster. Cheap to clone.
#[derive(Clone)]
pub(super) struct Cluster(Arc<Shared>);

struct Shared {
    /// Makes the connectors of all nodes.
    connector: Connector,
    seeds: Vec<Endpoint>,
    map: RwLock<Arc<SlotMap>>,
    /// The nodes by where they are reached: the present primaries, and those of redirects.
    nodes: Mutex<HashMap<Endpoint, Node>>,
    /// The number of nodes so far.
    count: AtomicUsize,
    /// The node that is asked first at the next refresh.
    turn: AtomicUsize,
    /// The longest time that callers wait for a reply, in microseconds.
    longest_wait_us: AtomicU64,
    refreshes: Arc<SingleFlight>,
}

/// The owner of each slot.
struct SlotMap {
    nodes: Vec<Node>,
    /// A place in `nodes`, or none.
    owners: Box<[u16]>,
}

impl SlotMap {
    fn owner(&self, slot: u16) -> Option<&Node> {
        self.nodes.get(usize::from(*self.owners.get(usize::from(slot))?))
    }
}

impl Cluster {
    /// The present primaries.
    pub(super) fn nodes(&self) -> Vec<Node> {
        self.0.map().nodes.clone()
    }

    /// Asks the nodes in turn until one tells who owns the slots.
    pub(super) async fn topology(&self) -> Result<Topology, Fault> {
        let shared = &self.0;
        let mut fault = Fault::ClusterDown;
        for endpoint in shared.all() {
            match seen_by(&shared.connector, &endpoint, VIEW_TIMEOUT).await {
                Ok(topology) => return Ok(topology),
                Err(why) => fault = why,
            }
        }
        Err(fault)
    }

    pub(super) fn will_wait(&self, longest: Duration) {
        let us = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        self.0.longest_wait_us.fetch_max(us, Ordering::Relaxed);
        for node in self.0.nodes().values() {
            node.will_wait(longest);
        }
    }

    /// Calls a script on the node that owns the slot of its keys.
    pub(super) async fn call(
        &self,
        call: &mut Call<'_>,
        by: Deadline,
    ) -> Result<Vec<Value>, Fault> {
        let shared = &self.0;
        let slot = slot_of(call)?;
        call.set_slot(slot);
        if shared.refreshes.is_old(by.from) {
            shared.refresh();
        }
        let mut redirects = 0;
        let (mut target, mut is_asking) = (shared.owner(slot), false);
        loop {
            let Some(node) = target else {
                // Nothing was sent, so the owner may be looked for.
                target = shared.next_owner(slot, None, by).await;
                if target.is_none() {
                    return Err(Fault::ClusterDown);
                }
                continue;
            };
            let answer = match is_asking {
                true => node.call_asking(call, by).await,
                false => node.call(call, by).await,
            };
            is_asking = false;
            match answer {
                Ok(answer) => return Ok(answer),
                Err(NotAnswered::Redirect(redirect))
                    if redirect.is_ask && Box::pin(leaves_keys(&node, call, by)).await? =>
                {
                    pause(by, Fault::TryAgain).await?;
                    (target, redirects) = (shared.owner(slot), 0);
                }
                Err(NotAnswered::Redirect(redirect)) => {
                    redirects += 1;
                    if redirects > MAX_REDIRECTS {
                        return Err(Fault::Redirected);
                    }
                    if redirects > 1 {
                        pause(by, Fault::Redirected).await?;
                    }
                    is_asking = redirect.is_ask;
                    if !redirect.is_ask {
                        shared.refresh();
                    }
                    target = Some(shared.redirected(&node, redirect));
                }
                // The slot is moving, and its keys lie on both nodes for now.
                Err(NotAnswered::Fault(Fault::TryAgain)) => {
                    pause(by, Fault::TryAgain).await?;
                    // The nodes agree on the slot, and redirect again until its move ends.
                    (target, redirects) = (shared.owner(slot), 0);
                }
                Err(NotAnswered::Fault(fault)) => {
                    if !is_unsent(&fault) {
                        if may_be_elsewhere(&fault) {
                            shared.refresh();
                        }
                        return Err(fault);
                    }
                    let next = match fault {
                        // The pause is for callers not to wait, not for the map either.
                        Fault::Breaker { .. } => shared.other_owner(slot, &node),
                        _ => shared.next_owner(slot, Some(&node), by).await,
                    };
                    match next {
                        Some(next) => target = Some(next),
                        None => return Err(fault),
                    }
                }
            }
        }
    }
}

impl Shared {
    fn map(&self) -> Arc<SlotMap> {
        Arc::clone(&self.map.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn owner(&self, slot: u16) -> Option<Node> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).owner(slot).cloned()
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<Endpoint, Node>> {
        // A panic cannot leave the map half-changed.
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The owner after the next refresh, unless that is still `before`.
    async fn next_owner(
        self: &Arc<Self>,
        slot: u16,
        before: Option<&Node>,
        by: Deadline,
    ) -> Option<Node> {
        self.refreshes.wait(by, || self.refresh()).await;
        self.known_owner(slot, before)
    }

    /// The owner now, unless that is `before`: then a refresh starts for later calls.
    fn other_owner(self: &Arc<Self>, slot: u16, before: &Node) -> Option<Node> {
        let owner = self.known_owner(slot, Some(before));
        if owner.is_none() {
            self.refresh();
        }
        owner
    }

    fn known_owner(&self, slot: u16, before: Option<&Node>) -> Option<Node> {
        self.owner(slot).filter(|owner| before.is_none_or(|before| !owner.is(before)))
    }

    /// The node that a redirect names.
    fn redirected(&self, by: &Node, redirect: Redirect) -> Node {
        let Redirect { host, port, .. } = redirect;
        let host = if host.is_empty() { host_of(by) } else { host };
        self.node(&self.connector.options.reachable(Endpoint::new(host, port)))
    }

    /// The node that is reached there.
    fn node(&self, endpoint: &Endpoint) -> Node {
        let mut nodes = self.nodes();
        if let Some(node) = nodes.get(endpoint) {
            return node.clone();
        }
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let node = Node::new(self.connector.at(endpoint, number));
        node.will_wait(Duration::from_micros(self.longest_wait_us.load(Ordering::Relaxed)));
        nodes.insert(endpoint.clone(), node.clone());
        node
    }

    /// The known nodes, each time another first.
    fn all(&self) -> Vec<Endpoint> {
        let mut all: Vec<Endpoint> = self.seeds.clone();
        all.extend(self.nodes().keys().cloned());
        all.sort_unstable();
        all.dedup();
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % all.len().max(1);
        all.rotate_left(first);
        all
    }

    /// Reads the owners of the slots in the background, from the first node that tells.
    fn refresh(self: &Arc<Self>) {
        self.refreshes.start(|| {
            let shared = Arc::downgrade(self);
            async move {
                let Some(shared) = shared.upgrade() else { return };
                for endpoint in shared.all() {
                    if let Ok(view) = view(&shared.connector, &endpoint, VIEW_TIMEOUT).await {
                        shared.adopt(&view);
                        return;
                    }
                }
            }
        });
    }

    /// Makes a view the map, and lets go of nodes that it does not name.
    fn adopt(&self, view: &View) {
        if view.covered() == 0 {
            // A node that was reset or has just been started knows nothing.
            return;
        }
        let options = &self.connector.options;
        let reached: Vec<Endpoint> =
            view.primaries.iter().map(|primary| options.reachable(primary.clone())).collect();
        let nodes = reached.iter().map(|endpoint| self.node(endpoint)).collect();
        let map = SlotMap { nodes, owners: view.owners.clone() };
        *self.map.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(map);
        self.nodes().retain(|endpoint, _| reached.contains(endpoint));
    }
}

/// A node's view of the slots.
async fn view(connector: &Connector, endpoint: &Endpoint, within: Duration) -> Result<View, Fault> {
    read_view(connector.at(endpoint, 0).ask(&slots_of_all(), within).await?, endpoint)
}

/// The question for the owners of the slots.
fn slots_of_all() -> redis::Cmd {
    let mut slots = redis::cmd("CLUSTER");
    slots.arg("SLOTS");
    slots
}

fn read_view(reply: Value, endpoint: &Endpoint) -> Result<View, Fault> {
    match reply {
        Value::ServerError(error) => match error.code() {
            "ERR" => Err(Fault::NotACluster { address: endpoint.to_string() }),
            _ => Err(refused(&error)),
        },
        reply => View::read(&reply.into(), &endpoint.host)
            .ok_or(Fault::Garbled { charge: ChargeState::NotCharged }),
    }
}

/// A node's view of the slots and of their state. Not every user may ask for the state.
async fn seen_by(
    connector: &Connector,
    endpoint: &Endpoint,
    within: Duration,
) -> Result<Topology, Fault> {
    let garbled = || Fault::Garbled { charge: ChargeState::NotCharged };
    let mut questions = redis::pipe();
    questions.add_command(slots_of_all()).cmd("CLUSTER").arg("INFO");
    let answers = connector.at(endpoint, 0).ask_all(&questions, within).await?;
    let [slots, info]: [Value; 2] = answers.try_into().map_err(|_| garbled())?;
    let view = read_view(slots, endpoint)?;
    let info = match info {
        Value::BulkString(bytes) => String::from_utf8(bytes).unwrap_or_default(),
        Value::VerbatimString { text, .. } => text,
        _ => String::new(),
    };
    let field = |name: &str| {
        let mut lines = info.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(known, _)| *known == name)?.1.trim().parse::<u64>().ok()
    };
    let unowned = usize::from(SLOTS).saturating_sub(view.covered()) as u64;
    let down = unowned + field("cluster_slots_fail").unwrap_or_default();
    let options = &connector.options;
    let reached = view.primaries.iter().map(|it| options.reachable(it.clone()).to_string());
    Ok(Topology {
        primaries: reached.collect(),
        epoch: field("cluster_current_epoch").unwrap_or_default(),
        slots_down: u16::try_from(down).unwrap_or(SLOTS).min(SLOTS),
        sentinels: None,
        owners: view.owners,
    })
}

/// Whether a node that sends a call on still has keys of its counts beside those of the call. Each
/// key moves by itself, and a count whose holds or logs are not there yet would admit what they
/// keep.
async fn leaves_keys(node: &Node, call: &Call<'_>, by: Deadline) -> Result<bool, Fault> {
    static IS_HERE: LazyLock<Script> = LazyLock::new(|| Script::new("return {ARGV[1]}".to_owned()));
    let (nonce, keys) = (call.nonce(), call.keys_beside());
    // The node sends on what it has not, before it runs anything.
    let asked = join_all(keys.iter().map(|key| async move {
        let mut probe = Call::new(&IS_HERE, nonce, 1);
        probe.word(key).word(nonce);
        node.call(&mut probe, by).await
    }));
    let mut is_any = false;
    for answer in asked.await {
        match answer {
            Ok(_) | Err(NotAnswered::Fault(Fault::TryAgain)) => is_any = true,
            Err(NotAnswered::Redirect(_)) => {}
            Err(NotAnswered::Fault(fault)) => return Err(fault),
        }
    }
    Ok(is_any)
}

/// The slot of a call's keys.
fn slot_of(call: &Call<'_>) -> Result<u16, Fault> {
    let mut slots = call.keys().map(key_slot);
    let slot = slots.next().unwrap_or(0);
    if slots.all(|other| other == slot) { Ok(slot) } else { Err(Fault::CrossSlot) }
}

fn host_of(node: &Node) -> String {
    match &node.connector().address {
        Address::Tcp { host, .. } => host.clone(),
        Address::Unix(_) => String::new(),
    }
}

/// Waits a little, unless the deadline comes first: then the fault is the answer.
async fn pause(by: Deadline, fault: Fault) -> Result<(), Fault> {
    let until = Instant::now() + MOVING_PAUSE;
    if until >= by.at {
        return Err(fault);
    }
    sleep_until(until).await;
    Ok(())
}

//! The view of a cluster: the replies of the nodes of the URL, and the members that they name.

use std::collections::BTreeSet;

use crate::doctor::nodes::Node;
use crate::doctor::slots::Slots;
use crate::options::Endpoint;
use crate::slots::Announced;

/// The observations of a cluster.
pub(super) struct Cluster {
    pub(super) seeds: Vec<Seed>,
    /// The view of the node that knows the owners of most slots.
    pub(super) view: View,
    /// The members of the cluster by that view, each with its observations.
    pub(super) members: Vec<(Member, Node)>,
}

/// An address of the URL.
pub(super) struct Seed {
    pub(super) name: String,
    pub(super) said: SeedAnswer,
}

/// The answer at an address of the URL.
pub(super) enum SeedAnswer {
    Unreachable(String),
    Refused(String),
    NotACluster,
    View(View),
}

/// A line of `CLUSTER NODES`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Listed {
    pub(super) node: Announced,
    /// The identity of its primary, if it is a replica.
    pub(super) primary: Option<String>,
    /// Whether most primaries take it for failed.
    pub(super) is_failed: bool,
    /// Whether it is not met yet, so that nothing else is known.
    is_stranger: bool,
}

impl Listed {
    /// Reads a reply. Lines of another form are left out, and so are nodes that are not met yet.
    pub(super) fn read(text: &str) -> Vec<Self> {
        text.lines().filter_map(Self::line).filter(|listed| !listed.is_stranger).collect()
    }

    /// Reads `ID HOST:PORT@BUS[,NAME] FLAGS PRIMARY PING PONG EPOCH LINK [SLOT...]`.
    fn line(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (id, place, flags, primary) =
            (words.next()?, words.next()?, words.next()?, words.next()?);
        let (host, port) = place.split(['@', ',']).next()?.rsplit_once(':')?;
        let host = if host == "?" { String::new() } else { host.to_owned() };
        let node = Announced { host, port: port.parse().ok()?, id: id.to_owned() };
        let has = |name: &str| flags.split(',').any(|flag| flag == name);
        let primary = (primary != "-").then(|| primary.to_owned());
        Some(Self { node, primary, is_failed: has("fail"), is_stranger: has("handshake") })
    }
}

/// One node's view of its cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct View {
    pub(super) slots: Slots,
    /// All nodes; `None` when CLUSTER NODES is refused.
    pub(super) listed: Option<Vec<Listed>>,
}

impl View {
    /// The identities of all nodes.
    pub(super) fn ids(&self) -> BTreeSet<&str> {
        let listed = self.listed.iter().flatten().map(|listed| listed.node.id.as_str());
        self.slots.ids().into_iter().chain(listed).collect()
    }

    /// All nodes: the owners of slots, their replicas, and the others.
    pub(super) fn members(&self, asked: &str) -> Vec<Member> {
        let mut members: Vec<Member> = Vec::new();
        for range in self.slots.ranges() {
            let primary = Member::new(&range.primary, None, asked);
            let place = members.iter().position(|member| member.id == primary.id);
            match place.and_then(|place| members.get_mut(place)) {
                Some(known) => known.slots = known.slots.saturating_add(range.len()),
                None => members.push(Member { slots: range.len(), ..primary }),
            }
        }
        for range in self.slots.ranges() {
            for replica in &range.replicas {
                if members.iter().all(|member| member.id != replica.id) {
                    let primary = Some(range.primary.id.clone());
                    members.push(Member::new(replica, primary, asked));
                }
            }
        }
        for listed in self.listed.iter().flatten() {
            match members.iter_mut().find(|member| member.id == listed.node.id) {
                Some(known) => known.is_failed = listed.is_failed,
                None => members.push(Member {
                    is_failed: listed.is_failed,
                    ..Member::new(&listed.node, listed.primary.clone(), asked)
                }),
            }
        }
        members
    }
}

/// A node of a cluster, as others describe it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Member {
    pub(super) id: String,
    /// The announced host; empty when the node does not know its own address.
    pub(super) host: String,
    /// Where clients look for it.
    pub(super) endpoint: Endpoint,
    /// The identity of its primary, if it is a replica.
    pub(super) primary: Option<String>,
    /// The number of its slots.
    pub(super) slots: usize,
    /// Whether most primaries take it for failed.
    pub(super) is_failed: bool,
}

impl Member {
    fn new(node: &Announced, primary: Option<String>, asked: &str) -> Self {
        Self {
            id: node.id.clone(),
            host: node.host.clone(),
            endpoint: node.endpoint(asked),
            primary,
            slots: 0,
            is_failed: false,
        }
    }

    pub(super) fn name(&self) -> String {
        self.endpoint.to_string()
    }
}

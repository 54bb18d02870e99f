//! The view of sentinels: their replies, and the servers that they watch.

use std::collections::BTreeMap;

use crate::command_reply::CommandReply;
use crate::doctor::nodes::Node;
use crate::options::Endpoint;

/// The observations of sentinels and servers.
pub(super) struct Watch {
    pub(super) name: String,
    /// The sentinels of the URL.
    pub(super) sentinels: Vec<(String, AddressAnswer)>,
    /// The primary that the latest answer names, and the known replicas, each with its
    /// observations. The primary is the first.
    pub(super) servers: Vec<(Watched, Node)>,
}

/// The answer of an address of the URL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum AddressAnswer {
    Unreachable(String),
    Refused(String),
    NotASentinel,
    /// It watches others; these are their names.
    UnknownName(Vec<String>),
    Knows(Box<Monitored>),
}

/// A sentinel's knowledge of a primary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Monitored {
    pub(super) primary: Watched,
    /// Higher for a later failover.
    pub(super) epoch: u64,
    /// How many sentinels must find the primary down.
    pub(super) quorum: usize,
    /// How many sentinels it knows, itself among them.
    pub(super) sentinels: usize,
    pub(super) down_after_ms: u64,
    pub(super) replicas: Vec<Watched>,
    /// Why no failover is possible, in its own words.
    pub(super) no_quorum: Option<String>,
}

/// A server as a sentinel sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Watched {
    pub(super) endpoint: Endpoint,
    /// Whether the sentinel finds it down.
    pub(super) is_down: bool,
    /// Of a replica: whether it may become the primary.
    pub(super) is_eligible: bool,
}

impl AddressAnswer {
    pub(super) fn monitored(&self) -> Option<&Monitored> {
        if let Self::Knows(monitored) = self { Some(monitored) } else { None }
    }
}

impl Monitored {
    /// Reads the fields of `SENTINEL MASTER`.
    pub(super) fn read(fields: &BTreeMap<String, String>) -> Option<Self> {
        let number = |name: &str| fields.get(name)?.parse::<u64>().ok();
        let count = |name: &str| fields.get(name)?.parse::<usize>().ok();
        Some(Self {
            primary: watched(fields)?,
            epoch: number("config-epoch").unwrap_or(0),
            quorum: count("quorum")?,
            sentinels: count("num-other-sentinels")?.saturating_add(1),
            down_after_ms: number("down-after-milliseconds")?,
            replicas: Vec::new(),
            no_quorum: None,
        })
    }

    /// How many sentinels must answer for a failover: the quorum, and a majority of all.
    pub(super) fn needed(&self) -> usize {
        self.quorum.max((self.sentinels / 2).saturating_add(1))
    }
}

/// Reads a list of names, each with its value after it.
pub(super) fn fields(reply: &CommandReply) -> BTreeMap<String, String> {
    let texts = reply.texts();
    let pairs = texts.chunks_exact(2).filter_map(|pair| pair.first().zip(pair.get(1)));
    pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Reads the fields of a server.
pub(super) fn watched(fields: &BTreeMap<String, String>) -> Option<Watched> {
    let port = fields.get("port")?.parse().ok().filter(|port| *port > 0)?;
    let has = |name: &str| fields.get("flags").is_some_and(|f| f.split(',').any(|f| f == name));
    Some(Watched {
        endpoint: Endpoint::new(fields.get("ip")?, port),
        is_down: has("s_down") || has("o_down") || has("disconnected"),
        is_eligible: fields.get("slave-priority").is_none_or(|priority| priority != "0"),
    })
}

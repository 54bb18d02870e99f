//! The owners of the slots of a cluster, as a node reports them: the reply to `CLUSTER SLOTS`.

use std::ops::RangeInclusive;

use crate::command_reply::CommandReply;
use crate::options::Endpoint;

/// The number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// Slots in a row with one owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SlotRange {
    first: usize,
    last: usize,
    pub(crate) primary: Announced,
    pub(crate) replicas: Vec<Announced>,
}

/// A node as the cluster announces it to clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Announced {
    /// Empty when the node does not know its own address.
    pub(crate) host: String,
    /// 0 when the node does not speak the protocol by which it was asked.
    pub(crate) port: u16,
    pub(crate) id: String,
}

impl SlotRange {
    /// Reads a reply; `None` for one of another form.
    pub(crate) fn read_all(reply: &CommandReply) -> Option<Vec<Self>> {
        let CommandReply::List(ranges) = reply else { return None };
        ranges.iter().map(Self::read).collect()
    }

    /// The numbers of its slots.
    pub(crate) fn slots(&self) -> RangeInclusive<usize> {
        self.first..=self.last
    }

    /// The number of its slots.
    pub(crate) fn len(&self) -> usize {
        self.last.saturating_sub(self.first).saturating_add(1)
    }

    /// Reads `[FIRST, LAST, PRIMARY, REPLICA, ...]`.
    fn read(reply: &CommandReply) -> Option<Self> {
        let [CommandReply::Int(first), CommandReply::Int(last), primary, replicas @ ..] =
            reply.items()
        else {
            return None;
        };
        let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
        let replicas = replicas.iter().map(Announced::read).collect::<Option<_>>()?;
        let range = Self { first, last, primary: Announced::read(primary)?, replicas };
        (first <= last && last < usize::from(SLOTS)).then_some(range)
    }
}

impl Announced {
    /// The address; `asked` is the host of the node that said so, which is meant by an empty one.
    pub(crate) fn address(&self, asked: &str) -> String {
        self.endpoint(asked).to_string()
    }

    /// The same as an endpoint.
    pub(crate) fn endpoint(&self, asked: &str) -> Endpoint {
        Endpoint::new(if self.host.is_empty() { asked } else { &self.host }, self.port)
    }

    /// Reads `[HOST, PORT, ID, ...]`.
    fn read(reply: &CommandReply) -> Option<Self> {
        let [host, CommandReply::Int(port), CommandReply::Text(id), ..] = reply.items() else {
            return None;
        };
        let host = match host {
            CommandReply::Nil => String::new(),
            CommandReply::Text(host) if host == "?" => String::new(),
            CommandReply::Text(host) => host.clone(),
            _ => return None,
        };
        Some(Self { host, port: u16::try_from(*port).ok()?, id: id.clone() })
    }
}

//! The redirects of a cluster's nodes.

use redis::ServerError;

use crate::fault::Fault;

/// A node's answer to a call of a slot that another node owns. It ran nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Redirect {
    /// True for ASK: this key alone is on the other node already, and the call must follow ASKING.
    pub(crate) is_ask: bool,
    /// Empty for the host of the node that answered.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Redirect {
    /// Reads `MOVED SLOT HOST:PORT` and `ASK SLOT HOST:PORT`.
    pub(super) fn of(error: &ServerError) -> Option<Self> {
        let is_ask = match error.code() {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let (_slot, place) = error.details()?.split_once(' ')?;
        // The last colon counts: an IPv6 address has no brackets here.
        let (host, port) = place.rsplit_once(':')?;
        Some(Self { is_ask, host: host.to_owned(), port: port.parse().ok().filter(|it| *it > 0)? })
    }
}

/// Why a node did not answer a call.
#[derive(Debug)]
pub(crate) enum NotAnswered {
    /// Another node does, and this one ran nothing.
    Redirect(Redirect),
    Fault(Fault),
}

impl From<Fault> for NotAnswered {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Redirect> for NotAnswered {
    fn from(redirect: Redirect) -> Self {
        Self::Redirect(redirect)
    }
}

impl From<NotAnswered> for Fault {
    /// One that is not followed is a fault: the server is a node of a cluster.
    fn from(not: NotAnswered) -> Self {
        match not {
            NotAnswered::Redirect(_) => Self::Cluster,
            NotAnswered::Fault(fault) => fault,
        }
    }
}

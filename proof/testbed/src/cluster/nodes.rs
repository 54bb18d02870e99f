//! The output of `CLUSTER NODES`: who is in the cluster, in which role, and with which slots.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

use super::slots::SLOTS;

/// The role of a node in a cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a cluster has these two")]
pub enum Role {
    /// It owns slots and takes writes.
    Primary,
    /// It follows a primary.
    Replica,
}

/// A node, as some node of the cluster saw it when it was asked.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub struct Node {
    /// Its number in this fixture, which stays whatever its role becomes.
    pub index: usize,
    /// Where clients find it.
    pub address: SocketAddr,
    /// The name that the cluster gave it.
    pub id: String,
    /// Its present role.
    pub role: Role,
    /// The number of the primary that a replica follows.
    pub primary: Option<usize>,
    /// The slots that it owns; those of a replica are its primary's, and are not here.
    pub slots: Vec<RangeOfSlots>,
    /// Whether the cluster found it unreachable (`fail` or `fail?`).
    pub is_failed: bool,
}

/// Slots that lie side by side, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub struct RangeOfSlots {
    /// The first slot.
    pub first: u16,
    /// The last slot.
    pub last: u16,
}

impl RangeOfSlots {
    /// The slots one by one.
    pub fn iter(self) -> RangeInclusive<u16> {
        self.first..=self.last
    }

    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some(Self { first: first.parse().ok()?, last: last.parse().ok()? })
    }
}

impl Node {
    /// Whether it owns the slot.
    #[must_use]
    pub fn owns(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| range.iter().contains(&slot))
    }
}

/// Reads the reply of `CLUSTER NODES`, sorted by number. `index_of` gives the number of the node at
/// an address.
///
/// # Errors
///
/// Somebody is in it who cannot be named yet, such as a node whose handshake is not over.
pub(super) fn parse(
    text: &str,
    index_of: impl Fn(SocketAddr) -> Option<usize>,
) -> Result<Vec<Node>, String> {
    let mut nodes = Vec::new();
    for line in text.lines() {
        let (node, primary) =
            parse_line(line, &index_of).ok_or_else(|| format!("not yet: {line}"))?;
        nodes.push((node, primary));
    }
    let ids: Vec<_> = nodes.iter().map(|(node, _)| (node.id.clone(), node.index)).collect();
    let index = |id: &str| ids.iter().find(|(known, _)| known == id).map(|&(_, index)| index);
    let named = nodes.into_iter().map(|(node, primary)| Node { primary: index(&primary), ..node });
    let mut nodes: Vec<_> = named.collect();
    nodes.sort();
    Ok(nodes)
}

/// `ID IP:PORT@BUSPORT FLAGS PRIMARY PING PONG EPOCH LINK SLOT...`
fn parse_line(
    line: &str,
    index_of: impl Fn(SocketAddr) -> Option<usize>,
) -> Option<(Node, String)> {
    let mut words = line.split(' ');
    let id = words.next()?.to_owned();
    let address = words.next()?.split('@').next()?;
    let flags: Vec<&str> = words.next()?.split(',').collect();
    let primary = words.next()?.to_owned();
    if flags.iter().any(|flag| ["handshake", "noaddr"].contains(flag)) {
        return None;
    }
    let address = match address.strip_prefix(':') {
        // A node learns its own address from others, so one that is alone has none.
        Some(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?)),
        None => address.parse().ok()?,
    };
    let role = if flags.contains(&"slave") { Role::Replica } else { Role::Primary };
    // Slots that move are in brackets; they are still their owner's.
    let slots = words.skip(4).filter(|word| !word.starts_with('['));
    let node = Node {
        index: index_of(address)?,
        address,
        id,
        role,
        primary: None,
        slots: slots.map(RangeOfSlots::parse).collect::<Option<_>>()?,
        is_failed: flags.iter().any(|flag| flag.starts_with("fail")),
    };
    Some((node, primary))
}

/// The slots that no node has.
pub(super) fn unowned(nodes: &[Node]) -> usize {
    (0..SLOTS).filter(|&slot| !nodes.iter().any(|node| node.owns(slot))).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
07c3 127.0.0.1:7004@17004 slave e7d1 0 1426238317239 4 connected
67ed 127.0.0.1:7002@17002,host master,fail? - 0 1426238316232 2 connected 5-10 12 [7->-e7d1]
e7d1 127.0.0.1:7001@17001 myself,master - 0 0 1 connected 0-4
";

    fn index(address: SocketAddr) -> Option<usize> {
        usize::from(address.port()).checked_sub(7000)
    }

    #[test]
    fn a_view_is_read() {
        let nodes = parse(TEXT, index).unwrap();
        let [one, two, four] = &nodes[..] else { panic!("{nodes:?}") };
        assert_eq!((one.index, one.role, one.is_failed), (1, Role::Primary, false));
        assert_eq!((two.index, two.is_failed, four.primary), (2, true, Some(1)));
        assert!(one.owns(0) && one.owns(4) && !one.owns(5));
        assert!(two.owns(7) && two.owns(12) && !two.owns(11));
        assert_eq!(unowned(&nodes), 16_384 - 12);
    }

    #[test]
    fn a_node_that_is_alone_does_not_know_its_address() {
        let nodes = parse("e7d1 :7001@17001 myself,master - 0 0 1 connected 0-16383\n", index);
        assert_eq!(nodes.unwrap()[0].address, SocketAddr::from((Ipv4Addr::LOCALHOST, 7001)));
    }

    #[test]
    fn a_handshake_is_not_a_node_yet() {
        let text = "07c3 127.0.0.1:7004@17004 handshake - 0 0 0 connected\n";
        assert!(parse(text, index).is_err());
        assert!(parse("07c3 :0@0 master,noaddr - 0 0 0 disconnected", index).is_err());
    }
}

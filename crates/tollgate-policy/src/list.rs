//! Lists of networks or of other values, one per line, in separate files beside the policies.

use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use std::sync::Arc;

use ipnet::IpNet;

use crate::key_table::KeyTable;
use crate::network::{NetworkMap, parse_client};

/// The largest list, in bytes: 64 MiB.
pub const MAX_LIST_BYTES: usize = 64 << 20;

/// The values of a file: networks for `ip`, of which one must contain all of an address, and whole
/// values for other fields.
///
/// Clones are cheap. A prefix tree finds networks and a hash other values, however many there are.
#[derive(Clone)]
pub struct ValueList(Arc<Listed>);

struct Listed {
    file: Box<str>,
    members: Members,
}

enum Members {
    Networks {
        networks: Vec<IpNet>,
        tree: Box<NetworkMap<()>>,
    },
    Values {
        values: KeyTable,
        /// The hash of the file.
        hash: u64,
    },
}

impl ValueList {
    /// The networks of a file.
    pub(crate) fn of_networks(file: &str, mut networks: Vec<IpNet>) -> Self {
        networks.sort_unstable();
        networks.dedup();
        let mut tree: Box<NetworkMap<()>> = Box::default();
        networks.iter().for_each(|network| *tree.entry(*network) = ());
        Self(Arc::new(Listed { file: file.into(), members: Members::Networks { networks, tree } }))
    }

    /// The values of a file, with the hash of its text.
    pub(crate) fn of_values(file: &str, values: KeyTable, hash: u64) -> Self {
        Self(Arc::new(Listed { file: file.into(), members: Members::Values { values, hash } }))
    }

    /// The name of the list: its path as written in the policy file.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.0.file
    }

    /// The number of networks or values.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0.members {
            Members::Networks { networks, .. } => networks.len(),
            Members::Values { values, .. } => values.len(),
        }
    }

    /// True when the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True for a value in the list; for networks when an address, or a network that counts as one
    /// client, is inside one of them.
    #[inline]
    #[must_use]
    pub fn holds(&self, value: &str) -> bool {
        match &self.0.members {
            Members::Networks { .. } => parse_client(value).is_some_and(|told| self.covers(told)),
            Members::Values { values, .. } => values.get(value).is_some(),
        }
    }

    /// True for a list of networks.
    pub(crate) fn is_of_networks(&self) -> bool {
        matches!(self.0.members, Members::Networks { .. })
    }

    /// True when all of a network is inside one of the networks.
    #[inline]
    pub(crate) fn covers(&self, network: IpNet) -> bool {
        let mut is_in = false;
        if let Members::Networks { tree, .. } = &self.0.members {
            tree.around(network, |()| is_in = true);
        }
        is_in
    }

    /// Appends the name and the content, for a hash.
    pub(crate) fn write(&self, content: &mut Vec<u8>) {
        content.extend_from_slice(self.0.file.as_bytes());
        let (networks, hash) = self.content();
        for network in networks {
            content.push(0);
            content.extend_from_slice(network.to_string().as_bytes());
        }
        content.extend(hash.map(u64::to_le_bytes).iter().flatten());
    }

    fn content(&self) -> (&[IpNet], Option<u64>) {
        match &self.0.members {
            Members::Networks { networks, .. } => (networks, None),
            Members::Values { hash, .. } => (&[], Some(*hash)),
        }
    }

    fn key(&self) -> (&str, (&[IpNet], Option<u64>)) {
        (&self.0.file, self.content())
    }
}

impl PartialEq for ValueList {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.key() == other.key()
    }
}

impl Eq for ValueList {}

impl PartialOrd for ValueList {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ValueList {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl Hash for ValueList {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Lists with equal names are rare, and are then compared.
        self.0.file.hash(state);
    }
}

impl fmt::Debug for ValueList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ValueList({self})")
    }
}

impl fmt::Display for ValueList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_of_networks() { "network" } else { "value" };
        let plural = if self.len() == 1 { "" } else { "s" };
        write!(f, "{} ({} {what}{plural})", self.0.file, self.len())
    }
}

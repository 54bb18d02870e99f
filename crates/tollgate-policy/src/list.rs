//! Lists of networks, one per line, in separate files beside the policies.

use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use std::sync::Arc;

use ipnet::IpNet;

use crate::network::{NetworkMap, parse_client, parse_network};

/// The largest list, in bytes: 64 MiB.
pub const MAX_LIST_BYTES: usize = 64 << 20;

/// The most invalid lines that are reported.
const MAX_REPORTED: usize = 5;

/// The networks of a file. A value matches when all of it is inside one of them.
///
/// Clones are cheap. An address is found by a prefix tree, however many networks there are.
#[derive(Clone)]
pub struct NetworkList(Arc<Listed>);

struct Listed {
    file: Box<str>,
    networks: Vec<IpNet>,
    tree: NetworkMap<()>,
}

impl NetworkList {
    /// Parses a network or an address from each line. Text after `#` or `;` is a comment, and empty
    /// lines are ignored. `file` is the name of the list.
    ///
    /// # Examples
    /// ```
    /// use tollgate_policy::NetworkList;
    /// let list = NetworkList::parse("drop.txt", "# bad\n203.0.113.0/24 ; SBL1\n192.0.2.7\n")?;
    /// assert_eq!(list.len(), 2);
    /// let error = NetworkList::parse("drop.txt", "203.0.113.0/24\n10.0.0.1/8\n").unwrap_err();
    /// assert!(error.starts_with("drop.txt, line 2: `10.0.0.1/8` has bits beyond its prefix"));
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// The first invalid lines, with their numbers and the corrections.
    pub fn parse(file: &str, text: &str) -> Result<Self, String> {
        let (mut networks, mut bad, mut more) = (Vec::new(), Vec::new(), 0);
        for (number, line) in (1..).zip(text.lines()) {
            let said = line.split(['#', ';']).next().unwrap_or_default().trim();
            if said.is_empty() {
                continue;
            }
            match parse_network(said) {
                Ok(network) => networks.push(network),
                Err(error) if bad.len() < MAX_REPORTED => {
                    let (what, remedy) = (error.what(), error.remedy());
                    bad.push(format!("{file}, line {number}: {what}: {remedy}"));
                }
                Err(_) => more += 1,
            }
        }
        if more > 0 {
            bad.push(format!("and {more} more lines"));
        }
        if !bad.is_empty() {
            return Err(bad.join("; "));
        }
        networks.sort_unstable();
        networks.dedup();
        let mut tree = NetworkMap::default();
        networks.iter().for_each(|network| *tree.entry(*network) = ());
        Ok(Self(Arc::new(Listed { file: file.into(), networks, tree })))
    }

    /// The name of the list: its path as written in the policy file.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.0.file
    }

    /// The number of networks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.networks.len()
    }

    /// True when the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.networks.is_empty()
    }

    /// True when an address, or a network that counts as one client, is inside one of the networks.
    #[inline]
    #[must_use]
    pub fn holds(&self, value: &str) -> bool {
        parse_client(value).is_some_and(|told| self.covers(told))
    }

    /// True when all of a network is inside one of the networks.
    #[inline]
    pub(crate) fn covers(&self, network: IpNet) -> bool {
        let mut is_in = false;
        self.0.tree.around(network, |()| is_in = true);
        is_in
    }

    /// Appends the name and the networks, for a hash.
    pub(crate) fn write(&self, content: &mut Vec<u8>) {
        content.extend_from_slice(self.0.file.as_bytes());
        for network in &self.0.networks {
            content.push(0);
            content.extend_from_slice(network.to_string().as_bytes());
        }
    }

    fn key(&self) -> (&str, &[IpNet]) {
        (&self.0.file, &self.0.networks)
    }
}

impl PartialEq for NetworkList {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.key() == other.key()
    }
}

impl Eq for NetworkList {}

impl PartialOrd for NetworkList {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NetworkList {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl Hash for NetworkList {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Lists with equal names are rare, and are then compared.
        self.0.file.hash(state);
    }
}

impl fmt::Debug for NetworkList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NetworkList({self})")
    }
}

impl fmt::Display for NetworkList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.len() == 1 { "" } else { "s" };
        write!(f, "{} ({} network{plural})", self.0.file, self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_line_by_line_and_tells_the_bad_ones_by_number() {
        let text = "\u{20}# none\r\n10.0.0.0/8 # own\r\n\r\n  2001:db8::/32;x\n::ffff:192.0.2.7\n";
        let list = NetworkList::parse("l", text).unwrap();
        assert_eq!((list.len(), list.file()), (3, "l"));
        for (value, is_in) in [
            ("10.255.0.1", true),
            ("::ffff:10.0.0.1", true),
            ("11.0.0.1", false),
            ("192.0.2.7", true),
            ("2001:db8:1::/64", true),
            ("2001::/16", false),
            ("here", false),
        ] {
            assert_eq!(list.holds(value), is_in, "{value}");
        }
        let bad = format!("10.0.0.0/8\n{}", "nobody\n".repeat(9));
        let error = NetworkList::parse("l", &bad).unwrap_err();
        assert!(
            error.starts_with("l, line 2: `nobody` is not an address or a network: write it as")
        );
        assert!(error.contains("l, line 6: ") && error.ends_with("; and 4 more lines"), "{error}");
        assert!(NetworkList::parse("l", "").unwrap().is_empty());
        assert!(NetworkList::parse("l", "10.0.0.0/8 10.1.0.0/16").is_err());
    }
}

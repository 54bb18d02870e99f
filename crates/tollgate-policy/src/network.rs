//! Networks: their parsing, and the lookup of networks by an address.

use core::fmt;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;
use tollgate::ParseError;

use crate::field::Fields;

/// Parses a network such as `203.0.113.0/24` or `2001:db8::/32`, or an address, which is a network
/// of one. An IPv4-mapped IPv6 network is read as IPv4: `::ffff:10.0.0.0/104` is `10.0.0.0/8`.
///
/// ```
/// use tollgate_policy::parse_network;
/// assert_eq!(parse_network("192.0.2.7")?.to_string(), "192.0.2.7/32");
/// let error = parse_network("10.1.2.3/8").unwrap_err();
/// assert!(error.remedy().contains("`10.0.0.0/8`"));
/// # Ok::<(), tollgate::ParseError>(())
/// ```
///
/// # Errors
/// An invalid network; one with bits beyond its prefix.
pub fn parse_network(text: &str) -> Result<IpNet, ParseError> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(address.to_canonical()));
    }
    let Ok(net) = text.parse::<IpNet>() else {
        return Err(ParseError::whole(
            text,
            format!("`{text}` is not an address or a network"),
            "write it as `203.0.113.0/24`, `2001:db8::/32` or `192.0.2.7`",
        ));
    };
    if net.trunc() != net {
        return Err(ParseError::whole(
            text,
            format!("`{text}` has bits beyond its prefix"),
            format!("write `{}` for the network, or `{}` for the address", net.trunc(), net.addr()),
        ));
    }
    Ok(unmapped(net))
}

/// Converts an IPv4-mapped IPv6 network to the IPv4 network.
fn unmapped(net: IpNet) -> IpNet {
    let IpNet::V6(v6) = net else { return net };
    let mapped = v6.network().to_ipv4_mapped();
    let v4 = mapped.zip(v6.prefix_len().checked_sub(96));
    v4.and_then(|(v4, prefix)| Ipv4Net::new(v4, prefix).ok()).map_or(net, IpNet::V4)
}

/// Parses a client address from a front: one address, or a network that counts as one client.
#[inline]
pub(crate) fn parse_client(value: &str) -> Option<IpNet> {
    match value.parse::<IpAddr>() {
        Ok(address) => Some(IpNet::from(address.to_canonical())),
        Err(_) if value.contains('/') => value.parse().ok().map(unmapped),
        Err(_) => None,
    }
}

/// The client's full address, if its `ip`, `value`, is only the network that it is counted by.
#[inline]
pub(crate) fn client_address<F: Fields + ?Sized>(fields: &F, value: &str) -> Option<IpAddr> {
    if !value.contains('/') {
        return None;
    }
    fields.address().map(|address| address.to_canonical())
}

/// The network of a prefix such as `10.1.*`, if it is one.
pub(crate) fn parse_prefix(text: &str) -> Option<IpNet> {
    let octets = text.strip_suffix('.')?;
    let count = u8::try_from(octets.split('.').count()).ok().filter(|count| *count < 4)?;
    let rest = ".0".repeat(usize::from(4 - count));
    let address = format!("{octets}{rest}").parse().ok()?;
    Ipv4Net::new(address, count * 8).ok().map(IpNet::V4)
}

/// A map from networks to values. IPv4 and IPv6 are separate: `::/0` contains no IPv4 address.
#[derive(Clone)]
pub(crate) struct NetworkMap<T> {
    v4: PrefixMap<Ipv4Net, T>,
    v6: PrefixMap<Ipv6Net, T>,
}

impl<T> Default for NetworkMap<T> {
    fn default() -> Self {
        Self { v4: PrefixMap::new(), v6: PrefixMap::new() }
    }
}

impl<T> NetworkMap<T> {
    pub(crate) fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// The value of exactly this network, inserted now if there is none.
    pub(crate) fn entry(&mut self, net: IpNet) -> &mut T
    where
        T: Default,
    {
        match net {
            IpNet::V4(net) => self.v4.entry(net).or_default(),
            IpNet::V6(net) => self.v6.entry(net).or_default(),
        }
    }

    /// Calls `each` with the values of all networks that contain all of `net`, the widest first.
    #[inline]
    pub(crate) fn around(&self, net: IpNet, mut each: impl FnMut(&T)) {
        match net {
            IpNet::V4(net) => self.v4.cover_values(&net).for_each(&mut each),
            IpNet::V6(net) => self.v6.cover_values(&net).for_each(&mut each),
        }
    }
}

impl<T> fmt::Debug for NetworkMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} networks", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_in_one_form() {
        for (written, read) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("192.0.2.7", "192.0.2.7/32"),
            ("::ffff:10.0.0.1", "10.0.0.1/32"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("2001:DB8::/32", "2001:db8::/32"),
            ("::/0", "::/0"),
            ("0.0.0.0/0", "0.0.0.0/0"),
        ] {
            assert_eq!(parse_network(written).unwrap().to_string(), read, "{written}");
        }
        for (written, remedy) in [
            ("10.1.2.3/8", "write `10.0.0.0/8` for the network, or `10.1.2.3` for the address"),
            ("10.0.0.0/33", "write it as"),
            ("10.0.0/8", "write it as"),
            ("010.0.0.1", "write it as"),
            ("", "write it as"),
        ] {
            let error = parse_network(written).unwrap_err();
            assert!(error.remedy().contains(remedy), "{written}: {error}");
        }
    }

    #[test]
    fn an_address_is_found_in_all_networks_around_it() {
        let mut map: NetworkMap<Vec<&str>> = NetworkMap::default();
        for net in ["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "::/0", "2001:db8::/64"] {
            map.entry(parse_network(net).unwrap()).push(net);
        }
        for (value, found) in [
            ("10.1.2.3", &["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3"][..]),
            ("::ffff:10.2.0.1", &["0.0.0.0/0", "10.0.0.0/8"]),
            ("11.0.0.0", &["0.0.0.0/0"]),
            ("2001:db8::/64", &["::/0", "2001:db8::/64"]),
            ("2001:db8::1", &["::/0", "2001:db8::/64"]),
            // Only a part of it lies in the narrower network.
            ("2001:db8::/48", &["::/0"]),
        ] {
            let mut seen = Vec::new();
            map.around(parse_client(value).unwrap(), |names| seen.extend_from_slice(names));
            assert_eq!(seen, found, "{value}");
        }
        assert_eq!(parse_client("here"), None);
        assert_eq!(parse_client("10.0.0.1:80"), None);
    }

    #[test]
    fn what_an_address_begins_with_is_a_network_where_octets_are_whole() {
        assert_eq!(parse_prefix("10."), parse_network("10.0.0.0/8").ok());
        assert_eq!(parse_prefix("192.0.2."), parse_network("192.0.2.0/24").ok());
        for none in ["10", "10.1", "1.2.3.4.", "300.", "2001:db8:", "."] {
            assert_eq!(parse_prefix(none), None, "{none}");
        }
    }
}

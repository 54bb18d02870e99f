//! Networks of trusted proxies: CIDR blocks, found by binary search.

use core::fmt;
use core::str::FromStr;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use tollgate::ParseError;

/// The most networks in one list: the largest lists of providers have some thousands.
pub const MAX_NETWORKS: usize = 10_000;

/// A list of networks, such as those of your proxies.
///
/// IPv4 networks contain IPv4 addresses, including IPv4-mapped IPv6 ones. IPv6 networks contain the
/// others, so `::/0` is every IPv6 address and no IPv4 address.
///
/// ```
/// use tollgate_tower::identity::Networks;
/// let proxies: Networks = "10.0.0.0/8, 2001:db8::/32, 192.0.2.1".parse()?;
/// assert!(proxies.contains("10.1.2.3".parse()?));
/// assert!(proxies.contains("::ffff:10.1.2.3".parse()?));
/// assert!(!proxies.contains("192.0.2.2".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Networks {
    nets: Vec<IpNet>,
    /// The first and last address of each range, sorted; no two ranges are adjacent.
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl Networks {
    /// A list of these networks. Bits beyond a prefix are ignored.
    ///
    /// # Errors
    /// No network, or more than [`MAX_NETWORKS`].
    pub fn new(nets: impl IntoIterator<Item = IpNet>) -> Result<Self, ParseError> {
        let nets: Vec<IpNet> =
            nets.into_iter().take(MAX_NETWORKS + 1).map(|net| unmapped(net.trunc())).collect();
        if nets.is_empty() || nets.len() > MAX_NETWORKS {
            return Err(ParseError::whole(
                "",
                format!("a list of networks has 1 to {MAX_NETWORKS} of them"),
                "write them joined by `,`, as in `10.0.0.0/8, 192.0.2.1`",
            ));
        }
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for net in &nets {
            match net {
                IpNet::V4(net) => v4.push(*net),
                IpNet::V6(net) => v6.push(*net),
            }
        }
        let ends4 = |net: Ipv4Net| (u32::from(net.network()), u32::from(net.broadcast()));
        let ends6 = |net: Ipv6Net| (u128::from(net.network()), u128::from(net.broadcast()));
        let v4 = Ipv4Net::aggregate(&v4).into_iter().map(ends4).collect();
        let v6 = Ipv6Net::aggregate(&v6).into_iter().map(ends6).collect();
        let mut all = Self { nets, v4, v6 };
        all.v4.sort_unstable();
        all.v6.sort_unstable();
        Ok(all)
    }

    /// The networks that are not routed on the internet: `127.0.0.0/8`, `10.0.0.0/8`,
    /// `172.16.0.0/12`, `192.168.0.0/16`, `169.254.0.0/16`, `::1`, `fc00::/7` and `fe80::/10`.
    ///
    /// Use it only if no client has such an address: a client in these networks would be treated as
    /// a proxy, and could claim any address.
    #[must_use]
    pub fn private() -> Self {
        let text = "127.0.0.0/8, 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 169.254.0.0/16, \
                    ::1, fc00::/7, fe80::/10";
        text.parse().unwrap_or_else(|_| unreachable!("the text above is a list of networks"))
    }

    /// True when one of the networks contains `address`.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(v4) => holds(&self.v4, u32::from(v4)),
            IpAddr::V6(v6) => holds(&self.v6, u128::from(v6)),
        }
    }
}

/// True when one of the sorted ranges contains `bits`.
fn holds<Bits: Ord + Copy>(ranges: &[(Bits, Bits)], bits: Bits) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= bits);
    after.checked_sub(1).and_then(|at| ranges.get(at)).is_some_and(|(_, last)| bits <= *last)
}

/// Converts an IPv4-mapped IPv6 network to the IPv4 network.
fn unmapped(net: IpNet) -> IpNet {
    let IpNet::V6(v6) = net else { return net };
    let mapped = Ipv6Addr::to_ipv4_mapped(&v6.network());
    let prefix = v6.prefix_len().checked_sub(96);
    match (mapped, prefix.map(|prefix| (mapped, prefix))) {
        (Some(v4), Some((_, prefix))) => Ipv4Net::new(v4, prefix).map_or(net, IpNet::V4),
        _ => net,
    }
}

impl FromStr for Networks {
    type Err = ParseError;

    /// Parses networks and addresses, separated by `,`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut nets = Vec::new();
        let mut start = 0;
        for part in text.split(',') {
            let word = part.trim();
            let at = start + (part.len() - part.trim_start().len());
            nets.push(read(word).map_err(|(what, remedy)| {
                ParseError::at(text, at..at + word.len(), what, remedy)
            })?);
            start += part.len() + 1;
            if nets.len() > MAX_NETWORKS {
                break;
            }
        }
        Self::new(nets)
    }
}

fn read(word: &str) -> Result<IpNet, (String, String)> {
    if let Ok(address) = word.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
    }
    let Ok(net) = word.parse::<IpNet>() else {
        return Err((
            "this is not a network".to_owned(),
            "write it as `10.0.0.0/8`, `2001:db8::/32` or `192.0.2.1`".to_owned(),
        ));
    };
    if net.trunc() != net {
        return Err((
            "this network has bits beyond its prefix".to_owned(),
            format!("write `{}` for the network, or `{}` for the address", net.trunc(), net.addr()),
        ));
    }
    Ok(net)
}

impl fmt::Display for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, net) in self.nets.iter().enumerate() {
            write!(f, "{}{net}", if index > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Networks({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_hold_what_they_say() {
        let text = "10.0.0.0/8, 10.1.0.0/16, 192.0.2.1, ::ffff:172.16.0.0/108, 2001:db8::/32";
        let networks: Networks = text.parse().unwrap();
        for (address, inside) in [
            ("10.0.0.0", true),
            ("10.255.255.255", true),
            ("9.255.255.255", false),
            ("11.0.0.0", false),
            ("192.0.2.1", true),
            ("192.0.2.0", false),
            ("172.16.0.1", true),
            ("172.31.255.255", true),
            ("172.32.0.0", false),
            ("::ffff:10.0.0.1", true),
            ("2001:db8::", true),
            ("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", true),
            ("2001:db9::", false),
            ("::", false),
        ] {
            assert_eq!(networks.contains(address.parse().unwrap()), inside, "{address}");
        }
        assert!(!"::/0".parse::<Networks>().unwrap().contains("1.2.3.4".parse().unwrap()));
        assert!("0.0.0.0/0".parse::<Networks>().unwrap().contains("1.2.3.4".parse().unwrap()));
        assert!(Networks::private().contains("172.31.0.1".parse().unwrap()));
        assert!(!Networks::private().contains("172.32.0.1".parse().unwrap()));
    }

    #[test]
    fn a_bad_network_is_pointed_at() {
        for (text, says) in [
            ("10.0.0.0/8, 10.0.0.1/8", "            ^^^^^^^^^^ write `10.0.0.0/8` for the network"),
            ("10.0.0.0/33", "^^^^^^^^^^^ write it as `10.0.0.0/8`"),
            ("all", "^^^ write it as"),
            ("", "this is not a network"),
            ("10.0.0.0/8,", "this is not a network"),
        ] {
            let error = text.parse::<Networks>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        assert!(Networks::new([]).is_err());
        let many = vec!["10.0.0.0/8"; MAX_NETWORKS + 1].join(",");
        assert!(many.parse::<Networks>().is_err());
    }
}

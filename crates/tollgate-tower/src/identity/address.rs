//! Parses addresses in headers, converts them to a canonical form, and groups them by network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use compact_str::{CompactString, format_compact};
use tollgate::ParseError;

/// The longest zone of an address that is accepted, in bytes: interface names are far shorter.
const MAX_ZONE_BYTES: usize = 64;

/// `64:ff9b::/96`: IPv4 addresses behind NAT64.
const NAT64: u128 = 0x0064_ff9b << 96;

/// The bits of an IPv6 address that distinguish clients: 32 to 128, by default 64.
///
/// ```
/// use tollgate_tower::identity::Ipv6Prefix;
/// assert_eq!(Ipv6Prefix::default(), Ipv6Prefix::new(64)?);
/// assert!(Ipv6Prefix::new(16).is_err());
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv6Prefix(u8);

impl Ipv6Prefix {
    /// A prefix of `bits`.
    ///
    /// # Errors
    /// Fewer than 32: networks of different providers would share a count. More than 128: an
    /// address has no more.
    pub fn new(bits: u8) -> Result<Self, ParseError> {
        if (32..=128).contains(&bits) {
            return Ok(Self(bits));
        }
        Err(ParseError::whole(
            &bits.to_string(),
            "an IPv6 prefix of this length tells no clients apart",
            "give 32 to 128 bits; one customer has a /64 at least, many have a /56 or a /48",
        ))
    }

    /// The bits.
    #[must_use]
    pub fn bits(self) -> u8 {
        self.0
    }
}

impl Default for Ipv6Prefix {
    fn default() -> Self {
        Self(64)
    }
}

/// Parses an address as in headers: with a port, in brackets, with a zone; no names, no shortened
/// or octal IPv4. The result is not canonical: see [`canonical`].
pub(super) fn parse(text: &[u8]) -> Option<IpAddr> {
    let text = core::str::from_utf8(text.trim_ascii()).ok()?;
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, after) = rest.split_once(']')?;
        if !after.is_empty() && !is_port(after.strip_prefix(':')?) {
            return None;
        }
        return Some(IpAddr::V6(parse_v6(inside)?));
    }
    let Some((host, port)) = text.split_once(':') else {
        return text.parse::<Ipv4Addr>().ok().map(IpAddr::V4);
    };
    if port.contains(':') {
        return Some(IpAddr::V6(parse_v6(text)?));
    }
    is_port(port).then(|| host.parse::<Ipv4Addr>().ok().map(IpAddr::V4))?
}

/// An IPv6 address, without its zone.
fn parse_v6(text: &str) -> Option<Ipv6Addr> {
    let Some((address, zone)) = text.split_once('%') else { return text.parse().ok() };
    let is_zone = !zone.is_empty()
        && zone.len() <= MAX_ZONE_BYTES
        && zone.bytes().all(|byte| byte.is_ascii_graphic());
    is_zone.then(|| address.parse().ok())?
}

/// True for a port, including one obfuscated as RFC 7239 allows: `_x`.
fn is_port(text: &str) -> bool {
    if let Some(hidden) = text.strip_prefix('_') {
        return !hidden.is_empty()
            && hidden.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    }
    let digits = (1..=5).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    digits && text.parse::<u16>().is_ok()
}

/// The canonical form of an address: IPv4-mapped IPv6 becomes IPv4. With `nat64`, so does NAT64.
pub(super) fn canonical(address: IpAddr, nat64: bool) -> IpAddr {
    let address = address.to_canonical();
    if let (true, IpAddr::V6(v6)) = (nat64, address) {
        let bits = u128::from(v6);
        if bits >> 32 == NAT64 >> 32 {
            let [.., a, b, c, d] = v6.octets();
            return IpAddr::V4(Ipv4Addr::new(a, b, c, d));
        }
    }
    address
}

/// The value that an address is counted by, as text: IPv4 unchanged, IPv6 as its network.
#[inline]
pub(super) fn group(address: IpAddr, prefix: Ipv6Prefix) -> CompactString {
    match address {
        IpAddr::V4(v4) => tollgate::ipv4_text(v4),
        IpAddr::V6(v6) => v6_text(v6, prefix),
    }
}

#[inline(never)]
fn v6_text(address: Ipv6Addr, prefix: Ipv6Prefix) -> CompactString {
    if prefix.0 == 128 {
        return format_compact!("{address}");
    }
    let host_bits = u32::from(128 - prefix.0);
    let network = Ipv6Addr::from(u128::from(address) & (u128::MAX << host_bits));
    format_compact!("{network}/{}", prefix.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_headers_write_them() {
        for (text, address) in [
            ("192.0.2.7", Some("192.0.2.7")),
            (" 192.0.2.7 ", Some("192.0.2.7")),
            ("192.0.2.7:567", Some("192.0.2.7")),
            ("192.0.2.7:_http", Some("192.0.2.7")),
            ("[2001:db8::1]:4711", Some("2001:db8::1")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("2001:DB8:0::1", Some("2001:db8::1")),
            ("fe80::1%eth0", Some("fe80::1")),
            ("[fe80::1%25eth0]:80", Some("fe80::1")),
            ("", None),
            ("unknown", None),
            ("_hidden", None),
            ("010.0.0.1", None),
            ("1.2.3", None),
            ("3232235777", None),
            ("0x7f000001", None),
            ("192.0.2.7:", None),
            ("192.0.2.7:65536", None),
            ("192.0.2.7:+80", None),
            ("192.0.2.7:x", None),
            ("192.0.2.7%eth0", None),
            ("[192.0.2.7]", None),
            ("[2001:db8::1", None),
            ("[2001:db8::1]4711", None),
            ("[2001:db8::1]:", None),
            ("fe80::1%", None),
            ("example.org", None),
            ("\u{661}.2.3.4", None),
        ] {
            let found = parse(text.as_bytes()).map(|a| a.to_string());
            assert_eq!(found.as_deref(), address, "{text:?}");
        }
        assert_eq!(parse(b"1.2.3.4\xff"), None);
        assert_eq!(parse(format!("fe80::1%{}", "x".repeat(65)).as_bytes()), None);
    }
}

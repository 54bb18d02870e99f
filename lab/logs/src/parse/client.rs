//! The address of a client.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::line::Reason;

/// The most characters that are shown of a value that is not an address.
const MAX_SHOWN: usize = 60;

/// The address of a client, and whether a proxy passed it on.
pub(super) type Client<'a> = (Cow<'a, [u8]>, bool);

/// The client of a request: its peer, unless that is a proxy in a private network that passed on
/// other addresses. `field` names the field with the peer.
///
/// # Errors
/// [`Reason::NotAddress`] for a text that is not an address, and [`Reason::NoClient`] without any.
pub(super) fn client<'a>(
    field: impl FnOnce() -> String,
    peer: Option<Cow<'a, [u8]>>,
    forwarded: impl FnOnce() -> Option<Cow<'a, [u8]>>,
) -> Result<Client<'a>, Reason> {
    let found = peer.as_ref().and_then(part);
    if let Some((client, ip)) = &found
        && !is_private_network(*ip)
    {
        return Ok((client.clone(), false));
    }
    let forwarded = forwarded().and_then(|text| part(&text));
    match (forwarded, found, peer) {
        (Some((client, _)), ..) => Ok((client, true)),
        (None, Some((client, _)), _) => Ok((client, false)),
        (None, None, Some(text)) => Err(Reason::NotAddress {
            field: field(),
            value: crate::text::printable(&text, MAX_SHOWN),
        }),
        (None, None, None) => Err(Reason::NoClient),
    }
}

/// The address in a text, borrowed where the text is.
fn part<'a>(text: &Cow<'a, [u8]>) -> Option<(Cow<'a, [u8]>, IpAddr)> {
    match text {
        Cow::Borrowed(text) => address(text).map(|(client, ip)| (Cow::Borrowed(client), ip)),
        Cow::Owned(text) => address(text).map(|(client, ip)| (Cow::Owned(client.to_vec()), ip)),
    }
}

/// The address in a text: alone, with a port or a zone, or in a list of those that proxies saw. In
/// a list it is the last one outside of private networks, since a client can write the others.
pub(super) fn address(text: &[u8]) -> Option<(&[u8], IpAddr)> {
    if memchr::memchr(b',', text).is_none() {
        return single(text);
    }
    let mut all = text.rsplit(|byte| *byte == b',').map(single);
    let last = all.next().flatten()?;
    if !is_private_network(last.1) {
        return Some(last);
    }
    let other = all.find_map(|found| found.filter(|(_, ip)| !is_private_network(*ip)));
    Some(other.unwrap_or(last))
}

/// One address, without its port, its brackets and its zone. Some servers log the port as well,
/// which differs for each connection.
fn single(text: &[u8]) -> Option<(&[u8], IpAddr)> {
    let text = text.trim_ascii();
    let whole = std::str::from_utf8(text).ok()?;
    if let Ok(ip) = whole.parse() {
        return Some((text, ip));
    }
    let bare = match whole.parse::<SocketAddr>() {
        Ok(_) => text.get(..memchr::memrchr(b':', text)?)?,
        Err(_) => text,
    };
    let bare = bare.strip_prefix(b"[").and_then(|it| it.strip_suffix(b"]")).unwrap_or(bare);
    let bare = bare.split(|byte| *byte == b'%').next().unwrap_or(bare);
    Some((bare, std::str::from_utf8(bare).ok()?.parse().ok()?))
}

/// Whether an address belongs to a private network (RFC 1918, 4193, 6598; loopback and link-local),
/// such as that of a proxy.
fn is_private_network(ip: IpAddr) -> bool {
    let is_v4 = |ip: Ipv4Addr| {
        let [a, b, ..] = ip.octets();
        ip.is_private()
            || ip.is_loopback()
            || ip.is_link_local()
            || ip.is_unspecified()
            || (a == 100 && b & 0xc0 == 64)
    };
    match ip {
        IpAddr::V4(ip) => is_v4(ip),
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => is_v4(ip),
            None => {
                ip.is_loopback()
                    || ip.is_unspecified()
                    || ip.is_unique_local()
                    || ip.is_unicast_link_local()
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(peer: Option<&str>, forwarded: Option<&str>) -> Result<(String, bool), Reason> {
        let cow = |text: &str| Cow::Owned(text.as_bytes().to_vec());
        let (text, is_forwarded) =
            client(|| "ip".to_owned(), peer.map(cow), || forwarded.map(cow))?;
        Ok((String::from_utf8(text.into_owned()).unwrap(), is_forwarded))
    }

    #[test]
    fn an_address_has_no_port_no_brackets_and_no_zone() {
        for (text, ip) in [
            ("1.2.3.4", Some("1.2.3.4")),
            ("1.2.3.4:5678", Some("1.2.3.4")),
            ("[2001:db8::1]:80", Some("2001:db8::1")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("fe80::1%eth0", Some("fe80::1")),
            ("::ffff:1.2.3.4", Some("::ffff:1.2.3.4")),
            ("9.9.9.9, 1.2.3.4, 10.0.0.1", Some("1.2.3.4")),
            ("10.0.0.2, 10.0.0.1", Some("10.0.0.1")),
            ("1.2.3.4, unknown", None),
            ("host.example:80", None),
            ("Nov", None),
            ("", None),
        ] {
            let found = address(text.as_bytes()).map(|(it, _)| it);
            assert_eq!(found, ip.map(str::as_bytes), "{text}");
        }
    }

    #[test]
    fn a_peer_within_is_a_proxy_if_it_passed_on_an_address() {
        for (peer, forwarded, client) in [
            (Some("1.2.3.4"), Some("9.9.9.9"), ("1.2.3.4", false)),
            (Some("10.0.0.1"), Some("9.9.9.9"), ("9.9.9.9", true)),
            (Some("10.0.0.1:77"), Some("-"), ("10.0.0.1", false)),
            (Some("::ffff:192.168.1.1"), Some("8.8.8.8, 10.0.0.7"), ("8.8.8.8", true)),
            (Some("100.64.0.1"), None, ("100.64.0.1", false)),
            (Some("fd00::1"), Some("2001:db8::1"), ("2001:db8::1", true)),
            (None, Some("2001:db8::1"), ("2001:db8::1", true)),
            (Some("unix:"), Some("9.9.9.9"), ("9.9.9.9", true)),
        ] {
            let expected = Ok((client.0.to_owned(), client.1));
            assert_eq!(of(peer, forwarded), expected, "{peer:?} {forwarded:?}");
        }
        let none = Reason::NotAddress { field: "ip".to_owned(), value: "Nov".to_owned() };
        assert_eq!(of(Some("Nov"), None), Err(none));
        assert_eq!(of(None, Some("x")), Err(Reason::NoClient));
    }
}

//! The client of a request, by the rules of `docs/identity.md`, where a server has the peer and the
//! headers as text.

use core::sync::atomic::{AtomicU8, Ordering};

use http::header::{FORWARDED, HeaderName};
use http::{HeaderMap, HeaderValue};
use tollgate_tower::identity::{AddressHeader, ClientAddress, Ipv6Prefix, Peers, Remark};

use crate::{Failure, Result};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The warning about a request without an address, which is refused.
const WITHOUT_ADDRESS: &str = "a request has no address of a client, as over a Unix socket, and \
                               gets a 503: name the proxies that you trust, or give `key`";

/// How to find a client, as a caller writes it.
#[derive(Clone, Copy, Default, Debug)]
pub struct ClientOptions<'o> {
    /// The proxies that are trusted: networks and addresses, with commas.
    pub proxies: Option<&'o str>,
    /// Their number, if they are counted.
    pub hops: Option<u64>,
    /// The one header that they write; without it `x-forwarded-for`.
    pub header: Option<&'o str>,
    /// The bits of an IPv6 address that tell clients apart; without it 64.
    pub ipv6_prefix: Option<u64>,
}

/// Finds the client of each request, and says once of each likely mistake that it meets.
#[derive(Debug)]
pub struct Clients {
    address: ClientAddress,
    /// The header that is read. Where none is, those that a proxy without trust may have sent.
    headers: Vec<HeaderName>,
    reads: bool,
    /// The warnings that were given, a bit for each.
    given: AtomicU8,
}

/// The client of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundClient {
    /// Its subject, such as `ip:192.0.2.7`. `None` if it has no address.
    pub subject: Option<String>,
    /// A likely mistake, the first time that it is met.
    pub warning: Option<String>,
}

impl Clients {
    /// Clients that are found in this way.
    ///
    /// # Errors
    /// An option with a value that is out of range.
    pub fn new(options: &ClientOptions<'_>) -> Result<Self> {
        let ClientOptions { proxies, hops, header, ipv6_prefix } = *options;
        let wrong = |name: &str| {
            let name = name.to_owned();
            move |error: tollgate::ParseError| Failure::argument(format!("{name}: {error}"))
        };
        let reads = proxies.is_some() || hops.is_some();
        if header.is_some() && !reads {
            return Err(Failure::argument(
                "header needs `proxies` or `hops`: a header counts only from a proxy that is trusted",
            ));
        }
        let name = header.unwrap_or("x-forwarded-for").to_ascii_lowercase();
        let header = name.parse::<AddressHeader>().map_err(wrong("header"))?;
        let networks = proxies.map(str::parse).transpose().map_err(wrong("proxies"))?;
        let address = match (networks, hops) {
            (None, None) => ClientAddress::peer(),
            (Some(networks), None) => ClientAddress::behind(networks, header),
            (networks, Some(hops)) => {
                let peers = networks.map_or(Peers::Any, Peers::Networks);
                // A number that is too large is refused like the largest.
                let hops = u8::try_from(hops).unwrap_or(u8::MAX);
                ClientAddress::behind_hops(hops, peers, header).map_err(wrong("hops"))?
            }
        };
        let bits = ipv6_prefix.map_or(Ok(Ipv6Prefix::default()), |bits| {
            Ipv6Prefix::new(u8::try_from(bits).unwrap_or(u8::MAX))
        });
        let address = address.ipv6_prefix(bits.map_err(wrong("ipv6_prefix"))?);
        let headers = match HeaderName::try_from(name) {
            Ok(header) if reads => vec![header],
            _ => vec![X_FORWARDED_FOR, FORWARDED],
        };
        Ok(Self { address, headers, reads, given: AtomicU8::new(0) })
    }

    /// How an address is found.
    pub fn address(&self) -> &ClientAddress {
        &self.address
    }

    /// The headers that [`Self::find`] has to see.
    pub fn headers(&self) -> &[HeaderName] {
        let is_warned = || {
            let untrusted = bit(Some(Remark::HeaderFromUntrustedPeer));
            self.given.load(Ordering::Relaxed) & untrusted != 0
        };
        // Without proxies a header is only a reason to warn.
        if !self.reads && is_warned() { &[] } else { &self.headers }
    }

    /// The client of a request. `peer` is the other end of the connection, with or without a port,
    /// and nothing at a Unix socket. `headers` may have more than [`Self::headers`], and several
    /// lines of one.
    pub fn find<'h>(
        &self,
        peer: Option<&str>,
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
    ) -> FoundClient {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let is_same =
                |header: &&HeaderName| name.eq_ignore_ascii_case(header.as_str().as_bytes());
            let Some(name) = self.headers.iter().find(is_same) else { continue };
            // A byte that no header can have is no part of an address. The entries behind it stay:
            // else a client could hide that of a proxy.
            let value: Vec<u8> = value.iter().map(|byte| readable(*byte)).collect();
            let value = HeaderValue::from_bytes(&value);
            map.append(name, value.unwrap_or(HeaderValue::from_static("unknown")));
        }
        let found = self.address.client_of(peer.filter(|peer| !peer.is_empty()), &map);
        let (subject, remark) = match &found {
            Some(client) => (Some(format!("ip:{}", client.text())), client.remark()),
            None => (None, None),
        };
        let is_clear = subject.is_some() && remark.is_none();
        let warning = (!is_clear && self.is_first(bit(remark))).then(|| match remark {
            Some(remark) => remark.to_string(),
            None => WITHOUT_ADDRESS.to_owned(),
        });
        FoundClient { subject, warning }
    }

    fn is_first(&self, bit: u8) -> bool {
        self.given.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }
}

/// The byte, or one that has its place where no header can have it.
fn readable(byte: u8) -> u8 {
    if (byte < 32 && byte != b'\t') || byte == 127 { b'?' } else { byte }
}

/// The bit of a warning.
fn bit(remark: Option<Remark>) -> u8 {
    match remark {
        None => 1,
        Some(Remark::HeaderFromUntrustedPeer) => 2,
        Some(Remark::NoHeader) => 4,
        Some(Remark::Unreadable) => 8,
        Some(Remark::OnlyProxies) => 16,
        Some(Remark::TooFewHops) => 32,
        Some(_) => 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `vectors/clients.txt`, which the packages read too.
    #[test]
    fn clients_are_found_as_the_vectors_state() {
        let text = include_str!("../../../vectors/clients.txt");
        let (mut clients, mut count) = (None, 0);
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(options) = line.strip_prefix("clients:") {
                clients = Some(made(options));
                continue;
            }
            let (request, subject) = line.split_once(" -> ").expect(line);
            let mut parts = request.split(" | ");
            let peer = parts.next().map(str::trim).filter(|peer| *peer != "none");
            let headers: Vec<_> = parts.map(|part| part.split_once(": ").expect(line)).collect();
            let headers = headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            let found = clients.as_ref().expect("clients: first").find(peer, headers);
            assert_eq!(found.subject.as_deref().unwrap_or("none"), subject, "{line}");
            count += 1;
        }
        assert!(count >= 40, "{count} clients");
    }

    /// `vectors/hostile.txt`, which the modules for Go and Java read too.
    #[test]
    fn nothing_that_a_client_sends_is_an_error() {
        let proxies = ClientOptions { proxies: Some("127.0.0.1"), ..ClientOptions::default() };
        let (clients, mut count) = (Clients::new(&proxies).unwrap(), 0);
        let text = include_str!("../../../vectors/hostile.txt");
        for line in text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())) {
            let (written, subject) = line.split_once(" -> ").expect(line);
            let (times, written) = written.split_once(' ').expect(line);
            let value: String = serde_json::from_str(written).expect(line);
            let value = value.repeat(times.parse().expect(line));
            let headers = [(&b"x-forwarded-for"[..], value.as_bytes())];
            let found = clients.find(Some("127.0.0.1"), headers.into_iter());
            assert_eq!(found.subject.as_deref(), Some(subject), "{line}");
            count += 1;
        }
        assert!(count >= 40, "{count} values");
    }

    fn made(text: &str) -> Clients {
        let mut options = ClientOptions::default();
        for option in text.split(';').map(str::trim).filter(|option| !option.is_empty()) {
            match option.split_once('=').expect(text) {
                ("proxies", value) => options.proxies = Some(value),
                ("header", value) => options.header = Some(value),
                ("hops", value) => options.hops = value.parse().ok(),
                ("ipv6_prefix", value) => options.ipv6_prefix = value.parse().ok(),
                other => panic!("{other:?}"),
            }
        }
        Clients::new(&options).expect(text)
    }

    #[test]
    fn each_mistake_is_said_once() {
        let clients = Clients::new(&ClientOptions::default()).unwrap();
        let find =
            |peer| clients.find(peer, [(&b"X-Forwarded-For"[..], &b"6.6.6.6"[..])].into_iter());
        assert_eq!(clients.headers().len(), 2);
        let warning = find(Some("10.0.0.1")).warning.unwrap();
        assert!(warning.contains("its peer is not a trusted proxy"), "{warning}");
        assert_eq!(find(Some("10.0.0.1")).warning, None);
        assert!(clients.headers().is_empty());
        let without = find(None);
        assert_eq!(without.subject, None);
        assert!(without.warning.unwrap().contains("503"));
        assert_eq!(find(Some("testclient")), FoundClient { subject: None, warning: None });
    }

    #[test]
    fn an_option_that_is_wrong_is_named() {
        let given = ClientOptions::default();
        for (options, start) in [
            (ClientOptions { proxies: Some("10.0.0.1/8"), ..given }, "proxies: "),
            (ClientOptions { hops: Some(0), ..given }, "hops: "),
            (ClientOptions { hops: Some(1 << 40), ..given }, "hops: "),
            (ClientOptions { ipv6_prefix: Some(16), ..given }, "ipv6_prefix: "),
            (ClientOptions { header: Some("forwarded"), ..given }, "header needs `proxies`"),
            (ClientOptions { proxies: Some("::1"), header: Some("a b"), ..given }, "header: "),
        ] {
            let error = Clients::new(&options).unwrap_err();
            assert!(error.what.starts_with(start), "{}", error.what);
        }
    }
}

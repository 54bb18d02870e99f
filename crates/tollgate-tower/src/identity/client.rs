//! The client's address: the peer, or the one that trusted proxies report, read from the right.

use core::fmt;
use std::net::{IpAddr, Ipv4Addr};

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName};
use tollgate::ParseError;

use super::address::{self, Ipv6Prefix};
use super::header::header_name;
use super::hops::{self, Syntax};
use super::network::Networks;
use super::text::Value;

/// The address of a peer at a Unix socket, for the networks that are trusted.
pub(crate) const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The most proxies that [`ClientAddress::behind_hops`] accepts.
pub const MAX_HOPS: u8 = 32;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
const CF_CONNECTING_IP: HeaderName = HeaderName::from_static("cf-connecting-ip");

/// The header in which proxies report the client's address.
///
/// There is exactly one: a proxy sets one such header, and a client can send the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressHeader {
    name: HeaderName,
    /// `None` for a header that contains one address.
    list: Option<Syntax>,
}

#[expect(non_upper_case_globals, reason = "they read as the headers they are")]
impl AddressHeader {
    /// `X-Forwarded-For: client, proxy`: each proxy appends the address it sees.
    pub const XForwardedFor: Self = Self { name: X_FORWARDED_FOR, list: Some(Syntax::Plain) };
    /// `Forwarded: for=client, for=proxy` (RFC 7239).
    pub const Forwarded: Self = Self { name: FORWARDED, list: Some(Syntax::Forwarded) };
    /// `X-Real-IP: client`: set by the proxy.
    pub const XRealIp: Self = Self { name: X_REAL_IP, list: None };
    /// `CF-Connecting-IP: client`: set by the proxy.
    pub const CfConnectingIp: Self = Self { name: CF_CONNECTING_IP, list: None };

    /// Another header in the format of `X-Forwarded-For`.
    ///
    /// # Errors
    /// An invalid name of a header.
    pub fn list(name: &str) -> Result<Self, ParseError> {
        Ok(Self { name: header_name(name)?, list: Some(Syntax::Plain) })
    }

    /// Another header that contains one address, like `X-Real-IP`. The proxy must set it, and not
    /// pass on the client's own.
    ///
    /// # Errors
    /// An invalid name of a header.
    pub fn single(name: &str) -> Result<Self, ParseError> {
        Ok(Self { name: header_name(name)?, list: None })
    }
}

/// `x-forwarded-for` and `forwarded` are lists; any other name is of a header that contains one
/// address ([`AddressHeader::single`]).
///
/// ```
/// use tollgate_tower::identity::AddressHeader;
/// assert_eq!("X-Forwarded-For".parse(), Ok(AddressHeader::XForwardedFor));
/// assert_eq!("Fly-Client-IP".parse(), AddressHeader::single("fly-client-ip"));
/// ```
impl core::str::FromStr for AddressHeader {
    type Err = ParseError;

    fn from_str(name: &str) -> Result<Self, ParseError> {
        let header = Self::single(name)?;
        let lists = [Self::XForwardedFor, Self::Forwarded];
        Ok(lists.into_iter().find(|it| it.name == header.name).unwrap_or(header))
    }
}

/// The peers whose header is trusted, if proxies are counted rather than named.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Peers {
    /// All peers. Use it only if nobody but your proxies can reach the server.
    Any,
    /// The peers in these networks.
    Networks(Networks),
}

/// How the client's address is determined, and which addresses count as one client. See
/// `docs/identity.md`.
///
/// ```
/// use http::HeaderMap;
/// use tollgate_tower::identity::{AddressHeader, ClientAddress};
///
/// let found = ClientAddress::behind("10.0.0.0/8".parse()?, AddressHeader::XForwardedFor);
/// let mut headers = HeaderMap::new();
/// headers.insert("x-forwarded-for", "6.6.6.6, 192.0.2.7, 10.1.1.1".parse()?);
/// assert_eq!(found.client("10.0.0.1".parse()?, &headers).text(), "192.0.2.7");
/// // A stranger's header counts for nothing.
/// assert_eq!(found.client("198.51.100.1".parse()?, &headers).text(), "198.51.100.1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientAddress {
    way: Way,
    prefix: Ipv6Prefix,
    nat64: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Way {
    Peer,
    Networks(Networks, AddressHeader),
    Hops { hops: u8, peers: Peers, name: HeaderName, syntax: Syntax },
}

impl ClientAddress {
    /// The peer of the connection: nothing that a client sends can change it.
    #[must_use]
    pub fn peer() -> Self {
        Self::new(Way::Peer)
    }

    /// Behind `proxies`: the first address from the right of the header that is not one of them.
    #[must_use]
    pub fn behind(proxies: Networks, header: AddressHeader) -> Self {
        Self::new(Way::Networks(proxies, header))
    }

    /// Behind `hops` proxies: the address at this position from the right of the header.
    ///
    /// # Errors
    /// A number of 0 or over [`MAX_HOPS`], or a header that is not a list.
    pub fn behind_hops(hops: u8, peers: Peers, header: AddressHeader) -> Result<Self, ParseError> {
        let AddressHeader { name, list } = header;
        if hops == 0 || hops > MAX_HOPS {
            return Err(ParseError::whole(
                &hops.to_string(),
                "this is not a number of proxies",
                format!("count 1 to {MAX_HOPS} of them, or take `ClientAddress::peer()`"),
            ));
        }
        let Some(syntax) = list else {
            return Err(ParseError::whole(
                name.as_str(),
                "this header holds one address: no proxies can be counted in it",
                "name the proxies by their networks, with `ClientAddress::behind`",
            ));
        };
        Ok(Self::new(Way::Hops { hops, peers, name, syntax }))
    }

    fn new(way: Way) -> Self {
        Self { way, prefix: Ipv6Prefix::default(), nat64: false }
    }

    /// Sets the prefix of an IPv6 address that distinguishes clients; the default is `/64`.
    #[must_use]
    pub fn ipv6_prefix(self, prefix: Ipv6Prefix) -> Self {
        Self { prefix, ..self }
    }

    /// Sets whether addresses in `64:ff9b::/96` count as the IPv4 addresses they contain. The
    /// default is no.
    #[must_use]
    pub fn nat64(self, unmap: bool) -> Self {
        Self { nat64: unmap, ..self }
    }

    /// The client of a request with these headers from `peer`. At most 32 entries of the header are
    /// read, of at most 512 bytes each.
    #[must_use]
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> Client {
        let client = self.client_unread(peer, headers);
        let unread = || headers.contains_key(X_FORWARDED_FOR) || headers.contains_key(FORWARDED);
        if self.way == Way::Peer && unread() {
            return Client { remark: Some(Remark::HeaderFromUntrustedPeer), ..client };
        }
        client
    }

    /// As `client`, but does not read headers that would be ignored: if only the peer counts, no
    /// header is read.
    #[inline]
    pub(crate) fn client_unread(&self, peer: IpAddr, headers: &HeaderMap) -> Client {
        let peer = address::canonical(peer, self.nat64);
        let (address, remark) = match &self.way {
            Way::Peer => (peer, None),
            Way::Networks(proxies, header) if !proxies.contains(peer) => {
                (peer, untrusted_header(headers, &header.name))
            }
            Way::Networks(_, AddressHeader { name, list: None }) => {
                self.single(peer, headers, name)
            }
            Way::Networks(proxies, AddressHeader { name, list: Some(syntax) }) => {
                let entries = hops::from_right(headers, name, *syntax);
                self.walk(peer, entries, |address, _| !proxies.contains(address))
            }
            Way::Hops { peers: Peers::Networks(peers), name, .. } if !peers.contains(peer) => {
                (peer, untrusted_header(headers, name))
            }
            Way::Hops { hops, name, syntax, .. } => {
                let entries = hops::from_right(headers, name, *syntax);
                let place = usize::from(*hops) - 1;
                let (address, remark) = self.walk(peer, entries, |_, at| at == place);
                let few = remark == Some(Remark::OnlyProxies);
                (address, if few { Some(Remark::TooFewHops) } else { remark })
            }
        };
        Client { address, remark, prefix: self.prefix }
    }

    /// The client of a request from a peer that the server has as text, with or without a port.
    /// `None` where the peer is no address. Without a peer, at a unix socket, it is the client that
    /// a header names, where this host is a trusted proxy.
    #[must_use]
    pub fn client_of(&self, peer: Option<&str>, headers: &HeaderMap) -> Option<Client> {
        let Some(peer) = peer else { return self.client_of_local(headers) };
        Some(self.client(address::parse(peer.as_bytes())?, headers))
    }

    /// The client of a request from a peer without an address, at a unix socket: the one that a
    /// header names, if that is read of this host. `None` where only the peer would be left.
    pub(crate) fn client_of_local(&self, headers: &HeaderMap) -> Option<Client> {
        if !self.trusts(LOCAL) {
            return None;
        }
        let client = self.client_unread(LOCAL, headers);
        let is_peer = match client.remark {
            Some(Remark::NoHeader) => true,
            Some(Remark::Unreadable) => client.address == LOCAL,
            _ => false,
        };
        (!is_peer).then_some(client)
    }

    /// The client's IPv4 address, if the peer is always the client and has an IPv4 address. Most
    /// requests need no more. `peer` is only called if the peer is the client.
    #[inline]
    pub(crate) fn plain_ipv4(&self, peer: impl FnOnce() -> Option<IpAddr>) -> Option<Ipv4Addr> {
        let Way::Peer = self.way else { return None };
        let IpAddr::V4(address) = peer()?.to_canonical() else { return None };
        Some(address)
    }

    /// True for a proxy whose headers are read.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        let peer = address::canonical(peer, self.nat64);
        match &self.way {
            Way::Peer => false,
            Way::Networks(proxies, _) => proxies.contains(peer),
            Way::Hops { peers: Peers::Any, .. } => true,
            Way::Hops { peers: Peers::Networks(peers), .. } => peers.contains(peer),
        }
    }

    /// Walks from proxy to proxy until `is_client` is true of an address and its position.
    fn walk(
        &self,
        peer: IpAddr,
        mut entries: impl Iterator<Item = Option<IpAddr>>,
        is_client: impl Fn(IpAddr, usize) -> bool,
    ) -> (IpAddr, Option<Remark>) {
        let mut last = peer;
        for place in 0..hops::MAX_ENTRIES {
            match entries.next() {
                None if place == 0 => return (last, Some(Remark::NoHeader)),
                None => return (last, Some(Remark::OnlyProxies)),
                Some(None) => return (last, Some(Remark::Unreadable)),
                Some(Some(address)) => last = address::canonical(address, self.nat64),
            }
            if is_client(last, place) {
                return (last, None);
            }
        }
        (last, Some(Remark::TooManyHops))
    }

    /// The address in a header that a trusted peer sets.
    fn single(
        &self,
        peer: IpAddr,
        headers: &HeaderMap,
        name: &HeaderName,
    ) -> (IpAddr, Option<Remark>) {
        let mut lines = headers.get_all(name).iter();
        let Some(line) = lines.next() else { return (peer, Some(Remark::NoHeader)) };
        let short = line.len() <= hops::MAX_ENTRY_BYTES && lines.next().is_none();
        match short.then(|| address::parse(line.as_bytes())).flatten() {
            Some(address) => (address::canonical(address, self.nat64), None),
            None => (peer, Some(Remark::Unreadable)),
        }
    }
}

impl Default for ClientAddress {
    fn default() -> Self {
        Self::peer()
    }
}

fn untrusted_header(headers: &HeaderMap, name: &HeaderName) -> Option<Remark> {
    headers.contains_key(name).then_some(Remark::HeaderFromUntrustedPeer)
}

/// An anomaly in finding the address. It is worth one log line, since the configuration is likely
/// wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Remark {
    /// The header is present, but the peer is not trusted: the peer is used.
    HeaderFromUntrustedPeer,
    /// The peer is trusted and sent no header: the peer is used.
    NoHeader,
    /// An entry is not an address: the last one before it is used.
    Unreadable,
    /// All entries are trusted: the leftmost is used.
    OnlyProxies,
    /// There are fewer entries than proxies: the leftmost is used.
    TooFewHops,
    /// There are more than 32 trusted entries: the last that was read is used.
    TooManyHops,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HeaderFromUntrustedPeer => {
                "a request names its client in a header, but its peer is not a trusted proxy: the \
                 peer's address counts. Is a proxy missing from the trusted networks?"
            }
            Self::NoHeader => {
                "a trusted proxy sent no header with its client's address: all clients behind it \
                 share one count. Does it write another header?"
            }
            Self::Unreadable => {
                "an entry of the header is not an address: the last proxy before it counts"
            }
            Self::OnlyProxies => {
                "all entries of the header are trusted proxies: the leftmost counts. Are clients \
                 within the trusted networks?"
            }
            Self::TooFewHops => {
                "the header has fewer entries than there should be proxies: the leftmost counts. \
                 Is the number of proxies right?"
            }
            Self::TooManyHops => {
                "the header has more than 32 trusted entries: the last that was read counts. Is \
                 there a loop of proxies?"
            }
        })
    }
}

/// The address of a client. Its `Debug` omits the address, which is personal data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Client {
    address: IpAddr,
    remark: Option<Remark>,
    prefix: Ipv6Prefix,
}

impl Client {
    /// The full address in canonical form: never IPv4-mapped IPv6.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The value that it is counted by: `192.0.2.7`, `2001:db8:0:1::/64`.
    #[must_use]
    pub fn value(&self) -> Value<'static> {
        self.group(self.prefix)
    }

    /// The value for another prefix, for a limit on `/48` besides one on `/64`.
    #[must_use]
    pub fn group(&self, prefix: Ipv6Prefix) -> Value<'static> {
        Value::short(address::group(self.address, prefix))
    }

    /// [`Client::value`] as a string.
    #[must_use]
    pub fn text(&self) -> String {
        address::group(self.address, self.prefix).into()
    }

    /// An anomaly in finding the address, if there was one.
    #[must_use]
    pub fn remark(&self) -> Option<Remark> {
        self.remark
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client(remark {:?})", self.remark)
    }
}

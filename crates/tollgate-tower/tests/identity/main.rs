//! The mistakes that others have made about the identity of a client, each by its name in
//! `docs/identity.md`; and bad input for every kind of identity.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue, Request, StatusCode};
use tollgate::{Limiter, Subject};
use tollgate_tower::answer::{Answers, Profile, Wire};
use tollgate_tower::identity::{
    AddressHeader, ApiKey, Case, ClientAddress, Hashing, Head, Identity, Ipv6Prefix, Peers, Remark,
    Why,
};

mod paths;

const PROXY: &str = "10.0.0.1";
const STRANGER: &str = "198.51.100.9";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap_or_else(|_| panic!("{text}"))
}

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in lines {
        let name: http::HeaderName = name.parse().unwrap();
        map.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    map
}

fn behind(header: AddressHeader) -> ClientAddress {
    ClientAddress::behind("10.0.0.0/8, 2001:db8:ffff::/48".parse().unwrap(), header)
}

/// The client, and any oddity.
fn found(way: &ClientAddress, peer: &str, lines: &[(&str, &str)]) -> (String, Option<Remark>) {
    let client = way.client(ip(peer), &headers(lines));
    (client.text(), client.remark())
}

/// The value of an identity as text, or why there is none.
fn value(identity: &Identity, request: &Request<()>) -> Result<String, Why> {
    let head = Head::new(request).with_peer(ip(STRANGER));
    identity.value(&head).map(|value| value.as_str().to_owned()).map_err(|missing| missing.why())
}

fn request(lines: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::new(());
    *request.headers_mut() = headers(lines);
    request
}

// ---- The table of docs/identity.md.

#[test]
fn spoofed_x_forwarded_for_from_a_stranger_counts_for_nothing() {
    for header in [
        AddressHeader::XForwardedFor,
        AddressHeader::Forwarded,
        AddressHeader::XRealIp,
        AddressHeader::CfConnectingIp,
    ] {
        let lines = [
            ("x-forwarded-for", "192.0.2.7"),
            ("forwarded", "for=192.0.2.7"),
            ("x-real-ip", "192.0.2.7"),
            ("cf-connecting-ip", "192.0.2.7"),
        ];
        let (text, remark) = found(&behind(header), STRANGER, &lines);
        assert_eq!((text.as_str(), remark), (STRANGER, Some(Remark::HeaderFromUntrustedPeer)));
    }
    let peer = ClientAddress::peer();
    let (text, remark) = found(&peer, STRANGER, &[("x-forwarded-for", "192.0.2.7")]);
    assert_eq!((text.as_str(), remark), (STRANGER, Some(Remark::HeaderFromUntrustedPeer)));
    assert_eq!(found(&peer, STRANGER, &[]).1, None);
    let peers = Peers::Networks("10.0.0.0/8".parse().unwrap());
    let hops = ClientAddress::behind_hops(1, peers, AddressHeader::XForwardedFor).unwrap();
    let (text, remark) = found(&hops, STRANGER, &[("x-forwarded-for", "192.0.2.7")]);
    assert_eq!((text.as_str(), remark), (STRANGER, Some(Remark::HeaderFromUntrustedPeer)));
}

#[test]
fn one_header_is_read_and_no_other() {
    let others = [
        ("x-real-ip", "6.6.6.6"),
        ("x-forwarded-for", "6.6.6.6"),
        ("cf-connecting-ip", "6.6.6.6"),
        ("x-client-ip", "6.6.6.6"),
        ("true-client-ip", "6.6.6.6"),
    ];
    let way = behind(AddressHeader::Forwarded);
    assert_eq!(found(&way, PROXY, &others), (PROXY.to_owned(), Some(Remark::NoHeader)));
    let lines = [&others[..], &[("forwarded", "for=192.0.2.7")]].concat();
    assert_eq!(found(&way, PROXY, &lines), ("192.0.2.7".to_owned(), None));
    let own = behind(AddressHeader::single("x-client-address").unwrap());
    let lines = [&others[..], &[("x-client-address", "192.0.2.8")]].concat();
    assert_eq!(found(&own, PROXY, &lines), ("192.0.2.8".to_owned(), None));
}

#[test]
fn a_proxy_that_sends_no_header_is_remarked() {
    for header in [AddressHeader::XForwardedFor, AddressHeader::XRealIp] {
        let (text, remark) = found(&behind(header), PROXY, &[]);
        assert_eq!((text.as_str(), remark), (PROXY, Some(Remark::NoHeader)));
    }
    let hops = ClientAddress::behind_hops(1, Peers::Any, AddressHeader::XForwardedFor).unwrap();
    assert_eq!(found(&hops, PROXY, &[]).1, Some(Remark::NoHeader));
}

#[test]
fn the_leftmost_entry_is_the_attackers() {
    let way = behind(AddressHeader::XForwardedFor);
    for lines in [
        &[("x-forwarded-for", "6.6.6.6, 192.0.2.7")][..],
        &[("x-forwarded-for", "6.6.6.6, 192.0.2.7, 10.0.0.2")],
        &[("x-forwarded-for", "6.6.6.6"), ("x-forwarded-for", "192.0.2.7, 10.0.0.2")],
        &[("x-forwarded-for", "6.6.6.6, 192.0.2.7"), ("x-forwarded-for", "10.0.0.2")],
        &[("x-forwarded-for", "10.0.0.3, 192.0.2.7")],
        &[("x-forwarded-for", "rubbish, \"x, 192.0.2.7:567 ,10.0.0.2:80")],
    ] {
        assert_eq!(found(&way, PROXY, lines), ("192.0.2.7".to_owned(), None), "{lines:?}");
    }
    let two = ClientAddress::behind_hops(2, Peers::Any, AddressHeader::XForwardedFor).unwrap();
    let lines = [("x-forwarded-for", "6.6.6.6, 192.0.2.7, 203.0.113.5")];
    assert_eq!(found(&two, PROXY, &lines), ("192.0.2.7".to_owned(), None));
}

#[test]
fn ipv4_mapped_clients_do_not_share_a_count() {
    let peer = ClientAddress::peer();
    let one = found(&peer, "::ffff:192.0.2.1", &[]).0;
    let other = found(&peer, "::ffff:192.0.2.2", &[]).0;
    assert_eq!((one.as_str(), other.as_str()), ("192.0.2.1", "192.0.2.2"));
}

#[test]
fn ipv4_mapped_in_any_notation_is_the_ipv4_address() {
    let way = behind(AddressHeader::XForwardedFor);
    for text in [
        "1.2.3.4",
        "1.2.3.4:80",
        "::ffff:1.2.3.4",
        "::FFFF:1.2.3.4",
        "::ffff:102:304",
        "::ffff:0102:0304",
        "0:0:0:0:0:ffff:102:304",
        "0000:0000:0000:0000:0000:ffff:1.2.3.4",
        "[::ffff:102:304]:80",
        "[::ffff:1.2.3.4%eth0]",
    ] {
        assert_eq!(found(&way, PROXY, &[("x-forwarded-for", text)]).0, "1.2.3.4", "{text}");
        // Trusted in one notation is trusted in all.
        let proxy = text.replace("1.2.3.4", "10.0.0.2").replace("102:304", "a00:2");
        let proxy = proxy.replace("0102:0304", "0a00:0002");
        let line = format!("192.0.2.7, {proxy}");
        assert_eq!(found(&way, PROXY, &[("x-forwarded-for", &line)]).0, "192.0.2.7", "{line}");
    }
    // An address that only looks like it stays IPv6.
    for (text, group) in [
        ("2001:db8::1.2.3.4", "2001:db8::/64"),
        ("::1.2.3.4", "::/64"),
        ("64:ff9b::1.2.3.4", "64:ff9b::/64"),
        ("::fffe:1.2.3.4", "::/64"),
    ] {
        assert_eq!(found(&way, PROXY, &[("x-forwarded-for", text)]).0, group);
    }
    let nat64 = way.nat64(true);
    assert_eq!(found(&nat64, PROXY, &[("x-forwarded-for", "64:ff9b::102:304")]).0, "1.2.3.4");
    assert_eq!(
        found(&nat64, PROXY, &[("x-forwarded-for", "64:ff9b:1::102:304")]).0,
        "64:ff9b:1::/64"
    );
}

#[test]
fn joined_identities_do_not_collide() {
    let (user, path) = (Identity::header("x-user").unwrap(), Identity::path(Case::Keep));
    let subject = |name: &str, uri: &str| {
        let request = Request::get(uri).header("x-user", name).body(()).unwrap();
        let head = Head::new(&request);
        let (user, path) = (user.value(&head).unwrap(), path.value(&head).unwrap());
        let parts = [("user", user.as_str().as_bytes()), ("path", path.as_str().as_bytes())];
        Subject::from_dimensions(parts).unwrap().to_string()
    };
    let all = [
        subject("a", "/b"),
        subject("a/b", "/"),
        subject("a,path:/b", "/"),
        subject("a%2Cpath:/b", "/"),
        subject("a", "/,user:b"),
        subject("a,user:b", "/"),
    ];
    for (index, one) in all.iter().enumerate() {
        assert!(!all[index + 1..].contains(one), "{one}");
    }
}

/// The user that something has authenticated.
#[derive(Clone)]
struct Principal(&'static str);

#[test]
fn a_stranger_is_not_counted_as_the_user_it_names() {
    let limiter = Limiter::memory("5/m via gcra".parse().unwrap());
    let user = Identity::own("the user", |head| {
        head.extensions().get::<Principal>().map(|principal| principal.0.to_owned())
    });
    // Refused logins: they name ann, but nobody is authenticated.
    for _ in 0..10 {
        let request = request(&[("authorization", "Basic YW5uOndyb25n"), ("x-user", "ann")]);
        assert_eq!(value(&user, &request), Err(Why::Absent));
    }
    let mut request = request(&[]);
    request.extensions_mut().insert(Principal("ann"));
    let name = value(&user, &request).unwrap();
    let decision = limiter.check(Subject::new("user", name).unwrap()).now().unwrap();
    assert_eq!(decision.remaining(), 4);
}

// ---- Each kind with bad input.

#[test]
fn an_entry_that_is_no_address_ends_the_walk_at_the_last_good_hop() {
    let way = behind(AddressHeader::XForwardedFor);
    for (line, client, remark) in [
        ("192.0.2.7, unknown", PROXY, Some(Remark::Unreadable)),
        ("192.0.2.7, unknown, 10.0.0.2", "10.0.0.2", Some(Remark::Unreadable)),
        ("192.0.2.7, _hidden, 10.0.0.3, 10.0.0.2", "10.0.0.3", Some(Remark::Unreadable)),
        ("10.0.0.9, 10.0.0.2", "10.0.0.9", Some(Remark::OnlyProxies)),
        ("unknown, 192.0.2.7, 10.0.0.2", "192.0.2.7", None),
        (" , ,", PROXY, Some(Remark::NoHeader)),
    ] {
        let (text, found) = found(&way, PROXY, &[("x-forwarded-for", line)]);
        assert_eq!((text.as_str(), found), (client, remark), "{line}");
    }
    let forwarded = behind(AddressHeader::Forwarded);
    for (line, client) in [
        ("for=unknown", PROXY),
        ("for=_abc, for=10.0.0.2", "10.0.0.2"),
        ("for=\"[2001:db8:cafe::17]:4711\";proto=https;by=203.0.113.43", "2001:db8:cafe::/64"),
        ("For=192.0.2.7;HOST=\"a,b\", fOR=\"[2001:db8:ffff::1]\"", "192.0.2.7"),
    ] {
        assert_eq!(found(&forwarded, PROXY, &[("forwarded", line)]).0, client, "{line}");
    }
}

#[test]
fn hops_are_counted_from_the_right() {
    let way = |hops| ClientAddress::behind_hops(hops, Peers::Any, AddressHeader::XForwardedFor);
    let line = [("x-forwarded-for", "1.1.1.1, 2.2.2.2"), ("x-forwarded-for", "3.3.3.3")];
    for (hops, client, remark) in [
        (1, "3.3.3.3", None),
        (2, "2.2.2.2", None),
        (3, "1.1.1.1", None),
        (4, "1.1.1.1", Some(Remark::TooFewHops)),
        (32, "1.1.1.1", Some(Remark::TooFewHops)),
    ] {
        let (text, found) = found(&way(hops).unwrap(), PROXY, &line);
        assert_eq!((text.as_str(), found), (client, remark), "{hops}");
    }
    for bad in [0, 33, 255] {
        assert!(way(bad).unwrap_err().to_string().contains("count 1 to 32"));
    }
    let error = ClientAddress::behind_hops(1, Peers::Any, AddressHeader::XRealIp).unwrap_err();
    assert!(error.to_string().contains("holds one address"), "{error}");
    assert!(AddressHeader::list("no name").is_err());
}

#[test]
fn a_header_for_one_address_holds_one() {
    let way = behind(AddressHeader::XRealIp);
    for (lines, client, remark) in [
        (&[("x-real-ip", "192.0.2.7")][..], "192.0.2.7", None),
        (&[("x-real-ip", " [2001:db8::1]:443 ")], "2001:db8::/64", None),
        (&[("x-real-ip", "6.6.6.6, 192.0.2.7")], PROXY, Some(Remark::Unreadable)),
        (&[("x-real-ip", "6.6.6.6"), ("x-real-ip", "192.0.2.7")], PROXY, Some(Remark::Unreadable)),
        (&[("x-real-ip", "")], PROXY, Some(Remark::Unreadable)),
    ] {
        let (text, found) = found(&way, PROXY, lines);
        assert_eq!((text.as_str(), found), (client, remark), "{lines:?}");
    }
}

#[test]
fn a_header_of_64_kib_is_read_at_its_right_end_only() {
    let way = behind(AddressHeader::XForwardedFor);
    let flood = "6.6.6.6, ".repeat(7_281);
    let line = format!("{flood}192.0.2.7, 10.0.0.2");
    assert_eq!(found(&way, PROXY, &[("x-forwarded-for", &line)]), ("192.0.2.7".to_owned(), None));
    let trusted = "10.0.0.2, ".repeat(6_553);
    let line = format!("192.0.2.7, {trusted}10.0.0.3");
    let (text, remark) = found(&way, PROXY, &[("x-forwarded-for", &line)]);
    assert_eq!((text.as_str(), remark), ("10.0.0.2", Some(Remark::TooManyHops)));
    let line = "7".repeat(65_536);
    assert_eq!(found(&way, PROXY, &[("x-forwarded-for", &line)]).1, Some(Remark::Unreadable));
    let way = behind(AddressHeader::XRealIp);
    assert_eq!(found(&way, PROXY, &[("x-real-ip", &line)]).1, Some(Remark::Unreadable));
    let way = behind(AddressHeader::Forwarded);
    let line = format!("for=\"{}", "\\\"".repeat(32_768));
    assert_eq!(found(&way, PROXY, &[("forwarded", &line)]).1, Some(Remark::Unreadable));
}

#[test]
fn ipv6_clients_count_by_their_network() {
    let peer = ClientAddress::peer();
    let client = peer.client(ip("2001:db8:1:2:3:4:5:6"), &HeaderMap::new());
    assert_eq!(client.text(), "2001:db8:1:2::/64");
    assert_eq!(client.address(), ip("2001:db8:1:2:3:4:5:6"));
    for (bits, text) in [
        (32, "2001:db8::/32"),
        (48, "2001:db8:1::/48"),
        (127, "2001:db8:1:2:3:4:5:6/127"),
        (128, "2001:db8:1:2:3:4:5:6"),
    ] {
        let prefix = Ipv6Prefix::new(bits).unwrap();
        assert_eq!(client.group(prefix).as_str(), text);
        let set = ClientAddress::peer().ipv6_prefix(prefix);
        assert_eq!(found(&set, "2001:db8:1:2:3:4:5:6", &[]).0, text);
    }
    assert!(Ipv6Prefix::new(31).is_err() && Ipv6Prefix::new(129).is_err());
    // The longest text of all.
    let long = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    let set = ClientAddress::peer().ipv6_prefix(Ipv6Prefix::new(127).unwrap());
    assert_eq!(found(&set, long, &[]).0, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127");
}

#[test]
fn header_values_that_are_repeated_huge_or_no_text_are_refused() {
    let user = Identity::header("x-user").unwrap();
    for (lines, why) in [
        (&[][..], Why::Absent),
        (&[("x-user", "")], Why::Absent),
        (&[("x-user", " \t")], Why::Absent),
        (&[("x-user", "a"), ("x-user", "b")], Why::Repeated),
        (&[("x-user", "a"), ("x-user", "a")], Why::Repeated),
    ] {
        assert_eq!(value(&user, &request(lines)), Err(why), "{lines:?}");
    }
    let just = "x".repeat(1_024);
    assert_eq!(value(&user, &request(&[("x-user", &just)])), Ok(just.clone()));
    for bytes in [1_025, 65_536] {
        let long = "x".repeat(bytes);
        let why = Why::TooLong { bytes, most: 1_024 };
        assert_eq!(value(&user, &request(&[("x-user", &long)])), Err(why));
    }
    let mut bytes = Request::new(());
    let latin = HeaderValue::from_bytes(b"caf\xe9").unwrap();
    bytes.headers_mut().insert("x-user", latin.clone());
    assert_eq!(value(&user, &bytes), Err(Why::NotText));
    // A key may be any bytes: it is hashed.
    let key = ApiKey::header("x-user", Hashing::plain_for_random_keys()).unwrap();
    assert_eq!(value(&Identity::api_key(key), &bytes).unwrap().len(), 32);
    for secret in ["authorization", "Cookie", "proxy-authorization", "no name"] {
        assert!(Identity::header(secret).is_err(), "{secret}");
    }
}

#[test]
fn an_api_key_is_one_key_however_it_is_written_and_never_shown() {
    let hashing = Hashing::keyed("0123456789abcdef0123456789abcdef").unwrap();
    let bearer = Identity::api_key(ApiKey::bearer(hashing.clone()));
    let hash = value(&bearer, &request(&[("authorization", "Bearer s3cr3t")])).unwrap();
    assert!(hash.len() == 32 && hash.bytes().all(|b| b.is_ascii_hexdigit()), "{hash}");
    for line in ["bearer s3cr3t", "BEARER  s3cr3t ", "Bearer\ts3cr3t"] {
        assert_eq!(
            value(&bearer, &request(&[("authorization", line)])),
            Ok(hash.clone()),
            "{line}"
        );
    }
    for line in ["Bearer S3cr3t", "Bearer s3cr3t x"] {
        assert_ne!(
            value(&bearer, &request(&[("authorization", line)])),
            Ok(hash.clone()),
            "{line}"
        );
    }
    for line in ["Basic s3cr3t", "Bearer", "Bearer ", "s3cr3t", "Bearers s3cr3t"] {
        assert_eq!(
            value(&bearer, &request(&[("authorization", line)])),
            Err(Why::Absent),
            "{line}"
        );
    }
    let own = Identity::api_key(ApiKey::header("x-api-key", hashing.clone()).unwrap());
    assert_eq!(value(&own, &request(&[("x-api-key", " s3cr3t ")])), Ok(hash.clone()));
    let long = "x".repeat(8_193);
    let why = Why::TooLong { bytes: 8_193, most: 8_192 };
    assert_eq!(value(&own, &request(&[("x-api-key", &long)])), Err(why));
    assert_eq!(
        value(&own, &request(&[("x-api-key", "a"), ("x-api-key", "b")])),
        Err(Why::Repeated)
    );
    // Another secret and no secret are other values.
    let other = Hashing::keyed("another secret, long enough").unwrap();
    let other = Identity::api_key(ApiKey::header("x-api-key", other).unwrap());
    let plain = Hashing::plain_for_random_keys();
    let plain = Identity::api_key(ApiKey::header("x-api-key", plain).unwrap());
    for identity in [&other, &plain] {
        assert_ne!(value(identity, &request(&[("x-api-key", "s3cr3t")])), Ok(hash.clone()));
    }
    assert!(ApiKey::header("Authorization", hashing).unwrap_err().to_string().contains("scheme"));
    let request = request(&[("x-api-key", "s3cr3t")]);
    let head = Head::new(&request).with_peer(ip(STRANGER));
    let shown = format!("{own:?} {head:?} {:?} {:?}", own.value(&head), own.value(&head).unwrap());
    assert!(!shown.contains("s3cr3t") && !shown.contains(&hash), "{shown}");
}

#[test]
fn a_function_of_ones_own_is_bounded_too() {
    let own = |text: Option<String>| Identity::own("the tenant", move |_| text.clone());
    assert_eq!(value(&own(Some("t1".to_owned())), &request(&[])).as_deref(), Ok("t1"));
    assert_eq!(value(&own(None), &request(&[])), Err(Why::Absent));
    assert_eq!(value(&own(Some(String::new())), &request(&[])), Err(Why::Absent));
    let long = own(Some("x".repeat(1_025)));
    assert_eq!(value(&long, &request(&[])), Err(Why::TooLong { bytes: 1_025, most: 1_024 }));
}

#[test]
fn what_is_missing_is_said_with_its_status() {
    let key = || ApiKey::bearer(Hashing::plain_for_random_keys());
    let header = ApiKey::header("x-api-key", Hashing::plain_for_random_keys()).unwrap();
    let user = Identity::header("x-user").unwrap();
    let twice = [("x-user", "a"), ("x-user", "b"), ("authorization", "a"), ("authorization", "b")];
    for (identity, lines, status, absent, says) in [
        (Identity::api_key(key()), &[][..], 401, true, "the bearer key is missing"),
        (Identity::api_key(key()), &twice, 400, false, "the bearer key is given several times"),
        (Identity::api_key(header), &[], 400, true, "the API key in `x-api-key` is missing"),
        (user.clone(), &[], 400, true, "the header `x-user` is missing"),
        (user, &twice, 400, false, "the header `x-user` is given several times: give it once"),
        (Identity::route(), &[], 404, true, "no route matches this request"),
        (Identity::client(ClientAddress::peer()), &[], 503, true, "the client's address is not"),
        (Identity::own("a \"b\"", |_| None), &[], 400, true, "`a \"b\"` is missing"),
    ] {
        let request = request(lines);
        let missing = identity.value(&Head::new(&request)).unwrap_err();
        assert_eq!((missing.status().as_u16(), missing.is_absent()), (status, absent), "{says}");
        assert!(missing.to_string().starts_with(says), "{missing}");
        let response = Answers::new(Profile::Draft).missing(Wire::Http, &missing);
        assert_eq!(response.status().as_u16(), status);
        let asks = response.headers().get("www-authenticate");
        assert_eq!(asks.is_some(), response.status() == StatusCode::UNAUTHORIZED);
        assert!(response.headers().get("retry-after").is_none());
        let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert!(body["detail"].as_str().unwrap().starts_with(says));
        assert_eq!(body["status"], status);
        let grpc = Answers::default().missing(Wire::Grpc, &missing);
        let code = match status {
            401 => "16",
            404 => "12",
            503 => "14",
            _ => "3",
        };
        assert_eq!(grpc.headers()["grpc-status"], code);
    }
    let at_home = Identity::client(ClientAddress::default());
    assert_eq!(value(&at_home, &request(&[])).as_deref(), Ok(STRANGER));
}

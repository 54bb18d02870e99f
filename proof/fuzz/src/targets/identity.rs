//! The client that a request claims to be, and its path: one reading, whatever else was written.

use std::net::IpAddr;

use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use http::{HeaderMap, Request};
use tollgate_tower::identity::{
    AddressHeader, ApiKey, Case, ClientAddress, EscapedSlashes, Hashing, Head, Identity,
    MAX_VALUE_BYTES, PathParameters, PathReading, Peers,
};

use super::text;

/// The address that our proxy sees, and its form in each of the two headers.
const SEEN: &str = "198.51.100.77";
const FORWARDED_SEEN: &str = "for=\"198.51.100.77:4711\";host=\"a, b\"";

/// Lines of headers. The first letter of a line says which header it is of, the rest is its value.
pub(crate) fn headers(data: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n') {
        let Some((letter, value)) = line.split_first() else { continue };
        let name = match letter {
            b'f' => "forwarded",
            b'r' => "x-real-ip",
            b'a' => "authorization",
            b'k' => "x-api-key",
            b'u' => "x-user",
            _ => "x-forwarded-for",
        };
        let Ok(value) = HeaderValue::from_bytes(value) else { continue };
        headers.append(HeaderName::from_static(name), value);
    }
    let proxy: IpAddr = "10.0.0.1".parse().unwrap();
    let lists = [
        (AddressHeader::XForwardedFor, "x-forwarded-for", SEEN),
        (AddressHeader::Forwarded, "forwarded", FORWARDED_SEEN),
    ];
    for (header, name, seen) in lists {
        let networks = ClientAddress::behind("10.0.0.0/8".parse().unwrap(), header.clone());
        let hops = ClientAddress::behind_hops(1, Peers::Any, header.clone()).unwrap();
        for way in [&networks, &hops] {
            is_one_reading(way, proxy, &headers);
            is_as_the_proxy_saw(way, proxy, &headers, name, seen);
        }
        strangers_count_as_themselves(&networks, &headers);
    }
    let single = ClientAddress::behind("10.0.0.0/8".parse().unwrap(), AddressHeader::XRealIp);
    is_one_reading(&single, proxy, &headers);
    strangers_count_as_themselves(&single, &headers);
    keys(&headers);
}

/// An address has one form, and its subject is its network.
fn is_one_reading(way: &ClientAddress, peer: IpAddr, headers: &HeaderMap) {
    let client = way.client(peer, headers);
    let address = client.address();
    assert_eq!(address, address.to_canonical());
    assert_eq!(client.text(), client.value().as_str());
    match address {
        IpAddr::V4(_) => assert_eq!(client.text(), address.to_string()),
        IpAddr::V6(_) => assert!(client.text().ends_with("::/64")),
    }
    assert_eq!(way.client(peer, headers), client, "the same headers name the same client");
}

/// The entry of our proxy at the right counts, whatever the client wrote to the left of it: in the
/// same line, or in another one.
fn is_as_the_proxy_saw(
    way: &ClientAddress,
    proxy: IpAddr,
    headers: &HeaderMap,
    name: &'static str,
    seen: &str,
) {
    let mut apart = headers.clone();
    apart.append(name, HeaderValue::from_str(seen).unwrap());
    assert_eq!(way.client(proxy, &apart).text(), SEEN);
    let Some(last) = headers.get_all(name).iter().next_back() else { return };
    let mut joined = headers.clone();
    let line = [last.as_bytes(), b", ", seen.as_bytes()].concat();
    joined.insert(name, HeaderValue::from_bytes(&line).unwrap());
    assert_eq!(way.client(proxy, &joined).text(), SEEN);
}

/// A peer that is not our proxy is the client, whatever it writes.
fn strangers_count_as_themselves(way: &ClientAddress, headers: &HeaderMap) {
    let stranger: IpAddr = "203.0.113.9".parse().unwrap();
    assert_eq!(way.client(stranger, headers).address(), stranger);
    assert_eq!(ClientAddress::peer().client(stranger, headers).address(), stranger);
}

/// A key is a hash without the blanks around it, and a header's value is bounded.
fn keys(headers: &HeaderMap) {
    let mut request = Request::new(());
    *request.headers_mut() = headers.clone();
    let head = Head::new(&request);
    let hashing = Hashing::plain_for_random_keys();
    let bearer = ApiKey::bearer(hashing.clone());
    let own = ApiKey::header("x-api-key", hashing).unwrap();
    for (key, name) in [(&bearer, AUTHORIZATION), (&own, HeaderName::from_static("x-api-key"))] {
        let Ok(value) = key.value(headers) else { continue };
        let text = value.as_str();
        assert!(text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')));
        let mut padded = headers.clone();
        let line = [b"\t ", headers[&name].as_bytes().trim_ascii(), b" "].concat();
        padded.insert(&name, HeaderValue::from_bytes(&line).unwrap());
        // There may be too many blanks; then there is no key, and not another one.
        assert!(key.value(&padded).is_ok_and(|again| again == value) || line.len() > 8_192);
    }
    for user in
        [Identity::header("x-user").unwrap(), Identity::header("x-user").unwrap().lowercase()]
    {
        match user.value(&head) {
            Ok(value) => {
                let text = value.as_str();
                assert!(!text.is_empty() && text == text.trim_ascii());
                // A letter may be longer in lower case, by half at most.
                assert!(text.len() <= MAX_VALUE_BYTES * 3 / 2);
            }
            Err(missing) => assert!(!missing.to_string().is_empty()),
        }
    }
}

/// A path that is read has one form, which no other spelling of it escapes.
pub(crate) fn path(data: &[u8]) {
    let path = text(data);
    let strict = PathReading::default();
    let kept = strict.escaped_slashes(EscapedSlashes::Keep).parameters(PathParameters::Keep);
    let loose = strict.escaped_slashes(EscapedSlashes::Unescape).parameters(PathParameters::Strip);
    for reading in [strict, kept, loose] {
        for reading in [reading, reading.case(Case::Fold)] {
            let Ok(form) = reading.read(path) else { continue };
            assert_eq!(reading.read(&form).as_ref(), Ok(&form), "the form of a form is itself");
            assert!(form.starts_with('/') || form == "*");
            assert!(!form.contains("//") && form.is_ascii());
            assert!(form.split('/').all(|segment| segment != "." && segment != ".."));
            assert!(form.len() <= 3 * path.len() + 1);
            assert!(form == "/" || !form.ends_with('/'));
            assert_eq!(reading.read(&escaped(&form)).as_ref(), Ok(&form), "it is the same path");
        }
        let folding = reading.case(Case::Fold);
        if let Ok(form) = reading.read(path) {
            assert_eq!(folding.read(&form), folding.read(path), "folded before or after");
        }
    }
    // A value that the strict one takes has no other reading.
    if let Ok(form) = strict.read(path) {
        assert_eq!(kept.read(path).as_ref(), Ok(&form));
        assert_eq!(loose.read(path).as_ref(), Ok(&form));
    }
}

/// Every byte of a form that needs no escape gets one, in lower case.
fn escaped(form: &str) -> String {
    if form == "*" {
        return form.to_owned();
    }
    let mut out = String::new();
    let mut bytes = form.chars();
    while let Some(next) = bytes.next() {
        match next {
            '/' => out.push('/'),
            '%' => {
                out.push('%');
                out.extend(bytes.by_ref().take(2).map(|digit| digit.to_ascii_lowercase()));
            }
            plain => out.push_str(&format!("%{:02x}", u32::from(plain))),
        }
    }
    out
}

//! Properties for every input: no parser panics, the left of a header changes nothing, and one
//! address is one subject in any notation.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{HeaderMap, HeaderValue, Request};
use proptest::prelude::*;
use tollgate_tower::answer::Wire;
use tollgate_tower::identity::{
    AddressHeader, ApiKey, Case, ClientAddress, EscapedSlashes, Hashing, Head, Identity, Networks,
    PathParameters, PathReading, Peers,
};

const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

fn networks() -> Networks {
    "10.0.0.0/8, 2001:db8:ffff::/48".parse().unwrap()
}

/// Lines that a header may have, with the parts that parsers look at.
fn line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[0-9a-f:.,\\[\\]%\" ;=\\\\_]{0,80}".prop_map(String::into_bytes),
        "(for=|For=\"|by=|;|,|\"|\\\\|\\[|\\]|:|10\\.0\\.0\\.2|::1|unknown|_x| |\t){0,40}"
            .prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..80),
        (prop::sample::select(&b",\"\\;:=[ 1\x80"[..]), 1usize..70_000)
            .prop_map(|(b, n)| vec![b; n]),
    ]
}

fn append(headers: &mut HeaderMap, name: &'static str, bytes: &[u8]) {
    let bytes: Vec<u8> =
        bytes.iter().copied().filter(|b| *b == b'\t' || (*b >= 32 && *b != 127)).collect();
    headers.append(name, HeaderValue::from_bytes(&bytes).unwrap());
}

/// An address in many notations.
fn notations(address: IpAddr) -> Vec<String> {
    let v6 = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let segments = v6.segments();
    let full: Vec<String> = segments.iter().map(|s| format!("{s:04X}")).collect();
    let short: Vec<String> = segments.iter().map(|s| format!("{s:x}")).collect();
    let [.., a, b, c, d] = v6.octets();
    let dotted = format!("{}:{a}.{b}.{c}.{d}", short[..6].join(":"));
    let mut all = vec![v6.to_string(), full.join(":"), short.join(":"), dotted];
    all.extend(all.clone().iter().map(|text| format!("[{text}]:443")));
    all.extend(all.clone().iter().filter(|t| !t.starts_with('[')).map(|t| format!("{t}%eth0")));
    if let IpAddr::V4(v4) = address {
        all.extend([v4.to_string(), format!("{v4}:80")]);
    }
    all
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from(bits))),
        any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from(bits))),
        (0u128..1 << 34).prop_map(|bits| IpAddr::V6(Ipv6Addr::from(bits | 0xffff_0000_0000))),
    ]
}

/// A client that is not a proxy.
fn stranger() -> impl Strategy<Value = Ipv4Addr> {
    any::<u32>().prop_map(Ipv4Addr::from).prop_filter("no proxy", |ip| ip.octets()[0] != 10)
}

/// The headers that parsers look at.
const READ: [&str; 6] =
    ["x-forwarded-for", "forwarded", "x-real-ip", "x-user", "authorization", "content-type"];

/// Paths made of parts that servers read differently, and of parts that they do not.
fn spelled_path() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => Just("/"),
        8 => prop::sample::select(vec!["a", "Login", "%41", "%6c", "%C3%a9", "\u{e9}", " ", "="]),
        3 => prop::sample::select(vec![".", "%2e", "%2E"]),
        2 => prop::sample::select(vec!["%", "%2", "%zz", "%25", "%252f", "%25%32%66", "%252e"]),
        1 => prop::sample::select(vec!["%2f", "%2F", "\\", "%5c", "%5C", ";", "%3b", "%00", "\0"]),
    ];
    let pieces = prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat());
    prop_oneof![4 => pieces, 1 => ".{0,20}".prop_map(String::from)]
}

/// Decodes escapes, once, by their definition.
fn decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        let digits = after.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        match digits.filter(|_| *byte == b'%') {
            Some(digits) => {
                let digits = core::str::from_utf8(digits).unwrap();
                out.push(u8::from_str_radix(digits, 16).unwrap());
                rest = &after[2..];
            }
            None => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    out
}

/// The segments, without empty ones; of dots none when they are resolved.
fn segments(path: &[u8], resolved: bool) -> Vec<Vec<u8>> {
    let mut segments = Vec::new();
    for segment in path.split(|byte| *byte == b'/') {
        match segment {
            b"" => {}
            b"." if resolved => {}
            b".." if resolved => drop(segments.pop()),
            other => segments.push(other.to_vec()),
        }
    }
    segments
}

/// As a server reads it that keeps all it can: segments first, then their escapes.
fn keeping(path: &str) -> Vec<Vec<u8>> {
    segments(path.as_bytes(), false).iter().map(|segment| decoded(segment)).collect()
}

/// As one reads it that makes of it what it can: escapes first, up to a zero byte; backslashes are
/// slashes, parameters nothing, dots resolved.
fn decoding(path: &str) -> Vec<Vec<u8>> {
    let decoded = decoded(path.as_bytes());
    let text = decoded.split(|byte| *byte == 0).next().unwrap();
    let slashed: Vec<u8> =
        text.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }).collect();
    let cut: Vec<&[u8]> = slashed
        .split(|byte| *byte == b'/')
        .map(|segment| segment.split(|byte| *byte == b';').next().unwrap())
        .collect();
    segments(&cut.join(&b'/'), true)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn whatever_stands_left_of_the_proxys_entry_changes_nothing(
        left in prop::collection::vec(line(), 0..4),
        client in stranger(),
        own_line in any::<bool>(),
    ) {
        let forwarded = [
            (AddressHeader::XForwardedFor, "x-forwarded-for", format!("{client}")),
            (AddressHeader::Forwarded, "forwarded", format!("for={client};proto=http")),
            (
                AddressHeader::Forwarded,
                "forwarded",
                format!("by=x;for=\"{client}:80\";host=\"a,\\\"b\""),
            ),
        ];
        for (header, name, entry) in forwarded {
            let (mut headers, mut last) = (HeaderMap::new(), Vec::new());
            for (index, text) in left.iter().enumerate() {
                // A proxy adds a line, or lengthens the last one.
                if index + 1 < left.len() || own_line {
                    append(&mut headers, name, text);
                } else {
                    last = [text.as_slice(), b", "].concat();
                }
            }
            append(&mut headers, name, &[last.as_slice(), entry.as_bytes()].concat());
            let behind = ClientAddress::behind(networks(), header.clone());
            let hops = ClientAddress::behind_hops(1, Peers::Any, header).unwrap();
            for way in [behind, hops] {
                let found = way.client(PROXY, &headers);
                prop_assert_eq!(found.text(), client.to_string());
                prop_assert_eq!(found.remark(), None);
            }
        }
    }

    #[test]
    fn one_address_is_one_subject_in_any_notation(address in address(), nat64 in any::<bool>()) {
        let way = |header| ClientAddress::behind(networks(), header).nat64(nat64);
        let direct = ClientAddress::peer().nat64(nat64);
        let expected = direct.client(address, &HeaderMap::new()).text();
        for text in notations(address) {
            let mut headers = HeaderMap::new();
            append(&mut headers, "x-forwarded-for", text.as_bytes());
            append(&mut headers, "x-real-ip", text.as_bytes());
            append(&mut headers, "forwarded", format!("for=\"{text}\"").as_bytes());
            for header in
                [AddressHeader::XForwardedFor, AddressHeader::XRealIp, AddressHeader::Forwarded]
            {
                let found = way(header).client(PROXY, &headers);
                prop_assert_eq!(found.text(), expected.clone(), "{}", text);
            }
        }
    }

    #[test]
    fn no_header_makes_a_parser_panic(
        lines in prop::collection::vec(line(), 0..4),
        peer in address(),
    ) {
        let mut request = Request::new(());
        for line in &lines {
            for name in READ {
                append(request.headers_mut(), name, line);
            }
        }
        let head = Head::new(&request).with_peer(peer);
        let hashing = Hashing::plain_for_random_keys;
        let all: Networks = "0.0.0.0/0, ::/0".parse().unwrap();
        let mut identities = vec![
            Identity::header("x-user").unwrap(),
            Identity::header("x-user").unwrap().lowercase(),
            Identity::api_key(ApiKey::bearer(hashing())),
            Identity::api_key(ApiKey::header("x-user", hashing()).unwrap()),
        ];
        for header in
            [AddressHeader::XForwardedFor, AddressHeader::Forwarded, AddressHeader::XRealIp]
        {
            identities.push(Identity::client(ClientAddress::behind(all.clone(), header)));
        }
        for identity in &identities {
            match identity.value(&head) {
                // Lower case may be longer than what it is of.
                Ok(value) => prop_assert!((1..=3 * 1_024).contains(&value.as_str().len())),
                Err(missing) => prop_assert!(!missing.to_string().is_empty()),
            }
        }
        let _ = Wire::from_headers(request.headers());
    }

    #[test]
    fn a_path_in_its_one_form_stays_as_it_is(path in spelled_path(), kept in any::<bool>()) {
        for case in [Case::Keep, Case::Fold] {
            let mut reading = PathReading::from(case);
            if kept {
                reading = reading.escaped_slashes(EscapedSlashes::Keep);
                reading = reading.parameters(PathParameters::Keep);
            }
            let Ok(form) = reading.read(&path) else { continue };
            prop_assert_eq!(reading.read(&form), Ok(std::borrow::Cow::Borrowed(&*form)));
            prop_assert!(form == "*" || form.starts_with('/'));
            prop_assert!(form.len() <= 3 * path.len() + 1);
            prop_assert!(form == "/" || !form.ends_with('/'));
            prop_assert!(!form.contains("//") && form.is_ascii());
            prop_assert!(!form.split('/').any(|segment| segment == "." || segment == ".."));
        }
    }

    /// A path is accepted exactly when its two extreme readings are the same, and its form is that
    /// reading.
    #[test]
    fn no_accepted_path_has_two_readings(path in spelled_path()) {
        prop_assume!(path != "*");
        let (keeping, decoding) = (keeping(&path), decoding(&path));
        match PathReading::default().read(&path) {
            Ok(form) => {
                prop_assert_eq!(&keeping, &decoding, "{} {}", path, form);
                prop_assert_eq!(self::keeping(&form), keeping, "{} {}", path, form);
            }
            Err(_) => prop_assert_ne!(keeping, decoding, "{}", path),
        }
    }

    /// Under the other settings a form is the reading of the servers that they are for.
    #[test]
    fn each_setting_reads_as_the_servers_that_it_is_for(path in spelled_path()) {
        prop_assume!(path != "*");
        let strict = PathReading::default();
        let kept = strict.escaped_slashes(EscapedSlashes::Keep).parameters(PathParameters::Keep);
        if let Ok(form) = kept.read(&path) {
            prop_assert_eq!(keeping(&form), keeping(&path), "{} {}", path, form);
        }
        let unescaped = strict.escaped_slashes(EscapedSlashes::Unescape);
        if let Ok(form) = unescaped.read(&path) {
            let decoded = segments(&decoded(path.as_bytes()), false);
            prop_assert_eq!(keeping(&form), decoded, "{} {}", path, form);
        }
        let stripped = strict.parameters(PathParameters::Strip);
        if let Ok(form) = stripped.read(&path) {
            let cut: Vec<&str> =
                path.split('/').map(|segment| segment.split(';').next().unwrap()).collect();
            prop_assert_eq!(keeping(&form), keeping(&cut.join("/")), "{} {}", path, form);
        }
    }

    #[test]
    fn no_text_makes_networks_panic(text in "[0-9a-f:./, ]{0,60}") {
        if let Ok(networks) = text.parse::<Networks>() {
            prop_assert_eq!(networks.to_string().parse::<Networks>().unwrap(), networks);
        }
    }
}

proptest! {
    /// The check of policy files accepts the paths that this front gives under some setting. A
    /// pattern in that form is fine, with a warning where it takes a setting; any other could never
    /// match and is an error.
    #[test]
    fn policy_files_know_the_form_of_a_path(
        path in prop_oneof!["/[a-zA-Z0-9./%~ +;-]{0,24}", "/(/|\\.|%2[fF]|%5C|;|%00|a|%3B|%2E){0,9}"],
    ) {
        use tollgate_policy::{Format, Policies};
        let read = |path: &str| {
            // A path may come to have a quote in it: %27 is one.
            let path = path.replace('\\', "\\\\").replace('"', "\\\"");
            let text = format!(
                "version = 1\n[[policies]]\nname = \"p\"\non_failure = \"deny\"\n\
                 when = {{ path = \"{path}\" }}\nlimits = [{{ subject = \"ip\", limit = \"1/s\" }}]"
            );
            Policies::parse(&text, Format::Toml)
        };
        let strict = PathReading::default();
        let kept = strict.escaped_slashes(EscapedSlashes::Keep).parameters(PathParameters::Keep);
        let Ok(form) = kept.read(&path) else {
            prop_assert!(read(&path).is_err(), "{}", path);
            return Ok(());
        };
        // %2a is a star, which means something in a pattern.
        prop_assume!(!form.contains('*'));
        let warned = read(&form).expect(&form).warnings().iter().count() > 0;
        prop_assert_eq!(warned, strict.read(&form).is_err(), "{}", form);
        prop_assert_eq!(read(&path).is_err(), form != path, "{} {}", path, form);
    }
}

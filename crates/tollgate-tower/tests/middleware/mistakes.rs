//! The mistakes of `docs/mistakes.md`, each reported once, and the answers meanwhile.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use http::{Request, StatusCode};
use tollgate::{MemoryStore, Store};
use tollgate_policy::{Field, Gate};
use tollgate_tower::identity::{AddressHeader, Case, ClientAddress, Identity, Peers, Remark};
use tollgate_tower::{Builder, Misconfiguration, TollgateLayer, UnixPeer};

use crate::common::{from, gate, policies, send, status};

type Reported = Arc<Mutex<Vec<Misconfiguration>>>;

const PER_IP: &str = r#"
    [[policies]]
    name = "ip"
    on_failure = "deny"
    limits = [{ subject = "ip", limit = "10/h" }]
"#;

const PER_USER: &str = r#"
    [[policies]]
    name = "user"
    on_failure = "deny"
    limits = [{ subject = "user", limit = "10/h", absent = "skip" }]
"#;

/// A builder over these policies that writes down what it reports.
fn reporting(toml: &str) -> (Builder<MemoryStore>, Reported) {
    let (gate, _) = gate(policies(toml));
    let reported = Reported::default();
    (listened(TollgateLayer::builder(gate), &reported), reported)
}

fn listened<S: Store + 'static>(builder: Builder<S>, reported: &Reported) -> Builder<S> {
    let reported = Arc::clone(reported);
    builder.on_misconfiguration(move |mistake| reported.lock().unwrap().push(mistake.clone()))
}

fn served(layer: TollgateLayer<impl Store + 'static>) -> Router {
    Router::new().route("/", get(|| async { "hello" })).layer(layer)
}

fn taken(reported: &Reported) -> Vec<Misconfiguration> {
    std::mem::take(&mut reported.lock().unwrap())
}

#[tokio::test]
async fn layered_twice_is_one_decision_and_reported_once() {
    let (builder, reported) = reporting(PER_IP);
    let layer = builder.build().unwrap();
    let app = served(layer.clone()).layer(layer.clone()).layer(layer);
    for left in (0..10).rev() {
        let seen = send(&app, from("192.0.2.1", &[])).await;
        assert_eq!(
            seen.header("ratelimit").map(|text| text.split(';').nth(1).unwrap().to_owned()),
            Some(format!("r={left}"))
        );
        // Written once, too: the outer layer answers.
        assert_eq!(seen.headers.get_all("ratelimit").iter().count(), 1);
    }
    assert_eq!(status(&app, "192.0.2.1", &[]).await, 429);
    assert_eq!(taken(&reported), [Misconfiguration::LayeredTwice]);
}

#[tokio::test]
async fn two_layers_made_of_the_same_policies_over_one_store_are_one_decision() {
    let store = MemoryStore::new();
    let reported = Reported::default();
    let layer = || {
        let gate = Gate::new(policies(PER_IP), store.clone()).unwrap();
        listened(TollgateLayer::builder(gate), &reported).build().unwrap()
    };
    let app = served(layer()).layer(layer());
    for _ in 0..10 {
        assert_eq!(status(&app, "192.0.2.1", &[]).await, 200);
    }
    assert_eq!(status(&app, "192.0.2.1", &[]).await, 429);
    assert_eq!(taken(&reported), [Misconfiguration::LayeredTwice]);
}

#[tokio::test]
async fn two_layers_with_policies_of_their_own_both_decide() {
    let (wide, reported) =
        reporting(&PER_IP.replace("10/h", "3/h").replace("\"ip\"\n", "\"wide\"\n"));
    let (narrow, also) = reporting(PER_IP);
    let app = served(narrow.build().unwrap()).layer(wide.build().unwrap());
    let seen = send(&app, from("192.0.2.1", &[])).await;
    let limits: Vec<_> = seen.headers.get_all("ratelimit").iter().collect();
    assert_eq!(limits.len(), 2, "{limits:?}");
    for expected in [200, 200, 429] {
        assert_eq!(status(&app, "192.0.2.1", &[]).await, expected);
    }
    assert!(taken(&reported).is_empty() && taken(&also).is_empty());
}

#[tokio::test]
async fn a_server_that_tells_no_peer_is_reported() {
    let (builder, reported) = reporting(PER_IP);
    let app = served(builder.build().unwrap());
    for _ in 0..3 {
        let seen = send(&app, Request::get("/").body(axum::body::Body::empty()).unwrap()).await;
        assert_eq!(seen.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(seen.body.contains("the client's address is not known"), "{}", seen.body);
    }
    assert_eq!(taken(&reported), [Misconfiguration::NoPeer]);
    assert!(Misconfiguration::NoPeer.to_string().contains("into_make_service_with_connect_info"));
}

/// Without an address a policy says what happens, and nobody is counted as 127.0.0.1.
#[tokio::test]
async fn a_client_without_an_address_is_who_the_policy_says() {
    let absent = |rule: &str| PER_IP.replace("\"10/h\"", &format!("\"2/h\", absent = \"{rule}\""));
    let bare = || Request::get("/").body(axum::body::Body::empty()).unwrap();
    for (rule, statuses) in
        [("skip", [200, 200, 200]), ("deny", [503, 503, 503]), ("sockets=all", [200, 200, 429])]
    {
        let (builder, reported) = reporting(&absent(rule));
        let app = served(builder.build().unwrap());
        for status in statuses {
            let seen = send(&app, bare()).await;
            assert_eq!(seen.status, status, "{rule}: {}", seen.body);
        }
        assert_eq!(taken(&reported), [Misconfiguration::NoPeer], "{rule}");
        // A request with an address is counted by it.
        for status in [200, 200, 429] {
            assert_eq!(send(&app, from("127.0.0.1", &[])).await.status, status, "{rule}");
        }
    }
}

/// The proxy at a unix socket is this host to the networks that are trusted, and no client.
#[tokio::test]
async fn a_proxy_at_a_unix_socket_names_its_clients() {
    let at_socket = |headers: &[(&str, &str)]| {
        let mut request = from("192.0.2.1", headers);
        request.extensions_mut().clear();
        request.extensions_mut().insert(UnixPeer);
        request
    };
    for (trusted, header, status) in [
        ("127.0.0.0/8", Some("198.51.100.1"), 200),
        ("127.0.0.0/8", Some("127.0.0.1"), 200),
        ("127.0.0.0/8", Some("nobody"), 503),
        ("127.0.0.0/8", None, 503),
        ("10.0.0.0/8", Some("198.51.100.1"), 503),
    ] {
        for kind in [AddressHeader::XForwardedFor, AddressHeader::XRealIp] {
            let (builder, reported) = reporting(PER_IP);
            let behind = ClientAddress::behind(trusted.parse().unwrap(), kind.clone());
            let app = served(builder.client(behind).build().unwrap());
            let name = if kind == AddressHeader::XRealIp { "x-real-ip" } else { "x-forwarded-for" };
            let headers: Vec<_> = header.map(|value| (name, value)).into_iter().collect();
            let seen = send(&app, at_socket(&headers)).await;
            assert_eq!(seen.status, status, "{trusted}, {header:?}: {}", seen.body);
            let is_reported = taken(&reported).contains(&Misconfiguration::NoPeer);
            assert_eq!(is_reported, status == 503, "{trusted}, {header:?}");
        }
    }
    // Where the peer itself is the client, there is none.
    let (builder, _) = reporting(PER_IP);
    let app = served(builder.build().unwrap());
    let seen = send(&app, at_socket(&[("x-forwarded-for", "198.51.100.1")])).await;
    assert_eq!(seen.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn an_id_for_all_requests_is_reported_and_charged() {
    let (builder, reported) = reporting(PER_IP);
    let behind = ClientAddress::behind("10.0.0.0/8".parse().unwrap(), AddressHeader::XRealIp);
    let builder = builder.client(behind).request_id("X-Request-Id", Duration::from_secs(30));
    let app = served(builder.unwrap().build().unwrap());
    let mut statuses = Vec::new();
    for _ in 0..40 {
        let headers = [("x-real-ip", "192.0.2.1"), ("x-request-id", "constant")];
        statuses.push(status(&app, "10.0.0.1", &headers).await);
        if statuses.len() == 17 {
            assert_eq!(taken(&reported), []);
        }
    }
    // Ten are charged, and one of them was repeated sixteen times.
    assert_eq!(statuses, [vec![200; 26], vec![429; 14]].concat());
    let name = "x-request-id".parse().unwrap();
    assert_eq!(taken(&reported), [Misconfiguration::OverusedRequestId(name)]);
}

#[tokio::test]
async fn a_header_from_a_stranger_is_reported() {
    let (builder, reported) = reporting(PER_IP);
    let app = served(builder.build().unwrap());
    // Whatever it says, the peer counts.
    for n in 0..10 {
        let spoofed = format!("198.51.100.{n}");
        assert_eq!(status(&app, "192.0.2.1", &[("x-forwarded-for", &spoofed)]).await, 200);
    }
    assert_eq!(status(&app, "192.0.2.1", &[("x-forwarded-for", "203.0.113.9")]).await, 429);
    assert_eq!(taken(&reported), [Misconfiguration::Address(Remark::HeaderFromUntrustedPeer)]);
}

#[tokio::test]
async fn a_proxy_without_a_request_id_is_reported_and_charged() {
    let (builder, reported) = reporting(PER_IP);
    let behind = ClientAddress::behind("10.0.0.0/8".parse().unwrap(), AddressHeader::XRealIp);
    let builder = builder.client(behind).request_id("X-Request-Id", Duration::from_secs(30));
    let app = served(builder.unwrap().build().unwrap());
    let left = async |peer: &str, headers: &[(&str, &str)]| {
        let mut all = vec![("x-real-ip", "192.0.2.1")];
        all.extend(headers);
        let seen = send(&app, from(peer, &all)).await;
        seen.header("ratelimit")
            .and_then(|text| text.split(";r=").nth(1)?.split(';').next()?.parse().ok())
    };
    let longest = "i".repeat(256);
    for id in ["a", &longest] {
        let first: Option<u64> = left("10.0.0.1", &[("x-request-id", id)]).await;
        assert!(first.is_some());
        assert_eq!(left("10.0.0.1", &[("x-request-id", id)]).await, first, "{id}");
        assert_eq!(left("10.0.0.2", &[("x-request-id", id)]).await, first, "{id}");
    }
    for (id, repeated) in [("a", true), ("b", false)] {
        let headers = [("x-real-ip", "192.0.2.1"), ("x-request-id", id)];
        let seen = send(&app, from("10.0.0.1", &headers)).await;
        assert_eq!(seen.header("tollgate-repeated").is_some(), repeated, "{id}");
    }
    assert_eq!(left("10.0.0.1", &[("x-request-id", "b")]).await, Some(7));
    assert_eq!(taken(&reported), []);
    // An unusable value is not a free pass, and is reported once.
    let long = "i".repeat(257);
    let bad: [&[(&str, &str)]; 4] = [
        &[],
        &[("x-request-id", "")],
        &[("x-request-id", &long)],
        &[("x-request-id", "a"), ("x-request-id", "a")],
    ];
    for (headers, remaining) in bad.into_iter().zip([6, 5, 4, 3]) {
        assert_eq!(left("10.0.0.1", headers).await, Some(remaining));
    }
    let name = "x-request-id".parse().unwrap();
    assert_eq!(taken(&reported), [Misconfiguration::NoRequestId(name)]);
    // A stranger chooses no id, and a client's own key is never one.
    for remaining in [9, 8] {
        let own = [("x-request-id", "a"), ("idempotency-key", "k")];
        assert_eq!(left("198.51.100.1", &own).await, Some(remaining));
    }
    assert_eq!(left("10.0.0.1", &[("idempotency-key", "k")]).await, Some(2));
    assert_eq!(left("10.0.0.1", &[("idempotency-key", "k")]).await, Some(1));
}

#[tokio::test]
async fn each_remark_about_addresses_is_reported_once() {
    let (builder, reported) = reporting(PER_IP);
    let behind = ClientAddress::behind("10.0.0.0/8".parse().unwrap(), AddressHeader::XForwardedFor);
    let app = served(builder.client(behind).build().unwrap());
    let many = ["10.0.0.9"; 40].join(", ");
    for (headers, remark) in [
        (&[][..], Remark::NoHeader),
        (&[("x-forwarded-for", "somebody")], Remark::Unreadable),
        (&[("x-forwarded-for", "10.0.0.7")], Remark::OnlyProxies),
        (&[("x-forwarded-for", many.as_str())], Remark::TooManyHops),
    ] {
        for _ in 0..2 {
            let _ = status(&app, "10.0.0.1", headers).await;
        }
        assert_eq!(taken(&reported), [Misconfiguration::Address(remark)]);
    }
    let (builder, reported) = reporting(PER_IP);
    let hops = ClientAddress::behind_hops(2, Peers::Any, AddressHeader::XForwardedFor).unwrap();
    let app = served(builder.client(hops).build().unwrap());
    for _ in 0..2 {
        let _ = status(&app, "10.0.0.1", &[("x-forwarded-for", "192.0.2.1")]).await;
    }
    assert_eq!(taken(&reported), [Misconfiguration::Address(Remark::TooFewHops)]);
}

#[tokio::test]
async fn an_own_identity_that_is_a_whole_ipv6_address_is_reported() {
    let (builder, reported) = reporting(PER_USER);
    let own = Identity::own("forwarded user", |head| {
        Some(head.headers().get("x-user")?.to_str().ok()?.to_owned())
    });
    let app = served(builder.user(own).build().unwrap());
    for user in ["ann", "a:b", "2001:db8:0:1::/64", "192.0.2.1"] {
        assert_eq!(status(&app, "192.0.2.1", &[("x-user", user)]).await, 200);
        assert_eq!(taken(&reported), [], "{user}");
    }
    for user in ["2001:db8::1", "2001:db8::2"] {
        assert_eq!(status(&app, "192.0.2.1", &[("x-user", user)]).await, 200);
    }
    assert_eq!(taken(&reported), [Misconfiguration::WholeIpv6]);
}

#[tokio::test]
async fn fields_that_nobody_tells_are_an_error_at_the_start_and_reported_after_a_reload() {
    let (builder, _) = reporting(PER_USER);
    let error = builder.build().unwrap_err();
    assert!(error.to_string().contains("look at `user`"), "{error}");

    let (builder, reported) = reporting(PER_IP);
    let layer = builder.build().unwrap();
    let gate = layer.gate().clone();
    let app = served(layer);
    assert_eq!(status(&app, "192.0.2.1", &[]).await, 200);
    for _ in 0..2 {
        gate.replace(policies(PER_USER));
        for _ in 0..3 {
            assert_eq!(status(&app, "192.0.2.1", &[]).await, 200);
        }
        // Again with each reload, and not with each request.
        assert_eq!(taken(&reported), [Misconfiguration::FieldNotSupplied(vec![Field::User])]);
    }
}

#[tokio::test]
async fn a_layer_made_for_each_request_is_reported() {
    let reported = Reported::default();
    for _ in 0..100 {
        let (gate, _) = gate(policies(PER_IP));
        let layer = listened(TollgateLayer::builder(gate), &reported).build().unwrap();
        let app = served(layer);
        for _ in 0..3 {
            assert_eq!(status(&app, "192.0.2.1", &[]).await, 200);
        }
    }
    assert_eq!(taken(&reported), [], "layers that were used are not reported");
    // Other tests in this program drop layers, too, so that the run of short ones may begin again.
    for _ in 0..5_000 {
        if !reported.lock().unwrap().is_empty() {
            break;
        }
        let (gate, _) = gate(policies(PER_IP));
        let layer = listened(TollgateLayer::builder(gate), &reported).build().unwrap();
        assert_eq!(status(&served(layer), "192.0.2.1", &[]).await, 200);
    }
    assert_eq!(taken(&reported), [Misconfiguration::MadeForEachRequest]);
}

#[tokio::test]
async fn a_page_with_more_names_than_its_policy_is_not_limited_by_them() {
    let login = |pattern: &str| {
        format!(
            "[[policies]]\nname = \"login\"\non_failure = \"deny\"\n\
             when = {{ path = \"{pattern}\" }}\n\
             limits = [{{ subject = \"ip\", limit = \"1/h\" }}]\n"
        )
    };
    for (pattern, case, statuses) in [
        ("/login", Case::Keep, [200, 200, 200]),
        ("/login", Case::Fold, [200, 429, 200]),
        ("/login*", Case::Fold, [200, 429, 429]),
    ] {
        let (builder, reported) = reporting(&login(pattern));
        let pages = Router::new().fallback(get(|| async { "page" }));
        let app = pages.layer(builder.paths(case).build().unwrap());
        for (path, status) in ["/login", "/LOGIN", "/login%20"].into_iter().zip(statuses) {
            let mut request = from("192.0.2.1", &[]);
            *request.uri_mut() = path.parse().unwrap();
            let seen = send(&app, request).await;
            assert_eq!(seen.status, status, "{path} {pattern} {case:?}");
        }
        assert_eq!(taken(&reported), [], "the layer cannot see it");
    }
}

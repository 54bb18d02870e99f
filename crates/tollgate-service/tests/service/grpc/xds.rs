//! Rules that a control plane sends.

use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tollgate_envoy::proto::rules::{RateLimitConfig, RateLimitDescriptor};
use tollgate_service::{EnvoyRules, Options, Tls, XdsOptions};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::control_plane::{ControlPlane, rules};
use crate::grpc_client::{Wire, origin};
use crate::{Service, here};

/// A service whose rules come from there.
async fn service_of(address: &str) -> Service {
    service_with(address, |_| {}).await
}

async fn service_with(address: &str, change: impl FnOnce(&mut Options)) -> Service {
    let xds: XdsOptions = address.parse().unwrap();
    Service::with(|options| {
        options.grpc = vec![here()];
        options.envoy.rules = EnvoyRules::Xds(xds);
        options.envoy.denies_unknown = true;
        change(options);
    })
    .await
}

/// The answer of health: 1 is SERVING, and 2 NOT_SERVING.
async fn health(wire: &Wire) -> i32 {
    let mut client = HealthClient::with_origin(wire.clone(), origin());
    let request = HealthCheckRequest { service: "ratelimit".to_owned() };
    client.check(request).await.unwrap().into_inner().status
}

fn texts(version: &str, nonce: &str, why: &str) -> (String, String, String) {
    (version.to_owned(), nonce.to_owned(), why.to_owned())
}

/// A rule without a key, which is refused.
fn broken() -> RateLimitConfig {
    let descriptors = vec![RateLimitDescriptor::default()];
    RateLimitConfig { descriptors, ..rules("broken", 1) }
}

#[tokio::test]
async fn rules_of_a_control_plane_are_awaited_taken_and_acknowledged() {
    let mut plane = ControlPlane::start().await;
    let service = service_of(&format!("{}?node=limits-7", plane.address)).await;
    let asked = plane.asked().await;
    let node = asked.node.clone().unwrap();
    assert_eq!((&*node.id, &*node.user_agent_name), ("limits-7", "tollgate"));
    assert_eq!(asked.type_url, tollgate_envoy::proto::RULES_TYPE);
    assert_eq!((&*asked.version_info, &*asked.response_nonce), ("", ""));
    // Before the first answer it is not ready, and every domain is unknown.
    let (mut client, wire) = (service.client().await, service.wire().await);
    let ready = client.get("/readyz").await;
    assert_eq!(ready.status, 503);
    let says = format!("the control plane {} has not sent rules yet", plane.address);
    assert!(ready.text.contains(&says), "{}", ready.text);
    assert_eq!(client.get("/healthcheck").await.status, 500);
    assert_eq!(client.get("/healthz").await.status, 200);
    assert_eq!(health(&wire).await, 2);
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OVER: OVER 0");
    plane.send("1", &[rules("shop", 3)]);
    assert_eq!(plane.answered().await, texts("1", "of 1", ""));
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 2");
    assert_eq!(client.get("/readyz").await.status, 200);
    let healthy = client.get("/healthcheck").await;
    assert_eq!((healthy.status.as_u16(), &*healthy.text), (200, "OK"));
    assert_eq!(health(&wire).await, 1);
}

#[tokio::test]
async fn changed_rules_keep_counts_and_broken_ones_keep_the_last() {
    let mut plane = ControlPlane::start().await;
    plane.send("1", &[rules("shop", 3)]);
    let service = service_of(&plane.address.to_string()).await;
    let wire = service.wire().await;
    let _ = plane.asked().await;
    assert_eq!(plane.answered().await, texts("1", "of 1", ""));
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 2");
    plane.send("2", &[rules("shop", 30), rules("other", 5)]);
    assert_eq!(plane.answered().await, texts("2", "of 2", ""));
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 28");
    // One bad resource among good ones: none of them is taken, and the version is the last one.
    plane.send("3", &[rules("shop", 7), broken()]);
    let (version, nonce, why) = plane.answered().await;
    assert_eq!((&*version, &*nonce), ("2", "of 3"));
    assert!(why.starts_with("3: error: descriptor has empty key"), "{why}");
    assert!(why.contains("--> broken-rules:2:1"), "{why}");
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 27");
    // A resource of another type, and one that is no message.
    plane.send_any("4", [("type.googleapis.com/other".to_owned(), vec![])].into_iter());
    let (version, _, why) = plane.answered().await;
    assert!(
        version == "2" && why.contains("resources[0] is a `type.googleapis.com/other`"),
        "{why}"
    );
    let noise = (tollgate_envoy::proto::RULES_TYPE.to_owned(), vec![0xff; 9]);
    plane.send_any("5", [noise].into_iter());
    let (version, _, why) = plane.answered().await;
    assert!(version == "2" && why.contains("resources[0] cannot be read"), "{why}");
    // A response of another type has nothing to say about rules.
    plane.send_of("type.googleapis.com/other", "6", std::iter::empty());
    let (version, _, why) = plane.answered().await;
    assert!(
        version == "2" && why.contains("the response is of `type.googleapis.com/other`"),
        "{why}"
    );
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 26");
    // A version may go back, and an empty list removes all rules.
    plane.send("1", &[rules("shop", 40)]);
    assert_eq!(plane.answered().await, texts("1", "of 1", ""));
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 35");
    plane.send("6", &[]);
    assert_eq!(plane.answered().await, texts("6", "of 6", ""));
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OVER: OVER 0");
    let page = service.client().await.get("/metrics").await.text;
    for line in ["{result=\"taken\"} 4", "{result=\"broken\"} 1"] {
        assert!(page.contains(&format!("tollgate_envoy_reloads_total{line}")), "{page}");
    }
}

/// The last rules stay while the control plane is away, and another one may have other rules under
/// the same version.
#[tokio::test]
async fn a_control_plane_may_go_and_another_one_come() {
    let mut plane = ControlPlane::start().await;
    plane.send("1", &[rules("shop", 3)]);
    let address = plane.address;
    let service = service_of(&address.to_string()).await;
    let wire = service.wire().await;
    let _ = plane.asked().await;
    assert_eq!(plane.answered().await, texts("1", "of 1", ""));
    drop(plane);
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 2");
    let mut other = ControlPlane::on(address, None).await;
    other.send("1", &[rules("shop", 9)]);
    assert_eq!(other.answered().await, texts("", "", ""), "it begins anew");
    assert_eq!(other.answered().await, texts("1", "of 1", ""));
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 7");
}

#[tokio::test]
async fn domains_of_several_resources_are_merged_where_that_is_wanted() {
    for merges in [false, true] {
        let mut plane = ControlPlane::start().await;
        let mut more = rules("shop", 5);
        more.descriptors[0].key = "path".to_owned();
        plane.send("1", &[rules("shop", 3), more]);
        let change = |options: &mut Options| options.envoy.merges_domains = merges;
        let service = service_with(&plane.address.to_string(), change).await;
        let _ = plane.asked().await;
        let (_, _, why) = plane.answered().await;
        if merges {
            assert_eq!(why, "");
            let said = service.wire().await.summary("shop", &["user=1", "path=/"]).await;
            assert_eq!(said, "OK: OK 2, OK 4");
        } else {
            assert!(why.contains("duplicate domain 'shop' in config file"), "{why}");
        }
    }
}

/// TLS with certificates on both sides: an acceptor of this server that asks clients for theirs.
fn acceptor(own: &Tls, clients: &Tls) -> TlsAcceptor {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&clients.certificate).unwrap()).unwrap();
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(
            vec![CertificateDer::from_pem_file(&own.certificate).unwrap()],
            PrivateKeyDer::from_pem_file(&own.key).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

#[tokio::test]
async fn a_control_plane_may_have_tls_and_ask_for_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let [own, client, stranger] =
        ["own", "client", "stranger"].map(|name| crate::secured::certificate(folder.path(), name));
    let tls = acceptor(&own, &client);
    let mut plane = ControlPlane::on("127.0.0.1:0".parse().unwrap(), Some(tls)).await;
    plane.send("1", &[rules("shop", 3)]);
    let url = |authority: &Tls, of: Option<&Tls>| {
        let file = |path: &std::path::Path| path.display().to_string();
        let address = plane.address;
        let mut url =
            format!("https://{address}?name=localhost&ca={}", file(&authority.certificate));
        if let Some(of) = of {
            url.push_str(&format!("&cert={}&key={}", file(&of.certificate), file(&of.key)));
        }
        url
    };
    let refused = [url(&own, None), url(&own, Some(&stranger)), url(&stranger, Some(&client))];
    let taken = url(&own, Some(&client));
    for url in refused {
        let service = service_of(&url).await;
        // Nothing is to come: a look after the first attempt.
        let looked = tokio::time::timeout(Duration::from_millis(300), plane.asked()).await;
        assert!(looked.is_err(), "{url}");
        assert_eq!(service.client().await.get("/readyz").await.status, 503);
    }
    let service = service_of(&taken).await;
    let _ = plane.asked().await;
    assert_eq!(plane.answered().await, texts("1", "of 1", ""));
    assert_eq!(service.wire().await.summary("shop", &["user=1"]).await, "OK: OK 2");
}

#[tokio::test]
async fn ten_thousand_rules_come_in_one_response() {
    let mut plane = ControlPlane::start().await;
    let service = service_of(&plane.address.to_string()).await;
    let mut many = rules("shop", 3);
    many.descriptors = (0..10_000_u32)
        .map(|number| {
            let mut one = many.descriptors[0].clone();
            one.value = format!("u{number}");
            one.rate_limit.as_mut().unwrap().requests_per_unit = number + 1;
            one
        })
        .collect();
    let _ = plane.asked().await;
    plane.send("1", &[many]);
    assert_eq!(plane.answered().await, texts("1", "of 1", ""));
    assert_eq!(service.wire().await.summary("shop", &["user=u9999"]).await, "OK: OK 9999");
}

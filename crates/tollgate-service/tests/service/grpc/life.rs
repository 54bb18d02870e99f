//! Health, reflection, reloads, TLS, stores that fail, and the end.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::net::UnixStream;
use tokio_rustls::TlsConnector;
use tollgate_redis::RedisStore;
use tollgate_service::{Address, AnyStore, EnvoyRules};
use tollgate_testbed::redis_or_skip;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::{v1, v1alpha};

use super::{RULES, rules, service, service_with};
use crate::grpc_client::{Wire, origin, request, summary};
use crate::{FILE, Service, gate_of, here};

const NAMES: [&str; 3] = ["", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"];

/// The health of this name, by its number.
async fn health(wire: &Wire, name: &str) -> Result<i32, Code> {
    let mut client = HealthClient::with_origin(wire.clone(), origin());
    let asked = HealthCheckRequest { service: name.to_owned() };
    let said = client.check(asked).await.map_err(|status| status.code())?;
    Ok(said.into_inner().status)
}

#[tokio::test]
async fn health_is_asked_by_three_names_and_ends_first() {
    let service = service_with(RULES, |options| options.linger = Duration::from_secs(2)).await;
    let wire = service.wire().await;
    for name in NAMES {
        assert_eq!(health(&wire, name).await, Ok(1), "{name}");
    }
    assert_eq!(health(&wire, "other").await, Err(Code::NotFound));
    let ending = tokio::spawn(service.server.end());
    let began = Instant::now();
    while health(&wire, "").await != Ok(2) {
        assert!(began.elapsed() < Duration::from_secs(2), "it does not report its end");
        tokio::task::yield_now().await;
    }
    // It still answers while it lingers, and then its connections end.
    for name in NAMES {
        assert_eq!(health(&wire, name).await, Ok(2), "{name}");
    }
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 2");
    let stopping = ending.await.unwrap();
    assert_eq!(stopping.cut, 0, "{stopping:?}");
    assert!(wire.ask(&request("shop", &["user=1"])).await.is_err());
}

/// Asks reflection of this version for the services, and for the file of a symbol.
macro_rules! reflected {
    ($version:ident, $wire:expr) => {{
        use $version::server_reflection_client::ServerReflectionClient;
        use $version::server_reflection_request::MessageRequest;
        use $version::server_reflection_response::MessageResponse;
        let mut client = ServerReflectionClient::with_origin($wire, origin());
        let mut ask = async |message: MessageRequest| {
            let host = String::new();
            let asked = $version::ServerReflectionRequest { host, message_request: Some(message) };
            let stream = tokio_stream_of(asked);
            let mut said = client.server_reflection_info(stream).await.unwrap().into_inner();
            said.message().await.unwrap().unwrap().message_response.unwrap()
        };
        let said = ask(MessageRequest::ListServices(String::new())).await;
        let MessageResponse::ListServicesResponse(list) = said else { panic!("{said:?}") };
        let mut names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
        names.sort();
        let symbol = "envoy.extensions.common.ratelimit.v3.RateLimitDescriptor";
        let said = ask(MessageRequest::FileContainingSymbol(symbol.to_owned())).await;
        let MessageResponse::FileDescriptorResponse(files) = said else { panic!("{said:?}") };
        (names, String::from_utf8_lossy(&files.file_descriptor_proto[0]).into_owned())
    }};
}

/// Many tools still ask for reflection under its former name alone.
#[tokio::test]
async fn reflection_describes_the_services_under_both_its_names() {
    let service = service().await;
    let wire = service.wire().await;
    for (names, text) in [reflected!(v1, wire.clone()), reflected!(v1alpha, wire.clone())] {
        assert_eq!(
            names,
            [
                "envoy.service.ratelimit.v3.RateLimitService",
                "grpc.health.v1.Health",
                "grpc.reflection.v1.ServerReflection",
                "grpc.reflection.v1alpha.ServerReflection",
                "kuadrant.service.ratelimit.v1.RateLimitService",
            ]
        );
        assert!(text.contains("is_negative_hits"), "{text}");
    }
}

/// A stream of one message.
fn tokio_stream_of<T: Send + 'static>(
    message: T,
) -> impl tonic::codegen::tokio_stream::Stream<Item = T> + Send {
    tonic::codegen::tokio_stream::once(message)
}

/// A service under the rules of `path`.
async fn under(path: PathBuf) -> Service {
    Service::with(|options| {
        options.grpc = vec![here()];
        options.envoy.rules = EnvoyRules::Files(path);
    })
    .await
}

#[tokio::test]
async fn changed_rules_are_taken_and_broken_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = rules(folder.path(), RULES);
    let service = under(path).await;
    let wire = service.wire().await;
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 2");
    // By itself, and the count stays.
    rules(folder.path(), &RULES.replace("requests_per_unit: 3", "requests_per_unit: 30"));
    let began = Instant::now();
    while wire.summary("shop", &["0 user=1"]).await != "OK: OK 29" {
        assert!(began.elapsed() < Duration::from_secs(60), "the new rules are not in force");
        tokio::time::sleep(Duration::from_millis(50)).await; // tidy: sleep-ok a look each
    }
    let mut client = service.client().await;
    rules(folder.path(), "domain: shop\ndescriptors: [{ kez: a }]\n");
    service.server.reread_rules().await;
    assert_eq!(wire.summary("shop", &["0 user=1"]).await, "OK: OK 29");
    let page = client.get("/metrics").await.text;
    assert!(page.contains("tollgate_envoy_reloads_total{result=\"broken\"} "), "{page}");
    rules(folder.path(), "domain: other\n");
    service.server.reread_rules().await;
    assert_eq!(wire.summary("shop", &["0 user=1"]).await, "OK: OK 0", "nobody knows it");
}

/// A signal reads the rules, and what comes after it is seen all the same.
#[tokio::test]
async fn rules_that_go_back_after_a_signal_are_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let path = rules(folder.path(), RULES);
    let service = under(path).await;
    let wire = service.wire().await;
    rules(folder.path(), &RULES.replace("requests_per_unit: 3", "requests_per_unit: 30"));
    service.server.reread_rules().await;
    assert_eq!(wire.summary("shop", &["0 user=1"]).await, "OK: OK 30");
    rules(folder.path(), RULES);
    let began = Instant::now();
    while wire.summary("shop", &["0 user=1"]).await != "OK: OK 3" {
        assert!(began.elapsed() < Duration::from_secs(60), "the old rules are not in force");
        tokio::time::sleep(Duration::from_millis(50)).await; // tidy: sleep-ok a look each
    }
}

#[tokio::test]
async fn clients_come_with_tls_and_over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let tls = crate::secured::certificate(folder.path(), "one");
    let socket = folder.path().join("grpc");
    let service = service_with(RULES, |options| {
        options.tls = Some(tls.clone());
        options.grpc.push(Address::Unix(socket.clone()));
    })
    .await;
    let connector = TlsConnector::from(crate::secured::trusting_h2(&tls));
    let name = || "localhost".try_into().unwrap();
    let tcp = tokio::net::TcpStream::connect(crate::tcp(&service.server.grpc()[0])).await.unwrap();
    let stream = connector.connect(name(), tcp).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let wire = Wire::over(stream).await;
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 2");
    let unix = UnixStream::connect(&socket).await.unwrap();
    let wire = Wire::over(connector.connect(name(), unix).await.unwrap()).await;
    assert_eq!(wire.summary("shop", &["user=1"]).await, "OK: OK 1");
}

/// A store that freezes: each domain's rule answers, within the time that the caller waits.
#[tokio::test]
async fn a_late_store_is_answered_for_within_the_deadline() {
    let server = redis_or_skip!();
    const STORE_DEADLINE: Duration = Duration::from_secs(1);
    let store = RedisStore::connect(&format!("{}?deadline=1s", server.url())).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    for on_failure in ["error", "allow", "deny", "local"] {
        let rule = if on_failure == "local" { "{ local: 34 % }" } else { on_failure };
        for meaning in ["envoy", "tollgate"] {
            let text = format!(
                "domain: {on_failure}-{meaning}\non_failure: {rule}\nmeaning: {meaning}\n\
                 descriptors:\n  - key: a\n    rate_limit: {{ unit: year, requests_per_unit: 9 }}\n"
            );
            std::fs::write(folder.path().join(format!("{on_failure}-{meaning}.yaml")), text)
                .unwrap();
        }
    }
    let gate = gate_of(FILE, AnyStore::from(store));
    let service = Service::start_with(gate, |options| {
        options.grpc = vec![here()];
        options.envoy.rules = EnvoyRules::Files(folder.path().to_owned());
    })
    .await;
    let wire = service.wire().await;
    assert_eq!(wire.summary("error-envoy", &["a=1", "a=2"]).await, "OK: OK 8, OK 8");
    assert_eq!(wire.summary("error-tollgate", &["a=1", "a=2"]).await, "OK: OK 8, OK 8");
    server.freeze();
    for (on_failure, expected) in [
        ("allow", "OK: OK 0, OK 0"),
        ("deny", "OVER: OVER 0, OVER 0"),
        // A third of nine, counted here.
        ("local", "OK: OK 2, OK 2"),
        ("local", "OK: OK 1, OK 1"),
        ("local", "OK: OK 0, OK 0"),
        ("local", "OVER: OVER 0, OVER 0"),
    ] {
        for meaning in ["envoy", "tollgate"] {
            let mut asked =
                tonic::Request::new(request(&format!("{on_failure}-{meaning}"), &["a=1", "a=2"]));
            asked.set_timeout(Duration::from_millis(20));
            let began = Instant::now();
            let answer = wire.client().should_rate_limit(asked).await.unwrap().into_inner();
            let took = began.elapsed();
            assert_eq!(summary(&answer), expected, "{on_failure} {meaning}");
            assert!(
                took < STORE_DEADLINE,
                "the deadline of the store, not that of the call: {took:?}"
            );
        }
    }
    for meaning in ["envoy", "tollgate"] {
        let (code, text) = wire.refused(&request(&format!("error-{meaning}"), &["a=1"])).await;
        assert_eq!(code, Code::Unavailable);
        assert!(text.starts_with("the store cannot answer: "), "{text}");
        let (code, _) = wire.refused(&request(&format!("error-{meaning}"), &["-1 a=1"])).await;
        assert_eq!(code, Code::Unavailable);
    }
    let mut client = service.client().await;
    let question =
        r#"{"domain": "error-envoy", "descriptors": [{"entries": [{"key": "a", "value": "1"}]}]}"#;
    assert_eq!(client.ask("POST", "/json", &[], question).await.status.as_u16(), 500);
}

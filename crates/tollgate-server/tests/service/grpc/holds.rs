//! Descriptors that settle holds, as Envoy sends them when a stream is done.

use serde_json::json;
use tollgate::{ManualClock, MemoryStore};
use tollgate_server::AnyStore;
use tonic::Code;

use super::{RULES, rules};
use crate::grpc_client::{request, summary};
use crate::holds::{done, remaining};
use crate::{FILE, Service, gate_of, here};

#[tokio::test]
async fn a_descriptor_settles_the_hold_that_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = rules(folder.path(), RULES);
    let clock = ManualClock::at_micros(1_700_000_000_000_000);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let service = Service::start_with(gate_of(FILE, AnyStore::Memory(store)), |options| {
        options.grpc = vec![here()];
        options.envoy.rules = Some(path);
    })
    .await;
    let (wire, mut client) = (service.wire().await, service.client().await);
    let tokens = json!({"subject": "ann", "limit": "100/h via token_bucket"});
    let slots = json!({"subject": "jobs", "limit": "2 at once hold 2m"});
    let estimate =
        json!({"subject": "ann", "limit": "100/h via token_bucket", "cost": 60, "ttl": "30s"});
    let hold_of = |said: serde_json::Value| said["hold"].as_str().unwrap().to_owned();

    // What was used are the hits, beside descriptors that are counted.
    let hold = hold_of(done(&mut client, "/v1/reserve", estimate.clone()).await);
    let settle = format!("25 tollgate-hold={hold}");
    let asked = request("shop", &["user=1", &settle, "user=2"]);
    assert_eq!(summary(&wire.ask(&asked).await.unwrap()), "OK: OK 2, OK 0, OK 2");
    assert_eq!(remaining(&done(&mut client, "/v1/peek", tokens.clone()).await), 75);
    // Again is once; alone, and in a domain that nobody knows.
    assert_eq!(wire.told("nowhere", &[&settle]).await, "OK: OK 0");
    assert_eq!(remaining(&done(&mut client, "/v1/peek", tokens.clone()).await), 75);
    // No hits are no units.
    let hold = hold_of(done(&mut client, "/v1/reserve", estimate.clone()).await);
    assert_eq!(wire.told("shop", &[&format!("0 tollgate-hold={hold}")]).await, "OK: OK 0");
    assert_eq!(remaining(&done(&mut client, "/v1/peek", tokens.clone()).await), 75);

    // A slot is given back, whatever the hits.
    let slot = hold_of(done(&mut client, "/v1/acquire", slots.clone()).await);
    assert_eq!(remaining(&done(&mut client, "/v1/peek", slots.clone()).await), 1);
    assert_eq!(wire.told("shop", &[&format!("tollgate-hold={slot}")]).await, "OK: OK 0");
    assert_eq!(remaining(&done(&mut client, "/v1/peek", slots).await), 2);

    let hold = hold_of(done(&mut client, "/v1/reserve", estimate).await);
    for (text, code, says) in [
        ("tollgate-hold=x".to_owned(), Code::InvalidArgument, "descriptors[0]: its hold was not"),
        (format!("-1 tollgate-hold={hold}"), Code::InvalidArgument, "cannot be negative"),
    ] {
        let error = wire.ask(&request("shop", &[&text])).await.unwrap_err();
        assert_eq!(error.code(), code, "{text}");
        assert!(error.message().contains(says), "{text}: {}", error.message());
    }
    clock.advance(std::time::Duration::from_secs(31));
    let ended = wire.ask(&request("shop", &[&format!("9 tollgate-hold={hold}")])).await;
    let ended = ended.unwrap_err();
    assert_eq!(ended.code(), Code::FailedPrecondition, "{}", ended.message());
    // With more entries it is a descriptor as any other.
    let more = format!("tollgate-hold={hold},user=1");
    assert_eq!(wire.told("shop", &[&more]).await, "OK: OK 0");
}

//! Descriptors that settle holds, as Envoy sends them when a stream is done.

use serde_json::json;
use tollgate::{ManualClock, MemoryStore};
use tollgate_service::{AnyStore, EnvoyRules};
use tonic::Code;

use super::{RULES, rules};
use crate::grpc_client::{request, summary};
use crate::holds::{JOBS, done, refused, remaining};
use crate::{FILE, Service, gate_of, here};

#[tokio::test]
async fn a_descriptor_settles_the_hold_that_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = rules(folder.path(), RULES);
    let clock = ManualClock::at_micros(1_700_000_000_000_000);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let service = Service::start_with(gate_of(FILE, AnyStore::Memory(store)), |options| {
        options.grpc = vec![here()];
        options.envoy.rules = EnvoyRules::Files(path);
    })
    .await;
    let (wire, mut client) = (service.wire().await, service.client().await);
    let tokens = json!({"subject": "ann", "limit": "100/h via token_bucket"});
    let slots = json!({"subject": "jobs", "limit": "2 at once hold 2m"});
    let estimate =
        json!({"subject": "ann", "limit": "100/h via token_bucket", "cost": 60, "ttl": "30s"});
    let hold_of = |said: serde_json::Value| said["hold"].as_str().unwrap().to_owned();

    // The hits are the used units, beside descriptors that are counted.
    let hold = hold_of(done(&mut client, "/v1/reserve", estimate.clone()).await);
    let settle = format!("25 tollgate-hold={hold}");
    let asked = request("shop", &["user=1", &settle, "user=2"]);
    assert_eq!(summary(&wire.ask(&asked).await.unwrap()), "OK: OK 2, OK 0, OK 2");
    assert_eq!(remaining(&done(&mut client, "/v1/peek", tokens.clone()).await), 75);
    // Again is once; alone, and in a domain that nobody knows.
    assert_eq!(wire.summary("nowhere", &[&settle]).await, "OK: OK 0");
    assert_eq!(remaining(&done(&mut client, "/v1/peek", tokens.clone()).await), 75);
    // No hits are no units.
    let hold = hold_of(done(&mut client, "/v1/reserve", estimate.clone()).await);
    assert_eq!(wire.summary("shop", &[&format!("0 tollgate-hold={hold}")]).await, "OK: OK 0");
    assert_eq!(remaining(&done(&mut client, "/v1/peek", tokens.clone()).await), 75);

    // A slot is given back, whatever the hits.
    let slot = hold_of(done(&mut client, "/v1/acquire", slots.clone()).await);
    assert_eq!(remaining(&done(&mut client, "/v1/peek", slots.clone()).await), 1);
    assert_eq!(wire.summary("shop", &[&format!("tollgate-hold={slot}")]).await, "OK: OK 0");
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
    assert_eq!(wire.summary("shop", &[&more]).await, "OK: OK 0");
}

const ID: &str = "b1946ac92492d2347c6235b4d2611184";

#[tokio::test]
async fn a_descriptor_settles_the_hold_of_an_id() {
    let folder = tempfile::tempdir().unwrap();
    let path = rules(folder.path(), RULES);
    let gate = gate_of(JOBS, AnyStore::Memory(MemoryStore::new()));
    let service = Service::start_with(gate, |options| {
        options.grpc = vec![here()];
        options.envoy.rules = EnvoyRules::Files(path);
    })
    .await;
    let (wire, mut client) = (service.wire().await, service.client().await);
    let slot = json!({ "subject": "jobs", "limit": "2 at once hold 2m", "id": ID });
    let slots = json!({ "subject": "jobs", "limit": "2 at once hold 2m" });
    done(&mut client, "/v1/acquire", slot.clone()).await;
    assert_eq!(remaining(&done(&mut client, "/v1/peek", slots.clone()).await), 1);
    let settle = format!("tollgate-hold-id={ID},subject=jobs,limit=2 at once hold 2m");
    for user in ["user=1", "user=2"] {
        assert_eq!(wire.summary("shop", &[user, &settle]).await, "OK: OK 2, OK 0");
        assert_eq!(remaining(&done(&mut client, "/v1/peek", slots.clone()).await), 2);
    }
    // It comes before the acquire, as where a client has gone.
    let early = settle.replace(ID, "0123456789abcdef");
    assert_eq!(wire.summary("nowhere", &[&early]).await, "OK: OK 0");
    let mut late = slot;
    late["id"] = json!("0123456789abcdef");
    refused(&mut client, "/v1/acquire", late, 409, "released or committed").await;
    // Units, which are given.
    let estimate = json!({ "subject": "ann", "limit": "100/h via token_bucket", "cost": 60,
                           "ttl": "30s", "id": ID });
    done(&mut client, "/v1/reserve", estimate).await;
    let settle = format!("25 tollgate-hold-id={ID},subject=ann,limit=100/h via token_bucket");
    assert_eq!(wire.summary("shop", &[&settle]).await, "OK: OK 0");
    let tokens = json!({ "subject": "ann", "limit": "100/h via token_bucket" });
    assert_eq!(remaining(&done(&mut client, "/v1/peek", tokens).await), 75);
    // By policies.
    let fields = json!({ "field.kind": "job", "user": "7" });
    let job = json!({ "policy": "jobs", "fields": fields, "id": ID });
    done(&mut client, "/v1/acquire", job).await;
    let settle = format!("tollgate-hold-id={ID},policy=jobs,field.kind=job,user=7");
    assert_eq!(wire.summary("shop", &[&settle]).await, "OK: OK 0");
    let peek = json!({ "policy": "jobs", "fields": fields });
    assert_eq!(remaining(&done(&mut client, "/v1/peek", peek).await), 2);
    for (text, code, says) in [
        ("tollgate-hold-id=short", Code::InvalidArgument, "descriptors[0]: "),
        (&format!("tollgate-hold-id={ID}"), Code::InvalidArgument, "the hold is missing"),
        (&format!("tollgate-hold-id={ID},subject=a,limit=x"), Code::InvalidArgument, "descriptors"),
        (
            &format!("tollgate-hold-id={ID},subject=a,limit=9/h,user=1"),
            Code::InvalidArgument,
            "`user` is not a part",
        ),
        (&format!("-1 {settle}"), Code::InvalidArgument, "cannot be negative"),
        (
            &format!("3 tollgate-hold-id={ID},subject=eve,limit=9/h"),
            Code::FailedPrecondition,
            "no hold with this id",
        ),
    ] {
        let error = wire.ask(&request("shop", &[text])).await.unwrap_err();
        assert_eq!(error.code(), code, "{text}: {}", error.message());
        assert!(error.message().contains(says), "{text}: {}", error.message());
        assert!(!error.message().contains(ID), "{}", error.message());
    }
}

const MODELS: &str = r#"
    version = 1
    [[policies]]
    name = "models"
    on_failure = "deny"
    limits = [{ subject = "user", absent = "deny", limit = [
      "60/h via gcra", "1000/h of tokens debt 500 via gcra", "900/month of microdollars",
    ] }]
    [policies.cost]
    requests = 1
    tokens = { reserve = 400, max = 800, hold = "2m" }
    microdollars = { reserve = 300, max = 800, hold = "2m" }
"#;

#[tokio::test]
async fn descriptors_settle_and_charge_by_unit() {
    let clock = ManualClock::at_micros(1_700_000_000_000_000);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let service = Service::start_with(gate_of(MODELS, AnyStore::Memory(store)), |options| {
        options.grpc = vec![here()];
    })
    .await;
    let (wire, mut client) = (service.wire().await, service.client().await);
    let ann = || json!({ "fields": { "user": "ann" } });
    let mut left = async || {
        let said = done(&mut client, "/v1/peek", ann()).await;
        let of = |it: &serde_json::Value| it["remaining"].as_u64().unwrap();
        said["limits"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    let mut other = service.client().await;
    let held = done(&mut other, "/v1/reserve", ann()).await;
    assert_eq!(left().await, [59, 600, 600]);
    let hold = held["hold"].as_str().unwrap();
    let of = |unit: &str, hits: u64| format!("{hits} tollgate-hold={hold},tollgate-unit={unit}");
    // Two descriptors are one commit; one alone would be the last word.
    let both = [&*of("tokens", 250), &*of("microdollars", 17)];
    assert_eq!(wire.summary("nowhere", &both).await, "OK: OK 0, OK 0");
    assert_eq!(left().await, [59, 750, 883]);
    // A unit that nobody counted is charged as the end of the hold would.
    let other_hold = done(&mut other, "/v1/reserve", ann()).await;
    let uncounted = both.map(|said| {
        let said = said.replace(hold, other_hold["hold"].as_str().unwrap());
        said.split_once(' ').unwrap().1.to_owned()
    });
    let uncounted = [&*uncounted[0], &*uncounted[1]];
    assert_eq!(wire.summary("nowhere", &uncounted).await, "OK: OK 0, OK 0");
    assert_eq!(left().await, [58, 350, 583]);
    // A charge is of its unit alone, and beyond the limit up to the debt.
    let charge =
        |unit: &str, hits: u64| format!("{hits} tollgate-charge={unit},policy=models,user=ann");
    assert_eq!(wire.summary("nowhere", &[&charge("tokens", 1_000)]).await, "OK: OK 0");
    assert_eq!(left().await, [58, 0, 583]);
    let denied = done(&mut other, "/v1/check", ann()).await;
    assert_eq!((&denied["allowed"], &denied["unit"]), (&json!(false), &json!("tokens")));
    assert_eq!(wire.summary("nowhere", &[&charge("tokens", 0)]).await, "OK: OK 0");
    let inline = "3 tollgate-charge=rows,subject=bob,limit=9/h of rows";
    assert_eq!(wire.summary("nowhere", &[inline]).await, "OK: OK 0");
    let peek = json!({ "subject": "bob", "limit": "9/h of rows", "cost": { "rows": 1 } });
    assert_eq!(remaining(&done(&mut other, "/v1/peek", peek).await), 6);
    for (text, says) in [
        (&*of("Tokens", 3), "descriptors[0]: `Tokens`: "),
        (&charge("token", 3), "no limit counts `token`"),
        (&charge("tokens", 3).replace("user=ann", "path=/"), "`user` is missing"),
        (&charge("tokens", 3).replace("models", "model"), "model"),
        ("3 tollgate-charge=tokens,subject=bob", "the count is missing"),
        (&format!("-{}", charge("tokens", 3)), "cannot be negative"),
    ] {
        let error = wire.ask(&request("nowhere", &[text])).await.unwrap_err();
        assert!(error.message().contains(says), "{text}: {}", error.message());
    }
    assert_eq!(left().await, [58, 0, 583]);
}

//! Leases and the deny cache behind the service: two services on one Redis.

use std::time::Duration;

use tollgate_redis::RedisStore;
use tollgate_service::{AnyStore, Options};
use tollgate_testbed::redis_or_skip;

use crate::{Service, gate_of};

const POLICIES: &str = r#"
    version = 1
    match = "first"
    [[policies]]
    name = "hot"
    on_failure = "deny"
    when = { path = "/hot" }
    limits = [{ subject = "pool=all", limit = "2000/h via fixed_window lease 100 for 10s" }]
    [[policies]]
    name = "plain"
    on_failure = "deny"
    limits = [{ subject = "ip", limit = "2/h" }]
"#;

async fn service(url: &str, deny_cache: bool) -> Service {
    let url = format!("{url}?deadline=30s");
    let mut store = AnyStore::from(RedisStore::connect(&url).await.unwrap());
    if deny_cache {
        store = store.caching_denials(1_000, Duration::from_secs(60));
    }
    let set = |options: &mut Options| {
        let admin = options.listen[0].clone();
        options.admin = Some(admin);
    };
    Service::start_with(gate_of(POLICIES, store), set).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_services_share_a_leased_limit_exactly() {
    let server = redis_or_skip!();
    let services = [service(&server.url(), false).await, service(&server.url(), false).await];
    let mut clients = [services[0].client().await, services[1].client().await];
    let (mut allowed, mut leased) = (0, 0);
    for at in 0..4_000 {
        let said = clients[at % 2].check(r#"{"fields": {"path": "/hot"}}"#).await;
        allowed += u32::from(said["allowed"] == true);
        leased += u32::from(said["authority"] == "lease");
        if said["allowed"] == false && at > 3_000 {
            let authority = said["authority"].as_str().unwrap();
            assert!(["store", "deny_cache"].contains(&authority), "{said}");
        }
    }
    assert_eq!(allowed, 2_000);
    assert!(leased > 1_800, "{leased}");
    let page = services[0].admin().await.get("/metrics").await.text;
    let value = |name: &str| -> u64 {
        let line = page.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| {
            panic!("{name} is not in {page}");
        });
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(value("tollgate_lease_units_total{state=\"charged\"}") > 900);
    assert!(value("tollgate_lease_renewals_total") < 60);
}

/// Unspent units go back when a service ends, and the other service admits them.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_ends_gives_back_what_it_holds() {
    let server = redis_or_skip!();
    let (one, other) = (service(&server.url(), false).await, service(&server.url(), false).await);
    let mut client = one.client().await;
    for _ in 0..150 {
        let said = client.check(r#"{"fields": {"path": "/hot"}}"#).await;
        assert_eq!(said["allowed"], true);
    }
    let remaining = async || {
        let mut client = other.client().await;
        let reply = client.post("/v1/peek", r#"{"fields": {"path": "/hot"}}"#).await;
        reply.json()["remaining"].as_u64().unwrap()
    };
    assert!(remaining().await < 1_850, "it holds some");
    drop(client);
    one.server.end().await;
    assert_eq!(remaining().await, 1_850);
}

#[tokio::test(flavor = "multi_thread")]
async fn denials_are_not_asked_about_where_that_is_wanted() {
    let server = redis_or_skip!();
    let one = service(&server.url(), true).await;
    let mut client = one.client().await;
    let question = r#"{"fields": {"path": "/", "ip": "192.0.2.1"}}"#;
    for outcome in ["allowed", "allowed", "denied"] {
        assert_eq!(client.check(question).await["outcome"], outcome);
    }
    let calls = || server.info("stats")["total_commands_processed"].parse::<u64>().unwrap();
    let before = calls();
    let mut last = f64::MAX;
    for _ in 0..200 {
        let said = client.check(question).await;
        assert_eq!(
            (&said["outcome"], &said["authority"]),
            (&"denied".into(), &"deny_cache".into())
        );
        let wait = said["retry_after"]["seconds"].as_f64().unwrap();
        assert!(wait <= last && wait > 3_590.0, "{wait}");
        last = wait;
    }
    // The service reads rulings twice a second, and no more.
    assert!(calls() - before < 20, "{}", calls() - before);
}

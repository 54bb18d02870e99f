//! Kuadrant's service: look, report, reserve and commit.

use std::time::Duration;

use tollgate::{ManualClock, MemoryStore};
use tollgate_envoy::proto::kuadrant::rate_limit_service_client::RateLimitServiceClient;
use tollgate_envoy::proto::kuadrant::{CommitRequest, ReserveRequest};
use tollgate_redis::RedisStore;
use tollgate_service::{AnyStore, EnvoyRules};
use tollgate_testbed::redis_or_skip;
use tonic::{Code, Status};

use super::rules;
use crate::grpc_client::{Wire, descriptor, origin, request, summary};
use crate::{Service, gate_of, here};

/// Rules, for the domain `shop`; the policies answer for other domains.
const RULES: &str = "
domain: shop
descriptors:
  - key: user
    limit: 10/d via fixed_window debt 1000
  - key: tenant
    limit: 100/d via fixed_window
  - key: trial
    shadow_mode: true
    limit: 5/d via fixed_window debt 1000
  - key: banned
    rate_limit: { unit: day, requests_per_unit: 0 }
  - key: free
    rate_limit: { unlimited: true }
  - key: jobs
    limit: 1 at once hold 20s, 10/d via fixed_window
  - key: long
    limit: 1 at once hold 2m
";

const POLICIES: &str = r#"
version = 1
match = "first"
[[policies]]
name = "tokens"
on_failure = "deny"
when = { field.domain = "models" }
limits = [{ subject = "user", absent = "deny", limit = "10/d via fixed_window debt 1000" }]
[[policies]]
name = "long"
on_failure = "deny"
when = { field.domain = "long" }
limits = [{ subject = "user", absent = "deny", limit = "1 at once hold 2m" }]
"#;

struct Shop {
    service: Service,
    clock: ManualClock,
    wire: Wire,
    _folder: tempfile::TempDir,
}

async fn shop() -> Shop {
    let folder = tempfile::tempdir().unwrap();
    let path = rules(folder.path(), RULES);
    let clock = ManualClock::at_micros(1_700_000_000_000_000);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let file = folder.path().join("policies.toml");
    std::fs::write(&file, POLICIES).unwrap();
    let service = Service::start_with(gate_of(POLICIES, AnyStore::Memory(store)), |options| {
        options.grpc = vec![here()];
        options.admin = Some(here());
        options.envoy.rules = EnvoyRules::Files(path);
        options.config = Some(file);
    })
    .await;
    let wire = service.wire().await;
    Shop { service, clock, wire, _folder: folder }
}

impl Shop {
    fn client(&self) -> RateLimitServiceClient<Wire> {
        RateLimitServiceClient::with_origin(self.wire.clone(), origin())
    }

    /// The code, and the hold.
    async fn reserve(
        &self,
        (domain, descriptors): (&str, &[&str]),
        amount: u64,
        seconds: Option<i64>,
    ) -> Result<(i32, String), Status> {
        let ttl = seconds.map(|seconds| prost_types::Duration { seconds, nanos: 0 });
        let descriptors = descriptors.iter().map(|text| descriptor(text)).collect();
        let request = ReserveRequest { domain: domain.to_owned(), descriptors, amount, ttl };
        let said = self.client().reserve(request).await?.into_inner();
        Ok((said.code, said.reservation_id))
    }

    /// The hold of an admitted request.
    async fn held(&self, what: (&str, &[&str]), amount: u64) -> String {
        let (code, id) = self.reserve(what, amount, Some(30)).await.unwrap();
        assert!(code == 1 && !id.is_empty(), "{what:?} {amount}: {code}");
        id
    }

    async fn denied(&self, what: (&str, &[&str]), amount: u64) {
        let said = self.reserve(what, amount, None).await.unwrap();
        assert_eq!(said, (2, String::new()), "{what:?} {amount}");
    }

    async fn commit(
        &self,
        (domain, descriptors): (&str, &[&str]),
        id: &str,
        actual_amount: u64,
    ) -> Result<bool, Status> {
        let request = CommitRequest {
            domain: domain.to_owned(),
            descriptors: descriptors.iter().map(|text| descriptor(text)).collect(),
            reservation_id: id.to_owned(),
            actual_amount,
        };
        Ok(self.client().commit(request).await?.into_inner().reservation_released)
    }

    /// The remaining units, by a look that charges nothing.
    async fn looked(&self, (domain, descriptors): (&str, &[&str])) -> String {
        let request = request(domain, descriptors);
        summary(&self.client().check_rate_limit(request).await.unwrap().into_inner())
    }

    async fn report(&self, (domain, descriptors): (&str, &[&str]), hits_addend: u32) -> String {
        let mut request = request(domain, descriptors);
        request.hits_addend = hits_addend;
        summary(&self.client().report(request).await.unwrap().into_inner())
    }
}

/// The same by rules and by policies.
const ANN: [(&str, &[&str]); 2] = [("shop", &["user=ann"]), ("models", &["user=ann"])];
const BOB: [(&str, &[&str]); 2] = [("shop", &["user=bob"]), ("models", &["user=bob"])];

#[tokio::test]
async fn a_look_charges_nothing_and_a_report_charges_whatever_remains() {
    let shop = shop().await;
    for ann in ANN {
        for _ in 0..3 {
            assert_eq!(shop.looked(ann).await, "OK: OK 10", "{ann:?}");
        }
        assert_eq!(shop.report(ann, 4).await, "OK: ");
        assert_eq!(shop.looked(ann).await, "OK: OK 6");
        // The hits of a look are not charged either.
        let mut look = request(ann.0, ann.1);
        (look.hits_addend, look.descriptors[0].hits_addend) = (3, Some(5));
        shop.client().check_rate_limit(look).await.unwrap();
        assert_eq!(shop.looked(ann).await, "OK: OK 6");
        // It was used: a report is not denied.
        assert_eq!(shop.report(ann, 20).await, "OK: ");
        assert_eq!(shop.looked(ann).await, "OVER: OVER 0");
        // Without a number it is one.
        shop.report(BOB[0], 0).await;
    }
    assert_eq!(shop.looked(BOB[0]).await, "OK: OK 8");
    shop.report(("shop", &["-1 user=bob", "0 user=bob"]), 0).await;
    assert_eq!(shop.looked(BOB[0]).await, "OK: OK 9", "given back, and looked at");
    let none = ("nobody", &["user=ann"][..]);
    assert_eq!(shop.report(none, 4).await, "OK: ");
}

#[tokio::test]
async fn an_estimate_is_held_and_what_was_used_is_charged() {
    let shop = shop().await;
    for (ann, bob) in ANN.into_iter().zip(BOB) {
        let one = shop.held(ann, 8).await;
        assert_eq!(shop.looked(ann).await, "OK: OK 2", "{ann:?}");
        shop.denied(ann, 3).await;
        assert_eq!(shop.looked(bob).await, "OK: OK 10", "{bob:?}");
        assert!(shop.commit(ann, &one, 3).await.unwrap());
        assert_eq!(shop.looked(ann).await, "OK: OK 7");
        // Twice is once, for a minute.
        assert!(shop.commit(ann, &one, 3).await.unwrap());
        assert_eq!(shop.looked(ann).await, "OK: OK 7");
        // Nothing was used.
        let none = shop.held(ann, 7).await;
        assert!(shop.commit(ann, &none, 0).await.unwrap());
        assert_eq!(shop.looked(ann).await, "OK: OK 7");
        // More was used than estimated: the rest is debt.
        let more = shop.held(ann, 1).await;
        assert!(shop.commit(ann, &more, 50).await.unwrap());
        shop.denied(ann, 1).await;
        // Nothing is asked for: a look, and nothing is held.
        assert_eq!(shop.reserve(ann, 0, None).await.unwrap(), (2, String::new()));
        assert_eq!(shop.reserve(bob, 0, None).await.unwrap(), (1, String::new()));
    }
}

#[tokio::test]
async fn what_is_not_held_is_charged_all_the_same() {
    let shop = shop().await;
    for (ann, bob) in ANN.into_iter().zip(BOB) {
        // An unknown id, and no id.
        assert!(!shop.commit(ann, "an-id", 1).await.unwrap());
        assert!(!shop.commit(ann, "", 1).await.unwrap());
        assert!(!shop.commit(ann, "an-id", 0).await.unwrap());
        assert_eq!(shop.looked(ann).await, "OK: OK 8", "{ann:?}");
        // The hold of another is not accepted, and stays open.
        let of_bob = shop.held(bob, 4).await;
        assert!(!shop.commit(ann, &of_bob, 2).await.unwrap());
        assert_eq!(
            (shop.looked(ann).await, shop.looked(bob).await),
            ("OK: OK 6".into(), "OK: OK 6".into())
        );
        assert!(shop.commit(bob, &of_bob, 1).await.unwrap());
        assert_eq!(shop.looked(bob).await, "OK: OK 9");
        // A hold that has ended charges nothing by itself, and its commit does.
        let (_, late) = shop.reserve(ann, 5, Some(10)).await.unwrap();
        assert_eq!(shop.looked(ann).await, "OK: OK 1");
        shop.clock.advance(Duration::from_secs(10));
        assert_eq!(shop.looked(ann).await, "OK: OK 6");
        assert!(!shop.commit(ann, &late, 2).await.unwrap());
        assert_eq!(shop.looked(ann).await, "OK: OK 4");
        // That of HTTP holds something else.
        let http = &mut shop.service.client().await;
        let question = r#"{"subject": "envoy:shop|user=bob", "limit": "1 at once"}"#;
        let slot = http.post("/v1/acquire", question).await.json();
        assert!(!shop.commit(bob, slot["hold"].as_str().unwrap(), 1).await.unwrap());
        let release = format!(r#"{{"hold": {}}}"#, slot["hold"]);
        assert_eq!(http.post("/v1/release", &release).await.status, 200);
        assert_eq!(shop.looked(bob).await, "OK: OK 8");
    }
}

#[tokio::test]
async fn a_hold_lasts_a_minute_at_most() {
    let shop = shop().await;
    for ann in ANN {
        for (asked, seconds) in [(None, 60), (Some(3_600), 60), (Some(-1), 60), (Some(7), 7)] {
            let (code, _) = shop.reserve(ann, 10, asked).await.unwrap();
            assert_eq!(code, 1, "{ann:?} {asked:?}");
            shop.clock.advance(Duration::from_micros(seconds * 1_000_000 - 1));
            assert_eq!(shop.looked(ann).await, "OVER: OVER 0", "{asked:?}");
            shop.clock.advance(Duration::from_micros(1));
            assert_eq!(shop.looked(ann).await, "OK: OK 10", "{asked:?}");
        }
    }
    // A slot has its own time, and comes back with the commit.
    let jobs = ("shop", &["jobs=a"][..]);
    let (_, one) = shop.reserve(jobs, 4, None).await.unwrap();
    shop.denied(jobs, 1).await;
    assert!(shop.commit(jobs, &one, 2).await.unwrap());
    let (code, _) = shop.reserve(jobs, 8, None).await.unwrap();
    assert_eq!(code, 1);
    shop.clock.advance(Duration::from_secs(20));
    let (code, _) = shop.reserve(jobs, 8, None).await.unwrap();
    assert_eq!(code, 1, "the slot was free after its own time");
}

/// The minute bounds holds on units alone: a caller that relies on a slot keeps it for its time.
#[tokio::test]
async fn a_slot_is_held_for_its_own_time() {
    let shop = shop().await;
    for long in [("shop", &["long=a"][..]), ("long", &["user=a"][..])] {
        let times =
            [(None, 120), (Some(3_600), 120), (Some(-1), 120), (Some(90), 90), (Some(7), 7)];
        for (asked, seconds) in times {
            let (code, _) = shop.reserve(long, 1, asked).await.unwrap();
            assert_eq!(code, 1, "{long:?} {asked:?}");
            shop.clock.advance(Duration::from_micros(seconds * 1_000_000 - 1));
            shop.denied(long, 1).await;
            shop.clock.advance(Duration::from_micros(1));
        }
        let id = shop.held(long, 1).await;
        shop.denied(long, 1).await;
        assert!(shop.commit(long, &id, 0).await.unwrap());
        shop.held(long, 1).await;
    }
}

#[tokio::test]
async fn several_descriptors_are_held_together_or_not_at_all() {
    let shop = shop().await;
    let both = ("shop", &["user=ann", "tenant=t", "user=ann"][..]);
    let one = shop.held(both, 6).await;
    let looked = ("shop", &["user=ann", "tenant=t"][..]);
    assert_eq!(shop.looked(looked).await, "OK: OK 4, OK 94", "once, though named twice");
    shop.denied(both, 5).await;
    assert_eq!(shop.looked(looked).await, "OK: OK 4, OK 94");
    assert!(shop.commit(both, &one, 2).await.unwrap());
    assert_eq!(shop.looked(looked).await, "OK: OK 8, OK 98");
    // By policies each descriptor has its own hold.
    let models = ("models", &["user=ann", "user=bob"][..]);
    let two = shop.held(models, 6).await;
    assert_eq!(two.split('.').count(), 2);
    assert_eq!(shop.looked(models).await, "OK: OK 4, OK 4");
    shop.denied(("models", &["user=eve", "user=bob"]), 5).await;
    assert_eq!(shop.looked(("models", &["user=eve"])).await, "OK: OK 10", "it was taken back");
    // In another order they are others.
    assert!(!shop.commit(("models", &["user=bob", "user=ann"]), &two, 1).await.unwrap());
    assert_eq!(shop.looked(models).await, "OK: OK 3, OK 3");
    assert!(shop.commit(models, &two, 1).await.unwrap());
    assert_eq!(shop.looked(models).await, "OK: OK 8, OK 8");
}

#[tokio::test]
async fn rules_without_a_count_hold_nothing() {
    let shop = shop().await;
    let free = ("shop", &["free=a"][..]);
    assert_eq!(shop.reserve(free, 5, None).await.unwrap(), (1, String::new()));
    assert_eq!(shop.reserve(free, u64::MAX, None).await.unwrap(), (1, String::new()));
    assert_eq!(shop.reserve(("nobody", &["a=a"]), 5, None).await.unwrap(), (1, String::new()));
    shop.denied(("shop", &["banned=a"]), 1).await;
    shop.denied(("shop", &["banned=a", "user=eve"]), 1).await;
    assert_eq!(shop.looked(("shop", &["user=eve"])).await, "OK: OK 10");
    // A policy in shadow denies nobody: a commit charges it.
    let trial = ("shop", &["trial=a"][..]);
    assert_eq!(shop.reserve(trial, 50, None).await.unwrap(), (1, String::new()));
    let both = ("shop", &["trial=a", "user=eve"][..]);
    let id = shop.held(both, 9).await;
    assert_eq!(shop.looked(both).await, "OK: OK 5, OK 1");
    assert!(shop.commit(both, &id, 3).await.unwrap());
    assert_eq!(shop.looked(both).await, "OK: OK 2, OK 7");
    // Once.
    assert!(shop.commit(both, &id, 3).await.unwrap());
    assert_eq!(shop.looked(both).await, "OK: OK 2, OK 7");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let shop = shop().await;
    for ann in ANN {
        // It can never fit, and a caller that asks for it must not pass by an error.
        for amount in [11, (1 << 40) + 1, 1 << 53, u64::MAX] {
            shop.denied(ann, amount).await;
        }
        let id = shop.held(ann, 4).await;
        for actual in [(1 << 40) + 1, 1 << 53, u64::MAX] {
            let error = shop.commit(ann, &id, actual).await.unwrap_err();
            assert_eq!(error.code(), Code::InvalidArgument);
            assert!(error.message().contains("at most 2^40"), "{error}");
        }
        assert_eq!(shop.looked(ann).await, "OK: OK 6", "the hold is still open");
        assert!(shop.commit(ann, &id, 1).await.unwrap());
    }
    for what in [("", &["user=ann"][..]), ("shop", &[])] {
        let error = shop.reserve(what, 1, None).await.unwrap_err();
        assert!(error.message().ends_with("must not be empty"), "{error}");
        let error = shop.commit(what, "", 1).await.unwrap_err();
        assert!(error.message().ends_with("must not be empty"), "{error}");
    }
    let mut back = request("models", &["-2 user=ann"]);
    let error = shop.client().report(back.clone()).await.unwrap_err();
    assert!(error.message().contains("no hits back"), "{error}");
    back.descriptors[0] = descriptor("strange key=a");
    let error = shop.client().report(back).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    let page = shop.service.client().await.get("/metrics").await.text;
    for line in [
        "tollgate_grpc_calls_total{method=\"Reserve\",result=\"over_limit\"} 8",
        "tollgate_grpc_calls_total{method=\"Reserve\",result=\"ok\"} 2",
        "tollgate_grpc_calls_total{method=\"Commit\",result=\"ok\"} 2",
        "tollgate_grpc_calls_total{method=\"Commit\",result=\"error\"} 8",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}

/// The messages have no field for an id of the caller: the metadata has it.
#[tokio::test]
async fn a_hold_has_an_id_of_the_caller_in_the_metadata() {
    let shop = shop().await;
    let id = "b1946ac92492d2347c6235b4d2611184";
    for (domain, descriptors) in ANN {
        let descriptors: Vec<_> = descriptors.iter().map(|text| descriptor(text)).collect();
        let domain = domain.to_owned();
        let reserve = ReserveRequest {
            domain: domain.clone(),
            descriptors: descriptors.clone(),
            amount: 6,
            ttl: None,
        };
        let commit = CommitRequest {
            domain: domain.clone(),
            descriptors,
            reservation_id: String::new(),
            actual_amount: 2,
        };
        for _ in 0..2 {
            let said = shop.client().reserve(with_id(reserve.clone(), id)).await.unwrap();
            assert_eq!(said.into_inner().code, 1, "it is one hold");
        }
        let ann: (&str, &[&str]) = (&domain, &["user=ann"]);
        assert_eq!(shop.looked(ann).await, "OK: OK 4");
        for _ in 0..2 {
            let said = shop.client().commit(with_id(commit.clone(), id)).await.unwrap();
            assert!(said.into_inner().reservation_released);
            assert_eq!(shop.looked(ann).await, "OK: OK 8");
        }
        let late = shop.client().reserve(with_id(reserve.clone(), id)).await.unwrap_err();
        assert_eq!(late.code(), Code::FailedPrecondition, "{}", late.message());
        let short = shop.client().reserve(with_id(reserve, "short")).await.unwrap_err();
        assert_eq!(short.code(), Code::InvalidArgument, "{}", short.message());
        assert!(short.message().starts_with("tollgate-hold-id: "), "{}", short.message());
    }
}

fn with_id<T>(message: T, id: &str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("tollgate-hold-id", id.parse().unwrap());
    request
}

/// A caller that waits shorter than any store needs: nothing is asked for it, and nothing counted.
#[tokio::test]
async fn a_call_that_leaves_the_store_no_time_is_not_asked() {
    let server = redis_or_skip!();
    let folder = tempfile::tempdir().unwrap();
    let path = rules(folder.path(), RULES);
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let service = Service::start_with(gate_of(POLICIES, store.into()), |options| {
        options.grpc = vec![here()];
        options.envoy.rules = EnvoyRules::Files(path);
    })
    .await;
    let wire = service.wire().await;
    let client = RateLimitServiceClient::with_origin(wire.clone(), origin());
    for (domain, descriptors) in ANN {
        let look = || within(request(domain, descriptors), Duration::from_nanos(1));
        let descriptors = look().into_inner().descriptors;
        let reserve = ReserveRequest {
            domain: domain.to_owned(),
            descriptors: descriptors.clone(),
            amount: 2,
            ttl: None,
        };
        let commit = CommitRequest {
            domain: domain.to_owned(),
            descriptors,
            reservation_id: String::new(),
            actual_amount: 2,
        };
        let short = Duration::from_micros(111);
        let (mut of_envoy, mut client) = (wire.client(), client.clone());
        for (method, said) in [
            ("ShouldRateLimit", of_envoy.should_rate_limit(look()).await.map(|_| ())),
            ("CheckRateLimit", client.check_rate_limit(look()).await.map(|_| ())),
            ("Report", client.report(look()).await.map(|_| ())),
            ("Reserve", client.reserve(within(reserve.clone(), short)).await.map(|_| ())),
            ("Commit", client.commit(within(commit, short)).await.map(|_| ())),
        ] {
            let error = said.unwrap_err();
            assert_eq!(error.code(), Code::DeadlineExceeded, "{method}: {error}");
            assert!(error.message().starts_with("grpc-timeout: 1"), "{method}: {error}");
        }
        let page = service.client().await.get("/metrics").await.text;
        for counter in ["tollgate_decisions_total{", "tollgate_limit_decisions_total{"] {
            let counted = |line: &&str| line.starts_with(counter) && !line.ends_with(" 0");
            assert_eq!(page.lines().find(counted), None, "{domain}");
        }
        // Enough time is enough.
        let long = within(reserve, Duration::from_secs(60));
        assert_eq!(client.reserve(long).await.unwrap().into_inner().code, 1, "{domain}");
    }
}

fn within<T>(message: T, time: Duration) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(time);
    request
}

/// A commit charges what was held before a ban or an exemption. Without a hold, a client
/// that is banned or exempt is charged nothing.
#[tokio::test]
async fn a_hold_is_settled_whatever_was_ruled_since() {
    let shop = shop().await;
    let (ann, mut admin) = (ANN[1], shop.service.admin().await);
    let commit = |id: &str| {
        let reservation_id = id.to_owned();
        let (domain, descriptors) = (ann.0.to_owned(), vec![descriptor("user=ann")]);
        CommitRequest { domain, descriptors, reservation_id, actual_amount: 1 }
    };
    let reserve = || {
        let (domain, descriptors) = (ann.0.to_owned(), vec![descriptor("user=ann")]);
        ReserveRequest { domain, descriptors, amount: 3, ttl: None }
    };
    let named = |which: usize| format!("{which:032}");
    for (act, nth) in [("ban", 1), ("exempt", 2)] {
        let signed = shop.held(ann, 3).await;
        let said = shop.client().reserve(with_id(reserve(), &named(nth))).await.unwrap();
        assert_eq!(said.into_inner().code, 1);
        let rule = r#"{"when": {"user": "ann"}, "policy": "tokens", "for": "1h"}"#;
        let told = admin.post(&format!("/v1/admin/{act}"), rule).await;
        assert_eq!(told.status, 200, "{}", told.text);
        assert!(shop.commit(ann, &signed, 1).await.unwrap(), "{act}");
        let by_name = with_id(commit(""), &named(nth));
        assert!(shop.client().commit(by_name).await.unwrap().into_inner().reservation_released);
        // Nothing is held, and nothing is charged.
        for id in ["", "an-id"] {
            assert!(!shop.commit(ann, id, 5).await.unwrap(), "{act}");
        }
        let lift = r#"{"when": {"user": "ann"}, "policy": "tokens"}"#;
        assert_eq!(admin.post("/v1/admin/lift", lift).await.status, 200);
        assert_eq!(shop.looked(ann).await, format!("OK: OK {}", 10 - 2 * nth), "{act}");
    }
}

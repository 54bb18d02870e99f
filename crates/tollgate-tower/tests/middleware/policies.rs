//! The example files, asked through the middleware.

use std::time::Duration;

use tollgate_policy::Policies;

use crate::common::{example, from, gate, send, status};
use crate::server;

#[tokio::test]
async fn an_address_and_a_user_under_three_windows_with_weights() {
    for file in ["api.toml", "api.yaml"] {
        let (gate, clock) = gate(Policies::load(example(file)).unwrap());
        let app = server::app(gate).unwrap();
        // A client without a login is limited by the address alone.
        let mut got = Vec::new();
        for _ in 0..12 {
            got.push(status(&app, "192.0.2.1", &[]).await);
        }
        assert_eq!(got.iter().filter(|status| **status == 200).count(), 10);
        assert_eq!(got[10..], [429, 429]);
        // The same user from two addresses: 10 a second of the user's own.
        let mut admitted = 0;
        for peer in ["192.0.2.2", "192.0.2.3"] {
            for _ in 0..6 {
                admitted += u32::from(status(&app, peer, &[("x-user", "ann")]).await == 200);
            }
        }
        assert_eq!(admitted, 10);
        // Requests that the user's limit denied did not count for the address.
        let seen = send(&app, from("192.0.2.3", &[])).await;
        assert_eq!(seen.header("ratelimit"), Some("\"api/ip/1s\";r=5;t=1"));
        let policy = seen.header("ratelimit-policy").unwrap();
        assert!(
            policy.starts_with(r#""api/ip/1s";q=10;w=1, "api/ip/1m";q=120;w=60, "#),
            "{policy}"
        );
        // A weight of 7 takes 7; one of 11 never fits; one of 51 is above what the policy takes.
        clock.advance(Duration::from_secs(1));
        let heavy = send(&app, from("192.0.2.4", &[("x-weight", "7")])).await;
        assert_eq!(heavy.header("ratelimit"), Some("\"api/ip/1s\";r=3;t=1"));
        for weight in ["11", "51"] {
            let never = send(&app, from("192.0.2.4", &[("x-weight", weight)])).await;
            assert_eq!((never.status.as_u16(), never.header("retry-after")), (422, None));
        }
        // 120 a minute: twelve seconds of ten, and then no more in this minute.
        for second in 0..13 {
            clock.advance(Duration::from_secs(1));
            for _ in 0..10 {
                let expected = if second < 12 { 200 } else { 429 };
                assert_eq!(status(&app, "192.0.2.5", &[]).await, expected, "{second}");
            }
        }
    }
}

#[tokio::test]
async fn a_resource_and_its_consumers_share_one_check() {
    let (gate, clock) = gate(Policies::load(example("resource-and-consumers.toml")).unwrap());
    let app = server::app(gate).unwrap();
    let call = async |consumer: &str| {
        let headers = [("x-resource", "12"), ("x-consumer", consumer)];
        send(&app, from("192.0.2.1", &headers)).await
    };
    for _ in 0..3 {
        assert_eq!(call("1").await.status, 200);
    }
    let denied = call("1").await;
    assert_eq!((denied.status.as_u16(), denied.header("retry-after")), (429, Some("10")));
    assert!(
        denied.body.contains("field.resource+field.consumer") || denied.body.contains("resource/2"),
        "{}",
        denied.body
    );
    // The denial took nothing of the resource's five.
    assert_eq!(call("2").await.status, 200);
    assert_eq!(call("2").await.status, 200);
    let full = call("3").await;
    assert_eq!(full.status, 429);
    assert!(
        full.body.contains(r#""violated-policies":["resource/field.resource"]"#),
        "{}",
        full.body
    );
    clock.advance(Duration::from_secs(10));
    assert_eq!(call("1").await.status, 200);
    // Without a consumer there is no subject: that does not bypass the limit.
    assert_eq!(status(&app, "192.0.2.1", &[("x-resource", "12")]).await, 400);
}

#[tokio::test]
async fn a_thousand_an_hour_for_each_address() {
    let (gate, clock) = gate(Policies::load(example("1000-per-hour.toml")).unwrap());
    let app = server::app(gate).unwrap();
    let mut admitted = 0;
    for _ in 0..1_200 {
        admitted += u32::from(status(&app, "192.0.2.1", &[]).await == 200);
    }
    assert_eq!(admitted, 1_000);
    let denied = send(&app, from("192.0.2.1", &[])).await;
    assert_eq!(denied.header("retry-after"), Some("4"));
    clock.advance(Duration::from_secs(4));
    assert_eq!(status(&app, "192.0.2.1", &[]).await, 200);
    assert_eq!(status(&app, "192.0.2.1", &[]).await, 429);
    assert_eq!(status(&app, "192.0.2.2", &[]).await, 200);
}

#[tokio::test]
async fn each_pair_of_caller_and_resource_has_a_count() {
    let (gate, _) = gate(Policies::load(example("caller-and-resource.toml")).unwrap());
    let app = server::app(gate).unwrap();
    let call = async |user: &str, resource: &str| {
        status(&app, "192.0.2.1", &[("x-user", user), ("x-resource", resource)]).await
    };
    let mut admitted = 0;
    for _ in 0..105 {
        admitted += u32::from(call("ann", "a").await == 200);
    }
    assert_eq!(admitted, 100);
    assert_eq!(call("ann", "b").await, 200);
    assert_eq!(call("bob", "a").await, 200);
    // Joined without a separator, these two would be one.
    assert_eq!(call("an", "na").await, 200);
}

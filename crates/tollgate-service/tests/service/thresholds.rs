//! Reports of thresholds to a webhook.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode, Uri};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tollgate::MemoryStore;
use tollgate_policy::{Format, Gate, Policies};
use tollgate_service::{AnyStore, Metrics, Posted, Webhook, WebhookClient};

use crate::Service;

const POLICIES: &str = r#"
    version = 1
    [[policies]]
    name = "api"
    on_failure = "deny"
    limits = [{ subject = "user", absent = "deny", limit = "4/366d via gcra", notify = ["50 %"] }]
"#;

/// Tells the subject of each report, and answers those about others than `ann`.
struct Receiver(UnboundedSender<String>);

impl WebhookClient for Receiver {
    fn post(&self, request: Request<Bytes>) -> Posted<'_> {
        let body: Value = serde_json::from_slice(request.body()).unwrap();
        let subject = body["data"]["subject"].as_str().unwrap().to_owned();
        self.0.send(subject.clone()).unwrap();
        Box::pin(async move {
            if subject == "user:ann" {
                core::future::pending::<()>().await;
            }
            Ok(StatusCode::NO_CONTENT)
        })
    }
}

/// A report that the receiver never answers is in the way of no other.
#[tokio::test]
async fn a_receiver_that_hangs_delays_no_other_report() {
    let (sender, mut told) = unbounded_channel();
    let url = Uri::from_static("http://127.0.0.1:1/");
    let webhook = Webhook::new(url, "a secret of many bytes", Arc::new(Receiver(sender))).unwrap();
    let metrics = Metrics::new();
    let policies = Policies::parse(POLICIES, Format::Toml).unwrap();
    let store = AnyStore::Memory(MemoryStore::new());
    let gate = Gate::observed(policies, store, metrics.clone()).unwrap();
    let service = Service::start_with(gate, |options| {
        (options.metrics, options.webhook) = (metrics, Some(Arc::new(webhook)));
    })
    .await;
    let mut client = service.client().await;
    for user in ["ann", "bob", "eve"] {
        for _ in 0..2 {
            let body = json!({"fields": {"user": user}}).to_string();
            assert_eq!(client.check(&body).await["allowed"], true);
        }
        let first = tokio::time::timeout(core::time::Duration::from_secs(9), told.recv()).await;
        assert_eq!(first.unwrap(), Some(format!("user:{user}")));
    }
}

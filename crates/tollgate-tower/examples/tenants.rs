//! A shop behind a proxy: limits by tenant as a database has them, a 429 of its own, and counts in
//! Redis where `REDIS_URL` names one.
//!
//! ```sh
//! cargo run -p tollgate-tower --example tenants
//! curl -si -H 'x-tenant: acme' -H 'x-forwarded-for: 192.0.2.7' 127.0.0.1:3000
//! ```

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, RwLock};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};
use axum::routing::get;
use tollgate::{LimitSet, MemoryStore, ParseError, Store};
use tollgate_policy::{Combine, Entry, Gate, OnFailure, Outcome, Policies, Policy};
use tollgate_redis::RedisStore;
use tollgate_tower::TollgateLayer;
use tollgate_tower::identity::{AddressHeader, ClientAddress, Identity};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// The limits of tenants, as they were found before.
type Plans = Arc<RwLock<HashMap<String, Option<LimitSet>>>>;

/// The limits that a tenant has paid for; `None` for the usual ones.
async fn plan_of(plans: Plans, tenant: String) -> Result<Option<LimitSet>, AnyError> {
    if let Ok(plans) = plans.read()
        && let Some(known) = plans.get(&tenant)
    {
        return Ok(known.clone());
    }
    // Here would be a question to the database, with a deadline.
    let found = (tenant == "acme").then(|| "500/m".parse()).transpose()?;
    if let Ok(mut plans) = plans.write() {
        plans.insert(tenant, found.clone());
    }
    Ok(found)
}

fn tenant(headers: &HeaderMap) -> Option<String> {
    headers.get("x-tenant")?.to_str().ok().map(str::to_owned)
}

/// Each client 100 requests in a minute, and each tenant what it has paid for, in one decision.
fn policies() -> Result<Policies, AnyError> {
    let clients = Policy::new("clients", OnFailure::Allow).entry(Entry::new(["ip"], "100/m")?);
    let per_tenant = Entry::new(["field.tenant"], "50/m")?.absent("skip")?;
    let tenants = Policy::new("tenants", OnFailure::Allow).entry(per_tenant);
    Ok(Policies::new(Combine::All, vec![clients, tenants])?)
}

fn limits<S: Store + 'static>(gate: Gate<S>) -> Result<TollgateLayer<S>, ParseError> {
    let plans = Plans::default();
    TollgateLayer::builder(gate)
        // The proxy on this machine writes the header, so that it can be trusted.
        .client(ClientAddress::behind("127.0.0.0/8".parse()?, AddressHeader::XForwardedFor))
        .field("tenant", Identity::header("x-tenant")?)
        .limits("tenants", move |head| {
            let (plans, tenant) = (Arc::clone(&plans), tenant(head.headers));
            async move {
                match tenant {
                    Some(tenant) => plan_of(plans, tenant).await,
                    None => Ok(None),
                }
            }
        })
        .on_refused(|outcome, refused, mut response| {
            if outcome != Outcome::Denied {
                return response;
            }
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, json);
            let by = refused.policy.unwrap_or_default();
            response
                .map(|_| Bytes::from(format!("{{\"error\":\"slow down\",\"limit\":\"{by}\"}}\n")))
        })
        .build()
}

fn app<S: Store + 'static>(store: S) -> Result<Router, AnyError> {
    let layer = limits(Gate::new(policies()?, store)?)?;
    let shop = Router::new().route("/", get(async || "the shop\n")).layer(layer.clone());
    // Outside of the limits, for Prometheus.
    Ok(shop.route("/metrics", get(async move || layer.metrics().to_string())))
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    tracing_subscriber::fmt().init();
    let app = match std::env::var("REDIS_URL") {
        Ok(url) => app(RedisStore::connect(&url).await?)?,
        Err(_) => app(MemoryStore::new())?,
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

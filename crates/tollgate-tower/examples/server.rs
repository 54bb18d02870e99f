//! A server under a policy file, with its counts in any store:
//!
//! ```sh
//! alias server="cargo run --release -p tollgate-tower --example server --"
//! server examples/policies/1000-per-hour.toml memory
//! server examples/policies/api.toml sqlite://counts.db 127.0.0.1:3001
//! server examples/policies/api.yaml redis://127.0.0.1:6379
//! ```
//!
//! The file is read again when it changes. The policies see who is calling in three headers, which
//! a real server would take from its sessions: `x-user` (`user`), `x-resource` and `x-consumer`
//! (`field.resource`, `field.consumer`), and a weight in `x-weight` (`field.weight`).

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;

use axum::{Router, routing::get};
use tokio::net::TcpListener;
use tollgate::{MemoryStore, Store};
use tollgate_policy::{Gate, Policies};
use tollgate_redis::RedisStore;
use tollgate_sqlite::SqliteStore;
use tollgate_tower::TollgateLayer;
use tollgate_tower::identity::Identity;

type Failure = Box<dyn Error + Send + Sync>;

/// The service under limits: headers say who is calling.
pub fn app<S: Store + 'static>(gate: Gate<S>) -> Result<Router, Failure> {
    let limits = TollgateLayer::builder(gate)
        .user(Identity::header("x-user")?)
        .field("resource", Identity::header("x-resource")?)
        .field("consumer", Identity::header("x-consumer")?)
        .field("weight", Identity::header("x-weight")?)
        .show_revision(true)
        .build()?;
    Ok(Router::new().route("/", get(|| async { "hello\n" })).layer(limits))
}

async fn serve<S: Store + 'static>(
    policies: &Path,
    store: S,
    listener: TcpListener,
) -> Result<(), Failure> {
    let gate = Gate::new(Policies::load(policies)?, store)?;
    let _watcher = gate.watch(policies, |reload| eprintln!("{reload}"))?;
    println!("listening on http://{}", listener.local_addr()?);
    let app = app(gate)?.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, app).await?;
    Ok(())
}

/// Serves on `listener`, with the counts in `memory`, `sqlite://PATH` or `redis://HOST:PORT`, until
/// the future is dropped.
pub async fn run(policies: &Path, store: &str, listener: TcpListener) -> Result<(), Failure> {
    if store == "memory" {
        serve(policies, MemoryStore::new(), listener).await
    } else if let Some(path) = store.strip_prefix("sqlite://") {
        serve(policies, SqliteStore::open(path)?, listener).await
    } else {
        serve(policies, RedisStore::connect(store).await?, listener).await
    }
}

#[tokio::main]
#[allow(dead_code, reason = "tests take this file as a module, and call `run`")]
async fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let policies = words.next().ok_or("usage: server POLICIES [STORE] [ADDRESS]")?;
    let store = words.next().unwrap_or_else(|| "memory".to_owned());
    let address = words.next().unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    run(Path::new(&policies), &store, TcpListener::bind(address).await?).await
}

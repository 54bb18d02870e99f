//! Limits before a service of axum, in ten lines: `cargo run --release -p tollgate-tower --example
//! hello`, then `ab -n 1200 -c 50 http://127.0.0.1:3000/`, or `curl -i 127.0.0.1:3000`.

use axum::{Router, routing::get};
use std::net::SocketAddr;
use tollgate_tower::TollgateLayer;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limits = TollgateLayer::per_client("1000/1h via token_bucket")?;
    let app = Router::new().route("/", get(|| async { "hello\n" })).layer(limits);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

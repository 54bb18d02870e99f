//! The service as its clients meet it: a real one on its own port.

#![allow(clippy::unwrap_used, clippy::expect_used)] // tests may

mod abuse;
mod admin;
mod auth;
mod checks;
mod client;
mod console;
mod crowds;
mod doors;
mod ending;
mod fairness;
mod faults;
mod formats;
mod grpc;
mod grpc_client;
mod hangups;
mod holds;
mod leases;
mod load;
mod redis_client;
mod resp;
mod rulings;
mod secured;
mod set_limits;
mod thresholds;
mod top;
mod units;
mod waits;
mod wire;
mod workers;

use std::net::SocketAddr;

use tollgate::MemoryStore;
use tollgate_policy::{Format, Gate, Policies};
use tollgate_service::{Address, AnyStore, Options, Server};

use client::Client;

/// Policies for most of the tests.
const FILE: &str = r#"
    version = 1
    match = "first"
    [[policies]]
    name = "login"
    on_failure = "deny"
    when = { path = "/login", method = "POST" }
    limits = [{ subject = "ip", limit = "2/h" }]
    [[policies]]
    name = "dear"
    on_failure = "allow"
    cost = { from = "field.weight", max = 50, otherwise = 1 }
    when = { host = "dear.example" }
    limits = [{ subject = "ip", limit = "9/h" }]
    [[policies]]
    name = "banned"
    on_failure = "allow"
    when = { header.x-bad = "*" }
    limits = [{ subject = "ip", limit = "9/h", overrides = [{ when = { header.x-bad = "yes" }, limit = "banned" }] }]
    [[policies]]
    name = "trial"
    on_failure = "allow"
    shadow = true
    limits = [{ subject = "ip", limit = "1/h" }]
    [[policies]]
    name = "pages"
    on_failure = "allow"
    when = { path = "/pages/*" }
    limits = [{ subject = "ip", limit = "5/h via token_bucket" }]
"#;

/// A service, and where it is.
struct Service {
    server: Server,
    address: SocketAddr,
    gate: Gate<AnyStore>,
}

fn tcp(address: &Address) -> SocketAddr {
    match address {
        Address::Tcp(found) => found[0],
        other => panic!("{other} is not TCP"),
    }
}

/// Any port of this machine.
fn here() -> Address {
    "127.0.0.1:0".parse().unwrap()
}

fn gate_of(text: &str, store: AnyStore) -> Gate<AnyStore> {
    let policies = Policies::parse(text, Format::Toml).unwrap_or_else(|why| panic!("{why}"));
    Gate::new(policies, store).unwrap()
}

impl Service {
    async fn start() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Options)) -> Self {
        Self::start_with(gate_of(FILE, AnyStore::Memory(MemoryStore::new())), change).await
    }

    async fn start_with(gate: Gate<AnyStore>, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new(vec![here()]);
        change(&mut options);
        let server = Server::start(gate.clone(), options).await.unwrap();
        let address = tcp(&server.addresses()[0]);
        Self { server, address, gate }
    }

    async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Where administrators ask.
    async fn admin(&self) -> Client {
        Client::connect(tcp(self.server.admin().unwrap())).await
    }
}

/// A batch whose answer has 1.3 MB for a question of 60 kB, since each limit's part gives its
/// subject: the whole request, and its body.
fn long_answer() -> (String, String) {
    let limits: Vec<_> = (1..=32).map(|days| format!("1000000/{days}d via gcra")).collect();
    let (subject, limits) = ("a".repeat(1_000), limits.join(", "));
    let item = format!(r#"{{"subject": "{subject}", "limit": "{limits}"}}"#);
    let body = format!(r#"{{"checks": [{}]}}"#, vec![item; 32].join(", "));
    let length = body.len();
    let batch =
        format!("POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n{body}");
    (batch, body)
}

//! The layer before real services: axum, `ab`, Redis, SQLite, policy files that change.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod charging;
mod code;
mod common;
mod dropped;
mod faults;
mod governor;
mod holding;
mod layer;
mod load;
mod metrics;
mod mistakes;
mod policies;
mod reload;
mod waiting;

/// The example, as it is run by hand.
#[path = "../../examples/server.rs"]
#[allow(unreachable_pub, missing_docs)]
mod server;

/// How pages are read.
#[path = "../../../tollgate-cli/tests/it/page.rs"]
mod page;

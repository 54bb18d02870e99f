//! Real Redis servers for tests, started and ended by them, and what is said over the wire.
//!
//! Behind the feature `redis`, so that who uses the conformance kit alone does not pay for it. A
//! test begins with [`redis_or_skip!`](crate::redis_or_skip): without a `redis-server` it says so
//! and passes, which `cargo xtask test` counts as skipped.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a fixture fails by panicking")]

mod client;
mod cluster;
mod launch;
mod poll;
mod proxy;
pub mod resp;
mod sentinel;
mod server;
mod tls;

pub use client::Client;
pub use cluster::{
    ClusterOptions, Node, RangeOfSlots, RedisCluster, Role, SLOTS, SlotMove, key_slot,
};
pub use launch::Launch;
pub use proxy::{Mode, Proxy, Seen, Trick};
pub use resp::Reply;
pub use sentinel::{RedisSentinels, SentinelOptions};
pub use server::{CommandStat, RedisServer};
pub use tls::{AUTHORITY, NO_TLS, has_tls};

/// What a test prints when there is no `redis-server`: the reason, then the one line to run.
pub const SKIPPED: &str = "SKIPPED: redis-server is not installed: apt-get install redis-server";

/// A server for this test, or the end of the test when none is installed.
///
/// ```
/// fn a_test() {
///     let server = tollgate_proof::redis_or_skip!("--maxmemory", "100mb");
///     assert_eq!(server.command(&[b"DBSIZE"]).int(), Some(0));
/// }
/// # a_test();
/// ```
#[macro_export]
macro_rules! redis_or_skip {
    ($($argument:expr),* $(,)?) => {
        $crate::start_or_skip!($crate::redis::RedisServer::with(&[$($argument),*]))
    };
}

/// A Redis Cluster for this test, or the end of the test when no server is installed. It takes
/// [`ClusterOptions`](crate::redis::ClusterOptions), or nothing.
#[macro_export]
macro_rules! cluster_or_skip {
    () => {
        $crate::cluster_or_skip!($crate::redis::ClusterOptions::new())
    };
    ($options:expr $(,)?) => {
        $crate::start_or_skip!($options.start())
    };
}

/// Servers under sentinels for this test, or the end of the test when no server is installed. It
/// takes [`SentinelOptions`](crate::redis::SentinelOptions), or nothing.
#[macro_export]
macro_rules! sentinels_or_skip {
    () => {
        $crate::sentinels_or_skip!($crate::redis::SentinelOptions::new())
    };
    ($options:expr $(,)?) => {
        $crate::start_or_skip!($options.start())
    };
}

/// The end of the test when the server program was built without TLS.
#[macro_export]
macro_rules! skip_without_tls {
    () => {
        if !$crate::redis::has_tls() {
            println!("{}", $crate::redis::NO_TLS);
            return;
        }
    };
}

/// What is started, or the end of the test when no server is installed.
#[doc(hidden)]
#[macro_export]
macro_rules! start_or_skip {
    ($start:expr) => {
        match $crate::redis::RedisServer::find() {
            Some(_) => $start,
            None => {
                println!("{}", $crate::redis::SKIPPED);
                return;
            }
        }
    };
}

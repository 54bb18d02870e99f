//! Real servers for tests and tools, ended with them: Redis, clusters, sentinels, other programs,
//! and a proxy that makes connections fail.
//!
//! A test begins with [`redis_or_skip!`]: without a `redis-server` it reports that and passes,
//! which `cargo xtask test` counts as skipped.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a fixture fails by panicking")]

mod client;
mod cluster;
mod installed;
mod launch;
mod port;
mod program;
mod proxy;
pub mod resp;
mod sentinel;
mod server;
mod tls;
mod wait;

pub use client::Client;
pub use cluster::{
    ClusterOptions, Node, RangeOfSlots, RedisCluster, Role, SLOTS, SlotMove, key_slot,
};
pub use installed::{NO_TLS, SKIPPED, has_tls, redis_program};
pub use launch::Launch;
pub use port::free_port;
pub use program::Program;
pub use proxy::{Mode, Proxy, Seen, Trick};
pub use resp::Reply;
pub use sentinel::{RedisSentinels, SentinelOptions};
pub use server::{CommandStat, RedisServer};
pub use tls::{AUTHORITY, STRANGER};
pub use wait::{try_until, until};

/// A server for this test, or the end of the test when none is installed.
///
/// ```
/// fn a_test() {
///     let server = tollgate_testbed::redis_or_skip!("--maxmemory", "100mb");
///     assert_eq!(server.command(&[b"DBSIZE"]).int(), Some(0));
/// }
/// # a_test();
/// ```
#[macro_export]
macro_rules! redis_or_skip {
    ($($argument:expr),* $(,)?) => {
        $crate::start_or_skip!($crate::RedisServer::with(&[$($argument),*]))
    };
}

/// A Redis Cluster for this test, or the end of the test when no server is installed. It takes
/// [`ClusterOptions`], or nothing.
#[macro_export]
macro_rules! cluster_or_skip {
    () => {
        $crate::cluster_or_skip!($crate::ClusterOptions::new())
    };
    ($options:expr $(,)?) => {
        $crate::start_or_skip!($options.start())
    };
}

/// Servers under sentinels for this test, or the end of the test when no server is installed. It
/// takes [`SentinelOptions`], or nothing.
#[macro_export]
macro_rules! sentinels_or_skip {
    () => {
        $crate::sentinels_or_skip!($crate::SentinelOptions::new())
    };
    ($options:expr $(,)?) => {
        $crate::start_or_skip!($options.start())
    };
}

/// The end of the test when the server program was built without TLS.
#[macro_export]
macro_rules! skip_without_tls {
    () => {
        if !$crate::has_tls() {
            println!("{}", $crate::NO_TLS);
            return;
        }
    };
}

/// The started server, or the end of the test when no server is installed.
#[macro_export]
macro_rules! start_or_skip {
    ($start:expr) => {
        match $crate::redis_program() {
            Some(_) => $start,
            None => {
                println!("{}", $crate::SKIPPED);
                return;
            }
        }
    };
}

//! How fast Tollgate is, beside its peers: `cargo run --profile dist -p tollgate-bench -- --help`.
//!
//! It is not a part of the program that users get: peers are built here and nowhere else.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;

#[cfg(not(feature = "count-allocations"))]
mod allocator;
mod args;
mod grpc;
mod holds;
mod lease;
mod memory;
mod on_redis;
mod processor;
mod queue;
mod redis_benchmark;
mod redis_server;
mod resp;
mod service;
mod show;
mod sqlite;
mod stolen;
mod waiting;

use args::{Bench, Cli};

/// The exit code of an error: clap's own for a wrong usage, too.
const ERROR: u8 = 2;

fn main() -> ExitCode {
    match measure(Cli::parse().bench) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            show::error(&error);
            ExitCode::from(ERROR)
        }
    }
}

/// Answers the exit code.
fn measure(bench: Bench) -> Result<u8> {
    match bench {
        Bench::Memory(args) => memory::memory(&args),
        Bench::MemoryBytes { side, keys } => memory::bytes(&side, keys),
        Bench::Sqlite(args) => sqlite::sqlite(&args),
        Bench::Redis(args) => on_redis::redis(&args),
        Bench::Server(args) => service::server(&args),
        Bench::Resp(args) => resp::resp(&args),
        Bench::Grpc(args) => grpc::grpc(&args),
        Bench::Holds(args) => holds::holds(&args),
        Bench::Waiting(args) => waiting::waiting(&args),
        Bench::Queue(args) => queue::queue(&args),
        Bench::Lease(args) => lease::lease(&args),
        Bench::LeaseNode(args) => lease::ask(&args),
        Bench::BareGrpc { port, threads } => grpc::serve_bare(port, threads),
    }
}

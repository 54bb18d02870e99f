//! The Node package of Tollgate: the engine and its stores, as the native module `tollgate.node`.
//!
//! JavaScript in `lib` wraps what is here, and checks the types of arguments. Users read
//! `docs/node.md`.
// A test build, which only clippy makes, has none of the exports that use it all.
#![cfg_attr(test, allow(dead_code, unused_imports))]

mod amounts;
mod bridge;
mod clock;
mod decision;
mod error;
mod handles;
mod http;
mod limiter;
mod limits;
mod numbers;
mod pace;
mod policies;
mod reply;
mod request;
mod response;
mod ruling;
mod saved;
mod tap;

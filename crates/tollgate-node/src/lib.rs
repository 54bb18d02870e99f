//! The Node package of Tollgate: the engine and its stores, as the native module `tollgate.node`.
//!
//! JavaScript in `lib` wraps what is here, and checks the types of arguments. Users read
//! `docs/node.md`.

mod bridge;
mod clock;
mod decision;
mod error;
mod handles;
mod http;
mod limiter;
mod limits;
mod numbers;
mod remote;
mod reply;
mod request;
mod runtime;
mod tap;

//! The Redis protocol, RESP2 and RESP3, over accepted connections.
//!
//! `codec` reads requests as borrowed slices, `reply` writes answers, and `commands` is the one
//! table of commands. `session` is one client's state and answers its commands. `fast_path` answers
//! most of them, and `connection` reads and writes.

mod arguments;
mod ask;
mod auth;
mod codec;
mod commands;
mod connection;
mod correct;
mod fast_path;
mod greeting;
mod key;
mod options;
mod reply;
mod session;
mod settle;
mod throttle;
mod transaction;
mod why;

pub(crate) use auth::Users;
pub use auth::{RespUser, Role};
pub(crate) use connection::Resp;
pub(crate) use session::Shared;

//! The Redis protocol, RESP2 and RESP3, over accepted connections.
//!
//! `codec` reads requests as borrowed slices, `reply` writes answers, and `commands` is the one
//! table of commands, each in a file. `session` is one client's state; `dispatch` has its commands
//! answered. `fast_path` answers most of them, and `connection` reads and writes.

mod answers;
mod arguments;
mod auth;
mod codec;
mod command;
mod commands;
mod connection;
mod dispatch;
mod fast_path;
mod held;
mod key;
mod options;
mod question;
mod reply;
mod session;
mod table;
mod throttle;
mod transaction;
mod why;

pub(crate) use auth::Users;
pub use auth::{RespUser, Role};
pub(crate) use connection::Resp;

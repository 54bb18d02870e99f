//! The Redis store: each operation is one call of one script.

mod across;
mod builder;
mod check;
mod denials;
mod holds;
mod keyspace;
mod operations;
mod places;
mod plan;
mod rare_scripts;
mod redis_store;
mod refund;
mod reply;
mod swap;

pub use self::builder::Builder;
pub use self::redis_store::RedisStore;
pub(crate) use self::reply::{parse_unsigned, unexpected_reply};

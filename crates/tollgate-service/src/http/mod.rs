//! HTTP/1.1 over accepted connections, independent of the endpoints.

mod body;
mod connection;
mod framing;
mod paced;
mod pieces;

pub(crate) use body::{BodyError, MAX_BODY_BYTES, Whole};
pub(crate) use connection::{Answering, Caller, Http, MAX_HEAD_BYTES, Reply};
pub(crate) use framing::Misframed;
pub(crate) use paced::Explain;
#[cfg(feature = "resp")]
pub(crate) use paced::{MAX_DRAINED_BYTES, MIN_TAKEN_BYTES};

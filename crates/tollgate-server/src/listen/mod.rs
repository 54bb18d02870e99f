//! Where requests come in: addresses, connections and their deadlines. Nothing here knows what is
//! asked.

mod address;
mod body;
mod budget;
mod connection;
mod framing;
mod paced;
mod registry;

pub(crate) use address::{Access, Bound};
pub use address::{Address, AddressError};
pub(crate) use body::{BodyError, MAX_BODY_BYTES, Whole};
pub(crate) use connection::{Answering, Door, MAX_HEAD_BYTES};
pub(crate) use framing::Misframed;
pub(crate) use registry::Registry;
pub use registry::{Bounds, Closed};

pub(crate) use connection::serve;
pub(crate) use paced::Explain;

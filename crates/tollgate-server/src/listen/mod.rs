//! Listening for connections: addresses, the accept loop, deadlines and limits. Independent of the
//! protocol.

mod accept;
mod address;
mod bounds;
mod budget;
mod farewell;
mod pace;
mod passed;
mod registry;
mod runtimes;
mod undelivered;

pub(crate) use accept::{Connection, Listener, Peer, Protocol, something_comes};
pub(crate) use address::{Access, Bound};
pub use address::{Address, AddressError};
pub use bounds::{Bounds, Closed};
pub(crate) use budget::{Budget, Share};
pub(crate) use farewell::Farewell;
pub(crate) use pace::{Pace, Phase};
pub(crate) use passed::left as sockets_left;
pub(crate) use registry::{Registry, network};
pub(crate) use runtimes::Runtimes;
#[cfg(feature = "grpc")]
pub(crate) use undelivered::{MAX_COMPARED_BYTES, MAX_WAITING_BYTES, MAX_WAITING_BYTES_OF_ONE};
pub(crate) use undelivered::{Transport, Undelivered};

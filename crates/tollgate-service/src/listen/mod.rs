//! Listening for connections: addresses, the accept loop, deadlines and limits. Independent of the
//! protocol.

mod accept;
mod address;
mod bind;
mod bound;
mod bounds;
mod budget;
mod farewell;
mod on_the_way;
mod pace;
mod passed;
mod registry;
mod runtimes;
mod transport;
mod undelivered;

pub(crate) use accept::{Accept, Connection, Listener, Peer, Protocol, something_comes};
pub use address::{Address, AddressError};
pub(crate) use bound::{Access, Bound};
pub use bounds::{Bounds, Closed};
pub(crate) use budget::{Budget, Share};
pub(crate) use farewell::Farewell;
#[cfg(feature = "grpc")]
pub(crate) use on_the_way::{MAX_COMPARED_BYTES, MAX_WAITING_BYTES, MAX_WAITING_BYTES_OF_ONE};
pub(crate) use pace::{Pace, Phase};
pub(crate) use passed::left as sockets_left;
pub(crate) use registry::{Registry, network};
pub(crate) use runtimes::Runtimes;
pub(crate) use transport::Transport;
pub(crate) use undelivered::Undelivered;

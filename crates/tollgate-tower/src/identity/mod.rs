//! The identity of a client: an address, a header, an API key, a route, or the result of a
//! function.
//!
//! Each [`Identity`] returns a [`Value`], or why there is none. Requests without a value never
//! share one. `docs/identity.md` describes the rules.

mod address;
mod client;
mod head;
mod header;
mod hops;
mod host;
mod key;
mod missing;
mod network;
mod path;
mod read;
mod source;
mod text;
mod why;

pub use address::Ipv6Prefix;
pub(crate) use client::LOCAL;
pub use client::{AddressHeader, Client, ClientAddress, MAX_HOPS, Peers, Remark};
pub use head::Head;
pub use header::MAX_VALUE_BYTES;
pub(crate) use header::{header_name, header_text};
pub use host::host_name;
pub use key::{ApiKey, Hashing, MAX_KEY_BYTES, MIN_SECRET_BYTES};
pub use missing::Missing;
pub(crate) use missing::Required;
pub use network::{MAX_NETWORKS, Networks};
pub use path::{Case, EscapedSlashes, PathParameters, PathReading};
pub use source::Identity;
pub use text::Value;
pub use why::Why;

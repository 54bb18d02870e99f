//! The tower layer: it reads a request's fields, asks the gate, and adds headers to the response.

mod body;
mod builder;
mod charge;
mod extensions;
mod find_limits;
mod front;
mod future;
mod holding;
mod limits;
mod mark;
mod metrics;
mod misconfigurations;
mod refused;
mod respond;
mod service;
mod share;
mod shared;
mod templates;
mod to_its_end;
mod tollgate_layer;

pub use body::{AnyBody, AnyBodyFuture, AnyBodyLayer, ResponseBody};
pub use builder::Builder;
pub use charge::{Charges, ResponseHead};
pub use extensions::UnixPeer;
pub use future::ResponseFuture;
pub use holding::{HoldingBody, HoldingFuture, HoldingLayer, HoldingTollgate, Holds, Spent};
pub use misconfigurations::Misconfiguration;
pub use refused::{Refused, RequestHead};
pub use respond::{RETRY_WHEN_UNAVAILABLE, response};
pub use service::Tollgate;
pub use share::Share;
pub use templates::header_templates;
pub use to_its_end::ToItsEnd;
pub use tollgate_layer::TollgateLayer;

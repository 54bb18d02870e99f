//! The common parts of the packages for Python and Node: limiters, questions, stores that open at
//! the first question, and connections on a loop of another language.
//!
//! A binding converts arguments, answers and [`Failure`]s, and does nothing else.
#![allow(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "a binding must handle every form: one more has to be an error there"
)]

mod answer;
pub mod argument;
mod carrier;
mod clients;
mod failure;
pub mod fork;
mod headers;
mod http;
mod keep;
mod limiter;
mod lock;
mod operation;
mod place;
mod policies;
mod remote;
mod replay;
mod ruling;
mod runtime;
mod socket;
mod table;
mod warnings;

pub use self::http::{Refusal, wait_of};
pub use answer::{Answers, BindingAnswer, Sender, json};
pub use carrier::Carrier;
pub use clients::{ClientOptions, Clients, FoundClient};
pub use failure::{Failure, Fault, Result};
pub use keep::Keep;
pub use limiter::{Counts, Limiter, answer, ready};
pub use lock::lock;
pub use operation::{HoldRef, Operation, SubjectPart, ask};
pub use policies::{Policies, PolicyOptions, RequestHead};
pub use remote::Remote;
pub use replay::Replay;
pub use ruling::Ruling;
pub use runtime::runtime;
pub use socket::{Change, Rest, Socket, Sockets, Watched};
pub use table::Table;

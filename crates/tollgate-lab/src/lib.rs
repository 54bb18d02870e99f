//! What a rate limit would do to real traffic: replay of access logs.

mod error;
pub mod event;
mod mix;
pub mod order;
mod text;
pub mod time;

pub use error::Error;
pub use event::{ClientId, Clients, Event};

//! What a rate limit would do: to real traffic, by replaying access logs, and to generated traffic,
//! in experiments.
//!
//! [`Reading`] turns a log into [`Traffic`]: its events in exact order, the names of its clients,
//! and a [`Summary`]. [`parse`] decides which lines are events, [`order`] sorts any number of them,
//! and [`generate`] writes large logs for tests. [`replay()`](replay::replay) runs limits over the
//! events: it takes a [`replay::Plan`] and returns a [`replay::Report`]. [`experiment`] generates
//! traffic and measures what each strategy admits. [`decide`] contains the interface to the store,
//! in memory or in Redis.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod chart;
pub mod decide;
mod digits;
mod error;
pub mod event;
pub mod experiment;
mod figure;
#[cfg(test)]
mod fixture;
pub mod generate;
pub mod order;
pub mod parse;
pub mod read;
pub mod replay;
pub mod report;
pub mod source;
mod split_mix;
mod text;
pub mod time;

pub use decide::{Decider, InMemory, Part, Per, Verdict};
pub use error::Error;
pub use event::{ClientId, Clients, Event};
pub use order::{Ordered, Sorting};
pub use parse::{By, fuzz_line};
pub use read::{Progress, Reading, Summary, Traffic, Unparsed};
pub use source::Lines;

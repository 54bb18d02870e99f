//! The effect of a rate limit on real traffic: reads access logs and replays them.
//!
//! ```
//! use std::path::Path;
//!
//! use tollgate_logs::replay::{Plan, StrategyChoice, replay};
//! use tollgate_logs::{Lines, Reading};
//!
//! let log: &[u8] = br#"{"ip":"192.0.2.7","ts":1000}
//! {"ip":"192.0.2.7","ts":1001}
//! {"ip":"192.0.2.8","ts":1002}
//! "#;
//! let lines = Lines::from_reader(log, Path::new("-"), None)?;
//! let traffic = Reading::default().read_lines(lines, |_| ())?;
//!
//! let plan = Plan::new(&["1/10s"], StrategyChoice::All)?;
//! for case in &replay(&traffic, &plan, |_| ())?.cases {
//!     println!("{}: {} admitted, {} denied", case.limit, case.admitted, case.denied);
//!     assert_eq!((case.admitted, case.denied), (2, 1));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The types to know
//!
//! - [`Reading`] turns a log into [`Traffic`]: its events in exact order, the names of its clients,
//!   and a [`Summary`].
//! - [`replay::Plan`] says which limits run over the events; [`replay()`](replay::replay) makes a
//!   [`replay::Report`] of it.
//! - [`advise()`](advise::advise) finds a limit that fits the traffic, and [`policy`] replays and
//!   compares policy files.
//!
//! A [`Decider`] decides: memory here, Redis in the command line.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod advise;
pub mod decide;
pub mod describe;
mod error;
pub mod event;
mod event_unit;
pub mod generate;
pub mod order;
pub mod parse;
pub mod policy;
pub mod read;
mod repeats;
pub mod replay;
pub mod source;
pub mod split_mix;
pub mod text;
pub mod time;

pub use decide::{Decider, InMemory, Per, PerLimits, Verdict};
pub use error::Error;
pub use event::{ClientId, Clients, Event};
pub use event_unit::EventUnit;
pub use order::{Ordered, Sorting};
pub use parse::{By, Format, Hints, fuzz_line};
pub use read::{Progress, Reading, Summary, Traffic, Unparsed};
pub use repeats::Repeat;
pub use source::Lines;
pub use text::csv_text;

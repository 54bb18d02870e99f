//! Experiments on simulated traffic, and their results: charts, pages and text.
//!
//! - [`experiment::Experiment`] makes traffic and measures what each strategy admits.
//! - [`chart`] draws the results, and [`report`] writes them as a page or as text.
//!
//! A [`Decider`](tollgate_logs::Decider) decides: memory in `tollgate-logs`, Redis in the command
//! line.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod chart;
mod error;
pub mod experiment;
mod figure;
#[cfg(test)]
mod fixture;
pub mod report;

pub use error::Error;

//! The rules of envoyproxy/ratelimit: its YAML, the rule of a descriptor, and its count.
//!
//! - [`Config`] is the checked content of some files. A mistake is a problem with its line.
//! - [`Domain::find`] finds the [`Rule`] of a descriptor, and [`Found::subject`] its subject.
//! - `proto`, with the feature of that name, has the messages of the service.
//!
//! Nothing here does I/O: a front reads the files, asks a store, and answers.

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod config;
mod find;
pub mod import;
mod pattern;
#[cfg(feature = "proto")]
pub mod proto;
mod read;
mod subject;
mod unit;
#[cfg(feature = "proto")]
mod xds;

pub use config::{Config, Counting, Domain, Meaning, OnFailure, Rule, SameDomain};
pub use find::Found;
pub use subject::{MAX_SUBJECT_BYTES, subject};
pub use unit::Unit;

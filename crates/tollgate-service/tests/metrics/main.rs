//! `/metrics` of a real service: its counters, the number of its series, and its readers.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod alerting;
mod common;
mod counting;
mod reading;

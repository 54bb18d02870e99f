//! `/metrics` of a real service: what it counts, how many series it has, and what reads it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;
mod counting;
mod reading;

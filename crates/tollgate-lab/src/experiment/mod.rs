//! Experiments: the same traffic under one strategy after the other.

pub mod results;

//! Leases and the deny cache over a store that is asked from afar: by nodes with clocks of their
//! own, with time that the test moves.

#![allow(clippy::unwrap_used)]

mod adversary;
mod bound;
mod checks;
mod deny_cache;
mod faults;
mod sim;
mod units;

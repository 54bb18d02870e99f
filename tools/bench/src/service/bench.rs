//! The parts that every comparison of services uses.

use std::path::Path;

use super::loaders::Wrk;
use super::program::Tollgate;
use super::turns::Turns;
use crate::args::BenchServer;

/// The parts that every comparison uses.
pub(super) struct Bench<'b> {
    pub(super) tollgate: &'b Tollgate,
    pub(super) turns: &'b Turns,
    pub(super) wrk: &'b Wrk,
    /// The requests that wrk sends to the service.
    pub(super) script: &'b Path,
    pub(super) args: &'b BenchServer,
}

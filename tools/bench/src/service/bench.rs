//! What every comparison of services uses.

use std::path::Path;

use super::loaders::Wrk;
use super::program::Tollgate;
use super::turns::Turns;
use crate::args::BenchServer;

/// What every comparison uses.
pub(super) struct Bench<'b> {
    pub(super) tollgate: &'b Tollgate,
    pub(super) turns: &'b Turns,
    pub(super) wrk: &'b Wrk,
    /// What wrk sends to the service.
    pub(super) script: &'b Path,
    pub(super) args: &'b BenchServer,
}

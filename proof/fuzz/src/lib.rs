//! Tollgate's promises for any bytes, as functions: a fuzzer calls them by the million (`cargo
//! xtask fuzz`), the tests by the thousand.
//!
//! A target panics when a promise is broken. It does the same with the same bytes each time, so
//! that a finding can be run again.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a panic is how a target tells

mod mutate;
mod targets;

use std::path::{Path, PathBuf};

pub use mutate::Mutator;

/// One thing that reads what others wrote.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Target {
    /// Its name, and that of its folder in the corpus.
    pub name: &'static str,
    /// Reads these bytes, and panics when a promise is broken.
    pub run: fn(&[u8]),
    /// How many inputs the short turn tries beside the corpus.
    pub turns: usize,
}

const fn target(name: &'static str, run: fn(&[u8]), turns: usize) -> Target {
    Target { name, run, turns }
}

/// All of them, in the order of their names.
pub const TARGETS: &[Target] = &[
    target("cost", targets::notation::cost, 4_000),
    target("credits", targets::receipt::credits, 4_000),
    target("duration", targets::notation::duration, 4_000),
    target("envoy", targets::envoy::rules, 1_000),
    target("identity", targets::identity::headers, 4_000),
    target("limit", targets::notation::limit, 2_000),
    target("log_line", targets::log_line, 2_000),
    target("path", targets::identity::path, 4_000),
    target("policy", targets::policy::file, 1_000),
    target("question", targets::question::bodies, 500),
    target("receipt", targets::receipt::text, 2_000),
    target("redis_reply", targets::reply::replies, 2_000),
    target("redis_state", targets::redis::state, 4_000),
    target("redis_url", targets::redis::url, 2_000),
    target("resp", targets::resp::commands, 500),
    target("snapshot", targets::snapshot::file, 500),
    target("subject", targets::notation::subject, 4_000),
];

impl Target {
    /// The target of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Where its inputs are that are worth keeping: those written by hand, and those that reach
    /// what no other does.
    #[must_use]
    pub fn corpus(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(self.name)
    }
}

//! Bytes as the allocator counts them: exact, and a little slower all over the program.

use std::alloc::System;

use anyhow::Result;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The measured quantity.
pub(crate) const HOW: &str = "bytes asked of the allocator";

/// The bytes allocated and not given back.
pub(crate) fn bytes() -> Result<usize> {
    let stats = COUNTING.stats();
    Ok(stats.bytes_allocated.saturating_sub(stats.bytes_deallocated))
}

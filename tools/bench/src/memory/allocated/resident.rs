//! Bytes as the system counts them: resident pages, including those that the allocator adds.

use anyhow::{Context as _, Result};

/// The measured quantity.
pub(crate) const HOW: &str = "growth of its resident memory";

/// The bytes of this process that are in memory now.
pub(crate) fn bytes() -> Result<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm")
        .context("resident memory is read from /proc, which this system does not have")?;
    let pages: usize = statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .context("/proc/self/statm does not say how many pages are resident")?;
    Ok(pages * rustix::param::page_size())
}

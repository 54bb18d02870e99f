//! The bytes that this process holds: those that the allocator counts, or the resident ones.

#[cfg(feature = "count-allocations")]
mod counted;
#[cfg(not(feature = "count-allocations"))]
mod resident;

#[cfg(feature = "count-allocations")]
pub(super) use counted::{HOW, bytes};
#[cfg(not(feature = "count-allocations"))]
pub(super) use resident::{HOW, bytes};

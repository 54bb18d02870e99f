//! How many bytes this process holds: what the allocator counts, or what is resident.

#[cfg(feature = "count-allocations")]
mod counted;
#[cfg(not(feature = "count-allocations"))]
mod resident;

#[cfg(feature = "count-allocations")]
pub(super) use counted::{HOW, bytes};
#[cfg(not(feature = "count-allocations"))]
pub(super) use resident::{HOW, bytes};

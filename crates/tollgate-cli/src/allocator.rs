//! The allocator: what a crowd of connections took goes back to the system when the crowd leaves.
//! The one of the C library keeps it for as long as something small lies above it.

use core::time::Duration;

use commonware_allocator::mimalloc::{Config, MiMalloc, Purge};

#[global_allocator]
static ALLOCATOR: MiMalloc =
    MiMalloc::new(Config { purge: Purge::After(Duration::ZERO), ..Config::DEFAULT });

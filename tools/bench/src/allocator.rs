//! The allocator of the program `tollgate`, so that the measured build is the shipped one.

use core::time::Duration;

use commonware_allocator::mimalloc::{Config, MiMalloc, Purge};

#[global_allocator]
static ALLOCATOR: MiMalloc =
    MiMalloc::new(Config { purge: Purge::After(Duration::ZERO), ..Config::DEFAULT });

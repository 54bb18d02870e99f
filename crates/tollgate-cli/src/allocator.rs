//! The allocator: it returns memory to the system after many connections have closed. That of the C
//! library keeps it while any small allocation above it lives.

use core::time::Duration;

use commonware_allocator::mimalloc::{Config, MiMalloc, Purge};

#[global_allocator]
static ALLOCATOR: MiMalloc =
    MiMalloc::new(Config { purge: Purge::After(Duration::ZERO), ..Config::DEFAULT });

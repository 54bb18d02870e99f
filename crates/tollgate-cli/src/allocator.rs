//! The allocator: it returns memory to the system after many connections have closed. That of the C
//! library keeps it while any small allocation above it lives.

use core::time::Duration;

use commonware_allocator::mimalloc::{Config, MiMalloc, Purge};

/// How long freed memory is kept. Calls that come in bursts take and free the same pages again and
/// again: returned at once, each page costs a call to the system and a fault for each page of it.
const KEPT: Duration = Duration::from_millis(100);

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc::new(Config { purge: Purge::After(KEPT), ..Config::DEFAULT });

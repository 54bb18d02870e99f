//! Waiting for events that come by themselves, and letting time go by.

use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use tollgate_testbed::try_until;

/// How long what servers do by themselves may take.
pub(crate) const SERVERS: Duration = Duration::from_secs(40);

/// How long a step of a fault that comes again and again waits for the next.
pub(crate) const STEP: Duration = Duration::from_millis(50);

/// Lets time go by: as long as a fault lasts, or before it comes.
pub(crate) fn pause(time: Duration) {
    thread::sleep(time); // tidy: sleep-ok it is how long the fault lasts
}

/// Looks until it is so. `look` says why it is not yet.
pub(crate) fn until(within: Duration, look: impl FnMut() -> Result<(), String>) -> Result<()> {
    try_until(within, look).map_err(|why| anyhow!(why))
}

/// `Ok` when it is so, else why not.
pub(crate) fn so(is_so: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(why()) }
}

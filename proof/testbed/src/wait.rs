//! Waiting for events that come by themselves: asked again and again until it is so, or the time is
//! over.

use std::thread;
use std::time::{Duration, Instant};

/// How often one asks again.
const ASK_AGAIN: Duration = Duration::from_millis(5);

/// Asks until the answer is `Ok`, and returns what it holds.
///
/// # Errors
///
/// It is not so within the time: the last reason why.
pub fn try_until<Found>(
    within: Duration,
    mut ask: impl FnMut() -> Result<Found, String>,
) -> Result<Found, String> {
    let deadline = Instant::now() + within;
    loop {
        // The time is checked before the answer: a caller that waits long for one answer gets it.
        let is_over = Instant::now() >= deadline;
        match ask() {
            Err(why) if is_over => return Err(format!("not within {within:?}: {why}")),
            Err(_) => thread::sleep(ASK_AGAIN),
            found => return found,
        }
    }
}

/// The same for a test.
///
/// # Panics
///
/// It is not so within the time. The message has the last reason why.
pub fn until<Found>(
    within: Duration,
    what: &str,
    ask: impl FnMut() -> Result<Found, String>,
) -> Found {
    try_until(within, ask).unwrap_or_else(|why| panic!("{what}: {why}"))
}

//! Waiting for what comes by itself: asked again and again until it is so, or the time is over.

use std::thread;
use std::time::{Duration, Instant};

use super::Reply;

/// How often one asks again.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// Asks until the answer is `Ok`, and returns what it holds.
///
/// # Panics
///
/// It is not so within the time. The message has the last reason why.
pub(super) fn until<Found>(
    within: Duration,
    what: &str,
    mut ask: impl FnMut() -> Result<Found, String>,
) -> Found {
    let deadline = Instant::now() + within;
    loop {
        // The time is looked at before the answer is: who waits long for one answer gets it.
        let is_over = Instant::now() >= deadline;
        match ask() {
            Ok(found) => return found,
            Err(why) if is_over => panic!("{what}: not within {within:?}: {why}"),
            Err(_) => thread::sleep(ASK_AGAIN),
        }
    }
}

/// `OK`, or the reply as words.
pub(super) fn done(reply: &Reply) -> Result<(), String> {
    match reply {
        Reply::Status(text) if text == "OK" => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

//! The subjects that were denied, for checks over several slots.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most denials that are remembered. Of those beyond, the slots are charged concurrently.
const MAX_DENIALS: usize = 4_096;

/// When subjects that were denied may be admitted again, as far as this client knows.
#[derive(Default)]
pub(super) struct Denials {
    hasher: RandomState,
    /// By the hash of a key: two keys that collide only change the order of calls.
    until: Mutex<HashMap<u64, Instant>>,
}

impl Denials {
    fn locked(&self) -> MutexGuard<'_, HashMap<u64, Instant>> {
        // A panic cannot leave the map half-changed.
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until when the subject with this key is denied, if it would be denied now.
    pub(super) fn until(&self, key: &str) -> Option<Instant> {
        let until = self.locked().get(&self.hasher.hash_one(key)).copied();
        until.filter(|until| Instant::now() < *until)
    }

    pub(super) fn remember(&self, key: &str, wait: Duration) {
        let now = Instant::now();
        let mut until = self.locked();
        if until.len() >= MAX_DENIALS {
            until.retain(|_, until| *until > now);
        }
        if until.len() < MAX_DENIALS
            && let Some(end) = now.checked_add(wait)
        {
            until.insert(self.hasher.hash_one(key), end);
        }
    }
}

//! Locks that a panic of another thread does not spoil.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock that no panic spoils.
pub fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The steps around a fork: files are closed before it. SQLite keeps notes on open files in the
//! memory of the process, which are wrong in a child.
//!
//! A language that forks calls these functions around it.

use core::cell::RefCell;
use core::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard, Weak};

use crate::lock::lock;

/// A value that a process made for itself, and never drops: a child makes its own.
#[derive(Debug)]
pub(crate) struct OfProcess<T: 'static>(Option<(u32, &'static T)>);

impl<T> OfProcess<T> {
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    /// That of this process, which `make` makes for the first caller.
    pub(crate) fn get<E>(&mut self, make: impl FnOnce() -> Result<T, E>) -> Result<&'static T, E> {
        let pid = std::process::id();
        if let Some((maker, made)) = self.0
            && maker == pid
        {
            return Ok(made);
        }
        let made: &'static T = Box::leak(Box::new(make()?));
        self.0 = Some((pid, made));
        Ok(made)
    }
}

/// Calls to files hold it for reading, a fork for writing.
pub(crate) type Gate = RwLock<()>;

/// The gate of this process. Nobody in a child could tell which threads wait at its parent's.
static GATE: Mutex<OfProcess<Gate>> = Mutex::new(OfProcess::none());

/// Where files may be open.
static FILES: Mutex<Vec<Weak<dyn Closing>>> = Mutex::new(Vec::new());

/// A place where a file may be open.
pub(crate) trait Closing: Send + Sync {
    /// Closes it. The next question opens it again.
    fn close(&self);
}

thread_local! {
    /// The gate, while the process forks.
    static HELD: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// The gate of this process. No fork happens meanwhile, and one can while somebody waits at it.
pub(crate) fn gate() -> &'static Gate {
    let Ok(gate) = lock(&GATE).get(|| Ok::<_, Infallible>(Gate::default()));
    gate
}

/// Remembers a place whose file is to be closed before a fork.
pub(crate) fn close_before_fork<C: Closing + 'static>(place: &Arc<C>) {
    let mut files = lock(&FILES);
    files.retain(|file| file.strong_count() > 0);
    let place = Arc::downgrade(place);
    files.push(place);
}

/// Waits for the calls in flight. A fork of another thread may happen while it is called, and not
/// before.
pub fn wait_for_calls() -> impl FnOnce() + Send {
    let gate = gate();
    move || HELD.set(Some(gate.write().unwrap_or_else(PoisonError::into_inner)))
}

/// Closes all files. Both sides open them again.
pub fn close_files() {
    for place in lock(&FILES).iter().filter_map(Weak::upgrade) {
        place.close();
    }
}

/// Lets calls to files go on, in the parent.
pub fn after_fork_in_parent() {
    drop(HELD.take());
}

/// Leaves the parent's gate as it is, in the child.
pub fn after_fork_in_child() {
    core::mem::forget(HELD.take());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_process_made_is_not_used() {
        let mut held = OfProcess::none();
        let first = held.get(|| Ok::<_, Infallible>(1)).unwrap();
        assert_eq!(held.get(|| Ok::<_, Infallible>(2)), Ok(first));
        held.0 = Some((std::process::id().wrapping_add(1), first));
        assert_eq!(held.get(|| Ok::<_, Infallible>(3)), Ok(&3), "a child makes its own");
        assert_eq!(held.get(|| Ok::<_, Infallible>(4)), Ok(&3));
        assert_eq!(OfProcess::<u8>::none().get(|| Err("no threads")), Err("no threads"));
    }

    #[test]
    fn a_fork_keeps_calls_away_until_it_is_over() {
        wait_for_calls()();
        assert!(gate().try_read().is_err());
        after_fork_in_parent();
        assert!(gate().try_read().is_ok());
    }
}

//! Policies take the place of others while they are asked.

use core::fmt;
use core::time::Duration;

use tollgate::Store;

use super::{Gate, Live};
use crate::policies::Policies;

/// Which policies answered: how many times they were replaced, and what the file is.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Revision {
    /// 1 for the first policies of a gate, and one more each time they are replaced.
    pub number: u64,
    /// The first 12 digits of the SHA-1 of the file.
    pub hash: String,
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.number, self.hash)
    }
}

/// What came of reading policies again.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reread {
    /// Others count now, of this revision.
    Taken(Revision),
    /// The file holds what counts already.
    Unchanged(Revision),
}

impl Reread {
    /// The revision that counts now.
    #[must_use]
    pub fn revision(&self) -> &Revision {
        match self {
            Self::Taken(revision) | Self::Unchanged(revision) => revision,
        }
    }
}

impl<S: Store> Gate<S> {
    /// Takes other policies from the next request on. Requests that are being answered keep those
    /// they began with. Counts stay where the name of the policy, the subject and the identities
    /// of the limits do.
    pub fn replace(&self, policies: Policies) -> Revision {
        let mut newest = self.0.newest.lock();
        self.take(policies, &mut newest)
    }

    /// Takes them, under the lock of the number.
    fn take(&self, policies: Policies, newest: &mut u64) -> Revision {
        *newest += 1;
        let mark = self.mark().with(&policies);
        let usual = tell_deadlines(self.store(), &policies);
        let rulings = self.0.live.load().rulings.clone();
        let live = Live::new(policies, *newest, mark, usual, &self.0.registry);
        let live = live.with_rulings(rulings);
        let revision = live.revision.clone();
        self.0.live.store(live);
        revision
    }

    /// Reads policies again, and takes them unless they are what counts already: then the revision
    /// stays. Nobody else replaces them meanwhile, so that of two who read the one that read last
    /// is not undone by the one that was slow.
    ///
    /// `read` must not replace policies of this gate itself: it would wait for itself.
    ///
    /// # Errors
    /// What `read` says; the policies that were there count on.
    pub fn reread<E>(&self, read: impl FnOnce() -> Result<Policies, E>) -> Result<Reread, E> {
        let mut newest = self.0.newest.lock();
        let policies = read()?;
        if policies.hash() == self.policies().hash() {
            return Ok(Reread::Unchanged(self.revision()));
        }
        Ok(Reread::Taken(self.take(policies, &mut newest)))
    }
}

/// Tells a store how long these policies wait for it, and gives the deadline of those that say
/// none.
pub(super) fn tell_deadlines(store: &impl Store, policies: &Policies) -> Duration {
    let usual = store.deadline().unwrap_or(crate::DEFAULT_DEADLINE);
    let own = policies.policies().iter().filter_map(|policy| policy.deadline);
    store.will_wait(own.fold(usual, Duration::max));
    usual
}

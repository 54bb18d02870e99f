//! Replaces policies while the gate is in use.

use tollgate::Store;

use super::live::{Live, tell_deadlines};
use super::{Gate, Revision};
use crate::pattern::Condition;
use crate::policies::Policies;

/// The result of rereading policies.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reread {
    /// New policies are in force, with this revision.
    Taken(Revision),
    /// The file contains the policies already in force.
    Unchanged(Revision),
}

impl Reread {
    /// The revision in force.
    #[must_use]
    pub fn revision(&self) -> &Revision {
        match self {
            Self::Taken(revision) | Self::Unchanged(revision) => revision,
        }
    }
}

impl<S: Store> Gate<S> {
    /// Replaces the policies from the next request on. Requests in progress keep their policies. A
    /// count continues if the policy's name, the subject and the identities of the limits are
    /// unchanged.
    pub fn replace(&self, policies: Policies) -> Revision {
        let mut newest = self.0.newest.lock();
        self.take(policies, &mut newest)
    }

    /// Sets how API keys are hashed, once. From then on a key in a condition of policies or rulings
    /// matches the hash that the front provides as `api_key`. False if it was set before: that
    /// function stays. A front calls this before it serves.
    pub fn hash_api_keys(&self, hash: impl Fn(&str) -> String + Send + Sync + 'static) -> bool {
        let _newest = self.0.newest.lock();
        if self.0.keys.set(Box::new(hash)).is_err() {
            return false;
        }
        let live = self.0.live.load();
        let hashed = self.hashed(live.policies.clone());
        self.0.live.store(live.with_policies(hashed));
        true
    }

    /// The policies with hashes in place of API keys.
    fn hashed(&self, policies: Policies) -> Policies {
        match self.0.keys.get() {
            Some(hash) => policies.with_hashed_keys(hash),
            None => policies,
        }
    }

    /// The conditions with hashes in place of API keys.
    pub(super) fn hash_conditions(&self, when: &mut [Condition]) {
        if let Some(hash) = self.0.keys.get() {
            when.iter_mut().for_each(|condition| condition.hash_keys(hash));
        }
    }

    /// Replaces the policies, while the lock on the number is held.
    fn take(&self, policies: Policies, newest: &mut u64) -> Revision {
        let policies = self.hashed(policies);
        *newest += 1;
        let mark = self.current().mark().with(&policies);
        let usual = tell_deadlines(self.store(), &policies);
        let rulings = self.0.live.load().rulings.clone();
        let live = Live::new(policies, *newest, mark, usual, &self.0.registry);
        let live = live.with_rulings(rulings);
        let revision = live.revision.clone();
        live.warn_of_misfits(&self.0.live.load());
        live.warn_of_restarts(&self.0.live.load());
        self.0.live.store(live);
        revision
    }

    /// Rereads policies, and replaces the current ones unless they are equal: then the revision
    /// stays. No other replacement happens meanwhile. Of two concurrent readers, the slower one
    /// therefore cannot undo the later read.
    ///
    /// `read` must not replace policies of this gate itself: that would deadlock.
    ///
    /// # Errors
    /// The error of `read`; the current policies stay in force.
    pub fn reread<E>(&self, read: impl FnOnce() -> Result<Policies, E>) -> Result<Reread, E> {
        let mut newest = self.0.newest.lock();
        let policies = read()?;
        if policies.hash() == self.current().policies().hash() {
            return Ok(Reread::Unchanged(self.current().revision().clone()));
        }
        Ok(Reread::Taken(self.take(policies, &mut newest)))
    }
}

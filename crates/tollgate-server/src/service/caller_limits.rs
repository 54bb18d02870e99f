//! Which inline limits callers may give.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use parking_lot::RwLock;
use tollgate::LimitSet;
use tollgate_redis::compose::shape;

use super::{Kind, Parts, Refusal};

/// Which inline limits callers may give with a question, instead of being answered by the policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CallerLimits {
    /// None: the policies decide, and nothing else.
    Off,
    /// One limit for one subject.
    Single,
    /// Several limits and several subjects, too, in at most so many shapes where counts lie on a
    /// Redis. A shape is which strategies there are, in which order, of how many subjects. The
    /// server keeps scripts for each, of some 14 kB, until it ends.
    Several {
        /// How many shapes, since the service started. One limit for one subject is none of them.
        shapes: usize,
    },
}

impl CallerLimits {
    /// How many shapes there are unless somebody says so: some 4 MB of a Redis.
    pub const DEFAULT_SHAPES: usize = 256;
}

impl Default for CallerLimits {
    fn default() -> Self {
        Self::Several { shapes: Self::DEFAULT_SHAPES }
    }
}

/// Admits the inline limits that callers may give.
#[derive(Debug)]
pub(super) struct Gatekeeper {
    allowed: CallerLimits,
    /// Whether each shape costs the store something.
    counts_shapes: bool,
    hasher: RandomState,
    /// The shapes that were admitted, by their hashes.
    seen: RwLock<HashSet<u64>>,
}

impl Gatekeeper {
    pub(super) fn new(allowed: CallerLimits, counts_shapes: bool) -> Self {
        let hasher = RandomState::new();
        Self { allowed, counts_shapes, hasher, seen: RwLock::default() }
    }

    /// # Errors
    /// Limits that callers may not give here.
    pub(super) fn admit(&self, parts: &Parts) -> Result<(), Refusal> {
        let is_single = matches!(&parts[..], [(_, limits)] if limits.limits().len() == 1);
        match self.allowed {
            CallerLimits::Off => Err(refused(
                "this service takes no limits from callers (--caller-limits off): ask by its \
                 policies, with `fields`",
            )),
            _ if is_single => Ok(()),
            CallerLimits::Single => Err(refused(
                "this service takes one limit for one subject from a caller (--caller-limits \
                 single): ask in several questions, or by its policies",
            )),
            CallerLimits::Several { shapes } if self.counts_shapes => self.count(parts, shapes),
            CallerLimits::Several { .. } => Ok(()),
        }
    }

    fn count(&self, parts: &Parts, most: usize) -> Result<(), Refusal> {
        let sets: Vec<&LimitSet> = parts.iter().map(|(_, limits)| limits).collect();
        let shape = self.hasher.hash_one(shape(&sets));
        if self.seen.read().contains(&shape) {
            return Ok(());
        }
        let mut seen = self.seen.write();
        if seen.len() >= most && !seen.contains(&shape) {
            return Err(refused(format!(
                "callers have given inline limits in {most} shapes already (which strategies, in \
                 which order), and each costs the store a script: give one of those, one limit \
                 for one subject, or raise --caller-shapes"
            )));
        }
        seen.insert(shape);
        Ok(())
    }
}

fn refused(why: impl Into<String>) -> Refusal {
    Refusal::new(Kind::Forbidden, why)
}

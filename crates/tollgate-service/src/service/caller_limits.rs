//! Which inline limits callers may send.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use parking_lot::RwLock;
use tollgate::LimitSet;
use tollgate_stores::AnyStore;

use super::question::Parts;
use super::refusal::{Kind, Refusal};

/// Which inline limits callers may send with a question, to be decided by those instead of the
/// policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CallerLimits {
    /// None: only the policies decide.
    Off,
    /// One limit for one subject.
    Single,
    /// Several limits and several subjects as well, in at most this many shapes on a Redis store. A
    /// shape is the ordered list of strategies with the number of their subjects. The Redis server
    /// keeps 56 kB of scripts or more for each shape until it stops.
    Several {
        /// The most shapes since the service started. One limit for one subject does not count as a
        /// shape.
        shapes: usize,
    },
}

impl CallerLimits {
    /// The default number of shapes: about 4 MB of Redis memory.
    pub const DEFAULT_SHAPES: usize = 256;
}

impl Default for CallerLimits {
    fn default() -> Self {
        Self::Several { shapes: Self::DEFAULT_SHAPES }
    }
}

/// Admits or rejects the inline limits of callers.
#[derive(Debug)]
pub(super) struct Gatekeeper {
    allowed: CallerLimits,
    hasher: RandomState,
    /// The hashes of the admitted shapes.
    seen: RwLock<HashSet<u64>>,
}

impl Gatekeeper {
    pub(super) fn new(allowed: CallerLimits) -> Self {
        Self { allowed, hasher: RandomState::new(), seen: RwLock::default() }
    }

    /// Whether callers may send one limit for one subject.
    #[cfg(feature = "resp")]
    #[inline]
    pub(super) fn admits_single(&self) -> bool {
        self.allowed != CallerLimits::Off
    }

    /// # Errors
    /// Inline limits that callers may not send to a service with this store.
    pub(super) fn admit(&self, parts: &Parts, store: &AnyStore) -> Result<(), Refusal> {
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
            CallerLimits::Several { shapes } => {
                let limits: Vec<&LimitSet> = parts.iter().map(|(_, limits)| limits).collect();
                store.script_shape(&limits).map_or(Ok(()), |shape| self.count(&shape, shapes))
            }
        }
    }

    fn count(&self, shape: &str, most: usize) -> Result<(), Refusal> {
        let shape = self.hasher.hash_one(shape);
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

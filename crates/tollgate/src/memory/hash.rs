//! How subjects are hashed. The seeds are this store's own, and can be written down: a restored
//! store finds its subjects in the shards in which they were, with what belongs to a shard.

use core::hash::Hasher;
use std::hash::{BuildHasher, RandomState};

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;

use crate::limit::LimitSet;

#[derive(Clone, Debug)]
pub(super) enum KeyHash {
    Fold { seeds: [u64; 2], shared: SharedSeed },
    Sip { keys: [u64; 2] },
}

/// The names of the two in a snapshot.
const FOLD: u8 = 1;
const SIP: u8 = 2;

/// What a snapshot says of a hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HashText {
    pub(super) kind: u8,
    pub(super) seeds: [u64; 2],
    /// What the hash makes of a few known subjects.
    pub(super) probe: u64,
}

impl KeyHash {
    /// A hash with seeds that nobody can foresee.
    pub(super) fn random(sip: bool) -> Self {
        // What std keys its own maps with: from the system, other keys for each.
        let random = RandomState::new();
        Self::seeded(sip, [random.hash_one(0), random.hash_one(1)])
    }

    /// A hash with these seeds.
    pub(super) fn seeded(sip: bool, seeds: [u64; 2]) -> Self {
        if sip {
            return Self::Sip { keys: seeds };
        }
        // Also the seeds that a process usually shares: whoever knows those can write subjects
        // that collide under any seed of a store.
        Self::Fold { seeds, shared: SharedSeed::from_u64(seeds[1]) }
    }

    #[inline]
    pub(super) fn hash(&self, subject: &[u8], limits: &LimitSet) -> u64 {
        let set = limits.identity_hash();
        match self {
            Self::Fold { seeds: [seed, _], shared } => {
                mix(FoldHasher::with_seed(*seed, shared), subject, set)
            }
            Self::Sip { keys } => sip(*keys, subject, set),
        }
    }

    /// What a snapshot says of it. It holds the seeds: who can read it knows which subjects
    /// collide, as who can read it knows the subjects.
    pub(super) fn text(&self) -> HashText {
        let (kind, seeds) = match self {
            Self::Fold { seeds, .. } => (FOLD, *seeds),
            Self::Sip { keys } => (SIP, *keys),
        };
        HashText { kind, seeds, probe: self.probe() }
    }

    /// The hash that a snapshot was saved with, if a store that is (or is not) to hash by SipHash
    /// may have it, and this build still makes the same of it: foldhash does not promise that
    /// from version to version.
    pub(super) fn from_text(text: HashText, sip: bool) -> Option<Self> {
        let hash = Self::seeded(sip, text.seeds);
        (hash.text() == text).then_some(hash)
    }

    fn probe(&self) -> u64 {
        let Ok(limits) = "probe: 1/s via gcra".parse::<LimitSet>() else { return 0 };
        let subjects = ["1", "user:42", "sixteen_bytes_ok", "a-subject-of-more-than-16-bytes"];
        subjects.iter().fold(0, |probe: u64, subject| {
            let hash = self.hash(subject.as_bytes(), &limits);
            probe.rotate_left(7) ^ hash ^ super::MemoryStore::shard_of(hash) as u64
        })
    }
}

#[inline(always)]
fn mix(mut hasher: impl Hasher, subject: &[u8], set: u64) -> u64 {
    hasher.write(subject);
    hasher.write_u64(set);
    hasher.finish()
}

/// Not inlined: the usual hash is not to carry its many registers along.
#[inline(never)]
#[expect(deprecated, reason = "the only hasher of std that takes keys; SipHash-2-4 for ever")]
fn sip([k0, k1]: [u64; 2], subject: &[u8], set: u64) -> u64 {
    mix(std::hash::SipHasher::new_with_keys(k0, k1), subject, set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_found_again_by_what_it_says() {
        for sip in [false, true] {
            let (hash, other) = (KeyHash::random(sip), KeyHash::random(sip));
            assert_ne!(hash.text(), other.text());
            let text = hash.text();
            let again = KeyHash::from_text(text, sip).unwrap();
            let limits = "10/s".parse().unwrap();
            assert_eq!(again.hash(b"user:42", &limits), hash.hash(b"user:42", &limits));
            assert!(KeyHash::from_text(text, !sip).is_none());
            assert!(KeyHash::from_text(HashText { probe: !text.probe, ..text }, sip).is_none());
        }
    }
}

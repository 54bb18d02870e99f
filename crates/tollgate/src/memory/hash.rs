//! How subjects are hashed. The seeds belong to one store and are part of its snapshot: a restored
//! store finds its subjects in the same shards, with the marks of those shards.

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

/// The codes of the two hashes in a snapshot.
const FOLD: u8 = 1;
const SIP: u8 = 2;

/// A hash as stored in a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HashText {
    pub(super) kind: u8,
    pub(super) seeds: [u64; 2],
    /// The hash of a few known subjects, to detect a changed algorithm.
    pub(super) probe: u64,
}

impl KeyHash {
    /// A hash with random, unpredictable seeds.
    pub(super) fn random(sip: bool) -> Self {
        // The random keys that std uses for its own maps: from the system, different for each map.
        let random = RandomState::new();
        Self::seeded(sip, [random.hash_one(0), random.hash_one(1)])
    }

    pub(super) fn seeded(sip: bool, seeds: [u64; 2]) -> Self {
        if sip {
            return Self::Sip { keys: seeds };
        }
        // This also replaces the seeds that a process usually shares: with those known, an attacker
        // can choose subjects that collide under any seed of a store.
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

    /// The hash as stored in a snapshot, with its seeds. A reader of the snapshot knows which
    /// subjects collide; the snapshot contains the subjects too.
    pub(super) fn text(&self) -> HashText {
        let (kind, seeds) = match self {
            Self::Fold { seeds, .. } => (FOLD, *seeds),
            Self::Sip { keys } => (SIP, *keys),
        };
        HashText { kind, seeds, probe: self.probe() }
    }

    /// The hash that a snapshot was saved with, if it is of the wanted kind (SipHash or not), and
    /// this build still computes the same values. The foldhash crate does not promise that across
    /// versions.
    pub(super) fn from_text(text: HashText, sip: bool) -> Option<Self> {
        let hash = Self::seeded(sip, text.seeds);
        (hash.text() == text).then_some(hash)
    }

    fn probe(&self) -> u64 {
        let Ok(limits) = "probe: 1/s via gcra".parse::<LimitSet>() else { return 0 };
        let subjects = ["1", "user:42", "sixteen_bytes_ok", "a-subject-of-more-than-16-bytes"];
        subjects.iter().fold(0, |probe: u64, subject| {
            let hash = self.hash(subject.as_bytes(), &limits);
            probe.rotate_left(7) ^ hash ^ shard_of(hash) as u64
        })
    }
}

/// The number of shards. A power of two, because some bits of a subject's hash select the shard.
pub(super) const SHARDS: usize = 256;

/// The shard of a hash, from bits that the shard's table does not use.
#[inline]
#[allow(clippy::cast_possible_truncation)] // eight bits
pub(super) fn shard_of(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}

#[inline(always)]
fn mix(mut hasher: impl Hasher, subject: &[u8], set: u64) -> u64 {
    hasher.write(subject);
    hasher.write_u64(set);
    hasher.finish()
}

/// Not inlined, so that the default hash does not have to save its many registers.
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

//! A store's record of an answer under a request id.

use core::hash::Hasher as _;
#[expect(deprecated, reason = "as below")]
use std::hash::SipHasher;

use smallvec::SmallVec;

use super::{Carried, Fields, Mode, Outcome};
use crate::time::Time;

/// The most request ids that are remembered of one count. They are kept in two halves: when the
/// younger is full, the older one goes.
pub const MAX_REQUESTS: usize = 4_096;

/// The record of a store under a request id.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_enums)] // a store handles each
pub enum Recalled {
    /// Nothing, or an answer that has expired: the question is judged, and its answer remembered.
    Unknown,
    /// The first answer, which is given again.
    Repeated(Outcome),
    /// An answer that was repeated [`super::MAX_REPEATS`] times. The question is judged and is not
    /// remembered again; its [`Outcome::overused`] is true. The id stays so for as long as it is
    /// asked for.
    Overused,
}

impl Recalled {
    /// The answer to a question that is judged now, and whether it is to be remembered.
    #[must_use]
    pub fn judged(&self, outcome: Outcome, mode: Mode) -> (Outcome, bool) {
        let overused = *self == Self::Overused;
        let kept = outcome.granted > 0 && !mode.is_peek() && !overused;
        (Outcome { overused, ..outcome }, kept)
    }
}

/// The words before those of the limits.
const HEAD: usize = 3;

/// The words of each limit.
const EACH: usize = 3;

/// Two bits above every time have what was carried over.
const CARRIED_SHIFT: u32 = 62;

/// 128 bits of a text: two SipHashes, which stores on disk and over a network keep.
#[expect(deprecated, reason = "as below")]
pub(crate) struct Fingerprint([SipHasher; 2]);

#[expect(deprecated, reason = "the only hasher of std that takes keys; SipHash-2-4 for ever")]
impl Fingerprint {
    pub(crate) fn new() -> Self {
        Self([SipHasher::new_with_keys(0, 1), SipHasher::new_with_keys(2, 3)])
    }

    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.0.iter_mut().for_each(|hasher| hasher.write(piece));
    }

    pub(crate) fn finish(self) -> [u8; 16] {
        let [high, low] = self.0.map(|hasher| hasher.finish());
        (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
    }
}

/// The answer that admitted a request, in as many integers as it takes to give it again: 48 bytes
/// for one limit, and 24 for each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remembered {
    words: SmallVec<[u64; HEAD + EACH]>,
}

impl Remembered {
    /// The record of an answer that admits.
    #[must_use]
    pub fn new(outcome: &Outcome) -> Self {
        let mut words = SmallVec::with_capacity(HEAD + EACH * outcome.fields.len());
        words.extend_from_slice(&[outcome.granted, outcome.now.as_micros(), outcome.receipt]);
        for fields in &outcome.fields {
            let carried = match fields.carried {
                Carried::Same => 0,
                Carried::Over => 1,
                Carried::Fresh => 2,
            };
            let charged = fields.charged_at_us | carried << CARRIED_SHIFT;
            words.extend_from_slice(&[fields.remaining, fields.reset_after_us, charged]);
        }
        Self { words }
    }

    /// The same from its words; `None` unless they are an answer over this many limits.
    #[must_use]
    pub fn from_words(words: &[u64], limits: usize) -> Option<Self> {
        let is_sound = words.len() == HEAD + EACH * limits && words[0] > 0;
        is_sound.then(|| Self { words: words.into() })
    }

    /// The words, to be stored.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The bytes that it allocates beside itself: none for one limit.
    pub(crate) fn bytes_beside(&self) -> usize {
        if self.words.spilled() { self.words.capacity() * size_of::<u64>() } else { 0 }
    }

    /// The answer, marked as repeated.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let (head, each) = self.words.split_at(HEAD);
        let fields = each.chunks_exact(EACH).map(|words| {
            let carried = match words[2] >> CARRIED_SHIFT {
                0 => Carried::Same,
                1 => Carried::Over,
                _ => Carried::Fresh,
            };
            let charged_at_us = words[2] & ((1 << CARRIED_SHIFT) - 1);
            Fields::new(words[0], Some(0), words[1], charged_at_us, carried)
        });
        let now = Time::from_micros(head[1]);
        Outcome { repeated: true, ..Outcome::new(head[0], fields.collect(), head[2], now) }
    }
}

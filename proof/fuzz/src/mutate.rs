//! Inputs that are near to some: for the short turn, which must not need a fuzzer.

use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// The longest input that is made, in bytes.
const MAX_BYTES: usize = 4_096;

/// Bytes that mean something to some reader.
const SIGNS: &[u8] = b"\0\x01\x7f\x80\xff\n\r\t \"'#%&*+,-./:;=?@[\\]^_`{|}~09aAzZ";

/// Makes inputs out of others: the same ones for the same seed, on every machine.
#[derive(Debug)]
pub struct Mutator {
    random: ChaCha8Rng,
}

impl Mutator {
    /// One that begins with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// An input near to one of these.
    pub fn next(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = corpus.choose(&mut self.random).cloned().unwrap_or_default();
        for _ in 0..self.random.random_range(1..=4) {
            self.change(&mut bytes, corpus);
        }
        bytes.truncate(MAX_BYTES);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let random = &mut self.random;
        let at = random.random_range(0..=bytes.len());
        let end = (at + random.random_range(0..=16)).min(bytes.len());
        match random.random_range(0..7) {
            0 => drop(bytes.drain(at..end)),
            1 => bytes.truncate(at),
            2 => bytes.insert(at, SIGNS.choose(random).copied().unwrap_or_default()),
            3 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.random_range(0..8);
                }
            }
            4 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = SIGNS.choose(random).copied().unwrap_or_default();
                }
            }
            5 => {
                let piece = bytes[at..end].repeat(random.random_range(1..=8));
                bytes.splice(at..at, piece);
            }
            _ => {
                let other = corpus.choose(random).map_or(&[][..], Vec::as_slice);
                let from = random.random_range(0..=other.len());
                bytes.splice(at..end, other[from..].iter().copied());
            }
        }
    }
}

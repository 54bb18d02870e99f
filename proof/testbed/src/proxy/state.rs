//! A proxy's settings and observations, and the trick for each request.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_proof::Random;

use super::link::Link;
use super::mode::{Mode, Seen, Trick};

#[derive(Debug)]
pub(super) struct State {
    pub(super) mode: Mode,
    pub(super) armed: VecDeque<Trick>,
    pub(super) sometimes: (u32, Vec<Trick>),
    pub(super) only: Vec<String>,
    pub(super) random: Random,
    pub(super) refusing: bool,
    pub(super) links: BTreeMap<u64, Arc<Link>>,
    pub(super) held: Option<HeldReply>,
    pub(super) seen: Seen,
}

/// A reply that waits to be exchanged, and where the other one is to be sent.
#[derive(Debug)]
pub(super) struct HeldReply {
    pub(super) reply: Vec<u8>,
    /// The link that gave it.
    pub(super) of: u64,
    pub(super) to: Sender<Vec<u8>>,
}

impl State {
    /// Everything would pass, but nobody is accepted yet.
    pub(super) fn seeded(seed: u64) -> Self {
        Self {
            mode: Mode::Pass,
            armed: VecDeque::new(),
            sometimes: (0, Vec::new()),
            only: Vec::new(),
            random: Random::new(seed),
            refusing: true,
            links: BTreeMap::new(),
            held: None,
            seen: Seen::default(),
        }
    }

    /// The trick for a request.
    pub(super) fn trick(&mut self, command: &str) -> Option<Trick> {
        if !self.only.is_empty() && !self.only.iter().any(|name| name == command) {
            return None;
        }
        let trick = self.armed.pop_front().or_else(|| {
            let (per_mille, count) = (u64::from(self.sometimes.0), self.sometimes.1.len());
            if count == 0 || self.random.draw() % 1_000 >= per_mille {
                return None;
            }
            let which = usize::try_from(self.random.draw() >> 32).ok()? % count;
            self.sometimes.1.get(which).copied()
        });
        self.seen.tricks += u64::from(trick.is_some());
        trick
    }

    /// Bytes that no parser may take for RESP: no frame begins with a small letter.
    pub(super) fn garbage(&mut self) -> Vec<u8> {
        let letters: Vec<u8> = (b'a'..=b'z').collect();
        let mut bytes: Vec<u8> = self
            .random
            .draw()
            .to_le_bytes()
            .iter()
            .map(|byte| letters[usize::from(*byte) % 26])
            .collect();
        bytes.extend_from_slice(b"\r\n");
        bytes
    }
}

/// A test that failed may have poisoned it; the others go on.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    unpoisoned(mutex.lock())
}

pub(super) fn unpoisoned<T>(result: Result<T, PoisonError<T>>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}

//! The contents of keys, and how long they live.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

/// The content of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stored {
    Text(Vec<u8>),
    List(VecDeque<Vec<u8>>),
    /// Members by their scores.
    Sorted(BTreeSet<(u64, Vec<u8>)>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
}

/// The contents at some time. A copy shares everything with its original, until one of them is
/// written to: histories copy at each step, and scripts write one key of many.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Snapshot(Rc<HashMap<Rc<[u8]>, Entry>>);

/// The content of a key, and for how long; `None` means for ever.
#[derive(Clone, PartialEq, Debug)]
struct Entry {
    held: Rc<Stored>,
    lifetime: Option<Lifetime>,
}

/// How long a key lies, in milliseconds, and after which of them it is gone.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Lifetime {
    pub(super) ms: u64,
    until_ms: u64,
}

impl Snapshot {
    pub(super) fn get(&self, key: &[u8]) -> Option<&Stored> {
        self.0.get(key).map(|entry| entry.held.as_ref())
    }

    pub(super) fn lifetime(&self, key: &[u8]) -> Option<Lifetime> {
        self.0.get(key)?.lifetime
    }

    pub(super) fn get_mut(&mut self, key: &[u8]) -> Option<&mut Stored> {
        Rc::make_mut(&mut self.0).get_mut(key).map(|entry| Rc::make_mut(&mut entry.held))
    }

    /// Holds this under a key from now on; how long it lies stays as it was.
    pub(super) fn put(&mut self, key: &[u8], held: Stored) {
        let keys = Rc::make_mut(&mut self.0);
        match keys.get_mut(key) {
            Some(entry) => entry.held = Rc::new(held),
            None => {
                keys.insert(key.into(), Entry { held: Rc::new(held), lifetime: None });
            }
        }
    }

    /// Holds under another key what lies here, for as long.
    pub(super) fn rename(&mut self, key: &[u8], other: &[u8]) {
        let keys = Rc::make_mut(&mut self.0);
        let entry = keys.remove(key).expect("it holds something");
        keys.insert(other.into(), entry);
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        self.0.contains_key(key) && Rc::make_mut(&mut self.0).remove(key).is_some()
    }

    /// Drops what has expired, and says which keys those were.
    pub(super) fn expire(&mut self, now_ms: u64) -> Vec<Rc<[u8]>> {
        let is_over = |_: &Rc<[u8]>, entry: &mut Entry| {
            entry.lifetime.is_some_and(|lifetime| lifetime.until_ms < now_ms)
        };
        Rc::make_mut(&mut self.0).extract_if(is_over).map(|(key, _)| key).collect()
    }

    /// The content of each key, without its lifetime.
    pub(super) fn keys(&self) -> HashMap<Vec<u8>, Stored> {
        let each = self.0.iter().map(|(key, entry)| (key.to_vec(), Stored::clone(&entry.held)));
        each.collect()
    }
}

#[derive(Default, Debug)]
pub(super) struct Data {
    pub(super) keys: Snapshot,
    pub(super) now_us: u64,
    pub(super) calls: u64,
    /// The rows of lists that they have read.
    pub(super) rows: u64,
    /// The lifetimes that the last script set, and whether it deleted anything.
    pub(super) written: Vec<(Rc<[u8]>, u64)>,
    pub(super) deleted: bool,
    /// The contents before it.
    pub(super) before: Snapshot,
    /// Keys that the server has dropped by itself: their absence is not a fault of a script.
    pub(super) evicted: Vec<Rc<[u8]>>,
    /// A command that the user has no right to.
    pub(super) denied: Option<Vec<u8>>,
    /// How often the script may still be asked whether it runs too long; none: for ever.
    pub(super) patience: Option<u32>,
}

impl Data {
    /// Lets a key that holds something lie for so long.
    pub(super) fn live(&mut self, key: &[u8], ms: u64) {
        let until_ms = self.now_us / 1_000 + ms;
        let keys = Rc::make_mut(&mut self.keys.0);
        keys.get_mut(key).expect("it holds something").lifetime = Some(Lifetime { ms, until_ms });
        self.written.push((key.into(), ms));
    }

    /// How long the last script lets a key live: its last statement counts.
    pub(super) fn written(&self, key: &[u8]) -> Option<u64> {
        self.written.iter().rev().find(|(written, _)| **written == *key).map(|(_, ms)| *ms)
    }

    /// How long a key would have lain without the last script.
    pub(super) fn lay(&self, key: &[u8]) -> Option<u64> {
        let until_ms = self.before.lifetime(key)?.until_ms;
        until_ms.checked_sub(self.now_us / 1_000)
    }

    /// As PTTL answers.
    pub(super) fn pttl(&self, key: &[u8]) -> i64 {
        let Some(entry) = self.keys.0.get(key) else { return -2 };
        entry.lifetime.map_or(-1, |lifetime| {
            i64::try_from(lifetime.until_ms.saturating_sub(self.now_us / 1_000)).unwrap()
        })
    }
}

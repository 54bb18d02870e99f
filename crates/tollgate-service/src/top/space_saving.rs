//! The most frequent keys of a stream, in bounded memory: Space-Saving (Metwally, Agrawal, El
//! Abbadi, *Efficient Computation of Frequent and Top-k Elements in Data Streams*, ICDT 2005).
//!
//! There is a fixed number of counters. A key without a counter takes over the smallest one, whose
//! count becomes the key's error. So a true count is never above `count` and never below `count -
//! error`, and no key without a counter was counted more often than [`SpaceSaving::floor`].

use std::collections::HashMap;

/// How often a key was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Estimate {
    /// The most that it can be.
    pub(super) count: u64,
    /// By how much that may be too high.
    pub(super) error: u64,
}

impl Estimate {
    /// The least that it can be.
    pub(super) fn at_least(self) -> u64 {
        self.count.saturating_sub(self.error)
    }

    /// The estimate over two streams.
    pub(super) fn and(self, other: Self) -> Self {
        Self { count: self.count + other.count, error: self.error + other.error }
    }
}

/// Counters of the most frequent keys. A key is a hash, and `T` is the name that the caller keeps
/// for it.
#[derive(Debug)]
pub(super) struct SpaceSaving<T> {
    /// The number of counters, at least one.
    most: usize,
    counters: Vec<Counter<T>>,
    /// The positions in `counters`.
    places: HashMap<u64, usize, foldhash::fast::RandomState>,
    /// A binary heap of all counters, with the least count first.
    heap: Vec<Node>,
    observed: u64,
}

#[derive(Debug)]
struct Counter<T> {
    key: u64,
    name: T,
    error: u64,
    /// The position in the heap.
    node: usize,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    count: u64,
    /// The position of its counter.
    counter: usize,
}

impl<T: Default> SpaceSaving<T> {
    /// Without any counts; with room for this many counters, at least one.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            counters: Vec::new(),
            places: HashMap::default(),
            heap: Vec::new(),
            observed: 0,
        }
    }

    /// Counts a key once. `write` gives a counter the name of its new key, over the name of an old
    /// one.
    #[inline]
    pub(super) fn add(&mut self, key: u64, write: impl FnOnce(&mut T)) {
        self.observed += 1;
        match self.places.get(&key).and_then(|place| self.counters.get(*place)) {
            Some(counter) => self.raise(counter.node),
            None => self.begin(key, write),
        }
    }

    /// Counts a key that has no counter.
    fn begin(&mut self, key: u64, write: impl FnOnce(&mut T)) {
        let place = self.counters.len();
        if place < self.most {
            let mut name = T::default();
            write(&mut name);
            self.counters.push(Counter { key, name, error: 0, node: place });
            self.places.insert(key, place);
            // Nothing has counted less.
            self.heap.push(Node { count: 1, counter: place });
            self.lift(place);
            return;
        }
        let Some(&Node { count, counter: place }) = self.heap.first() else { return };
        let Some(counter) = self.counters.get_mut(place) else { return };
        self.places.remove(&counter.key);
        (counter.key, counter.error) = (key, count);
        write(&mut counter.name);
        self.places.insert(key, place);
        self.raise(0);
    }

    /// Adds one to the count of a node, and moves it below what has counted less.
    #[inline]
    fn raise(&mut self, mut node: usize) {
        if let Some(node) = self.heap.get_mut(node) {
            node.count += 1;
        }
        loop {
            let (left, right) = (2 * node + 1, 2 * node + 2);
            let child = if self.count(right) < self.count(left) { right } else { left };
            if self.count(child) >= self.count(node) {
                return;
            }
            self.swap(node, child);
            node = child;
        }
    }

    /// Moves a node above what has counted more.
    fn lift(&mut self, mut node: usize) {
        while node > 0 {
            let parent = (node - 1) / 2;
            if self.count(parent) <= self.count(node) {
                return;
            }
            self.swap(node, parent);
            node = parent;
        }
    }

    /// The count of a node; more than any where there is none.
    #[inline]
    fn count(&self, node: usize) -> u64 {
        self.heap.get(node).map_or(u64::MAX, |node| node.count)
    }

    #[inline]
    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for node in [one, other] {
            let counter = self.heap.get(node).map(|node| node.counter);
            if let Some(counter) = counter.and_then(|place| self.counters.get_mut(place)) {
                counter.node = node;
            }
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        // The memory of a flood of long names is given back.
        self.counters.clear();
        self.places.clear();
        self.heap.clear();
        self.observed = 0;
    }

    /// How often any key was counted.
    pub(super) fn observed(&self) -> u64 {
        self.observed
    }

    /// The most that a key without a counter can have been counted.
    pub(super) fn floor(&self) -> u64 {
        if self.counters.len() < self.most { 0 } else { self.count(0) }
    }

    /// The estimate of a key, also of one without a counter.
    pub(super) fn estimate(&self, key: u64) -> Estimate {
        let counter = self.places.get(&key).and_then(|place| self.counters.get(*place));
        match counter {
            Some(counter) => self.of(counter),
            None => Estimate { count: self.floor(), error: self.floor() },
        }
    }

    /// Whether a key has a counter.
    pub(super) fn has(&self, key: u64) -> bool {
        self.places.contains_key(&key)
    }

    /// All keys that have a counter, with their names, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Estimate, &T)> {
        self.counters.iter().map(|counter| (counter.key, self.of(counter), &counter.name))
    }

    fn of(&self, counter: &Counter<T>) -> Estimate {
        Estimate { count: self.count(counter.node), error: counter.error }
    }

    /// The bytes of all counters, with what `of_name` finds behind their names.
    #[cfg(test)]
    pub(super) fn bytes(&self, of_name: impl Fn(&T) -> usize) -> usize {
        // A hash table has a place and a control byte more than 8/7 times what it has room for.
        let places = (self.places.capacity() * 8 / 7) * (size_of::<(u64, usize)>() + 1);
        let names: usize = self.counters.iter().map(|counter| of_name(&counter.name)).sum();
        let counters = self.counters.capacity() * size_of::<Counter<T>>();
        counters + self.heap.capacity() * size_of::<Node>() + places + names
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Streams with a few frequent keys and many that come once.
    fn streams() -> impl Strategy<Value = Vec<u64>> {
        let key = prop_oneof![3 => 0..4_u64, 3 => 0..20_u64, 2 => 0..1_000_u64];
        prop::collection::vec(key, 0..600)
    }

    fn summary(stream: &[u64], most: usize) -> SpaceSaving<u64> {
        let mut summary = SpaceSaving::new(most);
        for key in stream {
            summary.add(*key, |name| *name = *key);
        }
        summary
    }

    fn exactly(stream: &[u64], key: u64) -> u64 {
        stream.iter().filter(|other| **other == key).count() as u64
    }

    proptest! {
        #[test]
        fn true_counts_are_within_the_error(stream in streams(), most in 1..24_usize) {
            let summary = summary(&stream, most);
            let observed = stream.len() as u64;
            prop_assert_eq!(summary.observed(), observed);
            prop_assert!(summary.iter().count() <= most);
            for key in 0..1_000 {
                let (exact, estimate) = (exactly(&stream, key), summary.estimate(key));
                prop_assert!(estimate.at_least() <= exact && exact <= estimate.count);
                prop_assert!(estimate.error <= observed / most as u64);
                // The guarantee of the paper.
                prop_assert!(summary.has(key) || exact <= observed / most as u64);
            }
            for (key, estimate, name) in summary.iter() {
                prop_assert_eq!(key, *name);
                prop_assert_eq!(estimate, summary.estimate(key));
            }
            // The counts together are what was observed.
            let sum: u64 = summary.iter().map(|(_, estimate, _)| estimate.count).sum();
            prop_assert_eq!(sum, observed);
        }

        #[test]
        fn nothing_is_lost_while_there_is_room(stream in streams()) {
            let summary = summary(&stream, 1_000);
            for key in 0..1_000 {
                let estimate = Estimate { count: exactly(&stream, key), error: 0 };
                prop_assert_eq!(summary.estimate(key), estimate);
            }
        }

        #[test]
        fn two_streams_add_up(one in streams(), other in streams(), most in 1..24_usize) {
            let both = [summary(&one, most), summary(&other, most)];
            for key in 0..1_000 {
                let exact = exactly(&one, key) + exactly(&other, key);
                let [first, second] = both.each_ref().map(|summary| summary.estimate(key));
                let sum = first.and(second);
                prop_assert!(sum.at_least() <= exact && exact <= sum.count);
            }
        }
    }

    #[test]
    fn a_key_takes_over_the_least_counter() {
        let mut summary = summary(&[1, 1, 1, 2, 2, 3], 3);
        assert_eq!(summary.floor(), 1);
        summary.add(4, |name| *name = 4);
        assert_eq!(summary.estimate(4), Estimate { count: 2, error: 1 });
        assert!(!summary.has(3));
        assert_eq!(summary.estimate(3), Estimate { count: 2, error: 2 });
        summary.clear();
        assert_eq!((summary.observed(), summary.floor(), summary.iter().count()), (0, 0, 0));
        summary.add(9, |name| *name = 9);
        assert_eq!(summary.estimate(9), Estimate { count: 1, error: 0 });
    }
}

//! A state in memory, for simple stores and tests.

use std::collections::VecDeque;

use super::States;
use crate::limit::{LimitSet, Place};
use crate::strategy::{Cell, Entry, Log};

/// A log in memory, for simple stores and tests.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VecLog {
    base: u64,
    entries: VecDeque<Entry>,
}

impl VecLog {
    /// A log of these entries, after `base`.
    #[must_use]
    pub fn new(base: u64, entries: impl IntoIterator<Item = Entry>) -> Self {
        Self { base, entries: entries.into_iter().collect() }
    }

    /// Its events, the oldest first: the time in microseconds since the Unix epoch, and the cost.
    #[must_use]
    pub fn events(&self) -> Vec<(u64, u64)> {
        let before = core::iter::once(self.base).chain(self.entries.iter().map(|it| it.total));
        let each = self.entries.iter().zip(before);
        each.map(|(entry, before)| (entry.at_us, entry.total.wrapping_sub(before))).collect()
    }
}

impl Log for VecLog {
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn entry(&self, index: usize) -> Entry {
        self.entries.get(index).copied().unwrap_or(Entry { at_us: 0, total: self.base })
    }

    fn base(&self) -> u64 {
        self.base
    }

    fn drop_front(&mut self, count: usize) {
        if let Some(last) = count.checked_sub(1).and_then(|i| self.entries.get(i)) {
            self.base = last.total;
            self.entries.drain(..count);
        }
    }

    fn push(&mut self, entry: Entry) {
        self.entries.push_back(entry);
    }

    fn amend(&mut self, entry: Entry) {
        if let Some(last) = self.entries.back_mut() {
            *last = entry;
        }
    }

    fn replace(&mut self, entries: &[Entry]) {
        self.base = 0;
        self.entries = entries.iter().copied().collect();
    }
}

/// The state of a limit set in memory, for simple stores and tests.
///
/// ```
/// use tollgate::engine::{VecStates, Mode, Part, decide};
/// use tollgate::{LimitSet, Time};
///
/// let limits: LimitSet = "2/10s, 3/1m via fixed_window".parse()?;
/// let mut held = VecStates::fresh(&limits);
/// let now = Time::from_micros(0);
/// for granted in [1, 1, 0] {
///     let mut parts = [Part::new(&limits, &mut held)];
///     let outcome = decide(&mut parts, now, 1.into(), Mode::Whole, None);
///     assert_eq!(outcome.map(|outcome| outcome.granted), Ok(granted));
/// }
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_structs)] // a store builds it from what it has kept
pub struct VecStates {
    /// The words of all limits.
    pub words: Vec<u64>,
    /// The logs of all limits.
    pub logs: Vec<VecLog>,
}

impl VecStates {
    /// The state of a subject without charges.
    #[must_use]
    pub fn fresh(limits: &LimitSet) -> Self {
        Self { words: vec![0; limits.words()], logs: vec![VecLog::default(); limits.logs()] }
    }
}

impl VecStates {
    /// A copy of the states of a limit set.
    pub(super) fn copy_of(limits: &LimitSet, states: &mut dyn States) -> Self {
        let mut copy = Self::fresh(limits);
        for place in limits.places() {
            copy.cell(*place).copy(&mut states.cell(*place));
        }
        copy
    }

    /// A copy of the state of one limit, which is then the [only one](Self::only_cell).
    pub(super) fn copy_of_cell(cell: &mut Cell<'_>) -> Self {
        let mut copy = Self { words: Vec::new(), logs: Vec::new() };
        match cell {
            Cell::Words(words) => copy.words = words.to_vec(),
            Cell::Log(log) => {
                let entries = (0..log.len()).map(|index| log.entry(index));
                copy.logs.push(VecLog::new(log.base(), entries));
            }
        }
        copy
    }

    /// The state of the only limit.
    pub(super) fn only_cell(&mut self) -> Cell<'_> {
        match &mut self.logs[..] {
            [log] => Cell::Log(log),
            _ => Cell::Words(&mut self.words),
        }
    }
}

impl States for VecStates {
    fn cell(&mut self, place: Place) -> Cell<'_> {
        match place {
            Place::Words { start, end } => Cell::Words(&mut self.words[start..end]),
            Place::Log(index) => Cell::Log(&mut self.logs[index]),
        }
    }
}

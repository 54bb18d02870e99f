//! The size of a subject's state: the byte budget, and states too large for a slot.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;

use crate::engine::{self, HoldTable, Holds as _, Part, States};
use crate::limit::{LimitSet, Place};
use crate::strategy::{Cell, Entry, Log};
use crate::time::Time;

/// The bytes that must be free for another hold.
pub(super) const ROOM_FOR_HOLD: usize = 1 << 10;

/// The byte budget of a store, measured by its allocations.
#[derive(Debug)]
pub(super) struct Budget {
    used: AtomicUsize,
    bound: usize,
    /// The part for entries. The rest is for limit sets first used when the store is full, and for
    /// the states that their new subjects share.
    for_entries: usize,
}

/// One part in this many is reserved for limit sets first used when the store is full.
const KEPT_BACK: usize = 32;

impl Budget {
    pub(super) fn new(bound: usize) -> Self {
        Self { used: AtomicUsize::new(0), bound, for_entries: bound - bound / KEPT_BACK }
    }

    /// Takes `bytes` if that stays within the part for entries.
    pub(super) fn try_take(&self, bytes: usize) -> bool {
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|sum| *sum <= self.for_entries)
        });
        taken.is_ok()
    }

    /// Whether `bytes` more would stay within the part for entries.
    pub(super) fn has(&self, bytes: usize) -> bool {
        bytes == 0 || self.used().checked_add(bytes).is_some_and(|sum| sum <= self.for_entries)
    }

    /// Whether `bytes` more would stay within the bound.
    pub(super) fn has_in_all(&self, bytes: usize) -> bool {
        bytes == 0 || self.used().checked_add(bytes).is_some_and(|sum| sum <= self.bound)
    }

    /// Takes `bytes` that are already allocated, beyond the bound if necessary.
    pub(super) fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn bound(&self) -> usize {
        self.bound
    }
}

/// A log that takes its entries from the budget. When the budget is exhausted, it moves its newest
/// entry to now instead of adding one. That entry then counts longer than necessary, never shorter.
#[derive(Debug)]
pub(super) struct BoundedLog {
    base: u64,
    entries: VecDeque<Entry>,
    budget: Arc<Budget>,
    paid: usize,
}

/// The initial capacity of a log, in entries.
const FIRST_ENTRIES: usize = 4;

/// The most initial capacity of a restored log, in entries.
const RESTORED_ENTRIES: usize = 1 << 10;

impl BoundedLog {
    fn new(budget: &Arc<Budget>) -> Self {
        Self { base: 0, entries: VecDeque::new(), budget: Arc::clone(budget), paid: 0 }
    }

    /// Updates the budget to the current capacity.
    fn settle(&mut self) {
        let owed = self.entries.capacity() * size_of::<Entry>();
        if owed > self.paid {
            self.budget.take(owed - self.paid);
        } else {
            self.budget.give(self.paid - owed);
        }
        self.paid = owed;
    }

    fn has_room(&mut self) -> bool {
        if self.entries.len() < self.entries.capacity() {
            return true;
        }
        let more = self.entries.capacity().max(FIRST_ENTRIES);
        if !self.budget.try_take(more * size_of::<Entry>()) {
            return false;
        }
        self.paid += more * size_of::<Entry>();
        self.entries.reserve_exact(more);
        self.settle();
        true
    }

    /// A copy with its own share of the budget, beyond the bound if necessary.
    fn copy(&self) -> Self {
        let mut copy = Self {
            base: self.base,
            entries: self.entries.clone(),
            budget: Arc::clone(&self.budget),
            paid: 0,
        };
        copy.settle();
        copy
    }

    /// Each entry's time and own cost.
    pub(super) fn events(&self) -> impl ExactSizeIterator<Item = (u64, u64)> {
        let mut before = self.base;
        self.entries.iter().map(move |entry| {
            let cost = entry.total.wrapping_sub(before);
            before = entry.total;
            (entry.at_us, cost)
        })
    }

    /// Adds an entry of a saved log that had `count` in all, beyond the byte bound if necessary:
    /// the restore checks the bound itself. The log ends with exactly the capacity it needs. It
    /// never has capacity for more than twice the entries added, whatever `count` claims.
    pub(super) fn restore(&mut self, entry: Entry, count: usize) {
        let held = self.entries.len();
        if held == self.entries.capacity() {
            let wanted = (held * 2).max(RESTORED_ENTRIES).min(count.max(held + 1));
            self.entries.reserve_exact(wanted - held);
            self.settle();
        }
        self.entries.push_back(entry);
    }
}

impl Drop for BoundedLog {
    fn drop(&mut self) {
        self.budget.give(self.paid);
    }
}

impl Log for BoundedLog {
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
        // A log that was long before frees its unused capacity.
        if self.entries.capacity() > FIRST_ENTRIES
            && self.entries.len() < self.entries.capacity() / 4
        {
            self.entries.shrink_to((self.entries.len() * 2).max(FIRST_ENTRIES));
            self.settle();
        }
    }

    fn push(&mut self, entry: Entry) {
        if self.has_room() {
            self.entries.push_back(entry);
        } else if self.entries.is_empty() {
            // The first entry is always taken from the budget: a state without it would lose the
            // charge.
            self.entries.reserve_exact(1);
            self.entries.push_back(entry);
            self.settle();
        } else {
            self.amend(entry);
        }
    }

    fn amend(&mut self, entry: Entry) {
        if let Some(last) = self.entries.back_mut() {
            *last = entry;
        }
    }

    fn replace(&mut self, entries: &[Entry]) {
        self.base = 0;
        self.entries.clear();
        self.entries.extend(entries.iter().copied());
        self.entries.shrink_to(FIRST_ENTRIES);
        self.settle();
    }
}

/// Until when the holds of a count, and what their ends charge, must be kept.
pub(super) fn held_until_us(limits: &LimitSet, table: &HoldTable) -> u64 {
    table.until_us().max(engine::ends_count_until_us(limits, table))
}

/// The most bytes of the first few holds of a count.
const FIRST_HOLDS: usize = 512;

/// The holds of a count, which take their bytes from the budget.
#[derive(Debug)]
pub(super) struct BoundedHolds {
    pub(super) table: HoldTable,
    budget: Arc<Budget>,
    paid: usize,
}

impl BoundedHolds {
    pub(super) fn new(table: HoldTable, budget: &Arc<Budget>) -> Self {
        let mut holds = Self { table, budget: Arc::clone(budget), paid: 0 };
        holds.settle();
        holds
    }

    /// Updates the budget to the present allocations of the table.
    pub(super) fn settle(&mut self) {
        let owed = size_of::<Self>() + self.table.bytes();
        if owed > self.paid {
            self.budget.take(owed - self.paid);
        } else {
            self.budget.give(self.paid - owed);
        }
        self.paid = owed;
    }
}

impl Drop for BoundedHolds {
    fn drop(&mut self) {
        self.budget.give(self.paid);
    }
}

/// A state that does not fit into a slot.
#[derive(Debug)]
pub(super) struct Large {
    pub(super) words: Box<[u64]>,
    pub(super) logs: Box<[BoundedLog]>,
    /// The holds of the count; `None` if there are none.
    pub(super) holds: Option<Box<BoundedHolds>>,
    budget: Arc<Budget>,
}

impl Large {
    /// A fresh state that is taken from the budget even when it is exhausted: for the few shared
    /// states, and for states that live only during a check.
    pub(super) fn fresh_anyway(limits: &LimitSet, budget: &Arc<Budget>) -> Self {
        budget.take(Self::bytes(limits.words(), limits.logs()));
        let logs = (0..limits.logs()).map(|_| BoundedLog::new(budget));
        Self::built(vec![0; limits.words()], logs, budget)
    }

    fn built(
        words: Vec<u64>,
        logs: impl Iterator<Item = BoundedLog>,
        budget: &Arc<Budget>,
    ) -> Self {
        let (words, logs) = (words.into(), logs.collect());
        Self { words, logs, holds: None, budget: Arc::clone(budget) }
    }

    /// A copy with its own share of the budget, beyond the bound if necessary.
    fn copy(&self) -> Self {
        self.budget.take(Self::bytes(self.words.len(), self.logs.len()));
        let logs = self.logs.iter().map(BoundedLog::copy);
        let mut copy = Self::built(self.words.to_vec(), logs, &self.budget);
        let holds = self.holds.as_ref().filter(|holds| !holds.table.is_empty());
        copy.holds =
            holds.map(|holds| Box::new(BoundedHolds::new(holds.table.clone(), &self.budget)));
        copy
    }

    /// The bytes of a state with room for one event in each log.
    pub(super) fn least_bytes(limits: &LimitSet) -> usize {
        Self::bytes(limits.words(), limits.logs()) + limits.logs() * size_of::<Entry>()
    }

    /// The bytes of a state with the first event of each log.
    pub(super) fn first_bytes(limits: &LimitSet) -> usize {
        Self::bytes(limits.words(), limits.logs())
            + limits.logs() * FIRST_ENTRIES * size_of::<Entry>()
    }

    fn bytes(words: usize, logs: usize) -> usize {
        words * size_of::<u64>() + logs * size_of::<BoundedLog>()
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        self.budget.give(Self::bytes(self.words.len(), self.logs.len()));
    }
}

impl States for Large {
    fn cell(&mut self, place: Place) -> Cell<'_> {
        match place {
            Place::Words { start, end } => Cell::Words(&mut self.words[start..end]),
            Place::Log(index) => Cell::Log(&mut self.logs[index]),
        }
    }
}

/// A subject's state, taken out of its slot.
#[derive(Debug)]
pub(super) enum State {
    /// Two words: one limit under any strategy but `sliding_log` and `sliding_window`.
    Pair([u64; 2]),
    Large(Large),
}

impl State {
    pub(super) fn fresh_anyway(limits: &LimitSet, budget: &Arc<Budget>) -> Self {
        if limits.single_pair().is_some() {
            Self::Pair([0; 2])
        } else {
            Self::Large(Large::fresh_anyway(limits, budget))
        }
    }

    /// An exhausted state: the full capacity of each limit was charged now.
    pub(super) fn spent(limits: &LimitSet, now: Time, budget: &Arc<Budget>) -> Self {
        let mut state = Self::fresh_anyway(limits, budget);
        let all = crate::Adjustment::taking_all(limits);
        engine::adjust(&mut Part::new(limits, &mut state), &all, now);
        state
    }

    /// True when nothing is counted.
    pub(super) fn is_fresh(&self) -> bool {
        match self {
            Self::Pair(words) => *words == [0; 2],
            Self::Large(large) => {
                large.words.iter().all(|word| *word == 0) && large.logs.iter().all(Log::is_empty)
            }
        }
    }

    /// True when somebody waits in line for a hold.
    pub(super) fn is_waited_for(&self) -> bool {
        self.holds().is_some_and(|table| !table.line().is_empty())
    }

    pub(super) fn copy(&self) -> Self {
        match self {
            Self::Pair(words) => Self::Pair(*words),
            Self::Large(large) => Self::Large(large.copy()),
        }
    }

    /// The bytes that a state allocates at least: one event in each log.
    pub(super) fn least_bytes(limits: &LimitSet) -> usize {
        // Slots are held, also those that new subjects share.
        let holds = if limits.needs_hold() { FIRST_HOLDS } else { 0 };
        holds + if limits.single_pair().is_some() { 0 } else { Large::least_bytes(limits) }
    }

    /// The bytes that it takes at most to place one more hold.
    pub(super) fn growth_by_hold(&self, is_named: bool) -> usize {
        let names = if is_named { FIRST_HOLDS } else { 0 };
        names + self.holds().filter(|table| table.has_open()).map_or(FIRST_HOLDS, HoldTable::growth)
    }

    /// The same state in a form that can have holds.
    pub(super) fn into_held(self, budget: &Arc<Budget>) -> Self {
        let mut large = match self {
            Self::Large(large) => large,
            Self::Pair(words) => {
                budget.take(Large::bytes(words.len(), 0));
                Large::built(words.to_vec(), core::iter::empty(), budget)
            }
        };
        let fresh = || Box::new(BoundedHolds::new(HoldTable::default(), budget));
        large.holds.get_or_insert_with(fresh);
        Self::Large(large)
    }

    /// The same state in its smallest form, without holds if there are none.
    pub(super) fn into_least(self, limits: &LimitSet) -> Self {
        let Self::Large(mut large) = self else { return self };
        match &mut large.holds {
            None if limits.needs_hold() => {
                // The fast path, which knows no holds, must not find it.
                let budget = Arc::clone(&large.budget);
                return Self::Large(large).into_held(&budget);
            }
            None => return Self::Large(large),
            Some(holds) => holds.settle(),
        }
        let is_open = large.holds.as_ref().is_some_and(|holds| !holds.table.is_empty());
        if is_open || limits.needs_hold() {
            return Self::Large(large);
        }
        large.holds = None;
        match (limits.single_pair(), &large.words[..]) {
            (Some(_), [a, b]) => Self::Pair([*a, *b]),
            _ => Self::Large(large),
        }
    }

    /// The holds of the count, if it can have any.
    pub(super) fn holds(&self) -> Option<&HoldTable> {
        match self {
            Self::Pair(_) => None,
            Self::Large(large) => large.holds.as_ref().map(|holds| &holds.table),
        }
    }

    /// The same state with these holds.
    pub(super) fn with_holds(self, table: HoldTable, budget: &Arc<Budget>) -> Self {
        let mut state = self.into_held(budget);
        if let Self::Large(large) = &mut state {
            large.holds = Some(Box::new(BoundedHolds::new(table, budget)));
        }
        state
    }

    /// Takes its holds out, so that the engine can work on both; [`State::give_holds`] follows.
    pub(super) fn take_holds(&mut self) -> Option<Box<BoundedHolds>> {
        match self {
            Self::Pair(_) => None,
            Self::Large(large) => large.holds.take(),
        }
    }

    pub(super) fn give_holds(&mut self, holds: Option<Box<BoundedHolds>>) {
        if let Self::Large(large) = self {
            large.holds = holds;
        }
    }

    /// When no part of it counts, is held or is remembered any more, in microseconds since the Unix
    /// epoch.
    pub(super) fn fresh_at_us(&mut self, limits: &LimitSet) -> u64 {
        let held_until_us = self.holds().map_or(0, |table| held_until_us(limits, table));
        engine::fresh_at_us(limits, self).max(held_until_us)
    }

    /// The bytes that a state has allocated.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Pair(_) => 0,
            Self::Large(large) => {
                let logs = large.logs.iter().map(|log| log.paid).sum::<usize>();
                let holds = large.holds.as_ref().map_or(0, |holds| holds.paid);
                Large::bytes(large.words.len(), large.logs.len()) + logs + holds
            }
        }
    }

    pub(super) fn words(&self) -> &[u64] {
        match self {
            Self::Pair(words) => words,
            Self::Large(large) => &large.words,
        }
    }

    pub(super) fn logs(&self) -> Vec<Vec<(u64, u64)>> {
        match self {
            Self::Pair(_) => Vec::new(),
            Self::Large(large) => large.logs.iter().map(|log| log.events().collect()).collect(),
        }
    }
}

impl States for State {
    fn cell(&mut self, place: Place) -> Cell<'_> {
        match self {
            Self::Pair(words) => words.cell(place),
            Self::Large(large) => large.cell(place),
        }
    }
}

impl States for [u64; 2] {
    #[inline]
    fn cell(&mut self, place: Place) -> Cell<'_> {
        Cell::Words(&mut self[place.words()])
    }
}

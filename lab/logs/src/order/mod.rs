//! Sorts events by timestamp, in any number and any original order.
//!
//! Servers log a request when it ends, so real logs are not in order. The result is exactly that of
//! a stable sort by timestamp: ties keep their file order. Up to [`Sorting::memory_events`] events
//! are sorted in memory. Beyond that each full buffer is sorted and appended to a temporary file as
//! one *run*, and the runs are merged while they are read. All runs are parts of one open file.
//! More runs than [`Sorting::fan_in`] are first merged in groups into a second file, which then
//! replaces the first, so memory stays bounded for any log.

mod spill;

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use self::spill::{Merge, Spill, SpillWriter};
use crate::error::Error;
use crate::event::Event;
use crate::split_mix::SplitMix64;
use crate::time;

/// How to sort, and how much memory to use for it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Sorting {
    /// The most events in memory, and the length of a run on disk. Takes 36 bytes each while
    /// sorting. Default 1,000,000.
    pub memory_events: NonZeroUsize,
    /// The maximum number of runs merged together, at least 2 (1 counts as 2). Default 256, which
    /// is one pass up to 256,000,000 events.
    pub fan_in: NonZeroUsize,
    /// The folder of temporary files. Default: the system's folder, or that of `TMPDIR`.
    pub temp_dir: Option<PathBuf>,
}

impl Sorting {
    /// The default of [`Self::memory_events`].
    pub const MEMORY_EVENTS: NonZeroUsize = NonZeroUsize::new(1_000_000).unwrap();
    /// The default of [`Self::fan_in`].
    pub const FAN_IN: NonZeroUsize = NonZeroUsize::new(256).unwrap();

    /// Sets the number of events in memory.
    #[must_use]
    pub fn with_memory_events(mut self, events: NonZeroUsize) -> Self {
        self.memory_events = events;
        self
    }

    /// Sets the number of runs merged together.
    #[must_use]
    pub fn with_fan_in(mut self, runs: NonZeroUsize) -> Self {
        self.fan_in = runs;
        self
    }

    /// Sets the folder of temporary files.
    #[must_use]
    pub fn with_temp_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.temp_dir = Some(dir.into());
        self
    }

    fn dir(&self) -> PathBuf {
        self.temp_dir.clone().unwrap_or_else(std::env::temp_dir)
    }
}

impl Default for Sorting {
    fn default() -> Self {
        Self { memory_events: Self::MEMORY_EVENTS, fan_in: Self::FAN_IN, temp_dir: None }
    }
}

/// Takes events in file order.
#[derive(Debug)]
pub struct Sorter {
    sorting: Sorting,
    buffer: Vec<Event>,
    spill: Option<SpillWriter>,
    stats: Stats,
}

/// Statistics of the timestamps, collected from the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The number of events.
    pub events: u64,
    /// The events with an earlier timestamp than the event before them, in file order.
    pub out_of_order: u64,
    /// The earliest and the latest timestamp, in microseconds since the epoch.
    pub first_last_us: Option<(u64, u64)>,
    /// Whether there are events, and every timestamp is a whole second.
    pub whole_seconds: bool,
    previous_us: u64,
}

impl Stats {
    const EMPTY: Self = Self {
        events: 0,
        out_of_order: 0,
        first_last_us: None,
        whole_seconds: false,
        previous_us: 0,
    };

    fn count(&mut self, at_us: u64) {
        let whole = at_us.is_multiple_of(1_000_000);
        self.whole_seconds = whole && (self.whole_seconds || self.events == 0);
        self.events += 1;
        self.out_of_order += u64::from(at_us < self.previous_us);
        self.previous_us = at_us;
        let (first, last) = self.first_last_us.unwrap_or((at_us, at_us));
        self.first_last_us = Some((first.min(at_us), last.max(at_us)));
    }
}

impl Sorter {
    /// An empty sorter.
    #[must_use]
    pub const fn new(sorting: Sorting) -> Self {
        Self { sorting, buffer: Vec::new(), spill: None, stats: Stats::EMPTY }
    }

    /// Takes the next event of the file.
    ///
    /// # Errors
    /// [`Error::Temporary`] when a run cannot be written.
    pub fn push(&mut self, event: Event) -> Result<(), Error> {
        if self.buffer.len() >= self.sorting.memory_events.get() {
            let spill = match &mut self.spill {
                Some(spill) => spill,
                none => none.insert(SpillWriter::create(self.sorting.dir())?),
            };
            spill.write_run(&mut self.buffer)?;
        }
        self.stats.count(event.at_us);
        self.buffer.push(event);
        Ok(())
    }

    /// The statistics of the timestamps so far.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// The events in order.
    ///
    /// # Errors
    /// [`Error::Temporary`] when a run cannot be written or merged.
    pub fn finish(mut self) -> Result<Ordered, Error> {
        let Some(mut spill) = self.spill else {
            self.buffer.sort_by_key(|event| event.at_us);
            return Ok(Ordered { sorting: self.sorting, events: Events::Memory(self.buffer) });
        };
        spill.write_run(&mut self.buffer)?;
        drop(self.buffer);
        let mut spill = spill.finish()?;
        let fan_in = self.sorting.fan_in.get().max(2);
        while spill.runs() > fan_in {
            spill = spill.merge_groups(fan_in)?;
        }
        Ok(Ordered { sorting: self.sorting, events: Events::Disk(spill) })
    }
}

/// Events in the order of their timestamps, ties in file order. They can be read repeatedly.
/// Dropping this removes the files on disk (and the system does, when the process is killed).
#[derive(Debug)]
pub struct Ordered {
    sorting: Sorting,
    events: Events,
}

enum Events {
    Memory(Vec<Event>),
    Disk(Spill),
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(events) => write!(f, "Memory({} events)", events.len()),
            Self::Disk(spill) => write!(f, "Disk({} runs)", spill.runs()),
        }
    }
}

impl Ordered {
    /// The number of events.
    #[must_use]
    pub fn len(&self) -> u64 {
        match &self.events {
            Events::Memory(events) => events.len() as u64,
            Events::Disk(spill) => spill.len(),
        }
    }

    /// Whether it has no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The runs on disk that are merged while reading; 0 when all events are in memory.
    #[must_use]
    pub fn runs(&self) -> usize {
        match &self.events {
            Events::Memory(_) => 0,
            Events::Disk(spill) => spill.runs(),
        }
    }

    /// All events from the first to the last.
    ///
    /// # Errors
    /// [`Error::Temporary`] when a run cannot be read. The iterator ends after it has returned an
    /// error.
    pub fn iter(&self) -> Result<Iter<'_>, Error> {
        Ok(Iter(match &self.events {
            Events::Memory(events) => Source::Memory(events.iter()),
            Events::Disk(spill) => Source::Disk(spill.merge()?),
        }))
    }

    /// Moves every event to a position within its second that depends only on `seed` and on its
    /// rank, and sorts them again. Each second keeps its events. The same seed gives the same
    /// result.
    ///
    /// # Errors
    /// [`Error::Temporary`] when a run cannot be written or read.
    pub fn spread(self, seed: u64) -> Result<Self, Error> {
        let mut sorter = Sorter::new(self.sorting.clone());
        let mut rng = SplitMix64::new(seed);
        for event in self.iter()? {
            let event = event?;
            let second_us = event.at_us - event.at_us % 1_000_000;
            // The last second in range is not a whole one.
            let room_us = time::END_US.saturating_sub(second_us).min(1_000_000);
            sorter.push(event.at(second_us + rng.below(room_us)))?;
        }
        drop(self);
        sorter.finish()
    }
}

/// The events of [`Ordered::iter`].
#[derive(Debug)]
pub struct Iter<'a>(Source<'a>);

#[derive(Debug)]
enum Source<'a> {
    Memory(std::slice::Iter<'a, Event>),
    Disk(Merge<'a>),
}

impl Iterator for Iter<'_> {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Source::Memory(events) => events.next().copied().map(Ok),
            Source::Disk(merge) => merge.next_event().transpose(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::event::ClientId;

    fn sorted(events: &[Event], memory: usize, fan_in: usize) -> Ordered {
        let sorting = Sorting::default()
            .with_memory_events(NonZeroUsize::new(memory).unwrap())
            .with_fan_in(NonZeroUsize::new(fan_in).unwrap());
        let mut sorter = Sorter::new(sorting);
        events.iter().for_each(|event| sorter.push(*event).unwrap());
        sorter.finish().unwrap()
    }

    fn read(ordered: &Ordered) -> Vec<Event> {
        ordered.iter().unwrap().map(Result::unwrap).collect()
    }

    /// Each event has its own client, so that a tie in the wrong order is detected.
    fn events(stamps: &[u64]) -> Vec<Event> {
        stamps.iter().zip(0..).map(|(at, n)| Event::new(*at, ClientId::new(n))).collect()
    }

    #[test]
    fn counts_what_it_sees() {
        let mut sorter = Sorter::new(Sorting::default());
        assert!(!sorter.stats().whole_seconds);
        for at in [5_000_000, 3_000_000, 3_000_000, 4_000_000, 1_000_000] {
            sorter.push(Event::new(at, ClientId::new(0))).unwrap();
        }
        let stats = sorter.stats();
        assert_eq!((stats.events, stats.out_of_order, stats.whole_seconds), (5, 2, true));
        assert_eq!(stats.first_last_us, Some((1_000_000, 5_000_000)));
        sorter.push(Event::new(1, ClientId::new(0))).unwrap();
        sorter.push(Event::new(0, ClientId::new(0))).unwrap();
        assert!(!sorter.stats().whole_seconds);
    }

    #[test]
    fn memory_up_to_the_bound_and_disk_above_it() {
        let all = events(&[3, 1, 2, 1]);
        assert_eq!(sorted(&all, 4, 2).runs(), 0);
        let spilled = sorted(&all, 3, 2);
        assert_eq!((spilled.runs(), spilled.len()), (2, 4));
        assert!(sorted(&[], 1, 1).is_empty());
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let sorting = Sorting::default()
            .with_memory_events(NonZeroUsize::MIN)
            .with_temp_dir("no/such/folder");
        let mut sorter = Sorter::new(sorting);
        sorter.push(Event::new(1, ClientId::new(0))).unwrap();
        let error = sorter.push(Event::new(2, ClientId::new(0))).unwrap_err().to_string();
        assert!(error.contains("no/such/folder") && error.contains("TMPDIR"), "{error}");
    }

    #[test]
    fn temporary_files_leave_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let sorting = Sorting::default()
            .with_memory_events(NonZeroUsize::MIN)
            .with_fan_in(NonZeroUsize::MIN)
            .with_temp_dir(dir.path());
        let mut sorter = Sorter::new(sorting);
        for event in events(&[5, 4, 3, 2, 1]) {
            sorter.push(event).unwrap();
        }
        let ordered = sorter.finish().unwrap();
        assert_eq!(ordered.runs(), 2);
        assert_eq!(read(&ordered).len(), 5);
        drop(ordered);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn two_readers_at_once_do_not_disturb_each_other() {
        let all = events(&[9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
        let ordered = sorted(&all, 2, 8);
        let both = ordered.iter().unwrap().zip(ordered.iter().unwrap());
        let mut count = 0;
        for (a, b) in both {
            assert_eq!(a.unwrap(), b.unwrap());
            count += 1;
        }
        assert_eq!(count, 10);
    }

    #[test]
    fn another_seed_spreads_otherwise_and_the_same_seed_the_same() {
        let all = events(&[1_000_000; 50]);
        let spread = |seed| read(&sorted(&all, 100, 2).spread(seed).unwrap());
        assert_eq!(spread(1), spread(1));
        assert_ne!(spread(1), spread(2));
        // 50 events spread evenly over a second: the middle one is near the middle.
        let middle = spread(1)[25].at_us;
        assert!((1_300_000..1_700_000).contains(&middle), "{middle}");
    }

    #[test]
    fn a_spread_stays_below_the_last_time() {
        let last_second_us = time::END_US - time::END_US % 1_000_000;
        let spread = sorted(&events(&[last_second_us; 100]), 200, 2).spread(3).unwrap();
        assert!(read(&spread).iter().all(|event| event.at_us < time::END_US));
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_a_stable_sort(
            stamps in proptest::collection::vec(0..40_u64, 0..200),
            memory in 1..20_usize,
            fan_in in 1..6_usize,
        ) {
            let all = events(&stamps);
            let mut expected = all.clone();
            expected.sort_by_key(|event| event.at_us);
            let ordered = sorted(&all, memory, fan_in);
            prop_assert_eq!(ordered.runs() == 0, all.len() <= memory);
            prop_assert!(ordered.runs() <= fan_in.max(2));
            prop_assert_eq!(ordered.len(), all.len() as u64);
            prop_assert_eq!(&read(&ordered), &expected);
            prop_assert_eq!(&read(&ordered), &expected, "a second reading");
        }

        #[test]
        fn a_spread_keeps_every_second_and_every_client(
            seconds in proptest::collection::vec(0..10_u64, 0..200),
            memory in 1..300_usize,
            seed in any::<u64>(),
        ) {
            let stamps: Vec<u64> = seconds.iter().map(|s| s * 1_000_000).collect();
            let all = events(&stamps);
            let spread = read(&sorted(&all, memory, 3).spread(seed).unwrap());
            prop_assert!(spread.is_sorted_by_key(|event| event.at_us));
            let by_client: HashMap<u32, u64> =
                spread.iter().map(|e| (e.client.index(), e.at_us / 1_000_000)).collect();
            prop_assert_eq!(by_client.len(), all.len());
            for event in &all {
                prop_assert_eq!(by_client[&event.client.index()] * 1_000_000, event.at_us);
            }
            // The boundaries of runs must not change the result.
            let in_memory = read(&sorted(&all, 1_000, 3).spread(seed).unwrap());
            prop_assert_eq!(spread, in_memory);
        }
    }
}

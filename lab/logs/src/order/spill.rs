//! Sorted runs of events in one unnamed temporary file, and their merge.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::error::Error;
use crate::event::{ClientId, Event};

/// The bytes of an event in a run: the timestamp, the client, the cost and the line, little-endian.
const RECORD: usize = 20;

/// The events in the buffer of one run's reader: 40 KiB, so that a merge of 256 runs takes 10 MiB.
const READ_EVENTS: u64 = 2_048;

/// A sorted part of the temporary file, measured in events.
#[derive(Debug, Clone, Copy)]
struct Run {
    start: u64,
    len: u64,
}

/// Appends runs to a new temporary file without a name.
#[derive(Debug)]
pub(super) struct SpillWriter {
    file: BufWriter<File>,
    dir: PathBuf,
    runs: Vec<Run>,
    written: u64,
}

impl SpillWriter {
    pub(super) fn create(dir: PathBuf) -> Result<Self, Error> {
        match tempfile::tempfile_in(&dir) {
            Ok(file) => {
                let file = BufWriter::with_capacity(1 << 16, file);
                Ok(Self { file, dir, runs: Vec::new(), written: 0 })
            }
            Err(source) => Err(Error::Temporary { doing: "create", dir, source }),
        }
    }

    /// Sorts the buffer, appends it as the next run, and clears it.
    pub(super) fn write_run(&mut self, buffer: &mut Vec<Event>) -> Result<(), Error> {
        buffer.sort_by_key(|event| event.at_us);
        for event in buffer.drain(..) {
            self.write(event)?;
        }
        self.end_run();
        Ok(())
    }

    fn write(&mut self, event: Event) -> Result<(), Error> {
        let mut record = [0; RECORD];
        record[..8].copy_from_slice(&event.at_us.to_le_bytes());
        record[8..12].copy_from_slice(&event.client.index().to_le_bytes());
        record[12..16].copy_from_slice(&event.cost.to_le_bytes());
        record[16..].copy_from_slice(&event.line.to_le_bytes());
        self.written += 1;
        self.file.write_all(&record).map_err(|source| self.failed(source))
    }

    /// Ends a run, which contains everything written since the end of the last one.
    fn end_run(&mut self) {
        let start = self.runs.last().map_or(0, |run| run.start + run.len);
        self.runs.push(Run { start, len: self.written - start });
    }

    pub(super) fn finish(self) -> Result<Spill, Error> {
        let Self { file, dir, runs, .. } = self;
        match file.into_inner() {
            Ok(file) => Ok(Spill { file: Mutex::new(file), dir, runs }),
            Err(failed) => {
                Err(Error::Temporary { doing: "write", dir, source: failed.into_error() })
            }
        }
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Temporary { doing: "write", dir: self.dir.clone(), source }
    }
}

/// Sorted runs in one temporary file. The lock keeps a seek and its read together, since a file has
/// one position and several readers.
#[derive(Debug)]
pub(super) struct Spill {
    file: Mutex<File>,
    dir: PathBuf,
    runs: Vec<Run>,
}

impl Spill {
    /// The number of events.
    pub(super) fn len(&self) -> u64 {
        self.runs.iter().map(|run| run.len).sum()
    }

    /// The number of runs.
    pub(super) const fn runs(&self) -> usize {
        self.runs.len()
    }

    /// All events in order.
    pub(super) fn merge(&self) -> Result<Merge<'_>, Error> {
        Merge::new(self, &self.runs)
    }

    /// A new file in which each group of `fan_in` adjacent runs is merged into one.
    pub(super) fn merge_groups(self, fan_in: usize) -> Result<Self, Error> {
        let mut writer = SpillWriter::create(self.dir.clone())?;
        for group in self.runs.chunks(fan_in) {
            let mut merge = Merge::new(&self, group)?;
            while let Some(event) = merge.next_event()? {
                writer.write(event)?;
            }
            writer.end_run();
        }
        writer.finish()
    }

    fn read_at(&self, record: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(record * RECORD as u64))
            .and_then(|_| file.read_exact(bytes))
            .map_err(|source| Error::Temporary { doing: "read", dir: self.dir.clone(), source })
    }
}

/// Reads one run, a buffer at a time.
#[derive(Debug)]
struct RunReader {
    next_record: u64,
    end_record: u64,
    buffer: Vec<u8>,
    at: usize,
}

impl RunReader {
    const fn new(run: Run) -> Self {
        let end_record = run.start + run.len;
        Self { next_record: run.start, end_record, buffer: Vec::new(), at: 0 }
    }

    fn next_event(&mut self, spill: &Spill) -> Result<Option<Event>, Error> {
        if self.at == self.buffer.len() {
            let records = (self.end_record - self.next_record).min(READ_EVENTS);
            if records == 0 {
                return Ok(None);
            }
            // At most READ_EVENTS records, which fit.
            self.buffer.resize(usize::try_from(records).unwrap_or(0) * RECORD, 0);
            spill.read_at(self.next_record, &mut self.buffer)?;
            self.next_record += records;
            self.at = 0;
        }
        let record = &self.buffer[self.at..self.at + RECORD];
        let mut at_us = [0; 8];
        at_us.copy_from_slice(&record[..8]);
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&record[at..at + 4]);
            u32::from_le_bytes(word)
        };
        let event = Event::new(u64::from_le_bytes(at_us), ClientId::new(word(8)));
        let event = event.with_cost(word(12)).on_line(word(16));
        self.at += RECORD;
        Ok(Some(event))
    }
}

/// Repeatedly returns the earliest event of several runs. Among equal timestamps the earlier run
/// wins, and runs are in file order, which makes the merge stable.
#[derive(Debug)]
pub(super) struct Merge<'a> {
    spill: &'a Spill,
    readers: Vec<RunReader>,
    /// The first event of each run that is left, by its timestamp and its run.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    /// That event of each run.
    first: Vec<Event>,
    failed: bool,
}

impl<'a> Merge<'a> {
    fn new(spill: &'a Spill, runs: &[Run]) -> Result<Self, Error> {
        let mut readers: Vec<RunReader> = runs.iter().map(|run| RunReader::new(*run)).collect();
        let mut heap = BinaryHeap::with_capacity(readers.len());
        let mut first = Vec::with_capacity(readers.len());
        for (index, reader) in readers.iter_mut().enumerate() {
            // No run is empty; if one were, its event here would never be used.
            let event = reader.next_event(spill)?;
            if let Some(event) = event {
                heap.push(Reverse((event.at_us, index)));
            }
            first.push(event.unwrap_or(Event::new(0, ClientId::new(0))));
        }
        Ok(Self { spill, readers, heap, first, failed: false })
    }

    pub(super) fn next_event(&mut self) -> Result<Option<Event>, Error> {
        if self.failed {
            return Ok(None);
        }
        let Some(mut least) = self.heap.peek_mut() else { return Ok(None) };
        let Reverse((_, index)) = *least;
        let event = self.first[index];
        match self.readers[index].next_event(self.spill) {
            Ok(Some(next)) => {
                self.first[index] = next;
                *least = Reverse((next.at_us, index));
            }
            Ok(None) => {
                PeekMut::pop(least);
            }
            Err(error) => {
                self.failed = true;
                return Err(error);
            }
        }
        Ok(Some(event))
    }
}

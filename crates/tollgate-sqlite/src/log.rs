//! The events of a sliding log as rows: a check reads and writes O(log n) of them.

use core::cell::RefCell;
use core::fmt;
use std::collections::BTreeMap;

use tollgate::strategy::{Entry, Log};
use tollgate::{StoreError, Time};

use crate::codec::LogHeader;
use crate::context::Context;

/// After this many consecutive reads of the next event, many events are read together. No search
/// makes so many single steps, so such a caller will read all events.
const SEQUENTIAL_READS: u32 = 8;

/// How many events are read together then.
const CHUNK: u64 = 4096;

/// Dropped events are deleted in batches of at least this many, to save statements.
const DELETE_FROM: u64 = 16;

/// The most dropped events that one charge deletes: the rest is left to later charges.
pub(crate) const DELETE_AT_MOST: u64 = 1024;

/// A log of one subject within a transaction.
///
/// A fault (of SQLite, or of rows in wrong order) is recorded in the context. The log then returns
/// events that no arithmetic fails on, and the caller discards the step's result.
pub(crate) struct SqlLog<'c> {
    context: &'c Context<'c>,
    subject: &'c str,
    header: LogHeader,
    reads: RefCell<ReadCache>,
}

/// The events read in this transaction.
#[derive(Default)]
struct ReadCache {
    single: BTreeMap<u64, Entry>,
    chunk_first: u64,
    chunk: Vec<Entry>,
    last: u64,
    run: u32,
}

impl fmt::Debug for SqlLog<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlLog").field("head", &self.header).finish_non_exhaustive()
    }
}

/// Whether `a` may precede `b`. Totals wrap around: one follows another if it is ahead by less than
/// half of all numbers.
fn ordered(a: &Entry, b: &Entry) -> bool {
    a.at_us <= b.at_us && b.total.wrapping_sub(a.total) <= u64::MAX / 2
}

impl ReadCache {
    fn find(&mut self, seq: u64) -> Option<Entry> {
        self.run = if seq == self.last.wrapping_add(1) { self.run.saturating_add(1) } else { 0 };
        self.last = seq;
        let in_chunk = seq
            .checked_sub(self.chunk_first)
            .and_then(|i| self.chunk.get(usize::try_from(i).ok()?))
            .copied();
        in_chunk.or_else(|| self.single.get(&seq).copied())
    }

    /// Whether `entry` is consistent with the events already read around it.
    fn fits(&self, seq: u64, entry: Entry) -> bool {
        self.single.range(..seq).next_back().is_none_or(|(_, before)| ordered(before, &entry))
            && self.single.range(seq + 1..).next().is_none_or(|(_, after)| ordered(&entry, after))
    }

    fn forget(&mut self) {
        *self = Self::default();
    }
}

impl<'c> SqlLog<'c> {
    pub(crate) fn new(context: &'c Context<'c>, subject: &'c str, header: LogHeader) -> Self {
        Self { context, subject, header, reads: RefCell::default() }
    }

    /// The current position of its rows.
    pub(crate) fn header(&self) -> LogHeader {
        self.header
    }

    /// Each event's time and own cost, the oldest first.
    pub(crate) fn events(&self) -> Vec<(u64, u64)> {
        let mut before = self.header.base;
        let mut own = |entry: Entry| {
            let cost = entry.total.wrapping_sub(before);
            before = entry.total;
            (entry.at_us, cost)
        };
        (0..self.len()).map(|index| own(self.entry(index))).collect()
    }

    /// Deletes at most `count` of the rows of an expired log, the oldest first. Returns true when
    /// none is left.
    pub(crate) fn shrink(&mut self, count: u64) -> Result<bool, StoreError> {
        let end = self.header.end.min(self.header.dead.saturating_add(count));
        self.delete(self.header.dead, end)?;
        if end == self.header.end {
            self.header = LogHeader::default();
            return Ok(true);
        }
        self.header.dead = end;
        if end > self.header.first {
            self.header.first = end;
            // The deleted row contained the base total, so the remaining events seem to cost more.
            // This does not matter, since they have expired.
        }
        Ok(false)
    }

    fn read(&self, seq: u64) -> Result<Entry, StoreError> {
        let mut reads = self.reads.borrow_mut();
        if let Some(found) = reads.find(seq) {
            return Ok(found);
        }
        let many = reads.run >= SEQUENTIAL_READS;
        let end = if many { self.header.end.min(seq.saturating_add(CHUNK)) } else { seq + 1 };
        let sql = "SELECT at_us, total FROM entries
                   WHERE log = ?1 AND seq >= ?2 AND seq < ?3 ORDER BY seq";
        let params = [self.header.log, seq, end].map(u64::cast_signed);
        let found = self.context.rows(sql, params, |row| {
            let (at_us, total): (i64, i64) = (row.get(0)?, row.get(1)?);
            Ok(Entry { at_us: at_us.cast_unsigned(), total: total.cast_unsigned() })
        })?;
        let damaged = |what| Err(self.context.damaged(self.subject, what));
        if found.len() as u64 != end - seq {
            return damaged("events of a log are missing");
        }
        let LogHeader { base, top, .. } = self.header;
        let since_base = |total: u64| total.wrapping_sub(base);
        let sound =
            |e: &Entry| e.at_us <= Time::MAX.as_micros() && since_base(e.total) <= since_base(top);
        let in_order = found.is_sorted_by(ordered);
        let (Some(first), Some(last)) = (found.first().copied(), found.last().copied()) else {
            return damaged("events of a log are missing");
        };
        let placed = reads.fits(seq, first) && reads.fits(end - 1, last);
        if !(in_order && placed && found.iter().all(sound)) {
            return damaged("events of a log are out of order");
        }
        // The ends are stored separately, to compare later reads with them.
        reads.single.insert(seq, first);
        reads.single.insert(end - 1, last);
        if many {
            reads.chunk_first = seq;
            reads.chunk = found;
        }
        Ok(first)
    }

    fn write(&mut self, seq: u64, entry: Entry) -> Result<(), StoreError> {
        let params = [self.header.log, seq, entry.at_us, entry.total].map(u64::cast_signed);
        self.context.execute("INSERT OR REPLACE INTO entries VALUES (?1, ?2, ?3, ?4)", params)?;
        Ok(())
    }

    fn delete(&self, first: u64, end: u64) -> Result<(), StoreError> {
        let sql = "DELETE FROM entries WHERE log = ?1 AND seq >= ?2 AND seq < ?3";
        self.context.execute(sql, [self.header.log, first, end].map(u64::cast_signed))?;
        Ok(())
    }

    /// Deletes all rows.
    pub(crate) fn clear(&mut self) -> Result<(), StoreError> {
        if self.header.dead < self.header.end {
            self.delete(self.header.dead, self.header.end)?;
        }
        self.reads.get_mut().forget();
        self.header = LogHeader::default();
        Ok(())
    }

    fn try_push(&mut self, entry: Entry) -> Result<(), StoreError> {
        let Entry { at_us, mut total } = entry;
        if self.header.log == 0 {
            self.header = LogHeader {
                log: self.context.number()?,
                base: self.header.base,
                ..LogHeader::default()
            };
        }
        if self.header.first == self.header.end {
            // Totals restart from 0 whenever no event is left: small numbers take less space.
            total = total.wrapping_sub(self.header.base);
            self.header.base = 0;
        }
        let entry = Entry { at_us, total };
        self.write(self.header.end, entry)?;
        let reads = self.reads.get_mut();
        if self.header.base == 0 && self.header.first == self.header.end {
            reads.forget();
        }
        reads.single.insert(self.header.end, entry);
        self.header.end += 1;
        self.header.top = total;
        self.delete_dropped()
    }

    fn delete_dropped(&mut self) -> Result<(), StoreError> {
        let LogHeader { dead, first, .. } = self.header;
        if first - dead < DELETE_FROM {
            return Ok(());
        }
        let end = first.min(dead + DELETE_AT_MOST);
        self.delete(dead, end)?;
        self.header.dead = end;
        Ok(())
    }

    /// Makes the log contain `entries`, counted from 0. Rows that already match stay: a grant
    /// rewrites none, a refund those after its event.
    fn try_replace(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        let (Some(oldest), Some(newest)) = (entries.first(), entries.last()) else {
            return self.clear();
        };
        let found = self.index_at(oldest.at_us);
        self.context.checked()?;
        // The offset of all totals in the rows.
        let kept = found.map(|(index, held)| (index, held.total.wrapping_sub(oldest.total)));
        let (first, shift) = match kept {
            Some(kept) => kept,
            None => {
                self.clear()?;
                self.header.log = self.context.number()?;
                (0, 0)
            }
        };
        let held = entries.iter().enumerate().take_while(|(i, entry)| {
            first + i < self.len()
                && self.entry(first + i)
                    == Entry { at_us: entry.at_us, total: entry.total.wrapping_add(shift) }
        });
        let held = held.count();
        self.context.checked()?;
        self.header.first += first as u64;
        let from = self.header.first + held as u64;
        if from < self.header.end {
            self.delete(from, self.header.end)?;
        }
        self.reads.get_mut().forget();
        self.header.base = shift;
        for (seq, entry) in (from..).zip(entries.iter().skip(held)) {
            self.write(seq, Entry { total: entry.total.wrapping_add(shift), ..*entry })?;
        }
        self.header.end = self.header.first + entries.len() as u64;
        self.header.top = newest.total.wrapping_add(shift);
        self.delete_dropped()
    }

    /// The event at this time, and its index.
    fn index_at(&self, at_us: u64) -> Option<(usize, Entry)> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(middle).at_us < at_us {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let found = (low < self.len()).then(|| self.entry(low))?;
        (found.at_us == at_us).then_some((low, found))
    }

    /// Runs a step's change, unless something failed before.
    fn change(&mut self, work: impl FnOnce(&mut Self) -> Result<(), StoreError>) {
        if self.context.has_failed() {
            return;
        }
        if let Err(fault) = work(self) {
            self.context.remember(fault);
        }
    }
}

impl Log for SqlLog<'_> {
    fn len(&self) -> usize {
        // A file never contains 2^63 rows; on a 32-bit machine a longer log is a damaged one.
        usize::try_from(self.header.end - self.header.first).unwrap_or(usize::MAX)
    }

    fn entry(&self, index: usize) -> Entry {
        let failed = Entry { at_us: self.context.now().as_micros(), total: self.header.top };
        if self.context.has_failed() || index >= self.len() {
            return failed;
        }
        self.read(self.header.first + index as u64).unwrap_or_else(|fault| {
            self.context.remember(fault);
            failed
        })
    }

    fn base(&self) -> u64 {
        self.header.base
    }

    fn drop_front(&mut self, count: usize) {
        if let Some(last) = count.checked_sub(1) {
            let base = self.entry(last).total;
            self.change(|log| {
                log.header.base = base;
                log.header.first += count as u64;
                Ok(())
            });
        }
    }

    fn push(&mut self, entry: Entry) {
        self.change(|log| log.try_push(entry));
    }

    fn amend(&mut self, entry: Entry) {
        self.change(|log| {
            let Some(newest) = log.header.end.checked_sub(1) else { return Ok(()) };
            log.write(newest, entry)?;
            log.header.top = entry.total;
            let reads = log.reads.get_mut();
            reads.chunk.clear();
            reads.single.insert(newest, entry);
            Ok(())
        });
    }

    fn replace(&mut self, entries: &[Entry]) {
        self.change(|log| log.try_replace(entries));
    }
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::unwrap_used)] // a test that cannot go on has failed
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use rusqlite::Connection;
    use tollgate::LimitSet;
    use tollgate::engine::{Mode, Part, decide};

    use super::*;
    use crate::context::Cache;
    use crate::fault::FaultLocation;
    use crate::open::{MIGRATIONS, prepare};
    use crate::options::Options;
    use crate::state::StoredState;

    const EVENTS: u64 = 1_000_000;

    /// One event per microsecond, from 1 on, each with cost 1.
    fn file(dir: &Path) -> Connection {
        let options = Options::new(dir.join("log.db"));
        let conn = Connection::open(options.path()).expect("a file");
        let conn = prepare(conn, &options, MIGRATIONS).expect("ours").conn;
        let sql = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT ?1)
                   INSERT INTO entries SELECT 1, i, i + 1, i + 1 FROM n";
        conn.execute(sql, [EVENTS.cast_signed()]).expect("events");
        conn
    }

    fn read(log: &SqlLog<'_>) -> usize {
        let reads = log.reads.borrow();
        reads.single.len() + reads.chunk.len()
    }

    #[test]
    fn a_check_of_a_million_events_reads_a_few_of_them() {
        let dir = tempfile::tempdir().expect("a directory");
        let conn = file(dir.path());
        let location = FaultLocation { path: dir.path(), deadline: Duration::ZERO };
        let header = LogHeader { log: 1, end: EVENTS, top: EVENTS, ..LogHeader::default() };
        let check = |limits: &str, now_us, cost: u64| {
            let cache = std::cell::RefCell::new(Cache::with_sweep_debt(0));
            let context = Context::new(&conn, location, Time::from_micros(now_us), &cache);
            let limits: LimitSet = limits.parse().expect("limits");
            let log = SqlLog::new(&context, "ann", header);
            let mut own = StoredState { logs: vec![log], ..StoredState::default() };
            conn.execute_batch("BEGIN").expect("begun");
            let outcome = decide(
                &mut [Part::new(&limits, &mut own)],
                context.now(),
                cost.into(),
                Mode::Whole,
                None,
            )
            .unwrap();
            context.checked().expect("no fault");
            conn.execute_batch("ROLLBACK").expect("undone");
            (outcome, read(&own.logs[0]))
        };
        // All events count; the wait for a weighted cost ends in the middle.
        let (outcome, rows) = check("1000000/1s via sliding_log", EVENTS, 400_000);
        assert_eq!(outcome.granted, 0);
        assert_eq!(outcome.fields[0].retry_after_us, Some(400_000));
        assert!(rows < 100, "{rows} rows were read");
        // Half of the events have left the window.
        let (outcome, rows) = check("1000000/1s via sliding_log", EVENTS + 500_000, 7);
        assert_eq!(outcome.fields[0].remaining, 500_000 - 7);
        assert!(rows < 100, "{rows} rows were read");
        // All events have left the window.
        let (outcome, rows) = check("1000000/1s via sliding_log", 3 * EVENTS, 7);
        assert_eq!(outcome.fields[0].remaining, EVENTS - 7);
        assert!(rows < 100, "{rows} rows were read");
    }

    /// Totals that wrap around, in a file.
    #[test]
    fn totals_wrap_around() {
        let dir = tempfile::tempdir().expect("a directory");
        let conn = file(dir.path());
        let location = FaultLocation { path: dir.path(), deadline: Duration::ZERO };
        let cache = std::cell::RefCell::new(Cache::with_sweep_debt(0));
        let limits: LimitSet = "1000000/1s via sliding_log".parse().expect("limits");
        let base = u64::MAX - EVENTS / 2;
        conn.execute("UPDATE entries SET total = total + ?1", [base.cast_signed()])
            .expect("moved up");
        let top = base.wrapping_add(EVENTS);
        let header = LogHeader { log: 1, end: EVENTS, base, top, ..LogHeader::default() };
        assert!(header.top < header.base);
        let context = Context::new(&conn, location, Time::from_micros(EVENTS + 700_000), &cache);
        let log = SqlLog::new(&context, "ann", header);
        let mut own = StoredState { logs: vec![log], ..StoredState::default() };
        let mut check = |cost: u64| {
            decide(
                &mut [Part::new(&limits, &mut own)],
                context.now(),
                cost.into(),
                Mode::Whole,
                None,
            )
            .unwrap()
        };
        // 700,000 events have left the window; the totals of the rest wrap around.
        let outcome = check(700_001);
        assert_eq!((outcome.granted, outcome.fields[0].retry_after_us), (0, Some(1)));
        let outcome = check(7);
        assert_eq!((outcome.granted, outcome.fields[0].remaining), (7, 699_993));
        context.checked().expect("no fault");
        let log = &mut own.logs[0];
        assert_eq!((log.header().base, log.header().top), (base.wrapping_add(700_000), top + 7));
        let events = log.events();
        assert_eq!((events.len(), events[0], events[300_000].1), (300_001, (700_001, 1), 7));
        assert!(events[..300_000].iter().all(|(_, cost)| *cost == 1));
        // A grant moves the base past the wrap.
        log.replace(&[Entry { at_us: EVENTS, total: 1 }, Entry { at_us: EVENTS + 9, total: 3 }]);
        context.checked().expect("no fault");
        assert_eq!(log.events(), [(EVENTS, 1), (EVENTS + 9, 2)]);
        assert_eq!(log.header().base, top - 1);
    }

    #[test]
    fn replacing_writes_only_what_differs() {
        let dir = tempfile::tempdir().expect("a directory");
        let conn = file(dir.path());
        let location = FaultLocation { path: dir.path(), deadline: Duration::ZERO };
        let cache = std::cell::RefCell::new(Cache::with_sweep_debt(0));
        let context = Context::new(&conn, location, Time::from_micros(EVENTS), &cache);
        let first = EVENTS - 10_000;
        let base = first;
        let header = LogHeader { log: 1, dead: first, first, end: EVENTS, base, top: EVENTS };
        let mut log = SqlLog::new(&context, "ann", header);
        // The change by a refund of event number 9,991.
        let mut entries: Vec<Entry> = (0..log.len())
            .map(|i| log.entry(i))
            .map(|e| Entry { total: e.total - base, ..e })
            .collect();
        entries.remove(9_990);
        for entry in &mut entries[9_990..] {
            entry.total -= 1;
        }
        let before = conn.total_changes();
        log.replace(&entries);
        context.checked().expect("no fault");
        // Ten rows deleted, nine written.
        assert_eq!(conn.total_changes() - before, 19);
        let own = |log: &SqlLog<'_>| (log.len(), log.base(), log.entry(log.len() - 1));
        assert_eq!(own(&log), (9_999, base, Entry { at_us: EVENTS, total: EVENTS - 1 }));
        // The change by a grant of 3 units: no row is touched.
        let granted: Vec<Entry> =
            entries[3..].iter().map(|e| Entry { total: e.total - 3, ..*e }).collect();
        let before = conn.total_changes();
        log.replace(&granted);
        context.checked().expect("no fault");
        assert_eq!(conn.total_changes() - before, 0);
        assert_eq!(own(&log), (9_996, base + 3, Entry { at_us: EVENTS, total: EVENTS - 1 }));
        let events = log.events();
        assert_eq!(events.first(), Some(&(first + 4, 1)));
        assert!(events.iter().all(|(_, cost)| *cost == 1));
        log.replace(&[Entry { at_us: 5, total: 2 }]);
        context.checked().expect("no fault");
        assert_eq!(log.events(), [(5, 2)]);
    }
}

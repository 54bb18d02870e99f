//! The context of a transaction: its connection and time, the numbers it assigns, and its first
//! fault.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::ops::Range;
use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Params, Row};
use tollgate::{LimitSet, StoreError, Time};

use crate::fault::{FaultLocation, damaged, explain};

/// How many numbers a process reserves in the file at a time. A process that ends wastes the rest;
/// 2^43 processes fit below 2^53, up to which a double is exact.
const NUMBERS: u64 = 1 << 10;

/// The most sets in a process's cache before it is cleared.
const MAX_CACHED: usize = 1 << 12;

/// A connection's cache of its file. Cleared whenever a transaction fails.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// The numbers reserved for this process.
    numbers: Range<u64>,
    /// The ids of a set, by its identity and its full form. The full form alone does not identify
    /// the count, since it is the same within a policy and without.
    ids: HashMap<String, HashMap<String, Ids>>,
    /// The number of full forms in `ids`.
    sets_known: usize,
    /// The sets under which states were written, by id.
    sets: HashMap<i64, LimitSet>,
    /// The tables of extensions that the file is known to have, which stay.
    tables: Vec<&'static str>,
    /// The rows that are due to be checked for expiry: writes add to it, sweeping reduces it.
    sweep_debt: u32,
}

impl Cache {
    /// An empty cache, with this much sweep debt.
    pub(crate) fn with_sweep_debt(shares: u32) -> Self {
        Self { sweep_debt: shares, ..Self::default() }
    }

    fn known(&self, limits: &LimitSet) -> Option<Ids> {
        self.ids.get(limits.identity())?.get(limits.full_text()).copied()
    }
}

/// The ids of a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ids {
    /// The id of its identity: the other half of a count's key.
    pub(crate) counted: i64,
    /// The id of its full form.
    pub(crate) written: i64,
}

/// The state that all parts of an operation share.
pub(crate) struct Context<'c> {
    conn: &'c Connection,
    location: FaultLocation<'c>,
    now: Time,
    cache: &'c RefCell<Cache>,
    fault: RefCell<Option<StoreError>>,
    wrote: Cell<bool>,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("place", &self.location).finish_non_exhaustive()
    }
}

impl<'c> Context<'c> {
    pub(crate) fn new(
        conn: &'c Connection,
        location: FaultLocation<'c>,
        now: Time,
        cache: &'c RefCell<Cache>,
    ) -> Self {
        Self { conn, location, now, cache, fault: RefCell::new(None), wrote: Cell::new(false) }
    }

    /// Whether the file has this table of an extension: once it has, it is not looked for again.
    pub(crate) fn has_table(&self, name: &'static str) -> Result<bool, StoreError> {
        if self.cache.borrow().tables.contains(&name) {
            return Ok(true);
        }
        let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1";
        let found = self.first(sql, [name], |_| Ok(()))?.is_some();
        if found {
            self.cache.borrow_mut().tables.push(name);
        }
        Ok(found)
    }

    /// The time of this transaction.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Runs a statement without result rows. Returns the number of changed rows.
    pub(crate) fn execute(&self, sql: &str, params: impl Params) -> Result<usize, StoreError> {
        let run = || self.conn.prepare_cached(sql)?.execute(params);
        run().map_err(|error| explain(error, self.location))
    }

    /// The database file.
    pub(crate) fn path(&self) -> &Path {
        self.location.path
    }

    /// Runs several statements without result rows.
    pub(crate) fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.conn.execute_batch(sql).map_err(|error| explain(error, self.location))
    }

    /// The first row of a query, if there is one.
    pub(crate) fn first<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        let run = || self.conn.prepare_cached(sql)?.query_row(params, read).optional();
        run().map_err(|error| explain(error, self.location))
    }

    /// All rows of a query.
    pub(crate) fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let run = || {
            self.conn.prepare_cached(sql)?.query_map(params, read)?.collect::<rusqlite::Result<_>>()
        };
        run().map_err(|error| explain(error, self.location))
    }

    /// Records the first fault of a step, which cannot return errors; the step's result is
    /// discarded.
    pub(crate) fn remember(&self, fault: StoreError) {
        self.fault.borrow_mut().get_or_insert(fault);
    }

    /// Whether a step met a fault.
    pub(crate) fn has_failed(&self) -> bool {
        self.fault.borrow().is_some()
    }

    /// The first fault of a step.
    pub(crate) fn checked(&self) -> Result<(), StoreError> {
        self.fault.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// The error for a state that no engine has written.
    pub(crate) fn damaged(&self, subject: &str, what: &str) -> StoreError {
        damaged(self.location.path, subject, what)
    }

    /// A number that is unique in this file: for receipts and logs.
    pub(crate) fn number(&self) -> Result<u64, StoreError> {
        self.numbers_above(0, 1)
    }

    /// The first of `count` numbers that follow each other and are larger than `least`, which the
    /// file has assigned.
    pub(crate) fn numbers_above(&self, least: u64, count: u64) -> Result<u64, StoreError> {
        let Range { start, end } = self.cache.borrow().numbers;
        // Where this process reserved its numbers before `least` was assigned, all are too low.
        if start <= least || end.saturating_sub(start) < count {
            return self.newest_numbers(count);
        }
        self.cache.borrow_mut().numbers.start += count;
        Ok(start)
    }

    /// A number larger than any that this file has assigned, to any process.
    pub(crate) fn newest_number(&self) -> Result<u64, StoreError> {
        self.newest_numbers(1)
    }

    /// The first of `count` numbers that are larger than any that this file has assigned.
    fn newest_numbers(&self, count: u64) -> Result<u64, StoreError> {
        let reserved = NUMBERS.max(count);
        let sql = "UPDATE store SET next_number = next_number + ?1 RETURNING next_number";
        let end: Option<i64> = self.first(sql, [reserved.cast_signed()], |row| row.get(0))?;
        let end = end.map_or(0, i64::cast_unsigned);
        if end <= reserved || end > i64::MAX.cast_unsigned() {
            return Err(self.damaged("every subject", "it has no count of its receipts"));
        }
        let first = end - reserved;
        self.cache.borrow_mut().numbers = first + count..end;
        Ok(first)
    }

    /// The ids of a set, if the file knows its identity. The id of an unknown full form is 0.
    pub(crate) fn ids(&self, limits: &LimitSet) -> Result<Option<Ids>, StoreError> {
        if let Some(ids) = self.cache.borrow().known(limits) {
            return Ok(Some(ids));
        }
        let Some(counted) = self.text_id(limits.identity())? else { return Ok(None) };
        let Some(written) = self.text_id(limits.full_text())? else {
            return Ok(Some(Ids { counted, written: 0 }));
        };
        Ok(Some(self.cache_ids(limits, Ids { counted, written })))
    }

    /// The ids of a set, added to the file if it does not know them yet.
    pub(crate) fn make_ids(&self, limits: &LimitSet) -> Result<Ids, StoreError> {
        if let Some(ids) = self.cache.borrow().known(limits) {
            return Ok(ids);
        }
        let counted = self.make_text_id(limits.identity())?;
        let written = self.make_text_id(limits.full_text())?;
        Ok(self.cache_ids(limits, Ids { counted, written }))
    }

    fn cache_ids(&self, limits: &LimitSet, ids: Ids) -> Ids {
        let mut cache = self.cache.borrow_mut();
        if cache.sets_known >= MAX_CACHED {
            cache.ids.clear();
            cache.sets_known = 0;
        }
        let same = cache.ids.entry(limits.identity().to_owned()).or_default();
        if same.insert(limits.full_text().to_owned(), ids).is_none() {
            cache.sets_known += 1;
        }
        ids
    }

    fn text_id(&self, text: &str) -> Result<Option<i64>, StoreError> {
        self.first("SELECT id FROM texts WHERE text = ?1", [text], |row| row.get(0))
    }

    fn make_text_id(&self, text: &str) -> Result<i64, StoreError> {
        if let Some(id) = self.text_id(text)? {
            return Ok(id);
        }
        self.execute("INSERT INTO texts (text) VALUES (?1)", [text])?;
        Ok(self.conn.last_insert_rowid())
    }

    /// The set under which a state was written.
    pub(crate) fn set(&self, id: i64, subject: &str) -> Result<LimitSet, StoreError> {
        if let Some(set) = self.cache.borrow().sets.get(&id) {
            return Ok(set.clone());
        }
        let text: Option<String> =
            self.first("SELECT text FROM texts WHERE id = ?1", [id], |row| row.get(0))?;
        let text = text
            .ok_or_else(|| self.damaged(subject, "the limits it was written under are missing"))?;
        let set: LimitSet = text.parse().map_err(|error| {
            self.damaged(subject, "the limits it was written under cannot be read").because(error)
        })?;
        let mut cache = self.cache.borrow_mut();
        if cache.sets.len() >= MAX_CACHED {
            cache.sets.clear();
        }
        cache.sets.insert(id, set.clone());
        Ok(set)
    }

    /// Records that this transaction writes, which makes some rows due for checking.
    pub(crate) fn add_sweep_debt(&self, shares: u32) {
        self.wrote.set(true);
        let mut cache = self.cache.borrow_mut();
        cache.sweep_debt = cache.sweep_debt.saturating_add(shares);
    }

    /// Returns true, and settles the debt, if this transaction writes and at least `shares` are
    /// due.
    pub(crate) fn take_sweep_debt(&self, shares: u32) -> bool {
        let mut cache = self.cache.borrow_mut();
        let due = self.wrote.get() && cache.sweep_debt >= shares;
        if due {
            cache.sweep_debt = 0;
        }
        due
    }
}

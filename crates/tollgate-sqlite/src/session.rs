//! A connection and its transactions: every operation of a store, in the calling thread.

use core::cell::{Cell, RefCell};
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;
use smallvec::SmallVec;
use tollgate::engine::{self, Outcome};
use tollgate::{
    Adjustment, Amounts, Charged, Clock, Counted, Hold, HoldTerms, Inspection, Notice, Notices,
    Patience, Question, Receipt, Refund, Settled, StoreError, Time,
};

use crate::context::{Cache, Context};
use crate::extension::{self, Transaction};
use crate::fault::{FaultLocation, damaged, explain, impossible};
use crate::open::Opened;
use crate::options::Options;
use crate::state::{self, LoadedState};
use crate::{line, notices, open, operations, requests, sweep, wait};

/// One connection to the file.
#[derive(Debug)]
pub(crate) struct Session {
    conn: Connection,
    cache: RefCell<Cache>,
    options: Options,
    clock: Arc<dyn Clock>,
    identity: u64,
    /// How long the running operation may wait for the lock.
    waits: Cell<Duration>,
    /// Whether the file had an older format when it was last looked at.
    is_behind: Cell<bool>,
    /// Whether the file has the table of request ids.
    keeps_requests: Cell<bool>,
    /// Whether the file has the table of those who wait in line.
    keeps_lines: Cell<bool>,
    /// The number of request ids that were forgotten before their time.
    forgotten_requests: Arc<AtomicU64>,
}

/// Whether a transaction may write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Access {
    /// It only reads: other transactions may write meanwhile, and it never waits.
    Read,
    /// It may write: one at a time.
    Write,
}

impl Access {
    fn begin(self) -> &'static str {
        match self {
            // A writing transaction takes the lock immediately. One that read first and was
            // overtaken by a writer would have to start again.
            Self::Write => "BEGIN IMMEDIATE",
            Self::Read => "BEGIN",
        }
    }
}

const IDENTITY: &str = "SELECT identity FROM store";

fn counts_of(hold: &Hold) -> Vec<Counted<'_>> {
    hold.counts.iter().map(|(subject, limits)| Counted::new(subject, limits)).collect()
}

fn new_cache() -> RefCell<Cache> {
    RefCell::new(Cache::with_sweep_debt(sweep::SWEEP_THRESHOLD))
}

impl Session {
    pub(crate) fn open(options: Options) -> Result<Self, StoreError> {
        let Opened { conn, is_behind } = open::open(&options)?;
        let clock = Arc::clone(&options.clock);
        let waits = Cell::new(options.effective_deadline());
        let (cache, is_behind) = (new_cache(), Cell::new(is_behind));
        let (identity, forgotten_requests) = (0, Arc::default());
        let (keeps_requests, keeps_lines) = (Cell::new(false), Cell::new(false));
        let mut session = Self {
            conn,
            cache,
            options,
            clock,
            identity,
            waits,
            is_behind,
            keeps_requests,
            keeps_lines,
            forgotten_requests,
        };
        let identity: Option<i64> =
            session.run(Access::Read, &[], |cx| cx.first(IDENTITY, [], |row| row.get(0)))?;
        session.identity = identity.map(i64::cast_unsigned).ok_or_else(|| {
            StoreError::permanent(format!(
                "{} has lost its own description: move it away (counts then start fresh)",
                session.options.path.display()
            ))
        })?;
        Ok(session)
    }

    /// The random number that identifies this file in receipts.
    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    fn location(&self) -> FaultLocation<'_> {
        FaultLocation { path: &self.options.path, deadline: self.waits.get() }
    }

    fn step(&self, sql: &str) -> Result<(), StoreError> {
        let run = || self.conn.prepare_cached(sql)?.execute([]);
        run().map(drop).map_err(|error| explain(error, self.location()))
    }

    /// Runs `work` on the states of `parts` in one transaction, at one time. Either all of its
    /// changes are kept, or none.
    fn run<T, E: From<StoreError>>(
        &self,
        access: Access,
        parts: &[Counted<'_>],
        work: impl FnOnce(&Context<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run_within(self.options.effective_deadline(), access, parts, work)
    }

    fn run_within<T, E: From<StoreError>>(
        &self,
        deadline: Duration,
        access: Access,
        parts: &[Counted<'_>],
        work: impl FnOnce(&Context<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        wait::set_deadline(deadline);
        self.waits.set(deadline);
        if access == Access::Write && self.is_behind.get() {
            open::bring_up_to_date(&self.conn, &self.options, open::MIGRATIONS)?;
            self.is_behind.set(false);
        }
        self.step(access.begin())?;
        let all = || -> Result<T, E> {
            if access == Access::Read {
                // The first statement fixes the snapshot of a reading transaction, so read the
                // clock after it.
                let run = || self.conn.prepare_cached(IDENTITY)?.query_row([], |_| Ok(()));
                run().map_err(|error| explain(error, self.location()))?;
                if self.is_behind.get() {
                    let is_behind = open::see_as_current(&self.conn);
                    let is_behind = is_behind.map_err(|error| explain(error, self.location()))?;
                    self.is_behind.set(is_behind);
                }
            }
            let now: Time = self.clock.now();
            let context = Context::new(&self.conn, self.location(), now, &self.cache);
            let answer = work(&context)?;
            context.checked()?;
            if access == Access::Write {
                sweep::sweep_if_due(&context)?;
            }
            Ok(answer)
        };
        // Steps trust their state. A state written by the engine cannot make them panic, but one in
        // a manipulated file could.
        let answer = catch_unwind(AssertUnwindSafe(all)).unwrap_or_else(|_| {
            let subjects: Vec<&str> = parts.iter().map(|part| part.subject.as_str()).collect();
            let what = "its numbers are impossible";
            if subjects.is_empty() {
                return Err(impossible(&self.options.path).into());
            }
            Err(damaged(&self.options.path, &subjects.join("` or `"), what).into())
        });
        let answer = answer.and_then(|answer| {
            self.step("COMMIT")?;
            Ok(answer)
        });
        if answer.is_err() {
            // A rollback may undo what the cache learned. Some errors have rolled back already;
            // then nothing is left to do.
            self.cache.replace(new_cache().into_inner());
            if !self.conn.is_autocommit() {
                self.step("ROLLBACK")?;
            }
        }
        answer
    }

    pub(crate) fn check(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        let access = if question.mode.is_peek() { Access::Read } else { Access::Write };
        let deadline = question.deadline.unwrap_or(self.options.effective_deadline());
        let in_line = |terms: &HoldTerms| terms.patience == Patience::InLine;
        if question.hold.is_some_and(in_line) && !self.keeps_lines.get() {
            self.migrate_extension(line::EXTENSION, line::MIGRATIONS)?;
            self.keeps_lines.set(true);
        }
        let Some(request) = question.request else {
            return self.run_within(deadline, access, question.parts, |cx| {
                operations::check(cx, question)
            });
        };
        if !self.keeps_requests.get() {
            self.migrate_extension(requests::EXTENSION, requests::MIGRATIONS)?;
            self.keeps_requests.set(true);
        }
        let (outcome, forgotten) = self.run_within(deadline, access, question.parts, |cx| {
            operations::check_once(cx, question, request)
        })?;
        self.forgotten_requests.fetch_add(forgotten, Ordering::Relaxed);
        Ok(outcome)
    }

    /// The number of request ids that were forgotten before their time.
    pub(crate) fn forgotten_requests(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.forgotten_requests)
    }

    pub(crate) fn refund(
        &self,
        receipt: &Receipt,
        units: Amounts<'_>,
    ) -> Result<Refund, StoreError> {
        let parts = receipt.charges.iter();
        let parts: SmallVec<[Counted<'_>; 1]> =
            parts.map(|c| Counted::new(&c.subject, &c.limits)).collect();
        self.run(Access::Write, &parts, |cx| operations::refund(cx, receipt, units))
    }

    pub(crate) fn adjust(
        &self,
        counted: Counted<'_>,
        by: &Adjustment,
    ) -> Result<Vec<i64>, StoreError> {
        self.run(Access::Write, &[counted], |cx| {
            let mut found = LoadedState::load(cx, counted)?;
            let changes =
                operations::with_part(&mut found, |part| engine::adjust(part, by, cx.now()));
            if by.gives() {
                found.save_granted()?;
            } else {
                found.save()?;
            }
            Ok(changes.into_vec())
        })
    }

    pub(crate) fn charge(
        &self,
        counted: Counted<'_>,
        cost: Amounts<'_>,
    ) -> Result<Vec<Charged>, StoreError> {
        self.run(Access::Write, &[counted], |cx| operations::charge(cx, counted, cost))
    }

    pub(crate) fn settle(
        &self,
        hold: &Hold,
        actual: Amounts<'_>,
    ) -> Result<Option<Settled>, StoreError> {
        self.run(Access::Write, &counts_of(hold), |cx| {
            let early = engine::early_name(hold, actual);
            operations::with_hold(cx, hold, early.is_some(), |parts, asked| {
                let settled = engine::settle(parts, asked, cx.now(), hold, actual)?;
                let first = parts.first_mut().zip(asked.first());
                let Some((name, (part, limits))) = early.filter(|_| settled.is_none()).zip(first)
                else {
                    return Ok(settled);
                };
                let is_new = engine::mark_early(part, limits, cx.now(), name);
                Ok(is_new.then(Settled::early))
            })
        })?
    }

    pub(crate) fn renew(&self, hold: &Hold, ttl_us: u64) -> Result<Option<Time>, StoreError> {
        self.run(Access::Write, &counts_of(hold), |cx| {
            operations::with_hold(cx, hold, false, |parts, _| {
                engine::renew(parts, cx.now(), hold.id, ttl_us)
            })
        })
    }

    pub(crate) fn reset(&self, counted: Counted<'_>) -> Result<bool, StoreError> {
        self.run(Access::Write, &[counted], |cx| state::reset(cx, counted))
    }

    pub(crate) fn inspect(&self, counted: Counted<'_>) -> Result<Option<Inspection>, StoreError> {
        self.run(Access::Read, &[counted], |cx| operations::inspect(cx, counted))
    }

    pub(crate) fn notices(&self, seen: Option<u64>) -> Result<Option<Notices>, StoreError> {
        self.run(Access::Read, &[], |cx| notices::read(cx, seen))
    }

    pub(crate) fn post(&self, notice: &Notice) -> Result<(), StoreError> {
        self.run(Access::Write, &[], |cx| notices::post(cx, notice))
    }

    pub(crate) fn withdraw(&self, name: &str) -> Result<bool, StoreError> {
        self.run(Access::Write, &[], |cx| notices::withdraw(cx, name))
    }

    /// Runs an extension's work in one transaction.
    pub(crate) fn transaction<T, E: From<StoreError>>(
        &self,
        deadline: Duration,
        access: Access,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run_within(deadline, access, &[], |cx| work(&Transaction::new(cx)))
    }

    /// Migrates the tables of an extension to their current format.
    pub(crate) fn migrate_extension(
        &self,
        extension: &str,
        migrations: &[&str],
    ) -> Result<(), StoreError> {
        // A check without a needed migration takes no lock.
        if self.run(Access::Read, &[], |cx| extension::is_migrated(cx, extension, migrations))? {
            return Ok(());
        }
        self.run(Access::Write, &[], |cx| extension::migrate_extension(cx, extension, migrations))
    }

    /// Deletes everything that has expired, and returns the number of subjects deleted. It releases
    /// the lock between batches of rows.
    pub(crate) fn sweep(&self) -> Result<usize, StoreError> {
        self.run(Access::Write, &[], sweep::rewind)?;
        let mut removed = 0;
        let (mut states_end, mut spent_end) = (false, false);
        let (mut resets_end, mut requests_end) = (false, false);
        while !(states_end && spent_end && resets_end && requests_end) {
            let turn = self.run(Access::Write, &[], sweep::sweep_batch)?;
            removed += turn.removed;
            states_end |= turn.states_end;
            spent_end |= turn.spent_end;
            resets_end |= turn.resets_end;
            requests_end |= turn.requests_end;
        }
        Ok(removed)
    }
}

//! A subject's state within a transaction: loaded, changed, and saved.

use tollgate::engine::{Carries, States, VecStates, migrate};
use tollgate::strategy::{Cell, Entry, Log};
use tollgate::{Counted, LimitSet, Place, SKEW_US, StoreError, Subject, engine};

use crate::codec::{DecodedState, Words, decode, encode};
use crate::context::{Context, Ids};
use crate::holds::{self, SqlHolds};
use crate::log::SqlLog;
use crate::requests;

/// The sweep debt of an update, and below that of a new row, in units of which
/// [`DEBT_PER_ROW`](crate::sweep::DEBT_PER_ROW) pay for one row. Every row that expires was new
/// once.
const DEBT_PER_UPDATE: u32 = 1;
const DEBT_PER_INSERT: u32 = 16;

/// The words and logs of a row.
#[derive(Debug, Default)]
pub(crate) struct StoredState<'c> {
    pub(crate) words: Words,
    pub(crate) logs: Vec<SqlLog<'c>>,
}

impl<'c> StoredState<'c> {
    fn fresh(context: &'c Context<'c>, subject: &'c Subject, limits: &LimitSet) -> Self {
        let logs =
            (0..limits.logs()).map(|_| SqlLog::new(context, subject.as_str(), Default::default()));
        Self { words: Words::from_elem(0, limits.words()), logs: logs.collect() }
    }

    fn is_fresh(&self) -> bool {
        self.words.iter().all(|word| *word == 0) && self.logs.iter().all(Log::is_empty)
    }
}

impl States for StoredState<'_> {
    fn cell(&mut self, place: Place) -> Cell<'_> {
        match place {
            Place::Log(index) => Cell::Log(&mut self.logs[index]),
            words => Cell::Words(&mut self.words[words.words()]),
        }
    }
}

/// A state that was written with other numbers.
#[derive(Debug)]
struct MigratedState {
    /// The state under the current numbers. It is in memory, since a peek does not save it.
    held: VecStates,
    /// The set under which the row was written.
    was: LimitSet,
    carried: Carries,
}

/// A subject's state, found or fresh. Change it through [`States`], then [`LoadedState::save`] it.
#[derive(Debug)]
pub(crate) struct LoadedState<'c> {
    context: &'c Context<'c>,
    subject: &'c Subject,
    /// The limits under which the state counts.
    limits: LimitSet,
    /// The key of the row and the set under which to write it (0 if the file does not know the
    /// set); `None` when there is no row.
    row: Option<Ids>,
    own: StoredState<'c>,
    migrated: Option<MigratedState>,
    reset: u64,
    /// `None` where no hold is open, remembered or asked for. [`LoadedState::take_holds`] lends it.
    holds: Option<SqlHolds<'c>>,
}

impl States for LoadedState<'_> {
    fn cell(&mut self, place: Place) -> Cell<'_> {
        match &mut self.migrated {
            Some(migrated) => migrated.held.cell(place),
            None => self.own.cell(place),
        }
    }
}

/// A row as found, with the set under which it was written.
pub(crate) struct Row<'c> {
    /// Its key, and the set under which it was written.
    ids: Ids,
    /// The set of the question, 0 if the file does not know it.
    present: i64,
    /// `None` when it was written under the set of the question.
    pub(crate) was: Option<LimitSet>,
    pub(crate) own: StoredState<'c>,
    /// The holds of the count.
    pub(crate) holds: Option<SqlHolds<'c>>,
}

/// The file's contents about a count.
pub(crate) struct StateLookup<'c> {
    pub(crate) row: Option<Row<'c>>,
    /// The number of the last remembered reset, or 0.
    pub(crate) reset: u64,
}

impl StateLookup<'_> {
    const NOTHING: Self = Self { row: None, reset: 0 };
}

/// The row of a count, if there is one, and its last reset.
pub(crate) fn look_up<'c>(
    context: &'c Context<'c>,
    counted: Counted<'c>,
) -> Result<StateLookup<'c>, StoreError> {
    let Some(Ids { counted: key, written: present }) = context.ids(counted.limits)? else {
        return Ok(StateLookup::NOTHING);
    };
    let subject = counted.subject.as_str();
    let found = context.first(
        "SELECT s.written, s.state, r.number FROM (SELECT 1)
         LEFT JOIN states AS s ON s.subject = ?1 AND s.counted = ?2
         LEFT JOIN resets AS r ON r.subject = ?1 AND r.counted = ?2",
        (subject, key),
        |row| {
            let decoded = row.get_ref(1)?.as_blob().map(decode);
            let written: Option<i64> = row.get(0)?;
            let reset: Option<i64> = row.get(2)?;
            Ok((written, decoded.unwrap_or(Err("it is not a blob")), reset))
        },
    )?;
    let Some((written, decoded, reset)) = found else { return Ok(StateLookup::NOTHING) };
    let reset = reset.map_or(0, i64::cast_unsigned);
    let Some(written) = written else { return Ok(StateLookup { row: None, reset }) };
    let decoded: DecodedState = decoded.map_err(|what| context.damaged(subject, what))?;
    let was = if present == written { None } else { Some(context.set(written, subject)?) };
    let limits = was.as_ref().unwrap_or(counted.limits);
    if decoded.words.len() != limits.words() || decoded.headers.len() != limits.logs() {
        return Err(context.damaged(subject, "it does not have the length that its limits need"));
    }
    if !engine::is_sound(limits, &decoded.words) {
        return Err(context.damaged(subject, "it holds numbers that no count has"));
    }
    let logs =
        decoded.headers.iter().map(|header| SqlLog::new(context, subject, *header)).collect();
    let own = StoredState { words: decoded.words, logs };
    let holds = match decoded.is_held {
        true => Some(SqlHolds::load(context, counted.subject, key)?),
        false => None,
    };
    let row = Row { ids: Ids { counted: key, written }, present, was, own, holds };
    Ok(StateLookup { row: Some(row), reset })
}

impl<'c> LoadedState<'c> {
    /// The state of a count under its current numbers.
    pub(crate) fn load(context: &'c Context<'c>, counted: Counted<'c>) -> Result<Self, StoreError> {
        let StateLookup { row, reset } = look_up(context, counted)?;
        let Some(Row { ids, present, was, mut own, holds }) = row else {
            return Ok(Self::fresh(context, counted, reset));
        };
        let migrated = was.map(|was| {
            let mut held = VecStates::fresh(counted.limits);
            let (limits, now) = (counted.limits, context.now());
            let carried = match &holds {
                None => migrate(limits, &mut held, &was, &mut own, now),
                Some(holds) => {
                    engine::migrate_holding(limits, &mut held, &was, &mut own, holds, now)
                }
            };
            MigratedState { held, was, carried }
        });
        context.checked()?;
        let Counted { subject, limits, .. } = counted;
        let row = Some(Ids { written: present, ..ids });
        Ok(Self { context, subject, limits: limits.clone(), row, own, migrated, reset, holds })
    }

    /// The state of a count under the numbers with which it was last written.
    pub(crate) fn as_written(
        context: &'c Context<'c>,
        counted: Counted<'c>,
    ) -> Result<Self, StoreError> {
        let StateLookup { row, reset } = look_up(context, counted)?;
        let Some(Row { ids, was, own, holds, .. }) = row else {
            return Ok(Self::fresh(context, counted, reset));
        };
        let limits = was.unwrap_or_else(|| counted.limits.clone());
        let subject = counted.subject;
        let (row, migrated) = (Some(ids), None);
        Ok(Self { context, subject, limits, row, own, migrated, reset, holds })
    }

    fn fresh(context: &'c Context<'c>, counted: Counted<'c>, reset: u64) -> Self {
        let Counted { subject, limits, .. } = counted;
        let own = StoredState::fresh(context, subject, limits);
        let (limits, row, migrated, holds) = (limits.clone(), None, None, None);
        Self { context, subject, limits, row, own, migrated, reset, holds }
    }

    /// Loads what is held of the count, so that a hold can be placed.
    pub(crate) fn hold(&mut self) -> Result<(), StoreError> {
        if self.holds.is_none() {
            let ids = self.context.make_ids(&self.limits)?;
            self.holds = Some(SqlHolds::load(self.context, self.subject, ids.counted)?);
        }
        Ok(())
    }

    /// The holds of the count, to work on them beside the state. [`LoadedState::give_holds`]
    /// follows.
    pub(crate) fn take_holds(&mut self) -> Option<SqlHolds<'c>> {
        self.holds.take()
    }

    pub(crate) fn give_holds(&mut self, holds: Option<SqlHolds<'c>>) {
        self.holds = holds;
    }

    /// Whether anything is held of the count.
    pub(crate) fn is_held(&self) -> bool {
        self.holds.is_some()
    }

    /// The limits under which the state counts.
    pub(crate) fn limits(&self) -> &LimitSet {
        &self.limits
    }

    /// The number of the last remembered reset of this count, or 0. Charges with lower numbers
    /// precede the reset.
    pub(crate) fn reset(&self) -> u64 {
        self.reset
    }

    /// The change from other numbers.
    pub(crate) fn carried(&self) -> Carries {
        self.migrated.as_ref().map_or_else(Carries::new, |migrated| migrated.carried.clone())
    }

    /// Saves the state; a fresh state is saved by deleting its row.
    pub(crate) fn save(mut self) -> Result<(), StoreError> {
        self.context.checked()?;
        let mut was_until_us = 0;
        if let Some(migrated) = self.migrated.take() {
            let now = self.context.now();
            was_until_us = engine::refundable_until_us(&migrated.was, now);
            if was_until_us > engine::refundable_until_us(&self.limits, now) {
                self.outlive(was_until_us)?;
            }
            self.adopt_migrated(migrated)?;
        }
        let held_until_us = match self.holds.take() {
            Some(holds) => holds.save(&self.limits)?,
            None => None,
        };
        if self.own.is_fresh() && held_until_us.is_none() {
            // Another strategy starts fresh, and charges under the one before can still be
            // refunded.
            if was_until_us > 0 {
                self.outlive(was_until_us)?;
            }
            return self.remove();
        }
        let Self { context, subject, limits, row, mut own, .. } = self;
        let fresh_at_us =
            engine::fresh_at_us(&limits, &mut own).max(held_until_us.unwrap_or_default());
        context.checked()?;
        let expires_us = fresh_at_us.saturating_add(SKEW_US).cast_signed();
        let ids = match row {
            Some(ids) if ids.written != 0 => ids,
            _ => context.make_ids(&limits)?,
        };
        let headers = own.logs.iter().map(SqlLog::header);
        let state = encode(&own.words, headers, held_until_us.is_some());
        let (sql, sweep_debt) = if row.is_some() {
            (
                "UPDATE states SET written = ?3, expires_us = ?4, state = ?5
                 WHERE subject = ?1 AND counted = ?2",
                DEBT_PER_UPDATE,
            )
        } else {
            (
                "INSERT INTO states (subject, counted, written, expires_us, state)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                DEBT_PER_INSERT,
            )
        };
        let params = (subject.as_str(), ids.counted, ids.written, expires_us, &state[..]);
        context.execute(sql, params)?;
        context.add_sweep_debt(sweep_debt);
        Ok(())
    }

    /// The same after an administrator refunded units. The state now covers less than was charged,
    /// but all of the charge can still be refunded by receipt.
    pub(crate) fn save_granted(self) -> Result<(), StoreError> {
        self.outlive(engine::refundable_until_us(&self.limits, self.context.now()))?;
        self.save()
    }

    /// Records that charges can be refunded until then even if the row no longer covers them: a
    /// later reset must be remembered until then.
    fn outlive(&self, until_us: u64) -> Result<(), StoreError> {
        let Some(ids) = self.row else { return Ok(()) };
        let sql = "INSERT INTO resets (subject, counted, number, until_us) VALUES (?1, ?2, 0, ?3)
                   ON CONFLICT DO UPDATE SET until_us = max(until_us, excluded.until_us)";
        self.context.execute(sql, (self.subject.as_str(), ids.counted, until_us.cast_signed()))?;
        self.context.add_sweep_debt(DEBT_PER_INSERT);
        Ok(())
    }

    /// Makes the carried-over state the row's own. A log keeps its rows where possible.
    fn adopt_migrated(&mut self, migrated: MigratedState) -> Result<(), StoreError> {
        let MigratedState { held, was, .. } = migrated;
        let mut own = StoredState::fresh(self.context, self.subject, &self.limits);
        own.words.copy_from_slice(&held.words);
        for (limit, place) in self.limits.limits().iter().zip(self.limits.places()) {
            let Place::Log(index) = *place else { continue };
            let before = was.limits().iter().zip(was.places());
            let found = before.into_iter().find(|(old, _)| old.identity() == limit.identity());
            if let Some((_, Place::Log(old))) = found {
                core::mem::swap(&mut own.logs[index], &mut self.own.logs[*old]);
            }
            let log = &held.logs[index];
            let entries: Vec<Entry> = (0..log.len())
                .map(|i| log.entry(i))
                .map(|entry| Entry { total: entry.total.wrapping_sub(log.base()), ..entry })
                .collect();
            own.logs[index].replace(&entries);
        }
        let mut left = core::mem::replace(&mut self.own, own);
        for log in &mut left.logs {
            log.clear()?;
        }
        self.context.checked()
    }

    /// Deletes the row, if there is one, and its events.
    fn remove(mut self) -> Result<(), StoreError> {
        for log in &mut self.own.logs {
            log.clear()?;
        }
        if let Some(ids) = self.row {
            self.context.execute(
                "DELETE FROM states WHERE subject = ?1 AND counted = ?2",
                (self.subject.as_str(), ids.counted),
            )?;
        }
        Ok(())
    }
}

/// Deletes the row of a count and its events, even when the state cannot be decoded. Remembers the
/// reset for as long as an earlier charge could be refunded, so that older receipts refund nothing,
/// also where the row went before them. Returns whether there was a row.
pub(crate) fn reset(context: &Context<'_>, counted: Counted<'_>) -> Result<bool, StoreError> {
    let Some(ids) = context.ids(counted.limits)? else { return Ok(false) };
    let key = (counted.subject.as_str(), ids.counted);
    requests::forget(context, key.0, key.1)?;
    let sql = "DELETE FROM states WHERE subject = ?1 AND counted = ?2 RETURNING state, written";
    let state = context.first(sql, key, |row| {
        Ok((row.get_ref(0)?.as_blob().map(decode).ok(), row.get::<_, i64>(1)?))
    })?;
    let Some((state, written)) = state else {
        let sql = "UPDATE resets SET number = ?3
                   WHERE subject = ?1 AND counted = ?2 AND until_us > ?4";
        let (number, now_us) = (context.newest_number()?, context.now().as_micros());
        context.execute(sql, (key.0, key.1, number.cast_signed(), now_us.cast_signed()))?;
        return Ok(false);
    };
    // A charge may be as old as the larger of the numbers allows.
    let mut until_us = engine::refundable_until_us(counted.limits, context.now());
    if let Ok(was) = context.set(written, key.0) {
        until_us = until_us.max(engine::refundable_until_us(&was, context.now()));
    }
    let number = context.newest_number()?.cast_signed();
    let sql = "INSERT INTO resets (subject, counted, number, until_us) VALUES (?1, ?2, ?3, ?4)
               ON CONFLICT DO UPDATE SET number = excluded.number,
                                         until_us = max(until_us, excluded.until_us)";
    context.execute(sql, (key.0, key.1, number, until_us.cast_signed()))?;
    context.add_sweep_debt(DEBT_PER_INSERT);
    let was_held = holds::forget_open(context, key.0, key.1)?;
    // The events of an undecodable state stay in the file, since nothing identifies them.
    let Some(Ok(decoded)) = state else { return Ok(true) };
    let mut counts = !decoded.is_held || decoded.words.iter().any(|word| *word != 0);
    for header in decoded.headers {
        let mut log = SqlLog::new(context, counted.subject.as_str(), header);
        counts |= !log.is_empty();
        log.clear()?;
    }
    if decoded.is_held {
        // Records of settled holds outlive the reset.
        let mut fresh = LoadedState::fresh(context, counted, number.cast_unsigned());
        fresh.hold()?;
        fresh.save()?;
    }
    Ok(counts || was_held)
}

//! A subject's state within a transaction: found, worked on, and kept.

use tollgate::engine::{Carries, Held, States, inherit};
use tollgate::strategy::{Cell, Entry, Log};
use tollgate::{Counted, LimitSet, Place, SKEW_US, StoreError, engine};

use crate::codec::{Packed, Words, decode, encode};
use crate::context::{Context, Ids, same_process};
use crate::log::SqlLog;

/// How many [`sweep::SHARES`](crate::sweep::SHARES) of a row an update owes to sweeping, and how
/// many a new row does: nothing expires that was not new once.
const OWED_PER_UPDATE: u32 = 1;
const OWED_PER_INSERT: u32 = 16;

/// The words and logs of a row.
#[derive(Debug, Default)]
pub(crate) struct Own<'c> {
    pub(crate) words: Words,
    pub(crate) logs: Vec<SqlLog<'c>>,
}

impl<'c> Own<'c> {
    fn fresh(context: &'c Context<'c>, counted: Counted<'c>) -> Self {
        let logs = (0..counted.limits.logs())
            .map(|_| SqlLog::new(context, counted.subject.as_str(), Default::default()));
        Self { words: Words::from_elem(0, counted.limits.words()), logs: logs.collect() }
    }

    fn is_fresh(&self) -> bool {
        self.words.iter().all(|word| *word == 0) && self.logs.iter().all(Log::is_empty)
    }
}

impl States for Own<'_> {
    fn cell(&mut self, place: Place) -> Cell<'_> {
        match place {
            Place::Log(index) => Cell::Log(&mut self.logs[index]),
            words => Cell::Words(&mut self.words[words.words()]),
        }
    }
}

/// A state that was counted under other numbers.
#[derive(Debug)]
struct Over {
    /// The state under the present numbers. In memory: a denial or a peek keeps nothing of it.
    held: Held,
    /// What the row was written under.
    was: LimitSet,
    carried: Carries,
}

/// A subject's state, found or fresh. Work on it through [`States`], then [`Found::keep`] it.
#[derive(Debug)]
pub(crate) struct Found<'c> {
    context: &'c Context<'c>,
    counted: Counted<'c>,
    /// The key of the row and the present set, 0 when the file does not know it; none when there
    /// is no row.
    row: Option<Ids>,
    own: Own<'c>,
    over: Option<Over>,
}

impl States for Found<'_> {
    fn cell(&mut self, place: Place) -> Cell<'_> {
        match &mut self.over {
            Some(over) => over.held.cell(place),
            None => self.own.cell(place),
        }
    }
}

/// A row as it was found, under the set it was written under.
pub(crate) struct Row<'c> {
    ids: Ids,
    pub(crate) was: Option<LimitSet>,
    pub(crate) own: Own<'c>,
}

/// The row of a count, if there is one. `was` is none when it was written under these limits.
pub(crate) fn row<'c>(
    context: &'c Context<'c>,
    counted: Counted<'c>,
) -> Result<Option<Row<'c>>, StoreError> {
    let Some(ids) = context.ids(counted.limits)? else { return Ok(None) };
    let subject = counted.subject.as_str();
    let found = context.first(
        "SELECT written, state FROM states WHERE subject = ?1 AND counted = ?2",
        (subject, ids.counted),
        |row| {
            let packed = row.get_ref(1)?.as_blob().map(decode);
            Ok((row.get(0)?, packed.unwrap_or(Err("it is no blob"))))
        },
    )?;
    let Some((written, packed)) = found else { return Ok(None) };
    let packed: Packed = packed.map_err(|what| context.damaged(subject, what))?;
    let was = if ids.written == written { None } else { Some(context.set(written, subject)?) };
    let limits = was.as_ref().unwrap_or(counted.limits);
    if packed.words.len() != limits.words() || packed.heads.len() != limits.logs() {
        return Err(context.damaged(subject, "it does not have the length that its limits need"));
    }
    let logs = packed.heads.iter().map(|head| SqlLog::new(context, subject, *head)).collect();
    Ok(Some(Row { ids, was, own: Own { words: packed.words, logs } }))
}

impl<'c> Row<'c> {
    /// The state as it lies there; `counted` names the limits that it was written under.
    pub(crate) fn into_found(
        self,
        context: &'c Context<'c>,
        counted: Counted<'c>,
    ) -> Result<Found<'c>, StoreError> {
        let ids = context.make_ids(counted.limits)?;
        Ok(Found { context, counted, row: Some(ids), own: self.own, over: None })
    }
}

impl<'c> Found<'c> {
    /// The state of a count under its present numbers.
    pub(crate) fn load(context: &'c Context<'c>, counted: Counted<'c>) -> Result<Self, StoreError> {
        let Some(Row { ids, was, mut own }) = row(context, counted)? else {
            let own = Own::fresh(context, counted);
            return Ok(Self { context, counted, row: None, own, over: None });
        };
        let over = was.map(|was| {
            let mut held = Held::fresh(counted.limits);
            let carried = inherit(counted.limits, &mut held, &was, &mut own, context.now());
            Over { held, was, carried }
        });
        context.checked()?;
        Ok(Self { context, counted, row: Some(ids), own, over })
    }

    /// What was carried over from other numbers.
    pub(crate) fn carried(&self) -> Carries {
        self.over.as_ref().map_or_else(Carries::new, |over| over.carried.clone())
    }

    /// Writes the state down; a fresh one by having no row.
    pub(crate) fn keep(mut self) -> Result<(), StoreError> {
        self.context.checked()?;
        if let Some(over) = self.over.take() {
            self.move_over(over)?;
        }
        if self.own.is_fresh() {
            return self.remove();
        }
        let Self { context, counted: Counted { subject, limits }, row, mut own, .. } = self;
        let fresh_at_us = engine::fresh_at_us(limits, &mut own);
        context.checked()?;
        let expires_us = fresh_at_us.saturating_add(SKEW_US).cast_signed();
        let ids = match row {
            Some(ids) if ids.written != 0 => ids,
            _ => context.make_ids(limits)?,
        };
        let state = encode(&own.words, own.logs.iter().map(SqlLog::head));
        let (sql, owed) = if row.is_some() {
            (
                "UPDATE states SET written = ?3, expires_us = ?4, state = ?5
                 WHERE subject = ?1 AND counted = ?2",
                OWED_PER_UPDATE,
            )
        } else {
            (
                "INSERT INTO states (subject, counted, written, expires_us, state)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                OWED_PER_INSERT,
            )
        };
        let params = (subject.as_str(), ids.counted, ids.written, expires_us, &state[..]);
        context.execute(sql, params)?;
        context.owe(owed);
        Ok(())
    }

    /// Makes what was carried over the row's own state. A log keeps its rows where it can.
    fn move_over(&mut self, over: Over) -> Result<(), StoreError> {
        let Over { held, was, .. } = over;
        let mut own = Own::fresh(self.context, self.counted);
        own.words.copy_from_slice(&held.words);
        for (limit, place) in self.counted.limits.limits().iter().zip(self.counted.limits.places())
        {
            let Place::Log(index) = *place else { continue };
            let before = was.limits().iter().zip(was.places());
            let found = before.into_iter().find(|(old, _)| old.identity() == limit.identity());
            if let Some((_, Place::Log(old))) = found {
                core::mem::swap(&mut own.logs[index], &mut self.own.logs[*old]);
            }
            let log = &held.logs[index];
            let entries: Vec<Entry> = (0..log.len())
                .map(|i| log.entry(i))
                .map(|entry| Entry { total: entry.total - log.base(), ..entry })
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
                (self.counted.subject.as_str(), ids.counted),
            )?;
        }
        Ok(())
    }
}

/// Deletes the row of a count and its events, even when the state cannot be read. True when there
/// was one.
pub(crate) fn reset(context: &Context<'_>, counted: Counted<'_>) -> Result<bool, StoreError> {
    let Some(ids) = context.ids(counted.limits)? else { return Ok(false) };
    let key = (counted.subject.as_str(), ids.counted);
    let sql = "DELETE FROM states WHERE subject = ?1 AND counted = ?2 RETURNING state";
    let state = context.first(sql, key, |row| Ok(row.get_ref(0)?.as_blob().map(decode).ok()))?;
    let Some(state) = state else { return Ok(false) };
    remember_reset(context, counted, ids)?;
    // The events of a state that cannot be read stay behind: nobody knows which they are.
    let heads = state.and_then(Result::ok).map(|packed| packed.heads).unwrap_or_default();
    for head in heads {
        SqlLog::new(context, counted.subject.as_str(), head).clear()?;
    }
    Ok(true)
}

/// Notes that a count was forgotten, for as long as a charge before that could be given back.
fn remember_reset(context: &Context<'_>, counted: Counted<'_>, ids: Ids) -> Result<(), StoreError> {
    let now = context.now();
    let until_us = engine::refundable_until_us(counted.limits, now);
    let sql = "INSERT INTO resets (subject, counted, number, at_us, until_us)
               VALUES (?1, ?2, ?3, ?4, ?5)
               ON CONFLICT DO UPDATE SET number = ?3, at_us = ?4, until_us = ?5";
    let [number, at_us, until_us] =
        [context.number()?, now.as_micros(), until_us].map(u64::cast_signed);
    context.execute(sql, (counted.subject.as_str(), ids.counted, number, at_us, until_us))?;
    // Few are ever held: those that no longer matter go with each new one.
    let horizon_us = now.as_micros().saturating_sub(SKEW_US).cast_signed();
    context.execute("DELETE FROM resets WHERE until_us < ?1", [horizon_us])?;
    context.owe(OWED_PER_UPDATE);
    Ok(())
}

/// True when a charge, recorded at `at_us` under the receipt `number`, was made before its count
/// was last reset.
pub(crate) fn was_reset_since(
    context: &Context<'_>,
    counted: Counted<'_>,
    number: u64,
    at_us: &[u64],
) -> Result<bool, StoreError> {
    let Some(ids) = context.ids(counted.limits)? else { return Ok(false) };
    let sql = "SELECT number, at_us FROM resets WHERE subject = ?1 AND counted = ?2";
    let key = (counted.subject.as_str(), ids.counted);
    let reset: Option<(i64, i64)> =
        context.first(sql, key, |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(reset.is_some_and(|(reset_number, reset_at_us)| {
        let reset_number = reset_number.cast_unsigned();
        if same_process(number, reset_number) {
            return number < reset_number;
        }
        // Numbers of two processes say nothing of what came first; their times do.
        at_us.iter().any(|at_us| *at_us <= reset_at_us.cast_unsigned())
    }))
}

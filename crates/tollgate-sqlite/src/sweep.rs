//! Expired rows: every write pays for checking a few rows, from where the last check ended.
//!
//! There is no index over expiry times, since every charge would have to update it. Instead a
//! cursor moves over the key. Its position is stored in the file, so that even short-lived
//! processes advance it together.

use tollgate::{SKEW_US, StoreError};

use crate::codec::{DecodedState, decode, encode};
use crate::context::Context;
use crate::log::{DELETE_AT_MOST, SqlLog};
use crate::{holds, requests};

/// The number of rows checked at a time.
const ROWS: u32 = 64;

/// The debt of writes is counted in fractions of a row; this many make one row.
pub(crate) const DEBT_PER_ROW: u32 = 4;

/// The debt at which a sweep is due. A new process starts with this debt, since it may write only
/// once.
pub(crate) const SWEEP_THRESHOLD: u32 = ROWS * DEBT_PER_ROW;

/// The position of the cursor.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct SweepCursor {
    subject: String,
    counted: i64,
    spent: i64,
    reset_subject: String,
    reset_counted: i64,
}

/// The result of one batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SweepBatch {
    /// The number of subjects deleted.
    pub(crate) removed: usize,
    /// Whether the last subject was reached: the next batch starts with the first.
    pub(crate) states_end: bool,
    /// The same for the marks of refunded receipts.
    pub(crate) spent_end: bool,
    /// The same for the marks of resets.
    pub(crate) resets_end: bool,
    /// The same for request ids.
    pub(crate) requests_end: bool,
}

/// Sweeps one batch if this transaction writes and the debt is large enough.
pub(crate) fn sweep_if_due(context: &Context<'_>) -> Result<(), StoreError> {
    if context.take_sweep_debt(SWEEP_THRESHOLD) {
        sweep_batch(context)?;
    }
    Ok(())
}

/// Moves the cursor to the first row.
pub(crate) fn rewind(context: &Context<'_>) -> Result<(), StoreError> {
    put(context, &SweepCursor::default())
}

/// Checks the next rows, and deletes those that have expired.
pub(crate) fn sweep_batch(context: &Context<'_>) -> Result<SweepBatch, StoreError> {
    let sql = "SELECT hand_subject, hand_counted, hand_spent, hand_reset_subject,
                      hand_reset_counted FROM store";
    let cursor = context.first(sql, [], |row| {
        Ok(SweepCursor {
            subject: row.get(0)?,
            counted: row.get(1)?,
            spent: row.get(2)?,
            reset_subject: row.get(3)?,
            reset_counted: row.get(4)?,
        })
    })?;
    let mut cursor = cursor.unwrap_or_default();
    let (removed, states_end) = sweep_states(context, &mut cursor)?;
    let spent_end = sweep_spent(context, &mut cursor)?;
    let resets_end = sweep_resets(context, &mut cursor)?;
    let requests_end = requests::sweep(context, ROWS)?;
    put(context, &cursor)?;
    Ok(SweepBatch { removed, states_end, spent_end, resets_end, requests_end })
}

fn put(context: &Context<'_>, cursor: &SweepCursor) -> Result<(), StoreError> {
    let sql = "UPDATE store SET hand_subject = ?1, hand_counted = ?2, hand_spent = ?3,
                                hand_reset_subject = ?4, hand_reset_counted = ?5";
    let SweepCursor { subject, counted, spent, reset_subject, reset_counted } = cursor;
    context.execute(sql, (subject, counted, spent, reset_subject, reset_counted))?;
    Ok(())
}

/// Moves the cursor over subjects. Returns how many were deleted, and whether the last was reached.
fn sweep_states(
    context: &Context<'_>,
    cursor: &mut SweepCursor,
) -> Result<(usize, bool), StoreError> {
    let now_us = context.now().as_micros().cast_signed();
    let sql = "SELECT subject, counted, CASE WHEN expires_us <= ?3 THEN state END FROM states
               WHERE (subject, counted) > (?1, ?2) ORDER BY subject, counted LIMIT ?4";
    let rows = context.rows(sql, (&cursor.subject, cursor.counted, now_us, ROWS), |row| {
        let state = row.get_ref(2)?.as_blob_or_null()?.map(decode);
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, state))
    })?;
    let end = rows.len() < ROWS as usize;
    let mut removed = 0;
    for (subject, counted, state) in rows {
        // An undecodable state stays, so that the next check of the subject reports it.
        if let Some(Ok(state)) = state {
            if !remove(context, &subject, counted, state)? {
                // The log is long: the next batch continues with it.
                return Ok((removed, false));
            }
            removed += 1;
        }
        (cursor.subject, cursor.counted) = (subject, counted);
    }
    if end {
        (cursor.subject, cursor.counted) = (String::new(), 0);
    }
    Ok((removed, end))
}

/// Deletes an expired row, or a part of its events if there are many. Returns true when it is gone.
fn remove(
    context: &Context<'_>,
    subject: &str,
    counted: i64,
    mut state: DecodedState,
) -> Result<bool, StoreError> {
    for index in 0..state.headers.len() {
        let mut log = SqlLog::new(context, subject, state.headers[index]);
        let gone = log.shrink(DELETE_AT_MOST)?;
        state.headers[index] = log.header();
        if !gone {
            let bytes = encode(&state.words, state.headers.iter().copied(), state.is_held);
            let sql = "UPDATE states SET state = ?3 WHERE subject = ?1 AND counted = ?2";
            context.execute(sql, (subject, counted, &bytes[..]))?;
            return Ok(false);
        }
    }
    if state.is_held {
        holds::forget(context, subject, counted)?;
    }
    let sql = "DELETE FROM states WHERE subject = ?1 AND counted = ?2";
    context.execute(sql, (subject, counted))?;
    Ok(true)
}

/// Moves the cursor over the marks of refunded receipts. Returns true when it reached the last.
fn sweep_spent(context: &Context<'_>, cursor: &mut SweepCursor) -> Result<bool, StoreError> {
    let now_us = context.now().as_micros().cast_signed();
    let skew_us = SKEW_US.cast_signed();
    let sql = "SELECT number, until_us FROM spent WHERE number > ?1 ORDER BY number LIMIT ?2";
    let rows: Vec<(i64, i64)> =
        context.rows(sql, (cursor.spent, ROWS), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let end = rows.len() < ROWS as usize;
    for (number, until_us) in rows {
        if until_us.saturating_add(skew_us) <= now_us {
            context.execute("DELETE FROM spent WHERE number = ?1", [number])?;
        }
        cursor.spent = number;
    }
    if end {
        cursor.spent = 0;
    }
    Ok(end)
}

/// Moves the cursor over the marks of resets. Returns true when it reached the last.
fn sweep_resets(context: &Context<'_>, cursor: &mut SweepCursor) -> Result<bool, StoreError> {
    let now_us = context.now().as_micros().cast_signed();
    let skew_us = SKEW_US.cast_signed();
    let sql = "SELECT subject, counted, until_us FROM resets
               WHERE (subject, counted) > (?1, ?2) ORDER BY subject, counted LIMIT ?3";
    let rows: Vec<(String, i64, i64)> =
        context.rows(sql, (&cursor.reset_subject, cursor.reset_counted, ROWS), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    let end = rows.len() < ROWS as usize;
    for (subject, counted, until_us) in rows {
        if until_us.saturating_add(skew_us) <= now_us {
            let sql = "DELETE FROM resets WHERE subject = ?1 AND counted = ?2";
            context.execute(sql, (&subject, counted))?;
        }
        (cursor.reset_subject, cursor.reset_counted) = (subject, counted);
    }
    if end {
        (cursor.reset_subject, cursor.reset_counted) = (String::new(), 0);
    }
    Ok(end)
}

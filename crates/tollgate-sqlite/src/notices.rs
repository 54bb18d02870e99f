//! Notices in the file: an extension, whose tables are created by the first notice.

use core::time::Duration;

use tollgate::{MAX_NOTICES, Notice, Notices, StoreError};

use crate::context::Context;
use crate::extension::{is_migrated, migrate_extension};

const EXTENSION: &str = "notices";

const MIGRATIONS: &[&str] = &["
    CREATE TABLE notices_all (
        name TEXT PRIMARY KEY,
        text TEXT NOT NULL,
        until_us INTEGER NOT NULL
    ) WITHOUT ROWID;
    -- One row: a number that grows with each change.
    CREATE TABLE notices_version (version INTEGER NOT NULL);
    INSERT INTO notices_version VALUES (0);
"];

fn now_us(cx: &Context<'_>) -> i64 {
    cx.now().as_micros().cast_signed()
}

fn version(cx: &Context<'_>) -> Result<u64, StoreError> {
    let version =
        cx.first("SELECT version FROM notices_version", [], |row| row.get::<_, i64>(0))?;
    Ok(version.unwrap_or(0).cast_unsigned())
}

/// All notices, unless their version is still `seen`.
pub(crate) fn read(cx: &Context<'_>, seen: Option<u64>) -> Result<Option<Notices>, StoreError> {
    let there = is_migrated(cx, EXTENSION, MIGRATIONS)?;
    let version = if there { version(cx)? } else { 0 };
    if seen == Some(version) {
        return Ok(None);
    }
    let mut all = Vec::new();
    if there {
        let now_us = now_us(cx);
        let sql = "SELECT name, text, until_us FROM notices_all WHERE until_us > ?1 ORDER BY name";
        let rows = cx.rows(sql, [now_us], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?))
        })?;
        for (name, text, until_us) in rows {
            let left_us = until_us.saturating_sub(now_us).cast_unsigned();
            // A notice out of bounds is of a newer version, and is skipped.
            all.extend(Notice::new(name, text, Duration::from_micros(left_us)).ok());
        }
    }
    Ok(Some(Notices::new(version, all)))
}

pub(crate) fn post(cx: &Context<'_>, notice: &Notice) -> Result<(), StoreError> {
    migrate_extension(cx, EXTENSION, MIGRATIONS)?;
    cx.execute("DELETE FROM notices_all WHERE until_us <= ?1", [now_us(cx)])?;
    let sql = "SELECT count(*) FROM notices_all WHERE name <> ?1";
    let others: i64 = cx.first(sql, [&notice.name], |row| row.get(0))?.unwrap_or(0);
    if usize::try_from(others).is_ok_and(|others| others >= MAX_NOTICES) {
        return Err(Notices::too_many());
    }
    let sql = "SELECT 1 FROM notices_all WHERE name = ?1";
    if notice.yields && cx.first(sql, [&notice.name], |row| row.get::<_, i64>(0))?.is_some() {
        return Ok(());
    }
    let until_us = notice.until(cx.now()).as_micros().cast_signed();
    let sql = "INSERT OR REPLACE INTO notices_all VALUES (?1, ?2, ?3)";
    cx.execute(sql, (&notice.name, &notice.text, until_us))?;
    changed(cx)
}

/// Returns whether there was one.
pub(crate) fn withdraw(cx: &Context<'_>, name: &str) -> Result<bool, StoreError> {
    if !is_migrated(cx, EXTENSION, MIGRATIONS)? {
        return Ok(false);
    }
    let sql = "SELECT until_us FROM notices_all WHERE name = ?1";
    let Some(until_us) = cx.first(sql, [name], |row| row.get::<_, i64>(0))? else {
        return Ok(false);
    };
    cx.execute("DELETE FROM notices_all WHERE name = ?1", [name])?;
    changed(cx)?;
    Ok(until_us > now_us(cx))
}

fn changed(cx: &Context<'_>) -> Result<(), StoreError> {
    let version = Notices::version_after(version(cx)?, cx.now());
    cx.execute("UPDATE notices_version SET version = ?1", [version.cast_signed()]).map(drop)
}

//! Those who wait in line for holds. Their table is created by the first one, as that of an
//! extension: a file without it is the same as before.

use tollgate::engine::Ticket;
use tollgate::{HoldId, StoreError};

use crate::context::Context;

/// Under this name the file records the format of the table.
pub(crate) const EXTENSION: &str = "line";

/// The table, step by step. Never edit a released step: append another.
pub(crate) const MIGRATIONS: &[&str] = &["
    -- `subject`, `counted`: the count, as in `states`. `since_us`: the arrival. `id`, `cost`: of the
    -- hold that is waited for.
    CREATE TABLE line_tickets (
        subject TEXT NOT NULL,
        counted INTEGER NOT NULL,
        since_us INTEGER NOT NULL,
        id BLOB NOT NULL,
        cost INTEGER NOT NULL,
        end_us INTEGER NOT NULL,
        PRIMARY KEY (subject, counted, since_us, id, cost)
    ) WITHOUT ROWID;
"];

/// A count: its subject, and the identity of its limits.
pub(crate) type Key<'k> = (&'k str, i64);

/// The tickets of a count, in their order.
pub(crate) fn read(cx: &Context<'_>, key: Key<'_>) -> Result<Vec<Ticket>, StoreError> {
    if !cx.has_table("line_tickets")? {
        return Ok(Vec::new());
    }
    let sql = "SELECT since_us, id, cost, end_us FROM line_tickets
               WHERE subject = ?1 AND counted = ?2 ORDER BY since_us, id, cost";
    let found: Vec<Option<Ticket>> = cx.rows(sql, key, |row| {
        let number = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
        let (since_us, cost, end_us) = (number(0)?, number(2)?, number(3)?);
        let bytes = <[u8; 16]>::try_from(row.get_ref(1)?.as_blob()?).ok();
        let id = bytes.and_then(HoldId::from_bytes);
        Ok(id.map(|id| Ticket { since_us, id, cost, end_us }))
    })?;
    let tickets: Option<Vec<Ticket>> = found.into_iter().collect();
    tickets.ok_or_else(|| cx.damaged(key.0, "a ticket has an impossible id"))
}

pub(crate) fn stand(cx: &Context<'_>, key: Key<'_>, ticket: Ticket) -> Result<(), StoreError> {
    let Ticket { since_us, id, cost, end_us } = ticket;
    let [since_us, cost, end_us] = [since_us, cost, end_us].map(u64::cast_signed);
    cx.execute(
        "INSERT OR REPLACE INTO line_tickets (subject, counted, since_us, id, cost, end_us)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        (key.0, key.1, since_us, &id.as_bytes()[..], cost, end_us),
    )?;
    Ok(())
}

pub(crate) fn leave(cx: &Context<'_>, key: Key<'_>, ticket: &Ticket) -> Result<(), StoreError> {
    let [since_us, cost] = [ticket.since_us, ticket.cost].map(u64::cast_signed);
    cx.execute(
        "DELETE FROM line_tickets
         WHERE subject = ?1 AND counted = ?2 AND since_us = ?3 AND id = ?4 AND cost = ?5",
        (key.0, key.1, since_us, &ticket.id.as_bytes()[..], cost),
    )?;
    Ok(())
}

/// Forgets the line of a count. True when it had one.
pub(crate) fn forget(cx: &Context<'_>, key: Key<'_>) -> Result<bool, StoreError> {
    let sql = "DELETE FROM line_tickets WHERE subject = ?1 AND counted = ?2";
    Ok(cx.has_table("line_tickets")? && cx.execute(sql, key)? > 0)
}

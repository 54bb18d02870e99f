//! Extensions: other data in the same file and in the same transactions, which must change together
//! with a count.

use core::fmt;

use rusqlite::{Params, Row};
use tollgate::engine::Outcome;
use tollgate::{Question, StoreError, Time};

use crate::context::Context;
use crate::operations;

/// A running transaction: other users of the file see all of its changes or none.
pub struct Transaction<'t> {
    context: &'t Context<'t>,
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Transaction").field(self.context).finish()
    }
}

impl<'t> Transaction<'t> {
    pub(crate) fn new(context: &'t Context<'t>) -> Self {
        Self { context }
    }

    /// The time of the transaction, which all its checks use.
    #[must_use]
    pub fn now(&self) -> Time {
        self.context.now()
    }

    /// Runs a statement without result rows. Returns the number of changed rows.
    ///
    /// # Errors
    /// An error of SQLite, with an explanation.
    pub fn execute(&self, sql: &str, params: impl Params) -> Result<usize, StoreError> {
        self.context.execute(sql, params)
    }

    /// The first row of a query, if there is one.
    ///
    /// # Errors
    /// As [`Transaction::execute`].
    pub fn first<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        self.context.first(sql, params, read)
    }

    /// All rows of a query.
    ///
    /// # Errors
    /// As [`Transaction::execute`].
    pub fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        self.context.rows(sql, params, read)
    }

    /// Answers a question within the transaction; the charge takes effect when the transaction
    /// commits.
    ///
    /// # Errors
    /// As [`crate::SqliteStore::check_now`].
    pub fn check(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        question.without_request()?;
        operations::check(self.context, question)
    }
}

/// Whether the tables of an extension have their current format.
pub(crate) fn is_migrated(
    context: &Context<'_>,
    extension: &str,
    migrations: &[&str],
) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'guests'";
    if context.first(sql, [], |_| Ok(()))?.is_none() {
        return Ok(false);
    }
    let sql = "SELECT format FROM guests WHERE name = ?1";
    let format: Option<i64> = context.first(sql, [extension], |row| row.get(0))?;
    Ok(format.and_then(|format| usize::try_from(format).ok()) == Some(migrations.len()))
}

/// Migrates the tables of an extension to their current format. `migrations` are the statements
/// that create it step by step; the file records how many it has applied. Never edit a released
/// one: append another.
pub(crate) fn migrate_extension(
    context: &Context<'_>,
    extension: &str,
    migrations: &[&str],
) -> Result<(), StoreError> {
    context.execute(
        "CREATE TABLE IF NOT EXISTS guests (name TEXT PRIMARY KEY, format INTEGER NOT NULL)",
        [],
    )?;
    let sql = "SELECT format FROM guests WHERE name = ?1";
    let format: Option<i64> = context.first(sql, [extension], |row| row.get(0))?;
    let behind = match usize::try_from(format.unwrap_or(0)) {
        Ok(behind) if behind <= migrations.len() => behind,
        _ => {
            return Err(StoreError::permanent(format!(
                "{} has format {} of `{extension}`, and this version of tollgate knows formats up to \
                 {}; nothing was changed in it: use a newer tollgate, or give another path",
                context.path().display(),
                format.unwrap_or(0),
                migrations.len()
            )));
        }
    };
    for step in migrations.iter().skip(behind) {
        context.batch(step)?;
    }
    if behind < migrations.len() {
        let sql = "INSERT INTO guests VALUES (?1, ?2)
                   ON CONFLICT (name) DO UPDATE SET format = excluded.format";
        context.execute(sql, (extension, i64::try_from(migrations.len()).unwrap_or(i64::MAX)))?;
    }
    Ok(())
}

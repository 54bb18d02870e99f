//! Opens a database file: checks that it is ours and usable, and migrates it to the current format.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};
use tollgate::StoreError;

use crate::fault::{FaultLocation, explain};
use crate::options::{Options, Sync};
use crate::wait;

/// The application id in SQLite's header of our files: the letters `TlGt`.
pub(crate) const APPLICATION_ID: i32 = i32::from_be_bytes(*b"TlGt");

/// One step from a format to the next; step 0 creates the first format in an empty file.
pub(crate) type Migration = &'static str;

/// All steps, in order. A file's `user_version` records how many it has applied. Never edit a
/// released step: append another, and say in [`see_as_current`] what a reader of an older file
/// finds in its tables.
pub(crate) const MIGRATIONS: &[Migration] = &[FORMAT_1, FORMAT_2, FORMAT_3, FORMAT_4, FORMAT_5];

const FORMAT_1: Migration = "
    -- One row: who this store is, the next free number for receipts and logs, and where the
    -- search for expired rows goes on.
    CREATE TABLE store (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        identity INTEGER NOT NULL,
        next_number INTEGER NOT NULL,
        hand_subject TEXT NOT NULL,
        hand_counted INTEGER NOT NULL,
        hand_spent INTEGER NOT NULL,
        hand_reset_subject TEXT NOT NULL,
        hand_reset_counted INTEGER NOT NULL
    );
    INSERT INTO store VALUES (1, random(), 1, '', 0, 0, '', 0);
    -- Identities and full forms of limit sets, so that rows stay small.
    CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
    -- `counted`: the set's identity; `written`: the full form the state was written under.
    CREATE TABLE states (
        subject TEXT NOT NULL,
        counted INTEGER NOT NULL,
        written INTEGER NOT NULL,
        expires_us INTEGER NOT NULL,
        state BLOB NOT NULL,
        PRIMARY KEY (subject, counted)
    ) WITHOUT ROWID;
    -- The events of sliding logs: when, and the cost of all events up to and with it (a u64 that
    -- wraps around, as the bits of an i64).
    CREATE TABLE entries (
        log INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        at_us INTEGER NOT NULL,
        total INTEGER NOT NULL,
        PRIMARY KEY (log, seq)
    ) WITHOUT ROWID;
    -- Receipts that were given back, until when each must be remembered.
    CREATE TABLE spent (number INTEGER PRIMARY KEY, until_us INTEGER NOT NULL);
    -- Counts that were reset: charges of lower numbers came before, those of higher ones after;
    -- until when that must be remembered. Number 0: none was, but one that comes must be until then.
    CREATE TABLE resets (
        subject TEXT NOT NULL,
        counted INTEGER NOT NULL,
        number INTEGER NOT NULL,
        until_us INTEGER NOT NULL,
        PRIMARY KEY (subject, counted)
    ) WITHOUT ROWID;
";

/// Adds how many units of a charge were refunded. Earlier refunds were of the whole charge, and no
/// charge exceeds 2^40.
const FORMAT_2: Migration =
    "ALTER TABLE spent ADD COLUMN units INTEGER NOT NULL DEFAULT 1099511627776";

/// Adds the holds of counts (definitions, section 11): their sums, each open hold, and the charges
/// of those that were settled.
const FORMAT_3: Migration = "
    CREATE TABLE held (
        subject TEXT NOT NULL,
        counted INTEGER NOT NULL,
        open INTEGER NOT NULL,
        units INTEGER NOT NULL,
        charging INTEGER NOT NULL,
        slots INTEGER NOT NULL,
        fence INTEGER NOT NULL,
        seen_us INTEGER NOT NULL,
        PRIMARY KEY (subject, counted)
    ) WITHOUT ROWID;
    CREATE TABLE holds (
        subject TEXT NOT NULL,
        counted INTEGER NOT NULL,
        end_us INTEGER NOT NULL,
        id BLOB NOT NULL,
        cost INTEGER NOT NULL,
        PRIMARY KEY (subject, counted, end_us, id)
    ) WITHOUT ROWID;
    CREATE INDEX holds_by_id ON holds (id, subject, counted);
    CREATE TABLE settled (
        subject TEXT NOT NULL,
        counted INTEGER NOT NULL,
        id BLOB NOT NULL,
        actual INTEGER NOT NULL,
        until_us INTEGER NOT NULL,
        PRIMARY KEY (subject, counted, id)
    ) WITHOUT ROWID;
";

/// Adds what finds the holds of a count that charge at their end, and the settled ones that may be
/// forgotten, without a look at all of them.
const FORMAT_4: Migration = "
    CREATE INDEX charging_holds ON holds (subject, counted)
        WHERE substr(id, 1, 1) IN (x'43', x'63');
    CREATE INDEX settled_by_end ON settled (subject, counted, until_us);
";

/// Adds what finds the marks of early releases among all that is remembered of a count.
const FORMAT_5: Migration = "
    CREATE INDEX early_marks ON settled (subject, counted, until_us) WHERE actual = -1;
";

/// A file that is open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) conn: Connection,
    /// Whether it has an older format, which [`migrate`] brings up to date. Until then it is only
    /// read, as [`see_as_current`] shows it: who looks at a file does not take it away from the
    /// version that writes it.
    pub(crate) is_behind: bool,
}

/// Opens the file of `options` and prepares it. A file that is not ours is not changed.
pub(crate) fn open(options: &Options) -> Result<Opened, StoreError> {
    check_path(&options.path)?;
    let location = FaultLocation { path: &options.path, deadline: options.effective_deadline() };
    wait::set_deadline(options.effective_deadline());
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // SQLite interprets `file:..` and `:memory:`; with a directory in front they are plain names.
    let conn = Connection::open_with_flags(Path::new(".").join(&options.path), flags)
        .map_err(|error| explain(error, location))?;
    prepare(conn, options, MIGRATIONS)
}

fn check_path(path: &Path) -> Result<(), StoreError> {
    let shown = path.display();
    if path.is_dir() {
        return Err(StoreError::permanent(format!(
            "{shown} is a directory: give a file in it, as in {}",
            path.join("tollgate.db").display()
        )));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    match parent.map(fs::metadata) {
        Some(Ok(found)) if !found.is_dir() => Err(StoreError::permanent(format!(
            "{shown} cannot be opened: what stands before its last part is not a directory"
        ))),
        Some(Err(error)) => {
            let parent = parent.unwrap_or(path).display();
            Err(StoreError::permanent(format!(
                "the directory {parent} of the store does not exist or cannot be read: create it, \
                 as with `mkdir -p {parent}`, or give another path"
            ))
            .because(error))
        }
        _ => Ok(()),
    }
}

/// Prepares an open connection, or reports why the file cannot be used.
pub(crate) fn prepare(
    mut conn: Connection,
    options: &Options,
    migrations: &[Migration],
) -> Result<Opened, StoreError> {
    let location = FaultLocation { path: &options.path, deadline: options.effective_deadline() };
    let ready = |conn: &mut Connection| -> Result<Result<bool, StoreError>, rusqlite::Error> {
        wait::install(conn)?;
        let version = match version(conn, options, migrations)? {
            Ok(version) => version,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if conn.is_readonly("main")? {
            return Ok(Err(StoreError::permanent(format!(
                "{} is read-only: make it writable for this user, or give another path",
                options.path.display()
            ))));
        }
        if let Err(refusal) = use_wal(conn, options)? {
            return Ok(Err(refusal));
        }
        conn.pragma_update(
            None,
            "synchronous",
            match options.sync {
                Sync::Normal => "NORMAL",
                Sync::Full => "FULL",
            },
        )?;
        conn.set_prepared_statement_cache_capacity(64);
        if version == 0 {
            return Ok(migrate(conn, options, migrations)?.map(|()| false));
        }
        Ok(Ok(version < migrations.len()))
    };
    match ready(&mut conn) {
        Ok(Ok(is_behind)) => Ok(Opened { conn, is_behind }),
        Ok(Err(refusal)) => Err(refusal),
        Err(error) => Err(explain(error, location)),
    }
}

/// The number of migration steps that the file has applied, or why it cannot be used.
fn version(
    conn: &Connection,
    options: &Options,
    migrations: &[Migration],
) -> rusqlite::Result<Result<usize, StoreError>> {
    let path = options.path.display();
    // One statement, so that it sees the state before or after another process creates the file.
    let (application, version, tables): (i32, i64, i64) = conn.query_row(
        "SELECT a.application_id, v.user_version, (SELECT count(*) FROM sqlite_schema)
         FROM pragma_application_id AS a, pragma_user_version AS v",
        [],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    if application == 0 && version == 0 && tables == 0 {
        return Ok(Ok(0));
    }
    if application != APPLICATION_ID {
        return Ok(Err(StoreError::permanent(format!(
            "{path} is a database of another program (application id {application:#x}, {tables} \
             tables and indices); nothing was changed in it: give another path"
        ))));
    }
    match usize::try_from(version) {
        Ok(version) if (1..=migrations.len()).contains(&version) => Ok(Ok(version)),
        _ => Ok(Err(StoreError::permanent(format!(
            "{path} has format {version}, and this version of tollgate knows formats up to {}; \
             nothing was changed in it: use a newer tollgate, or give another path",
            migrations.len()
        )))),
    }
}

/// Switches to the write-ahead log. This needs exclusive access to the file and does not always
/// call the busy handler, so it is retried here.
fn use_wal(conn: &Connection, options: &Options) -> rusqlite::Result<Result<(), StoreError>> {
    let mut tries = 0;
    let mode: String = loop {
        match conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)) {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && wait::on_busy(tries) =>
            {
                tries += 1;
            }
            other => break other?,
        }
    };
    if mode == "wal" {
        return Ok(Ok(()));
    }
    Ok(Err(StoreError::permanent(format!(
        "{} cannot have a write-ahead log (it stayed in mode `{mode}`), as on some network file \
         systems: give a path on a local disk",
        options.path.display()
    ))))
}

/// Empty tables of this connection alone, in place of those that an older file lacks and that are
/// read. Returns whether the file is still older; without them it is read as it is.
pub(crate) fn see_as_current(conn: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT user_version FROM pragma_user_version";
    let version: i64 = conn.query_row(sql, [], |row| row.get(0))?;
    let is_behind = usize::try_from(version).is_ok_and(|version| version < MIGRATIONS.len());
    if !is_behind {
        conn.execute_batch(SHOW_ALL)?;
    } else if version < 3 {
        conn.execute_batch(HELD_BY_NOBODY)?;
    }
    Ok(is_behind)
}

const HELD_BY_NOBODY: &str = "
    CREATE TEMP TABLE IF NOT EXISTS held (
        subject, counted, open, units, charging, slots, fence, seen_us
    );
    CREATE TEMP TABLE IF NOT EXISTS holds (subject, counted, end_us, id, cost);
    CREATE TEMP TABLE IF NOT EXISTS settled (subject, counted, id, actual, until_us);
";

const SHOW_ALL: &str = "
    DROP TABLE IF EXISTS temp.held;
    DROP TABLE IF EXISTS temp.holds;
    DROP TABLE IF EXISTS temp.settled;
";

/// Brings a file to the current format, before something is written.
pub(crate) fn bring_up_to_date(
    conn: &Connection,
    options: &Options,
    migrations: &[Migration],
) -> Result<(), StoreError> {
    let location = FaultLocation { path: &options.path, deadline: options.effective_deadline() };
    let done = conn.execute_batch(SHOW_ALL).and_then(|()| migrate(conn, options, migrations));
    done.map_err(|error| explain(error, location))?
}

/// Applies all missing steps in one transaction.
fn migrate(
    conn: &Connection,
    options: &Options,
    migrations: &[Migration],
) -> rusqlite::Result<Result<(), StoreError>> {
    let tx = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    // Another process may have applied them meanwhile.
    let from = match version(&tx, options, migrations)? {
        Ok(from) => from,
        Err(refusal) => return Ok(Err(refusal)),
    };
    for step in migrations.iter().skip(from) {
        tx.execute_batch(step)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", i64::try_from(migrations.len()).unwrap_or(i64::MAX))?;
    tx.commit()?;
    Ok(Ok(()))
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::unwrap_used)] // a test that cannot go on has failed
mod tests {
    use tollgate::{Ask, Counted, Limiter, Subject};

    use super::*;
    use crate::SqliteStore;

    const FIRST: &[Migration] = &[FORMAT_1];
    /// A fictitious next format, to test migrations.
    const NEXT: &[Migration] = &[
        FORMAT_1,
        "ALTER TABLE spent ADD COLUMN note TEXT; UPDATE spent SET note = 'old'",
        "UPDATE spent SET note = note || ', and older'",
    ];
    const BROKEN: &[Migration] = &[FORMAT_1, "DELETE FROM spent; ALTER TABLE no_such ADD COLUMN x"];

    fn opened(options: &Options, migrations: &[Migration]) -> Result<Connection, StoreError> {
        let conn = Connection::open(options.path()).expect("a file");
        let Opened { conn, is_behind } = prepare(conn, options, migrations)?;
        if is_behind {
            bring_up_to_date(&conn, options, migrations)?;
        }
        Ok(conn)
    }

    fn user_version(conn: &Connection) -> i64 {
        conn.pragma_query_value(None, "user_version", |row| row.get(0)).expect("a version")
    }

    #[test]
    fn an_older_format_is_brought_up_in_one_transaction() {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options::new(dir.path().join("old.db"));
        let old = opened(&options, FIRST).expect("a new file");
        old.execute_batch("INSERT INTO spent VALUES (1, 2)").expect("a mark");
        assert_eq!(user_version(&old), 1);
        let failed = opened(&options, BROKEN).expect_err("a step that fails");
        assert!(failed.to_string().contains("no_such"), "{failed}");
        assert_eq!(user_version(&old), 1);
        let marks = |conn: &Connection| {
            conn.query_row("SELECT count(*) FROM spent", [], |row| row.get::<_, i64>(0))
        };
        assert_eq!(marks(&old), Ok(1), "nothing of the failed step stays");
        let new = opened(&options, NEXT).expect("brought up");
        assert_eq!(user_version(&new), 3);
        let note: String =
            new.query_row("SELECT note FROM spent", [], |row| row.get(0)).expect("a note");
        assert_eq!(note, "old, and older");
        opened(&options, NEXT).expect("nothing is left to do");
        let said = opened(&options, FIRST).expect_err("too new for us").to_string();
        assert!(said.contains("has format 3") && said.contains("formats up to 1"), "{said}");
    }

    #[test]
    fn a_mark_of_the_first_format_says_that_all_was_given_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options::new(dir.path().join("old.db"));
        let old = opened(&options, FIRST).expect("a new file");
        old.execute_batch("INSERT INTO spent VALUES (1, 2)").expect("a mark");
        let new = opened(&options, MIGRATIONS).expect("brought up");
        let units = new.query_row("SELECT units FROM spent", [], |row| row.get::<_, i64>(0));
        assert_eq!((user_version(&new), units), (5, Ok(1 << 40)));
        // A process of the previous version may still have the file open.
        old.execute_batch("INSERT INTO spent (number, until_us) VALUES (2, 2)").expect("a mark");
    }

    #[test]
    fn who_only_reads_leaves_an_older_file_as_it_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options::new(dir.path().join("old.db"));
        let old = opened(&options, FIRST).expect("a new file");
        let [reader, writer] = [(); 2].map(|()| {
            let limits = "10/h via gcra".parse().expect("limits");
            Limiter::new(limits, SqliteStore::open_with(options.clone()).expect("it is ours"))
        });
        let remaining = || {
            let peeked = futures_executor::block_on(reader.check(Ask::new("bob").peek()));
            peeked.expect("it can be read").remaining()
        };
        assert_eq!(remaining(), 10);
        let (bob, limits) = (Subject::literal("bob").expect("a subject"), reader.limits());
        let inspected = reader.store().inspect_now(Counted::new(&bob, limits));
        assert!(inspected.expect("it can be read").is_none());
        assert_eq!(user_version(&old), 1, "a peek brings nothing up");
        let ttl = core::time::Duration::from_secs(60);
        let held = futures_executor::block_on(writer.hold(Ask::new("bob").cost(4).reserve(ttl)));
        assert!(held.expect("it is brought up").hold.is_some());
        assert_eq!(user_version(&old), 5);
        assert_eq!(remaining(), 6, "who looked before it was brought up sees what is held");
    }

    /// Not by file modes, since these do not restrict tests that run as root.
    #[test]
    fn a_read_only_file_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options::new(dir.path().join("ro.db"));
        drop(opened(&options, MIGRATIONS).expect("a new file"));
        let conn = Connection::open_with_flags(options.path(), OpenFlags::SQLITE_OPEN_READ_ONLY)
            .expect("the file");
        let said = prepare(conn, &options, MIGRATIONS).expect_err("read-only").to_string();
        assert!(said.contains("is read-only: make it writable"), "{said}");
    }

    #[test]
    fn the_mark_of_our_files_is_fixed() {
        assert_eq!(APPLICATION_ID, 0x546c_4774);
    }

    #[test]
    fn sync_is_what_was_asked_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options::new(dir.path().join("sync.db"));
        for (sync, level) in [(Sync::Normal, 1), (Sync::Full, 2)] {
            let conn = opened(&options.clone().sync(sync), MIGRATIONS).expect("a file");
            let found: i64 =
                conn.pragma_query_value(None, "synchronous", |row| row.get(0)).expect("a level");
            assert_eq!(found, level);
            let mode: String =
                conn.pragma_query_value(None, "journal_mode", |row| row.get(0)).expect("a mode");
            assert_eq!(mode, "wal");
        }
    }
}

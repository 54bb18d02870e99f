//! An extension's records beside counts change with a count or not at all.

#![allow(clippy::expect_used, clippy::unwrap_used)] // a test that cannot go on has failed

use std::time::Duration;

use futures_executor::block_on;
use tollgate::engine::Mode;
use tollgate::{Counted, LimitSet, Question, StoreError, Subject};
use tollgate_sqlite::{Access, Options, SqliteStore, Transaction};

const MIGRATIONS: &[&str] = &["CREATE TABLE notes_all (text TEXT NOT NULL)"];

fn store(dir: &tempfile::TempDir) -> SqliteStore {
    let store = SqliteStore::open_with(Options::new(dir.path().join("counts.db"))).unwrap();
    store.migrate_extension("notes", MIGRATIONS).unwrap();
    store
}

/// Charges one, notes that, and ends as `end` does.
fn charge_and_note(
    tx: &Transaction<'_>,
    end: fn() -> Result<(), StoreError>,
) -> Result<u64, StoreError> {
    let limits: LimitSet = "5/d via fixed_window".parse().unwrap();
    let subject = Subject::new("user", "42").unwrap();
    let parts = [Counted::new(&subject, &limits)];
    let outcome = tx.check(&Question::new(&parts, 1, Mode::Whole))?;
    tx.execute("INSERT INTO notes_all VALUES (?1)", ["charged"])?;
    end()?;
    Ok(outcome.fields[0].remaining)
}

fn notes(store: &SqliteStore) -> i64 {
    let count = |tx: &Transaction<'_>| -> Result<_, StoreError> {
        tx.first("SELECT count(*) FROM notes_all", [], |row| row.get(0))
    };
    block_on(store.transaction(Access::Read, count)).unwrap().unwrap()
}

#[test]
fn a_charge_and_a_note_are_both_or_neither() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir);
    let run = |end: fn() -> Result<(), StoreError>| {
        block_on(store.transaction(Access::Write, move |tx| charge_and_note(tx, end)))
    };
    assert_eq!((run(|| Ok(())).unwrap(), notes(&store)), (4, 1));
    let error = run(|| Err(StoreError::permanent("no room"))).unwrap_err();
    assert_eq!((error.to_string().as_str(), notes(&store)), ("no room", 1));
    let error = run(|| panic!("the extension panicked")).unwrap_err().to_string();
    assert!(error.contains("beside counts is damaged") && notes(&store) == 1, "{error}");
    // Neither of the two has charged.
    assert_eq!((run(|| Ok(())).unwrap(), notes(&store)), (3, 2));
}

#[test]
fn tables_come_to_their_format_once_and_a_step_that_fails_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir);
    store.migrate_extension("notes", MIGRATIONS).unwrap();
    let next =
        [MIGRATIONS[0], "ALTER TABLE notes_all ADD COLUMN author TEXT", "DROP TABLE no_such"];
    let error = store.migrate_extension("notes", &next).unwrap_err().to_string();
    assert!(error.contains("no_such"), "{error}");
    store.migrate_extension("notes", &next[..2]).unwrap();
    let error = store.migrate_extension("notes", MIGRATIONS).unwrap_err().to_string();
    assert!(error.contains("format 2 of `notes`") && error.contains("newer tollgate"), "{error}");
    // Another extension has a separate format.
    store.migrate_extension("other", &["CREATE TABLE other_all (x)"]).unwrap();
}

#[test]
fn who_has_waited_too_long_for_its_turn_is_told_that_nothing_was_done() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(dir.path().join("counts.db")).deadline(Duration::from_millis(50));
    let store = SqliteStore::open_with(options).unwrap();
    store.migrate_extension("notes", MIGRATIONS).unwrap();
    let other = tollgate_sqlite::rusqlite::Connection::open(store.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // The first waits for the lock for the whole deadline, and the others for the first.
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            let store = store.clone();
            std::thread::spawn(move || {
                let note = |tx: &Transaction<'_>| charge_and_note(tx, || Ok(()));
                block_on(store.transaction(Access::Write, note)).unwrap_err()
            })
        })
        .collect();
    for waits in waiting {
        let error = waits.join().unwrap();
        assert!(error.is_transient(), "{error}");
    }
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(notes(&store), 0);
}

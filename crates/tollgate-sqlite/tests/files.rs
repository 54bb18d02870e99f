//! Files that are not ours, or not as they should be: an error that says what to do, and nothing
//! is overwritten.

#![allow(clippy::expect_used, clippy::unwrap_used)] // a test that cannot go on has failed

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_executor::block_on;
use rusqlite::Connection;
use tollgate::{Ask, Error, LimitSet, Limiter, StoreError};
use tollgate_sqlite::{Options, SqliteStore};

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn refused(path: &Path) -> StoreError {
    SqliteStore::open_with(Options::new(path)).expect_err("a refusal")
}

fn limiter(path: &Path, limits: &str) -> Limiter<SqliteStore> {
    let store = SqliteStore::open_with(Options::new(path)).expect("a store");
    Limiter::new(limits.parse().expect("limits"), store)
}

/// Refused with these words, permanently, and left byte for byte as it was.
fn refused_and_untouched(path: &Path, words: &[&str]) {
    let before = fs::read(path).expect("a file");
    let error = refused(path);
    let said = error.to_string();
    for word in words {
        assert!(said.contains(word), "{said}");
    }
    assert!(said.contains(&path.display().to_string()), "{said}");
    assert!(!error.is_transient());
    assert_eq!(fs::read(path).expect("a file"), before, "{said}");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left() {
    let dir = dir();
    let path = dir.path().join("notes.txt");
    fs::write(&path, "remember the milk\n".repeat(100)).expect("written");
    refused_and_untouched(
        &path,
        &["is not an SQLite database", "nothing was changed", "another path"],
    );
}

#[test]
fn a_database_of_another_program_is_refused_and_left() {
    let dir = dir();
    for (name, make) in [
        ("tables.db", "CREATE TABLE mine (x)"),
        ("marked.db", "PRAGMA application_id = 77; CREATE TABLE mine (x)"),
        ("version.db", "PRAGMA user_version = 1; CREATE TABLE states (x)"),
    ] {
        let path = dir.path().join(name);
        let conn = Connection::open(&path).expect("a database");
        conn.execute_batch(make).expect("made");
        drop(conn);
        refused_and_untouched(&path, &["another program", "nothing was changed"]);
    }
}

#[test]
fn a_newer_format_is_refused_and_left() {
    let dir = dir();
    let path = dir.path().join("newer.db");
    drop(limiter(&path, "1/h"));
    let conn = Connection::open(&path).expect("a database");
    conn.pragma_update(None, "user_version", 7).expect("written");
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("written");
    drop(conn);
    refused_and_untouched(&path, &["has format 7", "formats up to 5", "newer tollgate"]);
}

#[test]
fn paths_that_cannot_hold_a_store_are_refused() {
    let dir = dir();
    let said = refused(dir.path()).to_string();
    assert!(said.contains("is a directory: give a file in it"), "{said}");
    let said = refused(&dir.path().join("none/x.db")).to_string();
    assert!(
        said.contains("none of the store does not exist") && said.contains("mkdir -p"),
        "{said}"
    );
    let file = dir.path().join("file");
    fs::write(&file, "").expect("written");
    let said = refused(&file.join("x.db")).to_string();
    assert!(said.contains("is not a directory"), "{said}");
    // An empty file is as good as none, and odd names are just names.
    limiter(&file, "1/h");
    let odd = dir.path().join("file:x?mode=memory");
    limiter(&odd, "1/h");
    assert!(odd.exists());
}

/// Nobody, not even root, creates files in `/proc`.
#[test]
fn a_directory_that_takes_no_files_is_refused() {
    let said = refused(&PathBuf::from("/proc/tollgate.db")).to_string();
    assert!(said.contains("cannot be opened: its directory must exist and be writable"), "{said}");
}

#[test]
fn a_lock_that_others_keep_is_a_transient_error_after_the_deadline() {
    let dir = dir();
    let path = dir.path().join("busy.db");
    let limits: LimitSet = "5/h".parse().expect("limits");
    let deadline = Duration::from_millis(20);
    let store = SqliteStore::open_with(Options::new(&path).deadline(deadline)).expect("a store");
    let limiter = Limiter::new(limits, store);
    let other = Connection::open(&path).expect("the file");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let error = block_on(limiter.check("ann")).expect_err("busy");
    assert!(error.is_transient(), "{error}");
    let said = error.to_string();
    assert!(
        said.contains("is busy") && said.contains("for 20ms") && said.contains("try"),
        "{said}"
    );
    // A reader waits for nobody.
    assert_eq!(block_on(limiter.check(Ask::new("ann").peek())).expect("a look").remaining(), 5);
    other.execute_batch("ROLLBACK").expect("the lock goes");
    assert_eq!(block_on(limiter.check("ann")).expect("free again").remaining(), 4);
}

#[test]
fn a_damaged_state_is_an_error_that_names_its_subject_and_a_reset_mends_it() {
    let dir = dir();
    for (limits, damage, what) in [
        ("5/h via gcra", "UPDATE states SET state = x'09'", "known format"),
        ("5/h via gcra", "UPDATE states SET state = x'0100'", "length"),
        ("5/h via gcra", "UPDATE states SET state = x'01008080'", "ends too early"),
        ("5/h via gcra", "UPDATE states SET state = x''", "known format"),
        ("5/h via gcra", "UPDATE states SET state = 'text'", "not a blob"),
        ("5/h via gcra", "UPDATE states SET written = 99", "limits it was written under"),
        ("5/h via sliding_log", "DELETE FROM entries", "events of a log are missing"),
        ("5/h via sliding_log", "UPDATE entries SET total = 9", "out of order"),
        ("5/h via sliding_log", "UPDATE entries SET at_us = -1", "out of order"),
    ] {
        let path = dir.path().join("damaged.db");
        let limiter = limiter(&path, limits);
        let charge = || block_on(limiter.check("ann")).map(|decision| decision.is_allowed());
        assert!(charge().expect("a decision") && charge().expect("a decision"));
        let conn = Connection::open(&path).expect("the file");
        conn.execute_batch(damage).expect("damaged");
        let peek = block_on(limiter.check(Ask::new("ann").peek())).expect_err("damaged");
        for error in [charge().expect_err("damaged"), peek] {
            let said = error.to_string();
            assert!(said.contains("`ann`") && said.contains(what), "{damage}: {said}");
            assert!(said.contains("reset this subject") && !error.is_transient(), "{said}");
            assert!(matches!(error, Error::Store(_)));
        }
        assert!(block_on(limiter.admin().reset("ann")).expect("reset"), "{damage}");
        assert!(charge().expect("mended"), "{damage}");
        assert!(block_on(limiter.admin().reset("ann")).expect("reset"), "{damage}");
    }
}

#[test]
fn numbers_that_no_engine_writes_are_an_error_and_no_panic_gets_out() {
    let dir = dir();
    let limiter = limiter(&dir.path().join("wild.db"), "5/h via sliding_window, 7/s via gcra");
    assert!(block_on(limiter.check("ann")).expect("a decision").is_allowed());
    let conn = Connection::open(dir.path().join("wild.db")).expect("the file");
    let wild = [&[1, 0][..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1].repeat(40)];
    let words = limiter.limits().words();
    let state = &wild.concat()[..2 + 10 * words];
    conn.execute("UPDATE states SET state = ?1", [state]).expect("damaged");
    // A sliding window in the year 600,000.
    let error = block_on(limiter.admin().inspect("ann")).expect_err("damaged");
    let said = error.to_string();
    assert!(said.contains("`ann`") && said.contains("numbers that no count has"), "{said}");
    let _ = block_on(limiter.check("ann")).expect_err("damaged");
    assert!(block_on(limiter.check("bob")).expect("another subject").is_allowed());
    block_on(limiter.admin().reset("ann")).expect("reset");
    assert!(block_on(limiter.check("ann")).expect("mended").is_allowed());
}

#[test]
fn without_its_thread_a_store_is_closed_where_it_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    for turn in 0..100 {
        let store = SqliteStore::open_with(Options::new(dir.path().join("counts.db"))).unwrap();
        let limiter = Limiter::new("1000/h".parse().unwrap(), store);
        let decision = block_on(limiter.check("a")).unwrap();
        assert_eq!(decision.remaining(), 999 - turn);
        limiter.store().end_thread();
        // The next call starts another one.
        assert_eq!(block_on(limiter.check(Ask::new("a").peek())).unwrap().remaining(), 999 - turn);
        limiter.store().end_thread();
        drop(limiter);
        // The last connection that closes a file removes this.
        assert!(!dir.path().join("counts.db-wal").exists(), "turn {turn}");
    }
}

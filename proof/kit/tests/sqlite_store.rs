//! The SQLite store against the conformance kit, each case on a new file.

#![allow(clippy::expect_used)] // a test that cannot go on has failed

use std::sync::Mutex;

use tempfile::TempDir;
use tollgate::ManualClock;
use tollgate_proof::conformance::sweeping;
use tollgate_sqlite::{Options, SqliteStore};

/// Kept until the process ends, so that no file is removed under a store.
static DIRS: Mutex<Vec<TempDir>> = Mutex::new(Vec::new());

fn make(clock: ManualClock) -> SqliteStore {
    let dir = tempfile::tempdir().expect("a directory for the file");
    let options = Options::new(dir.path().join("counts.db")).clock(clock);
    DIRS.lock().expect("no case panics while it holds this").push(dir);
    SqliteStore::open_with(options).expect("a new file opens")
}

fn forget(store: &SqliteStore) {
    store.sweep().expect("swept");
}

tollgate_proof::conformance_tests!(sweeping(make, forget));
